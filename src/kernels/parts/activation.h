/* SPDX-License-Identifier: Apache-2.0 */
/* Activation functions of an f32, and the functions that they are made of. */
#ifndef TW_KERNELS_PARTS_ACTIVATION_H
#define TW_KERNELS_PARTS_ACTIVATION_H

#include "ir/builder.h"

/* e^x, to a few units in the last place. 0 where it would be below the normal numbers. */
tw_val tw_part_exp(tw_builder *b, tw_val x);
/* log(x), to a few units in the last place, also near 1 and of subnormal numbers. */
tw_val tw_part_log(tw_builder *b, tw_val x);
/* log(1 + x), to a few units in the last place, also near 0. */
tw_val tw_part_log1p(tw_builder *b, tw_val x);
/* 1 / (1 + e^-x), to a few units in the last place. */
tw_val tw_part_sigmoid(tw_builder *b, tw_val x);
/* SiLU, x / (1 + e^-x), to a few units in the last place. The result is 0 where e^-x overflows. */
tw_val tw_part_silu(tw_builder *b, tw_val x);
/* GELU in its tanh form: x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). */
tw_val tw_part_gelu(tw_builder *b, tw_val x);
/* GELU by the error function: x / 2 * (1 + erf(x / sqrt(2))), to 1.5e-7 |x|. */
tw_val tw_part_gelu_erf(tw_builder *b, tw_val x);
/* The error function, within 1e-6 of itself relatively. Source: Abramowitz and Stegun, 7.1.26. */
tw_val tw_part_erf(tw_builder *b, tw_val x);
/* ReLU: x, or 0 where x is not above 0. */
tw_val tw_part_relu(tw_builder *b, tw_val x);
/* cap * tanh(x / cap), within 2^-21 of cap. */
tw_val tw_part_cap(tw_builder *b, tw_val x, float cap);
/* tanh(x), within 2e-6 of itself relatively. */
tw_val tw_part_tanh(tw_builder *b, tw_val x);
/* sin(x + quarters * pi / 2), within 2e-7 for |x| up to 1e5. */
tw_val tw_part_sine(tw_builder *b, tw_val x, int quarters);

#endif
