/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the device or of the emulator. */
#include "base/diag.h"
#include "vm/cuda/machine.h"

#include <stdlib.h>

static void count(tw_cuda_vm *vm, tw_mega_memory *e, size_t bytes) {
    e->bytes = bytes;
    vm->bytes += (int64_t)bytes;
    if (vm->bytes > vm->most_bytes) vm->most_bytes = vm->bytes;
}

/* Adds an entry for an allocation. tw_mega_free removes the entry, even if the allocation failed. */
static tw_mega_memory *add(tw_cuda_vm *vm, const void *owner) {
    tw_mega_memory *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    *e = (tw_mega_memory){.next = vm->memory, .owner = owner};
    return vm->memory = e;
}

tw_status tw_mega_alloc(tw_cuda_vm *vm, const void *owner, const char *name, const void *data, size_t bytes,
                        bool read_only, uint64_t *address, tw_diag *diag) {
    tw_mega_memory *e = add(vm, owner);
    if (!e) return tw_fail_memory(diag);
    const size_t room = bytes ? bytes : 4; /* An empty buffer has an address, too. */
    tw_status st = TW_OK;
    if (vm->emu) {
        e->address = tw_emu_alloc(vm->emu, name, bytes ? data : NULL, room, read_only);
        if (!e->address) st = tw_fail_memory(diag);
    } else {
        st = tw_cuda_alloc(vm->cuda, room, &e->address, diag);
        if (st == TW_OK && data) st = tw_cuda_upload(vm->cuda, e->address, data, bytes, diag);
    }
    if (st != TW_OK) return st;
    *address = e->address;
    count(vm, e, room);
    return TW_OK;
}

tw_status tw_mega_alloc_zeros(tw_cuda_vm *vm, const void *owner, const char *name, size_t bytes, uint64_t *address,
                              tw_diag *diag) {
    void *zeros = calloc(1, bytes);
    if (!zeros) return tw_fail_memory(diag);
    tw_status st = tw_mega_alloc(vm, owner, name, zeros, bytes, false, address, diag);
    free(zeros);
    return st;
}

/* The emulator's memory stays until the emulator is freed. */
void tw_mega_free(tw_cuda_vm *vm, const void *owner) {
    for (tw_mega_memory **at = &vm->memory; *at;) {
        tw_mega_memory *e = *at;
        if (e->owner != owner) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        vm->bytes -= (int64_t)e->bytes;
        if (e->host)
            tw_cuda_release_shared(vm->cuda, e->host);
        else if (vm->cuda && e->address)
            tw_cuda_release(vm->cuda, e->address);
        free(e);
    }
}

tw_status tw_mega_alloc_shared(tw_cuda_vm *vm, const void *owner, const char *name, size_t bytes, void **host,
                               uint64_t *address, tw_diag *diag) {
    *host = NULL;
    if (vm->emu) return tw_mega_alloc(vm, owner, name, NULL, bytes, false, address, diag);
    tw_mega_memory *e = add(vm, owner);
    if (!e) return tw_fail_memory(diag);
    tw_status st = tw_cuda_alloc_shared(vm->cuda, bytes, &e->host, &e->address, diag);
    *host = e->host;
    *address = e->address;
    return st;
}

tw_status tw_mega_write(tw_cuda_vm *vm, uint64_t to, const void *data, size_t bytes, tw_diag *diag) {
    if (!vm->emu) return tw_cuda_upload(vm->cuda, to, data, bytes, diag);
    return tw_emu_write(vm->emu, to, data, bytes) ? TW_OK : tw_fail_memory(diag);
}

tw_status tw_mega_read(tw_cuda_vm *vm, void *data, uint64_t from, size_t bytes, tw_diag *diag) {
    if (!vm->emu) return tw_cuda_download(vm->cuda, data, from, bytes, diag);
    return tw_emu_read(vm->emu, from, data, bytes) ? TW_OK : tw_fail_memory(diag);
}
