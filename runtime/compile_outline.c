/* compile_outline.c: models whose open sizes decide about their structure (the rank that a branch gives, how many elements a
 * sequence has): no plan serves all sizes, but one for the shapes of a run can.
 *
 * That sizes are what an import failed for is found by importing with sizes: the same failure again is the model's own. */
#include "runtime/compile.h"

#include <string.h>

/* For each open size of the trial: a number of many divisors, as sizes that are split must be. */
#define TRIAL_SIZE 240

/* The inputs' shapes with TRIAL_SIZE for what is open; false if nothing is. */
static bool close_sizes(NstCompile *c, const NstGraph *ports, NstDeclaredInput *input)
{
    const NstRegion *top = nst_graph_region(ports, NST_GRAPH_REGION);
    bool open = false;
    for (uint32_t k = 0; k < top->params.n; k++) {
        const NstType *type = nst_value_type(ports, top->params.at[k]);
        int64_t *shape = NST_NEW_ARRAY(c->arena, int64_t, type->rank);
        for (int axis = 0; axis < type->rank; axis++) {
            if (nst_dim_is_const(ports->dims, type->shape[axis], &shape[axis])) continue;
            shape[axis] = TRIAL_SIZE;
            open = true;
        }
        input[k] = (NstDeclaredInput){nst_value_node(ports, top->params.at[k])->attr.param.name, type->rank, shape};
    }
    return open;
}

/* Declared names that are no params: "s[]", a sequence without elements. */
static uint32_t keep_empty(const NstImportOptions *options, NstDeclaredInput *input, uint32_t n)
{
    for (uint32_t k = 0; k < options->n_inputs; k++) {
        size_t length = strlen(options->input[k].name);
        if (length > 2 && strcmp(options->input[k].name + length - 2, "[]") == 0) input[n++] = options->input[k];
    }
    return n;
}

void nst_compile_try_sizes(NstCompile *c, const NstImportOptions *options)
{
    const NstCompileRequest *request = c->request;
    const char *why = nst_strdup(c->arena, c->ctx->error);
    NstStatus first = c->ctx->status;
    NstGraph *ports, *unused;
    nst_ctx_clear(c->ctx);
    if (nst_import_ports(c->ctx, c->arena, request->bytes, request->size, options, &ports, &c->declared,
                         &c->n_declared) == NST_OK) {
        uint32_t n = nst_graph_region(ports, NST_GRAPH_REGION)->params.n;
        NstDeclaredInput *input = NST_NEW_ARRAY(c->arena, NstDeclaredInput, n + options->n_inputs);
        NstFixedInput *fixed = NST_NEW_ARRAY(c->arena, NstFixedInput, request->options->n_values);
        NstImportOptions trial = *options;
        if (options->n_fixed != 0) memcpy(fixed, options->fixed, options->n_fixed * sizeof *fixed);
        trial.fixed = fixed;
        trial.external = NULL;
        trial.n_external = NULL;
        trial.warn = NULL;
        if (close_sizes(c, ports, input)) {
            trial.input = input;
            trial.n_inputs = keep_empty(options, input, n);
            NstStatus tried = nst_compile_import(c, &trial, fixed, &unused);
            if (tried == NST_OK || strcmp(c->ctx->error, why) != 0) c->by_shape = why;
        }
        c->graph = ports;
    }
    nst_ctx_clear(c->ctx);
    (void)nst_fail(c->ctx, first, "%s", why);
    if (c->by_shape) (void)nst_note(c->ctx, "open sizes of the inputs decide about it: declare their shapes");
}

NstStatus nst_compile_outline(NstCompile *c, NstPlan **plan)
{
    NST_TRY(nst_compile_ports(c, plan));
    (*plan)->by_shape = c->by_shape;
    for (uint32_t k = 0; k < c->n_declared; k++)
        nst_vec_push(c->arena, &(*plan)->outputs,
                     ((NstPlanPort){.name = c->declared[k].name, .type = c->declared[k].type}));
    return NST_OK;
}
