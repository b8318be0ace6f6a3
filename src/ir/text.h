/* SPDX-License-Identifier: Apache-2.0 */
/* The IR as text, both ways: parsing what was printed gives a kernel that prints the same. docs/ir.md has the grammar.
 */
#ifndef TW_IR_TEXT_H
#define TW_IR_TEXT_H

#include "base/buf.h"
#include "ir/ir.h"

bool tw_kernel_print(tw_buf *out, const tw_kernel *k); /* false: out of memory */
/* `path` is for diagnostics, which give line and column. The result is not yet verified, but safe to verify. */
tw_status tw_kernel_parse(tw_kernel **out, const char *text, size_t size, const char *path, tw_diag *diag);

#endif
