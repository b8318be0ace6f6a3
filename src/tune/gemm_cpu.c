/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_cpu.h"

#include "base/arena.h"
#include "base/diag.h"
#include "base/divide.h"
#include "base/json.h"
#include "base/team.h"
#include "device/identity.h"
#include "tune/cpu_rig.h"
#include "tune/macros.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUND = 256, /* Columns of x and W in a round of a block's loop. */
    ANY = 65536  /* A tile size above all usual extents. */
};

/* Values of the parameters that a configuration does not name. */
static const tw_tiled_config usual = {0, 64, 256, 2048, 48, 0};

/* The default choice: rows are whole, and each thread has an equal part of the columns, as in a machine without an
   artefact. Its tiles depend on the problem, so tw_tiled_space has no such configuration. */
static const char equal_strips[] = "by=own strips=1";
static const char *const alone[] = {""}; /* The micro choices of strips: a single one, without parameters. */

typedef struct gemm_cpu {
    tw_arena arena;
    tw_cpu_rig *rig; /* NULL: the family is recorded. */
    int threads;
    bool strips; /* True: columns are divided equally among the threads. */
} gemm_cpu;

/* Returns the columns of the largest strip if each thread has one. */
static int strip_of(int threads, const int64_t *problem) {
    const int64_t panels = problem[1] / TW_PANEL_ROWS;
    return (int)(tw_ceil_div(panels, threads) * TW_PANEL_ROWS);
}

/* Reads the tiles of a configuration. */
static tw_status read_tiles(const gemm_cpu *g, const int64_t *problem, const char *words, tw_tiled_config *out,
                            tw_diag *diag) {
    *out = usual;
    const bool whole = !strcmp(words, equal_strips);
    const tw_status st = whole ? TW_OK : tw_space_parse(&tw_tiled_space, out, words, diag);
    if (g->strips || whole) {
        out->tm = ANY;
        out->tn = strip_of(g->threads, problem);
        /* A machine unpacks so much of a strip at a time for a vendor. */
        if (out->by && out->tn > TW_VENDOR_PANELS * TW_PANEL_ROWS) out->tn = TW_VENDOR_PANELS * TW_PANEL_ROWS;
    }
    return st;
}

tw_status tw_gemm_cpu_tiles(const tw_family *f, const int64_t *problem, const char *words, tw_tiled_config *out,
                            tw_diag *diag) {
    return read_tiles(f->self, problem, words, out, diag);
}

/* ---- measuring */

typedef struct session {
    const gemm_cpu *g;
    tw_cpu_rig *rig;
    const int64_t *problem;
    const char *const *configs;
    const tw_family_listener *listener;
} session;

static tw_status set(const session *s, int i, tw_diag *diag) {
    tw_tiled_config c;
    const tw_status st = read_tiles(s->g, s->problem, s->configs[i], &c, diag);
    return st == TW_OK ? tw_cpu_rig_set(s->rig, &c, diag) : st;
}

static tw_status check(void *context, int i, tw_diag *diag) {
    const session *s = context;
    const tw_status st = set(s, i, diag);
    return st == TW_OK ? tw_cpu_rig_check(s->rig, diag) : st;
}

static tw_status sample(void *context, int i, double *us, tw_diag *diag) {
    const session *s = context;
    const tw_status st = set(s, i, diag);
    return st == TW_OK ? tw_cpu_rig_sample(s->rig, us, diag) : st;
}

static tw_status take(void *context, const tw_measured *m, tw_diag *diag) {
    const session *s = context;
    return s->listener->result(s->listener->context, m, diag);
}

static bool interrupted(void *context) {
    const session *s = context;
    return s->listener->interrupted && s->listener->interrupted(s->listener->context);
}

static tw_status measure(void *self, const int64_t *problem, const char *const *configs, int n,
                         const tw_measure_protocol *p, const tw_family_listener *l, tw_diag *diag) {
    static const tw_measure_calls calls = {
        .check = check, .sample = sample, .result = take, .interrupted = interrupted};
    const gemm_cpu *g = self;
    session s = {g, g->rig, problem, configs, l};
    const tw_status st = tw_cpu_rig_open(s.rig, problem[0], problem[1], problem[2], diag);
    return st == TW_OK ? tw_measure(&calls, &s, n, p, NULL, diag) : st;
}

