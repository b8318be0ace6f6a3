/* SPDX-License-Identifier: Apache-2.0 */
/* Warpgroups' products and tensor copies: every width and order, printed and assembled for the one target that has
 * them. */
#include "ir/builder.h"
#include "ir/verify.h"
#include "ptx/load.h"
#include "ptx/ptx.h"
#include "ptx/ptxas.h"
#include "support/support.h"

#include <string.h>

/* Products of every width, of all four orders of A and B, with and without what was there. */
static tw_kernel *products(int target, int kind) {
    tw_kernel *k = tw_kernel_new("products", target, 128);
    tw_builder b = tw_builder_of(k);
    tw_val out = tw_pointer_add(&b, "out", 4, false), x = tw_parameter_add(&b, "x", TW_T_i64);
    tw_val y = tw_parameter_add(&b, "y", TW_T_i64), n = tw_parameter_add(&b, "n", TW_T_i32);
    tw_val acc[TW_WGMMA_COLUMNS / 2], some = tw_lt(&b, n, tw_i32(&b, 5));
    for (int i = 0; i < TW_WGMMA_COLUMNS / 2; i++) acc[i] = tw_var_of(&b, tw_f32(&b, 0));
    for (int columns = 8; columns <= TW_WGMMA_COLUMNS; columns += 8) {
        tw_attrs at = {.wgmma = kind, .columns = columns, .trans_a = columns / 8 % 2, .trans_b = columns / 16 % 2};
        tw_do(&b, TW_OP_wgmma_fence, (tw_attrs){0}, TW_NONE, TW_NONE);
        tw_wgmma(&b, at, acc, x, y, columns % 32 ? some : tw_const(&b, TW_T_pred, columns % 64 == 0));
        tw_do(&b, TW_OP_wgmma_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
        tw_do(&b, TW_OP_wgmma_wait, (tw_attrs){.count = columns % 16 ? 1 : 0}, TW_NONE, TW_NONE);
    }
    for (int i = 0; i < TW_WGMMA_COLUMNS / 2; i++)
        tw_st(&b, (tw_attrs){.type = TW_T_f32, .offset = 4 * i}, out, &acc[i]);
    return k;
}

static tw_kernel *copies(int target) {
    tw_kernel *k = tw_kernel_new("copies", target, 32);
    k->cluster = 2;
    tw_builder b = tw_builder_of(k);
    tw_val n = tw_parameter_add(&b, "n", TW_T_i32), one = tw_map_add(&b, "one"), two = tw_map_add(&b, "two");
    tw_shared_add(&b, "tile", 8192, 1024, true);
    tw_shared_add(&b, "full", 8, 8, false);
    tw_val tile = tw_shared_base(&b, "tile"), full = tw_shared_base(&b, "full"), p = tw_lt(&b, n, tw_i32(&b, 3));
    tw_val l2 = tw_get(&b, TW_OP_policy, (tw_attrs){.cache = TW_CACHE_evict_first}, TW_T_i64, TW_NONE, TW_NONE);
    tw_do(&b, TW_OP_tensor_prefetch, (tw_attrs){0}, one, TW_NONE);
    tw_tensor_load(&b, 0, tile, one, n, tw_i32(&b, 64), full, TW_NONE);
    tw_when(&b, p);
    tw_tensor_load(&b, 3, tile, two, tw_i32(&b, -3), n, full, l2);
    tw_val half = tw_op_emit(&b, TW_OP_trunc_i16_i32, n, TW_NONE, TW_NONE);
    const tw_box box = {two, {n, n, tw_i32(&b, 1), tw_i32(&b, 2), n}, {half, half, half}};
    for (int dims = 3; dims <= 5; dims++)
        tw_tensor_load_box(&b, (tw_attrs){.ranks = 3, .dims = dims, .im2col = 1}, tile, &box, full,
                           dims == 4 ? l2 : TW_NONE);
    return k;
}

/* With its optimiser, which alone knows the registers of a product; what it has to advise is no failure. */
static void assembles(const tw_buf *ptx, const tw_target *t) {
    char path[4096];
    tw_diag d;
    tw_cubin c;
    if (!tw_ptxas_find("ptxas", path, sizeof path)) return;
    const tw_ptx_compiler by = {.target = t->name, .ptxas = path};
    if (tw_ptx_compile_by(&by, ptx->data, ptx->size, &c, &d) != TW_OK) fail_msg("%s: %s", t->name, d.message);
    tw_cubin_free(&c);
}

static void only_sm_90a(tw_kernel *k, const char *lacking, int least) {
    const tw_target *t;
    tw_diag d;
    for (int i = 0; (t = tw_target_at(i)); i++) {
        tw_buf out = {0};
        const bool has = least == 90 ? t->sm == 90 : t->sm >= 90;
        tw_status st = tw_kernel_verify(k, t->sm, &d);
        if (has != (st == TW_OK)) fail_msg("%s: %s", t->name, st ? d.message : "accepted");
        st = tw_ptx_print(&out, k, t, &d);
        if (has != (st == TW_OK)) fail_msg("%s: %s", t->name, st ? d.message : "printed");
        if (!has) assert_non_null(strstr(d.message, t->sm < 90 && k->cluster ? "cluster" : lacking));
        if (has) assembles(&out, t);
        tw_buf_free(&out);
    }
    tw_kernel_free(k);
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++) n++;
    return n;
}

/* ptxas takes a product without its fence; the device then reads registers that are still written. */
static void every_product_is_fenced_committed_and_waited_for(void **state) {
    (void)state;
    tw_kernel *k = products(90, 1);
    tw_buf out = {0};
    tw_diag d;
    assert_int_equal(tw_ptx_print(&out, k, tw_target_find("sm_90a"), &d), TW_OK);
    const int n = TW_WGMMA_COLUMNS / 8;
    assert_int_equal(count(out.data, "wgmma.fence.sync.aligned;"), n);
    assert_int_equal(count(out.data, "wgmma.mma_async.sync.aligned."), n);
    assert_int_equal(count(out.data, "wgmma.commit_group.sync.aligned;"), n);
    assert_int_equal(count(out.data, "wgmma.wait_group.sync.aligned 1;"), n / 2);
    assert_int_equal(count(out.data, "wgmma.wait_group.sync.aligned 0;"), n / 2);
    assert_true(strstr(out.data, "wgmma.fence") < strstr(out.data, "wgmma.mma_async"));
    tw_buf_free(&out);
    tw_kernel_free(k);
}

static void products_of_every_width(void **state) {
    (void)state;
    for (int kind = 1; kind < TW_WGMMAS; kind++) only_sm_90a(products(90, kind), "wgmma", 90);
}

static void copies_by_maps(void **state) {
    (void)state;
    only_sm_90a(copies(90), "tensor_", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_of_every_width),
                                       cmocka_unit_test(every_product_is_fenced_committed_and_waited_for),
                                       cmocka_unit_test(copies_by_maps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
