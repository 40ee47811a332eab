/* nest.h: computations as nests over buffers, and groups of nests that become kernels.
 *
 * A nest is one rectangular loop nest in a fixed form: output axes, reduction axes, guards, values.  Lowering makes one nest a
 * primitive (views become index maps); fusion rewrites nests and gathers them into groups; scheduling turns each group into
 * one kernel of ir/loop.h.  nst_group_to_kernel gives the plain, unscheduled kernel of any group: what dumps print, what
 * the interpreter runs and what tests compare with.
 *
 * Meaning of one nest:
 *   for axis[0..n_axes): for each index-let in order: bind (checked)
 *     state = identity
 *     for reduce[0..n_reduce), in the given order: if guard: state = step   (ARG k = state k before the step)
 *     assert check
 *     if store_guard: out[k].buffer[out[k].index] = out[k].value            (ARG k = final state k)
 * With lanes > 1 the reduction has that many states a state, filled and merged as ir/order.h says; with a block the state is
 * the merged states of the blocks. */
#ifndef NST_PASSES_NEST_H
#define NST_PASSES_NEST_H

#include "ir/graph.h"
#include "ir/loop.h"
#include "ir/target.h"

typedef struct NstAxis {
    NstSym var; /* 0 <= var < extent */
    NstDim extent;
} NstAxis;

typedef struct NstIndexLet {
    NstSym var;
    NstExpr value; /* i64 */
    NstDim lo, hi; /* lo <= var < hi */
    bool checked;
    NstOrigin origin;
} NstIndexLet;

typedef struct NstState {
    NstDtype dtype;
    NstExpr identity; /* constant */
    NstExpr step;     /* over LOADs and ARG 0..n_states-1 */
    NstExpr merge;    /* ARG 0..n-1 left, n..2n-1 right */
} NstState;

typedef struct NstNestOut {
    NstBuf buffer; /* of the module */
    uint32_t n_index;
    NstDim *index; /* over axis vars and index-lets */
    NstExpr value; /* over LOADs and ARG k = state k */
} NstNestOut;

typedef struct NstNest {
    const char *name;
    NstOrigin origin;
    uint32_t n_axes, n_reduce, n_states, n_outs, n_lets;
    NstAxis *axis;   /* outermost first */
    NstAxis *reduce; /* outermost first, in summation order */
    NstIndexLet *let;
    NstExpr guard;       /* none = true; bool over axis and reduction vars: a false one contributes nothing */
    NstExpr store_guard; /* none = true; bool over axis vars: a false one stores nothing (concat pieces, scatter) */
    uint32_t
        lanes; /* 0 or 1: in order; else states by the innermost reduction index modulo lanes, then a tree (ir/order.h) */
    uint32_t block; /* 0: none; else elements of a block of the one reduction axis' sum (ir/order.h) */
    NstExpr check;  /* none = nothing to assert; bool: false is NST_E_ASSERT with message */
    const char *message;
    NstState *state;
    NstNestOut *out;
} NstNest;

typedef enum NstBufferRole {
    NST_ROLE_INPUT,
    NST_ROLE_CONST,
    NST_ROLE_PACKED, /* computed once from constants by a group of module->prepack; zero where nothing is stored */
    NST_ROLE_TEMP,
    NST_ROLE_OUTPUT
} NstBufferRole;

typedef struct NstModuleBuffer {
    NstBuffer buffer; /* space ARG for all but group locals */
    NstBufferRole role;
    uint32_t index; /* INPUT: input number; OUTPUT: result number; CONST: number in module->consts */
    NstVal value;   /* the graph value it holds; none for packed forms and locals */
    bool plain;     /* stays row-major: a step of the plan that is no kernel uses it */
} NstModuleBuffer;

/* A group: nests (and inner groups) under common outer axes, or independent nests side by side; becomes one kernel at the top
 * level. */
