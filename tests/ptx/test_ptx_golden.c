/* SPDX-License-Identifier: Apache-2.0 */
/* Small kernels whose PTX is written down in tests/ptx/golden; tests/ptx/update.sh rewrites it and shows the
 * difference. */
#define _GNU_SOURCE
#include "ptx/assemble.h"

#include "base/file.h"
#include "ir/builder.h"
#include "ir/verify.h"
#include "ptx/ptx.h"

#include <stdlib.h>

/* y[i] += a x[i] for 32-bit i < n, the grid striding. */
static void axpy(tw_builder *b) {
    tw_val n = tw_parameter_add(b, "n", TW_T_i32), a = tw_parameter_add(b, "a", TW_T_f32);
    tw_val x = tw_pointer_add(b, "x", 16, true), y = tw_pointer_add(b, "y", 16, false);
    tw_attrs f32 = {.type = TW_T_f32}, once = {.type = TW_T_f32, .cache = TW_CACHE_nc};
    tw_val block = tw_sreg(b, TW_SREG_ctaid_x), tid = tw_sreg(b, TW_SREG_tid_x);
    tw_val first = tw_fma(b, block, tw_i32(b, 128), tid);
    const tw_scope loop = tw_push_for(b, first, n, tw_mul_imm(b, tw_sreg(b, TW_SREG_nctaid_x), 128), false);
    tw_val i = loop.i;
    tw_val at = tw_shl(b, tw_widen(b, i), 2), to = tw_add(b, y, at);
    tw_val xi = tw_ld(b, once, tw_add(b, x, at)), yi = tw_ld(b, f32, to), r = tw_fma(b, a, xi, yi);
    tw_st(b, f32, to, &r);
    tw_pop(b, loop);
}

/* The sum of a block's 128 numbers, of which `n` exist, added to *out. */
static void sum(tw_builder *b) {
    tw_val x = tw_pointer_add(b, "x", 4, true), out = tw_pointer_add(b, "out", 4, false);
    tw_val n = tw_parameter_add(b, "n", TW_T_i32), tid = tw_sreg(b, TW_SREG_tid_x), all = tw_i32(b, -1);
    tw_attrs f32 = {.type = TW_T_f32}, shared = {.type = TW_T_f32, .space = TW_SPACE_shared};
    tw_shared_add(b, "part", 16, 16, false);
    tw_val part = tw_shared_base(b, "part");
    tw_val at = tw_add(b, x, tw_shl(b, tw_widen(b, tid), 2));
    tw_when(b, tw_lt(b, tid, n));
    tw_val s = tw_ld(b, f32, at);
    for (int d = 16; d; d /= 2) s = tw_add(b, s, tw_shfl(b, TW_MODE_bfly, s, tw_i32(b, d), all));
    tw_val warp = tw_sreg(b, TW_SREG_warpid);
    const tw_scope branch = tw_push_if(b, tw_eq(b, tw_sreg(b, TW_SREG_laneid), tw_i32(b, 0)));
    tw_st(b, shared, tw_add(b, part, tw_shl(b, warp, 2)), &s);
    tw_pop(b, branch);
    tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_val q[4] = {{0}};
    shared.vec = 4;
    tw_ld_vec(b, shared, part, q);
    tw_val low = tw_add(b, q[0], q[1]), high = tw_add(b, q[2], q[3]), total = tw_add(b, low, high);
    tw_when(b, tw_eq(b, tid, tw_i32(b, 0)));
    tw_red(b, (tw_attrs){.rmw = TW_RMW_add, .type = TW_T_f32, .scope = TW_SCOPE_gpu}, out, &total);
}

