/* eval_loop.c: the reference interpreter of kernels: slow, obvious, and suspicious of every index.
 *
 * Expressions are evaluated from a list of their distinct nodes, operands first, made once per kernel.  A vector loop runs
 * its lanes side by side: each statement is evaluated for every lane that is on before it stores for any.  Outside vector
 * loops there is one lane.  Buffers have their shapes and strides evaluated when they come to life; uninitialised memory
 * is filled with 0xff (NaN, -1), so that a pass that reads it shows. */
#include "ir/loop.h"

#include <string.h>
#include "ir/abi.h"
#include "ir/eval_race.h"
#include "ir/text_loop.h"

#define MAX_LANES 256
#define MAX_STEPS (UINT64_C(1) << 36) /* statements of one run: a loop without end fails instead of hanging for days */
#define MAX_LOCAL (INT64_C(1) << 32)  /* bytes of one local buffer */
#define POISON    0xff

/* A buffer that is alive: its dims evaluated. */
typedef struct Live {
    bool alive;
    char *at;
    size_t cap; /* local buffers: bytes at `at` that may be reused */
    int64_t elements, offset;
    int64_t limit[NST_MAX_RANK]; /* logical index < limit; padding of a blocked axis included */
    int64_t *stride;             /* by part */
    bool plain; /* no part divides and there is no halo: address = offset + sum of index * axis_stride */
    int64_t axis_stride[NST_MAX_RANK];
} Live;

/* One node of an expression, what evaluation asks of it looked up. */
typedef struct Step {
    const NstExprNode *node;
    uint32_t id;
    int arity;
    NstDtype from; /* of the last operand */
} Step;

typedef struct Program {
    uint32_t n;
    Step *step;
} Program;

typedef struct LaneSym {
    NstSym sym;
    int64_t *value; /* by lane */
} LaneSym;

typedef struct Let {
    bool lanes; /* one value a lane; else the same for all */
    NstScalar *value;
} Let;

typedef struct Run {
    NstCtx *ctx;
    NstArena *arena;
    const NstKernel *kernel;
    const NstKernelRun *given;
    Live *live;        /* by buffer */
    Let *let;          /* by let */
    Program **program; /* by expression, made on first use */
    NstScalar *value;  /* by expression: values of the program that runs */
    int64_t *sym;      /* by symbol */
    uint32_t n_syms, n_exprs;
    uint32_t n_lanes;
    const uint8_t *on; /* by lane */
    bool in_vector, breaking;
    uint8_t all_on[MAX_LANES];
    NST_VEC(LaneSym) lane_syms; /* what differs by lane in the vector loop that runs */
    int64_t **lane_values;      /* by symbol, MAX_LANES each, made on first use */
    NST_VEC(NstScalar) stored;  /* of the store that runs: by lane and target */
    NST_VEC(int64_t) stored_at;
    NST_VEC(Step) collect;
    NstRaces *races; /* NULL: not looked for */
    uint64_t steps;
} Run;

/* --- dims ---------------------------------------------------------------------------------------------------- */

/* Sums of constants and symbols here, where loops spend their time; everything else by nst_dim_eval. */
static NstStatus eval_dim(Run *run, NstDim dim, int64_t *value)
{
    const NstDimNode *node = nst_dim_node(run->kernel->dims, dim);
    if (node->op == NST_DIM_CONST) {
        *value = node->value;
        return NST_OK;
    }
    if (node->op == NST_DIM_SYM && node->sym.i < run->n_syms) {
        *value = run->sym[node->sym.i];
        return NST_OK;
    }
    bool plain = node->op == NST_DIM_SUM;
    int64_t sum = node->value, term;
    for (uint32_t k = 0; plain && k < node->n; k++) {
        const NstDimNode *atom = nst_dim_node(run->kernel->dims, node->arg[k]);
        plain = atom->op == NST_DIM_SYM && atom->sym.i < run->n_syms &&
                !__builtin_mul_overflow(node->coef[k], run->sym[atom->sym.i], &term) &&
                !__builtin_add_overflow(sum, term, &sum);
    }
    *value = sum;
    if (plain) return NST_OK;
    return nst_dim_eval(run->ctx, run->kernel->dims, dim, run->sym, run->n_syms, value);
}

