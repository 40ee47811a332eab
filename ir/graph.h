/* graph.h: SSA graph of primitives.
 *
 * Nodes, values and regions keep their address: pointers to them survive every later call.  Ids are never reused.
 * Values are typed by (element type, symbolic shape); nodes are primitives of prim.def; regions hold the bodies of if,
 * loop and call.  A node's attributes are the member of NstAttrs its primitive uses.  Values of an outer region may be
 * used in inner regions.  Nodes of a region are kept in topological order. */
#ifndef NST_IR_GRAPH_H
#define NST_IR_GRAPH_H

#include "ir/base/vec.h"
#include "ir/expr.h"
#include "ir/origin.h"
#include "ir/strings.h"
#include "ir/type.h"

typedef enum NstPrim {
#define NST_PRIM(name, text, group, min_in, max_in, min_out, max_out) NST_PRIM_##name,
#include "ir/prim.def"
#undef NST_PRIM
    NST_PRIM_COUNT
} NstPrim;

typedef enum NstPrimGroup {
    NST_GROUP_SOURCE,
    NST_GROUP_POINTWISE,
    NST_GROUP_VIEW,
    NST_GROUP_UPDATE,
    NST_GROUP_COMBINE,
    NST_GROUP_INDIRECT,
    NST_GROUP_STRUCTURE
} NstPrimGroup;
typedef struct NstPrimInfo {
    const char *name;
    NstPrimGroup group;
    int min_in, max_in, min_out, max_out;
} NstPrimInfo;
const NstPrimInfo *nst_prim_info(NstPrim prim);

typedef struct NstVal {
    uint32_t i;
} NstVal; /* 0 = none (absent optional) */
typedef struct NstNodeId {
    uint32_t i;
} NstNodeId; /* 0 = none */
typedef struct NstRegionId {
    uint32_t i;
} NstRegionId;

typedef enum NstPadMode { NST_PAD_CONSTANT, NST_PAD_EDGE, NST_PAD_REFLECT, NST_PAD_WRAP } NstPadMode;
typedef enum NstIndexMode {
    NST_INDEX_CHECKED, /* outside 0..n-1 is NST_E_INDEX */
    NST_INDEX_CLAMPED,
    NST_INDEX_FILL /* gather: outside reads 0; scatter: outside is skipped */
} NstIndexMode;

/* Constant data: splat (data NULL) or the elements in row-major engine storage.  seeded: data are what
 * nst_const_fill_seeded makes of seed (text prints the seed only). */
typedef struct NstConst {
    NstScalar splat;
    const void *data;
    size_t bytes;
    uint64_t id;
    uint64_t seed;
    bool seeded;
} NstConst; /* id: for plans; 0 = inline */

/* reduce and prefix: m = n_states states over n = n_in inputs of one shape.  step[k]: new state k from ARG 0..m-1 (states)
 * and ARG m..m+n-1 (elements); merge[k]: from ARG 0..m-1 (left) and m..2m-1 (right, later elements); init[k]: constant. */
typedef struct NstCombine {
    uint32_t n_states;
    const NstExpr *step, *merge, *init;
} NstCombine;

/* Labels of a contraction: 0..51 stand for the letters a..z A..Z of an equation. */
#define NST_MAX_LABELS            52
#define NST_CONTRACT_MAX_OPERANDS 4

