/* compile_plan.c: scheduled kernels as a plan: buffers, constants, steps, code. */
#include "codegen/codegen.h"
#include "passes/work.h"
#include "runtime/compile.h"

#define CODE_ALIGN 64 /* bytes: kernels in the plan's code */

typedef struct Planner {
    NstCompile *c;
    NstPlan *plan;
    NstModule *module;
    uint32_t *buffer_of;   /* by NstBuf.i: plan buffer + 1 */
    NST_VEC(NstSym) late;  /* symbols that have no value yet */
    uint32_t *last_writer; /* by read of the module: the last of c->run that writes its scalar; UINT32_MAX = none */
    bool *checked;         /* by check of the module: it has its step */
    uint32_t n_checked;
} Planner;

/* --- ports --------------------------------------------------------------------------------------------------- */

static NstPlan *new_plan(NstCompile *c)
{
    NstPlan *plan = NST_NEW(c->arena, NstPlan);
    plan->arena = c->arena;
    plan->dims = c->graph->dims;
    plan->model_name = c->graph->name;
    plan->strings = c->graph->strings;
    return plan;
}

/* Files of external data, by which a cache tells whether the plan still holds. */
static NstStatus add_files(NstCompile *c, NstPlan *plan)
{
    for (uint32_t k = 0; k < c->n_external; k++) {
        NstPlanFile file = {.path = c->external[k]};
        NST_TRY(nst_file_mark(c->ctx, file.path, &file.mark));
        nst_vec_push(c->arena, &plan->files, file);
    }
    return NST_OK;
}

static void add_port(NstCompile *c, NstPlan *plan, bool output, uint32_t k, const char *name, const NstType *type)
{
    NstPlanBuffer buffer = {.name = name,
                            .place = output ? NST_PLACE_OUTPUT : NST_PLACE_INPUT,
                            .index = k,
                            .dtype = type->dtype,
                            .rank = type->rank,
                            .shape = type->shape};
    buffer.bytes =
        nst_dim_mul_const(plan->dims, nst_type_elements(plan->dims, type), nst_dtype_info(type->dtype)->bytes);
    NstPlanPort port = {.name = name, .type = *type, .buffer = plan->buffers.n};
    nst_vec_push(c->arena, &plan->buffers, buffer);
    if (output)
        nst_vec_push(c->arena, &plan->outputs, port);
    else
        nst_vec_push(c->arena, &plan->inputs, port);
}

NstStatus nst_compile_ports(NstCompile *c, NstPlan **plan)
{
    const NstRegion *top = nst_graph_region(c->graph, NST_GRAPH_REGION);
    *plan = new_plan(c);
    NST_TRY(add_files(c, *plan));
    for (uint32_t k = 0; k < top->params.n + top->results.n; k++) {
        bool output = k >= top->params.n;
        uint32_t at = output ? k - top->params.n : k;
        NstVal value = output ? top->results.at[at] : top->params.at[at];
        const NstType *type = nst_value_type(c->graph, value);
        const char *name = output && at < c->graph->result_names.n ? c->graph->result_names.at[at] : NULL;
        if (!output) name = nst_value_node(c->graph, value)->attr.param.name;
        if (!name) name = nst_graph_value(c->graph, value)->name;
        if (!name) name = nst_format(c->arena, "%s%u", output ? "output" : "input", at);
        NST_CHECK(c->ctx, type->kind == NST_TYPE_TENSOR, NST_E_UNSUPPORTED, "%s '%s' is no tensor",
                  output ? "output" : "input", name);
        add_port(c, *plan, output, at, name, type);
        for (uint32_t f = 0; f < c->n_fixed && !output; f++)
            if (strcmp(c->fixed[f].name, name) == 0) {
                (*plan)->inputs.at[at].only = c->fixed[f].value.data;
                (*plan)->inputs.at[at].only_bytes = c->fixed[f].value.bytes;
                (*plan)->inputs.at[at].only_shape = c->fixed[f].value.shape;
            }
    }
    return NST_OK;
}

/* --- buffers ------------------------------------------------------------------------------------------------- */

