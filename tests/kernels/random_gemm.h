/* SPDX-License-Identifier: Apache-2.0 */
/* Random matrix products and configurations, drawn so that everything that matters comes up often, and counts of what
   did. */
#ifndef TW_TEST_RANDOM_GEMM_H
#define TW_TEST_RANDOM_GEMM_H

#include "kernels/gemm/gemm.h"

typedef struct gemm_case {
    tw_gemm_problem problem; /* completed */
    tw_gemm_config config;   /* legal */
    const tw_target *target;
    uint64_t seed;
} gemm_case;

typedef struct gemm_limits {
    int m, n, k;
    int parts;   /* blocks along k */
    double work; /* multiply-adds of all blocks' tiles, whole: what emulating costs */
    int code;    /* multiply-adds that a stage unrolls to, in a thread (tensor cores: operations) */
} gemm_limits;

/* The case of this number. Types, ways to split and layouts go in turn, the rest is drawn; false when nothing legal was
   found. */
bool gemm_case_draw(gemm_case *c, uint64_t number, const tw_target *t, const gemm_limits *most);

/* Likewise, of products on warpgroups (mma 2), for a target that has them. */
bool gemm_case_draw_warpgroups(gemm_case *c, uint64_t number, const tw_target *t, const gemm_limits *most);

/* "tilewright kernel gemm ..." without the action. */
void gemm_case_print(const gemm_case *c, char *out, size_t size);

/* What a case has, and how many had it. */
enum { GEMM_FEATURES = 80 };
typedef struct gemm_coverage {
    int cases, of[GEMM_FEATURES];
} gemm_coverage;
void gemm_cover(gemm_coverage *v, const gemm_case *c);
int gemm_features(void);
const char *gemm_feature_name(int i);
/* The least share of cases, in thousandths, that ought to have it. */
int gemm_feature_least(int i);

#endif
