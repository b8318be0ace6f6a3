/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ops/branch.h"
#include "graph/ops/elementwise.h"
#include "graph/ops/microsoft.h"
#include "graph/ops/move.h"
#include "graph/ops/reduce.h"

#include <string.h>

enum { ALIKE = TW_OP_OPERANDS };

static const tw_op table[] = {
#define UNARY(name, first, r, w, n)  {#name, "", first, 1, 1, 1, tw_unary_shape, tw_unary_compute, 0, 0},
#define BINARY(name, first, r, w, n) {#name, "", first, 2, 2, 1, tw_binary_shape, tw_binary_compute, 0, 0},
#define COMPARE(name, first, value)  {#name, "", first, 2, 2, 1, tw_compare_shape, tw_binary_compute, 0, 0},
#define LOGIC(name, first, value)    {#name, "", first, 2, 2, 1, tw_logic_shape, tw_binary_compute, 0, 0},
#include "graph/ops/elementwise.def"
#define OP(name, first, least, most, results, shape, compute)                                                          \
    {#name, "", first, least, most, results, shape, compute, 0, 0},
#define OWN(name, first, least, most, results, shape, compute)                                                         \
    {#name, "tilewright", first, least, most, results, shape, compute, 0, 0},
#define MS(name, first, least, most, results, shape, compute, optional)                                                \
    {#name, "com.microsoft", first, least, most, results, shape, compute, optional, 0},
#define EXTENTS(name, first, least, most, results, shape, compute, extents)                                            \
    {#name, "", first, least, most, results, shape, compute, 0, extents},
#include "graph/ops/ops.def"
};

const tw_op *tw_op_find(const char *domain, const char *name, int version) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].domain, domain) && !strcmp(table[i].name, name) && version >= table[i].first)
            return &table[i];
    return NULL;
}
