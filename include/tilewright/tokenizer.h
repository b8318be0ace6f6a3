/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers, as a tokenizer.json describes them, and chat templates. */
#ifndef TILEWRIGHT_TOKENIZER_H
#define TILEWRIGHT_TOKENIZER_H

#include "tilewright/base.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

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
   NUL-terminated and owned by the caller; *size may be NULL. Ids without a piece (holes, and a padded model's rows
   beyond the vocabulary) have no text; a negative id is an error. */
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

/* Compares a tokenizer with a reference file: {"cases": [{"text", "ids", "ids_with_special", "decoded",
   "decoded_keep_special"}]}. The decoded texts are those of "ids". The streaming decoder is compared as well. *cases is
   the number of cases compared; `cases` may be NULL. TW_ERR_MISMATCH: a field differs. The message names the first one.
   TW_ERR_FORMAT: the file is no such reference. */
tw_status tw_tokenizer_check_golden(const tw_tokenizer *t, const char *golden_path, int64_t *cases, tw_diag *diag);

/* ---- chat templates, in the Jinja that Hugging Face's transformers runs ---- */

/* A template, parsed. Immutable: any number of threads may render with one. */
typedef struct tw_chat tw_chat;

/* Reads DIRECTORY's template: chat_template.jinja, additional_chat_templates/NAME.jinja, or chat_template of
   tokenizer_config.json (a string, or a list of {name, template}). `name` NULL: "default" (and, when a request has
   tools and there is one, "tool_use", as transformers). The strings of bos_token, eos_token and the like come from
   tokenizer_config.json and special_tokens_map.json. What cannot be evaluated is refused with line and column. */
tw_status tw_chat_open(tw_chat **out, const char *directory, const char *name, tw_diag *diag);
void tw_chat_close(tw_chat *c); /* NULL is fine */

typedef struct tw_chat_request {
    const char *messages;      /* a JSON list of {"role", "content", ...} */
    const char *tools;         /* a JSON list, or NULL */
    const char *arguments;     /* a JSON object of further variables, such as {"enable_thinking": false}, or NULL */
    bool no_generation_prompt; /* do not ask for the next assistant message */
    int64_t now; /* Unix seconds, for templates that ask for the date. 0: the clock. Shown in local time. */
} tw_chat_request;

typedef struct tw_chat_text {
    char *text; /* NUL-terminated */
    size_t size;
    unsigned char *typed; /* one byte a byte of text: 1 where it came from a message that is not the assistant's */
} tw_chat_text;

/* The prompt, special tokens spelled out. The caller frees it. */
tw_status tw_chat_render(const tw_chat *c, const tw_chat_request *r, tw_chat_text *out, tw_diag *diag);
void tw_chat_text_free(tw_chat_text *t); /* leaves an empty one */

/* Its ids, without what the post-processor adds. A special token that somebody typed is text. *ids is malloc'd and
   owned by the caller. */
tw_status tw_chat_encode(const tw_tokenizer *t, const tw_chat_text *text, int32_t **ids, size_t *count, tw_diag *diag);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
