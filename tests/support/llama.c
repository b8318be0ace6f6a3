/* SPDX-License-Identifier: Apache-2.0 */
#include "support/llama.h"

#include "support/support.h"

#include "model/model.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 12 };
typedef struct tensor {
    const char *name;
    int rows, columns; /* columns: 0, a norm */
} tensor;

static size_t elements(const tensor *t) {
    return (size_t)t->rows * (size_t)(t->columns ? t->columns : 1);
}

static int vocab_of(const test_llama *s) {
    return s->vocab ? s->vocab : TEST_LLAMA_VOCAB;
}

static void write_config(const char *folder, const test_llama *s) {
    char text[1024];
    int n = snprintf(text, sizeof text,
                     "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": %d, "
                     "\"intermediate_size\": %d, \"num_hidden_layers\": 1, \"num_attention_heads\": %d, "
                     "\"num_key_value_heads\": %d, \"head_dim\": %d, \"vocab_size\": %d, "
                     "\"max_position_embeddings\": %d, \"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\", "
                     "\"tie_word_embeddings\": false, \"torch_dtype\": \"float32\", \"rope_theta\": 10000.0}",
                     s->dim, s->ffn, s->heads, s->kv_heads, s->head_dim, vocab_of(s), TEST_LLAMA_POSITIONS);
    test_write(folder, "config.json", text, (size_t)n);
}

void test_write_llama(const char *folder, const test_llama *s) {
    const int q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const tensor tensors[TENSORS] = {{"model.embed_tokens.weight", vocab_of(s), s->dim},
                                     {"lm_head.weight", vocab_of(s), s->dim},
                                     {"model.norm.weight", s->dim, 0},
                                     {"model.layers.0.input_layernorm.weight", s->dim, 0},
                                     {"model.layers.0.post_attention_layernorm.weight", s->dim, 0},
                                     {"model.layers.0.self_attn.q_proj.weight", q, s->dim},
                                     {"model.layers.0.self_attn.k_proj.weight", kv, s->dim},
                                     {"model.layers.0.self_attn.v_proj.weight", kv, s->dim},
                                     {"model.layers.0.self_attn.o_proj.weight", s->dim, q},
                                     {"model.layers.0.mlp.gate_proj.weight", s->ffn, s->dim},
                                     {"model.layers.0.mlp.up_proj.weight", s->ffn, s->dim},
                                     {"model.layers.0.mlp.down_proj.weight", s->dim, s->ffn}};
    char header[4096];
    size_t at = 0, total = 0;
    int n = snprintf(header, sizeof header, "{");
    for (int i = 0; i < TENSORS; i++, total = at) {
        at = total + 4 * elements(&tensors[i]);
        n += snprintf(header + n, sizeof header - (size_t)n, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%d", i ? "," : "",
                      tensors[i].name, tensors[i].rows);
        if (tensors[i].columns) n += snprintf(header + n, sizeof header - (size_t)n, ",%d", tensors[i].columns);
        n += snprintf(header + n, sizeof header - (size_t)n, "],\"data_offsets\":[%zu,%zu]}", total, at);
    }
    n += snprintf(header + n, sizeof header - (size_t)n, "}");
    while (n % 8) header[n++] = ' ';
    char *file = malloc(8 + (size_t)n + total);
    assert_non_null(file);
    const uint64_t size = (uint64_t)n;
    memcpy(file, &size, 8);
    memcpy(file + 8, header, (size_t)n);
    float *data = (float *)(void *)(file + 8 + n);
    uint32_t state = 1;
    for (int i = 0; i < TENSORS; i++)
        for (size_t k = 0; k < elements(&tensors[i]); k++) {
            state = state * 1664525u + 1013904223u;
            const float x = (float)(int32_t)state * 0x1p-31f;
            *data++ = tensors[i].columns == 0 ? 1 + 0.1f * x : tensors[i].columns > 1000 ? 0.05f * x : 0.3f * x;
        }
    write_config(folder, s);
    test_write(folder, "model.safetensors", file, 8 + (size_t)n + total);
    free(file);
}

tw_model *test_open_llama(const test_llama *shape) {
    char *folder = test_folder_make();
    tw_model *m;
    tw_diag d;
    test_write_llama(folder, shape);
    if (tw_model_open(&m, folder, &d) != TW_OK) fail_msg("%s", d.message);
    test_folder_remove(folder); /* what is mapped stays */
    return m;
}

float *test_own_weight(tw_weight *w) {
    float *data = malloc((size_t)(w->rows * w->cols) * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < w->rows; i++) tw_weight_read(w, i, 0, w->cols, data + i * w->cols);
    w->data = data;
    w->dtype = TW_F32;
    w->row_stride = w->cols;
    w->col_stride = 1;
    return data;
}
