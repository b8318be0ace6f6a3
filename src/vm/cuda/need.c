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

static bool is_router(const char *name) {
    const char *at = strstr(name, ".router");
    return at && !at[strlen(".router")];
}

/* Counts the bytes of a program's buffers. Of the weights only norms, as floats, and the embedding, as stored, have
   buffers; all others are on tapes. */
static void count_buffers(const tw_cuda_vm *vm, const tw_mega_program *programs, int at, tw_memory_need *need) {
    const tw_schedule *s = programs[at].s;
    for (const tw_buffer *b = s->buffers; b < s->buffers + s->n_buffers; b++) {
        const bool shared = b->kind == TW_BUFFER_WEIGHT || b->kind == TW_BUFFER_KV;
        if (shared && is_there(vm, programs, at, b->name)) continue;
        const int64_t sequences = vm->options.sequences > s->sequences ? vm->options.sequences : s->sequences;
        if (b->kind == TW_BUFFER_KV) need->sequences = sequences;
        if (b->kind == TW_BUFFER_KV)
            need->caches += tw_mega_cache_bytes(vm, b, s->sequences);
        else if (b->kind != TW_BUFFER_WEIGHT)
            need->scratch += tw_memory_buffer(b);
        else if (b->shape[2] == 1)
            need->weights += 4 * b->shape[1];
        else if (!strcmp(b->name, "embed") || !strcmp(b->name, "positions") || is_router(b->name))
            need->weights += tw_memory_buffer(b);
    }
}

/* Counts the buffers that instructions with experts multiply by, at least as many as there are pools. */
static size_t pooled(const tw_schedule *s) {
    size_t n = 0;
    for (const tw_buffer *b = s->buffers; b < s->buffers + s->n_buffers; b++)
        n += b->kind == TW_BUFFER_WEIGHT && b->shape[0] > 1;
    return n;
}

/* Counts a tape or pool at *next, and lists it. */
static void count_tape(tw_mega_tape **next, tw_mega_tape **tapes, tw_memory_need *need) {
    tw_mega_tape *t = (*next)++;
    need->weights += (t->bytes + PAGE - 1) / PAGE * PAGE;
    t->next = *tapes;
    *tapes = t;
}

tw_status tw_mega_need(const tw_cuda_vm *vm, const tw_mega_program *programs, int n, tw_memory_need *need,
                       tw_diag *diag) {
    size_t workers = 0;
    *need = (tw_memory_need){0};
    for (int i = 0; i < n; i++) workers += (size_t)programs[i].s->n_workers + pooled(programs[i].s);
    tw_mega_tape *room = calloc(workers, sizeof *room), *next = room, *tapes = vm->tapes;
    if (!room) return tw_fail_memory(diag);
    for (int i = 0; i < n; i++) {
        count_buffers(vm, programs, i, need);
        for (int w = 0; w < programs[i].s->n_workers; w++) {
            for (int j = 0; j < programs[i].s->workers[w].count; j++) {
                const tw_instr *in = &programs[i].s->workers[w].list[j];
                if (!tw_mega_is_pooled(in->op)) continue;
                *next = tw_mega_pool_tape(&programs[i], in);
                if (tw_mega_tape_find(tapes, next->key)) continue;
                count_tape(&next, &tapes, need);
            }
            *next = tw_mega_tape_of(&programs[i], w);
            if (tw_mega_tape_find(tapes, next->key)) continue;
            count_tape(&next, &tapes, need);
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
        available -= tw_memory_sum(&vm->loaded);
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
