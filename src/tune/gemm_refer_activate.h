/* SPDX-License-Identifier: Apache-2.0 */
/* Activation functions of an f64, for the reference kernel. They share nothing with those of the kernels that it
   judges. */
#ifndef TW_TUNE_GEMM_REFER_ACTIVATE_H
#define TW_TUNE_GEMM_REFER_ACTIVATE_H

#include "ir/builder.h"
#include "kernels/gemm/gemm.h"

tw_val tw_gemm_refer_abs(tw_builder *b, tw_val x);
/* The activation of a finite x, within 2e-9 |x|. */
tw_val tw_gemm_refer_activate(tw_builder *b, tw_gemm_activation a, tw_val x);

#endif