/* Attributes, by primitive (union member named after it). */
typedef union NstAttrs {
    struct {
        const char *name;
    } param;
    NstConst constant;
    struct {
        NstDim extent;
    } iota;
    struct {
        NstDim dim;
    } dim_value;
    struct {
        NstExpr formula;
    } map; /* over ARG 0..n_in-1 */
    struct {
        NstDtype to;
        bool saturate;
    } convert; /* also bitcast (saturate unused) */
    struct {
        int order[NST_MAX_RANK];
    } permute; /* output axis k = input axis order[k] */
    /* slice: out[i] = in[start + i*step], sizes are the output type's; start_input[k] > 0: start of axis k is input
     * start_input[k] (an i64 scalar), checked so that the slice stays inside (NST_E_INDEX).  update_slice: the same with
     * step 1 (step NULL), input 0 the base, input 1 the update.  start_input NULL: all 0.  step NULL: all 1. */
    struct {
        const NstDim *start;
        const int64_t *step;
        const int *start_input;
    } slice;
    struct {
        const NstDim *lo, *hi;
        const int64_t *interior;
        NstPadMode mode;
    } pad; /* negative lo or hi crops; constant: input 1 or 0; interior NULL: all 0 */
    struct {
        int axis;
    } concat;
    /* window: for windowed axis w (axis[w], size, stride, dilation, pad lo/hi) out[..., o_w, ..., k_w] =
     * in[o_w*stride + k_w*dilation - lo]; o replaces the axis, the k axes are appended in order.  Positions in the padding
     * read input 1 (0 if absent).  They are marked: permute, reshape, expand and slice carry the mark on, contract always
     * skips marked elements, reduce does with skip_padding.  out: the o extents, NULL = as inferred. */
    struct {
        int n;
        const int *axis;
        const NstDim *size;
        const int64_t *stride, *dilation;
        const NstDim *lo, *hi;
        const NstDim *out;
    } window;
    /* lanes: order of the sum (ir/order.h), fixed when the node is built so that binding a symbol never changes it. */
    struct {
        NstCombine combine;
        int n_axes;
        const int *axes;
        bool keep;
        bool skip_padding;
        int lanes;
    } reduce;
    struct {
        NstCombine combine;
        int axis;
        bool exclusive, reverse;
    } prefix;
    /* contract: out[out_labels] = sum over the others of product of pre[k](operand k).  The first n_operands (2..4) inputs
     * are the operands, further ones belong to the pre formulas; labels[j] has a label for each axis of input j.
     * pre[k] (pre NULL or entry none: the element itself): formula over ARG 0 = the element of operand k, ARG j = input
     * n_operands + j - 1, whose labels are all labels of operand k (zero points, scales).  accumulate: type of the sum and
     * of the output (elements are converted to it before they are multiplied, left to right).  sum: the n_sum summed labels,
     * outermost first; lanes: of the innermost; block: elements of one of the sum's blocks (ir/order.h). */
    struct {
        int n_operands;
        const uint8_t *const *labels;
        const uint8_t *out_labels;
        int out_rank;
        const NstExpr *pre;
        NstDtype accumulate;
        int n_sum;
        const uint8_t *sum;
        int lanes, block;
    } contract;
    struct {
        int axis;
        bool descending;
        bool stable;
        NstDim keep;
        int n_keys;
    } sort; /* first n_keys inputs are keys (NaN last), rest payload; keep: leading elements kept, or none */
    struct {
        int axis;
        int batch;
        NstIndexMode mode;
    } gather; /* out = data[:axis] + indices[batch:] + data[axis+1:] (batch leading axes shared, batch <= axis) */
    /* scatter: combine over ARG 0 old, ARG 1 new; none = replace; in row-major order of the indices.  elementwise:
     * ScatterElements (indices shaped as updates); else rows: updates = data[:axis] + indices + data[axis+1:] (ScatterND's
     * last index axis is flattened by the lowering). */
    struct {
        int axis;
        NstIndexMode mode;
        NstExpr combine;
        bool elementwise;
    } scatter;
    struct {
        NstSym count;
        int axis;
    } compact; /* input 0: bool mask along axis; inputs 1.. compacted; COUNTED symbol */
    struct {
        NstRegionId then_region, else_region;
    } branch;
    /* loop: inputs trip count (i64 scalar, or none), condition (bool, or none), states..., outputs states..., scans...
     * region parameters: iteration, condition, states...; results: condition, states..., scan elements...
     * count: the COUNTED symbol of iterations run, none when the trip count is a known dim and there is no condition. */
    struct {
        NstRegionId body;
        int n_states;
        int n_scans;
        NstSym count;
    } loop;
    struct {
        NstRegionId body;
        const char *name;
    } call;
    struct {
        const char *name;
        const char *config;
    } host;
    struct {
        const char *message;
    } assertion; /* input: b1, all elements must be true */
} NstAttrs;

