/* SPDX-License-Identifier: Apache-2.0 */
/* Warpgroups' products and tensor copies: every width and order, printed and assembled for the one target that has
 * them. */
#define _GNU_SOURCE
#include "ir/builder.h"
#include "ir/verify.h"
#include "ptx/assemble.h"
#include "ptx/load.h"
#include "ptx/ptx.h"
#include "ptx/ptxas.h"
#include "support/support.h"

#include <string.h>

/* Whether integers have products of so many columns. */
static bool has_columns(const tw_wgmma_info *m, int columns) {
    return m->d != TW_T_i32 || columns % 16 == 0 || columns <= 24;
}

/* Products of every width, of all orders of A and B that there are, with and without what was there, and with A in
 * registers. */
static tw_kernel *products(int target, int kind) {
    const tw_wgmma_info *m = tw_wgmma_describe((tw_wgmma_kind)kind);
    tw_kernel *k = tw_kernel_new("products", target, 128);
    tw_builder b = tw_builder_of(k);
    tw_val out = tw_pointer_add(&b, "out", 4, false), x = tw_parameter_add(&b, "x", TW_T_i64);
    tw_val y = tw_parameter_add(&b, "y", TW_T_i64), n = tw_parameter_add(&b, "n", TW_T_i32);
    tw_val acc[TW_WGMMA_COLUMNS / 2], some = tw_lt(&b, n, tw_i32(&b, 5)), a[4];
    const int sums = tw_wgmma_registers((tw_wgmma_kind)kind, TW_WGMMA_COLUMNS);
    for (int i = 0; i < sums; i++) acc[i] = tw_var_of(&b, tw_zero(&b, m->d));
    for (int i = 0; i < 4; i++) a[i] = tw_var_of(&b, tw_add_imm(&b, n, i));
    for (int columns = 8; columns <= TW_WGMMA_COLUMNS; columns += 8) {
        tw_attrs at = {.wgmma = kind, .columns = columns};
        if (!has_columns(m, columns)) continue;
        if (m->k == 16) at.trans_a = columns / 8 % 2;
        if (m->k == 16) at.trans_b = columns / 16 % 2;
        tw_do(&b, TW_OP_wgmma_fence, (tw_attrs){0}, TW_NONE, TW_NONE);
        tw_wgmma(&b, at, acc, x, y, columns % 32 ? some : tw_const(&b, TW_T_pred, columns % 64 == 0));
        at.trans_a = 0;
        if (columns % 48 == 0) tw_wgmma_rs(&b, at, acc, a, y, some);
        tw_do(&b, TW_OP_wgmma_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
        tw_do(&b, TW_OP_wgmma_wait, (tw_attrs){.count = columns % 16 ? 1 : 0}, TW_NONE, TW_NONE);
    }
    for (int i = 0; i < sums; i++) tw_st(&b, (tw_attrs){.type = (int32_t)m->d, .offset = 4 * i}, out, &acc[i]);
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
    tw_val half = tw_unary(&b, TW_OP_trunc_i16_i32, n);
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
    assert_int_equal(count(out.data, "wgmma.mma_async.sync.aligned."), n + TW_WGMMA_COLUMNS / 48);
    assert_int_equal(count(out.data, ", {%r"), TW_WGMMA_COLUMNS / 48);
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

/* Which operand is which, and what stands behind them. */
static void every_type_is_spelled(void **state) {
    (void)state;
    static const struct {
        int kind;
        const char *says, *says_rs;
    } types[] = {
        {TW_WGMMA_f16, "m64n8k16.f32.f16.f16 {F}, %d1, %d2, %p1, 1, 1, 0, 0;",
         "m64n8k16.f32.f16.f16 {F}, {A}, %d2, %p1, 1, 1, 0;"},
        {TW_WGMMA_bf16, "m64n8k16.f32.bf16.bf16 {F}, %d1, %d2, %p1, 1, 1, 0, 0;",
         "m64n8k16.f32.bf16.bf16 {F}, {A}, %d2, %p1, 1, 1, 0;"},
        {TW_WGMMA_f16acc, "m64n8k16.f16.f16.f16 {H}, %d1, %d2, %p1, 1, 1, 0, 0;",
         "m64n8k16.f16.f16.f16 {H}, {A}, %d2, %p1, 1, 1, 0;"},
        {TW_WGMMA_tf32, "m64n8k8.f32.tf32.tf32 {F}, %d1, %d2, %p1, 1, 1;",
         "m64n8k8.f32.tf32.tf32 {F}, {A}, %d2, %p1, 1, 1;"},
        {TW_WGMMA_e4m3, "m64n8k32.f32.e4m3.e4m3 {F}, %d1, %d2, %p1, 1, 1;",
         "m64n8k32.f32.e4m3.e4m3 {F}, {A}, %d2, %p1, 1, 1;"},
        {TW_WGMMA_e4m3_e5m2, "m64n8k32.f32.e4m3.e5m2 {F}, %d1, %d2, %p1, 1, 1;",
         "m64n8k32.f32.e4m3.e5m2 {F}, {A}, %d2, %p1, 1, 1;"},
        {TW_WGMMA_e5m2_e4m3, "m64n8k32.f32.e5m2.e4m3 {F}, %d1, %d2, %p1, 1, 1;",
         "m64n8k32.f32.e5m2.e4m3 {F}, {A}, %d2, %p1, 1, 1;"},
        {TW_WGMMA_e5m2, "m64n8k32.f32.e5m2.e5m2 {F}, %d1, %d2, %p1, 1, 1;",
         "m64n8k32.f32.e5m2.e5m2 {F}, {A}, %d2, %p1, 1, 1;"},
        {TW_WGMMA_s8, "m64n8k32.s32.s8.s8 {I}, %d1, %d2, %p1;", "m64n8k32.s32.s8.s8 {I}, {A}, %d2, %p1;"},
        {TW_WGMMA_u8, "m64n8k32.s32.u8.u8 {I}, %d1, %d2, %p1;", "m64n8k32.s32.u8.u8 {I}, {A}, %d2, %p1;"},
    };
    assert_int_equal(sizeof types / sizeof *types, TW_WGMMAS - 1);
    for (int t = 0; t < TW_WGMMAS - 1; t++)
        for (int rs = 0; rs < 2; rs++) {
            const tw_wgmma_info *m = tw_wgmma_describe((tw_wgmma_kind)types[t].kind);
            const tw_attrs at = {.wgmma = types[t].kind, .columns = 8};
            tw_kernel *k = tw_kernel_new("one", 90, 128);
            tw_builder b = tw_builder_of(k);
            tw_val x = tw_parameter_add(&b, "x", TW_T_i64), y = tw_parameter_add(&b, "y", TW_T_i64);
            tw_val n = tw_parameter_add(&b, "n", TW_T_i32), acc[4], a[4], p = tw_lt(&b, n, tw_i32(&b, 5));
            for (int i = 0; i < 4; i++) a[i] = tw_var_of(&b, n);
            for (int i = 0; i < tw_wgmma_registers((tw_wgmma_kind)at.wgmma, 8); i++)
                acc[i] = tw_var_of(&b, tw_zero(&b, m->d));
            if (rs)
                tw_wgmma_rs(&b, at, acc, a, y, p);
            else
                tw_wgmma(&b, at, acc, x, y, p);
            tw_buf out = {0}, want = {0};
            tw_diag d;
            if (tw_ptx_print(&out, k, tw_target_find("sm_90a"), &d) != TW_OK) fail_msg("%s", d.message);
            for (const char *c = rs ? types[t].says_rs : types[t].says; *c; c++)
                tw_buf_str(&want, *c == 'A'   ? "%r2, %r3, %r4, %r5"
                                  : *c == 'F' ? "%f1, %f2, %f3, %f4"
                                  : *c == 'H' ? "%r6, %r7"
                                  : *c == 'I' ? "%r6, %r7, %r8, %r9"
                                              : (char[2]){*c, 0});
            if (!strstr(out.data, want.data)) fail_msg("not %s in %s", want.data, out.data);
            tw_buf_free(&out);
            tw_buf_free(&want);
            tw_kernel_free(k);
        }
}

/* ptxas says when it ignores one. */
static void registers_change_hands(void **state) {
    (void)state;
    const tw_target *t;
    for (int i = 0; (t = tw_target_at(i)); i++) {
        tw_kernel *k = tw_kernel_new("registers", t->sm, 256);
        k->max_registers = 128;
        tw_builder b = tw_builder_of(k);
        const tw_scope roles = tw_push_roles(&b, (const int[]){0, 4, 4, 8}, 2);
        tw_do(&b, TW_OP_setmaxnreg_dec, (tw_attrs){.count = 24}, TW_NONE, TW_NONE);
        tw_next_role(&b, roles);
        tw_do(&b, TW_OP_setmaxnreg_inc, (tw_attrs){.count = 232}, TW_NONE, TW_NONE);
        tw_pop(&b, roles);
        tw_buf out = {0};
        tw_diag d;
        const bool has = t->sm >= 90;
        assert_int_equal(tw_kernel_verify(k, t->sm, &d), has ? TW_OK : TW_ERR_REJECTED);
        assert_int_equal(tw_ptx_print(&out, k, t, &d), has ? TW_OK : TW_ERR_UNSUPPORTED);
        if (has) {
            assert_non_null(strstr(out.data, ".maxnreg 128"));
            assert_non_null(strstr(out.data, "setmaxnreg.dec.sync.aligned.u32 24;"));
            assert_non_null(strstr(out.data, "setmaxnreg.inc.sync.aligned.u32 232;"));
            if (have_ptxas()) assemble(&out, t); /* which has nothing to say of it */
        }
        tw_buf_free(&out);
        tw_kernel_free(k);
    }
}

/* The module's version is the least that has its operations. */
static void a_later_version_is_said_where_it_is_needed(void **state) {
    (void)state;
    static const char *const versions[] = {".version 8.1\n", ".version 8.3\n"};
    for (int later = 0; later < 2; later++) {
        tw_kernel *k = tw_kernel_new("k", 90, 32);
        tw_builder b = tw_builder_of(k);
        const tw_attrs maps = {.proxy = TW_PROXY_tensormap, .order = TW_ORDER_release, .scope = TW_SCOPE_gpu};
        tw_do(&b, TW_OP_fence_proxy, later ? maps : (tw_attrs){.proxy = TW_PROXY_alias}, TW_NONE, TW_NONE);
        for (int i = 0; i < 2; i++) {
            tw_buf out = {0};
            tw_diag d;
            assert_int_equal(tw_ptx_print(&out, k, tw_target_find(i ? "sm_100a" : "sm_90a"), &d), TW_OK);
            assert_true(!strncmp(out.data, i ? ".version 8.8\n" : versions[later], 13));
            tw_buf_free(&out);
        }
        tw_kernel_free(k);
    }
}

static void copies_by_maps(void **state) {
    (void)state;
    only_sm_90a(copies(90), "tensor_", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_of_every_width),
                                       cmocka_unit_test(every_product_is_fenced_committed_and_waited_for),
                                       cmocka_unit_test(every_type_is_spelled),
                                       cmocka_unit_test(registers_change_hands),
                                       cmocka_unit_test(a_later_version_is_said_where_it_is_needed),
                                       cmocka_unit_test(copies_by_maps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
