/* folder.c: trusted folders, Linux: every component is opened from the one before it, without following links. */
#include "ir/base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME_LIMIT 256 /* bytes, with NUL */
#define TEMPORARY  ".tmp"

const char *nst_trust_text(NstTrust trust)
{
    switch (trust) {
    case NST_TRUSTED: return "fine";
    case NST_TRUST_ABSENT: return "there is none";
    case NST_TRUST_LINK: return "a symbolic link";
    case NST_TRUST_OWNER: return "belongs to another user";
    case NST_TRUST_MODE: return "others may write to it";
    case NST_TRUST_KIND: return "not a folder or regular file";
    case NST_TRUST_FULL: return "no space";
    case NST_TRUST_IO: break;
    }
    return "the system reports an error";
}

static NstTrust trust_of_errno(void)
{
    switch (errno) {
    case ENOENT: return NST_TRUST_ABSENT;
    case ELOOP: return NST_TRUST_LINK;
    case ENOTDIR: return NST_TRUST_KIND;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return NST_TRUST_FULL;
    default: return NST_TRUST_IO;
    }
}

static bool owner_is_trusted(const struct stat *facts)
{
    return facts->st_uid == geteuid() || facts->st_uid == 0;
}

/* What a folder may be: on the way, the folder itself, or one that is only read. */
typedef enum Place { ON_THE_WAY, OWN, LAYER } Place;

static NstTrust check_folder(int fd, Place place)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0) return NST_TRUST_IO;
    if (!owner_is_trusted(&facts)) return NST_TRUST_OWNER;
    mode_t others = facts.st_mode & (place == OWN ? S_IRWXG | S_IRWXO : S_IWGRP | S_IWOTH);
    bool sticky = place == ON_THE_WAY && (facts.st_mode & S_ISVTX) != 0;
    return others != 0 && !sticky ? NST_TRUST_MODE : NST_TRUSTED;
}

/* Opens one component; *fd is moved to it. */
static NstTrust step_into(int *fd, const char *name, bool create)
{
    struct stat facts;
    if (create && mkdirat(*fd, name, S_IRWXU) != 0 && errno != EEXIST) return trust_of_errno();
    int next = openat(*fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0) {
        NstTrust why = trust_of_errno(); /* a link counts as no folder for openat */
        if (fstatat(*fd, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(facts.st_mode)) why = NST_TRUST_LINK;
        return why;
    }
    close(*fd);
    *fd = next;
    return NST_TRUSTED;
}

static NstTrust open_path(const char *path, bool create, Place place, int *fd)
{
    *fd = -1;
    if (path[0] != '/') return NST_TRUST_KIND;
    int at = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0) return trust_of_errno();
    NstTrust trust = NST_TRUSTED;
    for (const char *p = path; trust == NST_TRUSTED;) {
        char name[NAME_LIMIT];
        p += strspn(p, "/");
        size_t n = strcspn(p, "/");
        trust = check_folder(at, n == 0 ? place : ON_THE_WAY);
        if (n == 0 || trust != NST_TRUSTED) break;
        bool dots = strncmp(p, ".", n) == 0 || (n == 2 && strncmp(p, "..", n) == 0);
        if (n >= sizeof name || dots) {
            trust = NST_TRUST_KIND;
            break;
        }
        memcpy(name, p, n);
        name[n] = '\0';
        trust = step_into(&at, name, create);
        p += n;
    }
    if (trust == NST_TRUSTED)
        *fd = at;
    else
        close(at);
    return trust;
}

NstTrust nst_folder_open(const char *path, bool create, int *fd)
{
    return open_path(path, create, OWN, fd);
}

NstTrust nst_folder_open_layer(const char *path, int *fd)
{
    return open_path(path, false, LAYER, fd);
}

void nst_folder_close(int fd)
{
    if (fd >= 0) close(fd);
}

static NstTrust check_file(const struct stat *facts)
{
    if (S_ISLNK(facts->st_mode)) return NST_TRUST_LINK;
    if (!S_ISREG(facts->st_mode)) return NST_TRUST_KIND;
    if (!owner_is_trusted(facts)) return NST_TRUST_OWNER;
    return facts->st_mode & (S_IWGRP | S_IWOTH) ? NST_TRUST_MODE : NST_TRUSTED;
}

NstTrust nst_folder_map(int fd, const char *name, NstMapping *mapping)
{
    struct stat facts;
    *mapping = (NstMapping){NULL, 0};
    int file = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return trust_of_errno();
    NstTrust trust = fstat(file, &facts) == 0 ? check_file(&facts) : NST_TRUST_IO;
    if (trust == NST_TRUSTED && facts.st_size > 0) {
        void *at = MAP_FAILED;
        if (!nst_alloc_should_fail()) at = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (at == MAP_FAILED)
            trust = NST_TRUST_IO;
        else
            *mapping = (NstMapping){at, (size_t)facts.st_size};
    }
    close(file);
    return trust;
}

