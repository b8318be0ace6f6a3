/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of graphs that are drawn: views of views, and what is computed of them, on few extents, many of which are
   1. */
#include "base/diag.h"
#include "base/random.h"
#include "graph/build.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/run_program.h"
#include "graph/specialize.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

enum { GRAPHS = TEST_SANITIZED ? 300 : 3000, NODES = 14, RANK = 4, MOST = 4000 /* Elements of a value. */ };

typedef struct value {
    int number, rank;
    int64_t dims[RANK];
} value;

typedef struct maker {
    tw_graph *g;
    tw_random r;
    value values[2 * NODES + 4];
    int n, ids;
    int64_t n_ids;
} maker;

static int64_t pick(maker *m, int64_t least, int64_t most) {
    return least + (int64_t)tw_random_below(&m->r, (uint64_t)(most - least + 1));
}

static int64_t elements(const value *v) {
    int64_t n = 1;
    for (int i = 0; i < v->rank; i++) n *= v->dims[i];
    return n;
}

static const tw_array *list(maker *m, int n, const int64_t *x) {
    tw_array *a = tw_arena_alloc(&m->g->arena, sizeof *a);
    int64_t *data = tw_arena_array(&m->g->arena, (size_t)n + 1, sizeof *data);
    memcpy(data, x, (size_t)n * sizeof *data);
    *a = (tw_array){.type = TW_E_i64, .rank = 1, .dims = {n}, .data = data};
    return a;
}

static int integers(maker *m, int n, const int64_t *x) {
    return tw_graph_constant(m->g, list(m, n, x));
}

static int transposed(maker *m, const value *x, const int64_t *order) {
    tw_attribute *perm = tw_arena_alloc(&m->g->arena, sizeof *perm);
    *perm = (tw_attribute){.name = "perm", .kind = TW_ATTRIBUTE_ARRAY, .array = list(m, x->rank, order)};
    return tw_graph_op(m->g, "Transpose", TW_OPERANDS(x->number), perm, 1);
}

/* Each makes y of x, which begins as x. False: it makes nothing of it. */
typedef bool make_fn(maker *m, const value *x, int64_t axis, value *y);

static bool transpose(maker *m, const value *x, int64_t axis, value *y) {
    int64_t order[RANK] = {0, 1, 2, 3};
    const int other = (int)pick(m, 0, x->rank - 1);
    order[axis] = other;
    order[other] = axis;
    for (int i = 0; i < x->rank; i++) y->dims[i] = x->dims[order[i]];
    y->number = transposed(m, x, order);
    return true;
}

static bool reshape(maker *m, const value *x, int64_t axis, value *y) {
    (void)axis;
    int64_t left = elements(x);
    for (y->rank = 0; left > 1 && y->rank < RANK; left /= y->dims[y->rank++]) {
        int64_t factor = 2;
        while (left % factor) factor++;
        y->dims[y->rank] = y->rank == RANK - 1 || !pick(m, 0, 3) ? left : pick(m, 0, 3) ? factor : 1;
    }
    if (!y->rank) y->dims[y->rank++] = 1;
    y->number = tw_graph_op(m->g, "Reshape", TW_OPERANDS(x->number, integers(m, y->rank, y->dims)), TW_NO_ATTRIBUTES);
    return true;
}

static bool slice(maker *m, const value *x, int64_t axis, value *y) {
    const int64_t n = x->dims[axis], from = pick(m, 0, n - 1), size = pick(m, 1, 2);
    const bool back = pick(m, 0, 1);
    const int64_t to = back ? -1000 : 1000, step = back ? -size : size;
    y->dims[axis] = (back ? from : n - from - 1) / size + 1;
    y->number = tw_graph_op(m->g, "Slice",
                            TW_OPERANDS(x->number, integers(m, 1, &from), integers(m, 1, &to), integers(m, 1, &axis),
                                        integers(m, 1, &step)),
                            TW_NO_ATTRIBUTES);
    return true;
}

