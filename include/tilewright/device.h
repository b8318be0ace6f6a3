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

/* The same over `bytes` in all, read again and again: what is this small may stay in caches, which deliver more. */
tw_status tw_cpu_measure_reads(int threads, int64_t bytes, double *bytes_per_second, tw_diag *diag);

/* What multiplies, each with a ceiling of its own. */
typedef enum tw_cpu_unit {
    TW_CPU_UNIT_F32,      /* multiply-adds of float vectors, the widest there are */
    TW_CPU_UNIT_I8,       /* products of bytes in vectors: vpdpbusd, with AVX2 alone vpmaddubsw */
    TW_CPU_UNIT_BF16,     /* vdpbf16ps */
    TW_CPU_UNIT_AMX_BF16, /* tiles */
    TW_CPU_UNIT_AMX_I8,
    TW_CPU_UNIT_COUNT
} tw_cpu_unit;

/* "f32", "i8", "bf16", "amx-bf16", "amx-i8". */
const char *tw_cpu_unit_name(tw_cpu_unit unit);
/* Whether a processor with these sets (TW_CPU_*) has it. */
bool tw_cpu_unit_present(tw_cpu_unit unit, uint32_t isa);

/* Multiply-add throughput of registers alone, operations (2 a multiply-add) a second: what no product of that unit
   passes. TW_ERR_UNSUPPORTED: the processor has no such unit. */
tw_status tw_cpu_measure_unit(tw_cpu_unit unit, int threads, double *operations, tw_diag *diag);

/* The same of TW_CPU_UNIT_F32: what no matrix product in float passes. */
tw_status tw_cpu_measure_flops(int threads, double *flops, tw_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
