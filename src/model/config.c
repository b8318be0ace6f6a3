/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config.h"

#include <math.h>
#include <string.h>

enum {
    LLAMA = 1 << TW_FAMILY_LLAMA,
    MISTRAL = 1 << TW_FAMILY_MISTRAL,
    QWEN2 = 1 << TW_FAMILY_QWEN2,
    QWEN3 = 1 << TW_FAMILY_QWEN3,
    MIXTRAL = 1 << TW_FAMILY_MIXTRAL,
    QWEN3_MOE = 1 << TW_FAMILY_QWEN3_MOE,
    GPT2 = 1 << TW_FAMILY_GPT2,
    GEMMA = 1 << TW_FAMILY_GEMMA,
    GEMMA2 = 1 << TW_FAMILY_GEMMA2,
    GEMMA3 = 1 << TW_FAMILY_GEMMA3,
    PHI3 = 1 << TW_FAMILY_PHI3,
    SMOLLM3 = 1 << TW_FAMILY_SMOLLM3,
    OLMO2 = 1 << TW_FAMILY_OLMO2,
    GEMMAS = GEMMA | GEMMA2 | GEMMA3,
    ALL = (1 << TW_FAMILY_COUNT) - 1,
    ROPED = ALL & ~GPT2,
    SLIDING = ROPED & ~(LLAMA | GEMMA | OLMO2),           /* may have a window */
    BY_LAYER = QWEN2 | QWEN3 | GEMMA2 | GEMMA3 | SMOLLM3, /* in some layers and not in others */
    SHOWN = 96                                            /* bytes of a value in a message */
};

static const struct {
    const char *name;
    tw_activation value;
} activations[] = {
    {"silu", TW_ACT_SILU},        {"swish", TW_ACT_SILU},         {"gelu", TW_ACT_GELU},
    {"gelu_python", TW_ACT_GELU}, {"gelu_new", TW_ACT_GELU_TANH}, {"gelu_pytorch_tanh", TW_ACT_GELU_TANH},
    {"relu", TW_ACT_RELU},
};

typedef enum kind {
    INT,  /* in [lo, hi] */
    REAL, /* in [lo, hi] */
    BOOL,
    FALSE_, /* must be false */
    EMPTY,  /* must be an empty list or object */
    READ,   /* a function of its own reads it */
    IGNORED /* known not to change what a token's logits are */
} kind;

/* nullable: null means 0 for numbers, and leaves other kinds at their default */
#define AT(field) offsetof(tw_config, field)
#define NULLABLE  true
typedef struct key {
    const char *name;
    unsigned families;
    kind kind;
    size_t at;
    double lo, hi;
    bool nullable;
} key;

