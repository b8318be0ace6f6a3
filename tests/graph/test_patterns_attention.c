/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of attention, of its masks, and of rotations. */
#include "base/diag.h"
#include "support/patterns.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

/* ---- attention */

#define HEADS         "q 2,2,3,4; k 2,2,3,4; v 2,2,3,4; "
#define DOTS          "MatMul(q, Transpose(k) perm=[0, 1, 3, 2])"
#define MIXED(scores) "MatMul(Softmax(" scores ") axis=-1, v)"

static void attention_is_found_with_all_scales_and_masks(void **state) {
    (void)state;
    static const test_trial t[] = {
        {HEADS, MIXED(DOTS), "Attention", "attention"},
        {HEADS, MIXED("Div(" DOTS ", 2)"), "Attention", "attention"},
        {HEADS, MIXED("Mul(0.5, " DOTS ")"), "Attention", "attention"},
        {HEADS, MIXED("MatMul(Mul(q, 0.7), Mul(Transpose(k) perm=[0, 1, 3, 2], 0.6))"), "Attention", "attention"},
        {HEADS, MIXED("MatMul(Mul(q, 0.7), Transpose(k) perm=[0, 1, 3, 2])"), "Attention", "attention"},
        {HEADS "m 2,1,1,3", MIXED("Add(m, Div(" DOTS ", 2))"), "Attention", "attention"},
        {HEADS "m 2,1,1,3; o 1,2,3,3", MIXED("Add(o, Add(" DOTS ", m))"), "Add Attention", "attention"},
        {HEADS "m 2,1,1,3; s! = 2,1,3,3", MIXED("Add(" DOTS ", Expand(m, s))"), "Attention", "attention's mask"},
        {HEADS "m! hidden 3,3", MIXED("Add(Mul(" DOTS ", 0.5), m)"), "Attention", "attention's mask"},
        {HEADS "m! least 1,1,3,3", MIXED("Add(Mul(" DOTS ", 0.5), m)"), "Attention", "attention's mask"},
        {HEADS "m! visible 1,1,3,3", MIXED("Add(Mul(" DOTS ", 0.5), m)"), "Attention", NULL},
        {HEADS "m! visible 3,3", "Attention(q, k, v, m)", "Attention", "attention's mask"},
        {HEADS "m! nearly 3,3", MIXED("Add(Mul(" DOTS ", 0.5), m)"), "Attention", "attention"},
        {HEADS "b! causal 1,1,3,3", MIXED("Where(b, " DOTS ", -10000)"), "Attention", "attention's mask"},
        {HEADS "b! causal 3,3", MIXED("Where(Not(b), -1000000000, Div(" DOTS ", 2))"), "Attention", "attention's mask"},
        {HEADS "b! causal 3,3; m 2,1,1,3", MIXED("Add(Where(b, " DOTS ", -10000), m)"), "Add Attention", "attention"},
        {HEADS "b bool 2,1,1,3; n! infinite", MIXED("Where(b, " DOTS ", n)"), "Where Attention", "attention"},
        {HEADS "b bool 2,1,1,3; n! infinite", MIXED("Where(Not(b), n, " DOTS ")"), "Not Where Attention", "attention"},
        {HEADS "b bool 2,1,1,3; n! infinite; z! visible; s! = 2,1,3,3; t! true 1,1,3,1",
         MIXED("Add(" DOTS ", Where(Expand(And(b, t), s), z, n))"), "Where Attention", "masks"},
        {HEADS "b bool 2,1,1,3; t! causal 3,3; n! infinite; z! visible", MIXED("Add(" DOTS ", Where(And(t, b), z, n))"),
         "Where Attention", "attention's mask"},
        {HEADS "b bool 2,1,1,3; t! causal 3,3", MIXED("Add(" DOTS ", Where(And(t, b), 0, -1e30))"),
         "And Where Attention", "attention"},
        {HEADS "b bool 2,1,1,3; t! causal 3,3", "Attention(q, k, v, And(t, b))", "Attention", "attention's mask"},
        {HEADS "b bool 2,1,1,3; t! causal 3,3",
         "m=And(t, b); Add(Attention(q, k, v, m) is_causal=0, Attention(k, q, v, m) is_causal=0)",
         "Attention Attention Add", "attention's mask"},
        {HEADS "m 2,3; i! count 2,1,1,3; s! = 6; f! = 2,1,1,3", MIXED("Add(" DOTS ", Gather(Reshape(m, s), i))"),
         "Reshape Attention", "masks"},
        {HEADS "m bool 2,3; i! pairs 2,1,1,3,2; s! = 2,1,3,3; n! infinite; z! visible",
         MIXED("Add(" DOTS ", Where(Not(Expand(GatherND(m, i), s)), n, z))"), "Reshape Not Where Attention", "masks"},
        {HEADS "m i64 2,1,1,3; s! = 2,1,3,3; n! infinite; z! visible",
         MIXED("Add(" DOTS ", Where(Cast(Expand(m, s)) to=9, z, n))"), "Cast Where Attention", "masks"},
        /* Queries that see nothing: guarded, and not. */
        {HEADS "m! blind 3,3", "p=Softmax(Add(" DOTS ", m)) axis=-1; MatMul(Where(IsNaN(p), 0, p), v)", "Attention",
         "attention"},
        {HEADS "m! blind 3,3", MIXED("Add(" DOTS ", m)"), "Attention", "attention"},
        {"q f16 2,2,3,4; k f16 2,2,3,4; v f16 2,2,3,4",
         "MatMul(Cast(Softmax(Cast(Div(" DOTS ", 2)) to=1) axis=-1) to=10, v)", "Attention", "attention"},
        /* Queries that were scaled before they were heads. */
        {"q 2,3,8; k 2,2,3,4; v 2,2,3,4; t! = 2,3,2,4",
         MIXED("MatMul(Transpose(Reshape(Mul(q, 0.3), t)) perm=[0, 2, 1, 3], Transpose(k) perm=[0, 1, 3, 2])"),
         "Reshape Transpose Attention", "attention's scale"},
        {"q 2,3,8; k 2,3,8; v 2,3,8", "Attention(Div(q, 3), k, v) q_num_heads=2 kv_num_heads=2 scale=0.4", "Attention",
         "attention's scale"},
        {"q 2,3,8; k 2,3,8; v 2,3,8", "Attention(Div(q, 3), k, v) q_num_heads=2 kv_num_heads=2", "Div Attention", NULL},
        /* Keys of few heads. */
        {"q 2,4,3,4; k 2,2,3,4; v 2,2,3,4; u! = 2; e! = 2,2,2,3,4; s! = 2,4,3,4",
         "i=Reshape(Expand(Unsqueeze(k, u), e), s); j=Reshape(Expand(Unsqueeze(v, u), e), s); MatMul(Softmax(MatMul(q, "
         "Transpose(i) perm=[0, 1, 3, 2])) axis=-1, j)",
         "Attention", "attention's groups"},
        /* New rows behind those of a cache see them all, and each other. */
        {"q 1,2,2,4; k 1,2,5,4; v 1,2,5,4; m! hidden 2,5", MIXED("Add(" DOTS ", m)"), "Attention", "attention"},
    };
    CHECK_ALL(t);
}

