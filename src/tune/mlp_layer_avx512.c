/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <stdbool.h>

#define LAYER        tw_mlp_layer_avx512
#define VECTOR       __m512
#define LANES        16
#define AT_ONCE      8
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define SPREAD(x)    _mm512_set1_ps(x)
#define POSITIVE(v)  _mm512_max_ps(v, _mm512_setzero_ps())
#define ANY(v)       (_mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_UQ) != 0)
#include "tune/mlp_layer_body.h"
