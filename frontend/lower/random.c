/* random.c: random numbers.  A node's stream follows from its seed, or where it has none from its name: every run gives the
 * same numbers, and not those of other engines. */
#include "frontend/lower.h"

/* Uniform f64 in [0, 1) of that shape, 32 random bits each; salt: streams of one node. */
static V uniform(NstLower *c, int rank, const D *shape, int64_t salt)
{
    int64_t key[2] = {0, salt}, two = 2;
    double seed = attr_f(c, "seed") + (double)attr_i(c, "seed"); /* one of them is 0 */
    memcpy(&key[0], &seed, sizeof seed);
    if (!has_attr(c, "seed")) key[0] = (int64_t)nst_hash_bytes(c->label, strlen(c->label), 0);
    V bits = nst_build_random_bits(c->b, nst_build_const(c->b, NST_I64, 1, &two, key), rank, shape);
    return map(c, "a * 2.3283064365386963e-10", convert(c, bits, NST_F64));
}

/* The type in attribute dtype, or where it is not there that of x. */
static NstDtype result_type(NstLower *c, V x)
{
    NstDtype t = attr_type(c, "dtype", dtype(c, x));
    if (has_attr(c, "dtype") && (t == NST_STR || nst_dtype_info(t)->klass == NST_CLASS_COMPLEX))
        fail(c, NST_E_MODEL, "dtype %lld is no type of numbers", (long long)attr_i(c, "dtype"));
    return t;
}

/* Normal numbers by the formula of Box and Muller: the first factor's logarithm is of a number in (0, 1]. */
static V normal(NstLower *c, int rank, const D *shape)
{
    return map(c, "@mean + @scale * sqrt(-2 * log(1 - a)) * cos(6.283185307179586 * b)", uniform(c, rank, shape, 0),
               uniform(c, rank, shape, 1));
}

/* Of input 0's shape, or of the attribute's.  arg: "normal" or "uniform". */
LOWER(random_fill)
{
    V x = in(c, 0), y;
    int r;
    const int64_t *list = attr_ints(c, "shape", &r);
    D shape[NST_MAX_RANK];
    if (has(c, 0)) r = rank(c, x);
    if (r > NST_MAX_RANK) fail(c, NST_E_LIMIT, "rank %d, allowed: at most %d", r, NST_MAX_RANK);
    for (int k = 0; k < r && !failed(c); k++) {
        if (!has(c, 0) && (list[k] < 0 || list[k] > NST_MAX_TENSOR_BYTES))
            fail(c, NST_E_MODEL, "shape has entry %lld, allowed: at least 0", (long long)list[k]);
        shape[k] = has(c, 0) ? dim(c, x, k) : num(c, list[k]);
    }
    NstDtype to = result_type(c, x);
    if (failed(c)) return;
    if (!nst_dtype_is_float(to))
        fail(c, NST_E_UNSUPPORTED, "numbers of type %s are not supported", nst_dtype_info(to)->name);
    y = strcmp(arg, "normal") == 0 ? normal(c, r, shape) : map(c, "@low + (@high - @low) * a", uniform(c, r, shape, 0));
    out(c, 0, convert(c, y, to));
}

/* 1 with the probability that stands in the input. */
LOWER(bernoulli)
{
    V x = in(c, 0), u = uniform(c, rank(c, x), type(c, x)->shape, 0);
    out(c, 0, convert(c, map(c, "a < b", u, convert(c, widen(c, x), NST_F64)), result_type(c, x)));
}

/* Classes drawn by unnormalised log probabilities [B, classes]: [B, sample_size].  How many classes end before u. */
LOWER(multinomial)
{
    V x = convert(c, widen(c, in(c, 0)), NST_F64);
    int64_t samples = attr_i(c, "sample_size");
    if (rank(c, x) != 2 || samples < 0 || samples > INT32_MAX)
        fail(c, NST_E_SHAPE, "input has rank %d, sample_size is %lld, allowed: 2, at least 0", rank(c, x),
             (long long)samples);
    if (failed(c)) return;
    V p = map(c, "exp(a - b)", x, reduce(c, "max(a, b)", x, axes_from(1, 2), KEEP));
    V ends = nst_build_prefix(c->b, p, "a + b", 1, false, false);
    D shape[2] = {dim(c, x, 0), num(c, samples)};
    V at = map(c, "a * b", uniform(c, 2, shape, 0), reduce(c, "a + b", p, axes_from(1, 2), KEEP));
    V past = convert(c, map(c, "a <= b", insert_axis(c, ends, 1), insert_axis(c, at, 2)), NST_I64);
    V place = reduce(c, "a + b", past, axes_from(2, 3), DROP);
    V last = size_value(c, minus1(c, dim(c, x, 1)));
    out(c, 0, convert(c, map(c, "min(a, b)", place, last), result_type(c, x)));
}

/* In inference the input itself, and a mask of true; in training each element stays with probability 1 - ratio, scaled. */
LOWER(dropout)
{
    int n;
    V x = in(c, 0), all = expand(c, number(c, NST_BOOL, 1), rank(c, x), type(c, x)->shape);
    const int64_t *training = const_ints(c, 2, "training_mode", &n);
    double ratio = 0.5;
    bool known_ratio = !has(c, 1) || const_number(c, in(c, 1), &ratio);
    out(c, 0, x);
    out(c, 1, all);
    if (failed(c) || n < 1 || !training[0] || (known_ratio && ratio == 0)) return;
    V wide = widen(c, x),
      p = has(c, 1) ? convert(c, reshape(c, in(c, 1), 0, NULL), NST_F64) : number(c, NST_F64, ratio);
    V stays = map(c, "a >= b", uniform(c, rank(c, x), type(c, x)->shape, 0), p);
    out(c, 0, convert(c, map(c, "b ? a / (1 - c) : 0", wide, stays, convert(c, p, dtype(c, wide))), dtype(c, x)));
    out(c, 1, stays);
}
