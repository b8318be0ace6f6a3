/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "cli/tuning.h"
#include "cli/results.h"

#include "base/diag.h"
#include "base/file.h"
#include "device/name.h"
#include "tune/foreign.h"
#include "tune/gemm_cpu.h"
#include "tune/gemm_gpu.h"
#include "tune/store.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the storage format of weights of an element type. */
static tw_panel_format weights_of(tw_dtype t) {
    return (tw_panel_format){t, t == TW_I4 ? 64 : 0};
}

static tw_status read_type(const char *word, tw_panel_format *format, tw_diag *diag) {
    tw_dtype t;
    if (strncmp(word, "type=", 5) != 0 || !tw_dtype_from_name(word + 5, &t) || t == TW_I32)
        return tw_fail(diag, TW_ERR_USAGE, "\"%s\" is not type=f32, f16, bf16, i8 or i4", word);
    *format = weights_of(t);
    return TW_OK;
}

static tw_status open_cpu(cli_tuning *t, const char *const *words, int n, tw_diag *diag) {
    tw_gemm_cpu_options o = {.weights = {TW_F32, 0}, .threads = (int)t->threads, .strips = !strcmp(words[0], "strips")};
    for (int i = 1; i < n; i++) {
        const tw_status st = read_type(words[i], &o.weights, diag);
        if (st != TW_OK) return st;
    }
    return tw_gemm_cpu_open(&t->family, &o, diag);
}

/* Reads a word of products on a GPU, such as "type=bf16" or "groups=1". */
static tw_status read_kind(const char *word, tw_gemm_kind *kind, tw_diag *diag) {
    const bool plain = kind->form == TW_GEMM_PLAIN;
    tw_gemm_type type;
    if (!strncmp(word, "type=", 5) && tw_gemm_type_from_name(word + 5, &type) && tw_gemm_gpu_has(type))
        kind->type = type;
    else if (!strcmp(word, "groups=1") && plain)
        kind->form = TW_GEMM_GROUPS;
    else if (!strcmp(word, "batch=1") && plain)
        kind->form = TW_GEMM_BATCH;
    else
        return tw_fail(diag, TW_ERR_USAGE,
                       "\"%s\" is not type=bf16, f16, e4m3, tf32x3 or f32, nor groups=1 or batch=1, one of them", word);
    return TW_OK;
}

static tw_status open_gpu(cli_tuning *t, const char *const *words, int n, int device, tw_diag *diag) {
    tw_gemm_gpu_options o = {{TW_GEMM_BF16, TW_GEMM_PLAIN}, device};
    tw_status st = TW_OK;
    for (int i = 1; i < n && st == TW_OK; i++) st = read_kind(words[i], &o.kind, diag);
    return st == TW_OK ? tw_gemm_gpu_open(&t->family, &o, diag) : st;
}

/* ---- families of a store */

/* A search for the first measurement of a store that fits. */
typedef struct search {
    bool (*fits)(void *context, const tw_measurement *m);
    void *context;     /* Passed to `fits`. */
    char *environment; /* Environment of the measurement. NULL: none fits. The caller frees it. */
} search;

/* Keeps the environment of a measurement that fits. Returns TW_ERR_REJECTED then, which ends the reading. */
static tw_status take_first(void *context, const tw_measurement *m, tw_diag *diag) {
    search *s = context;
    if (!s->fits(s->context, m)) return TW_OK;
    s->environment = strdup(m->environment);
    return s->environment ? TW_ERR_REJECTED : tw_fail_memory(diag);
}

static tw_status find_environment(const char *store, search *s, tw_diag *diag) {
    tw_store *opened;
    tw_status st = tw_store_open(&opened, store, true, diag);
    if (st != TW_OK) return st;
    st = tw_store_read(opened, NULL, take_first, s, NULL, diag);
    tw_store_close(opened);
    return s->environment ? TW_OK : st;
}

/* The kind of products that a measurement is of. */
typedef struct products {
    const char *only;        /* The only type that is looked for, such as "type=f32". NULL: any type. */
    tw_gemm_form form;       /* The form of products that is looked for. */
    bool gpu;                /* True: a GPU computes the products. False: a processor does. */
    tw_gemm_kind kind;       /* Kind of a GPU's products. Without meaning for a processor's. */
    tw_panel_format weights; /* Storage format of a processor's weights. Without meaning for a GPU's. */
} products;

static bool is_wanted(const products *p, const char *type) {
    return !p->only || !strcmp(p->only + strlen("type="), type);
}

