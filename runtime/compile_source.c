/* compile_source.c: a model's bytes as a graph, and the graph as kernels. */
#include <ctype.h>
#include "runtime/compile.h"

/* Text begins with the word "graph" after blanks and comments (to the end of a line); ONNX files with a binary tag. */
bool nst_compile_is_graph_text(const void *bytes, size_t n)
{
    const char *at = bytes, *end = at + n;
    while (at < end && (isspace((unsigned char)*at) || strchr("/#", *at))) {
        bool comment = !isspace((unsigned char)*at);
        while (comment && at < end && *at != '\n') at++;
        if (at < end) at++;
    }
    return end - at >= 5 && memcmp(at, "graph", 5) == 0;
}

/* Adds the value the options have for an input that decides about the graph's structure; false if there is none. */
static bool find_value(const NstSessionOptions *options, const char *name, uint32_t position, NstImportOptions *import,
                       NstFixedInput *fixed)
{
    for (uint32_t k = 0; k < import->n_fixed; k++)
        if (strcmp(fixed[k].name, name) == 0) return false;
    for (uint32_t k = 0; k < options->n_values; k++) {
        const NstTensor *value = &options->values[k].tensor;
        const char *given = options->values[k].name;
        if (given ? strcmp(given, name) != 0 : k != position) continue;
        if (value->dtype == NST_STR) return false; /* no structure is made for strings */
        NstTensorValue held = {.dtype = value->dtype, .rank = value->rank, .data = value->data, .bytes = value->bytes};
        memcpy(held.shape, value->shape, sizeof held.shape);
        fixed[import->n_fixed++] = (NstFixedInput){name, held};
        return true;
    }
    return false;
}

/* The model's graph with open sizes; false if there is none, so that there is no plan for all sizes to agree with. */
static bool import_open(NstCompile *c, NstArena *arena, const NstImportOptions *declared, NstImportChoices *made,
                        NstGraph **open)
{
    NstImportOptions options = *declared;
    const char *needs;
    options.n_inputs = 0;
    options.needs = &needs;
    options.needs_position = NULL;
    options.external = NULL;
    options.n_external = NULL;
    options.warn = NULL;
    options.made = made;
    if (nst_import_onnx(c->ctx, arena, c->request->bytes, c->request->size, &options, open) == NST_OK) return true;
    nst_ctx_clear(c->ctx);
    return false;
}

static bool same_choices(const NstImportChoices *own, const NstImportChoices *open)
{
    bool same = true;
    for (uint32_t k = 0, next = 0; k < own->at.n; k++)
        same = same && nst_import_choice(open, &next, own->at.at[k].label, own->at.at[k].taken) == own->at.at[k].taken;
    return same;
}

/* How sums are made, and in which order, does not depend on declared sizes: as in the graph with open ones. */
static NstStatus agree_with_open(NstCompile *c, NstImportOptions *options)
{
    NstImportChoices made = {.arena = c->arena};
    NstStatus status = NST_OK;
    NstArena *arena = nst_arena_new(c->ctx, c->arena);
    NstGraph *open;
    if (import_open(c, arena, options, &made, &open)) {
        if (!same_choices(options->made, &made)) {
            options->given = &made;
            status = nst_import_onnx(c->ctx, c->arena, c->request->bytes, c->request->size, options, &c->graph);
        }
        if (status == NST_OK) nst_compile_take_orders(c, open);
    }
    nst_arena_free(arena);
    return status;
}

NstStatus nst_compile_import(NstCompile *c, NstImportOptions *options, NstFixedInput *fixed, NstGraph **graph)
{
    const NstCompileRequest *request = c->request;
    const char *needs;
    uint32_t position = UINT32_MAX;
    options->needs = &needs;
    options->needs_position = &position;
    for (;;) {
        if (options->made) options->made->at.n = 0;
        NstStatus status = nst_import_onnx(c->ctx, c->arena, request->bytes, request->size, options, graph);
        if (status != NST_E_UNSUPPORTED || !needs || !find_value(request->options, needs, position, options, fixed)) {
            options->needs = NULL; /* they are ours: the options are used on */
            options->needs_position = NULL;
            return status;
        }
        nst_ctx_clear(c->ctx);
    }
}

static NstStatus import_onnx(NstCompile *c)
{
    const NstCompileRequest *request = c->request;
    uint32_t n = request->options->n_shapes;
    NstDeclaredInput *declared = NST_NEW_ARRAY(c->arena, NstDeclaredInput, n);
    for (uint32_t k = 0; k < n; k++) {
        const NstInputShape *shape = &request->options->shapes[k];
        declared[k] = (NstDeclaredInput){shape->name, shape->rank, shape->shape};
    }
    NstFixedInput *fixed = NST_NEW_ARRAY(c->arena, NstFixedInput, request->options->n_values);
    NstImportOptions options = {.folder = request->folder,
                                .file = request->file,
                                .overridable = request->options->overridable,
                                .n_overridable = request->options->n_overridable,
                                .input = declared,
                                .n_inputs = n,
                                .external = &c->external,
                                .n_external = &c->n_external,
                                .fixed = fixed,
                                .warn = request->warn,
                                .warn_arg = request->warn_arg,
                                .operators = request->operators};
    NstImportChoices made = {.arena = c->arena};
    options.made = &made;
    NstStatus status = nst_compile_import(c, &options, fixed, &c->graph);
    c->fixed = fixed;
    c->n_fixed = options.n_fixed;
    if (status == NST_OK && n > 0) status = agree_with_open(c, &options);
    if (status == NST_E_UNSUPPORTED) nst_compile_try_sizes(c, &options);
    if (status == NST_E_PARSE) (void)nst_note(c->ctx, "in '%s'", request->name);
    return status;
}

