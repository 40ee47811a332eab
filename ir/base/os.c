/* os.c: the operating system, Linux. */
#include "ir/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <wctype.h>

#define PATH_LIMIT 4096 /* bytes, with NUL */

static NstStatus fail_io(NstCtx *ctx, const char *what, const char *path)
{
    int code = errno;
    if (ctx) nst_fail(ctx, NST_E_IO, "%s '%s': %s", what, path, strerror(code));
    return NST_E_IO;
}

static NstStatus open_regular(NstCtx *ctx, const char *path, int *fd, size_t *size)
{
    struct stat facts;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: do not wait for the writer of a fifo */
    if (*fd < 0) return fail_io(ctx, "cannot open", path);
    if (fstat(*fd, &facts) != 0) {
        NstStatus status = fail_io(ctx, "cannot inspect", path);
        close(*fd);
        return status;
    }
    if (!S_ISREG(facts.st_mode)) {
        close(*fd);
        if (ctx) nst_fail(ctx, NST_E_IO, "cannot read '%s': not a regular file", path);
        return NST_E_IO;
    }
    *size = (size_t)facts.st_size;
    return NST_OK;
}

char *nst_os_real_path(const char *path)
{
    return nst_alloc_should_fail() ? NULL : realpath(path, NULL);
}

NstStatus nst_os_map_file(NstCtx *ctx, const char *path, NstMapping *mapping)
{
    int fd;
    size_t size;
    *mapping = (NstMapping){NULL, 0};
    NST_TRY(open_regular(ctx, path, &fd, &size));
    if (size != 0) {
        void *at = nst_alloc_should_fail() ? MAP_FAILED : mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at == MAP_FAILED) {
            NstStatus status = fail_io(ctx, "cannot map", path);
            close(fd);
            return status;
        }
        *mapping = (NstMapping){at, size};
    }
    close(fd);
    return NST_OK;
}

void nst_os_unmap(NstMapping *mapping)
{
    if (mapping->at) munmap((void *)(uintptr_t)mapping->at, mapping->size);
    *mapping = (NstMapping){NULL, 0};
}

/* Reads up to size bytes; *got < size at the end of the file. */
static bool read_all(int fd, char *bytes, size_t size, size_t *got)
{
    for (*got = 0; *got < size;) {
        ssize_t n = read(fd, bytes + *got, size - *got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        if (n == 0) break;
        *got += (size_t)n;
    }
    return true;
}

NstStatus nst_os_read_file(NstCtx *ctx, NstArena *arena, const char *path, size_t limit, char **bytes, size_t *size)
{
    int fd;
    size_t expected;
    NST_TRY(open_regular(ctx, path, &fd, &expected));
    close(fd); /* not held over the allocation, which may unwind */
    if (expected > limit) {
        if (ctx) nst_fail(ctx, NST_E_LIMIT, "file '%s' has %zu bytes, allowed are %zu", path, expected, limit);
        return NST_E_LIMIT;
    }
    *bytes = nst_alloc(arena, expected + 1);
    NST_TRY(open_regular(ctx, path, &fd, size));
    NstStatus status = NST_OK;
    if (!read_all(fd, *bytes, expected, size)) status = fail_io(ctx, "cannot read", path);
    close(fd);
    if (status == NST_OK && *size != expected) {
        if (ctx) nst_fail(ctx, NST_E_IO, "file '%s' shrank from %zu to %zu bytes while read", path, expected, *size);
        return NST_E_IO;
    }
    return status;
}

NstStatus nst_os_map_code(NstCtx *ctx, const void *code, size_t size, NstMapping *mapping)
{
    *mapping = (NstMapping){NULL, 0};
    if (size == 0) return NST_OK;
    void *at = MAP_FAILED;
    if (!nst_alloc_should_fail()) at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED) {
        memcpy(at, code, size);
        if (mprotect(at, size, PROT_READ | PROT_EXEC) == 0) {
            *mapping = (NstMapping){at, size};
            return NST_OK;
        }
        munmap(at, size);
    }
    if (ctx) nst_fail(ctx, NST_E_NOMEM, "cannot map %zu bytes of code", size);
    return NST_E_NOMEM;
}

/* Bytes of a large page of x86-64. */
#define LARGE_PAGE ((size_t)2 << 20)

