/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a program's reads and writes, byte by byte: of each range of memory it knows which buffer's it is now. */
#include "base/diag.h"
#include "base/grow.h"
#include "graph/program/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes from .. below - 1 hold what was written to a buffer. */
typedef struct range {
    int64_t from, below;
    int buffer;
} range;

typedef struct memory {
    const tw_program *p;
    range *ranges; /* In ascending order, without overlaps. */
    int n, room;
    int64_t *bases; /* By buffer: where it begins. All but scratch buffers lie behind scratch memory. */
    bool failed;
    tw_diag *diag;
    int step;
} memory;

static int first_behind(const memory *m, int64_t at) {
    int lo = 0, hi = m->n;
    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        if (m->ranges[mid].below <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void insert(memory *m, int at, range r) {
    range *grown = tw_grow(m->ranges, m->n, &m->room, 64, sizeof *m->ranges);
    if (!grown) {
        m->failed = true;
        return;
    }
    m->ranges = grown;
    memmove(&grown[at + 1], &grown[at], (size_t)(m->n - at) * sizeof *grown);
    grown[at] = r;
    m->n++;
}

static void write_range(memory *m, int64_t from, int64_t below, int buffer) {
    int i = first_behind(m, from), end;
    if (i < m->n && m->ranges[i].from < from) { /* What lies before stays. */
        const range whole = m->ranges[i];
        m->ranges[i].below = from;
        insert(m, ++i, (range){from, whole.below, whole.buffer});
        if (m->failed) return;
    }
    for (end = i; end < m->n && m->ranges[end].below <= below; end++) continue;
    if (end < m->n && m->ranges[end].from < below) m->ranges[end].from = below;
    if (end > i) {
        memmove(&m->ranges[i], &m->ranges[end], (size_t)(m->n - end) * sizeof *m->ranges);
        m->n -= end - i;
    }
    if (i > 0 && m->ranges[i - 1].below == from && m->ranges[i - 1].buffer == buffer)
        m->ranges[i - 1].below = below;
    else
        insert(m, i, (range){from, below, buffer});
}

static bool is_written(const memory *m, int64_t from, int64_t below, int buffer) {
    for (int i = first_behind(m, from); from < below; i++) {
        if (i == m->n || m->ranges[i].from > from || m->ranges[i].buffer != buffer) return false;
        from = m->ranges[i].below;
    }
    return true;
}

/* Calls `each` for the contiguous runs of bytes of a view. */
typedef bool run_fn(memory *m, int64_t from, int64_t below, int buffer);

static bool for_runs(memory *m, const tw_view *v, run_fn *each) {
    int64_t dims[TW_ARRAY_RANK], strides[TW_ARRAY_RANK], index[TW_ARRAY_RANK] = {0};
    const int64_t size = tw_element_bits(v->type) / 8;
    int64_t run = size, base = m->bases[v->buffer] + v->offset;
    bool used[TW_ARRAY_RANK] = {false};
    int n = 0;
    if (!tw_view_elements(v)) return true;
    for (int i = 0; i < v->rank; i++) {
        if (v->dims[i] == 1 || !v->strides[i]) continue;
        dims[n] = v->dims[i];
        strides[n] = v->strides[i] * size;
        if (strides[n] < 0) { /* The same bytes from the other end. */
            base += (dims[n] - 1) * strides[n];
            strides[n] = -strides[n];
        }
        n++;
    }
    for (bool more = true; more;) { /* What follows a run without a gap joins it. */
        more = false;
        for (int i = 0; i < n; i++)
            if (!used[i] && strides[i] <= run) {
                run += (dims[i] - 1) * strides[i];
                used[i] = more = true;
            }
    }
    for (;;) {
        int64_t at = base;
        for (int i = 0; i < n; i++) at += used[i] ? 0 : index[i] * strides[i];
        if (!each(m, at, at + run, v->buffer)) return false;
        int d = n - 1;
        while (d >= 0 && (used[d] || ++index[d] == dims[d])) index[d--] = 0;
        if (d < 0) return true;
    }
}

static bool reads(memory *m, int64_t from, int64_t below, int buffer) {
    return is_written(m, from, below, buffer);
}

static bool writes(memory *m, int64_t from, int64_t below, int buffer) {
    write_range(m, from, below, buffer);
    return !m->failed;
}

static tw_status wrong(const memory *m, const tw_view *v, const char *why) {
    char step[512];
    tw_step_describe(m->p, &m->p->steps[m->step], step, sizeof step);
    return tw_fail(m->diag, TW_ERR_REJECTED, "step %d, %s: \"%s\" %s", m->step, step,
                   v->buffer < m->p->n_buffers ? m->p->buffers[v->buffer].name : "?", why);
}

/* Checks that a view lies within its buffer. */
static tw_status check_view(const memory *m, const tw_view *v) {
    int64_t from, below;
    if (v->buffer >= m->p->n_buffers) return wrong(m, v, "is no buffer");
    tw_view_span(v, &from, &below);
    if (tw_view_elements(v) && (from < 0 || below > m->p->buffers[v->buffer].bytes))
        return wrong(m, v, "is read or written beyond its end");
    return TW_OK;
}

static tw_status check_step(memory *m, const tw_step *s) {
    tw_status st = TW_OK;
    for (int i = 0; i < s->n_in && st == TW_OK; i++) {
        if (s->in[i].buffer < 0) continue;
        st = check_view(m, &s->in[i]);
        if (st == TW_OK && !for_runs(m, &s->in[i], reads))
            st = wrong(m, &s->in[i], "is read where it was not written, or is overwritten");
    }
    for (int i = 0; i < s->n_out && st == TW_OK; i++) {
        if (s->out[i].buffer < 0) continue;
        st = check_view(m, &s->out[i]);
        const tw_program_buffer_kind kind = st == TW_OK ? m->p->buffers[s->out[i].buffer].kind : TW_PROGRAM_SCRATCH;
        if (kind == TW_PROGRAM_CONSTANT || kind == TW_PROGRAM_INPUT) st = wrong(m, &s->out[i], "is written");
        if (st == TW_OK && !for_runs(m, &s->out[i], writes)) st = tw_fail_memory(m->diag);
    }
    /* Results of a step, and what it reads, are apart, since nothing orders its parts. */
    for (int i = 0; i < s->n_in && st == TW_OK; i++)
        if (s->in[i].buffer >= 0 && !for_runs(m, &s->in[i], reads))
            st = wrong(m, &s->in[i], "is overwritten while it is read");
    return st;
}

static tw_status check(memory *m) {
    const tw_program *p = m->p;
    int64_t at = p->scratch_bytes;
    tw_status st = TW_OK;
    for (int i = 0; i < p->n_buffers; i++) {
        const tw_program_buffer *b = &p->buffers[i];
        m->bases[i] = b->kind == TW_PROGRAM_SCRATCH ? b->offset : at;
        if (b->kind != TW_PROGRAM_SCRATCH) at += b->bytes;
        if ((b->kind == TW_PROGRAM_CONSTANT || b->kind == TW_PROGRAM_INPUT) && b->bytes > 0)
            write_range(m, m->bases[i], at, i);
    }
    for (m->step = 0; m->step < p->n_steps && st == TW_OK; m->step++) {
        const tw_step *s = &p->steps[m->step];
        for (int o = 0; o < s->n_out && st == TW_OK; o++) {
            const int b = s->out[o].buffer;
            if (b < 0 || b >= p->n_buffers || p->buffers[b].kind != TW_PROGRAM_SCRATCH) continue;
            if (p->buffers[b].offset < 0 || p->buffers[b].offset + p->buffers[b].bytes > p->scratch_bytes)
                st = wrong(m, &s->out[o], "does not lie in scratch memory");
        }
        if (st == TW_OK) st = check_step(m, s);
    }
    for (int i = 0; i < p->n_buffers && st == TW_OK; i++)
        if (p->buffers[i].kind == TW_PROGRAM_OUTPUT && p->buffers[i].bytes > 0 &&
            !is_written(m, m->bases[i], m->bases[i] + p->buffers[i].bytes, i))
            st = tw_fail(m->diag, TW_ERR_REJECTED, "output \"%s\" is not written", p->buffers[i].name);
    return m->failed ? tw_fail_memory(m->diag) : st;
}

tw_status tw_program_verify(const tw_program *p, tw_diag *diag) {
    memory m = {.p = p, .diag = diag, .bases = calloc((size_t)p->n_buffers + 1, sizeof *m.bases)};
    const tw_status st = m.bases ? check(&m) : tw_fail_memory(diag);
    free(m.bases);
    free(m.ranges);
    return st;
}