typedef struct NstGroup NstGroup;
typedef struct NstGroupItem {
    NstNest *nest;
    NstGroup *group;
    struct NstTileSchedule *tile; /* of the nest in a serial group or among siblings; NULL: another kind */
} NstGroupItem;                   /* nest or group: exactly one is set */
struct NstGroup {
    const char *name;
    NstOrigin origin;
    uint32_t n_axes; /* common outer axes: the first n_axes axes of every member have these extents, in this order */
    NstAxis *axis;
    bool serial; /* the common axes run in order and carry state through buffers (time loop): never parallel */
    bool
        sequence; /* no common axes; the items are whole groups that one thread does in order (small.c): a local lives from the first
                    * that touches it to the last */
    NST_VEC(NstGroupItem) items;
    NST_VEC(NstBuf)
    locals; /* module buffers that live within one iteration of the common axes: no arena memory;
                               their leading n_axes indices are the common axes' vars and are dropped when scheduled */
    struct NstTileSchedule
        *tile; /* the register-tile schedule of its one nest, chosen by nst_prepare_tiles; NULL: another kind */
    struct NstModuleStep *step; /* no kernel but a step of the plan: it has no items; NULL: a kernel */
    const char *why_not_fused;  /* with the next group: reason recorded by fusion, for dump-ir and the plan */
};

/* A primitive without a nest form: sort, compact, random_bits, host, if, and a loop that is no nest.  It reads and writes whole
 * row-major buffers. */
typedef struct NstModuleStep {
    const NstNode *node;
    /* In: inputs of the node; for an if the condition, then what each body captures; for a loop the trip count, the condition,
     * the states, then what its body captures. */
    uint32_t n_in, n_out, n_makes;
    NstBuf *in, *out;
    NstSym *makes;             /* counted symbols that have their value after it */
    struct NstModule *body[2]; /* if: then and else; loop: its body; else NULL */
} NstModuleStep;

typedef struct NstModuleConst {
    NstDtype dtype;
    const void *data;
    size_t bytes;
    NstScalar splat;
    uint64_t id;
} NstModuleConst;

/* A value-defined symbol and the scalar it is read from, once the last group that writes the buffer has run. */
typedef struct NstModuleRead {
    NstSym sym;
    NstBuf buffer;
    NstOrigin origin; /* of what made it a size, for messages */
} NstModuleRead;

/* Two sizes the graph requires to be equal.  Facts of the dims say that they are, so no nest can check it. */
typedef struct NstModuleCheck {
    NstDim a, b;
    const char *message;
} NstModuleCheck;

/* All nests of a graph (or of one region of it). */
typedef struct NstModule {
    NstArena *arena;
    NstGraph *graph;
    NstRegionId region; /* whose nodes these are: the graph's own or the body of an if or a loop */
    NST_VEC(NstVal)
    captures; /* values of outer regions that a body reads: its INPUT buffers after those of its params */
    NstDims *dims;
    NstExprs *exprs;
    NstOrigins *origins;
    const NstTarget *target;
    bool strict;                      /* no approximate passes */
    NST_VEC(NstModuleBuffer) buffers; /* by NstBuf.i; entry 0 unused */
    NST_VEC(NstModuleConst) consts;
    NST_VEC(NstModuleRead) reads; /* value-defined symbols */
    NST_VEC(NstModuleCheck) checks;
    NST_VEC(NstGroup *) groups;     /* in execution order; lowering makes one group a nest */
    struct NstWriterTables *tables; /* of the kernel that is written next (writer.h); NULL: lent, or none yet */
    NST_VEC(NstGroup *) prepack;    /* run once when the plan is made, in order: they write PACKED buffers */
} NstModule;

NstModule *nst_module_new(NstArena *arena, NstGraph *graph, const NstTarget *target, bool strict);
NstBuf nst_module_buffer(NstModule *module, const char *name, NstDtype dtype, int rank, const NstDim *shape,
                         NstBufferRole role);
NstModuleBuffer *nst_module_get(const NstModule *module, NstBuf buffer);
NstNest *nst_nest_new(NstModule *module, const char *name, NstOrigin origin);
NstNest *nst_nest_clone(NstModule *module, const NstNest *nest); /* fresh axis symbols */
NstAxis nst_nest_axis(NstModule *module, const char *name, NstDim extent);
/* A substitution of symbols (axis vars): begin, set what is replaced, end rewrites every expression and index of the nest.
 * One at a time for each table of dims (nst_dims_scratch): a table of its own for each nest would take memory and time
 * by the symbols of the whole model. */
