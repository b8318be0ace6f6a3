/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "base/grow.h"
#include "base/random.h"
#include "graph/names.h"
#include "graph/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 64 << 20 /* Bytes of a text. */, MOST_RANDOM = 1 << 26 /* Elements that are drawn. */ };

typedef enum token_kind { END, NEWLINE, WORD, STRING, PUNCTUATION, WRONG } token_kind;

typedef struct token {
    token_kind kind;
    const char *at;
    size_t n;
    int line, column;
} token;

typedef struct parser {
    const char *path, *end, *at, *line_start;
    int line;
    token now;
    tw_graph *g;
    tw_names names;
    int set;          /* The version of nodes that show none. */
    int *list;        /* Numbers of values that are being read. */
    int n_list, room; /* Of `list`. */
    tw_diag *diag;
    tw_status status; /* The first failure, after which all tokens are END. */
} parser;

bool tw_graph_is_bare(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("_./-+*~", c));
}

/* ---- failing */

static bool fail(parser *p, const token *t, const char *why) {
    const int shown = t->n < 40 ? (int)t->n : 40;
    if (p->status != TW_OK) return false;
    if (t->kind == NEWLINE || t->kind == END)
        p->status = tw_fail_line(p->diag, TW_ERR_FORMAT, p->path, t->line, t->column, "%s, not the end", why);
    else
        p->status =
            tw_fail_line(p->diag, TW_ERR_FORMAT, p->path, t->line, t->column, "%s, not '%.*s'", why, shown, t->at);
    p->now.kind = END;
    return false;
}

static bool fail_memory(parser *p) {
    if (p->status == TW_OK) p->status = tw_fail_memory(p->diag);
    p->now.kind = END;
    return false;
}

/* ---- tokens */

static token_kind scan(parser *p) {
    const char c = *p->at++;
    if (c == '\n') return NEWLINE;
    if (tw_graph_is_bare(c)) {
        while (p->at < p->end && tw_graph_is_bare(*p->at)) p->at++;
        return WORD;
    }
    if (c != '"') return c && strchr("%{}()[],:=@?", c) ? PUNCTUATION : WRONG;
    while (p->at < p->end && *p->at != '"' && *p->at != '\n') p->at += *p->at == '\\' && p->end - p->at > 1 ? 2 : 1;
    if (p->at >= p->end || *p->at != '"') return WRONG;
    p->at++;
    return STRING;
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
}

static bool is(const parser *p, const char *s) {
    return (p->now.kind == WORD || p->now.kind == PUNCTUATION) && p->now.n == strlen(s) &&
           !memcmp(p->now.at, s, p->now.n);
}

static bool accept(parser *p, const char *s) {
    if (!is(p, s)) return false;
    next(p);
    return true;
}

static bool expect(parser *p, const char *s) {
    char why[40];
    if (accept(p, s)) return true;
    snprintf(why, sizeof why, "expected '%s'", s);
    return fail(p, &p->now, why);
}

static bool end_line(parser *p) {
    if (p->now.kind != NEWLINE && p->now.kind != END) return fail(p, &p->now, "expected the end of the line");
    next(p);
    return p->status == TW_OK;
}

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads a word, or a text in quotes. NULL: there is none. */
static const char *text(parser *p) {
    const token t = p->now;
    if (t.kind != WORD && t.kind != STRING) {
        fail(p, &t, "expected a name");
        return NULL;
    }
    char *out = tw_arena_alloc(&p->g->arena, t.n + 1), *to = out;
    if (!out) {
        fail_memory(p);
        return NULL;
    }
    next(p);
    if (t.kind == WORD) return memcpy(out, t.at, t.n);
    for (const char *c = t.at + 1; c < t.at + t.n - 1; c++) {
        if (*c != '\\') {
            *to++ = *c;
            continue;
        }
        const int high = digit_of(c[1]), low = high >= 0 && c + 2 < t.at + t.n - 1 ? digit_of(c[2]) : -1;
        *to++ = low >= 0 ? (char)(16 * high + low) : c[1];
        c += low >= 0 ? 2 : 1;
    }
    return out;
}

/* Copies the word of a number, whose end strtod finds. */
static bool number_word(parser *p, char out[64]) {
    if (p->now.kind != WORD || p->now.n >= 64) return fail(p, &p->now, "expected a number");
    memcpy(out, p->now.at, p->now.n);
    out[p->now.n] = 0;
    return true;
}

static bool integer(parser *p, int64_t *out) {
    char word[64], *end;
    *out = 0;
    if (!number_word(p, word)) return false;
    errno = 0;
    *out = *word == '-' ? strtoll(word, &end, 10) : (int64_t)strtoull(word, &end, 10);
    if (*end || errno) return fail(p, &p->now, "expected an integer");
    next(p);
    return true;
}

