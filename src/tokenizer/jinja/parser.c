/* SPDX-License-Identifier: Apache-2.0 */
/* Parses statements, and has what both parsers share. */
#define _POSIX_C_SOURCE 200809L
#include "base/diag.h"
#include "tokenizer/jinja/jinja.h"
#include "tokenizer/unicode.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- shared ---- */

void jinja_place_of(const jinja_template *t, uint32_t at, int *line, int *column) {
    size_t begin = 0;
    *line = 1;
    for (size_t i = 0; i < at && i < t->size; i++)
        if (t->text[i] == '\n') {
            ++*line;
            begin = i + 1;
        }
    *column = 1;
    for (size_t i = begin; i < at && i < t->size; i++) *column += ((unsigned char)t->text[i] & 0xc0) != 0x80;
}

tw_status jinja_syntax(jinja_parser *p, uint32_t at, tw_status s, const char *fmt, ...) {
    if (p->status != TW_OK) return p->status;
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    int line, column;
    jinja_place_of(p->t, at, &line, &column);
    return p->status = tw_fail_line(p->diag, s, p->t->path, line, column, "%s", text);
}

static uint32_t hash_name(const char *s, size_t n) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

static bool grow_names(jinja_names *m) {
    uint32_t slots = m->slots ? 2 * (m->mask + 1) : 64;
    uint32_t *s = calloc(slots, sizeof *s);
    const jinja_string **v = realloc(m->v, slots * sizeof *v);
    if (v) m->v = v;
    if (!s || !v) {
        free(s);
        return !(m->failed = true);
    }
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t k = hash_name(m->v[i]->data, m->v[i]->size) & (slots - 1);
        while (s[k]) k = (k + 1) & (slots - 1);
        s[k] = i + 1;
    }
    free(m->slots);
    m->slots = s;
    m->mask = slots - 1;
    m->room = slots;
    return true;
}

uint32_t jinja_intern(jinja_template *t, const char *name, size_t size) {
    jinja_names *m = &t->names;
    if (m->failed || (2 * (m->n + 1) > m->room && !grow_names(m))) return 0;
    uint32_t k = hash_name(name, size) & m->mask;
    for (; m->slots[k]; k = (k + 1) & m->mask) {
        const jinja_string *s = m->v[m->slots[k] - 1];
        if (s->size == size && !memcmp(s->data, name, size)) return m->slots[k] - 1;
    }
    jinja_string *s = tw_arena_alloc(&t->arena, sizeof *s);
    char *data = tw_arena_strndup(&t->arena, name, size);
    if (!s || !data) return 0;
    *s = (jinja_string){.data = data, .size = size};
    for (size_t i = 0; i < size; i++) s->chars += ((unsigned char)name[i] & 0xc0) != 0x80;
    m->v[m->n] = s;
    m->slots[k] = ++m->n;
    return m->n - 1;
}

jinja_node *jinja_node_new(jinja_parser *p, jinja_type type, uint32_t at) {
    jinja_node *n = tw_arena_alloc(&p->t->arena, sizeof *n);
    if (!n) {
        if (p->status == TW_OK) p->status = tw_fail_memory(p->diag);
        return &p->spare;
    }
    n->type = type;
    n->at = at;
    return n;
}

void jinja_nodes_push(jinja_parser *p, jinja_nodes *list, jinja_node *node) {
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 4;
        jinja_node **v = tw_arena_array(&p->t->arena, room, sizeof *v);
        if (!v) {
            if (p->status == TW_OK) p->status = tw_fail_memory(p->diag);
            return;
        }
        if (list->n) memcpy(v, list->v, list->n * sizeof *v);
        list->v = v;
        list->room = room;
    }
    list->v[list->n++] = node;
}

const jinja_token *jinja_now(const jinja_parser *p) {
    return &p->tokens[p->status == TW_OK ? p->at : p->n - 1];
}

const jinja_token *jinja_look(const jinja_parser *p) {
    return p->status == TW_OK && p->at + 1 < p->n ? &p->tokens[p->at + 1] : &p->tokens[p->n - 1];
}

const jinja_token *jinja_advance(jinja_parser *p) {
    const jinja_token *t = jinja_now(p);
    if (t->type != JT_END && p->status == TW_OK) p->at++;
    return t;
}

