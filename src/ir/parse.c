/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/builder.h"
#include "ir/text.h"

#include "base/diag.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_TEXT = 64 << 20,
    MAX_VALUES = 192, /* results, or operands, of one operation */
    MAX_ROLES = 32,
    MAX_DECLARATIONS = 1024 /* parameters, or shared objects */
};

typedef enum token_kind { END, NEWLINE, WORD, NUMBER, VALUE, AT, STRING, PUNCTUATION, WRONG } token_kind;

typedef struct token {
    token_kind kind;
    const char *at;
    size_t n;
    int line, column;
} token;

/* Registers and variables by what identifies them in the text: a number, or a name where there is no number. */
typedef struct entry {
    const char *key;
    size_t n;
    int id; /* 0: free */
} entry;

typedef struct parser {
    const char *path, *text, *end, *at, *line_start;
    int line;
    tw_diag *diag;
    tw_status status;
    token now;
    tw_kernel *k;
    tw_builder b;
    entry *table;
    size_t entries, room; /* room is a power of two */
} parser;

/* -- failing */

#define FAIL(p, t, ...)                                                                                                \
    do {                                                                                                               \
        if ((p)->status == TW_OK)                                                                                      \
            (p)->status = tw_fail_line((p)->diag, TW_ERR_FORMAT, (p)->path, (t).line, (t).column, __VA_ARGS__);        \
    } while (0)

/* For "%.*s": what is there, in a message. */
#define SHOWN(t) ((t).n < 40 ? (int)(t).n : 40), (t).at

static void fail_expected(parser *p, const char *what) {
    const token t = p->now;
    if (t.kind == NEWLINE)
        FAIL(p, t, "expected %s, not the end of the line", what);
    else if (t.kind == END)
        FAIL(p, t, "expected %s, not the end of the text", what);
    else
        FAIL(p, t, "expected %s, not '%.*s'", what, SHOWN(t));
}

static void fail_memory(parser *p) {
    if (p->status == TW_OK) p->status = tw_fail_memory(p->diag);
}

/* -- tokens */

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static void skip_word(parser *p) {
    while (p->at < p->end && (is_letter(*p->at) || is_digit(*p->at))) p->at++;
}

static token_kind scan(parser *p) {
    char c = *p->at++;
    if (c == '\n') return NEWLINE;
    if (is_letter(c)) {
        skip_word(p);
        return WORD;
    }
    if (is_digit(c) || c == '-') {
        skip_word(p);
        return NUMBER;
    }
    if (c == '%' || c == '$' || c == '@') {
        skip_word(p);
        if (c == '@') return AT;
        if (p->at < p->end && *p->at == '.') {
            p->at++;
            skip_word(p);
        }
        return VALUE;
    }
    if (c == '"') {
        while (p->at < p->end && *p->at != '"' && *p->at != '\n') p->at += *p->at == '\\' && p->end - p->at > 1 ? 2 : 1;
        if (p->at >= p->end || *p->at != '"') return WRONG;
        p->at++;
        return STRING;
    }
    return memchr("{}(),=:", c, 7) ? PUNCTUATION : WRONG;
}

static void next(parser *p) {
    if (p->status != TW_OK) {
        p->now.kind = END;
        return;
    }
    if (p->now.kind == NEWLINE) {
        p->line++;
        p->line_start = p->at;
    }
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\r')) p->at++;
    if (p->at < p->end && *p->at == '#')
        while (p->at < p->end && *p->at != '\n') p->at++;
    p->now = (token){.kind = END, .at = p->at, .line = p->line, .column = (int)(p->at - p->line_start) + 1};
    if (p->at == p->end) return;
    p->now.kind = scan(p);
    p->now.n = (size_t)(p->at - p->now.at);
    if (p->now.kind == WRONG) {
        FAIL(p, p->now,
             *p->now.at == '"' ? "a string that does not end on its line" : "a character that means nothing here");
        p->now.kind = END;
    }
}

