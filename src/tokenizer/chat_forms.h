/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TOKENIZER_CHAT_FORMS_H
#define TW_TOKENIZER_CHAT_FORMS_H

#include "tilewright/tokenizer.h"

typedef enum tw_chat_kind {
    TW_CHAT_CHATML,
    TW_CHAT_LLAMA2,
    TW_CHAT_LLAMA3,
    TW_CHAT_MISTRAL, /* of 7B-Instruct-v0.2 and Mixtral */
    TW_CHAT_ZEPHYR,
    TW_CHAT_QWEN2,     /* chatml with a system message of its own where there is none */
    TW_CHAT_SMOLLM2,   /* the same with another one */
    TW_CHAT_MISTRAL_V1 /* of 7B-Instruct-v0.1: a space follows each answer */
} tw_chat_kind;
typedef struct tw_chat_message {
    const char *role; /* "system", "user", "assistant" */
    const char *content;
} tw_chat_message;

/* Reads chat_template of `directory`'s tokenizer_config.json (or chat_template.jinja) and recognises it. */
tw_status tw_chat_recognise(tw_chat_kind *out, const char *directory, tw_diag *diag);
const char *tw_chat_name(tw_chat_kind kind);

/* The prompt that asks for the next assistant message, special tokens spelled out; encode it with special = false.
 *text is malloc'd and owned by the caller. */
tw_status tw_chat_render_form(tw_chat_kind kind, const tw_chat_message *messages, size_t count, char **text,
                              tw_diag *diag);

/* Recognises a template's text; TW_ERR_UNSUPPORTED when it is none that is known, TW_ERR_MEMORY. */
tw_status tw_chat_recognise_text(tw_chat_kind *out, const char *text, size_t size);

#endif