/* --- writing ------------------------------------------------------------------------------------------------- */

static NstTrust write_parts(int file, const NstPart *parts, int n_parts)
{
    for (int k = 0; k < n_parts; k++) {
        for (size_t done = 0; done < parts[k].size;) {
            ssize_t n = write(file, (const char *)parts[k].at + done, parts[k].size - done);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return trust_of_errno();
            if (n == 0) return NST_TRUST_FULL;
            done += (size_t)n;
        }
    }
    return fsync(file) == 0 ? NST_TRUSTED : trust_of_errno();
}

NstTrust nst_folder_write(int fd, const char *name, const NstPart *parts, int n_parts)
{
    static _Atomic unsigned counter;
    char temporary[NAME_LIMIT];
    int n = snprintf(temporary, sizeof temporary, "%s.%ld.%u" TEMPORARY, name, (long)getpid(),
                     atomic_fetch_add(&counter, 1));
    if (n < 0 || (size_t)n >= sizeof temporary) return NST_TRUST_IO;
    int file = openat(fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file < 0 && errno == EEXIST) { /* of a dead process with our number */
        unlinkat(fd, temporary, 0);
        file = openat(fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    }
    if (file < 0) return trust_of_errno();
    NstTrust trust = write_parts(file, parts, n_parts);
    if (close(file) != 0 && trust == NST_TRUSTED) trust = trust_of_errno();
    if (trust == NST_TRUSTED && renameat(fd, temporary, fd, name) != 0) trust = trust_of_errno();
    if (trust != NST_TRUSTED)
        unlinkat(fd, temporary, 0);
    else if (fsync(fd) != 0)
        trust = trust_of_errno();
    return trust;
}

NstTrust nst_folder_remove(int fd, const char *name)
{
    return unlinkat(fd, name, 0) == 0 ? NST_TRUSTED : trust_of_errno();
}

NstTrust nst_folder_list(int fd, void (*visit)(void *arg, const char *name), void *arg)
{
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* a position of its own */
    if (own < 0) return trust_of_errno();
    DIR *folder = fdopendir(own);
    if (!folder) {
        close(own);
        return NST_TRUST_IO;
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) visit(arg, entry->d_name);
    closedir(folder);
    return NST_TRUSTED;
}

bool nst_folder_touch(int fd, const char *name)
{
    return utimensat(fd, name, NULL, AT_SYMLINK_NOFOLLOW) == 0;
}

bool nst_folder_facts(int fd, const char *name, uint64_t *bytes, int64_t *time_ns)
{
    struct stat facts;
    if (fstatat(fd, name, &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(facts.st_mode)) return false;
    *bytes = (uint64_t)facts.st_size;
    *time_ns = facts.st_mtim.tv_sec * (int64_t)1000000000 + facts.st_mtim.tv_nsec;
    return true;
}

int nst_folder_lock(int fd)
{
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* the lock belongs to this opening alone */
    if (own >= 0 && flock(own, LOCK_EX | LOCK_NB) == 0) return own;
    if (own >= 0) close(own);
    return -1;
}

typedef struct Sweep {
    int fd;
    time_t before;
} Sweep;

static void sweep_name(void *arg, const char *name)
{
    const Sweep *sweep = arg;
    struct stat facts;
    size_t n = strlen(name), end = strlen(TEMPORARY);
    if (n < end || strcmp(name + n - end, TEMPORARY) != 0) return;
    if (fstatat(sweep->fd, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && facts.st_mtime <= sweep->before)
        unlinkat(sweep->fd, name, 0);
}

void nst_folder_sweep(int fd, int64_t seconds)
{
    Sweep sweep = {fd, time(NULL) - (time_t)seconds};
    NstTrust ignored = nst_folder_list(fd, sweep_name, &sweep); /* what stays is swept another time */
    (void)ignored;
}

NstStatus nst_file_mark(NstCtx *ctx, const char *path, NstFileMark *mark)
{
    struct stat facts;
    if (stat(path, &facts) != 0) {
        if (ctx) nst_fail(ctx, NST_E_IO, "cannot inspect '%s': %s", path, strerror(errno));
        return NST_E_IO;
    }
    *mark = (NstFileMark){.device = facts.st_dev,
                          .inode = facts.st_ino,
                          .size = (uint64_t)facts.st_size,
                          .mtime_ns = facts.st_mtim.tv_sec * (int64_t)1000000000 + facts.st_mtim.tv_nsec,
                          .ctime_ns = facts.st_ctim.tv_sec * (int64_t)1000000000 + facts.st_ctim.tv_nsec};
    return NST_OK;
}
