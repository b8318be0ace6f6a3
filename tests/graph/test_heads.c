/* SPDX-License-Identifier: Apache-2.0 */
/* Heads that are padded: the same results, bit by bit, and extents that a kernel has. */
#include "base/diag.h"
#include "graph/passes/passes.h"
#include "support/graphs.h"
#include "support/support.h"

#include <stdio.h>
#include <string.h>

static const tw_graph_pass heads = {"heads", tw_pass_heads, TW_KEEPS_ALL};

/* Runs the pass over a graph, and compares results with those before. Returns the elements of a row of what attention
   gives. *turned: how many elements of a head are rotated, 0 for all. */
static int64_t row_of(const char *text, int64_t *turned) {
    tw_diag diag = {0};
    int64_t row = 0;
    tw_graph *g = test_graph(text), *before = test_concrete(g, ""), *after = test_concrete(g, "");
    if (tw_graph_passes(after, &heads, 1, &diag) != TW_OK) fail_msg("%s", diag.message);
    test_same_on_drawn(before, after, 0);
    for (int i = 0; i < after->n_nodes; i++) {
        const tw_node *n = &after->nodes[i];
        if (!strcmp(n->op, "Attention")) row = after->values[n->out[0]].dims[2];
        if (!strcmp(n->op, "RotaryEmbedding") && turned) *turned = tw_node_integer(n, "rotary_embedding_dim", 0);
    }
    tw_graph_free(g);
    tw_graph_free(before);
    tw_graph_free(after);
    return row;
}

static const char joined[] = "graph g @24\n input %%x: %s[2, 5, 24]\n"
                             " constant %%w: %s[24, %d] random 1\n constant %%b: %s[%d] random 2\n"
                             " constant %%sizes: i64[3] {%d, %d, %d}\n constant %%o: %s[%d, 24] random 3\n"
                             " constant %%c: %s[1, 5, %d] random 4\n constant %%s: %s[1, 5, %d] random 5\n"
                             " %%p = tilewright::Product(%%x, %%w, %%b)\n"
                             " %%q, %%k, %%v = Split(%%p, %%sizes) axis=-1\n"
                             " %%u = RotaryEmbedding(%%q, %%c, %%s) num_heads=4%s\n"
                             " %%t = RotaryEmbedding(%%k, %%c, %%s) num_heads=2%s\n"
                             " %%a = Attention(%%u, %%t, %%v) q_num_heads=4 kv_num_heads=2 is_causal=1%s\n"
                             " %%y = tilewright::Product(%%a, %%o, _, _, %%x)\n output %%y\n%s";

/* A layer whose queries, keys and values are one product, with heads of so many elements. */
static int64_t row_turned(const char *type, int head, const char *turn_q, const char *turn_k, const char *scale,
                          const char *more, int64_t *turned) {
    char text[2000];
    snprintf(text, sizeof text, joined, type, type, 8 * head, type, 8 * head, 4 * head, 2 * head, 2 * head, type,
             4 * head, type, head / 2, type, head / 2, turn_q, turn_k, scale, more);
    return row_of(text, turned);
}

static int64_t joined_row(const char *type, int head, const char *scale, const char *more) {
    return row_turned(type, head, "", "", scale, more, NULL);
}

static void heads_of_one_product(void **state) {
    (void)state;
    assert_int_equal(joined_row("f16", 36, "", ""), 4 * 40);
    assert_int_equal(joined_row("bf16", 50, " scale=0.25", ""), 4 * 56);
}

/* Rotations are of whole heads, zeros included, so that nothing of them is left to copy. */
static void zeros_are_rotated(void **state) {
    (void)state;
    int64_t turned = 0;
    assert_int_equal(row_turned("f16", 36, "", "", "", "", &turned), 4 * 40);
    assert_int_equal(turned, 40);
    assert_int_equal(row_turned("f16", 36, " interleaved=1", " interleaved=1", "", "", &turned), 4 * 40);
    assert_int_equal(turned, 40);
    /* Queries and keys would have their zeros in different places. */
    assert_int_equal(row_turned("f16", 36, "", " interleaved=1", "", "", &turned), 4 * 40);
    assert_int_equal(turned, 36);
}

static void others_stay(void **state) {
    (void)state;
    assert_int_equal(joined_row("f16", 40, "", ""), 4 * 40); /* A kernel has them. */
    assert_int_equal(joined_row("f32", 36, "", ""), 4 * 36); /* No kernel has the type. */
    assert_int_equal(joined_row("f16", 20, "", ""), 4 * 20); /* No kernel has so small ones. */
    /* Somebody else wants to see the heads. */
    assert_int_equal(joined_row("f16", 36, "", " output %a\n"), 4 * 36);
    assert_int_equal(joined_row("f16", 36, "", " output %v\n"), 4 * 36);
    assert_int_equal(joined_row("f16", 36, "", " output %p\n"), 4 * 36);
}

/* Products of their own, stored the other way round. */
static void heads_of_three_products(void **state) {
    (void)state;
    const int64_t row = row_of("graph g @24\n input %x: f16[2, 5, 24]\n input %m: bool[5, 5]\n"
                               " constant %wq: f16[72, 24] random 1\n constant %wk: f16[36, 24] random 2\n"
                               " constant %wv: f16[24, 36] random 3\n constant %bk: f16[36] random 4\n"
                               " constant %o: f16[24, 72] random 5\n"
                               " %q = tilewright::Product(%x, %wq) trans_b=1\n"
                               " %k = tilewright::Product(%x, %wk, %bk) trans_b=1\n"
                               " %v = tilewright::Product(%x, %wv)\n"
                               " %a = Attention(%q, %k, %v, %m) q_num_heads=2 kv_num_heads=1\n"
                               " %y = tilewright::Product(%a, %o) trans_b=1\n output %y\n",
                               NULL);
    assert_int_equal(row, 2 * 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_of_one_product),
        cmocka_unit_test(zeros_are_rotated),
        cmocka_unit_test(others_stay),
        cmocka_unit_test(heads_of_three_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
