/* plan_read.c: bytes as a plan.  The first fault makes every later read give zeros and is reported at the end of the
 * section it is in, so that no loop runs on a number that was not there. */
#include "runtime/plan_form.h"

typedef struct Reader {
    NstCtx *ctx;
    NstArena *arena;
    const unsigned char *bytes, *at, *end; /* whole; words yet to read */
    size_t n;
    NstPlan *plan;
    const char *fault; /* first, NULL = none */
    NST_VEC(NstDim) dims;
    const unsigned char *model;
    size_t model_bytes;
    int depth; /* of bodies in bodies */
} Reader;

#define MAX_DEPTH 32 /* as NST_MAX_NESTING of graphs */

static void fault(Reader *r, const char *what)
{
    if (!r->fault) r->fault = what;
    r->at = r->end;
}

static uint64_t get(Reader *r, size_t n_bytes)
{
    uint64_t value = 0;
    if ((size_t)(r->end - r->at) < n_bytes) {
        fault(r, "it ends too early");
        return 0;
    }
    for (size_t k = 0; k < n_bytes; k++) value |= (uint64_t)*r->at++ << 8 * k;
    return value;
}

/* A number below `limit`, else a fault. */
static uint32_t get_below(Reader *r, size_t n_bytes, uint64_t limit, const char *what)
{
    uint64_t value = get(r, n_bytes);
    if (!r->fault && value >= limit) fault(r, what);
    return r->fault ? 0 : (uint32_t)value;
}

/* A count of items of at least `size` bytes each. */
static uint32_t get_count(Reader *r, size_t size)
{
    return get_below(r, 4, (uint64_t)(r->end - r->at) / size + 1, "a count is larger than what follows");
}

static const char *get_text(Reader *r)
{
    uint32_t n = get_count(r, 1);
    if (n == 0) return NULL;
    if ((size_t)(r->end - r->at) < n || r->at[n - 1] != '\0' || memchr(r->at, 0, n - 1)) {
        fault(r, "a text has no end");
        return NULL;
    }
    r->at += n;
    return nst_copy_text(r->arena, (const char *)r->at - n, n - 1);
}

static const char *get_name(Reader *r)
{
    const char *name = get_text(r);
    return name ? name : "";
}

static const char *const *get_texts(Reader *r, uint32_t *n)
{
    *n = get_count(r, 4);
    const char **text = NST_NEW_ARRAY(r->arena, const char *, *n);
    for (uint32_t k = 0; k < *n; k++) text[k] = get_name(r);
    return text;
}

static NstDim get_dim(Reader *r)
{
    uint32_t node = get_below(r, 4, (uint64_t)r->dims.n + 1, "a size that is not there");
    return node == 0 ? (NstDim){0} : r->dims.at[node - 1];
}

static NstDtype get_dtype(Reader *r)
{
    uint32_t dtype = get_below(r, 1, NST_DTYPE_COUNT, "an element type that does not exist");
    if (dtype == NST_DTYPE_NONE) fault(r, "an element type that does not exist");
    return (NstDtype)dtype;
}

static const NstDim *get_sizes(Reader *r, int rank)
{
    NstDim *shape = NST_NEW_ARRAY(r->arena, NstDim, rank);
    for (int axis = 0; axis < rank; axis++) {
        shape[axis] = get_dim(r);
        if (shape[axis].i == 0) fault(r, "a shape without a size");
    }
    return shape;
}

static const NstDim *get_shape(Reader *r, int *rank)
{
    *rank = (int)get_below(r, 1, NST_MAX_RANK + 1, "a rank above 16");
    return get_sizes(r, *rank);
}

/* --- symbols and dims ---------------------------------------------------------------------------------------- */

static void get_symbols(Reader *r)
{
    NstDims *dims = r->plan->dims;
    uint32_t n = get_count(r, 29);
    for (uint32_t k = 0; k < n && !r->fault; k++) {
        NstSymKind kind = (NstSymKind)get_below(r, 1, NST_SYM_INDEX, "a symbol that is a loop variable");
        const char *name = get_name(r);
        int64_t lo = (int64_t)get(r, 8), hi = (int64_t)get(r, 8), multiple = (int64_t)get(r, 8);
        if (lo > hi || multiple < 1 || nst_dims_find_sym(dims, name, strlen(name)).i != 0)
            fault(r, "a symbol with impossible facts");
        if (r->fault) return;
        NstSym sym = nst_dims_new_sym(dims, kind, name, lo, hi);
        nst_dims_sym(dims, sym)->multiple = multiple;
    }
}

