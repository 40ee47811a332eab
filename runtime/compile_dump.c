/* compile_dump.c: stages of compiling as text, and passes over text. */
#include <stdlib.h>
#include "codegen/codegen.h"
#include "passes/canon.h"
#include "runtime/compile.h"

/* True if the kernel is asked for by name or number (NULL: all are). */
static bool is_asked(const char *asked, const char *name, uint32_t number)
{
    char *end;
    if (!asked || strcmp(asked, name) == 0) return true;
    unsigned long value = strtoul(asked, &end, 10);
    return *asked != '\0' && *end == '\0' && value == number;
}

static NstStatus dump_kernel(NstCompile *c, NstDumpStage stage, const NstKernel *kernel, NstText *text)
{
    NstCodegenOptions options = {.bounds_checks = c->request->options->bounds_checks != 0};
    if (stage == NST_DUMP_LLVM) return nst_codegen_ir_text(c->ctx, kernel, c->request->target, &options, text);
    if (stage == NST_DUMP_ASM) return nst_codegen_assembly_text(c->ctx, kernel, c->request->target, &options, text);
    nst_kernel_print(text, kernel);
    return NST_OK;
}

/* The groups of the module as plain kernels. */
static NstStatus dump_nests(NstCompile *c, const char *asked, NstText *text, bool *found)
{
    for (uint32_t k = 0; k < c->module->prepack.n + c->module->groups.n; k++) {
        bool ahead = k < c->module->prepack.n;
        const NstGroup *group = ahead ? c->module->prepack.at[k] : c->module->groups.at[k - c->module->prepack.n];
        for (int b = 0; group->step && b < 2; b++) {
            NstCompile inner = *c;
            inner.module = group->step->body[b];
            if (inner.module) NST_TRY(dump_nests(&inner, asked, text, found));
        }
        if (group->step) continue;
        if (!is_asked(asked, group->name, k)) continue;
        NstKernel *kernel;
        NstBuf *arg;
        NST_TRY(nst_group_to_kernel(c->ctx, c->module, group, &kernel, &arg));
        nst_kernel_print(text, kernel);
        *found = true;
    }
    return NST_OK;
}

static NstStatus dump_bodies(NstCompile *c, NstDumpStage stage, const NstModuleStep *step, const char *asked,
                             NstText *text, bool *found);

static NstStatus dump_list(NstCompile *c, NstDumpStage stage, const NstScheduledList *list, const char *asked,
                           uint32_t first, NstText *text, bool *found)
{
    for (uint32_t k = 0; k < list->n; k++) {
        if (!list->at[k].kernel) {
            NST_TRY(dump_bodies(c, stage, list->at[k].group->step, asked, text, found));
            continue;
        }
        if (!is_asked(asked, list->at[k].kernel->name, first + k)) continue;
        NST_TRY(dump_kernel(c, stage, list->at[k].kernel, text));
        *found = true;
    }
    return NST_OK;
}

/* Kernels of the bodies of an if or a loop. */
static NstStatus dump_bodies(NstCompile *c, NstDumpStage stage, const NstModuleStep *step, const char *asked,
                             NstText *text, bool *found)
{
    for (int b = 0; b < 2; b++) {
        NstCompile inner = *c;
        inner.module = step->body[b];
        if (!inner.module) continue;
        NST_TRY(nst_compile_schedule(&inner));
        NST_TRY(dump_list(&inner, stage, &inner.prepack, asked, 0, text, found));
        NST_TRY(dump_list(&inner, stage, &inner.run, asked, inner.prepack.n, text, found));
    }
    return NST_OK;
}

NstStatus nst_compile_dump(NstCompile *c, NstDumpStage stage, const char *kernel, NstText *text)
{
    bool found = kernel == NULL;
    NST_TRY(nst_compile_read(c));
    if (stage == NST_DUMP_GRAPH) {
        nst_graph_print(text, c->graph);
        return NST_OK;
    }
    if (stage == NST_DUMP_PLAN) {
        NstPlan *plan;
        NST_TRY(nst_compile_plan(c, &plan));
        nst_plan_print(text, plan);
        return NST_OK;
    }
    NST_TRY(nst_compile_lower(c));
    if (stage == NST_DUMP_NEST) {
        NST_TRY(dump_nests(c, kernel, text, &found));
    } else {
        NST_TRY(nst_compile_schedule(c));
        NST_TRY(dump_list(c, stage, &c->prepack, kernel, 0, text, &found));
        NST_TRY(dump_list(c, stage, &c->run, kernel, c->prepack.n, text, &found));
    }
    NST_CHECK(c->ctx, found, NST_E_NOT_FOUND,
              "there is no kernel '%s' at this stage; the stage 'plan' lists names and numbers", kernel);
    return NST_OK;
}

/* --- optimise ------------------------------------------------------------------------------------------------ */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The passes that work on a kernel as it stands. */
static uint64_t passes_on_kernels(void)
{
    uint64_t bits = 0;
    for (int k = 0; k < NST_PASS_COUNT; k++)
        if (nst_pass_info((NstPass)k)->level == NST_LEVEL_KERNEL) bits |= (uint64_t)1 << k;
    return bits;
}

/* Prints what the module has come to: kernels if a pass on kernels is asked for, else its groups. */
static NstStatus print_module(NstCompile *c, uint64_t on, NstText *text)
{
    bool found = true;
    if ((on & passes_on_kernels()) == 0) return dump_nests(c, NULL, text, &found);
    NST_TRY(nst_compile_schedule(c));
    NST_TRY(dump_list(c, NST_DUMP_SCHED, &c->prepack, NULL, 0, text, &found));
    return dump_list(c, NST_DUMP_SCHED, &c->run, NULL, c->prepack.n, text, &found);
}

/* A kernel of any form, if no pass needs it as one nest. */
static NstStatus optimise_kernel(NstCompile *c, uint64_t on, NstText *text)
{
    const char *p = c->request->bytes;
    NstKernel *kernel;
    NST_TRY(nst_kernel_parse(c->ctx, c->arena, p, c->request->size, &kernel));
    NST_TRY(nst_kernel_verify(c->ctx, kernel));
    if (on & ~(passes_on_kernels() & ~((uint64_t)1 << NST_PASS_SCHEDULE))) {
        NST_TRY(nst_kernel_to_module(c->ctx, c->arena, kernel, c->request->target, &c->module));
        NST_TRY(nst_optimise_nests(c->ctx, c->module, &c->passes));
        return print_module(c, on, text);
    }
    NST_TRY(nst_optimise_kernel(c->ctx, kernel, &c->passes));
    if (nst_pass_on(&c->passes, NST_PASS_CANON))
        nst_kernel_to_canon(kernel, &(NstCanonSyms){0}, false, &(NstDim *){NULL});
    NST_TRY(nst_kernel_verify(c->ctx, kernel));
    nst_kernel_print(text, kernel);
    return NST_OK;
}

NstStatus nst_compile_optimise(NstCompile *c, const char *passes, NstText *text)
{
    uint64_t on;
    NST_TRY(nst_compile_pass_names(c->ctx, passes, &on));
    c->passes = (NstPassOptions){.off = ~on};
    if (ends_with(c->request->name, ".nsl")) return optimise_kernel(c, on, text);
    NST_TRY(nst_graph_parse(c->ctx, c->arena, c->request->bytes, c->request->size, &c->graph));
    NST_TRY(nst_graph_verify(c->ctx, c->graph));
    if (on == 0) {
        nst_graph_print(text, c->graph);
        return NST_OK;
    }
    NST_TRY(nst_compile_lower(c));
    return print_module(c, on, text);
}
