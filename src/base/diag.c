/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void tw_diag_clear(tw_diag *d) {
    if (!d) return;
    d->status = TW_OK;
    d->path[0] = d->message[0] = 0;
    d->offset = -1;
    d->line = d->column = -1;
}

/* Copies what fits; a path that is cut keeps its end, where the file's name is. */
static void set_path(tw_diag *d, const char *path) {
    size_t n = path ? strlen(path) : 0;
    if (n >= sizeof d->path) {
        path += n - (sizeof d->path - 1);
        n = sizeof d->path - 1;
    }
    if (n) memcpy(d->path, path, n);
    d->path[n] = 0;
}

/* Replaces control characters but those of `keep`: messages quote files, which a terminal must not obey. */
static void tame(char *message, const char *keep) {
    for (char *c = message; *c; c++)
        if (((unsigned char)*c < 0x20 || *c == 0x7f) && !strchr(keep, *c)) *c = '?';
}

static tw_status fill(tw_diag *d, tw_status s, const char *path, const char *fmt, va_list ap) {
    if (!d) return s;
    tw_diag_clear(d);
    d->status = s;
    set_path(d, path);
    vsnprintf(d->message, sizeof d->message, fmt, ap);
    tame(d->message, "\n\t"); /* A list of reasons has lines. */
    return s;
}

tw_status tw_fail(tw_diag *d, tw_status s, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fill(d, s, NULL, fmt, ap);
    va_end(ap);
    return s;
}

tw_status tw_fail_at(tw_diag *d, tw_status s, const char *path, int64_t offset, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fill(d, s, path, fmt, ap);
    va_end(ap);
    if (d) d->offset = offset;
    return s;
}

tw_status tw_fail_line(tw_diag *d, tw_status s, const char *path, int line, int column, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fill(d, s, path, fmt, ap);
    va_end(ap);
    if (d) {
        d->line = line;
        d->column = column;
    }
    return s;
}

tw_status tw_fail_memory(tw_diag *d) {
    return tw_fail(d, TW_ERR_MEMORY, "out of memory");
}

void tw_diag_add(tw_diag *d, tw_status s, const char *path, const char *fmt, ...) {
    static const char more[] = "\n(and more)";
    if (!d) return;
    if (d->status == TW_OK) {
        tw_diag_clear(d);
        d->status = s;
        set_path(d, path);
    }
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    tame(line, "\t");
    size_t have = strlen(d->message), need = strlen(line) + 1;
    if (have + need + sizeof more > sizeof d->message) {
        if (have + sizeof more <= sizeof d->message && !strstr(d->message, more))
            memcpy(d->message + have, more, sizeof more);
        return;
    }
    if (have) d->message[have++] = '\n';
    memcpy(d->message + have, line, need);
}

void tw_diag_place(const tw_diag *d, char *out, size_t size) {
    if (!d->path[0])
        snprintf(out, size, "%s", "");
    else if (d->line >= 0)
        snprintf(out, size, "%s:%d:%d: ", d->path, d->line, d->column);
    else if (d->offset >= 0)
        snprintf(out, size, "%s:%lld: ", d->path, (long long)d->offset);
    else
        snprintf(out, size, "%s: ", d->path);
}
