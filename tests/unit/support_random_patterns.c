/* support_random_patterns.c: what models are made of, drawn: norms, softmax, pools, products, convolutions, attention, divisions of
 * rows.  Each works on a float of the pool and puts its result there, for other nodes to go on with. */
#include "tests/unit/support_random_impl.h"

static bool is_rows(const Random *r, const NstType *type)
{
    (void)r;
    return type->dtype == NST_F32 && type->rank >= 1 && type->rank <= 4;
}

static bool is_matrix(const Random *r, const NstType *type)
{
    return is_rows(r, type) && type->rank >= 2;
}

static bool is_image(const Random *r, const NstType *type)
{
    int64_t channels;
    return is_rows(r, type) && type->rank >= 3 && nst_dim_is_const(r->graph->dims, type->shape[1], &channels);
}

static NstVal map1(Random *r, const char *formula, NstVal a)
{
    return nst_build_map(&r->build, formula, 1, &a, NULL, 0);
}

static NstVal map2(Random *r, const char *formula, NstVal a, NstVal b)
{
    NstVal in[2] = {a, b};
    return nst_build_map(&r->build, formula, 2, in, NULL, 0);
}

static NstVal map3(Random *r, const char *formula, NstVal a, NstVal b, NstVal c)
{
    NstVal in[3] = {a, b, c};
    return nst_build_map(&r->build, formula, 3, in, NULL, 0);
}

/* Mostly the last axis, else the last two or any. */
static int draw_rows(Random *r, int rank, int *axes)
{
    int n = 0, kind = random_below(r, 10);
    if (kind >= 8) {
        axes[n++] = random_below(r, rank);
        return n;
    }
    if (kind >= 6 && rank >= 2) axes[n++] = rank - 2;
    axes[n++] = rank - 1;
    return n;
}

static NstVal count_of(Random *r, NstVal x, int n, const int *axes)
{
    NstDim count = random_const_dim(r, 1);
    for (int k = 0; k < n; k++) count = nst_dim_mul(r->graph->dims, count, random_type(r, x)->shape[axes[k]]);
    return nst_build_convert(&r->build, nst_build_dim_value(&r->build, count), NST_F32, false);
}

static NstVal sum(Random *r, NstVal x, int n, const int *axes)
{
    return nst_build_reduce(&r->build, x, "a + b", n, axes, true);
}

/* A constant that goes along the last axis, or along another one. */
static NstVal weights_along(Random *r, NstVal x)
{
    const NstType *type = random_type(r, x);
    NstDim shape[NST_MAX_RANK];
    int axis = random_chance(r, 70) ? type->rank - 1 : random_below(r, type->rank);
    for (int a = 0; a < type->rank; a++) shape[a] = a == axis ? type->shape[a] : random_const_dim(r, 1);
    return random_const(r, NST_F32, type->rank, shape);
}

/* Mean, distances, variance, as exporters write them. */
static void random_norm(Random *r, NstVal x)
{
    static const char *const whole[] = {"a / sqrt(b + 0.00001)", "a * (1 / sqrt(b + 0.00001))",
                                        "a / (sqrt(b) + 0.001)"};
    int axes[NST_MAX_RANK], n = draw_rows(r, random_type(r, x)->rank, axes);
    if (random_chance(r, 40)) x = map2(r, "a + b", x, weights_along(r, x));
    NstVal count = count_of(r, x, n, axes), s = sum(r, x, n, axes), d, q;
    if (random_chance(r, 30)) {
        d = map3(r, "a - b / c", x, s, count);
    } else {
        NstVal mean = map2(r, "a / b", s, count);
        if (random_chance(r, 20)) random_add(r, mean);
        d = map2(r, "a - b", x, mean);
    }
    q = map1(r, random_chance(r, 20) ? "pow(a, 2)" : "a * a", d);
    NstVal variance = map2(r, "a / b", sum(r, q, n, axes), count);
    if (random_chance(r, 20)) random_add(r, variance);
    NstVal y = map2(r, whole[random_below(r, 3)], d, variance);
    random_add(r, random_chance(r, 60) ? map3(r, "a * b + c", y, weights_along(r, y), weights_along(r, y)) : y);
}