typedef struct NstNode {
    NstPrim prim;
    uint32_t n_in, n_out;
    NstVal *in, *out;
    NstAttrs attr;
    NstOrigin origin;
    NstRegionId region;
    bool dead;
} NstNode;

typedef struct NstUse {
    NstNodeId node;
    uint32_t slot;
} NstUse;
typedef struct NstValue {
    NstType type;
    NstNodeId def;    /* every value has one: params are nodes */
    uint32_t slot;    /* which output of def */
    const char *name; /* hint for text; may be NULL */
    NST_VEC(NstUse) uses;
} NstValue;

typedef struct NstRegion {
    NST_VEC(NstNodeId) nodes; /* topological; dead ones are skipped and swept */
    NST_VEC(NstVal) params, results;
    NstNodeId owner; /* none for the graph's own region */
} NstRegion;

/* A VALUE symbol and the integer scalar it is read from. */
typedef struct NstSymDef {
    NstSym sym;
    NstVal value;
} NstSymDef;

typedef struct NstGraph {
    NstArena *arena;
    NstDims *dims;
    NstExprs *exprs;
    NstOrigins *origins;
    NstStrings *strings; /* of string constants; the interpreter also keeps what host functions make here */
    const char *name;
    NST_VEC(NstNode *) nodes;           /* by id; entry 0 unused */
    NST_VEC(NstValue *) values;         /* by id; entry 0 unused */
    NST_VEC(NstRegion *) regions;       /* by id; entry 0 unused; 1 is the graph's own */
    NST_VEC(const char *) result_names; /* of region 1 */
    NST_VEC(NstSymDef) sym_defs;        /* VALUE symbols */
} NstGraph;

#define NST_GRAPH_REGION     ((NstRegionId){1}) /* the graph's own */
#define NST_MAX_NESTING      32                 /* regions in regions */
#define NST_MAX_NODES        10000000
#define NST_MAX_TENSOR_BYTES (INT64_C(64) << 30)

NstGraph *nst_graph_new(NstArena *arena, const char *name);
/* An empty graph that shares another one's symbols, expressions and origins. */
NstGraph *nst_graph_new_like(NstArena *arena, const NstGraph *like, const char *name);
NstNode *nst_graph_node(const NstGraph *graph, NstNodeId id);
NstValue *nst_graph_value(const NstGraph *graph, NstVal value);
NstRegion *nst_graph_region(const NstGraph *graph, NstRegionId region);
NstNode *nst_value_node(const NstGraph *graph, NstVal value); /* the defining node */
const NstType *nst_value_type(const NstGraph *graph, NstVal value);
/* True if the value is a result of some region. */
bool nst_value_is_result(const NstGraph *graph, NstVal value);
NstRegionId nst_graph_new_region(NstGraph *graph, NstNodeId owner);
/* Nesting depth of a region: 0 for the graph's own. */
int nst_region_depth(const NstGraph *graph, NstRegionId region);
/* The regions a node owns: writes at most two, returns how many. */
int nst_node_regions(const NstNode *node, NstRegionId region[2]);

/* Adds a node with given attributes, inputs and output types at the end of a region (no inference, no checks: build.h).
 * Arrays of the attributes are copied into the graph's arena, constant data are not.  A param joins the region's params and
 * stands before its other nodes;
 * regions of the node get it as owner. */
NstNodeId nst_graph_add(NstGraph *graph, NstRegionId region, NstPrim prim, const NstAttrs *attr, const NstVal *in,
                        uint32_t n_in, const NstType *out_type, uint32_t n_out, NstOrigin origin);