static bool is(const token *t, const char *word) {
    return t->n == strlen(word) && !memcmp(t->at, word, t->n) && (t->kind == WORD || t->kind == PUNCTUATION);
}

static bool accept(parser *p, const char *word) {
    if (p->status != TW_OK || !is(&p->now, word)) return false;
    next(p);
    return true;
}

static void expect(parser *p, const char *word) {
    if (accept(p, word)) return;
    char what[32];
    snprintf(what, sizeof what, "'%.20s'", word);
    fail_expected(p, what);
}

static void skip_lines(parser *p) {
    while (p->now.kind == NEWLINE) next(p);
}

static void end_of_line(parser *p) {
    if (p->now.kind != NEWLINE) fail_expected(p, "the end of the line");
    skip_lines(p);
}

/* A word as a string of limited length; longer ones are none of ours, and come out empty. */
typedef struct word {
    char text[40];
} word;
static word word_of(const token *t) {
    word w = {""};
    if (t->n < sizeof w.text) memcpy(w.text, t->at, t->n);
    return w;
}

/* Distance of two words by letters put in, left out or exchanged. */
static int distance(const char *a, const char *b) {
    int row[64], n = (int)strlen(b);
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 0; a[i]; i++) {
        int before = row[0];
        row[0] = i + 1;
        for (int j = 0; j < n; j++) {
            int exchanged = before + (a[i] != b[j]), best = row[j] < row[j + 1] ? row[j] : row[j + 1];
            before = row[j + 1];
            row[j + 1] = exchanged < best + 1 ? exchanged : best + 1;
        }
    }
    return row[n];
}

/* -- numbers */

/* A number's magnitude and sign. */
static bool take_number(parser *p, uint64_t *magnitude, bool *negative, bool *hex) {
    const token t = p->now;
    if (t.kind != NUMBER) {
        fail_expected(p, "a number");
        return false;
    }
    const char *s = t.at, *end = t.at + t.n;
    *negative = *s == '-';
    if (*negative) s++;
    *hex = end - s > 2 && s[0] == '0' && s[1] == 'x';
    if (*hex) s += 2;
    *magnitude = 0;
    bool good = s < end;
    for (; s < end && good; s++) {
        uint64_t base = *hex ? 16 : 10;
        int digit = is_digit(*s) ? *s - '0' : *hex && *s >= 'a' && *s <= 'f' ? *s - 'a' + 10 : -1;
        good = digit >= 0 && *magnitude <= (UINT64_MAX - (uint64_t)digit) / base;
        *magnitude = *magnitude * base + (uint64_t)digit;
    }
    if (!good) {
        FAIL(p, t, "'%.*s' is no number of 64 bits, like 12, -3 or 0x1f", SHOWN(t));
        return false;
    }
    next(p);
    return true;
}

static int64_t take_integer(parser *p, int64_t least, int64_t most) {
    const token t = p->now;
    uint64_t magnitude;
    bool negative, hex;
    if (!take_number(p, &magnitude, &negative, &hex)) return least;
    if (magnitude <= INT64_MAX) {
        int64_t x = negative ? -(int64_t)magnitude : (int64_t)magnitude;
        if (x >= least && x <= most) return x;
    }
    FAIL(p, t, "%.*s is not within %" PRId64 " to %" PRId64, SHOWN(t), least, most);
    return least;
}

static tw_type take_type(parser *p) {
    const token t = p->now;
    if (t.kind == WORD) {
        word w = word_of(&t);
        for (int i = TW_T_none + 1; i < TW_T_COUNT; i++)
            if (i != TW_T_i8 && i != TW_T_e4m3 && !strcmp(w.text, tw_type_name((tw_type)i))) {
                next(p);
                return (tw_type)i;
            }
    }
    fail_expected(p, "a type: pred, i16, i32, i64, f16, bf16, f16x2, bf16x2, f32 or f64");
    return TW_T_i32;
}

