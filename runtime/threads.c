/* threads.c: worker pool, barrier and lock on POSIX threads and futexes.
 *
 * A job is posted as one atomic word, sequence number and number of threads together, so that a worker which is not
 * wanted never reads the job itself and the next job may be posted while it still looks.  Measured (design/measurements):
 * 0.3 us from post to join on two threads while workers spin, 7 us once they sleep. */
#include "runtime/threads.h"

#include <errno.h>
#include <fenv.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "ir/base/os.h"

#define LINE 64 /* bytes of a cache line */

/* How long an idle worker spins before it sleeps.  Fork-join cost 0.34 us after 200 us of idleness when spinning and 7 us
 * asleep; a longer spin steals from other processes (design/measurements, "Fork-join"). */
#define IDLE_SPIN_NS 250000
/* How long a thread spins for others of its own job: they are at work and usually arrive within a microsecond, but may
 * have lost their processor, and then spinning does harm; to be woken costs 7 us. */
#define JOIN_SPIN_NS 20000
/* Pools of more workers run on machines where a wake-up finds an idle processor. */
#define PARTED_WORKERS 15
/* Looks between two looks at the clock: some 2 us. */
#define LOOKS_A_CLOCK 64

/* A job of at least so many ns on one thread starts the threads at once: to start them takes 0.1 ms. */
#define START_NS 200000
/* Smaller jobs that run on the caller's thread alone before the threads are started for them: at 4 to 200 us each about the
 * time it takes to start them. */
#define DEFERRED_JOBS 32
/* Work in ns of jobs close together that the caller does alone before it wakes threads that sleep: to wake them takes 7 us. */
#define WAKE_NS   30000

#define WANT_BITS 8
#define WANT_MASK ((1u << WANT_BITS) - 1)
_Static_assert(NST_POOL_MAX_THREADS <= WANT_MASK, "the number of threads is part of the job word");

typedef struct Worker {
    /* Sequence of a job << 1 | whether its part `number` was taken.  The caller takes the parts of workers that are late. */
    _Alignas(LINE) _Atomic uint32_t part;
    NstPool *pool;
    pthread_t id;
    int number; /* thread of the job: 1 .. */
} Worker;

