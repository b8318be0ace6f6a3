/* SPDX-License-Identifier: Apache-2.0 */
/* Activations of f32. */
#ifndef TW_KERNELS_PARTS_ACTIVATION_H
#define TW_KERNELS_PARTS_ACTIVATION_H

#include "ir/builder.h"

/* x / (1 + e^-x), to a few units of the last place; 0 where e^-x is too large for a float. */
tw_val tw_part_silu(tw_builder *b, tw_val x);
/* GELU in its tanh form: x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). */
tw_val tw_part_gelu(tw_builder *b, tw_val x);

#endif
