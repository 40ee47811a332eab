/* formula.c: text -> tree of a formula (formula_tree.h) -> expression.
 *
 * A recursive descent with precedence as in C, bounded by NST_FORMULA_NESTING.  Cost: linear in the text.  Grammar: see
 * expr.h. */
#include "ir/formula_tree.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define MAX_BINDINGS 65536

typedef NstFormulaTree Tree;
typedef NstFormulaLiteral Literal;
typedef NstFormulaParser Parser;

typedef struct Name {
    const char *at;
    size_t n;
} Name;

static NstStatus parse_choice(Parser *parser, Tree **out);

static int column_of(const Parser *parser, const char *p)
{
    return (int)(p - parser->start) + 1;
}

static int column(const Parser *parser)
{
    return column_of(parser, parser->p);
}

/* -- words of the text ----------------------------------------------------------------------------------------- */

static void skip_space(Parser *parser)
{
    while (*parser->p == ' ' || *parser->p == '\t' || (parser->whole && (*parser->p == '\n' || *parser->p == '\r')))
        parser->p++;
}

static bool accept(Parser *parser, char c)
{
    skip_space(parser);
    if (*parser->p != c) return false;
    parser->p++;
    return true;
}

/* Error: what was expected at this place, and what stands there. */
static NstStatus fail_expected(Parser *parser, const char *what)
{
    skip_space(parser);
    char c = *parser->p;
    if (c == '\0' || c == '\n')
        return nst_formula_fail(parser, NST_E_PARSE, column(parser), "expected %s, found the end", what);
    if (!isprint((unsigned char)c))
        return nst_formula_fail(parser, NST_E_PARSE, column(parser), "expected %s, found byte 0x%02x", what,
                                (unsigned char)c);
    return nst_formula_fail(parser, NST_E_PARSE, column(parser), "expected %s, found '%c'", what, c);
}

static NstStatus expect(Parser *parser, char c)
{
    const char what[] = {'\'', c, '\'', '\0'};
    return accept(parser, c) ? NST_OK : fail_expected(parser, what);
}

static bool starts_name(char c)
{
    return isalpha((unsigned char)c) || c == '_' || c == '@' || c == '%';
}

static Name read_name(Parser *parser)
{
    Name name = {parser->p, 0};
    if (starts_name(*parser->p)) do
            parser->p++;
        while (isalnum((unsigned char)*parser->p) || *parser->p == '_');
    name.n = (size_t)(parser->p - name.at);
    return name;
}

static bool is_text(Name name, const char *text)
{
    return strlen(text) == name.n && memcmp(text, name.at, name.n) == 0;
}

/* -- literals -------------------------------------------------------------------------------------------------- */

/* Digits of an integer of any base; false if it does not fit 64 bits. */
static bool read_digits(Parser *parser, unsigned base, uint64_t *value)
{
    bool fits = true;
    for (*value = 0;; parser->p++) {
        int c = tolower((unsigned char)*parser->p);
        unsigned digit = isdigit(c)                           ? (unsigned)(c - '0')
                         : base == 16 && c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                              : base;
        if (digit >= base) return fits;
        fits = fits && *value <= (UINT64_MAX - digit) / base;
        *value = *value * base + digit;
    }
}

static bool starts_exponent(const char *p)
{
    if (*p != 'e' && *p != 'E') return false;
    p += p[1] == '-' || p[1] == '+' ? 2 : 1;
    return isdigit((unsigned char)*p);
}

/* An optional type right after a literal: "f32" of 1.5f32. */
static NstStatus read_suffix(Parser *parser, NstDtype *type)
{
    *type = NST_DTYPE_NONE;
    const char *at = parser->p;
    Name name = *at == '%' || *at == '@' ? (Name){at, 0} : read_name(parser);
    if (name.n == 0) return NST_OK;
    *type = nst_dtype_parse(name.at, name.n);
    if (*type != NST_DTYPE_NONE) return NST_OK;
    return nst_formula_fail(parser, NST_E_PARSE, column_of(parser, at), "'%.*s' is no element type", (int)name.n,
                            name.at);
}

