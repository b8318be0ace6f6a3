/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that an engine runs its programs on: the processor's, or a GPU's. */
#ifndef TW_ENGINE_MACHINE_H
#define TW_ENGINE_MACHINE_H

#include "tilewright/engine.h"
#include "tilewright/vm.h"
#include "vm/sample.h"

typedef struct tw_machine {
    tw_vm *cpu;
    struct tw_cuda_vm *cuda; /* one of the two */
    int gpu;                 /* its number; -1: none, or emulated */
    int workers;
    int64_t tokens; /* positions a step may have at most */
    tw_dtype kv;    /* of the cache */
} tw_machine;

/* What counts as agreement between a machine's results and a reference. */
typedef struct tw_tolerance {
    double logit_relative /* to the largest in magnitude */, logit_absolute, loss_relative;
    bool close; /* a greedy token may differ where its logit is within twice the tolerance of the most likely one's */
} tw_tolerance;

/* As options->device says; `workers` is for the processor. On failure nothing is open. */
tw_status tw_machine_open(tw_machine *m, const tw_model *model, const tw_engine_options *options, int workers,
                          tw_diag *diag);
void tw_machine_close(tw_machine *m);

/* As tw_vm_fits. */
tw_status tw_machine_fits(const tw_machine *m, const tw_schedule *const *schedules, int n, tw_diag *diag);

/* Completes a lowering with what suits the machine; the number of workers is its own. */
void tw_machine_lowering(const tw_machine *m, tw_lowering *l);
/* As tw_cuda_vm_short_past; 0 on a processor. */
int64_t tw_machine_short_past(const tw_machine *m, const tw_lowering *l);
tw_status tw_machine_load(tw_machine *m, const tw_checked *program, int *id, tw_diag *diag);
tw_status tw_machine_run(tw_machine *m, tw_vm_step *step, tw_diag *diag);
int64_t tw_machine_tape_bytes(const tw_machine *m);
int64_t tw_machine_streamed_bytes(const tw_machine *m);
void tw_machine_explain(const tw_machine *m, char *out, size_t size);
const char *tw_machine_name(const tw_machine *m);
const tw_tolerance *tw_machine_tolerance(const tw_machine *m);

/* n steps of a decode program, each with the token before it; *seconds by the host's clock, on a GPU from before
   a launch until it is known to be over. */
tw_status tw_machine_greedy(tw_machine *m, int program, int32_t token, int64_t pos, int64_t n, int32_t *tokens,
                            double *seconds, tw_diag *diag);

/* As tw_vm_measure_arithmetic; TW_ERR_UNSUPPORTED on a GPU. */
tw_status tw_machine_arithmetic(const tw_machine *m, int64_t positions, tw_vm_ceiling *ceiling, tw_diag *diag);

/* Whether a program draws on the device, and then: n steps of a decode program by a sampler's rules, take() as
   tw_cuda_vm_draw's; and what penalties count: of every id. */
bool tw_machine_draws(const tw_machine *m, int program);
tw_status tw_machine_draw(tw_machine *m, int program, const tw_sample_rules *rules, int32_t token, int64_t pos,
                          int64_t n, bool (*take)(void *user, const int32_t *tokens), void *user, tw_diag *diag);
tw_status tw_machine_count(tw_machine *m, const uint32_t *counts, tw_diag *diag);

/* Bytes a second of reading what a decoded token streams, measured now: on a GPU from its memory, on a processor from
   wherever as many bytes stay between two tokens. */
tw_status tw_machine_bandwidth(const tw_machine *m, double *bytes_per_second, tw_diag *diag);

#endif
