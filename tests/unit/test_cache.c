/* test_cache.c: runtime/cache.h and ir/base/folder.h: one test a rule of the cache on disk. */
#define _GNU_SOURCE /* NOLINT: mkdtemp, chown, setrlimit */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/unit/support_cache.h"
#include "tests/unit/support_folder.h"

static char root[200], folder[240], file[400];
static const char material[] = "material of an entry, of no particular length";
static const char payload[] = "the payload: plan, code and weights";
static NstCache *cache;

static void begin(void)
{
    support_new_folder(root, sizeof root, "cache");
    snprintf(folder, sizeof folder, "%s/a/nestor", root);
    cr_assert_eq(nst_cache_new(folder, 1 << 20, &cache), NST_OK);
}

static void end(void)
{
    nst_cache_free(cache);
    support_remove_folder(root);
}

TestSuite(cache, .init = begin, .fini = end, .timeout = 60);

static void store(const char *text)
{
    NstPart parts[2] = {{text, 10}, {text + 10, strlen(text) - 10}};
    nst_cache_store(cache, NST_CACHE_PLAN, material, sizeof material, parts, 2);
}

static bool find_text(const char *text)
{
    NstCacheHit hit;
    if (!nst_cache_find(cache, NST_CACHE_PLAN, material, sizeof material, &hit)) return false;
    cr_assert_eq(hit.bytes, strlen(text));
    cr_assert_eq(memcmp(hit.at, text, hit.bytes), 0);
    cr_assert_eq((uintptr_t)hit.at % 64, 0);
    nst_cache_release(cache, &hit);
    return true;
}

/* As a new process sees it: nothing in memory. */
static void restart(void)
{
    nst_cache_free(cache);
    cr_assert_eq(nst_cache_new(folder, 1 << 20, &cache), NST_OK);
}

static NstCacheStats stats(void)
{
    NstCacheStats s;
    nst_cache_stats(cache, &s);
    return s;
}

/* Expects a miss for this reason from a fresh cache. */
static void expect_miss(NstCacheReason reason)
{
    restart();
    cr_assert(!find_text(payload));
    NstCacheStats s = stats();
    cr_assert_eq(s.misses, 1);
    cr_assert_eq(s.reason[reason], 1, "not for '%s'", nst_cache_reason_text(reason));
}

/* Stores and sets `file` to the path of the entry. */
static void store_one(void)
{
    store(payload);
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        snprintf(file, sizeof file, "%s/%.100s", folder, e->d_name);
        n++;
    }
    closedir(d);
    cr_assert_eq(n, 1);
}

static size_t read_entry_file(unsigned char *bytes, size_t limit)
{
    FILE *f = fopen(file, "rb");
    size_t n = fread(bytes, 1, limit, f);
    fclose(f);
    return n;
}

