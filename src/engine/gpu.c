/* SPDX-License-Identifier: Apache-2.0 */
/* The back end for GPUs, real or emulated. */
#include "engine/machine.h"

#include "base/diag.h"
#include "device/name.h"
#include "tune/gpu_bandwidth.h"
#include "vm/cuda/vm.h"
#include "vm/prefill/prefill.h"

#include <string.h>

static tw_status open_gpu(tw_machine *m, const tw_model *model, const tw_engine_options *o, int threads,
                          tw_diag *diag) {
    (void)threads;
    int gpu = 0; /* "auto" tries GPU 0. */
    if (!o->emulate) tw_device_gpu_number(o->device, &gpu);
    tw_cuda_vm_options v = {.device = gpu,
                            .emulate = o->emulate,
                            .workers = o->emulate ? o->workers : 0,
                            .seed = o->seed,
                            .stored_rope = o->stored_rope,
                            .dequantise = o->dequantise,
                            .memory_limit = o->memory_limit,
                            .trace = o->traced,
                            .tuning = o->config->machine};
    tw_cuda_vm *vm = NULL;
    tw_status st = tw_cuda_vm_open(&vm, model, &v, diag);
    m->vm = vm;
    if (st != TW_OK) return st;
    tw_lowering l = o->config->lowering;
    l.tokens = l.max_seq = 1;
    tw_cuda_vm_lowering(vm, &l);
    m->gpu = o->emulate ? -1 : gpu;
    m->prompts = o->config->prompts;
    m->o_parts = o->config->prompt_o_parts;
    m->down_parts = o->config->prompt_down_parts;
    m->workers = l.workers;
    m->tokens = tw_cuda_vm_tokens(vm);
    m->kv = l.kv;
    return TW_OK;
}

static void close_gpu(tw_machine *m) {
    tw_prefill_close(m->prefill);
    tw_cuda_vm_close(m->vm);
}

static tw_status fits(const tw_machine *m, const tw_schedule *const *schedules, int n, tw_diag *diag) {
    return tw_cuda_vm_room(m->vm, schedules, n, diag);
}

static void complete_lowering(const tw_machine *m, tw_lowering *l) {
    l->workers = m->workers;
    tw_cuda_vm_lowering(m->vm, l);
}

static int64_t short_past(const tw_machine *m, const tw_lowering *l) {
    return tw_cuda_vm_short_past(m->vm, l);
}

static tw_status load(tw_machine *m, const tw_checked *program, int *id, tw_diag *diag) {
    return tw_cuda_vm_load(m->vm, program, id, diag);
}

static tw_status run(tw_machine *m, tw_vm_step *step, tw_diag *diag) {
    return tw_cuda_vm_run(m->vm, step, diag);
}

static bool covers_prompts(const tw_machine *m) {
    return tw_prefill_covers(m->vm);
}

static tw_status load_many(tw_machine *m, int decode, const tw_checked *program, const tw_checked *many, int64_t rows,
                           tw_diag *diag) {
    tw_prefill *p;
    const tw_prefill_options o = {.unpack = m->prompts == TW_PROMPTS_UNPACKED,
                                  .apart = m->prompts == TW_PROMPTS_APART,
                                  .o_parts = m->o_parts,
                                  .down_parts = m->down_parts,
                                  .many = many,
                                  .rows = rows};
    const tw_status st = tw_prefill_open(&p, m->vm, decode, program, &o, diag);
    m->prefill = p;
    return st;
}

static tw_status load_prefill(tw_machine *m, int decode, const tw_checked *program, tw_diag *diag) {
    return load_many(m, decode, program, NULL, 0, diag);
}

static void reserve(tw_machine *m, int64_t sequences) {
    tw_cuda_vm_reserve(m->vm, sequences);
}

static tw_status begin_many(tw_machine *m, const tw_prefill_part *parts, int n, tw_diag *diag) {
    return tw_prefill_begin(m->prefill, parts, n, diag);
}

static tw_status end_many(tw_machine *m, int32_t *tokens, tw_diag *diag) {
    return tw_prefill_end(m->prefill, tokens, diag);
}

static tw_status warm_prefill(tw_machine *m, int64_t n, int64_t pos, tw_diag *diag) {
    return tw_prefill_warm(m->prefill, n, pos, diag);
}

/* The machine that decodes has no choice. */
static tw_status choose(tw_machine *m, const char *artefact, tw_diag *diag) {
    return m->prefill ? tw_prefill_choose(m->prefill, artefact, diag) : TW_OK;
}

static tw_status run_prefill(tw_machine *m, int64_t sequence, tw_vm_step *step, bool ends, tw_diag *diag) {
    return tw_prefill_run(m->prefill, sequence, step, ends, diag);
}

static int64_t tape_bytes(const tw_machine *m) {
    return tw_cuda_vm_tape_bytes(m->vm);
}

static tw_engine_memory memory(const tw_machine *m) {
    tw_memory_need loaded;
    const int64_t peak = tw_cuda_vm_memory(m->vm, &loaded);
    return (tw_engine_memory){peak, loaded.weights, loaded.caches};
}

