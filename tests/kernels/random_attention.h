/* SPDX-License-Identifier: Apache-2.0 */
/* Random attention and configurations of it. */
#ifndef TW_TEST_RANDOM_ATTENTION_H
#define TW_TEST_RANDOM_ATTENTION_H

#include "kernels/attention/attention.h"

typedef struct attention_case {
    tw_attention_problem problem; /* Completed. */
    tw_attention_config config;   /* Legal. */
    uint64_t seed;
} attention_case;

typedef struct attention_limits {
    int queries, keys, heads, batch;
    int blocks; /* Of a persistent grid. */
} attention_limits;

/* Draws the case of this number. Returns false if nothing legal was found. */
bool attention_case_draw(attention_case *c, uint64_t number, const tw_target *t, const attention_limits *most);
/* Writes "tilewright kernel attention ..." without the action. */
void attention_case_print(const attention_case *c, char *out, size_t size);

/* What a case has. */
int attention_features(void);
const char *attention_feature_name(int i);
bool attention_has(const attention_case *c, int i);

#endif
