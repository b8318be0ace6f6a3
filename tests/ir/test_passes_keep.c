/* SPDX-License-Identifier: Apache-2.0 */
/* Passes keep results: random kernels are executed by one lane, before and after. Much simpler than the emulator, and
   sharing nothing with it but what ops.def says of scalar operations; what other lanes do to a value, passes do not
   know either, so a shuffle may give a lane its own. */
#include "support/support.h"

#include "base/random.h"
#include "ir/passes/passes.h"
#include "ir/random_kernel.h"
#include "ir/text.h"
#include "ir/value.h"
#include "ir/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREAD = 5, IN = 1 << 20, OUT = 2 << 20, OUT_BYTES = (THREAD + 1) * RANDOM_OUT_BYTES };

typedef struct lane {
    const tw_kernel *k;
    uint64_t *values;
    uint8_t in[RANDOM_IN_BYTES], out[OUT_BYTES];
    long steps;
} lane;

static uint64_t get(const lane *l, tw_val v) {
    uint64_t c;
    return tw_value_constant(l->k, v, &c) ? c : l->values[v.id];
}

static uint8_t *memory(lane *l, uint64_t address, int bytes, bool write) {
    if (!write && address >= IN && address + (unsigned)bytes <= IN + RANDOM_IN_BYTES) return l->in + (address - IN);
    if (write && address >= OUT && address + (unsigned)bytes <= OUT + OUT_BYTES) return l->out + (address - OUT);
    fail_msg("an access out of bounds: %llx", (unsigned long long)address);
    return NULL;
}

static void access_memory(lane *l, const tw_ir_op *op, bool write) {
    int n = op->at.vec ? op->at.vec : 1, bytes = tw_type_bits((tw_type)op->at.type) / 8;
    uint64_t address = get(l, op->operands[0]) + (uint64_t)(int64_t)op->at.offset;
    for (int i = 0; i < n; i++) {
        uint8_t *at = memory(l, address + (unsigned)(i * bytes), bytes, write);
        uint64_t x = write ? get(l, op->operands[1 + i]) : 0;
        memcpy(write ? (void *)at : (void *)&x, write ? (void *)&x : (void *)at, (size_t)bytes);
        if (!write) l->values[op->results[i].id] = x;
    }
}

static uint64_t special(const lane *l, int sreg) {
    switch (sreg) {
    case TW_SREG_tid_x:
    case TW_SREG_laneid:
        return THREAD;
    case TW_SREG_ntid_x:
        return (uint64_t)l->k->threads;
    case TW_SREG_nctaid_x:
    case TW_SREG_nctaid_y:
    case TW_SREG_nctaid_z:
        return 1;
    default:
        return 0;
    }
}

static void run_block(lane *l, const tw_block *block);

static void run_for(lane *l, const tw_ir_op *op) {
    bool narrow = op->at.type == TW_T_i32;
    uint64_t bounds[3];
    int64_t x[3];
    for (int i = 0; i < 3; i++) {
        bounds[i] = get(l, op->operands[i]);
        x[i] = narrow ? (int32_t)(uint32_t)bounds[i] : (int64_t)bounds[i];
    }
    for (int64_t i = x[0]; i < x[1]; i += x[2]) {
        l->values[op->results[0].id] = narrow ? (uint32_t)i : (uint64_t)i;
        run_block(l, &op->blocks[0]);
    }
}

static void run_control(lane *l, const tw_ir_op *op) {
    switch (op->code) {
    case TW_OP_if:
        run_block(l, &op->blocks[get(l, op->operands[0]) ? 0 : 1]);
        return;
    case TW_OP_for:
        run_for(l, op);
        return;
    case TW_OP_while:
        for (;;) {
            run_block(l, &op->blocks[0]);
            if (!get(l, op->operands[0])) return;
            run_block(l, &op->blocks[1]);
        }
    default: /* roles: this lane is in warp 0 */
        for (int i = 0; i < op->n_blocks; i++)
            if (get(l, op->operands[2 * i]) == 0) run_block(l, &op->blocks[i]);
    }
}