void *nst_os_large_pages(NstArena *arena, size_t bytes)
{
    if (bytes < LARGE_PAGE / 2 || bytes > SIZE_MAX - 2 * LARGE_PAGE) return nst_alloc_aligned(arena, bytes, 64);
    size_t size = (bytes + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
    uintptr_t piece = (uintptr_t)nst_alloc_aligned(arena, size + LARGE_PAGE, 64);
    char *at = (char *)((piece + LARGE_PAGE - 1) & ~(uintptr_t)(LARGE_PAGE - 1));
    (void)madvise(at, size, MADV_HUGEPAGE); /* a wish: small pages serve too */
    return at;
}

static bool write_parts(int fd, const NstPart *parts, int n_parts)
{
    for (int i = 0; i < n_parts; i++) {
        for (size_t done = 0; done < parts[i].size;) {
            ssize_t n = write(fd, (const char *)parts[i].at + done, parts[i].size - done);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return false;
            done += (size_t)n;
        }
    }
    return fsync(fd) == 0;
}

/* Makes a rename in the folder of path durable. */
static bool sync_folder(const char *path)
{
    char folder[PATH_LIMIT];
    const char *slash = strrchr(path, '/');
    size_t n = !slash ? 0 : slash == path ? 1 : (size_t)(slash - path);
    memcpy(folder, path, n);
    folder[n] = '\0';
    int fd = open(n ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    bool done = fsync(fd) == 0;
    close(fd);
    return done;
}

NstStatus nst_os_write_file(NstCtx *ctx, const char *path, const NstPart *parts, int n_parts)
{
    char temporary[PATH_LIMIT];
    int n = snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    if (n < 0 || (size_t)n >= sizeof temporary) {
        if (ctx) nst_fail(ctx, NST_E_IO, "path of %zu bytes, allowed are %d", strlen(path), PATH_LIMIT - 8);
        return NST_E_IO;
    }
    int fd = mkostemp(temporary, O_CLOEXEC); /* mode 0600 */
    if (fd < 0) return fail_io(ctx, "cannot create a file beside", path);
    NstStatus status = NST_OK;
    if (!write_parts(fd, parts, n_parts)) status = fail_io(ctx, "cannot write", temporary);
    if (close(fd) != 0 && status == NST_OK) status = fail_io(ctx, "cannot write", temporary);
    if (status == NST_OK && rename(temporary, path) != 0) status = fail_io(ctx, "cannot rename to", path);
    if (status != NST_OK)
        unlink(temporary);
    else if (!sync_folder(path))
        status = fail_io(ctx, "cannot sync the folder of", path);
    return status;
}

int64_t nst_os_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The first line of a small file of the kernel; false if there is none. */
static bool read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool done = fgets(line, (int)size, file) != NULL;
    fclose(file);
    return done;
}

/* Processors that a quota of microseconds a period allows, rounded up; `unlimited` for none. */
static int quota_cpus(long long quota, long long period, int unlimited)
{
    if (quota <= 0 || period <= 0) return unlimited;
    long long cpus = (quota + period - 1) / period;
    return cpus < unlimited ? (int)cpus : unlimited;
}

/* cgroup v2: the smallest quota of the group of this process and of all above it. */
static int cgroup2_cpus(int unlimited)
{
    char line[PATH_LIMIT], path[PATH_LIMIT + 64], value[128];
    if (!read_line("/proc/self/cgroup", line, sizeof line) || strncmp(line, "0::/", 4) != 0) return unlimited;
    char *group = line + 3;
    group[strcspn(group, "\n")] = '\0';
    for (int cpus = unlimited;;) {
        long long quota, period;
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        if (read_line(path, value, sizeof value) && sscanf(value, "%lld %lld", &quota, &period) == 2)
            cpus = quota_cpus(quota, period, cpus);
        char *slash = strrchr(group, '/');
        if (!slash) return cpus;
        *slash = '\0'; /* "/a/b" -> "/a" -> "" */
    }
}

/* cgroup v1, as mounted in a container: its own group is the root. */
static int cgroup1_cpus(int unlimited)
{
    char quota[64], period[64];
    if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota)) return unlimited;
    if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period)) return unlimited;
    return quota_cpus(atoll(quota), atoll(period), unlimited);
}

int nst_os_cpu_count(void)
{
    cpu_set_t set;
    int cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    cpus = cgroup1_cpus(cgroup2_cpus(cpus));
    return cpus < 1 ? 1 : cpus;
}

int32_t nst_os_letter_case(int32_t character, bool upper)
{
    static _Atomic(locale_t) known; /* made once; a second thread may make another that is dropped */
    locale_t locale = atomic_load(&known);
    if (!locale) {
        locale_t none = (locale_t)0;
        locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
        if (locale && !atomic_compare_exchange_strong(&known, &none, locale)) {
            freelocale(locale);
            locale = none;
        }
    }
    if (!locale) { /* a system without it: ASCII alone */
        bool changes = upper ? character >= 'a' && character <= 'z' : character >= 'A' && character <= 'Z';
        return changes ? character ^ 0x20 : character;
    }
    return (int32_t)(upper ? towupper_l((wint_t)character, locale) : towlower_l((wint_t)character, locale));
}