static void set_lane(Run *run, uint32_t lane)
{
    for (uint32_t k = 0; k < run->lane_syms.n; k++)
        run->sym[run->lane_syms.at[k].sym.i] = run->lane_syms.at[k].value[lane];
}

static uint32_t first_lane(const Run *run)
{
    uint32_t lane = 0;
    while (lane < run->n_lanes && !run->on[lane]) lane++;
    return lane;
}

/* --- buffers ------------------------------------------------------------------------------------------------- */

static const char *origin_text(Run *run, NstOrigin origin)
{
    return nst_origin_text(run->kernel->origins, origin);
}

static int64_t round_up(int64_t value, int64_t to)
{
    return (value + to - 1) / to * to;
}

/* Evaluates shape, strides and storage. */
static NstStatus measure(Run *run, NstBuf id)
{
    const NstBuffer *buffer = nst_kernel_buffer(run->kernel, id);
    const NstLayout *layout = &buffer->layout;
    Live *live = &run->live[id.i];
    if (live->stride == NULL) live->stride = NST_NEW_ARRAY(run->arena, int64_t, layout->n_parts);
    for (int axis = 0; axis < buffer->rank; axis++) {
        NST_TRY(eval_dim(run, buffer->shape[axis], &live->limit[axis]));
        NST_CHECK(run->ctx, live->limit[axis] >= 0 && live->limit[axis] < INT64_C(1) << 40, NST_E_SHAPE,
                  "buffer '%s': axis %d has %lld elements", buffer->name, axis, (long long)live->limit[axis]);
        live->limit[axis] += 2 * nst_layout_halo(layout, axis);
    }
    live->plain = layout->halo == NULL;
    for (int axis = 0; axis < buffer->rank; axis++) live->axis_stride[axis] = 0;
    for (uint32_t k = 0; k < layout->n_parts; k++) {
        const NstLayoutPart *part = &layout->parts[k];
        NST_TRY(eval_dim(run, part->stride, &live->stride[k]));
        live->plain = live->plain && part->divisor == 1 && part->modulus == 0;
        live->axis_stride[part->axis] += live->stride[k];
        if (part->divisor != 1) live->limit[part->axis] = round_up(live->limit[part->axis], part->divisor);
    }
    for (int axis = 0; axis < buffer->rank; axis++) live->limit[axis] -= nst_layout_halo(layout, axis);
    NST_TRY(eval_dim(run, layout->offset, &live->offset));
    return eval_dim(run, layout->elements, &live->elements);
}

static size_t storage_bytes(const NstBuffer *buffer, int64_t elements)
{
    return (size_t)((elements * buffer->layout.bits + 7) / 8);
}

static NstStatus begin_arg(Run *run, NstBuf id)
{
    const NstBuffer *buffer = nst_kernel_buffer(run->kernel, id);
    Live *live = &run->live[id.i];
    NST_TRY(measure(run, id));
    size_t given = run->given->buffer_bytes[id.i - 1];
    bool fits =
        live->elements >= 0 && live->elements < INT64_C(1) << 50 && storage_bytes(buffer, live->elements) <= given;
    NST_CHECK(run->ctx, fits, NST_E_INVALID,
              "kernel '%s', buffer '%s': given %zu bytes, needs %lld elements of %d bits", run->kernel->name,
              buffer->name, given, (long long)live->elements, buffer->layout.bits);
    live->at = run->given->buffer[id.i - 1];
    live->alive = true;
    return NST_OK;
}

static NstStatus exec_alloc(Run *run, const NstStmt *stmt)
{
    NstBuf id = stmt->u.alloc.buffer;
    const NstBuffer *buffer = nst_kernel_buffer(run->kernel, id);
    Live *live = &run->live[id.i];
    NST_TRY(measure(run, id));
    NST_CHECK(run->ctx, live->elements >= 0 && live->elements < MAX_LOCAL / 16, NST_E_LIMIT,
              "buffer '%s' has %lld elements; allowed: fewer than %lld", buffer->name, (long long)live->elements,
              (long long)(MAX_LOCAL / 16));
    size_t bytes = storage_bytes(buffer, live->elements);
    if (bytes > live->cap || live->at == NULL) {
        live->at = nst_alloc_aligned(run->arena, bytes, 64);
        live->cap = bytes;
    }
    memset(live->at, POISON, bytes);
    live->alive = true;
    return NST_OK;
}

