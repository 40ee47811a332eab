/* formula_print.c: expression -> text that parses back to the same expression.
 *
 * A subexpression used more than once, or nested deeper than the parser allows, is printed once as a binding
 * (`$0 = a * b; $0 + $0`), so that the text is linear in the distinct nodes.  A literal carries its type only
 * where the operand beside it does not give it. */
#include "ir/formula_tree.h"

#include <ctype.h>
#include <math.h>

#include "ir/base/map.h"
#include "ir/base/vec.h"

#define INLINE_OPS   4  /* a shared subexpression of at most this many operations is printed again instead of bound */
#define INLINE_DEPTH 24 /* each level costs the parser at most two of NST_FORMULA_NESTING */
#define UNBOUND      UINT32_MAX

typedef struct Info {
    NstExpr e;
    uint32_t uses, ops, depth; /* ops, depth: as printed, bound operands counting as leaves */
    uint32_t binding;          /* its number, or UNBOUND */
} Info;

typedef struct Printer {
    NstText *text;
    const NstExprs *exprs;
    const NstFormulaNames *names;
    NstExpr root;
    NstMap where; /* id -> index into info */
    NST_VEC(Info) info;
    uint32_t n_bindings;
} Printer;

static void print_at(Printer *printer, NstExpr e, int least, bool typed);

/* -- what to bind ---------------------------------------------------------------------------------------------- */

static Info *info_of(Printer *printer, NstExpr e)
{
    return &printer->info.at[nst_map_get(&printer->where, e.i, 0)];
}

static void count_uses(void *arg, NstExpr e, const NstExprNode *node)
{
    Printer *printer = arg;
    nst_map_put(&printer->where, e.i, printer->info.n);
    Info info = {.e = e, .binding = UNBOUND};
    nst_vec_push(printer->text->arena, &printer->info, info);
    for (int k = 0; k < nst_scalar_info(node->op)->arity; k++) info_of(printer, node->arg[k])->uses++;
}

/* Decides in operand order which nodes become bindings. */
static void choose_bindings(Printer *printer)
{
    for (uint32_t i = 0; i < printer->info.n; i++) {
        Info *info = &printer->info.at[i];
        const NstExprNode *node = nst_expr(printer->exprs, info->e);
        int arity = nst_scalar_info(node->op)->arity;
        if (arity == 0) continue;
        info->ops = 1;
        for (int k = 0; k < arity; k++) {
            const Info *arg = info_of(printer, node->arg[k]);
            if (arg->binding != UNBOUND) continue;
            info->ops += arg->ops;
            if (info->depth < arg->depth) info->depth = arg->depth;
        }
        info->depth++;
        bool shared = info->uses > 1 && info->ops > INLINE_OPS;
        if (info->e.i != printer->root.i && (shared || info->depth >= INLINE_DEPTH))
            info->binding = printer->n_bindings++;
    }
}

/* -- literals -------------------------------------------------------------------------------------------------- */

static void print_type(Printer *printer, NstDtype type)
{
    nst_text_add(printer->text, "%s", nst_dtype_info(type)->name);
}

/* The double whose shortest decimal is the shortest that reads back as this f32. */
static double shortest_for_f32(double value)
{
    for (int digits = 1; digits < 9; digits++) {
        char text[40];
        double read;
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
        for (char *p = text; *p; p++)
            if (!isdigit((unsigned char)*p) && *p != '-' && *p != '+' && *p != 'e') *p = '.'; /* the locale's point */
        if (nst_parse_double(text, &read) && (double)(float)read == value) return read;
    }
    return value;
}

static bool is_canonical(NstDtype type, NstScalar imm, double value)
{
    return nst_scalar_convert(type, NST_F64, (NstScalar){.f = value}, false).bits == imm.bits;
}

