/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of config.json, by family: which are read, within which bounds, and which are left out because no logit
   depends on them. A key that is in none of these tables is refused. */
#include "model/config_parts.h"

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
    SLIDING = ROPED & ~(LLAMA | GEMMA | OLMO2) /* may have a window */
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

    /* Scaling comes before the product or behind it, and casts lie elsewhere. In f32 the results are the same. */
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

void tw_config_refuse(tw_config_parser *p, const char *name, const json_t *v, const char *why) {
    char shown[TW_CONFIG_SHOWN];
    tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "%s: %s %s", name, tw_show_json(v, shown, sizeof shown), why);
}

static void read_number(tw_config_parser *p, const key *k, const json_t *v) {
    char *at = (char *)p->c + k->at;
    char shown[TW_CONFIG_SHOWN];
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

static void read_key(tw_config_parser *p, const key *k, const json_t *v) {
    if (json_is_null(v) && k->kind == REAL && k->nullable) {
        const double none = 0;
        memcpy((char *)p->c + k->at, &none, sizeof none);
        return;
    }
    if (json_is_null(v) && !k->nullable && (k->kind == INT || k->kind == REAL || k->kind == BOOL)) {
        tw_config_refuse(p, k->name, v, "is not supported");
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
            tw_config_refuse(p, k->name, v, "is not true or false");
        break;
    case FALSE_:
        if (!json_is_false(v) && !json_is_null(v)) tw_config_refuse(p, k->name, v, "is not supported");
        break;
    case EMPTY:
        if (!json_is_null(v) &&
            !((json_is_array(v) || json_is_object(v)) && !json_array_size(v) && !json_object_size(v)))
            tw_config_refuse(p, k->name, v, "is not supported");
        break;
    case READ:
        if (json_is_null(v) && !k->nullable) tw_config_refuse(p, k->name, v, "is not supported");
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

void tw_config_read_keys(tw_config_parser *p) {
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)p->root, name, v) {
        const key *found = NULL;
        for (size_t i = 0; !found && i < sizeof keys / sizeof *keys; i++)
            if (keys[i].families & 1u << p->c->family && !strcmp(keys[i].name, name)) found = &keys[i];
        if (found)
            read_key(p, found, v);
        else if (!is_ignored(name) && !json_is_null(v))
            tw_config_refuse(p, name, v, "is not understood, and may change the arithmetic");
    }
    const json_t *a = json_object_get(p->root, "num_experts"), *b = json_object_get(p->root, "num_local_experts");
    if (a && b && !json_equal((json_t *)(uintptr_t)a, (json_t *)(uintptr_t)b))
        tw_config_refuse(p, "num_experts", a, "contradicts num_local_experts");
    p->has_window_start = json_object_get(p->root, "max_window_layers") != NULL;
}

void tw_config_read_generation_keys(tw_config_parser *p) {
    static const key wanted[] = {
        {"do_sample", ALL, BOOL, AT(do_sample), 0, 0, NULLABLE},
        {"temperature", ALL, REAL, AT(temperature), 0, 1e6, NULLABLE},
        {"top_p", ALL, REAL, AT(top_p), 0, 1, NULLABLE},
        {"min_p", ALL, REAL, AT(min_p), 0, 1, NULLABLE},
        {"repetition_penalty", ALL, REAL, AT(repetition_penalty), 1e-3, 1e3, NULLABLE},
        {"top_k", ALL, INT, AT(top_k), 0, INT32_MAX, NULLABLE},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const json_t *v = json_object_get(p->root, wanted[i].name);
        if (json_is_null(v) && wanted[i].kind == INT)
            p->c->top_k = 0; /* no limit */
        else if (v && !json_is_null(v))
            read_key(p, &wanted[i], v);
    }
}
