/* SPDX-License-Identifier: Apache-2.0 */
/* Products, and what follows each part of one while it lies in a near cache. */
#include "base/divide.h"
#include "base/hash.h"
#include "vm/network/cpu_parts.h"

#include <string.h>

static const tw_gemm_blocking usual; /* All zero: the kernels' own blocks. */
static const tw_panel_format floats = {TW_F32, 0};

static bool constant_of(const tw_program *p, const tw_view *v) {
    return p->buffers[v->buffer].kind == TW_PROGRAM_CONSTANT;
}

/* ---- packing */

/* A matrix B that is packed: where its elements lie. */
typedef struct source {
    tw_element type;
    const unsigned char *data;
    int64_t k, n, step_k, step_n; /* Elements from one index to the next. */
} source;

static source source_of(const tw_program_product *x, const unsigned char *data) {
    return (source){x->type, data, x->k, x->n, x->trans_b ? 1 : x->ldb, x->trans_b ? x->ldb : 1};
}

/* A panel of f32: [k][16]. */
static void pack_panel(const source *b, int64_t first, float *out) {
    const int64_t cols = b->n - first < TW_PANEL_ROWS ? b->n - first : TW_PANEL_ROWS;
    const int64_t padded = tw_panel_cols((tw_panel_format){TW_F32, 0}, b->k);
    float column[256];
    if (cols < TW_PANEL_ROWS || padded > b->k) memset(out, 0, (size_t)(padded * TW_PANEL_ROWS) * sizeof *out);
    if (b->step_n == 1) {
        for (int64_t k = 0; k < b->k; k++)
            tw_cpu_read(b->type, b->data, first + k * b->step_k, 1, cols, out + k * TW_PANEL_ROWS);
        return;
    }
    for (int64_t k = 0; k < b->k; k += 256)
        for (int64_t r = 0; r < cols; r++) {
            const int64_t count = b->k - k < 256 ? b->k - k : 256;
            tw_cpu_read(b->type, b->data, (first + r) * b->step_n + k * b->step_k, b->step_k, count, column);
            for (int64_t i = 0; i < count; i++) out[(k + i) * TW_PANEL_ROWS + r] = column[i];
        }
}

/* Bytes of a panel as products of this step read it. */
static size_t panel_bytes(const tw_cpu_network *n, const tw_cpu_step *s) {
    const int64_t k = s->of->of.product.k;
    return s->product.split ? n->k.split->bytes(TW_PANEL_ROWS, k) : tw_panel_bytes(floats, k);
}

/* `panel` has room for one of floats. */
static void pack(const tw_cpu_network *n, const tw_cpu_step *s, const unsigned char *data, int64_t from, int64_t to,
                 unsigned char *out, float *panel) {
    const tw_program_product *x = &s->of->of.product;
    const source b = source_of(x, data);
    const size_t bytes = panel_bytes(n, s);
    for (int64_t c = from; c < to; c += TW_PANEL_ROWS, out += bytes) {
        pack_panel(&b, c, s->product.split ? panel : (float *)(void *)out);
        if (s->product.split) n->k.split->pack_w(panel, x->k, out);
    }
}

/* Goes through a batch from `from` to `to`. False: that was the last product. */
static bool next_of(int64_t at[TW_PROGRAM_BATCH], const int64_t *from, const int64_t *to) {
    for (int i = TW_PROGRAM_BATCH - 1; i >= 0; i--) {
        if (++at[i] < to[i]) return true;
        at[i] = from[i];
    }
    return false;
}

static int64_t place(const int64_t at[TW_PROGRAM_BATCH], const int64_t strides[TW_PROGRAM_BATCH]) {
    int64_t sum = 0;
    for (int i = 0; i < TW_PROGRAM_BATCH; i++) sum += at[i] * strides[i];
    return sum;
}

/* The batch of the matrices of B that differ: dimensions that share a matrix have one. */
static void batch_of_b(const tw_program_product *x, int64_t batch[TW_PROGRAM_BATCH]) {
    for (int i = 0; i < TW_PROGRAM_BATCH; i++) batch[i] = x->stride_b[i] ? x->batch[i] : 1;
}

