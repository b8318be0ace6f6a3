/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "emu/emu.h"
#include "kernels/gemm/reference.h"

#include <stdlib.h>
#include <string.h>

typedef struct run {
    tw_emu *emu;
    tw_gpu_buffer buffers[TW_GEMM_BUFFERS];
    tw_gemm_buffers at;
} run;

static size_t matrix_bytes(tw_gemm_matrix m) {
    m.count = 1;
    return tw_gemm_matrix_bytes(&m);
}

/* Allocates each matrix of a batch by itself, and the array of their addresses. */
static bool allocate_apart(run *r, const tw_gemm_data *d, tw_gemm_buffer which) {
    const tw_gpu_buffer *x = &r->buffers[which];
    const tw_gemm_matrix m = tw_gemm_matrix_of(&d->problem, which);
    const int64_t stride = m.stride * (tw_type_bits(m.type) / 8);
    const bool c = which == TW_GEMM_C;
    uint64_t *at = malloc(x->bytes);
    bool good = at;
    for (int64_t i = m.count - 1; i >= 0 && good; i--) {
        const char *from = (const char *)d->of[which] + i * stride;
        at[i] = tw_emu_alloc(r->emu, x->name, c ? NULL : from, matrix_bytes(m), !c);
        good = at[i];
    }
    if (good) r->at.of[which] = tw_emu_alloc(r->emu, x->name, at, x->bytes, true);
    free(at);
    return r->at.of[which];
}

/* Allocates a tape in the place of B, and the table of its units. */
static bool allocate_tape(run *r, const tw_gemm_data *d, bool ready) {
    const tw_gpu_buffer *x = &r->buffers[TW_GEMM_B];
    const tw_gemm_problem *p = &d->problem;
    const size_t bytes = tw_gemm_tape_bytes(p);
    tw_gemm_unit *units = malloc(x->bytes);
    void *tape = malloc(bytes);
    const bool good = units && tape;
    if (good) tw_gemm_tape_place(p, d->seed, 0, units);
    if (good) tw_gemm_tape_pack(p, d->of[TW_GEMM_B], units, 0, tape);
    const uint64_t at = good ? tw_emu_alloc(r->emu, "tape", tape, bytes, ready) : 0;
    for (int64_t i = 0; i < tw_gemm_tape_entries(p) && at; i++) units[i].address += at;
    if (at) r->at.of[TW_GEMM_B] = tw_emu_alloc(r->emu, x->name, units, x->bytes, ready);
    free(tape);
    free(units);
    return r->at.of[TW_GEMM_B];
}

/* Copies C from or to the emulator's memory. The host's copy is as tw_gemm_matrix_of says. */
static void move_c(const run *r, const tw_gemm_data *d, bool write, unsigned char *host) {
    const tw_gemm_matrix m = tw_gemm_matrix_of(&d->problem, TW_GEMM_C);
    const bool apart = tw_gemm_by_pointers(&d->problem, TW_GEMM_C);
    const int64_t stride = m.stride * (tw_type_bits(m.type) / 8);
    const size_t bytes = apart ? matrix_bytes(m) : d->bytes[TW_GEMM_C];
    for (int64_t i = 0; i < (apart ? m.count : 1); i++) {
        uint64_t at = r->at.of[TW_GEMM_C];
        if (apart) tw_emu_read(r->emu, at + (uint64_t)i * TW_GEMM_POINTER, &at, sizeof at);
        if (write)
            tw_emu_write(r->emu, at, host + i * stride, bytes);
        else
            tw_emu_read(r->emu, at, host + i * stride, bytes);
    }
}

/* With `early` the launch before may still write whatever is not said to be ready. */
static bool allocate(run *r, const tw_gemm_data *d, bool early) {
    for (int i = 0; i < TW_GEMM_BUFFERS; i++) {
        const tw_gpu_buffer *x = &r->buffers[i];
        if (!x->bytes) continue;
        if (tw_gemm_by_pointers(&d->problem, (tw_gemm_buffer)i)) {
            if (!allocate_apart(r, d, (tw_gemm_buffer)i)) return false;
            continue;
        }
        void *zeros = x->zeroed ? calloc(1, x->bytes) : NULL;
        const void *from = x->written ? zeros : d->of[i]; /* NULL: uninitialised. */
        const bool ready = !early || ((i == TW_GEMM_B || i == TW_GEMM_SCALES) && d->problem.weights);
        if (i == TW_GEMM_B && d->problem.tape.warps)
            allocate_tape(r, d, ready);
        else if (zeros || !x->zeroed)
            r->at.of[i] = tw_emu_alloc(r->emu, x->name, from, x->bytes, !x->written && ready);
        free(zeros);
        if (!r->at.of[i]) return false;
    }
    return true;
}

static tw_status judge(const run *r, const tw_gemm_data *d, unsigned char *now, const unsigned char *before,
                       tw_diag *diag) {
    int64_t first = 0;
    double worst;
    move_c(r, d, false, now);
    int64_t wrong = tw_gemm_data_compare(d, now, &worst, &first), gaps = tw_gemm_data_gaps(d, now, before);
    if (wrong)
        return tw_fail(
            diag, TW_ERR_MISMATCH,
            "%lld of %lld cells are wrong, the first at row %lld, column %lld; the worst by %.3g times what is allowed",
            (long long)wrong, (long long)d->cells, (long long)(first / tw_gemm_columns(&d->problem) % d->problem.m),
            (long long)(first % tw_gemm_columns(&d->problem)), worst);
    if (gaps < 0) return tw_fail_memory(diag);
    if (gaps) return tw_fail(diag, TW_ERR_MISMATCH, "%lld elements between C's rows were written", (long long)gaps);
    return TW_OK;
}

