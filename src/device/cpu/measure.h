/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_DEVICE_CPU_MEASURE_H
#define TW_DEVICE_CPU_MEASURE_H

#include "tilewright/device.h"

/* Bytes that each of `threads` reads in a pass: together about `bytes`, or what no cache holds where that is less. 0:
   what no cache holds, in a quarter of the free memory at most. */
int64_t tw_cpu_read_bytes(const tw_cpu *cpu, int threads, int64_t bytes);

#endif
