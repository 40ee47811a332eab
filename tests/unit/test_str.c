/* test_str.c: ir/base/str.h.  Doubles must survive text in every locale. */
#include <criterion/criterion.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <string.h>
#include "ir/base/map.h"
#include "ir/base/status.h"
#include "ir/base/str.h"

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(str, .init = begin, .fini = end);

static const char *print(double value)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    nst_text_add_double(&text, value);
    return nst_text_get(&text);
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

Test(str, doubles_print_as_the_shortest_decimal)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.5, "0.5"},
        {1e-7, "1e-07"},
        {0.0001, "0.0001"},
        {0.00012345, "0.00012345"},
        {0.00001, "1e-05"},
        {0, "0"},
        {-0.0, "-0"},
        {1, "1"},
        {-12.5, "-12.5"},
        {1200, "1200"},
        {1e15, "1000000000000000"},
        {1e16, "1e+16"},
        {1.5e20, "1.5e+20"},
        {1e300, "1e+300"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {2.0 / 3, "0.6666666666666666"},
        {0.1 + 0.2, "0.30000000000000004"},
        {123456789012345680.0, "1.2345678901234568e+17"},
        {9007199254740993.0, "9007199254740992"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {DBL_MIN, "2.2250738585072014e-308"},
        {4.9406564584124654e-324, "5e-324"},
        {(double)INFINITY, "inf"},
        {-(double)INFINITY, "-inf"},
        {(double)NAN, "nan"},
        {(double)0.1f, "0.10000000149011612"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) cr_expect_str_eq(print(cases[i].value), cases[i].text);
}

static void round_trip(double value)
{
    double back;
    const char *text = print(value), *rest = nst_parse_double(text, &back);
    cr_assert_not_null(rest, "%s", text);
    cr_assert_eq(*rest, '\0', "%s", text);
    cr_assert_eq(bits_of(back), bits_of(value), "%a printed as %s reads as %a", value, text, back);
}

static void round_trip_many(void)
{
    uint64_t state = 1;
    for (int i = 0; i < 50000; i++) {
        state = nst_hash_mix(state, (uint64_t)i);
        double value;
        memcpy(&value, &state, sizeof value);
        if (isfinite(value)) round_trip(value);
        round_trip((double)(int64_t)(state >> 20) / 1000);
        round_trip(ldexp(1, (int)(state % 2098) - 1074));
        if (i % 1000 == 0) nst_arena_reset(ctx.arena);
    }
}

Test(str, doubles_survive_text)
{
    round_trip_many();
}

Test(str, doubles_survive_text_in_a_locale_with_a_comma)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "pl_PL.UTF-8", "de_DE"};
    bool set = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !set; i++) set = setlocale(LC_ALL, names[i]) != NULL;
    if (!set) cr_skip_test("no locale with a decimal comma is installed");
    round_trip_many();
    cr_assert_str_eq(print(0.5), "0.5");
}

