/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of graphs in the emulator of a GPU, compared with graphs that are run plainly. */
#include "base/diag.h"
#include "graph/build.h"
#include "graph/onnx/onnx.h"
#include "graph/passes/passes.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "support/support.h"
#include "vm/network_emulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void maps_run(void **state) {
    (void)state;
    tw_graph *g = tw_graph_new();
    const int x = tw_graph_input(g, "x", TW_E_f32, 3, DIMS(2, 3, 8)), y = tw_graph_input(g, "y", TW_E_f16, 1, DIMS(8));
    const int z = tw_graph_op(g, "Cast", TW_OPERANDS(y), TW_ATTRIBUTES(TW_INT("to", 1)));
    const int a = tw_graph_op(g, "Add", TW_OPERANDS(x, z), TW_NO_ATTRIBUTES);
    tw_graph_output(g, tw_graph_op(g, "Erf", TW_OPERANDS(a), TW_NO_ATTRIBUTES), "out");
    network_check_random(g, NULL, &(tw_program_options){.gpu = true}, 1e-4, TW_E_none, false);
}

/* A layer of a transformer in 16 bits. */
static void products_and_attention_run(void **state) {
    (void)state;
    tw_graph *g = tw_graph_new();
    enum { S = 40, DIM = 64, HEADS = 2 };
    const int x = tw_graph_input(g, "x", TW_E_f16, 3, DIMS(2, S, DIM));
    int parts[3];
    for (int i = 0; i < 3; i++)
        parts[i] =
            tw_graph_op(g, "MatMul", TW_OPERANDS(x, network_constant(g, TW_E_f16, 2, DIMS(DIM, DIM), (uint64_t)i)),
                        TW_NO_ATTRIBUTES);
    const int a = tw_graph_op(g, "Attention", TW_OPERANDS(parts[0], parts[1], parts[2]),
                              TW_ATTRIBUTES(TW_INT("q_num_heads", HEADS), TW_INT("kv_num_heads", HEADS)));
    const int y =
        tw_graph_op(g, "MatMul", TW_OPERANDS(a, network_constant(g, TW_E_f16, 2, DIMS(DIM, DIM), 9)), TW_NO_ATTRIBUTES);
    tw_graph_output(g, tw_graph_op(g, "Add", TW_OPERANDS(y, x), TW_NO_ATTRIBUTES), "out");
    network_check_random(g, NULL, &(tw_program_options){.gpu = true}, 1e-2, TW_E_none, false);
}

static int scaled(tw_graph *g, int x, double by) {
    return tw_graph_op(g, "Mul", TW_OPERANDS(x, tw_graph_real(g, by)), TW_NO_ATTRIBUTES);
}

static int linear(tw_graph *g, int x, int64_t in, int64_t out, uint64_t seed) {
    const int w = scaled(g, network_constant(g, TW_E_f32, 2, DIMS(in, out), seed), 0.2);
    return tw_graph_op(g, "MatMul", TW_OPERANDS(x, w), TW_NO_ATTRIBUTES);
}

static int rotated(tw_graph *g, int x, int cosine, int sine, int places, int64_t heads) {
    return tw_graph_op(g, "RotaryEmbedding", TW_OPERANDS(x, cosine, sine, places),
                       TW_ATTRIBUTES(TW_INT("num_heads", heads)));
}

