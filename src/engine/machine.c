/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine.h"

#include "base/clock.h"
#include "base/diag.h"
#include "device/name.h"
#include "tilewright/device.h"
#include "vm/cuda/bandwidth.h"
#include "vm/cuda/vm.h"

#include <stdlib.h>
#include <string.h>

/* Float arithmetic on the stored weights, added in another order; and the same with keys and values rounded to 16 bits,
   of which bf16 has 8 of mantissa: a GPU's products take activations as sums of two 16-bit halves, which loses little
   beside that. */
static const tw_tolerance in_float = {1e-3, 1e-4, 1e-4, false}, in_bf16 = {2e-2, 1e-3, 5e-3, true};

typedef enum place { ON_CPU, ON_GPU, ANYWHERE } place;

static tw_status parse_device(const char *text, place *where, int *gpu, tw_diag *diag) {
    *where = ON_GPU;
    if (!text || !strcmp(text, "cpu")) {
        *where = ON_CPU;
        return TW_OK;
    }
    if (!strcmp(text, "auto")) {
        *where = ANYWHERE;
        return TW_OK;
    }
    if (tw_device_gpu_number(text, gpu)) return TW_OK;
    return tw_fail(diag, TW_ERR_USAGE, "device: \"%s\" is not auto, cpu, cuda or cuda:N", text);
}

static tw_status open_gpu(tw_machine *m, const tw_model *model, const tw_engine_options *o, int gpu, tw_diag *diag) {
    tw_cuda_vm_options v = {.device = gpu,
                            .emulate = o->emulate,
                            .workers = o->emulate ? o->workers : 0,
                            .seed = o->seed,
                            .stored_rope = o->stored_rope,
                            .dequantise = o->dequantise,
                            .memory_limit = o->memory_limit,
                            .tuning = o->config->machine};
    tw_status st = tw_cuda_vm_open(&m->cuda, model, &v, diag);
    if (st != TW_OK) return st;
    tw_lowering l = o->config->lowering;
    l.tokens = l.max_seq = 1;
    tw_cuda_vm_lowering(m->cuda, &l);
    m->gpu = o->emulate ? -1 : gpu;
    m->workers = l.workers;
    m->tokens = TW_CUDA_VM_TOKENS;
    m->kv = l.kv;
    return TW_OK;
}

static tw_status open_cpu(tw_machine *m, const tw_model *model, const tw_engine_options *o, int workers,
                          tw_diag *diag) {
    tw_vm_options v = {.workers = workers,
                       .limit_isa = o->limit_isa || o->dequantise,
                       .isa = o->dequantise ? 0 : o->isa,
                       .dequantise = o->dequantise,
                       .no_vendor = o->no_vendor || o->dequantise,
                       .stored_rope = o->stored_rope,
                       .memory_limit = o->memory_limit};
    m->gpu = -1;
    m->workers = workers;
    m->tokens = INT64_MAX;
    m->kv = TW_F32;
    return tw_vm_open(&m->cpu, model, &v, diag);
}

tw_status tw_machine_open(tw_machine *m, const tw_model *model, const tw_engine_options *o, int workers,
                          tw_diag *diag) {
    place where;
    int gpu = 0;
    *m = (tw_machine){0};
    if (o->emulate) return open_gpu(m, model, o, 0, diag);
    tw_status st = parse_device(o->device, &where, &gpu, diag);
    if (st != TW_OK) return st;
    bool for_cpus = o->workers || o->limit_isa;
    if (where == ON_GPU && for_cpus)
        return tw_fail(diag, TW_ERR_USAGE, "threads and instruction sets are a processor's: not with device %s",
                       o->device);
    if (where == ANYWHERE && (for_cpus || o->schedule)) where = ON_CPU;
    if (where != ON_CPU) {
        st = open_gpu(m, model, o, gpu, diag);
        if (where == ON_GPU || st != TW_ERR_UNSUPPORTED) return st;
    }
    return open_cpu(m, model, o, workers, diag);
}

void tw_machine_close(tw_machine *m) {
    tw_vm_close(m->cpu);
    tw_cuda_vm_close(m->cuda);
    *m = (tw_machine){0};
}

tw_status tw_machine_fits(const tw_machine *m, const tw_schedule *const *schedules, int n, tw_diag *diag) {
    return m->cuda ? tw_cuda_vm_room(m->cuda, schedules, n, diag) : tw_vm_fits(m->cpu, schedules, n, diag);
}