/* A warp's 16 x 8 tile of a product, fetched by asynchronous copies two stages ahead. */
static void product(tw_builder *b) {
    tw_val a = tw_pointer_add(b, "a", 16, true), x = tw_pointer_add(b, "b", 16, true);
    tw_val c = tw_pointer_add(b, "c", 16, false), steps = tw_parameter_add(b, "steps", TW_T_i32);
    tw_attrs copy = {.bytes = 16, .cache = TW_CACHE_cg}, none = {0};
    tw_shared_add(b, "tiles", 4096, 128, true);
    tw_val tiles = tw_shared_base(b, "tiles"), lane = tw_shl(b, tw_sreg(b, TW_SREG_laneid), 4);
    tw_val acc[4], fa[4] = {{0}}, fb[2] = {{0}};
    for (int i = 0; i < 4; i++) acc[i] = tw_var_of(b, tw_f32(b, 0));
    a = tw_add(b, a, tw_widen(b, lane));
    x = tw_add(b, x, tw_widen(b, lane));
    tw_cp_async(b, copy, tw_add(b, tiles, lane), a, TW_NONE);
    tw_do(b, TW_OP_cp_async_commit, none, TW_NONE, TW_NONE);
    const tw_scope loop = tw_push_for(b, tw_i32(b, 0), steps, tw_i32(b, 1), true);
    tw_val k = loop.i;
    tw_val stage = tw_add(b, tiles, tw_shl(b, tw_and(b, k, tw_i32(b, 1)), 11));
    tw_val more = tw_lt(b, tw_add_imm(b, k, 1), steps);
    copy.offset = 512;
    tw_val bytes = tw_select(b, more, tw_i32(b, 16), tw_i32(b, 0)), mine = tw_add(b, stage, lane);
    tw_cp_async(b, copy, mine, x, bytes);
    tw_do(b, TW_OP_cp_async_commit, none, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_cp_async_wait, (tw_attrs){.count = 1}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_barrier, none, TW_NONE, TW_NONE);
    tw_ldmatrix(b, 4, false, mine, 0, fa);
    tw_ldmatrix(b, 2, true, mine, 512, fb);
    tw_val ha[4], hb[2];
    for (int i = 0; i < 4; i++) ha[i] = tw_bitcast(b, TW_T_f16x2, fa[i]);
    for (int i = 0; i < 2; i++) hb[i] = tw_bitcast(b, TW_T_f16x2, fb[i]);
    tw_mma(b, TW_MMA_m16n8k16_f16, acc, ha, hb, acc);
    tw_pop(b, loop);
    tw_st(b, (tw_attrs){.type = TW_T_f32, .vec = 4, .cache = TW_CACHE_evict_first}, tw_add(b, c, tw_widen(b, lane)),
          acc);
}

/* A warp that copies and three that read what has landed. */
static void pipeline(tw_builder *b) {
    tw_val from = tw_pointer_add(b, "from", 128, true), to = tw_pointer_add(b, "to", 128, false);
    tw_attrs none = {0}, row = {.type = TW_T_i32, .space = TW_SPACE_shared, .vec = 4};
    tw_shared_add(b, "landed", 8, 8, false);
    tw_shared_add(b, "data", 1536, 128, true);
    tw_val landed = tw_shared_base(b, "landed"), data = tw_shared_base(b, "data");
    tw_val tid = tw_sreg(b, TW_SREG_tid_x), first = tw_eq(b, tid, tw_i32(b, 0)), v[4] = {{0}};
    tw_when(b, first);
    tw_do(b, TW_OP_mbarrier_init, none, landed, tw_i32(b, 1));
    tw_do(b, TW_OP_fence_mbarrier_init, none, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_barrier, none, TW_NONE, TW_NONE);
    const tw_scope roles = tw_push_roles(b, (const int[]){0, 1, 1, 4}, 2);
    tw_when(b, first);
    tw_do(b, TW_OP_mbarrier_expect, none, landed, tw_i32(b, 1536));
    tw_val policy = tw_get(b, TW_OP_policy, (tw_attrs){.cache = TW_CACHE_evict_first}, TW_T_i64, TW_NONE, TW_NONE);
    tw_when(b, first);
    tw_emit(b, TW_OP_bulk_load, none, NULL, NULL, 0, (tw_val[]){data, from, tw_i32(b, 1536), landed, policy}, 5);
    tw_next_role(b, roles);
    tw_do(b, TW_OP_mbarrier_wait, none, landed, tw_i32(b, 0));
    tw_val at = tw_add_imm(b, tw_shl(b, tid, 4), -512);
    tw_ld_vec(b, row, tw_add(b, data, at), v);
    row.space = TW_SPACE_global;
    row.cache = TW_CACHE_no_allocate;
    tw_st(b, row, tw_add(b, to, tw_widen(b, at)), v);
    tw_pop(b, roles);
}

