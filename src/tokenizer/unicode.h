/* SPDX-License-Identifier: Apache-2.0 */
/* Character classes exactly as the reference tokenizers see them. Its parts were built against different editions of
   Unicode (punctuation and nonspacing marks of edition 8, words and digits of 16 and 17), so no one library's tables
   give its answers; tables.c holds what was measured (tools/make_tokenizer_cases.py tables). */
#ifndef TW_TOKENIZER_UNICODE_H
#define TW_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tw_char_range {
    uint32_t first, last;
} tw_char_range;

typedef struct tw_char_class {
    const tw_char_range *ranges; /* ascending */
    size_t n;
} tw_char_class;

extern const tw_char_class tw_class_punctuation; /* ASCII punctuation too */
extern const tw_char_class tw_class_numeric;
extern const tw_char_class tw_class_word;
extern const tw_char_class tw_class_control;    /* what BERT's cleaning drops */
extern const tw_char_class tw_class_nonspacing; /* what BERT's accent stripping drops */
extern const tw_char_class tw_class_mark;       /* what StripAccents drops */
extern const tw_char_class tw_class_opaque;     /* too new for the reference's normalization forms: left as they are */

/* Simple lower-case mappings that may be newer than the installed utf8proc: first..last map to themselves + delta. */
typedef struct tw_lower_range {
    uint32_t first, last;
    int32_t delta;
} tw_lower_range;
extern const tw_lower_range tw_lower_ranges[];
extern const size_t tw_n_lower_ranges;

/* Members of a property of the reference's regex engine that PCRE2's edition of Unicode lacks, in PCRE2's class
   syntax; sorted by name. */
typedef struct tw_property_extra {
    const char *name, *members;
} tw_property_extra;
extern const tw_property_extra tw_property_extras[];
extern const size_t tw_n_property_extras;

bool tw_class_has(const tw_char_class *c, uint32_t cp);
bool tw_is_space(uint32_t cp);   /* White_Space */
bool tw_is_chinese(uint32_t cp); /* the ideographs BERT sets apart */

/* Lower-case of one character, at most two code points; returns how many. */
int tw_lowercase(uint32_t cp, uint32_t out[2]);

/* UTF-8 of valid text: the code point at *i, which moves past it. */
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

/* The start of the character before byte i > 0. */
static inline size_t tw_utf8_before(const char *s, size_t i) {
    do i--;
    while (((unsigned char)s[i] & 0xc0) == 0x80);
    return i;
}

size_t tw_utf8_put(char out[4], uint32_t cp); /* returns the bytes written */

/* The offset of the first byte that is not well-formed UTF-8, or `size`. */
size_t tw_utf8_check(const char *text, size_t size);

#endif
