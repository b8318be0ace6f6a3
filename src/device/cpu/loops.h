/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of the measured ceilings, one set an instruction set. */
#ifndef TW_DEVICE_CPU_LOOPS_H
#define TW_DEVICE_CPU_LOOPS_H

#include <stddef.h>
#include <stdint.h>

/* Reads all of `data` (64-byte aligned) as `streams` equal parts side by side, prefetching `ahead` bytes in each (0:
   leaving it to the processor); `bytes` is a multiple of 1024 * streams. What it returns only keeps the reads alive. */
typedef uint64_t tw_cpu_read_fn(const void *data, size_t bytes, size_t streams, size_t ahead);

/* Runs `n` rounds of independent multiply-adds in registers; returns how many operations (2 a multiply-add) one round
   is. `sink` receives the sums. */
typedef int64_t tw_cpu_fma_fn(int64_t n, float *sink);

/* The same on bytes or bf16, every product being 1 and every sum from 0, so that `sink` receives as many multiply-adds
   as were done: half the operations. Exact for n up to 64. */
tw_cpu_fma_fn tw_cpu_i8_avx2, tw_cpu_i8_avx512vnni, tw_cpu_bf16_avx512bf16, tw_cpu_bf16_amx, tw_cpu_i8_amx;

tw_cpu_read_fn tw_cpu_read_c, tw_cpu_read_avx2, tw_cpu_read_avx512;
tw_cpu_fma_fn tw_cpu_fma_c, tw_cpu_fma_avx2, tw_cpu_fma_avx512;

#endif