/* The number of a matrix of B. */
static int64_t matrix_at(const tw_program_product *x, const int64_t at[TW_PROGRAM_BATCH]) {
    int64_t number = 0;
    for (int i = 0; i < TW_PROGRAM_BATCH; i++) number = x->stride_b[i] ? number * x->batch[i] + at[i] : number;
    return number;
}

size_t tw_cpu_product_packed(const tw_cpu_network *n, const tw_cpu_step *s, uint64_t name[2]) {
    enum { FORMAT = 1 /* Changes with how panels lie, since files have them. */ };
    const tw_program_product *x = &s->of->of.product;
    int64_t batch[TW_PROGRAM_BATCH];
    if (s->of->kind != TW_STEP_PRODUCT || !constant_of(n->p, &s->of->in[1])) return 0;
    batch_of_b(x, batch);
    /* Programs for other extents have copies of a constant, and a copy that is gone may have left its place to another:
       contents alone tell what is the same. */
    const tw_program_buffer *b = &n->p->buffers[s->of->in[1].buffer];
    const uint64_t sum = b->content ? tw_cpu_pool_sum(n->pool, b->content, b->bytes) : 0;
    const int64_t how[] = {
        FORMAT,   x->type,     x->k,           x->n,           x->ldb,         x->trans_b,       batch[0],
        batch[1], batch[2],    x->stride_b[0], x->stride_b[1], x->stride_b[2], s->product.split, s->of->in[1].offset,
        b->bytes, (int64_t)sum};
    tw_hash h = tw_hash_begin();
    tw_hash_add(&h, how, sizeof how);
    tw_hash_end(&h, name);
    return s->product.bytes * (size_t)(batch[0] * batch[1] * batch[2]);
}

void tw_cpu_product_pack(const tw_cpu_network *n, const tw_cpu_step *s, float *panel) {
    static const int64_t first[TW_PROGRAM_BATCH];
    const tw_program_product *x = &s->of->of.product;
    const size_t size = (size_t)tw_element_bits(x->type) / 8;
    const unsigned char *b = (const unsigned char *)n->p->buffers[s->of->in[1].buffer].content + s->of->in[1].offset;
    int64_t at[TW_PROGRAM_BATCH] = {0}, batch[TW_PROGRAM_BATCH];
    batch_of_b(x, batch);
    do
        pack(n, s, b + size * (size_t)place(at, x->stride_b), 0, x->n,
             s->product.panels + s->product.bytes * (size_t)matrix_at(x, at), panel);
    while (next_of(at, first, batch));
}

size_t tw_cpu_product_panel(const tw_cpu_step *s) {
    return tw_cpu_lines(tw_panel_bytes(floats, s->of->of.product.k));
}

/* ---- planning */

static int64_t panels_of(int64_t cols) {
    return tw_ceil_div(cols, TW_PANEL_ROWS);
}

/* Floats from a row of a product that is not computed in place to the next. Rows a multiple of 4 KiB apart would share
   a set of every cache. */
static int64_t own_stride(int64_t cols) {
    return (panels_of(cols) + 1) * TW_PANEL_ROWS;
}

void tw_cpu_product_plan(const tw_cpu_network *n, tw_cpu_step *s) {
    const tw_program_product *x = &s->of->of.product;
    s->product.split = n->k.split && x->m >= TW_SPLIT_ROWS;
    s->product.bytes = panel_bytes(n, s) * (size_t)panels_of(x->n);
}

size_t tw_cpu_product_scratch(const tw_cpu_network *n, const tw_cpu_step *s, const tw_range_task *t) {
    const tw_program_product *x = &s->of->of.product;
    const int64_t rows = t->to[TW_PRODUCT_ROWS] - t->from[TW_PRODUCT_ROWS],
                  cols = t->to[TW_PRODUCT_COLS] - t->from[TW_PRODUCT_COLS];
    size_t all;
    if (s->product.split)
        all = tw_cpu_lines(n->k.split->bytes(rows, x->k)) + tw_cpu_lines(n->k.split->scratch_bytes);
    else if (rows == 1)
        all = tw_cpu_lines(n->k.prepared_bytes[TW_F32](floats, x->k));
    else
        all = tw_cpu_lines(n->k.gemm_scratch[TW_F32](floats, panels_of(cols), x->k, rows, usual));
    all += tw_cpu_lines((size_t)(rows * x->k) * sizeof(float));
    all += tw_cpu_lines((size_t)(rows * own_stride(cols)) * sizeof(float));
    all += 2 * tw_cpu_lines((size_t)cols * sizeof(float));
    if (!s->product.panels) all += tw_cpu_lines(s->product.bytes) + tw_cpu_lines(tw_panel_bytes(floats, x->k));
    return all;
}

