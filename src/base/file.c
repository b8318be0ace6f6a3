/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/file.h"

#include "base/clock.h"
#include "base/diag.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static tw_status io_error(tw_diag *d, const char *path, const char *verb) {
    return tw_fail_at(d, TW_ERR_IO, path, -1, "cannot %s: %s", verb, strerror(errno));
}

tw_status tw_map_open(tw_map *m, const char *path, tw_diag *diag) {
    *m = (tw_map){0};
    tw_status s = TW_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return io_error(diag, path, "open");
    struct stat st;
    if (fstat(fd, &st) < 0) {
        s = io_error(diag, path, "stat");
        goto done;
    }
    if (!S_ISREG(st.st_mode)) {
        s = tw_fail_at(diag, TW_ERR_IO, path, -1, "not a regular file");
        goto done;
    }
    if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) {
            s = io_error(diag, path, "map");
            goto done;
        }
        *m = (tw_map){p, (size_t)st.st_size};
    }
done:
    close(fd);
    return s;
}

void tw_map_close(tw_map *m) {
    if (m->data) munmap((void *)(uintptr_t)m->data, m->size);
    *m = (tw_map){0};
}

tw_status tw_file_read(tw_buf *out, const char *path, tw_diag *diag) {
    bool std = !strcmp(path, "-");
    tw_status s = TW_OK;
    int fd = std ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return io_error(diag, path, "open");
    char chunk[16 << 10];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) s = io_error(diag, path, "read");
        if (n <= 0) break;
        if (!tw_buf_add(out, chunk, (size_t)n)) {
            s = tw_fail_memory(diag);
            break;
        }
    }
    if (!std) close(fd);
    return s;
}

bool tw_write_all(int fd, const void *from, size_t n) {
    for (const char *p = from; n;) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static bool write_pieces(int fd, const tw_file_piece *pieces, size_t n) {
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) ok = tw_write_all(fd, pieces[i].data, pieces[i].size);
    return ok;
}

/* A pipe or a device is written to, not replaced. */
static tw_status write_through(const char *path, const tw_file_piece *pieces, size_t n, tw_diag *diag) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return io_error(diag, path, "write");
    bool ok = write_pieces(fd, pieces, n);
    ok = close(fd) == 0 && ok;
    return ok ? TW_OK : io_error(diag, path, "write");
}

/* Gives the file that `fd` writes, which has no name yet, one beside `target`; or if it is -1, makes a file with the
   permissions that the umask gives. Returns a descriptor, or -1. */
static int name_beside(int fd, const char *target, char *beside, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    uint64_t seed = (uint64_t)tw_now_ns() ^ (uint64_t)getpid() << 32;
    for (int tries = 0; tries < 100; tries++) {
        snprintf(beside, size, "%s.%08llx", target, (unsigned long long)(tw_splitmix64(&seed) & 0xffffffffu));
        int made = fd;
        if (fd < 0)
            made = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        else if (linkat(AT_FDCWD, link, AT_FDCWD, beside, AT_SYMLINK_FOLLOW) < 0)
            made = -1;
        if (made >= 0 || errno != EEXIST) return made;
    }
    return -1;
}

/* Makes a file without a name in the folder of `target`, so that nothing is left of it when its writer is killed. -1:
   this system, or the folder's, has none. `room` has room for the folder's path. */