static NstDim make_dim(Reader *r, NstDimOp op, int64_t value, NstSym sym, uint32_t n, const NstDim *arg,
                       const int64_t *coef)
{
    NstDims *dims = r->plan->dims;
    NstDim result = {0};
    switch (op) {
    case NST_DIM_CONST: return nst_dim_const(dims, value);
    case NST_DIM_SYM: return nst_dim_sym(dims, sym);
    case NST_DIM_SUM:
        result = nst_dim_const(dims, value);
        for (uint32_t k = 0; k < n; k++) result = nst_dim_add(dims, result, nst_dim_mul_const(dims, arg[k], coef[k]));
        return result;
    case NST_DIM_PRODUCT:
        result = arg[0];
        for (uint32_t k = 1; k < n; k++) result = nst_dim_mul(dims, result, arg[k]);
        return result;
    case NST_DIM_FLOORDIV: return nst_dim_floordiv(dims, arg[0], arg[1]);
    case NST_DIM_MOD: return nst_dim_mod(dims, arg[0], arg[1]);
    case NST_DIM_MIN: return nst_dim_min(dims, arg[0], arg[1]);
    case NST_DIM_MAX: return nst_dim_max(dims, arg[0], arg[1]);
    }
    return result;
}

static bool arity_is_right(NstDimOp op, uint32_t n)
{
    if (op == NST_DIM_CONST || op == NST_DIM_SYM) return n == 0;
    if (op == NST_DIM_SUM) return n >= 1 && n <= NST_DIM_MAX_TERMS;
    if (op == NST_DIM_PRODUCT) return n >= 2 && n <= NST_DIM_MAX_FACTORS;
    return n == 2;
}

static void get_dims(Reader *r)
{
    get_symbols(r);
    uint32_t n_nodes = get_count(r, 17);
    for (uint32_t k = 0; k < n_nodes && !r->fault; k++) {
        NstDimOp op = (NstDimOp)get_below(r, 1, NST_DIM_MAX + 1, "an operator of sizes that does not exist");
        int64_t value = (int64_t)get(r, 8), coef[NST_DIM_MAX_TERMS];
        NstSym sym = {get_below(r, 4, (uint64_t)nst_dims_sym_count(r->plan->dims) + 1, "a symbol that is not there")};
        NstDim arg[NST_DIM_MAX_TERMS];
        uint32_t n = get_count(r, 12);
        if ((op == NST_DIM_SYM) != (sym.i != 0) || !arity_is_right(op, n)) fault(r, "a size with wrong operands");
        for (uint32_t i = 0; i < n && !r->fault; i++) {
            uint32_t node = get_below(r, 4, k, "a size that uses a later one");
            coef[i] = (int64_t)get(r, 8);
            arg[i] = r->fault ? (NstDim){0} : r->dims.at[node];
        }
        if (r->fault) return;
        NstDim dim = make_dim(r, op, value, sym, n, arg, coef);
        nst_vec_push(r->arena, &r->dims, dim);
    }
}

/* --- the plan ------------------------------------------------------------------------------------------------ */

/* Bytes at an offset after the words; NULL and a fault if they do not lie there. */
static const void *get_blob(Reader *r, uint64_t at, uint64_t size)
{
    if (at % NST_PLAN_ALIGN != 0 || at > r->n || size > r->n - at) {
        fault(r, "code or a constant lies outside");
        return NULL;
    }
    return r->bytes + at;
}

static void take_from_model(Reader *r, uint64_t at, NstPlanConst *constant)
{
    if (at == 0 || at > r->model_bytes || constant->bytes > r->model_bytes - at) {
        fault(r, "a constant lies outside the model");
        return;
    }
    constant->model_offset = at;
    constant->data = r->model + at;
}

