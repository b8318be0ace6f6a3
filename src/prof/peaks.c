/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/cuda.h"
#include "prof/trace.h"

/* Floating-point operations of a multiprocessor's tensor cores in a clock: products of f16 with sums of f32. */
static const struct {
    int sm, rate;
} rates[] = {{80, 2048}, {86, 512}, {89, 1024}, {90, 4096}, {100, 8192}, {120, 512}};

void tw_trace_set_peaks(tw_trace *t, const tw_cuda_info *gpu) {
    int rate = 0;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (rates[i].sm <= gpu->sm) rate = rates[i].rate;
    t->peak_sms = gpu->sms;
    t->peak_flops = 1e3 * gpu->clock_khz * gpu->sms * rate;
    /* Memory moves data twice a clock. */
    t->peak_bandwidth = 2e3 * gpu->memory_clock_khz * gpu->memory_bus_bits / 8;
}
