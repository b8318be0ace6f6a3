/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions as text. */
#include "kernels/pointwise/expression.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- reading */

enum { NAME = 24 };

typedef struct reader {
    tw_cells *to;
    const char *all, *at;
    const tw_memory_type *types;
    int n_types, depth;
    double literal;      /* The number that was read last, before it was rounded to f32. */
    int named[TW_CELLS]; /* Cell of each name c0, c1, ... */
    int n_named;
    tw_diag *diag;
} reader;

static int refuse(reader *r, const char *what) {
    if (r->diag->status == TW_OK)
        tw_fail(r->diag, TW_ERR_USAGE, "\"%s\": %s at \"%.24s\"", r->all, what, *r->at ? r->at : "the end");
    r->to->failed = true;
    return -1;
}

static bool next(reader *r, char c) {
    while (isspace((unsigned char)*r->at)) r->at++;
    if (*r->at != c) return false;
    r->at++;
    return true;
}

static void word(reader *r, char name[NAME]) {
    int n = 0;
    while (isspace((unsigned char)*r->at)) r->at++;
    while (n < NAME - 1 && (isalnum((unsigned char)*r->at) || *r->at == '_')) name[n++] = *r->at++;
    name[n] = 0;
}

/* The number in a name of one letter and digits. -1: the name is no such. */
static int number_of(const char *name, char letter) {
    char *end = NULL;
    if (name[0] != letter || !isdigit((unsigned char)name[1])) return -1;
    const long n = strtol(name + 1, &end, 10);
    return *end || n > UINT8_MAX ? -1 : (int)n;
}

static double number_in(const tw_cell *c) {
    return tw_class_is_real((tw_class)c->class) ? c->value.real : (double)c->value.whole;
}

static int number(reader *r) {
    char *end = NULL, *whole_end = NULL;
    const double x = strtod(r->at, &end);
    const long long whole = strtoll(r->at, &whole_end, 10);
    if (end == r->at) return refuse(r, "an operand, a number or an operation is missing");
    r->at = end;
    r->literal = x;
    if (next(r, 'd')) return tw_cells_double(r->to, x);
    return end == whole_end ? tw_cells_integer(r->to, whole) : tw_cells_real(r->to, x);
}

static int value(reader *r);

/* Gives the numbers among an operation's operands the class of the other operands. Beside a double each number is a
   double. An integer beside a real, or where the operation wants a real, is a real. literal[] has the numbers as they
   were read. */
static void make_alike(reader *r, const char *classes, const double *literal, int *of, int n) {
    tw_class best = TW_CLASS_integer;
    for (int i = 0; i < n; i++) {
        const tw_class class = (tw_class)r->to->of[of[i]].class;
        if (!strchr("rnv", classes[i + 1])) continue;
        if (class == TW_CLASS_double || (class == TW_CLASS_real && best == TW_CLASS_integer)) best = class;
    }
    for (int i = 0; i < n; i++) {
        const tw_cell *c = &r->to->of[of[i]];
        const char w = classes[i + 1];
        const tw_class wanted = w == 'r' && best == TW_CLASS_integer ? TW_CLASS_real : best;
        if (c->op != TW_CELL_number || c->class == TW_CLASS_truth || (tw_class)c->class == wanted) continue;
        if (strchr("rnv", w) && tw_class_is_real(wanted)) of[i] = tw_cells_number(r->to, wanted, literal[i]);
    }
}

static int call(reader *r, tw_cell_op op) {
    const char *classes = tw_cell_classes(op);
    const int n = (int)strlen(classes) - 1;
    int of[3] = {0};
    double literal[3] = {0};
    if (!next(r, '(')) return refuse(r, "\"(\" is missing");
    for (int i = 0; i < n; i++) {
        if (i && !next(r, ',')) return refuse(r, "another operand is missing");
        of[i] = value(r);
        if (of[i] < 0) return -1;
        literal[i] = r->literal;
    }
    if (!next(r, ')')) return refuse(r, "\")\" is missing");
    make_alike(r, classes, literal, of, n);
    const int cell = tw_cells_apply(r->to, op, of[0], of[1], of[2]);
    return cell >= 0 ? cell
                     : refuse(r, r->to->n == TW_CELLS ? "the expression is too long"
                                                      : "the operands of what ends here have the wrong classes,");
}

