/* SPDX-License-Identifier: Apache-2.0 */
/* Models of well-known shapes with random weights that are made as they are read. */
#include "model/config.h"

#include "base/diag.h"
#include "base/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct known {
    const char *name;
    tw_family family;
    int64_t layers, dim, heads, kv_heads, head_dim, ffn, vocab, max_seq;
    bool tied;
    double eps, theta;
    double llama3_factor; /* 0: the plain rope */
    int64_t experts, experts_used, expert_dim;
} known;

static const known shapes[] = {
    {"llama-1b", TW_FAMILY_LLAMA, 16, 2048, 32, 8, 64, 8192, 128256, 131072, true, 1e-5, 5e5, 32, 0, 0, 0},
    {"llama-3b", TW_FAMILY_LLAMA, 28, 3072, 24, 8, 128, 8192, 128256, 131072, true, 1e-5, 5e5, 32, 0, 0, 0},
    {"llama-8b", TW_FAMILY_LLAMA, 32, 4096, 32, 8, 128, 14336, 128256, 131072, false, 1e-5, 5e5, 8, 0, 0, 0},
    {"qwen2-0.5b", TW_FAMILY_QWEN2, 24, 896, 14, 2, 64, 4864, 151936, 131072, true, 1e-6, 1e6, 0, 0, 0, 0},
    {"qwen2-1.5b", TW_FAMILY_QWEN2, 28, 1536, 12, 2, 128, 8960, 151936, 131072, true, 1e-6, 1e6, 0, 0, 0, 0},
    {"qwen3-0.6b", TW_FAMILY_QWEN3, 28, 1024, 16, 8, 128, 3072, 151936, 40960, true, 1e-6, 1e6, 0, 0, 0, 0},
    {"qwen3-1.7b", TW_FAMILY_QWEN3, 28, 2048, 16, 8, 128, 6144, 151936, 40960, true, 1e-6, 1e6, 0, 0, 0, 0},
    {"qwen3-4b", TW_FAMILY_QWEN3, 36, 2560, 32, 8, 128, 9728, 151936, 40960, true, 1e-6, 1e6, 0, 0, 0, 0},
    {"qwen3-30b-a3b", TW_FAMILY_QWEN3_MOE, 48, 2048, 32, 4, 128, 6144, 151936, 40960, false, 1e-6, 1e6, 0, 128, 8, 768},
    {"mistral-7b", TW_FAMILY_MISTRAL, 32, 4096, 32, 8, 128, 14336, 32768, 32768, false, 1e-5, 1e6, 0, 0, 0, 0},
    {"smollm2-135m", TW_FAMILY_LLAMA, 30, 576, 9, 3, 64, 1536, 49152, 8192, true, 1e-5, 1e5, 0, 0, 0, 0},
    {"smollm2-360m", TW_FAMILY_LLAMA, 32, 960, 15, 5, 64, 2560, 49152, 8192, true, 1e-5, 1e5, 0, 0, 0, 0},
    {"tinyllama-1.1b", TW_FAMILY_LLAMA, 22, 2048, 32, 4, 64, 5632, 32000, 2048, false, 1e-5, 1e4, 0, 0, 0, 0},
    {"gemma2-2b", TW_FAMILY_GEMMA2, 26, 2304, 8, 4, 256, 9216, 256000, 8192, true, 1e-6, 1e4, 0, 0, 0, 0},
    {"gemma3-1b", TW_FAMILY_GEMMA3, 26, 1152, 4, 1, 256, 6912, 262144, 32768, true, 1e-6, 1e6, 0, 0, 0, 0},
    {"phi3-mini", TW_FAMILY_PHI3, 32, 3072, 32, 32, 96, 8192, 32064, 4096, false, 1e-5, 1e4, 0, 0, 0, 0},
    {"smollm3-3b", TW_FAMILY_SMOLLM3, 36, 2048, 16, 4, 128, 11008, 128256, 65536, true, 1e-6, 5e6, 0, 0, 0, 0},
    {"olmo2-1b", TW_FAMILY_OLMO2, 16, 2048, 16, 16, 128, 8192, 100352, 4096, false, 1e-6, 5e5, 0, 0, 0, 0},
    {"gpt2", TW_FAMILY_GPT2, 12, 768, 12, 12, 64, 3072, 50257, 1024, true, 1e-5, 0, 0, 0, 0, 0},
    {"llama-tiny", TW_FAMILY_LLAMA, 2, 64, 4, 2, 16, 160, 256, 256, true, 1e-5, 1e4, 0, 0, 0, 0},
    {"gpt2-tiny", TW_FAMILY_GPT2, 2, 64, 4, 4, 16, 256, 256, 256, true, 1e-5, 0, 0, 0, 0, 0},
    {"qwen3-tiny", TW_FAMILY_QWEN3, 2, 64, 8, 1, 128, 160, 256, 256, true, 1e-6, 1e4, 0, 0, 0, 0},
    {"qwen3-moe-tiny", TW_FAMILY_QWEN3_MOE, 3, 64, 4, 2, 32, 96, 256, 256, false, 1e-6, 1e4, 0, 16, 4, 32},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

const char *tw_model_shape_name(int i) {
    return i >= 0 && i < N_SHAPES ? shapes[i].name : NULL;
}

static void describe(tw_config *c, const known *s) {
    tw_config_defaults(c, s->family);
    c->n_layers = s->layers;
    c->dim = s->dim;
    c->n_heads = s->heads;
    c->n_kv_heads = s->kv_heads;
    c->head_dim = s->head_dim;
    c->ffn_dim = s->ffn;
    c->vocab = s->vocab;
    c->max_seq = s->max_seq;
    c->tied = s->tied;
    c->norm_eps = s->eps;
    c->n_experts = s->experts;
    c->n_experts_used = s->experts_used;
    c->expert_dim = s->expert_dim;
    c->renormalise_experts = s->experts > 0;
    if (s->family != TW_FAMILY_GEMMA2 && s->family != TW_FAMILY_GEMMA3) c->window = 0; /* The others do not slide. */
    if (s->family == TW_FAMILY_GEMMA3) c->window = 512;
    c->bos = -1; /* nor should random text end by chance */
    c->n_eos = 0;
    c->rope.dims = c->rope_local.dims = s->head_dim;
    c->rope.theta = s->theta;
    if (s->llama3_factor > 0) {
        c->rope.type = TW_ROPE_TYPE_LLAMA3;
        c->rope.factor = s->llama3_factor;
        c->rope.low_freq = 1;
        c->rope.high_freq = 4;
        c->rope.original_max = 8192;
    }
}

/* Norms stand around 1, biases around 0; matrices keep the size of what they multiply: a uniform value in [-1, 1) has
   deviation 0.58, so a scale near 1.7 / sqrt(cols) keeps the variance, and a power of two is exact in every type. */
static void values_of(tw_weight *w, bool norm) {
    w->offset = norm ? 1.0f : 0.0f;
    w->scale = w->cols == 1 ? 0x1p-4f : exp2f(floorf(log2f(1.7f / sqrtf((float)w->cols))));
}

typedef struct maker {
    tw_model *m;
    tw_dtype dtype;
    uint64_t seeds;
} maker;

static void make_part(maker *k, void *owner, tw_part part, const char *name) {
    tw_weight *w = tw_part_of(owner, part);
    *w = (tw_weight){.name = name, .dtype = k->dtype, .seed = tw_splitmix64(&k->seeds)};
    w->rows = tw_model_extent(k->m, tw_parts[part].rows);
    w->cols = tw_model_extent(k->m, tw_parts[part].cols);
    w->row_stride = w->cols;
    w->col_stride = 1;
    values_of(w, tw_part_norms >> part & 1);
    k->m->parameters += w->rows * w->cols;
}

static void make_layer(maker *k, const tw_config *c, int64_t layer) {
    tw_model *m = k->m;
    tw_layer *l = &m->layers[layer];
    unsigned features = tw_config_features(c, layer);
    for (int part = 0; part < TW_PART_LAYER_COUNT; part++)
        if (!(tw_parts[part].needs & ~features))
            make_part(k, l, (tw_part)part,
                      tw_arena_printf(&m->arena, "layers.%lld.%s", (long long)layer, tw_parts[part].name));
    if (!(features & TW_HAS_EXPERTS)) return;
    l->experts = tw_arena_array(&m->arena, (size_t)m->n_experts, sizeof *l->experts);
    for (int64_t e = 0; l->experts && e < m->n_experts; e++)
        for (int part = TW_PART_EXPERT_GATE; part < TW_PART_EXPERT_END; part++)
            make_part(k, &l->experts[e], (tw_part)part,
                      tw_arena_printf(&m->arena, "layers.%lld.experts.%lld.%s", (long long)layer, (long long)e,
                                      tw_parts[part].name));
}

static bool make_model(tw_model *m, const tw_config *c, const char *name, tw_dtype dtype, uint64_t seed) {
    maker k = {m, dtype, seed};
    m->name = name;
    if (!tw_config_apply(c, m)) return false;
    unsigned features = tw_config_features(c, 0);
    for (int part = TW_PART_EMBED; part < TW_PART_COUNT; part++)
        if (!(tw_parts[part].needs & ~features) && !(part == TW_PART_HEAD && c->tied))
            make_part(&k, m, (tw_part)part, tw_parts[part].name);
    if (c->tied) {
        m->head.weight = m->embed;
        m->head.weight.name = tw_parts[TW_PART_HEAD].name;
    }
    for (int64_t i = 0; i < c->n_layers; i++) make_layer(&k, c, i);
    m->weight_bytes = m->parameters * (int64_t)(tw_dtype_bits(dtype) / 8);
    return !m->arena.failed;
}

static tw_status unknown_shape(const char *name, tw_diag *diag) {
    char list[512] = "";
    for (int i = 0; i < N_SHAPES; i++) {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", shapes[i].name);
    }
    return tw_fail(diag, TW_ERR_USAGE, "no shape is called %s; there are %s", name, list);
}

tw_status tw_model_synthetic(tw_model **out, const char *shape, tw_dtype dtype, uint64_t seed, tw_diag *diag) {
    *out = NULL;
    tw_diag_clear(diag);
    if (dtype != TW_F32 && dtype != TW_F16 && dtype != TW_BF16)
        return tw_fail(diag, TW_ERR_USAGE, "%s is not a type of weights; f32, f16 and bf16 are", tw_dtype_name(dtype));
    for (int i = 0; i < N_SHAPES; i++) {
        if (strcmp(shapes[i].name, shape) != 0) continue;
        tw_model *m = calloc(1, sizeof *m);
        if (!m) return tw_fail_memory(diag);
        tw_config c;
        describe(&c, &shapes[i]);
        if (!make_model(m, &c, shapes[i].name, dtype, seed)) {
            tw_model_close(m);
            return tw_fail_memory(diag);
        }
        *out = m;
        return TW_OK;
    }
    return unknown_shape(shape, diag);
}