static void print_float(Printer *printer, NstDtype type, NstScalar imm, bool typed)
{
    bool compute = type == NST_F32 || type == NST_F64;
    double value = nst_scalar_convert(NST_F64, type, imm, false).f;
    if (isnan(value)) value = (double)NAN; /* what `nan` reads as */
    if (type == NST_F32 && isfinite(value)) value = shortest_for_f32(value);
    if (!is_canonical(type, imm, value)) { /* a NaN with a payload: by its bits */
        static const NstDtype carrier[9] = {[1] = NST_U8, [2] = NST_U16, [4] = NST_U32, [8] = NST_U64};
        const NstDtypeInfo *info = nst_dtype_info(type);
        NstDtype bits_type = info->bits == 4 ? NST_U4 : carrier[info->bytes];
        uint64_t bits = nst_scalar_eval(NST_OP_BITCAST, bits_type, type, &imm, true).bits;
        nst_text_add(printer->text, "bitcast<%s>(0x%llx", info->name, (unsigned long long)bits);
        print_type(printer, bits_type);
        nst_text_add_n(printer->text, ")", 1);
        return;
    }
    nst_text_add_double(printer->text, value);
    if (!typed || !compute) print_type(printer, type);
}

static void print_const(Printer *printer, const NstExprNode *node, bool typed)
{
    NstDtype type = node->type;
    if (type == NST_BOOL) {
        nst_text_add(printer->text, node->imm.i ? "true" : "false");
        return;
    }
    if (nst_dtype_is_float(type)) {
        print_float(printer, type, node->imm, typed);
        return;
    }
    if (nst_dtype_is_signed(type))
        nst_text_add(printer->text, "%lld", (long long)node->imm.i);
    else
        nst_text_add(printer->text, "%llu", (unsigned long long)node->imm.bits);
    if (!typed || nst_dtype_info(type)->compute != type) print_type(printer, type);
}

/* -- leaves ---------------------------------------------------------------------------------------------------- */

static void print_dims(Printer *printer, const NstExprNode *node)
{
    const NstFormulaNames *names = printer->names;
    for (uint32_t k = 0; k < node->n_index; k++) {
        if (k) nst_text_add_n(printer->text, ", ", 2);
        nst_dim_print(printer->text, nst_exprs_dims(printer->exprs), node->index[k], names ? names->sym_name : NULL,
                      names ? names->arg : NULL);
    }
}

static void print_load(Printer *printer, const NstExprNode *node)
{
    const NstFormulaNames *names = printer->names;
    NstBuf buffer = {node->ref};
    NstDtype type = NST_DTYPE_NONE;
    if (names && names->buffer_name) {
        const char *name = names->buffer_name(names->arg, buffer);
        nst_text_add(printer->text, "%s", name);
        if (names->find_buffer) (void)names->find_buffer(names->arg, name, strlen(name), &buffer, &type);
    } else {
        nst_text_add(printer->text, "buffer%u", node->ref);
    }
    if (type != node->type) nst_text_add(printer->text, ".%s", nst_dtype_info(node->type)->name);
    nst_text_add_n(printer->text, "[", 1);
    print_dims(printer, node);
    nst_text_add_n(printer->text, "]", 1);
}

static void print_leaf(Printer *printer, const NstExprNode *node, bool typed)
{
    const NstFormulaNames *names = printer->names;
    switch (node->op) {
    case NST_OP_CONST: print_const(printer, node, typed); return;
    case NST_OP_ARG:
        if (node->ref < NST_FORMULA_LETTERS)
            nst_text_add(printer->text, "%c", (char)('a' + node->ref));
        else
            nst_text_add(printer->text, "a%u", node->ref);
        return;
    case NST_OP_INDEX:
        nst_text_add(printer->text, "index(");
        print_dims(printer, node);
        nst_text_add_n(printer->text, ")", 1);
        return;
    case NST_OP_LOAD: print_load(printer, node); return;
    case NST_OP_LET:
        if (names && names->let_name)
            nst_text_add(printer->text, "%s", names->let_name(names->arg, node->ref));
        else
            nst_text_add(printer->text, "let%u", node->ref);
        return;
    default: NST_ASSERT(!"leaf");
    }
}

/* -- operations ------------------------------------------------------------------------------------------------ */

/* Whether another operand gives a literal at position k its type. */
static bool has_typed_sibling(const Printer *printer, const NstExprNode *node, int first, int k)
{
    for (int other = first; other < nst_scalar_info(node->op)->arity; other++)
        if (other != k && nst_expr(printer->exprs, node->arg[other])->op != NST_OP_CONST) return true;
    return false;
}

