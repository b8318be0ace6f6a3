/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/cuda.h"
#include "prof/trace.h"

/* Floating-point operations that a multiprocessor's tensor cores do in a clock. Operands are dense f16, sums are f32.
   Source: NVIDIA's whitepapers of A100, GA102, AD102, H100, Blackwell and RTX Blackwell. GeForce cards do half as
   many. */
static const struct {
    int sm, rate;
} rates[] = {{80, 2048}, {86, 1024}, {89, 1024}, {90, 4096}, {100, 8192}, {120, 1024}};

void tw_trace_set_peaks(tw_trace *t, const tw_cuda_info *gpu) {
    int rate = 0;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (rates[i].sm <= gpu->sm) rate = rates[i].rate;
    t->peaks.sms = gpu->sms;
    t->peaks.flops = 1e3 * gpu->clock_khz * gpu->sms * rate;
    /* The memory transfers data twice in a clock. */
    t->peaks.bandwidth = 2e3 * gpu->memory_clock_khz * gpu->memory_bus_bits / 8;
}