static const key keys[] = {
    {"vocab_size", ALL, INT, AT(vocab), 1, 1 << 24, false},
    {"hidden_size", ROPED, INT, AT(dim), 1, 1 << 20, false},
    {"intermediate_size", ROPED, INT, AT(ffn_dim), 1, 1 << 24, false},
    {"num_hidden_layers", ROPED, INT, AT(n_layers), 1, TW_LAYERS_MAX, false},
    {"num_attention_heads", ROPED, INT, AT(n_heads), 1, 1 << 14, false},
    {"num_key_value_heads", ROPED & ~(QWEN3_MOE | GEMMAS), INT, AT(n_kv_heads), 1, 1 << 14, NULLABLE},
    {"num_key_value_heads", QWEN3_MOE | GEMMAS, INT, AT(n_kv_heads), 1, 1 << 14, false},
    {"head_dim", ROPED & ~(QWEN3 | GEMMAS), INT, AT(head_dim), 2, 1 << 14, NULLABLE},
    {"head_dim", QWEN3 | GEMMAS, INT, AT(head_dim), 2, 1 << 14, false},
    {"max_position_embeddings", ROPED, INT, AT(max_seq), 1, 1 << 30, false},
    {"rms_norm_eps", ROPED, REAL, AT(norm_eps), 1e-30, 1, false},
    {"attention_bias", LLAMA | QWEN3 | QWEN3_MOE | GEMMAS | SMOLLM3 | OLMO2, BOOL, AT(attention_bias), 0, 0, false},
    {"attention_bias", MISTRAL | MIXTRAL | PHI3, FALSE_, 0, 0, 0, false},
    {"mlp_bias", LLAMA | SMOLLM3, BOOL, AT(mlp_bias), 0, 0, false},
    {"tie_word_embeddings", ALL, BOOL, AT(tied), 0, 0, false},
    {"sliding_window", SLIDING, INT, AT(window), 1, 1 << 30, NULLABLE},
    {"use_sliding_window", QWEN2 | QWEN3 | QWEN3_MOE | SMOLLM3, BOOL, AT(use_window), 0, 0, false},
    {"max_window_layers", QWEN2 | QWEN3 | QWEN3_MOE, INT, AT(first_windowed), 0, 1 << 20, false},
    {"sliding_window_pattern", GEMMA3, INT, AT(window_pattern), 1, 1 << 20, false},
    {"query_pre_attn_scalar", GEMMA2 | GEMMA3, INT, AT(query_scalar), 1, 1 << 24, false},
    {"attn_logit_softcapping", GEMMA2, REAL, AT(attn_cap), 1e-6, 1e6, NULLABLE},
    {"final_logit_softcapping", GEMMA2 | GEMMA3, REAL, AT(logit_cap), 1e-6, 1e6, NULLABLE},
    {"original_max_position_embeddings", PHI3, INT, AT(original_max), 1, 1 << 30, false},
    {"no_rope_layer_interval", SMOLLM3, INT, AT(no_rope_interval), 1, 1 << 20, false},
    {"num_local_experts", MIXTRAL | QWEN3_MOE, INT, AT(n_experts), 1, 4096, false},
    {"num_experts", MIXTRAL | QWEN3_MOE, INT, AT(n_experts), 1, 4096, false},
    {"num_experts_per_tok", MIXTRAL | QWEN3_MOE, INT, AT(n_experts_used), 1, 4096, false},
    {"moe_intermediate_size", QWEN3_MOE, INT, AT(expert_dim), 1, 1 << 24, false},
    {"decoder_sparse_step", QWEN3_MOE, INT, AT(sparse_step), 1, 1 << 20, false},
    {"norm_topk_prob", QWEN3_MOE, BOOL, AT(renormalise_experts), 0, 0, false},
    {"n_embd", GPT2, INT, AT(dim), 1, 1 << 20, false},
    {"n_layer", GPT2, INT, AT(n_layers), 1, TW_LAYERS_MAX, false},
    {"n_head", GPT2, INT, AT(n_heads), 1, 1 << 14, false},
    {"n_positions", GPT2, INT, AT(max_seq), 1, 1 << 24, false},
    {"n_inner", GPT2, INT, AT(ffn_dim), 1, 1 << 24, NULLABLE},
    {"layer_norm_epsilon", GPT2, REAL, AT(norm_eps), 1e-30, 1, false},
    {"scale_attn_weights", GPT2, BOOL, AT(scale_attn), 0, 0, false},
    {"scale_attn_by_inverse_layer_idx", GPT2, FALSE_, 0, 0, 0, false},

    {"model_type", ALL, READ, 0, 0, 0, false},
    {"architectures", ALL, READ, 0, 0, 0, NULLABLE},
    {"hidden_act", ROPED & ~(GEMMA2 | GEMMA3), READ, 0, 0, 0, false},
    {"hidden_activation", GEMMA2 | GEMMA3, READ, 0, 0, 0, false},
    {"activation_function", GPT2, READ, 0, 0, 0, false},
    {"rope_theta", ROPED, READ, 0, 0, 0, false},
    {"rope_scaling", ROPED, READ, 0, 0, 0, NULLABLE},
    {"rope_parameters", ROPED, READ, 0, 0, 0, NULLABLE},
    {"partial_rotary_factor", ROPED, READ, 0, 0, 0, NULLABLE},
    {"layer_types", ROPED, READ, 0, 0, 0, NULLABLE},
    {"rope_local_base_freq", GEMMA3, READ, 0, 0, 0, false},
    {"no_rope_layers", SMOLLM3, READ, 0, 0, 0, NULLABLE},
    {"auto_map", PHI3, READ, 0, 0, 0, NULLABLE},
    {"mlp_only_layers", QWEN3_MOE, READ, 0, 0, 0, NULLABLE},
    {"eos_token_id", ALL, READ, 0, 0, 0, NULLABLE},
    {"bos_token_id", ALL, READ, 0, 0, 0, NULLABLE},

    {"add_cross_attention", ALL, FALSE_, 0, 0, 0, false},
    {"is_encoder_decoder", ALL, FALSE_, 0, 0, 0, false},
    {"tie_encoder_decoder", ALL, FALSE_, 0, 0, 0, false},
    {"mlp_bias", ROPED & ~(LLAMA | SMOLLM3), FALSE_, 0, 0, 0, false},
    {"rope_interleaved", ROPED, FALSE_, 0, 0, 0, false},
    {"use_mrope", ROPED, FALSE_, 0, 0, 0, false},
    {"use_bidirectional_attention", GEMMAS, FALSE_, 0, 0, 0, false},
    {"lm_head_bias", PHI3, FALSE_, 0, 0, 0, false},
    {"pruned_heads", ALL, EMPTY, 0, 0, 0, false},

    /* GPT-2's order of scaling and its casts: the same numbers in float */
    {"reorder_and_upcast_attn", GPT2, IGNORED, 0, 0, 0, false},
    /* the slices that Megatron split matrices into: their sum is the product */
    {"pretraining_tp", ROPED, IGNORED, 0, 0, 0, false},
    /* which of the two activations' keys transformers takes is the family's; the other is not looked at */
    {"hidden_act", GEMMA2 | GEMMA3, IGNORED, 0, 0, 0, false},
    {"hidden_activation", GEMMA, IGNORED, 0, 0, 0, false},
    /* layer_types stands beside it */
    {"_sliding_window_pattern", GEMMA3, IGNORED, 0, 0, 0, false},
    {"max_window_layers", SMOLLM3, IGNORED, 0, 0, 0, false},
    /* of Microsoft's own code, which transformers does without */
    {"interpolate_factor", PHI3, IGNORED, 0, 0, 0, false},
    {"full_attn_mod", PHI3, IGNORED, 0, 0, 0, false},
};

