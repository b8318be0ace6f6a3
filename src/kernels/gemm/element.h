/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_KERNELS_GEMM_ELEMENT_H
#define TW_KERNELS_GEMM_ELEMENT_H

#include "ir/builder.h"

/* A loaded element of type `t` as what kernels compute with: f32 for the floats of 16 bits, a sign-extended i32 for i8,
   itself otherwise. */
tw_val tw_gemm_element_widen(tw_builder *b, tw_type t, tw_val x);

#endif
