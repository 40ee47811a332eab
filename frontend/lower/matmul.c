/* matmul.c: matrix products.  Contractions keep the operands' layouts: transposes are labels. */
#include "frontend/lower.h"

/* Labels of the batch axes are c, d, e...; i, j, k are rows, columns and the summed axis of the matrices. */
static char batch_label(int k)
{
    return (char)("cdefghlmnopqrstu"[k]);
}

/* Takes away batch axes of extent 1 that the other operand has larger, and appends the labels of those that stay. */
static V drop_broadcast(NstLower *c, V x, V other, int batch, char *labels)
{
    int own = rank(c, x) - 2, theirs = rank(c, other) - 2, at = 0, axis = 0;
    V y = x;
    for (int k = 0; k < own; k++) {
        int same = k + (batch - own), j = same - (batch - theirs);
        bool one = is_num(c, dim(c, x, k), 1) && j >= 0 && !is_num(c, dim(c, other, j), 1);
        if (one)
            y = drop_axis(c, y, axis);
        else
            labels[at++] = batch_label(same), axis++;
    }
    labels[at] = '\0';
    return y;
}

/* [..., i, k] x [k, j] is one product of all rows. */
static V rows_by_matrix(NstLower *c, V a, V b)
{
    int r = rank(c, a);
    D flat[2] = {product(c, a, 0, r - 1), dim(c, a, r - 1)}, shape[NST_MAX_RANK];
    for (int k = 0; k < r - 1; k++) shape[k] = dim(c, a, k);
    shape[r - 1] = dim(c, b, 1);
    return reshape(c, contract(c, "ik,kj->ij", reshape(c, a, 2, flat), b), r, shape);
}

LOWER(matmul)
{
    V a = in(c, 0), b = in(c, 1);
    int ra = rank(c, a), rb = rank(c, b);
    char la[NST_MAX_RANK], lb[NST_MAX_RANK], all[NST_MAX_RANK + 1];
    if (ra == 0 || rb == 0 || ra > 14 || rb > 14) fail(c, NST_E_SHAPE, "A has rank %d, B %d, allowed: 1 to 14", ra, rb);
    if (ra == 1) a = insert_axis(c, a, 0);
    if (rb == 1) b = insert_axis(c, b, 1);
    if (failed(c)) return;
    V y;
    if (rank(c, b) == 2 && rank(c, a) > 2) {
        y = rows_by_matrix(c, a, b);
    } else {
        int batch = (ra > rb ? ra : rb) > 2 ? (ra > rb ? ra : rb) - 2 : 0;
        V x = drop_broadcast(c, a, b, batch, la), z = drop_broadcast(c, b, a, batch, lb);
        for (int k = 0; k < batch; k++) all[k] = batch_label(k);
        all[batch] = '\0';
        y = contract(c, nst_format(c->arena, "%sik,%skj->%sij", la, lb, all), x, z);
    }
    if (rb == 1) y = drop_axis(c, y, rank(c, y) - 1);
    if (ra == 1) y = drop_axis(c, y, rank(c, y) - (rb == 1 ? 1 : 2));
    out(c, 0, y);
}

/* alpha * A' B' + beta * C */
LOWER(gemm)
{
    bool ta = attr_i(c, "transA") != 0, tb = attr_i(c, "transB") != 0;
    V a = in(c, 0), y;
    NstDtype own = dtype(c, a);
    if (rank(c, a) != 2 || rank(c, in(c, 1)) != 2)
        fail(c, NST_E_SHAPE, "A has rank %d, B %d, allowed: 2", rank(c, a), rank(c, in(c, 1)));
    y = contract(c, nst_format(c->arena, "%s,%s->ij", ta ? "ki" : "ik", tb ? "jk" : "kj"), a, in(c, 1));
    if (attr_f(c, "alpha") != 1) y = map(c, "a * b", y, number(c, own, attr_f(c, "alpha")));
    if (has(c, 2) && attr_f(c, "beta") != 0)
        y = attr_f(c, "beta") == 1 ? map(c, "a + b", y, in(c, 2))
                                   : map(c, "a + b * c", y, in(c, 2), number(c, own, attr_f(c, "beta")));
    out(c, 0, y);
}
