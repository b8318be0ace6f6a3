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

/* A folder of one compilation and the names in it. */
typedef struct room {
    char folder[MAX_PATH], ptx[MAX_PATH + 16], cubin[MAX_PATH + 16], log[MAX_PATH + 16];
} room;

static tw_status room_make(room *r, const char *ptx, size_t bytes, tw_diag *diag) {
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(r->folder, sizeof r->folder, "%s/tilewright.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (n <= 0 || (size_t)n >= sizeof r->folder || !mkdtemp(r->folder)) {
        int e = errno;
        char asked[1024];
        snprintf(asked, sizeof asked, "%.1000s", r->folder);
        r->folder[0] = 0;
        return tw_fail_at(diag, TW_ERR_IO, asked, -1, "cannot make a temporary folder: %s", strerror(e));
    }
    snprintf(r->ptx, sizeof r->ptx, "%s/kernel.ptx", r->folder);
    snprintf(r->cubin, sizeof r->cubin, "%s/cubin", r->folder);
    snprintf(r->log, sizeof r->log, "%s/log", r->folder);
    FILE *f = fopen(r->ptx, "wbe");
    bool ok = f && fwrite(ptx, 1, bytes, f) == bytes;
    if (f) ok = fclose(f) == 0 && ok;
    return ok ? TW_OK : tw_fail_at(diag, TW_ERR_IO, r->ptx, -1, "cannot write: %s", strerror(errno));
}

static void room_remove(const room *r) {
    if (!*r->folder) return;
    unlink(r->ptx);
    unlink(r->cubin);
    unlink(r->log);
    rmdir(r->folder);
}

/* 0, or an errno for which it did not start. */
static int spawn(pid_t *pid, const char *path, const char *target, const room *r) {
    char *argv[] = {(char *)(uintptr_t)path,
                    (char[]){"-v"},
                    (char[]){"--gpu-name"},
                    (char *)(uintptr_t)target,
                    (char[]){"-o"},
                    (char *)(uintptr_t)r->cubin,
                    (char *)(uintptr_t)r->ptx,
                    NULL};
    posix_spawn_file_actions_t actions;
    int e = posix_spawn_file_actions_init(&actions);
    if (e) return e;
    e = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!e) e = posix_spawn_file_actions_addopen(&actions, 1, r->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (!e) e = posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (!e) e = posix_spawn(pid, path, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return e;
}

static tw_status run(const char *path, const char *target, const room *r, tw_diag *diag) {
    pid_t pid;
    int status = 0, e = spawn(&pid, path, target, r);
    if (e == ENOMEM) return tw_fail_memory(diag);
    if (e) return tw_fail_at(diag, TW_ERR_IO, path, -1, "cannot run: %s", strerror(e));
    while (waitpid(pid, &status, 0) < 0) {
        if (errno == EINTR) continue;
        /* Somebody else takes all children of this process; what it wrote tells. */
        status = tw_file_exists(r->cubin) ? 0 : 1 << 8;
        break;
    }
    if (WIFSIGNALED(status)) return tw_fail_at(diag, TW_ERR_IO, path, -1, "killed by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        return tw_fail(diag, TW_ERR_FORMAT, "%s says no, with status %d", path, WEXITSTATUS(status));
    return TW_OK;
}

tw_status tw_ptxas_run(const char *path, const char *target, const char *ptx, size_t bytes, tw_buf *cubin, tw_buf *log,
                       tw_diag *diag) {
    room *r = calloc(1, sizeof *r);
    if (!r) return tw_fail_memory(diag);
    tw_status st = room_make(r, ptx, bytes, diag);
    if (st == TW_OK) {
        st = run(path, target, r, diag);
        if (st == TW_OK || st == TW_ERR_FORMAT) {
            tw_status read = tw_file_read(log, r->log, NULL);
            if (read == TW_ERR_MEMORY) st = tw_fail_memory(diag);
        }
        if (st == TW_OK) st = tw_file_read(cubin, r->cubin, diag);
    }
    room_remove(r);
    free(r);
    return st;
}