/* Tells whether a measurement is of products that are looked for. If it is, sets the other fields of `products`. */
static bool fits_products(void *context, const tw_measurement *m) {
    products *p = context;
    p->gpu = tw_gemm_kind_from_name(m->space, &p->kind) && tw_gemm_gpu_has(p->kind.type);
    if (p->gpu) return p->kind.form == p->form && is_wanted(p, tw_gemm_types[p->kind.type].name);
    bool found = false;
    for (int i = 0; i < TW_DTYPE_COUNT && !found && p->form == TW_GEMM_PLAIN; i++) {
        char space[32];
        if (i == TW_I32) continue;
        p->weights = weights_of((tw_dtype)i);
        tw_tiled_name(p->weights, false, space, sizeof space);
        found = !strcmp(m->space, space) && is_wanted(p, tw_dtype_name((tw_dtype)i));
    }
    return found;
}

static tw_status open_recorded_gpu(cli_tuning *t, tw_gemm_kind kind, const char *environment, tw_diag *diag) {
    tw_store *s;
    tw_status st = tw_store_open(&s, t->store, true, diag);
    if (st != TW_OK) return st;
    st = tw_gemm_gpu_recorded(&t->family, kind, environment, s, diag);
    tw_store_close(s);
    return st;
}

/* Reads the words of recorded products. */
static tw_status read_products(const char *const *words, int n, products *p, tw_diag *diag) {
    tw_gemm_kind kind = {TW_GEMM_BF16, TW_GEMM_PLAIN};
    tw_status st = TW_OK;
    for (int i = 1; i < n && st == TW_OK; i++) {
        if (!strncmp(words[i], "type=", 5)) p->only = words[i];
        if (read_kind(words[i], &kind, NULL) != TW_OK) st = read_type(words[i], &p->weights, diag);
    }
    p->form = kind.form;
    return st;
}

/* Opens the recorded family of the first measurement of products in the store. Words such as "type=f32" select a type.
   Without "groups=1" or "batch=1" it is a family of plain products. */
static tw_status open_recorded(cli_tuning *t, const char *const *words, int n, tw_diag *diag) {
    products p = {.form = TW_GEMM_PLAIN};
    search s = {fits_products, &p, NULL};
    tw_status st = read_products(words, n, &p, diag);
    if (st == TW_OK) st = find_environment(t->store, &s, diag);
    if (st == TW_OK && !s.environment)
        st = tw_fail(diag, TW_ERR_USAGE, "%s has no measurements of gemm%s%s%s%s", t->store, p.only ? " " : "",
                     p.only ? p.only : "", p.form ? " of " : "", tw_gemm_form_word(p.form));
    if (st == TW_OK)
        st = p.gpu ? open_recorded_gpu(t, p.kind, s.environment, diag)
                   : tw_gemm_cpu_recorded(&t->family, p.weights, s.environment, diag);
    free(s.environment);
    return st;
}

/* ---- kernels of others */

static bool is_description(const char *word) {
    const size_t n = strlen(word);
    return n > 5 && !strcmp(word + n - 5, ".json");
}

double cli_tuning_reference(const char *word) {
    return is_description(word) ? 0 : 5;
}

static bool fits_space(void *context, const tw_measurement *m) {
    return !strcmp(m->space, context);
}

/* Opens the recorded family that a file describes. Its environment is that of the store's first measurement of it. */
static tw_status open_recorded_foreign(cli_tuning *t, const char *path, tw_diag *diag) {
    char name[TW_FOREIGN_NAME];
    search s = {fits_space, name, NULL};
    tw_status st = tw_foreign_name(path, name, diag);
    if (st == TW_OK) st = find_environment(t->store, &s, diag);
    if (st == TW_OK && !s.environment) st = tw_fail(diag, TW_ERR_USAGE, "%s has no measurements of %s", t->store, name);
    if (st == TW_OK) st = tw_foreign_recorded(&t->family, path, s.environment, diag);
    free(s.environment);
    return st;
}

static tw_status open_foreign(cli_tuning *t, const char *const *words, int n, tw_diag *diag) {
    if (n > 1) return tw_fail(diag, TW_ERR_USAGE, "\"%s\": a description has no further words", words[1]);
    if (t->threads)
        return tw_fail(diag, TW_ERR_USAGE, "-t: the command of %s decides how many threads it has", words[0]);
    if (t->device && !strcmp(t->device, "recorded")) return open_recorded_foreign(t, words[0], diag);
    if (t->device)
        return tw_fail(diag, TW_ERR_USAGE,
                       "--device: \"%s\" is not recorded; the command of %s decides what it runs on", t->device,
                       words[0]);
    return tw_foreign_open(&t->family, words[0], cli_tuning_interrupted, NULL, diag);
}

