/* SPDX-License-Identifier: Apache-2.0 */
/* The model graph: what a checkpoint means, family differences resolved. Everything after import reads only this. */
#ifndef TW_MODEL_MODEL_H
#define TW_MODEL_MODEL_H

#include "base/arena.h"
#include "tilewright/model.h"

/* A matrix (or a vector: cols 1) of weights where the checkpoint keeps it; never copied. Logically rows x cols,
   y = W x, whatever the checkpoint's own order: element (r, c) is element r * row_stride + c * col_stride at `data`,
   which needs no alignment. rows == 0 means that the model has no such weight. A synthetic weight has no data:
   its elements are a function of seed and index. */
typedef struct tw_weight {
    const char *name; /* canonical, e.g. "layers.3.attn.q" (see tw_model_find) */
    tw_dtype dtype;   /* TW_F32, TW_F16, TW_BF16 */
    int64_t rows, cols;
    int64_t row_stride, col_stride; /* in elements */
    const void *data;
    uint64_t seed;
    float scale, offset; /* synthetic: offset + scale * a value in [-1, 1) */
    float plus;          /* added to each element as float: what Gemma's norms store is the weight less 1 */
} tw_weight;

typedef enum tw_norm_kind { TW_NORM_RMS, TW_NORM_LAYER } tw_norm_kind;
typedef enum tw_activation { TW_ACT_SILU, TW_ACT_GELU, TW_ACT_GELU_TANH, TW_ACT_RELU } tw_activation;

typedef enum tw_rope_kind {
    TW_ROPE_NONE,    /* learned positions, or none */
    TW_ROPE_FIXED,   /* default, linear, llama3, yarn: one table of inverse frequencies */
    TW_ROPE_DYNAMIC, /* NTK: the table depends on the length reached (tw_rope_frequencies) */
    TW_ROPE_LONG,    /* longrope: sequences of up to original_max positions have one table of frequencies, longer ones
                        another */
} tw_rope_kind;

/* Rotates the first `dims` elements of a head, halves paired: (i, i + dims/2). */
typedef struct tw_rope {
    tw_rope_kind kind;
    int64_t dims;
    float *inv_freq;        /* dims/2, as float, for lengths up to original_max */
    float attention_factor; /* multiplies cos and sin (yarn); otherwise 1 */
    double theta, factor;   /* TW_ROPE_DYNAMIC */
    int64_t original_max;   /* TW_ROPE_DYNAMIC, TW_ROPE_LONG: where stretching begins */
    float *long_inv_freq;   /* TW_ROPE_LONG: dims/2, for lengths beyond original_max */
} tw_rope;

typedef struct tw_norm {
    tw_weight weight, bias; /* vectors of dim; bias of layer norms only */
} tw_norm;

typedef struct tw_linear {
    tw_weight weight, bias;
} tw_linear;

typedef struct tw_expert {
    tw_linear gate, up, down;
} tw_expert;

/* Which of the model's ropes a layer rotates by. Only a config has TW_LAYER_NO_ROPE. */
typedef enum tw_layer_rope { TW_LAYER_ROPE, TW_LAYER_ROPE_LOCAL, TW_LAYER_NO_ROPE } tw_layer_rope;

typedef struct tw_layer {
    tw_norm attn_norm, mlp_norm;           /* of what attention and the MLP read; olmo2 has none */
    tw_norm attn_post_norm, mlp_post_norm; /* of what they add to the residual stream; gemma2, gemma3, olmo2 */
    tw_linear q, k, v, o;
    /* Before rope: vectors of head_dim, RMS per head (qwen3, gemma3), or of all heads, RMS over all (olmo2). */
    tw_weight q_norm, k_norm;
    tw_layer_rope rope;
    int64_t window; /* a position sees itself and window - 1 before it; 0: all */
    /* Dense layers: down(act(gate x) * up x), or down(act(up x)) when there is no gate. */
    tw_linear gate, up, down;
    /* Mixture layers (experts != NULL): softmax over the router, best k, weights renormalised or not. */
    tw_weight router;
    tw_expert *experts; /* model->n_experts of them */
} tw_layer;

