/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct parsed {
    tw_config c;
    tw_arena arena;
    tw_diag diag;
    tw_reasons reasons;
    bool usable;
    tw_status status;
} parsed;

static void parse(parsed *p, const char *text) {
    *p = (parsed){.usable = false};
    tw_diag_clear(&p->diag);
    p->reasons = (tw_reasons){.diag = &p->diag, .path = "config.json"};
    /* exactly as long as it is, so that reading beyond it shows */
    size_t n = strlen(text);
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, text, n);
    p->status = tw_config_parse(&p->c, &p->arena, copy, n, "config.json", &p->reasons, &p->usable);
    free(copy);
}

static void accept(parsed *p, const char *text) {
    parse(p, text);
    if (p->status != TW_OK || p->reasons.count) fail_msg("%s\nwas refused: %s", text, p->diag.message);
    assert_true(p->usable);
}

static void refuse(const char *text, const char *message) {
    parsed p;
    parse(&p, text);
    assert_string_equal(p.diag.message, message);
    assert_int_equal(p.status, TW_OK);
    assert_int_equal(p.diag.status, TW_ERR_UNSUPPORTED);
    tw_arena_free(&p.arena);
}

/* "{"model_type":"llama", <rest>}" */
#define CONFIG(type, ...) "{\"model_type\":\"" type "\"," __VA_ARGS__ "}"
#define LLAMA(...)        CONFIG("llama", __VA_ARGS__)

static void test_defaults(void **state) {
    (void)state;
    static const struct {
        const char *type;
        int64_t vocab, dim, ffn, layers, heads, kv, head_dim, max_seq, window;
        double eps, theta;
        bool tied;
    } want[] = {
        {"llama", 32000, 4096, 11008, 32, 32, 32, 128, 2048, 0, 1e-6, 1e4, false},
        {"mistral", 32000, 4096, 14336, 32, 32, 8, 128, 131072, 4096, 1e-6, 1e4, false},
        {"qwen2", 151936, 4096, 22016, 32, 32, 32, 128, 32768, 0, 1e-6, 1e4, false},
        {"qwen3", 151936, 4096, 22016, 32, 32, 32, 128, 32768, 0, 1e-6, 1e4, false},
        {"mixtral", 32000, 4096, 14336, 32, 32, 8, 128, 131072, 0, 1e-5, 1e6, false},
        {"qwen3_moe", 151936, 2048, 6144, 24, 32, 4, 64, 32768, 0, 1e-6, 1e4, false},
        {"gpt2", 50257, 768, 3072, 12, 12, 12, 64, 1024, 0, 1e-5, 0, true},
        {"gemma", 256000, 3072, 24576, 28, 16, 16, 256, 8192, 0, 1e-6, 1e4, true},
        {"gemma2", 256000, 2304, 9216, 26, 8, 4, 256, 8192, 0, 1e-6, 1e4, true},
        {"gemma3_text", 262208, 2304, 9216, 26, 8, 4, 256, 131072, 4096, 1e-6, 1e6, true},
        {"phi3", 32064, 3072, 8192, 32, 32, 32, 96, 4096, 0, 1e-5, 1e4, false},
        {"smollm3", 128256, 2048, 11008, 36, 16, 4, 128, 32768, 0, 1e-6, 2e6, true},
        {"olmo2", 50304, 4096, 11008, 32, 32, 32, 128, 2048, 0, 1e-5, 1e4, false},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char text[64];
        parsed p;
        snprintf(text, sizeof text, "{\"model_type\":\"%s\"}", want[i].type);
        accept(&p, text);
        const tw_config *c = &p.c;
        assert_string_equal(tw_family_name(c->family), want[i].type);
        assert_int_equal(c->vocab, want[i].vocab);
        assert_int_equal(c->dim, want[i].dim);
        assert_int_equal(c->ffn_dim, want[i].ffn);
        assert_int_equal(c->n_layers, want[i].layers);
        assert_int_equal(c->n_heads, want[i].heads);
        assert_int_equal(c->n_kv_heads, want[i].kv);
        assert_int_equal(c->head_dim, want[i].head_dim);
        assert_int_equal(c->max_seq, want[i].max_seq);
        assert_int_equal(tw_config_window(c, c->n_layers - 1), want[i].window);
        assert_true(c->norm_eps == want[i].eps && c->rope.theta == want[i].theta && c->tied == want[i].tied);
        tw_arena_free(&p.arena);
    }
}

static void test_mixture_defaults(void **state) {
    (void)state;
    parsed p;
    accept(&p, "{\"model_type\":\"mixtral\"}");
    assert_true(p.c.n_experts == 8 && p.c.n_experts_used == 2 && p.c.expert_dim == 14336 && p.c.renormalise_experts);
    tw_arena_free(&p.arena);
    accept(&p, "{\"model_type\":\"qwen3_moe\"}");
    assert_true(p.c.n_experts == 128 && p.c.n_experts_used == 8 && p.c.expert_dim == 768 && !p.c.renormalise_experts);
    tw_arena_free(&p.arena);
}

