/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_gpu.h"

#include "base/arena.h"
#include "base/diag.h"
#include "device/identity.h"
#include "tune/gemm_kernels.h"
#include "tune/gemm_vendor.h"
#include "tune/macros.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE = 256 << 20, POOL_MOST = 1 << 30, POOL_SEED = 1 };

typedef struct gemm_gpu {
    tw_arena arena;
    tw_cuda *cuda;
    tw_cublaslt *vendor; /* NULL: not installed. */
    tw_gemm_pool *pool;
    tw_gemm_kernels *kernels;
    tw_gemm_type type;
} gemm_gpu;

static const char vendors[] = "by=cublaslt";

/* Returns the product A B^T of a problem's m, n and k. It is not completed. */
static tw_gemm_problem product_of(const gemm_gpu *g, const int64_t *problem) {
    return (tw_gemm_problem){
        .type = g->type, .m = problem[0], .n = problem[1], .k = problem[2], .trans_b = true, .alpha = 1};
}

/* ---- measuring */

/* A configuration that is measured. */
typedef struct runner {
    tw_gemm_own own;
    tw_gemm_vendor vendor;
    tw_gemm_candidate candidate;
    tw_cuda_timer *timer;
} runner;

typedef struct session {
    gemm_gpu *g;
    tw_gemm_problem p;
    tw_gemm_rig *rig;
    tw_cublaslt_plan *plan; /* NULL: cuBLASLt is missing or cannot compute the product. */
    const char *const *words;
    tw_gemm_config *configs;
    runner *runners;
    const tw_family_listener *listener;
} session;

static bool is_vendor(const char *words) {
    return !strncmp(words, vendors, sizeof vendors - 1);
}

static tw_status prepare(void *context, int first, int n, tw_diag *diag) {
    const session *s = context;
    int own = 0;
    tw_gemm_config *configs = malloc((size_t)n * sizeof *configs);
    if (!configs) return tw_fail_memory(diag);
    for (int i = first; i < first + n; i++)
        if (!is_vendor(s->words[i])) configs[own++] = s->configs[i];
    const tw_status st = tw_gemm_kernels_prepare(s->g->kernels, &s->p, configs, own, diag);
    free(configs);
    return st;
}

static tw_status open_config(void *context, int i, tw_diag *diag) {
    const session *s = context;
    runner *r = &s->runners[i];
    if (is_vendor(s->words[i])) {
        int number = 0;
        if (!s->plan) return tw_fail(diag, TW_ERR_UNSUPPORTED, "there is no cuBLASLt for this product");
        sscanf(s->words[i] + sizeof vendors - 1, " algorithm=%d", &number);
        if (number < 0 || number >= tw_cublaslt_algorithms(s->plan))
            return tw_fail(diag, TW_ERR_UNSUPPORTED, "cuBLASLt proposes %d algorithms for this product",
                           tw_cublaslt_algorithms(s->plan));
        r->vendor = (tw_gemm_vendor){s->plan, number};
        r->candidate = tw_gemm_vendor_candidate(&r->vendor);
        return TW_OK;
    }
    const tw_status st = tw_gemm_kernels_load(s->g->kernels, s->rig, &s->p, &s->configs[i], &r->own, diag);
    r->candidate = tw_gemm_own_candidate(&r->own);
    return st;
}

static tw_status check(void *context, int i, tw_diag *diag) {
    const session *s = context;
    return tw_gemm_rig_check(s->rig, &s->runners[i].candidate, diag);
}

static tw_status warm(void *context, int i, tw_diag *diag) {
    const session *s = context;
    return tw_gemm_rig_timer(s->rig, &s->runners[i].candidate, 1, &s->runners[i].timer, diag);
}

static tw_status sample(void *context, int i, double *us, tw_diag *diag) {
    const session *s = context;
    return tw_cuda_timer_sample(s->runners[i].timer, us, diag);
}

static void close_config(void *context, int i) {
    const session *s = context;
    runner *r = &s->runners[i];
    tw_cuda_timer_free(r->timer);
    r->timer = NULL;
    tw_gemm_own_unload(&r->own);
}

/* Passes a result on. A fault of the device ends the measurement, since the device can run nothing after it. */
static tw_status take(void *context, const tw_measured *m, tw_diag *diag) {
    const session *s = context;
    const tw_status st = s->listener->result(s->listener->context, m, diag);
    if (st != TW_OK || m->status != TW_ERR_IO) return st;
    if (diag) *diag = *m->diag;
    return m->status;
}

static bool interrupted(void *context) {
    const session *s = context;
    return s->listener->interrupted && s->listener->interrupted(s->listener->context);
}

