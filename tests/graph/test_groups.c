/* SPDX-License-Identifier: Apache-2.0 */
/* GroupQueryAttention over caches, drawn: it becomes attention, and programs for both kinds of devices compute what the
   node computes plainly, whatever the number of keys is that each sequence has. */
#include "base/diag.h"
#include "base/random.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/run_program.h"
#include "support/graphs.h"
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CASES = TEST_SANITIZED ? 24 : 300, INPUTS = 8, OUTPUTS = 3 };

/* A node. `past`: rows of the caches that come in; without caches they are none. */
typedef struct drawn {
    tw_element type;
    int batch, rows, kv_heads, heads, head, past, total;
    int keys[4]; /* Of each sequence, new ones included. */
    bool has_past, packed, rotates, interleaved, placed, summed, biased, causal, smooth, sunk;
    int window, turned;
    double cap, scale;
} drawn;

static int below(tw_random *r, int n) {
    return (int)tw_random_below(r, (uint64_t)n);
}

static drawn draw(tw_random *r) {
    drawn d = {
        .type = below(r, 2) ? TW_E_f32 : TW_E_f16, .batch = 1 + below(r, 3), .rows = 1, .kv_heads = 1 + below(r, 3)};
    d.heads = d.kv_heads * (1 + below(r, 3));
    d.head = 8 << below(r, 3);
    const bool first = !below(r, 3), buffer = !below(r, 3);
    if (first || !below(r, 3)) d.rows = 1 + below(r, 5);
    d.total = d.rows + (first ? 0 : 1 + below(r, 9));
    d.past = buffer ? d.total + below(r, 5) : d.total - d.rows;
    d.has_past = d.past || below(r, 2);
    const bool ragged = below(r, 2);
    for (int i = 0; i < d.batch; i++) d.keys[i] = i && ragged ? 1 + below(r, d.total) : d.total;
    d.packed = below(r, 2);
    d.rotates = below(r, 2);
    d.interleaved = below(r, 2);
    d.placed = d.rotates && !below(r, 3);
    d.turned = d.head >> below(r, 2);
    d.summed = below(r, 2);
    d.biased = !below(r, 4);
    d.causal = below(r, 5);
    d.smooth = !below(r, 5);
    d.sunk = !below(r, 5);
    d.window = d.causal && below(r, 2) ? 1 + below(r, 6) : -1;
    d.cap = below(r, 3) ? 0 : 3;
    d.scale = below(r, 2) ? 0 : 0.3;
    return d;
}

static tw_graph *graph_of(const drawn *d) {
    char text[3000];
    const char *t = tw_element_name(d->type), *rest[] = {"%k", "%v", "%a", "%z", "%c", "%s"};
    const int wide = d->packed ? d->heads + 2 * d->kv_heads : d->heads;
    if (d->packed) rest[0] = rest[1] = "_";
    if (!d->has_past) rest[2] = rest[3] = "_";
    if (!d->rotates) rest[4] = rest[5] = "_";
    size_t n = 0;
#define ADD(...) n += (size_t)snprintf(text + n, sizeof text - n, __VA_ARGS__)
    ADD("graph g @24\n input %%q: %s[%d, %d, %d]\n", t, d->batch, d->rows, wide * d->head);
    for (int i = 0; i < 2 && !d->packed; i++)
        ADD(" input %s: %s[%d, %d, %d]\n", rest[i], t, d->batch, d->rows, d->kv_heads * d->head);
    for (int i = 2; i < 4 && d->has_past; i++)
        ADD(" input %s: %s[%d, %d, %d, %d]\n", rest[i], t, d->batch, d->kv_heads, d->past, d->head);
    if (d->summed)
        ADD(" input %%m: i64[%d, %d]\n", d->batch, d->total);
    else
        ADD(" input %%n: i32[%d]\n", d->batch);
    if (d->placed) ADD(" input %%p: i64[%d, %d]\n", d->batch, d->rows);
    if (d->biased) ADD(" input %%b: %s[1, %d, %d, %d]\n", t, d->heads, d->rows, d->total);
    if (d->sunk) ADD(" input %%sinks: %s[%d]\n", t, d->heads);
    ADD(" constant %%t: i32[1] {%d}\n constant %%one: i64[1] {1}\n", d->total);
    for (int i = 4; i < 6 && d->rotates; i++)
        ADD(" constant %s: %s[%d, %d] random %d\n", rest[i], t, d->total, d->turned / 2, i);
    if (d->summed)
        ADD(" %%sum = ReduceSum(%%m, %%one) keepdims=0\n %%less = Sub(%%sum, %%one)\n %%n = Cast(%%less) to=6\n");
    ADD(" %%y, %%ky, %%vy = com.microsoft::GroupQueryAttention(%%q, %s, %s, %s, %s, %%n, %%t, %s, %s", rest[0], rest[1],
        rest[2], rest[3], rest[4], rest[5]);
    ADD(", %s, %s, %s) num_heads=%d", d->placed ? "%p" : "_", d->biased ? "%b" : "_", d->sunk ? "%sinks" : "_",
        d->heads);
    ADD(" kv_num_heads=%d do_rotary=%d rotary_interleaved=%d", d->kv_heads, d->rotates, d->interleaved && d->rotates);
    ADD(" local_window_size=%d softcap=%.2f scale=%.2f", d->window, d->cap, d->scale);
    ADD(" causal=%d smooth_softmax=%d\n", d->causal, d->smooth);
    ADD(" output %%y\n output %%ky\n output %%vy\n");
#undef ADD
    assert_true(n < sizeof text);
    return test_graph(text);
}

