/* SPDX-License-Identifier: Apache-2.0 */
/* Rotations of an attention's queries and keys: what lies side by side is rotated by one step, and results stay. */
#include "base/diag.h"
#include "base/random.h"
#include "graph/program/program.h"
#include "graph/run.h"
#include "graph/run_program.h"
#include "kernels/pointwise/map.h"
#include "support/graphs.h"
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 4 /* Inputs. */ };

static void draw(const tw_graph *g, tw_arena *arena, tw_array *in) {
    tw_random r = tw_random_seed(11);
    for (int i = 0; i < g->n_inputs; i++) {
        assert_true(tw_value_array(&g->values[g->inputs[i]], &in[i]));
        const int64_t n = tw_array_elements(&in[i]);
        void *data = tw_arena_alloc(arena, (size_t)tw_array_bytes(&in[i]) + 1);
        for (int64_t e = 0; e < n; e++) {
            const double real = tw_random_normal(&r);
            const int64_t whole = (int64_t)tw_random_below(&r, 9);
            if (tw_element_kind(in[i].type) == TW_KIND_real)
                tw_array_set_reals(in[i].type, data, e, 1, &real);
            else
                tw_array_set_integers(in[i].type, data, e, 1, &whole);
        }
        in[i].data = data;
    }
}

/* Runs a graph and its program. Returns the program's maps. */
static int maps_of(const char *text, bool gpu) {
    tw_diag diag = {0};
    tw_arena arena = {0};
    tw_array in[MOST], want, have;
    const tw_array *at[MOST];
    tw_program *p = NULL;
    tw_graph *g = test_graph(text), *c = test_concrete(g, "");
    const tw_program_options o = {.gpu = gpu, .attention = gpu ? TW_PROGRAM_FUSE_GPU : TW_PROGRAM_FUSE_ALL};
    draw(c, &arena, in);
    for (int i = 0; i < c->n_inputs; i++) at[i] = &in[i];
    if (tw_graph_run(c, at, &arena, &want, &diag) != TW_OK || tw_program_lower(&p, c, &o, &diag) != TW_OK ||
        run_program(p, at, &arena, &have, &diag) != TW_OK)
        fail_msg("%s", diag.message);
    for (int64_t i = 0; i < tw_array_elements(&want); i++)
        if (!(fabs(tw_array_real(&want, i) - tw_array_real(&have, i)) < 8e-3))
            fail_msg("element %lld is %g instead of %g\n%s", (long long)i, tw_array_real(&have, i),
                     tw_array_real(&want, i), text);
    int maps = 0;
    for (int i = 0; p && i < p->n_steps; i++) {
        if (p->steps[i].kind != TW_STEP_MAP) continue;
        const tw_map_problem *m = p->steps[i].of.map;
        for (int d = 0; d + 2 < m->x.rank; d++) /* Rows follow one another as they lie in memory. */
            assert_true(m->out.strides[d] >= m->out.strides[d + 1]);
        maps++;
    }
    tw_program_free(p);
    tw_graph_free(c);
    tw_graph_free(g);
    tw_arena_free(&arena);
    return maps;
}

/* A joined row [queries | keys | values], how it comes apart, and rotations of `q` and `k`. */
#define ROW          "graph g @24\n input %x: f16[2, 5, 256]\n constant %sizes: i64[3] {128, 64, 64}\n"
#define ANGLES(half) " constant %c: f16[1, 5, " half "] random 1\n constant %s: f16[1, 5, " half "] random 2\n"
#define SPLIT        " %q, %k, %v = Split(%x, %sizes) axis=-1\n"
#define TURNS(more)                                                                                                    \
    " %u = RotaryEmbedding(%q, %c, %s) num_heads=4" more "\n %t = RotaryEmbedding(%k, %c, %s) num_heads=2" more "\n"
#define ATTEND " %y = Attention(%u, %t, %v) q_num_heads=4 kv_num_heads=2 is_causal=1\n output %y\n"

static void assert_maps(const char *text, int processor, int gpu) {
    const int on_processor = maps_of(text, false), on_gpu = maps_of(text, true);
    if (on_processor != processor || on_gpu != gpu)
        fail_msg("%d and %d maps instead of %d and %d\n%s", on_processor, on_gpu, processor, gpu, text);
}

static void heads_of_one_row_are_one_step(void **state) {
    (void)state;
    assert_maps(ROW ANGLES("16") SPLIT TURNS("") ATTEND, 1, 1);
    assert_maps(ROW ANGLES("16") SPLIT TURNS(" interleaved=1") ATTEND, 1, 1);
    /* What is not rotated is copied by a map of its own. */
    assert_maps(ROW ANGLES("12") SPLIT TURNS(" rotary_embedding_dim=24") ATTEND, 2, 2);
}

/* Microsoft's packed rows: each part is taken when it is needed. */
static void parts_that_come_late(void **state) {
    (void)state;
    assert_maps("graph g @24\n input %x: f16[2, 5, 256]\n constant %a: i64[1] {0}\n constant %b: i64[1] {128}\n"
                " constant %d: i64[1] {192}\n constant %e: i64[1] {256}\n constant %z: i64[1] {2}\n" ANGLES(
                    "16") " %q = Slice(%x, %a, %b, %z)\n %u = RotaryEmbedding(%q, %c, %s) num_heads=4\n"
                          " %k = Slice(%x, %b, %d, %z)\n %t = RotaryEmbedding(%k, %c, %s) num_heads=2\n"
                          " %v = Slice(%x, %d, %e, %z)\n" ATTEND,
                1, 1);
}