static NstDim storage_bytes(NstDims *dims, const NstBuffer *buffer)
{
    NstDim bits = nst_dim_mul_const(dims, buffer->layout.elements, buffer->layout.bits);
    return nst_dim_ceildiv(dims, bits, nst_dim_const(dims, 8));
}

/* The elements of a constant: its data, or its splat written out. */
static NstStatus add_constant(Planner *p, const NstModuleConst *from, const NstPlanBuffer *buffer,
                              NstPlanConst *constant)
{
    int64_t bytes;
    NST_CHECK(p->c->ctx, nst_dim_is_const(p->plan->dims, buffer->bytes, &bytes) && bytes >= 0, NST_E_UNSUPPORTED,
              "constant '%s' has an open size", buffer->name);
    *constant = (NstPlanConst){.dtype = from->dtype, .data = from->data, .bytes = (size_t)bytes};
    if (from->data) {
        NST_CHECK(p->c->ctx, from->bytes >= (size_t)bytes, NST_E_INVALID, "constant '%s' has %zu bytes of %lld",
                  buffer->name, from->bytes, (long long)bytes);
        const char *model = p->c->request->bytes, *data = from->data;
        if (data > model && data < model + p->c->request->size) constant->model_offset = (uint64_t)(data - model);
        return NST_OK;
    }
    int size = nst_dtype_info(from->dtype)->bytes;
    char *data = nst_alloc_aligned(p->c->arena, (size_t)bytes, 64);
    for (int64_t at = 0; at + size <= bytes; at += size) nst_scalar_store(from->dtype, data + at, from->splat);
    constant->data = data;
    return NST_OK;
}

static NstStatus place_constant(Planner *p, const NstModuleBuffer *from, NstPlanBuffer *buffer)
{
    NstPlanConst constant = {.dtype = buffer->dtype, .packed = true};
    int64_t bytes;
    if (from->role == NST_ROLE_CONST) {
        NST_TRY(add_constant(p, &p->module->consts.at[from->index], buffer, &constant));
    } else {
        NST_CHECK(p->c->ctx, nst_dim_is_const(p->plan->dims, buffer->bytes, &bytes) && bytes >= 0, NST_E_UNSUPPORTED,
                  "packed constant '%s' has an open size", buffer->name);
        constant.bytes = (size_t)bytes;
    }
    buffer->place = NST_PLACE_CONST;
    buffer->index = p->plan->constants.n;
    nst_vec_push(p->c->arena, &p->plan->constants, constant);
    return NST_OK;
}

/* The plan's buffer for a module's one, made with its first use. */
static NstStatus find_buffer(Planner *p, NstBuf buf, uint32_t *index)
{
    const NstModuleBuffer *from = nst_module_get(p->module, buf);
    if (p->buffer_of[buf.i] == 0) {
        NstPlanBuffer buffer = {.name = from->buffer.name,
                                .place = NST_PLACE_ARENA,
                                .dtype = from->buffer.dtype,
                                .rank = from->buffer.rank,
                                .shape = from->buffer.shape,
                                .bytes = storage_bytes(p->plan->dims, &from->buffer),
                                .first = UINT32_MAX};
        if (from->role == NST_ROLE_CONST || from->role == NST_ROLE_PACKED) NST_TRY(place_constant(p, from, &buffer));
        nst_vec_push(p->c->arena, &p->plan->buffers, buffer);
        p->buffer_of[buf.i] = p->plan->buffers.n;
    }
    *index = p->buffer_of[buf.i] - 1;
    return NST_OK;
}

/* --- kernels ------------------------------------------------------------------------------------------------- */

static void see_parallel(void *arg, NstStmt *stmt, int depth)
{
    (void)depth;
    if (stmt->kind == NST_STMT_FOR && stmt->u.loop.kind == NST_FOR_PARALLEL) *(bool *)arg = true;
}

/* Multiply-adds of one step of a reduction: those of its lanes for a dot product of narrow integers. */
static int64_t step_terms(const Planner *p, const NstNest *nest)
{
    NstScalarOp op = nst_expr(p->module->exprs, nest->state[0].step)->op;
    if (nst_scalar_info(op)->rule != NST_RULE_DOT) return 1;
    return 32 / nst_dtype_info(nst_scalar_dot_lanes(op).b)->bits;
}

