/* SPDX-License-Identifier: Apache-2.0 */
/* Division that rounds up. */
#ifndef TW_BASE_DIVIDE_H
#define TW_BASE_DIVIDE_H

#include <stdint.h>

/* Returns the number of parts of size `by`, above 0, that cover `x`, at least 0. The sum x + by must not overflow. */
static inline int64_t tw_ceil_div(int64_t x, int64_t by) {
    return (x + by - 1) / by;
}

#endif
