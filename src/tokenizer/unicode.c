/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/unicode.h"

#include <utf8proc.h>

bool tw_class_has(const tw_char_class *c, uint32_t cp) {
    size_t lo = 0, hi = c->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (cp > c->ranges[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < c->n && cp >= c->ranges[lo].first;
}

bool tw_is_space(uint32_t cp) {
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

bool tw_is_chinese(uint32_t cp) {
    return (cp >= 0x4e00 && cp <= 0x9fff) || (cp >= 0x3400 && cp <= 0x4dbf) || (cp >= 0x20000 && cp <= 0x2a6df) ||
           (cp >= 0x2a700 && cp <= 0x2b73f) || (cp >= 0x2b740 && cp <= 0x2b81f) || (cp >= 0x2b920 && cp <= 0x2ceaf) ||
           (cp >= 0xf900 && cp <= 0xfaff) || (cp >= 0x2f800 && cp <= 0x2fa1f);
}

int tw_lowercase(uint32_t cp, uint32_t out[2]) {
    if (cp < 0x80) {
        out[0] = cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
        return 1;
    }
    if (cp == 0x130) { /* U+0130 is the only one whose lower case is two characters. */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    for (size_t i = 0; i < tw_n_lower_ranges; i++)
        if (cp >= tw_lower_ranges[i].first && cp <= tw_lower_ranges[i].last) {
            out[0] = (uint32_t)((int32_t)cp + tw_lower_ranges[i].delta);
            return 1;
        }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
    return 1;
}
