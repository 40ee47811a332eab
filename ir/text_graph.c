/* text_graph.c: prints a graph as .nsg.  What is printed depends on the graph's meaning and order alone: printing what
 * was parsed gives the same text. */
#include "ir/text_graph.h"

#include "ir/base/map.h"
#include "ir/order.h"
#include "ir/build.h"
#include "ir/infer.h"

const char *const nst_pad_mode_names[4] = {"constant", "edge", "reflect", "wrap"};
const char *const nst_index_mode_names[3] = {"checked", "clamped", "fill"};

char nst_label_letter(uint8_t label)
{
    if (label >= NST_MAX_LABELS) return '?';
    return (char)(label < 26 ? 'a' + label : 'A' + label - 26);
}

/* --- names ----------------------------------------------------------------------------------------------------- */

static bool name_char(char c, bool first)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_') return true;
    return !first && ((c >= '0' && c <= '9') || c == '.');
}

typedef struct Namer {
    const NstGraph *graph;
    NstArena *arena;
    const char **name;
    NstMap used;
    uint32_t n_unnamed;
} Namer;

static bool take_name(Namer *namer, const char *name)
{
    uint64_t key = nst_hash_bytes(name, strlen(name), 0);
    if (nst_map_get(&namer->used, key, 0) != 0) return false;
    nst_map_put(&namer->used, key, 1);
    return true;
}

/* Its hint made an identifier that is unique, or the next number. */
static void name_value(Namer *namer, NstVal value)
{
    const char *hint = nst_graph_value(namer->graph, value)->name;
    if (!hint || !*hint) {
        namer->name[value.i] = nst_format(namer->arena, "%u", namer->n_unnamed++);
        return;
    }
    char *plain = nst_strdup(namer->arena, hint);
    for (char *c = plain; *c; c++)
        if (!name_char(*c, false)) *c = '_';
    if (!name_char(plain[0], true)) plain = nst_format(namer->arena, "_%s", plain);
    const char *name = plain;
    for (uint32_t k = 1; !take_name(namer, name); k++) name = nst_format(namer->arena, "%s.%u", plain, k);
    namer->name[value.i] = name;
}

static void name_region(Namer *namer, NstRegionId id)
{
    const NstRegion *region = nst_graph_region(namer->graph, id);
    for (uint32_t k = 0; k < region->params.n; k++) name_value(namer, region->params.at[k]);
    for (uint32_t k = 0; k < region->nodes.n; k++) {
        const NstNode *node = nst_graph_node(namer->graph, region->nodes.at[k]);
        if (node->dead || node->prim == NST_PRIM_PARAM) continue;
        for (uint32_t o = 0; o < node->n_out; o++) name_value(namer, node->out[o]);
        NstRegionId owned[2];
        int n_owned = nst_node_regions(node, owned);
        for (int r = 0; r < n_owned; r++) name_region(namer, owned[r]);
    }
}

/* --- pieces ---------------------------------------------------------------------------------------------------- */

void nst_graph_print_value(const NstGraphPrinter *printer, NstVal value)
{
    if (value.i == 0)
        nst_text_add(printer->text, "none");
    else
        nst_text_add(printer->text, "%%%s", printer->name[value.i] ? printer->name[value.i] : "?");
}

static void print_dim(const NstGraphPrinter *printer, NstDim dim)
{
    nst_dim_print(printer->text, printer->graph->dims, dim, NULL, NULL);
}

static void print_dims(const NstGraphPrinter *printer, const char *word, const NstDim *dim, int n)
{
    nst_text_add(printer->text, " %s [", word);
    for (int k = 0; k < n; k++) {
        if (k > 0) nst_text_add(printer->text, ", ");
        print_dim(printer, dim[k]);
    }
    nst_text_add(printer->text, "]");
}

static void print_ints(const NstGraphPrinter *printer, const char *word, const int64_t *value, int n)
{
    nst_text_add(printer->text, " %s [", word);
    for (int k = 0; k < n; k++) nst_text_add(printer->text, k ? ", %lld" : "%lld", (long long)value[k]);
    nst_text_add(printer->text, "]");
}

static void print_small_ints(const NstGraphPrinter *printer, const char *word, const int *value, int n)
{
    nst_text_add(printer->text, "%s[", word);
    for (int k = 0; k < n; k++) nst_text_add(printer->text, k ? ", %d" : "%d", value[k]);
    nst_text_add(printer->text, "]");
}

