/* emit_scope.c: scopes, and the sizes and addresses that are computed once a scope.
 *
 * Sizes.  The terms of a sum are split by the scope in which their symbols become known; what is known further out is
 * computed there.  Addresses are root + sum, split in the same way; in the innermost loop, an address that runs with
 * the loop's variable becomes a pointer phi stepped once an iteration ("cursor").  Addresses whose distance does not
 * depend on the loop share a cursor: a constant distance is a displacement, up to NST_SCOPE_STRIDES others are kept in
 * registers. */
#include "codegen/emit.h"

/* Index registers spent on distances between addresses of one cursor: three serve rows 0..3 of a tile of any height
 * (a cursor every four rows); each costs one of the 15 general registers. */
#define NST_SCOPE_STRIDES 3

enum { KEY_SIZE = 1, KEY_POINTER, KEY_MASK, KEY_ARGUMENT, KEY_LOAD };

static uint64_t key_of(unsigned kind, uint32_t tag, NstDim dim)
{
    return (uint64_t)kind << 60 | (uint64_t)tag << 32 | dim.i;
}

/* --- scopes ------------------------------------------------------------------------------------------------- */

NstScope *nst_emit_open(NstEmit *e, LLVMBasicBlockRef block)
{
    if (e->scopes.n > 0) e->scopes.at[e->scopes.n - 1]->block = LLVMGetInsertBlock(e->llvm->builder);
    NstScope *scope = NST_NEW(e->arena, NstScope);
    scope->block = block;
    nst_map_init(&scope->known, e->arena);
    nst_vec_push(e->arena, &e->scopes, scope);
    LLVMPositionBuilderAtEnd(e->llvm->builder, block);
    nst_emit_forget(e);
    return scope;
}

void nst_emit_close(NstEmit *e, LLVMBasicBlockRef block)
{
    e->scopes.n--;
    e->scopes.at[e->scopes.n - 1]->block = block;
    LLVMPositionBuilderAtEnd(e->llvm->builder, block);
    nst_emit_forget(e);
}

LLVMBasicBlockRef nst_emit_new_block(NstEmit *e, const char *name)
{
    return LLVMAppendBasicBlockInContext(e->llvm->context, e->function, name);
}

void nst_emit_forget(NstEmit *e)
{
    e->loaded.n = 0;
    e->spreads.n = 0;
    e->generation++;
    e->edges++;
}

/* Moves the builder to where code of a scope is added; gives the block to come back to. */
static LLVMBasicBlockRef enter_scope(NstEmit *e, uint32_t level)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->llvm->builder);
    if (level + 1 == e->scopes.n) return here;
    LLVMValueRef end = LLVMGetBasicBlockTerminator(e->scopes.at[level]->block);
    NST_ASSERT(end);
    LLVMPositionBuilderBefore(e->llvm->builder, end);
    return here;
}

static void leave_scope(NstEmit *e, LLVMBasicBlockRef here)
{
    LLVMValueRef end = LLVMGetBasicBlockTerminator(here);
    if (end)
        LLVMPositionBuilderBefore(e->llvm->builder, end);
    else
        LLVMPositionBuilderAtEnd(e->llvm->builder, here);
}

/* Where a value of a scope is computed: there, or in the outermost loop where that has few iterations, so that it does not
 * live from the entry to its use. */
static uint32_t place_of(const NstEmit *e, uint32_t level)
{
    return level == 0 && e->scopes.n > 1 && e->scopes.at[1]->is_few ? 1 : level;
}

static LLVMValueRef find_in(NstScope *scope, uint64_t key)
{
    uint32_t k = nst_map_get(&scope->known, key, UINT32_MAX);
    return k == UINT32_MAX ? NULL : scope->values.at[k];
}

static LLVMValueRef find_known(NstEmit *e, uint32_t level, uint64_t key)
{
    LLVMValueRef value = find_in(e->scopes.at[level], key);
    uint32_t place = place_of(e, level);
    return value || place == level ? value : find_in(e->scopes.at[place], key);
}

static void add_known(NstEmit *e, NstScope *scope, uint64_t key, LLVMValueRef value)
{
    nst_map_put(&scope->known, key, scope->values.n);
    nst_vec_push(e->arena, &scope->values, value);
}

/* --- sizes -------------------------------------------------------------------------------------------------- */