static void get_files(Reader *r)
{
    uint32_t n = get_count(r, 44);
    for (uint32_t k = 0; k < n && !r->fault; k++) {
        NstPlanFile file = {.path = get_name(r)};
        file.mark.device = get(r, 8);
        file.mark.inode = get(r, 8);
        file.mark.size = get(r, 8);
        file.mark.mtime_ns = (int64_t)get(r, 8);
        file.mark.ctime_ns = (int64_t)get(r, 8);
        nst_vec_push(r->arena, &r->plan->files, file);
    }
}

/* Handles of a constant must be those of strings that were read. */
static void check_handles(Reader *r, const NstPlanConst *constant)
{
    uint64_t handle, n = nst_strings_count(r->plan->strings);
    if (constant->bytes % sizeof handle != 0 || constant->model_offset != 0) fault(r, "a constant of no whole strings");
    for (size_t at = 0; !r->fault && constant->data && at < constant->bytes; at += sizeof handle) {
        memcpy(&handle, (const char *)constant->data + at, sizeof handle);
        if (handle >= n) fault(r, "a string that is not there");
    }
}

static void get_constants(Reader *r)
{
    uint32_t n = get_count(r, 19);
    for (uint32_t k = 0; k < n && !r->fault; k++) {
        NstPlanConst constant = {.dtype = get_dtype(r)};
        NstPlanConstState state = (NstPlanConstState)get_below(r, 1, NST_PLAN_CONST_UNUSED + 1, "a constant's state");
        constant.packed = get_below(r, 1, 2, "a truth value");
        uint64_t bytes = get(r, 8), at = get(r, 8);
        if (bytes > (uint64_t)1 << 46) fault(r, "a constant of more than 2^46 bytes");
        constant.bytes = bytes;
        if (state == NST_PLAN_CONST_HERE) constant.data = get_blob(r, at, bytes);
        if (state == NST_PLAN_CONST_MODEL) take_from_model(r, at, &constant);
        if (state == NST_PLAN_CONST_TO_PACK && !constant.packed) fault(r, "a constant that nobody makes");
        if (!r->fault && constant.dtype == NST_STR) check_handles(r, &constant);
        nst_vec_push(r->arena, &r->plan->constants, constant);
    }
}

static void get_kernels(Reader *r)
{
    uint32_t n = get_count(r, 64);
    for (uint32_t k = 0; k < n && !r->fault; k++) {
        NstPlanKernel kernel = {.name = get_name(r)};
        kernel.origin = get_text(r);
        kernel.not_fused = get_text(r);
        kernel.entry = get(r, 8);
        if (r->plan->code_bytes != 0 && kernel.entry >= r->plan->code_bytes) fault(r, "a kernel outside the code");
        kernel.scratch_bytes = get_dim(r);
        kernel.shared_bytes = get_dim(r);
        kernel.n_args = (uint32_t)get(r, 4);
        kernel.n_params = (uint32_t)get(r, 4);
        kernel.parallel = get_below(r, 1, 2, "a truth value");
        kernel.work = get_dim(r);
        kernel.operations = get_dim(r);
        kernel.origin_text = get_texts(r, &kernel.n_origins);
        kernel.message_text = get_texts(r, &kernel.n_messages);
        kernel.hash_lo = get(r, 8);
        kernel.hash_hi = get(r, 8);
        nst_vec_push(r->arena, &r->plan->kernels, kernel);
    }
}

/* vague: the rank and the element type may be unknown. */
static NstPlanPort get_port(Reader *r, bool vague)
{
    NstPlanPort port = {.name = get_name(r), .type = {.kind = NST_TYPE_TENSOR}};
    port.type.dtype = (NstDtype)get_below(r, 1, NST_DTYPE_COUNT, "an element type that does not exist");
    port.type.rank = (int)get_below(r, 1, NST_MAX_RANK + 2, "a rank above 16") - 1;
    if (!vague && (port.type.dtype == NST_DTYPE_NONE || port.type.rank < 0)) {
        fault(r, "a port without a type");
        port.type.rank = 0;
    }
    int axes = port.type.rank < 0 ? 0 : port.type.rank;
    port.type.shape = get_sizes(r, axes);
    port.buffer = (uint32_t)get(r, 4); /* checked when the buffers are there */
    bool only = get_below(r, 1, 2, "a truth value");
    port.only_bytes = get_count(r, 1);
    int64_t *shape = NST_NEW_ARRAY(r->arena, int64_t, (size_t)axes);
    for (int axis = 0; only && axis < axes; axis++) shape[axis] = (int64_t)get(r, 8);
    if (port.only_bytes > (size_t)(r->end - r->at)) fault(r, "a value longer than what follows");
    port.only_shape = shape;
    if (only) port.only = r->at;
    if (!only && port.only_bytes != 0) fault(r, "a value that is not there");
    if (only && port.type.dtype == NST_STR) fault(r, "strings as the only value of an input");
    if (!r->fault) r->at += port.only_bytes;
    return port;
}

