/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of doubles, and attention whose mask ends before its keys do, in the emulator of a GPU. */
#include "support/support.h"

#include "vm/network_emulated.h"

/* Keys behind a mask's end are not seen. */
static void masks_end_before_the_keys(void **state) {
    (void)state;
    static const tw_element types[] = {TW_E_f32, TW_E_f16, TW_E_f64};
    for (int i = 0; i < 3 * 2; i++) {
        const tw_element t = types[i / 2];
        tw_graph *g = tw_graph_new();
        const int q = tw_graph_input(g, "q", t, 4, DIMS(2, 4, 3, 16)),
                  k = tw_graph_input(g, "k", t, 4, DIMS(2, 2, 9, 16)),
                  v = tw_graph_input(g, "v", t, 4, DIMS(2, 2, 9, 16)),
                  mask = tw_graph_input(g, "mask", i % 2 ? TW_E_bool : t, 2, DIMS(3, 5));
        tw_graph_output(
            g, tw_graph_op(g, "Attention", TW_OPERANDS(q, k, v, mask), TW_ATTRIBUTES(TW_INT("zero_rows", 1))), "out");
        const double most = t == TW_E_f64 ? 1e-12 : t == TW_E_f32 ? 1e-4 : 1e-2;
        network_check_random(g, NULL, &(tw_program_options){.gpu = true}, most, TW_E_none, false);
    }
}

/* Products with what comes behind them, softmaxes, sums and powers of e, of doubles. */
static void doubles_run(void **state) {
    (void)state;
    tw_graph *g = tw_graph_new();
    const int a = tw_graph_input(g, "a", TW_E_f64, 3, DIMS(2, 5, 7)),
              b = tw_graph_input(g, "b", TW_E_f64, 2, DIMS(7, 6)), c = tw_graph_input(g, "c", TW_E_f64, 2, DIMS(7, 4)),
              bias = tw_graph_input(g, "bias", TW_E_f64, 1, DIMS(4));
    const int y = tw_graph_op(g, "MatMul", TW_OPERANDS(a, b), TW_NO_ATTRIBUTES);
    const int soft = tw_graph_op(g, "Softmax", TW_OPERANDS(y), TW_ATTRIBUTES(TW_INT("axis", 1)));
    const int log = tw_graph_op(g, "LogSoftmax", TW_OPERANDS(soft), TW_NO_ATTRIBUTES);
    tw_graph_output(g, log, "log");
    tw_graph_output(g, tw_graph_op(g, "ReduceLogSumExp", TW_OPERANDS(log), TW_NO_ATTRIBUTES), "sum");
    tw_graph_output(
        g, tw_graph_op(g, "Gemm", TW_OPERANDS(b, c, bias), TW_ATTRIBUTES(TW_INT("transA", 1), TW_REAL("alpha", 0.1))),
        "product");
    network_check_random(g, NULL, &(tw_program_options){.gpu = true}, 1e-12, TW_E_none, false);
}

/* Functions of doubles whose series end late, and softmaxes of what is not in memory. */
static void functions_of_doubles_run(void **state) {
    (void)state;
    tw_graph *g = tw_graph_new();
    const int x = tw_graph_input(g, "x", TW_E_f64, 2, DIMS(9, 40));
    const int half = tw_graph_op(g, "HardSigmoid", TW_OPERANDS(x), TW_ATTRIBUTES(TW_REAL("beta", 0)));
    tw_graph_output(g, tw_graph_op(g, "Sinh", TW_OPERANDS(x), TW_NO_ATTRIBUTES), "sinh");
    tw_graph_output(g, tw_graph_op(g, "Atanh", TW_OPERANDS(half), TW_NO_ATTRIBUTES), "atanh");
    const int hard = tw_graph_op(g, "Hardmax", TW_OPERANDS(x), TW_NO_ATTRIBUTES);
    tw_graph_output(g, tw_graph_op(g, "Softmax", TW_OPERANDS(hard), TW_NO_ATTRIBUTES), "soft");
    /* A softmax of what others want as well. */
    const int twice = tw_graph_op(g, "Add", TW_OPERANDS(x, x), TW_NO_ATTRIBUTES);
    const int share = tw_graph_op(g, "Softmax", TW_OPERANDS(twice), TW_NO_ATTRIBUTES);
    tw_graph_output(g, tw_graph_op(g, "Add", TW_OPERANDS(twice, share), TW_NO_ATTRIBUTES), "sum");
    network_check_random(g, NULL, &(tw_program_options){.gpu = true}, 1e-14, TW_E_none, false);
    g = tw_graph_new();
    const int q = tw_graph_input(g, "q", TW_E_f64, 4, DIMS(2, 4, 3, 5)),
              k = tw_graph_input(g, "k", TW_E_f64, 4, DIMS(2, 2, 6, 5));
    tw_graph_output(g, tw_graph_op(g, "Attention", TW_OPERANDS(q, k, k), TW_ATTRIBUTES(TW_INT("is_causal", 1))), "out");
    network_check_random(g, NULL, &(tw_program_options){.gpu = true}, 1e-12, TW_E_none, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_end_before_the_keys),
        cmocka_unit_test(doubles_run),
        cmocka_unit_test(functions_of_doubles_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
