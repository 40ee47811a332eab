/* test_exec.c: runtime/exec.h and nst_plan_layout on plans made by hand. */
#include <criterion/criterion.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include "ir/base/os.h"
#include "tests/unit/support_plan.h"

static NstCtx ctx;
static NstPool *pool;
static NstPlan *plan;
static char error[NST_ERROR_TEXT];

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    cr_assert_eq(nst_pool_new(2, &pool), NST_OK);
    plan = nst_test_plan_new(ctx.arena);
}

static void end(void)
{
    nst_pool_free(pool);
    nst_ctx_dispose(&ctx);
}

TestSuite(exec, .init = begin, .fini = end, .timeout = 60);

/* --- kernels: buffers in, .., out; dims n --- */

static int32_t add_one(const NstKernelArgs *args)
{
    const float *in = args->buffers[0];
    float *out = args->buffers[1];
    int64_t n = args->dims[0];
    for (int64_t i = n * args->thread / args->threads; i < n * (args->thread + 1) / args->threads; i++)
        out[i] = in[i] + 1;
    return 0;
}

static int32_t sum_pair(const NstKernelArgs *args)
{
    const float *a = args->buffers[0], *b = args->buffers[1];
    char *out = args->buffers[2]; /* of any alignment */
    for (int64_t i = 0; i < args->dims[0]; i++) {
        float sum = a[i] + b[i];
        memcpy(out + 4 * i, &sum, 4);
    }
    return 0;
}

static NstSym sym_of(const char *name)
{
    return nst_dims_find_sym(plan->dims, name, strlen(name));
}

/* x -> +1 -> t -> +1 -> u; y = x + u. */
static const NstKernelFn chain_functions[] = {add_one, add_one, sum_pair};

static void make_chain(bool parallel)
{
    NstDim n = nst_test_dim(plan, "n");
    uint32_t x = nst_test_buffer(plan, "x", NST_PLACE_INPUT, 0, n),
             t = nst_test_buffer(plan, "t", NST_PLACE_ARENA, 0, n);
    uint32_t u = nst_test_buffer(plan, "u", NST_PLACE_ARENA, 0, n),
             y = nst_test_buffer(plan, "y", NST_PLACE_OUTPUT, 0, n);
    plan->buffers.at[t].first = 0, plan->buffers.at[t].last = 1;
    plan->buffers.at[u].first = 1, plan->buffers.at[u].last = 2;
    nst_test_port(plan, false, "x", x);
    nst_test_port(plan, true, "y", y);
    NstSym params[] = {sym_of("n"), {0}};
    for (int k = 0; k < 3; k++) nst_test_kernel(plan, k == 2 ? "sum" : "add_one", parallel);
    nst_test_step(plan, 0, (uint32_t[]){x, t, UINT32_MAX}, params);
    nst_test_step(plan, 1, (uint32_t[]){t, u, UINT32_MAX}, params);
    nst_test_step(plan, 2, (uint32_t[]){x, u, y, UINT32_MAX}, params);
}

static NstExec *make_exec(const NstKernelFn *functions)
{
    NstExec *exec;
    cr_assert_eq(nst_exec_new(&ctx, plan, pool, functions, NULL, &exec), NST_OK, "%s", ctx.error);
    return exec;
}

static NstStatus run(NstExec *exec, const NstTensor *inputs, NstTensor *outputs)
{
    NstExecRun request = {.inputs = inputs, .outputs = outputs, .error = error, .error_bytes = sizeof error};
    return nst_exec_run(exec, &request);
}

