/* test_small.c: short groups side by side are one kernel, with the same bits; long ones, open ones and repeated ones stay apart. */
#include <criterion/criterion.h>
#include <string.h>
#include "tests/unit/support_amx.h"
#include "tests/unit/support_engine.h"
#include "tests/unit/support_module.h"

static NstCtx ctx;

static void start(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void stop(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(small, .init = start, .fini = stop);

static ModuleRun run_on(const ModuleCase *test, const char *level)
{
    NstTarget target;
    NstPassOptions exact = {.strict = true};
    cr_assert_eq(nst_target_parse(&ctx, level, &target), NST_OK, "%s", ctx.error);
    return support_run_module(&ctx, test, &target, &exact, 0);
}

/* Kernels of the run, and how many of them are sequences, on every target that this machine runs; the same bits on each. */
static void check(const char *text, const char *sizes, uint32_t kernels, uint32_t sequences)
{
    static const NstTargetLevel levels[] = {NST_TARGET_AVX512, NST_TARGET_AVX2, NST_TARGET_BASELINE};
    ModuleCase test = {.text = text, .sizes = sizes, .seed = 3, .index_limit = 4, .sequences = true};
    for (size_t k = 0; k < sizeof levels / sizeof *levels; k++) {
        NstTarget target;
        const char *name = nst_target_level_name(levels[k]);
        if (!support_runnable_target(&ctx, name, &target)) continue;
        ModuleRun run = run_on(&test, name);
        cr_expect_eq(run.module->groups.n, kernels, "%u kernels on %s: %s", run.module->groups.n, name, text);
        uint32_t found = support_count_groups(run.module, support_is_sequence);
        cr_expect_eq(found, sequences, "%u sequences on %s: %s", found, name, text);
        support_same_on_threads(&ctx, &test, &target, text);
        test.unchecked = true;
        support_same_on_threads(&ctx, &test, &target, text);
        test.unchecked = false;
    }
}

/* Rows, tiles, dots and a transposed operand that is packed while running. */
Test(small, rows_tiles_and_dots)
{
    check("graph g(x: f32[4, 16]) {\n  %w = const f32[16, 24] seed 1\n  %m = reduce \"max(a, b)\" axes [1] keep %x\n"
          "  %e = map \"exp(a - b)\" %x, %m\n  %s = reduce \"a + b\" axes [1] keep %e\n  %p = map \"a / b\" %e, %s\n"
          "  %y = contract \"ik,kj->ij\" %p, %w\n  %z = contract \"ik,jk->ij\" %y, %y\n"
          "  %d = contract \"ik,ik->i\" %y, %y\n  return z = %z, d = %d\n}\n",
          NULL, 1, 1);
}

/* Products of one batch with rows in between, as strips; then what joins all of them. */
Test(small, strips)
{
    check("graph g(q: f32[2, 16, 8], k: f32[2, 24, 8], v: f32[2, 24, 8]) {\n"
          "  %s = contract \"bik,bjk->bij\" %q, %k\n  %m = reduce \"max(a, b)\" axes [2] keep %s\n"
          "  %e = map \"exp(a - b)\" %s, %m\n  %t = reduce \"a + b\" axes [2] keep %e\n  %p = map \"a / b\" %e, %t\n"
          "  %o = contract \"bij,bjd->bid\" %p, %v\n  %n = reduce \"a + b\" axes [0, 1] keep %o\n"
          "  %y = map \"a - b\" %o, %n\n  return y = %y\n}\n",
          NULL, 1, 1);
}

/* Steps in order, pieces of one result by several groups, and bytes. */
Test(small, time_loops_pieces_and_bytes)
{
    check("graph g(x: f32[3, 1, 16], h0: f32[1, 16]) {\n  %r = const f32[16, 16] seed 2\n  %steps = dim_value 3\n"
          "  %last = loop trips %steps while none states %h0 body(%t: i64[], %go: b1[], %h: f32[1, 16]) {\n"
          "    %row = slice start [%t, 0, 0] %x : f32[1, 1, 16]\n    %in = reshape %row : f32[1, 16]\n"
          "    %u = contract \"bk,kj->bj\" %h, %r : f32[1, 16]\n    %y = map \"tanh(a * 0.05 + b)\" %u, %in : f32[1, "
          "16]\n"
          "    yield %go, %y\n  }\n  %m = reduce \"max(a, b)\" axes [1] keep %last\n"
          "  %z = map \"a - b\" %last, %m\n  return z = %z\n}\n",
          NULL, 1, 1);
    check("graph g(x: f32[3, 5], u: u8[3, 12], v: i8[12, 20]) {\n  %s = prefix \"a + b\" axis 1 %x\n"
          "  %r = reduce \"a + b\" axes [0] keep %s\n  %c = concat axis 0 %s, %r\n  %t = reduce \"a + b\" axes [1] "
          "keep %c\n"
          "  %y = map \"a * b\" %c, %t\n"
          "  %i = contract \"ik,kj->ij\" pre 0 \"convert<i32>(a) - 3\" pre 1 \"convert<i32>(a)\" acc i32 %u, %v\n"
          "  return y = %y, i = %i\n}\n",
          NULL, 1, 1);
}

/* A size that is bounded so that even the largest is short; one that is not. */
Test(small, open_sizes)
{
#define TURNS                                                                                                          \
    "  %a = reduce \"a + b\" axes [0] keep %x\n  %b = map \"a - b\" %x, %a\n"                                          \
    "  %c = reduce \"a * b\" axes [1] keep %b\n  %d = map \"a - b\" %b, %c\n  return d = %d\n}\n"
    check("graph g(x: f32[n, 8]) {\n  symbols n in 1..9\n" TURNS, "n=5", 1, 1);
    check("graph g(x: f32[n, 8]) {\n  symbols n in 1..1000000\n" TURNS, "n=5", 2, 0);
}

/* What takes two threads stays alone, between sequences; where long kernels are the most, nothing is joined. */
Test(small, long_ones_stay)
{
    static const char form[] =
        "graph g(x: f32[1, %d]) {\n  %%w = const f32[%d, 48] seed 1\n  %%v = const f32[48, %d] seed 2\n"
        "  %%u = const f32[%d, 24] seed 3\n  %%t = const f32[24, 40] seed 4\n"
        "  %%a = contract \"ik,kj->ij\" %%x, %%w\n  %%b = contract \"ik,kj->ij\" %%a, %%v\n"
        "  %%c = contract \"ik,kj->ij\" %%b, %%u\n  %%d = contract \"ik,kj->ij\" %%c, %%t\n"
        "  return d = %%d\n}\n";
    check(nst_format(ctx.arena, form, 16, 16, 1400, 1400), NULL, 3, 1);
    check(nst_format(ctx.arena, form, 4000, 4000, 4000, 4000), NULL, 4, 0);
}

/* Layers of the same three products: the same sequence each time, and so one text to compile. */
Test(small, layers_repeat)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    nst_text_add(&text, "%s", "graph g(x: f32[1, 16]) {\n");
    for (int k = 0; k < 8; k++)
        nst_text_add(&text,
                     "  %%u%d = const f32[16, 24] seed %d\n  %%v%d = const f32[24, 32] seed %d\n"
                     "  %%w%d = const f32[32, 16] seed %d\n",
                     k, k, k, k + 10, k, k + 20);
    for (int k = 0; k < 8; k++)
        nst_text_add(&text,
                     "  %%a%d = contract \"ik,kj->ij\" %%%s%d, %%u%d\n  %%b%d = contract \"ik,kj->ij\" %%a%d, %%v%d\n"
                     "  %%c%d = contract \"ik,kj->ij\" %%b%d, %%w%d\n",
                     k, k ? "c" : "x", k - 1, k, k, k, k, k, k, k);
    nst_text_add(&text, "  return c = %%c7\n}\n");
    const char *made = nst_text_get(&text), *at = strstr(made, "%x-1");
    char *graph = nst_strdup(ctx.arena, made);
    memmove(graph + (at - made) + 2, at + 4, strlen(at + 4) + 1);
    check(graph, NULL, 8, 8);
    ModuleCase test = {.text = graph, .sequences = true};
    ModuleRun run = run_on(&test, "avx2");
    for (uint32_t k = 1; k < run.n_kernels; k++)
        cr_expect_str_eq(nst_text_get(&run.kernel[k].text), nst_text_get(&run.kernel[0].text), "layer %u", k);
}

/* One kernel a layer of which every one is the same: they share its code and stay apart. */
Test(small, the_same_again_and_again)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    nst_text_add(&text, "%s", "graph g(y0: f32[1, 16]) {\n  %w = const f32[16, 16] seed 1\n");
    for (int k = 0; k < 9; k++) nst_text_add(&text, "  %%y%d = contract \"ik,kj->ij\" %%y%d, %%w\n", k + 1, k);
    nst_text_add(&text, "  return y = %%y9\n}\n");
    check(nst_text_get(&text), NULL, 9, 0);
}

