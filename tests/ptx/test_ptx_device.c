/* SPDX-License-Identifier: Apache-2.0 */
/* On a GPU, where there is one: every scalar operation computes what ops.def says it does. */
#include "support/support.h"

#include "base/random.h"
#include "ir/builder.h"
#include "ir/value.h"
#include "ptx/load.h"
#include "ptx/ptx.h"

#include <float.h>
#include <stdlib.h>

enum { THREADS = 256, N = 16 * THREADS };

static tw_cuda *device(void) {
    tw_cuda *c;
    tw_diag d;
    int n;
    if (tw_cuda_count(&n, &d) != TW_OK || n == 0) return NULL;
    if (tw_cuda_open(&c, 0, &d) != TW_OK) fail_msg("%s", d.message);
    return c;
}

static void good(tw_status st, const tw_diag *d) {
    if (st != TW_OK) fail_msg("%s", d->message);
}

/* -- the kernel: operands are low bytes of 64-bit words, in[operand][i], and so are results, out[operation][i] */

static tw_val operand(tw_builder *b, tw_type t, tw_val at, int which) {
    bool pred = t == TW_T_pred;
    tw_val v = tw_ld(b, (tw_attrs){.type = pred ? TW_T_i32 : t, .offset = which * N * 8}, at);
    return pred ? tw_ne(b, tw_and(b, v, tw_i32(b, 1)), tw_i32(b, 0)) : v;
}

static tw_kernel *scalar_operations(int sm) {
    tw_kernel *k = tw_kernel_new("scalar", sm, THREADS);
    tw_builder b = tw_builder_of(k);
    tw_val in = tw_pointer_add(&b, "in", 8, true), out = tw_pointer_add(&b, "out", 8, false);
    tw_val i = tw_fma(&b, tw_sreg(&b, TW_SREG_ctaid_x), tw_i32(&b, THREADS), tw_sreg(&b, TW_SREG_tid_x));
    tw_val byte = tw_shl(&b, tw_widen(&b, i), 3);
    in = tw_add(&b, in, byte);
    out = tw_add(&b, out, byte);
    for (int c = 0; c < TW_OPCODES; c++) {
        const tw_op_info *info = tw_op_describe((tw_opcode)c);
        tw_val v[3] = {{0}}, d = TW_NONE;
        if (!info->scalar) continue;
        for (int j = 0; j < info->n_operands; j++) v[j] = operand(&b, info->operand[j], in, j);
        tw_emit(&b, (tw_opcode)c, (tw_attrs){0}, &d, &info->result, 1, v, info->n_operands);
        tw_type t = info->result;
        if (t == TW_T_pred) d = tw_select(&b, d, tw_i32(&b, 1), tw_i32(&b, 0)), t = TW_T_i32;
        tw_st(&b, (tw_attrs){.type = t, .offset = c * N * 8}, out, &d);
    }
    return k;
}

/* Words that mean something as integers, as floats of each width, and as neither. */
static uint64_t draw(tw_random *r) {
    static const uint64_t special[] = {0,
                                       1,
                                       31,
                                       32,
                                       63,
                                       64,
                                       0x7fffffff,
                                       0x80000000,
                                       0xffffffff,
                                       0x3f800000,
                                       0xbf800000,
                                       0x7f800000,
                                       0x7fc00000,
                                       0x3c003c00,
                                       0x7c00fc00,
                                       0x03ff0001,
                                       0x3f803f80,
                                       0x4effffff,
                                       0x3ff0000000000000,
                                       0x8000000000000000,
                                       0xffffffffffffffff};
    uint64_t x = tw_random_u64(r);
    switch (tw_random_below(r, 6)) {
    case 0:
        return special[tw_random_below(r, sizeof special / sizeof *special)];
    case 1:
        return x >> tw_random_below(r, 64);
    case 2:
        return tw_write_f32(tw_random_normal(r) * 8);
    case 3:
        return tw_write_f64((double)tw_random_normal(r));
    case 4: {
        uint32_t low = tw_f32_to_f16(tw_random_normal(r)), high = tw_f32_to_bf16(tw_random_normal(r));
        return low | high << 16;
    }
    default:
        return x;
    }
}

/* -- what may differ */

