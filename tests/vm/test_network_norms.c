/* SPDX-License-Identifier: Apache-2.0 */
/* How products that layer norms are a part of are searched, chosen and settled, on a stand-in for the driver whose
   kernels do nothing. */
#define _GNU_SOURCE
#include "device/fake_cuda.h"
#include "vm/network_stand_in.h"

#include <stdlib.h>
#include <string.h>

/* Four layers of two products and a norm. The first layer reads what no norm was made of, and the last norm is an
   output. So one of the wide products has no norm, and of the others the first has a residual without a norm, and the
   last leaves no sums. */
static const char text[] = "graph \"norms\" @23\n"
                           "  input %x: f16[2, 16, 64]\n"
                           "  constant %u: f16[64, 256] random 7\n"
                           "  constant %v: f16[256, 64] random 8\n"
                           "  constant %g: f16[64] random 9\n"
                           "  constant %b: f16[64] random 10\n"
                           "  %a0 = MatMul(%x, %u)\n"
                           "  %b0 = MatMul(%a0, %v)\n"
                           "  %c0 = Add(%b0, %x)\n"
                           "  %h0 = LayerNormalization(%c0, %g, %b) axis=-1 epsilon=0.25\n"
                           "  %a1 = MatMul(%h0, %u)\n"
                           "  %b1 = MatMul(%a1, %v)\n"
                           "  %c1 = Add(%b1, %h0)\n"
                           "  %h1 = LayerNormalization(%c1, %g, %b) axis=-1 epsilon=0.25\n"
                           "  %a2 = MatMul(%h1, %u)\n"
                           "  %b2 = MatMul(%a2, %v)\n"
                           "  %c2 = Add(%b2, %h1)\n"
                           "  %h2 = LayerNormalization(%c2, %g, %b) axis=-1 epsilon=0.25\n"
                           "  %a3 = MatMul(%h2, %u)\n"
                           "  %b3 = MatMul(%a3, %v)\n"
                           "  %c3 = Add(%b3, %h2)\n"
                           "  %y = LayerNormalization(%c3, %g, %b) axis=-1 epsilon=0.25\n"
                           "  output %y\n";
enum { LAYERS = 4, READERS = 6 /* Of sums: all products of the last three layers. */ };

/* What most of the products have. */
static const char wide[] = "type=f16 m=32 n=256 k=64 sums=1 centred=1 bias=1 eps=0.25",
                  narrow[] = "type=f16 m=32 n=64 k=256 sums=1 centred=1 norm_residual=1 bias=1 residual=1 squares=1 "
                             "means=1 eps=0.25";
/* Tiles of 64 columns and of 32: a row of a narrow product has one sum, or two. */
static const char whole[] = "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=2",
                  half[] = "mma=2 ms=64 ns=32 ml=64 nl=32 u=64 stages=2";

static int open_norms(void **state) {
    (void)state;
    return open_lowered(text, &(tw_program_options){.gpu = true, .norms = true});
}

static void add(const char *problem, const char *configuration, double us) {
    tw_diag diag = {0};
    good(tw_network_plan_add(&m.plan, &(tw_network_choice){"gemm", problem, configuration, us, false}, &diag), &diag);
}

static tw_cuda_network *open_network(const tw_cuda_network_options *o) {
    tw_cuda_network *n;
    tw_diag diag = {0};
    good(tw_cuda_network_open(&n, m.program, m.weights, o, &m.plan, &diag), &diag);
    return n;
}

/* Checks that who reads sums of rows reads as many as there are. Returns how many products read them, and adds up how
   many of a row they read. */
static int readers(const tw_cuda_network *n, int *sums) {
    int count = 0;
    *sums = 0;
    for (int i = 0; i < n->n; i++)
        for (int from = 0; from < i; from++) {
            const tw_network_launch *reader = &n->launches[i], *writer = &n->launches[from];
            if (!tw_network_takes_sums(&n->p->steps[reader->step], &n->p->steps[writer->step])) continue;
            const char *of = strstr(reader->kernel->words, " sums=");
            assert_non_null(of);
            assert_int_equal(atoi(of + strlen(" sums=")), writer->parts);
            *sums += (int)writer->parts;
            count++;
        }
    return count;
}