enum { TW_EOS_MAX = 64, TW_STOP_MAX = 64 };

struct tw_model {
    tw_arena arena;
    const char *name, *family;
    struct tw_map *maps; /* the mapped shards */
    int n_maps;

    /* max_seq: max_position_embeddings, with TW_ROPE_DYNAMIC times its factor */
    int64_t n_layers, dim, n_heads, n_kv_heads, head_dim, vocab, max_seq;
    int64_t ffn_dim; /* dense layers */
    int64_t n_experts, n_experts_used, expert_dim;
    bool renormalise_experts; /* chosen experts' weights sum to 1 */
    tw_norm_kind norm;
    bool qk_norm_whole; /* norms of q and k go over all heads at once */
    float norm_eps;
    tw_activation activation;
    float attn_scale;  /* of q.k before the softmax */
    float attn_cap;    /* scores s become cap * tanh(s / cap); 0: as they are */
    float logit_cap;   /* the same of logits */
    float embed_scale; /* of the embedding's rows, 1 in most families */
    tw_rope rope;
    tw_rope rope_local; /* gemma3: that of layers with a window; smollm3: of layers without rope, which turns by
                           nothing. TW_ROPE_NONE: all layers have `rope` */

    tw_weight embed;     /* vocab x dim */
    tw_weight positions; /* max_seq x dim, learned; gpt2 */
    tw_norm final_norm;
    tw_linear head; /* vocab x dim; the same data as `embed` when tied */
    tw_layer *layers;

    int64_t bos;             /* -1: none */
    int64_t eos[TW_EOS_MAX]; /* from generation_config.json when it says, else config.json */
    int n_eos;
    /* Defaults of generation_config.json; do_sample false means greedy. */
    bool do_sample;
    double temperature, top_p, repetition_penalty; /* 1: none */
    double min_p;                                  /* 0: none */
    int64_t top_k;                                 /* 0: no limit */
    const char *stop[TW_STOP_MAX];                 /* texts that end a text; in the arena */
    int n_stop;
    int64_t parameters, weight_bytes;
};

/* True if the angles of a position depend on how long its sequence is. */
static inline bool tw_rope_moves(const tw_rope *r) {
    return r->kind == TW_ROPE_DYNAMIC || r->kind == TW_ROPE_LONG;
}

/* True if queries and keys must be normed by an instruction of its own, which has all that a norm is over: all heads, or
   a head of more rows than a product's workers hold together. */
static inline bool tw_model_norms_apart(const tw_model *m) {
    return m->qk_norm_whole || (m->layers[0].q_norm.rows && m->head_dim > 128);
}

/* The rope of a layer. NULL: it has none. */
const tw_rope *tw_model_rope(const tw_model *m, int64_t layer);

/* `count` elements of row `row` from column `col` as float. */
void tw_weight_read(const tw_weight *w, int64_t row, int64_t col, int64_t count, float *out);

/* The same as stored (dtype of the weight): what packing a tape copies. `out` has room for count elements. */
void tw_weight_read_raw(const tw_weight *w, int64_t row, int64_t col, int64_t count, void *out);

/* By canonical name: "embed", "positions", "head", "final_norm", "layers.N.attn.q|k|v|o",
   "layers.N.mlp.gate|up|down", "layers.N.router", "layers.N.experts.E.gate|up|down", "layers.N.attn.q_norm|k_norm",
   "layers.N.attn_norm", "layers.N.mlp_norm", "layers.N.attn_post_norm", "layers.N.mlp_post_norm"; a bias is its
   weight's name and ".bias". NULL when there is none. */
const tw_weight *tw_model_find(const tw_model *m, const char *name);

/* Inverse frequencies (dims/2 of them) for a sequence that has reached `length` positions. transformers rotates the
   keys and queries of one call by the length that call reaches, and keeps cached keys as they are: to agree with it
   beyond original_max, a prompt is rotated for its whole length, and each later token for its own. */
void tw_rope_frequencies(const tw_rope *r, int64_t length, float *inv_freq);

#endif
