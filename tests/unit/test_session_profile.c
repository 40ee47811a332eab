/* test_session_profile.c: what a session tells of its work: progress while it compiles, profiles of its runs. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include "tests/unit/support_engine.h"

SUPPORT_ENGINE_SUITE(session_profile, .timeout = 110);

static NstModel *model;
static NstSession *session;

static const char product[] = "graph mm(a: f32[m, k], b: f32[k, n]) {\n"
                              "  %c = contract \"mk,kn->mn\" %a, %b\n"
                              "  return y = %c\n"
                              "}\n";

static const char sums[] = "graph sums(x: f32[n, 50]) {\n"
                           "  %e = map \"exp(a)\" %x\n"
                           "  %s = reduce \"a + b\" axes [1] %e\n"
                           "  return sum = %s\n"
                           "}\n";

static void open_session(const char *text, const NstSessionOptions *options)
{
    support_engine_open_graph(engine, text, options, &model, &session);
}

/* --- progress ------------------------------------------------------------------------------------------------- */

typedef struct Heard {
    _Atomic int calls, inside; /* inside: calls that run now */
    uint32_t done, total;      /* of the last call */
    bool fell, overlapped, named;
} Heard;

static void hear(void *arg, const char *name, uint32_t done, uint32_t total)
{
    Heard *heard = arg;
    heard->overlapped |= heard->inside++ != 0;
    heard->fell |= done < heard->done || total < heard->total || done > total;
    heard->named = strcmp(name, "test") == 0;
    heard->done = done;
    heard->total = total;
    heard->calls++;
    heard->inside--;
}

/* Products of different widths, each a kernel of its own. */
static const char several[] = "graph several(x: f32[n, 8]) {\n"
                              "  %w1 = const f32[8, 16] seed 1\n"
                              "  %w2 = const f32[16, 24] seed 2\n"
                              "  %w3 = const f32[24, 40] seed 3\n"
                              "  %w4 = const f32[40, 8] seed 4\n"
                              "  %a = contract \"ik,kj->ij\" %x, %w1 : f32[n, 16]\n"
                              "  %b = contract \"ik,kj->ij\" %a, %w2 : f32[n, 24]\n"
                              "  %d = contract \"ik,kj->ij\" %b, %w3 : f32[n, 40]\n"
                              "  %y = contract \"ik,kj->ij\" %d, %w4 : f32[n, 8]\n"
                              "  return y = %y\n"
                              "}\n";

Test(session_profile, progress_counts_kernels_one_call_at_a_time_and_not_from_a_cache)
{
    Heard heard = {0};
    NstEngineOptions options = {.threads = 2, .cache = "", .progress = hear, .progress_arg = &heard};
    NstSessionFacts facts;
    nst_engine_free(engine);
    cr_assert_eq(nst_engine_new(&options, &engine), NST_OK);
    open_session(several, NULL);
    nst_session_facts(session, &facts);
    cr_assert_geq(heard.calls, 4); /* the beginning, what is known, and each kernel that is not shared */
    cr_assert(!heard.fell && !heard.overlapped && heard.named && heard.inside == 0);
    cr_assert_eq(heard.done, heard.total);
    cr_assert(heard.total >= 3 && heard.total <= facts.kernels, "%u of %u", heard.total, facts.kernels);
    int cold = heard.calls;
    nst_session_free(session);
    cr_assert_eq(nst_session_new(model, NULL, &session), NST_OK);
    cr_assert_eq(heard.calls, cold, "the plan came from the memory of the cache");
    char *text;
    heard = (Heard){0};
    cr_assert_eq(nst_model_dump(model, NULL, NST_DUMP_PLAN, NULL, &text), NST_OK);
    nst_text_free(text);
    cr_assert(heard.calls >= 2 && heard.done == heard.total && heard.total >= 3);
    support_engine_close(&session, &model, &engine);
}

/* --- profiles ------------------------------------------------------------------------------------------------- */