static bool real(parser *p, double *out) {
    char word[64], *end;
    *out = 0;
    if (!number_word(p, word)) return false;
    *out = strtod(word, &end);
    if (*end) return fail(p, &p->now, "expected a number");
    next(p);
    return true;
}

/* ---- types and contents */

static bool is_whole(const token *t) {
    bool whole = t->kind == WORD;
    for (size_t i = 0; i < t->n && whole; i++) whole = t->at[i] >= '0' && t->at[i] <= '9';
    return whole;
}

static bool dims(parser *p, int *rank, tw_dim *out) {
    *rank = 0;
    if (!expect(p, "[")) return false;
    while (!is(p, "]")) {
        if (*rank && !expect(p, ",")) return false;
        if (*rank == TW_ARRAY_RANK) return fail(p, &p->now, "expected no more dimensions");
        tw_dim *d = &out[(*rank)++];
        *d = TW_DIM_UNKNOWN;
        if (accept(p, "?")) continue;
        if (is_whole(&p->now)) {
            if (!integer(p, d)) return false;
            if (*d < 0) return fail(p, &p->now, "expected an extent");
            continue;
        }
        const char *name = text(p);
        const int symbol = name ? tw_graph_symbol(p->g, name) : -1;
        if (symbol < 0) return fail_memory(p);
        *d = tw_dim_of_symbol(symbol);
    }
    return expect(p, "]");
}

static bool element(parser *p, tw_element *out) {
    char name[64];
    *out = TW_E_none;
    if (accept(p, "?")) return true;
    if (!number_word(p, name) || !tw_element_from_name(name, out)) return fail(p, &p->now, "expected a type");
    next(p);
    return true;
}

/* Reads ": f32[batch, 2]", if it is there. */
static bool type(parser *p, tw_value *v) {
    if (!accept(p, ":")) return true;
    if (!element(p, &v->type)) return false;
    return !is(p, "[") || dims(p, &v->rank, v->dims);
}

static bool draw(parser *p, const tw_array *a, void *data, int64_t n) {
    int64_t seed;
    if (!integer(p, &seed)) return false;
    tw_random r = tw_random_seed((uint64_t)seed);
    for (int64_t i = 0; i < n; i++) {
        const double x = 2 * tw_random_unit(&r) - 1;
        const int64_t whole = (int64_t)tw_random_below(&r, 2);
        if (tw_element_kind(a->type) == TW_KIND_real)
            tw_array_set_reals(a->type, data, i, 1, &x);
        else
            tw_array_set_integers(a->type, data, i, 1, &whole);
    }
    return true;
}

/* Reads the elements of an array: "{1, 2}", or "random 7", which is drawn from a seed. */
static bool content(parser *p, tw_array *a) {
    const token t = p->now;
    const bool random = is(p, "random");
    const int64_t n = tw_array_elements(a), bytes = tw_array_bytes(a);
    if (tw_element_kind(a->type) == TW_KIND_other) return fail(p, &t, "expected a type that is computed with");
    /* Each element takes at least two characters of the text. */
    if (n < 0 || n > (random ? MOST_RANDOM : p->end - p->at)) return fail(p, &t, "expected as many elements");
    void *data = tw_arena_alloc(&p->g->arena, (size_t)bytes + 1);
    if (!data) return fail_memory(p);
    a->data = data;
    if (accept(p, "random")) return draw(p, a, data, n);
    if (!expect(p, "{")) return false;
    for (int64_t i = 0; i < n; i++) {
        double x;
        int64_t whole;
        if (i && !expect(p, ",")) return false;
        if (tw_element_kind(a->type) == TW_KIND_real) {
            if (!real(p, &x)) return false;
            tw_array_set_reals(a->type, data, i, 1, &x);
        } else {
            if (!integer(p, &whole)) return false;
            tw_array_set_integers(a->type, data, i, 1, &whole);
        }
    }
    return expect(p, "}");
}

/* ---- values */

/* Reads a value that is made here. It is not known by its name yet. */
static int new_value(parser *p) {
    const char *name = expect(p, "%") ? text(p) : NULL;
    const int value = name ? tw_graph_add_value(p->g, name) : -1;
    if (name && value < 0) fail_memory(p);
    if (value >= 0) type(p, &p->g->values[value]);
    return value;
}

/* Makes a value known. `t` is where it is made. */
static bool make_known(parser *p, const token *t, int value) {
    if (value < 0 || p->status != TW_OK) return p->status == TW_OK;
    const char *name = p->g->values[value].name;
    if (tw_names_find(&p->names, name) >= 0) return fail(p, t, "expected a name that is new");
    return tw_names_add(&p->names, name, value) || fail_memory(p);
}