static void get_ports(Reader *r)
{
    uint32_t n = get_count(r, 15);
    for (uint32_t k = 0; k < n && !r->fault; k++) nst_vec_push(r->arena, &r->plan->inputs, get_port(r, false));
    n = get_count(r, 15);
    bool vague = r->plan->by_shape != NULL;
    for (uint32_t k = 0; k < n && !r->fault; k++) nst_vec_push(r->arena, &r->plan->outputs, get_port(r, vague));
}

static void check_place(Reader *r, const NstPlanBuffer *buffer, uint32_t n_buffers)
{
    const NstPlan *plan = r->plan;
    int64_t bytes;
    uint32_t limit = 0;
    switch (buffer->place) {
    case NST_PLACE_INPUT: limit = plan->inputs.n; break;
    case NST_PLACE_OUTPUT: limit = plan->outputs.n; break;
    case NST_PLACE_CONST: limit = plan->constants.n; break;
    case NST_PLACE_ARENA: return;
    case NST_PLACE_ALIAS: limit = n_buffers; break;
    }
    if (buffer->index >= limit) {
        fault(r, "a buffer whose place is not there");
        return;
    }
    if (buffer->place != NST_PLACE_CONST) return;
    const NstPlanConst *constant = &plan->constants.at[buffer->index];
    bool unused = !constant->data && !constant->packed;
    if (!nst_dim_is_const(plan->dims, buffer->bytes, &bytes) || bytes < 0 ||
        (!unused && (uint64_t)bytes > constant->bytes))
        fault(r, "a buffer larger than its constant");
    if ((buffer->dtype == NST_STR) != (constant->dtype == NST_STR)) fault(r, "strings in a constant of another type");
}

static void get_buffers(Reader *r)
{
    uint32_t n = get_count(r, 23);
    for (uint32_t k = 0; k < n && !r->fault; k++) {
        NstPlanBuffer buffer = {.name = get_name(r)};
        buffer.place = (NstPlanPlace)get_below(r, 1, NST_PLACE_ALIAS + 1, "a place that does not exist");
        buffer.index = (uint32_t)get(r, 4);
        buffer.dtype = get_dtype(r);
        buffer.shape = get_shape(r, &buffer.rank);
        buffer.bytes = get_dim(r);
        buffer.first = (uint32_t)get(r, 4);
        buffer.last = (uint32_t)get(r, 4);
        if (buffer.bytes.i == 0) fault(r, "a buffer without a size");
        if (!r->fault) check_place(r, &buffer, n);
        nst_vec_push(r->arena, &r->plan->buffers, buffer);
    }
}

/* Aliases must end; ports must name buffers of their own place or made by the plan. */
static void check_buffers(Reader *r)
{
    const NstPlan *plan = r->plan;
    for (uint32_t b = 0; b < plan->buffers.n; b++) {
        uint32_t root = b, hops = 0;
        while (plan->buffers.at[root].place == NST_PLACE_ALIAS && hops++ < plan->buffers.n)
            root = plan->buffers.at[root].index;
        if (plan->buffers.at[root].place == NST_PLACE_ALIAS) fault(r, "an alias of itself");
    }
    for (uint32_t k = 0; k < plan->inputs.n; k++) {
        uint32_t b = plan->inputs.at[k].buffer;
        if (b >= plan->buffers.n || plan->buffers.at[b].place != NST_PLACE_INPUT || plan->buffers.at[b].index != k)
            fault(r, "an input without its buffer");
    }
    for (uint32_t k = 0; k < plan->outputs.n && !plan->by_shape; k++)
        if (plan->outputs.at[k].buffer >= plan->buffers.n) fault(r, "an output without its buffer");
    for (uint32_t k = 0; !r->fault && k < plan->inputs.n + plan->outputs.n; k++) {
        const NstPlanPort *port = k < plan->inputs.n ? &plan->inputs.at[k] : &plan->outputs.at[k - plan->inputs.n];
        if ((port->type.dtype == NST_STR) != (plan->buffers.at[port->buffer].dtype == NST_STR))
            fault(r, "strings in a buffer of another type");
    }
}

