/* SPDX-License-Identifier: Apache-2.0 */
#include "network_models.h"

#include "base/random.h"
#include "graph/build.h"

#include <math.h>
#include <string.h>

typedef struct shape {
    const char *name;
    enum { BERT, GPT2, LLAMA } family;
    int layers;
    int64_t dim, heads, kv_heads, ffn, vocab;
} shape;

static const shape shapes[] = {
    {"bert-tiny", BERT, 2, 128, 2, 2, 512, 30522},
    {"bert-mini", BERT, 4, 256, 4, 4, 1024, 30522},
    {"bert-small", BERT, 4, 512, 8, 8, 2048, 30522},
    {"bert-medium", BERT, 8, 512, 8, 8, 2048, 30522},
    {"bert-base", BERT, 12, 768, 12, 12, 3072, 30522},
    {"bert-large", BERT, 24, 1024, 16, 16, 4096, 30522},
    {"gpt2", GPT2, 12, 768, 12, 12, 3072, 50257},
    {"gpt2-medium", GPT2, 24, 1024, 16, 16, 4096, 50257},
    {"gpt2-test", GPT2, 2, 128, 2, 2, 512, 1000},
    {"llama-test", LLAMA, 2, 256, 4, 2, 512, 1000},
    {"open-llama-3b", LLAMA, 26, 3200, 32, 32, 8640, 32000},
    {"llama-3-8b", LLAMA, 32, 4096, 32, 8, 14336, 128256},
};
const char network_model_names[] = "bert-tiny, bert-mini, bert-small, bert-medium, bert-base, bert-large, gpt2, "
                                   "gpt2-medium, gpt2-test, llama-test, open-llama-3b, llama-3-8b";

typedef struct maker {
    tw_graph *g;
    const shape *s;
    tw_element type;
    int64_t batch, length;
    tw_random random;
} maker;

/* Values of random constants repeat in another order. */
enum { TABLE = 1 << 12 };

static int constant(maker *m, int rank, const int64_t *dims, double middle, double spread) {
    tw_array a = {.type = m->type, .rank = rank};
    memcpy(a.dims, dims, (size_t)rank * sizeof *dims);
    const int64_t n = tw_array_elements(&a), size = tw_element_bits(m->type) / 8;
    char *data = tw_arena_alloc(&m->g->arena, (size_t)(n * size) + 1), table[TABLE * 4];
    if (!data) return -1;
    for (int i = 0; i < TABLE; i++) {
        const double x = middle + spread * (2 * tw_random_unit(&m->random) - 1);
        tw_array_set_reals(m->type, table, i, 1, &x);
    }
    uint64_t r = tw_random_u64(&m->random) | 1;
    for (int64_t i = 0; i < n; i++) {
        r = r * 6364136223846793005u + 1442695040888963407u;
        memcpy(data + i * size, table + (r >> 52) * (uint64_t)size, (size_t)size);
    }
    a.data = data;
    return tw_graph_constant(m->g, &a);
}

#define LIST(...) ((const int64_t[]){__VA_ARGS__})

static int op1(maker *m, const char *name, int x) {
    return tw_graph_op(m->g, name, TW_OPERANDS(x), TW_NO_ATTRIBUTES);
}

static int op2(maker *m, const char *name, int x, int y) {
    return tw_graph_op(m->g, name, TW_OPERANDS(x, y), TW_NO_ATTRIBUTES);
}

static int linear(maker *m, int x, int64_t in, int64_t out, bool bias) {
    const int y = op2(m, "MatMul", x, constant(m, 2, LIST(in, out), 0, 1 / sqrt((double)in)));
    return bias ? op2(m, "Add", y, constant(m, 1, LIST(out), 0, 0.1)) : y;
}

static int norm(maker *m, int x, bool layer) {
    const int64_t dim = m->s->dim;
    const int gain = constant(m, 1, LIST(dim), 1, 0.1);
    if (!layer)
        return tw_graph_op(m->g, "RMSNormalization", TW_OPERANDS(x, gain), TW_ATTRIBUTES(TW_REAL("epsilon", 1e-6)));
    return tw_graph_op(m->g, "LayerNormalization", TW_OPERANDS(x, gain, constant(m, 1, LIST(dim), 0, 0.1)),
                       TW_ATTRIBUTES(TW_REAL("epsilon", 1e-5)));
}

static int attend(maker *m, int q, int k, int v, bool causal) {
    return tw_graph_op(m->g, "Attention", TW_OPERANDS(q, k, v),
                       TW_ATTRIBUTES(TW_INT("q_num_heads", m->s->heads), TW_INT("kv_num_heads", m->s->kv_heads),
                                     TW_INT("is_causal", causal)));
}