bool jinja_is_op(const jinja_token *t, const char *op) {
    return t->type == JT_OPERATOR &&
           t->op == (uint16_t)((unsigned char)op[0] | (op[1] ? (unsigned char)op[1] << 8 : 0));
}

bool jinja_is_name(const jinja_parser *p, const jinja_token *t, const char *name) {
    return t->type == JT_NAME && t->name < p->t->names.n && !strcmp(p->t->names.v[t->name]->data, name);
}

bool jinja_skip_op(jinja_parser *p, const char *op) {
    bool is = jinja_is_op(jinja_now(p), op);
    if (is) jinja_advance(p);
    return is;
}

bool jinja_skip_name(jinja_parser *p, const char *name) {
    bool is = jinja_is_name(p, jinja_now(p), name);
    if (is) jinja_advance(p);
    return is;
}

const char *jinja_describe(const jinja_parser *p, const jinja_token *t, char *out, size_t size) {
    switch (t->type) {
    case JT_NAME:
        snprintf(out, size, "%.60s", t->name < p->t->names.n ? p->t->names.v[t->name]->data : "a name");
        break;
    case JT_OPERATOR:
        snprintf(out, size, "%c%.1s", t->op & 255, t->op > 255 ? (const char[]){(char)(t->op >> 8), 0} : "");
        break;
    case JT_STRING:
        snprintf(out, size, "a string");
        break;
    case JT_INT:
    case JT_FLOAT:
        snprintf(out, size, "a number");
        break;
    case JT_BLOCK_END:
    case JT_PRINT_END:
        snprintf(out, size, "the end of the tag");
        break;
    default:
        snprintf(out, size, "the end of the template");
        break;
    }
    return out;
}

static void expected(jinja_parser *p, const char *what) {
    char now[80];
    jinja_syntax(p, jinja_now(p)->at, TW_ERR_FORMAT, "expected %s, not %s", what,
                 jinja_describe(p, jinja_now(p), now, sizeof now));
}

void jinja_expect_op(jinja_parser *p, const char *op) {
    if (!jinja_skip_op(p, op)) expected(p, op);
}

static uint32_t expect_name(jinja_parser *p) {
    if (jinja_now(p)->type != JT_NAME) {
        expected(p, "a name");
        return 0;
    }
    return jinja_advance(p)->name;
}

static void expect_block_end(jinja_parser *p) {
    if (jinja_now(p)->type != JT_BLOCK_END)
        expected(p, "%}");
    else
        jinja_advance(p);
}

bool jinja_enter(jinja_parser *p, uint32_t at) {
    if (p->depth++ < JINJA_NESTING) return true;
    jinja_syntax(p, at, TW_ERR_UNSUPPORTED, "nested more than %d deep", JINJA_NESTING);
    return false;
}

/* ---- targets ---- */

static bool is_constant_name(const jinja_parser *p, uint32_t name) {
    static const char *const words[] = {"true", "false", "none", "True", "False", "None"};
    for (int i = 0; i < 6; i++)
        if (!strcmp(p->t->names.v[name]->data, words[i])) return true;
    return false;
}

static void check_target(jinja_parser *p, jinja_node *n) {
    if (p->status != TW_OK) return;
    n->store = true;
    if (n->type == JN_TUPLE) {
        for (size_t i = 0; i < n->list.n; i++) check_target(p, n->list.v[i]);
        return;
    }
    if (n->type != JN_NAME && n->type != JN_NSREF)
        jinja_syntax(p, n->at, TW_ERR_FORMAT, "nothing can be assigned to this");
    else if (n->type == JN_NAME && is_constant_name(p, n->name))
        jinja_syntax(p, n->at, TW_ERR_FORMAT, "nothing can be assigned to %s", p->t->names.v[n->name]->data);
    else if (n->type == JN_NAME && p->fors && !strcmp(p->t->names.v[n->name]->data, "loop"))
        jinja_syntax(p, n->at, TW_ERR_FORMAT, "nothing can be assigned to loop inside a for");
}

static jinja_node *parse_target(jinja_parser *p, const char *ends, bool with_namespace) {
    jinja_node *n =
        jinja_parse_tuple(p, (jinja_tuple_options){.simplified = true, .with_namespace = with_namespace, .ends = ends});
    check_target(p, n);
    return n;
}