/* Draws contents of inputs. Integers say how many keys sequences have, and where rows stand. */
static const tw_array **contents(const tw_graph *g, const drawn *d, tw_arena *arena, uint64_t seed) {
    const tw_array **in = test_draw(g, arena, seed);
    for (int i = 0; i < g->n_inputs; i++) {
        const char *name = g->values[g->inputs[i]].name;
        void *data = (void *)in[i]->data;
        for (int64_t at = 0; tw_element_kind(in[i]->type) == TW_KIND_integer && at < tw_array_elements(in[i]); at++) {
            const int64_t b = at / (*name == 'n' ? 1 : *name == 'm' ? d->total : d->rows);
            const int64_t first = d->keys[b] < d->rows ? 0 : d->keys[b] - d->rows;
            const int64_t x = *name == 'n'   ? d->keys[b] - 1
                              : *name == 'm' ? at % d->total < d->keys[b]
                                             : (first + at % d->rows) / 2;
            tw_array_set_integers(in[i]->type, data, at, 1, &x);
        }
    }
    return in;
}

static void compare(const char *what, int seed, const tw_array *want, const tw_array *have, double share) {
    double square = 0;
    const int64_t n = tw_array_elements(want);
    assert_int_equal(n, tw_array_elements(have));
    for (int64_t i = 0; i < n; i++) square += pow(tw_array_real(want, i), 2);
    for (int64_t i = 0; i < n; i++) {
        const double x = tw_array_real(want, i), y = tw_array_real(have, i);
        if (!(fabs(x - y) <= share * (fabs(x) + sqrt(square / (double)n))))
            fail_msg("seed %d, %s: element %d is %g instead of %g", seed, what, (int)i, y, x);
    }
}

