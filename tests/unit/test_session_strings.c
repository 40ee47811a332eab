/* test_session_strings.c: string tensors through sessions: given, moved, made, kept by branches and loops, handed out; compiled
 * (cold and from the cache, on one and two threads) and interpreted. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include "ir/base/arena.h"
#include "nestor/session.h"
#include "runtime/compiler.h"
#include "tests/unit/support_engine.h"
#include "tests/unit/support_folder.h"
#include "tests/unit/support_onnx.h"

extern const NstCompilerTable nst_compiler_table;

static NstEngine *engine;
static NstModel *model;
static NstSession *session;
static char folder[128];

static void start_engine(int32_t threads)
{
    NstEngineOptions options = {.threads = threads, .cache = folder};
    cr_assert_eq(nst_engine_new(&options, &engine), NST_OK, "%s", nst_error_text());
}

static void begin(void)
{
    nst_compiler_set(&nst_compiler_table);
    support_new_folder(folder, sizeof folder, "strings");
    start_engine(2);
}

static void end(void)
{
    nst_arena_fail_after(0);
    nst_arena_chunk_limit(0);
    support_engine_close(&session, &model, &engine);
    support_remove_folder(folder);
}

TestSuite(session_strings, .init = begin, .fini = end, .timeout = 110);

#define S(text)   {text, sizeof(text) - 1}
#define COUNT(at) (sizeof(at) / sizeof *(at))

static void open_text(const char *text, const NstSessionOptions *options)
{
    cr_assert_eq(nst_model_open_memory(engine, "test", text, strlen(text), &model), NST_OK, "%s", nst_error_text());
    cr_assert_eq(nst_session_new(model, options, &session), NST_OK, "%s", nst_error_text());
}

static NstTensor line(NstString *at, size_t n)
{
    return (NstTensor){.dtype = NST_STR, .rank = 1, .shape = {(int64_t)n}, .data = at, .bytes = n * sizeof *at};
}

static void check(const NstTensor *given, const NstString *expected, size_t n)
{
    size_t count = 1;
    cr_assert_eq(given->dtype, NST_STR);
    for (int axis = 0; axis < given->rank; axis++) count *= (size_t)given->shape[axis];
    cr_assert_eq(count, n, "%zu strings, expected %zu", count, n);
    for (size_t k = 0; k < n; k++) {
        const NstString *s = &((const NstString *)given->data)[k];
        bool same = s->n == expected[k].n && memcmp(s->at, expected[k].at, s->n) == 0 && s->at[s->n] == '\0';
        cr_assert(same, "string %zu is '%s' of %zu bytes, expected '%s'", k, s->at, s->n, expected[k].at);
    }
}

typedef void Use(void);

/* Compiled, from the cache, on one thread, by the interpreter. */
static void each_way(const char *text, Use *use)
{
    static const struct {
        int32_t threads, warm, interpret;
    } way[] = {{2, 0, 0}, {2, 1, 0}, {1, 1, 0}, {1, 0, 1}};
    for (size_t k = 0; k < COUNT(way); k++) {
        support_engine_close(&session, &model, &engine);
        start_engine(way[k].threads);
        NstSessionOptions options = {.fail_on_compile = way[k].warm, .interpret = way[k].interpret};
        open_text(text, &options);
        use();
        use(); /* nothing is left of the first run */
    }
}

/* --- movement -------------------------------------------------------------------------------------------------- */

static const char movement[] =
    "graph moves(words: str[n], at: i64[2], mask: b1[n]) {\n"
    "  symbols counted many in 0..1000\n"
    "  %more = const str[2] data [\"x\", \"longer than a handle\"]\n"
    "  %other = const str[] splat \"masked\"\n"
    "  %row = const str[1] splat \"masked\"\n"
    "  %all = concat axis 0 %words, %more\n"
    "  %picked = gather axis 0 %all, %at\n"
    "  %back = slice start [n - 1] step [-1] %words : str[n]\n"
    "  %sure = map \"a ? b : c\" %mask, %words, %row\n"
    "  %kept = compact axis 0 count many %mask, %words\n"
    "  %wide = pad constant lo [1] hi [0] %words, %other\n"
    "  %h = bitcast i64 %words\n"
    "  %g = bitcast i64 %back\n"
    "  %same = map \"a == b\" %h, %g\n"
    "  return same = %same, picked = %picked, back = %back, sure = %sure, kept = %kept, wide = %wide, again = %words,"
    " fixed = %more\n"
    "}\n";

