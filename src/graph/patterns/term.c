/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/patterns/term.h"

#include "graph/ops/op.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *text, *p;
    tw_term_names *names;
    tw_arena *arena;
    const char *why; /* NULL: nothing is wrong so far. */
} reader;

static void wrong(reader *r, const char *why) {
    if (!r->why) r->why = why;
}

static void spaces(reader *r) {
    while (isspace((unsigned char)*r->p)) r->p++;
}

static bool take(reader *r, const char *sign) {
    spaces(r);
    const size_t n = strlen(sign);
    if (strncmp(r->p, sign, n) != 0) return false;
    r->p += n;
    return true;
}

static void want(reader *r, const char *sign) {
    if (!take(r, sign)) wrong(r, sign);
}

static bool is_word(const reader *r) {
    return isalpha((unsigned char)*r->p) || (*r->p == '_' && isalnum((unsigned char)r->p[1]));
}

static const char *word(reader *r) {
    spaces(r);
    const char *from = r->p;
    if (!is_word(r)) wrong(r, "a word");
    while (isalnum((unsigned char)*r->p) || *r->p == '_') r->p++;
    const char *w = tw_arena_strndup(r->arena, from, (size_t)(r->p - from));
    return w ? w : "";
}

static double number(reader *r) {
    char *end;
    spaces(r);
    const double x = strtod(r->p, &end);
    if (end == r->p) wrong(r, "a number");
    r->p = end;
    return x;
}

static bool is_number(reader *r) {
    spaces(r);
    return isdigit((unsigned char)*r->p) || (*r->p == '-' && isdigit((unsigned char)r->p[1]));
}

static int slot_of(reader *r, const char *name) {
    tw_term_names *s = r->names;
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->names[i], name)) return i;
    if (s->n == TW_TERM_SLOTS) {
        wrong(r, "fewer names");
        return 0;
    }
    s->names[s->n] = name;
    return s->n++;
}

static tw_term *expression(reader *r);

/* ---- attributes: name=value */

static tw_factor factor(reader *r, bool divides) {
    tw_factor f = {.divides = divides, .slot = -1, .extent = -1};
    if (is_number(r)) {
        f.number = number(r);
        return f;
    }
    f.slot = slot_of(r, word(r));
    if (*r->p != '.') return f;
    r->p++;
    if (isdigit((unsigned char)*r->p))
        f.extent = (int)number(r);
    else
        f.attribute = word(r);
    if (*r->p != '~') return f;
    r->p++;
    f.number = number(r);
    return f;
}

static void formula(reader *r, tw_setting *s) {
    bool divides = false, more = true;
    while (more && !r->why) {
        if (s->n_factors == (int)(sizeof s->factors / sizeof *s->factors)) {
            wrong(r, "fewer factors");
            return;
        }
        s->factors[s->n_factors++] = factor(r, divides);
        divides = *r->p == '/';
        more = *r->p == '*' || divides;
        r->p += more;
    }
}

static void list(reader *r, tw_setting *s) {
    s->n_list = 0;
    do {
        if (s->n_list == TW_ARRAY_RANK) {
            wrong(r, "a shorter list");
            return;
        }
        s->list[s->n_list++] = (int64_t)number(r);
    } while (take(r, ","));
    want(r, "]");
}

static void setting(reader *r, tw_term *t, bool operands) {
    if (!t->settings) t->settings = tw_arena_array(r->arena, TW_TERM_SETTINGS, sizeof *t->settings);
    if (!t->settings || t->n_settings == TW_TERM_SETTINGS) {
        wrong(r, "fewer attributes");
        return;
    }
    tw_setting *s = &t->settings[t->n_settings++];
    *s = (tw_setting){.when = -1, .operand = -1, .n_list = -1};
    if (operands && is_number(r)) {
        s->operand = (int)number(r);
        want(r, "=");
        s->term = expression(r);
        return;
    }
    s->name = word(r);
    if (take(r, "?")) {
        s->when = slot_of(r, s->name);
        s->name = word(r);
    }
    s->times = take(r, "*=");
    if (!s->times) want(r, "=");
    if (take(r, "\"")) {
        const char *from = r->p;
        while (*r->p && *r->p != '"') r->p++;
        s->text = tw_arena_strndup(r->arena, from, (size_t)(r->p - from));
        want(r, "\"");
    } else if (take(r, "[")) {
        list(r, s);
    } else {
        formula(r, s);
    }
}