static bool nan_of(tw_type t, uint64_t x) {
    switch (t) {
    case TW_T_f32:
        return isnan(tw_read_f32(x));
    case TW_T_f64:
        return isnan(tw_read_f64(x));
    case TW_T_f16:
        return isnan(tw_f16_to_f32((uint16_t)x));
    case TW_T_bf16:
        return isnan(tw_bf16_to_f32((uint16_t)x));
    default:
        return false;
    }
}

/* Within a thousandth; logarithms near 1 are exact in absolute terms alone. Subnormals are flushed. */
static bool close_f32(tw_opcode code, float x, float want, float got) {
    if (fpclassify(x) == FP_SUBNORMAL || fpclassify(want) == FP_SUBNORMAL) return true;
    if (isinf(want) || isinf(got)) return want == got || (fabsf(want) > FLT_MAX / 2 && fabsf(got) > FLT_MAX / 2);
    float error = fabsf(want - got);
    return error <= 1e-3f * fabsf(want) || (code == TW_OP_log2_f32 && error <= 1e-6f);
}

static bool any_nan(tw_opcode code, const uint64_t *v) {
    const tw_op_info *info = tw_op_describe(code);
    for (int j = 0; j < info->n_operands; j++)
        if (nan_of(info->operand[j], v[j])) return true;
    return false;
}

static bool agree(tw_opcode code, const uint64_t *v, uint64_t want, uint64_t got) {
    const tw_op_info *info = tw_op_describe(code);
    tw_type t = info->result;
    if ((code == TW_OP_div_u32 || code == TW_OP_rem_u32 || code == TW_OP_div_s32 || code == TW_OP_rem_s32) &&
        (!(uint32_t)v[1] || (uint32_t)v[1] == UINT32_MAX))
        return true; /* PTX leaves them open */
    if (want == got || (nan_of(t, want) && nan_of(t, got))) return true;
    if (t == TW_T_f16x2 || t == TW_T_bf16x2) {
        tw_type half = t == TW_T_f16x2 ? TW_T_f16 : TW_T_bf16;
        for (int i = 0; i < 32; i += 16) {
            uint64_t a = want >> i & 0xffff, b = got >> i & 0xffff;
            if (a != b && !(nan_of(half, a) && nan_of(half, b))) return false;
        }
        return true;
    }
    if (info->flags & TW_F_APPROX) return close_f32(code, tw_read_f32(v[0]), tw_read_f32(want), tw_read_f32(got));
    if (code == TW_OP_cvt_tf32_f32) return any_nan(code, v) && nan_of(TW_T_f32, got);
    /* Of zeros of either sign C may take any as the least, and a signalling NaN for a result. */
    if (code == TW_OP_min_f32 || code == TW_OP_max_f32 || code == TW_OP_max_nan_f32 || code == TW_OP_min_f64 ||
        code == TW_OP_max_f64) {
        uint64_t magnitude = t == TW_T_f32 ? 0x7fffffff : INT64_MAX;
        return any_nan(code, v) || (!(want & magnitude) && !(got & magnitude));
    }
    return false;
}

static int disagreements(const uint64_t *in, const uint64_t *out) {
    int bad = 0;
    for (int c = 0; c < TW_OPCODES; c++) {
        const tw_op_info *info = tw_op_describe((tw_opcode)c);
        int shown = 0;
        for (int i = 0; info->scalar && i < N; i++) {
            uint64_t v[3] = {0}, want, got = out[(size_t)c * N + i];
            for (int j = 0; j < info->n_operands; j++) {
                int bits = tw_type_bits(info->operand[j]);
                v[j] = in[j * N + i] & (bits < 64 ? (1ull << bits) - 1 : ~0ull);
            }
            tw_op_evaluate((tw_opcode)c, v[0], v[1], v[2], &want);
            if (agree((tw_opcode)c, v, want, got)) continue;
            if (shown++ < 3)
                print_message("%s %#llx %#llx %#llx: %#llx here, %#llx on the device\n", info->name,
                              (unsigned long long)v[0], (unsigned long long)v[1], (unsigned long long)v[2],
                              (unsigned long long)want, (unsigned long long)got);
            bad++;
        }
    }
    return bad;
}