/* What a symbol stands for that only names a deeply nested expression; none for others. */
static NstDim definition_of(NstEmit *e, NstSym sym)
{
    NstDim def = nst_dims_sym(e->dims, sym)->def;
    return def.i ? nst_emit_replace(e, def) : def;
}

/* The scope in which all symbols of a dim have values. */
static uint32_t level_of(NstEmit *e, NstDim dim)
{
    const NstDimNode *node = nst_dim_node(e->dims, dim);
    if (node->op == NST_DIM_SYM) {
        NstDim def = definition_of(e, node->sym);
        if (def.i) return level_of(e, def);
        NstBinding *binding = nst_emit_binding(e, node->sym);
        if (!binding->value)
            nst_emit_fail(e, NST_E_VERIFY, "kernel '%s' uses symbol '%s' where it has no value", e->kernel->name,
                          nst_dims_sym(e->dims, node->sym)->name);
        return binding->value ? binding->scope : 0;
    }
    uint32_t level = 0;
    for (uint32_t k = 0; k < node->n; k++) {
        uint32_t inner = level_of(e, node->arg[k]);
        if (inner > level) level = inner;
    }
    return level;
}

bool nst_emit_varies(NstEmit *e, NstDim dim)
{
    if (e->lane.n == 1) return false;
    const NstDimNode *node = nst_dim_node(e->dims, dim);
    if (node->op == NST_DIM_SYM) {
        NstDim def = definition_of(e, node->sym);
        return def.i ? nst_emit_varies(e, def) : node->sym.i == e->lane.sym.i || nst_emit_binding(e, node->sym)->lanes;
    }
    for (uint32_t k = 0; k < node->n; k++)
        if (nst_emit_varies(e, node->arg[k])) return true;
    return false;
}

static LLVMValueRef build_scaled(NstEmit *e, LLVMValueRef value, int64_t coef)
{
    if (coef == 1) return value;
    return LLVMBuildMul(e->llvm->builder, value, nst_llvm_int(LLVMTypeOf(value), coef), "");
}

/* The part of a sum that is known outside of scope `level`, the constant included. */
static NstDim outer_part(NstEmit *e, const NstDimNode *node, uint32_t level)
{
    NstDim outer = nst_dim_const(e->dims, node->value);
    for (uint32_t k = 0; k < node->n; k++)
        if (level_of(e, node->arg[k]) < level)
            outer = nst_dim_add(e->dims, outer, nst_dim_mul_const(e->dims, node->arg[k], node->coef[k]));
    return outer;
}

static LLVMValueRef build_sum(NstEmit *e, const NstDimNode *node, uint32_t level)
{
    NstDim outer = outer_part(e, node, level);
    int64_t constant;
    bool outer_is_zero = nst_dim_is_const(e->dims, outer, &constant) && constant == 0;
    LLVMValueRef sum = outer_is_zero ? NULL : nst_emit_size(e, outer);
    for (uint32_t k = 0; k < node->n; k++) {
        if (level_of(e, node->arg[k]) < level) continue;
        LLVMValueRef term = build_scaled(e, nst_emit_size(e, node->arg[k]), node->coef[k]);
        sum = sum ? LLVMBuildAdd(e->llvm->builder, sum, term, "") : term;
    }
    return sum;
}

static LLVMValueRef build_product(NstEmit *e, const NstDimNode *node, uint32_t level)
{
    NstDim outer = nst_dim_const(e->dims, 1);
    for (uint32_t k = 0; k < node->n; k++)
        if (level_of(e, node->arg[k]) < level) outer = nst_dim_mul(e->dims, outer, node->arg[k]);
    int64_t constant;
    LLVMValueRef product = nst_dim_is_const(e->dims, outer, &constant) ? NULL : nst_emit_size(e, outer);
    for (uint32_t k = 0; k < node->n; k++) {
        if (level_of(e, node->arg[k]) < level) continue;
        LLVMValueRef factor = nst_emit_size(e, node->arg[k]);
        product = product ? LLVMBuildMul(e->llvm->builder, product, factor, "") : factor;
    }
    return product;
}

