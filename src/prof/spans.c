/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/spans.h"

#include "base/grow.h"

#include <stdlib.h>

bool tw_spans_add(tw_spans *s, double begin, double end) {
    if (!(end > begin)) return true;
    /* Most intervals come in order. */
    if (s->n && s->list[s->n - 1].begin <= begin && s->list[s->n - 1].end >= begin) {
        if (end > s->list[s->n - 1].end) s->list[s->n - 1].end = end;
        return true;
    }
    tw_interval *grown = tw_grow(s->list, s->n, &s->room, 16, sizeof *s->list);
    if (!grown) return false;
    s->list = grown;
    s->list[s->n++] = (tw_interval){begin, end};
    return true;
}

static int by_begin(const void *a, const void *b) {
    const tw_interval *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

void tw_spans_unite(tw_spans *s) {
    if (!s->n) return;
    qsort(s->list, (size_t)s->n, sizeof *s->list, by_begin);
    int last = 0;
    for (int i = 1; i < s->n; i++) {
        if (s->list[i].begin > s->list[last].end)
            s->list[++last] = s->list[i];
        else if (s->list[i].end > s->list[last].end)
            s->list[last].end = s->list[i].end;
    }
    s->n = last + 1;
}

void tw_spans_free(tw_spans *s) {
    free(s->list);
    *s = (tw_spans){0};
}

double tw_spans_length(const tw_spans *s) {
    double sum = 0;
    for (int i = 0; i < s->n; i++) sum += s->list[i].end - s->list[i].begin;
    return sum;
}

double tw_spans_common(const tw_spans *a, const tw_spans *b) {
    double sum = 0;
    for (int i = 0, j = 0; i < a->n && j < b->n;) {
        const tw_interval *x = &a->list[i], *y = &b->list[j];
        const double begin = x->begin > y->begin ? x->begin : y->begin, end = x->end < y->end ? x->end : y->end;
        if (end > begin) sum += end - begin;
        if (x->end < y->end)
            i++;
        else
            j++;
    }
    return sum;
}

bool tw_spans_complement(const tw_spans *s, double begin, double end, tw_spans *out) {
    double from = begin;
    for (int i = tw_spans_after(s, begin); i < s->n && s->list[i].begin < end; i++) {
        if (!tw_spans_add(out, from, s->list[i].begin)) return false;
        from = s->list[i].end;
    }
    if (!tw_spans_add(out, from, end)) return false;
    tw_spans_unite(out);
    return true;
}

int tw_spans_after(const tw_spans *s, double time) {
    int lo = 0, hi = s->n;
    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;
        if (s->list[mid].end > time)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}