/* What a group's contractions multiply and add, as profiles count it: 2 a term, padding included.  A sum of squares is none. */
static NstDim group_operations(const Planner *p, const NstGroup *group)
{
    NstDims *dims = p->plan->dims;
    NstDim total = nst_dim_const(dims, 0);
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstNest *nest = group->items.at[k].nest;
        NstContraction c;
        if (!nest) total = nst_dim_add(dims, total, group_operations(p, group->items.at[k].group));
        if (!nest || !nst_nest_contraction(p->module, nest, &c) || c.a.i == c.b.i) continue;
        NstDim terms = nst_dim_mul(dims, nst_axes_product(dims, nest->axis, nest->n_axes),
                                   nst_axes_product(dims, nest->reduce, nest->n_reduce));
        total = nst_dim_add(dims, total, nst_dim_mul_const(dims, terms, 2 * step_terms(p, nest)));
    }
    return total;
}

/* A dim over size symbols alone; none where a loop variable is left in it. */
static NstDim without_indices(const NstDims *dims, NstDim dim)
{
    return nst_dim_uses_kind(dims, dim, NST_SYM_INDEX) ? (NstDim){0} : dim;
}

static const char *const *origin_texts(Planner *p, const NstKernel *kernel, uint32_t *n)
{
    const NstOrigin *origin = nst_codegen_origins(p->c->arena, kernel, n);
    const char **text = NST_NEW_ARRAY(p->c->arena, const char *, *n);
    for (uint32_t k = 0; k < *n; k++) text[k] = origin[k].i ? nst_origin_text(kernel->origins, origin[k]) : "";
    return text;
}

static void add_kernel(Planner *p, const NstScheduled *from, const NstCompiledKernel *compiled, uint64_t code_at)
{
    const NstKernel *kernel = from->kernel;
    const NstPlanKernel *code = &compiled->plan->kernels.at[0];
    NstPlanKernel made = {.name = kernel->name,
                          .origin = kernel->origin.i ? nst_origin_text(kernel->origins, kernel->origin) : NULL,
                          .not_fused = from->group->why_not_fused,
                          .entry = code_at + code->entry,
                          .n_args = from->n_args,
                          .n_params = kernel->params.n,
                          .n_messages = kernel->messages.n,
                          .message_text = kernel->messages.at,
                          .hash_lo = compiled->hash.lo,
                          .hash_hi = compiled->hash.hi};
    NstDims *own = compiled->plan->dims;
    NstDim *value_of = NST_NEW_ARRAY(p->c->arena, NstDim, nst_dims_sym_count(own) + 1);
    for (uint32_t k = 0; k < kernel->params.n; k++) {
        const char *name = nst_format(p->c->arena, "p%u", k);
        value_of[nst_dims_find_sym(own, name, strlen(name)).i] = from->size[k];
    }
    made.scratch_bytes = nst_compile_copy_dim(p->plan->dims, own, code->scratch_bytes, value_of);
    made.shared_bytes = nst_compile_copy_dim(p->plan->dims, own, code->shared_bytes, value_of);
    made.work = without_indices(p->plan->dims, nst_group_work(p->module, from->group));
    made.operations = without_indices(p->plan->dims, group_operations(p, from->group));
    made.origin_text = origin_texts(p, kernel, &made.n_origins);
    NstKernel *seen = (NstKernel *)(uintptr_t)kernel; /* the visit may write; this one does not */
    nst_block_visit(&seen->body, see_parallel, &made.parallel);
    nst_vec_push(p->c->arena, &p->plan->kernels, made);
}

/* The plan's buffers of n of the module's, used by step `number`. */
static NstStatus use_buffers(Planner *p, const NstBuf *from, uint32_t n, uint32_t number, uint32_t *buffer)
{
    for (uint32_t k = 0; k < n; k++) {
        NST_TRY(find_buffer(p, from[k], &buffer[k]));
        NstPlanBuffer *used = &p->plan->buffers.at[buffer[k]];
        if (used->place != NST_PLACE_ARENA) continue;
        if (used->first == UINT32_MAX) used->first = number;
        used->last = number;
    }
    return NST_OK;
}

