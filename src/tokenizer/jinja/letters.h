/* SPDX-License-Identifier: Apache-2.0 */
/* What Python's letters have beyond the library's categories and simple mappings (tables.c). */
#ifndef TW_TOKENIZER_JINJA_LETTERS_H
#define TW_TOKENIZER_JINJA_LETTERS_H

#include "tokenizer/unicode.h"

extern const tw_char_class jinja_class_digit;   /* isdigit, but no Nd */
extern const tw_char_class jinja_class_numeric; /* isnumeric, but no N* */
extern const tw_char_class jinja_class_lower;   /* islower, but no Ll */
extern const tw_char_class jinja_class_upper;   /* isupper, but no Lu */

/* A character whose upper or title case is several. */
typedef struct jinja_long_case {
    uint32_t c, upper[3], title[3];
} jinja_long_case;
extern const jinja_long_case jinja_long_cases[];
extern const size_t jinja_n_long_cases;

#endif
