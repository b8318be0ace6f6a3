/* SPDX-License-Identifier: Apache-2.0 */
#define VARIANT(name) name##_c

#include "kernels/cpu/pointwise_vector.h"