/* Heads before rows. A GPU's attention has values copied into rows. */
static void heads_of_four_dimensions(void **state) {
    (void)state;
    assert_maps("graph g @24\n input %x: f16[2, 8, 5, 32]\n constant %sizes: i64[3] {4, 2, 2}\n" ANGLES(
                    "16") " %q, %k, %v = Split(%x, %sizes) axis=1\n"
                          " %u = RotaryEmbedding(%q, %c, %s)\n %t = RotaryEmbedding(%k, %c, %s)\n"
                          " %y = Attention(%u, %t, %v) is_causal=1\n output %y\n",
                1, 3);
}

/* Angles are gathered by the position of each row. */
#define PLACED                                                                                                         \
    "graph g @24\n input %x: f16[2, 5, 256]\n input %p: i64[2, 5]\n constant %sizes: i64[3] {128, 64, 64}\n"           \
    " constant %c: f16[9, 16] random 1\n constant %s: f16[9, 16] random 2\n" SPLIT

static void angles_by_positions(void **state) {
    (void)state;
    assert_maps(PLACED " %u = RotaryEmbedding(%q, %c, %s, %p) num_heads=4\n"
                       " %t = RotaryEmbedding(%k, %c, %s, %p) num_heads=2\n" ATTEND,
                1, 1);
    assert_maps(PLACED " %u = com.microsoft::RotaryEmbedding(%q, %p, %c, %s) num_heads=4\n"
                       " %t = com.microsoft::RotaryEmbedding(%k, %p, %c, %s) num_heads=2\n" ATTEND,
                1, 1);
}

static void others_are_two_steps(void **state) {
    (void)state;
    /* Other angles. */
    assert_maps(ROW ANGLES("16") " constant %d: f16[1, 5, 16] random 3\n" SPLIT
                                 " %u = RotaryEmbedding(%q, %c, %s) num_heads=4\n"
                                 " %t = RotaryEmbedding(%k, %c, %d) num_heads=2\n" ATTEND,
                2, 2);
    /* Pairs that lie in another way. */
    assert_maps(ROW ANGLES("16") SPLIT " %u = RotaryEmbedding(%q, %c, %s) num_heads=4\n"
                                       " %t = RotaryEmbedding(%k, %c, %s) num_heads=2 interleaved=1\n" ATTEND,
                2, 2);
    /* Somebody else between them. */
    assert_maps("graph g @24\n input %x: f16[2, 5, 256]\n constant %sizes: i64[3] {128, 64, 64}\n" ANGLES(
                    "16") " %q, %v, %k = Split(%x, %sizes) axis=-1\n" TURNS("") ATTEND,
                2, 2);
    /* Rows of their own: a GPU's keys must lie like values, which have no room for queries. */
    assert_maps("graph g @24\n input %x: f16[2, 5, 192]\n input %v: f16[2, 5, 64]\n"
                " constant %sizes: i64[2] {128, 64}\n" ANGLES("16") " %q, %k = Split(%x, %sizes) axis=-1\n" TURNS("")
                    ATTEND,
                1, 2);
    /* Somebody else wants the keys, too. */
    assert_maps(ROW ANGLES("16") SPLIT TURNS("") " %n = Neg(%t)\n"
                                                 " %y = Attention(%u, %t, %n) q_num_heads=4 kv_num_heads=2\n"
                                                 " output %y\n",
                3, 3);
}

/* Rows of one sequence that lie apart, as those of other sequences are between them. Neither keys nor values get room
   for them. */
static void rows_of_sequences_in_turn(void **state) {
    (void)state;
    enum { ROWS = 5 * 64 * 256 * 2 /* Bytes. */ };
    tw_diag diag = {0};
    tw_program *p = NULL;
    tw_graph *g = test_graph("graph g @24\n input %w: f16[5, 64, 256]\n constant %sizes: i64[3] {128, 64, 64}\n" ANGLES(
                 "16") " %x = Transpose(%w) perm={1, 0, 2}\n" SPLIT TURNS("") ATTEND),
             *c = test_concrete(g, "");
    const tw_program_options o = {.gpu = true, .attention = TW_PROGRAM_FUSE_GPU};
    if (tw_program_lower(&p, c, &o, &diag) != TW_OK) fail_msg("%s", diag.message);
    int64_t bytes = 0;
    for (int i = 0; i < p->n_buffers; i++) bytes += p->buffers[i].bytes;
    assert_true(bytes < 4 * ROWS);
    tw_program_free(p);
    tw_graph_free(c);
    tw_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_of_one_row_are_one_step), cmocka_unit_test(parts_that_come_late),
        cmocka_unit_test(heads_of_four_dimensions),      cmocka_unit_test(angles_by_positions),
        cmocka_unit_test(others_are_two_steps),          cmocka_unit_test(rows_of_sequences_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
