/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdint.h>

typedef float four __attribute__((vector_size(16)));
typedef int32_t bits __attribute__((vector_size(16)));

#define LAYER        tw_mlp_layer_c
#define VECTOR       four
#define LANES        4
#define AT_ONCE      4
#define FMA(a, b, c) ((a) * (b) + (c))
#define SPREAD(x)    ((four){x, x, x, x})
#define POSITIVE(v)  ((four)((bits)(v) & ((v) > 0)))
#define ANY(v)       ((v)[0] != 0 || (v)[1] != 0 || (v)[2] != 0 || (v)[3] != 0)
#include "tune/mlp_layer_body.h"
