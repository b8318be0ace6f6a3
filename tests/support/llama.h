/* SPDX-License-Identifier: Apache-2.0 */
/* A llama of one layer with random float weights, its own head, and a shape of one's choice. */
#ifndef TW_TESTS_SUPPORT_LLAMA_H
#define TW_TESTS_SUPPORT_LLAMA_H

enum { TEST_LLAMA_VOCAB = 64, TEST_LLAMA_POSITIONS = 64 };

typedef struct test_llama {
    int dim, heads, kv_heads, head_dim, ffn;
    int vocab; /* 0: TEST_LLAMA_VOCAB */
} test_llama;

/* config.json and model.safetensors. */
void test_write_llama(const char *folder, const test_llama *shape);

struct tw_model;
/* The same as an open model; the caller closes it. */
struct tw_model *test_open_llama(const test_llama *shape);

struct tw_weight;
/* A weight's elements in memory of the test's own, as floats it may change: [rows][cols]. The caller frees them after
   the model's last use. */
float *test_own_weight(struct tw_weight *w);

#endif
