/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers, as a tokenizer.json describes them, and chat templates. */
#ifndef TILEWRIGHT_TOKENIZER_H
#define TILEWRIGHT_TOKENIZER_H

#include "tilewright/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tw_tokenizer tw_tokenizer;

/* `path` is a tokenizer.json, or a directory that holds one. Anything in it that would change the result and is not
   understood is refused by name (TW_ERR_UNSUPPORTED), with all the reasons. The caller closes it.
   A tokenizer is immutable: any number of threads may use one. */
tw_status tw_tokenizer_open(tw_tokenizer **out, const char *path, tw_diag *diag);
void tw_tokenizer_close(tw_tokenizer *t); /* NULL is fine */

int64_t tw_tokenizer_size(const tw_tokenizer *t); /* one more than the largest id */

/* The token's text as the vocabulary spells it (byte-level tokens in their printable alphabet); NULL for a hole.
   Owned by the tokenizer. */
const char *tw_tokenizer_piece(const tw_tokenizer *t, int64_t id);
int64_t tw_tokenizer_id(const tw_tokenizer *t, const char *piece); /* -1: none */
bool tw_tokenizer_is_special(const tw_tokenizer *t, int64_t id);

/* Encodes `size` bytes; bytes that are not UTF-8 are an error with their offset. `special` adds what the
   post-processor adds (BOS and the like). *ids is malloc'd and owned by the caller. */
tw_status tw_tokenizer_encode(const tw_tokenizer *t, const char *text, size_t size, bool special, int32_t **ids,
                              size_t *count, tw_diag *diag);

/* Decodes as Hugging Face's decode does; special tokens are left out unless `keep_special`. *text is malloc'd,
   NUL-terminated and owned by the caller; *size may be NULL. Unknown ids are an error that names them. */
tw_status tw_tokenizer_decode(const tw_tokenizer *t, const int32_t *ids, size_t count, bool keep_special, char **text,
                              size_t *size, tw_diag *diag);

/* Streaming: ids go in one by one, text comes out as soon as no later id can change it; never half a UTF-8
   character. The texts of all pushes and the final flush, joined, are the decode of all ids. */
typedef struct tw_token_stream tw_token_stream;
tw_status tw_token_stream_open(tw_token_stream **out, const tw_tokenizer *t, bool keep_special, tw_diag *diag);
/* *text stays valid until the next call on the stream; it may be empty. */
tw_status tw_token_stream_push(tw_token_stream *s, int32_t id, const char **text, tw_diag *diag);
tw_status tw_token_stream_flush(tw_token_stream *s, const char **text, tw_diag *diag); /* a next text may follow */
size_t tw_token_stream_size(const tw_token_stream *s); /* bytes of the text last returned, which may hold NULs */
void tw_token_stream_close(tw_token_stream *s);

/* Chat templates that are recognised exactly; any other is refused by name. */
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
tw_status tw_chat_render(tw_chat_kind kind, const tw_chat_message *messages, size_t count, char **text, tw_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
