/* SPDX-License-Identifier: Apache-2.0 */
/* The families: what transformers takes for granted in each, and what a config means for a layer. */
#include "model/config.h"

#include <math.h>
#include <string.h>

/* What the config classes of transformers fill in. Widths left at 0 follow from others. */
static const struct {
    const char *name, *architecture;
    int64_t vocab, dim, ffn_dim, n_layers, n_heads, n_kv_heads, head_dim, max_seq;
    int64_t n_experts, n_experts_used, expert_dim;
    double norm_eps, theta;
    tw_activation activation;
    bool tied, renormalise_experts;
    int64_t window, bos, eos;
    int64_t window_pattern, no_rope_interval, query_scalar, original_max;
    double attn_cap, logit_cap;
} families[TW_FAMILY_COUNT] = {
    [TW_FAMILY_LLAMA] =
        {
            .name = "llama",
            .architecture = "LlamaForCausalLM",
            .vocab = 32000,
            .dim = 4096,
            .ffn_dim = 11008,
            .n_layers = 32,
            .n_heads = 32,
            .max_seq = 2048,
            .norm_eps = 1e-6,
            .theta = 10000,
            .activation = TW_ACT_SILU,
            .bos = 1,
            .eos = 2,
        },
    [TW_FAMILY_MISTRAL] =
        {
            .name = "mistral",
            .architecture = "MistralForCausalLM",
            .vocab = 32000,
            .dim = 4096,
            .ffn_dim = 14336,
            .n_layers = 32,
            .n_heads = 32,
            .n_kv_heads = 8,
            .max_seq = 131072,
            .norm_eps = 1e-6,
            .theta = 10000,
            .activation = TW_ACT_SILU,
            .window = 4096,
            .bos = 1,
            .eos = 2,
        },
    [TW_FAMILY_QWEN2] =
        {
            .name = "qwen2",
            .architecture = "Qwen2ForCausalLM",
            .vocab = 151936,
            .dim = 4096,
            .ffn_dim = 22016,
            .n_layers = 32,
            .n_heads = 32,
            .n_kv_heads = 32,
            .max_seq = 32768,
            .norm_eps = 1e-6,
            .theta = 10000,
            .activation = TW_ACT_SILU,
            .window = 4096,
            .bos = -1,
            .eos = -1,
        },
    [TW_FAMILY_QWEN3] =
        {
            .name = "qwen3",
            .architecture = "Qwen3ForCausalLM",
            .vocab = 151936,
            .dim = 4096,
            .ffn_dim = 22016,
            .n_layers = 32,
            .n_heads = 32,
            .n_kv_heads = 32,
            .head_dim = 128,
            .max_seq = 32768,
            .norm_eps = 1e-6,
            .theta = 10000,
            .activation = TW_ACT_SILU,
            .window = 4096,
            .bos = -1,
            .eos = -1,
        },
    [TW_FAMILY_MIXTRAL] =
        {
            .name = "mixtral",
            .architecture = "MixtralForCausalLM",
            .vocab = 32000,
            .dim = 4096,
            .ffn_dim = 14336,
            .n_layers = 32,
            .n_heads = 32,
            .n_kv_heads = 8,
            .max_seq = 131072,
            .n_experts = 8,
            .n_experts_used = 2,
            .norm_eps = 1e-5,
            .theta = 1000000,
            .activation = TW_ACT_SILU,
            .renormalise_experts = true,
            .bos = 1,
            .eos = 2,
        },
    [TW_FAMILY_QWEN3_MOE] =
        {
            .name = "qwen3_moe",
            .architecture = "Qwen3MoeForCausalLM",
            .vocab = 151936,
            .dim = 2048,
            .ffn_dim = 6144,
            .n_layers = 24,
            .n_heads = 32,
            .n_kv_heads = 4,
            .max_seq = 32768,
            .n_experts = 128,
            .n_experts_used = 8,
            .expert_dim = 768,
            .norm_eps = 1e-6,
            .theta = 10000,
            .activation = TW_ACT_SILU,
            .window = 4096,
            .bos = -1,
            .eos = -1,
        },
    [TW_FAMILY_GPT2] =
        {
            .name = "gpt2",
            .architecture = "GPT2LMHeadModel",
            .vocab = 50257,
            .dim = 768,
            .n_layers = 12,
            .n_heads = 12,
            .max_seq = 1024,
            .norm_eps = 1e-5,
            .activation = TW_ACT_GELU_TANH,
            .tied = true,
            .bos = 50256,
            .eos = 50256,
        },
    [TW_FAMILY_GEMMA] =
        {
            .name = "gemma",
            .architecture = "GemmaForCausalLM",
            .vocab = 256000,
            .dim = 3072,
            .ffn_dim = 24576,
            .n_layers = 28,
            .n_heads = 16,
            .n_kv_heads = 16,
            .head_dim = 256,
            .max_seq = 8192,
            .norm_eps = 1e-6,
            .theta = 10000,
            .activation = TW_ACT_GELU_TANH,
            .tied = true,
            .bos = 2,
            .eos = 1,
        },
    [TW_FAMILY_GEMMA2] =
        {
            .name = "gemma2",
            .architecture = "Gemma2ForCausalLM",
            .vocab = 256000,
            .dim = 2304,
            .ffn_dim = 9216,
            .n_layers = 26,
            .n_heads = 8,
            .n_kv_heads = 4,
            .head_dim = 256,
            .max_seq = 8192,
            .norm_eps = 1e-6,
            .theta = 10000,
            .activation = TW_ACT_GELU_TANH,
            .tied = true,
            .window = 4096,
            .window_pattern = 2,
            .query_scalar = 256,
            .attn_cap = 50,
            .logit_cap = 30,
            .bos = 2,
            .eos = 1,
        },
    [TW_FAMILY_GEMMA3] =
        {
            .name = "gemma3_text",
            .architecture = "Gemma3ForCausalLM",
            .vocab = 262208,
            .dim = 2304,
            .ffn_dim = 9216,
            .n_layers = 26,
            .n_heads = 8,
            .n_kv_heads = 4,
            .head_dim = 256,
            .max_seq = 131072,
            .norm_eps = 1e-6,
            .theta = 1000000,
            .activation = TW_ACT_GELU_TANH,
            .tied = true,
            .window = 4096,
            .window_pattern = 6,
            .query_scalar = 256,
            .bos = 2,
            .eos = 1,
        },
    [TW_FAMILY_PHI3] =
        {
            .name = "phi3",
            .architecture = "Phi3ForCausalLM",
            .vocab = 32064,
            .dim = 3072,
            .ffn_dim = 8192,
            .n_layers = 32,
            .n_heads = 32,
            .max_seq = 4096,
            .original_max = 4096,
            .norm_eps = 1e-5,
            .theta = 10000,
            .activation = TW_ACT_SILU,
            .bos = 1,
            .eos = 32000,
        },
    [TW_FAMILY_SMOLLM3] =
        {
            .name = "smollm3",
            .architecture = "SmolLM3ForCausalLM",
            .vocab = 128256,
            .dim = 2048,
            .ffn_dim = 11008,
            .n_layers = 36,
            .n_heads = 16,
            .n_kv_heads = 4,
            .max_seq = 32768,
            .norm_eps = 1e-6,
            .theta = 2000000,
            .activation = TW_ACT_SILU,
            .tied = true,
            .no_rope_interval = 4,
            .bos = 128000,
            .eos = 128001,
        },
    [TW_FAMILY_OLMO2] =
        {
            .name = "olmo2",
            .architecture = "Olmo2ForCausalLM",
            .vocab = 50304,
            .dim = 4096,
            .ffn_dim = 11008,
            .n_layers = 32,
            .n_heads = 32,
            .max_seq = 2048,
            .norm_eps = 1e-5,
            .theta = 10000,
            .activation = TW_ACT_SILU,
            .bos = -1,
            .eos = 50279,
        },
};