/* Configs with all the keys that published models of transformers 4 carry. */
#define COMMON4                                                                                                        \
    "\"attention_dropout\":0.0,\"initializer_range\":0.02,\"torch_dtype\":\"bfloat16\",\"transformers_version\":\"4."  \
    "45.0\","                                                                                                          \
    "\"use_cache\":true,\"_name_or_path\":\"x\""

static void test_published_llama(void **state) {
    (void)state;
    parsed p;
    accept(&p,
           LLAMA(COMMON4
                 ",\"architectures\":[\"LlamaForCausalLM\"],\"attention_bias\":false,\"bos_token_id\":128000,"
                 "\"eos_token_id\":[128001,128008,128009],\"head_dim\":64,\"hidden_act\":\"silu\",\"hidden_size\":2048,"
                 "\"intermediate_size\":8192,\"max_position_embeddings\":131072,\"mlp_bias\":false,"
                 "\"num_attention_heads\":32,\"num_hidden_layers\":16,\"num_key_value_heads\":8,\"pretraining_tp\":1,"
                 "\"rms_norm_eps\":1e-05,\"rope_scaling\":{\"factor\":32.0,\"high_freq_factor\":4.0,"
                 "\"low_freq_factor\":1.0,\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"},"
                 "\"rope_theta\":500000.0,\"tie_word_embeddings\":true,\"vocab_size\":128256"));
    assert_true(p.c.n_eos == 3 && p.c.eos[2] == 128009 && p.c.bos == 128000 && p.c.tied);
    assert_true(p.c.rope.type == TW_ROPE_TYPE_LLAMA3 && p.c.rope.factor == 32 && p.c.rope.original_max == 8192);
    assert_true(p.c.rope.theta == 500000 && p.c.rope.high_freq == 4);
    tw_arena_free(&p.arena);
    accept(&p,
           LLAMA(COMMON4
                 ",\"is_llama_config\":true,\"rope_interleaved\":false,\"rope_scaling\":null,\"rope_theta\":100000,"
                 "\"hidden_size\":576,\"num_attention_heads\":9,\"num_key_value_heads\":3,\"transformers.js_config\":"
                 "{\"kv_cache_dtype\":{\"fp16\":\"float16\"}},\"unsloth_fixed\":true,\"pad_token_id\":null"));
    assert_true(p.c.head_dim == 64 && p.c.rope.theta == 100000);
    tw_arena_free(&p.arena);
}

static void test_published_others(void **state) {
    (void)state;
    parsed p;
    accept(&p, CONFIG("qwen2", COMMON4
                      ",\"architectures\":[\"Qwen2ForCausalLM\"],\"bos_token_id\":151643,\"eos_token_id\":151645,"
                      "\"hidden_size\":896,\"num_attention_heads\":14,\"num_key_value_heads\":2,"
                      "\"max_window_layers\":21,\"sliding_window\":32768,\"use_mrope\":false,"
                      "\"use_sliding_window\":false,\"tie_word_embeddings\":true,\"vocab_size\":151936"));
    assert_int_equal(tw_config_window(&p.c, 23), 0);
    assert_int_equal(tw_config_features(&p.c, 0), TW_HAS_QKV_BIAS | TW_HAS_GATE | TW_HAS_DENSE | TW_HAS_PRE_NORM);
    tw_arena_free(&p.arena);
    accept(&p,
           CONFIG("qwen3_moe", COMMON4 ",\"decoder_sparse_step\":1,\"head_dim\":128,\"max_window_layers\":48,"
                                       "\"mlp_only_layers\":[],\"moe_intermediate_size\":768,\"norm_topk_prob\":true,"
                                       "\"num_experts\":128,\"num_experts_per_tok\":8,\"output_router_logits\":false,"
                                       "\"rope_scaling\":null,\"rope_theta\":1000000.0,\"router_aux_loss_coef\":0.001,"
                                       "\"sliding_window\":null,\"use_sliding_window\":false"));
    assert_true(p.c.renormalise_experts && p.c.head_dim == 128);
    tw_arena_free(&p.arena);
    accept(&p,
           CONFIG("gpt2",
                  "\"activation_function\":\"gelu_new\",\"architectures\":[\"GPT2LMHeadModel\"],\"attn_pdrop\":0.1,"
                  "\"bos_token_id\":50256,\"embd_pdrop\":0.1,\"eos_token_id\":50256,\"n_ctx\":1024,\"n_embd\":768,"
                  "\"n_head\":12,\"n_layer\":12,\"n_positions\":1024,\"resid_pdrop\":0.1,\"summary_activation\":null,"
                  "\"summary_first_dropout\":0.1,\"summary_proj_to_labels\":true,\"summary_type\":\"cls_index\","
                  "\"summary_use_proj\":true,\"task_specific_params\":{\"text-generation\":{\"do_sample\":true}},"
                  "\"vocab_size\":50257,\"pruned_heads\":{},\"is_encoder_decoder\":false"));
    tw_arena_free(&p.arena);
}

