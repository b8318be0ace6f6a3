/* SPDX-License-Identifier: Apache-2.0 */
/* Where scratch buffers lie. A buffer lives from the first step that writes it to the last that reads it, and shares
   memory with none that lives at one of these steps. So memory may be used again as soon as the steps before are over.
   Launches of a GPU that begin early wait for that before they write, and before they read anything but constants. */
#include "base/diag.h"
#include "base/divide.h"
#include "graph/program/program.h"

#include <stdlib.h>

typedef struct life {
    int buffer, from, to; /* Steps, `to` included. */
    int64_t bytes, offset;
} life;

static int by_size(const void *a, const void *b) {
    const life *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return (x->from > y->from) - (x->from < y->from);
}

static int by_offset(const void *a, const void *b) {
    const life *const *x = a, *const *y = b;
    return ((*x)->offset > (*y)->offset) - ((*x)->offset < (*y)->offset);
}

static void find_lives(const tw_program *p, life *lives) {
    for (int i = 0; i < p->n_buffers; i++) {
        const int64_t bytes = p->buffers[i].bytes > 0 ? p->buffers[i].bytes : 1;
        lives[i] = (life){i, -1, -1, tw_ceil_div(bytes, TW_PROGRAM_ALIGN) * TW_PROGRAM_ALIGN, 0};
    }
    for (int i = 0; i < p->n_steps; i++) {
        const tw_step *s = &p->steps[i];
        for (int o = 0; o < s->n_in + s->n_out; o++) {
            const int b = (o < s->n_in ? s->in[o] : s->out[o - s->n_in]).buffer;
            if (b < 0) continue;
            if (lives[b].from < 0) lives[b].from = i;
            lives[b].to = i;
        }
    }
}

/* Finds the lowest place that is free during a life. `others` has room for all that are placed. */
static int64_t place(const life *lives, int n, const life *x, const life **others) {
    int count = 0;
    int64_t at = 0;
    for (int i = 0; i < n; i++)
        if (lives[i].from <= x->to && x->from <= lives[i].to) others[count++] = &lives[i];
    if (count) qsort(others, (size_t)count, sizeof *others, by_offset);
    for (int i = 0; i < count; i++) {
        if (others[i]->offset >= at + x->bytes) break;
        if (others[i]->offset + others[i]->bytes > at) at = others[i]->offset + others[i]->bytes;
    }
    return at;
}

tw_status tw_program_plan_memory(tw_program *p, tw_diag *diag) {
    life *lives = calloc((size_t)p->n_buffers + 1, sizeof *lives);
    const life **others = calloc((size_t)p->n_buffers + 1, sizeof *others);
    int n = 0;
    p->scratch_bytes = 0;
    if (lives && others) {
        find_lives(p, lives);
        for (int i = 0; i < p->n_buffers; i++)
            if (p->buffers[i].kind == TW_PROGRAM_SCRATCH && lives[i].from >= 0) lives[n++] = lives[i];
        if (n) qsort(lives, (size_t)n, sizeof *lives, by_size);
    }
    for (int i = 0; i < n; i++) {
        lives[i].offset = place(lives, i, &lives[i], others);
        p->buffers[lives[i].buffer].offset = lives[i].offset;
        if (lives[i].offset + lives[i].bytes > p->scratch_bytes) p->scratch_bytes = lives[i].offset + lives[i].bytes;
    }
    const bool there = lives && others;
    free(lives);
    free(others);
    return there ? TW_OK : tw_fail_memory(diag);
}
