/* SPDX-License-Identifier: Apache-2.0 */
/* Who computes what in a kernel: what a value depends on, through operations and assignments. */
#ifndef TW_TESTS_SUPPORT_DEF_USE_H
#define TW_TESTS_SUPPORT_DEF_USE_H

#include "ir/ir.h"

#include <stdbool.h>

typedef bool test_op_fn(void *context, const tw_kernel *k, const tw_ir_op *op);

/* Calls `see` for each operation of the kernel, in order, blocks within blocks; ends where it returns false. */
void test_each_op(const tw_kernel *k, test_op_fn *see, void *context);
/* The same for what lies within `op`'s blocks. */
void test_each_op_within(const tw_kernel *k, const tw_ir_op *op, test_op_fn *see, void *context);

/* How many operations that `is` holds for the value depends on; operands of those are not followed further when
   `through` is false. */
int test_depends_on(const tw_kernel *k, tw_val value, test_op_fn *is, void *context, bool through);

/* Whether the value depends on a parameter of that name. */
bool test_depends_on_parameter(const tw_kernel *k, tw_val value, const char *name);

#endif
