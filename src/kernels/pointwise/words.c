/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "kernels/pointwise/words.h"
#include "kernels/pointwise/map_kernel.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 16 };

/* -- reading */

static tw_status refuse(const char *name, const char *value, const char *why, tw_diag *diag) {
    return tw_fail(diag, TW_ERR_USAGE, "\"%s=%s\": %s", name, value, why);
}

/* Reads a number of 64 bits and what follows it. */
static bool number(const char **at, int64_t *out) {
    char *end = NULL;
    *out = strtoll(*at, &end, 10);
    if (end == *at) return false;
    *at = end;
    return true;
}

static bool extents(tw_points *x, const char *text) {
    x->rank = 0;
    if (!*text) return true;
    for (;;) {
        if (x->rank == TW_POINT_RANK || !number(&text, &x->dims[x->rank++])) return false;
        if (x->dims[x->rank - 1] < 0) return false;
        if (!*text) return true;
        if (*text++ != 'x') return false;
    }
}

static void dense(const tw_points *x, bool vector, bool row, int64_t *strides) {
    int64_t each = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        strides[d] = (row && d == x->rank - 1) || (vector && d < x->rank - 1) ? 0 : each;
        if (!(row && d == x->rank - 1)) each *= x->dims[d];
    }
}

static bool gathers(const char **at, tw_point_operand *o) {
    int64_t by;
    o->gathers = true;
    if (!number(at, &by) || **at != '*') return false;
    ++*at;
    if (!number(at, &o->gather_stride) || **at != '/') return false;
    ++*at;
    o->by = (int)by;
    return number(at, &o->gather_extent);
}

static bool strides_of(const tw_points *x, const char **at, tw_point_operand *o) {
    for (int d = 0; d < x->rank; d++)
        if ((d && *(*at)++ != ',') || !number(at, &o->strides[d])) return false;
    return *(*at)++ == ']';
}

static tw_status operand(const tw_points *x, const char *name, const char *value, bool vector, bool row,
                         tw_point_operand *o, tw_diag *diag) {
    char type[8] = "";
    const size_t n = strcspn(value, "[@:!");
    const char *at = value + n;
    *o = (tw_point_operand){.align = ALIGN};
    if (n < sizeof type) memcpy(type, value, n);
    if (!tw_memory_from_name(type, &o->type)) return refuse(name, value, "there is no such type", diag);
    if (tw_memory_bytes(o->type) > o->align) o->align = tw_memory_bytes(o->type);
    dense(x, vector, row, o->strides);
    if (*at == '[' && (at++, !strides_of(x, &at, o)))
        return refuse(name, value, "a stride a dimension is wanted", diag);
    if (*at == '@' && (at++, !gathers(&at, o))) return refuse(name, value, "\"@K*STRIDE/EXTENT\" is wanted", diag);
    int64_t align = o->align;
    if (*at == ':' && (at++, !number(&at, &align) || align < 1 || align > 256 || align % tw_memory_bytes(o->type)))
        return refuse(name, value, "no such alignment", diag);
    o->align = (int)align;
    o->constant = *at == '!';
    at += o->constant;
    return *at ? refuse(name, value, "something follows the operand", diag) : TW_OK;
}

/* The operand's number in "x0", "x1", ... -1: the word is another. */
static int number_of(const char *name) {
    return name[0] == 'x' && name[1] >= '0' && name[1] < '0' + TW_POINT_OPERANDS && !name[2] ? name[1] - '0' : -1;
}

/* Words of the kind, as they were found. Extents are read first, operands then, the expression last. */
typedef struct found {
    char *names[32], *values[32];
    int n;
} found;

static tw_status split(char *words, found *f, tw_diag *diag) {
    char *save = NULL;
    f->n = 0;
    for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *value = strchr(w, '=');
        if (!value) return tw_fail(diag, TW_ERR_USAGE, "\"%s\": a word is a name, \"=\" and a value", w);
        if (f->n == (int)(sizeof f->names / sizeof *f->names)) return tw_fail(diag, TW_ERR_USAGE, "too many words");
        *value++ = 0;
        f->names[f->n] = w;
        f->values[f->n++] = value;
    }
    return TW_OK;
}

static const char *value_of(const found *f, const char *name) {
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->names[i], name)) return f->values[i];
    return NULL;
}

static tw_status take(const tw_point_words *w, const char *name, const char *value, tw_diag *diag) {
    tw_status st = TW_OK;
    const int i = number_of(name);
    if (!strcmp(name, "dims") || !strcmp(name, "expr")) return TW_OK;
    if (i >= 0) {
        if (i >= w->x->n_operands) w->x->n_operands = i + 1;
        return operand(w->x, name, value, false, false, &w->x->operands[i], diag);
    }
    for (int k = 0; k < w->n; k++) {
        const tw_point_word *o = &w->operands[k];
        if (strcmp(o->name, name) != 0) continue;
        if (o->given) *o->given = true;
        return operand(w->x, name, value, o->vector, o->row, o->o, diag);
    }
    if (!strcmp(name, "early")) {
        *w->early = !strcmp(value, "1");
        return *w->early || !strcmp(value, "0") ? TW_OK : refuse(name, value, "0 or 1 is wanted", diag);
    }
    if (w->other && w->other(w->context, name, value, &st, diag)) return st;
    return tw_fail(diag, TW_ERR_USAGE, "\"%s\": there is no such word", name);
}