/* True if buffer b of the plan can be handed to a port of a body. */
static bool fits_port(const NstPlan *plan, uint32_t b, const NstPlanPort *port)
{
    const NstPlanBuffer *buffer = &plan->buffers.at[b];
    return buffer->dtype == port->type.dtype && buffer->rank == port->type.rank;
}

static bool fits_ports(const NstPlan *plan, const uint32_t *b, const NstPlanPort *port, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (!fits_port(plan, b[k], &port[k])) return false;
    return true;
}

static bool branch_fits(const NstPlan *plan, const NstPlanStep *step)
{
    if (step->body >= plan->bodies.n || step->other >= plan->bodies.n || step->n_in == 0) return false;
    const NstPlan *yes = plan->bodies.at[step->body], *no = plan->bodies.at[step->other];
    uint32_t n_out = step->n_buffers - step->n_in;
    if (step->n_in - 1 != (uint64_t)yes->inputs.n + no->inputs.n || yes->outputs.n != n_out || no->outputs.n != n_out)
        return false;
    return fits_ports(plan, step->buffer + 1, yes->inputs.at, yes->inputs.n) &&
           fits_ports(plan, step->buffer + 1 + yes->inputs.n, no->inputs.at, no->inputs.n) &&
           fits_ports(plan, step->buffer + step->n_in, yes->outputs.at, n_out) &&
           fits_ports(plan, step->buffer + step->n_in, no->outputs.at, n_out);
}

static bool loop_fits(const NstPlan *plan, const NstPlanStep *step)
{
    if (step->body >= plan->bodies.n || step->n_in < 2 || step->n_states > step->n_in - 2) return false;
    const NstPlan *body = plan->bodies.at[step->body];
    uint32_t n_out = step->n_buffers - step->n_in;
    if (body->inputs.n != step->n_in || body->outputs.n != n_out + 1 || step->n_states > n_out) return false;
    if (body->inputs.at[0].type.dtype != NST_I64 || body->inputs.at[1].type.dtype != NST_BOOL ||
        body->outputs.at[0].type.dtype != NST_BOOL || body->outputs.at[0].type.rank != 0)
        return false;
    for (uint32_t k = 0; k < step->n_states; k++) /* a state goes in as it comes out */
        if (!fits_port(body, body->inputs.at[k + 2].buffer, &body->outputs.at[k + 1])) return false;
    for (uint32_t k = step->n_states; k < n_out; k++) { /* an entry has one axis less */
        const NstPlanBuffer *buffer = &plan->buffers.at[step->buffer[step->n_in + k]];
        const NstPlanPort *port = &body->outputs.at[k + 1];
        if (buffer->dtype != port->type.dtype || buffer->rank != port->type.rank + 1) return false;
    }
    return fits_ports(plan, step->buffer, body->inputs.at, step->n_in) &&
           fits_ports(plan, step->buffer + step->n_in, body->outputs.at + 1, step->n_states);
}

static bool is_scalar(const NstPlan *plan, const NstPlanStep *step, uint32_t k, NstDtype dtype)
{
    if (k >= step->n_buffers) return false;
    const NstPlanBuffer *buffer = &plan->buffers.at[step->buffer[k]];
    int64_t bytes;
    return buffer->dtype == dtype && nst_dim_is_const(plan->dims, buffer->bytes, &bytes) &&
           bytes >= (int64_t)nst_dtype_info(dtype)->bytes;
}