/* Sums that differ: as many of them as a kernel takes. */
Test(small, a_kernel_takes_so_many)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    nst_text_add(&text, "%s", "graph g(y0: f32[1, 8]) {\n");
    for (int k = 0; k < 40; k++) nst_text_add(&text, "  %%w%d = const f32[%d, %d] seed %d\n", k, k + 8, k + 9, k);
    for (int k = 0; k < 40; k++) nst_text_add(&text, "  %%y%d = contract \"ik,kj->ij\" %%y%d, %%w%d\n", k + 1, k, k);
    nst_text_add(&text, "  return y = %%y40\n}\n");
    check(nst_text_get(&text), NULL, 2, 2);
}

/* An index from data inside a sequence: the error names the node that reads with it, not its neighbours. */
Test(small_errors, an_index_error_names_its_node)
{
    static const char graph[] = "graph g(x: f32[4, 6], i: i64[4]) {\n  %s = reduce \"a + b\" axes [0] keep %x : f32[1, "
                                "6] origin \"sums (ReduceSum)\"\n"
                                "  %n = map \"a - b\" %x, %s : f32[4, 6] origin \"centre (Sub)\"\n  %t = reduce "
                                "\"max(a, b)\" axes [1] keep %n : f32[4, 1] origin \"largest (ReduceMax)\"\n"
                                "  %g = gather axis 0 %t, %i : f32[4, 1] origin \"pick (Gather)\"\n  %r = reduce \"a + "
                                "b\" axes [0] keep %g : f32[1, 1] origin \"total (ReduceSum)\"\n"
                                "  return r = %r\n}\n";
    NstEngine *engine;
    NstModel *model;
    NstSession *session;
    NstText text;
    float x[24] = {0}, r;
    int64_t index[4] = {0, 3, 4, 1};
    support_engine_begin(&ctx, &engine);
    nst_text_init(&text, ctx.arena);
    nst_text_add(&text, "%s", graph);
    support_engine_open(engine, &text, NULL, &model, &session);
    NstNamedTensor in[2] = {
        {.name = "x", .tensor = {.dtype = NST_F32, .rank = 2, .shape = {4, 6}, .data = x, .bytes = sizeof x}},
        {.name = "i", .tensor = {.dtype = NST_I64, .rank = 1, .shape = {4}, .data = index, .bytes = sizeof index}}};
    NstNamedTensor out = {.name = "r",
                          .tensor = {.dtype = NST_F32, .rank = 2, .shape = {1, 1}, .data = &r, .bytes = sizeof r}};
    cr_expect_eq(nst_session_run(session, in, 2, &out, 1, NULL), NST_E_INDEX);
    cr_expect(strstr(nst_error_text(), "pick (Gather): index 4 is given, allowed are 0 to 3"), "%s", nst_error_text());
    index[2] = 0;
    cr_expect_eq(nst_session_run(session, in, 2, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    support_engine_close(&session, &model, &engine);
    nst_ctx_dispose(&ctx);
}
