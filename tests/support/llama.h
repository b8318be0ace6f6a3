/* SPDX-License-Identifier: Apache-2.0 */
/* A llama of one layer with random float weights, its own head, and a shape of one's choice. */
#ifndef TW_TESTS_SUPPORT_LLAMA_H
#define TW_TESTS_SUPPORT_LLAMA_H

enum { TEST_LLAMA_VOCAB = 64, TEST_LLAMA_POSITIONS = 64 };

typedef struct test_llama {
    int dim, heads, kv_heads, head_dim, ffn;
} test_llama;

/* config.json and model.safetensors. */
void test_write_llama(const char *folder, const test_llama *shape);

#endif