static void write_entry_file(const unsigned char *bytes, size_t n)
{
    FILE *f = fopen(file, "wb");
    cr_assert_eq(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

Test(cache, finds_what_was_stored_in_memory_and_on_disk)
{
    cr_assert(!find_text(payload));
    store(payload);
    cr_assert(find_text(payload));
    cr_assert_eq(stats().memory_hits, 1);
    cr_assert_eq(stats().stores, 1);
    restart();
    cr_assert(find_text(payload));
    cr_assert_eq(stats().disk_hits, 1);
    cr_assert(find_text(payload));
    cr_assert_eq(stats().memory_hits, 1);
    struct stat facts;
    cr_assert_eq(stat(folder, &facts), 0);
    cr_assert_eq(facts.st_mode & 0777, 0700);
}

Test(cache, kinds_and_material_keep_entries_apart)
{
    store(payload);
    NstCacheHit hit;
    cr_assert(!nst_cache_find(cache, NST_CACHE_KERNEL, material, sizeof material, &hit));
    cr_assert(!nst_cache_find(cache, NST_CACHE_PLAN, material, sizeof material - 1, &hit));
    cr_assert(!nst_cache_find(cache, NST_CACHE_PLAN, "", 0, &hit));
    NstPart none = {NULL, 0};
    nst_cache_store(cache, NST_CACHE_PLAN, "", 0, &none, 1);
    restart();
    cr_assert(nst_cache_find(cache, NST_CACHE_PLAN, "", 0, &hit));
    cr_assert_eq(hit.bytes, 0);
    nst_cache_release(cache, &hit);
}

Test(cache, the_last_store_wins)
{
    store(payload);
    store("another payload of another length");
    restart();
    cr_assert(find_text("another payload of another length"));
}

Test(cache, every_flipped_byte_is_a_miss)
{
    unsigned char bytes[1024];
    store_one();
    size_t n = read_entry_file(bytes, sizeof bytes);
    cr_assert(n > 128 && n < sizeof bytes);
    for (size_t k = 0; k < n; k++) {
        bytes[k] ^= (unsigned char)(1 << k % 8);
        write_entry_file(bytes, n);
        expect_miss(NST_CACHE_TORN);
        bytes[k] ^= (unsigned char)(1 << k % 8);
    }
    write_entry_file(bytes, n);
    restart();
    cr_assert(find_text(payload));
}

Test(cache, every_shorter_or_longer_file_is_a_miss)
{
    unsigned char bytes[1024] = {0};
    store_one();
    size_t n = read_entry_file(bytes, sizeof bytes);
    for (size_t k = 0; k < n; k++) {
        write_entry_file(bytes, k);
        expect_miss(NST_CACHE_TORN);
    }
    write_entry_file(bytes, n + 1);
    expect_miss(NST_CACHE_TORN);
}

Test(cache, an_equal_hash_of_other_material_is_a_miss)
{
    store_one();
    unsigned char bytes[1024];
    size_t n = read_entry_file(bytes, sizeof bytes);
    nst_cache_store(cache, NST_CACHE_PLAN, "other", 5, &(NstPart){payload, sizeof payload}, 1);
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && strcmp(e->d_name, strrchr(file, '/') + 1) != 0)
            snprintf(file, sizeof file, "%s/%.100s", folder, e->d_name); /* the name of "other" */
    closedir(d);
    write_entry_file(bytes, n);
    restart();
    NstCacheHit hit;
    cr_assert(!nst_cache_find(cache, NST_CACHE_PLAN, "other", 5, &hit));
    cr_assert_eq(stats().reason[NST_CACHE_OTHER], 1);
    NstCacheFolder found;
    nst_cache_walk(cache, true, false, &found);
    cr_assert_eq(found.entries[NST_CACHE_PLAN], 1);
    cr_assert_eq(found.bad[NST_CACHE_OTHER], 1);
}

Test(cache, links_are_not_followed)
{
    char away[240];
    store_one();
    snprintf(away, sizeof away, "%s/away", root);
    cr_assert_eq(rename(file, away), 0);
    cr_assert_eq(symlink(away, file), 0);
    expect_miss(NST_CACHE_LINK);
    cr_assert_eq(unlink(file), 0);
    cr_assert_eq(rename(away, file), 0);
    cr_assert_eq(rename(folder, away), 0);
    cr_assert_eq(symlink(away, folder), 0);
    expect_miss(NST_CACHE_LINK);
    cr_assert_eq(unlink(folder), 0);
    cr_assert_eq(rename(away, folder), 0);
    snprintf(away, sizeof away, "%s/b", root);
    char on_the_way[240];
    snprintf(on_the_way, sizeof on_the_way, "%s/a", root);
    cr_assert_eq(rename(on_the_way, away), 0);
    cr_assert_eq(symlink("b", on_the_way), 0);
    expect_miss(NST_CACHE_LINK);
}

Test(cache, foreign_owners_are_refused)
{
    if (geteuid() != 0) cr_skip_test("only root can give files away");
    store_one();
    cr_assert_eq(chown(file, 12345, 12345), 0);
    expect_miss(NST_CACHE_OWNER);
    cr_assert_eq(chown(file, 0, 0), 0);
    cr_assert_eq(chown(folder, 12345, 12345), 0);
    expect_miss(NST_CACHE_OWNER);
    store(payload);
    cr_assert_eq(stats().reason[NST_CACHE_OWNER], 2);
    cr_assert_eq(chown(folder, 0, 0), 0);
    char on_the_way[240];
    snprintf(on_the_way, sizeof on_the_way, "%s/a", root);
    cr_assert_eq(chown(on_the_way, 12345, 12345), 0);
    expect_miss(NST_CACHE_OWNER);
}

Test(cache, what_others_may_write_is_refused)
{
    store_one();
    cr_assert_eq(chmod(file, 0620), 0);
    expect_miss(NST_CACHE_MODE);
    cr_assert_eq(chmod(file, 0602), 0);
    expect_miss(NST_CACHE_MODE);
    cr_assert_eq(chmod(file, 0600), 0);
    cr_assert_eq(chmod(folder, 0750), 0); /* the folder is its owner's alone */
    expect_miss(NST_CACHE_MODE);
    cr_assert_eq(chmod(folder, 0700), 0);
    char on_the_way[240];
    snprintf(on_the_way, sizeof on_the_way, "%s/a", root);
    cr_assert_eq(chmod(on_the_way, 0777), 0);
    expect_miss(NST_CACHE_MODE);
    cr_assert_eq(chmod(on_the_way, 01777), 0); /* sticky: others cannot take our folder away */
    restart();
    cr_assert(find_text(payload));
}

Test(cache, what_is_no_file_or_folder_is_refused)
{
    store_one();
    cr_assert_eq(unlink(file), 0);
    cr_assert_eq(mkdir(file, 0700), 0);
    expect_miss(NST_CACHE_KIND);
    cr_assert_eq(rmdir(file), 0);
    cr_assert_eq(mkfifo(file, 0600), 0);
    expect_miss(NST_CACHE_KIND);
    support_remove_folder(folder);
    cr_assert_eq(close(open(folder, O_CREAT | O_WRONLY, 0600)), 0);
    expect_miss(NST_CACHE_KIND);
    nst_cache_free(cache);
    cr_assert_eq(nst_cache_new("relative/path", 1 << 20, &cache), NST_OK);
    cr_assert(!find_text(payload));
    cr_assert_eq(stats().reason[NST_CACHE_KIND], 1);
    nst_cache_free(cache);
    snprintf(folder, sizeof folder, "%s/../x", root);
    cr_assert_eq(nst_cache_new(folder, 1 << 20, &cache), NST_OK);
    store(payload);
    cr_assert_eq(stats().reason[NST_CACHE_KIND], 1);
}

static int count_files(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

Test(cache, a_file_too_large_to_write_leaves_the_old_entry)
{
    store_one();
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {300, 300};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    char large[1000];
    memset(large, 'x', sizeof large);
    nst_cache_store(cache, NST_CACHE_PLAN, material, sizeof material, &(NstPart){large, sizeof large}, 1);
    cr_assert_eq(stats().reason[NST_CACHE_FULL], 1);
    cr_assert_eq(stats().stores, 1);
    cr_assert_eq(count_files(), 1);
    restart();
    cr_assert(find_text(payload));
}

Test(cache, a_full_disk_is_counted)
{
    cr_assert_eq(mkdir(strcat(strcpy(file, root), "/small"), 0700), 0);
    if (mount("none", file, "tmpfs", 0, "size=16k") != 0) cr_skip_test("no file system can be mounted here");
    snprintf(folder, sizeof folder, "%s/small/nestor", root);
    restart();
    static char large[100000];
    nst_cache_store(cache, NST_CACHE_PLAN, material, sizeof material, &(NstPart){large, sizeof large}, 1);
    NstCacheStats after = stats();
    int files = count_files();
    nst_cache_free(cache);
    cr_assert_eq(nst_cache_new(NULL, 0, &cache), NST_OK);
    cr_assert_eq(umount(file), 0);
    cr_assert_eq(after.reason[NST_CACHE_FULL], 1);
    cr_assert_eq(files, 0);
}

static void fill(char *bytes, size_t n, int version)
{
    memset(bytes, 'a' + version, n);
}

#define BIG 300000
/* The entry is one version as a whole. */
static int version_found(void)
{
    NstCacheHit hit;
    restart();
    if (!nst_cache_find(cache, NST_CACHE_PLAN, material, sizeof material, &hit)) return -1;
    const char *at = hit.at;
    cr_assert_eq(hit.bytes, BIG);
    for (size_t k = 1; k < BIG; k++) cr_assert_eq(at[k], at[0]);
    int version = at[0] - 'a';
    nst_cache_release(cache, &hit);
    return version;
}

static void write_versions(int first)
{
    static char bytes[BIG];
    for (int k = 0;; k++) {
        fill(bytes, BIG, first + k % 5);
        nst_cache_store(cache, NST_CACHE_PLAN, material, sizeof material, &(NstPart){bytes, BIG}, 1);
    }
}

Test(cache, two_writers_and_a_reader_see_whole_entries)
{
    pid_t writer[2];
    for (int k = 0; k < 2; k++) {
        writer[k] = fork();
        if (writer[k] == 0) write_versions(5 * k);
    }
    int found = 0;
    for (int round = 0; round < 2000 && found < 100; round++) {
        int version = version_found();
        found += version >= 0;
        cr_assert(version < 10);
        cr_assert_eq(stats().reason[NST_CACHE_TORN], 0);
    }
    for (int k = 0; k < 2; k++) {
        kill(writer[k], SIGKILL);
        waitpid(writer[k], NULL, 0);
    }
    cr_assert_eq(found, 100);
}

Test(cache, a_writer_killed_at_any_time_leaves_a_whole_entry_or_none)
{
    store_one();
    support_remove_folder(file);
    for (int round = 0; round < 40; round++) {
        pid_t writer = fork();
        if (writer == 0) write_versions(0);
        usleep((useconds_t)(round * 137 % 3000));
        kill(writer, SIGKILL);
        waitpid(writer, NULL, 0);
        version_found();
        cr_assert_eq(stats().reason[NST_CACHE_TORN], 0);
    }
    int fd;
    cr_assert_eq(nst_folder_open(folder, false, &fd), NST_TRUSTED);
    nst_folder_sweep(fd, -1);
    nst_folder_close(fd);
    cr_assert_leq(count_files(), 1);
}

static void *store_and_find(void *arg)
{
    char key[8];
    for (int k = 0; k < 200; k++) {
        int n = snprintf(key, sizeof key, "%d", k % 7);
        NstCacheHit hit;
        if (nst_cache_find(cache, NST_CACHE_KERNEL, key, (size_t)n, &hit)) {
            if (hit.bytes != 1000 + (size_t)(k % 7)) *(int *)arg = 1;
            nst_cache_release(cache, &hit);
        } else {
            static const char bytes[2000];
            nst_cache_store(cache, NST_CACHE_KERNEL, key, (size_t)n, &(NstPart){bytes, 1000 + (size_t)(k % 7)}, 1);
        }
    }
    return NULL;
}

Test(cache, threads_share_it_within_its_limit)
{
    nst_cache_free(cache);
    cr_assert_eq(nst_cache_new(folder, 3000, &cache), NST_OK);
    pthread_t thread[3];
    int wrong[3] = {0};
    for (int k = 0; k < 3; k++) cr_assert_eq(pthread_create(&thread[k], NULL, store_and_find, &wrong[k]), 0);
    for (int k = 0; k < 3; k++) pthread_join(thread[k], NULL);
    for (int k = 0; k < 3; k++) cr_assert_eq(wrong[k], 0);
    cr_assert_leq(stats().memory_bytes, 3000);
}

Test(cache, without_a_folder_memory_serves)
{
    nst_cache_free(cache);
    cr_assert_eq(nst_cache_new(NULL, 1 << 20, &cache), NST_OK);
    cr_assert(!find_text(payload));
    store(payload);
    cr_assert(find_text(payload));
    NstCacheFolder found;
    nst_cache_walk(cache, true, true, &found);
    cr_assert_eq(found.folder, NST_TRUST_ABSENT);
}

Test(cache, walk_counts_and_removes)
{
    unsigned char bytes[1024];
    store_one();
    size_t n = read_entry_file(bytes, sizeof bytes);
    nst_cache_store(cache, NST_CACHE_KERNEL, "k", 1, &(NstPart){payload, 7}, 1);
    bytes[n - 1] ^= 1;
    write_entry_file(bytes, n);
    NstCacheFolder found;
    nst_cache_walk(cache, false, false, &found);
    cr_assert_eq(found.entries[NST_CACHE_PLAN], 1);
    nst_cache_walk(cache, true, true, &found);
    cr_assert_eq(found.entries[NST_CACHE_PLAN], 0);
    cr_assert_eq(found.entries[NST_CACHE_KERNEL], 1);
    cr_assert_eq(found.bad[NST_CACHE_TORN], 1);
    cr_assert_eq(count_files(), 1);
}

/* --- layers that are only read --------------------------------------------------------------------------------- */

/* The folder becomes a layer below a new one. */
static char layer[260];
static void make_layer(void)
{
    nst_cache_free(cache);
    snprintf(layer, sizeof layer, "%s/a/layer", root);
    cr_assert_eq(rename(folder, layer), 0);
    cr_assert_eq(nst_cache_new(folder, 0, &cache), NST_OK);
    cr_assert_eq(nst_cache_add_layer(cache, layer), NST_OK);
}

static void restart_layered(void)
{
    nst_cache_free(cache);
    cr_assert_eq(nst_cache_new(folder, 0, &cache), NST_OK);
    cr_assert_eq(nst_cache_add_layer(cache, layer), NST_OK);
}

Test(cache, a_layer_serves_what_the_folder_lacks_and_is_never_written)
{
    struct stat before, after;
    store_one();
    support_store_key(cache, 'a');
    make_layer();
    cr_assert_eq(stat(layer, &before), 0);
    cr_assert(find_text(payload));
    cr_assert_eq(stats().layer_hits, 1);
    cr_assert_eq(stats().disk_hits, 1);
    cr_assert_eq(count_files(), 0); /* nor copied up */
    store("another payload of another length");
    restart_layered();
    cr_assert(find_text("another payload of another length")); /* the folder comes first */
    cr_assert_eq(stats().layer_hits, 0);
    nst_cache_limit(cache, 2 * SUPPORT_ENTRY);
    for (char key = 'b'; key <= 'f'; key++) support_store_key(cache, key);
    cr_assert(support_find_key(cache, 'a')); /* not evicted there */
    cr_assert_eq(stat(layer, &after), 0);
    cr_assert_eq(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
    cr_assert_eq(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

Test(cache, layers_are_asked_in_order_and_need_no_folder_above)
{
    char first[260];
    store(payload);
    nst_cache_free(cache);
    snprintf(first, sizeof first, "%s/a/first", root);
    snprintf(layer, sizeof layer, "%s/a/second", root);
    cr_assert_eq(rename(folder, layer), 0);
    cr_assert_eq(nst_cache_new(first, 0, &cache), NST_OK);
    store("what the first layer has instead");
    nst_cache_free(cache);
    cr_assert_eq(nst_cache_new(NULL, 0, &cache), NST_OK);
    cr_assert_eq(nst_cache_add_layer(cache, "/nowhere/at/all"), NST_OK);
    cr_assert_eq(nst_cache_add_layer(cache, first), NST_OK);
    cr_assert_eq(nst_cache_add_layer(cache, layer), NST_OK);
    cr_assert(find_text("what the first layer has instead"));
    cr_assert(!support_find_key(cache, 'x'));
    cr_assert_eq(stats().reason[NST_CACHE_ABSENT], 1);
}

Test(cache, layers_have_the_rules_of_the_folder_but_others_may_read_them)
{
    store_one();
    make_layer();
    char name[64];
    snprintf(name, sizeof name, "%s", strrchr(file, '/') + 1);
    snprintf(file, sizeof file, "%s/%s", layer, name);
    cr_assert_eq(chmod(layer, 0755), 0);
    cr_assert(find_text(payload));
    cr_assert_eq(chmod(layer, 0775), 0);
    restart_layered();
    cr_assert(!find_text(payload));
    cr_assert_eq(stats().reason[NST_CACHE_MODE], 1);
    cr_assert_eq(chmod(layer, 01777), 0); /* sticky is no excuse for it */
    restart_layered();
    cr_assert(!find_text(payload));
    cr_assert_eq(stats().reason[NST_CACHE_MODE], 1);
    cr_assert_eq(chmod(layer, 0755), 0);
    cr_assert_eq(chmod(file, 0620), 0);
    restart_layered();
    cr_assert(!find_text(payload));
    cr_assert_eq(stats().reason[NST_CACHE_MODE], 1);
    cr_assert_eq(chmod(file, 0644), 0);
    unsigned char bytes[1024];
    size_t n = read_entry_file(bytes, sizeof bytes);
    write_entry_file(bytes, n - 1);
    restart_layered();
    cr_assert(!find_text(payload));
    cr_assert_eq(stats().reason[NST_CACHE_TORN], 1);
    cr_assert_eq(access(file, F_OK), 0); /* left as it is */
}

Test(cache, each_allocation_may_fail)
{
    for (uint64_t n = 1; n < 30; n++) {
        NstCache *made = NULL;
        NstCacheHit hit;
        nst_arena_fail_after(n);
        if (nst_cache_new(folder, 1 << 20, &made) == NST_OK && nst_cache_add_layer(made, root) == NST_OK) {
            nst_cache_limit(made, 100);
            nst_cache_store(made, NST_CACHE_KERNEL, "k", 1, &(NstPart){payload, 7}, 1);
            nst_cache_limit(made, 1000);
            nst_cache_store(made, NST_CACHE_KERNEL, "k", 1, &(NstPart){payload, 7}, 1);
            if (nst_cache_find(made, NST_CACHE_KERNEL, "k", 1, &hit)) nst_cache_release(made, &hit);
        }
        nst_arena_fail_after(0);
        nst_cache_free(made);
    }
}

Test(cache, default_folder_follows_the_environment)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    setenv("NESTOR_CACHE", "/x/y", 1);
    cr_assert_str_eq(nst_cache_default_folder(ctx.arena), "/x/y");
    setenv("NESTOR_CACHE", "", 1);
    cr_assert_null(nst_cache_default_folder(ctx.arena));
    unsetenv("NESTOR_CACHE");
    setenv("XDG_CACHE_HOME", "/c", 1);
    cr_assert_str_eq(nst_cache_default_folder(ctx.arena), "/c/nestor");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/h", 1);
    cr_assert_str_eq(nst_cache_default_folder(ctx.arena), "/h/.cache/nestor");
    unsetenv("HOME");
    cr_assert_null(nst_cache_default_folder(ctx.arena));
    nst_ctx_dispose(&ctx);
}