/* Training, bookkeeping, tokenizer, outputs nobody asks for, and the generation defaults that old versions kept here
   (generation_config.json is where they are read). In every family. */
static const char *const ignored[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_flash_attn_2_enabled",
    "_name_or_path",
    "_num_labels",
    "attention_dropout",
    "attn_implementation",
    "attn_pdrop",
    "bad_words_ids",
    "begin_suppress_tokens",
    "cache_implementation",
    "chunk_size_feed_forward",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_llama_config",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "n_ctx",
    "name_or_path",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_router_logits",
    "output_scores",
    "pad_token_id",
    "predict_special_tokens",
    "prefix",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "use_return_dict",
    "xla_device",
};

typedef struct parser {
    tw_config *c;
    tw_arena *arena;
    const json_t *root;
    tw_reasons *reasons;
    bool sizes_good;
    bool has_window_start;                    /* max_window_layers is there */
    const json_t *short_factor, *long_factor; /* of longrope; NULL: absent */
} parser;

static void refuse(parser *p, const char *name, const json_t *v, const char *why) {
    char shown[SHOWN];
    tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "%s: %s %s", name, tw_show_json(v, shown, sizeof shown), why);
}

/* ---- the table's keys */

static void read_number(parser *p, const key *k, const json_t *v) {
    char *at = (char *)p->c + k->at;
    char shown[SHOWN];
    tw_show_json(v, shown, sizeof shown);
    int64_t n = 0;
    if (k->kind == INT) {
        if (!json_is_null(v) && !tw_json_int(v, (int64_t)k->lo, (int64_t)k->hi, &n)) {
            tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "%s: %s is not an integer from %lld to %lld", k->name, shown,
                      (long long)k->lo, (long long)k->hi);
            p->sizes_good = false;
        } else
            memcpy(at, &n, sizeof n);
        return;
    }
    double d = json_number_value(v);
    if (!json_is_number(v) || !(d >= k->lo && d <= k->hi))
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "%s: %s is not a number from %g to %g", k->name, shown, k->lo, k->hi);
    else
        memcpy(at, &d, sizeof d);
}

static void read_key(parser *p, const key *k, const json_t *v) {
    if (json_is_null(v) && k->kind == REAL && k->nullable) {
        const double none = 0;
        memcpy((char *)p->c + k->at, &none, sizeof none);
        return;
    }
    if (json_is_null(v) && !k->nullable && (k->kind == INT || k->kind == REAL || k->kind == BOOL)) {
        refuse(p, k->name, v, "is not supported");
        p->sizes_good = false;
        return;
    }
    switch (k->kind) {
    case INT:
    case REAL:
        read_number(p, k, v);
        break;
    case BOOL:
        if (json_is_boolean(v))
            *((bool *)((char *)p->c + k->at)) = json_is_true(v);
        else
            refuse(p, k->name, v, "is not true or false");
        break;
    case FALSE_:
        if (!json_is_false(v) && !json_is_null(v)) refuse(p, k->name, v, "is not supported");
        break;
    case EMPTY:
        if (!json_is_null(v) &&
            !((json_is_array(v) || json_is_object(v)) && !json_array_size(v) && !json_object_size(v)))
            refuse(p, k->name, v, "is not supported");
        break;
    case READ:
        if (json_is_null(v) && !k->nullable) refuse(p, k->name, v, "is not supported");
        break;
    case IGNORED:
        break;
    }
}

static bool is_ignored(const char *name) {
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        if (!strcmp(ignored[i], name)) return true;
    return false;
}

static void read_keys(parser *p) {
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)p->root, name, v) {
        const key *found = NULL;
        for (size_t i = 0; !found && i < sizeof keys / sizeof *keys; i++)
            if (keys[i].families & 1u << p->c->family && !strcmp(keys[i].name, name)) found = &keys[i];
        if (found)
            read_key(p, found, v);
        else if (!is_ignored(name) && !json_is_null(v))
            refuse(p, name, v, "is not understood, and may change the arithmetic");
    }
    const json_t *a = json_object_get(p->root, "num_experts"), *b = json_object_get(p->root, "num_local_experts");
    if (a && b && !json_equal((json_t *)(uintptr_t)a, (json_t *)(uintptr_t)b))
        refuse(p, "num_experts", a, "contradicts num_local_experts");
    p->has_window_start = json_object_get(p->root, "max_window_layers") != NULL;
}