/* A layer with heads of HEAD elements that are rotated, several to a key, and a mask. */
static tw_graph *llama(bool mask, int64_t HEAD) {
    enum { S = 21, HEADS = 4, KV = 2, DIM = 128 };
    tw_graph *g = tw_graph_new();
    const int x = tw_graph_input(g, "x", TW_E_f32, 3, DIMS(2, S, DIM));
    const int places = tw_graph_input(g, "places", TW_E_i64, 2, DIMS(2, S));
    const int seen = tw_graph_input(g, "seen", TW_E_i64, 2, DIMS(1, S));
    const int cosine = network_constant(g, TW_E_f32, 2, DIMS(S, HEAD / 2), 5),
              sine = network_constant(g, TW_E_f32, 2, DIMS(S, HEAD / 2), 6);
    const int n = tw_graph_op(g, "RMSNormalization", TW_OPERANDS(x, network_constant(g, TW_E_f32, 1, DIMS(DIM), 7)),
                              TW_NO_ATTRIBUTES);
    const int q = rotated(g, linear(g, n, DIM, HEADS * HEAD, 1), cosine, sine, places, HEADS);
    const int k = rotated(g, linear(g, n, DIM, KV * HEAD, 2), cosine, sine, places, KV);
    const int v = linear(g, n, DIM, KV * HEAD, 3);
    /* Each query sees the first key, and those that are said to be seen. */
    const int first = tw_graph_integers(g, (const int64_t[S]){1}, S);
    const int any =
        tw_graph_op(g, "Cast", TW_OPERANDS(tw_graph_op(g, "Add", TW_OPERANDS(seen, first), TW_NO_ATTRIBUTES)),
                    TW_ATTRIBUTES(TW_INT("to", 9)));
    const int a =
        tw_graph_op(g, "Attention", mask ? (const int[]){q, k, v, any} : (const int[]){q, k, v}, 3 + mask,
                    TW_ATTRIBUTES(TW_INT("q_num_heads", HEADS), TW_INT("kv_num_heads", KV), TW_INT("is_causal", 1)));
    const int y = tw_graph_op(g, "Add", TW_OPERANDS(linear(g, a, HEADS * HEAD, DIM, 4), x), TW_NO_ATTRIBUTES);
    const int gate = linear(g, y, DIM, 64, 8), up = linear(g, y, DIM, 64, 9);
    const int act = tw_graph_op(
        g, "Mul", TW_OPERANDS(gate, tw_graph_op(g, "Sigmoid", TW_OPERANDS(gate), TW_NO_ATTRIBUTES)), TW_NO_ATTRIBUTES);
    tw_graph_output(g, linear(g, tw_graph_op(g, "Mul", TW_OPERANDS(act, up), TW_NO_ATTRIBUTES), 64, 40, 10), "out");
    return g;
}

/* Matrices that come last first, and a product that is stored in another type. */
static void products_of_what_is_turned_round(void **state) {
    (void)state;
    tw_graph *g = tw_graph_new();
    const int x = tw_graph_input(g, "x", TW_E_f32, 3, DIMS(3, 4, 8)),
              w = tw_graph_input(g, "w", TW_E_f32, 3, DIMS(3, 8, 8));
    const int back =
        tw_graph_op(g, "Slice",
                    TW_OPERANDS(x, tw_graph_integers(g, TW_INTEGERS(-1)), tw_graph_integers(g, TW_INTEGERS(-100)),
                                tw_graph_integers(g, TW_INTEGERS(0)), tw_graph_integers(g, TW_INTEGERS(-1))),
                    TW_NO_ATTRIBUTES);
    const int y = tw_graph_op(g, "MatMul", TW_OPERANDS(back, w), TW_NO_ATTRIBUTES);
    tw_graph_output(g, tw_graph_op(g, "Cast", TW_OPERANDS(y), TW_ATTRIBUTES(TW_INT("to", 10))), "out");
    network_check_random(g, NULL, &(tw_program_options){.gpu = true}, 1e-2, TW_E_none, false);
}

/* Heads of several sequences, a product for each, and one of all rows behind them. Both have few tiles and a long k. */
static tw_graph *long_products(int64_t K) {
    enum { S = 16, HEADS = 2, WIDE = 16 };
    static const int64_t order[] = {0, 2, 1, 3};
    static const tw_array list = {.type = TW_E_i64, .rank = 1, .dims = {4}, .data = order};
    const tw_attribute turned = {.name = "perm", .kind = TW_ATTRIBUTE_ARRAY, .array = &list};
    tw_graph *g = tw_graph_new();
    const int x = tw_graph_input(g, "x", TW_E_f32, 3, DIMS(2, S, HEADS * K)),
              y = tw_graph_input(g, "y", TW_E_f32, 3, DIMS(2, K, HEADS * WIDE)),
              z = tw_graph_input(g, "z", TW_E_f32, 4, DIMS(2, HEADS, S, WIDE));
    const int a = tw_graph_op(g, "Reshape", TW_OPERANDS(x, tw_graph_integers(g, TW_INTEGERS(2, S, HEADS, K))),
                              TW_NO_ATTRIBUTES),
              b = tw_graph_op(g, "Reshape", TW_OPERANDS(y, tw_graph_integers(g, TW_INTEGERS(2, K, HEADS, WIDE))),
                              TW_NO_ATTRIBUTES);
    const int c = tw_graph_op(g, "Transpose", TW_OPERANDS(a), TW_ATTRIBUTES(turned)),
              d = tw_graph_op(g, "Transpose", TW_OPERANDS(b), TW_ATTRIBUTES(turned));
    const int product = tw_graph_op(g, "MatMul", TW_OPERANDS(c, d), TW_NO_ATTRIBUTES);
    tw_graph_output(g, tw_graph_op(g, "Add", TW_OPERANDS(product, z), TW_NO_ATTRIBUTES), "heads");
    tw_graph_output(g, linear(g, x, HEADS * K, WIDE, 1), "rows");
    return g;
}

