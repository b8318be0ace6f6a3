/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix products of the models of CURATOR's paper (Table 2). */
#ifndef TW_BENCH_TUNER_PRODUCTS_H
#define TW_BENCH_TUNER_PRODUCTS_H

#include <stdbool.h>
#include <stdint.h>

enum { PRODUCTS = 10 /* The most distinct products of a model. */ };

typedef enum tuner_kind {
    TUNER_BERT, /* Queries, keys, values and output apart; a pooler of the first position. */
    TUNER_GPT2, /* Queries, keys and values in one product. */
    TUNER_LLAMA /* Fewer heads of keys and values, a gate, logits of every position. */
} tuner_kind;

typedef struct tuner_model {
    const char *name;
    tuner_kind kind;
    int layers, width, inner;
    int kv;            /* Rows of keys and of values. */
    int vocabulary;    /* Rows of the product of logits. 0: there is none. */
    const char *paper; /* What the paper's Table 2 says. */
} tuner_model;

extern const tuner_model tuner_models[];
extern const int tuner_models_n;

/* A product C = A B^T that a model computes `count` times. */
typedef struct tuner_product {
    int64_t m, n, k;
    int count;
} tuner_product;

/* Lists the products of constant matrices of a model for `batch` sequences of `tokens`. Equal ones are listed once.
   With `joined`, products of the same activations are one: queries with keys and values, and the gate with its other
   half. Returns their number, at most PRODUCTS. */
int tuner_products_list(const tuner_model *m, int batch, int tokens, bool joined, tuner_product out[PRODUCTS]);

#endif