const char *tw_family_name(tw_family f) {
    return families[f].name;
}

const char *tw_family_architecture(tw_family f) {
    return families[f].architecture;
}

void tw_config_defaults(tw_config *c, tw_family f) {
    *c = (tw_config){
        .family = f,
        .vocab = families[f].vocab,
        .dim = families[f].dim,
        .ffn_dim = families[f].ffn_dim,
        .n_layers = families[f].n_layers,
        .n_heads = families[f].n_heads,
        .n_kv_heads = families[f].n_kv_heads,
        .head_dim = families[f].head_dim,
        .max_seq = families[f].max_seq,
        .n_experts = families[f].n_experts,
        .n_experts_used = families[f].n_experts_used,
        .expert_dim = families[f].expert_dim,
        .sparse_step = 1,
        .norm_eps = families[f].norm_eps,
        .activation = families[f].activation,
        .tied = families[f].tied,
        .renormalise_experts = families[f].renormalise_experts,
        .use_window = f == TW_FAMILY_MISTRAL || f == TW_FAMILY_MIXTRAL || f == TW_FAMILY_GEMMA2 ||
                      f == TW_FAMILY_GEMMA3 || f == TW_FAMILY_PHI3,
        .window = families[f].window,
        .first_windowed = f == TW_FAMILY_QWEN2 || f == TW_FAMILY_QWEN3 ? 28 : 0,
        .window_pattern = families[f].window_pattern,
        .scale_attn = true,
        .query_scalar = families[f].query_scalar,
        .attn_cap = families[f].attn_cap,
        .logit_cap = families[f].logit_cap,
        .original_max = families[f].original_max,
        .partial = 1,
        .no_rope_interval = families[f].no_rope_interval,
        .bos = families[f].bos,
        .eos = {families[f].eos},
        .n_eos = families[f].eos >= 0,
        .temperature = 1,
        .top_p = 1,
        .repetition_penalty = 1,
        .top_k = 50,
    };
    c->rope = (tw_rope_spec){
        .theta = families[f].theta, .beta_fast = 32, .beta_slow = 1, .attention_factor = -1, .truncate = true};
    c->rope_local = c->rope;
    c->rope_local.theta = 10000;
}

