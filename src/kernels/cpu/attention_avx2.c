/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/vector_avx2.h"

#include "kernels/cpu/attention_vector.h"
