/* test_sizes.c: a few of the random graphs of check_sizes.c, which says more. */
#include <criterion/criterion.h>
#include "tests/unit/support_sizes.h"

Test(sizes, open_and_declared_give_the_same_bits, .timeout = 250)
{
    SizesReport report;
    support_check_sizes(1001, 1006, &report);
}