/* ---- keys with a shape of their own */

static void read_architectures(parser *p) {
    const json_t *v = json_object_get(p->root, "architectures");
    if (!v || json_is_null(v)) return;
    const char *want = tw_family_architecture(p->c->family), *s = json_string_value(json_array_get(v, 0));
    if (json_array_size(v) == 1 && s && !strcmp(s, want)) return;
    char why[64];
    snprintf(why, sizeof why, "is not supported; it must be %s", want);
    refuse(p, "architectures", json_array_size(v) == 1 ? json_array_get(v, 0) : v, why);
}

static void read_activation(parser *p) {
    const unsigned family = 1u << p->c->family;
    const char *name = family & GPT2                ? "activation_function"
                       : family & (GEMMA2 | GEMMA3) ? "hidden_activation"
                                                    : "hidden_act";
    const json_t *v = json_object_get(p->root, name);
    if (!v || json_is_null(v)) return;
    for (size_t i = 0; json_is_string(v) && i < sizeof activations / sizeof *activations; i++)
        if (!strcmp(json_string_value(v), activations[i].name)) {
            p->c->activation = activations[i].value;
            return;
        }
    refuse(p, name, v, "is not supported");
}

/* An id, or for the end tokens a list of them; -1 and null mean none. */
static bool read_id(const json_t *v, int64_t *out) {
    return tw_json_int(v, -1, INT32_MAX, out);
}

static void read_tokens(parser *p) {
    tw_config *c = p->c;
    const json_t *bos = json_object_get(p->root, "bos_token_id"), *eos = json_object_get(p->root, "eos_token_id");
    if (json_is_null(bos))
        c->bos = -1;
    else if (bos && !read_id(bos, &c->bos))
        refuse(p, "bos_token_id", bos, "is not a token");
    if (!eos) return;
    c->n_eos = 0;
    size_t n = json_is_array(eos) ? json_array_size(eos) : !json_is_null(eos);
    for (size_t i = 0; i < n; i++) {
        int64_t id;
        if (!read_id(json_is_array(eos) ? json_array_get(eos, i) : eos, &id)) {
            refuse(p, "eos_token_id", eos, "is neither a token nor a list of them");
            return;
        }
        if (id < 0) continue;
        if (c->n_eos == TW_EOS_MAX) {
            refuse(p, "eos_token_id", eos, "has more than 64 tokens");
            return;
        }
        c->eos[c->n_eos++] = id;
    }
}

static void read_layer_types(parser *p) {
    tw_config *c = p->c;
    const json_t *v = json_object_get(p->root, "layer_types");
    if (!v || json_is_null(v)) return;
    if (json_array_size(v) != (size_t)c->n_layers) {
        refuse(p, "layer_types", v, "is not a list with one type a layer");
        return;
    }
    unsigned char *windowed = tw_arena_alloc(p->arena, (size_t)c->n_layers);
    for (int64_t i = 0; windowed && i < c->n_layers; i++) {
        const json_t *t = json_array_get(v, (size_t)i);
        const char *s = json_is_string(t) ? json_string_value(t) : "";
        if (strcmp(s, "full_attention") != 0 && strcmp(s, "sliding_attention") != 0) {
            refuse(p, "layer_types", t, "is not supported; supported: full_attention, sliding_attention");
            return;
        }
        windowed[i] = s[0] == 's';
        if (windowed[i] && !c->window) {
            refuse(p, "layer_types", t, "asks for a sliding_window, and there is none");
            return;
        }
        /* The other families slide all layers or none, whatever the list says. */
        if (!(1u << c->family & BY_LAYER) && windowed[i] != (c->window > 0)) {
            refuse(p, "layer_types", t, "contradicts sliding_window");
            return;
        }
    }
    c->windowed = windowed;
}

static void read_dense_layers(parser *p) {
    tw_config *c = p->c;
    const json_t *v = json_object_get(p->root, "mlp_only_layers");
    if (!v || json_is_null(v)) return;
    unsigned char *dense = tw_arena_alloc(p->arena, (size_t)c->n_layers);
    for (size_t i = 0; dense && i < json_array_size(v); i++) {
        int64_t layer;
        if (!tw_json_int(json_array_get(v, i), 0, INT32_MAX, &layer)) break;
        if (layer < c->n_layers) dense[layer] = 1; /* beyond the last layer it says nothing */
        if (i + 1 == json_array_size(v)) c->dense = dense;
    }
    if (!c->dense && !(json_is_array(v) && !json_array_size(v)))
        refuse(p, "mlp_only_layers", v, "is not a list of layers");
}

