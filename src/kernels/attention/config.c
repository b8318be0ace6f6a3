/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "base/divide.h"
#include "kernels/attention/generate.h"

#include <stddef.h>

#define PARAM(name, role, ...) static const int name##_values[] = {__VA_ARGS__};
#include "kernels/attention/space.def"
#undef PARAM

static const tw_param params[] = {
#define PARAM(label, part, ...)                                                                                        \
    {.name = #label,                                                                                                   \
     .role = TW_SPACE_##part,                                                                                          \
     .form = TW_SPACE_INT32,                                                                                           \
     .at = offsetof(tw_attention_config, label),                                                                       \
     .most = 65535,                                                                                                    \
     .values = label##_values,                                                                                         \
     .n_values = sizeof label##_values / sizeof *label##_values},
#include "kernels/attention/space.def"
#undef PARAM
};

static tw_status legal(const void *context, const void *config, tw_diag *diag) {
    const tw_attention_space_context *of = context;
    const char *why;
    if (tw_attention_legal(of->problem, config, of->target, NULL, &why)) return TW_OK;
    return diag ? tw_fail(diag, TW_ERR_USAGE, "%s", why) : TW_ERR_USAGE;
}

static void plain(const void *context, void *config) {
    const tw_attention_space_context *of = context;
    tw_attention_config *c = config;
    if (c->rows == 64) c->pingpong = 0;
    if (c->mma == TW_ATTENTION_BY_WARPS)
        c->overlap = c->pingpong = c->persistent = 0;
    else
        c->strips = 1;
    if (of->problem->heads == of->problem->kv_heads) c->pack = 0;
    if (of->problem->ragged) c->band = 1; /* Ragged tiles come by rows. */
}

const tw_space tw_attention_space = {.name = "attention",
                                     .example = "rows=128",
                                     .params = params,
                                     .n = sizeof params / sizeof *params,
                                     .bytes = sizeof(tw_attention_config),
                                     .legal = legal,
                                     .plain = plain};

void tw_attention_config_print(const tw_attention_config *c, char *out, size_t size) {
    tw_space_print(&tw_attention_space, c, out, size);
}

tw_status tw_attention_config_parse(const tw_attention_problem *p, tw_attention_config *c, const char *text,
                                    tw_diag *diag) {
    const tw_status st = tw_space_parse(&tw_attention_space, c, text, diag);
    if (st == TW_OK) plain(&(tw_attention_space_context){.problem = p}, c);
    return st;
}

enum { SMS = 132 /* Of an H100 and an H200. */ };

/* Heads share a tile if few of its rows would have queries otherwise. Only heads that fill tiles and warps evenly do.
 */
static bool packs(const tw_attention_problem *p, int rows) {
    const int64_t heads = p->heads / p->kv_heads, tiles = tw_ceil_div(p->queries, rows),
                  packed = tw_ceil_div(p->queries * heads, rows);
    if (heads == 1 || heads > rows || (heads & (heads - 1))) return false;
    return p->ragged || packed * 10 < tiles * heads * 9;
}

/* The share of time in which `places` for blocks have blocks of keys, if each of `tiles` has its keys in `splits`
 * parts. */
static double busy(int64_t tiles, int64_t blocks, int splits, int places) {
    const int64_t each = tw_ceil_div(blocks, splits), parts = tw_ceil_div(blocks, each);
    return (double)(tiles * blocks) / (double)(places * each * tw_ceil_div(tiles * parts, places));
}

/* Splits keys until blocks fill the SMs, by mma.sync with two each, as far as each has a few blocks of keys. Of the
   splits that fill them about as well as it can be done, the fewest are taken. */
static int splits_of(const tw_attention_problem *p, const tw_attention_config *c) {
    enum { FEW = 4 /* Blocks of keys that are not split. */, MOST = 64 };
    const int places = c->mma == TW_ATTENTION_BY_WARPS ? 2 * SMS : SMS;
    const int64_t heads = c->pack ? p->kv_heads : p->heads, height = c->rows / (p->heads / heads);
    const int64_t tiles =
        heads * (p->ragged ? tw_ceil_div(p->queries, height) : p->batch * tw_ceil_div(p->queries, height));
    const int64_t seen = height + (p->causal ? 1 : 2) * p->window; /* Keys that a tile with a window sees. */
    const int64_t blocks = tw_ceil_div(p->window && seen < p->keys ? seen : p->keys, c->columns);
    if (tiles * 5 >= places * 4 || blocks <= FEW) return 1;
    const int most = blocks < MOST ? (int)blocks : MOST;
    double best = 0;
    for (int s = 1; s <= most; s++)
        if (busy(tiles, blocks, s, places) > best) best = busy(tiles, blocks, s, places);
    int splits = 1;
    while (busy(tiles, blocks, splits, places) < 0.9 * best) splits++;
    return splits;
}

/* Bands whose keys and values stay in L2 beside all else. Tiles of causal bands are dealt out the longest first, and
   more heads leave fewer SMs idle at a band's end. */
static int band_of(const tw_attention_problem *p) {
    const int64_t most = (p->causal ? INT64_C(32) : 16) << 20, head = 4 * p->keys * p->head * p->kv_heads / p->heads;
    int band = p->causal ? 16 : 4;
    while (band > 1 && band * head > most) band /= 2;
    return band;
}

/* Returns the most keys of a block, up to `columns`, with which blocks lie within pages, or pages within blocks. 0:
   keys are gathered, of any blocks. */
static int fitting(const tw_attention_problem *p, int columns) {
    const int page = (int)p->page;
    for (; columns; columns -= 16)
        if (!page || (!tw_attention_gathers(p, columns) && !(page < columns ? columns % page : page % columns))) break;
    return columns;
}

static int fit_pages(const tw_attention_problem *p, int columns) {
    const int fit = fitting(p, columns);
    return fit ? fit : columns;
}

/* Tiles, blocks and turns that were the fastest on an H200, or within 2 % of that. Ragged lengths are only bounds. */
static void set_tile(const tw_attention_problem *p, tw_attention_config *c) {
    enum { SHORT = 2048, LONG = 4096, LONGEST = 16384 };
    const bool masks = p->causal || p->window, even = !p->ragged && !p->window && !p->mask;
    /* Three warpgroups have no registers to spare. */
    const bool third = !p->window && p->cap == 0 && !p->mask && fitting(p, p->head <= 64 ? 128 : 96);
    const int64_t tiles = p->batch * p->heads * tw_ceil_div(p->queries, c->rows);
    c->pingpong = 1;
    c->columns = 128;
    if (p->head <= 64) {
        if (third) c->rows = 192;
    } else if (p->head <= 80 && third && !masks) {
        c->rows = 192;
        c->columns = 96;
        c->pingpong = 0;
        c->persistent = 0; /* The loop over tiles takes registers. */
    } else if (p->head <= 96) {
        if (masks && !p->mask) c->columns = 160;
    } else if (p->head <= 128) {
        if (even && p->causal && p->keys >= LONG && p->keys < LONGEST) c->columns = 160;
        if (even && (p->keys >= LONGEST || (p->causal && p->keys <= SHORT && tiles > SMS))) c->pingpong = 0;
    } else {
        c->columns = p->head <= 192 ? 112 : 80;
        c->lazy = 1;
    }
    /* A producer that gathers leaves fewer registers, and loads of the mask's array take some. */
    if (!fitting(p, c->columns) && p->head > 192) c->columns = 64;
    if (p->mask && p->head > 96) c->columns = p->head <= 128 ? 112 : p->head <= 192 ? 80 : 48;
}

/* A warp that has two strips loads keys and values for both at once. Larger heads leave no registers for that. Few
   queries are shared by warps, each of which has other keys, so that all of them multiply. */
static void set_tile_by_warps(const tw_attention_problem *p, const tw_target *t, tw_attention_config *c) {
    enum { TOGETHER = 2 /* Blocks of an SM, each of which computes while others wait. */ };
    c->mma = TW_ATTENTION_BY_WARPS;
    c->overlap = c->persistent = 0;
    const int64_t most = p->kv ? 64 : p->mask ? 96 : 128;
    c->strips = c->rows > 64 && p->head <= most ? 2 : 1;
    c->columns = c->strips > 1 && p->head > 96 ? 32 : 64;
    if (p->head > 128) c->rows = 64;
    const int64_t rows = p->queries * (p->heads / p->kv_heads);
    if (rows <= 32) {
        c->rows = rows <= TW_ATTENTION_STRIP ? 16 : 32;
        c->columns = p->kv ? 128 : 64;
        c->slices = 4;
    }
    const int64_t tile = tw_ceil_div(p->head, 64) * 64 * 2, of_keys = p->kv ? tile / 2 : tile;
    const int64_t bytes = c->rows * tile + 2 * c->stages * c->columns * of_keys;
    if (TOGETHER * (bytes + t->shared_reserved) > t->shared_sm) c->stages = 1;
    /* Of large heads the sums of four warps take more room than one stage has. */
    while (tw_attention_slices_bytes(p, c) > 2 * c->stages * c->columns * of_keys) c->slices /= 2;
}

tw_attention_config tw_attention_config_default(const tw_attention_problem *p, const tw_target *t, int mma) {
    const bool by_warps = mma ? mma == TW_ATTENTION_BY_WARPS : t->sm != 90 || p->kv;
    const int64_t shared = p->heads / p->kv_heads;
    tw_attention_config c = {.rows = 128,
                             .stages = 2,
                             .overlap = 1,
                             .splits = 1,
                             .persistent = SMS,
                             .band = band_of(p),
                             .mma = 2,
                             .strips = 1,
                             .slices = 1};
    if (!by_warps) set_tile(p, &c);
    if (p->queries * shared <= 64) {
        c.rows = 64;
        c.pingpong = 0;
        if (p->head <= 128 && !p->mask) c.columns = 128;
    }
    if (by_warps) set_tile_by_warps(p, t, &c);
    c.pack = packs(p, c.rows);
    if (c.rows == 192 && c.pack && c.rows % shared) c.rows = 128;
    if (!by_warps) c.columns = fit_pages(p, c.columns);
    c.splits = splits_of(p, &c);
    return c;
}