static NstVal softmax(Random *r, NstVal x, int n, const int *axes)
{
    NstVal e = map2(r, "exp(a - b)", x, nst_build_reduce(&r->build, x, "max(a, b)", n, axes, true));
    NstVal s = sum(r, e, n, axes);
    return random_chance(r, 50) ? map2(r, "a / b", e, s) : map2(r, "a * b", e, map1(r, "1 / a", s));
}

static void random_softmax(Random *r, NstVal x)
{
    int axes[NST_MAX_RANK], n = draw_rows(r, random_type(r, x)->rank, axes);
    random_add(r, softmax(r, random_chance(r, 40) ? map1(r, "a * 0.3", x) : x, n, axes));
}

/* A row divided by one value of its own, sometimes rounded; or by another operand that may broadcast. */
static void random_division(Random *r, NstVal x)
{
    int axes[NST_MAX_RANK], n = draw_rows(r, random_type(r, x)->rank, axes), kind = random_below(r, 4);
    NstVal size = kind == 0 ? weights_along(r, x) : sum(r, map1(r, "abs(a)", x), n, axes);
    NstVal y = map2(r, kind == 1 ? "a / max(b, 0.125)" : "a / (abs(b) + 0.5)", x, size);
    if (kind == 2) y = nst_build_convert(&r->build, map1(r, "round(a * 50)", y), NST_I8, true);
    random_add(r, y);
}

static void random_mean(Random *r, NstVal x)
{
    int axes[NST_MAX_RANK], n = draw_rows(r, random_type(r, x)->rank, axes);
    NstVal s = sum(r, random_chance(r, 50) ? map1(r, "a * a", x) : x, n, axes);
    NstVal y = map2(r, "a / b", s, count_of(r, x, n, axes));
    random_add(r, random_chance(r, 50) ? map2(r, "a * sigmoid(b)", x, y) : y);
}

/* "ab..k,kz->ab..z" with weights of that many columns. */
static NstVal times_weights(Random *r, NstVal x, int columns)
{
    const NstType *type = random_type(r, x);
    char text[40];
    int n = 0, rank = type->rank;
    NstDim shape[2] = {type->shape[rank - 1], random_const_dim(r, columns)};
    for (int k = 0; k < rank; k++) text[n++] = (char)('a' + k);
    text[n++] = ',';
    text[n++] = (char)('a' + rank - 1);
    memcpy(text + n, "z->", 3);
    n += 3;
    for (int k = 0; k + 1 < rank; k++) text[n++] = (char)('a' + k);
    text[n++] = 'z';
    text[n] = '\0';
    NstVal in[2] = {x, random_const(r, NST_F32, 2, shape)};
    return nst_build_contract(&r->build, text, 2, in, NST_DTYPE_NONE);
}

static void random_dense(Random *r, NstVal x)
{
    static const int columns[] = {1, 3, 8, 16, 17, 33, 40};
    int siblings = random_chance(r, 30) ? 2 : 1;
    for (int k = 0; k < siblings; k++) {
        NstVal y = times_weights(r, x, columns[random_below(r, 7)]);
        random_add(r, random_chance(r, 60) ? map2(r, "max(a + b, 0)", y, weights_along(r, y)) : y);
    }
}

/* A product of two computed values, then softmax, then another product: of a value's own rows. */
static void random_attention(Random *r, NstVal x)
{
    static const char *const scores[] = {"", "", "ac,bc->ab", "abd,acd->abc", "abde,abce->abdc"},
                             *const mixed[] = {"", "", "ab,bc->ac", "abc,acd->abd", "abdc,abce->abde"};
    int rank = random_type(r, x)->rank, last = rank - 1;
    bool projected = random_chance(r, 60);
    NstVal q = projected ? times_weights(r, x, 16) : x, k = projected ? times_weights(r, x, 16) : x;
    NstVal pair[2] = {q, k};
    NstVal s = nst_build_contract(&r->build, scores[rank], 2, pair, NST_DTYPE_NONE);
    if (random_chance(r, 50)) s = map1(r, "a * 0.25", s);
    if (random_chance(r, 30)) s = map2(r, "a + b", s, weights_along(r, s));
    NstVal p = random_chance(r, 85) ? softmax(r, s, 1, &last) : map1(r, "max(a, 0)", s);
    NstVal values[2] = {p, projected ? times_weights(r, x, 17) : x};
    random_add(r, nst_build_contract(&r->build, mixed[rank], 2, values, NST_DTYPE_NONE));
}

