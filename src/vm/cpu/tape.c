/* SPDX-License-Identifier: Apache-2.0 */
/* Weight tapes. Each worker packs the rows of its own instructions, in the order in which it reads them, into memory
   that its own thread touches first. */
#include "base/diag.h"
#include "base/divide.h"
#include "model/quantize.h"
#include "vm/cpu/vm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tw_tape_block {
    struct tw_tape_block *next;
    unsigned char *data;
    size_t size, used;
};

struct tw_strip_entry {
    struct tw_strip_entry *next;
    const char *key;
    tw_strip strip;
};

/* ---- which rows ---- */

/* A strip's rows. Rows of up to three matrices follow each other. In qkv they are in the order of rope's pairs. */
typedef struct source {
    const tw_schedule *s;
    const tw_instr *in;
    tw_instr_matrices matrices;
    const tw_schedule_weights *weights;
    int64_t from, to, cols;
    int parts;                                  /* Matrices that each contribute rows [from, to): 1, or gate and up. */
    int64_t heads, kv_heads, head_dim, rotated; /* Only for qkv. */
    int64_t experts;                            /* Copies of the strip. 0: it is not of a mixture. */
    tw_panel_format format;
    const tw_buffer *buffer; /* The first matrix in the schedule. */
} source;

static const tw_buffer *buffer_of(const tw_schedule *s, const tw_instr *in, int operand) {
    return in->operand[operand] < 0 ? NULL : &s->buffers[in->operand[operand]];
}

static void describe(source *src, const tw_schedule *s, const tw_instr *in) {
    *src = (source){.s = s, .in = in, .from = in->param[TW_FROM], .to = in->param[TW_TO]};
    src->matrices = tw_instr_matrices_of(in);
    src->parts = in->op == TW_INSTR_QKV ? 1 : src->matrices.n;
    const tw_buffer *b = src->buffer = &s->buffers[src->matrices.matrix[0]];
    src->cols = b->shape[2];
    src->format = (tw_panel_format){b->dtype, b->group};
    if (in->op == TW_INSTR_ROUTE) {
        src->from = 0;
        src->to = b->shape[1];
    }
    if (in->op == TW_INSTR_EXPERTS_UP || in->op == TW_INSTR_EXPERTS_DOWN) src->experts = b->shape[0];
    if (in->op == TW_INSTR_QKV) {
        const tw_buffer *q = buffer_of(s, in, TW_QKV_Q), *rope = buffer_of(s, in, TW_QKV_ROPE);
        src->heads = q->shape[1];
        src->head_dim = q->shape[2];
        src->kv_heads = buffer_of(s, in, TW_QKV_V)->shape[0];
        src->rotated = rope ? 2 * rope->shape[2] : 0;
    }
}

/* Finds the weight and the row of row `i` of part `part` of a copy, counted from the strip's start. */
static const tw_weight *locate(const source *src, int64_t copy, int part, int64_t i, int64_t *row) {
    *row = src->from + i;
    if (src->in->op == TW_INSTR_QKV) {
        tw_qkv_row at = tw_qkv_locate(*row, src->heads, src->kv_heads, src->head_dim, src->rotated);
        *row = at.head * src->head_dim + at.row;
        part = at.part;
    }
    return tw_weight_at(src->weights, src->matrices.matrix[part], copy);
}

/* ---- packing ---- */

typedef struct packer {
    const source *src;
    tw_panel_format format; /* The panels' format. f32 if the machine dequantises. */
    bool dequantise;
    float *row;
    int8_t *q;
    float *scales;
    unsigned char *rows; /* Up to 16 rows, in their own type. */
} packer;

static int64_t groups_of(tw_panel_format f, int64_t cols) {
    return f.group ? tw_ceil_div(cols, f.group) : 1;
}

static bool packer_open(packer *p, const source *src, bool dequantise) {
    size_t cols = (size_t)src->cols, groups = (size_t)groups_of(src->format, src->cols);
    *p = (packer){.src = src, .format = src->format, .dequantise = dequantise};
    if (dequantise) p->format = (tw_panel_format){TW_F32, 0};
    p->row = malloc(cols * sizeof *p->row);
    p->q = malloc(TW_PANEL_ROWS * cols);
    p->scales = malloc(TW_PANEL_ROWS * groups * sizeof *p->scales);
    p->rows = malloc(TW_PANEL_ROWS * cols * sizeof(float));
    return p->row && p->q && p->scales && p->rows;
}

