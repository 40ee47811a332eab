/* support_sizes.c: see support_sizes.h. */
#include "tests/unit/support_sizes.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include "tests/unit/support_module.h"
#include "tests/unit/support_random_graph.h"

#define REFUSED_PER 20

/* What models of numbers have; no steps of the plan that are no kernels. */
#define PRIMS                                                                                                          \
    (~(1u << NST_PRIM_SORT | 1u << NST_PRIM_COMPACT | 1u << NST_PRIM_RANDOM_BITS | 1u << NST_PRIM_HOST |               \
       1u << NST_PRIM_IF | 1u << NST_PRIM_LOOP | 1u << NST_PRIM_ASSERT | 1u << NST_PRIM_BITCAST))
#define DTYPES (1u << NST_F32 | 1u << NST_F16 | 1u << NST_I8 | 1u << NST_U8 | 1u << NST_I32 | 1u << NST_I64)

static const char *const kind_name[SIZES_KINDS] = {"moments", "reciprocals", "rows",  "strips",   "tiles",    "dots",
                                                   "windows", "bytes",       "packs", "siblings", "sequences"};

/* A size that is declared: in its place the number, or (bounds) only its bounds say it. */
typedef struct Declared {
    const char *name;
    int64_t size;
    bool bounds;
} Declared;

static const Declared *find(const Declared *declared, int n, const char *word, size_t length)
{
    for (int k = 0; k < n; k++)
        if (strlen(declared[k].name) == length && strncmp(declared[k].name, word, length) == 0) return &declared[k];
    return NULL;
}

/* Part of the text with sizes declared: in words outside of quoted formulas and of values' names. */
static void declare_words(NstText *made, const char *p, const char *end, const Declared *declared, int n)
{
    bool quoted = false;
    while (p < end) {
        size_t length = 0;
        bool word = isalpha((unsigned char)*p) || *p == '_' || *p == '%';
        while (word && (length == 0 || isalnum((unsigned char)p[length]) || p[length] == '_')) length++;
        if (length == 0) length = 1;
        const Declared *is = quoted ? NULL : find(declared, n, p, length);
        if (*p == '"') quoted = !quoted;
        if (is && !is->bounds)
            nst_text_add(made, "%lld", (long long)is->size);
        else
            nst_text_add(made, "%.*s", (int)length, p);
        p += length;
    }
}

/* The graph's text with sizes declared. */
static const char *declare(NstCtx *ctx, const char *text, const Declared *declared, int n)
{
    NstText made;
    const char *p = strstr(text, "  symbols "), *separator = "  symbols ";
    nst_text_init(&made, ctx->arena);
    cr_assert(p, "%s", text);
    declare_words(&made, text, p, declared, n);
    for (p += strlen(separator); *p != '\n';) { /* NAME in LO..HI, ... */
        size_t length = strcspn(p, ",\n");
        const Declared *is = find(declared, n, p, strcspn(p, " "));
        if (!is) nst_text_add(&made, "%s%.*s", separator, (int)length, p);
        if (is && is->bounds)
            nst_text_add(&made, "%s%s in %lld..%lld", separator, is->name, (long long)is->size, (long long)is->size);
        if (!is || is->bounds) separator = ", ";
        p += length + strspn(p + length, ", ");
    }
    declare_words(&made, p, p + strlen(p), declared, n);
    return nst_text_get(&made);
}

/* The seed's way to declare: both sizes, both by bounds, one or the other. */
static int choose(uint64_t seed, const int64_t size[2], Declared *declared)
{
    int n = 0, way = (int)(seed % 6);
    for (int s = 0; s < 2; s++)
        if (way < 4 || way - 4 == s) declared[n++] = (Declared){s ? "m" : "n", size[s], way == 3};
    return n;
}

static const char *sizes_text(NstCtx *ctx, const int64_t size[2], const Declared *declared, int n)
{
    NstText text;
    nst_text_init(&text, ctx->arena);
    for (int s = 0; s < 2; s++) {
        const Declared *is = find(declared, n, s ? "m" : "n", 1);
        if (!is || is->bounds) nst_text_add(&text, "%s=%lld ", s ? "m" : "n", (long long)size[s]);
    }
    return nst_text_get(&text);
}

/* NULL if both runs gave the same bits, else what differs. */
static const char *difference(NstCtx *ctx, const ModuleRun *a, const ModuleRun *b)
{
    for (uint32_t k = 1; k < a->module->buffers.n; k++) {
        const NstModuleBuffer *item = &a->module->buffers.at[k];
        char what[200];
        if (item->role != NST_ROLE_OUTPUT) continue;
        uint32_t r = item->index;
        NstTensorValue x = {.dtype = item->buffer.dtype, .rank = 1, .data = a->result[r], .bytes = a->bytes[r]}, y;
        x.shape[0] = (int64_t)a->bytes[r] / nst_dtype_info(x.dtype)->bytes;
        y = x;
        y.data = b->result[r];
        if (a->bytes[r] != b->bytes[r]) return nst_format(ctx->arena, "result %u has other bytes", r);
        if (!random_same_bits(&x, &y, what, sizeof what)) return nst_format(ctx->arena, "result %u, %s", r, what);
    }
    return NULL;
}

/* --- kinds of kernels ----------------------------------------------------------------------------------------- */

static void note_division(void *arg, NstExpr e, const NstExprNode *node)
{
    (void)e;
    *(const NstExprNode **)arg = node->op == NST_OP_DIV ? node : *(const NstExprNode **)arg;
}