static void test_published_gemma(void **state) {
    (void)state;
    parsed p;
    accept(&p, CONFIG("gemma2",
                      COMMON4 ",\"architectures\":[\"Gemma2ForCausalLM\"],\"attention_bias\":false,"
                              "\"attn_logit_softcapping\":50.0,\"bos_token_id\":2,\"cache_implementation\":\"hybrid\","
                              "\"eos_token_id\":[1,107],\"final_logit_softcapping\":30.0,\"head_dim\":128,"
                              "\"hidden_act\":\"gelu_pytorch_tanh\",\"hidden_activation\":\"gelu_pytorch_tanh\","
                              "\"hidden_size\":4608,\"num_attention_heads\":32,\"num_key_value_heads\":16,"
                              "\"pad_token_id\":0,\"query_pre_attn_scalar\":144,\"rope_theta\":10000.0,"
                              "\"sliding_window\":4096,\"vocab_size\":256000"));
    assert_true(p.c.attn_cap == 50 && p.c.logit_cap == 30 && p.c.query_scalar == 144 && p.c.n_eos == 2);
    assert_true(tw_config_window(&p.c, 0) == 4096 && tw_config_window(&p.c, 1) == 0);
    tw_arena_free(&p.arena);
    accept(&p, CONFIG("gemma3_text",
                      COMMON4 ",\"architectures\":[\"Gemma3ForCausalLM\"],\"attn_logit_softcapping\":null,"
                              "\"cache_implementation\":\"hybrid\",\"final_logit_softcapping\":null,\"head_dim\":256,"
                              "\"hidden_activation\":\"gelu_pytorch_tanh\",\"num_hidden_layers\":26,"
                              "\"query_pre_attn_scalar\":256,\"rope_local_base_freq\":10000,"
                              "\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"},\"rope_theta\":1000000,"
                              "\"sliding_window\":512,\"sliding_window_pattern\":6"));
    assert_true(p.c.rope.type == TW_ROPE_TYPE_LINEAR && p.c.rope.theta == 1e6 && p.c.rope.factor == 8);
    assert_true(p.c.rope_local.type == TW_ROPE_TYPE_DEFAULT && p.c.rope_local.theta == 1e4 && p.c.attn_cap == 0);
    assert_true(tw_config_rope(&p.c, 0) == TW_LAYER_ROPE_LOCAL && tw_config_rope(&p.c, 5) == TW_LAYER_ROPE);
    assert_true(tw_config_window(&p.c, 4) == 512 && tw_config_window(&p.c, 5) == 0);
    tw_arena_free(&p.arena);
    accept(&p, CONFIG("gemma3_text", "\"num_hidden_layers\":2,"
                                     "\"layer_types\":[\"full_attention\",\"sliding_attention\"],"
                                     "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\","
                                     "\"rope_theta\":5e5},\"sliding_attention\":{\"rope_theta\":2e4}}"));
    assert_true(p.c.rope.theta == 5e5 && p.c.rope_local.theta == 2e4);
    assert_true(tw_config_rope(&p.c, 0) == TW_LAYER_ROPE && tw_config_rope(&p.c, 1) == TW_LAYER_ROPE_LOCAL);
    tw_arena_free(&p.arena);
    refuse(CONFIG("gemma2", "\"use_bidirectional_attention\":true"),
           "use_bidirectional_attention: true is not supported");
    refuse(CONFIG("gemma2", "\"attn_logit_softcapping\":-1"),
           "attn_logit_softcapping: -1 is not a number from 1e-06 to 1e+06");
    refuse(CONFIG("gemma3_text", "\"attn_logit_softcapping\":50.0"),
           "attn_logit_softcapping: 50.0 is not understood, and may change the arithmetic");
    refuse(CONFIG("gemma3_text", "\"rope_parameters\":{\"other\":{}}"),
           "rope_parameters.other: {} is not understood, and may change the arithmetic");
    refuse(CONFIG("gemma2", "\"hidden_activation\":\"quick_gelu\""), "hidden_activation: quick_gelu is not supported");
}

#define LONG(n) "\"hidden_size\":64,\"num_attention_heads\":4,\"rope_scaling\":{\"type\":\"" n "\","
#define FACTORS "\"long_factor\":[1,2,3,4,5,6,7,8],\"short_factor\":[1,1,1,1,1,1,1,2]}"

