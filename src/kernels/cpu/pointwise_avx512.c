/* SPDX-License-Identifier: Apache-2.0 */
#define VARIANT(name) name##_avx512

#include "kernels/cpu/pointwise_vector.h"