static void print_quoted(const NstGraphPrinter *printer, const char *text)
{
    nst_text_add(printer->text, " ");
    nst_text_add_quoted(printer->text, text, strlen(text));
}

static void print_formula(const NstGraphPrinter *printer, NstExpr e)
{
    NstText formula;
    nst_text_init(&formula, printer->text->arena);
    nst_expr_print(&formula, printer->graph->exprs, e, NULL);
    print_quoted(printer, nst_text_get(&formula));
}

/* Operands from `first` up to `end`, or up to the last one of a node that has too few (the verifier says so). */
static void print_operands(const NstGraphPrinter *printer, const NstNode *node, uint32_t first, uint32_t end)
{
    if (end > node->n_in) end = node->n_in;
    for (uint32_t k = first; k < end; k++) {
        nst_text_add(printer->text, k == first ? " " : ", ");
        nst_graph_print_value(printer, node->in[k]);
    }
}

/* Type of the first operand; printing must bear its absence. */
static const NstType *first_type(const NstGraphPrinter *printer, const NstNode *node)
{
    static const NstType none = {.kind = NST_TYPE_NONE};
    return node->n_in > 0 && node->in[0].i != 0 ? nst_value_type(printer->graph, node->in[0]) : &none;
}

/* --- attributes ------------------------------------------------------------------------------------------------ */

/* "start [0, %k]"; true start inputs are printed here and left out of the operands. */
static void print_slice(const NstGraphPrinter *printer, const NstNode *node, uint32_t n_plain)
{
    const NstAttrs *a = &node->attr;
    int rank = first_type(printer, node)->rank;
    bool steps = false;
    nst_text_add(printer->text, " start [");
    for (int k = 0; k < rank; k++) {
        if (k > 0) nst_text_add(printer->text, ", ");
        int input = a->slice.start_input ? a->slice.start_input[k] : 0;
        if (input > 0 && (uint32_t)input < node->n_in)
            nst_graph_print_value(printer, node->in[input]);
        else
            print_dim(printer, a->slice.start[k]);
        steps = steps || (a->slice.step && a->slice.step[k] != 1);
    }
    nst_text_add(printer->text, "]");
    if (steps) print_ints(printer, "step", a->slice.step, rank);
    print_operands(printer, node, 0, n_plain);
}

static void print_pad(const NstGraphPrinter *printer, const NstNode *node)
{
    const NstAttrs *a = &node->attr;
    int rank = first_type(printer, node)->rank;
    bool interior = false;
    nst_text_add(printer->text, " %s", nst_pad_mode_names[a->pad.mode]);
    print_dims(printer, "lo", a->pad.lo, rank);
    print_dims(printer, "hi", a->pad.hi, rank);
    for (int k = 0; k < rank && a->pad.interior; k++) interior = interior || a->pad.interior[k] != 0;
    if (interior) print_ints(printer, "interior", a->pad.interior, rank);
    print_operands(printer, node, 0, node->n_in);
}

static void print_window(const NstGraphPrinter *printer, const NstNode *node)
{
    const NstAttrs *a = &node->attr;
    nst_text_add(printer->text, " [");
    for (int w = 0; w < a->window.n; w++) {
        nst_text_add(printer->text, "%saxis %d size ", w ? "; " : "", a->window.axis[w]);
        print_dim(printer, a->window.size[w]);
        nst_text_add(printer->text, " stride %lld dilation %lld pad ", (long long)a->window.stride[w],
                     (long long)a->window.dilation[w]);
        print_dim(printer, a->window.lo[w]);
        nst_text_add(printer->text, ", ");
        print_dim(printer, a->window.hi[w]);
    }
    nst_text_add(printer->text, "]");
    print_operands(printer, node, 0, node->n_in);
}