/* Checks the sums of squares of C's rows, and its cells times gains. C itself is known to be right. */
static tw_status judge_more(const run *r, const tw_gemm_data *d, const tw_gemm_config *c, const unsigned char *now,
                            tw_diag *diag) {
    const tw_gemm_squares of = tw_gemm_squares_of(&d->problem, c);
    for (int i = TW_GEMM_SQUARES; i <= TW_GEMM_SCALED; i++) {
        const size_t bytes = r->buffers[i].bytes;
        void *all = malloc(bytes + 1);
        if (!all) return tw_fail_memory(diag);
        tw_emu_read(r->emu, r->at.of[i], all, bytes);
        const int64_t wrong = !bytes                 ? 0
                              : i == TW_GEMM_SQUARES ? tw_gemm_data_squares(d, now, &of, all)
                                                     : tw_gemm_data_scaled(d, (const void *)now, all);
        memset(all, 0xff, bytes); /* For the next launch. */
        if (bytes) tw_emu_write(r->emu, r->at.of[i], all, bytes);
        free(all);
        if (wrong)
            return tw_fail(diag, TW_ERR_MISMATCH, "%lld %s are wrong", (long long)wrong,
                           i == TW_GEMM_SQUARES ? "sums of squares" : "scaled cells");
    }
    return TW_OK;
}

/* Checks that what blocks share is zero again, as the next launch needs it. */
static tw_status judge_zeros(const run *r, tw_diag *diag) {
    for (int i = 0; i < TW_GEMM_BUFFERS; i++)
        for (size_t at = 0; r->buffers[i].zeroed && at < r->buffers[i].bytes; at += 4) {
            uint32_t word = 0;
            tw_emu_read(r->emu, r->at.of[i] + at, &word, sizeof word);
            if (word)
                return tw_fail(diag, TW_ERR_MISMATCH, "%s: not zero after the launch, at byte %zu", r->buffers[i].name,
                               at);
        }
    return TW_OK;
}

tw_status tw_gemm_emulate_kernel(const tw_gemm_data *d, const tw_gemm_config *c, const tw_target *t, const tw_kernel *k,
                                 uint64_t seed, tw_emu_report *report, tw_diag *diag) {
    tw_gemm_resources need;
    run r = {.emu = NULL};
    tw_emu_report unseen;
    if (!report) report = &unseen;
    *report = (tw_emu_report){0};
    tw_gemm_legal(&d->problem, c, t, &need, NULL);
    tw_gemm_describe_buffers(&d->problem, c, &need, r.buffers);
    r.emu = tw_emu_new();
    const size_t bytes = d->bytes[TW_GEMM_C];
    unsigned char *now = malloc(bytes), *before = malloc(bytes);
    tw_status st = now && before && r.emu && allocate(&r, d, c->early) ? TW_OK : tw_fail_memory(diag);
    /* What lies between matrices that are apart stays so in both. */
    if (st == TW_OK) memset(before, 0xff, bytes), memset(now, 0xff, bytes);
    tw_launch_values l;
    tw_gemm_launch_of(&d->problem, c, &r.at, &l);
    const tw_signature signature = tw_signature_of(k);
    uint64_t words[TW_ARGUMENTS];
    tw_arguments_place(&l.arguments, &signature, words);
    for (int i = 0; st == TW_OK && i < (need.counter_bytes ? 2 : 1); i++) {
        tw_emu_options o = {.seed = seed + (uint64_t)i, .grid = {l.grid[0], l.grid[1], l.grid[2]}, .overlaps = l.early};
        /* C has what beta needs. With beta 0 it has garbage, and nothing of the launch before. */
        if (d->problem.beta != 0) {
            move_c(&r, d, true, d->of[TW_GEMM_C]);
        } else if (i) {
            memset(now, 0xff, bytes);
            move_c(&r, d, true, now);
        }
        move_c(&r, d, false, before);
        st = tw_emu_launch(r.emu, k, words, &o, report, diag);
        if (st == TW_ERR_REJECTED) st = tw_emu_explain(report, diag);
        if (st == TW_OK) st = judge(&r, d, now, before, diag);
        if (st == TW_OK) st = judge_more(&r, d, c, now, diag);
        if (st == TW_OK) st = judge_zeros(&r, diag);
    }
    free(now);
    free(before);
    if (r.emu) tw_emu_free(r.emu);
    return st;
}

tw_status tw_gemm_emulate(const tw_gemm_data *d, const tw_gemm_config *c, const tw_target *t, uint64_t seed,
                          tw_emu_report *report, tw_diag *diag) {
    tw_diag own;
    if (!diag) diag = &own;
    tw_kernel *k = tw_gemm_make(&d->problem, c, t, true, diag);
    tw_status st = k ? TW_OK : diag->status;
    if (st == TW_OK) st = tw_gemm_emulate_kernel(d, c, t, k, seed, report, diag);
    tw_kernel_free(k);
    return st;
}