/* transformers has these models itself. What their own code would be is named here, and must be what is named there. */
static void read_auto_map(parser *p) {
    const json_t *v = json_object_get(p->root, "auto_map");
    const char *name;
    json_t *value;
    if (!v || json_is_null(v)) return;
    bool known = json_is_object(v);
    json_object_foreach((json_t *)(uintptr_t)v, name, value) {
        const char *s = json_string_value(value), *dot = s ? strrchr(s, '.') : NULL;
        known = known && dot && !strncmp(dot + 1, "Phi3", 4) && !strncmp(name, "Auto", 4);
    }
    if (!known) refuse(p, "auto_map", v, "is not understood, and may change the arithmetic");
}

/* 1: the layer has rope. */
static void read_no_rope_layers(parser *p) {
    tw_config *c = p->c;
    const json_t *v = json_object_get(p->root, "no_rope_layers");
    if (!v || json_is_null(v)) return;
    unsigned char *ropeless = tw_arena_alloc(p->arena, (size_t)c->n_layers);
    bool good = json_array_size(v) >= (size_t)c->n_layers;
    for (int64_t i = 0; good && ropeless && i < c->n_layers; i++) {
        int64_t has;
        good = tw_json_int(json_array_get(v, (size_t)i), 0, 1, &has);
        ropeless[i] = good && !has;
    }
    if (good)
        c->ropeless = ropeless;
    else
        refuse(p, "no_rope_layers", v, "is not a list with 0 or 1 a layer");
}

/* ---- rope */

static const struct {
    const char *name;
    tw_rope_type type;
} rope_types[] = {
    {"default", TW_ROPE_TYPE_DEFAULT}, {"linear", TW_ROPE_TYPE_LINEAR}, {"dynamic", TW_ROPE_TYPE_DYNAMIC},
    {"llama3", TW_ROPE_TYPE_LLAMA3},   {"yarn", TW_ROPE_TYPE_YARN},
};
/* transformers takes Phi's older names for longrope. */
static const char *const long_names[] = {"longrope", "su", "yarn"};

#define R(field) offsetof(tw_rope_spec, field)
static const struct {
    const char *name;
    size_t at;
    double lo, hi;
} rope_reals[] = {
    {"rope_theta", R(theta), 1.0000001, 1e30},
    {"factor", R(factor), 1, 1e9},
    {"low_freq_factor", R(low_freq), 1e-9, 1e9},
    {"high_freq_factor", R(high_freq), 1e-9, 1e9},
    {"beta_fast", R(beta_fast), 1e-9, 1e9},
    {"beta_slow", R(beta_slow), 1e-9, 1e9},
    {"mscale", R(mscale), 0, 1e9},
    {"mscale_all_dim", R(mscale_all_dim), 0, 1e9},
    {"attention_factor", R(attention_factor), 0, 1e9},
};

static bool is_one(const json_t *v) {
    return json_is_number(v) && json_number_value(v) == 1;
}

static void read_partial(parser *p, const char *name, const json_t *v) {
    const double share = json_number_value(v);
    if (json_is_null(v) || is_one(v)) return;
    if (p->c->family != TW_FAMILY_PHI3 || !json_is_number(v) || !(share > 0 && share < 1))
        refuse(p, name, v, "is not supported");
    else
        p->c->partial = share;
}

/* What each frequency is divided by. */
static void read_factors(parser *p, float **out, const char *name, const json_t *v) {
    const size_t n = (size_t)p->c->rope.dims / 2;
    float *factor = tw_arena_array(p->arena, n, sizeof *factor);
    bool good = json_array_size(v) == n;
    for (size_t i = 0; good && factor && i < n; i++) {
        const json_t *x = json_array_get(v, i);
        good = json_is_number(x) && json_number_value(x) > 1e-9 && json_number_value(x) < 1e9;
        factor[i] = good ? (float)json_number_value(x) : 1;
    }
    if (good)
        *out = factor;
    else
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "%s: is not a list of %zu positive numbers", name, n);
}