/* Windows over the axes after the channels, of their own or of all channels. */
static void random_convolution(Random *r, NstVal x)
{
    const NstType *type = random_type(r, x);
    NstWindowAxis axis[2];
    NstDim shape[4];
    int n = type->rank - 2, outputs = 1 + random_below(r, 20);
    bool depthwise = random_chance(r, 30);
    for (int k = 0; k < n; k++) {
        int64_t lo, hi;
        nst_dim_bounds(r->graph->dims, type->shape[2 + k], &lo, &hi);
        if (lo < 1) return;
        int pad = random_below(r, 2), room = (int)(lo > 3 ? 3 : lo) + 2 * pad,
            size = 1 + random_below(r, room < 3 ? room : 3);
        axis[k] = (NstWindowAxis){2 + k, random_const_dim(r, size), 1 + random_below(r, 2),
                                  1,     random_const_dim(r, pad),  random_const_dim(r, pad)};
    }
    NstVal in[2] = {nst_build_window(&r->build, x, n, axis, (NstVal){0})};
    int rank = 0;
    if (!depthwise) shape[rank++] = random_const_dim(r, outputs);
    shape[rank++] = type->shape[1];
    for (int k = 0; k < n; k++) shape[rank++] = axis[k].size;
    in[1] = random_const(r, NST_F32, rank, shape);
    const char *equation = n == 1      ? depthwise ? "nchk,ck->nch" : "nchk,ock->noh"
                           : depthwise ? "nchwkl,ckl->nchw"
                                       : "nchwkl,ockl->nohw";
    NstVal y = nst_build_contract(&r->build, equation, 2, in, NST_DTYPE_NONE);
    random_add(r, random_chance(r, 60) ? map2(r, "max(a + b, 0)", y, weights_along(r, y)) : y);
}

/* Bytes by the largest of all, then a product of bytes. */
static void random_quantised_product(Random *r, NstVal x)
{
    int rank = random_type(r, x)->rank, axes[NST_MAX_RANK];
    for (int k = 0; k < rank; k++) axes[k] = k;
    NstVal largest = nst_build_reduce(&r->build, map1(r, "abs(a)", x), "max(a, b)", rank, axes, false);
    NstVal scale = map1(r, "max(a, 0.001) / 127", largest);
    NstVal bytes = nst_build_convert(&r->build, map2(r, "round(a / b)", x, scale), NST_I8, true);
    NstDim shape[2] = {random_type(r, x)->shape[rank - 1], random_const_dim(r, 17)};
    NstVal in[2] = {bytes, random_const(r, NST_I8, 2, shape)};
    const char *equation = rank == 2 ? "ab,bz->az" : rank == 3 ? "abc,cz->abz" : "abcd,dz->abcz";
    NstVal y = nst_build_contract(&r->build, equation, 2, in, NST_I32);
    random_add(r, map2(r, "a * b", nst_build_convert(&r->build, y, NST_F32, false), scale));
}

/* A product with an epilogue that goes on in rows. */
static void random_residual(Random *r, NstVal x)
{
    int64_t columns;
    const NstType *type = random_type(r, x);
    if (!nst_dim_is_const(r->graph->dims, type->shape[type->rank - 1], &columns) || columns > 40) return;
    random_norm(r, map2(r, "a + b", times_weights(r, x, (int)columns), x));
}

void random_pattern(Random *r)
{
    static void (*const of_rows[])(Random *, NstVal) = {random_norm, random_norm, random_softmax, random_mean,
                                                        random_division};
    static void (*const of_matrices[])(Random *, NstVal) = {random_dense, random_attention, random_quantised_product,
                                                            random_residual};
    int kind = random_below(r, 12);
    NstVal x = random_pick(r, kind < 5 ? is_rows : kind < 9 ? is_matrix : kind < 11 ? is_image : is_rows);
    if (x.i == 0) return;
    if (kind < 5)
        of_rows[kind](r, x);
    else if (kind < 9)
        of_matrices[kind - 5](r, x);
    else if (kind < 11)
        random_convolution(r, x);
    else
        random_pooling(r, x, random_chance(r, 60) ? "a + b" : "max(a, b)");
}
