/* read_loop.h: what the two files of the loop-nest parser share; not for others. */
#ifndef NST_IR_READ_LOOP_H
#define NST_IR_READ_LOOP_H

#include "ir/text_loop.h"

#define NST_READ_MAX_STATEMENTS 1000000u /* a kernel; larger text is not one of ours */
#define NST_READ_MAX_NAMES      65536u   /* in scope at once */
#define NST_READ_MAX_PARTS      64u      /* of a layout */
#define NST_READ_MAX_TARGETS    64u      /* of a store */

typedef enum NstReadKind { NST_READ_SYM, NST_READ_LET, NST_READ_BUFFER } NstReadKind;

typedef struct NstReadName {
    const char *at;
    size_t n;
    NstReadKind kind;
    uint32_t id;
} NstReadName;

typedef struct NstReader {
    NstCtx *ctx;
    const char *base, *p; /* copy without comments */
    NstArena *arena;
    NstKernel *kernel;
    NST_VEC(NstReadName) scope;
    NstFormulaNames names;
    NstOrigin origin; /* of the enclosing statement */
    uint32_t n_statements;
    int depth;
} NstReader;

/* Words.  What takes leaves q->p after it; what does not find fails or says false and moves nothing. */
void nst_read_space(NstReader *q);
/* Fails at the current place: "3:14: expected '=', found 'foo'". */
NstStatus nst_read_fail(NstReader *q, const char *expected);
size_t nst_read_word_size(const char *p);
bool nst_read_take(NstReader *q, char c);
bool nst_read_take_word(NstReader *q, const char *word);
NstStatus nst_read_expect(NstReader *q, char c);
NstStatus nst_read_expect_word(NstReader *q, const char *word);
NstStatus nst_read_int(NstReader *q, int64_t lo, int64_t hi, int64_t *value);
NstStatus nst_read_quoted(NstReader *q, const char **text);
/* Names in scope: the innermost of that kind, or NULL; the callbacks of formulas and dims (arg is the reader). */
const NstReadName *nst_read_find(const NstReader *q, NstReadKind kind, const char *at, size_t n);
bool nst_read_find_buffer(void *arg, const char *at, size_t n, NstBuf *buffer, NstDtype *type);
bool nst_read_find_let(void *arg, const char *at, size_t n, uint32_t *id, NstDtype *type);
NstSym nst_read_find_sym(void *arg, const char *at, size_t n);
/* A word that names something new: not a keyword, not in use; then what it names. */
NstStatus nst_read_new_name(NstReader *q, NstReadName *name);
void nst_read_bind(NstReader *q, NstReadName name, NstReadKind kind, uint32_t id);
const char *nst_read_name_text(NstReader *q, const NstReadName *name);
NstStatus nst_read_known_buffer(NstReader *q, NstBuf *buffer);
/* Pieces.  Dims at most NST_MAX_RANK; a formula has n_args operand slots and sees names only without them. */
NstStatus nst_read_dim(NstReader *q, NstDim *dim);
NstStatus nst_read_dims(NstReader *q, NstDim *dim, uint32_t *n);
NstStatus nst_read_formula(NstReader *q, const NstDtype *arg, uint32_t n_args, NstDtype type, NstExpr *e);
NstStatus nst_read_expr(NstReader *q, NstDtype type, NstExpr *e);
NstStatus nst_read_dtype(NstReader *q, NstDtype *type);
NstStatus nst_read_origin(NstReader *q, NstOrigin *origin);
NstStatus nst_read_buffer(NstReader *q, NstSpace space, NstBuf *id);

#endif