static void heads_may_lie_in_one_dimension_with_batches(void **state) {
    (void)state;
#define HEADS_3     "x 2,2,3,4; y 2,2,5,4; z 2,2,5,4; j! = 4,3,4; i! = 4,5,4; s! = 2,2,3,5; t! = 4,3,5; u! = 2,2,3,4; "
#define DOTS_3      "Mul(MatMul(Reshape(x, j), Transpose(Reshape(y, i)) perm=[0, 2, 1]), 0.3)"
#define MIXED_3(of) "Reshape(MatMul(" of ", Reshape(z, i)), u)"
    static const test_trial t[] = {
        {HEADS_3 "b 4,1,5; m 2,1,3,5", MIXED_3("Reshape(Softmax(Add(Reshape(Add(" DOTS_3 ", b), s), m)) axis=-1, t)"),
         "Reshape Add Attention", "attention"},
        {HEADS_3 "b 4,3,5", MIXED_3("Reshape(Softmax(Reshape(Add(" DOTS_3 ", b), s)) axis=-1, t)"), "Reshape Attention",
         "attention"},
        {HEADS_3 "m 2,1,3,5", MIXED_3("Softmax(Reshape(Add(Reshape(" DOTS_3 ", s), m), t)) axis=-1"), "Attention",
         "attention"},
        /* Others want the scores. */
        {HEADS_3 "m 2,1,3,5", "a=Reshape(" DOTS_3 ", s)@0; " MIXED_3("Softmax(Reshape(Add(a, m), t)) axis=-1"),
         "Reshape Reshape Product Reshape Add Reshape Softmax Reshape Product Reshape", NULL},
    };
    CHECK_ALL(t);
}

