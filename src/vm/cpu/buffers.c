/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates the buffers of programs: activations, inputs, outputs, and the key/value cache. */
#include "base/diag.h"
#include "vm/cpu/vm.h"

#include <string.h>

/* A buffer of the key/value cache. Programs share it by its name. */
struct tw_shared_buffer {
    struct tw_shared_buffer *next;
    const char *name;
    int64_t shape[3];
    void *data;
};

/* The memory of a buffer. It is freed with the machine. */
struct tw_buffer_pages {
    struct tw_buffer_pages *next;
    void *data;
    size_t size;
};

tw_status tw_vm_take_pages(tw_vm *vm, size_t size, const char *what, void **out, tw_diag *diag) {
    struct tw_buffer_pages *p = tw_arena_alloc(&vm->arena, sizeof *p);
    if (!p) return tw_fail_memory(diag);
    p->size = size;
    p->data = tw_pages(p->size);
    if (!p->data) return tw_fail(diag, TW_ERR_MEMORY, "no memory for %.1f MB of %s", (double)p->size / 1e6, what);
    p->next = vm->pages;
    vm->pages = p;
    *out = p->data;
    return TW_OK;
}

static tw_status new_pages(tw_vm *vm, const tw_buffer *b, void **out, tw_diag *diag) {
    return tw_vm_take_pages(vm, (size_t)tw_memory_buffer(b), b->name, out, diag);
}

void tw_vm_free_buffers(tw_vm *vm) {
    for (struct tw_buffer_pages *p = vm->pages; p; p = p->next) tw_pages_free(p->data, p->size);
    vm->pages = NULL;
}

int64_t tw_vm_buffer_bytes(const tw_vm *vm) {
    int64_t n = 0;
    for (const struct tw_buffer_pages *p = vm->pages; p; p = p->next) n += (int64_t)p->size;
    return n;
}

bool tw_vm_has_cache(const tw_vm *vm, const char *name) {
    for (const struct tw_shared_buffer *e = vm->shared; e; e = e->next)
        if (!strcmp(e->name, name)) return true;
    return false;
}

static tw_status shared_buffer(tw_vm *vm, const tw_buffer *b, void **out, tw_diag *diag) {
    for (struct tw_shared_buffer *e = vm->shared; e; e = e->next) {
        if (strcmp(e->name, b->name)) continue;
        if (memcmp(e->shape, b->shape, sizeof e->shape))
            return tw_fail(diag, TW_ERR_MISMATCH, "the programs disagree on the shape of %s", b->name);
        *out = e->data;
        return TW_OK;
    }
    tw_status st = new_pages(vm, b, out, diag);
    if (st != TW_OK) return st;
    struct tw_shared_buffer *e = tw_arena_alloc(&vm->arena, sizeof *e);
    const char *name = tw_arena_strdup(&vm->arena, b->name);
    if (!e || !name) return tw_fail_memory(diag);
    *e = (struct tw_shared_buffer){vm->shared, name, {b->shape[0], b->shape[1], b->shape[2]}, *out};
    vm->shared = e;
    return TW_OK;
}

tw_status tw_vm_make_buffers(tw_vm *vm, tw_program *p, tw_diag *diag) {
    const tw_schedule *s = p->s;
    p->buffers = tw_arena_array(&vm->arena, (size_t)s->n_buffers + 1, sizeof *p->buffers);
    if (!p->buffers) return tw_fail_memory(diag);
    tw_status st = TW_OK;
    for (int i = 0; i < s->n_buffers && st == TW_OK; i++) {
        const tw_buffer *b = &s->buffers[i];
        if (b->kind == TW_BUFFER_KV)
            st = shared_buffer(vm, b, &p->buffers[i], diag);
        else if (b->kind != TW_BUFFER_WEIGHT)
            st = new_pages(vm, b, &p->buffers[i], diag);
    }
    return st;
}
