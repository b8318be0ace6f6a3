/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/coverage.h"

#include <stdlib.h>
#include <string.h>

typedef struct event {
    int64_t at, change;
} event;

static int by_place(const void *a, const void *b) {
    const event *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static void note(tw_coverage *out, int64_t count) {
    if (count < out->least) out->least = count;
    if (count > out->most) out->most = count;
}

static bool spans(const tw_cover *c, const int64_t lo[3], const int64_t hi[3], int d) {
    return c->lo[d] <= lo[d] && c->hi[d] >= hi[d];
}

/* Finds the first dimension from d on that not all boxes span. 3: all boxes span everything. */
static int split_dimension(const tw_cover *c, int n, const int64_t lo[3], const int64_t hi[3], int d) {
    for (; d < 3; d++)
        for (int i = 0; i < n; i++)
            if (!spans(&c[i], lo, hi, d)) return d;
    return d;
}

/* Tells whether boxes lie side by side in order and are written equally often. A stage leaves such boxes, and they need
   no sorting. */
static bool tiled(const tw_cover *c, int n, const int64_t lo[3], const int64_t hi[3], int d) {
    if (!n || c[0].lo[d] > lo[d] || c[n - 1].hi[d] < hi[d]) return false;
    for (int i = 1; i < n; i++)
        if (c[i].lo[d] != c[i - 1].hi[d] || c[i].count != c[0].count) return false;
    return true;
}

static int64_t begin(const tw_cover *c, const int64_t lo[3], int d) {
    return c->lo[d] > lo[d] ? c->lo[d] : lo[d];
}

static int64_t end(const tw_cover *c, const int64_t hi[3], int d) {
    return c->hi[d] < hi[d] ? c->hi[d] : hi[d];
}

static bool ascending(const tw_cover *c, int n, int d) {
    for (int i = 1; i < n; i++)
        if (c[i].lo[d] < c[i - 1].lo[d]) return false;
    return true;
}

/* Advances the sweep to `to`. `open` has the boxes that have begun, the last to end first. Boxes that end at `to` or
   before are removed from it. */
static int advance(event *open, int n, int64_t to, int64_t *at, int64_t *count, tw_coverage *out) {
    for (; n && open[n - 1].at <= to; n--) {
        if (open[n - 1].at > *at) note(out, *count);
        *at = open[n - 1].at;
        *count -= open[n - 1].change;
    }
    if (to > *at) note(out, *count);
    *at = to > *at ? to : *at;
    return n;
}

/* Counts along dimension d. All boxes span the others, and are in the order of their beginnings, so few are open at
   once. */
static void along_sorted(const tw_cover *c, int n, const int64_t lo[3], const int64_t hi[3], int d, event *open,
                         tw_coverage *out) {
    int64_t at = lo[d], count = 0;
    int opened = 0;
    for (int i = 0; i < n; i++) {
        opened = advance(open, opened, begin(&c[i], lo, d), &at, &count, out);
        event e = {end(&c[i], hi, d), c[i].count};
        int k = opened++;
        for (; k > 0 && open[k - 1].at < e.at; k--) open[k] = open[k - 1];
        open[k] = e;
        count += e.change;
    }
    advance(open, opened, hi[d], &at, &count, out);
}

/* Counts along dimension d. All boxes span the others. */
static bool along(const tw_cover *c, int n, const int64_t lo[3], const int64_t hi[3], int d, tw_coverage *out) {
    if (tiled(c, n, lo, hi, d)) {
        note(out, c[0].count);
        return true;
    }
    event *e = malloc((2 * (size_t)n + 1) * sizeof *e);
    if (!e) return false;
    if (ascending(c, n, d)) {
        along_sorted(c, n, lo, hi, d, e, out);
        free(e);
        return true;
    }
    for (int i = 0; i < n; i++) {
        e[2 * i] = (event){begin(&c[i], lo, d), c[i].count};
        e[2 * i + 1] = (event){end(&c[i], hi, d), -c[i].count};
    }
    qsort(e, 2 * (size_t)n, sizeof *e, by_place);
    int64_t at = lo[d], count = 0;
    for (int i = 0; i < 2 * n; i++) {
        if (e[i].at > at) note(out, count);
        at = e[i].at;
        count += e[i].change;
    }
    if (at < hi[d]) note(out, 0);
    free(e);
    return true;
}

static bool within(const tw_cover *c, int n, const int64_t lo[3], const int64_t hi[3], int d, tw_coverage *out) {
    d = split_dimension(c, n, lo, hi, d);
    if (d == 3) {
        int64_t count = 0;
        for (int i = 0; i < n; i++) count += c[i].count;
        note(out, count);
        return true;
    }
    if (split_dimension(c, n, lo, hi, d + 1) == 3) return along(c, n, lo, hi, d, out);
    /* The space is divided into slabs. Between two neighbouring bounds, boxes span this dimension or are not there. */
    event *cut = malloc((2 * (size_t)n + 2) * sizeof *cut);
    tw_cover *part = malloc(((size_t)n + 1) * sizeof *part);
    bool ok = cut && part;
    int cuts = 0;
    for (int i = 0; i < n && ok; i++) {
        cut[cuts++].at = begin(&c[i], lo, d);
        cut[cuts++].at = end(&c[i], hi, d);
    }
    if (ok) {
        cut[cuts++].at = lo[d];
        cut[cuts++].at = hi[d];
        qsort(cut, (size_t)cuts, sizeof *cut, by_place);
    }
    for (int i = 0; i + 1 < cuts && ok; i++) {
        if (cut[i].at == cut[i + 1].at) continue;
        int m = 0;
        for (int k = 0; k < n; k++)
            if (c[k].lo[d] <= cut[i].at && c[k].hi[d] >= cut[i + 1].at) part[m++] = c[k];
        ok = within(part, m, lo, hi, d + 1, out);
    }
    free(cut);
    free(part);
    return ok;
}

bool tw_coverage_of(tw_cover *c, int n, const int64_t lo[3], const int64_t hi[3], tw_coverage *out) {
    int m = 0;
    for (int i = 0; i < n; i++) {
        bool apart = c[i].count == 0;
        for (int d = 0; d < 3; d++) apart = apart || c[i].lo[d] >= hi[d] || c[i].hi[d] <= lo[d];
        if (!apart) c[m++] = c[i];
    }
    *out = (tw_coverage){INT64_MAX, 0};
    return within(c, m, lo, hi, 0, out);
}