/* Counts launches whose tiles have so many columns. */
static int count_tiles(const tw_cuda_network *n, const char *columns) {
    int count = 0;
    for (int i = 0; i < n->n; i++) {
        const char *words = n->launches[i].kernel->configuration;
        count += words && strstr(words, columns);
    }
    return count;
}

/* Products of the first and the last layer count as those between them do, with what these have. */
static void layers_are_searched_as_one(void **state) {
    (void)state;
    use(&(tw_cuda_network_options){.by = TW_NETWORK_OWN, .search = true, .measured = 2}, &m.plan);
    assert_int_equal(m.plan.searched, 2);
    int of_wide = 0, of_narrow = 0;
    for (int i = 0; i < m.plan.n; i++) {
        of_wide += !strcmp(m.plan.choices[i].problem, wide);
        of_narrow += !strcmp(m.plan.choices[i].problem, narrow);
    }
    assert_true(of_wide > 0 && of_narrow > 0);
    assert_int_equal(of_wide + of_narrow, m.plan.n);
}

static void all_layers_follow_a_choice(void **state) {
    (void)state;
    int sums;
    add(wide, whole, 10);
    add(narrow, half, 10);
    tw_cuda_network *n = open_network(&(tw_cuda_network_options){0});
    assert_int_equal(count_tiles(n, " nl=64 "), LAYERS);
    assert_int_equal(count_tiles(n, " nl=32 "), LAYERS);
    assert_int_equal(readers(n, &sums), READERS);
    assert_int_equal(sums, 2 * READERS);
    tw_cuda_network_close(n);
}

/* The vendor knows nothing of norms, whatever a plan says. */
static void the_vendor_is_left_out(void **state) {
    (void)state;
    tw_diag diag = {0};
    int sums;
    good(tw_network_plan_add(&m.plan, &(tw_network_choice){"cublaslt", narrow, "1 520 1 0 0 0 4 0 5", 1, true}, &diag),
         &diag);
    tw_cuda_network *n = open_network(&(tw_cuda_network_options){0});
    for (int i = 0; i < n->n; i++)
        if (n->p->steps[n->launches[i].step].of.product.norm) assert_non_null(n->launches[i].kernel);
    assert_int_equal(readers(n, &sums), READERS);
    tw_cuda_network_close(n);
}

/* Entries that no kernel computes are passed over: tiles of no columns, and of operands that change places. */
static void wrong_entries_are_passed_over(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "mma=2 ms=64 ns=0 ml=64 nl=0 u=64 stages=2", "mma=2 ms=64 ns=64 ml=0 nl=64 u=64 stages=2 swap=1",
        "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=2 swap=1", "mma=1 ms=16 ns=16 ml=16 nl=16 u=16 stages=2 vec=16"};
    int sums;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) add(narrow, wrong[i], 1);
    add(narrow, half, 2);
    tw_cuda_network *n = open_network(&(tw_cuda_network_options){0});
    assert_true(count_tiles(n, " nl=32 ") >= LAYERS);
    assert_int_equal(readers(n, &sums), READERS);
    tw_cuda_network_close(n);
}

/* Tiles that leave more sums of a row than there is memory for are not taken. */
static void sums_have_room(void **state) {
    (void)state;
    enum { COLUMNS = 1024 };
    static const char *const tiles[] = {"mma=2 ms=64 ns=16 ml=64 nl=16 u=64 stages=2",
                                        "mma=2 ms=64 ns=32 ml=64 nl=32 u=64 stages=2"};
    tw_cuda_network n = {.gpu = m.gpu, .weights = m.weights, .plan = &m.plan};
    tw_gemm_problem p = {
        .type = TW_GEMM_F16, .m = 64, .n = COLUMNS, .k = 64, .alpha = 1, .epilogue = {.squares = true}};
    tw_network_chosen chosen;
    char words[256];
    tw_diag diag = {0};
    n.info = *tw_cuda_describe(m.gpu->cuda);
    good(tw_gemm_problem_complete(&p, &diag), &diag);
    tw_gemm_problem_print(&p, words, sizeof words);
    for (int i = 0; i < 2; i++) {
        add(words, tiles[i], 1 + i);
        good(tw_network_choose(&n, &p, &p, &chosen, &diag), &diag);
        assert_true(tw_network_parts(&p, &chosen.config) <= tw_program_parts(COLUMNS));
        assert_int_equal(chosen.entry, i ? 2 : 0);
    }
}