static void test_published_phi(void **state) {
    (void)state;
    parsed p;
    accept(&p, CONFIG("phi3", COMMON4 ",\"architectures\":[\"Phi3ForCausalLM\"],"
                                      "\"auto_map\":{\"AutoConfig\":\"configuration_phi3.Phi3Config\","
                                      "\"AutoModelForCausalLM\":\"modeling_phi3.Phi3ForCausalLM\"},"
                                      "\"attention_bias\":false,\"embd_pdrop\":0.0,\"resid_pdrop\":0.0,"
                                      "\"lm_head_bias\":false,\"interpolate_factor\":1,\"full_attn_mod\":1,"
                                      "\"max_position_embeddings\":131072,\"original_max_position_embeddings\":4096,"
                                      "\"sliding_window\":262144," LONG("su") FACTORS));
    assert_true(p.c.rope.type == TW_ROPE_TYPE_LONG && p.c.rope.factor == 32 && p.c.rope.original_max == 4096);
    assert_true(p.c.rope.long_factor[7] == 8 && p.c.rope.short_factor[7] == 2 && p.c.rope.dims == 16);
    assert_int_equal(tw_config_window(&p.c, 0), 262144);
    tw_arena_free(&p.arena);
    accept(&p, CONFIG("phi3", "\"partial_rotary_factor\":0.75,\"head_dim\":128"));
    assert_int_equal(p.c.rope.dims, 96);
    tw_arena_free(&p.arena);
    refuse(CONFIG("phi3", LONG("longrope") "\"short_factor\":[1,1,1,1,1,1,1,2]}"),
           "rope: this rope_type needs short_factor and long_factor");
    refuse(CONFIG("phi3", "\"partial_rotary_factor\":0.5," LONG("longrope") FACTORS),
           "short_factor: is not a list of 4 positive numbers\nlong_factor: is not a list of 4 positive numbers");
    refuse(CONFIG("phi3", "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}"),
           "rope_scaling.rope_type: linear is not supported; supported: default, longrope");
    refuse(CONFIG("phi3", "\"partial_rotary_factor\":0.3,\"head_dim\":50"),
           "partial_rotary_factor: 0.3 rotates 15 elements of a head, not an even number");
    refuse(CONFIG("phi3", "\"auto_map\":{\"AutoModelForCausalLM\":\"modeling.Other\"}"),
           "auto_map: {\"AutoModelForCausalLM\":\"modeling.Other\"} is not understood, and may change the arithmetic");
    refuse(LLAMA("\"partial_rotary_factor\":0.5"), "partial_rotary_factor: 0.5 is not supported");
}

static void test_published_smollm_olmo(void **state) {
    (void)state;
    parsed p;
    accept(&p, CONFIG("smollm3",
                      COMMON4 ",\"architectures\":[\"SmolLM3ForCausalLM\"],\"num_hidden_layers\":4,\"layer_types\":"
                              "[\"full_attention\",\"full_attention\",\"full_attention\",\"full_attention\"],"
                              "\"max_window_layers\":28,\"mlp_bias\":false,\"no_rope_layer_interval\":4,"
                              "\"no_rope_layers\":[1,1,0,1],\"pretraining_tp\":2,\"rope_theta\":5000000.0,"
                              "\"sliding_window\":null,\"use_sliding_window\":false"));
    for (int i = 0; i < 4; i++) assert_int_equal(tw_config_rope(&p.c, i) == TW_LAYER_NO_ROPE, i == 2);
    tw_arena_free(&p.arena);
    accept(&p, "{\"model_type\":\"smollm3\"}");
    for (int i = 0; i < 36; i++) assert_int_equal(tw_config_rope(&p.c, i) == TW_LAYER_NO_ROPE, i % 4 == 3);
    tw_arena_free(&p.arena);
    accept(&p, CONFIG("smollm3", "\"use_sliding_window\":true,\"sliding_window\":99"));
    for (int i = 0; i < 36; i++) assert_int_equal(tw_config_window(&p.c, i), i % 4 == 3 ? 99 : 0);
    tw_arena_free(&p.arena);
    refuse(CONFIG("smollm3", "\"no_rope_layers\":[1,1]"), "no_rope_layers: [1,1] is not a list with 0 or 1 a layer");
    accept(&p, CONFIG("olmo2", COMMON4 ",\"architectures\":[\"Olmo2ForCausalLM\"],\"attention_bias\":false,"
                                       "\"clip_qkv\":null,\"eos_token_id\":100257,\"rms_norm_eps\":1e-06,"
                                       "\"rope_scaling\":null,\"rope_theta\":500000"));
    assert_int_equal(tw_config_features(&p.c, 0), TW_HAS_GATE | TW_HAS_DENSE | TW_HAS_POST_NORM | TW_HAS_QK_NORM);
    tw_arena_free(&p.arena);
    refuse(CONFIG("olmo2", "\"clip_qkv\":8.0"), "clip_qkv: 8.0 is not understood, and may change the arithmetic");
}

static void test_models_types(void **state) {
    (void)state;
    const char *list =
        "llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, gpt2, gemma, gemma2, gemma3_text, phi3, smollm3, olmo2";
    char want[200];
    snprintf(want, sizeof want, "model_type: gemma3 is not supported; supported: %s", list);
    refuse("{\"model_type\":\"gemma3\"}", want);
    snprintf(want, sizeof want, "model_type: is missing; supported: %s", list);
    refuse("{}", want);
    snprintf(want, sizeof want, "model_type: [1] is not supported; supported: %s", list);
    refuse("{\"model_type\":[1]}", want);
    refuse(LLAMA("\"architectures\":[\"LlamaForSequenceClassification\"]"),
           "architectures: LlamaForSequenceClassification is not supported; it must be LlamaForCausalLM");
    refuse(LLAMA("\"architectures\":[]"), "architectures: [] is not supported; it must be LlamaForCausalLM");
}