static NstStatus finish_literal(Parser *parser, Literal literal, NstDtype type, int column_number, Tree **out)
{
    if (type == NST_DTYPE_NONE) {
        *out = nst_formula_literal(parser, literal, column_number);
        return NST_OK;
    }
    NstExpr e;
    NST_TRY(nst_formula_build_literal(parser, &literal, column_number, type, &e));
    *out = nst_formula_leaf(parser, e, column_number);
    return NST_OK;
}

static NstStatus parse_number(Parser *parser, bool negative, Tree **out)
{
    const char *at = parser->p;
    bool hex = at[0] == '0' && (at[1] == 'x' || at[1] == 'X') && isxdigit((unsigned char)at[2]);
    Literal literal = {.negative = negative, .integral = true};
    if (hex) parser->p += 2;
    bool fits = read_digits(parser, hex ? 16 : 10, &literal.magnitude);
    if (!hex && (*parser->p == '.' || starts_exponent(parser->p) || !fits)) {
        literal.integral = false;
        const char *end = nst_parse_double(at, &literal.value);
        if (!end) return fail_expected(parser, "a number");
        parser->p = end;
    } else if (!fits) {
        return nst_formula_fail(parser, NST_E_PARSE, column_of(parser, at),
                                "a hexadecimal literal has at most 64 bits");
    }
    NstDtype type;
    NST_TRY(read_suffix(parser, &type));
    return finish_literal(parser, literal, type, column_of(parser, at), out);
}

/* inf, nan, inff32 ...: true if the name is one. */
static bool special_literal(Name name, Literal *literal, NstDtype *type)
{
    bool is_inf = name.n >= 3 && memcmp(name.at, "inf", 3) == 0, is_nan = name.n >= 3 && memcmp(name.at, "nan", 3) == 0;
    if (!is_inf && !is_nan) return false;
    literal->value = is_inf ? (double)INFINITY : (double)NAN;
    *type = name.n > 3 ? nst_dtype_parse(name.at + 3, name.n - 3) : NST_DTYPE_NONE;
    return name.n == 3 || nst_dtype_is_float(*type);
}

/* A word's constant acts as a literal of that value: it takes the type its context has. */
static Tree *word_tree(Parser *parser, NstExpr value, int column_number)
{
    const NstExprNode *node = nst_expr(parser->exprs, value);
    bool is_float = node->type == NST_F32 || node->type == NST_F64;
    if (node->op != NST_OP_CONST || (!is_float && !nst_dtype_is_int(node->type)))
        return nst_formula_leaf(parser, value, column_number);
    Literal literal = {.integral = !is_float};
    if (is_float) {
        literal.negative = signbit(node->imm.f) != 0;
        literal.value = fabs(node->imm.f);
    } else {
        literal.negative = nst_dtype_is_signed(node->type) && node->imm.i < 0;
        literal.magnitude = literal.negative ? 0 - node->imm.bits : node->imm.bits;
    }
    return nst_formula_literal(parser, literal, column_number);
}

/* -- operands -------------------------------------------------------------------------------------------------- */

static NstSym find_any_sym(void *arg, const char *name, size_t n)
{
    return nst_dims_find_sym(arg, name, n);
}

static NstStatus parse_dim(Parser *parser, NstDim *dim)
{
    NstDims *dims = nst_exprs_dims(parser->exprs);
    bool named = parser->names && parser->names->find_sym;
    int at = column(parser);
    NstStatus status = nst_dim_parse(parser->ctx, dims, &parser->p, named ? parser->names->find_sym : find_any_sym,
                                     named ? parser->names->arg : dims, dim);
    return status == NST_OK ? NST_OK : nst_note(parser->ctx, "in the index at column %d of a formula", at);
}

/* Dims up to the closing character, which is taken. */
static NstStatus parse_dims(Parser *parser, char close, NstDim **dim, uint32_t *n)
{
    NST_VEC(NstDim) dims = {0};
    if (!accept(parser, close)) {
        do {
            NstDim one;
            skip_space(parser);
            NST_TRY(parse_dim(parser, &one));
            nst_vec_push(parser->scratch, &dims, one);
        } while (accept(parser, ','));
        NST_TRY(expect(parser, close));
    }
    *dim = dims.at;
    *n = dims.n;
    return NST_OK;
}

