/* test_int_windows.c: 8-bit windows with padding give the interpreter's bits, as pairs of 16-bit differences or, where the target multiplies
 * words, from a copy with the zero point around it: every mix of signs and zero points, odd channels, strides, open sizes, products of
 * one step of a time loop. */
#include <criterion/criterion.h>
#include "tests/unit/support_amx.h"
#include "tests/unit/support_module.h"

static const char *const targets[] = {"baseline", "avx2", "vnni", "amx"};

typedef struct Window {
    const char *x, *k; /* types */
    int channels, outputs, stride;
    bool zero_x, zero_k;
    const char *size; /* of x along both axes: "9" or "n" */
} Window;

/* Channels last, as the layout pass makes it.  The zero point of x is an input: it is known when the quantised values are. */
static const char *window_text(NstCtx *ctx, const Window *w)
{
    const char *last = !strcmp(w->size, "n") ? nst_format(ctx->arena, "floordiv(n - 1, %d) + 1", w->stride)
                                             : nst_format(ctx->arena, "%d", (atoi(w->size) - 1) / w->stride + 1);
    const char *text = nst_format(
        ctx->arena,
        "graph t(q: %s[1, %s, %s, %d], z: %s[]) {\n%s  %%x = permute [0, 3, 1, 2] %%q\n"
        "  %%k = const %s[%d, %d, 3, 3] seed 3\n"
        "  %%w = window [axis 2 size 3 stride %d dilation 1 pad 1, 1; axis 3 size 3 stride %d dilation 1 pad 1, 1] %%x"
        " : %s[1, %d, %s, %s, 3, 3]\n",
        w->x, w->size, w->size, w->channels, w->x, !strcmp(w->size, "n") ? "  symbols n in 1..64\n" : "", w->k,
        w->outputs, w->channels, w->stride, w->stride, w->x, w->channels, last, last);
    return nst_format(
        ctx->arena,
        "%s  %%y = contract \"nchwij,ocij;->nohw\" pre 0 \"convert<i32>(a)%s\" pre 1 \"convert<i32>(a)%s\" "
        "acc i32 %%w, %%k, %%z\n"
        "  %%f = map \"convert<f32>(a) * 0.5\" %%y\n  %%o = permute [0, 2, 3, 1] %%f\n  return y = %%o\n}\n",
        text, w->zero_x ? " - convert<i32>(b)" : "", w->zero_k ? " - 119" : "");
}

static bool has_group(const ModuleRun *run, const char *name)
{
    for (uint32_t k = 0; k < run->module->groups.n; k++)
        if (strstr(run->module->groups.at[k]->name, name)) return true;
    return false;
}

static void check(NstCtx *ctx, const Window *w, const char *sizes)
{
    ModuleCase test = {.text = window_text(ctx, w), .sizes = sizes, .seed = 7};
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
        NstTarget target;
        if (!support_runnable_target(ctx, targets[t], &target)) continue;
        const char *what = nst_format(ctx->arena, "%s, %s by %s, %d channels", targets[t], w->x, w->k, w->channels);
        support_same_on_threads(ctx, &test, &target, what);
        ModuleRun run = support_run_module(ctx, &test, &target, NULL, 1);
        bool words = target.level >= NST_TARGET_AVX512_VNNI;
        cr_assert_eq(has_group(&run, "differences"), !words && w->channels >= 4, "%s", what);
        cr_assert_eq(has_group(&run, "surrounded"), words && w->channels >= 4, "%s", what);
    }
}

Test(int_windows, every_mix_of_signs_and_zero_points)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    for (int k = 0; k < 8; k++) {
        Window w = {k & 1 ? "u8" : "i8", k & 2 ? "u8" : "i8", 6, 18, 1, k >> 2 & 1, k < 4, "5"};
        check(&ctx, &w, NULL);
    }
    nst_ctx_dispose(&ctx);
}

