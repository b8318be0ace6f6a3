/* SPDX-License-Identifier: Apache-2.0 */
/* Computes what loading would allocate on the GPU, from the schedules and their plans alone. */
#include "base/diag.h"
#include "tilewright/device.h"
#include "vm/cuda/machine.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 2 << 20 }; /* Bytes. The driver allocates large pieces in whole pages. */

static bool has_cache(const tw_cuda_vm *vm, const char *name) {
    for (const tw_mega_named *e = vm->named; e; e = e->next)
        if (e->name && !strcmp(e->name, name)) return true;
    return false;
}

static bool has_weight(const tw_cuda_vm *vm, const tw_weight *w) {
    for (const tw_mega_named *e = vm->named; e; e = e->next)
        if (e->weight == w) return true;
    return false;
}

/* Counts the bytes of weights that are not on tapes: norms as floats, and the embedding as it is stored. */
static int64_t beside_tapes(const tw_cuda_vm *vm, const tw_mega_program *p) {
    const tw_schedule *s = p->s;
    int64_t n = 0;
    for (int i = 0; i < s->n_buffers; i++) {
        const tw_buffer *b = &s->buffers[i];
        if (b->kind != TW_BUFFER_WEIGHT || (b->shape[2] != 1 && strcmp(b->name, "embed"))) continue;
        if (!has_weight(vm, tw_weight_at(&p->weights, i, 0)))
            n += b->shape[2] == 1 ? 4 * b->shape[1] : tw_memory_buffer(b);
    }
    return n;
}

static bool had_cache(const tw_mega_program *programs, int n, const char *name) {
    for (int p = 0; p < n; p++)
        for (int i = 0; i < programs[p].s->n_buffers; i++)
            if (programs[p].s->buffers[i].kind == TW_BUFFER_KV && !strcmp(programs[p].s->buffers[i].name, name))
                return true;
    return false;
}

static void count_buffers(const tw_cuda_vm *vm, const tw_mega_program *programs, int at, tw_memory_need *need) {
    const tw_schedule *s = programs[at].s;
    for (int i = 0; i < s->n_buffers; i++) {
        const tw_buffer *b = &s->buffers[i];
        if (b->kind == TW_BUFFER_KV) {
            if (!has_cache(vm, b->name) && !had_cache(programs, at, b->name)) need->caches += tw_memory_buffer(b);
        } else if (b->kind != TW_BUFFER_WEIGHT)
            need->scratch += tw_memory_buffer(b);
    }
}

/* Tells whether a tape is loaded, or belongs to an earlier program. `keys` are the tapes', [program][worker]. */
static bool has_tape(const tw_cuda_vm *vm, const tw_mega_program *programs, int at, int worker, uint64_t (*keys)[2],
                     int most) {
    const uint64_t *key = keys[at * most + worker];
    for (const tw_mega_tape *t = vm->tapes; t; t = t->next)
        if (!memcmp(t->key, key, sizeof t->key)) return true;
    for (int p = 0; p < at; p++)
        if (worker < programs[p].s->n_workers && !memcmp(keys[p * most + worker], key, sizeof *keys)) return true;
    return false;
}

tw_status tw_mega_need(const tw_cuda_vm *vm, const tw_mega_program *programs, int n, tw_memory_need *need,
                       tw_diag *diag) {
    int most = 0;
    *need = (tw_memory_need){0};
    for (int i = 0; i < n; i++) most = programs[i].s->n_workers > most ? programs[i].s->n_workers : most;
    uint64_t(*keys)[2] = calloc((size_t)n * (size_t)most, sizeof *keys);
    if (!keys) return tw_fail_memory(diag);
    for (int i = 0; i < n; i++) {
        count_buffers(vm, programs, i, need);
        for (int w = 0; w < programs[i].s->n_workers; w++) {
            tw_mega_tape_key(&programs[i], w, keys[i * most + w]);
            if (has_tape(vm, programs, i, w, keys, most)) continue;
            need->weights += (tw_mega_tape_bytes(&programs[i], w) + PAGE - 1) / PAGE * PAGE;
        }
    }
    need->weights += beside_tapes(vm, &programs[0]);
    free(keys);
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