static void read_rope_key(parser *p, tw_rope_spec *r, const char *dict, const char *name, const json_t *v) {
    char full[SHOWN];
    snprintf(full, sizeof full, "%s%s%s", dict, *dict ? "." : "", name);
    for (size_t i = 0; i < sizeof rope_reals / sizeof *rope_reals; i++) {
        if (strcmp(name, rope_reals[i].name) != 0) continue;
        double d = json_number_value(v);
        if (json_is_number(v) && d >= rope_reals[i].lo && d <= rope_reals[i].hi)
            memcpy((char *)r + rope_reals[i].at, &d, sizeof d);
        else if (!json_is_null(v))
            refuse(p, full, v, "is not supported");
        return;
    }
    if (!strcmp(name, "original_max_position_embeddings")) {
        if (!json_is_null(v) && !tw_json_int(v, 1, 1 << 30, &r->original_max)) refuse(p, full, v, "is not supported");
    } else if (!strcmp(name, "truncate")) {
        r->truncate = json_is_true(v);
        if (!json_is_boolean(v)) refuse(p, full, v, "is not true or false");
    } else if (!strcmp(name, "partial_rotary_factor")) {
        read_partial(p, full, v);
    } else if (p->c->family == TW_FAMILY_PHI3 && !strcmp(name, "short_factor")) {
        if (!json_is_null(v)) p->short_factor = v;
    } else if (p->c->family == TW_FAMILY_PHI3 && !strcmp(name, "long_factor")) {
        if (!json_is_null(v)) p->long_factor = v;
    } else if (strcmp(name, "rope_type") != 0 && strcmp(name, "type") != 0 && strcmp(name, "finetuned") != 0 &&
               !json_is_null(v))
        refuse(p, full, v, "is not understood, and may change the arithmetic");
}

static void read_phi_rope_type(parser *p, tw_rope_spec *r, const char *name, const json_t *type) {
    const char *s = json_is_string(type) ? json_string_value(type) : "";
    for (size_t i = 0; i < sizeof long_names / sizeof *long_names; i++)
        if (!strcmp(s, long_names[i])) r->type = TW_ROPE_TYPE_LONG;
    if (r->type != TW_ROPE_TYPE_LONG && strcmp(s, "default") != 0)
        refuse(p, name, type, "is not supported; supported: default, longrope");
}

static void read_rope_type(parser *p, tw_rope_spec *r, const char *dict, const json_t *v) {
    const json_t *type = json_object_get(v, "rope_type"), *old = json_object_get(v, "type");
    char full[SHOWN];
    snprintf(full, sizeof full, "%s.rope_type", dict);
    if (type && old && !json_equal((json_t *)(uintptr_t)type, (json_t *)(uintptr_t)old))
        refuse(p, full, type, "contradicts type");
    if (!type) type = old;
    if (!type) return;
    if (p->c->family == TW_FAMILY_PHI3) {
        read_phi_rope_type(p, r, full, type);
        return;
    }
    for (size_t i = 0; json_is_string(type) && i < sizeof rope_types / sizeof *rope_types; i++)
        if (!strcmp(json_string_value(type), rope_types[i].name)) {
            r->type = rope_types[i].type;
            return;
        }
    refuse(p, full, type, "is not supported; supported: default, linear, dynamic, llama3, yarn");
}

static void read_rope_fields(parser *p, tw_rope_spec *r, const char *dict, const json_t *v) {
    const char *name;
    json_t *value;
    if (!json_is_object(v)) {
        refuse(p, dict, v, "is not supported");
        return;
    }
    read_rope_type(p, r, dict, v);
    json_object_foreach((json_t *)(uintptr_t)v, name, value) read_rope_key(p, r, dict, name, value);
}

/* Gemma 3 has one dictionary for each type of layers in rope_parameters. */
static void read_rope_by_type(parser *p, const json_t *v) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)v, name, value) {
        char dict[SHOWN];
        snprintf(dict, sizeof dict, "rope_parameters.%.64s", name);
        bool full = !strcmp(name, "full_attention");
        if (!full && strcmp(name, "sliding_attention") != 0)
            refuse(p, dict, value, "is not understood, and may change the arithmetic");
        else if (!json_is_null(value))
            read_rope_fields(p, full ? &p->c->rope : &p->c->rope_local, dict, value);
    }
}

/* The dictionary is rope_scaling in transformers 4, where rope_theta stands beside it, and rope_parameters in 5,
   where it stands within. */
static void read_rope_dict(parser *p) {
    const json_t *old = json_object_get(p->root, "rope_scaling"), *v = json_object_get(p->root, "rope_parameters");
    const json_t *theta = json_object_get(p->root, "rope_theta"),
                 *local = json_object_get(p->root, "rope_local_base_freq");
    const char *dict = "rope_parameters";
    tw_rope_spec *r = &p->c->rope;
    if (theta && !json_is_null(theta)) read_rope_key(p, r, "", "rope_theta", theta);
    if (p->c->family == TW_FAMILY_GEMMA3 && local) {
        p->c->rope_local.theta = json_number_value(local);
        if (!(p->c->rope_local.theta > 1)) refuse(p, "rope_local_base_freq", local, "is not supported");
    }
    double beside = r->theta;
    if (json_object_size(old) && json_object_size(v)) refuse(p, "rope_scaling", old, "is there beside rope_parameters");
    if (!json_object_size(v)) {
        v = old;
        dict = "rope_scaling";
    }
    if (!v || json_is_null(v)) return;
    if (p->c->family == TW_FAMILY_GEMMA3 && v != old)
        read_rope_by_type(p, v);
    else
        read_rope_fields(p, r, dict, v);
    if (theta && json_is_number(theta) && r->theta != beside)
        refuse(p, "rope_theta", theta, "contradicts the one of rope_parameters");
}

