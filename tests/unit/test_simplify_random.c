/* test_simplify_random.c: random kernels with guards, lets and odd bounds compute the same after the simplify pass. */
#include <criterion/criterion.h>
#include <string.h>
#include "passes/simplify.h"
#include "tests/unit/support_loop.h"

#define KERNELS   800
#define MAX_DEPTH 4

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(simplify_random, .init = begin, .fini = end);

/* A kernel being written: names in scope are v0, v1 .. (index variables) and t0, t1 .. (lets). */
typedef struct Writer {
    NstText text;
    uint64_t state;
    int n_vars, n_lets, n_names;
    int var[16], let[16]; /* numbers of the names in scope */
    int lane;             /* number of the lane variable of a vector loop around, or -1 */
    bool branched;        /* inside an if */
} Writer;

static int pick(Writer *w, int n)
{
    w->state = w->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((w->state >> 33) % (uint64_t)n);
}

static void put(Writer *w, const char *text)
{
    nst_text_add(&w->text, "%s", text);
}

/* A small linear dim of what is in scope. */
static void put_linear(Writer *w)
{
    static const char *const sizes[] = {"0", "1", "2", "3", "n", "m", "n - 1", "m + 2", "5"};
    int terms = w->n_vars ? pick(w, 3) : 0;
    for (int k = 0; k < terms; k++) {
        static const char *const factors[] = {"", "2*", "3*"};
        nst_text_add(&w->text, "%sv%d%s", factors[pick(w, 3)], w->var[pick(w, w->n_vars)], pick(w, 4) ? " + " : " - ");
    }
    put(w, sizes[pick(w, 9)]);
}

/* An index within 0..n-1. */
static void put_index(Writer *w)
{
    put(w, "mod(");
    put_linear(w);
    put(w, ", n)");
}

static void put_condition(Writer *w, int depth)
{
    static const char *const compares[] = {"<", "<=", ">", ">=", "==", "!="};
    if (depth > 0 && pick(w, 3) == 0) {
        put(w, "(");
        put_condition(w, depth - 1);
        put(w, pick(w, 3) ? " & " : " | ");
        put_condition(w, depth - 1);
        put(w, ")");
        return;
    }
    put(w, "(index(");
    put_linear(w);
    nst_text_add(&w->text, ") %s index(", compares[pick(w, 6)]);
    put_linear(w);
    put(w, "))");
}

static void put_value(Writer *w, int depth)
{
    switch (pick(w, depth > 0 ? 7 : 4)) {
    case 0: put(w, "x["), put_index(w), put(w, "]"); return;
    case 1: put(w, "y["), put_index(w), put(w, "]"); return;
    case 2:
        if (w->n_lets)
            nst_text_add(&w->text, "t%d", w->let[pick(w, w->n_lets)]);
        else
            put(w, "0.5f32");
        return;
    case 3: put(w, "convert<f32>(index("), put_linear(w), put(w, "))"); return;
    case 4:
        put(w, "("), put_condition(w, 1);
        put(w, " ? "), put_value(w, depth - 1), put(w, " : "), put_value(w, depth - 1), put(w, ")");
        return;
    default:
        put(w, "("), put_value(w, depth - 1);
        put(w, pick(w, 2) ? " + " : " * ");
        put_value(w, depth - 1), put(w, ")");
    }
}

static void put_block(Writer *w, int depth);

static void put_range(Writer *w, bool constant)
{
    static const char *const fixed[] = {"0..3", "1..2", "0..0", "0..5 step 2"};
    static const char *const ranges[] = {"0..n", "0..m",          "2..n - 1", "0..1",
                                         "n..m", "0..2*n step 3", "m..m + 1", "0..4"};
    /* As splits and cuts leave them. */
    static const char *const pieces[] = {"0..min(2, n)", "max(n - 2, 0)..n", "0..floordiv(n + 2, 3)",
                                         "0..3*floordiv(n, 3) step 3"};
    if (constant)
        put(w, fixed[pick(w, 4)]);
    else if (w->n_vars && pick(w, 4) == 0)
        nst_text_add(&w->text,
                     pick(w, 3)   ? "v%d..n"
                     : pick(w, 2) ? "0..v%d"
                                  : "2*v%d..min(2*n, 9)",
                     w->var[pick(w, w->n_vars)]);
    else if (pick(w, 4) == 0)
        put(w, pieces[pick(w, 4)]);
    else
        put(w, ranges[pick(w, 8)]);
}

