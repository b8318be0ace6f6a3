/* SPDX-License-Identifier: Apache-2.0 */
/* The weights a model can have: one table that import, synthesis, lookup and accounting all read. */
#ifndef TW_MODEL_PARTS_H
#define TW_MODEL_PARTS_H

#include "model/model.h"

typedef enum tw_part {
    TW_PART_ATTN_NORM,
    TW_PART_ATTN_NORM_BIAS,
    TW_PART_Q,
    TW_PART_Q_BIAS,
    TW_PART_K,
    TW_PART_K_BIAS,
    TW_PART_V,
    TW_PART_V_BIAS,
    TW_PART_Q_NORM,
    TW_PART_K_NORM,
    TW_PART_O,
    TW_PART_O_BIAS,
    TW_PART_ATTN_POST_NORM,
    TW_PART_MLP_NORM,
    TW_PART_MLP_NORM_BIAS,
    TW_PART_GATE,
    TW_PART_GATE_BIAS,
    TW_PART_UP,
    TW_PART_UP_BIAS,
    TW_PART_DOWN,
    TW_PART_DOWN_BIAS,
    TW_PART_MLP_POST_NORM,
    TW_PART_ROUTER,
    TW_PART_LAYER_COUNT,
    /* of each expert */
    TW_PART_EXPERT_GATE = TW_PART_LAYER_COUNT,
    TW_PART_EXPERT_UP,
    TW_PART_EXPERT_DOWN,
    TW_PART_EXPERT_END,
    /* of the model */
    TW_PART_EMBED = TW_PART_EXPERT_END,
    TW_PART_POSITIONS,
    TW_PART_FINAL_NORM,
    TW_PART_FINAL_NORM_BIAS,
    TW_PART_HEAD,
    TW_PART_COUNT
} tw_part;

/* What a layer has beyond the bare minimum; a part is there when all its features are. */
enum {
    TW_HAS_QKV_BIAS = 1,
    TW_HAS_O_BIAS = 2,
    TW_HAS_MLP_BIAS = 4,
    TW_HAS_QK_NORM = 8,
    TW_HAS_NORM_BIAS = 16,
    TW_HAS_GATE = 32,
    TW_HAS_DENSE = 64,    /* this layer's MLP is not a mixture */
    TW_HAS_EXPERTS = 128, /* it is */
    TW_HAS_POSITIONS = 256,
    TW_HAS_PRE_NORM = 512,   /* norms of what attention and the MLP read */
    TW_HAS_POST_NORM = 1024, /* norms of what they add to the residual stream */
};

/* The parts that are weights of norms, as bits. */
static const uint64_t tw_part_norms = 1ull << TW_PART_ATTN_NORM | 1ull << TW_PART_Q_NORM | 1ull << TW_PART_K_NORM |
                                      1ull << TW_PART_ATTN_POST_NORM | 1ull << TW_PART_MLP_NORM |
                                      1ull << TW_PART_MLP_POST_NORM | 1ull << TW_PART_FINAL_NORM;

typedef enum tw_extent {
    TW_EXTENT_ONE,
    TW_EXTENT_DIM,
    TW_EXTENT_Q,      /* heads * head_dim */
    TW_EXTENT_KV,     /* kv_heads * head_dim */
    TW_EXTENT_Q_NORM, /* a norm of q: head_dim, or of all heads */
    TW_EXTENT_K_NORM,
    TW_EXTENT_FFN,
    TW_EXTENT_EXPERTS,
    TW_EXTENT_EXPERT_DIM,
    TW_EXTENT_VOCAB,
    TW_EXTENT_MAX_SEQ
} tw_extent;

typedef struct tw_part_info {
    const char *name; /* canonical, below "layers.N." and "layers.N.experts.E." */
    size_t at;        /* of the tw_weight in its tw_layer, tw_expert or tw_model */
    tw_extent rows, cols;
    unsigned needs;
} tw_part_info;

extern const tw_part_info tw_parts[TW_PART_COUNT];

int64_t tw_model_extent(const tw_model *m, tw_extent e);

static inline tw_weight *tw_part_of(void *owner, tw_part p) {
    return (tw_weight *)((char *)owner + tw_parts[p].at);
}

/* Calls `visit` with every weight the model has, a tied head once (as "embed"); stops when it returns false. */
void tw_model_each(const tw_model *m, bool (*visit)(void *context, const tw_weight *w), void *context);

#endif