/* ---- running */

/* The epilogue of a part of a product. */
typedef struct finish {
    const tw_cpu_network *n;
    const tw_program_product *x;
    const float *bias;                   /* Of the task's columns. NULL: none. */
    const unsigned char *mul, *residual; /* The task's first element. NULL: none. */
    unsigned char *c;                    /* The same of C. */
    float *y;                            /* What was added up. */
    int64_t ldy;                         /* Floats from a row of y to the next. */
    int64_t cols;                        /* Columns that are wanted. Others fill the last panel. */
    float *extra;                        /* Room for a row. */
} finish;

static void activate(const finish *f, float *y, int64_t n, const float *mul) {
    const tw_kernels *k = &f->n->k;
    if (f->x->activation == TW_GEMM_GELU) k->gelu_tanh(y, n, y);
    if (f->x->activation == TW_GEMM_GELU_ERF) k->gelu(y, n, y);
    if (f->x->activation == TW_GEMM_SILU) {
        k->silu_mul(y, mul, n, y);
        return;
    }
    for (int64_t i = 0; i < n && mul; i++) y[i] *= mul[i];
}

/* Columns col .. col + n - 1 of a row. */
static void finish_row(const finish *f, int64_t row, int64_t col, int64_t n) {
    const tw_program_product *x = f->x;
    const int64_t at = row * x->ldc + col;
    float *y = f->y + row * f->ldy + col;
    if (x->alpha != 1)
        for (int64_t i = 0; i < n; i++) y[i] *= (float)x->alpha;
    if (f->bias) f->n->k.add(y, f->bias + col, n);
    if (f->mul) tw_cpu_read(x->out, f->mul, at, 1, n, f->extra);
    for (int64_t i = 0; i < n && !f->mul && x->activation == TW_GEMM_SILU; i++) f->extra[i] = 1;
    activate(f, y, n, f->mul || x->activation == TW_GEMM_SILU ? f->extra : NULL);
    if (f->residual && x->out == TW_E_f32) {
        f->n->k.add(y, (const float *)(const void *)f->residual + at, n);
    } else if (f->residual) {
        tw_cpu_read(x->out, f->residual, at, 1, n, f->extra);
        f->n->k.add(y, f->extra, n);
    }
    if ((unsigned char *)f->y != f->c) tw_cpu_write(x->out, f->c, at, n, y);
}

static void take(void *context, int64_t row, int64_t rows, int64_t col, int64_t cols) {
    const finish *f = context;
    const int64_t n = f->cols - col < cols ? f->cols - col : cols;
    for (int64_t r = row; r < row + rows && n > 0; r++) finish_row(f, r, col, n);
}

static bool is_plain(const finish *f) {
    return f->x->alpha == 1 && !f->bias && !f->mul && !f->residual && f->x->activation == TW_GEMM_LINEAR &&
           (unsigned char *)f->y == f->c;
}

/* Rows from .. to - 1 of A as floats. They are copied unless they lie so. */
static const float *rows_of_a(const tw_program_product *x, const unsigned char *a, int64_t from, int64_t to,
                              tw_cpu_room *room, int64_t *lda) {
    if (!x->trans_a && x->type == TW_E_f32) {
        *lda = x->lda;
        return (const float *)(const void *)a + from * x->lda;
    }
    float *out = tw_cpu_take(room, (size_t)((to - from) * x->k) * sizeof *out);
    for (int64_t i = from; i < to; i++)
        tw_cpu_read(x->type, a, x->trans_a ? i : i * x->lda, x->trans_a ? x->lda : 1, x->k, out + (i - from) * x->k);
    *lda = x->k;
    return out;
}

/* One matrix of the batch. */
typedef struct one {
    const unsigned char *a, *panels;
    int64_t from, to, col, end;
} one;

