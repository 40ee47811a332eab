/* test_dtype.c: ir/base/dtype.h. */
#include <criterion/criterion.h>
#include "ir/base/dtype.h"

Test(dtype, every_row_is_found_by_name_and_code)
{
    for (int t = 1; t < NST_DTYPE_COUNT; t++) {
        const NstDtypeInfo *info = nst_dtype_info((NstDtype)t);
        cr_assert_eq(nst_dtype_parse(info->name, strlen(info->name)), (NstDtype)t);
        cr_assert_eq(nst_dtype_from_onnx(info->onnx), (NstDtype)t);
    }
    cr_assert_eq(nst_dtype_parse("f3", 2), NST_DTYPE_NONE);
    cr_assert_eq(nst_dtype_from_onnx(0), NST_DTYPE_NONE);
}
