/* tile_choose.c: the heuristics of the register-tile schedule.
 *
 * In: a reduction nest, the target.  Out: a NstTileSchedule.  Every number is named with its unit and its measurement.
 * Nothing here looks at what operator a nest came from. */
#include "passes/sched.h"

/* Loads and FMAs a core starts a cycle; a FMA's result is ready after FMA_LATENCY.  Source: vendors' manuals for cores since
 * 2019 (2 + 2, 4 cycles). */
enum { LOADS_A_CYCLE = 2, FMAS_A_CYCLE = 2, FMA_LATENCY = 4 };
/* A vector that L2 gives a core takes so many cycles while L1 streams through: manuals promise one a cycle (64 bytes where vectors have
 * 512 bits, 32 where they have 256: Zen 3, whose tiles of 6 x 2 take 0.98 of the time of 4 x 3 at 240^3, 0.83 at 128 x 3072 x 768 with
 * a neighbour at work; 2026-12). */
enum { CYCLES_A_VECTOR_OF_L2 = 2 };
/* Bytes a cycle of what L2 does not hold (8.7 from L3, 6 from memory on Emerald Rapids; 20 and 4.5 on Zen 3, 2026-12). */
enum { FAR_BYTES_A_CYCLE = 8 };
/* Elements of a k block: half of L1 over the bytes of 8 rows (measurements.md: 768 at 48 KB). */
enum { K_BLOCK = 768 };
/* A block of the packed operand takes one part of so many of L2; beside it stand the rows that pass by, the partial sums and the
 * next block (128 x 768 x 3072: 260 GFLOP/s, 253 with half of L2; 1024^3 the same; AMD Zen 5, 1 MB, 2026-11). */
enum { L2_SHARE = 4 };
/* From this many scalar operations a nest has a parallel loop.  Whether it is dealt out is decided by the work of its kernel when it
 * runs (runtime/run_state.c): siblings may be worth it together. */
enum { WORTH_PARALLEL = 1 << 15 };
/* From this many operations few rows have an even number of tiles (even_tiles). */
enum { WORTH_TWO_TILES = 1 << 17 };
/* Few rows; and vectors of a tile of one row that hide the latency of their sums while L2 brings the next ones. */
enum { SKINNY_ROWS = 4, SKINNY_VECTORS = 4 };

typedef struct Choice {
    NstModule *module;
    const NstNest *nest;
    const NstContraction *c; /* NULL: a reduction that is no contraction */
    NstTileSchedule *s;
    uint32_t n_common;
    int64_t m, n, k; /* extents of rows, columns, reduction; TYPICAL where not constant */
    int64_t pitch;   /* bytes of a row of columns in the output, its padding included */
    bool m_fixed, n_fixed;
    bool across;  /* the outputs read something along the rows */
    bool inserts; /* such elements are not all of 32 bits: most tiles insert them one by one */
    bool far;     /* the columns' operand comes from beyond L2 and passes by few rows (find_far) */
} Choice;

/* Rows of a tile at most; where their number is known at run time only, each count up to it is code of its own. */
enum { MOST_ROWS = 14, SYMBOLIC_ROWS = 8 };
/* Steps of a reduction that are written out at most: code grows by a tile each. */
enum { MOST_TAPS = 16 };
/* Stands for an extent that is not known. */
enum { TYPICAL_EXTENT = 256 };

static int64_t extent_or(NstDims *dims, NstDim extent, int64_t otherwise, bool *fixed)
{
    int64_t value;
    *fixed = nst_dim_is_const(dims, extent, &value);
    return *fixed ? value : otherwise;
}

/* What a vector holds: the states, or the output of a map. */
static NstDtype vector_type(const Choice *c)
{
    if (c->nest->n_states) return c->nest->state[0].dtype;
    return nst_module_get(c->module, c->nest->out[0].buffer)->buffer.dtype;
}

/* True if vectors along the axis are adjacent elements of the output. */
static bool contiguous_in_output(Choice *c, uint32_t axis)
{
    NstModule *module = c->module;
    int lanes = nst_target_lanes(module->target, vector_type(c));
    for (uint32_t k = 0; k < c->nest->n_outs; k++) {
        const NstNestOut *out = &c->nest->out[k];
        const NstLayout *layout = &nst_module_get(module, out->buffer)->buffer.layout;
        if (!nst_layout_adjacent(module->dims, layout, out->index, c->nest->axis[axis].var, lanes)) return false;
    }
    return true;
}

/* The vector axis: the last one along which the output's elements lie side by side; -1: none. */
static int column_axis(Choice *c)
{
    for (int k = (int)c->nest->n_axes - 1; k >= (int)c->n_common; k--)
        if (contiguous_in_output(c, (uint32_t)k)) return k;
    return -1;
}

