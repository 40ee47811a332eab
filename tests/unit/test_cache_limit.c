/* test_cache_limit.c: runtime/cache_evict.h through runtime/cache.h: the folder of the cache within its bytes. */
#define _GNU_SOURCE /* NOLINT: mkdtemp, usleep */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/unit/support_cache.h"
#include "tests/unit/support_folder.h"

static char root[200], folder[240], file[400];
static NstCache *cache;

static void begin(void)
{
    support_new_folder(root, sizeof root, "cache");
    snprintf(folder, sizeof folder, "%s/nestor", root);
}

static void end(void)
{
    nst_cache_free(cache);
    support_remove_folder(root);
}

TestSuite(cache_limit, .init = begin, .fini = end, .timeout = 60);

static NstCacheStats stats(void)
{
    NstCacheStats s;
    nst_cache_stats(cache, &s);
    return s;
}

static uint64_t folder_bytes(void)
{
    NstCacheFolder found;
    nst_cache_walk(cache, true, false, &found);
    for (int k = 0; k < NST_CACHE_REASON_COUNT; k++) cr_assert_eq(found.bad[k], 0);
    return found.bytes[NST_CACHE_KERNEL];
}

/* A process with a limit, and nothing in memory. */
static void restart_limited(uint64_t limit)
{
    nst_cache_free(cache);
    cr_assert_eq(nst_cache_new(folder, 0, &cache), NST_OK);
    nst_cache_limit(cache, limit);
}

Test(cache_limit, over_its_limit_the_folder_loses_what_was_not_used_for_longest)
{
    restart_limited(5 * SUPPORT_ENTRY);
    for (char key = 'a'; key <= 'd'; key++) support_store_key(cache, key);
    cr_assert_eq(stats().evictions, 0);
    cr_assert(support_find_key(cache, 'a')); /* used: now newer than b */
    usleep(12000);
    support_store_key(cache, 'e');
    cr_assert_eq(stats().evictions, 1);
    cr_assert_leq(folder_bytes(), 5 * SUPPORT_ENTRY);
    cr_expect(!support_find_key(cache, 'b'));
    for (const char *key = "acde"; *key; key++) cr_expect(support_find_key(cache, *key), "%c", *key);
    usleep(12000);
    restart_limited(2 * SUPPORT_ENTRY); /* a process that allows less */
    support_store_key(cache, 'f');
    cr_expect(support_find_key(cache, 'f'));
    cr_assert_leq(folder_bytes(), 2 * SUPPORT_ENTRY);
    cr_assert_eq(stats().evictions, 4);
}

Test(cache_limit, an_entry_over_the_limit_is_not_stored_and_counted)
{
    restart_limited(SUPPORT_ENTRY + 1000);
    support_store_key(cache, 'a');
    static char large[2 * SUPPORT_ENTRY];
    nst_cache_store(cache, NST_CACHE_KERNEL, "b", 1, &(NstPart){large, sizeof large}, 1);
    cr_assert_eq(stats().reason[NST_CACHE_LIMIT], 1);
    cr_assert_eq(stats().stores, 1);
    cr_expect(support_find_key(cache, 'a'));
}

Test(cache_limit, files_that_are_no_entries_are_never_evicted)
{
    restart_limited(3 * SUPPORT_ENTRY);
    support_store_key(cache, 'a');
    snprintf(file, sizeof file, "%s/somebody's", folder);
    FILE *f = fopen(file, "wb");
    cr_assert_eq(fseek(f, 9 * SUPPORT_ENTRY, SEEK_SET), 0);
    fputc('x', f);
    fclose(f);
    for (char key = 'b'; key <= 'f'; key++) support_store_key(cache, key);
    cr_assert_leq(folder_bytes(), 3 * SUPPORT_ENTRY);
    cr_assert_eq(access(file, F_OK), 0);
}

Test(cache_limit, what_is_mapped_outlives_its_eviction)
{
    NstCacheHit hit;
    restart_limited(3 * SUPPORT_ENTRY);
    support_store_key(cache, 'a');
    cr_assert(nst_cache_find(cache, NST_CACHE_KERNEL, "a", 1, &hit));
    for (char key = 'b'; key <= 'f'; key++) support_store_key(cache, key);
    cr_assert_gt(stats().evictions, 0);
    for (size_t k = 0; k < hit.bytes; k++) cr_assert_eq(((const char *)hit.at)[k], 0);
    nst_cache_release(cache, &hit);
    cr_assert(!support_find_key(cache, 'a'));
}

/* Three processes store and find at once: entries are whole or missing, and the folder stays near its limit. */
Test(cache_limit, several_processes_keep_one_limit)
{
    pid_t child[3];
    restart_limited(8 * SUPPORT_ENTRY);
    for (int p = 0; p < 3; p++) {
        child[p] = fork();
        if (child[p] != 0) continue;
        restart_limited(8 * SUPPORT_ENTRY);
        for (int k = 0; k < 150; k++) {
            char key = (char)('a' + (k * 7 + p * 5) % 26);
            static char bytes[SUPPORT_ENTRY];
            NstCacheHit hit;
            if (nst_cache_find(cache, NST_CACHE_KERNEL, &key, 1, &hit))
                nst_cache_release(cache, &hit);
            else
                nst_cache_store(cache, NST_CACHE_KERNEL, &key, 1, &(NstPart){bytes, SUPPORT_ENTRY}, 1);
        }
        _exit(stats().reason[NST_CACHE_TORN] + stats().reason[NST_CACHE_IO] != 0 || stats().evictions == 0);
    }
    for (int p = 0; p < 3; p++) {
        int status;
        waitpid(child[p], &status, 0);
        cr_expect_eq(status, 0);
    }
    cr_assert_leq(folder_bytes(), 8 * SUPPORT_ENTRY + 3 * (8 * SUPPORT_ENTRY / 8 + SUPPORT_ENTRY + 1000));
    support_store_key(cache, 'z');
    cr_assert_leq(folder_bytes(), 8 * SUPPORT_ENTRY);
}