static int known_value(parser *p) {
    const token t = p->now;
    if (!expect(p, "%")) return -1;
    const char *name = text(p);
    const int value = name ? tw_names_find(&p->names, name) : -1;
    if (name && value < 0) fail(p, &t, "expected a value that is known here");
    return value;
}

static bool remember(parser *p, int value) {
    int *grown = tw_grow(p->list, p->n_list, &p->room, 16, sizeof *p->list);
    if (!grown) return fail_memory(p);
    p->list = grown;
    p->list[p->n_list++] = value;
    return true;
}

static int *take_list(parser *p, int *n) {
    int *list = tw_arena_array(&p->g->arena, (size_t)p->n_list + 1, sizeof *list);
    *n = p->n_list;
    if (!list) fail_memory(p);
    if (list && p->n_list) memcpy(list, p->list, (size_t)p->n_list * sizeof *list);
    p->n_list = 0;
    return list;
}

/* ---- nodes */

static bool list_of_integers(parser *p, tw_array *a) {
    const char *c = p->at;
    *a = (tw_array){.type = TW_E_i64, .rank = 1};
    while (c < p->end && *c == ' ') c++;
    a->dims[0] = c < p->end && *c != '}';
    for (; c < p->end && *c != '}'; c++) a->dims[0] += *c == ',';
    return content(p, a);
}

static bool texts(parser *p, tw_attribute *a) {
    int room = 0;
    const char **list = NULL;
    a->kind = TW_ATTRIBUTE_TEXTS;
    bool good = expect(p, "(");
    while (good && !is(p, ")")) {
        if (a->n_texts) good = expect(p, ",");
        const char *s = good ? text(p) : NULL;
        const char **grown = s ? tw_grow(list, a->n_texts, &room, 4, sizeof *list) : NULL;
        good = s && (grown || fail_memory(p));
        if (!good) break;
        list = grown;
        list[a->n_texts++] = s;
    }
    a->texts = tw_arena_array(&p->g->arena, (size_t)a->n_texts + 1, sizeof *list);
    if (a->texts && a->n_texts) memcpy(a->texts, list, (size_t)a->n_texts * sizeof *list);
    free(list);
    return good && (a->texts || fail_memory(p)) && expect(p, ")");
}

static bool array(parser *p, tw_attribute *a) {
    tw_array *x = tw_arena_alloc(&p->g->arena, sizeof *x);
    a->kind = TW_ATTRIBUTE_ARRAY;
    a->array = x;
    if (!x) return fail_memory(p);
    if (is(p, "{")) return list_of_integers(p, x);
    return element(p, &x->type) && dims(p, &x->rank, x->dims) && content(p, x);
}

static bool attribute_value(parser *p, tw_attribute *a) {
    tw_element unused;
    char word[64];
    if (is(p, "(")) return texts(p, a);
    if (is(p, "{")) return array(p, a);
    if (p->now.kind == STRING) {
        a->kind = TW_ATTRIBUTE_TEXT;
        return (a->text = text(p)) != NULL;
    }
    if (!number_word(p, word)) return false;
    if (tw_element_from_name(word, &unused)) return array(p, a);
    a->kind = word[strcspn(word, ".enf")] ? TW_ATTRIBUTE_REAL : TW_ATTRIBUTE_INT;
    return a->kind == TW_ATTRIBUTE_REAL ? real(p, &a->real) : integer(p, &a->integer);
}

/* Reads what follows the operands: attributes, and the node's name. */
static bool attributes(parser *p, tw_node *n) {
    tw_attribute *list = NULL;
    int room = 0;
    bool good = true;
    while (good && p->now.kind == WORD) {
        tw_attribute a = {.name = text(p)};
        good = a.name && expect(p, "=") && attribute_value(p, &a);
        tw_attribute *grown = good ? tw_grow(list, n->n_attributes, &room, 8, sizeof *list) : NULL;
        if (!good || !grown) break;
        list = grown;
        list[n->n_attributes++] = a;
    }
    n->attributes = tw_arena_array(&p->g->arena, (size_t)n->n_attributes + 1, sizeof *list);
    if (n->attributes && list) memcpy(n->attributes, list, (size_t)n->n_attributes * sizeof *list);
    free(list);
    if (!n->attributes) return fail_memory(p);
    if (good && p->now.kind == STRING) good = (n->name = text(p)) != NULL;
    return good;
}

