/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TOKENIZER_CHAT_H
#define TW_TOKENIZER_CHAT_H

#include "tilewright/tokenizer.h"

/* Recognises a template's text; TW_ERR_UNSUPPORTED when it is none that is known, TW_ERR_MEMORY. */
tw_status tw_chat_recognise_text(tw_chat_kind *out, const char *text, size_t size);

#endif
