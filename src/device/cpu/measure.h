/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_DEVICE_CPU_MEASURE_H
#define TW_DEVICE_CPU_MEASURE_H

#include "tilewright/device.h"

/* Bytes that each of `threads` reads in a pass. Together they are about `bytes`, but no more than a size that no cache
   holds. `bytes` of 0 stands for that size, limited to a quarter of the free memory. */
int64_t tw_cpu_read_bytes(const tw_cpu *cpu, int threads, int64_t bytes);

#endif