static void test_malformed(void **state) {
    (void)state;
    parsed p;
    parse(&p, "{\"model_type\":\n  \"llama\",,}");
    assert_int_equal(p.status, TW_ERR_FORMAT);
    assert_int_equal(p.diag.line, 2);
    assert_string_equal(p.diag.message, "invalid JSON: string or '}' expected near ','");
    parse(&p, "[1]");
    assert_int_equal(p.status, TW_ERR_FORMAT);
    assert_string_equal(p.diag.message, "not a JSON object");
    parse(&p, "");
    assert_int_equal(p.status, TW_ERR_FORMAT);
    parse(&p, LLAMA("\"a\":1,\"a\":2"));
    assert_string_equal(p.diag.message, "invalid JSON: duplicate object key near '\"a\"'");
}

static void test_sizes(void **state) {
    (void)state;
    refuse(LLAMA("\"num_hidden_layers\":0"), "num_hidden_layers: 0 is not an integer from 1 to 4096");
    refuse(LLAMA("\"num_hidden_layers\":5000"), "num_hidden_layers: 5000 is not an integer from 1 to 4096");
    refuse(LLAMA("\"hidden_size\":-8"), "hidden_size: -8 is not an integer from 1 to 1048576");
    refuse(LLAMA("\"hidden_size\":1e300"), "hidden_size: 1e300 is not an integer from 1 to 1048576");
    refuse(LLAMA("\"hidden_size\":64.5"), "hidden_size: 64.5 is not an integer from 1 to 1048576");
    refuse(LLAMA("\"vocab_size\":\"x\""), "vocab_size: x is not an integer from 1 to 16777216");
    refuse(LLAMA("\"vocab_size\":null"), "vocab_size: null is not supported");
    refuse(LLAMA("\"hidden_size\":100,\"num_attention_heads\":3,\"num_key_value_heads\":3"),
           "hidden size 100 is not a multiple of 3 heads\nhead_dim: 33 is not even, as rotary embeddings need");
    refuse(LLAMA("\"num_attention_heads\":8,\"num_key_value_heads\":3"),
           "num_key_value_heads: 3 does not divide 8 heads");
    refuse(LLAMA("\"head_dim\":7"), "head_dim: 7 is not even, as rotary embeddings need");
    refuse(CONFIG("mixtral", "\"num_experts_per_tok\":9"), "num_experts_per_tok: 9 is more than the 8 experts");
    refuse(CONFIG("qwen3_moe", "\"num_experts\":4,\"num_local_experts\":8,\"num_experts_per_tok\":2"),
           "num_experts: 4 contradicts num_local_experts");
    refuse(LLAMA("\"rms_norm_eps\":0"), "rms_norm_eps: 0 is not a number from 1e-30 to 1");
    refuse(LLAMA("\"rms_norm_eps\":\"1e-6\""), "rms_norm_eps: 1e-6 is not a number from 1e-30 to 1");
    refuse(CONFIG("mistral", "\"sliding_window\":0"), "sliding_window: 0 is not an integer from 1 to 1073741824");
    refuse(CONFIG("qwen3", "\"head_dim\":null"), "head_dim: null is not supported");
    refuse(CONFIG("gpt2", "\"n_embd\":100,\"n_head\":3"), "hidden size 100 is not a multiple of 3 heads");
}

static void test_optional_sizes(void **state) {
    (void)state;
    parsed p;
    accept(&p, LLAMA("\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":null,\"head_dim\":null"));
    assert_true(p.c.n_kv_heads == 4 && p.c.head_dim == 16);
    tw_arena_free(&p.arena);
    accept(&p, LLAMA("\"hidden_size\":100.0,\"num_attention_heads\":3,\"head_dim\":32"));
    assert_true(p.c.dim == 100 && p.c.head_dim == 32 && p.c.n_kv_heads == 3);
    tw_arena_free(&p.arena);
    accept(&p, CONFIG("gpt2", "\"n_embd\":32,\"n_head\":4,\"n_inner\":null,\"scale_attn_weights\":false"));
    assert_true(p.c.ffn_dim == 128 && !p.c.scale_attn);
    tw_arena_free(&p.arena);
}

