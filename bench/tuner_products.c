/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner_products.h"

const tuner_model tuner_models[] = {
    {"bert-tiny", TUNER_BERT, 2, 128, 512, 128, 0, "6/17"},
    {"bert-mini", TUNER_BERT, 4, 256, 1024, 256, 0, "6/33"},
    {"bert-small", TUNER_BERT, 4, 512, 2048, 512, 0, "6/33"},
    {"bert-medium", TUNER_BERT, 8, 512, 2048, 512, 0, "6/65"},
    {"bert-base", TUNER_BERT, 12, 768, 3072, 768, 0, "6/97"},
    {"bert-large", TUNER_BERT, 24, 1024, 4096, 1024, 0, "6/193"},
    {"gpt2", TUNER_GPT2, 12, 768, 3072, 768, 0, "6/72"},
    {"gpt2-medium", TUNER_GPT2, 24, 1024, 4096, 1024, 0, "6/144"},
    {"openllama-3b", TUNER_LLAMA, 26, 3200, 8640, 3200, 32000, "8/235"},
    {"llama3-8b", TUNER_LLAMA, 32, 4096, 14336, 1024, 128256, "8/289"},
};
const int tuner_models_n = sizeof tuner_models / sizeof *tuner_models;

/* Adds a product to a list of n, or to the count of an equal one. Returns the new number. */
static int add(tuner_product *list, int n, int64_t m, int64_t rows, int64_t k, int count) {
    for (int i = 0; i < n; i++)
        if (list[i].m == m && list[i].n == rows && list[i].k == k) {
            list[i].count += count;
            return n;
        }
    list[n] = (tuner_product){m, rows, k, count};
    return n + 1;
}

int tuner_products_list(const tuner_model *m, int batch, int tokens, bool joined, tuner_product out[PRODUCTS]) {
    const int64_t rows = (int64_t)batch * tokens, w = m->width;
    const bool gated = m->kind == TUNER_LLAMA;
    int n = 0;
    if (joined || m->kind == TUNER_GPT2)
        n = add(out, n, rows, w + 2 * m->kv, w, m->layers);
    else {
        n = add(out, n, rows, w, w, m->layers);
        n = add(out, n, rows, m->kv, w, 2 * m->layers);
    }
    n = add(out, n, rows, w, w, m->layers);
    n = add(out, n, rows, (joined && gated ? 2 : 1) * (int64_t)m->inner, w, (gated && !joined ? 2 : 1) * m->layers);
    n = add(out, n, rows, w, m->inner, m->layers);
    if (m->kind == TUNER_BERT) n = add(out, n, batch, w, w, 1);
    if (m->vocabulary) n = add(out, n, rows, m->vocabulary, w, 1);
    return n;
}