static void run(tw_cuda *c, uint64_t *in, uint64_t *out, size_t out_bytes) {
    const tw_target *t = tw_cuda_describe(c)->target;
    tw_kernel *k = scalar_operations(t->sm);
    tw_buf ptx = {0};
    tw_cubin cubin = {0};
    tw_cuda_module *m;
    uint64_t to[2];
    tw_diag d;
    good(tw_ptx_print(&ptx, k, t, &d), &d);
    good(tw_ptx_compile(c, ptx.data, ptx.size, false, &cubin, &d), &d);
    good(tw_cuda_load(c, &m, cubin.data, cubin.bytes, "scalar", 0, &d), &d);
    good(tw_cuda_alloc(c, 3 * N * 8, &to[0], &d), &d);
    good(tw_cuda_alloc(c, out_bytes, &to[1], &d), &d);
    good(tw_cuda_upload(c, to[0], in, 3 * N * 8, &d), &d);
    good(tw_cuda_fill(c, to[1], 0, out_bytes / 4, &d), &d);
    tw_cuda_launch l = {.module = m,
                        .grid = {N / THREADS, 1, 1},
                        .threads = THREADS,
                        .arguments = to,
                        .argument_bytes = (int[]){8, 8},
                        .n_arguments = 2};
    good(tw_cuda_run(c, &l, &d), &d);
    good(tw_cuda_sync(c, &d), &d);
    good(tw_cuda_download(c, out, to[1], out_bytes, &d), &d);
    tw_cuda_unload(m);
    tw_cuda_release(c, to[0]);
    tw_cuda_release(c, to[1]);
    tw_cubin_free(&cubin);
    tw_buf_free(&ptx);
    tw_kernel_free(k);
}

static void scalar_operations_mean_what_the_table_says(void **state) {
    (void)state;
    tw_cuda *c = device();
    if (!c) skip();
    tw_random r = tw_random_seed(4);
    size_t out_bytes = (size_t)TW_OPCODES * N * 8;
    uint64_t *in = malloc(3 * N * 8), *out = malloc(out_bytes);
    for (int i = 0; i < 3 * N; i++) in[i] = draw(&r);
    run(c, in, out, out_bytes);
    int bad = disagreements(in, out);
    free(in);
    free(out);
    tw_cuda_close(c);
    if (bad) fail_msg("%d results differ", bad);
}

/* Occupancy as the driver has it, at the kernel's own registers. */
static void occupancy_is_the_drivers(void **state) {
    (void)state;
    tw_cuda *c = device();
    if (!c) skip();
    const tw_target *t = tw_cuda_describe(c)->target;
    tw_diag d;
    for (int limit = 24; limit <= 248; limit += 16) {
        tw_kernel *k = tw_kernel_new("limited", t->sm, 64);
        tw_builder b = tw_builder_of(k);
        tw_val at = tw_pointer_add(&b, "at", 8, false), v[120];
        k->threads = limit <= 64 ? 1024 : 256; /* the most that they allow */
        k->max_registers = limit;
        tw_attrs f64 = {.type = TW_T_f64, .order = TW_ORDER_volatile};
        for (int i = 0; i < limit / 3; i++) f64.offset = 8 * i, v[i] = tw_ld(&b, f64, at);
        for (int i = limit / 3; i-- > 0;) f64.offset = 8 * i, tw_st(&b, f64, at, &v[i]);
        tw_buf ptx = {0};
        tw_cubin cubin = {0};
        tw_cuda_module *m;
        good(tw_ptx_print(&ptx, k, t, &d), &d);
        good(tw_ptx_compile(c, ptx.data, ptx.size, false, &cubin, &d), &d);
        good(tw_cuda_load(c, &m, cubin.data, cubin.bytes, "limited", t->shared_block, &d), &d);
        for (int threads = 32; threads <= k->threads; threads += 32)
            for (int shared = 0; shared <= t->shared_block; shared += 7000) {
                tw_cuda_resources r;
                good(tw_cuda_module_resources(m, threads, shared, &r, &d), &d);
                int mine = tw_target_blocks(t, threads, r.registers, shared + r.shared_bytes);
                if (mine != r.blocks_per_sm)
                    fail_msg("%d threads, %d registers, %d bytes: %d blocks here, %d by the driver", threads,
                             r.registers, shared, mine, r.blocks_per_sm);
            }
        tw_cuda_unload(m);
        tw_cubin_free(&cubin);
        tw_buf_free(&ptx);
        tw_kernel_free(k);
    }
    tw_cuda_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scalar_operations_mean_what_the_table_says),
                                       cmocka_unit_test(occupancy_is_the_drivers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