static bool expand(maker *m, const value *x, int64_t axis, value *y) {
    const int more = x->rank < RANK ? (int)pick(m, 0, 1) : 0;
    (void)axis;
    y->rank = x->rank + more;
    for (int i = 0; i < y->rank; i++) {
        const int64_t extent = i < more ? 1 : x->dims[i - more];
        y->dims[i] = extent == 1 ? pick(m, 1, 3) : extent;
    }
    y->number = tw_graph_op(m->g, "Expand", TW_OPERANDS(x->number, integers(m, y->rank, y->dims)), TW_NO_ATTRIBUTES);
    return true;
}

static bool concat(maker *m, const value *x, int64_t axis, value *y) {
    const int other = pick(m, 0, 1) ? tw_graph_op(m->g, "Neg", TW_OPERANDS(x->number), TW_NO_ATTRIBUTES) : x->number;
    y->dims[axis] *= 2;
    y->number = tw_graph_op(m->g, "Concat", TW_OPERANDS(other, x->number), TW_ATTRIBUTES(TW_INT("axis", axis)));
    return true;
}

static bool split(maker *m, const value *x, int64_t axis, value *y) {
    const int64_t n = x->dims[axis], parts[] = {n / 2, n - n / 2};
    if (n < 2) return false;
    const int first = tw_graph_op_several(m->g, "Split", TW_OPERANDS(x->number, integers(m, 2, parts)),
                                          TW_ATTRIBUTES(TW_INT("axis", axis)), 2);
    m->values[m->n] = *x;
    m->values[m->n].number = first;
    m->values[m->n++].dims[axis] = parts[0];
    y->number = first + 1;
    y->dims[axis] = parts[1];
    return true;
}

static bool reduce(maker *m, const value *x, int64_t axis, value *y) {
    static const char *const ops[] = {"ReduceSum", "ReduceMean",      "ReduceMax",  "ReduceMin",      "ReduceL1",
                                      "ReduceL2",  "ReduceSumSquare", "ReduceProd", "ReduceLogSumExp"};
    y->number = tw_graph_op(m->g, ops[pick(m, 0, 8)], TW_OPERANDS(x->number, integers(m, 1, &axis)),
                            TW_ATTRIBUTES(TW_INT("keepdims", 1)));
    y->dims[axis] = 1;
    return true;
}

static bool soften(maker *m, const value *x, int64_t axis, value *y) {
    y->number = tw_graph_op(m->g, pick(m, 0, 1) ? "Softmax" : "LogSoftmax", TW_OPERANDS(x->number),
                            TW_ATTRIBUTES(TW_INT("axis", axis)));
    return true;
}

static bool gather(maker *m, const value *x, int64_t axis, value *y) {
    const int extent = tw_graph_integer(m->g, x->dims[axis]);
    const int at = tw_graph_op(m->g, "Mod", TW_OPERANDS(m->ids, extent), TW_NO_ATTRIBUTES);
    y->number = tw_graph_op(m->g, "Gather", TW_OPERANDS(x->number, at), TW_ATTRIBUTES(TW_INT("axis", axis)));
    y->dims[axis] = m->n_ids;
    return true;
}

static bool triangle(maker *m, const value *x, int64_t axis, value *y) {
    const int k = tw_graph_integer(m->g, pick(m, -2, 2));
    (void)axis;
    if (x->rank < 2) return false;
    y->number = tw_graph_op(m->g, "Trilu", TW_OPERANDS(x->number, k), TW_ATTRIBUTES(TW_INT("upper", pick(m, 0, 1))));
    return true;
}