static bool operator(parser *p, tw_node *n) {
    int64_t version;
    const char *name = text(p);
    n->version = p->set;
    if (name && accept(p, ":")) {
        n->domain = name;
        n->version = 1;
        name = expect(p, ":") ? text(p) : NULL;
    }
    n->op = name;
    if (!name) return false;
    if (!accept(p, "@")) return true;
    const token t = p->now;
    if (!integer(p, &version)) return false;
    if (version < 0 || version > 1000) return fail(p, &t, "expected a version");
    n->version = (int)version;
    return true;
}

static bool operands(parser *p) {
    if (!expect(p, "(")) return false;
    while (!is(p, ")")) {
        if (p->n_list && !expect(p, ",")) return false;
        const int value = accept(p, "_") ? -1 : known_value(p);
        if (p->status != TW_OK || !remember(p, value)) return false;
    }
    return expect(p, ")");
}

static bool results(parser *p) {
    do {
        const int value = accept(p, "_") ? -1 : new_value(p);
        if (p->status != TW_OK || !remember(p, value)) return false;
        if (value >= 0) p->g->values[value].producer = p->g->n_nodes;
    } while (accept(p, ","));
    return expect(p, "=");
}

static bool node(parser *p) {
    const token t = p->now;
    tw_node n = {.domain = "", .name = ""};
    if (!results(p) || !(n.out = take_list(p, &n.n_out))) return false;
    if (!operator(p, &n) || !operands(p) || !(n.in = take_list(p, &n.n_in)) || !attributes(p, &n)) return false;
    /* A node does not know its own results. */
    for (int i = 0; i < n.n_out; i++)
        if (!make_known(p, &t, n.out[i])) return false;
    return tw_graph_add_node(p->g, &n) >= 0 || fail_memory(p);
}

/* ---- the graph */

static bool input(parser *p) {
    const token t = p->now;
    const int value = new_value(p);
    return make_known(p, &t, value) && remember(p, value);
}

static bool constant(parser *p) {
    const token t = p->now;
    const int value = new_value(p);
    if (!make_known(p, &t, value)) return false;
    const tw_value *v = &p->g->values[value];
    if (v->rank < 0) return fail(p, &p->now, "expected a type with extents");
    tw_array a = {.type = v->type, .rank = v->rank};
    memcpy(a.dims, v->dims, sizeof a.dims);
    if (!content(p, &a)) return false;
    tw_graph_set_content(p->g, value, &a);
    return !p->g->arena.failed || fail_memory(p);
}

static bool head(parser *p) {
    int64_t set;
    while (p->now.kind == NEWLINE) next(p);
    if (!expect(p, "graph") || !(p->g->name = text(p))) return false;
    if (accept(p, "@")) {
        const token t = p->now;
        if (!integer(p, &set)) return false;
        if (set < 0 || set > 1000) return fail(p, &t, "expected a version");
        p->set = (int)set;
    }
    return end_line(p);
}

/* Reads lines that begin with a word, as long as there are any. Blank lines are skipped. */
static bool lines(parser *p, const char *word, bool (*line)(parser *p)) {
    for (;;) {
        while (p->now.kind == NEWLINE) next(p);
        if (*word ? !accept(p, word) : !is(p, "%") && !is(p, "_")) return p->status == TW_OK;
        if (!line(p) || !end_line(p)) return false;
    }
}

static bool output(parser *p) {
    const int value = known_value(p);
    return p->status == TW_OK && remember(p, value);
}

static bool graph(parser *p) {
    if (!head(p) || !lines(p, "input", input)) return false;
    if (!(p->g->inputs = take_list(p, &p->g->n_inputs))) return false;
    if (!lines(p, "constant", constant) || !lines(p, "", node) || !lines(p, "output", output)) return false;
    if (!(p->g->outputs = take_list(p, &p->g->n_outputs))) return false;
    return p->now.kind == END || fail(p, &p->now, "expected an output, or the end of the text");
}

tw_status tw_graph_parse(tw_graph **out, const char *text, size_t size, const char *path, tw_diag *diag) {
    parser p = {.path = path, .end = text + size, .at = text, .line_start = text, .line = 1, .set = TW_GRAPH_SET};
    p.diag = diag;
    *out = NULL;
    if (size > LONGEST) return tw_fail_at(diag, TW_ERR_UNSUPPORTED, path, -1, "the text is longer than 64 MB");
    p.g = tw_graph_new();
    if (!p.g) return tw_fail_memory(diag);
    next(&p);
    if (!graph(&p) && p.status == TW_OK) fail_memory(&p);
    tw_names_free(&p.names);
    free(p.list);
    if (p.status == TW_OK)
        *out = p.g;
    else
        tw_graph_free(p.g);
    return p.status;
}