/* Waits for a turn, counts, and lets the next one go. */
static void turns(tw_builder *b) {
    tw_val turn = tw_pointer_add(b, "turn", 4, false), count = tw_pointer_add(b, "count", 8, false);
    tw_val mine = tw_sreg(b, TW_SREG_ctaid_x), one = tw_i64(b, 1), next = tw_add_imm(b, mine, 1);
    tw_attrs i64 = {.type = TW_T_i64};
    const tw_scope branch = tw_push_if(b, tw_eq(b, tw_sreg(b, TW_SREG_tid_x), tw_i32(b, 0)));
    const tw_scope poll = tw_push_while(b);
    tw_attrs acquire = {.type = TW_T_i32, .order = TW_ORDER_acquire, .scope = TW_SCOPE_gpu};
    tw_push_while_body(b, poll, tw_ne(b, tw_ld(b, acquire, turn), mine));
    tw_do(b, TW_OP_nanosleep, (tw_attrs){0}, tw_i32(b, 40), TW_NONE);
    tw_pop(b, poll);
    tw_val sum = tw_add(b, tw_ld(b, i64, count), one);
    tw_st(b, i64, count, &sum);
    tw_st(b, (tw_attrs){.type = TW_T_i32, .order = TW_ORDER_release, .scope = TW_SCOPE_gpu}, turn, &next);
    tw_push_else(b, branch);
    tw_record_begin(b, "idle", TW_ENGINE_OF_none);
    tw_do(b, TW_OP_nanosleep, (tw_attrs){0}, tw_i32(b, 100), TW_NONE);
    tw_record_end(b, "idle");
    tw_pop(b, branch);
}

static void compare(const char *name, const tw_buf *now) {
    char path[512];
    tw_buf then = {0};
    tw_diag d;
    snprintf(path, sizeof path, TW_SOURCE_DIR "/tests/ptx/golden/%s.ptx", name);
    if (getenv("TILEWRIGHT_GOLDEN")) {
        assert_int_equal(tw_file_write(path, now->data, now->size, &d), TW_OK);
        return;
    }
    assert_int_equal(tw_file_read(&then, path, &d), TW_OK);
    tw_buf_add(&then, "", 1);
    int line = 1;
    size_t i = 0;
    for (; now->data[i] && now->data[i] == then.data[i]; i++) line += now->data[i] == '\n';
    if (now->data[i] != then.data[i]) fail_msg("%s:%d: not what is printed now (tests/ptx/update.sh)", path, line);
    tw_buf_free(&then);
}

static void golden(const char *name, const char *target, void (*build)(tw_builder *b)) {
    const tw_target *t = tw_target_find(target);
    tw_kernel *k = tw_kernel_new(name, t->sm, 128);
    tw_builder b = tw_builder_of(k);
    tw_buf out = {0};
    tw_diag d;
    k->min_blocks = 4;
    build(&b);
    if (tw_kernel_verify(k, t->sm, &d) != TW_OK) fail_msg("%s: %s", name, d.message);
    assert_int_equal(tw_ptx_print(&out, k, t, &d), TW_OK);
    compare(name, &out);
    if (have_ptxas()) assemble(&out, t);
    tw_buf_free(&out);
    tw_kernel_free(k);
}

static void are_printed_as_written_down(void **state) {
    (void)state;
    golden("axpy", "sm_80", axpy);
    golden("sum", "sm_89", sum);
    golden("product", "sm_80", product);
    golden("pipeline", "sm_90a", pipeline);
    golden("turns", "sm_120a", turns);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(are_printed_as_written_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
