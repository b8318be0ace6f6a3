/* SPDX-License-Identifier: Apache-2.0 */
/* A program's matrices as products read them from the tapes (kernels/gemm/gemm.h, tw_gemm_tape). */
#include "base/diag.h"
#include "kernels/gemm/gemm.h"
#include "kernels/parts/tile.h"
#include "vm/cuda/machine.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)TW_MEGA_PIECE == (int)TW_TILE_PIECE && (int)TW_MEGA_ROWS == (int)TW_TILE_ROWS,
               "a tile of pieces has the tape's");

/* The table of a matrix's units as it is filled. */
typedef struct finding {
    const tw_mega_program *p;
    const char *name;
    tw_gemm_unit *units;
    int64_t rows;     /* Rows of the matrix. */
    int64_t n, found; /* Units of the matrix, and of those instructions that were found. */
    tw_mega_shape shape;
    tw_instr_op op;
    tw_diag *diag;
} finding;

static bool multiplies_by(const finding *f, const tw_instr *in) {
    return tw_instr_op_multiplies(in->op) &&
           !strcmp(f->p->s->buffers[tw_instr_matrices_of(in).matrix[0]].name, f->name);
}

/* Counts the rows that a product of an instruction's op has: those of all its matrices. */
static int64_t rows_of(const tw_schedule *s, const tw_instr *in) {
    const tw_instr_matrices m = tw_instr_matrices_of(in);
    int64_t rows = 0;
    for (int i = 0; i < m.n; i++) rows += s->buffers[m.matrix[i]].shape[1];
    return rows;
}

/* Prepares the table for the first instruction that is found. */
static tw_status begin(finding *f, const tw_instr *in) {
    const tw_mega_plan *plan = &f->p->plan;
    const tw_mega_format *format = tw_mega_format_for(plan, in->op);
    const int bytes = plan->tuning.warps * plan->tuning.blocks * TW_MEGA_PIECE;
    if ((format->dtype != TW_BF16 && format->dtype != TW_F16) || tw_mega_stage_bytes(plan, in->op) != bytes)
        return tw_fail(f->diag, TW_ERR_UNSUPPORTED, "%s lies on tapes as %s, which products do not read", f->name,
                       tw_dtype_name(format->dtype));
    f->op = in->op;
    f->shape = tw_mega_shape_of(plan, f->p->s, in);
    f->rows = rows_of(f->p->s, in);
    f->n = (f->rows + TW_MEGA_ROWS - 1) / TW_MEGA_ROWS;
    f->units = calloc((size_t)f->n, sizeof *f->units);
    return f->units ? TW_OK : tw_fail_memory(f->diag);
}

/* Adds the units of an instruction whose stages begin at an address. */
static tw_status add(finding *f, const tw_instr *in, uint64_t address) {
    const tw_mega_plan *plan = &f->p->plan;
    tw_status st = f->units ? TW_OK : begin(f, in);
    if (st != TW_OK) return st;
    const tw_mega_shape s = tw_mega_shape_of(plan, f->p->s, in);
    const int64_t bytes = (int64_t)(s.run / plan->tuning.blocks) * tw_mega_stage_bytes(plan, in->op);
    const int64_t first = in->param[TW_FROM] * (in->op == TW_INSTR_FFN ? 2 : 1), at = first / TW_MEGA_ROWS;
    if (in->op != f->op || first % (in->op == TW_INSTR_FFN ? 2 * TW_MEGA_ROWS : TW_MEGA_ROWS) || at + s.units > f->n)
        return tw_fail(f->diag, TW_ERR_UNSUPPORTED, "%s is dealt out in parts that are no whole units of %d rows",
                       f->name, TW_MEGA_ROWS);
    for (int u = 0; u < s.units; u++) {
        const int64_t group = u / s.group_units * s.group_units;
        const int64_t units = s.units - group < s.group_units ? s.units - group : s.group_units;
        const int64_t place = (group * s.chunks + u - group) * bytes;
        f->units[at + u] = (tw_gemm_unit){address + (uint64_t)place, units * bytes};
    }
    f->found += s.units;
    return TW_OK;
}

/* Walks a worker's tape. */
static tw_status find_on_tape(finding *f, int worker) {
    const tw_worker *w = &f->p->s->workers[worker];
    uint64_t at = f->p->tapes[worker]->address;
    tw_status st = TW_OK;
    for (int i = 0; i < w->count && st == TW_OK; i++) {
        const tw_instr *in = &w->list[i];
        if (!tw_instr_op_multiplies(in->op)) continue;
        if (multiplies_by(f, in)) st = add(f, in, at);
        const int64_t stages = tw_mega_shape_of(&f->p->plan, f->p->s, in).stages;
        at += (uint64_t)(stages * tw_mega_stage_bytes(&f->p->plan, in->op));
    }
    return st;
}

static tw_status complete(const finding *f) {
    int64_t missing = 0;
    for (int64_t i = 0; i < f->n; i++) missing += !f->units[i].address;
    if (!f->found) return tw_fail(f->diag, TW_ERR_USAGE, "no instruction multiplies by %s", f->name);
    if (missing || f->found != f->n)
        return tw_fail(f->diag, TW_ERR_UNSUPPORTED, "%s: %lld of %lld units are on no tape, or on several", f->name,
                       (long long)missing, (long long)f->n);
    return TW_OK;
}

tw_status tw_cuda_vm_matrix_of(tw_cuda_vm *vm, int program, const char *name, tw_cuda_vm_matrix *out, tw_diag *diag) {
    finding f = {.name = name, .p = tw_mega_program_find(vm, program), .diag = diag};
    tw_status st = f.p ? TW_OK : tw_fail(diag, TW_ERR_USAGE, "there is no program %d", program);
    for (int w = 0; st == TW_OK && w < f.p->s->n_workers; w++) st = find_on_tape(&f, w);
    if (st == TW_OK) st = complete(&f);
    *out = (tw_cuda_vm_matrix){0};
    if (st == TW_OK)
        st = tw_mega_alloc(vm, f.p, "units", f.units, (size_t)f.n * sizeof *f.units, true, &out->units, diag);
    if (st == TW_OK) {
        const tw_mega_plan *plan = &f.p->plan;
        out->rows = f.rows;
        out->columns = f.shape.columns;
        out->dtype = tw_mega_format_for(plan, f.op)->dtype;
        out->warps = plan->tuning.warps;
        out->blocks = plan->tuning.blocks;
        out->run = f.shape.run;
    }
    free(f.units);
    return st;
}