static void use_movement(void)
{
    NstString words[] = {S("b"), S(""), S("a\0c"), S("\xc3\xa4")};
    int64_t at[2] = {5, 2};
    uint8_t mask[4] = {1, 0, 1, 0};
    NstNamedTensor in[3] = {{"words", line(words, 4)},
                            {"at", {.dtype = NST_I64, .rank = 1, .shape = {2}, .data = at, .bytes = 16}},
                            {"mask", {.dtype = NST_BOOL, .rank = 1, .shape = {4}, .data = mask, .bytes = 4}}};
    const NstString picked[] = {S("longer than a handle"), S("a\0c")}, fixed[] = {S("x"), S("longer than a handle")},
                    back[] = {words[3], words[2], words[1], words[0]},
                    sure[] = {words[0], S("masked"), words[2], S("masked")}, kept[] = {words[0], words[2]},
                    wide[] = {S("masked"), words[0], words[1], words[2], words[3]};
    const struct {
        const NstString *at;
        size_t n;
    } expected[] = {{picked, 2}, {back, 4}, {sure, 4}, {kept, 2}, {wide, 5}, {words, 4}, {fixed, 2}};
    NstNamedTensor out[8] = {{.name = NULL}};
    cr_assert_eq(nst_session_run(session, in, 3, out, 8, NULL), NST_OK, "%s", nst_error_text());
    for (int k = 0; k < 4; k++) cr_assert_eq(((uint8_t *)out[0].tensor.data)[k], 0);
    for (size_t k = 0; k < COUNT(expected); k++) check(&out[k + 1].tensor, expected[k].at, expected[k].n);
    for (int k = 0; k < 8; k++) nst_tensor_release(&out[k].tensor);
}

Test(session_strings, move_as_other_elements_do)
{
    each_way(movement, use_movement);
}

static void use_equal_words(void)
{
    NstString words[] = {S("one"), S("two"), S("one")};
    NstNamedTensor in = {"words", line(words, 3)}, out = {.name = "same"};
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    cr_assert_eq(memcmp(out.tensor.data, "\1\0\1", 3), 0);
    nst_tensor_release(&out.tensor);
}

/* A word of the model is the same as one that the caller gives. */
Test(session_strings, are_equal_where_their_bytes_are)
{
    each_way("graph is(words: str[n]) {\n  %one = const str[1] data [\"one\"]\n  %a = bitcast i64 %words\n"
             "  %b = bitcast i64 %one\n  %same = map \"a == b\" %a, %b\n  return same = %same\n}\n",
             use_equal_words);
}

/* --- branches and loops ---------------------------------------------------------------------------------------- */

/* Each iteration makes strings of its own; the state and the scans are what is left of them. */
static const char looped[] = "graph loops(words: str[n], flag: b1[], trips: i64[]) {\n"
                             "  symbols counted rounds in 0..1000\n"
                             "  %mark = const str[1] data [\"+\"]\n"
                             "  %tail = expand %mark : str[n]\n"
                             "  %chosen, %twice = if %flag : str[n], str[n] then {\n"
                             "    %0 = host \"string_concat\" \"\" %words, %tail : str[n]\n"
                             "    yield %0, %0\n"
                             "  } else {\n"
                             "    yield %words, %tail\n"
                             "  }\n"
                             "  %end, %all, %copy = loop trips %trips while none count rounds states %words : str[n], "
                             "str[rounds, n], str[rounds, n]"
                             " body(it: i64[], go: b1[], s: str[n]) {\n"
                             "    %longer = host \"string_concat\" \"\" %s, %words : str[n]\n"
                             "    %lost = host \"string_concat\" \"\" %longer, %longer : str[n]\n"
                             "    %more = host \"string_concat\" \"\" %longer, %tail : str[n]\n"
                             "    %is = bitcast i64 %lost\n"
                             "    %was = bitcast i64 %longer\n"
                             "    %new = map \"a == b\" %is, %was\n"
                             "    %next = map \"a ? b : c\" %new, %lost, %more\n"
                             "    yield %go, %next, %next, %next\n"
                             "  }\n"
                             "  return chosen = %chosen, twice = %twice, end = %end, all = %all, copy = %copy\n"
                             "}\n";