/* The innermost axis that only the row operand has, or a longer one further out if that is short. */
static int row_axis(Choice *c)
{
    int row = -1;
    int64_t best = 1;
    for (int k = (int)c->nest->n_axes - 1; k >= (int)c->n_common; k--) {
        bool fixed, is_row = c->c == NULL;
        for (uint32_t r = 0; c->c && r < c->c->n_rows; r++) is_row |= c->c->rows[r] == k;
        int64_t extent = extent_or(c->module->dims, c->nest->axis[k].extent, TYPICAL_EXTENT, &fixed);
        if (!is_row || k == c->s->col_axis || extent <= best || best >= 4) continue;
        row = k;
        best = extent;
    }
    return row;
}

/* Whether what the outputs are made of has a load that runs along the rows and strides along the columns. */
static void visit_across(void *arg, NstExpr e, const NstExprNode *node)
{
    Choice *c = arg;
    (void)e;
    if (node->op != NST_OP_LOAD) return;
    NstDims *dims = c->module->dims;
    const NstLayout *layout = &nst_module_get(c->module, (NstBuf){node->ref})->buffer.layout;
    NstSym column = c->nest->axis[c->s->col_axis].var;
    if (!nst_dim_uses(dims, nst_layout_offset(dims, layout, node->index), column) ||
        !nst_layout_adjacent(dims, layout, node->index, c->nest->axis[c->s->row_axis].var, 1))
        return;
    c->across = true;
    c->inserts |= nst_dtype_info(node->type)->bytes != 4;
}

static void find_across(Choice *c)
{
    for (uint32_t k = 0; k < c->nest->n_outs && c->nest->n_states && c->s->row_axis >= 0; k++)
        nst_expr_visit(c->module->exprs, c->nest->out[k].value, visit_across, c);
}

/* Such loads are turned in registers in blocks of so many rows (codegen/emit_transpose.c); those of other rows take an insertion, a
 * cycle, an element (2,048 keys, 64 wide, 128 queries and a mask: 6 x 4 vectors 8.3 ms, 10 x 2 6.4, 8 x 2 6.1; Intel, 2026-11). */
enum { TURNED_ROWS = 8 };
/* Cycles in which a pass over what a contraction stored applies its formula to a vector, most of them between L1 and L2 (12 heads of 128 x
 * 2048, a strip of 128 KB: 2.5 on Zen 5, 2026-12; other cores' L2 is slower). */
enum { PASS_CYCLES = 4 };

/* Cycles of them for one column tile of v vectors, a step of the reduction. */
static double across_cost(const Choice *c, int64_t rows, int64_t v, int lanes)
{
    if (!c->across) return 0;
    int64_t block = lanes < TURNED_ROWS ? lanes : TURNED_ROWS;
    return (double)(rows % block * v * lanes) / (double)(c->k > 0 ? c->k : 1);
}

/* What a cycle of loads, or of L2's reads, costs though it is hidden behind FMAs: where another thread of the core works, the ports
 * are shared.  (Tiles of rows x vectors, time over that of 9 x 3: 8 x 2 and 6 x 3 1.03, 13 x 2 1.02 to 1.04, 8 x 3 1.01, 10 x 2 1.04
 * to 1.07, 6 x 4 1.05, 4 x 4 1.13; products of 100 to 900 rows by 700 to 3,300 columns, Intel, 2026-11.) */
#define LOAD_SHARE    0.3
#define L2_READ_SHARE 0.1
/* Of tiles whose costs differ by less, the first is taken. */
#define SAME_COST 0.999

static double tile_cost(const Choice *c, int64_t rows, int64_t vectors, int lanes, int vector_bytes)
{
    int64_t row_tiles = (c->m + rows - 1) / rows, total = (c->n + lanes - 1) / lanes;
    double per = (double)c->m / (double)row_tiles, cost = 0; /* rows are dealt evenly */
    for (int64_t t = 0; t < 2; t++) {                        /* full column tiles, then the rest */
        int64_t v = t == 0 ? vectors : total % vectors, count = t == 0 ? total / vectors : total % vectors != 0;
        if (!count || !v) continue;
        double fmas = per * (double)v / FMAS_A_CYCLE, loads = (per + (double)v) / LOADS_A_CYCLE;
        double l2 = c->m > rows ? (double)(v * CYCLES_A_VECTOR_OF_L2) : 0;
        double far = c->far ? (double)(v * vector_bytes) / FAR_BYTES_A_CYCLE : 0;
        double cycles = fmas > loads ? fmas : loads;
        if (cycles < FMA_LATENCY) cycles = FMA_LATENCY;
        if (cycles < l2) cycles = l2;
        double each = cycles + LOAD_SHARE * loads + L2_READ_SHARE * l2 + across_cost(c, rows, v, lanes);
        cost +=
            (double)count * ((double)row_tiles * each + (far > cycles ? far - cycles : 0)); /* the first rows wait */
    }
    return cost;
}