/* Ties the symbols that stand alone on an axis of this input to the declared sizes. */
static NstStatus bind_shape(NstCompile *c, const NstInputShape *shape, const NstType *type)
{
    NstDims *dims = c->graph->dims;
    NST_CHECK(c->ctx, type->rank == shape->rank, NST_E_SHAPE,
              "the declared shape of '%s' has rank %d, the model's has %d", shape->name, (int)shape->rank, type->rank);
    for (int axis = 0; axis < type->rank; axis++) {
        int64_t size = shape->shape[axis], known;
        if (size < 0) continue;
        const NstDimNode *node = nst_dim_node(dims, type->shape[axis]);
        if (node->op == NST_DIM_SYM) {
            NstSymInfo *info = nst_dims_sym(dims, node->sym);
            NST_CHECK(c->ctx, size >= info->lo && size <= info->hi, NST_E_SHAPE,
                      "the declared size %lld of '%s' axis %d (%s), allowed are %lld to %lld", (long long)size,
                      shape->name, axis, info->name, (long long)info->lo, (long long)info->hi);
            info->lo = info->hi = size;
        } else if (nst_dim_is_const(dims, type->shape[axis], &known)) {
            NST_CHECK(c->ctx, size == known, NST_E_SHAPE, "the declared size %lld of '%s' axis %d, the model has %lld",
                      (long long)size, shape->name, axis, (long long)known);
        }
    }
    return NST_OK;
}

static NstStatus bind_shapes(NstCompile *c)
{
    const NstSessionOptions *options = c->request->options;
    const NstRegion *top = nst_graph_region(c->graph, NST_GRAPH_REGION);
    for (uint32_t s = 0; s < options->n_shapes; s++) {
        uint32_t k = 0;
        size_t n = strlen(options->shapes[s].name);
        if (n > 2 && strcmp(options->shapes[s].name + n - 2, "[]") == 0) continue; /* a sequence without elements */
        while (k < top->params.n &&
               strcmp(nst_value_node(c->graph, top->params.at[k])->attr.param.name, options->shapes[s].name) != 0)
            k++;
        NST_CHECK(c->ctx, k < top->params.n, NST_E_NOT_FOUND, "a shape is declared for input '%s', which there is not",
                  options->shapes[s].name);
        NST_TRY(bind_shape(c, &options->shapes[s], nst_value_type(c->graph, top->params.at[k])));
    }
    return NST_OK;
}

NstStatus nst_compile_read(NstCompile *c)
{
    const NstCompileRequest *request = c->request;
    c->passes = (NstPassOptions){.strict = request->options->strict != 0};
    if (request->options->passes_off)
        NST_TRY(nst_compile_pass_names(c->ctx, request->options->passes_off, &c->passes.off));
    if (nst_compile_is_graph_text(request->bytes, request->size)) {
        NST_CHECK(c->ctx, request->options->n_overridable == 0, NST_E_NOT_FOUND,
                  "initializer '%s' shall be overridable; a graph in text form has none",
                  request->options->overridable[0]);
        NST_TRY(nst_graph_parse(c->ctx, c->arena, request->bytes, request->size, &c->graph));
    } else {
        NST_TRY(import_onnx(c));
    }
    NST_TRY(nst_graph_verify(c->ctx, c->graph));
    return bind_shapes(c);
}

NstStatus nst_compile_pass_names(NstCtx *ctx, const char *names, uint64_t *bits)
{
    *bits = 0;
    while (*names) {
        char name[64];
        size_t n = strcspn(names, ",");
        snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name - 1, names);
        NstPass pass = n < sizeof name ? nst_pass_find(name) : NST_PASS_COUNT;
        if (pass == NST_PASS_COUNT) {
            char all[512] = "";
            for (int k = 0; k < NST_PASS_COUNT; k++) {
                size_t used = strlen(all);
                snprintf(all + used, sizeof all - used, "%s%s", k ? ", " : "", nst_pass_info((NstPass)k)->name);
            }
            NST_FAIL(ctx, NST_E_NOT_FOUND, "there is no pass '%s'; there are %s", name, all);
        }
        *bits |= (uint64_t)1 << pass;
        names += n + (names[n] == ',');
    }
    return NST_OK;
}

NstStatus nst_compile_lower(NstCompile *c)
{
    return nst_lower_graph(c->ctx, c->arena, c->graph, c->request->target, &c->passes, &c->module);
}

NstStatus nst_compile_schedule(NstCompile *c)
{
    NST_TRY(nst_schedule_module(c->ctx, c->module, &c->passes, &c->run, &c->prepack));
#ifdef NST_DEBUG
    for (uint32_t k = 0; k < c->prepack.n; k++) NST_TRY(nst_kernel_verify(c->ctx, c->prepack.at[k].kernel));
    for (uint32_t k = 0; k < c->run.n; k++)
        if (c->run.at[k].kernel) NST_TRY(nst_kernel_verify(c->ctx, c->run.at[k].kernel));
#endif
    return NST_OK;
}
