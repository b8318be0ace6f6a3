/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "vm/cpu/choice.h"

#include "base/clock.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "base/text.h"
#include "kernels/cpu/tiled.h"
#include "tune/measure.h"
#include "vm/cpu/product.h"
#include "vm/cpu/selected.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MEASURE_ROWS = 256,
    ROUNDS = 3,
    MAX_VENDORS = 2,
    SMALL = 1 << 24, /* A product of fewer multiply-adds is not measured. Our kernel computes it. */
};

static const tw_param params[] = {{.name = "by",
                                   .role = TW_SPACE_MICRO,
                                   .form = TW_SPACE_WORD,
                                   .at = offsetof(tw_choice_config, by),
                                   .words = tw_tiled_makers,
                                   .meaning = "whose code computes a product of many positions"}};

static tw_status legal(const void *context, const void *config, tw_diag *diag) {
    const tw_choice_space_context *of = context;
    const tw_choice_config *c = config;
    if (c->by <= of->vendors) return TW_OK;
    return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s is not installed", tw_tiled_makers[c->by]);
}

const tw_space tw_choice_space = {.name = "choice",
                                  .title = "How a processor computes a product",
                                  .example = "by=own",
                                  .params = params,
                                  .n = sizeof params / sizeof *params,
                                  .bytes = sizeof(tw_choice_config),
                                  .legal = legal};

typedef struct decision {
    struct decision *next;
    const char *shape;              /* The type and shape of the weights: "bf16 4096x2048". */
    const char *winner;             /* The name of the fastest choice: "own", "openblas" or another vendor. */
    const char *by;                 /* Origin of the choice: "exact", "model", "measured now" or "measured before". */
    double us;                      /* The time that the artefact expects, in microseconds. 0: a measurement decided. */
    double gflops[1 + MAX_VENDORS]; /* Measured speed of each choice. 0: it was not measured now, or is illegal. */
    tw_vm_product product;
} decision;

struct tw_choices {
    tw_vm *vm;
    tw_arena arena;
    char *path;     /* Path of the file. NULL: choices are not kept. */
    json_t *memory; /* The file's contents: an object that maps "machine|shape" to the name of the fastest choice. */
    char machine[256];
    decision *decisions;
    tw_choice_space_context space;
    tw_selected *selected;
    int n; /* Number of legal choices: ours, and one per vendor on this machine. */
};

static tw_status open_vendor(tw_vm_thread *thread, void *context) {
    (void)context;
    thread->vendor = tw_vendor_open();
    return thread->vendor ? TW_OK : tw_fail_memory(&thread->diag);
}

tw_status tw_choices_open(tw_choices **out, tw_vm *vm, tw_diag *diag) {
    char path[2048];
    tw_choices *c = calloc(1, sizeof *c);
    *out = c;
    if (!c) return tw_fail_memory(diag);
    c->vm = vm;
    tw_status st = tw_vm_run_job(vm, open_vendor, NULL, diag);
    if (st != TW_OK) return st;
    c->space.vendors = tw_vendor_count(vm->threads[0].vendor);
    for (tw_choice_config by = {0}; tw_space_point(&tw_choice_space, (uint64_t)c->n, &by); c->n++)
        if (tw_space_judge(&tw_choice_space, &c->space, &by, NULL) != TW_OK) break;
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    const tw_activations a = vm->options.activations;
    snprintf(c->machine, sizeof c->machine, "%s|%d of %d|%x%s%s|%s", cpu.model, vm->n_threads, cpu.cores, vm->k.isa,
             a ? " " : "", a ? tw_activations_name(a) : "", TW_VERSION);
    if (tw_cache_path("gemm-cpu.json", path, sizeof path)) c->path = tw_arena_strdup(&c->arena, path);
    if (c->path && tw_file_exists(c->path)) tw_json_load(&c->memory, c->path, NULL);
    if (!json_is_object(c->memory)) {
        json_decref(c->memory);
        c->memory = json_object();
    }
    c->selected = tw_selected_open(NULL, vm->n_threads, !vm->options.limit_isa);
    return c->arena.failed || !c->memory || !c->selected ? tw_fail_memory(diag) : TW_OK;
}

void tw_choices_close(tw_choices *c) {
    if (!c) return;
    tw_selected_close(c->selected);
    json_decref(c->memory);
    tw_arena_free(&c->arena);
    free(c);
}

/* ---- measuring ---- */

typedef struct contest {
    tw_choices *c;
    tw_strip strip;
    int64_t rows;
    double seconds[1 + MAX_VENDORS]; /* Times of thread 0. 0: wrong or refused. */
} contest;

/* One thread's part of a contest. */
typedef struct trial {
    contest *k;
    tw_vm_thread *thread;
    tw_scratch scratch;
    const float *x;
    float *own, *y; /* Outputs of our kernel and of a vendor. */
    size_t y_bytes;
} trial;