/* Estimates split both products. */
static void batches_are_split(void **state) {
    (void)state;
    enum { K = 768 };
    const tw_program_options o = {.gpu = true};
    const tw_cuda_network_options ways[] = {{0}, {.unsplit_batches = true}, {.unsplit = true}};
    for (int i = 0; i < 3; i += TEST_SANITIZED ? 3 : 1)
        assert_int_equal(network_check_ways(long_products(K), NULL, &o, &ways[i], NULL, 1e-3, TW_E_none, false), 2 - i);
}

/* A plan splits the products of heads. */
static void sets_are_split_by_plans(void **state) {
    (void)state;
    enum { K = 320 };
    static const char *const types[] = {"f16", "bf16"},
                             *const ways[] = {
                                 "mma=2 ms=64 ns=16 ml=64 nl=16 u=64 stages=3 kg=3 vec=16 split=0",
                                 "mma=2 ms=64 ns=16 ml=64 nl=16 u=64 stages=3 kg=2 vec=16 split=3",
                                 "mma=2 ms=64 ns=16 ml=64 nl=16 u=64 stages=3 kg=1 vec=16 persistent=5 stream=1",
                                 "mma=1 ms=16 ns=16 ml=16 nl=32 u=32 stages=3 kg=4 vec=16 split=1"};
    const tw_program_options o = {.gpu = true};
    for (int i = 0; i < 8; i += TEST_SANITIZED ? 3 : 1) {
        tw_network_plan plan = {0};
        char words[256];
        tw_diag diag = {0};
        snprintf(words, sizeof words, "type=%s m=16 n=16 k=%d lda=%d batch=4 sa=%d sets=2 set_a=%d", types[i % 2], K,
                 2 * K, K, 32 * K);
        good(tw_network_plan_add(&plan, &(tw_network_choice){"gemm", words, ways[i / 2], 1, false}, &diag), &diag);
        const double most = i % 2 ? 1e-1 : 1e-2;
        const tw_element to = i % 2 ? TW_E_bf16 : TW_E_f16;
        const tw_cuda_network_options all = {.clear = i % 3 == 0}, single = {.unsplit_batches = true};
        assert_int_equal(network_check_ways(long_products(K), NULL, &o, &all, &plan, most, to, false), 1);
        if (i == 6)
            assert_int_equal(network_check_ways(long_products(K), NULL, &o, &single, &plan, most, to, false), 0);
        tw_network_plan_free(&plan);
    }
}

/* Another program's constants may lie where those of one that was not opened lay. */
static void a_failure_leaves_no_constants(void **state) {
    (void)state;
    tw_diag diag = {0};
    tw_program *p;
    tw_gpu *gpu;
    tw_network_weights *w;
    tw_cuda_network *n;
    tw_graph *g = tw_graph_new();
    const int x = tw_graph_input(g, "x", TW_E_f32, 2, DIMS(4, 8));
    const int y = tw_graph_op(g, "Add", TW_OPERANDS(x, network_constant(g, TW_E_f32, 2, (const int64_t[]){4, 8}, 3)),
                              TW_NO_ATTRIBUTES);
    tw_graph_output(g, tw_graph_op(g, "CumSum", TW_OPERANDS(y, tw_graph_integer(g, 1)), TW_NO_ATTRIBUTES), "out");
    good(tw_graph_resolve(g, "", &diag), &diag);
    tw_graph *c;
    const tw_array in = {.type = TW_E_f32, .rank = 2, .dims = {4, 8}};
    const tw_array *const at[] = {&in};
    good(tw_graph_specialize(&c, g, at, &diag), &diag);
    tw_graph_free(g);
    good(tw_program_lower(&p, c, &(tw_program_options){0}, &diag), &diag);
    good(tw_gpu_open(&gpu, "emulator", &diag), &diag);
    good(tw_network_weights_open(&w, gpu, &diag), &diag);
    assert_int_equal(tw_cuda_network_open(&n, p, w, &(tw_cuda_network_options){0}, NULL, &diag), TW_ERR_UNSUPPORTED);
    assert_int_equal(tw_network_weights_bytes(w), 0);
    tw_network_weights_close(w);
    tw_gpu_close(gpu);
    tw_program_free(p);
    tw_graph_free(c);
}