static bool pad(maker *m, const value *x, int64_t axis, value *y) {
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    int64_t pads[2 * RANK] = {0};
    const int64_t others = pick(m, 0, x->rank - 1);
    pads[axis] = pick(m, x->dims[axis] > 1 ? -1 : 0, 2);
    pads[x->rank + axis] = pick(m, 0, 3);
    pads[others] += others == axis ? 0 : 1;
    for (int i = 0; i < x->rank; i++) y->dims[i] += pads[i] + pads[x->rank + i];
    y->number = tw_graph_op(m->g, "Pad", TW_OPERANDS(x->number, integers(m, 2 * x->rank, pads)),
                            TW_ATTRIBUTES(TW_TEXT("mode", modes[pick(m, 0, 3)])));
    return true;
}

static bool tile(maker *m, const value *x, int64_t axis, value *y) {
    int64_t times[RANK];
    (void)axis;
    for (int i = 0; i < x->rank; i++) y->dims[i] *= times[i] = pick(m, 1, 2);
    y->number = tw_graph_op(m->g, "Tile", TW_OPERANDS(x->number, integers(m, x->rank, times)), TW_NO_ATTRIBUTES);
    return true;
}

/* Indices along an axis, with x's other extents. */
static int indices(maker *m, const value *x, int64_t axis, value *y) {
    int64_t dims[RANK] = {1, 1, 1, 1};
    const int extent = tw_graph_integer(m->g, x->dims[axis]);
    dims[axis] = y->dims[axis] = m->n_ids;
    int at = tw_graph_op(m->g, "Mod", TW_OPERANDS(m->ids, extent), TW_NO_ATTRIBUTES);
    if (pick(m, 0, 1)) at = tw_graph_op(m->g, "Sub", TW_OPERANDS(at, extent), TW_NO_ATTRIBUTES); /* From the end. */
    const int all = tw_graph_op(m->g, "Reshape", TW_OPERANDS(at, integers(m, x->rank, dims)), TW_NO_ATTRIBUTES);
    return tw_graph_op(m->g, "Expand", TW_OPERANDS(all, integers(m, x->rank, y->dims)), TW_NO_ATTRIBUTES);
}

static bool gather_elements(maker *m, const value *x, int64_t axis, value *y) {
    y->number = tw_graph_op(m->g, "GatherElements", TW_OPERANDS(x->number, indices(m, x, axis, y)),
                            TW_ATTRIBUTES(TW_INT("axis", axis)));
    return true;
}

static bool scatter_elements(maker *m, const value *x, int64_t axis, value *y) {
    static const char *const reductions[] = {"none", "add", "mul", "max", "min"};
    const int at = indices(m, x, axis, y);
    gather_elements(m, x, axis, y);
    const int updates = tw_graph_op(m->g, "Neg", TW_OPERANDS(y->number), TW_NO_ATTRIBUTES);
    *y = *x;
    y->number = tw_graph_op(m->g, "ScatterElements", TW_OPERANDS(x->number, at, updates),
                            TW_ATTRIBUTES(TW_INT("axis", axis), TW_TEXT("reduction", reductions[pick(m, 0, 4)])));
    return true;
}

/* Of an input, rounded, so that elements are equal in any precision where they are equal at all. */
static int rounded(maker *m, const value *input) {
    const int twice = tw_graph_op(m->g, "Mul", TW_OPERANDS(input->number, tw_graph_real(m->g, 2)), TW_NO_ATTRIBUTES);
    return tw_graph_op(m->g, "Round", TW_OPERANDS(twice), TW_NO_ATTRIBUTES);
}