static void run_loop(uint8_t flag, int64_t trips, const NstString *const expected[5], const size_t n[5])
{
    NstString words[] = {S("a"), S("bc")};
    NstNamedTensor in[3] = {{"words", line(words, 2)},
                            {"flag", {.dtype = NST_BOOL, .data = &flag, .bytes = 1}},
                            {"trips", {.dtype = NST_I64, .data = &trips, .bytes = 8}}};
    NstNamedTensor out[5] = {{.name = NULL}};
    cr_assert_eq(nst_session_run(session, in, 3, out, 5, NULL), NST_OK, "%s", nst_error_text());
    for (int k = 0; k < 5; k++) check(&out[k].tensor, expected[k], n[k]);
    for (int k = 0; k < 5; k++) nst_tensor_release(&out[k].tensor);
}

static void use_loop(void)
{
    const NstString words[] = {S("a"), S("bc")}, tail[] = {S("+"), S("+")}, more[] = {S("a+"), S("bc+")},
                    all[] = {S("aa+"), S("bcbc+"), S("aa+a+"), S("bcbc+bc+")};
    run_loop(1, 2, (const NstString *[]){more, more, all + 2, all, all}, (size_t[]){2, 2, 2, 4, 4});
    run_loop(0, 0, (const NstString *[]){words, tail, words, all, all}, (size_t[]){2, 2, 2, 0, 0});
}

Test(session_strings, pass_through_branches_and_loops)
{
    each_way(looped, use_loop);
}

/* --- the interface --------------------------------------------------------------------------------------------- */

static const char same[] = "graph same(words: str[n]) {\n  return out = %words, more = %words\n}\n";

static void use_own_memory(void)
{
    NstString words[] = {S("one"), S("two")}, room[3] = {{NULL, 0}};
    NstNamedTensor in = {"words", line(words, 2)}, out = {"more", line(room, 3)};
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    cr_assert_eq(out.tensor.data, room);
    cr_assert_not_null(out.tensor.owned);
    check(&out.tensor, words, 2);
    cr_assert_neq(room[0].at, words[0].at); /* a copy */
    nst_tensor_release(&out.tensor);
    out.tensor = line(room, 1);
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_E_INVALID);
    cr_assert_str_eq(nst_error_text(), "output 'more' is given 16 bytes, it has 32");
}

Test(session_strings, go_to_elements_of_the_caller)
{
    each_way(same, use_own_memory);
}

static void use_odd_forms(void)
{
    static char unaligned[3 * sizeof(NstString) + 1];
    NstString words[] = {S("a"), S("-"), S("b"), {NULL, 0}}, wanted[] = {S("a"), S("b")}, none[] = {S("")};
    int64_t stride = 2;
    NstNamedTensor in = {"words", line(words, 2)}, out = {.name = "out"};
    in.tensor.strides = &stride;
    in.tensor.bytes = 3 * sizeof *words;
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    check(&out.tensor, wanted, 2);
    nst_tensor_release(&out.tensor);
    memcpy(unaligned + 1, words, 3 * sizeof *words);
    in.tensor.data = unaligned + 1;
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    check(&out.tensor, wanted, 2);
    nst_tensor_release(&out.tensor);
    in.tensor = line(words + 3, 1); /* empty, without bytes */
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    check(&out.tensor, none, 1);
    nst_tensor_release(&out.tensor);
    in.tensor = line(NULL, 0);
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    check(&out.tensor, NULL, 0);
    nst_tensor_release(&out.tensor);
}

Test(session_strings, may_be_strided_unaligned_empty_or_none)
{
    each_way(same, use_odd_forms);
}