Test(exec, chain_runs_at_any_size_and_gives_memory)
{
    make_chain(true);
    NstExec *exec = make_exec(chain_functions);
    static float in[100000];
    for (int i = 0; i < 100000; i++) in[i] = (float)i;
    int64_t sizes[] = {5, 5, 100000, 0, 1, 100000, 5};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        NstTensor x = nst_test_tensor(in, sizes[k]), y = {0};
        cr_assert_eq(run(exec, &x, &y), NST_OK, "%s", error);
        cr_assert_eq(y.rank, 1);
        cr_assert_eq(y.shape[0], sizes[k]);
        cr_assert_not_null(y.owned);
        for (int64_t i = 0; i < sizes[k]; i++) cr_assert_eq(((float *)y.data)[i], 2 * in[i] + 2);
        nst_tensor_release(&y);
        cr_assert_null(y.data);
    }
    uint64_t n_states, bytes;
    nst_exec_memory(exec, &n_states, &bytes);
    cr_assert_eq(n_states, 1);
    cr_assert_eq(bytes, 2 * 400000);
    nst_exec_free(exec);
}

Test(exec, caller_memory_is_filled_in_place_or_refused)
{
    make_chain(false);
    NstExec *exec = make_exec(chain_functions);
    float in[4] = {1, 2, 3, 4};
    char raw[17];
    NstTensor x = nst_test_tensor(in, 4), y = {.data = raw + 1, .bytes = 16};
    cr_assert_eq(run(exec, &x, &y), NST_OK, "%s", error);
    cr_assert_null(y.owned);
    float third;
    memcpy(&third, raw + 9, 4);
    cr_assert_eq(third, 8);
    y.bytes = 15;
    cr_assert_eq(run(exec, &x, &y), NST_E_INVALID);
    cr_assert_str_eq(error, "output 'y' is given 15 bytes, it has 16");
    nst_exec_free(exec);
}

Test(exec, strided_inputs_are_read_as_they_lie)
{
    make_chain(false);
    NstExec *exec = make_exec(chain_functions);
    float in[7] = {1, 0, 0, 2, 0, 0, 3}, out[3];
    int64_t stride = 3, zero = 0, minus = -1;
    NstTensor x = nst_test_tensor(in, 3), y = {.data = out, .bytes = sizeof out};
    x.strides = &stride;
    x.bytes = sizeof in;
    cr_assert_eq(run(exec, &x, &y), NST_OK, "%s", error);
    for (int i = 0; i < 3; i++) cr_assert_eq(out[i], 2 * (float)(i + 1) + 2);
    x.strides = &zero;
    cr_assert_eq(run(exec, &x, &y), NST_OK, "%s", error);
    cr_assert_eq(out[2], 4);
    x.strides = &stride;
    x.bytes = sizeof in - 1;
    cr_assert_eq(run(exec, &x, &y), NST_E_INVALID);
    x.strides = &minus;
    cr_assert_eq(run(exec, &x, &y), NST_E_INVALID);
    nst_exec_free(exec);
}

Test(exec, inputs_that_do_not_fit_are_named)
{
    NstDim n = nst_test_dim(plan, "n");
    NstDim twice = nst_dim_mul_const(plan->dims, n, 2);
    nst_test_port(plan, false, "a", nst_test_buffer(plan, "a", NST_PLACE_INPUT, 0, n));
    nst_test_port(plan, false, "b", nst_test_buffer(plan, "b", NST_PLACE_INPUT, 1, twice));
    nst_dims_sym(plan->dims, sym_of("n"))->hi = 100;
    NstExec *exec = make_exec(chain_functions);
    float data[8] = {0};
    NstTensor in[2] = {nst_test_tensor(data, 3), nst_test_tensor(data, 6)};
    cr_assert_eq(run(exec, in, NULL), NST_OK, "%s", error);
    in[1].shape[0] = 7;
    cr_assert_eq(run(exec, in, NULL), NST_E_SHAPE);
    cr_assert_str_eq(error, "input 'b': axis 0 is 7, allowed is 6 (f32[2*n] with the other axes given)");
    in[0].dtype = NST_I32;
    cr_assert_eq(run(exec, in, NULL), NST_E_TYPE);
    cr_assert_str_eq(error, "input 'a' is given as i32, allowed is f32[n]");
    in[0].dtype = NST_F32;
    in[0].rank = 2;
    cr_assert_eq(run(exec, in, NULL), NST_E_SHAPE);
    in[0].rank = 1;
    in[0].shape[0] = 101;
    cr_assert_eq(run(exec, in, NULL), NST_E_SHAPE);
    cr_assert_str_eq(error, "input 'a': axis 0 (n) is 101, allowed are 0 to 100");
    in[0].shape[0] = -1;
    cr_assert_eq(run(exec, in, NULL), NST_E_SHAPE);
    in[0] = nst_test_tensor(data, 4);
    in[1].shape[0] = 8;
    in[1].bytes = 31;
    cr_assert_eq(run(exec, in, NULL), NST_E_INVALID);
    cr_assert_str_eq(error, "input 'b' is given 31 bytes, its shape needs 32");
    nst_exec_free(exec);
}