static void run_op(lane *l, const tw_ir_op *op) {
    const tw_op_info *info = tw_op_describe((tw_opcode)op->code);
    uint64_t v[3] = {0, 0, 0}, r;
    assert_true(++l->steps < 1000000);
    if (op->guard.id && !get(l, op->guard) == !op->guard_not) {
        for (int i = 0; i < op->n_results; i++) l->values[op->results[i].id] = 0;
        return;
    }
    for (int i = 0; i < op->n_operands && i < 3; i++) v[i] = get(l, op->operands[i]);
    if (tw_op_evaluate((tw_opcode)op->code, v[0], v[1], v[2], &r)) {
        l->values[op->results[0].id] = r;
        return;
    }
    switch (op->code) {
    case TW_OP_set:
    case TW_OP_bitcast:
    case TW_OP_shfl:
    case TW_OP_vote:
    case TW_OP_redux_max_u32:
    case TW_OP_elect:
        l->values[op->results[0].id] = v[0];
        return;
    case TW_OP_select:
        l->values[op->results[0].id] = v[2] ? v[0] : v[1];
        return;
    case TW_OP_sreg:
        l->values[op->results[0].id] = special(l, op->at.sreg);
        return;
    case TW_OP_ld:
    case TW_OP_st:
        access_memory(l, op, op->code == TW_OP_st);
        return;
    default:
        if (op->n_blocks)
            run_control(l, op);
        else if (op->n_results && op->code != TW_OP_undef)
            fail_msg("%s is none that one lane can do", info->name);
    }
}

static void run_block(lane *l, const tw_block *block) {
    for (const tw_ir_op *op = block->first; op; op = op->next) run_op(l, op);
}

/* What a lane leaves behind. Registers start as nonsense, so that a missing assignment shows. */
static void run(lane *l, const tw_kernel *k, uint64_t seed) {
    tw_random r = tw_random_seed(seed);
    l->k = k;
    l->steps = 0;
    l->values = calloc((size_t)k->n_values, sizeof *l->values);
    assert_non_null(l->values);
    for (int i = 0; i < k->n_values; i++) l->values[i] = k->values[i].type == TW_T_pred;
    for (int i = 0; i < RANDOM_IN_BYTES; i++) l->in[i] = (uint8_t)tw_random_u64(&r);
    memset(l->out, 0xee, sizeof l->out);
    const uint64_t arguments[] = {IN, OUT, 11, tw_f32_bits(0.75f)};
    for (int i = 0; i < 4; i++) l->values[k->parameters[i].value.id] = arguments[i];
    run_block(l, &k->body);
    free(l->values);
}

typedef bool pass(tw_kernel *k);

static bool every_pass(tw_kernel *k) {
    tw_diag d;
    if (tw_pipeline_default(k, true, &d) != TW_OK) fail_msg("%s", d.message);
    return true;
}

static void passes_keep_results(void **state) {
    (void)state;
    static const struct {
        const char *name;
        pass *run;
    } passes[] = {{"fold", tw_pass_fold},
                  {"common", tw_pass_common},
                  {"addresses", tw_pass_addresses},
                  {"dead_code", tw_pass_dead_code},
                  {"all", every_pass}};
    static lane before, after;
    for (uint64_t seed = 0; seed < 400; seed++) {
        random_kernel_options o = {.seed = 5000 + seed, .operations = 60 + 20 * (int)(seed % 10), .runnable = true};
        tw_kernel *k = random_kernel(&o);
        assert_non_null(k);
        run(&before, k, seed);
        tw_kernel_free(k);
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
            k = random_kernel(&o);
            assert_non_null(k);
            passes[i].run(k);
            run(&after, k, seed);
            for (int at = 0; at < OUT_BYTES; at++)
                if (before.out[at] != after.out[at])
                    fail_msg("seed %d, pass %s: slot %d differs", (int)seed, passes[i].name,
                             (at - THREAD * RANDOM_OUT_BYTES) / 16);
            tw_kernel_free(k);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_keep_results)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