static tw_status open_session(session *s, int n, tw_diag *diag) {
    tw_status st = tw_gemm_problem_complete(&s->p, diag);
    s->configs = calloc((size_t)n + 1, sizeof *s->configs);
    s->runners = calloc((size_t)n + 1, sizeof *s->runners);
    if (st != TW_OK) return st;
    if (!s->configs || !s->runners) return tw_fail_memory(diag);
    for (int i = 0; i < n && st == TW_OK; i++) {
        s->configs[i] = tw_gemm_config_default(&s->p);
        if (!is_vendor(s->words[i])) st = tw_gemm_config_parse(&s->configs[i], s->words[i], diag);
    }
    if (st == TW_OK) st = tw_gemm_rig_make_of(&s->rig, s->g->cuda, s->g->pool, &s->p, WORKSPACE, diag);
    if (st == TW_OK) st = tw_gemm_vendor_plan(s->g->vendor, &s->p, &s->plan, diag);
    return st;
}

static tw_status measure(void *self, const int64_t *problem, const char *const *words, int n,
                         const tw_measure_protocol *p, const tw_family_listener *l, tw_diag *diag) {
    static const tw_measure_calls calls = {.prepare = prepare,
                                           .open = open_config,
                                           .check = check,
                                           .warm = warm,
                                           .sample = sample,
                                           .close = close_config,
                                           .result = take,
                                           .interrupted = interrupted};
    gemm_gpu *g = self;
    session s = {.g = g, .p = product_of(g, problem), .words = words, .listener = l};
    tw_status st = open_session(&s, n, diag);
    if (st == TW_OK) st = tw_measure(&calls, &s, n, p, NULL, diag);
    if (s.plan) tw_cublaslt_plan_free(s.plan);
    tw_gemm_rig_free(s.rig);
    free(s.configs);
    free(s.runners);
    return st;
}

/* ---- the family */

static const char *const baselines[] = {"default", "cublaslt"};

static void baseline(const void *self, int i, const int64_t *problem, char *out, size_t size) {
    const gemm_gpu *g = self;
    tw_gemm_problem p = product_of(g, problem);
    if (i) {
        snprintf(out, size, "%s", vendors);
        return;
    }
    if (tw_gemm_problem_complete(&p, NULL) != TW_OK) return;
    const tw_gemm_config c = tw_gemm_config_default(&p);
    tw_gemm_config_print(&c, out, size);
}

static void close_family(void *self) {
    gemm_gpu *g = self;
    tw_gemm_kernels_free(g->kernels);
    tw_gemm_pool_free(g->pool);
    if (g->vendor) tw_cublaslt_close(g->vendor);
    if (g->cuda) tw_cuda_close(g->cuda);
    tw_arena_free(&g->arena);
    free(g);
}

/* Appends the vendor's algorithms, by their place in the library's own ranking, as a macro choice. Which tiles they
   have is unknown. Large ones of 128 and 256 stand for them. */
static tw_status add_vendor(gemm_gpu *g, tw_family *f, const tw_artefact_macro *own, int sms, tw_diag *diag) {
    static const char *const ranks[] = {
        "", "algorithm=1", "algorithm=2", "algorithm=3", "algorithm=4", "algorithm=5", "algorithm=6", "algorithm=7"};
    tw_artefact_macro *all = tw_arena_array(&g->arena, (size_t)f->n_macros + 1, sizeof *all);
    if (!all) return tw_fail_memory(diag);
    memcpy(all, own, (size_t)f->n_macros * sizeof *all);
    all[f->n_macros++] = (tw_artefact_macro){.config = vendors,
                                             .properties = TW_MACRO_VENDOR | TW_MACRO_WORKSPACE,
                                             .grid = {128, 256},
                                             .rounds = {0, 0, 64},
                                             .multiple = {0, 8, 8},
                                             .slots = sms,
                                             .micros = ranks,
                                             .n_micros = sizeof ranks / sizeof *ranks};
    f->macros = all;
    return TW_OK;
}

/* The properties of a device that a family depends on. */
typedef struct device {
    const char *name, *target;
    int sms;
    int64_t l2_bytes;
} device;

