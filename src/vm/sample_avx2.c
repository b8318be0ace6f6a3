/* SPDX-License-Identifier: Apache-2.0 */
#define DRAW tw_sample_draw_avx2
#include "vm/sample_draw.h"