/* floordiv and mod of i64 scalars or vectors, for operands whose signs are not known.  Divisors 0 and -1 never trap. */
static LLVMValueRef build_floor_division(NstEmit *e, bool want_mod, LLVMValueRef a, LLVMValueRef b)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef zero = nst_llvm_int(type, 0), one = nst_llvm_int(type, 1), minus = nst_llvm_int(type, -1);
    LLVMValueRef is_minus = LLVMBuildICmp(builder, LLVMIntEQ, b, minus, "");
    LLVMValueRef odd = LLVMBuildOr(builder, LLVMBuildICmp(builder, LLVMIntEQ, b, zero, ""), is_minus, "");
    LLVMValueRef safe = nst_llvm_select(e->llvm, odd, one, b);
    LLVMValueRef quotient = LLVMBuildSDiv(builder, a, safe, "");
    LLVMValueRef rest = LLVMBuildSub(builder, a, LLVMBuildMul(builder, quotient, safe, ""), "");
    LLVMValueRef differs = LLVMBuildICmp(builder, LLVMIntSLT, LLVMBuildXor(builder, rest, safe, ""), zero, "");
    differs = LLVMBuildAnd(builder, differs, LLVMBuildICmp(builder, LLVMIntNE, rest, zero, ""), "");
    if (want_mod) return LLVMBuildAdd(builder, rest, nst_llvm_select(e->llvm, differs, safe, zero), "");
    quotient = LLVMBuildSub(builder, quotient, nst_llvm_select(e->llvm, differs, one, zero), "");
    return nst_llvm_select(e->llvm, is_minus, LLVMBuildNeg(builder, a, ""), quotient);
}

static bool is_power_of_two(int64_t v)
{
    return v > 0 && (v & (v - 1)) == 0;
}

static LLVMValueRef build_division(NstEmit *e, const NstDimNode *node, LLVMValueRef a, LLVMValueRef b)
{
    LLVMBuilderRef builder = e->llvm->builder;
    bool want_mod = node->op == NST_DIM_MOD;
    int64_t lo, hi, b_lo, b_hi;
    nst_dim_bounds(e->dims, node->arg[0], &lo, &hi);
    nst_dim_bounds(e->dims, node->arg[1], &b_lo, &b_hi);
    if (b_lo == b_hi && is_power_of_two(b_lo)) {
        LLVMTypeRef type = LLVMTypeOf(a);
        if (want_mod) return LLVMBuildAnd(builder, a, nst_llvm_int(type, b_lo - 1), "");
        return LLVMBuildAShr(builder, a, nst_llvm_int(type, __builtin_ctzll((uint64_t)b_lo)), "");
    }
    if (lo >= 0 && b_lo >= 1) return want_mod ? LLVMBuildURem(builder, a, b, "") : LLVMBuildUDiv(builder, a, b, "");
    return build_floor_division(e, want_mod, a, b);
}

static LLVMValueRef build_choice(NstEmit *e, NstDimOp op, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef arg[2] = {a, b};
    return nst_llvm_intrinsic(e->llvm, op == NST_DIM_MIN ? "llvm.smin" : "llvm.smax", &type, 1, arg, 2);
}

static LLVMValueRef build_size(NstEmit *e, NstDim dim, uint32_t level)
{
    const NstDimNode *node = nst_dim_node(e->dims, dim);
    if (node->op == NST_DIM_SUM) return build_sum(e, node, level);
    if (node->op == NST_DIM_PRODUCT) return build_product(e, node, level);
    LLVMValueRef a = nst_emit_size(e, node->arg[0]), b = nst_emit_size(e, node->arg[1]);
    if (node->op == NST_DIM_MIN || node->op == NST_DIM_MAX) return build_choice(e, node->op, a, b);
    return build_division(e, node, a, b);
}

LLVMValueRef nst_emit_size(NstEmit *e, NstDim dim)
{
    const NstDimNode *node = nst_dim_node(e->dims, dim);
    if (node->op == NST_DIM_CONST) return nst_llvm_int(e->llvm->i64, node->value);
    uint32_t level = level_of(e, dim);
    if (e->status != NST_OK) return nst_llvm_int(e->llvm->i64, 0);
    if (node->op == NST_DIM_SYM) {
        NstDim def = definition_of(e, node->sym);
        return def.i ? nst_emit_size(e, def) : nst_emit_binding(e, node->sym)->value;
    }
    uint64_t key = key_of(KEY_SIZE, 0, dim);
    LLVMValueRef value = find_known(e, level, key);
    if (value) return value;
    uint32_t place = place_of(e, level);
    LLVMBasicBlockRef here = enter_scope(e, place);
    value = build_size(e, dim, level);
    leave_scope(e, here);
    add_known(e, e->scopes.at[place], key, value);
    return value;
}