static tw_status open_family(cli_tuning *t, const char *const *words, int n, tw_diag *diag) {
    const char *device = t->device ? t->device : "cpu";
    int number;
    if (is_description(words[0])) return open_foreign(t, words, n, diag);
    const bool strips = !strcmp(words[0], "strips");
    if (!strips && strcmp(words[0], "gemm") != 0)
        return tw_fail(diag, TW_ERR_USAGE,
                       "\"%s\" is not what can be tuned: gemm, strips, or a description that ends in .json", words[0]);
    if (strips && strcmp(device, "cpu") != 0)
        return tw_fail(diag, TW_ERR_USAGE, "--device: \"%s\" is not cpu, where strips are", device);
    if (t->threads < 0 || t->threads > 1024)
        return tw_fail(diag, TW_ERR_USAGE, "-t: %lld is not from 1 to 1024", (long long)t->threads);
    if (!strcmp(device, "cpu")) return open_cpu(t, words, n, diag);
    if (tw_device_gpu_number(device, &number)) return open_gpu(t, words, n, number, diag);
    if (!strcmp(device, "recorded")) return open_recorded(t, words, n, diag);
    return tw_fail(diag, TW_ERR_USAGE, "--device: \"%s\" is not cpu, cuda, cuda:N or recorded", device);
}

/* ---- energy */

/* Fails if the unit of a measurement is not the family's. */
static tw_status check_unit(void *context, const tw_measurement *m, tw_diag *diag) {
    const tw_family *f = context;
    if (!strcmp(m->unit, f->unit)) return TW_OK;
    return tw_fail(diag, TW_ERR_USAGE, "it has measurements of %s in %s: %s needs a store of its own", f->name, m->unit,
                   f->energy ? "energy" : "time");
}

/* Refuses a store with measurements of the family in another unit, since measurements of time and of energy have the
   same keys. A store that cannot be opened passes. */
static tw_status check_store(cli_tuning *t, tw_diag *diag) {
    tw_store *s;
    if (!tw_file_exists(t->store) || tw_store_open(&s, t->store, true, NULL) != TW_OK) return TW_OK;
    const tw_store_filter filter = {.space = t->family.name};
    const tw_status st = tw_store_read(s, &filter, check_unit, &t->family, NULL, diag);
    tw_store_close(s);
    if (st != TW_OK && !diag->path[0]) snprintf(diag->path, sizeof diag->path, "%s", t->store);
    return st;
}

/* Makes energy the quantity that is measured and minimised. */
static tw_status choose_energy(cli_tuning *t, tw_diag *diag) {
    t->family.unit = "uJ";
    t->family.energy = true;
    if (t->family.power || t->family.recorded) return TW_OK;
    return tw_fail(diag, TW_ERR_UNSUPPORTED,
                   "--minimise: %s has no counter of energy that may be read here (NVML of a GPU, RAPL of a processor)",
                   t->family.device ? t->family.device : t->family.name);
}

/* Sets the least and the largest usual value of an axis from a text such as "m=16:512". */
static tw_status set_range(tw_family *f, const char *text, tw_diag *diag) {
    for (int a = 0; a < f->n_axes; a++) {
        const size_t n = strlen(f->axes[a]);
        long long least, most;
        char rest;
        if (strncmp(text, f->axes[a], n) != 0 || text[n] != '=') continue;
        if (sscanf(text + n + 1, "%lld:%lld%c", &least, &most, &rest) != 2 || least < 1 || most < least ||
            most > TW_SELECT_MOST)
            break;
        f->least[a] = least;
        f->most[a] = most;
        return TW_OK;
    }
    return tw_fail(diag, TW_ERR_USAGE, "--range: \"%s\" is not an axis and its values, such as %s=64:512", text,
                   f->axes[0]);
}

tw_status cli_tuning_open(cli_tuning *t, const char *const *words, int n, tw_diag *diag) {
    const bool energy = t->minimise && !strcmp(t->minimise, "energy");
    if (t->minimise && !energy && strcmp(t->minimise, "time") != 0)
        return tw_fail(diag, TW_ERR_USAGE, "--minimise: \"%s\" is not time or energy", t->minimise);
    if (!t->store) t->store = energy ? "energy.db" : "tuned.db";
    tw_status st = open_family(t, words, n, diag);
    if (st != TW_OK) return st;
    if (energy) st = choose_energy(t, diag);
    if (st == TW_OK) st = check_store(t, diag);
    for (int i = 0; i < t->ranges.count && st == TW_OK; i++) st = set_range(&t->family, t->ranges.item[i], diag);
    tw_family_admit_least(&t->family);
    if (st == TW_OK && !tw_family_fits(&t->family, t->family.least))
        st = tw_fail(diag, TW_ERR_USAGE, "--range: the device has no room for the smallest of these problems");
    if (st != TW_OK) tw_family_close(&t->family);
    return st;
}

