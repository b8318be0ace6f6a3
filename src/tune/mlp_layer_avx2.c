/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <stdbool.h>

#define LAYER        tw_mlp_layer_avx2
#define VECTOR       __m256
#define LANES        8
#define AT_ONCE      4
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define SPREAD(x)    _mm256_set1_ps(x)
#define POSITIVE(v)  _mm256_max_ps(v, _mm256_setzero_ps())
#define ANY(v)       (_mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_NEQ_UQ)) != 0)
#include "tune/mlp_layer_body.h"
