/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "device/cpu/detect.h"

#include "base/thread.h"
#include "device/memory.h"
#include "tilewright/device.h"

#include <cpuid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux, Documentation/arch/x86/xstate.rst: tile data is saved only for processes that asked for it. */
#define ASK_FOR_STATE   0x1023
#define STATE_TILE_DATA 18

static bool bit(uint32_t word, int n) {
    return word >> n & 1;
}

/* The register state that the operating system saves; without a bit there, the instructions fault. */
static uint64_t saved_state(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool tiles_allowed(void) {
#ifdef SYS_arch_prctl
    return syscall(SYS_arch_prctl, ASK_FOR_STATE, STATE_TILE_DATA) == 0;
#else
    return false;
#endif
}

/* Bits as in the Intel SDM, volume 2A, CPUID: leaf 1, leaf 7 subleaves 0 and 1; AMD's agree. */
uint32_t tw_cpu_isa_of(const tw_cpu_words *w) {
    if (!bit(w->c1, 27) || !bit(w->c1, 28) || !bit(w->c1, 12) || !bit(w->c1, 29)) return 0;
    if ((w->saved & 0x6) != 0x6 || !bit(w->b7, 5)) return 0;
    uint32_t isa = TW_CPU_AVX2;
    if ((w->saved & 0xe0) != 0xe0 || !bit(w->b7, 16) || !bit(w->b7, 17) || !bit(w->b7, 30) || !bit(w->b7, 31))
        return isa;
    isa |= TW_CPU_AVX512;
    if (bit(w->c7, 11)) isa |= TW_CPU_AVX512VNNI;
    if (bit(w->a71, 5)) isa |= TW_CPU_AVX512BF16;
    if (bit(w->d7, 23)) isa |= TW_CPU_AVX512FP16;
    const uint32_t below = TW_CPU_AVX512VNNI | TW_CPU_AVX512BF16;
    const bool tiles = bit(w->d7, 22) && bit(w->d7, 24) && bit(w->d7, 25) && (w->saved & 0x60000) == 0x60000;
    if (tiles && (isa & below) == below) isa |= TW_CPU_AMX;
    return isa;
}

static uint32_t detect_isa(void) {
    uint32_t a, b, c, d, subleaves;
    tw_cpu_words w = {0};
    if (!__get_cpuid(1, &a, &b, &w.c1, &d) || !bit(w.c1, 27)) return 0;
    if (!__get_cpuid_count(7, 0, &subleaves, &w.b7, &w.c7, &w.d7)) return 0;
    if (subleaves >= 1) __get_cpuid_count(7, 1, &w.a71, &b, &c, &d);
    w.saved = saved_state();
    uint32_t isa = tw_cpu_isa_of(&w);
    if (isa & TW_CPU_AMX && !tiles_allowed()) isa &= ~(uint32_t)TW_CPU_AMX;
    return isa;
}

static void detect_model(char *out, size_t size) {
    uint32_t words[12] = {0};
    char name[49];
    snprintf(out, size, "unknown");
    if ((uint32_t)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u) return;
    for (uint32_t i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]);
    memcpy(name, words, 48);
    name[48] = 0;
    char *from = name + strspn(name, " ");
    size_t n = strlen(from);
    while (n && from[n - 1] == ' ') n--;
    if (n) snprintf(out, size, "%.*s", (int)n, from);
}

/* Reads a file's first line, including its line end. */
static bool read_line(const char *path, char *out, int size) {
    FILE *f = fopen(path, "re");
    if (!f) return false;
    const bool ok = fgets(out, size, f) != NULL;
    fclose(f);
    return ok;
}

int64_t tw_cpu_size_of(const char *s) {
    char *end;
    int64_t n = strtoll(s, &end, 10);
    return n << (*end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0);
}

static void keep_cache(tw_cpu *cpu, int level, bool instructions, int64_t bytes) {
    if (instructions) return;
    if (level == 1) cpu->l1d_bytes = bytes;
    if (level == 2) cpu->l2_bytes = bytes;
    if (level == 3) cpu->l3_bytes = bytes;
}

static bool caches_of_sysfs(tw_cpu *cpu, int core) {
    char path[128], level[32], type[32], size[32];
    bool any = false;
    for (int i = 0; i < 8; i++) {
        const char *folder = "/sys/devices/system/cpu/cpu%d/cache/index%d/%s";
        snprintf(path, sizeof path, folder, core, i, "level");
        if (!read_line(path, level, sizeof level)) break;
        snprintf(path, sizeof path, folder, core, i, "type");
        if (!read_line(path, type, sizeof type)) break;
        snprintf(path, sizeof path, folder, core, i, "size");
        if (!read_line(path, size, sizeof size)) break;
        keep_cache(cpu, atoi(level), type[0] == 'I', tw_cpu_size_of(size));
        any = true;
    }
    return any;
}

int64_t tw_cpu_cache_of(uint32_t b, uint32_t c) {
    const int64_t ways = (b >> 22) + 1, parts = (b >> 12 & 1023) + 1, line = (b & 4095) + 1, sets = (int64_t)c + 1;
    return ways * parts * line * sets;
}

/* Deterministic cache parameters: Intel's leaf 4, AMD's 0x8000001d, in one layout. */
static void caches_of_cpuid(tw_cpu *cpu) {
    uint32_t a, b, c, d, leaf = 4;
    if (__get_cpuid(0, &a, &b, &c, &d) && b == (uint32_t)signature_AMD_ebx) leaf = 0x8000001du;
    for (uint32_t i = 0; i < 8 && __get_cpuid_count(leaf, i, &a, &b, &c, &d) && (a & 31); i++)
        keep_cache(cpu, (int)(a >> 5 & 7), (a & 31) == 2, tw_cpu_cache_of(b, c));
}

void tw_cpu_detect(tw_cpu *cpu) {
    int core = 0;
    memset(cpu, 0, sizeof *cpu);
    detect_model(cpu->model, sizeof cpu->model);
    cpu->cores = tw_allowed_cpus(&core, 1);
    cpu->isa = detect_isa();
    if (!caches_of_sysfs(cpu, core)) caches_of_cpuid(cpu);
    cpu->memory_bytes = tw_memory_total("");
    cpu->available_bytes = tw_memory_available("");
}