static int64_t streamed_bytes(const tw_machine *m) {
    return tw_cuda_vm_streamed_bytes(m->vm);
}

static void explain(const tw_machine *m, char *out, size_t size) {
    tw_cuda_vm_explain(m->vm, out, size);
    const size_t n = strlen(out);
    if (!m->prefill || n + 2 > size) return;
    strcpy(out + n, "\n");
    tw_prefill_explain(m->prefill, out + n + 1, size - n - 1);
}

static const char *name(const tw_machine *m) {
    return tw_cuda_vm_device(m->vm);
}

static tw_status greedy(tw_machine *m, int program, int32_t token, int64_t pos, int64_t n, int32_t *tokens,
                        double *seconds, tw_diag *diag) {
    tw_status st = TW_OK;
    *seconds = 0;
    for (int64_t done = 0, k; done < n && st == TW_OK; done += k) {
        double microseconds = 0;
        k = n - done < TW_CUDA_VM_GREEDY ? n - done : TW_CUDA_VM_GREEDY;
        const int64_t from = pos + done;
        st = tw_cuda_vm_batch(m->vm, program, done ? &tokens[done - 1] : &token, &from, k, tokens + done, NULL,
                              &microseconds, diag);
        *seconds += microseconds * 1e-6;
    }
    return st;
}

static bool draws(const tw_machine *m, int program) {
    return tw_cuda_vm_draws(m->vm, program);
}

static tw_status draw(tw_machine *m, int program, const tw_sample_rules *rules, const int32_t *tokens,
                      const int64_t *positions, int64_t n, bool (*take)(void *user, const int32_t *tokens), void *user,
                      tw_diag *diag) {
    tw_cuda_vm_draw d = {.program = program,
                         .tokens = tokens,
                         .positions = positions,
                         .n = n,
                         .rules = rules,
                         .take = take,
                         .user = user};
    return tw_cuda_vm_draw_tokens(m->vm, &d, diag);
}

static tw_status count(tw_machine *m, int64_t sequence, const uint32_t *counts, tw_diag *diag) {
    return tw_cuda_vm_count(m->vm, sequence, counts, diag);
}

static int64_t most_sequences(const tw_machine *m) {
    return tw_cuda_vm_tokens(m->vm);
}

static tw_status step_all(tw_machine *m, int program, const int32_t *tokens, const int64_t *positions, int32_t *out,
                          const float **logits, tw_diag *diag) {
    return tw_cuda_vm_batch(m->vm, program, tokens, positions, 1, out, logits, NULL, diag);
}

static tw_status arithmetic(const tw_machine *m, int64_t positions, tw_vm_ceiling *ceiling, tw_diag *diag) {
    (void)m, (void)positions, (void)ceiling;
    return tw_fail(diag, TW_ERR_UNSUPPORTED, "a GPU's arithmetic is not measured");
}

static tw_status bandwidth(const tw_machine *m, double *bytes_per_second, tw_diag *diag) {
    if (m->gpu < 0) return tw_fail(diag, TW_ERR_UNSUPPORTED, "an emulated GPU has no speed");
    return tw_cuda_measure_bandwidth(m->gpu, bytes_per_second, diag);
}

/* A machine that was opened to be traced records always, and has the last step's records. */
static tw_status trace_begin(tw_machine *m, int64_t steps, tw_diag *diag) {
    (void)m, (void)steps, (void)diag;
    return TW_OK;
}

static tw_status trace_end(tw_machine *m, const char *title, struct tw_trace **out, tw_diag *diag) {
    return tw_cuda_vm_last_timeline(m->vm, title, out, diag);
}

const tw_engine_backend tw_engine_gpu = {
    .gpu = true,
    /* Keys and values are rounded to 16 bits, and bf16 has 8 bits of mantissa. Products split an activation into two
       16-bit floats, whose rounding error is small beside that. */
    .tolerance = {[TW_ACTIVATIONS_FLOAT] = {2e-2, 1e-3, 5e-3, 1e-2, true}},
    .open = open_gpu,
    .close = close_gpu,
    .fits = fits,
    .complete_lowering = complete_lowering,
    .short_past = short_past,
    .load = load,
    .run = run,
    .covers_prompts = covers_prompts,
    .load_prefill = load_prefill,
    .reserve = reserve,
    .load_many = load_many,
    .begin_many = begin_many,
    .end_many = end_many,
    .warm_prefill = warm_prefill,
    .run_prefill = run_prefill,
    .tape_bytes = tape_bytes,
    .memory = memory,
    .streamed_bytes = streamed_bytes,
    .explain = explain,
    .choose = choose,
    .name = name,
    .greedy = greedy,
    .draws = draws,
    .draw = draw,
    .count = count,
    .most_sequences = most_sequences,
    .step_all = step_all,
    .arithmetic = arithmetic,
    .bandwidth = bandwidth,
    .trace_begin = trace_begin,
    .trace_end = trace_end,
};