static void finish_long_rope(parser *p) {
    tw_rope_spec *r = &p->c->rope;
    if (r->type != TW_ROPE_TYPE_LONG) return;
    if (!p->short_factor || !p->long_factor) {
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "rope: this rope_type needs short_factor and long_factor");
        r->type = TW_ROPE_TYPE_DEFAULT;
        return;
    }
    read_factors(p, &r->short_factor, "short_factor", p->short_factor);
    read_factors(p, &r->long_factor, "long_factor", p->long_factor);
    if (r->original_max < 2)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "rope: this rope_type needs an original length above 1");
    if (!r->short_factor || !r->long_factor) r->type = TW_ROPE_TYPE_DEFAULT; /* Refused; a model is still made. */
}

static void finish_rope(parser *p, tw_rope_spec *r) {
    tw_config *c = p->c;
    if (c->original_max) r->original_max = c->original_max; /* Beside the dictionary it goes before the one within. */
    bool given = r->original_max > 0;
    if (!given || r->type == TW_ROPE_TYPE_DYNAMIC) r->original_max = c->max_seq;
    if ((r->type == TW_ROPE_TYPE_YARN && r->factor == 0 && given) || (r->type == TW_ROPE_TYPE_LONG && r->factor == 0))
        r->factor = (double)c->max_seq / (double)r->original_max;
    if (r->type != TW_ROPE_TYPE_DEFAULT && r->factor == 0)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "rope: this rope_type needs a factor");
    if (r->type == TW_ROPE_TYPE_LLAMA3 && !(r->low_freq > 0 && r->high_freq > r->low_freq))
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED,
                  "rope: low_freq_factor %g and high_freq_factor %g are not a rising pair", r->low_freq, r->high_freq);
    if (r->type == TW_ROPE_TYPE_DYNAMIC && r->dims == 2)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "rope: the dynamic rope_type needs a head_dim above 2");
    if (r->type == TW_ROPE_TYPE_DYNAMIC && c->family == TW_FAMILY_GEMMA3)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "rope: the dynamic rope_type is not supported in gemma3_text");
}

static void read_rope(parser *p) {
    tw_config *c = p->c;
    const json_t *partial = json_object_get(p->root, "partial_rotary_factor");
    if (partial) read_partial(p, "partial_rotary_factor", partial);
    read_rope_dict(p);
    c->rope.dims = c->rope_local.dims = (int64_t)((double)c->head_dim * c->partial);
    if (c->rope.dims < 2 || c->rope.dims % 2)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED,
                  "partial_rotary_factor: %g rotates %lld elements of a head, not an even number", c->partial,
                  (long long)c->rope.dims);
    finish_rope(p, &c->rope);
    if (c->family == TW_FAMILY_GEMMA3) finish_rope(p, &c->rope_local);
    finish_long_rope(p);
}

/* ---- what must fit together */

static void finish_sizes(parser *p) {
    tw_config *c = p->c;
    int64_t before = p->reasons->count;
    if (!c->head_dim && c->dim % c->n_heads)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "hidden size %lld is not a multiple of %lld heads", (long long)c->dim,
                  (long long)c->n_heads);
    if (!c->head_dim) c->head_dim = c->dim / c->n_heads;
    if (!c->n_kv_heads) c->n_kv_heads = c->n_heads;
    if (c->n_heads % c->n_kv_heads)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "num_key_value_heads: %lld does not divide %lld heads",
                  (long long)c->n_kv_heads, (long long)c->n_heads);
    if (c->family != TW_FAMILY_GPT2 && (c->head_dim < 2 || c->head_dim % 2))
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "head_dim: %lld is not even, as rotary embeddings need",
                  (long long)c->head_dim);
    if (c->n_experts_used > c->n_experts)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "num_experts_per_tok: %lld is more than the %lld experts",
                  (long long)c->n_experts_used, (long long)c->n_experts);
    if (!c->ffn_dim) c->ffn_dim = 4 * c->dim;
    if (c->family == TW_FAMILY_MIXTRAL) c->expert_dim = c->ffn_dim;
    if (p->reasons->count != before) p->sizes_good = false;
}

static void finish_window(parser *p) {
    tw_config *c = p->c;
    if (!c->use_window) c->window = 0;
    /* Of SmolLM 3's layers those without rope slide. */
    if (c->family == TW_FAMILY_SMOLLM3 && c->window && p->sizes_good) {
        c->windowed = tw_arena_alloc(p->arena, (size_t)c->n_layers);
        for (int64_t i = 0; c->windowed && i < c->n_layers; i++)
            c->windowed[i] = tw_config_rope(c, i) == TW_LAYER_NO_ROPE;
    }
    /* Older versions of transformers left the first layers whole, newer ones slide all of them. */
    if (c->family == TW_FAMILY_QWEN3_MOE && c->window && p->has_window_start && c->first_windowed)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "max_window_layers: %lld is not supported with use_sliding_window",
                  (long long)c->first_windowed);
}