static void multiply(const tw_cpu_network *n, const tw_cpu_step *s, const one *m, finish *f, tw_cpu_room room) {
    const tw_program_product *x = f->x;
    const int64_t rows = m->to - m->from, panels = panels_of(m->end - m->col);
    const tw_gemm_sink sink = {take, f};
    int64_t lda;
    const float *a = rows_of_a(x, m->a, m->from, m->to, &room, &lda);
    const bool in_place = x->out == TW_E_f32 && f->cols % TW_PANEL_ROWS == 0;
    f->ldy = in_place ? x->ldc : own_stride(f->cols);
    f->y = in_place ? (float *)(void *)f->c : tw_cpu_take(&room, (size_t)(rows * f->ldy) * sizeof *f->y);
    if (s->product.split) {
        void *packed = tw_cpu_take(&room, n->k.split->bytes(rows, x->k));
        n->k.split->pack_x(a, lda, rows, x->k, true, packed);
        n->k.split->gemm(m->panels, panels, x->k, packed, rows, f->y, f->ldy, is_plain(f) ? NULL : &sink,
                         tw_cpu_take(&room, n->k.split->scratch_bytes));
        return;
    }
    if (rows == 1) {
        void *prepared = tw_cpu_take(&room, n->k.prepared_bytes[TW_F32](floats, x->k));
        n->k.prepare[TW_F32](floats, a, x->k, prepared);
        n->k.gemv[TW_F32](floats, m->panels, panels, x->k, prepared, f->y);
        take(f, 0, 1, 0, panels * TW_PANEL_ROWS);
        return;
    }
    void *scratch = tw_cpu_take(&room, n->k.gemm_scratch[TW_F32](floats, panels, x->k, rows, usual));
    n->k.gemm[TW_F32](floats, m->panels, panels, x->k, a, lda, rows, f->y, f->ldy, usual, is_plain(f) ? NULL : &sink,
                      scratch);
}

/* The element of a matrix like C at the task's first row and column. NULL: the operand is left out. */
static const unsigned char *like_c(const tw_cpu_network *n, const tw_step *s, int operand, int64_t element) {
    if (operand >= s->n_in || s->in[operand].buffer < 0) return NULL;
    return tw_cpu_at(n, &s->in[operand]) + element * tw_element_bits(s->of.product.out) / 8;
}

void tw_cpu_product(const tw_cpu_network *n, const tw_cpu_step *s, const tw_range_task *t, tw_cpu_room room) {
    const tw_step *of = s->of;
    const tw_program_product *x = &of->of.product;
    const int64_t size = tw_element_bits(x->type) / 8, of_c = tw_element_bits(x->out) / 8;
    one m = {.from = t->from[TW_PRODUCT_ROWS],
             .to = t->to[TW_PRODUCT_ROWS],
             .col = t->from[TW_PRODUCT_COLS],
             .end = t->to[TW_PRODUCT_COLS]};
    finish f = {.n = n, .x = x, .cols = m.end - m.col};
    f.extra = tw_cpu_take(&room, (size_t)f.cols * sizeof *f.extra);
    if (of->n_in > 2 && of->in[2].buffer >= 0) {
        float *bias = tw_cpu_take(&room, (size_t)f.cols * sizeof *bias);
        tw_cpu_read(x->out, tw_cpu_at(n, &of->in[2]), m.col, 1, f.cols, bias);
        f.bias = bias;
    }
    unsigned char *packed = s->product.panels ? NULL : tw_cpu_take(&room, s->product.bytes);
    float *panel = packed ? tw_cpu_take(&room, tw_panel_bytes(floats, x->k)) : NULL;
    int64_t at[TW_PROGRAM_BATCH];
    memcpy(at, t->from, sizeof at);
    do {
        const int64_t c = place(at, x->stride_c) + m.from * x->ldc + m.col;
        m.a = tw_cpu_at(n, &of->in[0]) + size * place(at, x->stride_a);
        if (packed) pack(n, s, tw_cpu_at(n, &of->in[1]) + size * place(at, x->stride_b), m.col, m.end, packed, panel);
        m.panels = packed ? packed
                          : s->product.panels + s->product.bytes * (size_t)matrix_at(x, at) +
                                panel_bytes(n, s) * (size_t)(m.col / TW_PANEL_ROWS);
        f.mul = like_c(n, of, 3, c);
        f.residual = like_c(n, of, 4, c);
        f.c = n->base[of->out[0].buffer] + of->out[0].offset + of_c * c;
        multiply(n, s, &m, &f, room);
    } while (next_of(at, t->from, t->to));
}