/* Accumulators that fit beside the column vectors and one row value. */
static int64_t accumulators(const NstTarget *target, int64_t vectors)
{
    int64_t spare = target->vector_registers - vectors - 1;
    int64_t cap = target->vector_registers == 32 ? 28 : 12;
    return spare < cap ? spare : cap;
}

/* The length of the runs of columns that read the same element, F of an index floor(column / F); 0: none. */
typedef struct RunVisit {
    const Choice *c;
    int64_t run;
} RunVisit;

static void find_run(RunVisit *v, NstDim dim)
{
    NstDims *dims = v->c->module->dims;
    const NstDimNode *node = nst_dim_node(dims, dim);
    for (uint32_t k = 0; k < node->n; k++) {
        find_run(v, node->arg[k]);
        node = nst_dim_node(dims, dim);
    }
    if (node->op == NST_DIM_FLOORDIV &&
        nst_dim_same(node->arg[0], nst_dim_sym(dims, v->c->nest->axis[v->c->s->col_axis].var)))
        (void)nst_dim_is_const(dims, nst_dim_node(dims, dim)->arg[1], &v->run);
}

static void visit_runs(void *arg, NstExpr e, const NstExprNode *node)
{
    (void)e;
    for (uint32_t k = 0; k < node->n_index; k++) find_run(arg, node->index[k]);
}

/* Columns of a vector: as many whole runs as fit, so that all vectors read at the same distances between lanes, which one or two
 * loads and a permutation serve (4 channels to 3 of 32 groups: 20 GFLOP/s by gathers). */
static int whole_runs(const Choice *c, int lanes)
{
    RunVisit v = {c, 0};
    for (uint32_t k = 0; k < c->nest->n_states; k++)
        nst_expr_visit(c->module->exprs, c->nest->state[k].step, visit_runs, &v);
    return v.run > 1 && v.run <= lanes ? (int)(lanes / v.run * v.run) : lanes;
}

/* Gives the tile's cost. */
static double choose_tile(Choice *c)
{
    NstTileSchedule *s = c->s;
    const NstTarget *target = c->module->target;
    s->lanes = nst_target_lanes(target, vector_type(c));
    s->columns = whole_runs(c, s->lanes);
    int64_t total = (c->n + s->columns - 1) / s->columns;
    double best = -1;
    /* Without a broadcast operand every tap's operand is a vector of its own: one column keeps them in registers. */
    int64_t widest = c->c && !c->c->n_cols ? 1 : 6;
    for (int64_t v = 1; v <= widest && v <= total; v++)
        for (int64_t r = 1; r <= (c->m_fixed ? MOST_ROWS : SYMBOLIC_ROWS) && r <= c->m &&
                            r * v * (c->nest->n_states ? c->nest->n_states : 1) <= accumulators(target, v);
             r++) {
            double cost = tile_cost(c, r, v, s->columns, target->vector_bytes);
            if (best >= 0 && cost >= best * SAME_COST) continue;
            best = cost;
            s->rows = (int)r;
            s->vectors = (int)v;
        }
    return best;
}

/* Few rows: wide tiles, so that enough column loads are in flight. */
static void widen_skinny(Choice *c, int64_t total)
{
    NstTileSchedule *s = c->s;
    int64_t vectors = accumulators(c->module->target, 8) / c->m;
    if (vectors > 8) vectors = 8;
    if (vectors > total) vectors = total;
    while (vectors > s->vectors && total % vectors) vectors--;
    if (vectors > s->vectors) s->vectors = (int)vectors;
}

/* One tile, or three, would keep half of the columns or more on one of two threads: narrower ones in an even number, if they are not
 * too narrow (1 x 2112 x 128 in two tiles: on one thread 4 % slower, on two 1.75 times as fast; Zen 4, 2026-11). */
static void even_tiles(Choice *c, int64_t total)
{
    NstTileSchedule *s = c->s;
    int64_t tiles = (total + s->vectors - 1) / s->vectors;
    if ((tiles != 1 && tiles != 3) || c->m * c->n * c->k < WORTH_TWO_TILES) return;
    for (int vectors = s->vectors - 1; vectors >= SKINNY_VECTORS; vectors--) {
        if (total % (2 * vectors)) continue;
        s->vectors = vectors;
        return;
    }
}