Test(int_windows, channels_strides_and_open_sizes)
{
    static const Window cases[] = {{"u8", "u8", 5, 33, 2, true, true, "9"}, {"u8", "i8", 24, 16, 1, true, false, "6"},
                                   {"u8", "u8", 4, 3, 1, true, true, "5"},  {"u8", "u8", 3, 16, 1, true, true, "6"},
                                   {"i8", "u8", 7, 20, 1, true, true, "n"}, {"u8", "i8", 8, 16, 2, true, false, "n"}};
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        check(&ctx, &cases[k], strcmp(cases[k].size, "n") ? NULL : "n=11");
    nst_ctx_dispose(&ctx);
}

/* Enough of channels and columns for matrix registers: whole ones of k and others, rows that end in the middle of one. */
Test(int_windows, by_matrix_registers)
{
    static const Window cases[] = {
        {"u8", "i8", 64, 32, 1, true, false, "18"}, {"i8", "u8", 48, 20, 1, true, true, "9"},
        {"u8", "u8", 70, 16, 1, true, true, "7"},   {"u8", "i8", 32, 40, 2, true, true, "35"},
        {"i8", "i8", 40, 16, 1, false, true, "n"},  {"u8", "i8", 64, 17, 2, true, false, "n"}};
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        check(&ctx, &cases[k], strcmp(cases[k].size, "n") ? NULL : "n=37");
    nst_ctx_dispose(&ctx);
}

/* The product of a time step: words of four where nothing has to run before it in each step, else as it was. */
static const char *step_text(NstCtx *ctx, const char *weights, int hidden)
{
    return nst_format(
        ctx->arena,
        "graph t(x: f32[4, 2, %d], h0: f32[2, %d]) {\n  %%r = const %s[%d, %d] seed 3\n"
        "  %%steps = dim_value 4\n"
        "  %%last = loop trips %%steps while none states %%h0 body(%%t: i64[], %%go: b1[], %%h: f32[2, %d]) {\n"
        "    %%row = slice start [%%t, 0, 0] %%x : f32[1, 2, %d]\n    %%in = reshape %%row : f32[2, %d]\n"
        "    %%m = reduce \"max(a, b)\" axes [0, 1] keep %%h : f32[1, 1]\n"
        "    %%z = map \"convert<u8>(convert<i32>(max(min(b * 10 + 99, 255), 0)) + convert<i32>(a * 0))\" %%m, %%m "
        ": u8[1, 1]\n"
        "    %%q = map \"convert<u8>(convert<i32>(max(min(round(a / (abs(b) + 0.5) * 50) + 100, 255), 0)))\" "
        "%%h, %%m : u8[2, %d]\n    %%z0 = reshape %%z : u8[]\n"
        "    %%u = contract \"bk,kj;->bj\" pre 0 \"convert<i32>(a) - convert<i32>(b)\" pre 1 \"convert<i32>(a)\" "
        "acc i32 %%q, %%r, %%z0 : i32[2, %d]\n"
        "    %%y = map \"tanh(convert<f32>(a) * 0.0001) + b * 0.5\" %%u, %%in : f32[2, %d]\n"
        "    yield %%go, %%y\n  }\n  return last = %%last\n}\n",
        hidden, hidden, weights, hidden, hidden, hidden, hidden, hidden, hidden, hidden, hidden);
}

Test(int_windows, products_of_a_time_step)
{
    static const struct {
        const char *weights;
        int hidden;
    } cases[] = {{"i8", 64}, {"i8", 70}, {"u8", 64}};
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ModuleCase test = {.text = step_text(&ctx, cases[k].weights, cases[k].hidden), .seed = k + 1};
        for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
            NstTarget target;
            if (nst_target_parse(&ctx, targets[t], &target) == NST_OK)
                support_same_on_threads(&ctx, &test, &target, nst_format(ctx.arena, "%s, case %zu", targets[t], k));
            else
                nst_ctx_clear(&ctx);
        }
    }
    nst_ctx_dispose(&ctx);
}
