/* test_threads.c: runtime/threads.h. */
#define _GNU_SOURCE /* NOLINT: sched_setaffinity */
#include <criterion/criterion.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "ir/base/os.h"
#include "runtime/threads.h"

static NstPool *pool;

static void begin(void)
{
    cr_assert_eq(nst_pool_new(4, &pool), NST_OK);
}

static void end(void)
{
    nst_pool_free(pool);
}

TestSuite(threads, .init = begin, .fini = end, .timeout = 60);

typedef struct Tally {
    _Atomic int calls, sum, wrong;
    int threads;
} Tally;

static void count(void *arg, int thread, int threads)
{
    Tally *tally = arg;
    atomic_fetch_add(&tally->calls, 1);
    atomic_fetch_add(&tally->sum, 1 << (8 * thread));
    if (thread == 0) tally->threads = threads;
    if (fegetround() != FE_TONEAREST) atomic_fetch_add(&tally->wrong, 1);
}

Test(threads, each_thread_works_once)
{
    for (int round = 0; round < 1000; round++) {
        int want = 1 + round % 4;
        Tally tally = {0};
        nst_pool_run(pool, want, count, &tally);
        cr_assert_eq(tally.calls, want);
        cr_assert_eq(tally.threads, want);
        cr_assert_eq(tally.sum, 0x01010101 & (int)((1ull << (8 * want)) - 1));
        cr_assert_eq(tally.wrong, 0);
    }
}

typedef struct Places {
    int processor[2];
    _Atomic int arrived;
} Places;

/* Both parts wait for one another, so that two threads do them. */
static void note_processor(void *arg, int thread, int threads)
{
    Places *places = arg;
    (void)threads;
    atomic_fetch_add(&places->arrived, 1);
    while (atomic_load(&places->arrived) < 2) sched_yield();
    places->processor[thread] = sched_getcpu();
}

/* The caller moves to where the worker is: the next job finds the worker somewhere else. */
Test(threads, a_worker_leaves_the_processor_of_its_caller)
{
    cpu_set_t all, one;
    NstPool *two;
    Places places = {0};
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2) cr_skip_test("one processor");
    cr_assert_eq(nst_pool_new(2, &two), NST_OK);
    nst_pool_run(two, 2, note_processor, &places);
    for (int round = 0; round < 20; round++) {
        CPU_ZERO(&one);
        CPU_SET((size_t)places.processor[1], &one);
        cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
        places.arrived = 0;
        nst_pool_run(two, 2, note_processor, &places);
        cr_expect_neq(places.processor[0], places.processor[1], "round %d: both on processor %d", round,
                      places.processor[0]);
    }
    nst_pool_free(two);
}

static void note_thread(void *arg, int thread, int threads)
{
    (void)threads;
    ((pthread_t *)arg)[thread] = pthread_self();
}

/* On one processor the worker seldom runs before the caller is through with its own part. */
Test(threads, a_caller_does_the_part_of_a_worker_that_is_late)
{
    cpu_set_t all, one;
    NstPool *two;
    pthread_t by[2];
    int taken = 0;
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    cr_assert_eq(nst_pool_new(2, &two), NST_OK);
    for (int round = 0; round < 1000; round++) {
        nst_pool_run(two, 2, note_thread, by);
        cr_assert(pthread_equal(by[0], pthread_self()));
        taken += pthread_equal(by[1], pthread_self()) != 0;
    }
    nst_pool_free(two);
    cr_expect_gt(taken, 100);
}

Test(threads, more_than_the_pool_has_is_cut)
{
    Tally tally = {0};
    nst_pool_run(pool, 1000, count, &tally);
    cr_assert_eq(tally.calls, 4);
    NstPool *one;
    cr_assert_eq(nst_pool_new(1, &one), NST_OK);
    Tally alone = {0};
    nst_pool_run(one, 8, count, &alone);
    cr_assert_eq(alone.calls, 1);
    nst_pool_run(NULL, 8, count, &alone);
    cr_assert_eq(alone.calls, 2);
    nst_pool_free(one);
}

/* After this the workers sleep: they do after 0.25 ms. */
static void let_workers_sleep(void)
{
    int64_t until = nst_os_now_ns() + 3000000;
    while (nst_os_now_ns() < until) continue;
}

Test(threads, sleeping_workers_wake)
{
    for (int round = 0; round < 5; round++) {
        Tally tally = {0};
        nst_pool_run(pool, 4, count, &tally);
        cr_assert_eq(tally.calls, 4);
        let_workers_sleep();
    }
}