/* Whole numbers of all bits, of which the remainder is left. */
static int accumulate_wholes(maker *m, value *input, int64_t axis, const tw_attribute ways[2]) {
    const bool wide = pick(m, 0, 1), once = pick(m, 0, 1);
    const int64_t factor = wide ? 0x123456789abcdef : 987654321, modulus = 1009;
    const tw_attribute to = TW_INT("to", wide ? 7 : 6), like_real = TW_INT("to", 1);
    const int x = tw_graph_op(m->g, "Cast", TW_OPERANDS(rounded(m, input)), &to, 1);
    const int by = tw_graph_op(m->g, "Cast", TW_OPERANDS(tw_graph_integer(m->g, factor)), &to, 1);
    const int rest = tw_graph_op(m->g, "Cast", TW_OPERANDS(tw_graph_integer(m->g, modulus)), &to, 1);
    const int large = tw_graph_op(m->g, "Mul", TW_OPERANDS(x, by), TW_NO_ATTRIBUTES);
    const int sum = once ? tw_graph_op(m->g, "ReduceSum", TW_OPERANDS(large, integers(m, 1, &axis)), TW_NO_ATTRIBUTES)
                         : tw_graph_op(m->g, "CumSum", TW_OPERANDS(large, tw_graph_integer(m->g, axis)), ways, 2);
    if (once) input->dims[axis] = 1;
    const int small = tw_graph_op(m->g, "Mod", TW_OPERANDS(sum, rest), TW_NO_ATTRIBUTES);
    return tw_graph_op(m->g, "Cast", TW_OPERANDS(small), &like_real, 1);
}

static bool accumulate(maker *m, const value *x, int64_t axis, value *y) {
    const tw_attribute ways[] = {TW_INT("exclusive", pick(m, 0, 1)), TW_INT("reverse", pick(m, 0, 1))};
    if (pick(m, 0, 2) == 0) {
        *y = m->values[pick(m, 0, 2)];
        y->number = accumulate_wholes(m, y, axis % y->rank, ways);
        return true;
    }
    y->number = tw_graph_op(m->g, "CumSum", TW_OPERANDS(x->number, tw_graph_integer(m->g, axis)), ways, 2);
    return true;
}

static bool find(maker *m, const value *x, int64_t axis, value *y) {
    *y = m->values[pick(m, 0, 2)];
    axis %= y->rank;
    (void)x;
    const int place = tw_graph_op(m->g, pick(m, 0, 1) ? "ArgMax" : "ArgMin", TW_OPERANDS(rounded(m, y)),
                                  TW_ATTRIBUTES(TW_INT("axis", axis), TW_INT("select_last_index", pick(m, 0, 1))));
    y->dims[axis] = 1;
    y->number = tw_graph_op(m->g, "Cast", TW_OPERANDS(place), TW_ATTRIBUTES(TW_INT("to", 1)));
    return true;
}

static bool sort(maker *m, const value *x, int64_t axis, value *y) {
    *y = m->values[pick(m, 0, 2)];
    axis %= y->rank;
    (void)x;
    const int64_t k = pick(m, 1, y->dims[axis]);
    const int values = tw_graph_op_several(m->g, "TopK", TW_OPERANDS(rounded(m, y), integers(m, 1, &k)),
                                           TW_ATTRIBUTES(TW_INT("axis", axis), TW_INT("largest", pick(m, 0, 1))), 2);
    const int places = tw_graph_op(m->g, "Cast", TW_OPERANDS(values + 1), TW_ATTRIBUTES(TW_INT("to", 1)));
    y->dims[axis] = k;
    y->number = tw_graph_op(m->g, "Add", TW_OPERANDS(values, places), TW_NO_ATTRIBUTES);
    return true;
}

static bool measure(maker *m, const value *x, int64_t axis, value *y) {
    const int one = tw_graph_real(m->g, 1);
    const int norm = tw_graph_op_several(m->g, "LayerNormalization", TW_OPERANDS(x->number, one),
                                         TW_ATTRIBUTES(TW_INT("axis", axis), TW_REAL("epsilon", 0.01)), 3);
    y->number = norm + 1 + (int)pick(m, 0, 1);
    for (int64_t i = axis; i < x->rank; i++) y->dims[i] = 1;
    return true;
}

