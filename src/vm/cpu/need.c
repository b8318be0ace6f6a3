/* SPDX-License-Identifier: Apache-2.0 */
/* Computes what loading would allocate, from the schedules alone: tapes, caches, activations, the workers' scratch. */
#include "base/diag.h"
#include "vm/cpu/share.h"

#include <string.h>

/* Names seen so far. What two programs share counts once. */
typedef struct names {
    struct names *next;
    const char *name;
} names;

typedef struct counting {
    const tw_vm *vm;
    tw_memory_need *need;
    tw_arena arena;
    names *caches, **strips; /* strips: [worker]. */
    size_t *scratch;         /* [worker]: bytes. */
} counting;

/* Adds a name to a list. False: the name is there already, or memory is short. */
static bool is_new(counting *c, names **list, const char *name) {
    for (const names *e = *list; e; e = e->next)
        if (!strcmp(e->name, name)) return false;
    names *e = tw_arena_alloc(&c->arena, sizeof *e);
    char *copy = tw_arena_strdup(&c->arena, name);
    if (!e || !copy) return false;
    *e = (names){*list, copy};
    *list = e;
    return true;
}

static void count_buffers(counting *c, const tw_schedule *s) {
    for (int i = 0; i < s->n_buffers; i++) {
        const tw_buffer *b = &s->buffers[i];
        if (b->kind == TW_BUFFER_KV) {
            if (!tw_vm_has_cache(c->vm, b->name) && is_new(c, &c->caches, b->name))
                c->need->caches += tw_memory_buffer(b);
        } else if (b->kind != TW_BUFFER_WEIGHT)
            c->need->scratch += tw_memory_buffer(b);
    }
    c->need->scratch += (int64_t)tw_vm_share_bytes(c->vm, s);
}

static void count_worker(counting *c, const tw_schedule *s, int worker) {
    const tw_vm_thread *thread = &c->vm->threads[worker];
    for (int i = 0; i < s->workers[worker].count; i++) {
        tw_exec e = {.in = &s->workers[worker].list[i]};
        char key[TW_TAPE_KEY];
        bool there;
        if (tw_instr_op_multiplies(e.in->op)) {
            const size_t bytes = tw_tape_measure(thread, s, e.in, &e.strip, key, &there);
            if (!there && is_new(c, &c->strips[worker], key)) c->need->weights += (int64_t)bytes;
        }
        const size_t scratch = tw_exec_scratch(c->vm, s, &e);
        if (scratch > c->scratch[worker]) c->scratch[worker] = scratch;
    }
}

tw_status tw_vm_need(const tw_vm *vm, const tw_schedule *const *s, int n, tw_memory_need *need, tw_diag *diag) {
    *need = (tw_memory_need){0};
    counting c = {.vm = vm, .need = need};
    c.strips = tw_arena_array(&c.arena, (size_t)vm->n_threads, sizeof *c.strips);
    c.scratch = tw_arena_array(&c.arena, (size_t)vm->n_threads, sizeof *c.scratch);
    for (int i = 0; i < n && !c.arena.failed; i++) {
        count_buffers(&c, s[i]);
        for (int w = 0; w < s[i]->n_workers && w < vm->n_threads; w++) count_worker(&c, s[i], w);
    }
    for (int w = 0; w < vm->n_threads && !c.arena.failed; w++)
        if (c.scratch[w] > vm->threads[w].scratch_bytes)
            need->scratch += (int64_t)(c.scratch[w] - vm->threads[w].scratch_bytes);
    const bool failed = c.arena.failed;
    tw_arena_free(&c.arena);
    return failed ? tw_fail_memory(diag) : TW_OK;
}

tw_status tw_vm_fits(const tw_vm *vm, const tw_schedule *const *s, int n, tw_diag *diag) {
    tw_memory_need need;
    tw_status st = tw_vm_need(vm, s, n, &need, diag);
    if (st != TW_OK) return st;
    int64_t available = vm->options.memory_limit;
    tw_cpu cpu;
    if (available) {
        available -= tw_memory_sum(&vm->loaded);
        if (available < 1) available = 1;
    } else {
        tw_cpu_detect(&cpu);
        available = cpu.available_bytes;
    }
    return tw_memory_fits(&need, available, vm->m, tw_memory_weights(s[0]), "memory", diag);
}