static void test_unknown(void **state) {
    (void)state;
    refuse(LLAMA("\"attn_logit_softcapping\":50.0"),
           "attn_logit_softcapping: 50.0 is not understood, and may change the arithmetic");
    refuse(
        LLAMA("\"quantization_config\":{\"bits\":4,\"quant_method\":\"gptq\"}"),
        "quantization_config: {\"bits\":4,\"quant_method\":\"gptq\"} is not understood, and may change the arithmetic");
    refuse(LLAMA("\"sliding_window\":7"), "sliding_window: 7 is not understood, and may change the arithmetic");
    refuse(CONFIG("gpt2", "\"hidden_size\":768"), "hidden_size: 768 is not understood, and may change the arithmetic");
    refuse(LLAMA("\"hidden_act\":\"gelu_fast\""), "hidden_act: gelu_fast is not supported");
    refuse(LLAMA("\"hidden_act\":3"), "hidden_act: 3 is not supported");
    refuse(CONFIG("gpt2", "\"scale_attn_by_inverse_layer_idx\":true"),
           "scale_attn_by_inverse_layer_idx: true is not supported");
    refuse(CONFIG("gpt2", "\"add_cross_attention\":true"), "add_cross_attention: true is not supported");
    refuse(LLAMA("\"pruned_heads\":{\"0\":[1]}"), "pruned_heads: {\"0\":[1]} is not supported");
    refuse(LLAMA("\"attention_bias\":1"), "attention_bias: 1 is not true or false");
    refuse(LLAMA("\"partial_rotary_factor\":0.5"), "partial_rotary_factor: 0.5 is not supported");
    parsed p;
    accept(&p, LLAMA("\"some_new_option\":null,\"partial_rotary_factor\":1.0"));
    tw_arena_free(&p.arena);
}

/* All at once; what would break the lines, or run on, does not. */
static void test_all_reasons(void **state) {
    (void)state;
    refuse(LLAMA("\"hidden_act\":\"a\\nb\\u001b\",\"x\":1,\"mlp_bias\":\"no\""),
           "x: 1 is not understood, and may change the arithmetic\nmlp_bias: no is not true or false\n"
           "hidden_act: a?b? is not supported");
    char text[4096], list[3000] = "0";
    for (int i = 0; i < 400; i++) strcat(list, ",12345");
    snprintf(text, sizeof text, "{\"model_type\":\"llama\",\"x\":[%s]}", list);
    parsed p;
    parse(&p, text);
    assert_non_null(strstr(p.diag.message, "... is not understood, and may change the arithmetic"));
    assert_true(strlen(p.diag.message) < 200);
    tw_arena_free(&p.arena);
}

#define ROPE5(...) LLAMA("\"rope_parameters\":{" __VA_ARGS__ "}")
#define ROPE4(...) LLAMA("\"rope_theta\":5000,\"rope_scaling\":{" __VA_ARGS__ "}")

static void test_rope_accepted(void **state) {
    (void)state;
    parsed p;
    accept(&p, ROPE5("\"rope_theta\":7000.0,\"rope_type\":\"default\""));
    assert_true(p.c.rope.type == TW_ROPE_TYPE_DEFAULT && p.c.rope.theta == 7000);
    tw_arena_free(&p.arena);
    accept(&p, ROPE4("\"type\":\"linear\",\"factor\":2"));
    assert_true(p.c.rope.type == TW_ROPE_TYPE_LINEAR && p.c.rope.theta == 5000 && p.c.rope.factor == 2);
    tw_arena_free(&p.arena);
    accept(&p, ROPE4("\"type\":\"dynamic\",\"rope_type\":\"dynamic\",\"factor\":4.0"));
    assert_true(p.c.rope.type == TW_ROPE_TYPE_DYNAMIC && p.c.rope.original_max == 2048);
    tw_arena_free(&p.arena);
    accept(&p, ROPE4("\"rope_type\":\"yarn\",\"factor\":4.0,\"beta_fast\":null,\"finetuned\":true,"
                     "\"original_max_position_embeddings\":512,\"truncate\":false"));
    assert_true(p.c.rope.beta_fast == 32 && p.c.rope.original_max == 512 && !p.c.rope.truncate);
    assert_true(p.c.rope.attention_factor < 0);
    tw_arena_free(&p.arena);
    accept(&p, ROPE5("\"rope_type\":\"yarn\",\"factor\":null,\"original_max_position_embeddings\":512"));
    assert_true(p.c.rope.factor == 4);
    tw_arena_free(&p.arena);
    accept(&p, ROPE5("\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0"));
    assert_true(p.c.rope.original_max == 2048);
    tw_arena_free(&p.arena);
    accept(&p, LLAMA("\"rope_theta\":5000.0,\"rope_scaling\":null,\"rope_parameters\":{\"rope_theta\":5000.0}"));
    tw_arena_free(&p.arena);
}