static void print_call(Printer *printer, const NstExprNode *node)
{
    const NstScalarInfo *info = nst_scalar_info(node->op);
    nst_text_add(printer->text, "%s", info->text);
    if (info->rule == NST_RULE_CONVERT || info->rule == NST_RULE_BITCAST)
        nst_text_add(printer->text, "<%s>", nst_dtype_info(node->type)->name);
    nst_text_add_n(printer->text, "(", 1);
    for (int k = 0; k < info->arity; k++) {
        if (k) nst_text_add_n(printer->text, ", ", 2);
        print_at(printer, node->arg[k], 0, has_typed_sibling(printer, node, 0, k));
    }
    nst_text_add_n(printer->text, ")", 1);
}

static void print_choice(Printer *printer, const NstExprNode *node)
{
    print_at(printer, node->arg[0], 1, false);
    nst_text_add_n(printer->text, " ? ", 3);
    print_at(printer, node->arg[1], 0, has_typed_sibling(printer, node, 1, 1));
    nst_text_add_n(printer->text, " : ", 3);
    print_at(printer, node->arg[2], 0, has_typed_sibling(printer, node, 1, 2));
}

static void print_infix(Printer *printer, const NstExprNode *node, int precedence)
{
    const NstScalarInfo *info = nst_scalar_info(node->op);
    bool chains = info->rule != NST_RULE_COMPARE;
    print_at(printer, node->arg[0], chains ? precedence : precedence + 1, has_typed_sibling(printer, node, 0, 0));
    nst_text_add(printer->text, " %s ", info->text);
    print_at(printer, node->arg[1], precedence + 1, has_typed_sibling(printer, node, 0, 1));
}

static void print_node(Printer *printer, const NstExprNode *node, int least)
{
    bool choice = node->op == NST_OP_SELECT, prefix = node->op == NST_OP_NEG;
    int infix = nst_formula_precedence(node->op), precedence = prefix ? NST_PRECEDENCE_PREFIX : infix;
    bool call = !choice && precedence == 0, parentheses = !call && precedence < least;
    if (parentheses) nst_text_add_n(printer->text, "(", 1);
    if (call) {
        print_call(printer, node);
    } else if (choice) {
        print_choice(printer, node);
    } else if (prefix) {
        nst_text_add_n(printer->text, "-", 1);
        print_at(printer, node->arg[0], NST_PRECEDENCE_PREFIX, false);
    } else {
        print_infix(printer, node, infix);
    }
    if (parentheses) nst_text_add_n(printer->text, ")", 1);
}

/* e where operators binding weaker than `least` need parentheses; typed: a literal's type is given by the
 * context. */
static void print_at(Printer *printer, NstExpr e, int least, bool typed)
{
    const NstExprNode *node = nst_expr(printer->exprs, e);
    const Info *info = info_of(printer, e);
    if (nst_scalar_info(node->op)->arity == 0)
        print_leaf(printer, node, typed);
    else if (info->binding != UNBOUND)
        nst_text_add(printer->text, "$%u", info->binding);
    else
        print_node(printer, node, least);
}

void nst_expr_print(NstText *text, const NstExprs *exprs, NstExpr e, const NstFormulaNames *names)
{
    const NstExprNode *node = nst_expr(exprs, e);
    Printer printer = {.text = text, .exprs = exprs, .names = names, .root = e};
    if (nst_scalar_info(node->op)->arity == 0) {
        print_leaf(&printer, node, false);
        return;
    }
    nst_map_init(&printer.where, text->arena);
    nst_expr_visit(exprs, e, count_uses, &printer);
    choose_bindings(&printer);
    for (uint32_t i = 0; i < printer.info.n; i++) {
        const Info *info = &printer.info.at[i];
        if (info->binding == UNBOUND) continue;
        nst_text_add(text, "$%u = ", info->binding);
        print_node(&printer, nst_expr(exprs, info->e), 0);
        nst_text_add(text, "; ");
    }
    print_node(&printer, node, 0);
}