static bool is_integer(const NstPlan *plan, uint32_t b)
{
    int64_t bytes;
    const NstPlanBuffer *buffer = &plan->buffers.at[b];
    return nst_dtype_is_int(buffer->dtype) && nst_dim_is_const(plan->dims, buffer->bytes, &bytes) &&
           bytes >= (int64_t)nst_dtype_info(buffer->dtype)->bytes;
}

/* True if the step may write the buffer: aliases are checked by their roots. */
static bool is_written(const NstPlan *plan, uint32_t b)
{
    while (plan->buffers.at[b].place == NST_PLACE_ALIAS) b = plan->buffers.at[b].index;
    return plan->buffers.at[b].place == NST_PLACE_ARENA || plan->buffers.at[b].place == NST_PLACE_OUTPUT;
}

static void check_step(Reader *r, const NstPlanStep *step)
{
    const NstPlan *plan = r->plan;
    if (step->n_in > step->n_buffers) fault(r, "a step that reads more buffers than it has");
    bool structure = step->kind == NST_STEP_HOST || step->kind == NST_STEP_IF || step->kind == NST_STEP_LOOP;
    for (uint32_t k = step->n_in; structure && k < step->n_buffers; k++)
        if (!is_written(plan, step->buffer[k])) fault(r, "a step that writes what is not its own");
    switch (step->kind) {
    case NST_STEP_KERNEL:
        if (step->kernel >= plan->kernels.n || step->n_buffers != plan->kernels.at[step->kernel].n_args ||
            step->n_sizes != plan->kernels.at[step->kernel].n_params)
            fault(r, "a step that does not fit its kernel");
        break;
    case NST_STEP_READ:
        if (step->n_sizes != 1 || nst_dim_node(plan->dims, step->size[0])->op != NST_DIM_SYM || step->n_buffers != 1 ||
            !is_integer(plan, step->buffer[0]))
            fault(r, "a step that reads no size");
        break;
    case NST_STEP_CHECK:
        if (step->a.i == 0 || step->b.i == 0) fault(r, "a check without its sizes");
        break;
    case NST_STEP_IF:
        if (!is_scalar(plan, step, 0, NST_BOOL) || !branch_fits(plan, step))
            fault(r, "a branch that does not fit its bodies");
        break;
    case NST_STEP_LOOP:
        if (!is_scalar(plan, step, 0, NST_I64) || !is_scalar(plan, step, 1, NST_BOOL) || !loop_fits(plan, step))
            fault(r, "a loop that does not fit its body");
        break;
    case NST_STEP_HOST:
        if (!step->text) fault(r, "a host function without a name");
        break;
    }
}

static NstPlanStep get_step(Reader *r)
{
    NstPlanStep step = {.kind =
                            (NstPlanStepKind)get_below(r, 1, NST_STEP_LOOP + 1, "a kind of step that does not exist")};
    step.kernel = (uint32_t)get(r, 4);
    step.n_buffers = get_count(r, 4);
    uint32_t *buffer = NST_NEW_ARRAY(r->arena, uint32_t, step.n_buffers);
    for (uint32_t k = 0; k < step.n_buffers; k++)
        buffer[k] = get_below(r, 4, r->plan->buffers.n, "a step with a buffer that is not there");
    step.buffer = buffer;
    step.n_sizes = get_count(r, 4);
    NstDim *size = NST_NEW_ARRAY(r->arena, NstDim, step.n_sizes);
    for (uint32_t k = 0; k < step.n_sizes; k++) {
        size[k] = get_dim(r);
        if (size[k].i == 0) fault(r, "a step without one of its sizes");
    }
    step.size = size;
    step.a = get_dim(r);
    step.b = get_dim(r);
    step.text = get_text(r);
    step.config = get_text(r);
    step.origin = get_text(r);
    step.n_in = (uint32_t)get(r, 4);
    step.body = (uint32_t)get(r, 4);
    step.other = (uint32_t)get(r, 4);
    step.n_states = (uint32_t)get(r, 4);
    return step;
}

