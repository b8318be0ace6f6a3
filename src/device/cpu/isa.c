/* SPDX-License-Identifier: Apache-2.0 */
#include "tilewright/device.h"

#include <stdio.h>
#include <string.h>

enum { BASE_512 = TW_CPU_AVX2 | TW_CPU_AVX512, BASE_AMX = BASE_512 | TW_CPU_AVX512VNNI | TW_CPU_AVX512BF16 };

static const struct {
    const char *name;
    uint32_t bit, needs;
} sets[] = {
    {"avx2", TW_CPU_AVX2, 0},
    {"avx512", TW_CPU_AVX512, TW_CPU_AVX2},
    {"avx512vnni", TW_CPU_AVX512VNNI, BASE_512},
    {"avx512bf16", TW_CPU_AVX512BF16, BASE_512},
    {"avx512fp16", TW_CPU_AVX512FP16, BASE_512},
    {"amx", TW_CPU_AMX, BASE_AMX},
};
enum { SETS = sizeof sets / sizeof *sets };

void tw_cpu_isa_names(uint32_t isa, char *out, size_t size) {
    size_t at = 0;
    if (!size) return;
    out[0] = 0;
    for (int i = 0; i < SETS; i++)
        if (isa & sets[i].bit && at < size) {
            int n = snprintf(out + at, size - at, "%s%s", at ? " " : "", sets[i].name);
            at += (size_t)n;
        }
    if (!at) snprintf(out, size, "none");
}

bool tw_cpu_isa_parse(const char *names, uint32_t *isa) {
    static const char blanks[] = " ,\t\n";
    uint32_t mask = 0;
    const char *s = names + strspn(names, blanks);
    if (!*s) return false;
    while (*s) {
        size_t n = strcspn(s, blanks);
        bool known = n == 4 && !strncmp(s, "none", 4);
        for (int i = 0; i < SETS; i++)
            if (strlen(sets[i].name) == n && !strncmp(s, sets[i].name, n)) {
                mask |= sets[i].bit | sets[i].needs;
                known = true;
            }
        if (!known) return false;
        s += n;
        s += strspn(s, blanks);
    }
    *isa = mask;
    return true;
}