/* Microseconds of a launch by its blocks: of a narrow product in halves, and of all else. */
static int half_us;

static int us_of(unsigned grid, unsigned threads, unsigned shared) {
    (void)threads, (void)shared;
    return grid == 2 ? half_us : 1000;
}

/* Settles the tiles of the narrow products, and returns how many of a row's sums are read by all. */
static int settle(int us) {
    const tw_cuda_network_options o = {.by = TW_NETWORK_OWN, .search = true};
    int sums;
    half_us = us;
    fake_cuda_time(us_of);
    tw_network_plan_settle(&m.plan, narrow, -1);
    m.plan.settled = (tw_network_settled){0};
    tw_cuda_network *n = open_network(&o);
    assert_int_equal(m.plan.settled.tried, 1);
    assert_int_equal(readers(n, &sums), READERS);
    for (int i = 0; i < 2; i++) good(tw_network_launch_all(n, NULL), NULL);
    tw_cuda_network_close(n);
    return sums;
}

/* Who reads sums reads those of the tiles that passes settle, and those that there were if others are not taken. */
static void readers_follow_what_is_settled(void **state) {
    (void)state;
    add(wide, whole, 10);
    add(narrow, whole, 10);
    add(narrow, half, 10.5);
    assert_int_equal(settle(1100), READERS);
    assert_int_equal(settle(500), 2 * READERS);
    assert_int_equal(settle(1100), READERS);
}

/* Whatever fails while tiles are tried, as many sums are read as there are. */
static void failures_leave_the_readers(void **state) {
    (void)state;
    static const char *const calls[] = {"cuMemAlloc_v2", "cuStreamBeginCapture_v2", "cuModuleLoadDataEx",
                                        "cuGraphLaunch"};
    const tw_cuda_network_options o = {.by = TW_NETWORK_OWN, .search = true};
    int opened = 0, sums;
    add(wide, whole, 10);
    add(narrow, whole, 10);
    add(narrow, half, 10.5);
    half_us = 500;
    fake_cuda_time(us_of);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        for (int nth = 0; nth < 12; nth++) {
            tw_cuda_network *n;
            tw_network_plan_settle(&m.plan, narrow, -1);
            fake_cuda_fail(calls[c], nth, 2);
            const tw_status st = tw_cuda_network_open(&n, m.program, m.weights, &o, &m.plan, NULL);
            fake_cuda_fail(NULL, 0, 0);
            if (st != TW_OK) continue;
            opened++;
            assert_int_equal(readers(n, &sums), READERS);
            tw_cuda_network_close(n);
        }
    assert_true(opened > 0);
}

/* Three products by hand, of one shape unless a test changes the first. */
typedef struct like {
    tw_step steps[3];
    tw_view in[3][TW_PROGRAM_PRODUCT_IN], out[3][2];
    tw_program_buffer buffers[4];
    tw_program program;
} like;

static like *alike(void) {
    static like l;
    const tw_program_product p = {.type = TW_E_f16,
                                  .out = TW_E_f16,
                                  .m = 32,
                                  .n = 64,
                                  .k = 64,
                                  .lda = 64,
                                  .ldb = 64,
                                  .ldc = 64,
                                  .batch = {1, 1, 1},
                                  .alpha = 1,
                                  .norm = TW_PROGRAM_NORM_LAYER,
                                  .eps = 0.5,
                                  .moments = true};
    memset(&l, 0, sizeof l);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < TW_PROGRAM_PRODUCT_IN; k++) l.in[i][k].buffer = -1;
        for (int k = 0; k < 2; k++) l.in[i][k] = tw_view_dense(k, TW_E_f16, 2, (int64_t[]){64, 64});
        l.in[i][TW_PROGRAM_SUMS_IN].buffer = l.in[i][4].buffer = 2;
        l.steps[i] = (tw_step){.kind = TW_STEP_PRODUCT, .of.product = p, .in = l.in[i], .out = l.out[i]};
        l.steps[i].n_in = TW_PROGRAM_PRODUCT_IN;
        l.steps[i].n_out = 2;
    }
    l.program.steps = l.steps;
    l.program.n_steps = 3;
    l.program.buffers = l.buffers;
    l.program.n_buffers = 4;
    return &l;
}