static void use_wrong_calls(void)
{
    NstString words[] = {S("a"), {NULL, 5}, {"a", SIZE_MAX}};
    NstNamedTensor in = {"words", line(words, 2)}, out = {.name = "out"};
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_E_INVALID);
    cr_assert_str_eq(nst_error_text(), "input 'words': string 1 is given as NULL with 5 bytes");
    in.tensor = line(words + 2, 1);
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_E_LIMIT);
    cr_assert_not_null(strstr(nst_error_text(), "allowed: at most 2147483647"), "%s", nst_error_text());
    in.tensor = line(words, 1);
    in.tensor.bytes = 8;
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_E_INVALID);
    cr_assert_str_eq(nst_error_text(), "input 'words' is given 8 bytes, its shape needs 16");
    cr_assert_null(out.tensor.data);
}

Test(session_strings, that_cannot_be_are_refused)
{
    each_way(same, use_wrong_calls);
}

static void use_other_form(void)
{
    float x[4] = {1, 2, 3, 4};
    NstString words[] = {S("a"), S("b")};
    NstNamedTensor in[2] = {{"x", {.dtype = NST_F32, .rank = 1, .shape = {4}, .data = x, .bytes = 16}},
                            {"w", line(words, 2)}},
                   out = {.name = "y"};
    cr_assert_eq(nst_session_run(session, in, 2, &out, 1, NULL), NST_E_INVALID, "%s", nst_error_text());
    cr_assert_not_null(strstr(nst_error_text(), "a step of another form"), "%s", nst_error_text());
}

/* A function over strings that is called with something else reads and writes nothing of it. */
Test(session_strings, are_what_their_functions_are_given)
{
    static const char *const steps[] = {
        "\"string_concat\" \"\" %x, %x : str[4]", "\"string_concat\" \"\" %w, %w : i8[2]",
        "\"string_concat\" \"\" %w : str[2]",     "\"string_concat\" \"\" %w, %w : str[]",
        "\"string_split\" \"-1 \" %w : str[2]",   "\"string_normalize\" \"NONE any\" %x : str[4]",
        "\"string_to_float\" \"\" %w : f32[2]",   "\"string_to_integer\" \"\" %w : i32[2]",
        "\"string_rank\" \"\" %w : i8[2]",        "\"number_to_string\" \"\" %w : str[2]",
        "\"regex_full_match\" \"a\" %x : b1[4]",  "\"regex_full_match\" \"a\" %w : i64[2]"};
    char text[256];
    for (size_t k = 0; k < COUNT(steps); k++) {
        snprintf(text, sizeof text, "graph g(x: f32[4], w: str[2]) {\n  %%y = host %s\n  return y = %%y\n}\n",
                 steps[k]);
        each_way(text, use_other_form);
    }
}

/* No structure hangs on strings: a plan for such a value is the plan for any. */
Test(session_strings, as_values_of_a_session_are_not_looked_at)
{
    NstString words[] = {S("a"), {NULL, 7}};
    NstNamedTensor value = {"words", line(words, 2)};
    NstSessionOptions options = {.values = &value, .n_values = 1};
    open_text(same, &options);
    use_own_memory();
    nst_session_free(session);
    options.fail_on_compile = 1;
    words[0] = (NstString)S("another");
    cr_assert_eq(nst_session_new(model, &options, &session), NST_OK, "%s", nst_error_text());
}

Test(session_strings, of_the_graph_must_be_in_its_table)
{
    static const char bad[] = "graph g(x: str[n]) {\n  %c = const str[1] data \"AQAAAAAAAAA=\"\n  return c = %c\n}\n";
    cr_assert_eq(nst_model_open_memory(engine, "test", bad, strlen(bad), &model), NST_OK);
    cr_assert_eq(nst_session_new(model, NULL, &session), NST_E_PARSE);
    cr_assert_not_null(strstr(nst_error_text(), "strings take data [\"...\", ...]"), "%s", nst_error_text());
}