Test(threads, small_jobs_neither_start_nor_wake_the_threads)
{
    Tally tally = {0};
    cr_assert(!nst_pool_defer(NULL, 1));
    cr_assert(!nst_pool_defer(pool, 1000000));
    for (int k = 0; k < 32; k++) cr_assert(nst_pool_defer(pool, 10000));
    cr_assert(!nst_pool_defer(pool, 10000));
    nst_pool_run(pool, 4, count, &tally);
    for (int round = 0; round < 5; round++) { /* small jobs now and then */
        let_workers_sleep();
        while (!nst_pool_defer(pool, 0)) sched_yield(); /* on a busy machine they take longer to */
        cr_assert(nst_pool_defer(pool, 10000));
        cr_assert(nst_pool_defer(pool, 10000));
        cr_assert(!nst_pool_defer(pool, 1000000));
    }
    int jobs = 0; /* close together: three, but this thread may lose its processor between them */
    while (nst_pool_defer(pool, 10000) && jobs < 10000) jobs++;
    cr_assert_lt(jobs, 10000);
}

static void nested(void *arg, int thread, int threads)
{
    (void)threads;
    if (thread == 0) nst_pool_run(pool, 4, count, arg);
}

Test(threads, a_busy_pool_lets_the_caller_work_alone)
{
    Tally tally = {0};
    nst_pool_run(pool, 4, nested, &tally);
    cr_assert_eq(tally.calls, 1);
    cr_assert_eq(tally.threads, 1);
    cr_assert_eq(nst_pool_inline_jobs(pool), 1);
}

static void *call_often(void *arg)
{
    for (int round = 0; round < 300; round++) {
        Tally tally = {0};
        nst_pool_run(pool, 3, count, &tally);
        if (tally.calls != tally.threads) atomic_fetch_add((_Atomic int *)arg, 1);
    }
    return NULL;
}

Test(threads, callers_may_come_from_many_threads)
{
    pthread_t caller[3];
    _Atomic int wrong = 0;
    for (int k = 0; k < 3; k++) cr_assert_eq(pthread_create(&caller[k], NULL, call_often, &wrong), 0);
    for (int k = 0; k < 3; k++) pthread_join(caller[k], NULL);
    cr_assert_eq(wrong, 0);
}

Test(threads, default_size_is_the_machine)
{
    NstPool *own;
    cr_assert_eq(nst_pool_new(0, &own), NST_OK);
    cr_assert_eq(nst_pool_threads(own), nst_os_cpu_count());
    nst_pool_free(own);
}

/* --- barrier --- */

typedef struct Meeting {
    NstBarrier *barrier;
    int rounds, break_at;
    int place[4];
    _Atomic int wrong, stopped;
} Meeting;

static void meet(void *arg, int thread, int threads)
{
    Meeting *m = arg;
    for (int round = 0; round < m->rounds; round++) {
        if (round == m->break_at && thread == threads - 1) {
            nst_barrier_break(m->barrier);
            return;
        }
        m->place[thread] = round;
        if (nst_barrier_wait(m->barrier, threads) != 0) {
            atomic_fetch_add(&m->stopped, 1);
            return;
        }
        for (int k = 0; k < threads; k++)
            if (m->place[k] != round) atomic_fetch_add(&m->wrong, 1);
        if (nst_barrier_wait(m->barrier, threads) != 0) {
            atomic_fetch_add(&m->stopped, 1);
            return;
        }
    }
}

static NstBarrier *new_barrier(void)
{
    NstBarrier *barrier = aligned_alloc(64, (nst_barrier_size() + 63) / 64 * 64);
    nst_barrier_init(barrier);
    return barrier;
}

Test(threads, barrier_keeps_rounds_apart)
{
    Meeting m = {.barrier = new_barrier(), .rounds = 200, .break_at = -1};
    nst_pool_run(pool, 4, meet, &m);
    cr_assert_eq(m.wrong, 0);
    cr_assert_eq(m.stopped, 0);
    cr_assert_eq(nst_barrier_wait(m.barrier, 1), 0);
    free(m.barrier);
}

Test(threads, broken_barrier_lets_everybody_go)
{
    for (int round = 0; round < 50; round++) {
        Meeting m = {.barrier = new_barrier(), .rounds = 100, .break_at = round % 50};
        nst_pool_run(pool, 4, meet, &m);
        cr_assert_eq(m.wrong, 0);
        cr_assert_eq(m.stopped, 3);
        free(m.barrier);
    }
}

Test(threads, no_memory_is_a_status)
{
    NstPool *none;
    NstLock *lock;
    nst_arena_fail_after(1);
    cr_assert_eq(nst_pool_new(2, &none), NST_E_NOMEM);
    nst_arena_fail_after(1);
    cr_assert_eq(nst_lock_new(&lock), NST_E_NOMEM);
    nst_arena_fail_after(0);
    cr_assert_eq(nst_lock_new(&lock), NST_OK);
    nst_lock_take(lock);
    nst_lock_drop(lock);
    nst_lock_free(lock);
}

Test(threads, workers_that_do_not_start_are_missed_by_nobody)
{
    NstPool *small;
    cr_assert_eq(nst_pool_new(4, &small), NST_OK);
    nst_arena_fail_after(2); /* the second worker */
    Tally tally = {0};
    nst_pool_run(small, 4, count, &tally);
    nst_arena_fail_after(0);
    cr_assert_eq(tally.calls, 2);
    cr_assert_eq(tally.threads, 2);
    nst_pool_free(small);
}
