/* elementwise.c: operators that work on one element at a time and are no plain formula of their table row. */
#include "frontend/lower/text.h"

/* The formula on floats, for operators that allow integers too: computed in f32 (or the float's own type), result
 * truncated back. */
LOWER(via_float)
{
    V x = in(c, 0);
    NstDtype own = dtype(c, x);
    if (!nst_dtype_is_float(own)) x = convert(c, x, nst_dtype_info(own)->bytes < 4 ? NST_F32 : NST_F64);
    out(c, 0, convert(c, map(c, arg, x), own));
}

/* x * Phi(x); the tanh form is the published approximation, not an error. */
LOWER(gelu)
{
    V x = in(c, 0);
    out(c, 0,
        attr_is(c, "approximate", "tanh") ? map(c, "0.5*a*(1 + tanh(0.7978845608028654*(a + 0.044715*a*a*a)))", x)
                                          : map(c, "0.5*a*(1 + erf(a*0.7071067811865476))", x));
}

LOWER(is_inf)
{
    bool positive = attr_i(c, "detect_positive") != 0, negative = attr_i(c, "detect_negative") != 0;
    out(c, 0,
        map(c,
            positive && negative ? "isinf(a)"
            : positive           ? "isinf(a) & a > 0"
                                 : "isinf(a) & a < 0 & !isnan(a)",
            in(c, 0)));
    if (!positive && !negative) out(c, 0, map(c, "a != a & a == a", in(c, 0)));
}

LOWER(mod)
{
    out(c, 0, map(c, attr_i(c, "fmod") ? "rem(a, b)" : "mod(a, b)", in(c, 0), in(c, 1)));
}

/* What a to that power is in products; NULL: pow itself. */
static const char *as_products(double power)
{
    return power == 2 ? "a * a" : power == 3 ? "a * a * a" : power == -1 ? "1 / a" : NULL;
}

/* The base's type is the result's.  Integer bases go through f64. */
LOWER(pow)
{
    V x = in(c, 0), y = in(c, 1);
    NstDtype own = dtype(c, x), compute = nst_dtype_is_float(own) ? nst_dtype_info(own)->compute : NST_F64;
    double power = 0;
    bool is_number = choose(c, const_number(c, y, &power)); /* not what is a number where sizes are declared */
    const char *products = is_number && rank(c, y) <= rank(c, x) ? as_products(power) : NULL;
    if (products)
        out(c, 0, convert(c, map(c, products, convert(c, x, compute)), own));
    else
        out(c, 0, convert(c, map(c, "pow(a, b)", convert(c, x, compute), convert(c, y, compute)), own));
}

/* The slope broadcasts to x only: its rank is at most x's. */
LOWER(prelu)
{
    out(c, 0, map(c, "a < 0 ? a * b : a", in(c, 0), in(c, 1)));
}

LOWER(where)
{
    out(c, 0, where(c, in(c, 0), in(c, 1), in(c, 2)));
}

LOWER(bit_shift)
{
    const char *right = nst_dtype_is_signed(dtype(c, in(c, 0))) ? "sar(a, b)" : "a >> b";
    out(c, 0, map(c, attr_is(c, "direction", "LEFT") ? "a << b" : right, in(c, 0), in(c, 1)));
}

/* "step" or "step | after": folds any number of inputs from the left; after has b = their number. */
LOWER(variadic)
{
    const char *bar = strchr(arg, '|');
    const char *step = bar ? nst_copy_text(c->arena, arg, (size_t)(bar - arg)) : arg;
    V x = bar ? widen(c, in(c, 0)) : in(c, 0);
    for (int k = 1; k < c->n_ins; k++) x = map(c, step, x, in(c, k));
    if (bar) x = convert(c, map(c, bar + 1, x, number(c, dtype(c, x), c->n_ins)), dtype(c, in(c, 0)));
    out(c, 0, x);
}

LOWER(clip)
{
    V x = in(c, 0);
    if (has(c, 1)) x = map(c, "max(a, b)", x, in(c, 1));
    if (has(c, 2)) x = map(c, "min(a, b)", x, in(c, 2));
    out(c, 0, x);
}

LOWER(identity)
{
    out(c, 0, in(c, 0));
}

/* A float as the power of two above or below it, for the type that has only those. */
static V to_power(NstLower *c, V x)
{
    bool up = attr_is(c, "round_mode", "up");
    if (!nst_dtype_is_float(dtype(c, x))) x = convert(c, x, NST_F32);
    if (!up && !attr_is(c, "round_mode", "down")) return x;
    V bits = nst_build_bitcast(c->b, convert(c, widen(c, x), NST_F32), NST_U32);
    bits = map(c,
               up ? "(a & 0x7f800000u32) == 0x7f800000u32 ? a : (a + 0x7fffffu32) & 0xff800000u32"
                  : "(a & 0x7f800000u32) == 0x7f800000u32 ? a : a & 0xff800000u32",
               bits);
    return nst_build_bitcast(c->b, bits, NST_F32);
}

/* Only floats of 8 bits and fewer saturate; integers wrap, floats going to 4 and 2 bits by way of i32.  A type without NaN
 * gets -0 for it, as in the reference. */
static V cast_to(NstLower *c, V x, NstDtype to)
{
    bool is_float = nst_dtype_is_float(to), small = is_float && nst_dtype_info(to)->bits <= 8;
    bool from_float = nst_dtype_is_float(dtype(c, x));
    if (to == dtype(c, x)) return x;
    if (to == NST_STR) return number_to_string(c, x);
    if (dtype(c, x) == NST_STR) x = string_to_number(c, x, to);
    from_float = nst_dtype_is_float(dtype(c, x));
    if (to == NST_F8E8M0) x = to_power(c, x);
    if (is_float && nst_dtype_info(to)->bits < 8 && from_float) x = map(c, "isnan(a) ? -0.0 : a", widen(c, x));
    if (!is_float && nst_dtype_info(to)->bits < 8 && from_float) x = convert(c, x, NST_I32);
    return nst_build_convert(c->b, x, to, small && attr_i(c, "saturate") != 0);
}

LOWER(cast)
{
    out(c, 0, cast_to(c, in(c, 0), attr_type(c, "to", NST_DTYPE_NONE)));
}

LOWER(cast_like)
{
    out(c, 0, cast_to(c, in(c, 0), dtype(c, in(c, 1))));
}