static void choose_skinny(Choice *c)
{
    if (!c->m_fixed || c->m > SKINNY_ROWS || c->s->rows != c->m) return;
    int64_t total = (c->n + c->s->columns - 1) / c->s->columns;
    widen_skinny(c, total);
    even_tiles(c, total);
}

static bool may_keep_partial_sums(const Choice *c)
{
    if (c->nest->n_outs != 1 || c->nest->n_states != 1 || c->nest->store_guard.i) return false;
    const NstBuffer *buffer = &nst_module_get(c->module, c->nest->out[0].buffer)->buffer;
    return buffer->dtype == c->nest->state[0].dtype;
}

/* Rows that pass by a block of columns: those of all row axes. */
static int64_t all_rows(const Choice *c)
{
    int64_t rows = 1;
    bool fixed;
    for (uint32_t r = 0; r < c->c->n_rows; r++)
        if (c->c->rows[r] >= c->n_common)
            rows *= extent_or(c->module->dims, c->nest->axis[c->c->rows[r]].extent, TYPICAL_EXTENT, &fixed);
    return rows;
}

/* Few rows of a product read their columns once, at the speed of the cache or memory they come from, if one tile holds all rows; two
 * tiles wait for them nearly as long as one.  That is so while L1 holds the rows' own operand (8 rows of 3072 x 768 991 -> 845 us, 9 of
 * 3600 x 909 1548 -> 1229, 7 of 3194 x 958 1204 -> 1009; but 12 of 3072 x 768 983 -> 1141; Zen 3, 2026-12). */
static void find_far(Choice *c)
{
    const NstTarget *target = c->module->target;
    int64_t bytes = nst_dtype_info(vector_type(c))->bytes;
    if (!c->c || !c->c->n_cols || !c->m_fixed || c->nest->n_states != 1 || all_rows(c) != c->m) return;
    c->far = c->m <= MOST_ROWS && c->m <= accumulators(target, 1) && c->m * c->k * bytes <= target->l1_bytes &&
             c->k * c->n * bytes > target->l2_bytes / 2;
}

static void choose_blocks(Choice *c)
{
    NstTileSchedule *s = c->s;
    NstDims *dims = c->module->dims;
    int64_t width = nst_tile_width(s), bytes = nst_dtype_info(vector_type(c))->bytes;
    int64_t budget = c->module->target->l2_bytes / L2_SHARE, depth = c->k;
    bool fixed;
    if (!c->c || all_rows(c) <= s->rows) return;
    if (c->k * width * bytes > budget && may_keep_partial_sums(c)) {
        int64_t outer = extent_or(dims, c->nest->reduce[0].extent, TYPICAL_EXTENT, &fixed);
        if (c->nest->n_reduce > 1 && fixed && outer <= 16) {
            s->k_outer = 1;
            depth = c->k / (outer ? outer : 1);
        }
    }
    bool may_skip = c->nest->block && c->nest->guard.i; /* a block of the sum, and with it the partial sum */
    if (c->nest->n_reduce == 1 && depth > K_BLOCK && may_keep_partial_sums(c) && !may_skip) {
        int64_t blocks = (depth + K_BLOCK - 1) / K_BLOCK, whole = c->nest->block ? c->nest->block : 1;
        s->k_block = ((depth + blocks - 1) / blocks + whole - 1) / whole * whole;
        depth = s->k_block;
    }
    if (depth < 1) depth = 1; /* an empty sum */
    int64_t tiles = (c->n + width - 1) / width, fit = budget / (depth * width * bytes);
    if (fit < 1) fit = 1;
    if (fit < tiles) {
        int64_t blocks = (tiles + fit - 1) / fit;
        s->col_block = (tiles + blocks - 1) / blocks;
    }
}

/* Elements of a row of the row operand up to which the next tile's rows are prefetched, where that operand does not stay in L2: of
 * longer rows the processor itself sees that they run on (12 heads of 128 x 2048 x 64 and its reverse: 7.9 -> 7.3 ms; products of
 * 3136 x 64 x 256 and 12544 x 64 x 128 2 to 3 % faster, 3136 x 64 x 512 and 1024^3 1 to 3 % slower; Intel, 2026-11). */
enum { SHORT_ROWS = 256 };

static void choose_next_rows(Choice *c)
{
    NstModule *module = c->module;
    const NstExprNode *load = c->c ? nst_expr(module->exprs, c->c->a) : NULL;
    if (!load || load->op != NST_OP_LOAD || c->nest->n_reduce != 1 || c->s->taps || c->s->row_axis < 0) return;
    const NstBuffer *buffer = &nst_module_get(module, (NstBuf){load->ref})->buffer;
    int64_t bytes = nst_dtype_info(load->type)->bytes, lo, elements;
    nst_dim_bounds(module->dims, buffer->layout.elements, &lo, &elements);
    c->s->next_rows = c->m > c->s->rows && c->k * bytes >= NST_LINE_BYTES && c->k <= SHORT_ROWS &&
                      elements > module->target->l2_bytes / bytes &&
                      nst_layout_adjacent(module->dims, &buffer->layout, load->index, c->nest->reduce[0].var, 1);
}

