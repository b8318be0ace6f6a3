/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/arguments.h"

#include "ir/value.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static tw_argument *add(tw_arguments *a, const char *name) {
    assert(a->n < TW_ARGUMENTS);
    a->of[a->n] = (tw_argument){.name = name};
    return &a->of[a->n++];
}

void tw_argument_number(tw_arguments *a, const char *name, int64_t value) {
    add(a, name)->bits = (uint64_t)value;
}

void tw_argument_float(tw_arguments *a, const char *name, double value, tw_type type) {
    add(a, name)->bits = type == TW_T_f64 ? tw_write_f64(value) : tw_write_f32((float)value);
}

void tw_argument_buffer(tw_arguments *a, const char *name, uint64_t address) {
    tw_argument *x = add(a, name);
    x->bits = address;
    x->buffer = name;
}

void tw_argument_map(tw_arguments *a, const char *name, const char *buffer, const tw_tensor_map *map) {
    assert(a->n_maps < TW_ARGUMENT_MAPS);
    tw_argument *x = add(a, name);
    x->buffer = buffer;
    a->maps[a->n_maps] = *map;
    x->map = &a->maps[a->n_maps++];
    x->bits = (uint64_t)(uintptr_t)x->map;
}

tw_signature tw_signature_of(const tw_kernel *k) {
    tw_signature s = {.n = k->n_parameters};
    assert(k->n_parameters <= TW_ARGUMENTS);
    for (int i = 0; i < s.n; i++) {
        const tw_parameter *p = &k->parameters[i];
        assert(strlen(p->name) < sizeof s.names[i]);
        snprintf(s.names[i], sizeof s.names[i], "%s", p->name);
        s.bytes[i] = p->map ? TW_TENSOR_MAP_BYTES : tw_type_bits(p->type) / 8;
    }
    return s;
}

const tw_argument *tw_argument_of(const tw_arguments *a, const tw_signature *s, int i) {
    int at = 0;
    while (at < a->n && strcmp(a->of[at].name, s->names[i]) != 0) at++;
    assert(at < a->n && (a->of[at].map != NULL) == (s->bytes[i] == TW_TENSOR_MAP_BYTES));
    return &a->of[at];
}

void tw_arguments_place(const tw_arguments *a, const tw_signature *s, uint64_t *words) {
    for (int i = 0; i < s->n; i++) words[i] = tw_argument_of(a, s, i)->bits;
}
