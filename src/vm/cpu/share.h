/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that multiply by rows of one matrix read the same activations. They pack them together, each a part. */
#ifndef TW_VM_CPU_SHARE_H
#define TW_VM_CPU_SHARE_H

#include "vm/cpu/exec.h"

/* Packed activations of instructions that read the same rows. */
typedef struct tw_pack {
    void *rows;                        /* Memory of the packed rows. All packs of a program have the same. */
    _Alignas(64) _Atomic int32_t next; /* Tiles of rows that a worker has taken, in this step. */
    _Alignas(64) _Atomic int32_t done; /* Tiles of rows that are packed, in this step. */
} tw_pack;

/* Finds the instructions of a program that may share packed activations, and sets tw_exec.pack. */
tw_status tw_vm_share(tw_vm *vm, tw_program *p, tw_diag *diag);
/* Bytes of the memory that the packs of such a program have. */
size_t tw_vm_share_bytes(const tw_vm *vm, const tw_schedule *s);
/* Begins a step of the program: nothing is packed. The caller has all workers idle. */
void tw_vm_share_begin(tw_program *p);

/* Packs n rows of x, `dim` floats each, with the other workers of e->pack, and returns them. With `w` they are
   normalised (tw_exec_norm) before. `room` is TW_PACKED_TILE rows of dim + TW_PANEL_ROWS floats. NULL: they are not to
   be packed. */
const void *tw_share_rows(tw_vm_thread *thread, const tw_exec *e, const float *x, const float *w, const float *b,
                          int64_t n, int64_t dim, float *room);

#endif