static bool product(const trial *t, int who, float *y) {
    const tw_strip *s = &t->k->strip;
    if (who) return tw_product_vendor(t->thread, t->scratch, s, s->panels, who - 1, t->x, s->cols, t->k->rows, y);
    tw_product_own(t->thread, t->scratch, s, s->panels, t->x, s->cols, t->k->rows, y, NULL);
    return true;
}

static tw_status refused(tw_diag *diag) {
    return tw_fail(diag, TW_ERR_UNSUPPORTED, "the library refused the product");
}

/* Times products for two milliseconds. *seconds is the mean of one. */
static tw_status sample(void *context, int who, double *seconds, tw_diag *diag) {
    const trial *t = context;
    int64_t start = tw_now_ns(), end, times = 0;
    do {
        if (!product(t, who, who ? t->y : t->own)) return refused(diag);
        times++;
        end = tw_now_ns();
    } while (end - start < 2000000);
    *seconds = (double)(end - start) * 1e-9 / (double)times;
    return TW_OK;
}

/* True if two results agree within the rounding of f32. */
static bool agrees(const tw_strip *s, const float *a, const float *b, int64_t rows) {
    float largest = 0, worst = 0;
    for (int64_t r = 0; r < rows; r++, a += tw_strip_stride(s), b += tw_strip_stride(s))
        for (int64_t i = 0; i < tw_strip_width(s); i++) {
            largest = fmaxf(largest, fabsf(a[i]));
            if (!(fabsf(a[i] - b[i]) <= worst)) worst = fabsf(a[i] - b[i]);
        }
    return worst <= 1e-4f * largest;
}

/* Checks a candidate. Candidate 0 is our kernel. Its output is the reference for the vendors. */
static tw_status check(void *context, int who, tw_diag *diag) {
    const trial *t = context;
    memset(t->y, 0xff, t->y_bytes);
    if (!product(t, who, who ? t->y : t->own)) return refused(diag);
    if (!who || agrees(&t->k->strip, t->own, t->y, t->k->rows)) return TW_OK;
    return tw_fail(diag, TW_ERR_MISMATCH, "another result than our own");
}

static tw_status take(void *context, const tw_measured *m, tw_diag *diag) {
    const trial *t = context;
    (void)diag;
    if (t->thread->index == 0) t->k->seconds[m->candidate] = m->status == TW_OK ? m->time.min : 0;
    return TW_OK;
}

static tw_status run_contest(tw_vm_thread *thread, void *context) {
    static const tw_measure_calls calls = {.check = check, .sample = sample, .result = take};
    static const tw_measure_protocol in_turn = {.samples = ROUNDS, .turns = true};
    contest *k = context;
    const size_t x_bytes = tw_lines((size_t)(k->rows * k->strip.cols) * 4);
    trial t = {.k = k, .thread = thread, .y_bytes = tw_lines(tw_strip_product_bytes(&k->strip, k->rows))};
    size_t bytes = x_bytes + 2 * t.y_bytes + tw_product_scratch(thread->vm, &k->strip, k->rows);
    unsigned char *pages = tw_pages(bytes);
    if (!pages) return TW_OK; /* Without memory for a measurement our kernels are chosen. */
    t.scratch = (tw_scratch){pages};
    float *x = tw_scratch_take(&t.scratch, x_bytes);
    t.x = x;
    t.own = tw_scratch_take(&t.scratch, t.y_bytes);
    t.y = tw_scratch_take(&t.scratch, t.y_bytes);
    tw_random r = tw_random_seed((uint64_t)tw_now_ns());
    for (int64_t i = 0; i < k->rows * k->strip.cols; i++) x[i] = (float)tw_random_unit(&r) * 2 - 1;
    if (tw_product_rounds(thread->vm, &k->strip)) tw_product_round(thread->vm, &k->strip, x, k->strip.cols, k->rows, x);
    tw_status st = tw_measure(&calls, &t, k->c->n, &in_turn, NULL, &thread->diag);
    tw_pages_free(pages, bytes);
    return st;
}

static void shape_name(const tw_strip *s, char *out, size_t size) {
    char group[16] = "";
    if (s->format.group) snprintf(group, sizeof group, "/%d", s->format.group);
    snprintf(out, size, "%s%s %lldx%lld", tw_dtype_name(s->format.dtype), group, (long long)tw_strip_width(s),
             (long long)s->cols);
}

static const char *name_of(int by) {
    return by >= 0 && by <= MAX_VENDORS ? tw_tiled_makers[by] : "";
}

static int name_index(const tw_choices *c, const char *name) {
    for (int i = 0; name && i < c->n; i++)
        if (!strcmp(name, name_of(i))) return i;
    return -1;
}

static const decision *find_decision(const tw_choices *c, const char *shape) {
    for (const decision *d = c->decisions; d; d = d->next)
        if (!strcmp(d->shape, shape)) return d;
    return NULL;
}

