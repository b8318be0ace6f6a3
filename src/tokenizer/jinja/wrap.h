/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TOKENIZER_JINJA_WRAP_H
#define TW_TOKENIZER_JINJA_WRAP_H

#include "tokenizer/jinja/jinja.h"

typedef struct jinja_wrapping {
    int64_t width;
    bool break_words, break_hyphens;
} jinja_wrapping;

/* One line as Python's textwrap breaks it, `between` between the lines. */
bool jinja_wrap(jinja_env *env, const jinja_node *at, jinja_buffer *out, const jinja_string *line,
                const jinja_wrapping *w, const jinja_string *between);

#endif
