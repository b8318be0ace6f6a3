/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ops/op.h"
#include "graph/shapes/rules.h"

#include <string.h>

/* Returns the smaller of two, where that is known or has a symbol. */
static const tw_formula *smaller(const tw_inference *x, const tw_formula *a, const tw_formula *b) {
    int64_t n;
    if (tw_at_least(x->symbols, a, b)) return b;
    if (tw_at_least(x->symbols, b, a)) return a;
    if (tw_formula_is_number(b, &n) && n > 0) return tw_least_make(x->symbols, b, a);
    return tw_formula_is_number(a, &n) && n > 0 ? tw_least_make(x->symbols, a, b) : NULL;
}

/* Returns where a slice begins or ends, from 0 to d. Places below 0 count from the end. */
static const tw_formula *place_of(const tw_inference *x, const tw_formula *d, const tw_formula *place) {
    int64_t n;
    if (tw_formula_is_number(place, &n)) {
        if (n >= INT32_MAX) return d;
        if (n <= -INT32_MAX) return tw_formula_number(x->arena, 0);
        if (n < 0) return tw_formula_subtract(x->arena, d, smaller(x, d, tw_formula_number(x->arena, -n)));
    }
    return tw_at_least(x->symbols, place, tw_formula_number(x->arena, 0)) ? smaller(x, d, place) : NULL;
}

/* Returns how many elements a slice with a step of 1 has. */
static const tw_formula *slice_of(const tw_inference *x, const tw_formula *d, const tw_formula *from,
                                  const tw_formula *below) {
    int64_t p, q;
    if (!d || !from || !below) return NULL;
    /* Places that count from the same side are in order wherever they end up. */
    bool ordered = tw_formula_is_number(from, &p) && tw_formula_is_number(below, &q) && p <= q && (p < 0) == (q < 0);
    from = place_of(x, d, from);
    below = place_of(x, d, below);
    if (tw_at_least(x->symbols, from, below)) return tw_formula_number(x->arena, 0);
    ordered |= tw_formula_equal(below, d) || tw_formula_is(from, 0) || tw_at_least(x->symbols, below, from);
    return ordered ? tw_formula_subtract(x->arena, below, from) : NULL;
}

void tw_infer_slice(tw_inference *x) {
    const tw_fact *a = x->in[0], *from = tw_infer_in(x, 1), *below = tw_infer_in(x, 2);
    int64_t axes[TW_FACT_ELEMENTS], steps[TW_FACT_ELEMENTS];
    int n, m;
    if (x->n_in < 3 || !from || !below || !tw_infer_numbers(x, 3, NULL, axes, &n)) return;
    if (!tw_infer_numbers(x, 4, NULL, steps, &m)) m = TW_FACT_ELEMENTS + 1;
    memcpy(x->out->dims, a->dims, sizeof a->dims);
    const int count = n >= 0 ? n : a->rank;
    for (int i = 0; i < count; i++) {
        const int axis = n >= 0 ? tw_axis(axes[i], a->rank) : i;
        if (axis < 0) continue;
        const bool forward = m < 0 || (i < m && m <= TW_FACT_ELEMENTS && steps[i] == 1);
        const bool there = from->content && below->content && i < from->n && i < below->n;
        if (n < 0 && there == false && from->content && i >= from->n) continue;
        x->out->dims[axis] = forward && there ? slice_of(x, a->dims[axis], from->content[i], below->content[i]) : NULL;
    }
}