/* ---- the family */

static const char *const baselines[] = {"default", "openblas"};

/* A baseline divides the columns equally among the threads, and leaves the rows whole. */
static void baseline(const void *self, int i, const int64_t *problem, char *out, size_t size) {
    const gemm_cpu *g = self;
    tw_tiled_config c = usual;
    c.by = i;
    c.tm = ANY;
    c.tn = strip_of(g->threads, problem);
    if (g->strips) {
        snprintf(out, size, "by=%s", tw_tiled_makers[i]);
        return;
    }
    tw_space_print(&tw_tiled_space, &c, out, size);
}

static void close_family(void *self) {
    gemm_cpu *g = self;
    tw_cpu_rig_free(g->rig);
    tw_arena_free(&g->arena);
    free(g);
}

static void describe_macro(tw_artefact_macro *m, const tw_tiled_config *c, int threads) {
    m->properties = c->by ? TW_MACRO_VENDOR : 0;
    m->grid[0] = c->tm;
    m->grid[1] = c->tn;
    m->rounds[2] = ROUND;
    m->multiple[1] = TW_PANEL_ROWS;
    m->slots = threads;
    tw_tiled_least(c, &m->least[0], &m->least[1]);
}

/* Describes a macro choice of strips. Its work is counted in panels of columns by as many rows. */
static tw_artefact_macro describe_strips(const char *config, bool vendor, int threads) {
    return (tw_artefact_macro){.config = config,
                               .properties = vendor ? TW_MACRO_VENDOR : 0,
                               .grid = {TW_PANEL_ROWS, TW_PANEL_ROWS},
                               .rounds = {0, 0, ROUND},
                               .multiple = {0, TW_PANEL_ROWS},
                               .slots = threads,
                               .micros = alone,
                               .n_micros = 1};
}

/* Lists the macro choices of the configurations that are legal for any problem, then the default. */
static bool list_macros(gemm_cpu *g, const tw_tiled_context *any, tw_family *f) {
    tw_artefact_macro *list = NULL;
    tw_tiled_config c = {0};
    int n = 0;
    for (uint64_t i = 0; tw_space_point(&tw_tiled_space, i, &c); i++) {
        bool added;
        if (tw_space_judge(&tw_tiled_space, any, &c, NULL) != TW_OK) continue;
        tw_artefact_macro *m = tw_macros_add(&g->arena, &list, &n, &tw_tiled_space, &c, &added);
        if (!m) return false;
        if (added) describe_macro(m, &c, g->threads);
    }
    tw_artefact_macro *const all = tw_arena_array(&g->arena, (size_t)n + 1, sizeof *all);
    if (!all) return false;
    if (n) memcpy(all, list, (size_t)n * sizeof *all);
    all[n] = describe_strips(equal_strips, false, g->threads);
    f->renamed = true;
    f->macros = all;
    f->macro = n;
    f->n_macros = n + 1;
    return true;
}

/* Lists the macro choices of a machine: strips that our kernel computes, or a vendor's library. */
static bool list_makers(gemm_cpu *g, const tw_tiled_context *any, tw_family *f) {
    tw_artefact_macro *list = tw_arena_array(&g->arena, (size_t)any->vendors + 1, sizeof *list);
    if (!list) return false;
    for (int by = 0; by <= any->vendors; by++) {
        char config[32];
        snprintf(config, sizeof config, "by=%s", tw_tiled_makers[by]);
        list[by] = describe_strips(tw_arena_strdup(&g->arena, config), by, g->threads);
    }
    f->macros = list;
    f->n_macros = any->vendors + 1;
    return !g->arena.failed;
}

/* The properties of a processor that a family depends on. */
typedef struct processor {
    const char *model;
    int threads;
    uint32_t isa;
    tw_tiled_context any; /* The context in which the space's legality holds for any problem. */
} processor;

/* Fills in the fields that follow from the processor and the environment's text. */
static tw_status describe(gemm_cpu *g, tw_family *f, const processor *p, const char *environment, tw_diag *diag) {
    tw_identity id;
    char name[32];
    tw_identity_of_cpu(&id, p->model, p->threads, p->isa);
    tw_tiled_name(p->any.of.weights, g->strips, name, sizeof name);
    g->threads = p->threads;
    f->environment = tw_arena_strdup(&g->arena, environment);
    f->name = tw_arena_strdup(&g->arena, name);
    f->device = tw_arena_strdup(&g->arena, id.device);
    f->alike = tw_arena_strdup(&g->arena, id.alike);
    f->architecture = tw_arena_strdup(&g->arena, id.architecture);
    return (g->strips ? list_makers : list_macros)(g, &p->any, f) && !g->arena.failed ? TW_OK : tw_fail_memory(diag);
}

