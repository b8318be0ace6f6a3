/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of tokenizer.json share. A reader that fails adds a reason and goes on. */
#ifndef TW_TOKENIZER_LOAD_PARTS_H
#define TW_TOKENIZER_LOAD_PARTS_H

#include "base/diag.h"
#include "tokenizer/tokenizer.h"

enum { TW_LOADER_STAGES = 256 }; /* Parts of a chain. */

typedef struct tw_loader {
    tw_tokenizer *t;
    const char *path;
    tw_diag *diag;
    tw_status status; /* Of the first reason. */
} tw_loader;

/* load_fields.c. `where` names the object `o`, for messages. An optional field may be absent or null. */
typedef enum tw_need { TW_REQUIRED, TW_OPTIONAL } tw_need;
/* Adds a reason against the file. */
void tw_loader_against(tw_loader *l, tw_status s, const char *fmt, ...) TW_PRINTF(3, 4);
void tw_loader_no_memory(tw_loader *l);
const char *tw_loader_kind(const json_t *v); /* What a value is, for messages. */
void tw_loader_wrong(tw_loader *l, const char *where, const char *key, const json_t *v, const char *want);
/* Refuses, by name, fields that are neither null nor in `known` (separated by spaces, with a space at both ends). */
void tw_loader_only(tw_loader *l, const json_t *object, const char *where, const char *known);
bool tw_loader_bool(tw_loader *l, const json_t *o, const char *where, const char *key, tw_need need, bool otherwise);
/* Copies a string to the arena. NULL: there is none. */
const char *tw_loader_string(tw_loader *l, const json_t *o, const char *where, const char *key, tw_need need,
                             size_t *size);
int64_t tw_loader_int(tw_loader *l, const json_t *o, const char *where, const char *key, int64_t lo, int64_t hi);
/* Reads a field of one character. */
const char *tw_loader_char(tw_loader *l, const json_t *o, const char *where, const char *key, size_t *size);
/* Reads the field "pattern", {"String": …} or {"Regex": …}. */
tw_regex *tw_loader_pattern(tw_loader *l, const json_t *o, const char *where);

/* load_chains.c. The tokenizer has room for TW_LOADER_STAGES parts of each chain. */
void tw_loader_normalizers(tw_loader *l, const json_t *root);
void tw_loader_pretokenizers(tw_loader *l, const json_t *root);
void tw_loader_decoders(tw_loader *l, const json_t *root);
void tw_loader_postprocessors(tw_loader *l, const json_t *root); /* Needs the tokens. */

/* load_tokens.c */
void tw_loader_vocabulary(tw_loader *l, const json_t *model);
void tw_loader_added_tokens(tw_loader *l, const json_t *root); /* Needs the vocabulary and the normalizers. */

#endif