/* --- sizes that vary by lane ----------------------------------------------------------------------------------- */

static LLVMValueRef build_lane_sum(NstEmit *e, const NstDimNode *node)
{
    NstDim same = nst_dim_const(e->dims, node->value);
    LLVMValueRef sum = NULL;
    for (uint32_t k = 0; k < node->n; k++) {
        if (nst_emit_varies(e, node->arg[k])) {
            LLVMValueRef term = build_scaled(e, nst_emit_lane_sizes(e, node->arg[k]), node->coef[k]);
            sum = sum ? LLVMBuildAdd(e->llvm->builder, sum, term, "") : term;
        } else {
            same = nst_dim_add(e->dims, same, nst_dim_mul_const(e->dims, node->arg[k], node->coef[k]));
        }
    }
    int64_t constant;
    if (nst_dim_is_const(e->dims, same, &constant) && constant == 0) return sum;
    LLVMValueRef spread = nst_llvm_splat(e->llvm, nst_emit_size(e, same), e->lane.n);
    return LLVMBuildAdd(e->llvm->builder, sum, spread, "");
}

LLVMValueRef nst_emit_lane_sizes(NstEmit *e, NstDim dim)
{
    const NstDimNode *node = nst_dim_node(e->dims, dim);
    if (!nst_emit_varies(e, dim)) return nst_llvm_splat(e->llvm, nst_emit_size(e, dim), e->lane.n);
    if (node->op == NST_DIM_SYM) {
        NstDim def = definition_of(e, node->sym);
        if (def.i) return nst_emit_lane_sizes(e, def);
        LLVMValueRef lanes = nst_emit_binding(e, node->sym)->lanes;
        return lanes ? lanes : nst_llvm_iota(e->llvm->i64, e->lane.n);
    }
    if (node->op == NST_DIM_SUM) return build_lane_sum(e, node);
    LLVMValueRef a = nst_emit_lane_sizes(e, node->arg[0]);
    for (uint32_t k = 1; k < node->n; k++) {
        LLVMValueRef b = nst_emit_lane_sizes(e, node->arg[k]);
        if (node->op == NST_DIM_PRODUCT)
            a = LLVMBuildMul(e->llvm->builder, a, b, "");
        else if (node->op == NST_DIM_MIN || node->op == NST_DIM_MAX)
            a = build_choice(e, node->op, a, b);
        else
            a = build_division(e, node, a, b);
    }
    return a;
}

LLVMValueRef nst_emit_lane_mask(NstEmit *e, NstDim count, uint32_t lanes)
{
    int64_t lo, hi;
    nst_dim_bounds(e->dims, count, &lo, &hi);
    int bits = e->target->vector_bytes * 8 / (int)lanes;
    bits = bits > 32 ? 32 : bits < 8 ? 8 : bits;
    LLVMTypeRef element = LLVMIntTypeInContext(e->llvm->context, (unsigned)bits);
    NstDim clamped =
        nst_dim_max(e->dims, nst_dim_min(e->dims, count, nst_dim_const(e->dims, lanes)), nst_dim_const(e->dims, 0));
    if (nst_dim_is_const(e->dims, clamped, &lo)) {
        LLVMValueRef lane[256];
        for (uint32_t k = 0; k < lanes; k++) lane[k] = LLVMConstInt(e->llvm->i1, (int64_t)k < lo, false);
        return LLVMConstVector(lane, lanes);
    }
    uint32_t level = level_of(e, clamped);
    uint64_t key = key_of(KEY_MASK, lanes, clamped);
    LLVMValueRef mask = find_known(e, level, key);
    if (mask) return mask;
    LLVMValueRef size = nst_emit_size(e, clamped);
    uint32_t place = place_of(e, level);
    LLVMBasicBlockRef here = enter_scope(e, place);
    LLVMValueRef small = LLVMBuildTrunc(e->llvm->builder, size, element, "");
    LLVMValueRef spread = nst_llvm_splat(e->llvm, small, lanes);
    mask = LLVMBuildICmp(e->llvm->builder, LLVMIntULT, nst_llvm_iota(element, lanes), spread, "");
    leave_scope(e, here);
    add_known(e, e->scopes.at[place], key, mask);
    return mask;
}

