/* flat.h: nests over linear addresses: the form in which maps and rows are scheduled.
 *
 * In flat form every buffer is one row of elements and every load and output has one index, its element offset.  Axes are
 * split where an index divides them, ordered as the output lies in memory, and merged where all addresses allow, so that
 * the innermost axis is as long as it can be. */
#ifndef NST_PASSES_FLAT_H
#define NST_PASSES_FLAT_H

#include "passes/writer.h"

/* Splits axis k of a nest into extent / inner and inner (which must divide the extent). */
void nst_nest_split_axis(NstModule *module, NstNest *nest, uint32_t k, NstDim inner);
/* Splits axes from `first` on wherever an index divides one: afterwards indices are linear where they can be. */
void nst_nest_split_divided(NstModule *module, NstNest *nest, uint32_t first);

/* Makes a buffer of the kernel under construction one row of elements: nests in either form can then touch it. */
void nst_flat_buffer(NstWriter *w, NstBuf module_buffer);
/* The same for all that a nest touches; before anything is written that touches it. */
void nst_flat_touched(NstWriter *w, const NstNest *nest);
/* A copy of the nest in flat form for that writer: the first n_common axes stay; the others are split, ordered (maps only)
 * and merged. */
NstNest *nst_flat_nest(NstWriter *w, const NstNest *nest, uint32_t n_common);
/* Its two halves: a copy with linear addresses; axes split, ordered and merged.  Between them a nest may be cut. */
NstNest *nst_flat_addresses(NstWriter *w, const NstNest *nest);
void nst_flat_axes(NstModule *module, NstNest *flat, uint32_t n_common);
/* Merges neighbouring reduced axes of a flat nest where all addresses allow. */
void nst_flat_merge_reduced(NstModule *module, NstNest *flat);
/* The part begin <= axis k < end of a nest, as a nest of its own. */
NstNest *nst_nest_range(NstModule *module, const NstNest *nest, uint32_t k, NstDim begin, NstDim end);

/* Element offsets that a nest touches: `dim` of loads and outputs, each once; `other` is all else that depends on axes:
 * conditions, index values, lets. */
typedef struct NstTouched {
    NST_VEC(NstDim) address, other;
    NST_VEC(NstBuf) buffer; /* by address */
    NST_VEC(bool) stored;   /* by address */
    int widest;             /* bytes of the widest element or value computed with */
} NstTouched;
void nst_touched(NstModule *module, const NstNest *nest, NstTouched *touched);

/* Places along axis k where a condition or a clamp of the nest changes, in provable order, within 0..extent (not the ends).
 * At most `max`; what cannot be ordered or solved is left out. */
uint32_t nst_breaks(NstWriter *w, const NstNest *nest, uint32_t n_common, uint32_t k, NstDim *at, uint32_t max);

#endif
