/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a cluster that fetch for one another: faults in how they hear of one another, planted in a generated kernel
   whose ring goes round, must be found whatever the interleaving. */
#include "support/support.h"

#include "kernels/gemm/reference.h"

#include <string.h>

enum { SEEDS = 6 };

typedef bool change(tw_ir_op *op);

/* Applies a change to every operation that it takes; returns how many. */
static int change_all(tw_block *b, change *c) {
    int n = 0;
    for (tw_ir_op *op = b->first; op; op = op->next) {
        n += c(op);
        for (int i = 0; i < op->n_blocks; i++) n += change_all(&op->blocks[i], c);
    }
    return n;
}

static bool block_alone_begins(tw_ir_op *op) {
    if (op->code != TW_OP_cluster_sync) return false;
    op->code = TW_OP_barrier;
    return true;
}

static bool own_rank_alone(tw_ir_op *op) {
    if (op->code != TW_OP_tensor_load || !op->at.ranks) return false;
    op->at.ranks = 1;
    return true;
}

static bool arrives_twice(tw_ir_op *op) {
    if (op->code != TW_OP_mbarrier_arrive || op->at.space != TW_SPACE_cluster) return false;
    op->at.count = 2;
    return true;
}

/* As if one block's warps were all. */
static const tw_kernel *changed;
static bool counts_one_block(tw_ir_op *op) {
    uint64_t count;
    if (op->code != TW_OP_mbarrier_init || !tw_value_constant(changed, op->operands[1], &count) || count == 1)
        return false;
    changed->values[op->operands[1].id].bits = count / 2;
    return true;
}

static const struct {
    const char *name;
    change *change;
} faults[] = {
    {"no cluster_sync before the first copy", block_alone_begins},
    {"a part goes to one block alone", own_rank_alone},
    {"a warp arrives twice", arrives_twice},
    {"one block's warps give a stage back for both", counts_one_block},
};

static tw_status run(const tw_gemm_data *d, const tw_gemm_config *c, change *x, uint64_t seed, tw_diag *diag) {
    const tw_target *t = tw_target_find("sm_90a");
    tw_gemm_variant v = tw_gemm_variant_of(&d->problem, c);
    tw_kernel *k = tw_gemm_build(&v, c, t);
    assert_non_null(k);
    changed = k;
    if (x) assert_true(change_all(&k->body, x) > 0);
    tw_status st = tw_gemm_emulate_kernel(d, c, t, k, seed, NULL, diag);
    tw_kernel_free(k);
    return st;
}

static void faults_between_blocks_are_found(void **state) {
    (void)state;
    for (int layout = 0; layout < 4; layout++) {
        tw_gemm_problem p = {.type = TW_GEMM_F16, .m = 128, .n = 48, .k = 400, .alpha = 1};
        p.trans_a = layout & 1;
        p.trans_b = layout >> 1;
        tw_gemm_config c = {.mma = 2,
                            .ms = 64,
                            .ns = 48,
                            .ml = 64,
                            .nl = 48,
                            .u = 64,
                            .ks = 1,
                            .kl = 1,
                            .kg = 1,
                            .vec = 16,
                            .frag = 16,
                            .stages = 2,
                            .group = 2,
                            .multicast = 2};
        tw_gemm_data d;
        tw_diag diag;
        assert_int_equal(tw_gemm_problem_complete(&p, &diag), TW_OK);
        assert_int_equal(tw_gemm_data_make(&d, &p, 1, &diag), TW_OK);
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            if (run(&d, &c, NULL, seed, &diag) != TW_OK) fail_msg("layout %d: %s", layout, diag.message);
            for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
                if (run(&d, &c, faults[i].change, seed, &diag) != TW_ERR_REJECTED)
                    fail_msg("layout %d, seed %d: %s: nothing was found", layout, (int)seed, faults[i].name);
        }
        tw_gemm_data_free(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(faults_between_blocks_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
