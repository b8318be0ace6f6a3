/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of doubles, which no instruction computes, within a few roundings of f64. */
#ifndef TW_KERNELS_PARTS_DOUBLE_H
#define TW_KERNELS_PARTS_DOUBLE_H

#include "ir/builder.h"

tw_val tw_part_exp_f64(tw_builder *b, tw_val x);
tw_val tw_part_log_f64(tw_builder *b, tw_val x);

#endif
