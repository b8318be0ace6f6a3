/* SPDX-License-Identifier: Apache-2.0 */
/* pty COMMAND...: runs a command on a terminal of its own, and plays the steps on standard input to it:

     send TEXT     types it, with \n \r \e \\ and \NNN (octal)
     prompt        waits for "> " and until the terminal gives single keys, as it does while a line is edited
     expect TEXT   waits until it appears behind what the last expect found
     never TEXT    it has not appeared since then
     kill SIGNAL   by number
     end N         waits for the end, with exit status N (128 + a signal)

   A step that fails prints itself and what the terminal showed, and ends with 1. What is left at the end is killed. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { SHOWN = 1 << 20, PATIENCE = 60 /* seconds */ };

typedef struct terminal {
    int fd;
    pid_t child;
    char *shown;
    size_t size, found; /* found: how far the last expect got */
    bool closed;
} terminal;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Reads what comes within `seconds`; false: nothing came, or nothing more will. */
static bool listen_for(terminal *t, double seconds) {
    struct pollfd p = {.fd = t->fd, .events = POLLIN};
    if (t->closed || t->size + 1 >= SHOWN || poll(&p, 1, (int)(seconds * 1000)) < 1) return false;
    const ssize_t n = read(t->fd, t->shown + t->size, SHOWN - 1 - t->size);
    if (n <= 0) {
        t->closed = true; /* EIO: the command has closed its side */
        return false;
    }
    t->size += (size_t)n;
    t->shown[t->size] = 0;
    return true;
}

static size_t unescape(char *text) {
    char *to = text;
    for (const char *at = text; *at;) {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        at++;
        if (*at >= '0' && *at <= '3') {
            int byte = 0;
            for (int i = 0; i < 3 && *at >= '0' && *at <= '7'; i++) byte = byte * 8 + *at++ - '0';
            *to++ = (char)byte;
            continue;
        }
        *to++ = (char)(*at == 'n' ? '\n' : *at == 'r' ? '\r' : *at == 'e' ? 27 : *at);
        if (*at) at++;
    }
    *to = 0;
    return (size_t)(to - text);
}

static bool expect(terminal *t, const char *text, size_t n) {
    const double until = now() + PATIENCE;
    for (;;) {
        const char *at = memmem(t->shown + t->found, t->size - t->found, text, n);
        if (at) {
            t->found = (size_t)(at - t->shown) + n;
            return true;
        }
        if (t->closed || now() > until) return false;
        listen_for(t, 0.2);
    }
}

/* Until then the terminal would keep a line to itself, and act on Ctrl-D. */
static bool prompt(terminal *t) {
    const double until = now() + PATIENCE;
    struct termios how;
    if (!expect(t, "> ", 2)) return false;
    while (!tcgetattr(t->fd, &how) && now() < until) {
        if (!(how.c_lflag & ICANON)) return true;
        usleep(2000);
    }
    return false;
}

static bool never(terminal *t, const char *text, size_t n) {
    while (listen_for(t, 0.2)) {
    }
    return !memmem(t->shown + t->found, t->size - t->found, text, n);
}

static bool end_with(terminal *t, int want) {
    const double until = now() + PATIENCE;
    int status;
    while (now() < until) {
        const pid_t done = waitpid(t->child, &status, WNOHANG);
        if (done == t->child) {
            t->child = 0;
            return (WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)) == want;
        }
        listen_for(t, 0.05);
    }
    return false;
}

static bool step(terminal *t, char *line) {
    const size_t word = strcspn(line, " ");
    char *text = line + word + (line[word] == ' ');
    const size_t n = unescape(text);
    if (!strncmp(line, "send", word)) return write(t->fd, text, n) == (ssize_t)n;
    if (!strncmp(line, "prompt", word)) return prompt(t);
    if (!strncmp(line, "expect", word)) return expect(t, text, n);
    if (!strncmp(line, "never", word)) return never(t, text, n);
    if (!strncmp(line, "kill", word)) return kill(t->child, atoi(text)) == 0;
    if (!strncmp(line, "end", word)) return end_with(t, atoi(text));
    return false;
}

static void show(const terminal *t) {
    for (size_t i = 0; i < t->size; i++) {
        const unsigned char c = (unsigned char)t->shown[i];
        if (c == '\n' || (c >= ' ' && c != 127))
            putchar(c);
        else if (c != '\r')
            printf("\\%03o", c);
    }
    putchar('\n');
}

int main(int argc, char **argv) {
    terminal t = {.shown = calloc(1, SHOWN)};
    char line[4096], copy[4096];
    const struct winsize size = {.ws_row = 24, .ws_col = 100};
    if (argc < 2 || !t.shown) return 2;
    t.child = forkpty(&t.fd, NULL, NULL, &size);
    if (t.child < 0) return 2;
    if (!t.child) {
        setenv("TERM", "xterm", 1);
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    bool good = true;
    while (good && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        memcpy(copy, line, sizeof copy);
        good = step(&t, line);
        if (!good) printf("failed: %s\n", copy);
    }
    if (!good) show(&t);
    if (t.child > 0) kill(t.child, SIGKILL);
    free(t.shown);
    return good ? 0 : 1;
}