/* Makes a program that has rows of 3 padded. */
static tw_program *lower_odd(tw_graph **c) {
    tw_diag diag = {0};
    tw_program *p;
    tw_graph *g = tw_graph_new();
    const tw_array in = {.type = TW_E_f32, .rank = 2, .dims = {4, 8}};
    const tw_array *const at[] = {&in};
    const int x = tw_graph_input(g, "x", TW_E_f32, 2, DIMS(4, 8));
    const int w = network_constant(g, TW_E_f32, 2, (const int64_t[]){8, 3}, 3);
    tw_graph_output(g, tw_graph_op(g, "MatMul", TW_OPERANDS(x, w), TW_NO_ATTRIBUTES), "y");
    good(tw_graph_resolve(g, "", &diag), &diag);
    good(tw_graph_specialize(c, g, at, &diag), &diag);
    tw_graph_free(g);
    good(tw_program_lower(&p, *c, &(tw_program_options){.gpu = true}, &diag), &diag);
    return p;
}

/* Where a program was, another has its constants: those of the first are not taken for them. */
static void a_programs_own_constants_go_with_it(void **state) {
    (void)state;
    float x[4 * 8], y[2][4 * 3];
    const void *in[] = {x};
    tw_diag diag = {0};
    tw_gpu *gpu;
    tw_network_weights *w;
    tw_graph *g;
    tw_program *p = lower_odd(&g);
    assert_int_equal(p->made.n, 1);
    for (int i = 0; i < 4 * 8; i++) x[i] = (float)i;
    good(tw_gpu_open(&gpu, "emulator", &diag), &diag);
    good(tw_network_weights_open(&w, gpu, &diag), &diag);
    for (int times = 0; times < 2; times++) {
        void *out[] = {y[times]};
        tw_cuda_network *n;
        float *made = p->made.list[0].data;
        for (int i = 0; i < 8 * 4 && times; i++) made[i] *= 2;
        good(tw_cuda_network_open(&n, p, w, &(tw_cuda_network_options){0}, NULL, &diag), &diag);
        good(tw_cuda_network_run(n, in, out, &diag), &diag);
        tw_cuda_network_close(n);
    }
    for (int i = 0; i < 4 * 3; i++) assert_true(y[0][i] != 0 && y[1][i] == 2 * y[0][i]);
    tw_network_weights_close(w);
    tw_gpu_close(gpu);
    tw_program_free(p);
    tw_graph_free(g);
}

static void rotated_heads_run(void **state) {
    (void)state;
    network_check_random(llama(false, 32), NULL, &(tw_program_options){.gpu = true}, 1e-3, TW_E_none, false);
    network_check_random(llama(false, 32), NULL, &(tw_program_options){.gpu = true}, 3e-2, TW_E_f16, false);
}

/* Keys and values of a cache lie head by head, and are read there: of a Concat, and of Attention's own past. */
static void caches_are_read_where_they_lie(void **state) {
    (void)state;
    for (int own = 0; own < (TEST_SANITIZED ? 1 : 2); own++) {
        tw_graph *g = tw_graph_new();
        const int q = tw_graph_input(g, "q", TW_E_f16, 4, DIMS(2, 4, 3, 32)),
                  k = tw_graph_input(g, "k", TW_E_f16, 4, DIMS(2, 2, 3, 32)),
                  v = tw_graph_input(g, "v", TW_E_f16, 4, DIMS(2, 2, 3, 32)),
                  old_k = tw_graph_input(g, "old_k", TW_E_f16, 4, DIMS(2, 2, 6, 32)),
                  old_v = tw_graph_input(g, "old_v", TW_E_f16, 4, DIMS(2, 2, 6, 32));
        int a;
        if (own) {
            a = tw_graph_op_several(g, "Attention", TW_OPERANDS(q, k, v, -1, old_k, old_v),
                                    TW_ATTRIBUTES(TW_INT("is_causal", 1)), 3);
            tw_graph_output(g, a + 1, "keys");
        } else {
            const int keys = tw_graph_op(g, "Concat", TW_OPERANDS(old_k, k), TW_ATTRIBUTES(TW_INT("axis", 2))),
                      values = tw_graph_op(g, "Concat", TW_OPERANDS(old_v, v), TW_ATTRIBUTES(TW_INT("axis", 2)));
            a = tw_graph_op(g, "Attention", TW_OPERANDS(q, keys, values), TW_NO_ATTRIBUTES);
            tw_graph_output(g, keys, "keys");
        }
        tw_graph_output(g, a, "out");
        network_check_random(g, NULL, &(tw_program_options){.gpu = true}, 1e-2, TW_E_none, false);
    }
}

