/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

tw_status tw_report_start(tw_report *r) {
    *r = (tw_report){0};
    r->memory = calloc(1, sizeof *r->memory);
    return r->memory ? TW_OK : TW_ERR_MEMORY;
}

void tw_report_add(tw_report *r, const char *rule, const char *where, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const char *w = NULL, *t = NULL;
    if (!r->findings) r->findings = tw_arena_array(r->memory, TW_MAX_FINDINGS, sizeof *r->findings);
    if (r->findings && r->count < TW_MAX_FINDINGS) {
        w = tw_arena_strdup(r->memory, where);
        t = tw_arena_strdup(r->memory, text);
    }
    if (!w || !t)
        r->cut = true;
    else
        r->findings[r->count++] = (tw_finding){rule, w, t, NULL};
}

void tw_report_say_how(tw_report *r, size_t finding, const char *how) {
    if (finding < r->count) r->findings[finding].how = tw_arena_strdup(r->memory, how);
}

void tw_report_free(tw_report *r) {
    if (!r) return;
    if (r->memory) tw_arena_free(r->memory);
    free(r->memory);
    *r = (tw_report){0};
}