/* Sets the results of a region; names (region 1 only) may be NULL. */
void nst_graph_set_results(NstGraph *graph, NstRegionId region, const NstVal *value, uint32_t n,
                           const char *const *name);
/* sym is the value of `value`, an integer scalar. */
void nst_graph_define(NstGraph *graph, NstSym sym, NstVal value);
/* The value that defines a VALUE symbol, or none. */
NstVal nst_graph_sym_def(const NstGraph *graph, NstSym sym);
/* Input `slot` of a node becomes `to`. */
void nst_graph_set_input(NstGraph *graph, NstNodeId node, uint32_t slot, NstVal to);
/* All uses of `from` now use `to` (results and symbol definitions included). */
void nst_graph_replace(NstGraph *graph, NstVal from, NstVal to);
/* Marks a node without uses dead and drops its uses; nodes of its regions die with it. */
void nst_graph_erase(NstGraph *graph, NstNodeId node);
/* Gives up a region that no node owns yet: its nodes die. */
void nst_graph_drop_region(NstGraph *graph, NstRegionId region);
/* Erases every node whose outputs are unused (params, asserts, hosts without outputs and definitions of symbols that are in
 * use stay); restores topological order, with definitions of symbols before their users. */
void nst_graph_sweep(NstGraph *graph);
/* The node that gives a VALUE or COUNTED symbol its value: the definer of its value, or the oldest node (compact, host,
 * structure, param) with an output of that size; none if there is none.  Linear in the graph. */
NstNodeId nst_graph_definer(const NstGraph *graph, NstSym sym);
/* Calls visit for every dim of a node: attributes, formulas' indices, output types.  A sweep or a binding reads these. */
void nst_node_dims(const NstGraph *graph, const NstNode *node, void (*visit)(void *arg, NstDim dim), void *arg);
/* Fills row-major elements with pseudo-random values: element i is made of z = SplitMix64 finaliser(seed * 2^32 + i + 1 times
 * 0x9e3779b97f4a7c15): floats (z >> 40) * 2^-23 - 1, in [-1, 1) (rounded to the type); ints and bool the low bits. */
void nst_const_fill_seeded(NstDtype dtype, void *data, size_t n, uint64_t seed);

/* Text .nsg: prints and parses with exact round trip (grammar in docs/IR.md). */
void nst_graph_print(NstText *text, const NstGraph *graph);
NstStatus nst_graph_parse(NstCtx *ctx, NstArena *arena, const char *text, size_t n, NstGraph **graph) NST_MUST_CHECK;
/* Numbered checks G01.. of ir/verify.def. */
NstStatus nst_graph_verify(NstCtx *ctx, const NstGraph *graph) NST_MUST_CHECK;

/* --- interpreter --------------------------------------------------------------------------------------------- */

/* A run-time tensor of the interpreter. */
typedef struct NstTensorValue {
    NstDtype dtype;
    int rank;
    int64_t shape[NST_MAX_RANK];
    void *data;
    size_t bytes;
} NstTensorValue;

typedef struct NstHostCall { /* implemented above ir/ */
    void *arg;
    NstStatus (*call)(void *arg, NstCtx *ctx, NstArena *arena, const NstNode *node, const NstTensorValue *in,
                      NstTensorValue *out);
} NstHostCall;

/* Slow and obvious evaluation of the whole graph (which must pass nst_graph_verify): input k belongs to param k of region 1; input symbols are solved from the
 * shapes (conflicts are NST_E_SHAPE); results in arena.  has_fma: fma or mul+add in contract and FMA (bit equality with the
 * compiled code on that kind of target). */
NstStatus nst_graph_interpret(NstCtx *ctx, NstArena *arena, const NstGraph *graph, const NstTensorValue *input,
                              uint32_t n_inputs, bool has_fma, const NstHostCall *host,
                              NstTensorValue *result) NST_MUST_CHECK;

#endif