/* buf[...] or buf.type[...]; the name is read. */
static NstStatus parse_load(Parser *parser, Name name, Tree **out)
{
    int at = column_of(parser, name.at);
    NstBuf buffer;
    NstDtype type = NST_DTYPE_NONE;
    bool known = parser->names && parser->names->find_buffer &&
                 parser->names->find_buffer(parser->names->arg, name.at, name.n, &buffer, &type);
    if (!known) return nst_formula_fail(parser, NST_E_PARSE, at, "no buffer is named '%.*s'", (int)name.n, name.at);
    if (accept(parser, '.')) {
        Name word = read_name(parser);
        type = nst_dtype_parse(word.at, word.n);
        if (type == NST_DTYPE_NONE)
            return nst_formula_fail(parser, NST_E_PARSE, column_of(parser, word.at), "'%.*s' is no element type",
                                    (int)word.n, word.at);
    }
    NST_TRY(expect(parser, '['));
    NstDim *dim;
    uint32_t n;
    NST_TRY(parse_dims(parser, ']', &dim, &n));
    *out = nst_formula_leaf(parser, nst_expr_load(parser->exprs, type, buffer, dim, n), at);
    return NST_OK;
}

/* convert<f16>(x) and its relatives; the name is read. */
static NstStatus parse_convert(Parser *parser, NstScalarOp op, int at, Tree **out)
{
    NST_TRY(expect(parser, '<'));
    Name word = read_name(parser);
    NstDtype to = nst_dtype_parse(word.at, word.n);
    if (to == NST_DTYPE_NONE)
        return nst_formula_fail(parser, NST_E_PARSE, column_of(parser, word.at), "'%.*s' is no element type",
                                (int)word.n, word.at);
    NST_TRY(expect(parser, '>'));
    NST_TRY(expect(parser, '('));
    Tree *arg;
    NST_TRY(parse_choice(parser, &arg));
    NST_TRY(expect(parser, ')'));
    return nst_formula_cast(parser, op, to, at, arg, out);
}

static NstStatus parse_call(Parser *parser, NstScalarOp op, int at, Tree **out)
{
    const NstScalarInfo *info = nst_scalar_info(op);
    if (info->rule == NST_RULE_CONVERT || info->rule == NST_RULE_BITCAST) return parse_convert(parser, op, at, out);
    NST_TRY(expect(parser, '('));
    Tree *arg[3] = {NULL, NULL, NULL};
    int n = 0;
    do {
        if (n == info->arity)
            return nst_formula_fail(parser, NST_E_PARSE, column(parser), "'%s' takes %d operand%s", info->text,
                                    info->arity, info->arity == 1 ? "" : "s");
        NST_TRY(parse_choice(parser, &arg[n++]));
    } while (accept(parser, ','));
    if (n < info->arity)
        return nst_formula_fail(parser, NST_E_PARSE, column(parser), "'%s' takes %d operands, given %d", info->text,
                                info->arity, n);
    NST_TRY(expect(parser, ')'));
    return nst_formula_op(parser, op, at, arg, n, out);
}

static NstStatus parse_index(Parser *parser, int at, Tree **out)
{
    NstDim dim;
    NST_TRY(expect(parser, '('));
    skip_space(parser);
    NST_TRY(parse_dim(parser, &dim));
    NST_TRY(expect(parser, ')'));
    *out = nst_formula_leaf(parser, nst_expr_index(parser->exprs, dim), at);
    return NST_OK;
}

/* The operation written as a call of that name; NONE if there is none. */
static NstScalarOp find_call(Name name)
{
    for (NstScalarOp op = NST_OP_LET + 1; op < NST_OP_COUNT; op++)
        if (is_text(name, nst_scalar_info(op)->text)) return op;
    return NST_OP_NONE;
}

/* Operand slot of a, b ... z, a26, a27 ...; false if the name is none. */
static bool arg_slot(Name name, uint32_t *slot)
{
    if (name.n == 1 && name.at[0] >= 'a' && name.at[0] <= 'z') {
        *slot = (uint32_t)(name.at[0] - 'a');
        return true;
    }
    if (name.n < 3 || name.n > 9 || name.at[0] != 'a' || name.at[1] == '0') return false;
    *slot = 0;
    for (size_t k = 1; k < name.n; k++) {
        if (!isdigit((unsigned char)name.at[k])) return false;
        *slot = *slot * 10 + (uint32_t)(name.at[k] - '0');
    }
    return *slot >= NST_FORMULA_LETTERS;
}

