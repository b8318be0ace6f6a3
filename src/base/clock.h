/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_BASE_CLOCK_H
#define TW_BASE_CLOCK_H

#include <stdint.h>

int64_t tw_now_ns(void);   /* monotonic nanoseconds from an arbitrary start */
int64_t tw_clock_ns(void); /* the time of day: nanoseconds since 1970 */

#endif
