/* SPDX-License-Identifier: Apache-2.0 */
#include "model/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define L(field) offsetof(tw_layer, field)
#define M(field) offsetof(struct tw_model, field)
#define E(name)  TW_EXTENT_##name
#define HAS(f)   TW_HAS_##f

const tw_part_info tw_parts[TW_PART_COUNT] = {
    [TW_PART_ATTN_NORM] = {"attn_norm", L(attn_norm.weight), E(DIM), E(ONE), HAS(PRE_NORM)},
    [TW_PART_ATTN_NORM_BIAS] = {"attn_norm.bias", L(attn_norm.bias), E(DIM), E(ONE), HAS(NORM_BIAS)},
    [TW_PART_Q] = {"attn.q", L(q.weight), E(Q), E(DIM), 0},
    [TW_PART_Q_BIAS] = {"attn.q.bias", L(q.bias), E(Q), E(ONE), HAS(QKV_BIAS)},
    [TW_PART_K] = {"attn.k", L(k.weight), E(KV), E(DIM), 0},
    [TW_PART_K_BIAS] = {"attn.k.bias", L(k.bias), E(KV), E(ONE), HAS(QKV_BIAS)},
    [TW_PART_V] = {"attn.v", L(v.weight), E(KV), E(DIM), 0},
    [TW_PART_V_BIAS] = {"attn.v.bias", L(v.bias), E(KV), E(ONE), HAS(QKV_BIAS)},
    [TW_PART_Q_NORM] = {"attn.q_norm", L(q_norm), E(Q_NORM), E(ONE), HAS(QK_NORM)},
    [TW_PART_K_NORM] = {"attn.k_norm", L(k_norm), E(K_NORM), E(ONE), HAS(QK_NORM)},
    [TW_PART_O] = {"attn.o", L(o.weight), E(DIM), E(Q), 0},
    [TW_PART_O_BIAS] = {"attn.o.bias", L(o.bias), E(DIM), E(ONE), HAS(O_BIAS)},
    [TW_PART_ATTN_POST_NORM] = {"attn_post_norm", L(attn_post_norm.weight), E(DIM), E(ONE), HAS(POST_NORM)},
    [TW_PART_MLP_NORM] = {"mlp_norm", L(mlp_norm.weight), E(DIM), E(ONE), HAS(PRE_NORM)},
    [TW_PART_MLP_NORM_BIAS] = {"mlp_norm.bias", L(mlp_norm.bias), E(DIM), E(ONE), HAS(NORM_BIAS)},
    [TW_PART_GATE] = {"mlp.gate", L(gate.weight), E(FFN), E(DIM), HAS(DENSE) | HAS(GATE)},
    [TW_PART_GATE_BIAS] = {"mlp.gate.bias", L(gate.bias), E(FFN), E(ONE), HAS(DENSE) | HAS(GATE) | HAS(MLP_BIAS)},
    [TW_PART_UP] = {"mlp.up", L(up.weight), E(FFN), E(DIM), HAS(DENSE)},
    [TW_PART_UP_BIAS] = {"mlp.up.bias", L(up.bias), E(FFN), E(ONE), HAS(DENSE) | HAS(MLP_BIAS)},
    [TW_PART_DOWN] = {"mlp.down", L(down.weight), E(DIM), E(FFN), HAS(DENSE)},
    [TW_PART_DOWN_BIAS] = {"mlp.down.bias", L(down.bias), E(DIM), E(ONE), HAS(DENSE) | HAS(MLP_BIAS)},
    [TW_PART_MLP_POST_NORM] = {"mlp_post_norm", L(mlp_post_norm.weight), E(DIM), E(ONE), HAS(POST_NORM)},
    [TW_PART_ROUTER] = {"router", L(router), E(EXPERTS), E(DIM), HAS(EXPERTS)},
    [TW_PART_EXPERT_GATE] = {"gate", offsetof(tw_expert, gate.weight), E(EXPERT_DIM), E(DIM), HAS(EXPERTS)},
    [TW_PART_EXPERT_UP] = {"up", offsetof(tw_expert, up.weight), E(EXPERT_DIM), E(DIM), HAS(EXPERTS)},
    [TW_PART_EXPERT_DOWN] = {"down", offsetof(tw_expert, down.weight), E(DIM), E(EXPERT_DIM), HAS(EXPERTS)},
    [TW_PART_EMBED] = {"embed", M(embed), E(VOCAB), E(DIM), 0},
    [TW_PART_POSITIONS] = {"positions", M(positions), E(MAX_SEQ), E(DIM), HAS(POSITIONS)},
    [TW_PART_FINAL_NORM] = {"final_norm", M(final_norm.weight), E(DIM), E(ONE), 0},
    [TW_PART_FINAL_NORM_BIAS] = {"final_norm.bias", M(final_norm.bias), E(DIM), E(ONE), HAS(NORM_BIAS)},
    [TW_PART_HEAD] = {"head", M(head.weight), E(VOCAB), E(DIM), 0},
};