static NstStatus parse_plain_name(Parser *parser, Name name, Tree **out)
{
    int at = column_of(parser, name.at);
    uint32_t slot, id;
    NstDtype type;
    Literal literal = {0};
    if (arg_slot(name, &slot) && slot < parser->n_args) {
        if (parser->arg_type[slot] == NST_DTYPE_NONE)
            return nst_formula_fail(parser, NST_E_TYPE, at, "operand '%.*s' has no value", (int)name.n, name.at);
        *out = nst_formula_leaf(parser, nst_expr_arg(parser->exprs, parser->arg_type[slot], slot), at);
    } else if (is_text(name, "true") || is_text(name, "false")) {
        *out = nst_formula_leaf(parser, nst_expr_int(parser->exprs, NST_BOOL, name.at[0] == 't'), at);
    } else if (special_literal(name, &literal, &type)) {
        return finish_literal(parser, literal, type, at, out);
    } else if (parser->names && parser->names->find_let &&
               parser->names->find_let(parser->names->arg, name.at, name.n, &id, &type)) {
        *out = nst_formula_leaf(parser, nst_expr_let(parser->exprs, type, id), at);
    } else {
        return nst_formula_fail(parser, NST_E_PARSE, at, "unknown name '%.*s' (the formula has %u operand%s)",
                                (int)name.n, name.at, parser->n_args, parser->n_args == 1 ? "" : "s");
    }
    return NST_OK;
}

static NstStatus parse_name(Parser *parser, Tree **out)
{
    Name name = read_name(parser);
    int at = column_of(parser, name.at);
    for (uint32_t k = 0; k < parser->n_words; k++)
        if (is_text(name, parser->word[k].name)) {
            *out = word_tree(parser, parser->word[k].value, at);
            return NST_OK;
        }
    if (*parser->p == '[' || *parser->p == '.') return parse_load(parser, name, out);
    if (*parser->p == '(' && is_text(name, "index")) return parse_index(parser, at, out);
    NstScalarOp op = find_call(name);
    NstScalarRule rule = nst_scalar_info(op)->rule;
    bool typed = rule == NST_RULE_CONVERT || rule == NST_RULE_BITCAST;
    if (op != NST_OP_NONE && *parser->p == (typed ? '<' : '(')) return parse_call(parser, op, at, out);
    if (*parser->p == '(')
        return nst_formula_fail(parser, NST_E_PARSE, at, "unknown operation '%.*s'", (int)name.n, name.at);
    return parse_plain_name(parser, name, out);
}

/* $k: an earlier binding. */
static NstStatus parse_binding_use(Parser *parser, Tree **out)
{
    int at = column(parser);
    uint64_t k;
    parser->p++;
    if (!isdigit((unsigned char)*parser->p)) return fail_expected(parser, "the number of a binding");
    bool fits = read_digits(parser, 10, &k);
    if (!fits || k >= parser->bindings.n)
        return nst_formula_fail(parser, NST_E_PARSE, at, "no binding of that number stands before");
    *out = nst_formula_leaf(parser, parser->bindings.at[k], at);
    return NST_OK;
}

static NstStatus parse_operand(Parser *parser, Tree **out)
{
    skip_space(parser);
    char c = *parser->p;
    if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)parser->p[1])))
        return parse_number(parser, false, out);
    if (starts_name(c)) return parse_name(parser, out);
    if (c == '$') return parse_binding_use(parser, out);
    if (c != '(') return fail_expected(parser, "an operand");
    parser->p++;
    NST_TRY(parse_choice(parser, out));
    return expect(parser, ')');
}

/* -- operators ------------------------------------------------------------------------------------------------- */

static NstStatus enter(Parser *parser)
{
    if (++parser->nesting <= NST_FORMULA_NESTING) return NST_OK;
    return nst_formula_fail(parser, NST_E_LIMIT, column(parser), "nesting deeper than %d", NST_FORMULA_NESTING);
}

/* A literal right after a minus takes the sign itself; *out stays NULL if there is none. */
static NstStatus parse_negative_literal(Parser *parser, Tree **out)
{
    const char *p = parser->p;
    *out = NULL;
    if (isdigit((unsigned char)*p) || (*p == '.' && isdigit((unsigned char)p[1])))
        return parse_number(parser, true, out);
    Literal literal = {.negative = true};
    NstDtype type;
    Name name = read_name(parser);
    if (special_literal(name, &literal, &type)) return finish_literal(parser, literal, type, column_of(parser, p), out);
    parser->p = p;
    return NST_OK;
}