/* number ":" type */
static tw_val take_constant(parser *p) {
    const token t = p->now;
    uint64_t magnitude;
    bool negative, hex;
    if (!take_number(p, &magnitude, &negative, &hex)) return TW_NONE;
    expect(p, ":");
    tw_type type = take_type(p);
    if (p->status != TW_OK) return TW_NONE;
    int bits = tw_type_bits(type);
    bool fits = negative ? magnitude <= 1ull << (bits - 1) : bits == 64 || !(magnitude >> bits);
    if (tw_type_is_float(type) && !hex)
        FAIL(p, t, "%s constants are written as their bits: 0x...", tw_type_name(type));
    else if (!fits || (negative && (bits == 1 || hex)))
        FAIL(p, t, "%.*s is no %s", SHOWN(t), tw_type_name(type));
    return p->status == TW_OK ? tw_const(&p->b, type, negative ? 0 - magnitude : magnitude) : TW_NONE;
}

/* -- names of values */

static size_t hash(const char *s, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
    return (size_t)(h ^ h >> 29);
}

static entry *find(const parser *p, const char *key, size_t n) {
    for (size_t i = hash(key, n);; i++) {
        entry *e = &p->table[i & (p->room - 1)];
        if (!e->id || (e->n == n && !memcmp(e->key, key, n))) return e;
    }
}

static bool grow(parser *p) {
    entry *old = p->table;
    size_t room = p->room;
    p->room = room ? 2 * room : 256;
    p->table = calloc(p->room, sizeof *p->table);
    if (!p->table) {
        p->table = old;
        p->room = room;
        fail_memory(p);
        return false;
    }
    for (size_t i = 0; i < room; i++)
        if (old[i].id) *find(p, old[i].key, old[i].n) = old[i];
    free(old);
    return true;
}

/* A token like %3, %3.acc, $acc: its identity, and the name for readers (n 0: none). */
typedef struct reference {
    token t;
    bool variable;
    const char *key, *name;
    size_t n, name_n;
} reference;

static bool take_reference(parser *p, reference *r) {
    const token t = p->now;
    *r = (reference){.t = t, .variable = *t.at == '$', .key = t.at + 1, .n = t.n - 1};
    const char *dot = memchr(r->key, '.', r->n);
    if (r->n && is_digit(*r->key)) {
        if (dot) r->n = (size_t)(dot - r->key);
        for (size_t i = 0; i < r->n; i++)
            if (!is_digit(r->key[i])) r->n = 0;
        if (dot) {
            r->name = dot + 1;
            r->name_n = (size_t)(t.at + t.n - r->name);
            if (!r->name_n) r->n = 0;
        }
    } else {
        r->name = r->key;
        r->name_n = r->n;
        if (dot) r->n = 0;
    }
    if (!r->n) FAIL(p, t, "'%.*s' is no value: %%3, %%3.name or %%name, with $ for a variable", SHOWN(t));
    next(p);
    return p->status == TW_OK;
}

static tw_val lookup(parser *p, const reference *r) {
    entry *e = p->room ? find(p, r->key, r->n) : NULL;
    if (!e || !e->id) return TW_NONE;
    bool variable = p->k->values[e->id].kind == TW_V_VARIABLE;
    if (variable != r->variable)
        FAIL(p, r->t, "'%.*s' is a %s, written with %c", SHOWN(r->t), variable ? "variable" : "register",
             variable ? '$' : '%');
    return (tw_val){e->id};
}

static void remember(parser *p, const reference *r, tw_val v) {
    if (2 * p->entries >= p->room && !grow(p)) return;
    entry *e = find(p, r->key, r->n);
    if (e->id) {
        FAIL(p, r->t, "'%.*s' is defined twice", SHOWN(r->t));
        return;
    }
    *e = (entry){.key = r->key, .n = r->n, .id = v.id};
    p->entries++;
    tw_ir_value *value = &p->k->values[v.id];
    if (r->variable) value->kind = TW_V_VARIABLE;
    if (r->name_n) value->name = tw_arena_strndup(&p->k->arena, r->name, r->name_n);
}