/* --- errors of kernels --- */

static int32_t fail_on_thread(const NstKernelArgs *args)
{
    if (args->threads == 2 && args->thread != (int)args->dims[0]) {
        return args->helpers->barrier(args->barrier, args->threads) != 0 ? 0 : -1; /* must be let go */
    }
    int32_t none = 0;
    if (__atomic_compare_exchange_n(&args->error->status, &none, NST_E_INDEX, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST)) {
        args->error->origin = 1;
        args->error->value = 17 + args->thread;
        args->error->limit = 9;
    }
    return NST_E_INDEX;
}

Test(exec, index_error_of_each_thread_is_a_status)
{
    NstDim n = nst_test_dim(plan, "n");
    uint32_t x = nst_test_buffer(plan, "x", NST_PLACE_INPUT, 0, n);
    nst_test_port(plan, false, "x", x);
    uint32_t kernel = nst_test_kernel(plan, "gather", true);
    static const char *const origins[] = {"?", "rows (Gather)"};
    plan->kernels.at[kernel].origin_text = origins;
    plan->kernels.at[kernel].n_origins = 2;
    nst_test_step(plan, kernel, (uint32_t[]){x, UINT32_MAX}, (NstSym[]){sym_of("n"), {0}});
    NstExec *exec = make_exec((NstKernelFn[]){fail_on_thread});
    float data[2];
    for (int repeat = 0; repeat < 20; repeat++) {
        for (int thread = 0; thread < 2; thread++) {
            NstTensor in = nst_test_tensor(data, thread);
            cr_assert_eq(run(exec, &in, NULL), NST_E_INDEX);
            cr_assert_str_eq(error, thread ? "rows (Gather): index 18 is given, allowed are 0 to 8"
                                           : "rows (Gather): index 17 is given, allowed are 0 to 8");
        }
    }
    nst_exec_free(exec);
}

static int32_t wait_for_cancel(const NstKernelArgs *args)
{
    while (__atomic_load_n(args->cancel, __ATOMIC_RELAXED) == 0) continue;
    return NST_E_CANCELLED;
}

