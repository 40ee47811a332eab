/* lower.h: the dialect of lowerings: short words over ir/build.h for one node of a model.
 *
 * A lowering is `LOWER(name) { ... }` with c, the node, and arg, the text of its table row.  Inputs and attributes are those
 * of the newest version: defaults are filled in, older meanings adapted.  Values are ids; none (0) is an absent optional.  A
 * call on a failed node gives none and keeps the first error, so that lowerings have no error lines; questions about a
 * value of a failed node answer like a scalar. */
#ifndef NST_FRONTEND_LOWER_H
#define NST_FRONTEND_LOWER_H

#include "frontend/attr.h"
#include "frontend/shape_value.h"
#include "frontend/weights.h"
#include "ir/build.h"

typedef NstVal V;
typedef NstDim D;

struct NstLower {
    NstBuild *b;
    NstArena *arena; /* of the import */
    NstOnnxModel *model;
    NstShapeValues *sizes;
    const char *label; /* "Conv 'c1'" */
    NstAttrList attrs;
    V *ins; /* room for at least NST_MAX_FORMALS; what is past n_in is none */
    int n_ins;
    V *outs; /* n_outs entries, filled by the lowering */
    bool *wanted;
    int n_outs;
    bool refused;             /* by the lowering itself (fail), not by a rule of the builder */
    struct NstImport *import; /* for graphs in attributes */
};

#define LOWER(name)                                                                                                    \
    void nst_onnx_##name(NstLower *c, const char *arg);                                                                \
    void nst_onnx_##name(__attribute__((unused)) NstLower *c, __attribute__((unused)) const char *arg)
#define ADAPT(name)                                                                                                    \
    void nst_adapt_##name(NstLower *c, const char *arg);                                                               \
    void nst_adapt_##name(__attribute__((unused)) NstLower *c, __attribute__((unused)) const char *arg)

/* A set of axes, ascending. */
typedef struct Axes {
    int n, at[NST_MAX_RANK];
} Axes;

enum { DROP = false, KEEP = true };

/* --- the node -------------------------------------------------------------------------------------------------- */

static inline V in(const NstLower *c, int k)
{
    return k < c->n_ins ? c->ins[k] : (V){0};
}
static inline bool has(const NstLower *c, int k)
{
    return in(c, k).i != 0;
}
static inline void out(NstLower *c, int k, V v)
{
    if (k < c->n_outs) c->outs[k] = v;
}
/* Whether output k has a name in the model. */
static inline bool wants(const NstLower *c, int k)
{
    return k < c->n_outs && c->wanted[k];
}
/* Fails the node: "Conv 'c1': ..." */
V fail(NstLower *c, NstStatus status, const char *format, ...) NST_PRINTF(3, 4);
static inline bool failed(const NstLower *c)
{
    return c->b->status != NST_OK;
}

bool has_attr(const NstLower *c, const char *name);
int64_t attr_i(NstLower *c, const char *name);
/* The element type whose code that is; `otherwise`, if there is one, where it is absent or 0. */
NstDtype attr_type(NstLower *c, const char *name, NstDtype otherwise);
double attr_f(NstLower *c, const char *name);
const char *attr_s(NstLower *c, const char *name);
bool attr_is(NstLower *c, const char *name, const char *text);
/* A list of integers; n = 0 and NULL if it is not there. */
const int64_t *attr_ints(NstLower *c, const char *name, int *n);

/* --- types and sizes ------------------------------------------------------------------------------------------- */

const NstType *type(const NstLower *c, V v);
static inline int rank(const NstLower *c, V v)
{
    return type(c, v)->rank;
}
static inline NstDtype dtype(const NstLower *c, V v)
{
    return type(c, v)->dtype;
}
/* Extent of an axis; 1 outside the rank. */
D dim(NstLower *c, V v, int axis);
D num(NstLower *c, int64_t value);
/* A size that is known once the node has run. */
D counted(NstLower *c, int64_t least_size);
D add(NstLower *c, D a, D b);
D sub(NstLower *c, D a, D b);
D mul(NstLower *c, D a, D b);
D minus1(NstLower *c, D a);
D least(NstLower *c, D a, D b);
D most(NstLower *c, D a, D b);
D product(NstLower *c, V v, int from, int to); /* of extents from <= axis < to */
bool is_num(NstLower *c, D a, int64_t value);
bool known(NstLower *c, D a, int64_t *value);
/* The choice between two ways that round differently where `known`, that sizes are known, would decide: what is chosen where
 * declared sizes are open (NstImportChoices). */
bool choose(NstLower *c, bool known);
NstTruth compare(NstLower *c, D a, NstDimCompare op, D b);