static NstStatus kernel_step(Planner *p, const NstScheduled *from, uint32_t kernel, uint32_t number, NstPlanStep *step)
{
    uint32_t *buffer = NST_NEW_ARRAY(p->c->arena, uint32_t, from->n_args);
    NST_TRY(use_buffers(p, from->arg, from->n_args, number, buffer));
    *step = (NstPlanStep){.kind = NST_STEP_KERNEL,
                          .kernel = kernel,
                          .n_buffers = from->n_args,
                          .buffer = buffer,
                          .n_sizes = from->kernel->params.n,
                          .size = from->size};
    return NST_OK;
}

/* --- steps --------------------------------------------------------------------------------------------------- */

static void set_late(Planner *p, NstSym sym, bool late)
{
    uint32_t k = 0;
    while (k < p->late.n && p->late.at[k].i != sym.i) k++;
    if (late && k == p->late.n) nst_vec_push(p->c->arena, &p->late, sym);
    if (!late && k < p->late.n) p->late.at[k] = nst_vec_pop(&p->late);
}

static bool writes(const NstScheduled *from, NstBuf buffer)
{
    const NstModuleStep *step = from->group->step;
    for (uint32_t k = 0; step && k < step->n_out; k++)
        if (step->out[k].i == buffer.i) return true;
    for (uint32_t a = 0; a < from->n_args; a++)
        if (from->arg[a].i == buffer.i && nst_kernel_buffer(from->kernel, (NstBuf){a + 1})->access & NST_ACCESS_OUT)
            return true;
    return false;
}

/* Reads of symbols whose scalar is written last by kernel `after` (or by none: after = UINT32_MAX). */
static NstStatus add_reads(Planner *p, uint32_t after)
{
    const NstCompile *c = p->c;
    for (uint32_t r = 0; r < p->module->reads.n; r++) {
        const NstModuleRead *read = &p->module->reads.at[r];
        if (p->last_writer[r] != after) continue;
        uint32_t *buffer = NST_NEW(c->arena, uint32_t);
        NST_TRY(find_buffer(p, read->buffer, buffer));
        if (p->plan->buffers.at[*buffer].place == NST_PLACE_ARENA) p->plan->buffers.at[*buffer].last = p->plan->steps.n;
        NstDim size = nst_dim_sym(p->plan->dims, read->sym);
        NstPlanStep step = {.kind = NST_STEP_READ,
                            .n_buffers = 1,
                            .buffer = buffer,
                            .n_sizes = 1,
                            .size = nst_copy(c->arena, &size, sizeof size)};
        if (read->origin.i) step.text = nst_origin_text(c->graph->origins, read->origin);
        nst_vec_push(c->arena, &p->plan->steps, step);
        set_late(p, read->sym, false);
    }
    return NST_OK;
}

static void find_last_writers(Planner *p)
{
    p->last_writer = NST_NEW_ARRAY(p->c->arena, uint32_t, p->module->reads.n);
    for (uint32_t r = 0; r < p->module->reads.n; r++) {
        p->last_writer[r] = UINT32_MAX;
        for (uint32_t k = 0; k < p->c->run.n; k++)
            if (writes(&p->c->run.at[k], p->module->reads.at[r].buffer)) p->last_writer[r] = k;
    }
}

/* Marks the symbols that have no value before a step gives them one. */
static void mark_late(Planner *p)
{
    for (uint32_t k = 0; k < p->module->reads.n; k++) set_late(p, p->module->reads.at[k].sym, true);
    for (uint32_t k = 0; k < p->c->run.n; k++) {
        const NstModuleStep *step = p->c->run.at[k].group->step;
        for (uint32_t s = 0; step && s < step->n_makes; s++) set_late(p, step->makes[s], true);
    }
    p->checked = NST_NEW_ARRAY(p->c->arena, bool, p->module->checks.n);
}

