/* text_graph.h: what printer and parser of .nsg share; private to ir/text_graph*.c.  Grammar: docs/IR.md, Graph. */
#ifndef NST_IR_TEXT_GRAPH_H
#define NST_IR_TEXT_GRAPH_H

#include "ir/base/map.h"
#include "ir/graph.h"

/* --- words that both directions use ---------------------------------------------------------------------------- */

/* Names of NstPadMode and NstIndexMode values, in order. */
extern const char *const nst_pad_mode_names[4];
extern const char *const nst_index_mode_names[3];

char nst_label_letter(uint8_t label);

/* --- printing -------------------------------------------------------------------------------------------------- */

typedef struct NstGraphPrinter {
    NstText *text;
    const NstGraph *graph;
    const char **name; /* by value id, without the % */
} NstGraphPrinter;

/* "TYPE splat 0.5f32", "TYPE data ...", "TYPE seed 7" */
void nst_graph_print_const(NstText *text, const NstGraph *graph, const NstType *type, const NstConst *constant);
/* Attributes and operands of a node, regions left out. */
void nst_graph_print_node_body(const NstGraphPrinter *printer, const NstNode *node);
void nst_graph_print_value(const NstGraphPrinter *printer, NstVal value);

/* --- parsing --------------------------------------------------------------------------------------------------- */

typedef struct NstGraphReader {
    NstCtx *ctx;
    NstArena *arena; /* of the graph */
    NstGraph *graph;
    const char *start, *p, *end; /* *end is NUL */
    NstMap names;                /* hash of a value's name -> id */
    NstRegionId region;
    int depth;
} NstGraphReader;

/* A statement while it is read. */
typedef struct NstStatement {
    NstPrim prim;
    NstAttrs attr;
    NST_VEC(NstVal) in;
    uint32_t n_out;
    NstType type; /* const: given before the data */
} NstStatement;

/* NST_E_PARSE "line 3, column 7: ..." */
NstStatus nst_graph_read_fail(NstGraphReader *r, const char *format, ...) NST_PRINTF(2, 3);
void nst_graph_read_space(NstGraphReader *r); /* and comments */
/* Consumes a sign or word if it is next; a word must end there. */
bool nst_graph_read_try(NstGraphReader *r, const char *sign);
bool nst_graph_read_try_word(NstGraphReader *r, const char *word);
NstStatus nst_graph_read_expect(NstGraphReader *r, const char *sign) NST_MUST_CHECK;
NstStatus nst_graph_read_expect_word(NstGraphReader *r, const char *word) NST_MUST_CHECK;
NstStatus nst_graph_read_int(NstGraphReader *r, int64_t *value) NST_MUST_CHECK;
NstStatus nst_graph_read_small_int(NstGraphReader *r, int *value) NST_MUST_CHECK;
/* A quoted text, unescaped; a string may hold zeros. [graph's arena] */
NstStatus nst_graph_read_string(NstGraphReader *r, const char **text, size_t *n) NST_MUST_CHECK;
NstStatus nst_graph_read_quoted(NstGraphReader *r, const char **text, size_t *n) NST_MUST_CHECK;
NstStatus nst_graph_read_dim(NstGraphReader *r, NstDim *dim) NST_MUST_CHECK;
NstStatus nst_graph_read_type(NstGraphReader *r, NstType *type) NST_MUST_CHECK;
NstStatus nst_graph_read_dtype(NstGraphReader *r, NstDtype *dtype) NST_MUST_CHECK;
/* A formula in quotes over operands of these types. */
NstStatus nst_graph_read_formula(NstGraphReader *r, const char *text, const NstDtype *type, uint32_t n, NstDtype result,
                                 NstExpr *e) NST_MUST_CHECK;
/* %name of a value read before. */
NstStatus nst_graph_read_value(NstGraphReader *r, NstVal *value) NST_MUST_CHECK;
/* A symbol's name; none where there is none of that name. */
NstStatus nst_graph_read_symbol(NstGraphReader *r, NstSym *sym) NST_MUST_CHECK;
NstStatus nst_graph_read_const(NstGraphReader *r, NstStatement *s) NST_MUST_CHECK;
/* Attributes and operands of s->prim. */
NstStatus nst_graph_read_node_body(NstGraphReader *r, NstStatement *s) NST_MUST_CHECK;

#endif