typedef struct NstNestSubst {
    NstModule *module;
    NstDim *value_of; /* by symbol; none = itself */
    uint32_t n;
    NST_VEC(NstSym) set;
} NstNestSubst;
void nst_subst_begin(NstNestSubst *s, NstModule *module);
void nst_subst_set(NstNestSubst *s, NstSym sym, NstDim value);
void nst_subst_end(NstNestSubst *s, NstNest *nest);        /* NULL: nothing is left to be rewritten */
NstGroup *nst_group_new(NstModule *module, NstNest *nest); /* of one nest, no common axes */
/* True if the group is several independent nests side by side, without common axes (fuse_siblings.c makes such). */
bool nst_is_sibling_group(const NstGroup *group);
/* True if the nest, or the shape of a buffer it touches, has a size that is known only when the plan runs. */
bool nst_nest_uses_sizes(NstModule *module, const NstNest *nest);
/* True if a nest of the group, or the shape of a buffer it touches, has the symbol. */
bool nst_group_uses_sym(NstModule *module, const NstGroup *group, NstSym sym);
/* True if the buffer lives within the group, or one inside of it. */
bool nst_group_is_local(const NstGroup *group, NstBuf buffer);
/* Does to the members of a sequence what `pass` does to the groups of a module; what it puts between them becomes members too. */
void nst_sequence_each(NstModule *module, NstGroup *sequence, void (*pass)(NstModule *module));
/* Puts a group before the one at position `at`. */
void nst_module_insert_group(NstModule *module, NstGroup *group, uint32_t at);

/* Buffers read / written by a nest, each once. */
typedef NST_VEC(NstBuf) NstBufList;
void nst_nest_reads(NstModule *module, const NstNest *nest, NstBufList *list);
void nst_nest_writes(NstModule *module, const NstNest *nest, NstBufList *list);

/* The plain kernel of a group: loops as written, no tiling.  ARG buffers in order of first use; arg_buffer[k] is the module
 * buffer of ARG k + 1 [module's arena]. */
NstStatus nst_group_to_kernel(NstCtx *ctx, NstModule *module, const NstGroup *group, NstKernel **kernel,
                              NstBuf **arg_buffer) NST_MUST_CHECK;
/* True if the buffer is constant: given, or packed from such. */
bool nst_module_buffer_is_constant(const NstModule *module, NstBuf buffer);
/* True if all that e loads is. */
bool nst_module_is_constant(NstModule *module, NstExpr e);
/* True if e over n axes can be computed before the first run: of constants alone, and of no size that is known only then. */
bool nst_module_is_ahead(NstModule *module, NstExpr e, const NstAxis *axis, uint32_t n);
/* Puts `to` in the place of `from` in the step of the nest's first state. */
void nst_nest_replace_factor(NstModule *module, NstNest *nest, NstExpr from, NstExpr to);
/* The inverse for one plain nest, so that .nsl text can be scheduled: NST_E_UNSUPPORTED with the reason if the kernel has
 * another form. */
NstStatus nst_kernel_to_module(NstCtx *ctx, NstArena *arena, const NstKernel *kernel, const NstTarget *target,
                               NstModule **module) NST_MUST_CHECK;

/* How a nest with one sum of products reads its operands: found by structure, never by operator. */
typedef struct NstContraction {
    NstExpr a, b; /* the factors as expressions over LOADs (pre-maps included); a has the row axes, b the columns */
    uint32_t n_batch, n_rows, n_cols, n_k;
    uint8_t batch[NST_MAX_RANK], rows[NST_MAX_RANK],
        cols[NST_MAX_RANK];  /* positions in nest->axis: in both / only a / only b */
    uint8_t k[NST_MAX_RANK]; /* positions in nest->reduce, in order */
} NstContraction;
/* True if the nest is: one state, step fma(a, b, state), dot4(state, a, b) or state + a*b, merge a+b. */
bool nst_nest_contraction(NstModule *module, const NstNest *nest, NstContraction *contraction);
/* True if it is one whose result has rows or columns: a sum of products of one and the same row (squares) is a reduction of it. */
bool nst_nest_is_product(NstModule *module, const NstNest *nest);
/* The same with the column axis given: columns are the axes of the operand that it belongs to (else the last axis is it). */
bool nst_nest_contraction_by(NstModule *module, const NstNest *nest, uint32_t col_axis, NstContraction *contraction);

#endif