static bool is_late(const Planner *p, NstDim dim)
{
    for (uint32_t k = 0; k < p->late.n; k++)
        if (nst_dim_uses(p->plan->dims, dim, p->late.at[k])) return true;
    return false;
}

/* Checks as soon as their sizes are known: before any kernel that relies on them, which uses the same sizes. */
static void add_checks(Planner *p)
{
    for (uint32_t k = 0; k < p->module->checks.n && p->n_checked < p->module->checks.n; k++) {
        const NstModuleCheck *check = &p->module->checks.at[k];
        if (p->checked[k] || is_late(p, check->a) || is_late(p, check->b)) continue;
        NstPlanStep step = {.kind = NST_STEP_CHECK, .a = check->a, .b = check->b, .text = check->message};
        nst_vec_push(p->c->arena, &p->plan->steps, step);
        p->checked[k] = true;
        p->n_checked++;
    }
}

/* Code of all kernels in one blob; at[k] = where that of compiled[k] begins. */
static void join_code(Planner *p, const NstCompiledKernel *compiled, uint32_t n, uint64_t *at)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < n; k++) {
        at[k] = bytes;
        bytes += (compiled[k].plan->code_bytes + CODE_ALIGN - 1) / CODE_ALIGN * CODE_ALIGN;
    }
    char *code = nst_alloc_aligned(p->c->arena, bytes, CODE_ALIGN);
    for (uint32_t k = 0; k < n; k++) memcpy(code + at[k], compiled[k].plan->code, compiled[k].plan->code_bytes);
    p->plan->code = code;
    p->plan->code_bytes = bytes;
}

/* The attributes of a primitive that a function of runtime/host.def does. */
static const char *host_config(NstArena *arena, const NstNode *node)
{
    switch (node->prim) {
    case NST_PRIM_SORT:
        return nst_format(arena, "axis %d descending %d keys %d", node->attr.sort.axis, node->attr.sort.descending,
                          node->attr.sort.n_keys);
    case NST_PRIM_COMPACT: return nst_format(arena, "axis %d", node->attr.compact.axis);
    case NST_PRIM_HOST: return node->attr.host.config;
    default: return NULL;
    }
}

static NstStatus make_body(Planner *p, NstModule *module, uint32_t *number)
{
    NstPlan *body;
    NstCompile inner = *p->c;
    inner.module = module;
    NST_TRY(nst_compile_module_plan(&inner, &body));
    *number = p->plan->bodies.n;
    nst_vec_push(p->c->arena, &p->plan->bodies, body);
    return NST_OK;
}

static NstStatus structure_step(Planner *p, const NstGroup *group, NstPlanStep *step)
{
    const NstModuleStep *from = group->step;
    const NstNode *node = from->node;
    uint32_t *buffer = NST_NEW_ARRAY(p->c->arena, uint32_t, from->n_in + from->n_out), number = p->plan->steps.n;
    NST_TRY(use_buffers(p, from->in, from->n_in, number, buffer));
    NST_TRY(use_buffers(p, from->out, from->n_out, number, buffer + from->n_in));
    *step = (NstPlanStep){.kind = NST_STEP_HOST,
                          .n_buffers = from->n_in + from->n_out,
                          .buffer = buffer,
                          .n_in = from->n_in,
                          .origin = group->origin.i ? nst_origin_text(p->module->origins, group->origin) : NULL};
    if (from->body[0]) {
        step->kind = node->prim == NST_PRIM_IF ? NST_STEP_IF : NST_STEP_LOOP;
        NST_TRY(make_body(p, from->body[0], &step->body));
        if (from->body[1]) NST_TRY(make_body(p, from->body[1], &step->other));
        if (node->prim == NST_PRIM_LOOP) step->n_states = (uint32_t)node->attr.loop.n_states;
    } else {
        step->text = node->prim == NST_PRIM_HOST ? node->attr.host.name : nst_prim_info(node->prim)->name;
        step->config = host_config(p->c->arena, node);
    }
    return NST_OK;
}