static NstStatus fail_index(Run *run, NstBuf id, int axis, int64_t index)
{
    const NstBuffer *buffer = nst_kernel_buffer(run->kernel, id);
    int64_t halo = nst_layout_halo(&buffer->layout, axis);
    return nst_fail(run->ctx, NST_E_INDEX, "kernel '%s': buffer '%s' axis %d: index %lld outside %lld..%lld",
                    run->kernel->name, buffer->name, axis, (long long)index, (long long)-halo,
                    (long long)run->live[id.i].limit[axis] - 1);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Adds the offset of an index in a layout of divided parts or with a halo. */
static NstStatus locate_parts(Run *run, NstBuf id, const int64_t *at, int64_t *sum)
{
    const NstBuffer *buffer = nst_kernel_buffer(run->kernel, id);
    const NstLayout *layout = &buffer->layout;
    const Live *live = &run->live[id.i];
    for (int axis = 0; axis < buffer->rank; axis++) {
        int64_t halo = nst_layout_halo(layout, axis);
        if (at[axis] < -halo || at[axis] >= live->limit[axis]) return fail_index(run, id, axis, at[axis]);
    }
    for (uint32_t k = 0; k < layout->n_parts; k++) {
        const NstLayoutPart *part = &layout->parts[k];
        int64_t position = at[part->axis] + nst_layout_halo(layout, part->axis);
        if (part->divisor != 1) position = floor_div(position, part->divisor);
        if (part->modulus != 0) position %= part->modulus;
        *sum += position * live->stride[k];
    }
    return NST_OK;
}

static NstStatus eval_index(Run *run, NstBuf id, const NstDim *index, int64_t *at)
{
    const NstBuffer *buffer = nst_kernel_buffer(run->kernel, id);
    NST_CHECK(run->ctx, run->live[id.i].alive, NST_E_VERIFY, "kernel '%s': buffer '%s' is used before its alloc",
              run->kernel->name, buffer->name);
    for (int axis = 0; axis < buffer->rank; axis++) NST_TRY(eval_dim(run, index[axis], &at[axis]));
    return NST_OK;
}

/* The element offset of an index of which `words` consecutive elements are read. */
static NstStatus locate_at(Run *run, NstBuf id, const int64_t *at, int64_t words, int64_t *offset)
{
    const NstBuffer *buffer = nst_kernel_buffer(run->kernel, id);
    const Live *live = &run->live[id.i];
    int64_t sum = live->offset;
    for (int axis = 0; live->plain && axis < buffer->rank; axis++) {
        if (at[axis] < 0 || at[axis] >= live->limit[axis]) return fail_index(run, id, axis, at[axis]);
        sum += at[axis] * live->axis_stride[axis];
    }
    if (!live->plain) NST_TRY(locate_parts(run, id, at, &sum));
    NST_CHECK(run->ctx, sum >= 0 && sum + words <= live->elements, NST_E_INDEX,
              "kernel '%s': buffer '%s': element offset %lld (%lld wide) outside its %lld elements", run->kernel->name,
              buffer->name, (long long)sum, (long long)words, (long long)live->elements);
    *offset = sum;
    return NST_OK;
}

static NstStatus locate(Run *run, NstBuf id, const NstDim *index, int64_t words, int64_t *offset)
{
    int64_t at[NST_MAX_RANK];
    NST_TRY(eval_index(run, id, index, at));
    return locate_at(run, id, at, words, offset);
}

/* 4- and 2-bit elements, the first in the low bits. */
static NstScalar load_packed(const NstBuffer *buffer, const char *at, int64_t offset)
{
    int bits = buffer->layout.bits, shift = (int)(offset * bits % 8);
    uint8_t byte = (uint8_t)((uint8_t)at[offset * bits / 8] >> shift & ((1 << bits) - 1));
    if (nst_dtype_is_signed(buffer->dtype) && (byte >> (bits - 1)) != 0) byte = (uint8_t)(byte | 0xff << bits);
    return nst_scalar_load(buffer->dtype, &byte);
}

static NstStatus load(Run *run, const NstExprNode *node, NstScalar *value)
{
    NstBuf id = {node->ref};
    const NstBuffer *buffer = nst_kernel_buffer(run->kernel, id);
    int64_t words = nst_dtype_info(node->type)->bytes / nst_dtype_info(buffer->dtype)->bytes, offset;
    NST_TRY(locate(run, id, node->index, words, &offset));
    if (run->races != NULL) NST_TRY(nst_races_access(run->races, id, offset, words, run->live[id.i].elements, false));
    const char *at = run->live[id.i].at;
    if (buffer->layout.bits < 8)
        *value = load_packed(buffer, at, offset);
    else
        *value = nst_scalar_load(node->type, at + offset * nst_dtype_info(buffer->dtype)->bytes);
    return NST_OK;
}

/* --- expressions --------------------------------------------------------------------------------------------- */

static void collect_node(void *arg, NstExpr e, const NstExprNode *node)
{
    Run *run = arg;
    Step step = {.node = node, .id = e.i, .arity = nst_scalar_info(node->op)->arity};
    if (step.arity > 0) step.from = nst_expr(run->kernel->exprs, node->arg[step.arity - 1])->type;
    nst_vec_push(run->arena, &run->collect, step);
}

static const Program *program_of(Run *run, NstExpr e)
{
    NST_ASSERT(e.i != 0 && e.i <= run->n_exprs);
    if (run->program[e.i] != NULL) return run->program[e.i];
    Program *program = NST_NEW(run->arena, Program);
    run->collect.n = 0;
    nst_expr_visit(run->kernel->exprs, e, collect_node, run);
    program->n = run->collect.n;
    program->step = nst_copy(run->arena, run->collect.at, program->n * sizeof *program->step);
    run->program[e.i] = program;
    return program;
}

static NstStatus eval_step(Run *run, const Step *step, uint32_t lane, NstScalar *value)
{
    const NstExprNode *node = step->node;
    switch (node->op) {
    case NST_OP_CONST: *value = node->imm; return NST_OK;
    case NST_OP_INDEX: return eval_dim(run, node->index[0], &value->i);
    case NST_OP_LOAD: return load(run, node, value);
    case NST_OP_LET: {
        const Let *let = &run->let[node->ref];
        NST_CHECK(run->ctx, let->value != NULL, NST_E_VERIFY, "kernel '%s': let '%s' is used before it has a value",
                  run->kernel->name, run->kernel->lets.at[node->ref].name);
        *value = let->value[let->lanes ? lane : 0];
        return NST_OK;
    }
    case NST_OP_NONE:
    case NST_OP_ARG: NST_FAIL(run->ctx, NST_E_VERIFY, "kernel '%s': operand slot outside a merge", run->kernel->name);
    default: break;
    }
    NstScalar arg[3];
    for (int k = 0; k < step->arity; k++) arg[k] = run->value[node->arg[k].i];
    if (node->op == NST_OP_CONVERT || node->op == NST_OP_CONVERT_SAT)
        *value = nst_scalar_convert(node->type, step->from, arg[0], node->op == NST_OP_CONVERT_SAT);
    else
        *value = nst_scalar_eval(node->op, node->type, step->from, arg, run->given->has_fma);
    return NST_OK;
}

/* The value of e for the lane that is set. */
static NstStatus eval(Run *run, NstExpr e, uint32_t lane, NstScalar *value)
{
    const Program *program = program_of(run, e);
    for (uint32_t k = 0; k < program->n; k++)
        NST_TRY(eval_step(run, &program->step[k], lane, &run->value[program->step[k].id]));
    *value = run->value[e.i];
    return NST_OK;
}

/* --- statements ---------------------------------------------------------------------------------------------- */

static NstStatus exec_block(Run *run, const NstBlock *block);

/* Tells the watch for races of one target's stores: those of lane l at offset[l * stride]. */
static NstStatus note_stores(Run *run, NstBuf id, const int64_t *offset, uint32_t stride)
{
    for (uint32_t lane = 0; run->races != NULL && lane < run->n_lanes; lane++)
        if (run->on[lane])
            NST_TRY(nst_races_access(run->races, id, offset[lane * stride], 1, run->live[id.i].elements, true));
    return NST_OK;
}

static NstStatus exec_store(Run *run, const NstStmt *stmt)
{
    const NstStore *store = &stmt->u.store;
    uint32_t n = store->n_targets;
    nst_vec_reserve(run->arena, &run->stored, n * run->n_lanes);
    nst_vec_reserve(run->arena, &run->stored_at, n * run->n_lanes);
    NstScalar *value = run->stored.at;
    int64_t *offset = run->stored_at.at;
    for (uint32_t lane = 0; lane < run->n_lanes; lane++) {
        if (!run->on[lane]) continue;
        set_lane(run, lane);
        for (uint32_t k = 0; k < n; k++) {
            NST_TRY(eval(run, store->target[k].value, lane, &value[lane * n + k]));
            NST_TRY(locate(run, store->target[k].buffer, store->index, 1, &offset[lane * n + k]));
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        NST_TRY(note_stores(run, store->target[k].buffer, offset + k, n));
        const NstBuffer *buffer = nst_kernel_buffer(run->kernel, store->target[k].buffer);
        NST_CHECK(run->ctx, buffer->layout.bits >= 8, NST_E_VERIFY, "kernel '%s': store to packed buffer '%s'",
                  run->kernel->name, buffer->name);
        char *at = run->live[store->target[k].buffer.i].at;
        int bytes = nst_dtype_info(buffer->dtype)->bytes;
        for (uint32_t lane = 0; lane < run->n_lanes; lane++)
            if (run->on[lane]) nst_scalar_store(buffer->dtype, at + offset[lane * n + k] * bytes, value[lane * n + k]);
    }
    return NST_OK;
}

static NstStatus exec_let(Run *run, const NstStmt *stmt)
{
    Let *let = &run->let[stmt->u.let.id];
    if (let->value == NULL) let->value = NST_NEW_ARRAY(run->arena, NstScalar, MAX_LANES);
    let->lanes = run->in_vector;
    for (uint32_t lane = 0; lane < run->n_lanes; lane++) {
        if (!run->on[lane]) continue;
        NstScalar value;
        set_lane(run, lane);
        NST_TRY(eval(run, stmt->u.let.value, lane, &value));
        let->value[lane] = value;
    }
    return NST_OK;
}

static NstStatus eval_range(Run *run, const NstStmt *stmt, uint32_t lane, int64_t *value)
{
    int64_t lo, hi;
    NstScalar scalar;
    NST_TRY(eval(run, stmt->u.index.value, lane, &scalar));
    NST_TRY(eval_dim(run, stmt->u.index.lo, &lo));
    NST_TRY(eval_dim(run, stmt->u.index.hi, &hi));
    *value = scalar.i;
    NST_CHECK(run->ctx, scalar.i >= lo && scalar.i < hi, NST_E_INDEX, "%s: index %lld outside %lld..%lld%s",
              origin_text(run, stmt->origin), (long long)scalar.i, (long long)lo, (long long)hi - 1,
              stmt->u.index.checked ? "" : " (stated as certain)");
    return NST_OK;
}

/* Makes a symbol differ by lane; gives its values. */
static int64_t *lane_values(Run *run, NstSym sym)
{
    int64_t **values = &run->lane_values[sym.i];
    if (*values == NULL) *values = NST_NEW_ARRAY(run->arena, int64_t, MAX_LANES);
    for (uint32_t k = 0; k < run->lane_syms.n; k++)
        if (run->lane_syms.at[k].sym.i == sym.i) return *values;
    LaneSym fresh = {.sym = sym, .value = *values};
    nst_vec_push(run->arena, &run->lane_syms, fresh);
    return *values;
}

static NstStatus exec_index(Run *run, const NstStmt *stmt)
{
    NstSym sym = stmt->u.index.var;
    if (!run->in_vector) return eval_range(run, stmt, 0, &run->sym[sym.i]);
    int64_t found[MAX_LANES];
    for (uint32_t lane = 0; lane < run->n_lanes; lane++) {
        if (!run->on[lane]) continue;
        set_lane(run, lane);
        NST_TRY(eval_range(run, stmt, lane, &found[lane]));
    }
    int64_t *values = lane_values(run, sym);
    for (uint32_t lane = 0; lane < run->n_lanes; lane++)
        if (run->on[lane]) values[lane] = found[lane];
    return NST_OK;
}

static NstStatus exec_if(Run *run, const NstStmt *stmt)
{
    uint8_t then[MAX_LANES], otherwise[MAX_LANES];
    bool any_then = false, any_otherwise = false;
    const uint8_t *outer = run->on;
    for (uint32_t lane = 0; lane < run->n_lanes; lane++) {
        then[lane] = otherwise[lane] = 0;
        if (!outer[lane]) continue;
        NstScalar value;
        set_lane(run, lane);
        NST_TRY(eval(run, stmt->u.branch.condition, lane, &value));
        then[lane] = value.i != 0;
        otherwise[lane] = value.i == 0;
        any_then = any_then || value.i != 0;
        any_otherwise = any_otherwise || value.i == 0;
    }
    run->on = then;
    NstStatus status = any_then ? exec_block(run, &stmt->u.branch.then) : NST_OK;
    run->on = otherwise;
    if (status == NST_OK && any_otherwise && !run->breaking) status = exec_block(run, &stmt->u.branch.otherwise);
    run->on = outer;
    return status;
}

static NstStatus exec_vector(Run *run, const NstFor *loop, int64_t begin, uint64_t n)
{
    NST_CHECK(run->ctx, !run->in_vector && n <= MAX_LANES && (int64_t)n <= loop->width, NST_E_VERIFY,
              "kernel '%s': vector loop of width %lld has %lld iterations", run->kernel->name, (long long)loop->width,
              (long long)n);
    run->lane_syms.n = 0;
    int64_t *values = lane_values(run, loop->var);
    for (uint64_t k = 0; k < n; k++) values[k] = begin + (int64_t)k * loop->step;
    const uint8_t *outer = run->on;
    run->in_vector = true;
    run->n_lanes = (uint32_t)n;
    run->on = run->all_on;
    NstStatus status = exec_block(run, &loop->body);
    run->lane_syms.n = 0;
    run->in_vector = false;
    run->n_lanes = 1;
    run->on = outer;
    return status;
}

static NstStatus exec_for(Run *run, const NstFor *loop)
{
    int64_t begin, end;
    set_lane(run, first_lane(run));
    NST_TRY(eval_dim(run, loop->begin, &begin));
    NST_TRY(eval_dim(run, loop->end, &end));
    if (begin >= end) return NST_OK;
    uint64_t span = (uint64_t)end - (uint64_t)begin, step = (uint64_t)loop->step, n = span / step + (span % step != 0);
    if (loop->kind == NST_FOR_VECTOR) return exec_vector(run, loop, begin, n);
    bool watched = run->races != NULL && loop->kind == NST_FOR_PARALLEL;
    for (uint64_t k = 0; k < n && !run->breaking; k++) {
        if (watched) nst_races_iteration(run->races, (int64_t)k, (int64_t)n);
        run->sym[loop->var.i] = begin + (int64_t)(k * step);
        NST_TRY(exec_block(run, &loop->body));
    }
    if (watched) nst_races_thread_0(run->races);
    return NST_OK;
}

static NstStatus exec_while(Run *run, const NstStmt *stmt)
{
    NST_CHECK(run->ctx, stmt->u.repeat.body.n > 0, NST_E_VERIFY, "kernel '%s': empty while", run->kernel->name);
    while (!run->breaking) NST_TRY(exec_block(run, &stmt->u.repeat.body));
    run->breaking = false;
    return NST_OK;
}

static NstStatus exec_assert(Run *run, const NstStmt *stmt)
{
    for (uint32_t lane = 0; lane < run->n_lanes; lane++) {
        if (!run->on[lane]) continue;
        NstScalar value;
        set_lane(run, lane);
        NST_TRY(eval(run, stmt->u.check.condition, lane, &value));
        NST_CHECK(run->ctx, value.i != 0, NST_E_ASSERT, "%s: %s", origin_text(run, stmt->origin),
                  run->kernel->messages.at[stmt->u.check.message]);
    }
    return NST_OK;
}

/* The address range of a call's buffer, of which it touches `bytes` from the start. */
static NstStatus call_buffer(Run *run, NstBuf id, int64_t bytes, bool write, char **at)
{
    const NstBuffer *buffer = nst_kernel_buffer(run->kernel, id);
    const Live *live = &run->live[id.i];
    NST_CHECK(run->ctx, live->alive && bytes >= 0 && (uint64_t)bytes <= storage_bytes(buffer, live->elements),
              NST_E_INDEX, "kernel '%s': call touches %lld bytes of buffer '%s'", run->kernel->name, (long long)bytes,
              buffer->name);
    *at = live->at;
    int64_t size = nst_dtype_info(buffer->dtype)->bytes;
    if (run->races == NULL || buffer->layout.bits < 8) return NST_OK;
    return nst_races_access(run->races, id, 0, (bytes + size - 1) / size, live->elements, write);
}

static NstStatus exec_call(Run *run, const NstStmt *stmt)
{
    NstScalar arg[3] = {{0}, {0}, {0}};
    char *to, *from;
    uint32_t n_args = stmt->u.call.n_args, n_buffers = stmt->u.call.n_buffers;
    set_lane(run, first_lane(run));
    for (uint32_t k = 0; k < n_args && k < 3; k++) NST_TRY(eval(run, stmt->u.call.arg[k], first_lane(run), &arg[k]));
    if (stmt->u.call.helper == NST_HELPER_copy && n_args == 1 && n_buffers == 2) {
        NST_TRY(call_buffer(run, stmt->u.call.buffer[0], arg[0].i, true, &to));
        NST_TRY(call_buffer(run, stmt->u.call.buffer[1], arg[0].i, false, &from));
        memmove(to, from, (size_t)arg[0].i);
        return NST_OK;
    }
    if (stmt->u.call.helper == NST_HELPER_fill && n_args == 2 && n_buffers == 1) {
        NST_TRY(call_buffer(run, stmt->u.call.buffer[0], arg[1].i, true, &to));
        memset(to, (int)arg[0].i, (size_t)arg[1].i);
        return NST_OK;
    }
    const char *name = nst_helper_text(stmt->u.call.helper);
    NST_FAIL(run->ctx, NST_E_UNSUPPORTED, "kernel '%s': the interpreter has no helper '%s' of %u arguments, %u buffers",
             run->kernel->name, name ? name : "?", n_args, n_buffers);
}

/* Moves m[r, c] for all r and c between a matrix register and memory. */
static NstStatus move_matrix(Run *run, const NstMatrix *m, const int64_t *shape)
{
    const NstBuffer *buffer = nst_kernel_buffer(run->kernel, m->memory);
    int wide = nst_dtype_info(nst_kernel_buffer(run->kernel, m->matrix)->dtype)->bytes;
    int64_t bytes = nst_dtype_info(buffer->dtype)->bytes, words = wide / bytes, at[NST_MAX_RANK], offset;
    NST_TRY(eval_index(run, m->memory, m->index, at));
    at[m->row_axis]--;
    for (int64_t r = 0; r < shape[0]; r++, at[m->col_axis] -= shape[1] * words) {
        at[m->row_axis]++;
        for (int64_t c = 0; c < shape[1]; c++, at[m->col_axis] += words) {
            bool store = m->op == NST_MATRIX_STORE;
            NST_TRY(locate_at(run, m->memory, at, words, &offset));
            if (run->races != NULL)
                NST_TRY(nst_races_access(run->races, m->memory, offset, words, run->live[m->memory.i].elements, store));
            char *memory = run->live[m->memory.i].at + offset * bytes;
            char *element = run->live[m->matrix.i].at + (r * shape[1] + c) * wide;
            memcpy(store ? memory : element, store ? element : memory, (size_t)wide);
        }
    }
    return NST_OK;
}

static void dot_matrices(Run *run, const NstMatrix *m, const int64_t *shape, int64_t depth)
{
    const int32_t *a = (const void *)run->live[m->a.i].at, *b = (const void *)run->live[m->b.i].at;
    int32_t *acc = (void *)run->live[m->matrix.i].at;
    for (int64_t i = 0; i < shape[0]; i++)
        for (int64_t j = 0; j < shape[1]; j++)
            for (int64_t k = 0; k < depth; k++) {
                NstScalar arg[3] = {{.i = acc[i * shape[1] + j]}, {.i = a[i * depth + k]}, {.i = b[k * shape[1] + j]}};
                acc[i * shape[1] + j] = (int32_t)nst_scalar_eval(m->step, NST_I32, NST_I32, arg, true).i;
            }
}

static NstStatus exec_matrix(Run *run, const NstMatrix *m)
{
    int64_t shape[2], of_a[2] = {0, 0};
    bool known = nst_matrix_shape(run->kernel, m->matrix, shape) &&
                 (m->op != NST_MATRIX_DOT ||
                  (nst_matrix_shape(run->kernel, m->a, of_a) && run->live[m->a.i].alive && run->live[m->b.i].alive));
    NST_CHECK(run->ctx, known && run->live[m->matrix.i].alive, NST_E_VERIFY, "kernel '%s': matrix without a shape",
              run->kernel->name);
    if (m->op == NST_MATRIX_LOAD || m->op == NST_MATRIX_STORE) return move_matrix(run, m, shape);
    if (m->op == NST_MATRIX_DOT)
        dot_matrices(run, m, shape, of_a[1]);
    else
        memset(run->live[m->matrix.i].at, 0, (size_t)(shape[0] * shape[1]) * 4);
    return NST_OK;
}

static NstStatus exec_stmt(Run *run, const NstStmt *stmt)
{
    NST_CHECK(run->ctx, ++run->steps < MAX_STEPS, NST_E_LIMIT, "kernel '%s': more than %llu steps", run->kernel->name,
              (unsigned long long)MAX_STEPS);
    switch (stmt->kind) {
    case NST_STMT_FOR: return exec_for(run, &stmt->u.loop);
    case NST_STMT_WHILE: return exec_while(run, stmt);
    case NST_STMT_BREAK: run->breaking = true; return NST_OK;
    case NST_STMT_IF: return exec_if(run, stmt);
    case NST_STMT_LET: return exec_let(run, stmt);
    case NST_STMT_INDEX: return exec_index(run, stmt);
    case NST_STMT_ALLOC: return exec_alloc(run, stmt);
    case NST_STMT_STORE: return exec_store(run, stmt);
    case NST_STMT_CALL: return exec_call(run, stmt);
    case NST_STMT_MATRIX: return exec_matrix(run, &stmt->u.matrix);
    case NST_STMT_ASSERT: return exec_assert(run, stmt);
    case NST_STMT_BARRIER:
        if (run->races != NULL) nst_races_barrier(run->races);
        return NST_OK;
    case NST_STMT_PREFETCH: return NST_OK; /* a hint may point anywhere */
    }
    NST_FAIL(run->ctx, NST_E_VERIFY, "statement kind %d is none", (int)stmt->kind);
}

static NstStatus exec_block(Run *run, const NstBlock *block)
{
    for (uint32_t k = 0; k < block->n && !run->breaking; k++) NST_TRY(exec_stmt(run, block->at[k]));
    return NST_OK;
}

/* --- entry --------------------------------------------------------------------------------------------------- */

static NstStatus interpret(Run *run)
{
    const NstKernel *kernel = run->kernel;
    run->n_syms = nst_dims_sym_count(kernel->dims) + 1;
    run->n_exprs = nst_exprs_count(kernel->exprs);
    run->live = NST_NEW_ARRAY(run->arena, Live, kernel->buffers.n);
    run->let = NST_NEW_ARRAY(run->arena, Let, kernel->lets.n);
    run->program = NST_NEW_ARRAY(run->arena, Program *, run->n_exprs + 1);
    run->value = NST_NEW_ARRAY(run->arena, NstScalar, run->n_exprs + 1);
    run->sym = NST_NEW_ARRAY(run->arena, int64_t, run->n_syms);
    run->lane_values = NST_NEW_ARRAY(run->arena, int64_t *, run->n_syms);
    for (uint32_t k = 0; k < kernel->params.n; k++) run->sym[kernel->params.at[k].i] = run->given->param[k];
    for (uint32_t k = 1; k <= kernel->n_args; k++) NST_TRY(begin_arg(run, (NstBuf){k}));
    memset(run->all_on, 1, sizeof run->all_on);
    if (run->given->find_races) run->races = nst_races_new(run->ctx, run->arena, kernel);
    run->n_lanes = 1;
    run->on = run->all_on;
    return exec_block(run, &kernel->body);
}

NstStatus nst_kernel_interpret(NstCtx *ctx, const NstKernel *kernel, const NstKernelRun *given)
{
    Run run = {.ctx = ctx, .kernel = kernel, .given = given};
    run.arena = nst_arena_new(ctx, ctx->arena);
    NstStatus status = interpret(&run);
    nst_arena_free(run.arena);
    return status;
}