/* True if the short form "merge" gives back exactly this combiner. */
static bool is_short(const NstGraphPrinter *printer, const NstNode *node, const NstCombine *combine)
{
    NstExprs *exprs = printer->graph->exprs;
    if (combine->n_states != 1 || node->n_in != 1) return false;
    NstDtype element = first_type(printer, node)->dtype, compute = nst_dtype_info(element)->compute;
    if (nst_expr(exprs, combine->init[0])->type != compute || nst_expr(exprs, combine->merge[0])->type != compute)
        return false;
    if (element != compute && !nst_scalar_can_convert(compute, element)) return false;
    if (nst_combine_identity(exprs, combine->merge[0], compute).i != combine->init[0].i) return false;
    NstExpr with[2] = {{0}, nst_expr_arg(exprs, element, 1)};
    if (element != compute) with[1] = nst_expr_convert(exprs, compute, with[1], false);
    return nst_expr_subst_args(exprs, combine->merge[0], with, 2).i == combine->step[0].i;
}

static void print_combine(const NstGraphPrinter *printer, const NstNode *node, const NstCombine *combine)
{
    if (is_short(printer, node, combine)) {
        print_formula(printer, combine->merge[0]);
        return;
    }
    for (uint32_t k = 0; k < combine->n_states; k++) {
        nst_text_add(printer->text, " state");
        print_formula(printer, combine->init[k]);
        nst_text_add(printer->text, " step");
        print_formula(printer, combine->step[k]);
        nst_text_add(printer->text, " merge");
        print_formula(printer, combine->merge[k]);
    }
}

static void print_reduce(const NstGraphPrinter *printer, const NstNode *node)
{
    const NstAttrs *a = &node->attr;
    print_combine(printer, node, &a->reduce.combine);
    print_small_ints(printer, " axes ", a->reduce.axes, a->reduce.n_axes);
    if (a->reduce.keep) nst_text_add(printer->text, " keep");
    if (a->reduce.skip_padding) nst_text_add(printer->text, " skip_padding");
    const NstType *x = first_type(printer, node);
    int last = -1, usual = 1;
    for (int k = 0; k < a->reduce.n_axes; k++)
        if (a->reduce.axes[k] > last) last = a->reduce.axes[k];
    if (last >= 0 && last < x->rank)
        usual = nst_order_reduce_lanes(printer->graph->dims, x->shape[last], last == x->rank - 1);
    if (a->reduce.lanes != usual) nst_text_add(printer->text, " lanes %d", a->reduce.lanes);
    print_operands(printer, node, 0, node->n_in);
}

static void print_prefix(const NstGraphPrinter *printer, const NstNode *node)
{
    print_combine(printer, node, &node->attr.prefix.combine);
    nst_text_add(printer->text, " axis %d%s%s", node->attr.prefix.axis, node->attr.prefix.exclusive ? " exclusive" : "",
                 node->attr.prefix.reverse ? " reverse" : "");
    print_operands(printer, node, 0, node->n_in);
}

static void print_labels(const NstGraphPrinter *printer, const uint8_t *label, int n)
{
    for (int k = 0; k < n; k++) nst_text_add(printer->text, "%c", nst_label_letter(label[k]));
}

/* Accumulator type and order of the sum, where they are not the usual ones. */
static void print_contract_order(const NstGraphPrinter *printer, const NstNode *node)
{
    const NstAttrs *a = &node->attr;
    NstDtype compute = nst_dtype_info(first_type(printer, node)->dtype)->compute;
    if (a->contract.accumulate != compute)
        nst_text_add(printer->text, " acc %s", nst_dtype_info(a->contract.accumulate)->name);
    uint8_t sum[NST_MAX_LABELS];
    int n_sum = nst_order_contract_sum(printer->graph, a, node->in, sum);
    if (n_sum != a->contract.n_sum || memcmp(sum, a->contract.sum, (size_t)n_sum) != 0) {
        nst_text_add(printer->text, " over \"");
        print_labels(printer, a->contract.sum, a->contract.n_sum);
        nst_text_add(printer->text, "\"");
    }
    if (a->contract.lanes != nst_order_contract_lanes(printer->graph, a, node->in))
        nst_text_add(printer->text, " lanes %d", a->contract.lanes);
    if (a->contract.block == nst_order_contract_block(printer->graph, a, node->in)) return;
    if (a->contract.block == NST_ORDER_WHOLE)
        nst_text_add(printer->text, " block whole");
    else
        nst_text_add(printer->text, " block %d", a->contract.block);
}