static NstStatus parse_prefix(Parser *parser, Tree **out)
{
    skip_space(parser);
    char c = *parser->p;
    int at = column(parser);
    if (c != '-' && c != '!' && c != '~') return parse_operand(parser, out);
    parser->p++;
    *out = NULL;
    if (c == '-') NST_TRY(parse_negative_literal(parser, out));
    if (*out) return NST_OK;
    NST_TRY(enter(parser));
    Tree *arg;
    NST_TRY(parse_prefix(parser, &arg));
    parser->nesting--;
    if (c == '-' && arg->kind == TREE_LITERAL) {
        arg->literal.negative = !arg->literal.negative;
        *out = arg;
        return NST_OK;
    }
    if (c != '-' && (arg->type == NST_BOOL) != (c == '!'))
        return nst_formula_fail(parser, NST_E_TYPE, at, "'%c' of %s; allowed: %s", c,
                                arg->type == NST_DTYPE_NONE ? "a literal" : nst_dtype_info(arg->type)->name,
                                c == '!' ? "a bool" : "an integer");
    return nst_formula_op(parser, c == '-' ? NST_OP_NEG : NST_OP_NOT, at, &arg, 1, out);
}

static const struct Infix {
    NstScalarOp op;
    int precedence;
    const char *alias; /* another spelling, or NULL */
} infixes[] = {
    {NST_OP_OR, 3, NULL},  {NST_OP_XOR, 4, NULL}, {NST_OP_AND, 5, NULL}, {NST_OP_EQ, 6, NULL},   {NST_OP_NE, 6, NULL},
    {NST_OP_LT, 7, NULL},  {NST_OP_LE, 7, NULL},  {NST_OP_GT, 7, NULL},  {NST_OP_GE, 7, NULL},   {NST_OP_SHL, 8, NULL},
    {NST_OP_SHR, 8, NULL}, {NST_OP_ADD, 9, NULL}, {NST_OP_SUB, 9, NULL}, {NST_OP_MUL, 10, NULL}, {NST_OP_DIV, 10, NULL},
    {NST_OP_REM, 10, "%"}, {NST_OP_OR, 1, "||"},  {NST_OP_AND, 2, "&&"},
};

int nst_formula_precedence(NstScalarOp op)
{
    for (size_t k = 0; k < sizeof infixes / sizeof *infixes; k++)
        if (infixes[k].op == op && !infixes[k].alias) return infixes[k].precedence;
    return 0;
}

/* The longest infix operator at this place; NULL if there is none. */
static const struct Infix *peek_infix(Parser *parser, size_t *n)
{
    const struct Infix *best = NULL;
    skip_space(parser);
    for (size_t k = 0; k < sizeof infixes / sizeof *infixes; k++) {
        const char *text = infixes[k].alias ? infixes[k].alias : nst_scalar_info(infixes[k].op)->text;
        size_t length = strlen(text);
        if (strncmp(parser->p, text, length) != 0 || (best && length <= *n)) continue;
        best = &infixes[k];
        *n = length;
    }
    return best;
}

static bool is_compare(const struct Infix *infix)
{
    return nst_scalar_info(infix->op)->rule == NST_RULE_COMPARE;
}

/* Operands joined by operators of at least this precedence.  Recursion: one level a precedence. */
static NstStatus parse_infix(Parser *parser, int least, Tree **out)
{
    NST_TRY(parse_prefix(parser, out));
    int compared = 0; /* precedence of the compare just parsed */
    size_t n = 0;
    for (const struct Infix *infix; (infix = peek_infix(parser, &n)) != NULL && infix->precedence >= least;) {
        int at = column(parser);
        if (is_compare(infix) && infix->precedence == compared)
            return nst_formula_fail(parser, NST_E_PARSE, at, "comparisons do not chain: use parentheses");
        parser->p += n;
        Tree *arg[2] = {*out, NULL};
        NST_TRY(parse_infix(parser, infix->precedence + 1, &arg[1]));
        bool logical = infix->alias && (infix->op == NST_OP_OR || infix->op == NST_OP_AND);
        if (logical && (arg[0]->type != NST_BOOL || arg[1]->type != NST_BOOL))
            return nst_formula_fail(parser, NST_E_TYPE, at, "'%s' takes two bools", infix->alias);
        NST_TRY(nst_formula_op(parser, infix->op, at, arg, 2, out));
        compared = is_compare(infix) ? infix->precedence : 0;
    }
    return NST_OK;
}