/* Heads that no kernel has, until they are padded. */
static void padded_heads_run(void **state) {
    (void)state;
    network_check_random(llama(true, 36), NULL, &(tw_program_options){.gpu = true}, 3e-2, TW_E_f16, false);
}

static void masks_run(void **state) {
    (void)state;
    network_check_random(llama(true, 32), NULL, &(tw_program_options){.gpu = true}, 1e-3, TW_E_none, false);
    network_check_random(llama(true, 32), NULL, &(tw_program_options){.gpu = true}, 3e-2, TW_E_f16, false);
    network_check_random(llama(true, 32), NULL, &(tw_program_options){.gpu = true, .attention = TW_PROGRAM_FUSE_NONE},
                         3e-2, TW_E_f16, false);
}

static void an_encoder_runs(void **state) {
    (void)state;
    static const int64_t ids[] = {2, 9};
    static const int64_t *const dims[] = {ids, ids, ids};
    tw_diag diag = {0};
    tw_graph *g = NULL;
    good(tw_onnx_open(&g, TW_SOURCE_DIR "/tests/data/onnx/encoder/model.onnx", &diag), &diag);
    network_check_random(g, dims, &(tw_program_options){.gpu = true}, 1e-3, TW_E_none, false);
}

static void plans_are_kept(void **state) {
    (void)state;
    tw_network_plan p = {0}, q = {0};
    tw_buf text = {0};
    tw_diag diag = {0};
    good(tw_network_plan_add(&p, &(tw_network_choice){"gemm", "type=f16 m=1", "mma=1", 2.5, false}, &diag), &diag);
    good(tw_network_plan_add(&p, &(tw_network_choice){"cublaslt", "type=f16 m=1", "1 2 3", 3, true}, &diag), &diag);
    good(tw_network_plan_write(&p, &text, &diag), &diag);
    good(tw_network_plan_read(&q, text.data, text.size, &diag), &diag);
    assert_int_equal(q.n, 2);
    assert_int_equal(tw_network_plan_find(&q, "type=f16 m=1", 1), 1);
    assert_int_equal(tw_network_plan_find(&q, "type=f16 m=2", 0), -1);
    assert_string_equal(q.choices[0].configuration, "mma=1");
    assert_true(q.choices[1].us == 3);
    assert_true(!q.choices[0].settled && q.choices[1].settled);
    tw_network_plan_settle(&q, "type=f16 m=1", 0);
    assert_true(q.choices[0].settled && !q.choices[1].settled);
    static const char *const none[] = {"gemm\tx\ty\n", "other\tx\ty\t1\n", "gemm\tx\ty\t0\n", "gemm\tx\ty\t1\t2\n"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(tw_network_plan_read(&q, none[i], strlen(none[i]), &diag), TW_ERR_FORMAT);
    tw_buf_free(&text);
    tw_network_plan_free(&p);
    tw_network_plan_free(&q);
}

static void show(const char *path, int64_t batch, int64_t length, const char *type) {
    tw_element to;
    const int64_t dims[2] = {batch, length};
    const int64_t *const all[] = {dims, dims, dims};
    tw_diag diag = {0};
    tw_graph *g = NULL;
    good(tw_onnx_open(&g, path, &diag), &diag);
    const bool narrow = tw_element_from_name(type, &to) && to != TW_E_f32;
    network_check_random(g, all, &(tw_program_options){.gpu = true}, narrow ? 3e-2 : 1e-3, narrow ? to : TW_E_none,
                         true);
}

int main(int argc, char **argv) {
    if (argc > 4) return show(argv[1], atoi(argv[2]), atoi(argv[3]), argv[4]), 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_split),
        cmocka_unit_test(sets_are_split_by_plans),
        cmocka_unit_test(products_of_what_is_turned_round),
        cmocka_unit_test(a_failure_leaves_no_constants),
        cmocka_unit_test(a_programs_own_constants_go_with_it),
        cmocka_unit_test(maps_run),
        cmocka_unit_test(products_and_attention_run),
        cmocka_unit_test(rotated_heads_run),
        cmocka_unit_test(caches_are_read_where_they_lie),
        cmocka_unit_test(padded_heads_run),
        cmocka_unit_test(masks_run),
        cmocka_unit_test(an_encoder_runs),
        cmocka_unit_test(plans_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