static tw_status describe_rig(gemm_cpu *g, tw_family *f, tw_diag *diag) {
    const tw_cpu_rig_info *i = tw_cpu_rig_describe(g->rig);
    const processor p = {i->cpu.model, i->threads, i->cpu.isa, i->any};
    char isa[64];
    tw_cpu_isa_names(p.isa, isa, sizeof isa);
    json_t *o = json_pack("{s:s, s:i, s:s, s:s, s:s}", "device", p.model, "threads", p.threads, "isa", isa, "openblas",
                          i->openblas, "tilewright", TW_VERSION);
    const bool good = o && (!*i->onednn || !json_object_set_new(o, "onednn", json_string(i->onednn)));
    char *text = good ? tw_json_text(o, JSON_SORT_KEYS) : NULL;
    const tw_status st = text ? describe(g, f, &p, text, diag) : tw_fail_memory(diag);
    json_decref(o);
    free(text);
    return st;
}

static tw_family family_of(gemm_cpu *g, const tw_family_calls *calls) {
    return (tw_family){.unit = "us",
                       .protocol = "weights=memory",
                       .axes = {"m", "n", "k"},
                       .n_axes = 3,
                       .shrinks = {true, true},
                       .columns = 1,
                       .loops = 2,
                       .least = {16, 256, 256},
                       .most = {512, 4096, 4096},
                       .step = {1, TW_PANEL_ROWS, 64},
                       .most_work = 4e9,
                       .shared = true,
                       .baselines = baselines,
                       .n_baselines = sizeof baselines / sizeof *baselines,
                       .calls = calls,
                       .self = g};
}

tw_status tw_gemm_cpu_open(tw_family *out, const tw_gemm_cpu_options *o, tw_diag *diag) {
    static const tw_family_calls calls = {.measure = measure, .baseline = baseline, .close = close_family};
    gemm_cpu *g = calloc(1, sizeof *g);
    if (!g) return tw_fail_memory(diag);
    g->strips = o->strips;
    *out = family_of(g, &calls);
    tw_status st = tw_cpu_rig_make(&g->rig, o->weights, o->threads, diag);
    if (st == TW_OK) st = describe_rig(g, out, diag);
    if (st != TW_OK)
        close_family(g);
    else
        tw_power_open_cpu(&out->power, NULL);
    return st;
}

/* Reads the processor of an environment. The strings belong to `environment`. */
static bool read_processor(const json_t *environment, processor *p) {
    const char *isa, *openblas, *onednn = "";
    if (json_unpack((json_t *)environment, "{s:s, s:i, s:s, s:s, s?s}", "device", &p->model, "threads", &p->threads,
                    "isa", &isa, "openblas", &openblas, "onednn", &onednn))
        return false;
    p->any.vendors = *onednn ? 2 : 1;
    return p->threads >= 1 && p->threads <= TW_TEAM_MOST && tw_cpu_isa_parse(isa, &p->isa);
}

tw_status tw_gemm_cpu_recorded(tw_family *out, tw_panel_format weights, const char *environment, tw_diag *diag) {
    static const tw_family_calls calls = {.baseline = baseline, .close = close_family};
    tw_kernels kernels;
    processor p = {.any = {&kernels, 1, {.weights = weights}}};
    gemm_cpu *g = calloc(1, sizeof *g);
    if (!g) return tw_fail_memory(diag);
    *out = family_of(g, &calls);
    out->recorded = true;
    json_t *o = json_loads(environment, 0, NULL);
    tw_status st = TW_OK;
    if (!read_processor(o, &p))
        st = tw_fail(diag, TW_ERR_FORMAT, "\"%.200s\" is no processor's environment", environment);
    if (st == TW_OK) {
        tw_kernels_choose_products(&kernels, p.isa);
        st = describe(g, out, &p, environment, diag);
    }
    json_decref(o);
    if (st != TW_OK) close_family(g);
    return st;
}