static int open_nameless(const char *target, char *room) {
    const char *slash = strrchr(target, '/');
    const size_t n = slash == target ? 1 : slash ? (size_t)(slash - target) : 0;
    if (access("/proc/self/fd", X_OK) != 0) return -1;
    memcpy(room, target, n);
    strcpy(room + n, n ? "" : ".");
    return open(room, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
}

/* A new file that will replace another. */
typedef struct replacement {
    char *target; /* Path of the file that is replaced. A symbolic link is followed. */
    char *beside; /* Path of the new file. */
    size_t room;  /* Bytes of `beside`. */
    int fd;       /* Descriptor of the new file. -1: the file was not made. */
    bool named;   /* The new file has its path. */
} replacement;

static void free_replacement(replacement *r) {
    free(r->beside);
    free(r->target);
}

/* Makes the new file. `there` tells whether `path` exists. The caller frees *r, also after a failure. */
static tw_status begin_replacement(replacement *r, const char *path, bool there, tw_diag *diag) {
    char *real = there ? realpath(path, NULL) : NULL;
    *r = (replacement){.target = real ? real : strdup(path), .fd = -1};
    r->room = r->target ? strlen(r->target) + 16 : 0;
    r->beside = r->target ? malloc(r->room) : NULL;
    if (!r->beside) return tw_fail_memory(diag);
    r->fd = open_nameless(r->target, r->beside);
    r->named = r->fd < 0;
    if (r->named) r->fd = name_beside(-1, r->target, r->beside, r->room);
    return r->fd < 0 ? io_error(diag, path, "write") : TW_OK;
}

tw_status tw_file_write(const char *path, const void *data, size_t size, tw_diag *diag) {
    return tw_file_write_pieces(path, &(tw_file_piece){data, size}, 1, diag);
}

tw_status tw_file_write_pieces(const char *path, const tw_file_piece *pieces, size_t n, tw_diag *diag) {
    if (!strcmp(path, "-"))
        return write_pieces(STDOUT_FILENO, pieces, n) ? TW_OK : io_error(diag, "(standard output)", "write");
    struct stat st;
    bool there = stat(path, &st) == 0;
    if (there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return write_through(path, pieces, n, diag);
    replacement r;
    tw_status s = begin_replacement(&r, path, there, diag);
    if (r.fd < 0) goto done;
    bool ok = write_pieces(r.fd, pieces, n) && fsync(r.fd) == 0;
    if (ok && !r.named) ok = r.named = name_beside(r.fd, r.target, r.beside, r.room) >= 0;
    ok = close(r.fd) == 0 && ok;
    if (!ok || rename(r.beside, r.target) < 0) {
        s = io_error(diag, path, "write");
        if (r.named) unlink(r.beside);
    }
done:
    free_replacement(&r);
    return s;
}

tw_status tw_file_check(const char *path, tw_diag *diag) {
    struct stat st;
    replacement r;
    if (!strcmp(path, "-")) return TW_OK;
    const bool there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) errno = EISDIR;
    if (there && !S_ISREG(st.st_mode))
        return !S_ISDIR(st.st_mode) && access(path, W_OK) == 0 ? TW_OK : io_error(diag, path, "write");
    tw_status s = begin_replacement(&r, path, there, diag);
    if (s == TW_OK && !r.named) {
        r.named = name_beside(r.fd, r.target, r.beside, r.room) >= 0;
        if (!r.named) s = io_error(diag, path, "write");
    }
    if (r.fd >= 0) {
        close(r.fd);
        if (r.named) unlink(r.beside);
    }
    free_replacement(&r);
    return s;
}

bool tw_file_exists(const char *path) {
    return access(path, R_OK) == 0;
}

bool tw_path_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool tw_cache_path(const char *name, char *out, size_t size) {
    const char *own = getenv("TILEWRIGHT_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (own && *own)
        n = snprintf(out, size, "%s/%s", own, name);
    else if (xdg && *xdg)
        n = snprintf(out, size, "%s/tilewright/%s", xdg, name);
    else if (home && *home)
        n = snprintf(out, size, "%s/.cache/tilewright/%s", home, name);
    return n > 0 && (size_t)n < size;
}

bool tw_folder_make(const char *path) {
    char part[4096];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) return false;
    memcpy(part, path, n + 1);
    for (char *p = part + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(part, 0777); /* most are there already */
            *p = '/';
        }
    mkdir(part, 0777);
    return tw_path_is_dir(path);
}