/* A norm of all dimensions from one on, or one of channels, which may go where it can only be copied. */
static bool normalise(maker *m, const value *x, int64_t axis, value *y) {
    const tw_attribute eps = TW_REAL("epsilon", 0.01);
    const int one = tw_graph_real(m->g, 1);
    if (pick(m, 0, 1) || x->rank < 3) {
        const tw_attribute from[] = {TW_INT("axis", axis), eps};
        const int64_t first = pick(m, 0, x->rank - 1); /* The scale has other extents than x in this dimension. */
        const int scale = tw_graph_op(m->g, "ReduceMax", TW_OPERANDS(x->number, integers(m, 1, &first)),
                                      TW_ATTRIBUTES(TW_INT("keepdims", 1)));
        y->number =
            tw_graph_op(m->g, "LayerNormalization", TW_OPERANDS(x->number, pick(m, 0, 1) ? one : scale), from, 2);
        return true;
    }
    const int channels = integers(m, 1, &x->dims[1]);
    const int gain = tw_graph_op(m->g, "Expand", TW_OPERANDS(one, channels), TW_NO_ATTRIBUTES);
    const int bias = tw_graph_op(m->g, "Neg", TW_OPERANDS(gain), TW_NO_ATTRIBUTES);
    y->number = tw_graph_op(m->g, "InstanceNormalization", TW_OPERANDS(x->number, gain, bias), &eps, 1);
    return true;
}

static bool multiply(maker *m, const value *x, int64_t axis, value *y) {
    int64_t order[RANK] = {0, 1, 2, 3};
    (void)axis;
    if (x->rank < 2) return false;
    order[x->rank - 1] = x->rank - 2;
    order[x->rank - 2] = x->rank - 1;
    y->number = tw_graph_op(m->g, "MatMul", TW_OPERANDS(x->number, transposed(m, x, order)), TW_NO_ATTRIBUTES);
    y->dims[x->rank - 1] = x->dims[x->rank - 2];
    return true;
}

static bool combine(maker *m, const value *x, int64_t axis, value *y) {
    static const char *const ops[] = {"Add", "Sub", "Mul", "Max"};
    const value *z = &m->values[pick(m, 0, m->n - 1)];
    (void)axis;
    y->rank = x->rank > z->rank ? x->rank : z->rank;
    for (int i = 0; i < y->rank; i++) {
        const int of_x = i - (y->rank - x->rank), of_z = i - (y->rank - z->rank);
        const int64_t a = of_x < 0 ? 1 : x->dims[of_x], b = of_z < 0 ? 1 : z->dims[of_z];
        if (a != b && a != 1 && b != 1) return false;
        y->dims[i] = a == 1 ? b : a;
    }
    y->number = tw_graph_op(m->g, ops[pick(m, 0, 3)], TW_OPERANDS(x->number, z->number), TW_NO_ATTRIBUTES);
    return true;
}

static bool bend(maker *m, const value *x, int64_t axis, value *y) {
    (void)axis;
    y->number = tw_graph_op(m->g, pick(m, 0, 1) ? "Tanh" : "Sigmoid", TW_OPERANDS(x->number), TW_NO_ATTRIBUTES);
    return true;
}

static make_fn *const makers[] = {transpose,  reshape, slice,   expand,   concat,  split,           reduce,
                                  soften,     gather,  gather,  multiply, combine, combine,         bend,
                                  triangle,   pad,     tile,    reduce,   find,    gather_elements, scatter_elements,
                                  accumulate, sort,    measure, normalise};
enum { MAKERS = sizeof makers / sizeof *makers };