static jinja_node *parse_name_target(jinja_parser *p) {
    uint32_t at = jinja_now(p)->at;
    jinja_node *n = jinja_node_new(p, JN_NAME, at);
    n->name = expect_name(p);
    n->store = true;
    if (p->status == TW_OK && is_constant_name(p, n->name))
        jinja_syntax(p, at, TW_ERR_FORMAT, "nothing can be assigned to %s", p->t->names.v[n->name]->data);
    return n;
}

/* ---- statements ---- */

static jinja_node *parse_body(jinja_parser *p, uint32_t at, const char *const *ends);

/* Parses statements up to one of `ends`, which stays the current token. */
static jinja_node *parse_until(jinja_parser *p, uint32_t at, const char *const *ends) {
    jinja_skip_op(p, ":");
    expect_block_end(p);
    jinja_node *body = parse_body(p, at, ends);
    if (p->status == TW_OK && jinja_now(p)->type == JT_END)
        jinja_syntax(p, at, TW_ERR_FORMAT, "the block is never ended by %s", ends[0]);
    return body;
}

static jinja_node *parse_to(jinja_parser *p, uint32_t at, const char *end) {
    jinja_node *body = parse_until(p, at, (const char *const[]){end, NULL});
    jinja_advance(p);
    return body;
}

static jinja_node *parse_set(jinja_parser *p, uint32_t at) {
    jinja_node *n = jinja_node_new(p, JN_SET, at);
    n->target = parse_target(p, NULL, true);
    if (jinja_skip_op(p, "=")) {
        n->a = jinja_parse_tuple(p, (jinja_tuple_options){0});
        return n;
    }
    n->type = JN_SETBLOCK;
    n->a = jinja_parse_filter(p, NULL, false);
    n->b = parse_to(p, at, "endset");
    return n;
}

static jinja_node *parse_for(jinja_parser *p, uint32_t at) {
    jinja_node *n = jinja_node_new(p, JN_FOR, at);
    int loops = p->loops;
    p->fors++;
    n->target = parse_target(p, "in", false);
    if (!jinja_skip_name(p, "in")) expected(p, "in");
    n->a = jinja_parse_tuple(p, (jinja_tuple_options){.without_else = true, .ends = "recursive"});
    if (jinja_skip_name(p, "if")) n->d = jinja_parse_expression(p, true);
    n->recursive = jinja_skip_name(p, "recursive");
    p->loops = n->recursive ? 1 : loops + 1;
    n->b = parse_until(p, at, (const char *const[]){"endfor", "else", NULL});
    p->loops = n->recursive ? 0 : loops;
    if (jinja_skip_name(p, "else"))
        n->c = parse_to(p, at, "endfor");
    else
        jinja_advance(p);
    p->loops = loops;
    p->fors--;
    return n;
}

static jinja_node *parse_if(jinja_parser *p, uint32_t at) {
    jinja_node *first = jinja_node_new(p, JN_IF, at), *n = first;
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    while (p->status == TW_OK) {
        n->a = jinja_parse_tuple(p, (jinja_tuple_options){.without_else = true});
        n->b = parse_until(p, at, ends);
        if (jinja_skip_name(p, "elif")) {
            n = jinja_node_new(p, JN_IF, jinja_now(p)->at);
            jinja_nodes_push(p, &first->list, n);
            continue;
        }
        if (jinja_skip_name(p, "else"))
            first->c = parse_to(p, at, "endif");
        else
            jinja_advance(p);
        break;
    }
    return first;
}

static jinja_node *parse_with(jinja_parser *p, uint32_t at) {
    jinja_node *n = jinja_node_new(p, JN_WITH, at);
    n->target = jinja_node_new(p, JN_TUPLE, at);
    while (p->status == TW_OK && jinja_now(p)->type != JT_BLOCK_END) {
        if (n->list.n) jinja_expect_op(p, ",");
        int fors = p->fors;
        p->fors = 0; /* `loop` may be assigned here. */
        jinja_node *target = parse_target(p, NULL, false);
        p->fors = fors;
        jinja_expect_op(p, "=");
        jinja_nodes_push(p, &n->target->list, target);
        jinja_nodes_push(p, &n->list, jinja_parse_expression(p, true));
    }
    n->b = parse_to(p, at, "endwith");
    return n;
}

