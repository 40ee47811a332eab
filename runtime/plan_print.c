/* plan_print.c: a plan as text, for dumps: all but code and constants' bytes. */
#include "ir/plan.h"

static void print_dim(NstText *text, const NstPlan *plan, const char *label, NstDim dim)
{
    if (dim.i == 0) return;
    nst_text_add(text, "%s", label);
    nst_dim_print(text, plan->dims, dim, NULL, NULL);
}

static void print_ports(NstText *text, const NstPlan *plan, const char *what, const NstPlanPort *port, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        nst_text_add(text, "  %s %s: ", what, port[k].name);
        nst_type_print(text, plan->dims, &port[k].type);
        nst_text_add(text, " = b%u\n", port[k].buffer);
    }
}

static void print_buffers(NstText *text, const NstPlan *plan)
{
    static const char *const place[] = {"input", "output", "const", "arena", "alias"};
    for (uint32_t b = 0; b < plan->buffers.n; b++) {
        const NstPlanBuffer *buffer = &plan->buffers.at[b];
        NstType type = {NST_TYPE_TENSOR, buffer->dtype, buffer->rank, buffer->shape, NULL};
        nst_text_add(text, "  b%u %s: ", b, buffer->name);
        nst_type_print(text, plan->dims, &type);
        nst_text_add(text, " %s", place[buffer->place]);
        if (buffer->place == NST_PLACE_ARENA)
            nst_text_add(text, " steps %u..%u", buffer->first, buffer->last);
        else
            nst_text_add(text, " %u", buffer->index);
        print_dim(text, plan, " bytes ", buffer->bytes);
        nst_text_add(text, "\n");
    }
}

static void print_kernels(NstText *text, const NstPlan *plan)
{
    for (uint32_t k = 0; k < plan->kernels.n; k++) {
        const NstPlanKernel *kernel = &plan->kernels.at[k];
        nst_text_add(text, "  k%u %s %016llx%016llx", k, kernel->name, (unsigned long long)kernel->hash_hi,
                     (unsigned long long)kernel->hash_lo);
        nst_text_add(text, "%s", kernel->parallel ? " parallel" : "");
        print_dim(text, plan, " work ", kernel->work);
        print_dim(text, plan, " scratch ", kernel->scratch_bytes);
        print_dim(text, plan, " shared ", kernel->shared_bytes);
        if (kernel->origin) nst_text_add(text, "\n    origin: %s", kernel->origin);
        if (kernel->not_fused) nst_text_add(text, "\n    not fused with the next: %s", kernel->not_fused);
        nst_text_add(text, "\n");
    }
}

static void print_steps(NstText *text, const NstPlan *plan, const char *what, const NstPlanStep *step, uint32_t n)
{
    static const char *const kind[] = {"kernel", "read", "check", "host", "if", "loop"};
    for (uint32_t k = 0; k < n; k++) {
        nst_text_add(text, "  %s %u: %s", what, k, kind[step[k].kind]);
        if (step[k].kind == NST_STEP_KERNEL) nst_text_add(text, " k%u", step[k].kernel);
        for (uint32_t b = 0; b < step[k].n_buffers; b++) nst_text_add(text, " b%u", step[k].buffer[b]);
        for (uint32_t s = 0; s < step[k].n_sizes; s++) print_dim(text, plan, s ? ", " : " ", step[k].size[s]);
        print_dim(text, plan, " ", step[k].a);
        print_dim(text, plan, " == ", step[k].b);
        if (step[k].text) nst_text_add(text, " \"%s\"", step[k].text);
        if (step[k].config) nst_text_add(text, " (%s)", step[k].config);
        if (step[k].kind == NST_STEP_IF) nst_text_add(text, " then body %u else %u", step[k].body, step[k].other);
        if (step[k].kind == NST_STEP_LOOP) nst_text_add(text, " body %u states %u", step[k].body, step[k].n_states);
        if (step[k].kind >= NST_STEP_HOST) nst_text_add(text, " in %u", step[k].n_in);
        if (step[k].origin) nst_text_add(text, "\n    origin: %s", step[k].origin);
        nst_text_add(text, "\n");
    }
}

void nst_plan_print(NstText *text, const NstPlan *plan)
{
    uint64_t constant_bytes = 0;
    for (uint32_t k = 0; k < plan->constants.n; k++) constant_bytes += plan->constants.at[k].bytes;
    nst_text_add(text, "plan %s: %u kernels, %u steps, %u constants of %llu bytes\n",
                 plan->model_name ? plan->model_name : "?", plan->kernels.n, plan->steps.n, plan->constants.n,
                 (unsigned long long)constant_bytes);
    print_ports(text, plan, "input", plan->inputs.at, plan->inputs.n);
    print_ports(text, plan, "output", plan->outputs.at, plan->outputs.n);
    print_buffers(text, plan);
    print_kernels(text, plan);
    print_steps(text, plan, "prepack", plan->prepack.at, plan->prepack.n);
    print_steps(text, plan, "step", plan->steps.at, plan->steps.n);
    for (uint32_t k = 0; k < plan->bodies.n; k++) {
        nst_text_add(text, "body %u of ", k);
        nst_plan_print(text, plan->bodies.at[k]);
    }
}