/* The extent of two that are broadcast; where nothing can be proven, as infer.c has it for maps. */
D broadcast_extent(NstLower *c, D own, D wanted);
/* An extent that must be that number: fails, or is checked at run time where it is open. */
void require_size(NstLower *c, D extent, int64_t value, const char *what);
/* An axis -rank..rank-1 (inclusive: ..rank) as 0..; fails outside. */
int norm_axis(NstLower *c, int64_t axis, int rank, bool inclusive);
Axes axes_of(NstLower *c, const int64_t *axis, int n, int rank);
Axes axes_from(int first, int last); /* first..last-1 */
bool has_axis(const Axes *axes, int axis);
/* Notes the input that a value which has to be known comes from (through views and maps of one operand). */
void needs_value(NstLower *c, V v);
/* The constant integers of input k (that must be constant: what says so in messages); n = -1 if absent. */
const int64_t *const_ints(NstLower *c, int k, const char *what, int *n);
/* The element of a constant that has one and is no string: as it is, and as a number. */
bool const_scalar(NstLower *c, V v, NstScalar *value);
bool const_number(NstLower *c, V v, double *value);
/* The elements of input k as sizes: constants, what Shape made, or read at run time (then at least lo). n = -1: absent. */
const D *sizes_in(NstLower *c, int k, const char *what, int64_t lo, int *n);

/* --- values ---------------------------------------------------------------------------------------------------- */

V number(NstLower *c, NstDtype dtype, double value); /* a scalar; 0 is the empty string too */
V size_value(NstLower *c, D dim);                    /* an i64 scalar */
/* A formula over values, broadcast; @name are the node's numeric attributes. */
V mapn(NstLower *c, const char *formula, int n, const V *x);
#define map(c, formula, ...) mapn((c), (formula), (int)(sizeof((V[]){__VA_ARGS__}) / sizeof(V)), (V[]){__VA_ARGS__})
/* Narrow floats as f32, all else as it is; and back. */
V widen(NstLower *c, V x);
V convert(NstLower *c, V x, NstDtype to);
V reduce(NstLower *c, const char *combine, V x, Axes axes, bool keep);
/* condition ? x : y, broadcast, of any type: c128 is none that formulas hold, and is gathered. */
V where(NstLower *c, V condition, V x, V y);
V reshape(NstLower *c, V x, int rank, const D *shape);
V permute(NstLower *c, V x, const int *order);
V expand(NstLower *c, V x, int rank, const D *shape);
V contract(NstLower *c, const char *equation, V a, V b);
/* The product of 8-bit operands less their zero points (none: 0), in i32.  la, lb: labels of the zero points' axes. */
V contract_less(NstLower *c, const char *a_labels, const char *b_labels, const char *out_labels, V a, V a_zero,
                const char *la, V b, V b_zero, const char *lb);
/* Axis `axis` of extent n as two axes [g, n / g]; two neighbours as one. */
V split_axis(NstLower *c, V x, int axis, int64_t g);
V merge_axes(NstLower *c, V x, int axis);
V drop_axis(NstLower *c, V x, int axis);   /* of extent 1 */
V insert_axis(NstLower *c, V x, int axis); /* of extent 1 */
V slice1(NstLower *c, V x, int axis, D start, int64_t step, D size);
/* Entry t of an axis, which stays, with extent 1: in the body of a loop over that axis.  Zeros where the axis is empty: such a
 * body never runs. */
V step_slice(NstLower *c, V x, int axis, V t);
V concat(NstLower *c, int n, const V *x, int axis);
V gather(NstLower *c, V data, V index, int axis, NstIndexMode mode);
/* A vector [n] as [1, n, 1, 1] against x of that rank. */
V along(NstLower *c, V vector, int axis, int rank);
/* round(x) + zero (none: 0) as an integer type of at most 16 bits, kept inside it. */
V quantize_to(NstLower *c, V x, V zero, NstDtype to);
/* x as u8 with one scale and zero point for all of it, so that 0 is a value. */
typedef struct Quantized {
    V x, scale, zero;
} Quantized;
Quantized quantize_dynamically(NstLower *c, V x);
/* The elements of a tensor of the model. */
V weight(NstLower *c, const Onnx__TensorProto *tensor, const char *what);
V sparse_weight(NstLower *c, const Onnx__SparseTensorProto *sparse, const char *what);

/* --- regions --------------------------------------------------------------------------------------------------- */

/* A new region: until leave, nodes go into it.  The caller keeps inner. */
typedef struct Inner {
    NstBuild build, *outer;
    NstRegionId region;
} Inner;
void enter(NstLower *c, Inner *inner);
V param(NstLower *c, const char *name, const NstType *type);
/* The first two parameters of a loop's body: the number of the step, which is given, and whether it goes on. */
V loop_params(NstLower *c, const char *step, V *go);
NstRegionId leave(NstLower *c, Inner *inner, int n, const V *results);
/* The nodes of the graph in an attribute, in the current region: in stand for its inputs, out become its outputs. */
void graph(NstLower *c, const char *attr, int n_in, const V *in, int n_out, V *out);
int graph_outputs(NstLower *c, const char *attr);
/* The type that output k of that graph declares, 0 for extents it leaves open; false if it does not say its rank and element. */
bool graph_output_type(NstLower *c, const char *attr, int k, NstType *type);

#endif
