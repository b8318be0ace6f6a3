/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/contents.h"

#include "base/diag.h"
#include "base/grow.h"
#include "base/sum.h"

#include <stdlib.h>
#include <string.h>

static bool is_mapped(const tw_contents *c, const tw_graph *g, const void *data) {
    if (c->kept && (uintptr_t)data - (uintptr_t)c->kept < c->kept_bytes) return true;
    for (; g; g = g->base)
        for (int i = 0; i < g->n_maps; i++)
            if ((uintptr_t)data - (uintptr_t)g->maps[i].data < g->maps[i].size) return true;
    return false;
}

static const void *find(const tw_contents *c, const tw_content *x, const void *data) {
    for (int i = 0; i < c->n; i++)
        if (c->list[i].sum == x->sum && c->list[i].bytes == x->bytes &&
            (c->list[i].data == data || !memcmp(c->list[i].data, data, (size_t)x->bytes)))
            return c->list[i].data;
    return NULL;
}

/* Takes a graph's memory that begins at a place. NULL: there is none. */
static void *take_block(tw_graph *g, const void *data) {
    for (int i = 0; i < g->n_blocks; i++)
        if (g->blocks[i] == data) {
            void *block = g->blocks[i];
            g->blocks[i] = g->blocks[--g->n_blocks];
            return block;
        }
    return NULL;
}

/* Adds a content, which a graph has at a place. Returns where it lies. NULL: out of memory. */
static const void *add(tw_contents *c, tw_content *x, tw_graph *g, const void *data) {
    tw_content *grown = tw_grow(c->list, c->n, &c->room, 64, sizeof *grown);
    if (!grown) return NULL;
    c->list = grown;
    x->data = take_block(g, data);
    if (!x->data && (x->data = malloc((size_t)x->bytes + 16))) memcpy(x->data, data, (size_t)x->bytes);
    if (!x->data) return NULL;
    c->list[c->n++] = *x;
    c->bytes += x->bytes;
    return x->data;
}

/* Lets all constants of so many bytes at a place have them at another. False: others lie there, too. */
static bool move(tw_graph *g, const void *from, const void *to, int64_t bytes) {
    bool all = true;
    for (int i = 0; i < g->n_values; i++) {
        if (!g->values[i].content || g->values[i].content->data != from) continue;
        tw_array a = *g->values[i].content;
        all &= tw_array_bytes(&a) == bytes;
        if (tw_array_bytes(&a) != bytes) continue;
        a.data = to;
        tw_graph_set_content(g, i, &a);
    }
    return all;
}

tw_status tw_contents_share(tw_contents *c, tw_graph *g, tw_diag *diag) {
    for (int i = 0; i < g->n_values; i++) {
        const tw_array *a = g->values[i].content;
        tw_content x = {.bytes = a && a->data ? tw_array_bytes(a) : 0};
        if (x.bytes <= 0 || is_mapped(c, g, a->data)) continue;
        const void *before = a->data;
        x.sum = tw_sum(before, (size_t)x.bytes);
        const void *data = find(c, &x, before);
        if (!data) data = add(c, &x, g, before);
        if (!data) return tw_fail_memory(diag);
        if (data == before) continue;
        const bool all = move(g, before, data, x.bytes);
        if (g->arena.failed) return tw_fail_memory(diag);
        if (all) free(take_block(g, before));
    }
    return TW_OK;
}

void tw_contents_free(tw_contents *c) {
    for (int i = 0; i < c->n; i++) free(c->list[i].data);
    free(c->list);
    *c = (tw_contents){0};
}
