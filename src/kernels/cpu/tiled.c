/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/tiled.h"

#include "base/diag.h"
#include "base/divide.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { TM_LEAST = 16, TN_LEAST = 64, USUAL_SPAN = 2048, USUAL_ROWS = 48 };

const char *const tw_tiled_makers[] = {"own", "openblas", "onednn", NULL};

void tw_tiled_name(tw_panel_format weights, bool strips, char *out, size_t size) {
    char group[16] = "";
    if (weights.group) snprintf(group, sizeof group, "-%d", weights.group);
    snprintf(out, size, "gemm-cpu-%s%s%s", tw_dtype_name(weights.dtype), group, strips ? "-strips" : "");
}

#define NUMBER(NAME, ROLE, LEAST, MOST, MEANING, ...)                                                                  \
    {                                                                                                                  \
        .name = #NAME, .role = ROLE, .form = TW_SPACE_INT32, .at = offsetof(tw_tiled_config, NAME), .least = LEAST,    \
        .most = MOST, .values = (const int[]){__VA_ARGS__},                                                            \
        .n_values = sizeof((const int[]){__VA_ARGS__}) / sizeof(int), .meaning = MEANING                               \
    }
static const tw_param params[] = {
    {.name = "by",
     .role = TW_SPACE_MACRO,
     .form = TW_SPACE_WORD,
     .at = offsetof(tw_tiled_config, by),
     .words = tw_tiled_makers,
     .meaning = "whose code computes a tile"},
    NUMBER(tm, TW_SPACE_MACRO, 1, 65536, "the most rows of x in a tile", 16, 32, 64, 128, 256, 512),
    NUMBER(tn, TW_SPACE_MACRO, TW_PANEL_ROWS, 65536, "the most rows of W in a tile", 64, 128, 256, 512, 1024),
    NUMBER(span, TW_SPACE_MICRO, 256, 65536, "columns of x and W at a time", 512, 1024, 2048, 4096),
    NUMBER(rows, TW_SPACE_MICRO, 12, 65532, "rows of x that meet a block of panels", 48, 192),
    {.name = "order",
     .role = TW_SPACE_MICRO,
     .form = TW_SPACE_WORD,
     .at = offsetof(tw_tiled_config, order),
     .words = (const char *const[]){"weights", "rows", NULL},
     .meaning = "what tiles that follow each other share"},
};

/* Returns the least extent that uses more than half of a tile. 1: no smaller tile exists. */
static int64_t least_extent(int64_t tile, int64_t least) {
    return tile <= least ? 1 : tile / 2 + 1;
}

void tw_tiled_least(const tw_tiled_config *c, int64_t *m, int64_t *n) {
    *m = least_extent(c->tm, TM_LEAST);
    *n = least_extent(c->tn, TN_LEAST);
}

static tw_status legal(const void *context, const void *config, tw_diag *diag) {
    const tw_tiled_context *of = context;
    const tw_tiled_config *c = config;
    if (c->by > of->vendors) return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s is not installed", tw_tiled_makers[c->by]);
    if (c->tn % TW_PANEL_ROWS)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "tn=%d is no multiple of %d", c->tn, TW_PANEL_ROWS);
    if (c->span % 256) return tw_fail(diag, TW_ERR_UNSUPPORTED, "span=%d is no multiple of 256", c->span);
    if (c->rows % 12) return tw_fail(diag, TW_ERR_UNSUPPORTED, "rows=%d is no multiple of 12", c->rows);
    if (!of->of.m) return TW_OK;
    int64_t least_m, least_n;
    tw_tiled_least(c, &least_m, &least_n);
    if (of->of.m < least_m)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "tm=%d is too large for %lld rows", c->tm, (long long)of->of.m);
    if (of->of.n < least_n)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "tn=%d is too large for %lld columns", c->tn, (long long)of->of.n);
    return TW_OK;
}

/* Vendors, and our kernels with AMX and in plain C, choose their own blocks. */
static void plain(const void *context, void *config) {
    const tw_tiled_context *of = context;
    tw_tiled_config *c = config;
    const char *name = of->kernels->gemm_name[of->of.weights.dtype];
    const bool own_blocks = !c->by && strcmp(name, "amx") != 0 && strcmp(name, "c") != 0;
    if (!own_blocks) c->span = USUAL_SPAN;
    if (!own_blocks || c->tm <= USUAL_ROWS) c->rows = USUAL_ROWS;
}

const tw_space tw_tiled_space = {.name = "gemm-cpu",
                                 .title = "A product on a processor",
                                 .example = "tm=64",
                                 .params = params,
                                 .n = sizeof params / sizeof *params,
                                 .bytes = sizeof(tw_tiled_config),
                                 .legal = legal,
                                 .plain = plain};

/* ---- tiles */

int64_t tw_tiled_count(const tw_tiled_problem *p, const tw_tiled_config *c) {
    return tw_ceil_div(p->m, c->tm) * tw_ceil_div(p->n, c->tn);
}

static tw_gemm_blocking blocking(const tw_tiled_config *c) {
    return (tw_gemm_blocking){c->span, c->rows};
}

/* Rows of x in the largest tile, and its panels. */
static int64_t most_rows(const tw_tiled_problem *p, const tw_tiled_config *c) {
    return tw_ceil_div(p->m, tw_ceil_div(p->m, c->tm));
}
static int64_t most_panels(const tw_tiled_problem *p, const tw_tiled_config *c) {
    return tw_ceil_div(p->n / TW_PANEL_ROWS, tw_ceil_div(p->n, c->tn));
}

size_t tw_tiled_scratch(const tw_kernels *k, const tw_tiled_problem *p, const tw_tiled_config *c) {
    const int64_t rows = most_rows(p, c), panels = most_panels(p, c);
    if (c->by) return (size_t)(panels * TW_PANEL_ROWS * p->k) * sizeof(float);
    size_t most = 0;
    /* A tile with one row less may need more scratch, since x is packed in tiles of other heights. */
    for (int64_t r = rows - 1; r <= rows; r++) {
        const size_t one = k->gemm_scratch[p->weights.dtype](p->weights, panels, p->k, r, blocking(c));
        if (one > most) most = one;
    }
    return most;
}

bool tw_tiled_run(const tw_kernels *k, tw_vendor *vendor, const tw_tiled_problem *p, const tw_tiled_config *c,
                  int64_t i, const tw_tiled_operands *of, void *scratch) {
    const int64_t across = tw_ceil_div(p->m, c->tm), along = tw_ceil_div(p->n, c->tn), all = p->n / TW_PANEL_ROWS;
    const int64_t at = c->order ? i / along : i % across, strip = c->order ? i % along : i / across;
    const int64_t row = p->m * at / across, rows = p->m * (at + 1) / across - row;
    const int64_t first = all * strip / along, panels = all * (strip + 1) / along - first;
    const char *w = (const char *)of->panels + (size_t)first * tw_panel_bytes(p->weights, p->k);
    const float *x = of->x + row * p->k;
    float *y = of->y + row * p->n + first * TW_PANEL_ROWS;
    if (!c->by) {
        k->gemm[p->weights.dtype](p->weights, w, panels, p->k, x, p->k, rows, y, p->n, blocking(c), NULL, scratch);
        return true;
    }
    tw_panel_unpack(p->weights, p->k, w, panels, scratch, p->k);
    return tw_vendor_gemm(vendor, c->by - 1, rows, panels * TW_PANEL_ROWS, p->k, x, p->k, scratch, p->k, y, p->n);
}