static int32_t cancel_flag;
static void *cancel_later(void *arg)
{
    int64_t until = nst_os_now_ns() + 20000000;
    while (nst_os_now_ns() < until) continue;
    *(int64_t *)arg = nst_os_now_ns();
    __atomic_store_n(&cancel_flag, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* Time from the cancellation to the end of the run. */
static int64_t cancel_once(NstExec *exec, const NstExecRun *request)
{
    pthread_t other;
    int64_t when = 0;
    cancel_flag = 0;
    cr_assert_eq(pthread_create(&other, NULL, cancel_later, &when), 0);
    cr_assert_eq(nst_exec_run(exec, request), NST_E_CANCELLED);
    int64_t stopped = nst_os_now_ns();
    pthread_join(other, NULL);
    return stopped - when;
}

/* The best of five: on a busy machine a thread may wait that long for a processor. */
Test(exec, cancel_stops_a_run_within_50_ms)
{
    nst_test_step(plan, nst_test_kernel(plan, "long", true), (uint32_t[]){UINT32_MAX}, NULL);
    NstExec *exec = make_exec((NstKernelFn[]){wait_for_cancel});
    NstExecRun request = {.cancel = &cancel_flag, .error = error, .error_bytes = sizeof error};
    int64_t best = INT64_MAX;
    for (int k = 0; k < 5 && best >= 50000000; k++) {
        int64_t took = cancel_once(exec, &request);
        if (took < best) best = took;
    }
    cr_assert_lt(best, 50000000);
    cr_assert_str_eq(error, "the run was cancelled in long");
    cr_assert_eq(nst_exec_run(exec, &request), NST_E_CANCELLED); /* before its first step */
    nst_exec_free(exec);
}

/* --- outputs --- */

Test(exec, outputs_may_be_inputs_constants_each_other_or_not_wanted)
{
    NstDim n = nst_test_dim(plan, "n");
    static const float constant[3] = {7, 8, 9};
    NstPlanConst c = {.dtype = NST_F32, .data = constant, .bytes = sizeof constant};
    nst_vec_push(ctx.arena, &plan->constants, c);
    uint32_t x = nst_test_buffer(plan, "x", NST_PLACE_INPUT, 0, n);
    uint32_t k = nst_test_buffer(plan, "k", NST_PLACE_CONST, 0, nst_dim_const(plan->dims, 3));
    uint32_t y = nst_test_buffer(plan, "y", NST_PLACE_OUTPUT, 0, n),
             alias = nst_test_buffer(plan, "z", NST_PLACE_ALIAS, x, n);
    nst_test_port(plan, false, "x", x);
    nst_test_port(plan, true, "y", y);
    nst_test_port(plan, true, "again", y);
    nst_test_port(plan, true, "same", alias);
    nst_test_port(plan, true, "fixed", k);
    nst_test_kernel(plan, "add_one", false);
    nst_test_step(plan, 0, (uint32_t[]){x, y, UINT32_MAX}, (NstSym[]){sym_of("n"), {0}});
    NstExec *exec = make_exec(chain_functions);
    float in[2] = {1, 2};
    NstTensor tensor = nst_test_tensor(in, 2), out[4] = {{0}};
    cr_assert_eq(run(exec, &tensor, out), NST_OK, "%s", error);
    cr_assert_eq(((float *)out[0].data)[1], 3);
    cr_assert_eq(((float *)out[1].data)[1], 3);
    cr_assert_eq(((float *)out[2].data)[1], 2);
    cr_assert_eq(((float *)out[3].data)[2], 9);
    for (int o = 0; o < 4; o++) nst_tensor_release(&out[o]);
    bool wanted[4] = {false, true, false, false};
    memset(out, 0, sizeof out);
    NstExecRun request = {
        .inputs = &tensor, .outputs = out, .wanted = wanted, .error = error, .error_bytes = sizeof error};
    cr_assert_eq(nst_exec_run(exec, &request), NST_OK, "%s", error);
    cr_assert_null(out[0].data);
    cr_assert_eq(((float *)out[1].data)[1], 3);
    nst_tensor_release(&out[1]);
    nst_exec_free(exec);
}

/* --- sizes known late --- */

static int32_t write_count(const NstKernelArgs *args)
{
    *(int64_t *)args->buffers[1] = (int64_t)((const float *)args->buffers[0])[0];
    return 0;
}

static int32_t fill_iota(const NstKernelArgs *args)
{
    for (int64_t i = 0; i < args->dims[0]; i++) ((float *)args->buffers[0])[i] = (float)i;
    return 0;
}

Test(exec, sizes_read_while_running_get_memory_then)
{
    NstDim one = nst_dim_const(plan->dims, 1);
    NstSym m = nst_dims_new_sym(plan->dims, NST_SYM_VALUE, "m", 0, 1000);
    NstDim size = nst_dim_sym(plan->dims, m);
    uint32_t x = nst_test_buffer(plan, "x", NST_PLACE_INPUT, 0, one),
             c = nst_test_buffer(plan, "c", NST_PLACE_ARENA, 0, nst_dim_const(plan->dims, 2));
    uint32_t t = nst_test_buffer(plan, "t", NST_PLACE_ARENA, 0, size),
             y = nst_test_buffer(plan, "y", NST_PLACE_OUTPUT, 0, size);
    plan->buffers.at[t].last = 4;
    plan->buffers.at[c].dtype = NST_I64;
    nst_test_port(plan, false, "x", x);
    nst_test_port(plan, true, "y", y);
    NstKernelFn functions[] = {write_count, fill_iota, add_one};
    for (int k = 0; k < 3; k++) nst_test_kernel(plan, "kernel", false);
    NstSym params[] = {m, {0}};
    nst_test_step(plan, 0, (uint32_t[]){x, c, UINT32_MAX}, NULL);
    NstPlanStep read = {.kind = NST_STEP_READ,
                        .n_buffers = 1,
                        .buffer = nst_copy(ctx.arena, &c, sizeof c),
                        .n_sizes = 1,
                        .size = nst_copy(ctx.arena, &size, sizeof size)};
    nst_vec_push(ctx.arena, &plan->steps, read);
    nst_test_step(plan, 1, (uint32_t[]){t, UINT32_MAX}, params);
    nst_test_step(plan, 2, (uint32_t[]){t, y, UINT32_MAX}, params);
    NstExec *exec = make_exec(functions);
    for (float want = 5; want >= 0; want -= 5) {
        NstTensor in = nst_test_tensor(&want, 1), out = {0};
        cr_assert_eq(run(exec, &in, &out), NST_OK, "%s", error);
        cr_assert_eq(out.shape[0], (int64_t)want);
        for (int i = 0; i < (int)want; i++) cr_assert_eq(((float *)out.data)[i], (float)i + 1);
        nst_tensor_release(&out);
    }
    float many = 1001;
    NstTensor in = nst_test_tensor(&many, 1), out = {0};
    cr_assert_eq(run(exec, &in, &out), NST_E_SHAPE);
    cr_assert_str_eq(error, "size m is 1001, allowed are 0 to 1000");
    cr_assert_null(out.data);
    nst_exec_free(exec);
}

Test(exec, check_steps_compare_sizes)
{
    NstDim a = nst_test_dim(plan, "a"), b = nst_test_dim(plan, "b");
    nst_test_port(plan, false, "x", nst_test_buffer(plan, "x", NST_PLACE_INPUT, 0, a));
    nst_test_port(plan, false, "y", nst_test_buffer(plan, "y", NST_PLACE_INPUT, 1, b));
    NstPlanStep check = {.kind = NST_STEP_CHECK, .a = a, .b = b, .text = "add1 (Add): x and y must match"};
    nst_vec_push(ctx.arena, &plan->steps, check);
    NstExec *exec = make_exec(chain_functions);
    float data[4];
    NstTensor in[2] = {nst_test_tensor(data, 3), nst_test_tensor(data, 3)};
    cr_assert_eq(run(exec, in, NULL), NST_OK);
    in[1].shape[0] = 4;
    in[1].bytes = 16;
    cr_assert_eq(run(exec, in, NULL), NST_E_ASSERT);
    cr_assert_str_eq(error, "add1 (Add): x and y must match: 3 and 4");
    nst_exec_free(exec);
}

Test(exec, unsupported_steps_are_refused_by_name)
{
    NstPlanStep host = {.kind = NST_STEP_HOST, .text = "regex"};
    nst_vec_push(ctx.arena, &plan->steps, host);
    NstExec *exec;
    cr_assert_eq(nst_exec_new(&ctx, plan, pool, chain_functions, NULL, &exec), NST_E_UNSUPPORTED);
    cr_assert_str_eq(ctx.error, "a step: the host function 'regex'");
}

/* --- weights --- */

static int32_t pack_reversed(const NstKernelArgs *args)
{
    const float *in = args->buffers[0];
    float *out = args->buffers[1];
    for (int i = args->thread; i < 3; i += args->threads) out[i] = in[2 - i];
    return 0;
}

Test(exec, prepack_steps_run_once)
{
    static const float weight[3] = {1, 2, 3};
    NstDim three = nst_dim_const(plan->dims, 3);
    nst_vec_push(ctx.arena, &plan->constants,
                 ((NstPlanConst){.dtype = NST_F32, .data = weight, .bytes = sizeof weight}));
    nst_vec_push(ctx.arena, &plan->constants,
                 ((NstPlanConst){.dtype = NST_F32, .bytes = sizeof weight, .packed = true}));
    uint32_t w = nst_test_buffer(plan, "w", NST_PLACE_CONST, 0, three),
             p = nst_test_buffer(plan, "p", NST_PLACE_CONST, 1, three);
    nst_test_port(plan, true, "y", p);
    nst_test_kernel(plan, "pack", true);
    nst_test_step(plan, 0, (uint32_t[]){w, p, UINT32_MAX}, NULL);
    nst_vec_push(ctx.arena, &plan->prepack, nst_vec_pop(&plan->steps));
    NstExec *exec = make_exec((NstKernelFn[]){pack_reversed});
    cr_assert_eq(plan->prepack.n, 0);
    NstTensor out = {0};
    cr_assert_eq(run(exec, NULL, &out), NST_OK, "%s", error);
    for (int i = 0; i < 3; i++) cr_assert_eq(((float *)out.data)[i], (float)(3 - i));
    nst_tensor_release(&out);
    nst_exec_free(exec);
}

/* --- environment, concurrency, memory --- */

static int32_t add_denormals(const NstKernelArgs *args)
{
    volatile float tiny = 1e-39f, third = 3;
    third = 1 / third; /* inexact */
    *(float *)args->buffers[0] = fegetround() == FE_TONEAREST ? tiny + tiny : NAN;
    return 0;
}

Test(exec, floating_point_state_is_ours_inside_and_the_callers_after)
{
    uint32_t y = nst_test_buffer(plan, "y", NST_PLACE_OUTPUT, 0, nst_dim_const(plan->dims, 1));
    nst_test_port(plan, true, "y", y);
    nst_test_step(plan, nst_test_kernel(plan, "tiny", false), (uint32_t[]){y, UINT32_MAX}, NULL);
    NstExec *exec = make_exec((NstKernelFn[]){add_denormals});
    static const int round[] = {FE_UPWARD, FE_TONEAREST}, raised[] = {0, FE_DIVBYZERO};
    for (int k = 0; k < 4; k++) {
        fesetround(round[k / 2]);
        feclearexcept(FE_ALL_EXCEPT);
        feraiseexcept(raised[k % 2]);
        NstTensor out = {0};
        cr_assert_eq(run(exec, NULL, &out), NST_OK);
        cr_expect_eq(fegetround(), round[k / 2]);
        cr_expect_eq(fetestexcept(FE_ALL_EXCEPT), raised[k % 2], "the kernel's flags are not the caller's");
        fesetround(FE_TONEAREST);
        cr_assert_eq(*(float *)out.data, 2e-39f);
        nst_tensor_release(&out);
    }
    feclearexcept(FE_ALL_EXCEPT);
    nst_exec_free(exec);
}

static void *run_often(void *arg)
{
    intptr_t wrong = 0;
    float in[600], out[600];
    for (int round = 0; round < 200; round++) {
        int64_t n = 1 + round * 7 % 600;
        for (int64_t i = 0; i < n; i++) in[i] = (float)(i + round);
        NstTensor x = nst_test_tensor(in, n), y = {.data = out, .bytes = sizeof out};
        NstExecRun request = {.inputs = &x, .outputs = &y};
        wrong += nst_exec_run(arg, &request) != NST_OK;
        for (int64_t i = 0; i < n; i++) wrong += out[i] != 2 * in[i] + 2;
    }
    return (void *)wrong;
}

Test(exec, runs_at_once_do_not_meet)
{
    make_chain(true);
    NstExec *exec = make_exec(chain_functions);
    pthread_t caller[4];
    for (int k = 0; k < 4; k++) cr_assert_eq(pthread_create(&caller[k], NULL, run_often, exec), 0);
    for (int k = 0; k < 4; k++) {
        void *wrong;
        pthread_join(caller[k], &wrong);
        cr_assert_null(wrong);
    }
    nst_exec_free(exec);
}

Test(exec, each_allocation_may_fail)
{
    make_chain(true);
    float in[3] = {1, 2, 3};
    bool done = false;
    for (uint64_t n = 1; n < 200 && !done; n++) {
        NstExec *exec = NULL;
        NstTensor x = nst_test_tensor(in, 3), y = {0};
        nst_ctx_clear(&ctx);
        nst_arena_fail_after(n);
        NstStatus status = nst_exec_new(&ctx, plan, pool, chain_functions, NULL, &exec);
        if (status == NST_OK) status = run(exec, &x, &y);
        nst_arena_fail_after(0);
        cr_assert(status == NST_OK || status == NST_E_NOMEM);
        if (status != NST_OK) cr_assert_null(y.data);
        done = status == NST_OK && n > 10;
        nst_tensor_release(&y);
        nst_exec_free(exec);
    }
    cr_assert(done);
}

/* --- layout --- */

Test(exec, layout_reuses_memory_of_the_dead)
{
    NstDim n = nst_test_dim(plan, "n");
    uint32_t life[][2] = {{0, 1}, {1, 2}, {2, 3}, {0, 3}};
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t b = nst_test_buffer(plan, "t", NST_PLACE_ARENA, 0, k == 3 ? nst_dim_const(plan->dims, 1) : n);
        plan->buffers.at[b].first = life[k][0];
        plan->buffers.at[b].last = life[k][1];
    }
    int64_t value[2] = {0, 1000};
    uint64_t offset[4], bytes;
    cr_assert_eq(nst_plan_layout(&ctx, plan, value, 2, offset, &bytes), NST_OK, "%s", ctx.error);
    cr_assert_eq(bytes, 2 * 4032 + 64);
    cr_assert_eq(offset[0], offset[2]);
    for (int k = 0; k < 4; k++) cr_assert_eq(offset[k] % 64, 0);
    value[1] = INT64_MAX / 2;
    cr_assert_eq(nst_plan_layout(&ctx, plan, value, 2, offset, &bytes), NST_E_SHAPE);
}

Test(exec, layout_never_overlaps_the_living)
{
    uint32_t seed = 1;
    for (int k = 0; k < 60; k++) {
        seed = seed * 1664525 + 1013904223;
        uint32_t b = nst_test_buffer(plan, "t", NST_PLACE_ARENA, 0, nst_dim_const(plan->dims, 1 + seed % 5000));
        plan->buffers.at[b].first = seed >> 8 & 31;
        plan->buffers.at[b].last = plan->buffers.at[b].first + (seed >> 16 & 7);
    }
    uint32_t alias = nst_test_buffer(plan, "a", NST_PLACE_ALIAS, 0, nst_dim_const(plan->dims, 1));
    plan->buffers.at[alias].last = 60; /* keeps buffer 0 alive to the end */
    uint64_t offset[61], bytes;
    cr_assert_eq(nst_plan_layout(&ctx, plan, (int64_t[]){0}, 1, offset, &bytes), NST_OK);
    for (uint32_t a = 0; a < 60; a++) {
        for (uint32_t b = 0; b < a; b++) {
            const NstPlanBuffer *x = &plan->buffers.at[a], *y = &plan->buffers.at[b];
            bool together = b == 0 ? x->last >= y->first : x->first <= y->last && y->first <= x->last;
            int64_t nx, ny;
            nst_dim_is_const(plan->dims, x->bytes, &nx);
            nst_dim_is_const(plan->dims, y->bytes, &ny);
            cr_assert(!together || offset[a] >= offset[b] + (uint64_t)ny || offset[b] >= offset[a] + (uint64_t)nx);
        }
    }
}
