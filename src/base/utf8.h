/* SPDX-License-Identifier: Apache-2.0 */
/* Characters of UTF-8. */
#ifndef TW_BASE_UTF8_H
#define TW_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Returns the offset of the first byte that is not part of a well-formed character. `size`: there is none. */
size_t tw_utf8_check(const char *text, size_t size);

/* Replaces each byte of `text`, which ends with 0, that is not part of a well-formed character by "?". */
void tw_utf8_mend(char *text);

/* Writes a code point. Returns the number of bytes. */
size_t tw_utf8_put(char out[4], uint32_t cp);

/* Returns the code point at byte *i of a well-formed text, and moves *i behind it. */
static inline uint32_t tw_utf8_next(const char *s, size_t *i) {
    const unsigned char *p = (const unsigned char *)s + *i;
    if (p[0] < 0x80) {
        *i += 1;
        return p[0];
    }
    if (p[0] < 0xe0) {
        *i += 2;
        return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    }
    if (p[0] < 0xf0) {
        *i += 3;
        return (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    }
    *i += 4;
    return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 | (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
}

/* Returns the offset at which the character before byte i > 0 of a well-formed text begins. */
static inline size_t tw_utf8_before(const char *s, size_t i) {
    do i--;
    while (((unsigned char)s[i] & 0xc0) == 0x80);
    return i;
}

#endif
