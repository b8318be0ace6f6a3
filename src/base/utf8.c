/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <string.h>

size_t tw_utf8_put(char out[4], uint32_t cp) {
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

/* The bounds are table 3-7 of the Unicode standard. Only the second byte has bounds of its own. */
size_t tw_utf8_check(const char *text, size_t size) {
    const unsigned char *s = (const unsigned char *)text;
    size_t i = 0;
    while (i < size) {
        unsigned char b = s[i];
        if (b < 0x80) {
            i++;
            continue;
        }
        size_t more = b >= 0xc2 && b <= 0xdf ? 1 : (b & 0xf0) == 0xe0 ? 2 : b >= 0xf0 && b <= 0xf4 ? 3 : 0;
        if (!more || size - i <= more) return i;
        unsigned char lo = b == 0xe0 ? 0xa0 : b == 0xf0 ? 0x90 : 0x80, hi = b == 0xed ? 0x9f : b == 0xf4 ? 0x8f : 0xbf;
        if (s[i + 1] < lo || s[i + 1] > hi) return i;
        for (size_t k = 2; k <= more; k++)
            if ((s[i + k] & 0xc0) != 0x80) return i;
        i += more + 1;
    }
    return size;
}

void tw_utf8_mend(char *text) {
    const size_t size = strlen(text);
    for (size_t i = 0; (i += tw_utf8_check(text + i, size - i)) < size; i++) text[i] = '?';
}