static void packer_close(packer *p) {
    free(p->row);
    free(p->q);
    free(p->scales);
    free(p->rows);
}

static void quantise_row(packer *p, const tw_weight *w, int64_t row, int r) {
    const source *src = p->src;
    int64_t cols = src->cols, groups = groups_of(src->format, cols);
    int8_t *q = p->q + r * cols;
    float *scales = p->scales + r * groups;
    tw_weight_read(w, row, 0, cols, p->row);
    tw_quantise_row(src->format.dtype, src->format.group, p->row, cols, q, scales);
    float *out = (float *)(void *)p->rows + r * cols;
    for (int64_t c = 0; c < cols && p->dequantise; c++)
        out[c] = (float)q[c] * scales[src->format.group ? c / src->format.group : 0];
}

static void pack_panel(packer *p, int64_t copy, int part, int64_t first, int rows, void *panel) {
    const source *src = p->src;
    bool quantised = src->format.dtype == TW_I8 || src->format.dtype == TW_I4;
    for (int r = 0; r < rows; r++) {
        int64_t row;
        const tw_weight *w = locate(src, copy, part, first + r, &row);
        if (quantised)
            quantise_row(p, w, row, r);
        else
            tw_weight_read_raw(w, row, 0, src->cols, p->rows + (size_t)(r * src->cols) * tw_dtype_bits(w->dtype) / 8);
    }
    tw_panel_pack(p->format, src->cols, rows, quantised && !p->dequantise ? (void *)p->q : p->rows, p->scales, panel);
}

static void pack_copy(packer *p, int64_t copy, unsigned char *out) {
    const source *src = p->src;
    const size_t bytes = tw_panel_bytes(p->format, src->cols);
    const int64_t rows = src->to - src->from, unit = src->parts > 1 ? TW_UNIT_ROWS : rows;
    for (int64_t u = 0; u < rows; u += unit)
        for (int part = 0; part < src->parts; part++)
            for (int64_t i = u, end = tw_least(u + unit, rows); i < end; i += TW_PANEL_ROWS, out += bytes)
                pack_panel(p, copy, part, i, (int)tw_least(end - i, TW_PANEL_ROWS), out);
}

static size_t take_size(const tw_strip *s, int64_t copies) {
    return s->copy_bytes * (size_t)copies;
}

static unsigned char *take(tw_vm_thread *thread, size_t size) {
    struct tw_tape_block *b = thread->blocks;
    if (!b || b->size - b->used < size) {
        b = calloc(1, sizeof *b);
        if (!b) return NULL;
        b->data = tw_pages(size);
        if (!b->data) {
            free(b);
            return NULL;
        }
        b->size = size;
        b->next = thread->blocks;
        thread->blocks = b;
    }
    b->used += size;
    thread->tape_bytes += (int64_t)size;
    return b->data + b->used - size;
}

void tw_tape_free(tw_vm_thread *thread) {
    for (struct tw_tape_block *b = thread->blocks, *next; b; b = next) {
        next = b->next;
        tw_pages_free(b->data, b->size);
        free(b);
    }
    thread->blocks = NULL;
    tw_arena_free(&thread->arena);
}

static bool quantised(const source *src) {
    return src->format.dtype == TW_I8 || src->format.dtype == TW_I4;
}

static void measure(const tw_vm_thread *thread, const source *src, tw_strip *out) {
    *out = (tw_strip){.cols = src->cols, .format = tw_vm_format(thread->vm, src->buffer)};
    out->n_panels = src->parts * ((src->to - src->from + TW_PANEL_ROWS - 1) / TW_PANEL_ROWS);
    out->copy_bytes = (size_t)out->n_panels * tw_panel_bytes(out->format, src->cols);
}

/* Writes a key of everything that decides what is packed. Another program's instruction with the same key shares the
   strip. The model has all the names, so their length is bounded. */
