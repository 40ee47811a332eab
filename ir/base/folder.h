/* folder.h: a folder of files that nobody else can have written: every component of its path is checked.
 *
 * Rules: no component is a symbolic link; each belongs to the user or to root; none can be written by others, but for
 * sticky folders on the way (/tmp); the folder itself can be entered by its owner alone.  Files in it are regular, belong
 * to the user or to root and cannot be written by others.  What breaks a rule is refused, never repaired.
 * Calls report a reason instead of a message: for a cache a refusal is a miss. */
#ifndef NST_IR_BASE_FOLDER_H
#define NST_IR_BASE_FOLDER_H

#include "ir/base/os.h"

typedef enum NstTrust {
    NST_TRUSTED,
    NST_TRUST_ABSENT, /* there is none */
    NST_TRUST_LINK,   /* a symbolic link */
    NST_TRUST_OWNER,  /* belongs to somebody else */
    NST_TRUST_MODE,   /* others may write (or enter the folder) */
    NST_TRUST_KIND,   /* neither folder nor regular file, where it should be */
    NST_TRUST_FULL,   /* no space: disk, quota or limit of file size */
    NST_TRUST_IO      /* anything else the system reports */
} NstTrust;

/* One line of text for messages. */
const char *nst_trust_text(NstTrust trust);

/* Opens an absolute path; *fd is closed by nst_folder_close.  create: missing components are made with mode 0700.
 * Memory: none. */
NstTrust nst_folder_open(const char *path, bool create, int *fd);
/* Opens a folder that is only read: others may enter it, too, but not write. */
NstTrust nst_folder_open_layer(const char *path, int *fd);
void nst_folder_close(int fd);

/* Maps a file read-only.  Owns: the caller ends it with nst_os_unmap. */
NstTrust nst_folder_map(int fd, const char *name, NstMapping *mapping);

/* Makes name hold exactly the parts, mode 0600: temporary file, fsync, rename, fsync of the folder.  On failure the old
 * file stays and the temporary one is gone (unless the process dies: nst_folder_sweep). */
NstTrust nst_folder_write(int fd, const char *name, const NstPart *parts, int n_parts);

NstTrust nst_folder_remove(int fd, const char *name);

/* Visits every name, in no order, but for "." and "..". */
NstTrust nst_folder_list(int fd, void (*visit)(void *arg, const char *name), void *arg);

/* Removes temporary files older than `seconds` that writers left which died. */
void nst_folder_sweep(int fd, int64_t seconds);

/* Sets the time of change of a file to now; false where that is not possible. */
bool nst_folder_touch(int fd, const char *name);
/* Size and time of change of a regular file; false if there is none of that name. */
bool nst_folder_facts(int fd, const char *name, uint64_t *bytes, int64_t *time_ns);
/* Takes the folder's lock, which other processes see; ended by nst_folder_close, or with the process.  -1: somebody has it. */
int nst_folder_lock(int fd);

/* Identity of a file's contents as far as the system tells: changes with every write. */
typedef struct NstFileMark {
    uint64_t device, inode, size;
    int64_t mtime_ns, ctime_ns;
} NstFileMark;
NstStatus nst_file_mark(NstCtx *ctx, const char *path, NstFileMark *mark) NST_MUST_CHECK;

#endif
