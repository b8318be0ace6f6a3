/* SPDX-License-Identifier: Apache-2.0 */
/* The macro choices of products on warpgroups, for each kind: tiles of persistent blocks, tiles of a block each, and,
   for an A of few rows, tiles of the transposed product. */
#include "kernels/gemm/space.h"
#include "tune/gemm_gpu.h"
#include "tune/macros.h"

enum {
    MOST_HIGH = 64,  /* The most rows of small tiles in a grid. */
    MOST_TILES = 16, /* The most small tiles that the rows of a group take. */
    LINE = 128,      /* Bytes of a stage along k. */
    MOST_STAGES = 16 /* The most stages of a configuration. */
};

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

typedef struct listing {
    tw_arena *arena;
    tw_gemm_form form;
    int u;               /* Elements of a line. */
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
    m->least[2] = c->kg > 1 ? (int64_t)c->u * (c->kg - 1) + 1 : 0; /* Each block has a stage at least. */
    /* A cluster's tiles share Y's columns, or X's rows if a group is one tile, and clusters must be whole. */
    if (c->multicast) m->parts[(c->group == 1) != c->swap ? 1 : 0] = c->multicast;
    m->slots = l->sms;
    m->properties = c->kg > 1 || c->stream ? TW_MACRO_WORKSPACE : 0;
    if (l->form == TW_GEMM_BATCH) m->grid[3] = 1;
    if (c->mma != 2) return;
    /* Tensor maps need rows at multiples of 16 bytes, which are those of A, B and C. */
    const int elements = 16 * 8 / tw_type_bits(tw_gemm_types[l->any.type].element);
    m->multiple[1] = 16 * 8 / tw_type_bits(l->any.out);
    m->multiple[2] = elements;
    /* Grids with hundreds of rows of small tiles are many times slower than large tiles. */
    const int high = l->form == TW_GEMM_GROUPS ? MOST_TILES : MOST_HIGH;
    if (c->swap) m->most[0] = high * c->nl;
    if (!c->swap && c->nl < 64) m->most[0] = high * c->ml;
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
    tw_gemm_config c = tile(ml, ms, nl, l->u);
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

/* Tiles of one block each, whole, fetched together with a neighbour, or cut along k into `parts` at most. */
static void add_single(listing *l, int ml, int nl, int parts) {
    static const struct {
        int early, multicast;
    } ways[] = {{TW_GEMM_LATE, 0}, {TW_GEMM_EARLY, 0}, {TW_GEMM_EARLY, 2}, {TW_GEMM_AHEAD, 2}};
    for (int i = 0; i < COUNT(ways); i++) {
        tw_gemm_config c = tile(ml, 64, nl, l->u);
        c.group = 8;
        c.early = ways[i].early;
        c.multicast = ways[i].multicast;
        c.staged = TW_GEMM_BOXED;
        /* A large tile would wait for a whole ring of weights. */
        if (c.early == TW_GEMM_AHEAD && (ml > 64 || nl < 64 || nl > 128)) continue;
        add_stages(l, c);
    }
    for (int kg = 2; kg <= parts && nl <= 128; kg *= 2) {
        tw_gemm_config c = tile(ml, 64, nl, l->u);
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
    if (nl >= 64 && u == l->u) {
        c.multicast = 2;
        add_stages(l, c);
        c.multicast = 0;
    }
    /* The tiles of the last two waves are shared out among all blocks. */
    c.persistent = l->sms;
    c.stream = TW_GEMM_STREAM_REST;
    add_stages(l, c);
}

static void list_plain(listing *l) {
    static const int wide[] = {96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256};
    static const int turns[] = {64, 80, 96, 112, 128, 160, 192};
    static const int single[] = {32, 48, 64, 80, 96, 112, 128, 160, 192, 208, 256},
                     few[] = {8, 16, 24, 32, 48, 64, 96, 128};
    for (int j = 0; j < COUNT(wide); j++) {
        add_persistent(l, 128, 64, wide[j], false);
        add_persistent(l, 64, 64, wide[j], true);
    }
    for (int j = 0; j < COUNT(turns); j++) add_persistent(l, 128, 128, turns[j], true);
    add_persistent(l, 256, 128, 128, false);
    add_persistent(l, 192, 64, 128, false);
    for (int ml = 64; ml <= 128; ml *= 2) {
        for (int j = 0; j < COUNT(single); j++) add_single(l, ml, single[j], 2);
        for (int j = 0; j < COUNT(few); j++)
            for (int kg = 1; kg * ml <= 512; kg *= 2)
                for (int u = l->u; u <= 2 * l->u; u *= 2) add_swapped(l, ml, few[j], u, kg);
    }
}

/* Tiles of products of a batch, most of which are small. */
static void list_batch(listing *l) {
    static const int wide[] = {96, 128, 160, 192, 256}, single[] = {32, 48, 64, 80, 96, 128, 192, 256};
    for (int j = 0; j < COUNT(wide); j++) {
        add_persistent(l, 128, 64, wide[j], false);
        add_persistent(l, 64, 64, wide[j], true);
    }
    for (int nl = 64; nl <= 192; nl += 32) add_persistent(l, 128, 128, nl, true);
    for (int ml = 64; ml <= 128; ml *= 2)
        for (int j = 0; j < COUNT(single); j++) add_single(l, ml, single[j], 4);
}

/* Tiles of groups with many rows. Bands of tiles share B, or A. */
static void add_groups(listing *l, int ml, int ms, int nl, bool pingpong) {
    tw_gemm_config c = tile(ml, ms, nl, l->u);
    c.persistent = l->sms;
    c.pingpong = pingpong;
    c.staged = TW_GEMM_BOXED;
    c.early = TW_GEMM_EARLY;
    c.stages = most_stages(l, c, 1);
    for (c.group = 1; c.group <= 32; c.group *= 32) add(l, c);
}

/* Tiles of groups with few rows, which are columns of the transposed product. */
static void add_few(listing *l, int ml, int nl, int u) {
    tw_gemm_config c = tile(ml, 64, nl, u);
    c.swap = 1;
    c.early = TW_GEMM_EARLY;
    for (int blocks = 1; blocks <= 2; blocks++)
        for (c.pingpong = 0; c.pingpong <= 1; c.pingpong++) {
            c.persistent = blocks * l->sms;
            c.stages = most_stages(l, c, blocks);
            add(l, c);
        }
}

static void list_groups(listing *l) {
    static const int few[] = {8, 16, 24, 32, 48, 64, 96, 128}, many[] = {64, 96, 128, 160, 192, 256};
    for (int j = 0; j < COUNT(few); j++) {
        add_few(l, 64, few[j], l->u);
        if (few[j] <= 64) add_few(l, 64, few[j], 2 * l->u);
        if (few[j] >= 32) add_few(l, 128, few[j], l->u);
    }
    for (int j = 0; j < COUNT(many); j++) {
        add_groups(l, 64, 64, many[j], true);
        add_groups(l, 128, 128, many[j], true);
        add_groups(l, 128, 64, many[j], false);
    }
    add_groups(l, 256, 128, 128, false);
    add_groups(l, 256, 128, 192, false);
}

/* Tiles of a block each, whole or cut along k. A block of large tiles has an SM to itself, since it moves registers. */
static void add_terms(listing *l, tw_gemm_config c) {
    if (c.ml > 128 || (c.ml == 128 && c.nl > 96)) {
        c.stages = most_stages(l, c, 1);
        add(l, c);
        return;
    }
    add_stages(l, c);
    c.split = TW_JOIN_CLUSTER;
    for (c.kg = 2; c.kg <= 4 && c.nl % 32 == 0 && c.nl <= 128; c.kg++) {
        c.stages = most_stages(l, c, 1);
        add(l, c);
    }
}

/* Tiles of f32 matrices, in both orientations. A warpgroup has 64 rows, and a stage a line. */
static void list_terms(listing *l) {
    static const int columns[] = {32, 48, 64, 80, 96, 112, 128, 144, 160};
    for (int swap = 0; swap <= 1; swap++)
        for (int ml = 64; ml <= 192; ml += 64)
            for (int j = 0; j < COUNT(columns); j++) {
                tw_gemm_config c = tile(ml, 64, columns[j], l->u);
                c.swap = swap;
                c.early = TW_GEMM_EARLY;
                c.group = 8;
                if (l->form != TW_GEMM_GROUPS) add_terms(l, c);
                c.persistent = l->sms;
                c.stages = most_stages(l, c, 1);
                if (l->form == TW_GEMM_GROUPS || columns[j] >= 64) add(l, c);
            }
}

/* Tiles that threads multiply without tensor cores, in both orientations, whole or cut along k. */
static void list_simt(listing *l) {
    static const struct {
        int ml, nl, ms, ns, u, kl;
    } tiles[] = {{16, 32, 4, 4, 32, 2},  {16, 64, 8, 4, 16, 2},   {32, 16, 2, 8, 32, 2},   {32, 32, 4, 8, 32, 1},
                 {32, 64, 4, 8, 16, 1},  {32, 64, 4, 8, 64, 4},   {32, 128, 8, 8, 16, 1},  {64, 32, 8, 8, 16, 2},
                 {64, 32, 8, 8, 64, 4},  {64, 64, 8, 8, 32, 2},   {64, 128, 8, 8, 16, 1},  {64, 128, 16, 8, 64, 4},
                 {128, 64, 16, 4, 8, 1}, {128, 128, 8, 8, 32, 1}, {128, 128, 16, 8, 8, 1}, {128, 128, 16, 8, 16, 1}};
    static const int splits[] = {1, 2, 3, 4, 6, 9, 13};
    for (int i = 0; i < COUNT(tiles); i++)
        for (int swap = 0; swap <= 1; swap++)
            for (int j = 0; j < COUNT(splits); j++) {
                tw_gemm_config c = {.ms = tiles[i].ms,
                                    .ns = tiles[i].ns,
                                    .ml = tiles[i].ml,
                                    .nl = tiles[i].nl,
                                    .u = tiles[i].u,
                                    .ks = 1,
                                    .kl = tiles[i].kl,
                                    .kg = splits[j],
                                    .vec = 16,
                                    .frag = 16,
                                    .stages = 3,
                                    .group = 8,
                                    .swap = swap};
                add(l, c);
                c.split = TW_JOIN_CLUSTER;
                add(l, c);
            }
}

int tw_gemm_gpu_list(tw_arena *arena, tw_gemm_kind kind, const tw_target *target, int sms, tw_artefact_macro **out) {
    static void (*const lists[TW_GEMM_FORMS])(listing *) = {
        [TW_GEMM_PLAIN] = list_plain, [TW_GEMM_GROUPS] = list_groups, [TW_GEMM_BATCH] = list_batch};
    /* A problem that every macro choice can compute. */
    static const int64_t large[TW_GEMM_KIND_AXES] = {12288, 12288, 12288, 2};
    listing l = {.arena = arena,
                 .form = kind.form,
                 .u = LINE * 8 / tw_type_bits(tw_gemm_types[kind.type].element),
                 .any = tw_gemm_kind_problem(kind, large),
                 .target = target,
                 .sms = sms};
    if (tw_gemm_problem_complete(&l.any, NULL) != TW_OK) return 0;
    if (kind.type == TW_GEMM_TF32X3)
        list_terms(&l);
    else if (kind.type == TW_GEMM_F32)
        list_simt(&l);
    else
        lists[kind.form](&l);
    *out = l.list;
    return l.failed ? -1 : l.n;
}