static void choose_inside(Choice *c)
{
    if (!c->c) return;
    for (uint32_t r = 0; r < c->c->n_rows; r++)
        if (c->c->rows[r] != c->s->row_axis && c->c->rows[r] >= c->n_common) c->s->inside |= 1u << c->c->rows[r];
}

/* At most so many rows a tile, all tiles about equal. */
static void limit_rows(Choice *c, int most)
{
    if (c->s->rows <= most) return;
    int64_t tiles = (c->m + most - 1) / most;
    c->s->rows = (int)((c->m + tiles - 1) / tiles);
}

/* Rows of a tile whose taps are swept, as many as fit: states, the weights of the taps and what was just loaded share the registers
 * (32 groups of 4 at 28: 242 GFLOP/s with 10, 207 with 14, 225 with 8; of 5 at 26: 166, 129, 169; AMD Zen 5, 2026-11.  Of 3 at 33:
 * 75 with 10, 68 with 7; of 5 at 26: 79, 75; Emerald Rapids). */
enum { SWEPT_ROWS = 10 };
/* A target with fewer sweeps none: the weights of all taps would not stay in registers (the same groups with AVX2's 16: 88 us tap by
 * tap, 115 swept). */
enum { SWEEP_REGISTERS = 32 };

/* Window taps to write out: where both operands run along the columns (no operand is a broadcast), each row would load anew
 * what its neighbour loaded for the next tap. */
static void choose_taps(Choice *c)
{
    NstTileSchedule *s = c->s;
    if (!c->c || c->c->n_cols || s->row_axis < 0) return;
    int64_t steps = 1, extent;
    for (int k = (int)c->nest->n_reduce - 1; k >= 0; k--) {
        if (!nst_dim_is_const(c->module->dims, c->nest->reduce[k].extent, &extent)) break;
        steps *= extent;
        if (steps > MOST_TAPS) break;
        s->taps = (int)c->nest->n_reduce - k;
    }
    s->sweep = s->taps > 0 && c->m_fixed && c->module->target->vector_registers >= SWEEP_REGISTERS;
    if (!s->sweep) return;
    if (s->vectors == 1) s->rows = (int)c->m;
    limit_rows(c, SWEPT_ROWS);
}

/* Rows of a tile whose loads are shared by taps instead of columns: with more, accumulators and loaded values do not both fit
 * the registers (36.4 us with 14, 35.8 with 8).  Swept ones in L2 take SWEPT_ROWS (144 channels at 28 x 28: 7 rows 14.9 us, 10 13.8;
 * past L2, at 56 x 56: 8 rows 127, 10 131; Emerald Rapids, 2026-11). */
enum { COLUMN_ROWS = 8 };

/* Search for an axis of planes: one whose neighbours read the same places at different written-out taps. */
typedef struct PlaneVisit {
    const Choice *c;
    int axis;
} PlaneVisit;

static bool overlaps(const Choice *c, NstDim index, NstAxis axis)
{
    NstDims *dims = c->module->dims;
    NstDim coef, rest;
    int64_t step, tap, extent;
    if (!nst_dim_linear(dims, index, axis.var, &coef, &rest) || !nst_dim_is_const(dims, coef, &step)) return false;
    for (uint32_t k = c->nest->n_reduce - (uint32_t)c->s->taps; k < c->nest->n_reduce; k++) {
        NstAxis by = c->nest->reduce[k];
        if (nst_dim_linear(dims, index, by.var, &coef, &rest) && nst_dim_is_const(dims, coef, &tap) &&
            nst_dim_is_const(dims, by.extent, &extent) && step > 0 && step <= tap * (extent - 1))
            return true;
    }
    return false;
}

static void visit_planes(void *arg, NstExpr e, const NstExprNode *node)
{
    PlaneVisit *v = arg;
    const Choice *c = v->c;
    int64_t extent;
    (void)e;
    for (uint32_t d = 0; node->op == NST_OP_LOAD && d < node->n_index; d++)
        for (uint32_t k = c->n_common; k < c->nest->n_axes; k++) {
            if ((int)k == c->s->row_axis || (int)k == c->s->col_axis) continue;
            if (nst_dim_is_const(c->module->dims, c->nest->axis[k].extent, &extent) &&
                overlaps(c, node->index[d], c->nest->axis[k]))
                v->axis = (int)k;
        }
}

