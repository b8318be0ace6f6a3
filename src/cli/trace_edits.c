/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace.h"

#include "base/diag.h"
#include "prof/orders.h"
#include "prof/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 }; /* Edits of a prediction. */

/* Reads NAME=FACTOR, or NAME=+STAGES, and cuts off the name. */
static bool parse(char *word, tw_change *out) {
    char *value = strrchr(word, '='), *end;
    if (!value || value == word) return false;
    *value++ = 0;
    *out = (tw_change){.name = word};
    if (*value == '+' || *value == '-') {
        const long n = strtol(value, &end, 10);
        out->kind = TW_CHANGE_STAGES;
        out->stages = (int)n;
        return end > value + 1 && !*end && n > -1000 && n < 1000;
    }
    out->kind = TW_CHANGE_SCALE;
    out->factor = strtod(value, &end);
    return end > value && !*end && out->factor >= 0 && out->factor <= 1e6;
}

/* The order of attention's steps after edits. */
typedef struct order_edits {
    tw_orders_times times;
    tw_orders_order to;
    bool any;
} order_edits;

/* Takes a change that is an edit of attention's order: overlap=0 or 1, pingpong=0 or 1. False: it is none, or the trace
   is not attention's. */
static bool take_order(order_edits *x, const tw_trace *t, const tw_change *c) {
    const bool overlap = !strcmp(c->name, "overlap");
    if (c->kind != TW_CHANGE_SCALE || (c->factor != 0 && c->factor != 1)) return false;
    if (!overlap && strcmp(c->name, "pingpong") != 0) return false;
    if (!x->any && cli_trace_orders(t, &x->times, NULL) != TW_OK) return false;
    if (!x->any) x->to = x->times.order;
    x->any = true;
    *(overlap ? &x->to.overlapped : &x->to.turns) = c->factor == 1;
    return true;
}

static tw_status predict(const tw_trace *t, const char *edits, char *words, tw_prediction *out, tw_diag *diag) {
    tw_change change[MOST];
    order_edits order = {.any = false};
    int n = 0;
    for (char *word = words, *next; word; word = next) {
        next = strchr(word, ',');
        if (next) *next++ = 0;
        if (n == MOST) return tw_fail(diag, TW_ERR_USAGE, "--what-if: more than %d edits", MOST);
        if (!parse(word, &change[n++]))
            return tw_fail(diag, TW_ERR_USAGE, "--what-if: \"%s\" is no list of NAME=FACTOR and NAME=+STAGES", edits);
        if (take_order(&order, t, &change[n - 1])) n--;
    }
    for (int i = 0; i < n; i++) {
        tw_status st = tw_path_predict(out, t, &change[i], 1, diag);
        if (st != TW_OK) return st;
        if (!out->matched)
            return tw_fail(diag, TW_ERR_USAGE, "--what-if: the trace has nothing called \"%s\"", change[i].name);
    }
    const tw_status st = tw_path_predict(out, t, change, n, diag);
    if (st == TW_OK && order.any) out->after *= tw_orders_ratio(&order.times, order.to);
    return st;
}

tw_status cli_trace_predict(const tw_trace *t, const char *edits, tw_prediction *out, tw_diag *diag) {
    const size_t size = strlen(edits) + 1;
    char *words = malloc(size);
    if (!words) return tw_fail_memory(diag);
    memcpy(words, edits, size);
    const tw_status st = predict(t, edits, words, out, diag);
    free(words);
    return st;
}
