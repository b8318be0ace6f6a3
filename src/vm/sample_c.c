/* SPDX-License-Identifier: Apache-2.0 */
#define DRAW tw_sample_draw_c
#include "vm/sample_draw.h"