Test(str, doubles_are_read_with_one_rounding)
{
    static const struct {
        const char *text;
        double value;
        int used;
    } cases[] = {
        {"1", 1, 1},
        {"+1.5", 1.5, 4},
        {"-.5", -0.5, 3},
        {"5.", 5, 2},
        {"1e3", 1000, 3},
        {"1E+03x", 1000, 5},
        {"1e", 1, 1},
        {"1e+", 1, 1},
        {"12.5.7", 12.5, 4},
        {"0000000000000000000000000000012", 12, 31},
        {"0.1e400", (double)INFINITY, 7},
        {"1e999999999999999999999", (double)INFINITY, 23},
        {"1e-999999999999999999999", 0, 24},
        {"0e999999999", 0, 11},
        {"9007199254740993", 9007199254740992.0, 16},
        {"9007199254740993.00000000000000000000000000000001", 9007199254740994.0, 49},
        {"1.00000000000000011102230246251565404236316680908203125", 1, 55},
        {"1.000000000000000111022302462515654042363166809082031250000001", 1.0000000000000002, 62},
        {"inf", (double)INFINITY, 3},
        {"-inf)", -(double)INFINITY, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value = 12345;
        const char *rest = nst_parse_double(cases[i].text, &value);
        cr_assert_not_null(rest, "%s", cases[i].text);
        cr_expect_eq(bits_of(value), bits_of(cases[i].value), "%s reads as %a", cases[i].text, value);
        cr_expect_eq(rest - cases[i].text, cases[i].used, "%s", cases[i].text);
    }
    double value;
    cr_assert_not_null(nst_parse_double("nan", &value));
    cr_assert(isnan(value));
}

Test(str, digits_beyond_those_kept_still_decide)
{
    char text[2048] = "9007199254740993.";
    memset(text + 17, '0', 1500);
    double value;
    cr_assert_not_null(nst_parse_double(text, &value));
    cr_assert_eq(value, 9007199254740992.0);
    text[17 + 1499] = '1';
    cr_assert_not_null(nst_parse_double(text, &value));
    cr_assert_eq(value, 9007199254740994.0);
    memset(text, '7', 1000);
    text[1000] = '\0';
    strcat(text, "e-1000");
    cr_assert_not_null(nst_parse_double(text, &value));
    cr_assert_eq(value, 0.7777777777777778);
}

Test(str, what_is_no_number_gives_null)
{
    static const char *const doubles[] = {"", "-", "+", ".", "-.", "e5", "x", "infinite", "nano", "inf_", "--1"};
    double value;
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++)
        cr_expect_null(nst_parse_double(doubles[i], &value), "%s", doubles[i]);
    static const char *const ints[] = {
        "", "-", "x", "+-1", "9223372036854775808", "-9223372036854775809", "a", "0x8000000000000000"};
    int64_t n;
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) cr_expect_null(nst_parse_int(ints[i], &n), "%s", ints[i]);
}

Test(str, integers_are_read_to_the_last_value)
{
    static const struct {
        const char *text;
        int64_t value;
        int used;
    } cases[] = {
        {"0", 0, 1},
        {"-0", 0, 2},
        {"+7", 7, 2},
        {"12a", 12, 2},
        {"007", 7, 3},
        {"9223372036854775807", INT64_MAX, 19},
        {"-9223372036854775808", INT64_MIN, 20},
        {"0x7fffffffffffffff", INT64_MAX, 18},
        {"-0X8000000000000000", INT64_MIN, 19},
        {"0xFg", 15, 3},
        {"0x", 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = 99;
        const char *rest = nst_parse_int(cases[i].text, &value);
        cr_assert_not_null(rest, "%s", cases[i].text);
        cr_expect_eq(value, cases[i].value, "%s", cases[i].text);
        cr_expect_eq(rest - cases[i].text, cases[i].used, "%s", cases[i].text);
    }
}

Test(str, text_grows_and_is_terminated)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    cr_assert_str_eq(nst_text_get(&text), "");
    nst_text_add_n(&text, NULL, 0);
    cr_assert_str_eq(nst_text_get(&text), "");
    size_t n = 0;
    for (int i = 0; i < 2000; i++) {
        nst_text_add(&text, "%d,", i);
        n += i < 10 ? 2 : i < 100 ? 3 : i < 1000 ? 4 : 5;
        cr_assert_eq(text.n, n);
        cr_assert_eq(text.at[n], '\0');
    }
    cr_assert_eq(memcmp(nst_text_get(&text), "0,1,2,3,", 8), 0);
}

Test(str, quoting_escapes_what_is_not_plain)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    nst_text_add_quoted(&text, "a\"b\\c\n\t\x01\xff\0z", 11);
    cr_assert_str_eq(nst_text_get(&text), "\"a\\\"b\\\\c\\n\\t\\x01\\xFF\\x00z\"");
}