int64_t tw_model_extent(const tw_model *m, tw_extent e) {
    switch (e) {
    case TW_EXTENT_ONE:
        return 1;
    case TW_EXTENT_DIM:
        return m->dim;
    case TW_EXTENT_Q:
        return m->n_heads * m->head_dim;
    case TW_EXTENT_KV:
        return m->n_kv_heads * m->head_dim;
    case TW_EXTENT_Q_NORM:
        return m->qk_norm_whole ? m->n_heads * m->head_dim : m->head_dim;
    case TW_EXTENT_K_NORM:
        return m->qk_norm_whole ? m->n_kv_heads * m->head_dim : m->head_dim;
    case TW_EXTENT_FFN:
        return m->ffn_dim;
    case TW_EXTENT_EXPERTS:
        return m->n_experts;
    case TW_EXTENT_EXPERT_DIM:
        return m->expert_dim;
    case TW_EXTENT_VOCAB:
        return m->vocab;
    case TW_EXTENT_MAX_SEQ:
        return m->max_seq;
    }
    return 0;
}

typedef bool visitor(void *context, const tw_weight *w);

static bool each_of(const void *owner, int first, int end, visitor *visit, void *context) {
    for (int p = first; p < end; p++) {
        const tw_weight *w = (const tw_weight *)((const char *)owner + tw_parts[p].at);
        if (w->rows && !visit(context, w)) return false;
    }
    return true;
}

void tw_model_each(const tw_model *m, visitor *visit, void *context) {
    bool tied = m->head.weight.data == m->embed.data && m->head.weight.seed == m->embed.seed;
    if (!each_of(m, TW_PART_EMBED, TW_PART_COUNT - tied, visit, context)) return;
    for (int64_t i = 0; i < m->n_layers; i++) {
        const tw_layer *l = &m->layers[i];
        if (!each_of(l, 0, TW_PART_LAYER_COUNT, visit, context)) return;
        for (int64_t e = 0; l->experts && e < m->n_experts; e++)
            if (!each_of(&l->experts[e], TW_PART_LAYER_COUNT, TW_PART_EXPERT_END, visit, context)) return;
    }
}

/* The number at *s as it is written canonically, below `end`; -1 when it is none. *s moves behind the dot after it. */
static int64_t index_below(const char **s, int64_t end) {
    const char *p = *s;
    if (*p < '0' || *p > '9' || (*p == '0' && p[1] != '.')) return -1;
    int64_t n = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        n = n * 10 + (*p - '0');
        if (n >= end) return -1;
    }
    if (*p != '.') return -1;
    *s = p + 1;
    return n;
}

static const tw_weight *find_in(const void *owner, int first, int end, const char *name) {
    for (int p = first; p < end; p++)
        if (!strcmp(tw_parts[p].name, name)) {
            const tw_weight *w = (const tw_weight *)((const char *)owner + tw_parts[p].at);
            return w->rows ? w : NULL;
        }
    return NULL;
}

const tw_weight *tw_model_find(const tw_model *m, const char *name) {
    if (strncmp(name, "layers.", 7) != 0) return find_in(m, TW_PART_EMBED, TW_PART_COUNT, name);
    const char *rest = name + 7;
    int64_t layer = index_below(&rest, m->n_layers);
    if (layer < 0) return NULL;
    const tw_layer *l = &m->layers[layer];
    if (strncmp(rest, "experts.", 8) != 0) return find_in(l, 0, TW_PART_LAYER_COUNT, rest);
    rest += 8;
    int64_t e = l->experts ? index_below(&rest, m->n_experts) : -1;
    return e < 0 ? NULL : find_in(&l->experts[e], TW_PART_LAYER_COUNT, TW_PART_EXPERT_END, rest);
}