static void get_steps(Reader *r)
{
    uint32_t n = get_count(r, 49);
    for (uint32_t k = 0; k < n && !r->fault; k++) {
        NstPlanStep step = get_step(r);
        if (!r->fault) check_step(r, &step);
        nst_vec_push(r->arena, &r->plan->prepack, step);
    }
    n = get_count(r, 49);
    for (uint32_t k = 0; k < n && !r->fault; k++) {
        NstPlanStep step = get_step(r);
        if (!r->fault) check_step(r, &step);
        nst_vec_push(r->arena, &r->plan->steps, step);
    }
}

static void get_head(Reader *r)
{
    if (get(r, 8) != NST_PLAN_MAGIC) fault(r, "it does not begin as one");
    uint64_t words = get(r, 8), code_at = get(r, 8), code_bytes = get(r, 8);
    if (words < 32 || words > r->n) fault(r, "its length is wrong");
    if (r->fault) return;
    r->end = r->bytes + words;
    r->plan->code = get_blob(r, code_at, code_bytes);
    r->plan->code_bytes = code_bytes;
    r->plan->model_name = get_text(r);
    r->plan->compile_ns = get(r, 8);
    r->plan->by_shape = get_text(r);
}

static void get_strings(Reader *r)
{
    uint32_t n = get_count(r, 4);
    r->plan->strings = nst_strings_new(r->arena);
    for (uint32_t k = 1; k <= n && !r->fault; k++) {
        uint32_t bytes = get_count(r, 1);
        if (r->fault) return;
        if (nst_strings_put(r->plan->strings, (const char *)r->at, bytes) != k) fault(r, "a string that stands twice");
        if (!r->fault) r->at += bytes;
    }
}

static void get_parts(Reader *r);

/* Plans of bodies: over the same dims and strings, one level deeper. */
static void get_bodies(Reader *r)
{
    NstPlan *plan = r->plan;
    uint32_t n = get_count(r, 52);
    if (n != 0 && ++r->depth > MAX_DEPTH) fault(r, "bodies nested too deep");
    for (uint32_t k = 0; k < n && !r->fault; k++) {
        NstPlan *body = r->plan = NST_NEW(r->arena, NstPlan);
        body->arena = r->arena;
        body->dims = plan->dims;
        body->strings = plan->strings;
        uint64_t code_at = get(r, 8), code_bytes = get(r, 8);
        if (r->fault) break;
        body->code = get_blob(r, code_at, code_bytes);
        body->code_bytes = code_bytes;
        body->model_name = get_text(r);
        get_parts(r);
        nst_vec_push(r->arena, &plan->bodies, body);
    }
    r->plan = plan;
    if (n != 0) r->depth--;
}

static void get_parts(Reader *r)
{
    static void (*const section[])(Reader *r) = {get_constants, get_kernels, get_ports, get_buffers,
                                                 check_buffers, get_bodies,  get_steps};
    for (size_t k = 0; k < sizeof section / sizeof *section && !r->fault; k++) section[k](r);
}

NstStatus nst_plan_read(NstCtx *ctx, NstArena *arena, const void *bytes, size_t n, const void *model,
                        size_t model_bytes, NstPlan **plan)
{
    static void (*const section[])(Reader *r) = {get_head, get_dims, get_files, get_strings, get_parts};
    NstPlan *made = NST_NEW(arena, NstPlan);
    made->arena = arena;
    made->dims = nst_dims_new(arena);
    Reader r = {.ctx = ctx, .arena = arena, .bytes = bytes, .at = bytes, .n = n, .plan = made};
    r.end = r.at + n;
    r.model = model;
    r.model_bytes = model_bytes;
    NST_CHECK(ctx, (uintptr_t)bytes % NST_PLAN_ALIGN == 0, NST_E_INVALID, "a plan's bytes must be aligned to 64");
    for (size_t k = 0; k < sizeof section / sizeof *section; k++) {
        section[k](&r);
        NST_CHECK(ctx, !r.fault, NST_E_PARSE, "the bytes of a plan are damaged: %s", r.fault);
    }
    NST_CHECK(ctx, !made->by_shape || (made->steps.n == 0 && made->prepack.n == 0), NST_E_PARSE,
              "the bytes of a plan are damaged: steps of what is for no shapes");
    NST_CHECK(ctx, r.at == r.end, NST_E_PARSE, "the bytes of a plan are damaged: more follows than belongs to it");
    *plan = made;
    return NST_OK;
}
