/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/random_attention.h"

#include "base/random.h"

#include <stdio.h>

static int64_t below(tw_random *r, int64_t n) {
    return (int64_t)tw_random_below(r, (uint64_t)n);
}

/* Lengths are often those at which blocks and tiles end. */
static int64_t draw_length(tw_random *r, int64_t most) {
    static const int64_t edges[] = {1, 16, 32, 63, 64, 65, 127, 128, 129, 192, 256};
    const int64_t edge = edges[below(r, sizeof edges / sizeof *edges)];
    return below(r, 3) && edge <= most ? edge : 1 + below(r, most);
}

static int64_t draw_head(tw_random *r) {
    static const int64_t usual[] = {64, 128, 80, 96, 192, 256};
    const int64_t n = below(r, 10);
    return n < 6 ? usual[n] : 8 * (4 + below(r, 29));
}

static void draw_problem(tw_attention_problem *p, tw_random *r, const attention_limits *most) {
    *p = (tw_attention_problem){.type = below(r, 3) ? TW_T_bf16 : TW_T_f16, .head = draw_head(r)};
    p->kv_heads = 1 + below(r, 2);
    p->heads = p->kv_heads * (1 + below(r, most->heads / p->kv_heads));
    p->batch = 1 + below(r, most->batch);
    p->queries = draw_length(r, most->queries);
    p->keys = below(r, 3) ? draw_length(r, most->keys) : p->queries;
    p->causal = below(r, 2);
    p->ragged = !below(r, 3);
    if (below(r, 2)) p->capacity = p->keys + below(r, 40);
    if (!below(r, 4)) {
        p->page = below(r, 2) ? INT64_C(8) << below(r, 6) : 16;
        /* The number of draws stays as it is. */
        if (p->page == 8 || p->keys % 4 == 1) p->page = 1 + p->keys % 11;
        if (p->page >= 64) p->page = 8 * (3 + 2 * (p->keys % 8));
        p->capacity = 0;
        p->pool = p->batch * ((p->keys + p->page - 1) / p->page) + below(r, 4);
    }
    if (!below(r, 3)) p->window = 1 + below(r, most->keys / 2);
    if (!below(r, 4)) p->cap = 1 + (double)below(r, 30);
    if (!below(r, 3)) p->scale = (double)(1 + below(r, 8)) / 16;
    p->lse = !below(r, 3);
    p->sinks = !below(r, 4);
    if (!below(r, 4)) p->ldq = p->heads * p->head + 8 * below(r, 5);
    if (!below(r, 4)) p->ldo = p->heads * p->head + 8 * below(r, 5);
    if (!below(r, 4)) p->ldk = (p->capacity ? 1 : p->kv_heads) * p->head + 8 * below(r, 5);
    if (!below(r, 6)) p->queries = 1;
}

/* What is drawn here changes nothing of what is drawn afterwards. */
static void draw_mask(tw_attention_problem *p, tw_random r) {
    if (p->ragged || below(&r, 3)) return;
    static const tw_type masks[] = {TW_T_f32, TW_T_f16, TW_T_bf16, TW_T_i8};
    p->mask = masks[below(&r, 4)];
    p->mask_heads = below(&r, 2) ? 1 : p->heads;
    p->mask_batch = below(&r, 2) ? 1 : p->batch;
    p->ldm = (p->keys + 7) / 8 * 8 + 8 * below(&r, 3);
}

/* Keys and values are of e4m3 in some problems that may have them. */
static void draw_kv(tw_attention_problem *p, tw_random r) {
    if (p->head % 32 || below(&r, 4)) return;
    p->kv = TW_T_e4m3;
    p->ldk = p->ldk ? (p->ldk + 15) / 16 * 16 : 0;
}

