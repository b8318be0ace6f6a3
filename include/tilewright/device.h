/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine offers: cores, instruction sets, measured ceilings. */
#ifndef TILEWRIGHT_DEVICE_H
#define TILEWRIGHT_DEVICE_H

#include "tilewright/base.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Instruction sets that kernels are written for, as bits of a mask. Each needs the ones it is built on: a bit is only
   ever set together with them. */
enum {
    TW_CPU_AVX2 = 1,       /* AVX2, FMA, F16C */
    TW_CPU_AVX512 = 2,     /* F, BW, VL, DQ */
    TW_CPU_AVX512VNNI = 4, /* vpdpbusd */
    TW_CPU_AVX512BF16 = 8, /* products of bf16 in vectors: vdpbf16ps */
    TW_CPU_AVX512FP16 = 16,
    TW_CPU_AMX = 32 /* tiles, int8 and bf16, and the kernel's leave to use them */
};

typedef struct tw_cpu {
    char model[128]; /* as the processor calls itself */
    int cores;       /* that this process may run on */
    uint32_t isa;    /* TW_CPU_* */
    int64_t memory_bytes;
    int64_t available_bytes; /* the least that free memory, the control group and the process's limits allow */
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

/* Measures reads as tw_cpu_measure_bandwidth does, but of `bytes` in all, repeatedly. A set that fits in the caches is
   read from there, which is faster. */
tw_status tw_cpu_measure_reads(int threads, int64_t bytes, double *bytes_per_second, tw_diag *diag);

/* A kind of multiplying unit. Each has its own peak rate. */
typedef enum tw_cpu_unit {
    TW_CPU_UNIT_F32,      /* float multiply-add, in the widest vectors that the processor has */
    TW_CPU_UNIT_I8,       /* products of bytes in vectors: vpdpbusd, or vpmaddubsw where there is only AVX2 */
    TW_CPU_UNIT_BF16,     /* vdpbf16ps */
    TW_CPU_UNIT_AMX_BF16, /* products of bf16 in AMX tiles: tdpbf16ps */
    TW_CPU_UNIT_AMX_I8,   /* products of bytes in AMX tiles: tdpbssd */
    TW_CPU_UNIT_COUNT
} tw_cpu_unit;

/* The unit's name: "f32", "i8", "bf16", "amx-bf16" or "amx-i8". */
const char *tw_cpu_unit_name(tw_cpu_unit unit);
/* True if a processor with the instruction sets `isa` (TW_CPU_* bits) has this unit. */
bool tw_cpu_unit_present(tw_cpu_unit unit, uint32_t isa);

/* Measures the unit's peak rate, from registers alone: operations a second, a multiply-add being two. No matrix product
   on this unit is faster. TW_ERR_UNSUPPORTED: the processor has no such unit. */
tw_status tw_cpu_measure_unit(tw_cpu_unit unit, int threads, double *operations, tw_diag *diag);

/* Measures the peak rate of TW_CPU_UNIT_F32. No matrix product in float32 vectors is faster. */
tw_status tw_cpu_measure_flops(int threads, double *flops, tw_diag *diag);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