static void make_key(const source *src, char *key, size_t size) {
    size_t used = 0;
    for (int i = 0; i < src->matrices.n && used < size; i++)
        used += (size_t)snprintf(key + used, size - used, "%s ", src->s->buffers[src->matrices.matrix[i]].name);
    if (used >= size) used = size - 1;
    snprintf(key + used, size - used, "%s/%d %d %lldx%lld r%lld %lld..%lld", tw_dtype_name(src->format.dtype),
             src->format.group, (int)src->in->op, (long long)src->experts, (long long)src->cols,
             (long long)src->rotated, (long long)src->from, (long long)src->to);
}

static const tw_strip *find(const tw_vm_thread *thread, const char *key) {
    for (const struct tw_strip_entry *e = thread->strips; e; e = e->next)
        if (!strcmp(e->key, key)) return &e->strip;
    return NULL;
}

uint32_t tw_tape_types(const tw_vm_thread *thread) {
    uint32_t types = 0;
    for (const struct tw_strip_entry *e = thread->strips; e; e = e->next) types |= 1u << e->strip.format.dtype;
    return types;
}

static tw_status pack(tw_vm_thread *thread, source *src, tw_strip *out, tw_diag *diag) {
    int64_t copies = src->experts ? src->experts : 1;
    unsigned char *data = take(thread, take_size(out, copies));
    packer p;
    if (!data)
        return tw_fail(diag, TW_ERR_MEMORY, "no memory for %.1f MB of weights (%s)",
                       (double)take_size(out, copies) / 1e6, src->buffer->name);
    bool ok = packer_open(&p, src, thread->vm->options.dequantise && quantised(src));
    tw_status st = ok ? TW_OK : tw_fail_memory(diag);
    for (int64_t c = 0; c < copies && st == TW_OK; c++) pack_copy(&p, c, data + (size_t)c * out->copy_bytes);
    packer_close(&p);
    out->panels = data;
    return st;
}

size_t tw_tape_measure(const tw_vm_thread *thread, const tw_schedule *s, const tw_instr *in, tw_strip *strip,
                       char key[TW_TAPE_KEY], bool *there) {
    source src;
    describe(&src, s, in);
    make_key(&src, key, TW_TAPE_KEY);
    measure(thread, &src, strip);
    *there = find(thread, key) != NULL;
    return take_size(strip, src.experts ? src.experts : 1);
}

size_t tw_tape_missing(const tw_vm_thread *thread, const tw_schedule *s, const tw_instr *in) {
    tw_strip strip;
    char key[TW_TAPE_KEY];
    bool there;
    size_t size = tw_tape_measure(thread, s, in, &strip, key, &there);
    return there ? 0 : size;
}

/* Reserves one block for everything that a program still needs, so that its tape is contiguous. */
tw_status tw_tape_reserve(tw_vm_thread *thread, size_t size, tw_diag *diag) {
    if (!size) return TW_OK;
    if (!take(thread, size))
        return tw_fail(diag, TW_ERR_MEMORY, "no memory for %.1f MB of weights", (double)size / 1e6);
    thread->blocks->used -= size;
    thread->tape_bytes -= (int64_t)size;
    return TW_OK;
}

tw_status tw_tape_strip(tw_vm_thread *thread, const tw_program *p, const tw_instr *in, tw_strip *out, tw_diag *diag) {
    source src;
    char key[TW_TAPE_KEY];
    describe(&src, p->s, in);
    src.weights = &p->weights;
    make_key(&src, key, sizeof key);
    const tw_strip *there = find(thread, key);
    if (there) {
        *out = *there;
        return TW_OK;
    }
    measure(thread, &src, out);
    tw_status st = pack(thread, &src, out, diag);
    struct tw_strip_entry *e = tw_arena_alloc(&thread->arena, sizeof *e);
    char *copy = tw_arena_strdup(&thread->arena, key);
    if (st == TW_OK && (!e || !copy)) st = tw_fail_memory(diag);
    if (st != TW_OK) return st;
    *e = (struct tw_strip_entry){thread->strips, copy, *out};
    thread->strips = e;
    return TW_OK;
}
