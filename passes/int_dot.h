/* int_dot.h: contractions of 8-bit integers with zero points become packed dot products plus row and column sums. */
#ifndef NST_PASSES_INT_DOT_H
#define NST_PASSES_INT_DOT_H

#include "passes/nest.h"

/* The element types of the row and of the column operand (the one that column axis `col` belongs to), if the nest of group `at` is
 * a contraction of that form. */
bool nst_integer_contraction_types(NstModule *module, uint32_t at, uint32_t col, NstDtype *a, NstDtype *b);

/* Takes off conditions which say that the row operand is inside of its buffer (the padding of a window): it is read from a copy with its
 * zero point around it, made by a group before (`at` counts it), large enough for whole registers of `matrix` along axis row_axis and
 * k.  True if the nest of group `at` has no conditions (any more).  Only where the columns are constants and zero points bytes. */
bool nst_integer_surround(NstModule *module, uint32_t *at, uint32_t col, int row_axis, const NstTensorInsnInfo *matrix);

/* Rewrites the contraction sum (a - za)(b - zb) of 8-bit a, b in i32 as  sum a*b - zb * sum a - za * sum b + K za zb, all
 * wrapping: exact on every target.  The product runs over words of four k; sums become nests of their own before it (of
 * constants: before the run).  Without `matrix` the operands become u8 and s8 (DOT4_U8S8), words of rows are put through a
 * buffer where they are no loads; with it they stay as they are, are left to be packed, and k ends with zeros up to a
 * whole register.  Returns true if the nest of group `at` had that form and was rewritten; `at` then counts the groups put
 * before it.
 * A contraction with conditions that k takes no part in (a window with padding), constant columns and rows that are a load by k, has
 * both operands less their zero points as pairs of 16 bits instead (DOT2_S16), without sums; rows are widened through a buffer. */
bool nst_integer_contraction(NstModule *module, uint32_t *at, uint32_t col, const NstTensorInsnInfo *matrix);

/* The same for a step of a serial group, in words for vectors: only where nothing has to run before it in each step (constant columns
 * of i8 around zero, rows in whole words). */
bool nst_integer_step(NstModule *module, NstNest *nest, uint32_t col);

#endif
