/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a kernel's text: references by number or name, constants, parameters, operands. */
#include "ir/parse_parts.h"

#include <stdlib.h>
#include <string.h>

/* -- names of values */

static size_t hash(const char *s, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
    return (size_t)(h ^ h >> 29);
}

static tw_ir_entry *find(const tw_ir_parser *p, const char *key, size_t n) {
    for (size_t i = hash(key, n);; i++) {
        tw_ir_entry *e = &p->table[i & (p->room - 1)];
        if (!e->id || (e->n == n && !memcmp(e->key, key, n))) return e;
    }
}

static bool grow(tw_ir_parser *p) {
    tw_ir_entry *old = p->table;
    size_t room = p->room;
    p->room = room ? 2 * room : 256;
    p->table = calloc(p->room, sizeof *p->table);
    if (!p->table) {
        p->table = old;
        p->room = room;
        tw_ir_fail_memory(p);
        return false;
    }
    for (size_t i = 0; i < room; i++)
        if (old[i].id) *find(p, old[i].key, old[i].n) = old[i];
    free(old);
    return true;
}

bool tw_ir_take_reference(tw_ir_parser *p, tw_ir_reference *r) {
    const tw_ir_token t = p->now;
    *r = (tw_ir_reference){.t = t, .variable = *t.at == '$', .key = t.at + 1, .n = t.n - 1};
    const char *dot = memchr(r->key, '.', r->n);
    if (r->n && tw_ir_is_digit(*r->key)) {
        if (dot) r->n = (size_t)(dot - r->key);
        for (size_t i = 0; i < r->n; i++)
            if (!tw_ir_is_digit(r->key[i])) r->n = 0;
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
    if (!r->n) TW_IR_FAIL(p, t, "'%.*s' is no value: %%3, %%3.name or %%name, with $ for a variable", TW_IR_SHOWN(t));
    tw_ir_next_token(p);
    return p->status == TW_OK;
}

tw_val tw_ir_find_value(tw_ir_parser *p, const tw_ir_reference *r) {
    tw_ir_entry *e = p->room ? find(p, r->key, r->n) : NULL;
    if (!e || !e->id) return TW_NONE;
    bool variable = p->k->values[e->id].kind == TW_V_VARIABLE;
    if (variable != r->variable)
        TW_IR_FAIL(p, r->t, "'%.*s' is a %s, written with %c", TW_IR_SHOWN(r->t), variable ? "variable" : "register",
                   variable ? '$' : '%');
    return (tw_val){e->id};
}

void tw_ir_define_value(tw_ir_parser *p, const tw_ir_reference *r, tw_val v) {
    if (2 * p->entries >= p->room && !grow(p)) return;
    tw_ir_entry *e = find(p, r->key, r->n);
    if (e->id) {
        TW_IR_FAIL(p, r->t, "'%.*s' is defined twice", TW_IR_SHOWN(r->t));
        return;
    }
    *e = (tw_ir_entry){.key = r->key, .n = r->n, .id = v.id};
    p->entries++;
    tw_ir_value *value = &p->k->values[v.id];
    if (r->variable) value->kind = TW_V_VARIABLE;
    if (r->name_n) value->name = tw_arena_strndup(&p->k->arena, r->name, r->name_n);
}

/* -- operands */

/* number ":" type */
static tw_val take_constant(tw_ir_parser *p) {
    const tw_ir_token t = p->now;
    uint64_t magnitude;
    bool negative, hex;
    if (!tw_ir_take_number(p, &magnitude, &negative, &hex)) return TW_NONE;
    tw_ir_expect(p, ":");
    tw_type type = tw_ir_take_type(p);
    if (p->status != TW_OK) return TW_NONE;
    int bits = tw_type_bits(type);
    bool fits = negative ? magnitude <= 1ull << (bits - 1) : bits == 64 || !(magnitude >> bits);
    if (tw_type_is_float(type) && !hex)
        TW_IR_FAIL(p, t, "%s constants are written as their bits: 0x...", tw_type_name(type));
    else if (!fits || (negative && (bits == 1 || hex)))
        TW_IR_FAIL(p, t, "%.*s is no %s", TW_IR_SHOWN(t), tw_type_name(type));
    return p->status == TW_OK ? tw_const(&p->b, type, negative ? 0 - magnitude : magnitude) : TW_NONE;
}

static tw_val take_parameter(tw_ir_parser *p) {
    const tw_ir_token t = p->now;
    tw_ir_next_token(p);
    for (int i = 0; i < p->k->n_parameters; i++) {
        const char *name = p->k->parameters[i].name;
        if (name && strlen(name) == t.n - 1 && !memcmp(name, t.at + 1, t.n - 1)) return p->k->parameters[i].value;
    }
    TW_IR_FAIL(p, t,
               "there is no parameter '%.*s'; a line 'parameter NAME TYPE' or 'pointer NAME align N' declares one",
               TW_IR_SHOWN(t));
    return TW_NONE;
}

bool tw_ir_at_operand(const tw_ir_parser *p) {
    return p->now.kind == TW_IR_VALUE || p->now.kind == TW_IR_NUMBER || p->now.kind == TW_IR_AT ||
           tw_ir_token_is(&p->now, "_");
}

tw_val tw_ir_take_operand(tw_ir_parser *p) {
    tw_ir_reference r;
    switch (p->now.kind) {
    case TW_IR_VALUE:
        if (!tw_ir_take_reference(p, &r)) return TW_NONE;
        tw_val v = tw_ir_find_value(p, &r);
        if (!v.id) TW_IR_FAIL(p, r.t, "'%.*s' is not defined above", TW_IR_SHOWN(r.t));
        return v;
    case TW_IR_NUMBER:
        return take_constant(p);
    case TW_IR_AT:
        return take_parameter(p);
    default:
        if (!tw_ir_accept(p, "_")) tw_ir_fail_expected(p, "a value: %3, $3, @parameter or 5:i32");
        return TW_NONE;
    }
}

int tw_ir_take_operands(tw_ir_parser *p, tw_val *v) {
    int n = 0;
    if (!tw_ir_at_operand(p)) return 0;
    do {
        if (n == TW_IR_MAX_VALUES) {
            TW_IR_FAIL(p, p->now, "more than %d operands", TW_IR_MAX_VALUES);
            return 0;
        }
        v[n++] = tw_ir_take_operand(p);
    } while (tw_ir_accept(p, ","));
    return n;
}