static void scores_may_have_a_cap(void **state) {
    (void)state;
    static const test_trial t[] = {
        {HEADS "m 2,1,1,3", MIXED("Add(Mul(Tanh(Div(Div(" DOTS ", 2), 30)), 30), m)"), "Attention", "attention"},
        {HEADS, MIXED("Mul(Tanh(Div(" DOTS ", 3)), 3)"), "Attention", "attention"},
        {HEADS, MIXED("Mul(Tanh(Div(" DOTS ", 3)), 4)"), "Product Mul Softmax Product", NULL},
    };
    CHECK_ALL(t);
}

static void group_query_attention_of_a_prompt_is_attention(void **state) {
    (void)state;
#define GROUPS     "q f32 2,5,16; k f32 2,5,8; v f32 2,5,8; n! length 2; t! total 1; c! cosine 9,2; s! sine 9,2; "
#define NODE(more) " num_heads=4 kv_num_heads=2 " more
    static const test_trial t[] = {
        {GROUPS, "*GroupQueryAttention(q, k, v, _, _, n, t)" NODE(""), "Attention", "attention of a prompt"},
        {GROUPS, "*GroupQueryAttention(q, k, v, _, _, n, t)" NODE("scale=0.3 softcap=5"), "Attention",
         "attention of a prompt"},
        {GROUPS, "*GroupQueryAttention(q, k, v, _, _, n, t, c, s)" NODE("do_rotary=1"),
         "RotaryEmbedding RotaryEmbedding Attention", "attention of a prompt"},
        {GROUPS "p! places 2,5",
         "*GroupQueryAttention(q, k, v, _, _, n, t, c, s, p)" NODE("do_rotary=1 rotary_interleaved=1"),
         "RotaryEmbedding RotaryEmbedding Attention", "attention of a prompt"},
        {"x f32 2,5,32; n! length 2; t! total 1; c! cosine 9,2; s! sine 9,2",
         "*GroupQueryAttention(x, _, _, _, _, n, t, c, s)" NODE("do_rotary=1"),
         "Slice RotaryEmbedding Slice RotaryEmbedding Slice Attention", "attention of a prompt"},
        {GROUPS, "*GroupQueryAttention(q, k, v, _, _, n, t)" NODE("local_window_size=2"), "Attention",
         "attention over a cache"},
        {"q f32 2,1,16; k f32 2,1,8; v f32 2,1,8; n! length 2; t! total 1; a f32 2,2,5,4; b f32 2,2,5,4",
         "*GroupQueryAttention(q, k, v, a, b, n, t)" NODE(""), "Cache Cache Attention", "attention over a cache"},
        {"x f32 2,5,16; p! places 2,5; c! cosine 9,2; s! sine 9,2", "*RotaryEmbedding(x, p, c, s) num_heads=4",
         "RotaryEmbedding", "rotary embedding"},
    };
    CHECK_ALL(t);
}

static void attention_takes_rows_of_heads(void **state) {
    (void)state;
#define ROWS          "x 2,3,8; y 2,3,8; z 2,3,8; s! = 2,3,2,4; t! = 2,3,8; f! = 6,8; "
#define HEAD(x, perm) "Transpose(Reshape(" x ", s)) perm=" perm
#define SPLIT(of_k)                                                                                                    \
    "q=" HEAD("x", "[0, 2, 1, 3]") "; v=" HEAD("z", "[0, 2, 1, 3]") "; a=MatMul(Softmax(MatMul(q, " of_k               \
                                                                    ")) axis=-1, v); "
    static const test_trial t[] = {
        {ROWS, SPLIT(HEAD("y", "[0, 2, 3, 1]")) "Reshape(Transpose(a) perm=[0, 2, 1, 3], t)", "Attention",
         "attention's heads"},
        {ROWS,
         SPLIT(
             "Transpose(" HEAD("y", "[0, 2, 1, 3]") ") perm=[0, 1, 3, 2]") "Reshape(Transpose(a) perm=[0, 2, 1, 3], t)",
         "Attention", "attention's heads"},
        {ROWS, SPLIT(HEAD("y", "[0, 2, 3, 1]")) "Reshape(Transpose(a) perm=[0, 2, 1, 3], f)", "Attention Reshape",
         "attention's heads"},
    };
    CHECK_ALL(t);
}

static void masks_are_not_taken_for_others(void **state) {
    (void)state;
    static const test_trial t[] = {
        /* What is hidden by a bias that is little, or that is not constant, counts where nothing else is seen. */
        {HEADS "b! causal 3,3", MIXED("Where(b, " DOTS ", -10)"), "Transpose MatMul Where Softmax MatMul", NULL},
        {HEADS "b bool 2,1,1,3", MIXED("Where(b, " DOTS ", -10000)"), "Transpose MatMul Where Softmax MatMul", NULL},
        {HEADS, "MatMul(Softmax(" DOTS ") axis=2, v)", "Transpose MatMul Softmax MatMul", NULL},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        test_pattern m = test_pattern_make(t[i].declared, t[i].expression);
        tw_diag diag = {0};
        assert_int_equal(tw_graph_fuse(m.g, NULL, &diag), TW_OK);
        for (int j = 0; j < m.g->n_nodes; j++) assert_string_not_equal(m.g->nodes[j].op, "Attention");
        test_pattern_end(&m);
    }
}