/* Planes of a tile where vectors straddle lines, so that each load costs two: a tile of two planes loads 2.5 vectors a vector
 * of results, one of one plane 3.75 (131 channels at 52 x 52: 31 us instead of 37; with whole lines no difference). */
enum { PLANES = 2 };
/* Registers beside the states of such a tile: the weights of two planes and what was just loaded. */
enum { PLANE_SPARE = 8 };

static void choose_planes(Choice *c)
{
    NstTileSchedule *s = c->s;
    PlaneVisit v = {c, -1};
    int64_t bytes = nst_dtype_info(c->nest->state[0].dtype)->bytes;
    if (!s->sweep || !s->rows_outside || c->n * bytes % NST_LINE_BYTES == 0 ||
        PLANES * s->rows + PLANE_SPARE > c->module->target->vector_registers)
        return;
    nst_expr_visit(c->module->exprs, c->nest->state[0].step, visit_planes, &v);
    if (v.axis < 0) return;
    s->plane_axis = v.axis;
    s->planes = PLANES;
    s->inside &= ~(1u << v.axis);
}

/* L1's sets repeat every page on cores with virtual indexes; lines that one column tile may put into a set: half of the ways. */
enum { SETS_BYTES = 4096, LINES_A_SET = 6, MOST_PLACES = 1024 };

/* True if the places of all other axes, a row of columns apart, crowd one column tile into few sets of L1 (1,024 channels at
 * 6 x 6: all 36 lines in one set, 63 GFLOP/s with the columns outside). */
static bool columns_crowd_sets(const Choice *c, int64_t places)
{
    int lines[SETS_BYTES / NST_LINE_BYTES] = {0};
    for (int64_t k = 0; k < places && k < MOST_PLACES; k++) {
        int64_t at = k * c->pitch % SETS_BYTES;
        if (++lines[at / NST_LINE_BYTES] > LINES_A_SET) return true;
        if (at % NST_LINE_BYTES && ++lines[(at / NST_LINE_BYTES + 1) % (SETS_BYTES / NST_LINE_BYTES)] > LINES_A_SET)
            return true;
    }
    return false;
}

/* Where both operands run along the columns, neighbouring places of the other axes read the same rows of the one operand: one
 * column tile goes through all of them, so that those rows stay in L1: unless four rows fit it anyway (851 channels at 7 x 7: 172
 * GFLOP/s, 119 with the columns inside).  Where a row has several tiles, these are outside instead and the columns inside, so that
 * lines are read whole (131 channels at 52 x 52: 44 us, 69 with the columns outside; AMD Zen 5, 2026-11).  Past L2 those tiles ask
 * for the next place's lines, for the processor sees no order in lines a row apart (3x3, AVX2: 144 channels at 96 0.191 -> 0.186 ms,
 * at 144 1.85 -> 0.65, at 192 3.8 -> 1.2, vector copies 0.08, 0.30 and 0.77; AVX-512 1.45 -> 0.68, 2.9 -> 1.3; 2026-12). */
static void choose_column_order(Choice *c)
{
    NstTileSchedule *s = c->s;
    if (s->taps == 0) return;
    int64_t width = nst_tile_width(s), bytes = nst_dtype_info(c->nest->state[0].dtype)->bytes;
    if (c->m * c->n * bytes * 4 <= c->module->target->l1_bytes || c->n < 2 * width) return;
    int64_t places = c->m;
    bool fixed;
    for (uint32_t k = c->n_common; k < c->nest->n_axes; k++)
        if ((int)k != s->row_axis && (int)k != s->col_axis)
            places *= extent_or(c->module->dims, c->nest->axis[k].extent, TYPICAL_EXTENT, &fixed);
    if (c->m <= COLUMN_ROWS && columns_crowd_sets(c, places)) return;
    for (uint32_t k = c->n_common; k < c->nest->n_axes; k++)
        if ((int)k != s->row_axis && (int)k != s->col_axis) s->inside |= 1u << k;
    bool in_l2 =
        2 * places * c->n * bytes <= c->module->target->l2_bytes; /* what is read is about as much as what is written */
    limit_rows(c, s->sweep && in_l2 ? SWEPT_ROWS : COLUMN_ROWS);
    if (c->m > s->rows)
        s->rows_outside = true;
    else
        s->col_block = 1;
    s->next_rows = s->rows_outside && !in_l2;
    choose_planes(c);
}

/* Rows are dealt in so many chunks: of as many tiles each, if tiles of fewer rows allow it (64 rows: 6 tiles, not 5, in two). */
static void choose_row_chunks(Choice *c, int chunks)
{
    NstTileSchedule *s = c->s;
    s->parallel = NST_PARALLEL_ROWS;
    s->row_chunks = chunks;
    if (!c->m_fixed) return;
    int64_t tiles = (c->m + s->rows - 1) / s->rows, even = (tiles + chunks - 1) / chunks * chunks;
    s->rows = (int)((c->m + even - 1) / even);
}

