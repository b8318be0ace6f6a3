/* SPDX-License-Identifier: Apache-2.0 */
/* checkkernel, attention: every variant under every mask against softmax in double. */
#include "kernels/checkkernel.h"

typedef struct problem {
    tw_attention a;
    int64_t max_seq;
    int kind;
    float *q, *k, *v, *out, *partial;
} problem;

static problem problem_make(int64_t dim, int64_t n, int64_t pos, int64_t window, int kind, bool partial, tw_random *r) {
    problem p = {.max_seq = pos + n, .kind = kind};
    int64_t ldq = dim + (int64_t)tw_random_below(r, 5), ldo = dim + (int64_t)tw_random_below(r, 5);
    p.a = (tw_attention){.ldq = ldq, .ldo = ldo, .dim = dim, .pos = pos, .n = n, .window = window, .last = pos + n};
    p.a.scale = (float)(1 / sqrt((double)dim));
    if (partial && pos + n > 3) {
        p.a.first = (int64_t)tw_random_below(r, (uint64_t)(pos + n));
        p.a.last = p.a.first + 1 + (int64_t)tw_random_below(r, (uint64_t)(pos + n - p.a.first));
    }
    p.q = guard_make((size_t)(n * ldq));
    p.k = guard_make((size_t)(p.max_seq * dim));
    p.v = guard_make((size_t)(p.max_seq * dim));
    p.out = guard_make((size_t)(n * ldo));
    p.partial = guard_make((size_t)(2 * n));
    for (int64_t i = 0; i < n; i++) input_fill(kind, p.q + i * ldq, (size_t)dim, r);
    input_fill(kind == INPUT_HUGE || kind == INPUT_TINY ? INPUT_NORMAL : kind, p.k, (size_t)(p.max_seq * dim), r);
    input_fill(INPUT_NORMAL, p.v, (size_t)(p.max_seq * dim), r);
    /* Scores of hundreds: one key takes all, and the others underflow. */
    if (kind == INPUT_HUGE)
        for (int64_t i = 0; i < n; i++)
            for (int64_t d = 0; d < dim; d++) p.q[i * ldq + d] *= 1e-26f;
    p.a.q = p.q;
    p.a.k = p.k;
    p.a.v = p.v;
    p.a.out = p.out;
    p.a.partial = partial ? p.partial : NULL;
    return p;
}

static void problem_free(problem *p) {
    guard_free(p->q, (size_t)(p->a.n * p->a.ldq));
    guard_free(p->k, (size_t)(p->max_seq * p->a.dim));
    guard_free(p->v, (size_t)(p->max_seq * p->a.dim));
    guard_free(p->out, (size_t)(p->a.n * p->a.ldo));
    guard_free(p->partial, (size_t)(2 * p->a.n));
}

static void complain(const problem *p, const tw_kernels *k, int64_t i, int64_t d, double got, double want,
                     double tolerance) {
    const tw_attention *a = &p->a;
    print_error("mask %x dim %lld n %lld pos %lld window %lld keys %lld..%lld partial %d %s q: token %lld [%lld] is "
                "%.9g, not %.9g +- %.3g\n",
                k->isa, (long long)a->dim, (long long)a->n, (long long)a->pos, (long long)a->window,
                (long long)a->first, (long long)a->last, a->partial != NULL, input_names[p->kind], (long long)i,
                (long long)d, got, want, tolerance);
    fail();
}

/* How far a product of operands with such terms may be, relative to its terms' sizes, where a matrix unit computes it.
   Two terms leave 2^-17 of each operand, and the product of the second ones is at most 2^-16. */
static double unit_error(const tw_kernels *k, const tw_attention *a) {
    if (strcmp(k->attention_name, "amx") != 0 || a->n < TW_PACKED_TILE) return 0;
    return a->terms == 1 ? 1.01 * 0x1p-8 : 2 * 0x1p-16;
}

/* A score's error, from a dot product in float, moves its exponential by as much relatively: that and the roundings of
   the weighted sum, each 2^-24 with a margin of 8, bound the output's. */
