/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation fails once while a graph's program is dealt out, proved, packed and run, and while its schedule is
   read again. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "graph/build.h"
#include "graph/run.h"
#include "schedule/formats.h"
#include "vm/network/cpu.h"

#include <string.h>

enum { ROWS = 70, DIM = 24 };

static tw_program *make(tw_graph **out) {
    static float weights[DIM * DIM];
    static const tw_array matrix = {.type = TW_E_f32, .rank = 2, .dims = {DIM, DIM}, .data = weights};
    tw_graph *g = tw_graph_new();
    tw_program *p;
    tw_diag d;
    for (int i = 0; i < DIM * DIM; i++) weights[i] = (float)(i % 7 - 3) / 8;
    int x = tw_graph_input(g, "x", TW_E_f32, 2, (const tw_dim[]){ROWS, DIM});
    const int w = tw_graph_constant(g, &matrix);
    for (int i = 0; i < 2; i++) {
        x = tw_graph_op(g, "MatMul", TW_OPERANDS(x, w), TW_NO_ATTRIBUTES);
        x = tw_graph_op(g, "Softmax", TW_OPERANDS(x), TW_NO_ATTRIBUTES);
        x = tw_graph_op(g, "CumSum", TW_OPERANDS(x, tw_graph_integer(g, 1)), TW_NO_ATTRIBUTES);
    }
    tw_graph_output(g, x, "y");
    for (int i = 0; i < g->n_values; i++)
        if (g->values[i].rank < 0 || g->values[i].type == TW_E_none) {
            g->values[i].type = TW_E_f32;
            g->values[i].rank = 2;
            g->values[i].dims[0] = ROWS;
            g->values[i].dims[1] = DIM;
        }
    assert_int_equal(tw_graph_resolve(g, "", &d), TW_OK);
    if (tw_program_lower(&p, g, &(tw_program_options){0}, &d) != TW_OK) fail_msg("%s", d.message);
    *out = g;
    return p;
}

static int open_and_run(void *context) {
    static float x[ROWS * DIM], y[ROWS * DIM];
    tw_cpu_pool *pool = NULL;
    tw_cpu_network *n = NULL;
    tw_diag d;
    tw_status st = tw_cpu_pool_open(&pool, 2, NULL, &d);
    if (st == TW_OK) st = tw_cpu_network_open(&n, context, pool, &d);
    if (st == TW_OK) st = tw_cpu_network_run(n, (const void *[]){x}, (void *[]){y}, &d);
    tw_cpu_network_close(n);
    tw_cpu_pool_close(pool);
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
}

static int read_and_check(void *context) {
    tw_schedule_file *f = NULL;
    tw_report r = {0};
    tw_diag d;
    tw_status st = tw_schedule_file_read(&f, context, TW_SCHEDULE_RANGES, &d);
    if (st == TW_OK) st = tw_schedule_file_check(f, &r, &d);
    tw_report_free(&r);
    tw_schedule_file_free(f);
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
}

static void networks_survive_every_failure(void **state) {
    (void)state;
    tw_graph *g;
    tw_program *p = make(&g);
    alloc_fail_exhaust(open_and_run, p);
    tw_program_free(p);
    tw_graph_free(g);
}

static void files_survive_every_failure(void **state) {
    (void)state;
    char path[] = TW_SOURCE_DIR "/tests/fuzz/corpus/ranges/two-steps.json";
    alloc_fail_exhaust(read_and_check, path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(networks_survive_every_failure),
                                       cmocka_unit_test(files_survive_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
