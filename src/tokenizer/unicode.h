/* SPDX-License-Identifier: Apache-2.0 */
/* Character classes exactly as the reference tokenizers see them. Its parts were built against different editions of
   Unicode (punctuation and nonspacing marks of edition 8, words and digits of 16 and 17), so no one library's tables
   give its answers; tables.c holds what was measured (tools/make_tokenizer_cases.py tables). */
#ifndef TW_TOKENIZER_UNICODE_H
#define TW_TOKENIZER_UNICODE_H

#include "base/utf8.h"

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

#endif