static void parse_signature(jinja_parser *p, jinja_node *n) {
    jinja_expect_op(p, "(");
    while (p->status == TW_OK && !jinja_is_op(jinja_now(p), ")")) {
        if (n->list.n) jinja_expect_op(p, ",");
        jinja_node *name = parse_name_target(p);
        for (size_t i = 0; i < n->list.n && p->status == TW_OK; i++)
            if (n->list.v[i]->name == name->name)
                jinja_syntax(p, name->at, TW_ERR_FORMAT, "two parameters have this name");
        jinja_nodes_push(p, &n->list, name);
        if (n->list.n > 255) jinja_syntax(p, name->at, TW_ERR_UNSUPPORTED, "more than 255 parameters");
        if (jinja_skip_op(p, "="))
            jinja_nodes_push(p, &n->defaults, jinja_parse_expression(p, true));
        else if (n->defaults.n)
            jinja_syntax(p, name->at, TW_ERR_FORMAT, "a parameter without default follows one with");
    }
    jinja_expect_op(p, ")");
}

/* Parses a macro's body. It is a function of its own, so it cannot leave a loop outside. */
static jinja_node *parse_function_body(jinja_parser *p, uint32_t at, const char *end) {
    int loops = p->loops;
    p->loops = 0;
    jinja_node *body = parse_to(p, at, end);
    p->loops = loops;
    return body;
}

static jinja_node *parse_macro(jinja_parser *p, uint32_t at) {
    jinja_node *n = jinja_node_new(p, JN_MACRO, at);
    n->target = parse_name_target(p);
    n->name = n->target->name;
    parse_signature(p, n);
    n->b = parse_function_body(p, at, "endmacro");
    return n;
}

static jinja_node *parse_call_block(jinja_parser *p, uint32_t at) {
    jinja_node *n = jinja_node_new(p, JN_CALLBLOCK, at);
    if (jinja_is_op(jinja_now(p), "(")) parse_signature(p, n);
    n->a = jinja_parse_expression(p, true);
    if (p->status == TW_OK && n->a->type != JN_CALL) jinja_syntax(p, n->a->at, TW_ERR_FORMAT, "expected a call");
    n->b = parse_function_body(p, at, "endcall");
    return n;
}

static jinja_node *parse_generation(jinja_parser *p, uint32_t at) {
    jinja_node *n = jinja_node_new(p, JN_CALLBLOCK, at);
    n->generation = true;
    n->b = parse_function_body(p, at, "endgeneration");
    return n;
}

static jinja_node *parse_filter_block(jinja_parser *p, uint32_t at) {
    jinja_node *n = jinja_node_new(p, JN_FILTERBLOCK, at);
    n->a = jinja_parse_filter(p, NULL, true);
    n->b = parse_to(p, at, "endfilter");
    return n;
}

static jinja_node *parse_print(jinja_parser *p, uint32_t at) {
    jinja_node *n = jinja_node_new(p, JN_BODY, at);
    while (p->status == TW_OK && jinja_now(p)->type != JT_BLOCK_END) {
        if (n->list.n) jinja_expect_op(p, ",");
        jinja_node *print = jinja_node_new(p, JN_PRINT, jinja_now(p)->at);
        print->a = jinja_parse_expression(p, true);
        jinja_nodes_push(p, &n->list, print);
    }
    return n;
}

static jinja_node *parse_leave(jinja_parser *p, uint32_t at, jinja_type type) {
    if (!p->loops) jinja_syntax(p, at, TW_ERR_FORMAT, "there is no loop around this");
    return jinja_node_new(p, type, at);
}

static jinja_node *parse_statement(jinja_parser *p) {
    const jinja_token *t = jinja_now(p);
    uint32_t at = t->at;
    if (t->type != JT_NAME) {
        expected(p, "the name of a statement");
        return jinja_node_new(p, JN_BODY, at);
    }
    jinja_advance(p);
#define IS(word) jinja_is_name(p, t, word)
    if (IS("if")) return parse_if(p, at);
    if (IS("for")) return parse_for(p, at);
    if (IS("set")) return parse_set(p, at);
    if (IS("macro")) return parse_macro(p, at);
    if (IS("call")) return parse_call_block(p, at);
    if (IS("filter")) return parse_filter_block(p, at);
    if (IS("with")) return parse_with(p, at);
    if (IS("print")) return parse_print(p, at);
    if (IS("generation")) return parse_generation(p, at);
    if (IS("break")) return parse_leave(p, at, JN_BREAK);
    if (IS("continue")) return parse_leave(p, at, JN_CONTINUE);
    char name[80];
    jinja_describe(p, t, name, sizeof name);
    bool known = IS("block") || IS("extends") || IS("include") || IS("import") || IS("from") || IS("autoescape");
    if (known)
        jinja_syntax(p, at, TW_ERR_UNSUPPORTED, "the statement %s is not supported", name);
    else
        jinja_syntax(p, at, TW_ERR_FORMAT, "there is no statement %s here", name);
    return jinja_node_new(p, JN_BODY, at);
#undef IS
}