static uint64_t profiled_operations(const NstProfile *profile)
{
    uint64_t sum = 0;
    NstProfileStep step;
    for (uint32_t k = 0; k < nst_profile_step_count(profile); k++) {
        cr_assert_eq(nst_profile_step(profile, k, &step), NST_OK);
        sum += step.operations;
    }
    return sum;
}

Test(session_profile, profile_counts_the_operations_of_products_at_the_sizes_of_each_run)
{
    static float x[4 * 8];
    uint64_t expected = 0;
    NstProfile *profile;
    open_session(several, NULL);
    cr_assert_eq(nst_profile_new(session, &profile), NST_OK);
    NstRunOptions options = {.profile = profile};
    for (int64_t n = 1; n <= 4; n += 3) {
        NstNamedTensor in = support_engine_floats("x", x, 2, n, 8), out = {0};
        cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, &options), NST_OK, "%s", nst_error_text());
        nst_tensor_release(&out.tensor);
        expected += 2 * (uint64_t)n * (8 * 16 + 16 * 24 + 24 * 40 + 40 * 8);
        cr_assert_eq(profiled_operations(profile), expected);
    }
    nst_profile_free(profile);
    support_engine_close(&session, &model, &engine);
}

static uint64_t operations_of(const char *text, NstNamedTensor *in, uint32_t n)
{
    NstProfile *profile;
    NstNamedTensor out = {0};
    open_session(text, NULL);
    cr_assert_eq(nst_profile_new(session, &profile), NST_OK);
    NstRunOptions options = {.profile = profile};
    cr_assert_eq(nst_session_run(session, in, n, &out, 1, &options), NST_OK, "%s", nst_error_text());
    uint64_t operations = profiled_operations(profile);
    nst_tensor_release(&out.tensor);
    nst_profile_free(profile);
    nst_session_free(session);
    nst_model_free(model);
    return operations;
}

Test(session_profile, profile_counts_no_sums_and_products_of_bytes_like_others)
{
    static float x[3 * 50];
    static uint8_t a[4 * 16];
    NstNamedTensor floats_in = support_engine_floats("x", x, 2, 3, 50);
    NstNamedTensor bytes_in = {.name = "a",
                               .tensor = {.dtype = NST_U8, .rank = 2, .shape = {4, 16}, .data = a, .bytes = sizeof a}};
    cr_expect_eq(operations_of(sums, &floats_in, 1), 0);
    cr_expect_eq(operations_of("graph g(a: u8[4, 16]) {\n"
                               "  %b = const i8[16, 16] seed 1\n"
                               "  %c = contract \"ik,kj->ij\" pre 0 \"convert<i32>(a)\" pre 1 \"convert<i32>(a)\" acc "
                               "i32 %a, %b : i32[4, 16]\n"
                               "  return c = %c\n"
                               "}\n",
                               &bytes_in, 1),
                 2 * 4 * 16 * 16);
}

Test(session_profile, profile_times_each_step)
{
    open_session(product, NULL);
    float a[64] = {0}, y[64];
    NstProfile *profile;
    cr_assert_eq(nst_profile_new(session, &profile), NST_OK);
    NstRunOptions options = {.profile = profile};
    NstNamedTensor in[2] = {support_engine_floats("a", a, 2, 8, 8), support_engine_floats("b", a, 2, 8, 8)},
                   out = support_engine_floats("y", y, 2, 8, 8);
    for (int k = 0; k < 3; k++) cr_assert_eq(nst_session_run(session, in, 2, &out, 1, &options), NST_OK);
    cr_assert_eq(nst_profile_runs(profile), 3);
    NstProfileStep step;
    for (uint32_t k = 0; k < nst_profile_step_count(profile); k++) {
        cr_assert_eq(nst_profile_step(profile, k, &step), NST_OK);
        cr_assert_not_null(step.name);
        cr_assert_gt(step.ns, 0);
    }
    cr_assert_eq(nst_profile_step(profile, nst_profile_step_count(profile), &step), NST_E_NOT_FOUND);
    nst_profile_free(profile);
    support_engine_close(&session, &model, &engine);
}