static NstStatus add_steps(Planner *p)
{
    NstCompile *c = p->c;
    NstPlanStep step;
    for (uint32_t k = 0; k < c->prepack.n; k++) {
        NST_TRY(kernel_step(p, &c->prepack.at[k], k, 0, &step));
        nst_vec_push(c->arena, &p->plan->prepack, step);
    }
    find_last_writers(p);
    mark_late(p);
    add_checks(p);
    NST_TRY(add_reads(p, UINT32_MAX));
    add_checks(p);
    uint32_t kernel = c->prepack.n;
    for (uint32_t k = 0; k < c->run.n; k++) {
        if (c->run.at[k].group->step)
            NST_TRY(structure_step(p, c->run.at[k].group, &step));
        else
            NST_TRY(kernel_step(p, &c->run.at[k], kernel++, p->plan->steps.n, &step));
        nst_vec_push(c->arena, &p->plan->steps, step);
        const NstModuleStep *made = c->run.at[k].group->step;
        for (uint32_t s = 0; made && s < made->n_makes; s++) set_late(p, made->makes[s], false);
        NST_TRY(add_reads(p, k));
        add_checks(p);
    }
    return NST_OK;
}

/* Inputs and outputs have their plan buffers from the ports. */
static void tie_ports(Planner *p)
{
    for (uint32_t b = 1; b < p->module->buffers.n; b++) {
        const NstModuleBuffer *buffer = &p->module->buffers.at[b];
        if (buffer->role == NST_ROLE_INPUT) p->buffer_of[b] = p->plan->inputs.at[buffer->index].buffer + 1;
        if (buffer->role == NST_ROLE_OUTPUT) p->buffer_of[b] = p->plan->outputs.at[buffer->index].buffer + 1;
    }
}

/* Ports of the body of an if or a loop. */
static void body_ports(NstCompile *c, NstPlan **plan)
{
    const NstModule *module = c->module;
    const NstRegion *region = nst_graph_region(c->graph, module->region);
    *plan = new_plan(c);
    for (uint32_t k = 0; k < region->params.n + module->captures.n; k++) {
        NstVal value = k < region->params.n ? region->params.at[k] : module->captures.at[k - region->params.n];
        add_port(c, *plan, false, k, nst_format(c->arena, "in%u", k), nst_value_type(c->graph, value));
    }
    for (uint32_t k = 0; k < region->results.n; k++)
        add_port(c, *plan, true, k, nst_format(c->arena, "out%u", k), nst_value_type(c->graph, region->results.at[k]));
}

NstStatus nst_compile_module_plan(NstCompile *c, NstPlan **plan)
{
    NST_TRY(nst_compile_schedule(c));
    if (c->module->region.i == NST_GRAPH_REGION.i)
        NST_TRY(nst_compile_ports(c, plan));
    else
        body_ports(c, plan);
    Planner p = {.c = c, .plan = *plan, .module = c->module};
    p.buffer_of = NST_NEW_ARRAY(c->arena, uint32_t, c->module->buffers.n);
    tie_ports(&p);
    uint32_t n = 0, n_compiled, *index;
    const NstScheduled **scheduled = NST_NEW_ARRAY(c->arena, const NstScheduled *, c->prepack.n + c->run.n);
    for (uint32_t k = 0; k < c->prepack.n + c->run.n; k++) {
        const NstScheduled *from = k < c->prepack.n ? &c->prepack.at[k] : &c->run.at[k - c->prepack.n];
        if (from->kernel) scheduled[n++] = from;
    }
    NstCompiledKernel *compiled;
    NST_TRY(nst_compile_kernels(c, scheduled, n, &compiled, &n_compiled, &index));
    uint64_t *at = NST_NEW_ARRAY(c->arena, uint64_t, n_compiled);
    join_code(&p, compiled, n_compiled, at);
    for (uint32_t k = 0; k < n; k++) add_kernel(&p, scheduled[k], &compiled[index[k]], at[index[k]]);
    return add_steps(&p);
}

NstStatus nst_compile_plan(NstCompile *c, NstPlan **plan)
{
    NST_TRY(nst_compile_lower(c));
    return nst_compile_module_plan(c, plan);
}
