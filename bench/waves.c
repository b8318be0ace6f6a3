/* SPDX-License-Identifier: Apache-2.0 */
/* waves [--waves N] [--held N] [--seconds N] [--commit NAME]: how well the model by waves (src/tune/wave.h) predicts
   products on a GPU. Measures products of bf16 on warpgroups at the model's points, fits it, and lets it choose for
   random problems, each of which is measured in every way beside. Prints a line of JSON for each measurement and each
   finding. Exit status 77 where there is no GPU. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/diag.h"
#include "tune/gemm_search.h"
#include "tune/wave.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NO_GPU = 77, PARTS = 4, MOST = 20000, WORKSPACE = 4096 };

/* Tiles are macro parameters. Each has its own micro parameters, and takes an SM alone. */
static const struct tile {
    int ms, ml, nl, u;
    int stages[3];
} tiles[] = {{64, 128, 128, 64, {4, 5, 6}}, {64, 128, 256, 64, {3, 4, 0}}, {64, 128, 192, 64, {3, 4, 5}}};
enum { TILES = sizeof tiles / sizeof *tiles, GROUPS = 2, MICROS = 3 * GROUPS };
static const int groups[GROUPS] = {1, 8};
static const int64_t loops[] = {16, 32, 48, 64, 80};
enum { LOOPS = sizeof loops / sizeof *loops };

static tw_gemm_config config_of(int tile, int micro) {
    const struct tile *t = &tiles[tile];
    return (tw_gemm_config){.mma = 2,
                            .ms = t->ms,
                            .ns = t->nl,
                            .ml = t->ml,
                            .nl = t->nl,
                            .u = t->u,
                            .ks = 1,
                            .kl = 1,
                            .kg = 1,
                            .vec = 16,
                            .frag = 16,
                            .stages = t->stages[micro % 3],
                            .group = groups[micro / 3]};
}

typedef struct session {
    tw_cuda *cuda;
    tw_ptx_compiler compiler;
    double end; /* Of the time there is, in seconds. */
    tw_wave_sample *samples;
    int n, held; /* held: the problem's number if it is one to choose for, from 1. */
    const tw_gemm_problem *problem;
    int wrong, failed; /* Wrong or not run; of these, not compiled or not run. */
} session;

static tw_wave_division division_of(const session *s, const tw_gemm_problem *p, int tile) {
    const tw_gemm_config c = config_of(tile, 0);
    tw_gemm_resources need;
    if (!tw_gemm_legal(p, &c, tw_cuda_describe(s->cuda)->target, &need, NULL)) return (tw_wave_division){0};
    return (tw_wave_division){need.grid, need.stages_of_k};
}

static void put(json_t *o) {
    char *line = json_dumps(o, JSON_REAL_PRECISION(6));
    if (!line) {
        fprintf(stderr, "waves: a finding cannot be printed\n");
        exit(1);
    }
    puts(line);
    free(line);
    json_decref(o);
}

static tw_status take(void *context, const tw_gemm_config *c, const tw_measured *m, tw_diag *diag) {
    session *s = context;
    (void)diag;
    int tile = 0, micro = 0;
    while (tiles[tile].nl != c->nl) tile++;
    while (micro < MICROS) {
        const tw_gemm_config own = config_of(tile, micro);
        if (own.stages == c->stages && own.group == c->group) break;
        micro++;
    }
    const tw_wave_division d = division_of(s, s->problem, tile);
    if (m->status != TW_OK) s->wrong++;
    if (m->status != TW_OK || s->n == MOST) return TW_OK;
    s->samples[s->n++] = (tw_wave_sample){tile, micro, d.grid, d.loops, m->time.median};
    char name[64];
    snprintf(name, sizeof name, "%dx%dx%d stages=%d group=%d", c->ml, c->nl, c->u, c->stages, c->group);
    put(json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:b}", "case", s->held ? "held out" : "point", "config",
                  name, "m", (json_int_t)s->problem->m, "n", (json_int_t)s->problem->n, "k", (json_int_t)s->problem->k,
                  "blocks", (json_int_t)d.grid, "rounds", (json_int_t)d.loops, "ours_us", m->time.median, "correct",
                  1));
    return TW_OK;
}

