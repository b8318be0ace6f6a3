/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/arrays.h"

#include "base/random.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

tw_array arrays_random(tw_arena *arena, const tw_value *v, const int64_t *dims, uint64_t seed, int64_t below) {
    tw_array a = {.type = v->type, .rank = v->rank};
    memcpy(a.dims, dims, (size_t)v->rank * sizeof *dims);
    const int64_t n = tw_array_elements(&a);
    void *data = tw_arena_alloc(arena, (size_t)tw_array_bytes(&a) + 1);
    tw_random r = tw_random_seed(seed);
    for (int64_t i = 0; i < n; i++) {
        const double x = tw_random_unit(&r) * 2 - 1;
        const int64_t whole = (int64_t)((x + 1) / 2 * (double)below);
        if (tw_element_kind(a.type) == TW_KIND_real)
            tw_array_set_reals(a.type, data, i, 1, &x);
        else
            tw_array_set_integers(a.type, data, i, 1, &whole);
    }
    a.data = data;
    return a;
}

void arrays_compare(const tw_array *a, const tw_array *b, double most, const char *what) {
    const int64_t n = tw_array_elements(a);
    double square = 0;
    assert_int_equal(n, tw_array_elements(b));
    assert_int_equal(a->type, b->type);
    for (int64_t i = 0; i < n; i++) square += tw_array_real(a, i) * tw_array_real(a, i);
    const double least = sqrt(square / (double)(n ? n : 1));
    for (int64_t i = 0; i < n; i++) {
        const double x = tw_array_real(a, i), y = tw_array_real(b, i);
        if ((isnan(x) && isnan(y)) || x == y) continue;
        if (!(fabs(x - y) <= most * fmax(fabs(x), least)))
            fail_msg("%s: element %lld is %g instead of %g", what, (long long)i, y, x);
    }
}
