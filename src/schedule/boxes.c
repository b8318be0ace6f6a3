/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/boxes.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static bool same_box(const tw_access *a, const tw_access *b) {
    return a->buffer == b->buffer && !memcmp(a->lo, b->lo, sizeof a->lo) && !memcmp(a->hi, b->hi, sizeof a->hi);
}

static uint64_t hash_box(const tw_access *a) {
    uint64_t h = (uint64_t)a->buffer;
    for (int d = 0; d < 3; d++) {
        h = (h ^ (uint64_t)a->lo[d]) * 0x9e3779b97f4a7c15u;
        h = (h ^ (h >> 29) ^ (uint64_t)a->hi[d]) * 0xbf58476d1ce4e5b9u;
    }
    return h ^ (h >> 32);
}

/* ---- the distinct ones ---- */

/* first[i]: the first access with the box of access i. */
static bool find_first(const tw_flow *f, int *first, int *count) {
    size_t size = 16;
    while (size < 2 * (size_t)f->n_accesses) size *= 2;
    int *table = malloc(size * sizeof *table);
    if (!table) return false;
    memset(table, 0xff, size * sizeof *table);
    *count = 0;
    for (int i = 0; i < f->n_accesses; i++) {
        const tw_access *a = &f->accesses[i];
        first[i] = -1;
        if (f->buffers[a->buffer].kind == TW_FLOW_CONSTANT) continue;
        size_t at = hash_box(a) & (size - 1);
        while (table[at] >= 0 && !same_box(&f->accesses[table[at]], a)) at = (at + 1) & (size - 1);
        if (table[at] < 0) {
            table[at] = i;
            ++*count;
        }
        first[i] = table[at];
    }
    free(table);
    return true;
}

static int place_order(const tw_box *x, const tw_box *y) {
    if (x->buffer != y->buffer) return x->buffer > y->buffer ? 1 : -1;
    for (int d = 0; d < 3; d++)
        if (x->lo[d] != y->lo[d]) return x->lo[d] > y->lo[d] ? 1 : -1;
    for (int d = 0; d < 3; d++)
        if (x->hi[d] != y->hi[d]) return x->hi[d] > y->hi[d] ? 1 : -1;
    return 0;
}

static int by_place(const void *a, const void *b) {
    return place_order(*(const tw_box *const *)a, *(const tw_box *const *)b);
}

/* Sorts boxes by buffer in one pass, and then the few boxes of each buffer. */
static bool sort_boxes(tw_box *found, int count, int n_buffers, tw_box **out) {
    int *at = calloc((size_t)n_buffers + 2, sizeof *at);
    if (!at) return false;
    for (int i = 0; i < count; i++) at[found[i].buffer + 2]++;
    for (int b = 0; b < n_buffers; b++) at[b + 2] += at[b + 1];
    for (int i = 0; i < count; i++) out[at[found[i].buffer + 1]++] = &found[i];
    for (int b = 0; b < n_buffers; b++) {
        bool sorted = true;
        for (int i = at[b] + 1; i < at[b + 1]; i++) sorted = sorted && place_order(out[i - 1], out[i]) < 0;
        if (!sorted) qsort(out + at[b], (size_t)(at[b + 1] - at[b]), sizeof *out, by_place);
    }
    free(at);
    return true;
}

static bool make_boxes(tw_boxes *b, const tw_flow *f) {
    int n = f->n_accesses;
    b->of = tw_arena_array(&b->arena, (size_t)n + 1, sizeof *b->of);
    if (!b->of || !find_first(f, b->of, &b->count)) return false;
    tw_box *found = malloc(((size_t)b->count + 1) * sizeof *found),
           **order = malloc(((size_t)b->count + 1) * sizeof *order);
    int *rank = malloc(((size_t)n + 1) * sizeof *rank); /* [first access]: its box. */
    b->box = tw_arena_array(&b->arena, (size_t)b->count + 1, sizeof *b->box);
    bool ok = found && order && rank && b->box;
    for (int i = 0, k = 0; i < n && ok; i++) {
        const tw_access *a = &f->accesses[i];
        if (b->of[i] != i) continue;
        found[k] = (tw_box){.buffer = a->buffer};
        memcpy(found[k].lo, a->lo, sizeof a->lo);
        memcpy(found[k].hi, a->hi, sizeof a->hi);
        found[k].n_near = i; /* Until boxes are sorted: the access that has the box first. */
        order[k] = &found[k];
        k++;
    }
    ok = ok && sort_boxes(found, b->count, f->n_buffers, order);
    for (int k = 0; k < b->count && ok; k++) {
        b->box[k] = *order[k];
        rank[order[k]->n_near] = k;
        b->box[k].n_near = 0;
    }
    for (int i = 0; i < n && ok; i++) {
        if (b->of[i] < 0) continue;
        b->of[i] = rank[b->of[i]];
        b->box[b->of[i]].written |= f->accesses[i].write;
    }
    free(found);
    free(order);
    free(rank);
    return ok;
}

/* ---- overlaps ---- */

typedef struct pair_list {
    int (*item)[2];
    size_t count, room;
} pair_list;

static bool add_pair(pair_list *l, int a, int b) {
    if (l->count > INT_MAX - 2) return false; /* Lists are counted in int. */
    if (l->count + 2 > l->room) {
        size_t room = l->room ? 2 * l->room : 256;
        void *p = realloc(l->item, room * sizeof *l->item);
        if (!p) return false;
        l->item = p;
        l->room = room;
    }
    l->item[l->count][0] = a;
    l->item[l->count++][1] = b;
    if (a == b) return true;
    l->item[l->count][0] = b;
    l->item[l->count++][1] = a;
    return true;
}

