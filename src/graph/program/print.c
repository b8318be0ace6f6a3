/* SPDX-License-Identifier: Apache-2.0 */
/* Programs as text. */
#include "graph/program/program.h"
#include "kernels/rows/rows.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A piece of text that is cut at the end of its room. */
typedef struct text {
    char *out;
    size_t size, n;
} text;

static void add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = t->n < t->size ? vsnprintf(t->out + t->n, t->size - t->n, format, args) : 0;
    va_end(args);
    if (n > 0) t->n += (size_t)n;
}

static void add_dims(text *t, int rank, const int64_t *dims) {
    for (int i = 0; i < rank; i++) add(t, "%s%" PRId64, i ? "x" : "", dims[i]);
    if (!rank) add(t, "1");
}

static void add_product(text *t, const tw_step *s) {
    const tw_program_product *p = &s->of.product;
    static const char *const more[] = {"", "", " bias", " mul", " residual"};
    add(t, " %s", tw_element_name(p->type));
    for (int i = 0; i < TW_PROGRAM_BATCH; i++)
        if (p->batch[i] > 1) add(t, " %" PRId64 " of", p->batch[i]);
    add(t, " %" PRId64 "x%" PRId64 "x%" PRId64 "%s%s", p->m, p->n, p->k, p->trans_a ? " ta" : "",
        p->trans_b ? " tb" : "");
    if (p->alpha != 1) add(t, " alpha=%.9g", p->alpha);
    for (int i = 2; i < s->n_in && i < 5; i++)
        if (s->in[i].buffer >= 0) add(t, "%s", more[i]);
    if (p->gated) add(t, " gated");
    if (p->activation != TW_GEMM_LINEAR) add(t, " %s", tw_gemm_activation_name(p->activation));
    if (p->norm_residual)
        add(t, " residual normed");
    else if (p->norm != TW_PROGRAM_NORM_NONE)
        add(t, " norm=%s", p->norm == TW_PROGRAM_NORM_LAYER ? "layer" : "rms");
    if (s->n_out > 1) add(t, " row sums");
}

static void add_points(text *t, const tw_points *x) {
    char formula[TW_CELLS_TEXT];
    tw_cells_print(&x->cells, formula, sizeof formula);
    add(t, " ");
    add_dims(t, x->rank, x->dims);
    add(t, " %s", formula);
}

void tw_step_describe(const tw_program *p, const tw_step *s, char *out, size_t size) {
    text t = {out, size, 0};
    (void)p;
    if (size) *out = 0;
    add(&t, "%s", tw_step_kind_names[s->kind]);
    switch (s->kind) {
    case TW_STEP_PRODUCT:
        add_product(&t, s);
        break;
    case TW_STEP_ATTENTION:
        add(&t, " %s", tw_element_name(s->of.attention.type));
        add(&t, " batch=%" PRId64 " heads=%" PRId64 "/%" PRId64 " head=%" PRId64 " queries=%" PRId64 " keys=%" PRId64,
            s->of.attention.batch, s->of.attention.heads, s->of.attention.kv_heads, s->of.attention.head,
            s->of.attention.queries, s->of.attention.keys);
        add(&t, "%s%s", s->of.attention.causal ? " causal" : "", s->n_in > 3 && s->in[3].buffer >= 0 ? " mask" : "");
        break;
    case TW_STEP_MAP:
        add_points(&t, &s->of.map->x);
        break;
    case TW_STEP_ROWS:
        add(&t, " %s", tw_rows_name(s->of.rows->of));
        add_points(&t, &s->of.rows->x);
        break;
    case TW_STEP_PLAIN:
        add(&t, " %s", s->of.node->op);
        break;
    }
}

static void print_view(const tw_program *p, const tw_view *v, text *t) {
    if (v->buffer < 0) return;
    const tw_program_buffer *b = &p->buffers[v->buffer];
    static const char *const kinds[] = {"constant", "input", "output", "scratch"};
    add(t, " %s %d", kinds[b->kind], v->buffer);
    if (v->offset) add(t, "+%" PRId64, v->offset);
    add(t, " %s[", tw_element_name(v->type));
    for (int i = 0; i < v->rank; i++) add(t, "%s%" PRId64 ":%" PRId64, i ? "," : "", v->dims[i], v->strides[i]);
    add(t, "]");
}

void tw_program_print(const tw_program *p, tw_buf *out) {
    for (int i = 0; i < p->n_steps; i++) {
        const tw_step *s = &p->steps[i];
        char line[4096];
        tw_step_describe(p, s, line, sizeof line);
        text t = {line, sizeof line, strlen(line)};
        add(&t, "\n   ");
        for (int o = 0; o < s->n_in; o++) print_view(p, &s->in[o], &t);
        add(&t, " ->");
        for (int o = 0; o < s->n_out; o++) print_view(p, &s->out[o], &t);
        tw_buf_printf(out, "%3d %s\n", i, line);
    }
}