static void note_nest(const NstModule *module, const NstNest *nest, bool *has)
{
    for (uint32_t k = 0; k < nest->n_states; k++)
        has[SIZES_MOMENTS] |= nest->n_states == 2 && nst_expr(module->exprs, nest->state[k].step)->op == NST_OP_FMA;
    for (uint32_t o = 0; o < nest->n_outs; o++) {
        const NstExprNode *division = NULL;
        nst_expr_visit(module->exprs, nest->out[o].value, note_division, &division);
        const NstExprNode *one = division ? nst_expr(module->exprs, division->arg[0]) : NULL;
        has[SIZES_RECIPROCAL] |= one && one->op == NST_OP_CONST && one->imm.f == 1;
    }
    has[SIZES_WINDOWS] |= nest->guard.i != 0;
}

static void note_group(NstModule *module, const NstGroup *group, bool *has)
{
    int contractions = 0;
    has[SIZES_SIBLINGS] |= nst_is_sibling_group(group);
    has[SIZES_SEQUENCES] |= group->sequence;
    has[SIZES_ROWS] |= group->n_axes > 0 && group->items.n > 1 && !group->serial;
    has[SIZES_TILES] |= group->tile != NULL;
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstNest *nest = group->items.at[k].nest;
        NstContraction c;
        if (!nest) note_group(module, group->items.at[k].group, has);
        if (!nest) continue;
        note_nest(module, nest, has);
        if (!nst_nest_contraction(module, nest, &c)) continue;
        contractions += c.n_rows + c.n_cols > 0;
        has[SIZES_LANES] |= nest->lanes > 1;
        has[SIZES_BYTES] |= nst_dtype_is_int(nest->state[0].dtype) && group->tile;
    }
    has[SIZES_STRIPS] |= group->n_axes > 0 && contractions > 1;
}

static void note_kinds(const ModuleRun *run, SizesReport *report)
{
    bool has[SIZES_KINDS] = {false};
    has[SIZES_PACKS] = run->module->prepack.n > 0;
    for (uint32_t g = 0; g < run->module->groups.n; g++) note_group(run->module, run->module->groups.at[g], has);
    for (int k = 0; k < SIZES_KINDS; k++) report->of[k] += has[k];
}

/* --- graphs --------------------------------------------------------------------------------------------------- */

static void check_seed(uint64_t seed, const NstTarget *target, bool show, SizesReport *report)
{
    NstCtx ctx;
    NstTensorValue input[8];
    NstText text;
    Declared declared[2];
    int64_t sym[64] = {0}, size[2];
    ModuleRun run[2];
    static const NstPassOptions all;
    RandomOptions options = {.seed = seed, .prims = PRIMS, .dtypes = DTYPES, .n_nodes = 6, .rounding = true};
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    NstGraph *graph = random_graph(&ctx, ctx.arena, &options, NULL);
    random_rounding_inputs(&ctx, ctx.arena, graph, &options, input, sym);
    for (int s = 0; s < 2; s++) size[s] = sym[nst_dims_find_sym(graph->dims, s ? "m" : "n", 1).i];
    nst_text_init(&text, ctx.arena);
    nst_graph_print(&text, graph);
    int n = choose(seed, size, declared);
    ModuleCase open = {.text = nst_text_get(&text), .sizes = sizes_text(&ctx, size, NULL, 0), .input = input};
    ModuleCase fixed = open;
    fixed.text = declare(&ctx, open.text, declared, n);
    fixed.sizes = sizes_text(&ctx, size, declared, n);
    fixed.orders = open.text;
    fixed.sequences = seed % 2;
    open.sequences = seed / 2 % 2;
    if (show) fprintf(stderr, "%s%s\n%s%s\n", open.text, open.sizes, fixed.text, fixed.sizes);
    bool two = seed / 6 % 2;
    NstStatus status = support_try_module(&ctx, &open, target, &all, two ? 2 : 1, &run[0]);
    if (status == NST_OK) status = support_try_module(&ctx, &fixed, target, &all, two ? 1 : 2, &run[1]);
    report->graphs++;
    if (status == NST_E_UNSUPPORTED) {
        report->refused++;
    } else {
        const char *wrong = status == NST_OK ? difference(&ctx, &run[0], &run[1]) : ctx.error;
        if (status == NST_OK) note_kinds(&run[1], report);
        report->failed += wrong != NULL;
        if (wrong) fprintf(stderr, "seed %lu: %.600s\n", seed, wrong);
    }
    nst_ctx_dispose(&ctx);
}

void support_check_sizes(uint64_t first, uint64_t last, SizesReport *report)
{
    const char *only = getenv("NST_DIFF_SEED"), *count = getenv("NST_DIFF_COUNT");
    NstCtx ctx;
    NstTarget target;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    cr_assert_eq(nst_target_parse(&ctx, "host", &target), NST_OK);
    if (only) first = last = strtoull(only, NULL, 10);
    if (!only && count) last = strtoull(count, NULL, 10);
    *report = (SizesReport){0};
    for (uint64_t seed = first; seed <= last; seed++) check_seed(seed, &target, only != NULL, report);
    fprintf(stderr, "%lu graphs, %lu refused as unsupported; with", report->graphs, report->refused);
    for (int k = 0; k < SIZES_KINDS; k++) fprintf(stderr, " %s %lu", kind_name[k], report->of[k]);
    fprintf(stderr, "\n");
    cr_expect_eq(report->failed, 0, "%lu graphs give other bits for declared sizes", report->failed);
    cr_expect_leq(report->refused * REFUSED_PER, report->graphs + REFUSED_PER, "more than one graph in %d is refused",
                  REFUSED_PER);
    nst_ctx_dispose(&ctx);
}

void support_check_kinds(const SizesReport *report)
{
    for (int k = 0; k < SIZES_KINDS; k++) cr_expect_gt(report->of[k], 0, "no graph has %s", kind_name[k]);
}