/* Returns an attribute of the first node of its kind. */
static double attribute_of(const char *declared, const char *expression, const char *op, const char *name) {
    test_pattern m = test_pattern_make(declared, expression);
    tw_diag diag = {0};
    double x = NAN;
    assert_int_equal(tw_graph_fuse(m.g, NULL, &diag), TW_OK);
    for (int i = 0; i < m.g->n_nodes; i++)
        if (!strcmp(m.g->nodes[i].op, op) && tw_node_attribute(&m.g->nodes[i], name)) {
            const tw_attribute *a = tw_node_attribute(&m.g->nodes[i], name);
            x = a->kind == TW_ATTRIBUTE_INT ? (double)a->integer : a->real;
        }
    test_pattern_end(&m);
    return x;
}

static void scores_of_another_type_are_attention(void **state) {
    (void)state;
    const char *wide = "MatMul(Softmax(Add(Cast(Mul(" DOTS ", 0.25)) to=1, m)) axis=-1, v)";
    assert_true(attribute_of("c f16 1; q f16 2,2,3,4; k f16 2,2,3,4; v f32 2,2,3,4; m f32 2,1,1,3", wide, "Attention",
                             "scale") == 0.25);
}

static void constant_masks_become_words(void **state) {
    (void)state;
    const char *scores = MIXED("Add(Mul(" DOTS ", 0.5), m)");
    assert_true(attribute_of(HEADS "m! hidden 3,3", scores, "Attention", "is_causal") == 1);
    assert_true(attribute_of(HEADS "m! least 1,1,3,3", scores, "Attention", "is_causal") == 1);
    assert_true(isnan(attribute_of(HEADS "m! nearly 3,3", scores, "Attention", "is_causal")));
    assert_true(isnan(attribute_of(HEADS "m! sloping 3,3", scores, "Attention", "is_causal")));
    assert_true(isnan(attribute_of(HEADS "m! visible 3,3", scores, "Attention", "is_causal")));
    assert_true(attribute_of(HEADS "m! visible 3,3", scores, "Attention", "scale") == 0.5);
    assert_true(
        isnan(attribute_of("q 1,2,2,4; k 1,2,5,4; v 1,2,5,4; m! hidden 2,5", scores, "Attention", "is_causal")));
}

/* ---- rotation */

