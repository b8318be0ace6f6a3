/* SPDX-License-Identifier: Apache-2.0 */
/* What a processor's answers to CPUID mean, apart from asking. */
#ifndef TW_DEVICE_CPU_DETECT_H
#define TW_DEVICE_CPU_DETECT_H

#include <stdint.h>

typedef struct tw_cpu_words {
    uint32_t c1;         /* leaf 1, ECX */
    uint32_t b7, c7, d7; /* leaf 7, subleaf 0 */
    uint32_t a71;        /* leaf 7, subleaf 1, EAX; 0 where there is none */
    uint64_t saved;      /* XCR0: the register state that the operating system saves */
} tw_cpu_words;

/* TW_CPU_ bits. With TW_CPU_AMX, the system must still be asked for its tiles. */
uint32_t tw_cpu_isa_of(const tw_cpu_words *w);

int64_t tw_cpu_cache_of(uint32_t b, uint32_t c); /* bytes, from EBX and ECX of a leaf of cache parameters */
int64_t tw_cpu_size_of(const char *text);        /* "48K", "32M", "1G" or a number of bytes */

#endif