/* condition ? a : b, or what binds tighter. */
static NstStatus parse_choice(Parser *parser, Tree **out)
{
    NST_TRY(enter(parser));
    NST_TRY(parse_infix(parser, 1, out));
    skip_space(parser);
    int at = column(parser);
    if (accept(parser, '?')) {
        Tree *arg[3] = {*out, NULL, NULL};
        NST_TRY(parse_choice(parser, &arg[1]));
        NST_TRY(expect(parser, ':'));
        NST_TRY(parse_choice(parser, &arg[2]));
        NST_TRY(nst_formula_op(parser, NST_OP_SELECT, at, arg, 3, out));
    }
    parser->nesting--;
    return NST_OK;
}

/* -- entry points ---------------------------------------------------------------------------------------------- */

/* $0 = x; $1 = y; ... before the formula proper. */
static NstStatus parse_bindings(Parser *parser)
{
    for (;;) {
        skip_space(parser);
        const char *at = parser->p;
        uint64_t k;
        if (*parser->p != '$') return NST_OK;
        parser->p++;
        bool fits = isdigit((unsigned char)*parser->p) && read_digits(parser, 10, &k);
        if (!accept(parser, '=') || *parser->p == '=') {
            parser->p = at;
            return NST_OK;
        }
        if (!fits || k != parser->bindings.n || k >= MAX_BINDINGS)
            return nst_formula_fail(parser, NST_E_PARSE, column_of(parser, at), "binding %u expected",
                                    parser->bindings.n);
        Tree *tree;
        NstExpr value;
        NST_TRY(parse_choice(parser, &tree));
        NST_TRY(nst_formula_build(parser, tree, NST_DTYPE_NONE, &value));
        NST_TRY(expect(parser, ';'));
        nst_vec_push(parser->scratch, &parser->bindings, value);
    }
}

static NstStatus parse(Parser *parser, NstDtype result_type, NstExpr *result)
{
    Tree *tree;
    NST_TRY(parse_bindings(parser));
    NST_TRY(parse_choice(parser, &tree));
    skip_space(parser);
    if (parser->whole && *parser->p != '\0') return fail_expected(parser, "an operator or the end");
    return nst_formula_build(parser, tree, result_type, result);
}

static NstStatus parse_with_scratch(Parser *parser, NstDtype result_type, NstExpr *result)
{
    *result = (NstExpr){0};
    parser->scratch = nst_arena_new(parser->ctx, parser->ctx->arena);
    NstStatus status = parse(parser, result_type, result);
    nst_arena_free(parser->scratch);
    return status;
}

NstStatus nst_formula_parse(NstCtx *ctx, NstExprs *exprs, const char *text, const NstDtype *arg_type, uint32_t n_args,
                            const NstFormulaWord *word, uint32_t n_words, NstDtype result_type,
                            const NstFormulaNames *names, NstExpr *result)
{
    Parser parser = {.ctx = ctx,
                     .exprs = exprs,
                     .start = text,
                     .p = text,
                     .whole = true,
                     .arg_type = arg_type,
                     .n_args = n_args,
                     .word = word,
                     .n_words = n_words,
                     .names = names};
    return parse_with_scratch(&parser, result_type, result);
}

NstStatus nst_formula_parse_at(NstCtx *ctx, NstExprs *exprs, const char **p, const NstDtype *arg_type, uint32_t n_args,
                               const NstFormulaWord *word, uint32_t n_words, NstDtype result_type,
                               const NstFormulaNames *names, NstExpr *result)
{
    Parser parser = {.ctx = ctx,
                     .exprs = exprs,
                     .start = *p,
                     .p = *p,
                     .arg_type = arg_type,
                     .n_args = n_args,
                     .word = word,
                     .n_words = n_words,
                     .names = names};
    NstStatus status = parse_with_scratch(&parser, result_type, result);
    if (status == NST_OK) *p = parser.p;
    return status;
}
