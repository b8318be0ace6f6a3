/* SPDX-License-Identifier: Apache-2.0 */
/* The macro choices of products on warpgroups: large tiles, each in a few ways, and, for an A of few rows, tiles of the
   transposed product. */
#include "kernels/gemm/space.h"
#include "tune/gemm_gpu.h"
#include "tune/macros.h"

enum { MOST_HIGH = 64 /* The most rows of small tiles in a grid. */ };

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

typedef struct listing {
    tw_arena *arena;
    tw_gemm_problem any; /* A problem that every macro choice can compute. */
    const tw_target *target;
    int sms;
    tw_artefact_macro *list;
    int n;
    bool failed;
} listing;

static void describe(const listing *l, tw_artefact_macro *m, const tw_gemm_config *c) {
    m->grid[c->swap ? 1 : 0] = c->ml;
    m->grid[c->swap ? 0 : 1] = c->nl;
    m->rounds[2] = (int64_t)c->u * c->kg;
    m->times = c->kg;
    /* A cluster's tiles share their columns, and clusters must be whole. */
    if (c->multicast) m->parts[c->swap ? 1 : 0] = c->multicast;
    m->multiple[1] = m->multiple[2] = 8; /* Tensor maps need rows at multiples of 16 bytes. */
    /* Grids with hundreds of rows of small tiles are many times slower than large tiles. */
    if (c->swap) m->most[0] = MOST_HIGH * c->nl;
    if (!c->swap && c->nl < 64) m->most[0] = MOST_HIGH * c->ml;
    m->slots = l->sms;
    m->properties = c->kg > 1 ? TW_MACRO_WORKSPACE : 0;
}

static void add(listing *l, tw_gemm_config c) {
    bool added = false;
    c = tw_gemm_config_plain(&l->any, c);
    if (l->failed || !tw_gemm_legal(&l->any, &c, l->target, NULL, NULL)) return;
    tw_artefact_macro *m = tw_macros_add(l->arena, &l->list, &l->n, &tw_gemm_space, &c, &added);
    l->failed = !m;
    if (m && added) describe(l, m, &c);
}

/* Adds a tile in the ways that its split allows: groups, multicast and staged epilogues, or joins. */
static void add_ways(listing *l, tw_gemm_config c) {
    static const struct { int group, multicast, staged; } whole[] = {{8, 0, 0}, {1, 0, 0}, {8, 0, 1}, {8, 2, 0}};
    if (c.kg == 1) {
        for (int i = 0; i < COUNT(whole); i++) {
            c.group = whole[i].group;
            c.multicast = whole[i].multicast;
            c.staged = whole[i].staged;
            add(l, c);
        }
        return;
    }
    c.group = 1;
    c.split = TW_JOIN_CLUSTER;
    add(l, c);
    c.split = TW_JOIN_LAST;
    add(l, c);
}

static void add_tile(listing *l, int ml, int nl, int u, int kg, bool swap) {
    static const int stages[] = {8, 6, 4, 3, 12};
    const tw_gemm_config c = {.mma = 2,
                              .ms = 64,
                              .ns = nl,
                              .ml = ml,
                              .nl = nl,
                              .u = u,
                              .ks = 1,
                              .kl = 1,
                              .kg = kg,
                              .vec = 16,
                              .frag = 16,
                              .swap = swap};
    for (int s = 0; s < COUNT(stages); s++) {
        tw_gemm_config one = c;
        one.stages = stages[s];
        add_ways(l, one);
    }
}

int tw_gemm_gpu_list(tw_arena *arena, tw_gemm_type type, const tw_target *target, int sms, tw_artefact_macro **out) {
    static const int ml[] = {64, 128, 256}, nl[] = {32, 64, 96, 128, 192, 256}, short_nl[] = {8, 16, 24, 32, 48, 64};
    static const int kg[] = {1, 2, 4, 8}, u[] = {64, 128};
    listing l = {.arena = arena,
                 .any = {.type = type, .m = 12288, .n = 12288, .k = 12288, .trans_b = true, .alpha = 1},
                 .target = target,
                 .sms = sms};
    if (tw_gemm_problem_complete(&l.any, NULL) != TW_OK) return 0;
    for (int i = 0; i < COUNT(ml); i++)
        for (int j = 0; j < COUNT(nl); j++)
            for (int k = 0; k < 3; k++) add_tile(&l, ml[i], nl[j], 64, kg[k], false);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < COUNT(short_nl); j++)
            for (int k = 0; k < COUNT(kg); k++)
                for (int d = 0; d < COUNT(u); d++) add_tile(&l, ml[i], short_nl[j], u[d], kg[k], true);
    *out = l.list;
    return l.failed ? -1 : l.n;
}