static void print_contract(const NstGraphPrinter *printer, const NstNode *node)
{
    const NstAttrs *a = &node->attr;
    NstText *text = printer->text;
    nst_text_add(text, " \"");
    for (uint32_t j = 0; j < node->n_in; j++) {
        if (j > 0) nst_text_add(text, j == (uint32_t)a->contract.n_operands ? ";" : ",");
        print_labels(printer, a->contract.labels[j], nst_value_type(printer->graph, node->in[j])->rank);
    }
    nst_text_add(text, "->");
    print_labels(printer, a->contract.out_labels, a->contract.out_rank);
    nst_text_add(text, "\"");
    for (int j = 0; j < a->contract.n_operands && a->contract.pre; j++) {
        if (a->contract.pre[j].i == 0) continue;
        nst_text_add(text, " pre %d", j);
        print_formula(printer, a->contract.pre[j]);
    }
    print_contract_order(printer, node);
    print_operands(printer, node, 0, node->n_in);
}

static void print_sort(const NstGraphPrinter *printer, const NstNode *node)
{
    const NstAttrs *a = &node->attr;
    nst_text_add(printer->text, " keys %d axis %d%s%s", a->sort.n_keys, a->sort.axis,
                 a->sort.descending ? " descending" : "", a->sort.stable ? " stable" : "");
    if (a->sort.keep.i != 0) {
        nst_text_add(printer->text, " keep ");
        print_dim(printer, a->sort.keep);
    }
    print_operands(printer, node, 0, node->n_in);
}

static void print_index_mode(const NstGraphPrinter *printer, NstIndexMode mode)
{
    if (mode != NST_INDEX_CHECKED) nst_text_add(printer->text, " %s", nst_index_mode_names[mode]);
}

static void print_symbol(const NstGraphPrinter *printer, NstSym sym)
{
    print_dim(printer, nst_dim_sym(printer->graph->dims, sym));
}

static void print_loop(const NstGraphPrinter *printer, const NstNode *node)
{
    nst_text_add(printer->text, " trips ");
    nst_graph_print_value(printer, node->in[0]);
    nst_text_add(printer->text, " while ");
    nst_graph_print_value(printer, node->in[1]);
    if (node->attr.loop.count.i != 0) {
        nst_text_add(printer->text, " count ");
        print_symbol(printer, node->attr.loop.count);
    }
    nst_text_add(printer->text, " states");
    print_operands(printer, node, 2, node->n_in);
}

void nst_graph_print_node_body(const NstGraphPrinter *printer, const NstNode *node)
{
    const NstAttrs *a = &node->attr;
    NstText *text = printer->text;
    switch (node->prim) {
    case NST_PRIM_CONST:
        nst_text_add(text, " ");
        nst_graph_print_const(text, printer->graph, nst_value_type(printer->graph, node->out[0]), &a->constant);
        return;
    case NST_PRIM_IOTA:
    case NST_PRIM_DIM_VALUE:
        nst_text_add(text, " ");
        print_dim(printer, node->prim == NST_PRIM_IOTA ? a->iota.extent : a->dim_value.dim);
        return;
    case NST_PRIM_MAP: print_formula(printer, a->map.formula); break;
    case NST_PRIM_CONVERT:
    case NST_PRIM_BITCAST:
        nst_text_add(text, " %s%s", nst_dtype_info(a->convert.to)->name,
                     a->convert.saturate && node->prim == NST_PRIM_CONVERT ? " saturate" : "");
        break;
    case NST_PRIM_PERMUTE: print_small_ints(printer, " ", a->permute.order, first_type(printer, node)->rank); break;
    case NST_PRIM_SLICE: print_slice(printer, node, 1); return;
    case NST_PRIM_UPDATE_SLICE: print_slice(printer, node, 2); return;
    case NST_PRIM_PAD: print_pad(printer, node); return;
    case NST_PRIM_CONCAT: nst_text_add(text, " axis %d", a->concat.axis); break;
    case NST_PRIM_WINDOW: print_window(printer, node); return;
    case NST_PRIM_REDUCE: print_reduce(printer, node); return;
    case NST_PRIM_PREFIX: print_prefix(printer, node); return;
    case NST_PRIM_CONTRACT: print_contract(printer, node); return;
    case NST_PRIM_SORT: print_sort(printer, node); return;
    case NST_PRIM_GATHER:
        nst_text_add(text, " axis %d", a->gather.axis);
        if (a->gather.batch) nst_text_add(text, " batch %d", a->gather.batch);
        print_index_mode(printer, a->gather.mode);
        break;
    case NST_PRIM_SCATTER:
        nst_text_add(text, " axis %d%s", a->scatter.axis, a->scatter.elementwise ? " elementwise" : "");
        if (a->scatter.combine.i != 0) print_formula(printer, a->scatter.combine);
        print_index_mode(printer, a->scatter.mode);
        break;
    case NST_PRIM_COMPACT:
        nst_text_add(text, " axis %d count ", a->compact.axis);
        print_symbol(printer, a->compact.count);
        break;
    case NST_PRIM_LOOP: print_loop(printer, node); return;
    case NST_PRIM_CALL: print_quoted(printer, a->call.name ? a->call.name : ""); break;
    case NST_PRIM_HOST:
        print_quoted(printer, a->host.name);
        if (a->host.config) print_quoted(printer, a->host.config);
        break;
    case NST_PRIM_ASSERT: print_quoted(printer, a->assertion.message ? a->assertion.message : ""); break;
    case NST_PRIM_PARAM:
    case NST_PRIM_RANDOM_BITS:
    case NST_PRIM_RESHAPE:
    case NST_PRIM_EXPAND:
    case NST_PRIM_IF:
    case NST_PRIM_COUNT: break;
    }
    print_operands(printer, node, 0, node->n_in);
}