static void choose_parallel(Choice *c)
{
    NstTileSchedule *s = c->s;
    int64_t width = nst_tile_width(s), tiles = (c->n + width - 1) / width, work = c->m * c->n * (c->k ? c->k : 1);
    int64_t best = 1;
    bool fixed;
    int best_axis = -1;
    for (uint32_t k = c->n_common; k < c->nest->n_axes; k++) {
        if ((int)k == s->row_axis || (int)k == s->col_axis) continue;
        int64_t extent = extent_or(c->module->dims, c->nest->axis[k].extent, TYPICAL_EXTENT, &fixed);
        work *= extent;
        if (extent <= best || (int)k == s->plane_axis) continue;
        best = extent;
        best_axis = (int)k;
    }
    if (work < WORTH_PARALLEL) return;
    bool inside = best_axis >= 0 && s->inside >> best_axis & 1;
    if (s->rows_outside) {
        s->parallel = NST_PARALLEL_ROWS;
        s->row_chunks = c->m >= 4 * s->rows ? 4 : 2;
    } else if (s->taps > 0 && s->col_block == 1) {
        s->parallel = NST_PARALLEL_COLS;
    } else if (best >= 16 || (best >= 2 && (!inside || tiles < 4))) {
        s->parallel = NST_PARALLEL_OUTER;
        s->parallel_axis = best_axis;
    } else if (s->row_axis >= 0 && c->m >= 8 * s->rows && c->m * 2 > c->n) {
        choose_row_chunks(c, 4);
    } else if (tiles >= 2) {
        s->parallel = NST_PARALLEL_COLS;
        int64_t blocks = s->col_block ? (tiles + s->col_block - 1) / s->col_block : 1;
        blocks += blocks % 2; /* an even count deals evenly to two threads, and to more whenever there are many */
        s->col_block = (tiles + blocks - 1) / blocks;
    } else if (s->row_axis >= 0 && c->m >= 2 * s->rows) {
        choose_row_chunks(c, 2);
    }
}

/* Bytes of a row of columns in the first output, with what pads it to whole vectors. */
static int64_t pitch_of(const Choice *c)
{
    NstDims *dims = c->module->dims;
    const NstNestOut *out = &c->nest->out[0];
    const NstBuffer *buffer = &nst_module_get(c->module, out->buffer)->buffer;
    NstDim coef, rest, offset = nst_layout_offset(dims, &buffer->layout, out->index);
    int64_t pitch = 0;
    if (c->s->row_axis >= 0 && nst_dim_linear(dims, offset, c->nest->axis[c->s->row_axis].var, &coef, &rest))
        (void)nst_dim_is_const(dims, coef, &pitch);
    bool is_padded = pitch > c->n && pitch < c->n + nst_target_lanes(c->module->target, buffer->dtype);
    return (is_padded ? pitch : c->n) * nst_dtype_info(buffer->dtype)->bytes;
}

static void measure(Choice *c)
{
    NstDims *dims = c->module->dims;
    const NstNest *nest = c->nest;
    bool fixed;
    c->m_fixed = true;
    c->m = c->s->row_axis < 0 ? 1 : extent_or(dims, nest->axis[c->s->row_axis].extent, TYPICAL_EXTENT, &c->m_fixed);
    c->n = extent_or(dims, nest->axis[c->s->col_axis].extent, TYPICAL_EXTENT, &c->n_fixed);
    c->k = 1;
    for (uint32_t k = 0; k < nest->n_reduce; k++)
        c->k *= extent_or(dims, nest->reduce[k].extent, TYPICAL_EXTENT, &fixed);
    c->pitch = pitch_of(c);
}

/* Below these a matrix product is no faster than vectors: it takes 16 cycles for 16 rows, 16 columns and 64 k whatever is used of them, and
 * registers are set up in each call (times of VNNI / times of AMX, u8 with a zero point, rows x columns x k: 4 x 64 x 64 0.4, 8 x 64 x 64 0.65,
 * 16 x 64 x 64 1.1, 64 x 16 x 64 1.4, 64 x 64 x 32 0.5, 256 x 16 x 32 0.4, 4 x 768 x 768 1.0, 8 x 768 x 768 1.8, 16 x 768 x 768 3.4; Emerald
 * Rapids, 2026-11). */
enum { MATRIX_ROWS = 4, MATRIX_COLUMNS = 16, MATRIX_K = 64, MATRIX_WORK = 1 << 16 };
/* The same for the innermost of several summed axes, which alone fills registers along k (3 x 3 windows of 24 channels, 24 x 24 x 80: 104 us,
 * vectors 94; of 48: 177 and 225; Emerald Rapids, 2026-11). */
