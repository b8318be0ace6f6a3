/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_gpu.h"

#include "base/arena.h"
#include "base/diag.h"
#include "base/divide.h"
#include "base/grow.h"
#include "base/json.h"
#include "device/identity.h"
#include "kernels/gemm/estimate.h"
#include "tune/gemm_algorithms.h"
#include "tune/gemm_kernels.h"
#include "tune/gemm_vendor.h"
#include "tune/macros.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORKSPACE = 256 << 20,
    POOL_SEED = 1,
    SHARE = 8,            /* A pool takes at most this part of the device's memory, and so does a reference. */
    CELL = 12,            /* Bytes of a cell's reference. */
    CELLS_MOST = 1 << 29, /* The most cells of C. */
};
#define POOL_MOST   ((int64_t)2000 << 20) /* Bytes of a pool, unless a problem asks for more. */
#define POOL_GROUPS ((int64_t)16 << 30)   /* The most bytes of a pool whose products have a B for each group. */

typedef struct gemm_gpu {
    tw_arena arena;
    tw_cuda *cuda;
    tw_cublaslt *vendor; /* NULL: cuBLASLt is not installed, or the family is recorded. */
    tw_gemm_pool *pool;
    tw_gemm_kernels *kernels;
    tw_gemm_kind kind;
    int64_t pool_bytes; /* Size of the pool. 0: there is none yet. */
    int64_t pool_most;  /* The most bytes of a pool. */
    int64_t cells_most; /* The most cells of C. */
    tw_cuda_info info;  /* The device. Of a recorded device only `sms`, `clock_khz` and `target` are known. */
    const tw_artefact_macro *macros; /* The macro choices of the family, as in tw_family. */
} gemm_gpu;

static const char vendors[] = "by=cublaslt";

/* Rounds a number of elements up to whole 16 bytes. The pool's reference loads so many at a time, and cuBLASLt takes no
   other rows of e4m3. */
static int64_t whole_row(const gemm_gpu *g, int64_t elements) {
    const int64_t step = 16 * 8 / tw_type_bits(tw_gemm_types[g->kind.type].element);
    return tw_ceil_div(elements, step) * step;
}

