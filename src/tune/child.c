/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tune/child.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 100, CHUNK = 1 << 16 };

struct tw_child {
    pid_t pid;
    int fd;       /* Socket to the child's standard input and output. */
    bool ended;   /* True: the process has ended. It is not reaped before tw_child_end. */
    int code;     /* si_code of waitid: CLD_EXITED, or how a signal ended the process. */
    int status;   /* Exit status, or number of the signal. */
    bool closed;  /* True: nothing more can be received. */
    tw_buf out;   /* Bytes to send. */
    tw_buf in;    /* Received bytes. */
    size_t given; /* Bytes of `in` that belong to the line of the last call. */
};

/* ---- starting */

static int spawn(pid_t *pid, const char *const *argv, const char *folder, int fd) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    sigemptyset(&none);
    int e = posix_spawn_file_actions_init(&files);
    if (e) return e;
    e = posix_spawnattr_init(&how);
    if (e) {
        posix_spawn_file_actions_destroy(&files);
        return e;
    }
    e = posix_spawn_file_actions_adddup2(&files, fd, 0);
    if (!e) e = posix_spawn_file_actions_adddup2(&files, fd, 1);
    if (!e) e = posix_spawn_file_actions_addchdir_np(&files, folder);
    if (!e) e = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    if (!e) e = posix_spawnattr_setpgroup(&how, 0);
    if (!e) e = posix_spawnattr_setsigmask(&how, &none);
    if (!e) e = posix_spawnp(pid, argv[0], &files, &how, (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return e;
}

tw_status tw_child_start(tw_child **out, const char *const *argv, const char *folder, tw_diag *diag) {
    int fd[2];
    *out = NULL;
    tw_child *c = calloc(1, sizeof *c);
    if (!c) return tw_fail_memory(diag);
    /* A socket, since a write to one can do without SIGPIPE. */
    int e = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) ? errno : 0;
    if (!e) {
        c->fd = fd[0];
        e = spawn(&c->pid, argv, folder, fd[1]);
        close(fd[1]);
        if (e) close(fd[0]);
    }
    if (e) {
        free(c);
        return e == ENOMEM ? tw_fail_memory(diag) : tw_fail(diag, TW_ERR_IO, "cannot run: %s", strerror(e));
    }
    fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
    *out = c;
    return TW_OK;
}

/* ---- lines */

bool tw_child_send(tw_child *c, const char *line) {
    return tw_buf_str(&c->out, line) && tw_buf_str(&c->out, "\n");
}

/* Notices an end, and leaves the process to be reaped, so that its group's number stays its own. */
static void notice_end(tw_child *c) {
    siginfo_t info = {0};
    if (c->ended || waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid) return;
    c->ended = true;
    c->code = info.si_code;
    c->status = info.si_status;
}

/* Waits up to `seconds` for the process to end. */
static bool wait_for_end(tw_child *c, double seconds) {
    const int64_t began = tw_now_ns();
    for (notice_end(c); !c->ended && (double)(tw_now_ns() - began) * 1e-9 < seconds; notice_end(c))
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    return c->ended;
}

/* Sends as many queued bytes as the socket takes. A child that reads no more is noticed by missing answers. */
static void push(tw_child *c) {
    while (c->out.size) {
        const ssize_t n = send(c->fd, c->out.data, c->out.size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n < 0) {
            tw_buf_clear(&c->out);
            return;
        }
        tw_buf_drop(&c->out, (size_t)n);
    }
}

/* Receives the bytes that are there, without waiting. False: out of memory. */
static bool pull(tw_child *c) {
    char chunk[CHUNK];
    while (c->in.size <= TW_CHILD_LINE) {
        const ssize_t n = recv(c->fd, chunk, sizeof chunk, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
        if (n <= 0) {
            c->closed = true;
            return true;
        }
        if (!tw_buf_add(&c->in, chunk, (size_t)n)) return false;
    }
    return true;
}

/* Finds the first whole line of the received bytes. False: there is none. */
static bool give_line(tw_child *c, const char **line, size_t *size) {
    char *end = c->in.size ? memchr(c->in.data, '\n', c->in.size) : NULL;
    if (!end || end - c->in.data > TW_CHILD_LINE) return false;
    *end = 0;
    *line = c->in.data;
    *size = (size_t)(end - c->in.data);
    c->given = *size + 1;
    return true;
}

tw_status tw_child_receive(tw_child *c, double seconds, bool (*interrupted)(void *context), void *context,
                           tw_child_event *event, const char **line, size_t *size, tw_diag *diag) {
    const int64_t began = tw_now_ns();
    if (c->given) tw_buf_drop(&c->in, c->given);
    c->given = 0;
    for (;;) {
        if (interrupted && interrupted(context)) {
            *event = TW_CHILD_INTERRUPTED;
            return TW_OK;
        }
        /* The end is looked for before the last bytes are received. A process of the group may keep the socket open. */
        notice_end(c);
        push(c);
        if (!pull(c)) return tw_fail_memory(diag);
        const bool late = (double)(tw_now_ns() - began) * 1e-9 >= seconds;
        const bool said = give_line(c, line, size);
        *event = said                         ? TW_CHILD_SAID
                 : c->in.size > TW_CHILD_LINE ? TW_CHILD_LONG
                 : c->ended || c->closed      ? TW_CHILD_ENDED
                                              : TW_CHILD_SILENT;
        /* A process closes its files a moment before it has ended. */
        if (*event == TW_CHILD_ENDED) wait_for_end(c, 1);
        if (*event != TW_CHILD_SILENT || late) return TW_OK;
        struct pollfd p = {c->fd, (short)(POLLIN | (c->out.size ? POLLOUT : 0)), 0};
        poll(&p, 1, TICK_MS);
    }
}

void tw_child_describe_end(const tw_child *c, char *out, size_t size) {
    if (!c->ended)
        snprintf(out, size, "without a word");
    else
        snprintf(out, size, "%s %d", c->code == CLD_EXITED ? "with status" : "by signal", c->status);
}

/* ---- the end */

void tw_child_end(tw_child *c, double grace) {
    if (!c) return;
    shutdown(c->fd, SHUT_RDWR);
    close(c->fd);
    if (!wait_for_end(c, grace)) {
        kill(-c->pid, SIGTERM);
        wait_for_end(c, 1);
    }
    /* Processes that the child left behind end, too. */
    kill(-c->pid, SIGKILL);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) continue;
    tw_buf_free(&c->out);
    tw_buf_free(&c->in);
    free(c);
}