bool attention_case_draw(attention_case *c, uint64_t number, const tw_target *t, const attention_limits *most) {
    enum { TRIES = 200 };
    tw_random r = tw_random_seed(number);
    *c = (attention_case){.seed = number};
    draw_problem(&c->problem, &r, most);
    draw_mask(&c->problem, r);
    draw_kv(&c->problem, tw_random_seed(~number));
    if (tw_attention_complete(&c->problem, NULL) != TW_OK) return false;
    const tw_attention_space_context of = {&c->problem, t};
    const bool warpgroups = t->sm == 90 && !c->problem.kv && below(&r, 3);
    for (int i = 0; i < TRIES; i++) {
        tw_space_draw_any(&tw_attention_space, NULL, &r, &c->config);
        c->config.mma = warpgroups ? TW_ATTENTION_BY_WARPGROUPS : TW_ATTENTION_BY_WARPS;
        /* Few blocks have several tiles each. */
        c->config.splits = below(&r, 2) && c->problem.queries > 1 ? 1 : 1 + (int)below(&r, 5);
        c->config.persistent = below(&r, 3) ? 1 + (int)below(&r, most->blocks) : 0;
        if (tw_space_judge(&tw_attention_space, &of, &c->config, NULL) == TW_OK) return true;
    }
    return false;
}

void attention_case_print(const attention_case *c, char *out, size_t size) {
    char problem[512], config[256];
    tw_attention_print(&c->problem, problem, sizeof problem);
    tw_attention_config_print(&c->config, config, sizeof config);
    snprintf(out, size, "tilewright kernel attention %s %s --seed %llu", problem, config, (unsigned long long)c->seed);
}

/* -- coverage */

#define FEATURE(name, condition)                                                                                       \
    static bool has_##name(const tw_attention_problem *p, const tw_attention_config *c) {                              \
        (void)p, (void)c;                                                                                              \
        return condition;                                                                                              \
    }