enum { MATRIX_INNERMOST_K = 32 };

/* Columns whose operand stays in L2 while all rows pass by: blocks of about equal size. */
static void choose_matrix_blocks(Choice *c)
{
    NstTileSchedule *s = c->s;
    int64_t width = nst_tile_width(s), tiles = (c->n + width - 1) / width;
    int64_t fit = c->module->target->l2_bytes / L2_SHARE / (c->k * width * nst_dtype_info(s->matrix->b)->bytes);
    if (fit < 1) fit = 1;
    if (c->m <= s->rows || fit >= tiles) return;
    int64_t blocks = (tiles + fit - 1) / fit;
    s->col_block = (tiles + blocks - 1) / blocks;
}

bool nst_tile_schedule_matrix(NstModule *module, const NstNest *nest, const NstTensorInsnInfo *insn, bool parallel,
                              NstTileSchedule *schedule)
{
    NstTileSchedule s = {.row_axis = schedule->row_axis,
                         .col_axis = schedule->col_axis,
                         .rows = insn->rows,
                         .vectors = insn->vectors,
                         .lanes = insn->lanes,
                         .columns = insn->lanes,
                         .plane_axis = -1,
                         .planes = 1,
                         .matrix = insn,
                         .parallel_axis = -1};
    NstContraction contraction;
    if (s.row_axis < 0 || !nst_nest_contraction_by(module, nest, (uint32_t)s.col_axis, &contraction)) return false;
    Choice c = {.module = module, .nest = nest, .s = &s, .c = &contraction};
    bool is_col = false;
    for (uint32_t k = 0; k < contraction.n_cols; k++) is_col |= contraction.cols[k] == s.col_axis;
    measure(&c);
    if (!is_col || nest->n_axes + nest->n_reduce >= NST_MAX_RANK) return false;
    if (c.m < MATRIX_ROWS || c.n < MATRIX_COLUMNS || c.k < MATRIX_K || c.m * c.n * c.k < MATRIX_WORK) return false;
    bool fixed;
    if (extent_or(module->dims, nest->reduce[nest->n_reduce - 1].extent, TYPICAL_EXTENT, &fixed) < MATRIX_INNERMOST_K)
        return false;
    choose_matrix_blocks(&c);
    if (parallel) choose_parallel(&c);
    *schedule = s;
    return true;
}

/* Starts a choice: axes, extents, what is read; false where there is no vector axis. */
static bool begin(Choice *c, NstContraction *contraction)
{
    *c->s = (NstTileSchedule){.row_axis = -1,
                              .col_axis = -1,
                              .plane_axis = -1,
                              .planes = 1,
                              .rows = 1,
                              .vectors = 1,
                              .lanes = 1,
                              .parallel_axis = -1};
    c->s->col_axis = column_axis(c);
    if (c->s->col_axis < 0) return false;
    if (nst_nest_contraction_by(c->module, c->nest, (uint32_t)c->s->col_axis, contraction)) c->c = contraction;
    c->s->row_axis = row_axis(c);
    measure(c);
    find_across(c);
    find_far(c);
    return true;
}

bool nst_tile_formula_apart(NstModule *module, const NstNest *nest, uint32_t n_common)
{
    NstTileSchedule schedule;
    NstContraction contraction;
    Choice c = {.module = module, .nest = nest, .s = &schedule, .n_common = n_common};
    if (nest->lanes > 1 || !begin(&c, &contraction) || !c.c || !c.across) return false;
    /* a mask of b1 on 12 heads of 128 x 2048 x 64: AVX2 9.0 -> 7.8 ms, AVX-512 6.0 -> 3.8 (Zen 5, 2026-12) */
    if (c.inserts) return true;
    double turned = choose_tile(&c);
    c.across = false;
    double vectors = (double)c.m * (double)((c.n + schedule.columns - 1) / schedule.columns);
    return (turned - choose_tile(&c)) * (double)c.k > PASS_CYCLES * vectors;
}

bool nst_tile_schedule_choose(NstModule *module, const NstNest *nest, uint32_t n_common, bool parallel,
                              NstTileSchedule *schedule)
{
    NstContraction contraction;
    Choice c = {.module = module, .nest = nest, .s = schedule, .n_common = n_common};
    if (!begin(&c, &contraction)) return false;
    (void)choose_tile(&c);
    choose_skinny(&c);
    choose_inside(&c);
    choose_blocks(&c);
    choose_taps(&c);
    choose_next_rows(&c);
    choose_column_order(&c);
    if (parallel) choose_parallel(&c);
    return true;
}