static void rotations_are_found(void **state) {
    (void)state;
#define HALVES  "o! = 0; h! = 2; w! = 4; l! = -1; "
#define TURN(x) "Add(Mul(" x ", c), Mul(Concat(Neg(Slice(" x ", h, w, l)), Slice(" x ", o, h, l)) axis=-1, s))"
    static const test_trial t[] = {
        {"x 2,2,3,4; c! twice 1,1,3,4; s! twice 1,1,3,4; " HALVES, TURN("x"), "RotaryEmbedding", "rotary embedding"},
        {"x 2,2,3,4; c! twice 3,4; s! twice 3,4; " HALVES, TURN("x"), "RotaryEmbedding", "rotary embedding"},
        {"x 2,2,3,4; c! twice 2,1,3,4; s! twice 2,1,3,4; " HALVES, TURN("x"), "RotaryEmbedding", "rotary embedding"},
        {"x 2,2,3,4; a 2,1,3,2; " HALVES, "b=Concat(a, a) axis=-1; c=Cos(b); s=Mul(Sin(b), 1.5); " TURN("x"),
         "Cos Reshape Sin Mul Reshape RotaryEmbedding", "angles"},
        {"y 2,3,8; c! twice 1,1,3,4; s! twice 1,1,3,4; p! = 2,3,2,4; t! = 2,3,8; " HALVES,
         "x=Transpose(Reshape(y, p)) perm=[0, 2, 1, 3]; r=" TURN("x") "; Reshape(Transpose(r) perm=[0, 2, 1, 3], t)",
         "RotaryEmbedding", "rotary embedding"},
        /* A part of each head alone. */
        {"y 2,3,12; c! twice 1,1,3,4; s! twice 1,1,3,4; p! = 2,3,2,6; e! = 6; " HALVES,
         "z=Transpose(Reshape(y, p)) perm=[0, 2, 1, 3]; x=Slice(z, o, w, l); Concat(" TURN(
             "x") ", Slice(z, w, e, l)) axis=-1",
         "RotaryEmbedding Reshape Transpose", "rotary embedding"},
        /* Keys that are put behind those of a cache stay heads. */
        {"y 2,3,8; b 2,2,5,4; c! twice 1,1,3,4; s! twice 1,1,3,4; p! = 2,3,2,4; " HALVES,
         "x=Transpose(Reshape(y, p)) perm=[0, 2, 1, 3]; Concat(b, " TURN("x") ") axis=2",
         "Reshape Transpose RotaryEmbedding Concat", "attention's past"},
#define EVENS "o! = 0; h! = 1; w! = 4; l! = -1; t! = 2; "
#define SECOND(x)                                                                                                      \
    "Reshape(Concat(Unsqueeze(Neg(Slice(" x ", h, w, l, t)), l), Unsqueeze(Slice(" x ", o, w, l, t), l)) axis=-1, f)"
#define TURN_PAIRS(x) "Add(Mul(" x ", c), Mul(" SECOND(x) ", s))"
        /* Neighbours change places: heads before rows, and rows before heads. */
        {"x 2,2,3,4; c! pair 2,1,3,4; s! pair 2,1,3,4; f! = 2,2,3,4; " EVENS, TURN_PAIRS("x"), "RotaryEmbedding",
         "rotary embedding"},
        {"x 2,3,2,4; c! pair 1,3,1,4; s! pair 1,3,1,4; f! = 2,3,2,4; " EVENS, TURN_PAIRS("x"),
         "Transpose RotaryEmbedding Transpose", "rotary embedding"},
        {"x 2,2,3,4; a 2,1,3,2,1; e! = 2,1,3,2,2; g! = 2,1,3,4; f! = 2,2,3,4; " EVENS,
         "b=Reshape(Expand(a, e), g); c=Cos(b); s=Mul(Sin(b), 1.5); " TURN_PAIRS("x"),
         "Reshape Cos Reshape Sin Mul Reshape RotaryEmbedding", "angles"},
        {"x 2,3,2,4; a 2,3,2; u! = 2,3,1,2,1; e! = 1,1,1,1,2; g! = 2,3,1,4; f! = 2,3,2,4; " EVENS,
         "c=Reshape(Tile(Reshape(a, u), e), g); s=Mul(c, 0.5); " TURN_PAIRS("x"),
         "Transpose Reshape Mul Reshape RotaryEmbedding Transpose", "angles"},
        {"y 2,3,2,6; c! pair 1,3,1,4; s! pair 1,3,1,4; e! = 6; f! = 2,3,2,4; " EVENS,
         "x=Slice(y, o, w, l); Concat(" TURN_PAIRS("x") ", Slice(y, w, e, l)) axis=-1",
         "Transpose RotaryEmbedding Transpose", "rotary embedding"},
        /* Angles of halves, and of other heads. */
        {"x 2,2,3,4; c! twice 1,1,3,4; s! pair 1,1,3,4; f! = 2,2,3,4; " EVENS, TURN_PAIRS("x"),
         "Mul Slice Neg Reshape Slice Reshape Concat Reshape Mul Add", NULL},
        {"x 2,2,3,4; c! pair 1,2,3,4; s! pair 1,2,3,4; f! = 2,2,3,4; " EVENS, TURN_PAIRS("x"),
         "Mul Slice Neg Reshape Slice Reshape Concat Reshape Mul Add", NULL},
        /* Angles that differ in the halves, or between heads. */
        {"x 2,2,3,4; c! 1,1,3,4; s! twice 1,1,3,4; " HALVES, TURN("x"), "Mul Slice Neg Slice Concat Mul Add", NULL},
        {"x 2,2,3,4; c! twice 1,2,3,4; s! twice 1,2,3,4; " HALVES, TURN("x"), "Mul Slice Neg Slice Concat Mul Add",
         NULL},
    };
    CHECK_ALL(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_found_with_all_scales_and_masks),
        cmocka_unit_test(heads_may_lie_in_one_dimension_with_batches),
        cmocka_unit_test(scores_may_have_a_cap),
        cmocka_unit_test(group_query_attention_of_a_prompt_is_attention),
        cmocka_unit_test(attention_takes_rows_of_heads),
        cmocka_unit_test(masks_are_not_taken_for_others),
        cmocka_unit_test(scores_of_another_type_are_attention),
        cmocka_unit_test(constant_masks_become_words),
        cmocka_unit_test(rotations_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