#define FEATURES(X)                                                                                                    \
    X(causal, p->causal)                                                                                               \
    X(full, !p->causal && !p->window)                                                                                  \
    X(window, p->window && p->causal)                                                                                  \
    X(window_on_both_sides, p->window && !p->causal)                                                                   \
    X(ragged, p->ragged && p->capacity)                                                                                \
    X(ragged_keys_like_queries, p->ragged && !p->capacity && !p->page)                                                 \
    X(cache, !p->ragged && p->capacity)                                                                                \
    X(lse, p->lse)                                                                                                     \
    X(cap, p->cap > 0)                                                                                                 \
    X(mask_added, p->mask == TW_T_f32 || p->mask == TW_T_f16 || p->mask == TW_T_bf16)                                  \
    X(mask_of_flags, p->mask == TW_T_i8)                                                                               \
    X(mask_of_heads, p->mask && p->mask_heads > 1)                                                                     \
    X(mask_of_sequences, p->mask && p->mask_batch > 1)                                                                 \
    X(sinks, p->sinks)                                                                                                 \
    X(grouped, p->kv_heads < p->heads)                                                                                 \
    X(f16, p->type == TW_T_f16)                                                                                        \
    X(half_a_sixteen, p->head % 16)                                                                                    \
    X(more_queries_than_keys, p->queries > p->keys)                                                                    \
    X(gaps, p->ldo > p->heads * p->head)                                                                               \
    X(one_warpgroup, c->rows == 64)                                                                                    \
    X(three_warpgroups, c->rows == 192)                                                                                \
    X(pingpong, c->pingpong)                                                                                           \
    X(in_order, !c->overlap)                                                                                           \
    X(several_blocks, p->keys > c->columns)                                                                            \
    X(one_stage, c->stages == 1)                                                                                       \
    X(pages_of_a_block, p->page && p->page < c->columns)                                                               \
    X(blocks_of_a_page, p->page > c->columns)                                                                          \
    X(pages_without_eights, p->page % 8 && !p->ragged)                                                                 \
    X(ragged_pages_without_eights, p->page % 8 && p->ragged)                                                           \
    X(pages_of_odd_eights, c->mma == 2 && p->page % 16 == 8 && c->columns % p->page)                                   \
    X(ragged_pages, p->page && p->ragged)                                                                              \
    X(packed, c->pack)                                                                                                 \
    X(split, c->splits > 1 && p->keys > c->columns)                                                                    \
    X(split_few_queries, c->mma == 2 && c->splits > 1 && p->keys > c->columns && !p->ragged && p->queries == 1)        \
    X(split_pages, c->splits > 1 && p->keys > c->columns && p->page)                                                   \
    X(split_packed_ragged, c->splits > 1 && c->pack && p->ragged)                                                      \
    X(lazy, c->lazy)                                                                                                   \
    X(early, c->early == 1)                                                                                            \
    X(early_beside, c->early == 2)                                                                                     \
    X(persistent, c->persistent)                                                                                       \
    X(warpgroups, c->mma == 2)                                                                                         \
    X(warps, c->mma == 1)                                                                                              \
    X(warps_of_two_strips, c->mma == 1 && c->strips == 2)                                                              \
    X(warps_with_one_stage, c->mma == 1 && c->stages == 1 && p->keys > c->columns)                                     \
    X(warps_with_stages, c->mma == 1 && c->stages > 2 && p->keys > 2 * c->columns)                                     \
    X(warps_causal, c->mma == 1 && p->causal)                                                                          \
    X(warps_with_window, c->mma == 1 && p->window)                                                                     \
    X(warps_with_mask, c->mma == 1 && p->mask)                                                                         \
    X(warps_ragged, c->mma == 1 && p->ragged)                                                                          \
    X(warps_with_pages, c->mma == 1 && p->page && p->keys > c->columns)                                                \
    X(warps_packed, c->mma == 1 && c->pack)                                                                            \
    X(warps_split, c->mma == 1 && c->splits > 1 && p->keys > c->columns)                                               \
    X(warps_split_few_queries, c->mma == 1 && c->splits > 1 && p->keys > c->columns && !p->ragged && p->queries == 1)  \
    X(warps_with_half_a_sixteen, c->mma == 1 && p->head % 16)                                                          \
    X(warps_lazy, c->mma == 1 && c->lazy)                                                                              \
    X(warps_early, c->mma == 1 && c->early)                                                                            \
    X(slices, c->slices > 1 && p->keys > c->columns)                                                                   \
    X(slices_of_sixteen_rows, c->rows == 16)                                                                           \
    X(slices_of_two_strips, c->slices > 1 && c->strips == 2)                                                           \
    X(slices_of_split_keys, c->slices > 1 && c->splits > 1 && p->keys > c->columns)                                    \
    X(slices_causal, c->slices > 1 && p->causal)                                                                       \
    X(warpgroups_that_share, c->slices > 1 && c->mma == 2 && p->keys > c->columns)                                     \
    X(warpgroups_that_share_causal, c->slices > 1 && c->mma == 2 && p->causal)                                         \
    X(warpgroups_that_share_split_keys, c->slices > 1 && c->mma == 2 && c->splits > 1)                                 \
    X(warpgroups_that_share_tiles, c->slices > 1 && c->mma == 2 && c->persistent)                                      \
    X(slices_of_e4m3, c->slices > 1 && p->kv)                                                                          \
    X(e4m3, p->kv && p->type == TW_T_bf16)                                                                             \
    X(e4m3_of_f16, p->kv && p->type == TW_T_f16)                                                                       \
    X(e4m3_of_two_strips, p->kv && c->strips == 2)                                                                     \
    X(e4m3_ragged, p->kv && p->ragged)                                                                                 \
    X(e4m3_of_pages, p->kv && p->page)                                                                                 \
    X(e4m3_split, p->kv && c->splits > 1 && p->keys > c->columns)                                                      \
    X(e4m3_of_several_heads, p->kv && p->kv_heads > 1)                                                                 \
    X(e4m3_with_mask_or_cap, p->kv && (p->mask || p->cap > 0))                                                         \
    X(e4m3_lse, p->kv && p->lse)
FEATURES(FEATURE)

#define ROW(name, condition) {#name, has_##name},
static const struct {
    const char *name;
    bool (*has)(const tw_attention_problem *p, const tw_attention_config *c);
} features[] = {FEATURES(ROW)};

int attention_features(void) {
    return sizeof features / sizeof *features;
}

const char *attention_feature_name(int i) {
    return features[i].name;
}

bool attention_has(const attention_case *c, int i) {
    return features[i].has(&c->problem, &c->config);
}
