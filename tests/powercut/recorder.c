/* Writes down what a process does to the files below one folder, in the order in which it does it.
 *
 * Loaded into the process before its C library (LD_PRELOAD). POWERCUT_DIR names the folder, POWERCUT_LOG
 * the file for the record. Each call is carried out and written down under one lock, so that the order in
 * the record is the order on the disk. Written down are opens (with what they create and empty), writes,
 * truncations, syncs, renames and removals; reads, locks and shared memory change nothing that has to
 * outlive a power cut.
 *
 * One record: op (1), fd (4), offset (8), size of path (4), size of data (4), path, data. Little endian.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { OPEN = 1, CREATE = 2, EMPTY = 3, FOLDER = 4, WRITE = 5, TRUNCATE = 6, SYNC = 7, RENAME = 8, UNLINK = 9, CLOSE = 10 };

#define MOST_FILES 65536
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char watched[MOST_FILES];
static const char *folder;
static size_t folder_size;
static int record_file = -1;

__attribute__((constructor)) static void begin(void) {
    folder = getenv("POWERCUT_DIR");
    const char *path = getenv("POWERCUT_LOG");
    if (!folder || !path) {
        folder = NULL;
        return;
    }
    folder_size = strlen(folder);
    record_file = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (record_file < 0) abort();
}

static int is_inside(const char *path) {
    return folder && path && strncmp(path, folder, folder_size) == 0 &&
           (path[folder_size] == '/' || path[folder_size] == 0);
}

static int is_watched(int fd) { return folder && fd >= 0 && fd < MOST_FILES && watched[fd]; }

static void put(const void *bytes, size_t size) {
    const char *at = bytes;
    while (size > 0) {
        long done = syscall(SYS_write, record_file, at, size);
        if (done < 0) {
            if (errno == EINTR) continue;
            abort();
        }
        at += done;
        size -= (size_t)done;
    }
}

static void note(uint8_t op, int fd, uint64_t offset, const char *path, const void *data, size_t size) {
    int kept = errno;
    unsigned char head[21];
    uint32_t file = (uint32_t)fd, path_size = path ? (uint32_t)strlen(path) : 0, data_size = (uint32_t)size;
    head[0] = op;
    memcpy(head + 1, &file, 4);
    memcpy(head + 5, &offset, 8);
    memcpy(head + 13, &path_size, 4);
    memcpy(head + 17, &data_size, 4);
    put(head, sizeof head);
    if (path_size) put(path, path_size);
    if (data_size) put(data, data_size);
    errno = kept;
}

static int open_any(int at, const char *path, int flags, mode_t mode) {
    if (!is_inside(path)) return (int)syscall(SYS_openat, at, path, flags, mode);
    pthread_mutex_lock(&lock);
    struct stat found;
    int was_there = syscall(SYS_newfstatat, at, path, &found, 0) == 0;
    int fd = (int)syscall(SYS_openat, at, path, flags, mode);
    if (fd >= 0 && fd < MOST_FILES) {
        uint8_t op = OPEN;
        if (was_there && S_ISDIR(found.st_mode)) op = FOLDER;
        else if (!was_there) op = CREATE;
        else if (flags & O_TRUNC) op = EMPTY;
        watched[fd] = 1;
        note(op, fd, 0, path, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE_OF(flags, mode)                              \
    mode_t mode = 0;                                      \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                \
        va_list rest;                                     \
        va_start(rest, flags);                            \
        mode = va_arg(rest, mode_t);                      \
        va_end(rest);                                     \
    }

int open(const char *path, int flags, ...) { MODE_OF(flags, mode) return open_any(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE_OF(flags, mode) return open_any(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE_OF(flags, mode) return open_any(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE_OF(flags, mode) return open_any(at, path, flags, mode); }

int close(int fd) {
    if (!is_watched(fd)) return (int)syscall(SYS_close, fd);
    pthread_mutex_lock(&lock);
    watched[fd] = 0;
    note(CLOSE, fd, 0, NULL, NULL, 0);
    int done = (int)syscall(SYS_close, fd);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t write(int fd, const void *data, size_t size) {
    if (!is_watched(fd)) return syscall(SYS_write, fd, data, size);
    pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_write, fd, data, size);
    if (done > 0) {
        off_t end = (off_t)syscall(SYS_lseek, fd, 0, SEEK_CUR);
        note(WRITE, fd, (uint64_t)(end - done), NULL, data, (size_t)done);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

static ssize_t pwrite_any(int fd, const void *data, size_t size, off64_t offset) {
    if (!is_watched(fd)) return syscall(SYS_pwrite64, fd, data, size, offset);
    pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_pwrite64, fd, data, size, offset);
    if (done > 0) note(WRITE, fd, (uint64_t)offset, NULL, data, (size_t)done);
    pthread_mutex_unlock(&lock);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return pwrite_any(fd, data, size, offset); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) { return pwrite_any(fd, data, size, offset); }

static int truncate_any(int fd, off64_t size) {
    if (!is_watched(fd)) return (int)syscall(SYS_ftruncate, fd, size);
    pthread_mutex_lock(&lock);
    int done = (int)syscall(SYS_ftruncate, fd, size);
    if (done == 0) note(TRUNCATE, fd, (uint64_t)size, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    return done;
}
int ftruncate(int fd, off_t size) { return truncate_any(fd, size); }
int ftruncate64(int fd, off64_t size) { return truncate_any(fd, size); }

static int sync_any(long call, int fd) {
    if (!is_watched(fd)) return (int)syscall(call, fd);
    pthread_mutex_lock(&lock);
    int done = (int)syscall(call, fd);
    if (done == 0) note(SYNC, fd, 0, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    return done;
}
int fsync(int fd) { return sync_any(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_any(SYS_fdatasync, fd); }

int rename(const char *from, const char *to) {
    if (!is_inside(from)) return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    pthread_mutex_lock(&lock);
    int done = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (done == 0) note(RENAME, -1, 0, from, to, strlen(to));
    pthread_mutex_unlock(&lock);
    return done;
}

static int unlink_any(int at, const char *path, int flags) {
    if (!is_inside(path)) return (int)syscall(SYS_unlinkat, at, path, flags);
    pthread_mutex_lock(&lock);
    int done = (int)syscall(SYS_unlinkat, at, path, flags);
    if (done == 0) note(UNLINK, -1, 0, path, NULL, 0);
    pthread_mutex_unlock(&lock);
    return done;
}
int unlink(const char *path) { return unlink_any(AT_FDCWD, path, 0); }
int unlinkat(int at, const char *path, int flags) { return unlink_any(at, path, flags); }
