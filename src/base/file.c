/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/file.h"

#include "base/diag.h"

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

static bool write_all(int fd, const char *p, size_t n) {
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

tw_status tw_file_write(const char *path, const void *data, size_t size, tw_diag *diag) {
    if (!strcmp(path, "-"))
        return write_all(STDOUT_FILENO, data, size) ? TW_OK : io_error(diag, "(standard output)", "write");
    size_t n = strlen(path);
    char *beside = malloc(n + 8);
    if (!beside) return tw_fail_memory(diag);
    memcpy(beside, path, n);
    memcpy(beside + n, ".XXXXXX", 8);
    tw_status s = TW_OK;
    int fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0) {
        s = io_error(diag, path, "write");
        goto done;
    }
    /* mkostemp makes files that only their owner reads; a result is for everybody the umask allows. */
    mode_t mask = umask(0);
    umask(mask);
    bool ok = write_all(fd, data, size) && fchmod(fd, 0666 & ~mask) == 0 && fsync(fd) == 0;
    ok = close(fd) == 0 && ok;
    if (!ok || rename(beside, path) < 0) {
        s = io_error(diag, path, "write");
        unlink(beside);
    }
done:
    free(beside);
    return s;
}

bool tw_file_exists(const char *path) {
    return access(path, R_OK) == 0;
}

bool tw_path_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}