static tw_gemm_problem product_of(const gemm_gpu *g, const int64_t *problem) {
    return tw_gemm_kind_problem(g->kind, problem);
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
    int ranked;             /* Number of algorithms that the library proposed: the first ones of the plan. */
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

/* Finds the number of an algorithm in the plan. `words` name its place in the library's ranking or its attributes. */
static tw_status find_algorithm(const session *s, const char *words, int *number, tw_diag *diag) {
    tw_gemm_algorithm a;
    if (!s->plan) return tw_fail(diag, TW_ERR_UNSUPPORTED, "there is no cuBLASLt for this product");
    if (!strncmp(words, TW_GEMM_ALGORITHMS_PREFIX, sizeof TW_GEMM_ALGORITHMS_PREFIX - 1)) {
        if (!tw_gemm_algorithm_parse(&a, words))
            return tw_fail(diag, TW_ERR_USAGE, "\"%.200s\" is no algorithm of cuBLASLt", words);
        return tw_cublaslt_plan_add(s->plan, &a.of, number, diag);
    }
    sscanf(words + sizeof vendors - 1, " algorithm=%d", number);
    if (*number >= 0 && *number < s->ranked) return TW_OK;
    return tw_fail(diag, TW_ERR_UNSUPPORTED, "cuBLASLt proposes %d algorithms for this product", s->ranked);
}

static tw_status open_config(void *context, int i, tw_diag *diag) {
    const session *s = context;
    runner *r = &s->runners[i];
    if (is_vendor(s->words[i])) {
        int number = 0;
        const tw_status st = find_algorithm(s, s->words[i], &number, diag);
        if (st != TW_OK) return st;
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

/* Makes the pool large enough for a problem, but not larger than `pool_most`. The first problem makes it. Later ones
   double it where they need to, since filling a pool takes seconds. */
static tw_status reserve(gemm_gpu *g, const tw_gemm_problem *p, tw_diag *diag) {
    const int64_t need = (int64_t)tw_gemm_pool_need(p);
    int64_t bytes = g->pool_bytes ? g->pool_bytes : POOL_MOST;
    while (bytes < need && bytes < g->pool_most) bytes *= 2;
    if (bytes > g->pool_most) bytes = g->pool_most;
    if (bytes == g->pool_bytes) return TW_OK;
    tw_gemm_pool_free(g->pool);
    g->pool = NULL;
    g->pool_bytes = 0;
    const tw_status st = tw_gemm_pool_make(&g->pool, g->cuda, g->kind.type, (size_t)bytes, POOL_SEED, diag);
    if (st == TW_OK) g->pool_bytes = bytes;
    return st;
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
    if (st == TW_OK) st = reserve(s->g, &s->p, diag);
    if (st == TW_OK) st = tw_gemm_rig_make_of(&s->rig, s->g->cuda, s->g->pool, &s->p, 0, WORKSPACE, diag);
    if (st == TW_OK) st = tw_gemm_vendor_plan(s->g->vendor, &s->p, &s->plan, diag);
    if (st == TW_OK && s->plan) s->ranked = tw_cublaslt_algorithms(s->plan);
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

/* Counts what a vendor's algorithm asks of the device. The macro choice's grid divides the problem into clusters of
   tiles, with a block for each tile and part of k. A round is assumed to multiply ROUND elements of k, with three
   stages in flight. */
static void vendor_demand(const gemm_gpu *g, const tw_artefact_macro *m, const tw_gemm_problem *p, tw_demand *out) {
    enum { ROUND = 64 };
    const int64_t times = m->times ? m->times : 1;
    const int64_t clusters = tw_ceil_div(p->m, m->grid[0]) * tw_ceil_div(p->n, m->grid[1]) * p->batch;
    const int64_t split = m->rounds[2] / ROUND; /* Number of parts of k. */
    const int64_t tiles = times / split;        /* Number of tiles of a cluster. */
    const double cluster = (double)m->grid[0] * (double)m->grid[1], tile = cluster / (double)tiles; /* Cells of C. */
    *out = (tw_demand){.unit = TW_DEMAND_VENDOR,
                       .clock = g->info.clock_khz * 1e-3,
                       .blocks = (double)tw_ceil_div(clusters * times, g->info.sms),
                       .together = 1,
                       .rounds = (double)tw_ceil_div(p->k, m->rounds[2]),
                       .busy = tile * ROUND / g->info.target->tensor_f16,
                       .ahead = 3,
                       .stored = tile * 4,
                       .memory = tw_gemm_bytes(p),
                       .parts = split > 1 ? 8.0 * cluster * (double)clusters * (double)split : 0,
                       .turns = split > 1};
}

static bool demand(const void *self, int macro, int micro, const int64_t *problem, tw_demand *out) {
    const gemm_gpu *g = self;
    const tw_artefact_macro *m = &g->macros[macro];
    char words[TW_FAMILY_WORDS];
    tw_gemm_problem p = product_of(g, problem);
    if (tw_gemm_problem_complete(&p, NULL) != TW_OK) return false;
    if (m->properties & TW_MACRO_VENDOR) {
        vendor_demand(g, m, &p, out);
        return true;
    }
    tw_gemm_config c = tw_gemm_config_default(&p);
    snprintf(words, sizeof words, "%s %s", m->config, m->micros[micro]);
    return tw_gemm_config_parse(&c, words, NULL) == TW_OK && tw_gemm_demand(&p, &c, &g->info, out);
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

/* Appends the vendor's algorithms as macro choices: a choice of a place in the library's own ranking, and n algorithms
   that are known by their attributes. The tiles of a place in the ranking are unknown, and count as 128 x 256. */
static tw_status add_vendor(gemm_gpu *g, tw_family *f, const tw_artefact_macro *own, int sms,
                            const char *const *algorithms, int n, tw_diag *diag) {
    static const char *const ranks[] = {
        "", "algorithm=1", "algorithm=2", "algorithm=3", "algorithm=4", "algorithm=5", "algorithm=6", "algorithm=7"};
    tw_artefact_macro *all = tw_arena_array(&g->arena, (size_t)f->n_macros + 1 + (size_t)n, sizeof *all);
    if (!all) return tw_fail_memory(diag);
    memcpy(all, own, (size_t)f->n_macros * sizeof *all);
    f->ranking = f->n_macros + 1;
    all[f->n_macros++] = (tw_artefact_macro){.config = vendors,
                                             .properties = TW_MACRO_VENDOR | TW_MACRO_WORKSPACE,
                                             .grid = {128, 256, 0, g->kind.form == TW_GEMM_BATCH},
                                             .rounds = {0, 0, 64},
                                             .multiple = {0, 8, 8},
                                             .slots = sms,
                                             .micros = ranks,
                                             .n_micros = sizeof ranks / sizeof *ranks};
    for (int i = 0; i < n; i++) all[f->n_macros++] = tw_gemm_algorithm_macro(algorithms[i], sms);
    for (int i = f->ranking - 1; i < f->n_macros; i++) all[i].multiple[2] = whole_row(g, all[i].multiple[2]);
    f->macros = g->macros = all;
    return TW_OK;
}

/* The properties of a device that a family depends on. */
typedef struct device {
    const char *name, *target;
    int sms;
    int64_t l2_bytes;
} device;

/* Algorithms of cuBLASLt as configurations. The family's arena owns them. */
typedef struct algorithms {
    gemm_gpu *g;
    const char **words;
    int n;
    int room; /* Capacity in texts. */
} algorithms;

/* Fills in the fields that follow from the device, the environment's text and cuBLASLt's algorithms. */
static tw_status describe(gemm_gpu *g, tw_family *f, const device *d, const char *environment, const algorithms *a,
                          tw_diag *diag) {
    const tw_target *target = tw_target_find(d->target);
    tw_artefact_macro *macros = NULL;
    char name[TW_GEMM_KIND_NAME];
    tw_identity id;
    tw_identity_of_gpu(&id, d->name, d->target, d->sms, d->l2_bytes);
    f->environment = tw_arena_strdup(&g->arena, environment);
    tw_gemm_kind_name(g->kind, name);
    f->name = tw_arena_strdup(&g->arena, name);
    f->device = tw_arena_strdup(&g->arena, id.device);
    f->alike = tw_arena_strdup(&g->arena, id.alike);
    f->architecture = tw_arena_strdup(&g->arena, id.architecture);
    f->n_macros = target ? tw_gemm_gpu_list(&g->arena, g->kind, target, d->sms, &macros) : 0;
    f->macros = macros;
    if (f->n_macros < 0 || g->arena.failed) return tw_fail_memory(diag);
    if (!f->n_macros) return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s has no warpgroups", d->name);
    /* The default: tiles of 128 rows and columns, no split, no cluster. */
    for (int m = 0; m < f->n_macros; m++)
        if (macros[m].grid[0] == 128 && macros[m].grid[1] == 128 && macros[m].times == 1 && !macros[m].parts[0] &&
            !strstr(macros[m].config, "swap=1"))
            f->macro = m;
    /* cuBLASLt has no grouped products. */
    g->macros = macros;
    return g->kind.form == TW_GEMM_GROUPS ? TW_OK : add_vendor(g, f, macros, d->sms, a->words, a->n, diag);
}

static tw_status describe_gpu(gemm_gpu *g, tw_family *f, tw_diag *diag) {
    const tw_cuda_info *i = tw_cuda_describe(g->cuda);
    const device d = {i->name, i->target->name, i->sms, i->l2_bytes};
    g->info = *i;
    char version[32] = "";
    if (g->vendor) tw_cublaslt_version(g->vendor, version, sizeof version);
    json_t *o = json_pack("{s:s, s:s, s:s, s:i, s:I, s:i, s:s, s:s}", "device", i->name, "driver", i->driver, "target",
                          d.target, "sms", i->sms, "l2_bytes", (json_int_t)i->l2_bytes, "clock_khz", i->clock_khz,
                          "cublaslt", version, "tilewright", TW_VERSION);
    char *text = tw_json_text(o, JSON_SORT_KEYS);
    algorithms a = {.g = g};
    tw_status st = text ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK && g->vendor && g->kind.form == TW_GEMM_PLAIN)
        st = tw_gemm_algorithms_find(&g->arena, f, g->kind.type, g->vendor, d.sms, &a.words, &a.n, diag);
    if (st == TW_OK) st = describe(g, f, &d, text, &a, diag);
    json_decref(o);
    free(text);
    return st;
}

/* Counts the operations of a product of groups, which does not depend on the number of groups. */
static double work_of_groups(const void *self, const int64_t *problem) {
    (void)self;
    return 2 * (double)problem[0] * (double)problem[1] * (double)problem[2];
}

/* Tells whether a pool has room for the matrices, and the device for C's reference. */
static bool fits(const void *self, const int64_t *problem) {
    const gemm_gpu *g = self;
    tw_gemm_problem p = product_of(g, problem);
    if (tw_gemm_problem_complete(&p, NULL) != TW_OK) return false;
    return tw_gemm_pool_need(&p) <= (size_t)g->pool_most && p.m * p.n * p.batch <= g->cells_most;
}

static tw_family family_of(gemm_gpu *g, const tw_family_calls *calls) {
    tw_family f = {.unit = "us",
                   .protocol = "caches=cold launches=graph",
                   .axes = {"m", "n", "k"},
                   .n_axes = 3,
                   .drifts = true,
                   .columns = 1,
                   .loops = 2,
                   .least = {64, 384, 2048},
                   .most = {16384, 8192, 8192},
                   .step = {1, 64, 64},
                   .baselines = baselines,
                   .n_baselines = sizeof baselines / sizeof *baselines,
                   .calls = calls,
                   .self = g};
    if (g->kind.form == TW_GEMM_PLAIN) return f;
    static const int64_t ends[TW_GEMM_FORMS][2][TW_GEMM_KIND_AXES] = {
        [TW_GEMM_GROUPS] = {{16, 512, 512, 8}, {65536, 8192, 8192, 128}},
        [TW_GEMM_BATCH] = {{64, 64, 64, 2}, {4096, 4096, 4096, 256}}};
    /* Weights of models have whole 128s of rows and columns. Few kernels then differ in how they end. */
    static const int64_t steps[TW_GEMM_FORMS][TW_GEMM_KIND_AXES] = {
        [TW_GEMM_GROUPS] = {1, 128, 128, 1}, [TW_GEMM_BATCH] = {8, 8, 8, 1}};
    f.axes[f.n_axes++] = tw_gemm_form_word(g->kind.form);
    memcpy(f.least, ends[g->kind.form][0], sizeof ends[0][0]);
    memcpy(f.most, ends[g->kind.form][1], sizeof ends[0][1]);
    memcpy(f.step, steps[g->kind.form], sizeof steps[0]);
    f.step[2] = whole_row(g, f.step[2]);
    f.most_work = 2e12; /* References take a second then. */
    if (g->kind.form == TW_GEMM_BATCH) return f;
    f.spread = 1;
    f.groups = f.n_axes;
    f.work = work_of_groups;
    f.n_baselines = 1;
    return f;
}

/* Limits problems to what a device with so many bytes of memory has room for. 0: its memory is not known. */
static void limit(gemm_gpu *g, int64_t memory) {
    const int64_t share = memory ? memory / SHARE : INT64_MAX;
    const int64_t pool = g->kind.form == TW_GEMM_GROUPS ? POOL_GROUPS : POOL_MOST;
    g->pool_most = pool < share ? pool : share;
    g->cells_most = CELLS_MOST < share / CELL ? CELLS_MOST : share / CELL;
}

bool tw_gemm_gpu_has(tw_gemm_type type) {
    return tw_gemm_pool_has(type);
}

/* Returns the status of a kind that there is no family of. */
static tw_status check_kind(tw_gemm_kind k, tw_diag *diag) {
    char name[TW_GEMM_KIND_NAME];
    if (tw_gemm_gpu_has(k.type) && (k.type != TW_GEMM_F32 || k.form != TW_GEMM_GROUPS)) return TW_OK;
    tw_gemm_kind_name(k, name);
    return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s: there is no such family", name);
}

tw_status tw_gemm_gpu_open(tw_family *out, const tw_gemm_gpu_options *o, tw_diag *diag) {
    static const tw_family_calls calls = {measure, baseline, close_family, demand, fits};
    gemm_gpu *g = calloc(1, sizeof *g);
    if (!g) return tw_fail_memory(diag);
    g->kind = o->kind;
    *out = family_of(g, &calls);
    tw_status st = check_kind(g->kind, diag);
    if (st == TW_OK) st = tw_cuda_open(&g->cuda, o->device, diag);
    if (st == TW_OK && tw_cublaslt_open(&g->vendor, g->cuda, NULL) != TW_OK) g->vendor = NULL;
    if (st == TW_OK) limit(g, tw_cuda_describe(g->cuda)->memory_bytes);
    if (st == TW_OK) st = tw_gemm_kernels_make(&g->kernels, g->cuda, diag);
    if (st == TW_OK) st = describe_gpu(g, out, diag);
    if (st != TW_OK)
        close_family(g);
    else
        tw_power_open_gpu(&out->power, g->info.bus, NULL);
    return st;
}

/* Adds a configuration of the store to the list if it names an algorithm. */
static tw_status take_algorithm(void *context, const char *config, tw_diag *diag) {
    algorithms *a = context;
    tw_gemm_algorithm parsed;
    if (!tw_gemm_algorithm_parse(&parsed, config) || a->n == TW_ARTEFACT_MACROS / 2) return TW_OK;
    const char **const words = tw_grow(a->words, a->n, &a->room, TW_GEMM_ALGORITHMS, sizeof *words);
    if (!words) return tw_fail_memory(diag);
    a->words = words;
    words[a->n] = tw_arena_strdup(&a->g->arena, config);
    return words[a->n++] ? TW_OK : tw_fail_memory(diag);
}

/* Fills in a recorded family. Its algorithms of cuBLASLt are those in the store's measurements. `store` NULL: it has
   none. */
static tw_status describe_recorded(gemm_gpu *g, tw_family *f, const device *d, const char *environment, tw_store *store,
                                   tw_diag *diag) {
    char space[TW_GEMM_KIND_NAME];
    algorithms a = {.g = g};
    tw_status st = TW_OK;
    tw_gemm_kind_name(g->kind, space);
    const tw_store_filter filter = {.environment = environment, .space = space};
    if (store) st = tw_store_configs(store, &filter, TW_GEMM_ALGORITHMS_PREFIX, take_algorithm, &a, diag);
    if (st == TW_OK) st = describe(g, f, d, environment, &a, diag);
    free(a.words);
    return st;
}

tw_status tw_gemm_gpu_recorded(tw_family *out, tw_gemm_kind kind, const char *environment, tw_store *store,
                               tw_diag *diag) {
    static const tw_family_calls calls = {NULL, baseline, close_family, demand, fits};
    device d = {NULL, "sm_90a", 0, 0};
    json_int_t l2 = 0;
    int clock = 0;
    gemm_gpu *g = calloc(1, sizeof *g);
    if (!g) return tw_fail_memory(diag);
    g->kind = kind;
    limit(g, 0);
    *out = family_of(g, &calls);
    out->recorded = true;
    json_t *o = json_loads(environment, 0, NULL);
    tw_status st = check_kind(kind, diag);
    if (st == TW_OK && (json_unpack(o, "{s:s, s:i, s?s, s?I, s?i}", "device", &d.name, "sms", &d.sms, "target",
                                    &d.target, "l2_bytes", &l2, "clock_khz", &clock) ||
                        d.sms < 1 || d.sms > TW_ARTEFACT_TILE))
        st = tw_fail(diag, TW_ERR_FORMAT, "\"%.200s\" is no GPU's environment", environment);
    d.l2_bytes = l2;
    g->info =
        (tw_cuda_info){.sms = d.sms, .clock_khz = clock > 0 ? clock : 1000000, .target = tw_target_find(d.target)};
    if (st == TW_OK) st = describe_recorded(g, out, &d, environment, store, diag);
    json_decref(o);
    if (st != TW_OK) close_family(g);
    return st;
}
