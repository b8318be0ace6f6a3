/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config.h"

#include "soundness/program.h"
#include "soundness/touch.h"

#include <stdlib.h>

int draw_below(tw_random *r, int n) {
    return (int)tw_random_below(r, (uint64_t)n);
}

bool draw_once_in(tw_random *r, int n) {
    return !draw_below(r, n);
}

static tw_config draw_config(tw_random *r) {
    tw_config c;
    tw_config_defaults(&c, (tw_family)draw_below(r, TW_FAMILY_COUNT));
    bool mixture = c.family == TW_FAMILY_MIXTRAL || c.family == TW_FAMILY_QWEN3_MOE;
    c.n_layers = 1 + draw_below(r, 2);
    c.dim = 8;
    c.n_heads = draw_once_in(r, 2) ? 2 : 4;
    c.head_dim = draw_once_in(r, 2) ? 2 : 4;
    if (c.family == TW_FAMILY_OLMO2) c.head_dim = 4; /* The least that raw keys have. */
    c.n_kv_heads = c.family == TW_FAMILY_GPT2 ? c.n_heads : c.n_heads >> draw_below(r, 2);
    c.ffn_dim = draw_once_in(r, 2) ? 8 : 12;
    c.vocab = draw_once_in(r, 2) ? 8 : 6;
    c.max_seq = 6 + draw_below(r, 3);
    c.n_experts = mixture ? 2 + draw_below(r, 2) : 0;
    c.n_experts_used = mixture ? 1 + draw_below(r, 2) : 0;
    c.expert_dim = mixture ? 8 : 0;
    c.sparse_step = mixture ? 1 + draw_below(r, 2) : 1;
    c.window = c.family != TW_FAMILY_GPT2 && draw_once_in(r, 2) ? 1 + draw_below(r, 4) : 0;
    c.first_windowed = draw_below(r, 2);
    c.tied = draw_once_in(r, 2);
    if (c.family == TW_FAMILY_LLAMA) {
        c.attention_bias = draw_once_in(r, 3);
        c.mlp_bias = draw_once_in(r, 3);
    }
    c.rope.dims = draw_once_in(r, 4) ? 2 : c.head_dim;
    c.rope.theta = 1e4;
    c.rope_local.dims = c.rope.dims;
    c.no_rope_interval = c.family == TW_FAMILY_SMOLLM3 ? 2 : 0;
    return c;
}

/* Weights have a shape and nothing else: nobody runs this. */
static void make_part(tw_model *m, void *owner, tw_part part) {
    tw_weight *w = tw_part_of(owner, part);
    *w = (tw_weight){.name = tw_parts[part].name, .dtype = TW_F32, .col_stride = 1};
    w->rows = tw_model_extent(m, tw_parts[part].rows);
    w->cols = w->row_stride = tw_model_extent(m, tw_parts[part].cols);
}

static void make_parts(tw_model *m, void *owner, int first, int end, unsigned features) {
    for (int p = first; p < end; p++)
        if (!(tw_parts[p].needs & ~features)) make_part(m, owner, (tw_part)p);
}

tw_model *tiny_model(tw_random *r) {
    tw_config c = draw_config(r);
    tw_model *m = calloc(1, sizeof *m);
    if (!m || !tw_config_apply(&c, m)) abort();
    m->name = "tiny";
    make_parts(m, m, TW_PART_EMBED, TW_PART_COUNT, tw_config_features(&c, 0));
    for (int64_t i = 0; i < m->n_layers; i++) {
        unsigned features = tw_config_features(&c, i);
        make_parts(m, &m->layers[i], 0, TW_PART_LAYER_COUNT, features);
        if (!(features & TW_HAS_EXPERTS)) continue;
        m->layers[i].experts = tw_arena_array(&m->arena, (size_t)m->n_experts, sizeof *m->layers[i].experts);
        for (int64_t e = 0; m->layers[i].experts && e < m->n_experts; e++)
            make_parts(m, &m->layers[i].experts[e], TW_PART_EXPERT_GATE, TW_PART_EXPERT_END, features);
    }
    if (m->arena.failed) abort();
    return m;
}

tw_schedule *lower_any(const tw_model *m, tw_random *r) {
    static const int workers[] = {1, 2, 2, 2, 3, 3, 3, 4, 7}, units[] = {2, 2, 4, 4, 6, 0};
    tw_lowering l = {.workers = workers[draw_below(r, (int)(sizeof workers / sizeof *workers))]};
    tw_schedule *s = NULL;
    tw_diag d;
    l.tokens = draw_once_in(r, 2) ? 1 : 2 + draw_below(r, 3);
    l.max_seq = m->max_seq - draw_below(r, 2);
    l.row_unit = units[draw_below(r, (int)(sizeof units / sizeof *units))];
    l.kv_splits = draw_below(r, 4);
    l.row_blocks = draw_below(r, 3);
    l.all_logits = draw_once_in(r, 2);
    l.group_heads = draw_once_in(r, 3);
    if (draw_once_in(r, 2)) l.head_norms = draw_once_in(r, 2) ? TW_HEAD_NORMS_TURN : TW_HEAD_NORMS_ATTEND;
    l.weights = draw_once_in(r, 8) ? TW_I4 : draw_once_in(r, 8) ? TW_I8 : TW_F32;
    if (draw_once_in(r, 3)) l.down_splits = 2 << draw_below(r, 2); /* Of steps of several positions. */
    if (draw_once_in(r, 4)) l.sequences = l.tokens = 2 + draw_below(r, TOUCH_MAX_SEQUENCES - 1);
    if (tw_schedule_lower(&s, m, &l, &d) != TW_OK) abort();
    return s;
}

program_pool program_pool_open(int models, int lowered) {
    enum { LARGEST = 72 }; /* instructions, of most: mutants are judged by the hundred thousand */
    program_pool p = {calloc((size_t)models, sizeof *p.models), calloc((size_t)lowered, sizeof *p.lowered), models,
                      lowered};
    tw_random r = tw_random_seed(1);
    if (!p.models || !p.lowered) abort();
    for (int i = 0; i < models; i++) p.models[i] = tiny_model(&r);
    for (int i = 0; i < lowered; i++)
        for (;;) {
            p.lowered[i] = lower_any(p.models[draw_below(&r, models)], &r);
            if (i % 8 == 0 || program_instructions(p.lowered[i]) <= LARGEST) break;
            tw_schedule_free(p.lowered[i]);
        }
    return p;
}

void program_pool_close(program_pool *p) {
    for (int i = 0; i < p->n_models; i++) tw_model_close(p->models[i]);
    for (int i = 0; i < p->n_lowered; i++) tw_schedule_free(p->lowered[i]);
    free(p->models);
    free(p->lowered);
}
