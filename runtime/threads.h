/* threads.h: the worker pool of an engine, the barrier kernels use, and a lock.
 *
 * Work is divided statically into as many parts as a job has threads; a part has a number, and whoever does it gets the
 * same bits.  The caller does the parts of threads that are late, so that a busy neighbour costs a core and not the run
 * (shufflenet beside a busy loop on two processors: 6.7 -> 3.1 ms).  Threads that wait spin for a bounded time and then
 * sleep in the kernel (futex), so that an idle engine takes no processor. */
#ifndef NST_RUNTIME_THREADS_H
#define NST_RUNTIME_THREADS_H

#include "ir/base/status.h"

typedef struct NstPool NstPool;

/* Part `thread` of a job, 0 .. threads - 1. */
typedef void (*NstWork)(void *arg, int thread, int threads);

#define NST_POOL_MAX_THREADS 128

/* A pool for jobs of up to `threads` threads, the caller's included; 0 = as many as nst_os_cpu_count allows, larger
 * counts are cut to NST_POOL_MAX_THREADS.  Threads start with the first job that wants them.
 * Owns: the caller ends it with nst_pool_free.  Errors: NST_E_NOMEM. */
NstStatus nst_pool_new(int threads, NstPool **pool) NST_MUST_CHECK;

/* Stops and joins the threads; no job may run.  NULL is allowed. */
void nst_pool_free(NstPool *pool);

/* Threads a job may have. */
int nst_pool_threads(const NstPool *pool);

/* Does the `want` parts of a job (cut to what the pool has) on as many threads at once, part 0 on the caller's, and returns
 * when all are done; parts whose threads are late follow on the caller's.  Parts may wait for one another.  A pool that is
 * busy with another job, or NULL, lets the caller do it alone as thread 0 of 1.
 * Threads: any thread may call it at any time; work must not call it on the same pool and wait for others. */
void nst_pool_run(NstPool *pool, int want, NstWork work, void *arg);

/* True if a job of about `ns` on one thread is too small to start the pool's threads for, or to wake them: for the first few
 * such jobs.  A process that does little now and then never pays for threads; one that goes on gets them. */
bool nst_pool_defer(NstPool *pool, int64_t ns);

/* Jobs that found the pool busy and ran on the caller's thread alone. */
uint64_t nst_pool_inline_jobs(const NstPool *pool);

/* --- barrier ------------------------------------------------------------------------------------------------- */

typedef struct NstBarrier NstBarrier;

/* A barrier in memory of nst_barrier_size bytes, aligned to 64. */
size_t nst_barrier_size(void);
void nst_barrier_init(NstBarrier *barrier);

/* Returns 0 when all `threads` threads have arrived, non-zero when the barrier was broken.  All calls between two
 * inits name the same number. */
int32_t nst_barrier_wait(NstBarrier *barrier, int32_t threads);

/* Lets all waiting and future arrivals return non-zero: a thread that leaves early calls it. */
void nst_barrier_break(NstBarrier *barrier);

/* --- lock ---------------------------------------------------------------------------------------------------- */

typedef struct NstLock NstLock;

/* Owns: the caller ends it with nst_lock_free.  Errors: NST_E_NOMEM. */
NstStatus nst_lock_new(NstLock **lock) NST_MUST_CHECK;
void nst_lock_free(NstLock *lock);
void nst_lock_take(NstLock *lock);
void nst_lock_drop(NstLock *lock);

#endif