static bool is_end(const jinja_parser *p, const char *const *ends) {
    for (; ends && *ends; ends++)
        if (jinja_is_name(p, jinja_now(p), *ends)) return true;
    return false;
}

static jinja_node *parse_body(jinja_parser *p, uint32_t at, const char *const *ends) {
    jinja_node *body = jinja_node_new(p, JN_BODY, at);
    if (!jinja_enter(p, at)) return body;
    while (p->status == TW_OK && jinja_now(p)->type != JT_END) {
        const jinja_token *t = jinja_advance(p);
        if (t->type == JT_DATA) {
            jinja_node *n = jinja_node_new(p, JN_TEXT, t->at);
            n->value = t->value;
            jinja_nodes_push(p, &body->list, n);
        } else if (t->type == JT_PRINT_BEGIN) {
            jinja_node *n = jinja_node_new(p, JN_PRINT, t->at);
            n->a = jinja_parse_tuple(p, (jinja_tuple_options){0});
            if (jinja_now(p)->type != JT_PRINT_END)
                expected(p, "}}");
            else
                jinja_advance(p);
            jinja_nodes_push(p, &body->list, n);
        } else { /* JT_BLOCK_BEGIN. A tag is lexed as a whole. */
            if (is_end(p, ends)) break;
            jinja_nodes_push(p, &body->list, parse_statement(p));
            expect_block_end(p);
        }
    }
    p->depth--;
    return body;
}

void jinja_parse(jinja_parser *p) {
    p->t->body = parse_body(p, 0, NULL);
    if (p->status == TW_OK && (p->t->arena.failed || p->t->names.failed)) p->status = tw_fail_memory(p->diag);
}

/* ---- the template ---- */

/* Turns every newline into \n, and removes one at the end. */
static char *normalized(const char *text, size_t *size) {
    char *out = malloc(*size + 1);
    if (!out) return NULL;
    size_t k = 0;
    for (size_t i = 0; i < *size; i++) {
        if (text[i] == '\r') {
            out[k++] = '\n';
            i += i + 1 < *size && text[i + 1] == '\n';
        } else
            out[k++] = text[i];
    }
    k -= k && out[k - 1] == '\n';
    out[k] = 0;
    *size = k;
    return out;
}

static tw_status check_text(const char *text, size_t size, const char *path, tw_diag *diag) {
    if (size > JINJA_SIZE)
        return tw_fail_at(diag, TW_ERR_UNSUPPORTED, path, -1, "a template of more than %d bytes", JINJA_SIZE);
    size_t bad = tw_utf8_check(text, size);
    return bad == size ? TW_OK : tw_fail_at(diag, TW_ERR_FORMAT, path, (int64_t)bad, "not UTF-8");
}

tw_status jinja_open(jinja_template **out, const char *text, size_t size, const char *path, tw_diag *diag) {
    *out = NULL;
    tw_status s = check_text(text, size, path, diag);
    if (s != TW_OK) return s;
    jinja_template *t = calloc(1, sizeof *t);
    if (!t) return tw_fail_memory(diag);
    t->size = size;
    t->text = normalized(text, &t->size);
    t->path = strdup(path);
    jinja_parser p = {.t = t, .diag = diag};
    if (!t->text || !t->path)
        p.status = tw_fail_memory(diag);
    else
        jinja_lex(&p);
    if (p.status == TW_OK && (t->arena.failed || t->names.failed)) p.status = tw_fail_memory(diag);
    if (p.status == TW_OK) jinja_parse(&p);
    if (p.status == TW_OK) jinja_resolve(&p);
    free(p.tokens);
    if (p.status != TW_OK)
        jinja_close(t);
    else
        *out = t;
    return p.status;
}

void jinja_close(jinja_template *t) {
    if (!t) return;
    tw_arena_free(&t->arena);
    free(t->names.v);
    free(t->names.slots);
    free(t->text);
    free(t->path);
    free(t);
}