LLVMValueRef nst_emit_argument(NstEmit *e, size_t offset, LLVMTypeRef type)
{
    uint64_t key = key_of(KEY_ARGUMENT, (uint32_t)offset, (NstDim){0});
    LLVMValueRef value = find_in(e->scopes.at[0], key);
    if (value) return value;
    /* At the very start of the function: the current block may be one that others do not come through. */
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->llvm->builder);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(LLVMGetBasicBlockParent(here));
    LLVMValueRef first = LLVMGetFirstInstruction(entry);
    if (first)
        LLVMPositionBuilderBefore(e->llvm->builder, first);
    else
        LLVMPositionBuilderAtEnd(e->llvm->builder, entry);
    value = nst_llvm_load(e->llvm, type, nst_llvm_offset_const(e->llvm, e->args, (int64_t)offset), 4);
    leave_scope(e, here);
    add_known(e, e->scopes.at[0], key, value);
    return value;
}

/* --- loads moved before loops ------------------------------------------------------------------------------------ */

bool nst_emit_stores_to(const NstBlock *block, NstBuf buffer)
{
    for (uint32_t k = 0; k < block->n; k++) {
        const NstStmt *stmt = block->at[k];
        if (stmt->kind == NST_STMT_CALL || stmt->kind == NST_STMT_BARRIER || stmt->kind == NST_STMT_WHILE) return true;
        if (stmt->kind == NST_STMT_FOR && nst_emit_stores_to(&stmt->u.loop.body, buffer)) return true;
        if (stmt->kind == NST_STMT_IF &&
            (nst_emit_stores_to(&stmt->u.branch.then, buffer) || nst_emit_stores_to(&stmt->u.branch.otherwise, buffer)))
            return true;
        if (stmt->kind == NST_STMT_MATRIX && nst_matrix_written(&stmt->u.matrix).i == buffer.i) return true;
        if (stmt->kind != NST_STMT_STORE) continue;
        for (uint32_t t = 0; t < stmt->u.store.n_targets; t++)
            if (stmt->u.store.target[t].buffer.i == buffer.i) return true;
    }
    return false;
}

/* An assert or a checked index may stop the kernel before a load is reached. */
static bool may_stop(const NstBlock *block)
{
    for (uint32_t k = 0; k < block->n; k++) {
        const NstStmt *stmt = block->at[k];
        if (stmt->kind == NST_STMT_ASSERT || (stmt->kind == NST_STMT_INDEX && stmt->u.index.checked)) return true;
        if (stmt->kind == NST_STMT_FOR && may_stop(&stmt->u.loop.body)) return true;
        if (stmt->kind == NST_STMT_IF && (may_stop(&stmt->u.branch.then) || may_stop(&stmt->u.branch.otherwise)))
            return true;
    }
    return false;
}

static bool is_unchanged(NstEmit *e, NstScope *loop, NstBuf buffer)
{
    if (!loop->unchanged) loop->unchanged = nst_alloc(e->arena, e->kernel->buffers.n);
    uint8_t *known = &loop->unchanged[buffer.i];
    if (*known == 0) *known = nst_emit_stores_to(loop->body, buffer) || may_stop(loop->body) ? 2 : 1;
    return *known == 1;
}

/* Vector registers left for loads moved before the loop: half of all less the register tiles that it stores to; the rest is
 * for what an iteration computes with (a depthwise convolution slows down by 10 % when 26 of 32 are taken). */
static int free_registers(NstEmit *e, NstScope *loop)
{
    if (loop->free_registers) return loop->free_registers - 1;
    bool *stored = NST_NEW_ARRAY(e->arena, bool, e->kernel->buffers.n);
    nst_emit_tiles_stored(e, loop->body, stored);
    int64_t left = e->target->vector_registers / 2;
    for (uint32_t k = 0; k < e->kernel->buffers.n; k++) {
        const NstTile *tile = &e->tile[k];
        if (tile->live && stored[k])
            left -= (int64_t)tile->n * ((tile->lanes * 4 - 1) / (uint32_t)e->target->vector_bytes + 1);
    }
    loop->free_registers = left < 0 ? 1 : (int)left + 1;
    return loop->free_registers - 1;
}