static void check_token(const problem *p, const tw_kernels *k, int64_t i) {
    const tw_attention *a = &p->a;
    int64_t from = a->window && a->pos + i + 1 > a->window ? a->pos + i + 1 - a->window : 0, to = a->pos + i + 1;
    if (from < a->first) from = a->first;
    if (to > a->last) to = a->last;
    double largest = -INFINITY, total = 0, spread = 0, *s = malloc((size_t)(to > from ? to - from : 1) * sizeof *s);
    assert_non_null(s);
    for (int64_t t = from; t < to; t++) {
        double dot = 0, size = 0;
        for (int64_t d = 0; d < a->dim; d++) {
            double term = (double)p->q[i * a->ldq + d] * p->k[t * a->dim + d];
            dot += term;
            size += fabs(term);
        }
        s[t - from] = dot * a->scale;
        largest = fmax(largest, s[t - from]);
        spread = fmax(spread, size * a->scale);
    }
    for (int64_t t = from; t < to; t++) total += s[t - from] = exp(s[t - from] - largest);
    double relative = 8 * 0x1p-24 * (sqrt((double)a->dim) * spread + sqrt((double)(to > from ? to - from : 1)) + 8);
    relative += unit_error(k, a) * (2 * spread + 2);
    for (int64_t d = 0; d < a->dim; d++) {
        double sum = 0, size = 0;
        for (int64_t t = from; t < to; t++) {
            sum += s[t - from] * p->v[t * a->dim + d];
            size += s[t - from] * fabs(p->v[t * a->dim + d]);
        }
        double got = p->out[i * a->ldo + d], norm = a->partial || total == 0 ? 1 : total;
        if (!(fabs(got - sum / norm) <= relative * (size + fabs(sum)) / norm + 1e-36))
            complain(p, k, i, d, got, sum / norm, relative * size / norm);
    }
    for (int64_t d = a->dim; d < a->ldo && i + 1 < a->n; d++) assert_true(isnan(p->out[i * a->ldo + d]));
    if (a->partial) {
        double m = a->partial[2 * i], l = a->partial[2 * i + 1];
        if (from >= to)
            assert_true(m == -INFINITY && l == 0);
        else if (!(fabs(m - largest) <= relative * (spread + 1)) || !(fabs(l - total) <= relative * total * 2))
            complain(p, k, i, -1, m, largest, relative);
    }
    free(s);
}

static void check_terms(const tw_kernels *k, problem *p, int terms) {
    const tw_attention *a = &p->a;
    p->a.terms = terms;
    memset(p->out, 0xff, (size_t)(a->n * a->ldo) * sizeof *p->out);
    size_t bytes = k->attention_scratch(a->dim, a->n, a->last - a->first);
    unsigned char *scratch = aligned_make(bytes + 64);
    memset(scratch + bytes, 0x5a, 64);
    p->a.scratch = scratch;
    k->attention(&p->a);
    for (int i = 0; i < 64; i++) assert_int_equal(scratch[bytes + (size_t)i], 0x5a);
    for (int64_t i = 0; i < a->n; i++) check_token(p, k, i);
    free(scratch);
}

static void check(const tw_kernels *k, problem *p) {
    check_terms(k, p, 2);
    check_terms(k, p, 1);
    problem_free(p);
}

static void attention_agrees_with_exact_softmax(void **state) {
    static const int64_t dims[] = {1, 16, 20, 64, 72, 128, 256}, tokens[] = {1, 3, 7, 13, 16, 40},
                         before[] = {0, 1, 37, 300};
    tw_random r = tw_random_seed(*(uint64_t *)*state);
    tw_kernels k;
    for (int m = 0; m < CHECK_MASKS; m++) {
        if (!check_kernels(m, &k)) continue;
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (size_t n = 0; n < sizeof tokens / sizeof *tokens; n++)
                for (size_t b = 0; b < sizeof before / sizeof *before; b++) {
                    int kind = (int)tw_random_below(&r, INPUT_KINDS);
                    int64_t window = tw_random_below(&r, 3) ? 0 : 1 + (int64_t)tw_random_below(&r, 60);
                    problem p = problem_make(dims[d], tokens[n], before[b], window, kind, tw_random_below(&r, 2), &r);
                    check(&k, &p);
                }
    }
}

static void long_spans_take_several_blocks(void **state) {
    tw_random r = tw_random_seed(*(uint64_t *)*state + 1);
    tw_kernels k;
    for (int m = 0; m < CHECK_MASKS; m++) {
        if (!check_kernels(m, &k)) continue;
        for (int kind = 0; kind < INPUT_KINDS; kind++) {
            problem decode = problem_make(64, 1, 1500, 0, kind, false, &r),
                    prefill = problem_make(48, 200, 150, kind % 2 ? 170 : 0, kind, false, &r);
            check(&k, &decode);
            check(&k, &prefill);
        }
    }
}

int main(void) {
    uint64_t seed = check_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(attention_agrees_with_exact_softmax, &seed),
        cmocka_unit_test_prestate(long_spans_take_several_blocks, &seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
