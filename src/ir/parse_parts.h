/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the parser share. Once the parser has failed, nothing more is read: the next token is the end. */
#ifndef TW_IR_PARSE_PARTS_H
#define TW_IR_PARSE_PARTS_H

#include "base/diag.h"
#include "ir/builder.h"

enum { TW_IR_MAX_VALUES = 192 }; /* Results, or operands, of one operation. */

typedef enum tw_ir_token_kind {
    TW_IR_END,
    TW_IR_NEWLINE,
    TW_IR_WORD,
    TW_IR_NUMBER,
    TW_IR_VALUE,
    TW_IR_AT,
    TW_IR_STRING,
    TW_IR_PUNCTUATION,
    TW_IR_WRONG
} tw_ir_token_kind;

typedef struct tw_ir_token {
    tw_ir_token_kind kind;
    const char *at;
    size_t n;
    int line, column;
} tw_ir_token;

/* Registers and variables by what identifies them in the text: a number, or a name where there is no number. */
typedef struct tw_ir_entry {
    const char *key;
    size_t n;
    int id; /* 0: free */
} tw_ir_entry;

typedef struct tw_ir_parser {
    const char *path, *text, *end, *at, *line_start;
    int line;
    tw_diag *diag;
    tw_status status;
    tw_ir_token now;
    tw_kernel *k;
    tw_builder b;
    tw_ir_entry *table;
    size_t entries, room; /* room is a power of two */
} tw_ir_parser;

/* Locates a failure at a token. The first is kept. */
#define TW_IR_FAIL(p, t, ...)                                                                                          \
    do {                                                                                                               \
        if ((p)->status == TW_OK)                                                                                      \
            (p)->status = tw_fail_line((p)->diag, TW_ERR_FORMAT, (p)->path, (t).line, (t).column, __VA_ARGS__);        \
    } while (0)

/* For "%.*s": what is there, in a message. */
#define TW_IR_SHOWN(t) ((t).n < 40 ? (int)(t).n : 40), (t).at

/* parse_tokens.c */
/* A word as a string of limited length; longer ones are none of ours, and come out empty. */
typedef struct tw_ir_word {
    char text[40];
} tw_ir_word;
tw_ir_word tw_ir_word_of(const tw_ir_token *t);
void tw_ir_fail_expected(tw_ir_parser *p, const char *what);
void tw_ir_fail_memory(tw_ir_parser *p);
bool tw_ir_is_digit(char c);
void tw_ir_next_token(tw_ir_parser *p);
bool tw_ir_token_is(const tw_ir_token *t, const char *word); /* A word or punctuation. */
bool tw_ir_accept(tw_ir_parser *p, const char *word);
void tw_ir_expect(tw_ir_parser *p, const char *word);
void tw_ir_skip_lines(tw_ir_parser *p);
void tw_ir_end_of_line(tw_ir_parser *p);
/* A number's magnitude and sign. */
bool tw_ir_take_number(tw_ir_parser *p, uint64_t *magnitude, bool *negative, bool *hex);
int64_t tw_ir_take_integer(tw_ir_parser *p, int64_t least, int64_t most);
tw_type tw_ir_take_type(tw_ir_parser *p);
/* A string without its quotes and escapes, in the kernel's arena. */
const char *tw_ir_take_string(tw_ir_parser *p);

/* parse_values.c */
/* A token like %3, %3.acc, $acc: its identity, and the name for readers (n 0: none). */
typedef struct tw_ir_reference {
    tw_ir_token t;
    bool variable;
    const char *key, *name;
    size_t n, name_n;
} tw_ir_reference;
bool tw_ir_take_reference(tw_ir_parser *p, tw_ir_reference *r);
/* TW_NONE: nothing is defined by that name. */
tw_val tw_ir_find_value(tw_ir_parser *p, const tw_ir_reference *r);
void tw_ir_define_value(tw_ir_parser *p, const tw_ir_reference *r, tw_val v);
bool tw_ir_at_operand(const tw_ir_parser *p);
tw_val tw_ir_take_operand(tw_ir_parser *p);
int tw_ir_take_operands(tw_ir_parser *p, tw_val *v); /* Returns how many; v has room for TW_IR_MAX_VALUES. */

#endif