uint32_t nst_emit_hoist_loop(NstEmit *e, NstBuf buffer, NstDim at)
{
    uint32_t found = 0;
    if (e->options->bounds_checks) return 0;
    for (uint32_t level = e->scopes.n - 1; level > 0; level--) {
        NstScope *loop = e->scopes.at[level];
        if (!loop->header || loop->is_few || !loop->is_sure || level_of(e, at) >= level) break;
        if (!is_unchanged(e, loop, buffer)) break;
        found = level;
    }
    return found;
}

static uint64_t load_key(NstBuf buffer, NstDtype type, NstDim at)
{
    return key_of(KEY_LOAD, buffer.i << 6 | (uint32_t)type, at);
}

LLVMValueRef nst_emit_find_hoisted(NstEmit *e, uint32_t loop, NstBuf buffer, NstDtype type, NstDim at)
{
    return find_in(e->scopes.at[loop], load_key(buffer, type, at));
}

LLVMBasicBlockRef nst_emit_enter_before(NstEmit *e, uint32_t loop)
{
    return enter_scope(e, loop - 1);
}

void nst_emit_leave_before(NstEmit *e, LLVMBasicBlockRef here, uint32_t loop, NstBuf buffer, NstDtype type, NstDim at,
                           LLVMValueRef value)
{
    leave_scope(e, here);
    e->scopes.at[loop]->hoisted++;
    add_known(e, e->scopes.at[loop], load_key(buffer, type, at), value);
}

bool nst_emit_may_hoist(NstEmit *e, uint32_t loop)
{
    int moved = 0;
    for (uint32_t level = loop; level < e->scopes.n; level++) moved += e->scopes.at[level]->hoisted;
    return moved < free_registers(e, e->scopes.at[e->scopes.n - 1]);
}

/* --- addresses -------------------------------------------------------------------------------------------------- */

/* The root pointers: 1 .. n_args are the arguments, then scratch, then shared memory. */
static LLVMValueRef root_pointer(NstEmit *e, uint32_t root)
{
    if (root == e->kernel->n_args + 1) return nst_emit_argument(e, offsetof(NstKernelArgs, scratch), e->llvm->ptr);
    if (root == e->kernel->n_args + 2) return nst_emit_argument(e, offsetof(NstKernelArgs, shared), e->llvm->ptr);
    uint64_t key = key_of(KEY_POINTER, root, (NstDim){0});
    LLVMValueRef value = find_in(e->scopes.at[0], key);
    if (value) return value;
    LLVMValueRef buffers = nst_emit_argument(e, offsetof(NstKernelArgs, buffers), e->llvm->ptr);
    LLVMBasicBlockRef here = enter_scope(e, 0);
    LLVMValueRef at = nst_llvm_offset_const(e->llvm, buffers, 8 * ((int64_t)root - 1));
    value = nst_llvm_load(e->llvm, e->llvm->ptr, at, 8);
    leave_scope(e, here);
    add_known(e, e->scopes.at[0], key, value);
    return value;
}

/* root + sum of terms, computed term by term in the scopes where they are known. */
static LLVMValueRef hoisted_pointer(NstEmit *e, uint32_t root, NstDim bytes)
{
    int64_t constant;
    uint32_t level = level_of(e, bytes);
    uint64_t key = key_of(KEY_POINTER, root, bytes);
    LLVMValueRef value = find_known(e, level, key);
    if (value) return value;
    uint32_t place = place_of(e, level);
    if (nst_dim_is_const(e->dims, bytes, &constant)) {
        LLVMValueRef start = root_pointer(e, root); /* the sum belongs where its users further out find it */
        LLVMBasicBlockRef from = enter_scope(e, place);
        value = nst_llvm_offset_const(e->llvm, start, constant);
        leave_scope(e, from);
        add_known(e, e->scopes.at[place], key, value);
        return value;
    }
    const NstDimNode *node = nst_dim_node(e->dims, bytes);
    NstDim outer = nst_dim_const(e->dims, 0);
    if (node->op == NST_DIM_SUM) outer = outer_part(e, node, level);
    LLVMValueRef base = hoisted_pointer(e, root, outer);
    LLVMValueRef own = nst_emit_size(e, nst_dim_sub(e->dims, bytes, outer));
    LLVMBasicBlockRef here = enter_scope(e, place);
    value = nst_llvm_offset(e->llvm, base, own);
    leave_scope(e, here);
    add_known(e, e->scopes.at[place], key, value);
    return value;
}