void tw_machine_lowering(const tw_machine *m, tw_lowering *l) {
    l->workers = m->workers;
    if (m->cuda) tw_cuda_vm_lowering(m->cuda, l);
}

int64_t tw_machine_short_past(const tw_machine *m, const tw_lowering *l) {
    return m->cuda ? tw_cuda_vm_short_past(m->cuda, l) : 0;
}

tw_status tw_machine_load(tw_machine *m, const tw_checked *program, int *id, tw_diag *diag) {
    return m->cuda ? tw_cuda_vm_load(m->cuda, program, id, diag) : tw_vm_load(m->cpu, program, id, diag);
}

tw_status tw_machine_run(tw_machine *m, tw_vm_step *step, tw_diag *diag) {
    return m->cuda ? tw_cuda_vm_run(m->cuda, step, diag) : tw_vm_run(m->cpu, step, diag);
}

int64_t tw_machine_tape_bytes(const tw_machine *m) {
    return m->cuda ? tw_cuda_vm_tape_bytes(m->cuda) : tw_vm_tape_bytes(m->cpu);
}

int64_t tw_machine_streamed_bytes(const tw_machine *m) {
    return m->cuda ? tw_cuda_vm_streamed_bytes(m->cuda) : tw_vm_streamed_bytes(m->cpu);
}

void tw_machine_explain(const tw_machine *m, char *out, size_t size) {
    if (m->cuda)
        tw_cuda_vm_explain(m->cuda, out, size);
    else
        tw_vm_explain(m->cpu, out, size);
}

const char *tw_machine_name(const tw_machine *m) {
    return m->cuda ? tw_cuda_vm_device(m->cuda) : "cpu";
}

const tw_tolerance *tw_machine_tolerance(const tw_machine *m) {
    return m->cuda ? &in_bf16 : &in_float;
}

tw_status tw_machine_greedy(tw_machine *m, int program, int32_t token, int64_t pos, int64_t n, int32_t *tokens,
                            double *seconds, tw_diag *diag) {
    tw_status st = TW_OK;
    *seconds = 0;
    for (int64_t done = 0, k; m->cuda && done < n && st == TW_OK; done += k) {
        double microseconds = 0;
        k = n - done < TW_CUDA_VM_GREEDY ? n - done : TW_CUDA_VM_GREEDY;
        st = tw_cuda_vm_greedy(m->cuda, program, done ? tokens[done - 1] : token, pos + done, k, tokens + done,
                               &microseconds, diag);
        *seconds += microseconds * 1e-6;
    }
    if (m->cuda) return st;
    int64_t start = tw_now_ns();
    for (int64_t i = 0; i < n && st == TW_OK; i++) {
        tw_vm_step step = {.program = program, .tokens = &token, .n = 1, .pos = pos + i};
        st = tw_machine_run(m, &step, diag);
        tokens[i] = token = step.token;
    }
    *seconds = (double)(tw_now_ns() - start) * 1e-9;
    return st;
}

tw_status tw_machine_arithmetic(const tw_machine *m, int64_t positions, tw_vm_ceiling *ceiling, tw_diag *diag) {
    if (m->cuda) return tw_fail(diag, TW_ERR_UNSUPPORTED, "a GPU's arithmetic is not measured");
    return tw_vm_measure_arithmetic(m->cpu, positions, ceiling, diag);
}

bool tw_machine_draws(const tw_machine *m, int program) {
    return m->cuda && tw_cuda_vm_draws(m->cuda, program);
}

tw_status tw_machine_draw(tw_machine *m, int program, const tw_sample_rules *rules, int32_t token, int64_t pos,
                          int64_t n, bool (*take)(void *user, const int32_t *tokens), void *user, tw_diag *diag) {
    tw_cuda_vm_draw d = {
        .program = program, .tokens = &token, .positions = &pos, .n = n, .rules = rules, .take = take, .user = user};
    return tw_cuda_vm_draw_tokens(m->cuda, &d, diag);
}

tw_status tw_machine_count(tw_machine *m, const uint32_t *counts, tw_diag *diag) {
    return tw_cuda_vm_count(m->cuda, 0, counts, diag);
}

tw_status tw_machine_bandwidth(const tw_machine *m, double *bytes_per_second, tw_diag *diag) {
    if (!m->cuda) return tw_cpu_measure_reads(0, tw_machine_streamed_bytes(m), bytes_per_second, diag);
    if (m->gpu < 0) return tw_fail(diag, TW_ERR_UNSUPPORTED, "an emulated GPU has no speed");
    return tw_cuda_measure_bandwidth(m->gpu, bytes_per_second, diag);
}
