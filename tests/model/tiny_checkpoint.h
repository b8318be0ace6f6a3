/* SPDX-License-Identifier: Apache-2.0 */
/* Writes small checkpoints, right or wrong in one respect, for the tests of the importer. */
#ifndef TW_TEST_TINY_CHECKPOINT_H
#define TW_TEST_TINY_CHECKPOINT_H

#include "support/support.h"

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tiny_tensor {
    char name[128], type[8];
    int rank;
    long shape[4];
    bool dropped;
} tiny_tensor;

enum { TINY_MAX = 96 };

typedef struct tiny {
    tiny_tensor t[TINY_MAX];
    int n;
} tiny;

static inline void tiny_add(tiny *c, const char *name, const char *type, int rank, long a, long b, long d) {
    assert_true(c->n < TINY_MAX);
    tiny_tensor *t = &c->t[c->n++];
    *t = (tiny_tensor){.rank = rank, .shape = {a, b, d}};
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->type, sizeof t->type, "%s", type);
}

static inline void tiny_layer(tiny *c, int layer, const char *name, int rank, long a, long b) {
    char full[128];
    snprintf(full, sizeof full, "model.layers.%d.%s", layer, name);
    tiny_add(c, full, "F32", rank, a, b, 0);
}

static inline tiny_tensor *tiny_find(tiny *c, const char *name) {
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->t[i].name, name)) return &c->t[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* Hidden 8, two heads of 4, one kv head, an MLP of 12, a vocabulary of 16, two layers: what TINY_LLAMA describes. */
static inline tiny tiny_llama(void) {
    tiny c = {.n = 0};
    tiny_add(&c, "model.embed_tokens.weight", "F32", 2, 16, 8, 0);
    tiny_add(&c, "lm_head.weight", "F32", 2, 16, 8, 0);
    tiny_add(&c, "model.norm.weight", "F32", 1, 8, 0, 0);
    for (int i = 0; i < 2; i++) {
        tiny_layer(&c, i, "input_layernorm.weight", 1, 8, 0);
        tiny_layer(&c, i, "post_attention_layernorm.weight", 1, 8, 0);
        tiny_layer(&c, i, "self_attn.q_proj.weight", 2, 8, 8);
        tiny_layer(&c, i, "self_attn.k_proj.weight", 2, 4, 8);
        tiny_layer(&c, i, "self_attn.v_proj.weight", 2, 4, 8);
        tiny_layer(&c, i, "self_attn.o_proj.weight", 2, 8, 8);
        tiny_layer(&c, i, "mlp.gate_proj.weight", 2, 12, 8);
        tiny_layer(&c, i, "mlp.up_proj.weight", 2, 12, 8);
        tiny_layer(&c, i, "mlp.down_proj.weight", 2, 8, 12);
    }
    return c;
}

#define TINY_SIZES                                                                                                     \
    "\"hidden_size\":8,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"intermediate_size\":12,\"vocab_size\":"   \
    "16,"                                                                                                              \
    "\"num_hidden_layers\":2,\"max_position_embeddings\":32"
#define TINY_LLAMA "{\"model_type\":\"llama\"," TINY_SIZES "}"

static inline long tiny_bytes(const tiny_tensor *t) {
    long n = !strcmp(t->type, "F32")                              ? 4
             : !strcmp(t->type, "I64")                            ? 8
             : !strcmp(t->type, "BOOL") || !strcmp(t->type, "U8") ? 1
                                                                  : 2;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

/* Tensors [from, to) as a file; element k of every tensor is a small number that depends on k alone. */
static inline void tiny_write_part(const tiny *c, const char *folder, const char *file, int from, int to) {
    tw_buf b = {0}, data = {0};
    char prefix[8] = {0};
    tw_buf_add(&b, prefix, 8);
    tw_buf_str(&b, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = from; i < to; i++) {
        const tiny_tensor *t = &c->t[i];
        if (t->dropped) continue;
        tw_buf_printf(&b, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, t->type);
        for (int k = 0; k < t->rank; k++) tw_buf_printf(&b, "%s%ld", k ? "," : "", t->shape[k]);
        long n = tiny_bytes(t);
        tw_buf_printf(&b, "],\"data_offsets\":[%zu,%zu]}", data.size, data.size + (size_t)n);
        for (long k = 0; k < n / 4; k++) {
            float f = (float)(k % 17 - 8) / 16;
            tw_buf_add(&data, &f, 4);
        }
        tw_buf_add(&data, prefix, (size_t)(n % 4));
    }
    tw_buf_str(&b, "}");
    size_t header = b.size - 8;
    for (int i = 0; i < 8; i++) b.data[i] = (char)(header >> 8 * i & 0xff);
    tw_buf_add(&b, data.data ? data.data : "", data.size);
    test_write(folder, file, b.data, b.size);
    tw_buf_free(&b);
    tw_buf_free(&data);
}

static inline void tiny_write(const tiny *c, const char *folder, const char *config) {
    tiny_write_part(c, folder, "model.safetensors", 0, c->n);
    if (config) test_write(folder, "config.json", config, strlen(config));
}

#endif