static void caches_of_any_length(void **state) {
    (void)state;
    static const char *const names[] = {"y", "keys", "values"};
    int steps = 0;
    for (int seed = 0; seed < CASES; seed++) {
        tw_random r = tw_random_seed((uint64_t)seed);
        const drawn d = draw(&r);
        const double share = d.type == TW_E_f16 ? 1e-2 : 1e-5;
        tw_arena arena = {0};
        tw_diag diag = {0};
        tw_array want[OUTPUTS], have[OUTPUTS];
        tw_graph *g = graph_of(&d), *fused = test_concrete(g, "");
        const tw_array **in = contents(fused, &d, &arena, (uint64_t)seed);
        if (tw_graph_run(g, in, &arena, want, &diag) != TW_OK) fail_msg("seed %d: %s", seed, diag.message);
        if (tw_graph_fuse(fused, NULL, &diag) != TW_OK || tw_graph_resolve(fused, "", &diag) != TW_OK)
            fail_msg("seed %d: %s", seed, diag.message);
        for (int i = 0; i < fused->n_nodes; i++) assert_string_not_equal(fused->nodes[i].op, "GroupQueryAttention");
        if (tw_graph_run(fused, in, &arena, have, &diag) != TW_OK) fail_msg("seed %d: %s", seed, diag.message);
        for (int i = 0; i < OUTPUTS; i++) compare(names[i], seed, &want[i], &have[i], share);
        for (int gpu = 0; gpu < 2; gpu++) {
            const tw_program_options o = {.gpu = gpu, .attention = gpu ? TW_PROGRAM_FUSE_GPU : TW_PROGRAM_FUSE_ALL};
            tw_program *p = NULL;
            if (tw_program_lower(&p, fused, &o, &diag) != TW_OK || run_program(p, in, &arena, have, &diag) != TW_OK)
                fail_msg("seed %d: %s", seed, diag.message);
            for (int i = 0; i < OUTPUTS; i++) compare(names[i], seed, &want[i], &have[i], share);
            for (int i = 0; i < p->n_steps; i++) {
                assert_int_not_equal(p->steps[i].kind, TW_STEP_PLAIN);
                steps += p->steps[i].kind == TW_STEP_ATTENTION && gpu;
            }
            tw_program_free(p);
        }
        tw_graph_free(fused);
        tw_graph_free(g);
        tw_arena_free(&arena);
    }
    assert_true(steps > CASES / 20); /* A GPU's kernel has heads of 32 elements in f16. */
}

/* Counts that no sequence has: those below 0 are a prompt's that is padded behind its end, and those beyond the cache
   are refused by the node. Programs read and write nothing beyond their buffers then. */
static void counts_of_any_kind(void **state) {
    (void)state;
    static const int64_t counts[] = {-1, -100, INT32_MIN, 7, 100, INT32_MAX};
    const drawn d = {.type = TW_E_f32,
                     .batch = 2,
                     .rows = 3,
                     .kv_heads = 1,
                     .heads = 2,
                     .head = 8,
                     .past = 4,
                     .total = 7,
                     .keys = {7, 7},
                     .has_past = true,
                     .rotates = true,
                     .turned = 8,
                     .causal = true,
                     .window = 4};
    tw_graph *g = graph_of(&d), *fused = test_concrete(g, "");
    tw_diag diag = {0};
    if (tw_graph_fuse(fused, NULL, &diag) != TW_OK || tw_graph_resolve(fused, "", &diag) != TW_OK)
        fail_msg("%s", diag.message);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        tw_arena arena = {0};
        tw_array want[OUTPUTS], have[OUTPUTS];
        const tw_array **in = contents(fused, &d, &arena, 1);
        for (int k = 0; k < fused->n_inputs; k++)
            if (in[k]->type == TW_E_i32) tw_array_set_integers(TW_E_i32, (void *)in[k]->data, 1, 1, &counts[i]);
        assert_int_equal(tw_graph_run(g, in, &arena, want, &diag), counts[i] < 0 ? TW_OK : TW_ERR_FORMAT);
        for (int gpu = 0; gpu < 2; gpu++) {
            const tw_program_options o = {.gpu = gpu, .attention = gpu ? TW_PROGRAM_FUSE_GPU : TW_PROGRAM_FUSE_ALL};
            tw_program *p = NULL;
            if (tw_program_lower(&p, fused, &o, &diag) != TW_OK || run_program(p, in, &arena, have, &diag) != TW_OK)
                fail_msg("%s", diag.message);
            for (int k = 0; k < OUTPUTS && counts[i] < 0; k++) compare("padded", (int)i, &want[k], &have[k], 1e-5);
            tw_program_free(p);
        }
        tw_arena_free(&arena);
    }
    tw_graph_free(fused);
    tw_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_of_any_length),
        cmocka_unit_test(counts_of_any_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
