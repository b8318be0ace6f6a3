/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of a list: their kernels, and the buffers that these get. */
#include "vm/prefill/builder.h"

#include "base/diag.h"

#include <stdlib.h>
#include <string.h>

tw_status tw_prefill_add_launch(const tw_prefill_builder *o, const tw_prefill_kernel *k, const tw_prefill_binding *to,
                                tw_diag *diag) {
    tw_prefill_list *list = o->list;
    if (list->n == list->room) {
        const int room = list->room ? 2 * list->room : 64;
        tw_gpu_launch **grown = realloc(list->launches, (size_t)room * sizeof(tw_gpu_launch *));
        if (!grown) return tw_fail_memory(diag);
        list->launches = grown;
        list->room = room;
    }
    tw_gpu_launch *l;
    tw_status st = tw_gpu_launch_open(&l, k->kernel, diag);
    if (st != TW_OK) return st;
    list->launches[list->n++] = l;
    if (k->workspace) st = tw_gpu_launch_bind(l, "workspace", k->workspace, diag);
    if (k->counters && st == TW_OK) st = tw_gpu_launch_bind(l, "counters", k->counters, diag);
    /* A buffer that a kernel has and does not use gets some address. */
    for (; to->name && st == TW_OK; to++)
        st = tw_gpu_launch_bind(l, to->name, to->address ? to->address : o->p->memory.step, diag);
    return st;
}

void tw_prefill_drop_launches(tw_prefill_list *list, int n) {
    while (list->n > n) tw_gpu_launch_close(list->launches[--list->n]);
}

/* Opens the kernel of a kind for a shape, unless it is open. */
static tw_status open_kernel(tw_prefill *p, const tw_prefill_kind *kind, const tw_prefill_shape *shape,
                             tw_prefill_kernel **out, tw_diag *diag) {
    tw_prefill_kernel *k = p->kernels;
    while (k && (k->problem.kind != kind || memcmp(&k->problem.shape, shape, sizeof *shape) != 0)) k = k->next;
    *out = k;
    if (k) return TW_OK;
    k = tw_arena_alloc(&p->arena, sizeof *k);
    if (p->arena.failed) return tw_fail_memory(diag);
    memset(k, 0, sizeof *k);
    k->problem.kind = kind;
    memcpy(&k->problem.shape, shape, sizeof *shape);
    const tw_status st = tw_kernel_open_made(&k->kernel, &p->gpu, tw_prefill_make, &k->problem, diag);
    if (st != TW_OK) return st;
    k->next = p->kernels;
    *out = p->kernels = k;
    return TW_OK;
}

tw_status tw_prefill_add_kind(const tw_prefill_builder *o, const tw_prefill_kind *kind, const tw_prefill_shape *shape,
                              const tw_prefill_binding *to, tw_diag *diag) {
    tw_prefill_kernel *k;
    const tw_status st = open_kernel(o->p, kind, shape, &k, diag);
    return st == TW_OK ? tw_prefill_add_launch(o, k, to, diag) : st;
}

void tw_prefill_shape_of(const tw_prefill_builder *o, int64_t columns, tw_prefill_shape *out) {
    memset(out, 0, sizeof *out);
    out->m = o->p->vm->m;
    out->type = o->p->type;
    out->kv = o->p->kv;
    out->tokens = o->rows->tokens;
    out->max_seq = o->p->s->max_seq;
    out->columns = columns;
    out->many = o->list->many;
    out->early = true;
}

uint64_t tw_prefill_shared(const tw_prefill *p, int buffer) {
    const tw_mega_named *e = buffer < 0 ? NULL : tw_mega_named_find(p->vm, p->s->buffers[buffer].name);
    return e ? e->address : 0;
}

const tw_prefill_matrix *tw_prefill_matrix_of(const tw_prefill *p, const tw_instr *in) {
    return &p->matrices[in - p->s->workers[0].list];
}

tw_status tw_prefill_add_product(const tw_prefill_builder *o, const tw_instr *in, const tw_prefill_product *of,
                                 tw_diag *diag) {
    tw_prefill *p = o->p;
    const tw_prefill_matrix *matrix = of->matrix ? of->matrix : tw_prefill_matrix_of(p, in);
    tw_prefill_kernel *k;
    bool reads_tapes = false;
    tw_status st = tw_prefill_open_product(p, o->rows, matrix, of->epilogue, of->rope, &k, &reads_tapes, diag);
    if (st == TW_OK && !reads_tapes) {
        const tw_prefill_binding to[] = {{"units", matrix->table}, {"out", p->memory.matrix}, {NULL, 0}};
        tw_prefill_shape shape;
        memcpy(&shape, &matrix->shape, sizeof shape);
        shape.early = true;
        st = tw_prefill_add_kind(o, &tw_prefill_unpack, &shape, to, diag);
    }
    tw_prefill_binding to[20] = {{"a", of->a}, {"b", reads_tapes ? matrix->table : p->memory.matrix}, {"c", of->c}};
    int n = 3;
    if (of->bias) to[n++] = (tw_prefill_binding){"bias", of->bias};
    if (of->divides) to[n++] = (tw_prefill_binding){"sums", p->memory.squares};
    for (const tw_prefill_binding *b = of->roped; b && b->name; b++) to[n++] = *b;
    if (of->gains) {
        to[n++] = (tw_prefill_binding){"gains", of->gains};
        to[n++] = (tw_prefill_binding){"scaled", p->memory.normed};
        to[n++] = (tw_prefill_binding){"squares", p->memory.squares};
    }
    if (matrix->groups) to[n++] = (tw_prefill_binding){"ends", p->memory.ends};
    if (in->op == TW_INSTR_EXPERTS_DOWN) {
        to[n++] = (tw_prefill_binding){"places", p->memory.places};
        to[n++] = (tw_prefill_binding){"factors", p->memory.factors};
    }
    if (o->rows->masked && !matrix->groups)
        to[n++] = (tw_prefill_binding){"counts", p->memory.step + 4 * TW_STEP_COUNT};
    return st == TW_OK ? tw_prefill_add_launch(o, k, to, diag) : st;
}
