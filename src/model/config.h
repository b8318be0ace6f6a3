/* SPDX-License-Identifier: Apache-2.0 */
/* config.json and generation_config.json, as transformers 4 and 5 write them. */
#ifndef TW_MODEL_CONFIG_H
#define TW_MODEL_CONFIG_H

#include "model/parts.h"
#include "model/reasons.h"
#include "model/rope.h"

typedef enum tw_family {
    TW_FAMILY_LLAMA,
    TW_FAMILY_MISTRAL,
    TW_FAMILY_QWEN2,
    TW_FAMILY_QWEN3,
    TW_FAMILY_MIXTRAL,
    TW_FAMILY_QWEN3_MOE,
    TW_FAMILY_GPT2,
    TW_FAMILY_GEMMA,
    TW_FAMILY_GEMMA2,
    TW_FAMILY_GEMMA3,
    TW_FAMILY_PHI3,
    TW_FAMILY_SMOLLM3,
    TW_FAMILY_OLMO2,
    TW_FAMILY_COUNT
} tw_family;

enum { TW_LAYERS_MAX = 4096 };

typedef struct tw_config {
    tw_family family;
    int64_t n_layers, dim, n_heads, n_kv_heads, head_dim, vocab, max_seq, ffn_dim;
    int64_t n_experts, n_experts_used, expert_dim;
    int64_t sparse_step; /* every sparse_step-th layer is a mixture */
    double norm_eps;
    tw_activation activation;
    bool attention_bias, mlp_bias, tied, renormalise_experts;
    bool use_window;
    int64_t window; /* 0: none */
    int64_t first_windowed;
    int64_t window_pattern; /* every window_pattern-th layer is without a window; 0: not so */
    bool scale_attn;
    int64_t query_scalar;       /* scores are multiplied by 1 / sqrt(query_scalar); 0: by 1 / sqrt(head_dim) */
    double attn_cap, logit_cap; /* 0: none */
    tw_rope_spec rope;
    tw_rope_spec rope_local;  /* of layers with a window; gemma3 */
    int64_t original_max;     /* original_max_position_embeddings beside rope_scaling; 0: it is not there */
    double partial;           /* share of a head that rope rotates */
    int64_t no_rope_interval; /* every no_rope_interval-th layer has no rope; 0: all have */
    int64_t bos;
    int64_t eos[TW_EOS_MAX];
    int n_eos;
    bool do_sample;
    double temperature, top_p, min_p, repetition_penalty;
    int64_t top_k;
    const char *stop[TW_STOP_MAX]; /* in the arena */
    int n_stop;
    /* Exceptions by layer, when the config lists them; NULL otherwise. In the arena. */
    unsigned char *windowed; /* n_layers of 0 or 1 */
    unsigned char *dense;    /* n_layers of 0 or 1: listed as no mixture */
    unsigned char *ropeless; /* n_layers of 0 or 1: without rope */
} tw_config;

const char *tw_family_name(tw_family f);
const char *tw_family_architecture(tw_family f); /* the one class that is accepted */

/* What transformers takes for keys that are absent. */
void tw_config_defaults(tw_config *c, tw_family f);

/* Reads config.json. Malformed JSON is returned at once, located in `path`; whatever is not understood becomes a
   reason. *usable says whether the sizes are good enough to look at the weights, so that their faults can be told
   together with the config's. */
tw_status tw_config_parse(tw_config *c, tw_arena *arena, const char *text, size_t size, const char *path,
                          tw_reasons *reasons, bool *usable);

/* Reads generation_config.json on top. Only what ends a text and the sampling defaults matter; the rest is not
   arithmetic of the model. */
tw_status tw_config_parse_generation(tw_config *c, tw_arena *arena, const char *text, size_t size, const char *path,
                                     tw_reasons *reasons);

/* TW_HAS_* of a layer. */
unsigned tw_config_features(const tw_config *c, int64_t layer);
int64_t tw_config_window(const tw_config *c, int64_t layer);
tw_layer_rope tw_config_rope(const tw_config *c, int64_t layer);
bool tw_config_is_gemma(const tw_config *c); /* scales its embedding, and stores norms less 1 */

/* The model that the config describes, its layers empty. False when the arena has failed. */
bool tw_config_apply(const tw_config *c, tw_model *m);

#endif