static void test_rope_refused(void **state) {
    (void)state;
    refuse(ROPE5("\"rope_type\":\"longrope\",\"factor\":2.0"),
           "rope_parameters.rope_type: longrope is not supported; supported: default, linear, dynamic, llama3, yarn");
    refuse(ROPE4("\"type\":\"su\",\"rope_type\":\"linear\",\"factor\":2"),
           "rope_scaling.rope_type: linear contradicts type");
    refuse(ROPE5("\"rope_type\":\"linear\""), "rope: this rope_type needs a factor");
    refuse(ROPE5("\"rope_type\":\"linear\",\"factor\":0.5"),
           "rope_parameters.factor: 0.5 is not supported\nrope: this rope_type needs a factor");
    refuse(ROPE5("\"mrope_section\":[16,24,24]"),
           "rope_parameters.mrope_section: [16,24,24] is not understood, and may change the arithmetic");
    refuse(ROPE5("\"partial_rotary_factor\":0.25"), "rope_parameters.partial_rotary_factor: 0.25 is not supported");
    refuse(ROPE5("\"rope_theta\":0"), "rope_parameters.rope_theta: 0 is not supported");
    refuse(LLAMA("\"rope_theta\":-1"), "rope_theta: -1 is not supported");
    refuse(LLAMA("\"rope_theta\":5000,\"rope_parameters\":{\"rope_theta\":6000}"),
           "rope_theta: 5000 contradicts the one of rope_parameters");
    refuse(LLAMA("\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},\"rope_parameters\":{\"rope_theta\":6000}"),
           "rope_scaling: {\"type\":\"linear\",\"factor\":2} is there beside rope_parameters");
    refuse(LLAMA("\"rope_scaling\":\"linear\""), "rope_scaling: linear is not supported");
    refuse(ROPE5("\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":4.0,\"high_freq_factor\":1.0"),
           "rope: low_freq_factor 4 and high_freq_factor 1 are not a rising pair");
    refuse(ROPE5("\"rope_type\":\"yarn\",\"factor\":2,\"truncate\":null"),
           "rope_parameters.truncate: null is not true or false");
    refuse(ROPE5("\"rope_type\":\"yarn\",\"factor\":2,\"original_max_position_embeddings\":0"),
           "rope_parameters.original_max_position_embeddings: 0 is not supported");
    refuse(LLAMA("\"head_dim\":2,\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}"),
           "rope: the dynamic rope_type needs a head_dim above 2");
}

static void test_windows(void **state) {
    (void)state;
    parsed p;
    accept(&p, CONFIG("mistral", "\"sliding_window\":null"));
    assert_int_equal(tw_config_window(&p.c, 0), 0);
    tw_arena_free(&p.arena);
    accept(&p,
           CONFIG("qwen2",
                  "\"num_hidden_layers\":4,\"use_sliding_window\":true,\"sliding_window\":9,\"max_window_layers\":2"));
    assert_true(tw_config_window(&p.c, 1) == 0 && tw_config_window(&p.c, 2) == 9);
    tw_arena_free(&p.arena);
    accept(&p, CONFIG("qwen3", "\"num_hidden_layers\":2,\"use_sliding_window\":true,\"sliding_window\":9,"
                               "\"layer_types\":[\"sliding_attention\",\"full_attention\"]"));
    assert_true(tw_config_window(&p.c, 0) == 9 && tw_config_window(&p.c, 1) == 0);
    tw_arena_free(&p.arena);
    accept(&p, CONFIG("qwen3_moe", "\"use_sliding_window\":true,\"sliding_window\":9"));
    assert_int_equal(tw_config_window(&p.c, 0), 9);
    tw_arena_free(&p.arena);
    refuse(CONFIG("qwen3_moe", "\"use_sliding_window\":true,\"sliding_window\":9,\"max_window_layers\":3"),
           "max_window_layers: 3 is not supported with use_sliding_window");
    refuse(
        CONFIG(
            "qwen2",
            "\"num_hidden_layers\":2,\"sliding_window\":9,\"layer_types\":[\"sliding_attention\",\"full_attention\"]"),
        "layer_types: sliding_attention asks for a sliding_window, and there is none");
    refuse(CONFIG("qwen2", "\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\"]"),
           "layer_types: [\"full_attention\"] is not a list with one type a layer");
    refuse(CONFIG("qwen2", "\"num_hidden_layers\":1,\"layer_types\":[\"chunked_attention\"]"),
           "layer_types: chunked_attention is not supported; supported: full_attention, sliding_attention");
    refuse(CONFIG("mistral", "\"num_hidden_layers\":2,\"layer_types\":[\"sliding_attention\",\"full_attention\"]"),
           "layer_types: full_attention contradicts sliding_window");
}

static void test_mixture_layers(void **state) {
    (void)state;
    parsed p;
    accept(&p, CONFIG("qwen3_moe", "\"num_hidden_layers\":6,\"mlp_only_layers\":[1,77],\"decoder_sparse_step\":2"));
    for (int i = 0; i < 6; i++) {
        bool sparse = i == 3 || i == 5;
        assert_int_equal((tw_config_features(&p.c, i) & TW_HAS_EXPERTS) != 0, sparse);
        assert_int_equal((tw_config_features(&p.c, i) & TW_HAS_DENSE) != 0, !sparse);
    }
    tw_arena_free(&p.arena);
    refuse(CONFIG("qwen3_moe", "\"mlp_only_layers\":[\"1\"]"), "mlp_only_layers: [\"1\"] is not a list of layers");
    refuse(CONFIG("qwen3_moe", "\"mlp_only_layers\":[0,-1]"), "mlp_only_layers: [0,-1] is not a list of layers");
    refuse(CONFIG("qwen3_moe", "\"decoder_sparse_step\":0"),
           "decoder_sparse_step: 0 is not an integer from 1 to 1048576");
}

