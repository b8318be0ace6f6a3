/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine offers: cores, instruction sets, measured ceilings. */
#ifndef TILEWRIGHT_DEVICE_H
#define TILEWRIGHT_DEVICE_H

#include "tilewright/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Instruction sets that kernels are written for, as bits of a mask. Each needs the ones it is built on: a bit is only
   ever set together with them. */
enum {
    TW_CPU_AVX2 = 1,       /* AVX2, FMA, F16C */
    TW_CPU_AVX512 = 2,     /* F, BW, VL, DQ */
    TW_CPU_AVX512VNNI = 4, /* vpdpbusd */
    TW_CPU_AVX512BF16 = 8, /* vdpbf16ps */
    TW_CPU_AVX512FP16 = 16,
    TW_CPU_AMX = 32 /* tiles, int8 and bf16, and the kernel's leave to use them */
};

typedef struct tw_cpu {
    char model[128]; /* as the processor calls itself */
    int cores;       /* that this process may run on */
    uint32_t isa;    /* TW_CPU_* */
    int64_t memory_bytes;
    int64_t available_bytes; /* to this process: of the memory, its control group and its limits what is least */
    int64_t l1d_bytes, l2_bytes, l3_bytes; /* of one core's view; 0 when unknown */
} tw_cpu;

void tw_cpu_detect(tw_cpu *cpu);

/* "avx2 avx512 avx512vnni"; the names are those of the files that hold the kernels. */
void tw_cpu_isa_names(uint32_t isa, char *out, size_t size);
/* The mask of a comma- or space-separated list of those names, with what each is built on; "none" is 0. */
bool tw_cpu_isa_parse(const char *names, uint32_t *isa);

/* Measured now, on `threads` pinned threads (0: all cores): bytes a second of streaming reads from memory, each
   thread over its own buffer far larger than the caches, the best of several passes. */
tw_status tw_cpu_measure_bandwidth(int threads, double *bytes_per_second, tw_diag *diag);

/* Multiply-add throughput of registers alone in f32, operations (2 a multiply-add) a second: what no matrix
   product in float passes. */
tw_status tw_cpu_measure_flops(int threads, double *flops, tw_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
