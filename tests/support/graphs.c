/* SPDX-License-Identifier: Apache-2.0 */
#include "support/graphs.h"

#include "base/diag.h"
#include "base/random.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "graph/text.h"
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

tw_graph *test_graph(const char *text) {
    tw_graph *g;
    tw_diag diag = {0};
    if (tw_graph_parse(&g, text, strlen(text), "text", &diag) != TW_OK)
        fail_msg("%d:%d: %s", diag.line, diag.column, diag.message);
    if (tw_graph_resolve(g, "text", &diag) != TW_OK) fail_msg("%s", diag.message);
    return g;
}

static int64_t extent_of(const char *name, const char *extents) {
    const size_t n = strlen(name);
    for (const char *at = extents; (at = strstr(at, name)); at += n)
        if ((at == extents || at[-1] == ' ') && at[n] == '=') return strtoll(at + n + 1, NULL, 10);
    return 5;
}

tw_graph *test_concrete(const tw_graph *g, const char *extents) {
    tw_array in[64];
    const tw_array *list[64];
    tw_graph *out;
    tw_diag diag = {0};
    assert_in_range(g->n_inputs, 0, 64);
    for (int i = 0; i < g->n_inputs; i++) {
        const tw_value *v = &g->values[g->inputs[i]];
        in[i] = (tw_array){.type = v->type, .rank = v->rank};
        list[i] = &in[i];
        for (int d = 0; d < v->rank; d++)
            in[i].dims[d] = v->dims[d] >= 0 ? v->dims[d] : extent_of(g->symbols[tw_dim_symbol(v->dims[d])], extents);
    }
    if (tw_graph_specialize(&out, g, list, &diag) != TW_OK) fail_msg("%s", diag.message);
    return out;
}

void test_prints(const tw_graph *g, const char *text) {
    tw_buf out = {0};
    tw_graph_print(g, &out);
    assert_string_equal(out.data, text);
    tw_buf_free(&out);
}

const tw_array **test_draw(const tw_graph *g, tw_arena *arena, uint64_t seed) {
    tw_random r = tw_random_seed(seed);
    tw_array *in = tw_arena_array(arena, (size_t)g->n_inputs + 1, sizeof *in);
    const tw_array **list = tw_arena_array(arena, (size_t)g->n_inputs + 1, sizeof *list);
    assert_true(in && list);
    for (int i = 0; i < g->n_inputs; i++) {
        assert_true(tw_value_array(&g->values[g->inputs[i]], &in[i]));
        list[i] = &in[i];
        const tw_kind kind = tw_element_kind(in[i].type);
        const int64_t n = tw_array_elements(&in[i]);
        void *data = tw_arena_alloc(arena, (size_t)tw_array_bytes(&in[i]) + 1);
        assert_non_null(data);
        in[i].data = data;
        for (int64_t k = 0; k < n; k++) {
            const double x = 4 * tw_random_unit(&r) - 2;
            const int64_t whole = (int64_t)tw_random_below(&r, kind == TW_KIND_truth ? 2 : 4);
            if (kind == TW_KIND_real)
                tw_array_set_reals(in[i].type, data, k, 1, &x);
            else
                tw_array_set_integers(in[i].type, data, k, 1, &whole);
        }
    }
    return list;
}

static void same(const char *name, const tw_array *a, const tw_array *b, double share) {
    char x[128], y[128];
    tw_array_describe(a, x, sizeof x);
    tw_array_describe(b, y, sizeof y);
    if (strcmp(x, y) != 0) fail_msg("%s: %s and %s", name, x, y);
    const int64_t n = tw_array_elements(a);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(tw_array_real(a, i))) sum += tw_array_real(a, i) * tw_array_real(a, i);
    const double room = share * sqrt(sum / (double)(n ? n : 1));
    for (int64_t i = 0; i < n; i++) {
        const double p = tw_array_real(a, i), q = tw_array_real(b, i);
        if (p == q || (isnan(p) && isnan(q)) || fabs(p - q) <= room) continue;
        fail_msg("%s: element %lld is %.9g and %.9g", name, (long long)i, p, q);
    }
}

void test_same_outputs(const tw_graph *a, const tw_graph *b, const tw_array *const *in, double share) {
    tw_arena arena = {0};
    tw_diag diag = {0};
    tw_array *x = tw_arena_array(&arena, (size_t)a->n_outputs + 1, sizeof *x);
    tw_array *y = tw_arena_array(&arena, (size_t)b->n_outputs + 1, sizeof *y);
    assert_true(x && y);
    assert_int_equal(a->n_outputs, b->n_outputs);
    if (tw_graph_run(a, in, &arena, x, &diag) != TW_OK) fail_msg("%s", diag.message);
    if (tw_graph_run(b, in, &arena, y, &diag) != TW_OK) fail_msg("%s", diag.message);
    for (int i = 0; i < a->n_outputs; i++) same(a->values[a->outputs[i]].name, &x[i], &y[i], share);
    tw_arena_free(&arena);
}

void test_same_on_drawn(const tw_graph *a, const tw_graph *b, double share) {
    tw_arena arena = {0};
    for (uint64_t seed = 1; seed < 4; seed++) test_same_outputs(a, b, test_draw(a, &arena, seed), share);
    tw_arena_free(&arena);
}
