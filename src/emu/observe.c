/* SPDX-License-Identifier: Apache-2.0 */
/* Telling an observer what memory operations access. An operation's accesses are told together, when the next operation
   accesses memory or the launch ends. */
#include "emu/machine.h"

#include <stdlib.h>

void emu_note_tell(emu_launch *l) {
    emu_noted *n = &l->noted;
    for (int i = 0; i < 2; i++) {
        tw_emu_access *a = &n->access[i];
        if (!a->n) continue;
        a->pieces = n->pieces[i];
        l->options->observer(l->options->observer_context, a);
        a->n = 0;
    }
}

void emu_note(emu_warp *w, const emu_op *op, const emu_how *how, int lane, const emu_object *o, uint64_t from,
              uint32_t bytes) {
    emu_launch *l = w->launch;
    emu_noted *n = &l->noted;
    if (n->time != l->operations) emu_note_tell(l);
    n->time = l->operations;
    const int i = o->block >= 0;
    tw_emu_access *a = &n->access[i];
    if (!emu_grow(l, (void **)&n->pieces[i], a->n, &n->room[i], sizeof *n->pieces[i])) return;
    if (!a->n)
        *a = (tw_emu_access){.kernel = l->kernel,
                             .op = op->ir,
                             .time = l->operations - 1,
                             .block = w->block->number,
                             .warp = w->index,
                             .space = i ? TW_SPACE_shared : TW_SPACE_global,
                             .engine = how->async};
    a->read |= how->read;
    a->write |= how->write;
    n->pieces[i][a->n++] = (tw_emu_piece){.lane = lane,
                                          .bytes = bytes,
                                          .address = o->base + from,
                                          .object = o->name,
                                          .object_bytes = o->bytes,
                                          .offset = from};
}

void emu_note_free(emu_launch *l) {
    free(l->noted.pieces[0]);
    free(l->noted.pieces[1]);
}