/* Tells whether the first and the second product are searched as one: as the second one. */
static bool is_one(const like *l) {
    const tw_cuda_network n = {.p = &l->program};
    char words[2][256];
    tw_diag diag = {0};
    for (int i = 0; i < 2; i++) {
        tw_gemm_problem p;
        good(tw_network_searched(&n, &l->steps[i], &p, &diag), &diag);
        tw_gemm_problem_print(&p, words[i], sizeof *words);
    }
    return !strcmp(words[0], words[1]);
}

/* Two products decide for a third one, which differs in what is done to C or in a norm. */
static void most_decide_what_is_done_to_c(void **state) {
    (void)state;
    for (int i = 0; i < 7; i++) {
        like *l = alike();
        tw_step *s = &l->steps[0];
        assert_true(is_one(l));
        if (i == 0) s->n_out = 1;
        if (i == 1) s->of.product.moments = false;
        if (i == 2) s->of.product.norm = TW_PROGRAM_NORM_RMS;
        if (i == 3) s->of.product.norm_residual = true;
        if (i == 4) s->of.product.eps = 0.25;
        if (i == 5) l->in[0][2].buffer = 3;
        if (i == 6) l->in[0][3].buffer = 3;
        assert_true(is_one(l));
        /* Of one of either the first decides. */
        l->program.n_steps = 2;
        assert_true(is_one(l));
        tw_gemm_problem p, own;
        const tw_cuda_network n = {.p = &l->program};
        good(tw_network_searched(&n, &l->steps[1], &p, NULL), NULL);
        good(tw_network_problem(&n, &l->steps[0], &own, NULL), NULL);
        assert_true(p.epilogue.squares == own.epilogue.squares && p.epilogue.means == own.epilogue.means &&
                    p.centred == own.centred && p.norm_residual == own.norm_residual && p.eps == own.eps &&
                    p.epilogue.bias == own.epilogue.bias && p.epilogue.mul == own.epilogue.mul);
    }
}

/* Products of other matrices are no such products. */
static void other_matrices_are_apart(void **state) {
    (void)state;
    for (int i = 0; i < 12; i++) {
        like *l = alike();
        tw_program_product *p = &l->steps[0].of.product;
        if (i == 0) p->m = 16;
        if (i == 1) p->n = 32;
        if (i == 2) p->k = 32;
        if (i == 3) p->trans_a = true;
        if (i == 4) p->trans_b = true;
        if (i == 5) p->lda = 72;
        if (i == 6) p->ldb = 72;
        if (i == 7) p->ldc = 72;
        if (i == 8) p->alpha = 2;
        if (i == 9) p->activation = TW_GEMM_SILU;
        if (i == 10) p->type = p->out = TW_E_bf16;
        if (i == 11) p->out = TW_E_f32;
        assert_false(is_one(l));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(layers_are_searched_as_one, open_norms, close_all),
        cmocka_unit_test_setup_teardown(all_layers_follow_a_choice, open_norms, close_all),
        cmocka_unit_test_setup_teardown(the_vendor_is_left_out, open_norms, close_all),
        cmocka_unit_test_setup_teardown(wrong_entries_are_passed_over, open_norms, close_all),
        cmocka_unit_test(most_decide_what_is_done_to_c),
        cmocka_unit_test(other_matrices_are_apart),
        cmocka_unit_test_setup_teardown(sums_have_room, open_norms, close_all),
        cmocka_unit_test_setup_teardown(readers_follow_what_is_settled, open_norms, close_all),
        cmocka_unit_test_setup_teardown(failures_leave_the_readers, open_norms, close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
