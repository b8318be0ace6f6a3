/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes the machine. */
#include "vm/cpu/vm.h"

#include "base/diag.h"
#include "vm/cpu/choice.h"
#include "vm/cpu/trace.h"

#include <stdlib.h>

const char *tw_activations_name(tw_activations a) {
    static const char *const names[] = {"float", "bf16", "int8"};
    return names[a];
}

tw_status tw_vm_open(tw_vm **out, const tw_model *model, const tw_vm_options *options, tw_diag *diag) {
    *out = NULL;
    if (options->workers < 1 || options->workers > TW_MAX_WORKERS)
        return tw_fail(diag, TW_ERR_USAGE, "workers: %d is not within 1..%d", options->workers, TW_MAX_WORKERS);
    tw_vm *vm = calloc(1, sizeof *vm);
    if (!vm) return tw_fail_memory(diag);
    vm->m = model;
    vm->options = *options;
    vm->n_threads = options->workers;
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    tw_kernels_choose(&vm->k, options->limit_isa ? cpu.isa & options->isa : cpu.isa);
    vm->threads = tw_arena_array(&vm->arena, (size_t)vm->n_threads, sizeof *vm->threads);
    const tw_rope *ropes[2] = {&model->rope, &model->rope_local};
    for (int i = 0; i < 2; i++)
        if (ropes[i]->kind != TW_ROPE_NONE)
            vm->rope[i].inv_freq = tw_arena_array(&vm->arena, (size_t)ropes[i]->dims / 2 + 1, sizeof(float));
    for (int i = 0; vm->threads && i < vm->n_threads; i++) {
        vm->threads[i].vm = vm;
        vm->threads[i].index = i;
    }
    tw_status st =
        vm->arena.failed ? tw_fail_memory(diag) : tw_team_start(&vm->team, vm->n_threads, !options->no_pin, diag);
    if (st == TW_OK && !options->no_vendor) st = tw_choices_open(&vm->choices, vm, diag);
    if (st == TW_OK)
        *out = vm;
    else
        tw_vm_close(vm);
    return st;
}

static void free_program(tw_program *p) {
    free(p->counters);
    free(p);
}

void tw_vm_close(tw_vm *vm) {
    if (!vm) return;
    tw_team_stop(vm->team);
    tw_vm_trace_drop(vm);
    for (int i = 0; vm->threads && i < vm->n_threads; i++) {
        tw_vendor_close(vm->threads[i].vendor);
        tw_pages_free(vm->threads[i].scratch, vm->threads[i].scratch_bytes);
        tw_tape_free(&vm->threads[i]);
    }
    tw_choices_close(vm->choices);
    for (tw_program *p = vm->programs, *next; p; p = next) {
        next = p->next;
        free_program(p);
    }
    tw_vm_free_buffers(vm);
    tw_arena_free(&vm->arena);
    free(vm);
}

int64_t tw_vm_tape_bytes(const tw_vm *vm) {
    int64_t n = 0;
    for (int i = 0; i < vm->n_threads; i++) n += vm->threads[i].tape_bytes;
    return n;
}

void tw_vm_memory(const tw_vm *vm, int64_t *weights, int64_t *caches) {
    *weights = vm->loaded.weights;
    *caches = vm->loaded.caches;
}

int tw_vm_products(const tw_vm *vm, tw_vm_product *out, int most) {
    return vm->choices ? tw_choices_products(vm->choices, out, most) : 0;
}

tw_status tw_vm_choose(tw_vm *vm, const char *artefact, tw_diag *diag) {
    return vm->choices ? tw_choices_select(vm->choices, artefact, diag) : TW_OK;
}

void tw_vm_explain(const tw_vm *vm, char *out, size_t size) {
    if (vm->choices)
        tw_choices_explain(vm->choices, out, size);
    else if (size)
        out[0] = 0;
}