static tw_status expression(tw_points *x, const char *text, tw_diag *diag) {
    tw_memory_type types[TW_POINT_OPERANDS];
    for (int i = 0; i < x->n_operands; i++) types[i] = x->operands[i].type;
    return tw_cells_parse(&x->cells, text ? text : "x0", types, x->n_operands, diag);
}

tw_status tw_point_words_parse(const tw_point_words *w, char *words, tw_diag *diag) {
    found f;
    tw_status st = split(words, &f, diag);
    if (st != TW_OK) return st;
    const char *dims = value_of(&f, "dims");
    if (!dims) return tw_fail(diag, TW_ERR_USAGE, "dims is missing");
    if (!extents(w->x, dims))
        return refuse("dims", dims, "extents are wanted, at most 6, with \"x\" between them", diag);
    for (int i = 0; i < f.n && st == TW_OK; i++) st = take(w, f.names[i], f.values[i], diag);
    for (int i = 0; i < w->x->n_operands && st == TW_OK; i++)
        if (!w->x->operands[i].align) st = tw_fail(diag, TW_ERR_USAGE, "x%d is missing", i);
    return st == TW_OK ? expression(w->x, value_of(&f, "expr"), diag) : st;
}

/* -- writing */

typedef struct writer {
    char *out;
    size_t size, n;
} writer;

static void put(writer *w, const char *format, ...) TW_PRINTF(2, 3);
static void put(writer *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(w->n < w->size ? w->out + w->n : NULL, w->n < w->size ? w->size - w->n : 0, format, args);
    va_end(args);
    w->n += n > 0 ? (size_t)n : 0;
}

static void put_operand(writer *w, const tw_points *x, const char *name, const tw_point_operand *o, bool vector,
                        bool row) {
    int64_t usual[TW_POINT_RANK] = {0};
    const int bytes = tw_memory_bytes(o->type), align = o->align ? o->align : bytes;
    dense(x, vector, row, usual);
    put(w, " %s=%s", name, tw_memory_name(o->type));
    if (memcmp(usual, o->strides, sizeof *usual * (size_t)x->rank) != 0)
        for (int d = 0; d < x->rank; d++)
            put(w, "%s%lld%s", d ? "," : "[", (long long)o->strides[d], d == x->rank - 1 ? "]" : "");
    if (o->gathers) put(w, "@%d*%lld/%lld", o->by, (long long)o->gather_stride, (long long)o->gather_extent);
    if (align != (bytes > ALIGN ? bytes : ALIGN)) put(w, ":%d", align);
    if (o->constant) put(w, "!");
}

size_t tw_point_words_print(const tw_point_words *w, char *out, size_t size) {
    static const char *const names[TW_POINT_OPERANDS] = {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"};
    writer to = {out, size, 0};
    char text[TW_CELLS_TEXT];
    put(&to, "dims=");
    for (int d = 0; d < w->x->rank; d++) put(&to, "%s%lld", d ? "x" : "", (long long)w->x->dims[d]);
    for (int i = 0; i < w->x->n_operands; i++) put_operand(&to, w->x, names[i], &w->x->operands[i], false, false);
    tw_cells_print(&w->x->cells, text, sizeof text);
    put(&to, " expr=%s", text);
    for (int i = 0; i < w->n; i++) {
        const tw_point_word *o = &w->operands[i];
        if (!o->given || *o->given) put_operand(&to, w->x, o->name, o->o, o->vector, o->row);
    }
    put(&to, " early=%d", *w->early);
    return to.n;
}

/* -- maps */

tw_status tw_map_parse(tw_map_problem *p, char *words, tw_diag *diag) {
    bool out = false;
    *p = (tw_map_problem){0};
    const tw_point_word operands[] = {{"out", &p->out, &out, false, false}};
    const tw_point_words w = {&p->x, operands, 1, &p->early, NULL, NULL};
    const tw_status st = tw_point_words_parse(&w, words, diag);
    if (st != TW_OK) return st;
    return out ? tw_map_check(p, diag) : tw_fail(diag, TW_ERR_USAGE, "out is missing");
}

void tw_map_print(const tw_map_problem *p, char *out, size_t size) {
    tw_map_problem copy = *p;
    const tw_point_word operands[] = {{"out", &copy.out, NULL, false, false}};
    tw_point_words_print(&(tw_point_words){&copy.x, operands, 1, &copy.early, NULL, NULL}, out, size);
}