/* Fills in the fields that follow from the device and the environment's text. */
static tw_status describe(gemm_gpu *g, tw_family *f, const device *d, const char *environment, tw_diag *diag) {
    const tw_target *target = tw_target_find(d->target);
    tw_artefact_macro *macros = NULL;
    tw_identity id;
    tw_identity_of_gpu(&id, d->name, d->target, d->sms, d->l2_bytes);
    f->environment = tw_arena_strdup(&g->arena, environment);
    f->name = tw_arena_printf(&g->arena, "gemm-gpu-%s", tw_gemm_types[g->type].name);
    f->device = tw_arena_strdup(&g->arena, id.device);
    f->alike = tw_arena_strdup(&g->arena, id.alike);
    f->architecture = tw_arena_strdup(&g->arena, id.architecture);
    f->n_macros = target ? tw_gemm_gpu_list(&g->arena, g->type, target, d->sms, &macros) : 0;
    f->macros = macros;
    if (f->n_macros < 0 || g->arena.failed) return tw_fail_memory(diag);
    if (!f->n_macros) return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s has no warpgroups", d->name);
    /* The default: tiles of 128 rows and columns, no split, no cluster. */
    for (int m = 0; m < f->n_macros; m++)
        if (macros[m].grid[0] == 128 && macros[m].grid[1] == 128 && macros[m].times == 1 && !macros[m].parts[0])
            f->macro = m;
    return add_vendor(g, f, macros, d->sms, diag);
}

static tw_status describe_gpu(gemm_gpu *g, tw_family *f, tw_diag *diag) {
    const tw_cuda_info *i = tw_cuda_describe(g->cuda);
    const device d = {i->name, i->target->name, i->sms, i->l2_bytes};
    char version[32] = "";
    if (g->vendor) tw_cublaslt_version(g->vendor, version, sizeof version);
    json_t *o = json_pack("{s:s, s:s, s:s, s:i, s:I, s:i, s:s, s:s}", "device", i->name, "driver", i->driver, "target",
                          d.target, "sms", i->sms, "l2_bytes", (json_int_t)i->l2_bytes, "clock_khz", i->clock_khz,
                          "cublaslt", version, "tilewright", TW_VERSION);
    char *text = o ? json_dumps(o, JSON_SORT_KEYS) : NULL;
    const tw_status st = text ? describe(g, f, &d, text, diag) : tw_fail_memory(diag);
    json_decref(o);
    free(text);
    return st;
}

static tw_family family_of(gemm_gpu *g, const tw_family_calls *calls) {
    return (tw_family){.unit = "us",
                       .protocol = "caches=cold launches=graph",
                       .axes = {"m", "n", "k"},
                       .n_axes = 3,
                       .columns = 1,
                       .loops = 2,
                       .least = {64, 384, 2048},
                       .most = {16384, 8192, 8192},
                       .step = {1, 64, 64},
                       .baselines = baselines,
                       .n_baselines = sizeof baselines / sizeof *baselines,
                       .calls = calls,
                       .self = g};
}

tw_status tw_gemm_gpu_open(tw_family *out, const tw_gemm_gpu_options *o, tw_diag *diag) {
    static const tw_family_calls calls = {measure, baseline, close_family};
    gemm_gpu *g = calloc(1, sizeof *g);
    if (!g) return tw_fail_memory(diag);
    *out = family_of(g, &calls);
    g->type = o->type;
    tw_status st = tw_cuda_open(&g->cuda, o->device, diag);
    if (st == TW_OK && tw_cublaslt_open(&g->vendor, g->cuda, NULL) != TW_OK) g->vendor = NULL;
    if (st == TW_OK) {
        const int64_t some = tw_cuda_describe(g->cuda)->memory_bytes / 8;
        st =
            tw_gemm_pool_make(&g->pool, g->cuda, o->type, some < POOL_MOST ? (size_t)some : POOL_MOST, POOL_SEED, diag);
    }
    if (st == TW_OK) st = tw_gemm_kernels_make(&g->kernels, g->cuda, diag);
    if (st == TW_OK) st = describe_gpu(g, out, diag);
    if (st != TW_OK) close_family(g);
    return st;
}

tw_status tw_gemm_gpu_recorded(tw_family *out, tw_gemm_type type, const char *environment, tw_diag *diag) {
    static const tw_family_calls calls = {NULL, baseline, close_family};
    device d = {NULL, "sm_90a", 0, 0};
    json_int_t l2 = 0;
    gemm_gpu *g = calloc(1, sizeof *g);
    if (!g) return tw_fail_memory(diag);
    *out = family_of(g, &calls);
    out->recorded = true;
    g->type = type;
    json_t *o = json_loads(environment, 0, NULL);
    tw_status st = TW_OK;
    if (json_unpack(o, "{s:s, s:i, s?s, s?I}", "device", &d.name, "sms", &d.sms, "target", &d.target, "l2_bytes",
                    &l2) ||
        d.sms < 1 || d.sms > TW_ARTEFACT_TILE)
        st = tw_fail(diag, TW_ERR_FORMAT, "\"%.200s\" is no GPU's environment", environment);
    d.l2_bytes = l2;
    if (st == TW_OK) st = describe(g, out, &d, environment, diag);
    json_decref(o);
    if (st != TW_OK) close_family(g);
    return st;
}