/* --- statements ------------------------------------------------------------------------------------------------ */

static void print_region(const NstGraphPrinter *printer, NstRegionId id, int depth);

static void indent(const NstGraphPrinter *printer, int depth)
{
    nst_text_add(printer->text, "%*s", 2 * depth, "");
}

static void print_params(const NstGraphPrinter *printer, NstRegionId id)
{
    const NstRegion *region = nst_graph_region(printer->graph, id);
    nst_text_add(printer->text, "(");
    for (uint32_t k = 0; k < region->params.n; k++) {
        NstVal value = region->params.at[k];
        const char *real = nst_value_node(printer->graph, value)->attr.param.name;
        if (k > 0) nst_text_add(printer->text, ", ");
        if (!real || strcmp(real, printer->name[value.i]) != 0) {
            nst_graph_print_value(printer, value);
            if (real) print_quoted(printer, real);
        } else {
            nst_text_add(printer->text, "%s", real);
        }
        nst_text_add(printer->text, ": ");
        nst_type_print(printer->text, printer->graph->dims, nst_value_type(printer->graph, value));
    }
    nst_text_add(printer->text, ")");
}

/* " : f32[n], i64[]", then " defines k" and " origin ...". */
static void print_tail(const NstGraphPrinter *printer, const NstNode *node)
{
    const NstGraph *graph = printer->graph;
    for (uint32_t k = 0; k < node->n_out && node->prim != NST_PRIM_CONST; k++) {
        nst_text_add(printer->text, k ? ", " : " : ");
        nst_type_print(printer->text, graph->dims, nst_value_type(graph, node->out[k]));
    }
    for (uint32_t k = 0; k < graph->sym_defs.n && node->n_out == 1; k++) {
        if (graph->sym_defs.at[k].value.i != node->out[0].i) continue;
        nst_text_add(printer->text, " defines ");
        print_symbol(printer, graph->sym_defs.at[k].sym);
    }
    const char *const *name;
    uint32_t n = nst_origin_names(graph->origins, node->origin, &name);
    for (uint32_t k = 0; k < n; k++) {
        nst_text_add(printer->text, k ? "," : " origin");
        print_quoted(printer, name[k]);
    }
}

static void print_node(const NstGraphPrinter *printer, const NstNode *node, int depth)
{
    indent(printer, depth);
    for (uint32_t k = 0; k < node->n_out; k++) {
        if (k > 0) nst_text_add(printer->text, ", ");
        nst_graph_print_value(printer, node->out[k]);
    }
    nst_text_add(printer->text, node->n_out ? " = %s" : "%s", nst_prim_info(node->prim)->name);
    nst_graph_print_node_body(printer, node);
    print_tail(printer, node);
    NstRegionId owned[2];
    int n_owned = nst_node_regions(node, owned);
    for (int r = 0; r < n_owned; r++) {
        nst_text_add(printer->text, n_owned == 1 ? " body" : r ? " else {\n" : " then {\n");
        if (n_owned == 1) {
            print_params(printer, owned[r]);
            nst_text_add(printer->text, " {\n");
        }
        print_region(printer, owned[r], depth + 1);
        indent(printer, depth);
        nst_text_add(printer->text, "}");
    }
    nst_text_add(printer->text, "\n");
}