static bool overlap(const tw_box *a, const tw_box *b, bool rows) {
    for (int d = 0; d < 3; d++)
        if ((rows || d != 1) && (a->lo[d] >= b->hi[d] || b->lo[d] >= a->hi[d])) return false;
    return true;
}

typedef struct edge {
    int64_t lo;
    int box;
} edge;

static int by_lo(const void *a, const void *b) {
    const edge *x = a, *y = b;
    return x->lo != y->lo ? (x->lo > y->lo) - (x->lo < y->lo) : (x->box > y->box) - (x->box < y->box);
}

/* Finds the dimension along which the fewest boxes begin together. */
static int sweep_dimension(const tw_boxes *b, int from, int to, bool rows, edge *e) {
    int best = 2, most = -1;
    for (int d = 0; d < 3; d++) {
        int distinct = 0;
        if (d == 1 && !rows) continue;
        for (int i = from; i < to; i++) e[i - from] = (edge){b->box[i].lo[d], i};
        qsort(e, (size_t)(to - from), sizeof *e, by_lo);
        for (int i = 1; i < to - from; i++) distinct += e[i].lo != e[i - 1].lo;
        if (distinct > most) {
            most = distinct;
            best = d;
        }
    }
    return best;
}

/* Finds the overlaps of boxes [from, to), which belong to one buffer. Each box is compared with the boxes that begin
   before it ends. */
static bool sweep(const tw_boxes *b, int from, int to, bool rows, pair_list *out) {
    enum { FEW = 12 };
    int n = to - from, active = 0;
    if (n <= FEW) {
        for (int i = from; i < to; i++)
            for (int j = i; j < to; j++)
                if ((b->box[i].written || b->box[j].written) && overlap(&b->box[i], &b->box[j], rows) &&
                    !add_pair(out, i, j))
                    return false;
        return true;
    }
    edge *e = malloc((size_t)n * sizeof *e);
    int *open = malloc((size_t)n * sizeof *open);
    bool ok = e && open;
    int d = ok ? sweep_dimension(b, from, to, rows, e) : 0;
    for (int i = 0; i < n && ok; i++) e[i] = (edge){b->box[from + i].lo[d], from + i};
    if (ok) qsort(e, (size_t)n, sizeof *e, by_lo);
    for (int i = 0; i < n && ok; i++) {
        const tw_box *x = &b->box[e[i].box];
        int kept = 0;
        for (int j = 0; j < active && ok; j++) {
            const tw_box *y = &b->box[open[j]];
            if (y->hi[d] <= x->lo[d]) continue;
            open[kept++] = open[j];
            if ((x->written || y->written) && overlap(x, y, rows)) ok = add_pair(out, e[i].box, (int)(y - b->box));
        }
        if (x->written) ok = ok && add_pair(out, e[i].box, e[i].box);
        active = kept;
        open[active++] = e[i].box;
    }
    free(e);
    free(open);
    return ok;
}

static int ascending(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Makes one list of overlaps for each box from the pairs. */
static bool give_lists(tw_boxes *b, const pair_list *pairs, bool rows) {
    int *all = tw_arena_array(&b->arena, pairs->count + 1, sizeof *all);
    int *at = calloc((size_t)b->count + 1, sizeof *at);
    bool ok = all && at;
    for (size_t i = 0; i < pairs->count && ok; i++) at[pairs->item[i][0] + 1]++;
    for (int i = 0; i < b->count && ok; i++) {
        int n = at[i + 1];
        at[i + 1] += at[i];
        if (rows) {
            b->box[i].near = all + at[i];
            b->box[i].n_near = n;
        } else {
            b->box[i].far = all + at[i];
            b->box[i].n_far = n;
        }
    }
    for (size_t i = 0; i < pairs->count && ok; i++) all[at[pairs->item[i][0]]++] = pairs->item[i][1];
    for (int i = 0, start = 0; i < b->count && ok; start = at[i++]) {
        bool sorted = true;
        for (int k = start + 1; k < at[i]; k++) sorted = sorted && all[k - 1] < all[k];
        if (!sorted) qsort(all + start, (size_t)(at[i] - start), sizeof *all, ascending);
    }
    free(at);
    return ok;
}

static bool find_overlaps(tw_boxes *b, const tw_flow *f, bool rows) {
    pair_list pairs = {0};
    bool ok = true;
    for (int from = 0, to; from < b->count && ok; from = to) {
        for (to = from + 1; to < b->count && b->box[to].buffer == b->box[from].buffer;) to++;
        if (rows || f->buffers[b->box[from].buffer].kind == TW_FLOW_CACHE) ok = sweep(b, from, to, rows, &pairs);
    }
    ok = ok && (pairs.count || rows) ? give_lists(b, &pairs, rows) : ok;
    free(pairs.item);
    return ok;
}

tw_status tw_boxes_find(tw_boxes *b, const tw_flow *f) {
    *b = (tw_boxes){0};
    bool ok = make_boxes(b, f) && find_overlaps(b, f, true) && find_overlaps(b, f, false);
    return ok && !b->arena.failed ? TW_OK : TW_ERR_MEMORY;
}

void tw_boxes_free(tw_boxes *b) {
    tw_arena_free(&b->arena);
}
