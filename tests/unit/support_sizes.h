/* support_sizes.h: random graphs compiled with their sizes open and with (some of) them declared: no size may decide about bits. */
#ifndef NST_TESTS_UNIT_SUPPORT_SIZES_H
#define NST_TESTS_UNIT_SUPPORT_SIZES_H

#include <stdint.h>

/* How often a graph had kernels of a kind; a kind that none had was not tested. */
typedef enum SizesKind {
    SIZES_MOMENTS, /* a row's sum and squared distances in one pass */
    SIZES_RECIPROCAL,
    SIZES_ROWS,   /* nests under common axes */
    SIZES_STRIPS, /* contraction, rows, contraction */
    SIZES_TILES,
    SIZES_LANES,   /* dots */
    SIZES_WINDOWS, /* with conditions of their padding */
    SIZES_BYTES,   /* products of bytes */
    SIZES_PACKS,
    SIZES_SIBLINGS,
    SIZES_SEQUENCES,
    SIZES_KINDS
} SizesKind;

typedef struct SizesReport {
    uint64_t graphs, refused, failed;
    uint64_t of[SIZES_KINDS];
} SizesReport;

/* Compiles the graph of each seed for the host, approximate passes on, with its symbols open and with both, one or the other
 * declared, one of the two run on two threads; asserts the same bits (Criterion), and that not more than one graph in twenty is
 * refused as unsupported. */
void support_check_sizes(uint64_t first, uint64_t last, SizesReport *report);
/* Asserts that every kind of kernel was there. */
void support_check_kinds(const SizesReport *report);

#endif