static void test_tokens(void **state) {
    (void)state;
    parsed p;
    accept(&p, LLAMA("\"bos_token_id\":null,\"eos_token_id\":null"));
    assert_true(p.c.bos == -1 && p.c.n_eos == 0);
    tw_arena_free(&p.arena);
    accept(&p, LLAMA("\"eos_token_id\":-1"));
    assert_int_equal(p.c.n_eos, 0);
    tw_arena_free(&p.arena);
    refuse(LLAMA("\"eos_token_id\":[1,\"2\"]"), "eos_token_id: [1,\"2\"] is neither a token nor a list of them");
    char many[512] = "", why[160];
    size_t n = (size_t)snprintf(many, sizeof many, "{\"model_type\":\"llama\",\"eos_token_id\":[0");
    for (int i = 1; i <= TW_EOS_MAX; i++) n += (size_t)snprintf(many + n, sizeof many - n, ",%d", i);
    snprintf(many + n, sizeof many - n, "]}");
    parse(&p, many);
    snprintf(why, sizeof why, "has more than %d tokens", TW_EOS_MAX);
    assert_non_null(strstr(p.diag.message, why));
    tw_arena_free(&p.arena);
    refuse(LLAMA("\"bos_token_id\":\"x\""), "bos_token_id: x is not a token");
}

static void generation(parsed *p, const char *text) {
    accept(p, LLAMA("\"eos_token_id\":2,\"bos_token_id\":1"));
    p->status = tw_config_parse_generation(&p->c, &p->arena, text, strlen(text), "generation_config.json", &p->reasons);
}

static void test_generation(void **state) {
    (void)state;
    parsed p;
    generation(&p, "{\"transformers_version\":\"4.45.0\",\"repetition_penalty\":1.1}");
    assert_true(p.c.eos[0] == 2 && p.c.n_eos == 1 && p.c.bos == 1 && !p.c.do_sample);
    assert_true(p.c.temperature == 1 && p.c.top_p == 1 && p.c.top_k == 50);
    tw_arena_free(&p.arena);
    generation(&p, "{\"eos_token_id\":[7,8],\"do_sample\":true,\"temperature\":0.6,\"top_p\":0.9,\"top_k\":20}");
    assert_true(p.c.n_eos == 2 && p.c.eos[1] == 8 && p.c.bos == 1 && p.c.do_sample);
    assert_true(p.c.temperature == 0.6 && p.c.top_p == 0.9 && p.c.top_k == 20 && !p.reasons.count);
    tw_arena_free(&p.arena);
    generation(&p, "{\"top_k\":null,\"temperature\":null}");
    assert_true(p.c.top_k == 0 && p.c.temperature == 1 && !p.reasons.count);
    tw_arena_free(&p.arena);
    generation(&p, "{\"top_p\":1.5}");
    assert_string_equal(p.diag.message, "top_p: 1.5 is not a number from 0 to 1");
    tw_arena_free(&p.arena);
    generation(&p, "[]");
    assert_int_equal(p.status, TW_ERR_FORMAT);
    tw_arena_free(&p.arena);
    generation(&p, "{\"top_p\":");
    assert_int_equal(p.status, TW_ERR_FORMAT);
    tw_arena_free(&p.arena);
    generation(&p, "{\"min_p\":0.05,\"stop_strings\":\"###\"}");
    assert_true(p.c.min_p == 0.05 && p.c.n_stop == 1 && !p.reasons.count);
    assert_string_equal(p.c.stop[0], "###");
    tw_arena_free(&p.arena);
    generation(&p, "{\"min_p\":null,\"stop_strings\":[\"a\",\"bc\"]}");
    assert_true(p.c.min_p == 0 && p.c.n_stop == 2 && !p.reasons.count);
    assert_string_equal(p.c.stop[1], "bc");
    tw_arena_free(&p.arena);
    static const char *const bad[] = {"7", "[\"a\",7]", "[\"\"]", "\"\"", "[\"a\\u0000b\"]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"stop_strings\":%s}", bad[i]);
        generation(&p, text);
        assert_non_null(strstr(p.diag.message, "is neither a text nor a list of them"));
        tw_arena_free(&p.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_mixture_defaults),
        cmocka_unit_test(test_published_llama),
        cmocka_unit_test(test_published_others),
        cmocka_unit_test(test_published_gemma),
        cmocka_unit_test(test_published_phi),
        cmocka_unit_test(test_published_smollm_olmo),
        cmocka_unit_test(test_models_types),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_optional_sizes),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_all_reasons),
        cmocka_unit_test(test_rope_accepted),
        cmocka_unit_test(test_rope_refused),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_mixture_layers),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
