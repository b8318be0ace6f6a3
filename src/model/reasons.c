/* SPDX-License-Identifier: Apache-2.0 */
#include "model/reasons.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void tw_reason(tw_reasons *r, tw_status s, const char *fmt, ...) {
    char line[448]; /* tw_diag_add's own line is longer */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    for (unsigned char *p = (unsigned char *)line; *p; p++)
        if (*p < 0x20 || *p == 0x7f) *p = '?';
    if (!r->count++) r->status = s;
    tw_diag_add(r->diag, s, r->path, "%s", line);
}

tw_status tw_reasons_end(tw_reasons *r) {
    if (r->no_memory) return tw_fail_memory(r->diag);
    return r->count ? r->status : TW_OK;
}

const char *tw_show_json(const json_t *v, char *out, size_t size) {
    memset(out, 0, size);
    size_t n;
    if (json_is_string(v)) {
        n = json_string_length(v);
        memcpy(out, json_string_value(v), n < size ? n : size - 1);
    } else {
        /* Pieces that do not fit are left out, so the end is where the zeros begin. */
        n = json_dumpb(v, out, size - 1, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        if (!n) n = (size_t)snprintf(out, size, "a value that cannot be shown");
    }
    size_t end = strlen(out);
    if (n >= size - 1) memcpy(out + (end < size - 4 ? end : size - 4), "...", 4);
    return out;
}
