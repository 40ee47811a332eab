/* index.c: gathers. */
#include "frontend/lower.h"

/* Negative indices count from the end. */
static V from_end(NstLower *c, V index, D extent)
{
    V n = convert(c, size_value(c, extent), dtype(c, index));
    return map(c, "a < 0 ? a + b : a", index, n);
}

LOWER(gather)
{
    V x = in(c, 0);
    int axis = norm_axis(c, attr_i(c, "axis"), rank(c, x), false);
    out(c, 0, gather(c, x, from_end(c, in(c, 1), dim(c, x, axis)), axis, NST_INDEX_CHECKED));
}

/* out[.., i, ..] = data[.., index[.., i, ..], ..]: the axis moves last, the others of data are cut to the index's. */
LOWER(gather_elements)
{
    V x = in(c, 0), index = in(c, 1);
    int r = rank(c, x), axis = norm_axis(c, attr_i(c, "axis"), r, false), order[NST_MAX_RANK], back[NST_MAX_RANK];
    if (rank(c, index) != r) fail(c, NST_E_SHAPE, "indices have rank %d, data %d", rank(c, index), r);
    if (failed(c)) return;
    for (int k = 0, at = 0; k < r; k++)
        if (k != axis) order[at++] = k;
    order[r - 1] = axis;
    for (int k = 0; k < r; k++) back[order[k]] = k;
    index = from_end(c, index, dim(c, x, axis));
    for (int k = 0; k < r; k++)
        if (k != axis) x = slice1(c, x, k, num(c, 0), 1, dim(c, index, k));
    V y = nst_build_gather(c->b, permute(c, x, order), permute(c, index, order), r - 1, r - 1, NST_INDEX_CHECKED);
    out(c, 0, permute(c, y, back));
}