/* Measures a problem with the micro parameters of tiles `from` to `below` - 1. */
static tw_status measure(session *s, int64_t m, int64_t n, int64_t k, int from, int below, tw_diag *diag) {
    tw_gemm_problem p = {.type = TW_GEMM_BF16, .m = m, .n = n, .k = k, .trans_b = true, .alpha = 1};
    tw_gemm_config known[TILES * MICROS];
    tw_gemm_data d;
    tw_gemm_rig *rig;
    int count = 0, found_n;
    tw_status st = tw_gemm_problem_complete(&p, diag);
    for (int t = from; t < below; t++)
        for (int i = 0; i < MICROS; i++)
            if (tiles[t].stages[i % 3]) known[count++] = config_of(t, i);
    if (st == TW_OK) st = tw_gemm_data_make(&d, &p, 1, diag);
    if (st != TW_OK) return st;
    st = tw_gemm_rig_make(&rig, s->cuda, &d, WORKSPACE, diag);
    if (st == TW_OK) {
        tw_gemm_found best = {0};
        tw_gemm_search_report report;
        const tw_gemm_search_options o = {.known = known,
                                          .n_known = count,
                                          .sampled = 1,
                                          .compiler = s->compiler,
                                          .measured_one = take,
                                          .context = s};
        s->problem = &p;
        st = tw_gemm_search(rig, s->cuda, &d, &o, 1, &best, &found_n, &report, diag);
        s->failed += report.failed;
        tw_cubin_free(&best.cubin);
        tw_gemm_rig_free(rig);
    }
    tw_gemm_data_free(&d);
    return st;
}

static bool has_time(const session *s) {
    return (double)tw_now_ns() * 1e-9 < s->end;
}

/* Measures the tiles in turn at each point, from the fewest waves on, so that whatever time there is covers all. */
static tw_status measure_points(session *s, int waves, tw_diag *diag) {
    const tw_wave_grid g = {.slots = tw_cuda_describe(s->cuda)->sms, .waves = waves, .parts = PARTS};
    tw_wave_point *p = calloc((size_t)waves * PARTS, sizeof *p);
    if (!p) return tw_fail_memory(diag);
    const int n = tw_wave_points(&g, p);
    tw_status st = TW_OK;
    for (int i = 0; i < n * LOOPS * TILES && st == TW_OK && has_time(s); i++) {
        const struct tile *t = &tiles[i % TILES];
        const tw_wave_point *at = &p[i / TILES / LOOPS];
        st = measure(s, at->rows * t->ml, at->columns * t->nl, loops[i / TILES % LOOPS] * t->u, i % TILES,
                     i % TILES + 1, diag);
    }
    free(p);
    return st;
}

/* The coefficient of determination of a line through n points. */
static double line_r2(const double *x, const double *y, int n) {
    double sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0;
    for (int i = 0; i < n; i++) {
        sx += x[i];
        sy += y[i];
        sxx += x[i] * x[i];
        sxy += x[i] * y[i];
        syy += y[i] * y[i];
    }
    const double vx = sxx - sx * sx / n, vy = syy - sy * sy / n, cov = sxy - sx * sy / n;
    return vx > 0 && vy > 0 ? cov * cov / (vx * vy) : 1;
}

/* How straight the times are along L, at each G of each tile and micro choice (section 3.3). */
static void report_lines(const session *s) {
    double sum = 0, least = 1;
    int lines = 0;
    for (int i = 0; i < s->n; i++) {
        const tw_wave_sample *a = &s->samples[i];
        double x[LOOPS], y[LOOPS];
        int n = 0;
        for (int j = i; j < s->n; j++) {
            const tw_wave_sample *b = &s->samples[j];
            if (b->macro != a->macro || b->micro != a->micro || b->grid != a->grid || n == LOOPS) continue;
            x[n] = (double)b->loops;
            y[n++] = b->time;
        }
        if (a->loops != loops[0] || n < LOOPS) continue;
        const double r2 = line_r2(x, y, n);
        sum += r2;
        least = r2 < least ? r2 : least;
        lines++;
    }
    if (lines)
        put(json_pack("{s:s, s:i, s:f, s:f}", "case", "lines along the rounds", "lines", lines, "mean_r2", sum / lines,
                      "least_r2", least));
}

static void report_quality(const char *form, const char *of, tw_wave_quality q) {
    put(json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:f}", "case", "fit", "form", form, "of", of, "samples", q.n,
                  "without", q.without, "r2", q.r2, "mean_error", q.mean, "worst_error", q.worst));
}

/* Lets the model choose for the held-out problems: `from` is their first sample, `ends` where each one's end. */
static void report_choices(const session *s, const tw_wave_model *m, const char *form, int from, const int *ends,
                           const tw_gemm_problem *problems, int n) {
    double sum = 0, worst = 1;
    int missed = 0, counted = 0, unchosen = 0;
    for (int i = 0; i < n; from = ends[i++]) {
        tw_wave_division d[TILES];
        for (int t = 0; t < TILES; t++) d[t] = division_of(s, &problems[i], t);
        const tw_wave_choice c = tw_wave_select(m, d);
        double best = (double)INFINITY, chosen = 0;
        for (int j = from; j < ends[i]; j++) {
            best = fmin(best, s->samples[j].time);
            if (s->samples[j].macro == c.macro && s->samples[j].micro == c.micro) chosen = s->samples[j].time;
        }
        if (!(chosen > 0)) {
            unchosen++;
            continue;
        }
        counted++;
        sum += log(best / chosen);
        worst = fmin(worst, best / chosen);
        missed += best / chosen < 0.95;
    }
    if (counted)
        put(json_pack("{s:s, s:s, s:i, s:i, s:f, s:f, s:i}", "case", "choices", "form", form, "problems", counted,
                      "unchosen", unchosen, "share_of_best", exp(sum / counted), "worst_share", worst,
                      "below_95_percent", missed));
}

