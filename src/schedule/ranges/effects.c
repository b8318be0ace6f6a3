/* SPDX-License-Identifier: Apache-2.0 */
/* The boxes of a task. Along an axis without gaps, what many units access is one interval. Where there is a gap, units
   of that axis are taken one by one. */
#include "base/diag.h"
#include "schedule/ranges/ranges.h"

enum { MAX_BOXES = 1 << 13 };

typedef struct walk {
    const tw_range_access *a;
    int64_t from[TW_RANGE_AXES], to[TW_RANGE_AXES];
    tw_access_list *list;
    int first; /* Number of the list's boxes before the task's. */
    tw_diag *diag;
} walk;

static int64_t count_of(const walk *w, int axis) {
    return w->to[axis] - w->from[axis];
}

/* Finds the interval of all units. *gap: an axis that leaves a gap, or -1. Axes are taken by their steps, the smallest
   first, and each must repeat what those before it have made without a gap. */
static void interval(const walk *w, const tw_range_span *s, int64_t *lo, int64_t *hi, int *gap) {
    bool done[TW_RANGE_AXES] = {false};
    int64_t extent = s->extent;
    *lo = s->first;
    *gap = -1;
    for (int n = 0; n < TW_RANGE_AXES; n++) {
        int least = -1;
        for (int a = 0; a < TW_RANGE_AXES; a++)
            if (!done[a] && (least < 0 || s->step[a] < s->step[least])) least = a;
        done[least] = true;
        *lo += s->step[least] * w->from[least];
        if (count_of(w, least) > 1 && s->step[least] > extent) *gap = least;
        extent += s->step[least] * (count_of(w, least) - 1);
    }
    *hi = *lo + extent;
}

/* An axis along which rows and bytes both move is no box either. */
static int diagonal(const walk *w) {
    for (int a = 0; a < TW_RANGE_AXES; a++)
        if (count_of(w, a) > 1 && w->a->rows.step[a] && w->a->bytes.step[a]) return a;
    return -1;
}

static tw_status boxes(walk *w) {
    tw_access box = {.buffer = w->a->buffer, .write = w->a->write, .lo = {0}, .hi = {1}};
    int rows, bytes, apart = diagonal(w);
    interval(w, &w->a->rows, &box.lo[1], &box.hi[1], &rows);
    interval(w, &w->a->bytes, &box.lo[2], &box.hi[2], &bytes);
    if (apart < 0) apart = rows >= 0 ? rows : bytes;
    if (apart < 0) {
        if (w->list->count - w->first == MAX_BOXES)
            return tw_fail(w->diag, TW_ERR_FORMAT, "touches more pieces than a task may");
        return tw_access_list_add(w->list, &box) ? TW_OK : tw_fail_memory(w->diag);
    }
    const int64_t from = w->from[apart], to = w->to[apart];
    tw_status st = TW_OK;
    for (int64_t i = from; i < to && st == TW_OK; i++) {
        w->from[apart] = i;
        w->to[apart] = i + 1;
        st = boxes(w);
    }
    w->from[apart] = from;
    w->to[apart] = to;
    return st;
}

tw_status tw_ranges_effects(const tw_ranges *r, const tw_range_task *t, tw_access_list *list, tw_diag *diag) {
    const tw_range_step *s = &r->steps[t->step];
    const int first = list->count;
    tw_status st = TW_OK;
    for (int i = 0; i < s->n_accesses && st == TW_OK; i++) {
        walk w = {.a = &s->accesses[i], .list = list, .first = first, .diag = diag};
        for (int a = 0; a < TW_RANGE_AXES; a++) {
            w.from[a] = t->from[a];
            w.to[a] = t->to[a];
        }
        st = boxes(&w);
    }
    return st;
}
