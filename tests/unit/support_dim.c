/* support_dim.c: see support_dim.h. */
#include "tests/unit/support_dim.h"

#include <criterion/criterion.h>

NstDim support_dim_read(NstCtx *ctx, NstDims *dims, const char *text, NstSym (*find)(void *, const char *, size_t))
{
    NstDim dim = {0};
    const char *p = text;
    NstStatus status = nst_dim_parse(ctx, dims, &p, find, NULL, &dim);
    cr_assert_eq(status, NST_OK, "%s: %s", text, ctx->error);
    cr_assert_eq(*p, 0, "%s stops at %s", text, p);
    return dim;
}

const char *support_dim_text(NstCtx *ctx, const NstDims *dims, NstDim dim, const char *(*name_of)(void *, NstSym))
{
    NstText text;
    nst_text_init(&text, ctx->arena);
    nst_dim_print(&text, dims, dim, name_of, NULL);
    return nst_text_get(&text);
}