/* The family that model_type names; a reason when there is none such. */
static bool read_family(const json_t *root, tw_family *f, tw_reasons *reasons) {
    const json_t *v = json_object_get(root, "model_type");
    char shown[SHOWN], list[256] = "";
    for (int i = 0; i < TW_FAMILY_COUNT; i++) {
        if (json_is_string(v) && !strcmp(json_string_value(v), tw_family_name((tw_family)i))) {
            *f = (tw_family)i;
            return true;
        }
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", tw_family_name((tw_family)i));
    }
    if (v)
        tw_reason(reasons, TW_ERR_UNSUPPORTED, "model_type: %s is not supported; supported: %s",
                  tw_show_json(v, shown, sizeof shown), list);
    else
        tw_reason(reasons, TW_ERR_UNSUPPORTED, "model_type: is missing; supported: %s", list);
    return false;
}

tw_status tw_config_parse(tw_config *c, tw_arena *arena, const char *text, size_t size, const char *path,
                          tw_reasons *reasons, bool *usable) {
    json_t *root;
    *usable = false;
    tw_status s = tw_json_parse(&root, text, size, path, -1, reasons->diag);
    if (s != TW_OK) return s;
    tw_family family;
    if (!json_is_object(root))
        s = tw_fail_at(reasons->diag, TW_ERR_FORMAT, path, -1, "not a JSON object");
    else if (read_family(root, &family, reasons)) {
        tw_config_defaults(c, family);
        parser p = {.c = c, .arena = arena, .root = root, .reasons = reasons, .sizes_good = true};
        read_keys(&p);
        read_architectures(&p);
        read_activation(&p);
        read_tokens(&p);
        if (p.sizes_good) finish_sizes(&p);
        if (p.sizes_good) read_no_rope_layers(&p);
        finish_window(&p);
        read_auto_map(&p);
        if (p.sizes_good) {
            if (1u << family & ROPED) read_rope(&p);
            read_layer_types(&p);
            read_dense_layers(&p);
        }
        *usable = p.sizes_good;
        if (arena->failed) s = tw_fail_memory(reasons->diag);
    }
    json_decref(root);
    return s;
}

/* A text, or a list of them. */
static void read_stops(parser *p) {
    tw_config *c = p->c;
    const json_t *v = json_object_get(p->root, "stop_strings");
    if (!v || json_is_null(v)) return;
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
        const char *s = json_string_value(one);
        if (!s || !*s || strlen(s) != json_string_length(one)) {
            refuse(p, "stop_strings", v, "is neither a text nor a list of them");
            return;
        }
        if (c->n_stop == TW_STOP_MAX) {
            refuse(p, "stop_strings", v, "has more than 64 texts");
            return;
        }
        c->stop[c->n_stop] = tw_arena_strdup(p->arena, s);
        if (c->stop[c->n_stop]) c->n_stop++;
    }
}

tw_status tw_config_parse_generation(tw_config *c, tw_arena *arena, const char *text, size_t size, const char *path,
                                     tw_reasons *reasons) {
    static const key wanted[] = {
        {"do_sample", ALL, BOOL, AT(do_sample), 0, 0, NULLABLE},
        {"temperature", ALL, REAL, AT(temperature), 0, 1e6, NULLABLE},
        {"top_p", ALL, REAL, AT(top_p), 0, 1, NULLABLE},
        {"min_p", ALL, REAL, AT(min_p), 0, 1, NULLABLE},
        {"repetition_penalty", ALL, REAL, AT(repetition_penalty), 1e-3, 1e3, NULLABLE},
        {"top_k", ALL, INT, AT(top_k), 0, INT32_MAX, NULLABLE},
    };
    json_t *root;
    tw_status s = tw_json_parse(&root, text, size, path, -1, reasons->diag);
    if (s != TW_OK) return s;
    parser p = {.c = c, .arena = arena, .root = root, .reasons = reasons, .sizes_good = true};
    if (!json_is_object(root)) s = tw_fail_at(reasons->diag, TW_ERR_FORMAT, path, -1, "not a JSON object");
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const json_t *v = json_object_get(root, wanted[i].name);
        if (json_is_null(v) && wanted[i].kind == INT)
            c->top_k = 0; /* no limit */
        else if (v && !json_is_null(v))
            read_key(&p, &wanted[i], v);
    }
    int64_t bos = c->bos;
    read_tokens(&p);
    if (!json_object_get(root, "bos_token_id")) c->bos = bos;
    read_stops(&p);
    if (s == TW_OK && arena->failed) s = tw_fail_memory(reasons->diag);
    json_decref(root);
    return s;
}