static tw_val take_parameter(parser *p) {
    const token t = p->now;
    next(p);
    for (int i = 0; i < p->k->n_parameters; i++) {
        const char *name = p->k->parameters[i].name;
        if (name && strlen(name) == t.n - 1 && !memcmp(name, t.at + 1, t.n - 1)) return p->k->parameters[i].value;
    }
    FAIL(p, t, "there is no parameter '%.*s'; a line 'parameter NAME TYPE' or 'pointer NAME align N' declares one",
         SHOWN(t));
    return TW_NONE;
}

static bool at_operand(const parser *p) {
    return p->now.kind == VALUE || p->now.kind == NUMBER || p->now.kind == AT || is(&p->now, "_");
}

static tw_val take_operand(parser *p) {
    reference r;
    switch (p->now.kind) {
    case VALUE:
        if (!take_reference(p, &r)) return TW_NONE;
        tw_val v = lookup(p, &r);
        if (!v.id) FAIL(p, r.t, "'%.*s' is not defined above", SHOWN(r.t));
        return v;
    case NUMBER:
        return take_constant(p);
    case AT:
        return take_parameter(p);
    default:
        if (!accept(p, "_")) fail_expected(p, "a value: %3, $3, @parameter or 5:i32");
        return TW_NONE;
    }
}

static int take_operands(parser *p, tw_val *v) {
    int n = 0;
    if (!at_operand(p)) return 0;
    do {
        if (n == MAX_VALUES) {
            FAIL(p, p->now, "more than %d operands", MAX_VALUES);
            return 0;
        }
        v[n++] = take_operand(p);
    } while (accept(p, ","));
    return n;
}

/* -- operations */

typedef struct results {
    reference of[MAX_VALUES];
    tw_val v[MAX_VALUES];
    tw_type types[MAX_VALUES];
    bool fresh[MAX_VALUES];
    int n;
} results;

/* value [":" type] {"," ...} "=", the type where the value is new */
static void take_results(parser *p, results *r) {
    r->n = 0;
    do {
        if (p->now.kind != VALUE) {
            fail_expected(p, "a value like %3:i32");
            return;
        }
        if (r->n == MAX_VALUES) {
            FAIL(p, p->now, "more than %d results", MAX_VALUES);
            return;
        }
        int i = r->n++;
        if (!take_reference(p, &r->of[i])) return;
        const reference *of = &r->of[i];
        r->v[i] = lookup(p, of);
        r->fresh[i] = !r->v[i].id;
        if (accept(p, ":")) {
            if (!r->fresh[i]) FAIL(p, of->t, "'%.*s' is defined above: assign without a type", SHOWN(of->t));
            r->types[i] = take_type(p);
        } else if (r->fresh[i]) {
            FAIL(p, of->t, "'%.*s' is new here and needs its type, like %.*s:i32", SHOWN(of->t), SHOWN(of->t));
        } else if (!of->variable) {
            FAIL(p, of->t, "register '%.*s' is assigned twice; a variable is written with $", SHOWN(of->t));
        }
    } while (accept(p, ","));
    expect(p, "=");
}

static int take_opcode(parser *p) {
    const token t = p->now;
    if (t.kind != WORD) {
        fail_expected(p, "an operation");
        return -1;
    }
    word w = word_of(&t);
    int code = tw_opcode_from_name(w.text), nearest = 0;
    if (code >= 0) {
        next(p);
        return code;
    }
    for (int i = 1; i < TW_OPCODES; i++)
        if (distance(w.text, tw_op_describe((tw_opcode)i)->name) <
            distance(w.text, tw_op_describe((tw_opcode)nearest)->name))
            nearest = i;
    FAIL(p, t, "there is no operation '%.*s'; %s is one", SHOWN(t), tw_op_describe((tw_opcode)nearest)->name);
    return -1;
}