static int value(reader *r) {
    char name[NAME];
    tw_cell_op op;
    if (++r->depth > TW_CELLS) return refuse(r, "the expression is too deep");
    while (isspace((unsigned char)*r->at)) r->at++;
    const char *from = r->at;
    int cell;
    word(r, name);
    if (number_of(name, 'x') >= 0) {
        const int i = number_of(name, 'x');
        cell = i < r->n_types ? tw_cells_operand(r->to, i, r->types[i]) : refuse(r, "there is no such operand");
    } else if (number_of(name, 'd') >= 0) {
        cell = tw_cells_index(r->to, number_of(name, 'd'));
    } else if (number_of(name, 'c') >= 0) {
        const int i = number_of(name, 'c');
        cell = i < r->n_named ? (r->to->value = r->named[i]) : refuse(r, "there is no such name");
        if (cell >= 0) r->literal = number_in(&r->to->of[cell]);
    } else if (!strcmp(name, "true") || !strcmp(name, "false")) {
        cell = tw_cells_truth(r->to, name[0] == 't');
    } else if (tw_cell_from_name(name, &op)) {
        cell = call(r, op);
        if (cell >= 0) r->literal = number_in(&r->to->of[cell]);
    } else {
        r->at = from;
        cell = number(r);
    }
    r->depth--;
    return cell >= 0 || r->to->failed == false ? cell : refuse(r, "the expression is too long");
}

tw_status tw_cells_parse(tw_cells *e, const char *text, const tw_memory_type *types, int n, tw_diag *diag) {
    tw_diag own;
    if (!diag) diag = &own;
    reader r = {.to = e, .all = text, .at = text, .types = types, .n_types = n, .diag = diag};
    tw_diag_clear(diag);
    *e = (tw_cells){0};
    for (;;) {
        const char *from = r.at;
        char name[NAME];
        word(&r, name);
        const bool names = number_of(name, 'c') == r.n_named && r.n_named < TW_CELLS && next(&r, '=');
        if (!names) r.at = from;
        const int cell = value(&r);
        if (cell < 0) return diag->status;
        if (!names) break;
        r.named[r.n_named++] = cell;
        if (!next(&r, ';')) return refuse(&r, "\";\" is missing"), diag->status;
    }
    next(&r, ' ');
    if (*r.at) return refuse(&r, "the expression has ended"), diag->status;
    return TW_OK;
}

/* -- writing */

typedef struct writer {
    const tw_cells *from;
    char *out;
    size_t size, n;
    int name[TW_CELLS]; /* 1 + the number of its name. 0: it has none yet. */
} writer;

static void put(writer *w, const char *text) {
    const size_t n = strlen(text);
    if (w->n + n < w->size) memcpy(w->out + w->n, text, n + 1);
    w->n += n;
}

static void put_number(writer *w, const tw_cell *c) {
    char text[40];
    if (c->class == TW_CLASS_truth)
        snprintf(text, sizeof text, "%s", c->value.whole ? "true" : "false");
    else if (c->class == TW_CLASS_integer)
        snprintf(text, sizeof text, "%lld", (long long)c->value.whole);
    else if (c->class == TW_CLASS_double)
        snprintf(text, sizeof text, "%.17gd", c->value.real);
    else {
        snprintf(text, sizeof text, "%.9g", c->value.real);
        if (isfinite(c->value.real) && !strpbrk(text, ".e")) strcat(text, ".0");
    }
    put(w, text);
}

static int operands_of(const tw_cell *c) {
    return c->op <= TW_CELL_number ? 0 : (int)strlen(tw_cell_classes((tw_cell_op)c->op)) - 1;
}

static void put_cell(writer *w, int i, bool whole) {
    const tw_cell *c = &w->from->of[i];
    char text[16];
    if (c->op == TW_CELL_number) {
        put_number(w, c);
    } else if (c->op <= TW_CELL_index) {
        snprintf(text, sizeof text, "%c%d", c->op == TW_CELL_operand ? 'x' : 'd', c->of[0]);
        put(w, text);
    } else if (!whole && w->name[i]) {
        snprintf(text, sizeof text, "c%d", w->name[i] - 1);
        put(w, text);
    } else {
        put(w, tw_cell_name((tw_cell_op)c->op));
        for (int k = 0; k < operands_of(c); k++) {
            put(w, k ? "," : "(");
            put_cell(w, c->of[k], false);
        }
        put(w, ")");
    }
}

size_t tw_cells_print(const tw_cells *e, char *out, size_t size) {
    writer w = {.from = e, .out = out, .size = size};
    int uses[TW_CELLS] = {0}, names = 0;
    if (size) out[0] = 0;
    uses[e->value] = 1;
    for (int i = e->value; i >= 0; i--)
        for (int k = 0; uses[i] && k < operands_of(&e->of[i]); k++) uses[e->of[i].of[k]]++;
    for (int i = 0; i < e->value; i++) {
        if (uses[i] < 2 || !operands_of(&e->of[i])) continue;
        char text[16];
        snprintf(text, sizeof text, "c%d=", names);
        put(&w, text);
        put_cell(&w, i, true);
        put(&w, ";");
        w.name[i] = ++names;
    }
    put_cell(&w, e->value, true);
    return w.n;
}