/* Decides who computes a shape: the artefact, else the file of choices, else a measurement. All workers measure at
   once, as in a real step. */
static tw_status decide(tw_choices *c, const tw_strip *s, int64_t rows, const char *shape, tw_diag *diag) {
    decision *d = tw_arena_alloc(&c->arena, sizeof *d);
    const char *copy = tw_arena_strdup(&c->arena, shape);
    if (!d || !copy) return tw_fail_memory(diag);
    char key[512];
    snprintf(key, sizeof key, "%s|%s %s", c->machine, c->vm->k.gemm_name[s->format.dtype], shape);
    const tw_vm_product product = {s->format.dtype, s->format.group, rows, tw_strip_width(s) * c->vm->n_threads,
                                   s->cols};
    *d = (decision){.next = c->decisions, .shape = copy, .product = product};
    int winner = tw_selected_choose(c->selected, &product, c->n, &d->by, &d->us);
    if (winner < 0) {
        winner = name_index(c, json_string_value(json_object_get(c->memory, key)));
        d->by = "measured before";
    }
    if (winner < 0) {
        d->by = "measured now";
        contest k = {c, *s, rows < MEASURE_ROWS ? rows : MEASURE_ROWS, {0}};
        tw_status st = tw_vm_run_job(c->vm, run_contest, &k, diag);
        if (st != TW_OK) return st;
        winner = 0;
        for (int i = 0; i < c->n; i++) {
            if (k.seconds[i] > 0) d->gflops[i] = 2e-9 * (double)(k.rows * tw_strip_width(s) * s->cols) / k.seconds[i];
            if (d->gflops[i] > d->gflops[winner]) winner = i;
        }
        json_object_set_new(c->memory, key, json_string(name_of(winner)));
    }
    d->winner = name_of(winner);
    c->decisions = d;
    return TW_OK;
}

static void remember(const tw_choices *c) {
    char folder[2048];
    char *text = c->path ? tw_json_text(c->memory, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
    if (!text) return;
    /* Failing here only means measuring again next time. */
    snprintf(folder, sizeof folder, "%s", c->path);
    *strrchr(folder, '/') = 0;
    if (tw_folder_make(folder)) tw_file_write(c->path, text, strlen(text), NULL);
    free(text);
}

tw_status tw_choices_make(tw_choices *c, tw_program *p, tw_diag *diag) {
    size_t before = json_object_size(c->memory);
    if (p->s->tokens == 1 || c->n == 1) return TW_OK;
    for (int w = 0; w < c->vm->n_threads; w++)
        for (int i = 0; i < p->s->workers[w].count; i++) {
            tw_exec *e = &p->exec[w][i];
            char shape[96];
            bool one_row = e->in->op == TW_INSTR_HEAD && p->s->buffers[e->in->operand[TW_HEAD_LOGITS]].shape[0] == 1;
            if (!e->strip.panels || one_row) continue;
            if (tw_strip_width(&e->strip) * e->strip.cols * p->s->tokens < SMALL) continue;
            shape_name(&e->strip, shape, sizeof shape);
            if (!find_decision(c, shape)) {
                tw_status st = decide(c, &e->strip, p->s->tokens, shape, diag);
                if (st != TW_OK) return st;
            }
            e->strip.choice = name_index(c, find_decision(c, shape)->winner);
        }
    if (json_object_size(c->memory) > before) remember(c);
    return TW_OK;
}

tw_status tw_choices_select(tw_choices *c, const char *artefact, tw_diag *diag) {
    tw_selected *s = tw_selected_open(artefact, c->vm->n_threads, !c->vm->options.limit_isa);
    if (!s) return tw_fail_memory(diag);
    tw_selected_close(c->selected);
    c->selected = s;
    c->decisions = NULL;
    tw_status st = TW_OK;
    for (tw_program *p = c->vm->programs; p && st == TW_OK; p = p->next) st = tw_choices_make(c, p, diag);
    return st;
}

int tw_choices_products(const tw_choices *c, tw_vm_product *out, int most) {
    int n = 0;
    for (const decision *d = c->decisions; d && n < most; d = d->next) out[n++] = d->product;
    return n;
}

void tw_choices_explain(const tw_choices *c, char *out, size_t size) {
    tw_text t = {out, size, 0};
    out[0] = 0;
    for (const decision *d = c->decisions; d; d = d->next) {
        tw_text_add(&t, "%s: %s, %s", d->shape, d->winner, d->by);
        if (d->us > 0) tw_text_add(&t, ", %.0f us expected", d->us);
        for (int i = 0; i < c->n; i++)
            if (d->gflops[i] > 0)
                tw_text_add(&t, "  %s%s%s%s %.0f GFLOP/s", name_of(i), i ? "" : " (",
                            i ? "" : c->vm->k.gemm_name[d->product.weights], i ? "" : ")", d->gflops[i]);
        tw_text_add(&t, "\n");
    }
}