struct NstPool {
    _Alignas(LINE) _Atomic uint32_t job; /* sequence << WANT_BITS | threads */
    _Atomic uint32_t sleepers;
    _Atomic bool stop;
    _Alignas(LINE) _Atomic uint32_t left; /* parts of the job not done yet, the caller's own apart */
    _Atomic uint32_t joiner_sleeps;
    _Alignas(LINE) _Atomic bool busy;
    _Atomic uint64_t inline_jobs;
    _Atomic uint32_t deferred;   /* jobs, before threads were started */
    _Atomic int64_t deferred_ns; /* of jobs close together, while threads sleep */
    _Atomic int64_t deferred_at; /* the last of them */
    _Atomic bool running;        /* threads were started */
    /* Written by the thread that holds `busy`. */
    NstWork work;
    void *arg;
    int want;      /* threads of the job */
    int threads;   /* asked for, the caller included */
    int started;   /* workers that run */
    bool tried;    /* starting was tried */
    cpu_set_t all; /* processors the workers may use */
    int avoided;   /* the one they keep off; -1 at first */
    Worker worker[NST_POOL_MAX_THREADS];
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Returns a value of *word other than `seen`: spins for spin_ns, then sleeps.  Whoever changes the word reads *sleepers
 * after the change and wakes. */
static uint32_t wait_change(_Atomic uint32_t *word, uint32_t seen, _Atomic uint32_t *sleepers, int64_t spin_ns)
{
    int64_t until = 0;
    for (unsigned look = 1;; look++) {
        uint32_t now = atomic_load_explicit(word, memory_order_acquire);
        if (now != seen) return now;
        relax();
        if (look % LOOKS_A_CLOCK != 0) continue;
        int64_t time = nst_os_now_ns();
        if (until == 0)
            until = time + spin_ns;
        else if (time >= until)
            break;
    }
    atomic_fetch_add(sleepers, 1);
    uint32_t now;
    while ((now = atomic_load(word)) == seen) futex_wait(word, seen);
    atomic_fetch_sub(sleepers, 1);
    return now;
}

/* --- pool ---------------------------------------------------------------------------------------------------- */

/* True for the one thread that gets the worker's part of the job with this sequence number. */
static bool take_part(Worker *worker, uint32_t sequence)
{
    uint32_t open = sequence << 1;
    return atomic_compare_exchange_strong(&worker->part, &open, open | 1);
}

static void *work_loop(void *arg)
{
    Worker *self = arg;
    NstPool *pool = self->pool;
    fesetenv(FE_DFL_ENV); /* denormals kept, rounding to nearest, whatever the creating thread had set */
    uint32_t seen = 0;
    for (;;) {
        uint32_t job = wait_change(&pool->job, seen, &pool->sleepers, IDLE_SPIN_NS);
        seen = job;
        if (atomic_load_explicit(&pool->stop, memory_order_acquire)) return NULL;
        if (self->number >= (int)(job & WANT_MASK) || !take_part(self, job >> WANT_BITS)) continue;
        pool->work(pool->arg, self->number, pool->want);
        if (atomic_fetch_sub(&pool->left, 1) == 1 && atomic_load(&pool->joiner_sleeps) != 0) futex_wake(&pool->left);
    }
}

/* Starts the workers; fewer than asked for when the system has no more. */
static void start_workers(NstPool *pool)
{
    pool->tried = true;
    if (sched_getaffinity(0, sizeof pool->all, &pool->all) != 0) CPU_ZERO(&pool->all);
    atomic_store_explicit(&pool->running, true, memory_order_relaxed);
    for (int k = 1; k < pool->threads; k++) {
        Worker *worker = &pool->worker[k];
        *worker = (Worker){.pool = pool, .number = k};
        if (nst_alloc_should_fail() || pthread_create(&worker->id, NULL, work_loop, worker) != 0) return;
        pool->started = k;
    }
}

/* Keeps the workers off the caller's processor.  A woken thread is often put where it was woken from, and two that spin for one
 * another look too busy to be parted: such pairs stay for seconds, at 14 us a job instead of 1, and long jobs run one after
 * the other.  Costs system calls only when the caller has moved. */
static void part_from_caller(NstPool *pool)
{
    int cpu = sched_getcpu();
    if (cpu == pool->avoided || cpu < 0 || cpu >= CPU_SETSIZE || pool->started > PARTED_WORKERS) return;
    cpu_set_t others = pool->all;
    CPU_CLR((size_t)cpu, &others);
    if (CPU_COUNT(&others) == 0) return;
    pool->avoided = cpu;
    for (int k = 1; k <= pool->started; k++) (void)pthread_setaffinity_np(pool->worker[k].id, sizeof others, &others);
}

/* Returns the sequence number of the new job. */
static uint32_t post(NstPool *pool, uint32_t want)
{
    uint32_t job = atomic_load_explicit(&pool->job, memory_order_relaxed);
    uint32_t next = ((job >> WANT_BITS) + 1) << WANT_BITS | want, sequence = next >> WANT_BITS;
    for (uint32_t k = 1; k < want; k++)
        atomic_store_explicit(&pool->worker[k].part, sequence << 1, memory_order_relaxed);
    atomic_store(&pool->job, next);
    if (atomic_load(&pool->sleepers) != 0) futex_wake(&pool->job);
    return sequence;
}

/* Does the parts of workers that have not come yet, for they may have lost their processor to another process, and waits for
 * the others. */
static void join(NstPool *pool, uint32_t sequence)
{
    for (int k = 1; k < pool->want; k++) {
        if (!take_part(&pool->worker[k], sequence)) continue;
        pool->work(pool->arg, k, pool->want);
        atomic_fetch_sub(&pool->left, 1);
    }
    for (;;) {
        uint32_t left = atomic_load_explicit(&pool->left, memory_order_acquire);
        if (left == 0) return;
        wait_change(&pool->left, left, &pool->joiner_sleeps, JOIN_SPIN_NS);
    }
}

void nst_pool_run(NstPool *pool, int want, NstWork work, void *arg)
{
    if (pool && want > pool->threads) want = pool->threads;
    if (!pool || want <= 1) {
        work(arg, 0, 1);
        return;
    }
    if (atomic_exchange_explicit(&pool->busy, true, memory_order_acquire)) {
        atomic_fetch_add_explicit(&pool->inline_jobs, 1, memory_order_relaxed);
        work(arg, 0, 1);
        return;
    }
    if (!pool->tried) start_workers(pool);
    if (want > pool->started + 1) want = pool->started + 1;
    uint32_t sequence = 0;
    if (want > 1) {
        pool->work = work;
        pool->arg = arg;
        pool->want = want;
        part_from_caller(pool);
        atomic_store_explicit(&pool->left, (uint32_t)want - 1, memory_order_relaxed);
        sequence = post(pool, (uint32_t)want);
    }
    work(arg, 0, want);
    if (want > 1) join(pool, sequence);
    atomic_store_explicit(&pool->busy, false, memory_order_release);
}

bool nst_pool_defer(NstPool *pool, int64_t ns)
{
    if (!pool) return false;
    if (!atomic_load_explicit(&pool->running, memory_order_relaxed))
        return ns < START_NS && atomic_fetch_add_explicit(&pool->deferred, 1, memory_order_relaxed) < DEFERRED_JOBS;
    if (atomic_load_explicit(&pool->sleepers, memory_order_relaxed) == 0 || ns >= WAKE_NS) return false;
    int64_t now = nst_os_now_ns();
    bool alone = now - atomic_exchange_explicit(&pool->deferred_at, now, memory_order_relaxed) > IDLE_SPIN_NS;
    if (alone) atomic_store_explicit(&pool->deferred_ns, 0, memory_order_relaxed);
    return atomic_fetch_add_explicit(&pool->deferred_ns, ns, memory_order_relaxed) + ns < WAKE_NS;
}

int nst_pool_threads(const NstPool *pool)
{
    return pool ? pool->threads : 1;
}

uint64_t nst_pool_inline_jobs(const NstPool *pool)
{
    return atomic_load_explicit(&((NstPool *)(uintptr_t)pool)->inline_jobs, memory_order_relaxed);
}

NstStatus nst_pool_new(int threads, NstPool **pool)
{
    if (threads <= 0) threads = nst_os_cpu_count();
    if (threads > NST_POOL_MAX_THREADS) threads = NST_POOL_MAX_THREADS;
    NstPool *made = nst_alloc_should_fail() ? NULL : aligned_alloc(LINE, sizeof *made);
    if (!made) return NST_E_NOMEM;
    atomic_init(&made->job, 0);
    atomic_init(&made->sleepers, 0);
    atomic_init(&made->stop, false);
    atomic_init(&made->left, 0);
    atomic_init(&made->joiner_sleeps, 0);
    atomic_init(&made->busy, false);
    atomic_init(&made->inline_jobs, 0);
    atomic_init(&made->deferred, 0);
    atomic_init(&made->deferred_ns, 0);
    atomic_init(&made->deferred_at, 0);
    atomic_init(&made->running, false);
    made->threads = threads;
    made->started = 0;
    made->tried = false;
    made->avoided = -1;
    *pool = made;
    return NST_OK;
}

void nst_pool_free(NstPool *pool)
{
    if (!pool) return;
    atomic_store(&pool->stop, true);
    post(pool, 0);
    for (int k = 1; k <= pool->started; k++) pthread_join(pool->worker[k].id, NULL);
    free(pool);
}

/* --- barrier ------------------------------------------------------------------------------------------------- */

/* Arrivals are counted and never reset: round r is through when r * threads have arrived. */
struct NstBarrier {
    _Alignas(LINE) _Atomic uint32_t arrived;
    _Atomic uint32_t sleepers;
    _Atomic bool broken;
};

/* Added by a break: beyond any count that a job reaches. */
#define BREAK_STEP 0x40000000u

size_t nst_barrier_size(void)
{
    return sizeof(NstBarrier);
}

void nst_barrier_init(NstBarrier *barrier)
{
    atomic_init(&barrier->arrived, 0);
    atomic_init(&barrier->sleepers, 0);
    atomic_init(&barrier->broken, false);
}

int32_t nst_barrier_wait(NstBarrier *barrier, int32_t threads)
{
    if (atomic_load_explicit(&barrier->broken, memory_order_acquire)) return 1;
    if (threads <= 1) return 0;
    uint32_t now = atomic_fetch_add(&barrier->arrived, 1) + 1, count = (uint32_t)threads;
    uint32_t target = (now + count - 1) / count * count;
    if (now == target) {
        if (atomic_load(&barrier->sleepers) != 0) futex_wake(&barrier->arrived);
    } else {
        /* `broken` is set before the count jumps: whoever counted itself after the jump sees it. */
        while ((int32_t)(now - target) < 0 && !atomic_load(&barrier->broken))
            now = wait_change(&barrier->arrived, now, &barrier->sleepers, JOIN_SPIN_NS);
    }
    return atomic_load_explicit(&barrier->broken, memory_order_acquire);
}

void nst_barrier_break(NstBarrier *barrier)
{
    if (atomic_exchange(&barrier->broken, true)) return;
    atomic_fetch_add(&barrier->arrived, BREAK_STEP);
    if (atomic_load(&barrier->sleepers) != 0) futex_wake(&barrier->arrived);
}

/* --- lock ---------------------------------------------------------------------------------------------------- */

struct NstLock {
    pthread_mutex_t mutex;
};

NstStatus nst_lock_new(NstLock **lock)
{
    NstLock *made = nst_alloc_should_fail() ? NULL : malloc(sizeof *made);
    if (!made) return NST_E_NOMEM;
    pthread_mutex_init(&made->mutex, NULL); /* cannot fail with default attributes */
    *lock = made;
    return NST_OK;
}

void nst_lock_free(NstLock *lock)
{
    if (!lock) return;
    pthread_mutex_destroy(&lock->mutex);
    free(lock);
}

void nst_lock_take(NstLock *lock)
{
    pthread_mutex_lock(&lock->mutex);
}

void nst_lock_drop(NstLock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}
