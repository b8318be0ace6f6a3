/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that make a reference, and compare with it, share. */
#ifndef TW_KERNELS_GEMM_REFERENCE_PARTS_H
#define TW_KERNELS_GEMM_REFERENCE_PARTS_H

#include "kernels/gemm/reference.h"

double tw_gemm_element_read(tw_type t, const void *data, int64_t i);
/* Returns the largest relative error of rounding to a type. */
double tw_gemm_unit_of(tw_type t);
/* Returns twice the largest error of rounding to a subnormal number of a type whose subnormal numbers are not tiny. */
double tw_gemm_subnormal_of(tw_type t);
/* Tells whether the product writes a row of C. */
bool tw_gemm_is_written(const tw_gemm_data *d, int64_t row);

#endif