bool tw_config_is_gemma(const tw_config *c) {
    return c->family == TW_FAMILY_GEMMA || c->family == TW_FAMILY_GEMMA2 || c->family == TW_FAMILY_GEMMA3;
}

unsigned tw_config_features(const tw_config *c, int64_t layer) {
    static const unsigned gpt2 = TW_HAS_QKV_BIAS | TW_HAS_O_BIAS | TW_HAS_MLP_BIAS | TW_HAS_NORM_BIAS | TW_HAS_DENSE |
                                 TW_HAS_POSITIONS | TW_HAS_PRE_NORM;
    if (c->family == TW_FAMILY_GPT2) return gpt2;
    const bool gemma = c->family == TW_FAMILY_GEMMA2 || c->family == TW_FAMILY_GEMMA3;
    unsigned f = TW_HAS_GATE;
    if (c->family != TW_FAMILY_OLMO2) f |= TW_HAS_PRE_NORM;
    if (gemma || c->family == TW_FAMILY_OLMO2) f |= TW_HAS_POST_NORM;
    if (c->attention_bias) f |= TW_HAS_QKV_BIAS | TW_HAS_O_BIAS;
    if (c->family == TW_FAMILY_QWEN2) f |= TW_HAS_QKV_BIAS;
    if (c->family == TW_FAMILY_QWEN3 || c->family == TW_FAMILY_QWEN3_MOE || c->family == TW_FAMILY_GEMMA3 ||
        c->family == TW_FAMILY_OLMO2)
        f |= TW_HAS_QK_NORM;
    if (c->mlp_bias) f |= TW_HAS_MLP_BIAS;
    bool sparse = c->n_experts && !(c->dense && c->dense[layer]) && (layer + 1) % c->sparse_step == 0;
    return f | (sparse ? TW_HAS_EXPERTS : TW_HAS_DENSE);
}

