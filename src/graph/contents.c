/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/contents.h"

#include "base/diag.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

/* Hashes bytes in four lanes, since contents are large. Equal hashes are compared, so that any hash is right. */
static uint64_t hash_of(const void *data, int64_t bytes) {
    const unsigned char *p = data;
    uint64_t lanes[4] = {1, 2, 3, 4}, x[4] = {0};
    int64_t at = 0;
    for (; bytes - at >= (int64_t)sizeof x; at += (int64_t)sizeof x) {
        memcpy(x, p + at, sizeof x);
        for (int i = 0; i < 4; i++) {
            lanes[i] = (lanes[i] ^ x[i]) * 0x9e3779b97f4a7c15u;
            lanes[i] ^= lanes[i] >> 29;
        }
    }
    memset(x, 0, sizeof x);
    if (bytes > at) memcpy(x, p + at, (size_t)(bytes - at));
    uint64_t h = (uint64_t)bytes;
    for (int i = 0; i < 4; i++) h = (h ^ lanes[i] ^ x[i]) * 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}

static bool is_mapped(const tw_graph *g, const void *data) {
    for (; g; g = g->base)
        for (int i = 0; i < g->n_maps; i++)
            if ((uintptr_t)data - (uintptr_t)g->maps[i].data < g->maps[i].size) return true;
    return false;
}

static const void *find(const tw_contents *c, const tw_content *x, const void *data) {
    for (int i = 0; i < c->n; i++)
        if (c->list[i].hash == x->hash && c->list[i].bytes == x->bytes &&
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

/* Lets all constants whose data lie at a place have them at another. */
static void move(tw_graph *g, const void *from, const void *to) {
    for (int i = 0; i < g->n_values; i++) {
        if (!g->values[i].content || g->values[i].content->data != from) continue;
        tw_array a = *g->values[i].content;
        a.data = to;
        tw_graph_set_content(g, i, &a);
    }
}

tw_status tw_contents_share(tw_contents *c, tw_graph *g, tw_diag *diag) {
    for (int i = 0; i < g->n_values; i++) {
        const tw_array *a = g->values[i].content;
        tw_content x = {.bytes = a && a->data ? tw_array_bytes(a) : 0};
        if (x.bytes <= 0 || is_mapped(g, a->data)) continue;
        const void *before = a->data;
        x.hash = hash_of(before, x.bytes);
        const void *data = find(c, &x, before);
        if (!data) data = add(c, &x, g, before);
        if (!data) return tw_fail_memory(diag);
        if (data == before) continue;
        move(g, before, data);
        if (g->arena.failed) return tw_fail_memory(diag);
        free(take_block(g, before));
    }
    return TW_OK;
}

void tw_contents_free(tw_contents *c) {
    for (int i = 0; i < c->n; i++) free(c->list[i].data);
    free(c->list);
    *c = (tw_contents){0};
}
