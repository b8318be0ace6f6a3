/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the floats that int8 or int4 weights of a model stand for, as a safetensors file with Hugging Face's names:

       dequantise MODEL int8|int4 OUT.safetensors

   Every matrix of a Llama model that the engine quantises: the projections, and the head, which is int8 in either case
   and is called lm_head.weight even where it is tied to the embedding, which itself stays as stored. What another
   implementation computes from these is what the engine must compute from the integers. */
#define _GNU_SOURCE
#include "base/diag.h"
#include "model/model.h"
#include "model/quantize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *ours, *theirs;
} inside[] = {
    {"attn.q", "self_attn.q_proj"}, {"attn.k", "self_attn.k_proj"}, {"attn.v", "self_attn.v_proj"},
    {"attn.o", "self_attn.o_proj"}, {"mlp.gate", "mlp.gate_proj"},  {"mlp.up", "mlp.up_proj"},
    {"mlp.down", "mlp.down_proj"},
};
enum { INSIDE = sizeof inside / sizeof *inside };

/* Matrix `i` in the file's order, and its name there; NULL after the last. */
static const tw_weight *matrix_at(const tw_model *m, int64_t i, char *theirs, size_t size) {
    char ours[96];
    if (i == m->n_layers * INSIDE) {
        snprintf(theirs, size, "lm_head.weight");
        return tw_model_find(m, "head");
    }
    snprintf(ours, sizeof ours, "layers.%lld.%s", (long long)(i / INSIDE), inside[i % INSIDE].ours);
    snprintf(theirs, size, "model.layers.%lld.%s.weight", (long long)(i / INSIDE), inside[i % INSIDE].theirs);
    return i < m->n_layers * INSIDE ? tw_model_find(m, ours) : NULL;
}

static bool write_header(const tw_model *m, FILE *f) {
    char *text = NULL, name[128];
    size_t size = 0;
    FILE *t = open_memstream(&text, &size);
    if (!t) return false;
    long long at = 0;
    const tw_weight *w;
    for (int64_t i = 0; (w = matrix_at(m, i, name, sizeof name)); i++) {
        long long bytes = 4LL * w->rows * w->cols;
        fprintf(t, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%lld,%lld],\"data_offsets\":[%lld,%lld]}", i ? "," : "{",
                name, (long long)w->rows, (long long)w->cols, at, at + bytes);
        at += bytes;
    }
    fputc('}', t);
    bool ok = fclose(t) == 0;
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)size >> 8 * i);
    ok = ok && fwrite(length, 1, 8, f) == 8 && fwrite(text, 1, size, f) == size;
    free(text);
    return ok;
}

static bool write_matrix(const tw_weight *w, tw_dtype t, FILE *f) {
    const int group = t == TW_I4 ? 64 : 0;
    size_t cols = (size_t)w->cols;
    float *row = malloc(cols * 4), *scales = malloc(cols * 4);
    int8_t *q = malloc(cols);
    bool ok = row && scales && q;
    for (int64_t r = 0; r < w->rows && ok; r++) {
        tw_weight_read(w, r, 0, w->cols, row);
        tw_quantise_row(t, group, row, w->cols, q, scales);
        for (int64_t c = 0; c < w->cols; c++) row[c] = (float)q[c] * scales[group ? c / group : 0];
        ok = fwrite(row, 4, cols, f) == cols;
    }
    free(row);
    free(scales);
    free(q);
    return ok;
}

int main(int argc, char **argv) {
    tw_model *m = NULL;
    tw_diag d;
    char name[128];
    bool int8 = argc == 4 && !strcmp(argv[2], "int8"), int4 = argc == 4 && !strcmp(argv[2], "int4");
    if (!int8 && !int4) {
        fprintf(stderr, "usage: dequantise MODEL int8|int4 OUT.safetensors\n");
        return 2;
    }
    if (tw_model_open(&m, argv[1], &d) != TW_OK) {
        fprintf(stderr, "dequantise: %s\n", d.message);
        return 1;
    }
    FILE *f = fopen(argv[3], "wbe");
    bool ok = f && write_header(m, f);
    const tw_weight *w;
    for (int64_t i = 0; ok && (w = matrix_at(m, i, name, sizeof name)); i++)
        ok = write_matrix(w, int8 || i == m->n_layers * INSIDE ? TW_I8 : TW_I4, f);
    if (f) ok = fclose(f) == 0 && ok;
    if (!ok) perror(argv[3]);
    tw_model_close(m);
    return ok ? 0 : 1;
}