static tw_status run(session *s, int waves, int held, tw_diag *diag) {
    static const char *const forms[] = {"full", "linear", "step"};
    const int sms = tw_cuda_describe(s->cuda)->sms;
    const double end = s->end, all = end - (double)tw_now_ns() * 1e-9;
    tw_gemm_problem *problems = calloc((size_t)held + 1, sizeof *problems);
    int *ends = calloc((size_t)held + 1, sizeof *ends), n = 0;
    tw_random r = tw_random_seed(1);
    tw_status st = problems && ends ? TW_OK : tw_fail_memory(diag);
    s->end = end - all / 4;
    if (st == TW_OK) st = measure_points(s, waves, diag);
    const int from = s->n;
    s->end = end;
    for (; n < held && st == TW_OK && has_time(s); n++) {
        tw_gemm_problem p = {.type = TW_GEMM_BF16, .trans_b = true, .alpha = 1};
        p.m = 256 + 8 * (int64_t)tw_random_below(&r, 480);
        p.n = 256 + 8 * (int64_t)tw_random_below(&r, 480);
        p.k = 1024 + 64 * (int64_t)tw_random_below(&r, 65);
        st = tw_gemm_problem_complete(&p, diag);
        problems[n] = p;
        s->held = n + 1;
        if (st == TW_OK) st = measure(s, p.m, p.n, p.k, 0, TILES, diag);
        ends[n] = s->n;
    }
    report_lines(&(session){.samples = s->samples, .n = from});
    const int64_t slots[TILES] = {sms, sms, sms};
    for (int f = 0; f < 3 && st == TW_OK; f++) {
        tw_wave_model *m;
        const tw_wave_options o = {.form = (tw_wave_form)f};
        st = tw_wave_fit(&m, s->samples, from, slots, TILES, &o, diag);
        if (st != TW_OK) break;
        report_quality(forms[f], "points", tw_wave_judge(m, s->samples, from));
        report_quality(forms[f], "held out", tw_wave_judge(m, s->samples + from, s->n - from));
        report_choices(s, m, forms[f], from, ends, problems, n);
        tw_wave_free(m);
    }
    put(json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "case", "measured", "points", from, "held_out", s->n - from,
                  "problems", n, "wrong", s->wrong, "failed", s->failed));
    free(problems);
    free(ends);
    return st;
}

int main(int argc, char **argv) {
    const char *names[] = {"--waves", "--held", "--seconds"}, *commit = "";
    int values[] = {12, 60, 240};
    for (int i = 1; i < argc; i++) {
        int at = 0;
        while (at < 3 && strcmp(argv[i], names[at]) != 0) at++;
        if (i + 1 < argc && !strcmp(argv[i], "--commit")) {
            commit = argv[++i];
        } else if (at < 3 && i + 1 < argc && atoi(argv[i + 1]) > 0) {
            values[at] = atoi(argv[++i]);
        } else {
            fprintf(stderr, "waves [--waves N] [--held N] [--seconds N] [--commit NAME]\n");
            return 2;
        }
    }
    tw_diag d;
    session s = {.samples = calloc(MOST, sizeof *s.samples)};
    if (!s.samples || tw_cuda_open(&s.cuda, 0, &d) != TW_OK) {
        fprintf(stderr, "waves: %s\n", s.samples ? d.message : "out of memory");
        return NO_GPU;
    }
    s.compiler = tw_ptx_compiler_for(s.cuda, true);
    s.end = (double)tw_now_ns() * 1e-9 + values[2];
    const tw_cuda_info *info = tw_cuda_describe(s.cuda);
    char date[32] = "", command[200];
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) strftime(date, sizeof date, "%Y-%m-%d", &utc);
    snprintf(command, sizeof command, "waves --waves %d --held %d --seconds %d", values[0], values[1], values[2]);
    put(json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:s}", "device", info->name, "driver", info->driver, "date", date,
                  "commit", commit, "command", command, "sms", info->sms, "protocol",
                  "cold L2 by rotation, CUDA graphs, medians of 3"));
    const tw_status st = run(&s, values[0], values[1], &d);
    if (st != TW_OK) fprintf(stderr, "waves: %s\n", d.message);
    free(s.samples);
    tw_cuda_close(s.cuda);
    return st != TW_OK || s.wrong || s.failed;
}