static int hex_digit(char c) {
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A string without its quotes and escapes, in the kernel's arena. */
static const char *take_string(parser *p) {
    const token t = p->now;
    if (t.kind != STRING) {
        fail_expected(p, "a string in quotes");
        return NULL;
    }
    char *out = tw_arena_alloc(&p->k->arena, t.n), *to = out;
    if (!out) {
        fail_memory(p);
        return NULL;
    }
    const char *s = t.at + 1, *end = t.at + t.n - 1;
    while (s < end) {
        if (*s != '\\') {
            *to++ = *s++;
        } else if (end - s >= 2 && (s[1] == '"' || s[1] == '\\')) {
            *to++ = s[1];
            s += 2;
        } else {
            int high = end - s >= 4 && s[1] == 'x' ? hex_digit(s[2]) : -1, low = high >= 0 ? hex_digit(s[3]) : -1;
            if (low < 0 || !(high | low)) {
                FAIL(p, t, "in a string, a backslash is followed by \\, \" or x and two hexadecimal digits");
                return NULL;
            }
            *to++ = (char)(high * 16 + low);
            s += 4;
        }
        if (!to[-1]) {
            FAIL(p, t, "a string cannot hold a zero byte");
            return NULL;
        }
    }
    next(p);
    return out;
}

static void fail_attribute_value(parser *p, int attr) {
    char list[256] = "";
    size_t n = 0;
    for (int i = 0; tw_attr_value_name(attr, i) && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", tw_attr_value_name(attr, i));
    FAIL(p, p->now, "'%.*s' is no %s: %s", SHOWN(p->now), tw_attr_name(attr), list);
}

/* "(" {name "=" value} ")" */
static void take_attributes(parser *p, tw_attrs *at, const char **name) {
    *at = (tw_attrs){0};
    *name = NULL;
    if (!accept(p, "(")) return;
    while (p->status == TW_OK && !is(&p->now, ")")) {
        const token t = p->now;
        word w = word_of(&t);
        int attr = 0;
        if (t.kind != WORD) {
            fail_expected(p, "an attribute, or ')'");
            return;
        }
        next(p);
        expect(p, "=");
        if (!strcmp(w.text, "name")) {
            *name = take_string(p);
            continue;
        }
        while (attr < TW_ATTRS && strcmp(tw_attr_name(attr), w.text)) attr++;
        if (attr == TW_ATTRS) {
            FAIL(p, t, "there is no attribute '%.*s'; attrs.def lists them", SHOWN(t));
            return;
        }
        int32_t x = 0;
        if (!tw_attr_value_name(attr, 0)) {
            x = (int32_t)take_integer(p, INT32_MIN, INT32_MAX);
        } else if (p->now.kind == WORD && tw_attr_value_from_name(attr, word_of(&p->now).text, &x)) {
            next(p);
        } else {
            fail_attribute_value(p, attr);
            return;
        }
        tw_attr_set(at, attr, x);
    }
    expect(p, ")");
}

static void take_guard(parser *p, tw_opcode code) {
    const token t = p->now;
    bool when = accept(p, "when");
    if (!when && !accept(p, "unless")) return;
    if (!(tw_op_describe(code)->flags & TW_F_GUARD)) {
        FAIL(p, t, "%s cannot carry a guard; an if around it can", tw_op_describe(code)->name);
        return;
    }
    p->b.guard = take_operand(p);
    p->b.guard_not = !when;
}

static void take_op(parser *p);

static void take_block(parser *p, tw_block *block) {
    const token t = p->now;
    expect(p, "{");
    end_of_line(p);
    if (p->b.depth == TW_BUILDER_DEPTH) FAIL(p, t, "blocks are nested deeper than %d", TW_BUILDER_DEPTH);
    if (p->status != TW_OK) return;
    p->b.open[p->b.depth++] = block;
    while (p->status == TW_OK && !is(&p->now, "}")) take_op(p);
    p->b.depth--;
    expect(p, "}");
}

/* The blocks of an operation that was emitted, with the operands that stand among them: op->operands has room. */
static void take_blocks(parser *p, tw_ir_op *op) {
    static const uint16_t counts[TW_OPCODES] = {[TW_OP_if] = 2, [TW_OP_while] = 2, [TW_OP_for] = 1};
    int room = op->code == TW_OP_roles ? MAX_ROLES : counts[op->code];
    op->blocks = tw_arena_array(&p->k->arena, (size_t)room, sizeof *op->blocks);
    if (!op->blocks) {
        fail_memory(p);
        return;
    }
    for (int i = 0; i < room; i++) op->blocks[i].owner = op;
    op->n_blocks = counts[op->code];
    switch (op->code) {
    case TW_OP_if:
        take_block(p, &op->blocks[0]);
        if (accept(p, "else")) take_block(p, &op->blocks[1]);
        return;
    case TW_OP_while:
        take_block(p, &op->blocks[0]);
        expect(p, "do");
        op->operands[0] = take_operand(p);
        op->n_operands = 1;
        take_block(p, &op->blocks[1]);
        return;
    case TW_OP_roles:
        do {
            if (op->n_blocks == MAX_ROLES) {
                FAIL(p, p->now, "more than %d roles", MAX_ROLES);
                return;
            }
            op->operands[op->n_operands++] = take_operand(p);
            expect(p, ",");
            op->operands[op->n_operands++] = take_operand(p);
            take_block(p, &op->blocks[op->n_blocks++]);
        } while (p->status == TW_OK && at_operand(p));
        return;
    default:
        take_block(p, &op->blocks[0]);
    }
}

static void define_results(parser *p, const results *r) {
    for (int i = 0; i < r->n; i++)
        if (r->fresh[i] && p->status == TW_OK) remember(p, &r->of[i], r->v[i]);
}

/* [results "="] name ["(" attributes ")"] [operands] [("when" | "unless") value] end of line */
static void take_op(parser *p) {
    results r;
    r.n = 0;
    tw_val operands[MAX_VALUES] = {{0}};
    tw_attrs at;
    const char *name;
    if (p->now.kind == VALUE) take_results(p, &r);
    if (p->status != TW_OK) return;
    int code = take_opcode(p);
    if (code < 0) return;
    bool blocks = tw_op_describe((tw_opcode)code)->flags & TW_F_BLOCKS,
         among = code == TW_OP_while || code == TW_OP_roles;
    take_attributes(p, &at, &name);
    int n = among ? 0 : take_operands(p, operands);
    if (!blocks) take_guard(p, (tw_opcode)code);
    if (p->status != TW_OK) return;
    tw_ir_op *op = tw_emit(&p->b, (tw_opcode)code, at, r.v, r.types, r.n, operands, among ? MAX_VALUES : n);
    if (!op) {
        fail_memory(p);
        return;
    }
    op->n_operands = (uint16_t)n;
    op->name = name;
    define_results(p, &r);
    if (blocks && p->status == TW_OK) take_blocks(p, op);
    end_of_line(p);
    if (tw_kernel_failed(p->k)) fail_memory(p);
}

/* -- the kernel */

static char *take_name(parser *p, const char *what) {
    if (p->now.kind != WORD) {
        fail_expected(p, what);
        return NULL;
    }
    char *name = tw_arena_strndup(&p->k->arena, p->now.at, p->now.n);
    if (!name) fail_memory(p);
    next(p);
    return p->status == TW_OK ? name : NULL;
}

static void take_declaration(parser *p, bool pointer) {
    const token t = p->now;
    const char *name = take_name(p, "the name of a parameter");
    if (pointer) expect(p, "align");
    int align = pointer ? (int)take_integer(p, 1, 1 << 20) : 0;
    bool read_only = pointer && accept(p, "read_only");
    tw_type type = pointer ? TW_T_i64 : take_type(p);
    if (p->k->n_parameters == MAX_DECLARATIONS) FAIL(p, t, "more than %d parameters", MAX_DECLARATIONS);
    for (int i = 0; name && i < p->k->n_parameters; i++)
        if (p->k->parameters[i].name && !strcmp(name, p->k->parameters[i].name))
            FAIL(p, t, "two parameters are called %.40s", name);
    if (p->status != TW_OK) return;
    if (pointer)
        tw_pointer_add(&p->b, name, align, read_only);
    else
        tw_parameter_add(&p->b, name, type);
}

static void take_map(parser *p) {
    const token t = p->now;
    const char *name = take_name(p, "the name of a tensor map");
    if (p->k->n_parameters == MAX_DECLARATIONS) FAIL(p, t, "more than %d parameters", MAX_DECLARATIONS);
    for (int i = 0; name && i < p->k->n_parameters; i++)
        if (p->k->parameters[i].name && !strcmp(name, p->k->parameters[i].name))
            FAIL(p, t, "two parameters are called %.40s", name);
    if (p->status == TW_OK) tw_map_add(&p->b, name);
}

static void take_shared(parser *p) {
    const token t = p->now;
    const char *name = take_name(p, "the name of a shared object");
    int64_t bytes = take_integer(p, 1, 1 << 30);
    expect(p, "align");
    int align = (int)take_integer(p, 1, 1 << 20);
    bool dynamic = accept(p, "dynamic");
    if (p->k->n_shared == MAX_DECLARATIONS) FAIL(p, t, "more than %d shared objects", MAX_DECLARATIONS);
    if (p->status == TW_OK && tw_kernel_shared_find(p->k, name))
        FAIL(p, t, "two shared objects are called %.40s", name);
    if (p->status == TW_OK) tw_shared_add(&p->b, name, bytes, align, dynamic);
}

static void take_directive(parser *p) {
    struct {
        const char *name;
        int *to;
    } numbers[] = {{"target", &p->k->target},
                   {"threads", &p->k->threads},
                   {"min_blocks", &p->k->min_blocks},
                   {"max_registers", &p->k->max_registers},
                   {"cluster", &p->k->cluster}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (accept(p, numbers[i].name)) {
            *numbers[i].to = (int)take_integer(p, 0, 1 << 20);
            return;
        }
    if (accept(p, "cooperative"))
        p->k->cooperative = true;
    else if (accept(p, "parameter"))
        take_declaration(p, false);
    else if (accept(p, "pointer"))
        take_declaration(p, true);
    else if (accept(p, "tensor_map"))
        take_map(p);
    else if (accept(p, "shared"))
        take_shared(p);
    else
        fail_expected(
            p, "target, threads, min_blocks, max_registers, cluster, cooperative, parameter, pointer, tensor_map, "
               "shared or '{'");
}

static void take_kernel(parser *p) {
    skip_lines(p);
    expect(p, "kernel");
    const char *name = take_name(p, "the name of a kernel");
    if (name) p->k->name = name;
    end_of_line(p);
    while (p->status == TW_OK && !is(&p->now, "{")) {
        take_directive(p);
        end_of_line(p);
        if (tw_kernel_failed(p->k)) fail_memory(p);
    }
    expect(p, "{");
    end_of_line(p);
    while (p->status == TW_OK && !is(&p->now, "}")) take_op(p);
    expect(p, "}");
    skip_lines(p);
    if (p->status == TW_OK && p->now.kind != END) fail_expected(p, "the end of the text");
}

tw_status tw_kernel_parse(tw_kernel **out, const char *text, size_t size, const char *path, tw_diag *diag) {
    *out = NULL;
    tw_diag_clear(diag);
    if (size > MAX_TEXT) return tw_fail(diag, TW_ERR_FORMAT, "a kernel of more than %d MiB", MAX_TEXT >> 20);
    parser p = {.path = path ? path : "", .diag = diag, .line = 1, .text = text, .end = text + size, .at = text};
    p.line_start = text;
    p.k = tw_kernel_new("", 80, 0);
    if (!p.k) return tw_fail_memory(diag);
    p.b = tw_builder_of(p.k);
    next(&p);
    take_kernel(&p);
    free(p.table);
    if (p.status == TW_OK && tw_kernel_failed(p.k)) fail_memory(&p);
    if (p.status == TW_OK)
        *out = p.k;
    else
        tw_kernel_free(p.k);
    return p.status;
}