static int embed(maker *m, int ids, bool places) {
    const int words = constant(m, 2, LIST(m->s->vocab, m->s->dim), 0, 0.5);
    const int x = op2(m, "Gather", words, ids);
    return places ? op2(m, "Add", x, constant(m, 2, LIST(m->length, m->s->dim), 0, 0.5)) : x;
}

static int bert(maker *m, int ids, int layers) {
    const shape *s = m->s;
    int x = norm(m, embed(m, ids, true), true);
    for (int i = 0; i < layers; i++) {
        const int q = linear(m, x, s->dim, s->dim, true), k = linear(m, x, s->dim, s->dim, true),
                  v = linear(m, x, s->dim, s->dim, true);
        const int a = linear(m, attend(m, q, k, v, false), s->dim, s->dim, true);
        x = norm(m, op2(m, "Add", a, x), true);
        const int h = op1(m, "Gelu", linear(m, x, s->dim, s->ffn, true));
        x = norm(m, op2(m, "Add", linear(m, h, s->ffn, s->dim, true), x), true);
    }
    return x;
}

static int gpt2(maker *m, int ids, int layers) {
    const shape *s = m->s;
    int x = embed(m, ids, true);
    for (int i = 0; i < layers; i++) {
        const int n = norm(m, x, true);
        const int parts = tw_graph_op_several(m->g, "Split", TW_OPERANDS(linear(m, n, s->dim, 3 * s->dim, true)),
                                              TW_ATTRIBUTES(TW_INT("axis", -1), TW_INT("num_outputs", 3)), 3);
        x = op2(m, "Add", linear(m, attend(m, parts, parts + 1, parts + 2, true), s->dim, s->dim, true), x);
        const int h = tw_graph_op(m->g, "Gelu", TW_OPERANDS(linear(m, norm(m, x, true), s->dim, s->ffn, true)),
                                  TW_ATTRIBUTES(TW_TEXT("approximate", "tanh")));
        x = op2(m, "Add", linear(m, h, s->ffn, s->dim, true), x);
    }
    return linear(m, norm(m, x, true), s->dim, s->vocab, false);
}

static int rotate(maker *m, int x, int cosine, int sine, int places, int64_t heads) {
    return tw_graph_op(m->g, "RotaryEmbedding", TW_OPERANDS(x, cosine, sine, places),
                       TW_ATTRIBUTES(TW_INT("num_heads", heads)));
}

static int llama(maker *m, int ids, int places, int layers) {
    const shape *s = m->s;
    const int64_t head = s->dim / s->heads, kv = s->kv_heads * head;
    const int cosine = constant(m, 2, LIST(m->length, head / 2), 0, 1),
              sine = constant(m, 2, LIST(m->length, head / 2), 0, 1);
    int x = embed(m, ids, false);
    for (int i = 0; i < layers; i++) {
        const int n = norm(m, x, false);
        const int q = rotate(m, linear(m, n, s->dim, s->dim, false), cosine, sine, places, s->heads);
        const int k = rotate(m, linear(m, n, s->dim, kv, false), cosine, sine, places, s->kv_heads);
        const int a = attend(m, q, k, linear(m, n, s->dim, kv, false), true);
        x = op2(m, "Add", linear(m, a, s->dim, s->dim, false), x);
        const int y = norm(m, x, false), gate = linear(m, y, s->dim, s->ffn, false);
        const int up = linear(m, y, s->dim, s->ffn, false);
        const int h = op2(m, "Mul", op2(m, "Mul", gate, op1(m, "Sigmoid", gate)), up);
        x = op2(m, "Add", linear(m, h, s->ffn, s->dim, false), x);
    }
    return linear(m, norm(m, x, false), s->dim, s->vocab, false);
}

tw_graph *network_model(const char *name, tw_element type, int64_t batch, int64_t length, int layers) {
    maker m = {.type = type, .batch = batch, .length = length, .random = tw_random_seed(1)};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!strcmp(shapes[i].name, name)) m.s = &shapes[i];
    m.g = m.s ? tw_graph_new() : NULL;
    if (!m.g) return NULL;
    const int64_t dims[] = {batch, length};
    const int ids = tw_graph_input(m.g, "ids", TW_E_i64, 2, dims);
    const int n = layers ? layers : m.s->layers;
    const int places = m.s->family == LLAMA ? tw_graph_input(m.g, "positions", TW_E_i64, 2, dims) : -1;
    const int out = m.s->family == BERT   ? bert(&m, ids, n)
                    : m.s->family == GPT2 ? gpt2(&m, ids, n)
                                          : llama(&m, ids, places, n);
    tw_graph_output(m.g, out, "out");
    if (!m.g->arena.failed) return m.g;
    tw_graph_free(m.g);
    return NULL;
}