static tw_graph *draw(uint64_t seed) {
    static const int64_t extents[] = {1, 1, 2, 3, 4, 8};
    static const char *const inputs[] = {"x", "y", "z"}, *const outputs[] = {"a", "b", "c"};
    maker m = {.g = tw_graph_new(), .r = tw_random_seed(seed)};
    for (; m.n < 3; m.n++) {
        value *x = &m.values[m.n];
        x->rank = (int)pick(&m, 1, RANK);
        for (int d = 0; d < x->rank; d++) x->dims[d] = extents[pick(&m, 0, 5)];
        x->number = tw_graph_input(m.g, inputs[m.n], TW_E_f32, x->rank, x->dims);
    }
    m.n_ids = pick(&m, 2, 3);
    m.ids = tw_graph_input(m.g, "ids", TW_E_i64, 1, &m.n_ids);
    for (int i = 0; i < NODES; i++) {
        const value x = m.values[pick(&m, 0, 1) ? m.n - 1 : pick(&m, 0, m.n - 1)];
        value y = x;
        if (makers[pick(&m, 0, MAKERS - 1)](&m, &x, pick(&m, 0, x.rank - 1), &y) && elements(&y) <= MOST)
            m.values[m.n++] = y;
    }
    for (int i = 0; i < 3; i++) tw_graph_output(m.g, m.values[i ? pick(&m, 0, m.n - 1) : m.n - 1].number, outputs[i]);
    return m.g;
}

/* ---- checks */

static void good(tw_status st, uint64_t seed, const tw_diag *d) {
    if (st != TW_OK) fail_msg("graph %llu: %s", (unsigned long long)seed, d->message);
}

static void fill(const tw_graph *g, int input, tw_arena *arena, tw_random *r, tw_array *a) {
    tw_value_array(&g->values[g->inputs[input]], a);
    const int64_t n = tw_array_elements(a);
    void *data = tw_arena_alloc(arena, (size_t)tw_array_bytes(a) + 1);
    for (int64_t i = 0; i < n; i++) {
        const double x = tw_random_unit(r) * 2 - 1;
        const int64_t whole = (int64_t)tw_random_below(r, 9);
        if (a->type == TW_E_f32)
            tw_array_set_reals(a->type, data, i, 1, &x);
        else
            tw_array_set_integers(a->type, data, i, 1, &whole);
    }
    a->data = data;
}

static void compare(const tw_array *want, const tw_array *have, uint64_t seed, bool gpu) {
    const int64_t n = tw_array_elements(want);
    double most = 1e-3;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(tw_array_real(want, i)));
    for (int64_t i = 0; i < n; i++) {
        const double x = tw_array_real(want, i), y = tw_array_real(have, i);
        if ((isnan(x) && isnan(y)) || x == y || fabs(x - y) <= 2e-3 * most) continue;
        fail_msg("graph %llu%s: element %lld is %g instead of %g", (unsigned long long)seed, gpu ? " for a GPU" : "",
                 (long long)i, y, x);
    }
}

static void check(uint64_t seed) {
    tw_arena arena = {0};
    tw_graph *g = draw(seed), *c;
    tw_array in[4], want[3], have[3];
    const tw_array *at[4];
    tw_diag d = {0};
    tw_random r = tw_random_seed(seed + 1);
    for (int i = 0; i < 4; i++) {
        fill(g, i, &arena, &r, &in[i]);
        at[i] = &in[i];
    }
    good(tw_graph_resolve(g, "", &d), seed, &d);
    good(tw_graph_specialize(&c, g, at, &d), seed, &d);
    tw_graph_free(g);
    good(tw_graph_run(c, at, &arena, want, &d), seed, &d);
    if (seed % 2) good(tw_graph_fuse(c, NULL, &d), seed, &d);
    good(tw_graph_resolve(c, "", &d), seed, &d);
    for (int gpu = 0; gpu < 2; gpu++) {
        tw_program *p;
        good(tw_program_lower(&p, c, &(tw_program_options){.gpu = gpu}, &d), seed, &d);
        good(run_program(p, at, &arena, have, &d), seed, &d);
        for (int i = 0; i < 3; i++) compare(&want[i], &have[i], seed, gpu);
        tw_program_free(p);
    }
    tw_graph_free(c);
    tw_arena_free(&arena);
}

static void programs_compute_what_graphs_do(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) check(seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(programs_compute_what_graphs_do)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
