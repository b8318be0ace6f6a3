/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/reasons.h"

#include "base/diag.h"
#include "base/grow.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tw_reasons_add(tw_reasons *r, const tw_node *n, const char *why) {
    for (int i = 0; i < r->n; i++) {
        tw_reason *x = &r->list[i];
        if (strcmp(x->why, why) != 0 || strcmp(x->nodes[0]->op, n->op) != 0) continue;
        if (strcmp(x->nodes[0]->domain, n->domain) != 0) continue;
        if (x->n < TW_REASON_NAMES) x->nodes[x->n] = n;
        x->n++;
        return;
    }
    tw_reason *grown = r->arena.failed ? NULL : tw_grow(r->list, r->n, &r->room, 16, sizeof *r->list);
    const char *kept = grown ? tw_arena_strdup(&r->arena, why) : NULL;
    if (grown) r->list = grown;
    if (kept)
        r->list[r->n++] = (tw_reason){.nodes = {n}, .why = kept, .n = 1};
    else
        r->arena.failed = true;
}

/* Writes one line, with up to so many names. */
static void write_line(const tw_reason *x, int names, char *out, size_t size) {
    char node[256];
    tw_text t = {.out = out, .size = size};
    if (x->n == 1 && names) {
        tw_node_describe(x->nodes[0], node, sizeof node);
        tw_text_add(&t, "%s", node);
    } else {
        const char *domain = x->nodes[0]->domain;
        tw_text_add(&t, "%s%s%s", domain, *domain ? "." : "", x->nodes[0]->op);
        if (x->n > 1) tw_text_add(&t, ", %d nodes", x->n);
        const int shown = x->n < names ? x->n : names;
        bool named = false;
        for (int i = 0; i < shown; i++) {
            if (!*x->nodes[i]->name) continue;
            tw_text_add(&t, "%s%s", named ? ", " : " (", x->nodes[i]->name);
            named = true;
        }
        if (named) tw_text_add(&t, "%s)", x->n > shown ? ", ..." : "");
    }
    tw_text_add(&t, ": %s", x->why);
}

static size_t length_of(const tw_reasons *r, int names) {
    char line[512];
    size_t n = 0;
    for (int i = 0; i < r->n; i++) {
        write_line(&r->list[i], names, line, sizeof line);
        n += strlen(line) + 1;
    }
    return n;
}

/* Tells of each reason the operators alone, in as many lines as they take. */
static void tell_operators(const tw_reasons *r, tw_status st, const char *path, tw_diag *diag) {
    enum { LONGEST = 400 };
    for (int i = 0; i < r->n; i++) {
        char line[512], op[256];
        tw_text t = {.out = line, .size = sizeof line};
        bool told = false;
        for (int j = 0; j < i && !told; j++) told = !strcmp(r->list[j].why, r->list[i].why);
        for (int j = i; j < r->n && !told; j++) {
            const tw_reason *x = &r->list[j];
            const char *domain = x->nodes[0]->domain;
            if (strcmp(x->why, r->list[i].why) != 0) continue;
            snprintf(op, sizeof op, "%s%s%s (%d)", domain, *domain ? "." : "", x->nodes[0]->op, x->n);
            if (t.used + strlen(op) > LONGEST) {
                tw_diag_add(diag, st, path, "%s", line);
                t.used = 0;
            }
            if (t.used)
                tw_text_add(&t, ", %s", op);
            else
                tw_text_add(&t, "%.200s: %s", x->why, op);
        }
        if (t.used) tw_diag_add(diag, st, path, "%s", line);
    }
}

tw_status tw_reasons_tell(tw_reasons *r, tw_status st, const char *path, tw_diag *diag) {
    char line[512];
    int names = TW_REASON_NAMES;
    const bool failed = r->arena.failed;
    while (names >= 0 && length_of(r, names) + 32 > TW_DIAG_MESSAGE) names--;
    if (names < 0 && !failed) tell_operators(r, st, path, diag);
    for (int i = 0; i < r->n && names >= 0 && !failed; i++) {
        write_line(&r->list[i], names, line, sizeof line);
        tw_diag_add(diag, st, path, "%s", line);
    }
    if (!r->n) st = TW_OK;
    free(r->list);
    tw_arena_free(&r->arena);
    *r = (tw_reasons){0};
    return failed ? tw_fail_memory(diag) : st;
}