/* ---- terms */

static void checks(reader *r, tw_term *t) {
    while (*r->p == ':') {
        r->p++;
        tw_check *c = tw_check_find(word(r));
        if (!c || t->n_checks == TW_TERM_CHECKS)
            wrong(r, "a check");
        else
            t->checks[t->n_checks++] = c;
    }
}

static void arguments(reader *r, tw_term *t, const char *between, const char *end) {
    if (take(r, end)) return;
    do {
        if (t->n_args == TW_TERM_ARGS) {
            wrong(r, "fewer operands");
            return;
        }
        t->args[t->n_args++] = expression(r);
    } while (!r->why && take(r, between));
    want(r, end);
}

/* Reads what follows a name: the node's operands and attributes, a copy's changes, or nothing. */
static void named(reader *r, tw_term *t, const char *name) {
    t->optional = *r->p == '?';
    r->p += t->optional;
    checks(r, t);
    if (*r->p == '(') {
        r->p++;
        t->kind = islower((unsigned char)*name) ? TW_TERM_FUNCTION : TW_TERM_NODE;
        t->op = name;
        if (!*t->domain && !tw_op_find("", name, 1000) && tw_op_find("tilewright", name, 1)) t->domain = "tilewright";
        arguments(r, t, ",", ")");
        while (!r->why && *r->p == ' ' && (spaces(r), is_word(r))) setting(r, t, false);
    } else if (*r->p == '[') {
        r->p++;
        t->kind = TW_TERM_COPY;
        t->slot = slot_of(r, name);
        do setting(r, t, true);
        while (!r->why && take(r, ","));
        want(r, "]");
    } else {
        t->kind = TW_TERM_VALUE;
        t->slot = slot_of(r, name);
    }
}

static tw_term *expression(reader *r) {
    tw_term *t = tw_arena_alloc(r->arena, sizeof *t);
    if (!t) {
        wrong(r, "memory");
        return NULL;
    }
    *t = (tw_term){.slot = -1, .domain = "", .result = -1};
    t->shared = take(r, "&");
    if (take(r, "...")) {
        t->kind = TW_TERM_REST;
    } else if (take(r, "{")) {
        t->kind = TW_TERM_EITHER;
        arguments(r, t, "|", "}");
    } else if (take(r, "*")) {
        t->domain = "com.microsoft";
        named(r, t, word(r));
    } else if (is_number(r)) {
        t->kind = TW_TERM_NUMBER;
        t->number = number(r);
    } else if (*r->p == '_' && !is_word(r)) {
        r->p++;
        t->kind = TW_TERM_ANY;
        checks(r, t);
    } else {
        const char *name = word(r);
        if (*r->p == '=') {
            r->p++;
            tw_term *of = expression(r);
            if (of) of->slot = slot_of(r, name);
            if (of) of->shared |= t->shared;
            return of;
        }
        named(r, t, name);
    }
    return t;
}

tw_status tw_term_read(tw_term **out, const char *text, tw_term_names *names, tw_arena *arena, tw_diag *diag) {
    reader r = {.text = text, .p = text, .names = names, .arena = arena};
    tw_term **at = out;
    do {
        *at = expression(&r);
        if (*at && take(&r, "@@"))
            (*at)->all = true;
        else if (*at && take(&r, "@"))
            (*at)->result = (int)number(&r);
        if (*at) at = &(*at)->next;
    } while (!r.why && take(&r, ";"));
    spaces(&r);
    if (!r.why && *r.p) wrong(&r, "the end");
    if (arena->failed) return tw_fail_memory(diag);
    return r.why ? tw_fail(diag, TW_ERR_FORMAT, "pattern \"%s\": %s is missing before \"%.20s\"", text, r.why, r.p)
                 : TW_OK;
}
