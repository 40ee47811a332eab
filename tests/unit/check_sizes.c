/* check_sizes.c: random graphs of what models are made of give the same bits for open and for declared sizes, on one and two
 * threads, approximate passes on.
 *
 * NST_DIFF_SEED=n runs that seed only and prints its graphs; NST_DIFF_COUNT=n changes the number of graphs. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include "tests/unit/support_sizes.h"

#define GRAPHS 240

Test(sizes, open_and_declared_give_the_same_bits, .timeout = 1400)
{
    SizesReport report;
    support_check_sizes(1, GRAPHS, &report);
    if (!getenv("NST_DIFF_SEED") && !getenv("NST_DIFF_COUNT")) support_check_kinds(&report);
}