Test(session_strings, of_a_tensor_file_are_read)
{
    NstCtx ctx;
    NstTensor tensor;
    const NstString expected[] = {S("one"), S("t\0o")};
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    NstText bytes;
    nst_text_init(&bytes, ctx.arena);
    pb_int(&bytes, 1, 2);
    pb_int(&bytes, 2, 8);
    for (int k = 0; k < 2; k++) pb_bytes(&bytes, 6, expected[k].at, expected[k].n);
    cr_assert_eq(nst_tensor_read_onnx(engine, "file", bytes.at, bytes.n, &tensor), NST_OK, "%s", nst_error_text());
    check(&tensor, expected, 2);
    nst_tensor_release(&tensor);
    nst_ctx_dispose(&ctx);
}

/* --- all at once, and no memory -------------------------------------------------------------------------------- */

static void *run_often(void *arg)
{
    char text[32];
    for (int k = 0; k < 200; k++) {
        int n = snprintf(text, sizeof text, "%s%d", (const char *)arg, k);
        NstString words[2] = {{text, (size_t)n}, S("bc")};
        uint8_t flag = 1;
        int64_t trips = 3;
        NstNamedTensor in[3] = {{"words", line(words, 2)},
                                {"flag", {.dtype = NST_BOOL, .data = &flag, .bytes = 1}},
                                {"trips", {.dtype = NST_I64, .data = &trips, .bytes = 8}}},
                       out = {.name = "end"};
        if (nst_session_run(session, in, 3, &out, 1, NULL) != NST_OK) return arg;
        char wanted[160];
        snprintf(wanted, sizeof wanted, "%s%s+%s+%s+", text, text, text, text);
        const NstString *end = out.tensor.data;
        bool right = strcmp(end[0].at, wanted) == 0 && strcmp(end[1].at, "bcbc+bc+bc+") == 0;
        nst_tensor_release(&out.tensor);
        if (!right) return arg;
    }
    return NULL;
}

Test(session_strings, of_runs_at_once_do_not_meet)
{
    static char name[4][2] = {"p", "q", "r", "s"};
    pthread_t caller[4];
    open_text(looped, NULL);
    for (int k = 0; k < 4; k++) cr_assert_eq(pthread_create(&caller[k], NULL, run_often, name[k]), 0);
    for (int k = 0; k < 4; k++) {
        void *wrong;
        pthread_join(caller[k], &wrong);
        cr_assert_null(wrong);
    }
}

/* Each allocation of a run fails once: in tables of the run and of bodies, of texts that come in, are made, go out. */
Test(session_strings, each_allocation_of_a_run_may_fail)
{
    for (int32_t interpret = 0; interpret < 2; interpret++) {
        NstSessionOptions options = {.interpret = interpret};
        uint64_t n = 0;
        bool done = false;
        open_text(looped, &options);
        nst_arena_chunk_limit(256);
        while (!done && n < 20000) {
            NstString words[] = {S("a"), S("bc")};
            uint8_t flag = 1;
            int64_t trips = 2;
            NstNamedTensor in[3] = {{"words", line(words, 2)},
                                    {"flag", {.dtype = NST_BOOL, .data = &flag, .bytes = 1}},
                                    {"trips", {.dtype = NST_I64, .data = &trips, .bytes = 8}}},
                           out[2] = {{.name = "all"}, {.name = "chosen"}};
            nst_arena_fail_after(++n);
            NstStatus status = nst_session_run(session, in, 3, out, 2, NULL);
            nst_arena_fail_after(0);
            cr_assert(status == NST_OK || status == NST_E_NOMEM, "allocation %lu: %s", n, nst_error_text());
            done = status == NST_OK;
            const NstString all[] = {S("aa+"), S("bcbc+"), S("aa+a+"), S("bcbc+bc+")};
            if (done) check(&out[0].tensor, all, 4);
            for (int k = 0; k < 2; k++) {
                cr_assert(done || !out[k].tensor.owned);
                nst_tensor_release(&out[k].tensor);
            }
        }
        nst_arena_chunk_limit(0);
        cr_assert(done && n > 20, "%lu allocations", n);
        nst_session_free(session);
        nst_model_free(model);
        session = NULL;
        model = NULL;
    }
}
