/* SPDX-License-Identifier: Apache-2.0 */
/* The macro choices of products on warpgroups: tiles of persistent blocks, tiles of a block each, and, for an A of few
   rows, tiles of the transposed product. */
#include "kernels/gemm/space.h"
#include "tune/gemm_gpu.h"
#include "tune/macros.h"

enum {
    MOST_HIGH = 64 /* The most rows of small tiles in a grid. */,
    MOST_STAGES = 16 /* The most stages of a configuration. */
};

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
    m->properties = c->kg > 1 || c->stream ? TW_MACRO_WORKSPACE : 0;
}

static void add(listing *l, tw_gemm_config c) {
    bool added = false;
    c = tw_gemm_config_plain(&l->any, c);
    if (l->failed || !tw_gemm_legal(&l->any, &c, l->target, NULL, NULL)) return;
    tw_artefact_macro *m = tw_macros_add(l->arena, &l->list, &l->n, &tw_gemm_space, &c, &added);
    l->failed = !m;
    if (m && added) describe(l, m, &c);
}

/* Returns the most stages with which so many blocks share an SM. 0: there are none. */
static int most_stages(const listing *l, tw_gemm_config c, int blocks) {
    for (c.stages = MOST_STAGES; c.stages >= 2; c.stages--) {
        const tw_gemm_config plain = tw_gemm_config_plain(&l->any, c);
        tw_gemm_resources need;
        if (tw_gemm_legal(&l->any, &plain, l->target, &need, NULL) &&
            need.shared_bytes <= l->target->shared_sm / blocks - l->target->shared_reserved)
            return c.stages;
    }
    return 0;
}

/* Adds a tile with the most stages that fit, and with as many as let two blocks share an SM. */
static void add_stages(listing *l, tw_gemm_config c) {
    for (int blocks = 1; blocks <= 2; blocks++) {
        c.stages = most_stages(l, c, blocks);
        add(l, c);
    }
}

static tw_gemm_config tile(int ml, int ms, int nl, int u) {
    return (tw_gemm_config){.mma = 2,
                            .ms = ms,
                            .ns = nl,
                            .ml = ml,
                            .nl = nl,
                            .u = u,
                            .ks = 1,
                            .kl = 1,
                            .kg = 1,
                            .vec = 16,
                            .frag = 16,
                            .group = 1};
}

/* Tiles of blocks that stay on their SM, for products with more tiles than SMs. */
static void add_persistent(listing *l, int ml, int ms, int nl, bool pingpong) {
    static const struct { int group, early; } ways[] = {{8, TW_GEMM_EARLY}, {16, TW_GEMM_EARLY}, {8, TW_GEMM_LATE}};
    tw_gemm_config c = tile(ml, ms, nl, 64);
    c.persistent = l->sms;
    c.pingpong = pingpong;
    c.staged = TW_GEMM_BOXED;
    for (int i = 0; i < COUNT(ways); i++) {
        c.group = ways[i].group;
        c.early = ways[i].early;
        c.stages = most_stages(l, c, 1);
        add(l, c);
    }
}

/* Tiles of one block each, whole, fetched together with a neighbour, or cut along k. */
static void add_single(listing *l, int ml, int nl) {
    static const struct {
        int group, early, multicast, staged;
    } ways[] = {{8, TW_GEMM_LATE, 0, TW_GEMM_BOXED},
                {1, TW_GEMM_EARLY, 0, TW_GEMM_BOXED},
                {8, TW_GEMM_EARLY, 2, TW_GEMM_BOXED}};
    for (int i = 0; i < COUNT(ways); i++) {
        tw_gemm_config c = tile(ml, 64, nl, 64);
        c.group = ways[i].group;
        c.early = ways[i].early;
        c.multicast = ways[i].multicast;
        c.staged = ways[i].staged;
        add_stages(l, c);
    }
    for (int kg = 2; kg <= 4 && nl <= 128; kg *= 2) {
        tw_gemm_config c = tile(ml, 64, nl, 64);
        c.kg = kg;
        c.early = TW_GEMM_EARLY;
        c.split = TW_JOIN_CLUSTER;
        add_stages(l, c);
        c.split = TW_JOIN_LAST;
        c.staged = TW_GEMM_BOXED;
        add_stages(l, c);
    }
}

/* Tiles of the transposed product, whose rows are B's: for an A of few rows. */
static void add_swapped(listing *l, int ml, int nl, int u, int kg) {
    tw_gemm_config c = tile(ml, 64, nl, u);
    c.swap = 1;
    c.kg = kg;
    c.early = TW_GEMM_AHEAD;
    if (kg > 1) c.split = TW_JOIN_CLUSTER;
    add_stages(l, c);
    if (kg > 1 || ml > 64) return;
    /* The tiles of the last two waves are shared out among all blocks. */
    c.persistent = l->sms;
    c.stream = TW_GEMM_STREAM_REST;
    add_stages(l, c);
}

int tw_gemm_gpu_list(tw_arena *arena, tw_gemm_type type, const tw_target *target, int sms, tw_artefact_macro **out) {
    static const int wide[] = {96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256};
    static const int turns[] = {64, 80, 96, 112, 128, 160, 192};
    static const int single[] = {32, 48, 64, 96, 128, 192, 256}, few[] = {8, 16, 24, 32, 48, 64, 96, 128};
    listing l = {
        .arena = arena,
        .any = {.type = type, .m = 12288, .n = 12288, .k = 12288, .trans_b = true, .alpha = 1, .weights = true},
        .target = target,
        .sms = sms};
    if (tw_gemm_problem_complete(&l.any, NULL) != TW_OK) return 0;
    for (int j = 0; j < COUNT(wide); j++) {
        add_persistent(&l, 128, 64, wide[j], false);
        add_persistent(&l, 64, 64, wide[j], true);
    }
    for (int j = 0; j < COUNT(turns); j++) add_persistent(&l, 128, 128, turns[j], true);
    add_persistent(&l, 256, 128, 128, false);
    add_persistent(&l, 192, 64, 128, false);
    for (int ml = 64; ml <= 128; ml *= 2) {
        for (int j = 0; j < COUNT(single); j++) add_single(&l, ml, single[j]);
        for (int j = 0; j < COUNT(few); j++)
            for (int kg = 1; kg <= 8; kg *= 2)
                for (int u = 64; u <= 128; u *= 2) add_swapped(&l, ml, few[j], u, kg);
    }
    *out = l.list;
    return l.failed ? -1 : l.n;
}