int64_t tw_config_window(const tw_config *c, int64_t layer) {
    bool slides = c->windowed         ? c->windowed[layer]
                  : c->window_pattern ? (layer + 1) % c->window_pattern != 0
                                      : layer >= c->first_windowed;
    return slides ? c->window : 0;
}

tw_layer_rope tw_config_rope(const tw_config *c, int64_t layer) {
    bool without = c->ropeless ? c->ropeless[layer] : c->no_rope_interval && (layer + 1) % c->no_rope_interval == 0;
    if (without) return TW_LAYER_NO_ROPE;
    return c->family == TW_FAMILY_GEMMA3 && tw_config_window(c, layer) ? TW_LAYER_ROPE_LOCAL : TW_LAYER_ROPE;
}

static void apply_sampling(const tw_config *c, tw_model *m) {
    m->bos = c->bos;
    m->n_eos = c->n_eos;
    for (int i = 0; i < c->n_eos; i++) m->eos[i] = c->eos[i];
    m->do_sample = c->do_sample;
    m->temperature = c->temperature;
    m->top_p = c->top_p;
    m->repetition_penalty = c->repetition_penalty;
    m->min_p = c->min_p;
    m->top_k = c->top_k;
    m->n_stop = c->n_stop;
    memcpy(m->stop, c->stop, sizeof m->stop);
}

bool tw_config_apply(const tw_config *c, tw_model *m) {
    m->family = families[c->family].name;
    m->n_layers = c->n_layers;
    m->dim = c->dim;
    m->n_heads = c->n_heads;
    m->n_kv_heads = c->n_kv_heads;
    m->head_dim = c->head_dim;
    m->vocab = c->vocab;
    m->max_seq = c->max_seq;
    m->ffn_dim = c->ffn_dim;
    m->n_experts = c->n_experts;
    m->n_experts_used = c->n_experts_used;
    m->expert_dim = c->expert_dim;
    m->renormalise_experts = c->renormalise_experts;
    m->norm = c->family == TW_FAMILY_GPT2 ? TW_NORM_LAYER : TW_NORM_RMS;
    m->norm_eps = (float)c->norm_eps;
    m->activation = c->activation;
    m->qk_norm_whole = c->family == TW_FAMILY_OLMO2;
    m->attn_scale = c->scale_attn ? (float)(1 / sqrt((double)(c->query_scalar ? c->query_scalar : c->head_dim))) : 1.0f;
    m->attn_cap = (float)c->attn_cap;
    m->logit_cap = (float)c->logit_cap;
    m->embed_scale = tw_config_is_gemma(c) ? (float)sqrt((double)c->dim) : 1.0f;
    apply_sampling(c, m);
    m->rope = m->rope_local = (tw_rope){.kind = TW_ROPE_NONE, .attention_factor = 1};
    if (c->family != TW_FAMILY_GPT2 && !tw_rope_init(&m->rope, &m->arena, &c->rope)) return false;
    if (c->family == TW_FAMILY_GEMMA3 && !tw_rope_init(&m->rope_local, &m->arena, &c->rope_local)) return false;
    /* What "dynamic" is for: going on beyond the trained length. */
    if (m->rope.kind == TW_ROPE_DYNAMIC) m->max_seq = (int64_t)fmin((double)m->max_seq * c->rope.factor, 1 << 30);
    m->layers = tw_arena_array(&m->arena, (size_t)m->n_layers, sizeof *m->layers);
    for (int64_t i = 0; m->layers && i < m->n_layers; i++) {
        m->layers[i].window = tw_config_window(c, i);
        m->layers[i].rope = tw_config_rope(c, i);
        if (m->layers[i].rope != TW_LAYER_NO_ROPE) continue;
        /* One way of storing heads for all layers: those without rope turn by nothing. */
        m->layers[i].rope = TW_LAYER_ROPE_LOCAL;
        if (m->rope_local.kind == TW_ROPE_NONE && !tw_rope_init_still(&m->rope_local, &m->arena, m->rope.dims))
            return false;
    }
    return m->layers != NULL;
}
