/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/vector_avx512.h"

#include "kernels/cpu/attention_vector.h"