tw_status cli_tuning_effort(const char *effort, const char *plan, tw_campaign_options *o, tw_diag *diag) {
    const bool full = !strcmp(effort, "full"), waves = !strcmp(plan, "waves");
    if (!full && strcmp(effort, "quick") != 0)
        return tw_fail(diag, TW_ERR_USAGE, "--effort: \"%s\" is not quick or full", effort);
    if (!waves && strcmp(plan, "spread") != 0)
        return tw_fail(diag, TW_ERR_USAGE, "--plan: \"%s\" is not spread or waves", plan);
    o->samples = 3;
    o->screens = full ? 60 : waves ? 8 : 20;
    o->thorough = full || !waves;
    if (!waves) {
        o->cover = full ? 430 : 32;
        o->spread = full ? 500 : 100;
        return TW_OK;
    }
    o->slow = full ? 1.3 : 1.25;
    o->micros = full ? 4 : 3;
    o->waves = full ? 8 : 4;
    o->parts = full ? 4 : 2;
    o->far = full ? 8 : 5;
    o->rounds = full ? 4 : 3;
    return TW_OK;
}

void cli_tuning_progress(void *context, const tw_campaign_progress *p) {
    const tw_campaign_options *o = context;
    if (!isatty(STDERR_FILENO) || p->seconds <= 0) return;
    const double rate = (double)p->measured / p->seconds, by_jobs = p->seconds / (double)p->jobs * (double)p->planned;
    const double end = o->seconds > 0 && o->seconds < by_jobs ? o->seconds : by_jobs;
    fprintf(stderr, "\r%lld of %lld problems, %.0f configurations/s, best %.1f GFLOP/%s, %.0f s left\033[K",
            (long long)p->jobs, (long long)p->planned, rate, p->best * 1e-9, p->energy ? "J" : "s",
            end > p->seconds ? end - p->seconds : 0);
    fflush(stderr);
}

void cli_tuning_progress_end(void) {
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K");
}

bool cli_tuning_interrupted(void *context) {
    (void)context;
    return cli_interrupted();
}

int cli_tuning_end(tw_status st, bool interrupted, const tw_diag *diag) {
    if (st != TW_OK) return cli_fail(diag);
    if (!interrupted) return CLI_OK;
    fprintf(stderr, "tilewright: interrupted; the same command goes on where it was\n");
    return CLI_FAILED;
}

void cli_tuning_print_campaign(const tw_family *f, const tw_campaign_progress *p, bool json) {
    if (!json) {
        printf("%s: %lld of %lld problems, %lld configurations measured, %lld were there already, %lld wrong, "
               "%lld failed, %.1f s%s",
               f->name, (long long)p->jobs, (long long)p->planned, (long long)p->measured, (long long)p->had,
               (long long)p->wrong, (long long)p->failed, p->seconds, p->cut ? ", cut short" : "");
        if (p->references) printf("; reference %d times, drift %.1f %%", p->references, p->drift * 100);
        printf("\n");
        return;
    }
    json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:b, s:i, s:f}", "family", f->name, "problems",
                          (json_int_t)p->jobs, "planned", (json_int_t)p->planned, "measured", (json_int_t)p->measured,
                          "had", (json_int_t)p->had, "wrong", (json_int_t)p->wrong, "failed", (json_int_t)p->failed,
                          "seconds", p->seconds, "cut", p->cut, "references", p->references, "drift", p->drift);
    cli_results_print(o, CLI_RESULTS_DIGITS);
}

void cli_tuning_print_trained(const tw_family *f, const tw_trained *t, const char *path, bool json) {
    const tw_wave_quality *q = &t->quality;
    if (!json) {
        printf(
            "%s: form %s, %d samples, R2 %.4f, mean error %.1f %%; its choices have %.1f %% of the best on %d screened "
            "problems\n",
            f->name, t->form, q->n, q->r2, q->mean * 100, t->share * 100, t->problems);
        if (t->gain_error > 0)
            printf("%s: choices that are predicted to be more than %.0f %% faster than the default gain %.1f +- %.1f "
                   "%% over it\n",
                   f->name, t->caution * 100, t->gain * 100, t->gain_error * 100);
        printf("%s\n", path);
        return;
    }
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:i, s:f, s:f, s:f, s:f, s:I, s:I}", "family", f->name, "artefact",
                  path, "form", t->form, "samples", q->n, "r2", q->r2, "mean_error", q->mean, "screened_problems",
                  t->problems, "share_of_screened_best", t->share, "gain", t->gain, "gain_error", t->gain_error,
                  "caution", t->caution, "wrong", (json_int_t)t->wrong, "unknown", (json_int_t)t->unknown);
    cli_results_print(o, CLI_RESULTS_DIGITS);
}
