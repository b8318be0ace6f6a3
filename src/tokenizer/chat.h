/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TOKENIZER_CHAT_H
#define TW_TOKENIZER_CHAT_H

#include "tilewright/tokenizer.h"
#include "tokenizer/jinja/jinja.h"

/* A template from memory, without a directory; `tokens` are the special tokens' strings by name, or NULL. `path` is
   only for diagnostics. */
tw_status tw_chat_open_memory(tw_chat **out, const char *text, size_t size, const json_t *tokens, const char *path,
                              tw_diag *diag);

/* As tw_chat_render, within these bounds. */
tw_status tw_chat_render_within(const tw_chat *c, const tw_chat_request *r, const jinja_limits *limits,
                                tw_chat_text *out, tw_diag *diag);

#endif