static void print_region(const NstGraphPrinter *printer, NstRegionId id, int depth)
{
    const NstGraph *graph = printer->graph;
    const NstRegion *region = nst_graph_region(graph, id);
    for (uint32_t k = 0; k < region->nodes.n; k++) {
        const NstNode *node = nst_graph_node(graph, region->nodes.at[k]);
        if (!node->dead && node->prim != NST_PRIM_PARAM) print_node(printer, node, depth);
    }
    indent(printer, depth);
    nst_text_add(printer->text, id.i == NST_GRAPH_REGION.i ? "return" : "yield");
    for (uint32_t k = 0; k < region->results.n; k++) {
        nst_text_add(printer->text, k ? ", " : " ");
        if (id.i == NST_GRAPH_REGION.i) {
            const char *name = k < graph->result_names.n ? graph->result_names.at[k] : "";
            bool plain = name_char(name[0], true);
            for (const char *c = name; *c; c++) plain = plain && name_char(*c, false);
            if (plain)
                nst_text_add(printer->text, "%s", name);
            else
                nst_text_add_quoted(printer->text, name, strlen(name));
            nst_text_add(printer->text, " = ");
        }
        nst_graph_print_value(printer, region->results.at[k]);
    }
    nst_text_add(printer->text, "\n");
}

/* One line with all symbols that are no loop indices: in order, with the facts that differ from "any size >= 0". */
static void print_symbols(const NstGraphPrinter *printer)
{
    NstDims *dims = printer->graph->dims;
    const char *separator = "  symbols ";
    static const char *const kind[] = {
        [NST_SYM_INPUT] = "", [NST_SYM_VALUE] = "value ", [NST_SYM_COUNTED] = "counted "};
    for (uint32_t k = 1; k <= nst_dims_sym_count(dims); k++) {
        const NstSymInfo *info = nst_dims_sym(dims, (NstSym){k});
        if (info->kind == NST_SYM_INDEX) continue;
        nst_text_add(printer->text, "%s%s", separator, kind[info->kind]);
        if (info->kind == NST_SYM_INPUT && (strcmp(info->name, "value") == 0 || strcmp(info->name, "counted") == 0))
            nst_text_add_quoted(printer->text, info->name, strlen(info->name)); /* else it would be read as a kind */
        else
            print_symbol(printer, (NstSym){k});
        separator = ", ";
        if (info->lo != 0 || info->hi != INT64_MAX) {
            nst_text_add(printer->text, " in ");
            if (info->lo != INT64_MIN) nst_text_add(printer->text, "%lld", (long long)info->lo);
            nst_text_add(printer->text, "..");
            if (info->hi != INT64_MAX) nst_text_add(printer->text, "%lld", (long long)info->hi);
        }
        if (info->lo_dim.i != 0) {
            nst_text_add(printer->text, " from ");
            print_dim(printer, info->lo_dim);
        }
        if (info->hi_dim.i != 0) {
            nst_text_add(printer->text, " to ");
            print_dim(printer, info->hi_dim);
        }
        if (info->multiple > 1) nst_text_add(printer->text, " multiple %lld", (long long)info->multiple);
    }
    if (separator[0] == ',') nst_text_add(printer->text, "\n");
}

void nst_graph_print(NstText *text, const NstGraph *graph)
{
    Namer namer = {.graph = graph, .arena = text->arena};
    namer.name = NST_NEW_ARRAY(text->arena, const char *, graph->values.n);
    nst_map_init(&namer.used, text->arena);
    name_region(&namer, NST_GRAPH_REGION);
    NstGraphPrinter printer = {text, graph, namer.name};
    nst_text_add(text, "graph ");
    bool plain = name_char(graph->name[0], true);
    for (const char *c = graph->name; *c; c++) plain = plain && name_char(*c, false);
    if (plain)
        nst_text_add(text, "%s", graph->name);
    else
        nst_text_add_quoted(text, graph->name, strlen(graph->name));
    print_params(&printer, NST_GRAPH_REGION);
    nst_text_add(text, " {\n");
    print_symbols(&printer);
    print_region(&printer, NST_GRAPH_REGION, 1);
    nst_text_add(text, "}\n");
}
