/* SPDX-License-Identifier: Apache-2.0 */
/* Computes what loading would allocate on the GPU, from the schedules and their plans alone. */
#include "base/diag.h"
#include "tilewright/device.h"
#include "vm/cuda/machine.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 2 << 20 }; /* Bytes. The driver allocates large pieces in whole pages. */

/* Tells whether a shared buffer is loaded already, or is one of programs 0 to at - 1. */
static bool is_there(const tw_cuda_vm *vm, const tw_mega_program *programs, int at, const char *name) {
    for (int p = 0; p < at; p++)
        for (int i = 0; i < programs[p].s->n_buffers; i++)
            if (!strcmp(programs[p].s->buffers[i].name, name)) return true;
    return tw_mega_named_find(vm, name) != NULL;
}

/* Counts the bytes of a program's buffers. Of the weights only norms, as floats, and the embedding, as stored, have
   buffers; all others are on tapes. */
static void count_buffers(const tw_cuda_vm *vm, const tw_mega_program *programs, int at, tw_memory_need *need) {
    const tw_schedule *s = programs[at].s;
    for (const tw_buffer *b = s->buffers; b < s->buffers + s->n_buffers; b++) {
        const bool shared = b->kind == TW_BUFFER_WEIGHT || b->kind == TW_BUFFER_KV;
        if (shared && is_there(vm, programs, at, b->name)) continue;
        if (b->kind == TW_BUFFER_KV)
            need->caches += tw_memory_buffer(b);
        else if (b->kind != TW_BUFFER_WEIGHT)
            need->scratch += tw_memory_buffer(b);
        else if (b->shape[2] == 1)
            need->weights += 4 * b->shape[1];
        else if (!strcmp(b->name, "embed") || !strcmp(b->name, "positions"))
            need->weights += tw_memory_buffer(b);
    }
}

tw_status tw_mega_need(const tw_cuda_vm *vm, const tw_mega_program *programs, int n, tw_memory_need *need,
                       tw_diag *diag) {
    size_t workers = 0;
    *need = (tw_memory_need){0};
    for (int i = 0; i < n; i++) workers += (size_t)programs[i].s->n_workers;
    tw_mega_tape *room = calloc(workers, sizeof *room), *next = room, *tapes = vm->tapes;
    if (!room) return tw_fail_memory(diag);
    for (int i = 0; i < n; i++) {
        count_buffers(vm, programs, i, need);
        for (int w = 0; w < programs[i].s->n_workers; w++) {
            *next = tw_mega_tape_of(&programs[i], w);
            if (tw_mega_tape_find(tapes, next->key)) continue;
            need->weights += (next->bytes + PAGE - 1) / PAGE * PAGE;
            next->next = tapes;
            tapes = next++;
        }
    }
    free(room);
    return TW_OK;
}

tw_status tw_mega_fits(const tw_cuda_vm *vm, const tw_mega_program *programs, int n, tw_memory_need *need,
                       tw_diag *diag) {
    int64_t available = vm->options.memory_limit;
    tw_status st = tw_mega_need(vm, programs, n, need, diag);
    if (st != TW_OK) return st;
    if (available) {
        available -= vm->taken;
        if (available < 1) available = 1;
    } else if (vm->emu) {
        tw_cpu cpu;
        tw_cpu_detect(&cpu);
        available = cpu.available_bytes;
    } else
        st = tw_cuda_available(vm->cuda, &available, diag);
    if (st != TW_OK) return st;
    return tw_memory_fits(need, available, vm->m, tw_memory_weights(programs[0].s),
                          vm->emu ? "memory" : "the GPU's memory", diag);
}
