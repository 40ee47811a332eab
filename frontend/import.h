/* import.h: ONNX bytes -> graph of primitives. */
#ifndef NST_FRONTEND_IMPORT_H
#define NST_FRONTEND_IMPORT_H

#include "ir/custom.h"
#include "ir/graph.h"

/* Extents the caller states for an input; -1 leaves one as the model has it.  An input "s" that is a sequence or optional has as
 * many elements as are declared under the names "s[0]", "s[1]"...; they become inputs of these names.  "s[]" declares that it
 * has none (an optional sequence: that there is none). */
typedef struct NstDeclaredInput {
    const char *name;
    int rank;
    const int64_t *shape;
} NstDeclaredInput;

/* An input whose value the graph may depend on (axes, a permutation, sizes): it stays an input, but is taken for this value.
 * The caller runs such a graph only with it. */
typedef struct NstFixedInput {
    const char *name;
    NstTensorValue value; /* [data borrowed during the import] */
} NstFixedInput;

/* Choices of lowerings that change roundings and go by whether a size is known: those of the import with open sizes are given to
 * that with declared ones, since no size may decide about bits. */
typedef struct NstImportChoice {
    const char *label; /* of the node */
    bool taken;
} NstImportChoice;
typedef struct NstImportChoices {
    NstArena *arena;
    NST_VEC(NstImportChoice) at;
} NstImportChoices;
/* What is given to a node of that label: the next one from *next on, which is moved past it; else its own. */
bool nst_import_choice(const NstImportChoices *given, uint32_t *next, const char *label, bool own);

/* A node that became primitives: its row of the operator table (schema.h), types of inputs and outputs; NULL: not there. */
typedef struct NstImportedNode {
    const struct NstOpRow *row;
    const NstType *const *in, *const *out;
    int n_in, n_out;
} NstImportedNode;

typedef struct NstImportOptions {
    const char *folder;             /* where external data lie; NULL: none allowed */
    const char *file;               /* the model's own, or NULL: what it links to may have its data beside it */
    const char *const *overridable; /* initialisers that become inputs (they must be graph inputs in the model) */
    uint32_t n_overridable;
    const NstDeclaredInput *input;
    uint32_t n_inputs;
    /* Set to the paths of the files of external data that were read [owned by arena]; may be NULL. */
    const char *const **external;
    uint32_t *n_external;
    NstStrings *
        strings; /* the graph's table of strings, of fixed ones too; NULL: a new one. [borrowed for the graph's life] */
    /* Extents of inputs other than 0 and 1 are open, whatever the model says: how tests see that nothing needs them. */
    bool open_sizes;
    const NstFixedInput *fixed;
    uint32_t n_fixed;
    NstImportChoices *made;        /* gets the choices that are made; may be NULL */
    const NstImportChoices *given; /* nodes of the same label take these, in order, for their own; may be NULL */
    /* After NST_E_UNSUPPORTED because an input decides about the graph's structure: the name of that input, else NULL.
     * [owned by arena]  Fix it and import again.  May be NULL. */
    const char **needs;
    uint32_t *needs_position; /* likewise: which param of the graph it is.  May be NULL. */
    /* Hears of what is wrong with a model but decides nothing (a declared output shape).  May be NULL. */
    void (*warn)(void *arg, const char *text);
    void *warn_arg;
    const NstCustom *operators; /* whose nodes become host nodes */
    /* Hears of each node: how tests know which versions and types they prove.  May be NULL. */
    void (*imported)(void *arg, const NstImportedNode *node);
    void *imported_arg;
} NstImportOptions;

/* The model's graph: a param for each input (initialisers left out unless overridable), results under the model's output
 * names, open dims as INPUT symbols named as in the model ("N"), or "image_d0" where it has no name; nodes carry the ONNX
 * node as origin.  An output that is a sequence or optional becomes results "name[0]", "name[1]"...
 * options may be NULL.
 * Owns: arena.  bytes are borrowed for the graph's life: large weights are views of them.
 * Errors: NST_E_PARSE (bytes), NST_E_MODEL, NST_E_SHAPE, NST_E_TYPE (the model breaks a rule), NST_E_UNSUPPORTED (operator,
 * version, IR version or opset not implemented), NST_E_LIMIT, NST_E_IO (external data); the text names node and value. */
NstStatus nst_import_onnx(NstCtx *ctx, NstArena *arena, const void *bytes, size_t n, const NstImportOptions *options,
                          NstGraph **graph) NST_MUST_CHECK;

/* An output as the model declares it: rank -1 where it does not say, dtype NST_DTYPE_NONE likewise. */
typedef struct NstDeclaredOutput {
    const char *name;
    NstType type;
} NstDeclaredOutput;

/* What the model declares, whatever its nodes are: a graph of params as nst_import_onnx makes them and nothing else, and the
 * outputs, over the dims of that graph.
 * Owns: arena.  Errors: as nst_import_onnx for inputs; NST_E_UNSUPPORTED for outputs that are no tensors. */
NstStatus nst_import_ports(NstCtx *ctx, NstArena *arena, const void *bytes, size_t n, const NstImportOptions *options,
                           NstGraph **graph, const NstDeclaredOutput **output, uint32_t *n_outputs) NST_MUST_CHECK;

/* A value that stands alone, as ONNX test data have them: a TensorProto in each of its encodings, or where type says so
 * ("seq(..", "optional(..": include/nestor/inspect.h) the elements of a SequenceProto or OptionalProto: at most room, *count of
 * them.  strings: what strings become handles of, NULL: they are refused.  name: for messages.
 * Owns: arena, or borrowed from bytes.  Errors: NST_E_PARSE, NST_E_MODEL, NST_E_UNSUPPORTED (strings, external data),
 * NST_E_LIMIT (more elements). */
NstStatus nst_import_values(NstCtx *ctx, NstArena *arena, NstStrings *strings, const char *name, const char *type,
                            const void *bytes, size_t n, NstTensorValue *value, uint32_t room,
                            uint32_t *count) NST_MUST_CHECK;

#endif
