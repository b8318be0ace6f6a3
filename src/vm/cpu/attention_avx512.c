/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/cpu/vector_avx512.h"

#include "vm/cpu/attention_vector.h"