/* The innermost loop scope, or 0. */
static uint32_t innermost_loop(NstEmit *e)
{
    for (uint32_t level = e->scopes.n; level-- > 0;)
        if (e->scopes.at[level]->header) return level;
    return 0;
}

static LLVMValueRef new_cursor(NstEmit *e, uint32_t level, uint32_t root, NstDim coef, NstDim rest)
{
    NstScope *loop = e->scopes.at[level];
    NstDim start = nst_dim_add(e->dims, rest, nst_dim_mul(e->dims, coef, loop->begin));
    LLVMValueRef first = hoisted_pointer(e, root, start);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->llvm->builder);
    LLVMValueRef top = LLVMGetFirstInstruction(loop->header);
    if (top)
        LLVMPositionBuilderBefore(e->llvm->builder, top);
    else
        LLVMPositionBuilderAtEnd(e->llvm->builder, loop->header);
    LLVMValueRef phi = LLVMBuildPhi(e->llvm->builder, e->llvm->ptr, "");
    leave_scope(e, here);
    LLVMBasicBlockRef before = e->scopes.at[level - 1]->block;
    LLVMAddIncoming(phi, &first, &before, 1);
    NstCursor cursor = {root, coef, rest, phi};
    nst_vec_push(e->arena, &loop->cursors, cursor);
    return phi;
}

static bool has_stride(const NstScope *loop, NstDim distance)
{
    for (uint32_t k = 0; k < loop->strides.n; k++)
        if (nst_dim_same(loop->strides.at[k], distance)) return true;
    return false;
}

/* An address that runs with the loop: a cursor, perhaps of a neighbour, and the distance to it. */
static LLVMValueRef running_pointer(NstEmit *e, uint32_t level, uint32_t root, NstDim coef, NstDim rest)
{
    NstScope *loop = e->scopes.at[level];
    NstCursor *shared = NULL;
    NstDim distance = {0};
    for (uint32_t k = 0; k < loop->cursors.n; k++) {
        NstCursor *cursor = &loop->cursors.at[k];
        if (cursor->root != root || !nst_dim_same(cursor->coef, coef)) continue;
        int64_t constant;
        distance = nst_dim_sub(e->dims, rest, cursor->rest);
        if (nst_dim_is_const(e->dims, distance, &constant))
            return nst_llvm_offset_const(e->llvm, cursor->phi, constant);
        if (has_stride(loop, distance)) return nst_llvm_offset(e->llvm, cursor->phi, nst_emit_size(e, distance));
        shared = cursor;
    }
    if (!shared || loop->strides.n >= NST_SCOPE_STRIDES) return new_cursor(e, level, root, coef, rest);
    nst_vec_push(e->arena, &loop->strides, distance);
    return nst_llvm_offset(e->llvm, shared->phi, nst_emit_size(e, distance));
}

LLVMValueRef nst_emit_address(NstEmit *e, uint32_t root, NstDim bytes)
{
    const NstDimNode *node = nst_dim_node(e->dims, bytes);
    int64_t constant = node->op == NST_DIM_SUM || node->op == NST_DIM_CONST ? node->value : 0;
    NstDim moving = nst_dim_add_const(e->dims, bytes, -constant);
    uint32_t level = innermost_loop(e);
    NstScope *loop = e->scopes.at[level];
    NstDim coef, rest;
    bool runs = loop->has_cursors && nst_dim_uses(e->dims, moving, loop->var) &&
                nst_dim_linear(e->dims, moving, loop->var, &coef, &rest);
    if (runs && level_of(e, coef) < level && level_of(e, rest) < level)
        return nst_llvm_offset_const(e->llvm, running_pointer(e, level, root, coef, rest), constant);
    return nst_llvm_offset_const(e->llvm, hoisted_pointer(e, root, moving), constant);
}

void nst_emit_step_cursors(NstEmit *e, LLVMBasicBlockRef latch)
{
    NstScope *loop = e->scopes.at[e->scopes.n - 1];
    for (uint32_t k = 0; k < loop->cursors.n; k++) {
        NstCursor *cursor = &loop->cursors.at[k];
        LLVMValueRef step = nst_emit_size(e, nst_dim_mul_const(e->dims, cursor->coef, loop->step));
        LLVMValueRef next = nst_llvm_offset(e->llvm, cursor->phi, step);
        LLVMAddIncoming(cursor->phi, &next, &latch, 1);
    }
}
