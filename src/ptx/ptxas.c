/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "ptx/ptxas.h"

#include "base/diag.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MAX_PATH = 4096 };

static bool can_run(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool tw_ptxas_find(const char *name, char *path, size_t size) {
    if (strchr(name, '/')) {
        int n = snprintf(path, size, "%s", name);
        return n > 0 && (size_t)n < size && can_run(path);
    }
    const char *p = getenv("PATH");
    while (p && *name) {
        size_t n = strcspn(p, ":");
        int len = n ? snprintf(path, size, "%.*s/%s", (int)n, p, name) : snprintf(path, size, "./%s", name);
        if (len > 0 && (size_t)len < size && can_run(path)) return true;
        p = p[n] ? p + n + 1 : NULL;
    }
    return false;
}

bool tw_ptxas_identify(const char *path, char *out, size_t size) {
    struct stat st;
    if (stat(path, &st) < 0) return false;
    int n = snprintf(out, size, "ptxas %s %lld %lld.%09ld", path, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                     st.st_mtim.tv_nsec);
    return n > 0 && (size_t)n < size;
}

/* A folder of one run and the names in it: what the program reads, what it makes, what it says beside. */
typedef struct room {
    char folder[MAX_PATH], in[MAX_PATH + 16], out[MAX_PATH + 16], log[MAX_PATH + 16];
} room;

static tw_status room_make(room *r, const char *name, const void *data, size_t bytes, tw_diag *diag) {
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(r->folder, sizeof r->folder, "%s/tilewright.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (n <= 0 || (size_t)n >= sizeof r->folder || !mkdtemp(r->folder)) {
        int e = errno;
        char asked[1024];
        snprintf(asked, sizeof asked, "%.1000s", r->folder);
        r->folder[0] = 0;
        return tw_fail_at(diag, TW_ERR_IO, asked, -1, "cannot make a temporary folder: %s", strerror(e));
    }
    snprintf(r->in, sizeof r->in, "%s/%s", r->folder, name);
    snprintf(r->out, sizeof r->out, "%s/out", r->folder);
    snprintf(r->log, sizeof r->log, "%s/log", r->folder);
    FILE *f = fopen(r->in, "wbe");
    bool ok = f && fwrite(data, 1, bytes, f) == bytes;
    if (f) ok = fclose(f) == 0 && ok;
    return ok ? TW_OK : tw_fail_at(diag, TW_ERR_IO, r->in, -1, "cannot write: %s", strerror(errno));
}

static void room_remove(const room *r) {
    if (!*r->folder) return;
    unlink(r->in);
    unlink(r->out);
    unlink(r->log);
    rmdir(r->folder);
}

static bool wrote_something(const room *r) {
    struct stat st;
    return stat(r->out, &st) == 0 && st.st_size > 0;
}

/* 0, or an errno for which it did not start. What it says on standard output goes to the log, or is what it makes. */
static int spawn(pid_t *pid, char *const argv[], const room *r, bool says_it) {
    enum { MAKE = O_WRONLY | O_CREAT | O_APPEND };
    posix_spawn_file_actions_t actions;
    int e = posix_spawn_file_actions_init(&actions);
    if (e) return e;
    e = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!e) e = posix_spawn_file_actions_addopen(&actions, 2, r->log, MAKE, 0600);
    if (!e && says_it) e = posix_spawn_file_actions_addopen(&actions, 1, r->out, MAKE, 0600);
    if (!e && !says_it) e = posix_spawn_file_actions_adddup2(&actions, 2, 1);
    if (!e) e = posix_spawn(pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return e;
}

/* Appends what it made and its log. */
static tw_status run(char *const argv[], const room *r, bool says_it, tw_buf *out, tw_buf *log, tw_diag *diag) {
    const char *path = argv[0];
    pid_t pid;
    int status = 0, e = spawn(&pid, argv, r, says_it);
    if (e == ENOMEM) return tw_fail_memory(diag);
    if (e) return tw_fail_at(diag, TW_ERR_IO, path, -1, "cannot run: %s", strerror(e));
    while (waitpid(pid, &status, 0) < 0) {
        if (errno == EINTR) continue;
        /* Somebody else takes all children of this process; what it wrote tells. */
        status = wrote_something(r) ? 0 : 1 << 8;
        break;
    }
    if (WIFSIGNALED(status)) return tw_fail_at(diag, TW_ERR_IO, path, -1, "killed by signal %d", WTERMSIG(status));
    if (tw_file_read(log, r->log, NULL) == TW_ERR_MEMORY) return tw_fail_memory(diag);
    if (WEXITSTATUS(status) != 0)
        return tw_fail(diag, TW_ERR_FORMAT, "%s says no, with status %d", path, WEXITSTATUS(status));
    return tw_file_read(out, r->out, diag);
}

tw_status tw_ptxas_run(const char *path, const char *target, const char *ptx, size_t bytes, tw_buf *cubin, tw_buf *log,
                       tw_diag *diag) {
    room *r = calloc(1, sizeof *r);
    if (!r) return tw_fail_memory(diag);
    tw_status st = room_make(r, "kernel.ptx", ptx, bytes, diag);
    char *const argv[] = {(char *)(uintptr_t)path,
                          (char[]){"-v"},
                          (char[]){"--gpu-name"},
                          (char *)(uintptr_t)target,
                          (char[]){"-o"},
                          r->out,
                          r->in,
                          NULL};
    if (st == TW_OK) st = run(argv, r, false, cubin, log, diag);
    room_remove(r);
    free(r);
    return st;
}

static tw_status disassemble(room *r, const void *cubin, size_t bytes, tw_buf *text, tw_buf *log, tw_diag *diag) {
    char path[MAX_PATH], flag[] = "-sass";
    const bool dumps = tw_ptxas_find("cuobjdump", path, sizeof path);
    if (!dumps && !tw_ptxas_find("nvdisasm", path, sizeof path))
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "neither cuobjdump nor nvdisasm is on PATH");
    tw_status st = room_make(r, "kernel.cubin", cubin, bytes, diag);
    char *const argv[] = {path, dumps ? flag : r->in, dumps ? r->in : NULL, NULL};
    if (st == TW_OK) st = run(argv, r, true, text, log, diag);
    if (st == TW_ERR_FORMAT && log->size)
        st = tw_fail(diag, TW_ERR_FORMAT, "%s: %.*s", path, (int)strcspn(log->data, "\n"), log->data);
    return st;
}

tw_status tw_ptxas_disassemble(const void *cubin, size_t bytes, tw_buf *text, tw_diag *diag) {
    tw_buf log = {0};
    room *r = calloc(1, sizeof *r);
    tw_status st = r ? disassemble(r, cubin, bytes, text, &log, diag) : tw_fail_memory(diag);
    if (r) room_remove(r);
    free(r);
    tw_buf_free(&log);
    return st;
}