static void put_for(Writer *w, int depth)
{
    int lane = w->lane, kind = pick(w, 6);
    bool vector = kind == 0 && lane < 0;
    nst_text_add(&w->text, "for %s v%d in ", vector ? "vector" : kind == 1 ? "unroll" : "", w->n_names);
    if (vector)
        put(w, "0..min(n, 8) width 8");
    else if (lane >= 0)
        put(w, "0..3"); /* the same for all lanes */
    else
        put_range(w, kind == 1);
    if (vector) w->lane = w->n_names;
    w->var[w->n_vars++] = w->n_names++;
    put(w, " {\n");
    put_block(w, depth - 1);
    put(w, "}\n");
    w->n_vars--;
    w->lane = lane;
}

static void put_store(Writer *w)
{
    bool update = pick(w, 3) == 0;
    NstText index;
    nst_text_init(&index, ctx.arena);
    if (w->lane >= 0) {
        nst_text_add(&index, "v%d", w->lane);
    } else {
        size_t mark = w->text.n;
        put_index(w);
        nst_text_add(&index, "%s", w->text.at + mark);
        w->text.n = mark;
        w->text.at[mark] = '\0';
    }
    nst_text_add(&w->text, "%sy[%s] = ", update ? "update " : "", index.at);
    if (update) nst_text_add(&w->text, "y[%s] + ", index.at);
    put_value(w, 2);
    put(w, update ? " merge a + b from 0f32\n" : "\n");
}

static void put_if(Writer *w, int depth)
{
    put(w, "if ("), put_condition(w, 2), put(w, ") {\n");
    put_block(w, depth - 1);
    put(w, "}");
    if (pick(w, 3) == 0) {
        put(w, " else {\n");
        put_block(w, depth - 1);
        put(w, "}");
    }
    put(w, "\n");
}

static void put_block(Writer *w, int depth)
{
    int lets = w->n_lets, n = 1 + pick(w, depth > 0 ? 3 : 2);
    for (int k = 0; k < n; k++) {
        int what = pick(w, depth > 0 ? 6 : 3);
        if (what == 0 && w->n_lets < 12) {
            nst_text_add(&w->text, "let t%d: f32 = ", w->n_names);
            put_value(w, 2);
            put(w, "\n");
            w->let[w->n_lets++] = w->n_names++;
        } else if (what < 3) {
            put_store(w);
        } else if (what == 3) {
            put_if(w, depth);
        } else {
            put_for(w, depth);
        }
    }
    w->n_lets = lets;
}

static NstKernel *random_kernel(uint64_t seed)
{
    Writer w = {.state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1, .lane = -1};
    nst_text_init(&w.text, ctx.arena);
    put(&w, "kernel r(n min 1, m)\nin x: f32[n]\ninout y: f32[n]\n{\n");
    put_block(&w, MAX_DEPTH);
    put(&w, "}\n");
    return nst_test_parse_kernel(&ctx, w.text.at);
}

static void expect_same(const NstKernel *given, const NstKernel *changed, uint64_t seed)
{
    static const int64_t sizes[][2] = {{1, 0}, {2, 3}, {5, 1}, {9, 7}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        nst_test_same_results(&ctx, given, changed, sizes[k], seed);
}

Test(simplify_random, keeps_what_random_kernels_compute)
{
    int n_changed = 0;
    for (uint64_t seed = 0; seed < KERNELS; seed++) {
        NstKernel *given = random_kernel(seed), *changed = nst_kernel_clone(ctx.arena, given);
        bool any;
        cr_assert_eq(nst_pass_simplify(&ctx, changed, &any), NST_OK, "%s", ctx.error);
        n_changed += any;
        expect_same(given, changed, seed);
    }
    cr_expect_gt(n_changed, KERNELS / 2);
}
