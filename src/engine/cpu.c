/* SPDX-License-Identifier: Apache-2.0 */
/* The back end for processors. */
#include "engine/machine.h"

#include "base/clock.h"
#include "device/memory.h"
#include "tilewright/device.h"
#include "vm/cpu/trace.h"

static tw_status open_cpu(tw_machine *m, const tw_model *model, const tw_engine_options *o, int threads,
                          tw_diag *diag) {
    tw_vm_options v = {.workers = threads,
                       .limit_isa = o->limit_isa || o->dequantise,
                       .isa = o->dequantise ? 0 : o->isa,
                       .dequantise = o->dequantise,
                       .no_vendor = o->no_vendor || o->dequantise,
                       .activations = o->activations,
                       .stored_rope = o->stored_rope,
                       .memory_limit = o->memory_limit};
    tw_vm *vm = NULL;
    m->gpu = -1;
    m->workers = threads;
    m->tokens = INT64_MAX;
    m->kv = TW_F32;
    tw_status st = tw_vm_open(&vm, model, &v, diag);
    m->vm = vm;
    return st;
}

static void close_cpu(tw_machine *m) {
    tw_vm_close(m->vm);
}

static tw_status fits(const tw_machine *m, const tw_schedule *const *schedules, int n, tw_diag *diag) {
    return tw_vm_fits(m->vm, schedules, n, diag);
}

static void complete_lowering(const tw_machine *m, tw_lowering *l) {
    l->workers = m->workers;
    l->down_splits = 1;
}

static int64_t short_past(const tw_machine *m, const tw_lowering *l) {
    (void)m, (void)l;
    return 0;
}

static tw_status load(tw_machine *m, const tw_checked *program, int *id, tw_diag *diag) {
    return tw_vm_load(m->vm, program, id, diag);
}

static tw_status run(tw_machine *m, tw_vm_step *step, tw_diag *diag) {
    return tw_vm_run(m->vm, step, diag);
}

static int64_t tape_bytes(const tw_machine *m) {
    return tw_vm_tape_bytes(m->vm);
}

static tw_engine_memory memory(const tw_machine *m) {
    tw_engine_memory x = {.peak = tw_memory_peak("")};
    tw_vm_memory(m->vm, &x.weights, &x.caches);
    return x;
}

static int64_t streamed_bytes(const tw_machine *m) {
    return tw_vm_streamed_bytes(m->vm);
}

static void explain(const tw_machine *m, char *out, size_t size) {
    tw_vm_explain(m->vm, out, size);
}

static int products(const tw_machine *m, tw_vm_product *out, int most) {
    return tw_vm_products(m->vm, out, most);
}

static tw_status choose(tw_machine *m, const char *artefact, tw_diag *diag) {
    return tw_vm_choose(m->vm, artefact, diag);
}

static const char *name(const tw_machine *m) {
    (void)m;
    return "cpu";
}

static tw_status greedy(tw_machine *m, int program, int32_t token, int64_t pos, int64_t n, int32_t *tokens,
                        double *seconds, tw_diag *diag) {
    tw_status st = TW_OK;
    int64_t start = tw_now_ns();
    for (int64_t i = 0; i < n && st == TW_OK; i++) {
        tw_vm_step step = {.program = program, .tokens = &token, .n = 1, .pos = pos + i};
        st = tw_vm_run(m->vm, &step, diag);
        tokens[i] = token = step.token;
    }
    *seconds = (double)(tw_now_ns() - start) * 1e-9;
    return st;
}

static bool draws(const tw_machine *m, int program) {
    (void)m, (void)program;
    return false;
}

static int64_t most_sequences(const tw_machine *m) {
    (void)m;
    return 1;
}

static tw_status arithmetic(const tw_machine *m, int64_t positions, tw_vm_ceiling *ceiling, tw_diag *diag) {
    return tw_vm_measure_arithmetic(m->vm, positions, ceiling, diag);
}

static tw_status bandwidth(const tw_machine *m, double *bytes_per_second, tw_diag *diag) {
    return tw_cpu_measure_reads(0, streamed_bytes(m), bytes_per_second, diag);
}

static tw_status limit_isa(tw_machine *m, uint32_t isa, bool own_only, tw_diag *diag) {
    return tw_vm_limit_isa(m->vm, isa, own_only, diag);
}

static tw_status trace_begin(tw_machine *m, int64_t steps, tw_diag *diag) {
    return tw_vm_trace_begin(m->vm, steps, diag);
}

static tw_status trace_end(tw_machine *m, const char *title, tw_trace **out, tw_diag *diag) {
    return tw_vm_trace_end(m->vm, title, out, diag);
}

const tw_engine_backend tw_engine_cpu = {
    .gpu = false,
    .follows = true,
    .tolerance =
        {
            [TW_ACTIVATIONS_FLOAT] = {1e-3, 1e-4, 1e-4, 1e-3, false}, /* Sums are in f32, and in another order. */
            [TW_ACTIVATIONS_BF16] = {2e-2, 1e-3, 5e-3, 1e-2, true},
            [TW_ACTIVATIONS_INT8] = {1e-1, 1e-3, 2e-2, 1e-1, true}, /* A step is five times bf16's, by the block. */
        },
    .open = open_cpu,
    .close = close_cpu,
    .fits = fits,
    .complete_lowering = complete_lowering,
    .short_past = short_past,
    .load = load,
    .run = run,
    .tape_bytes = tape_bytes,
    .memory = memory,
    .streamed_bytes = streamed_bytes,
    .explain = explain,
    .products = products,
    .choose = choose,
    .name = name,
    .greedy = greedy,
    .draws = draws,
    .most_sequences = most_sequences,
    .arithmetic = arithmetic,
    .bandwidth = bandwidth,
    .trace_begin = trace_begin,
    .trace_end = trace_end,
    .limit_isa = limit_isa,
};
