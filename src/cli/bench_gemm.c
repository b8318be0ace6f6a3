/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* The verb `bench gemm` searches for the fastest generated kernels of a matrix product, and times them and cuBLASLt in
   the same run. */
#include "cli/bench_gemm.h"

#include "base/diag.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/problem.h"
#include "cli/results.h"
#include "kernels/gemm/space.h"
#include "tilewright/select.h"
#include "tune/gemm_bench.h"
#include "tune/gemm_choose.h"
#include "tune/store.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE = 256 << 20 };

/* Paper 002's table 4. The paper, like BLAS, means column-major matrices. */
typedef struct table_row {
    const char *name;
    int m, n, k;
    bool trans_a, trans_b;
} table_row;
static const table_row table4[] = {
    {"linpack-512", 512, 512, 512, false, true},
    {"linpack-1024", 1024, 1024, 1024, false, true},
    {"linpack-2048", 2048, 2048, 2048, false, true},
    {"deepbench-f-16", 2560, 16, 2560, false, false},
    {"deepbench-f-32", 2560, 32, 2560, false, false},
    {"deepbench-f-64", 2560, 64, 2560, false, false},
    {"deepbench-f-128", 2560, 128, 2560, false, false},
    {"deepbench-b-16", 2560, 16, 2560, true, false},
    {"deepbench-b-32", 2560, 32, 2560, true, false},
    {"deepbench-b-64", 2560, 64, 2560, true, false},
    {"deepbench-b-128", 2560, 128, 2560, true, false},
    {"ica-32", 32, 32, 60000, false, true},
    {"ica-64", 64, 64, 60000, false, true},
    {"ica-256", 256, 256, 60000, false, true},
    {"lapack-4096", 4096, 4096, 32, false, true},
    {"lapack-3456", 3456, 3456, 32, false, true},
    {"lapack-896", 896, 896, 32, false, true},
};

typedef struct bench_run {
    tw_cuda *cuda;
    tw_cublaslt *vendor; /* NULL: not installed. */
    char vendor_name[64];
    tw_gemm_search_options search;
    bool json;
    FILE *log;             /* NULL: no log. */
    tw_store *store;       /* NULL: no store. */
    char environment[512]; /* What the store's measurements depend on: a JSON object. */
    const char *known;     /* Text of an earlier log. NULL: there is none. */
    tw_selector *selector; /* An artefact, whose choices are compared. NULL: none. */
    const char *products;  /* Text that lists products. NULL: there is none. */
    tw_gemm_pool *pool;    /* Elements of products of `pool_type`. NULL: none were needed yet. */
    tw_gemm_type pool_type;
    const char *commit; /* Commit of the build, as --commit says. */
    char command[1024];
    double skew;    /* Skew of the groups' sizes (tw_gemm_ends_draw). */
    bool row_major; /* The table's layouts are read as row-major. */
    const char *logged_case;
    const tw_gemm_problem *logged;
    double log_first, log_best; /* Sums of logarithms of ratios. */
    int rows;
} bench_run;

static double spread(const tw_stats *s) {
    return s->median > 0 ? (s->p90 - s->p10) / s->median : 0;
}

/* A row of Table 4, a product of a list, or the product that the command line describes. */
typedef struct row {
    const char *name;
    const tw_gemm_problem *problem;
    const table_row *of_table; /* NULL: the product is no row of the table. */
    tw_gemm_bench_result result;
    const tw_gemm_config *chosen; /* What the artefact chose. NULL: nothing. */
} row;

static void print_text(const bench_run *r, const row *w) {
    const tw_gemm_bench_result *v = &w->result;
    const double us = v->ours.us.median;
    char text[300];
    tw_gemm_config_print(&v->config, text, sizeof text);
    printf("%-16s %-5s %9.2f us", w->name, tw_gemm_types[w->problem->type].name, us);
    if (v->has_vendor) {
        const double first = v->first.us.median, best = v->best.us.median;
        printf("  %s %9.2f (%.2fx), its best %9.2f (%.2fx)%s", r->vendor_name, first, first / us, best, best / us,
               v->first.correct && v->best.correct ? "" : " WRONG");
    }
    printf("  floor %.2f (%s)  %s\n", v->floor_us, v->bytes_bound ? "bytes" : "operations", text);
    if (!v->has_chosen) return;
    tw_gemm_config_print(w->chosen, text, sizeof text);
    printf("%-16s chosen %9.2f us%s  %s\n", "", v->chosen.us.median, v->chosen.correct ? "" : " WRONG", text);
}

static void print_json(const bench_run *r, const row *w) {
    const tw_gemm_problem *p = w->problem;
    const tw_gemm_bench_result *v = &w->result;
    const double us = v->ours.us.median;
    json_t *o = json_object();
    json_object_set_new(o, "case", json_string(w->name));
    json_object_set_new(o, "type", json_string(tw_gemm_types[p->type].name));
    const bool columns = w->of_table && !r->row_major;
    json_object_set_new(o, "layout", json_string(columns ? "column-major" : "row-major"));
    json_object_set_new(o, "m", json_integer(columns ? p->n : p->m));
    json_object_set_new(o, "n", json_integer(columns ? p->m : p->n));
    json_object_set_new(o, "k", json_integer(p->k));
    json_object_set_new(o, "trans_a", json_boolean(columns ? p->trans_b : p->trans_a));
    json_object_set_new(o, "trans_b", json_boolean(columns ? p->trans_a : p->trans_b));
    if (p->narrow) json_object_set_new(o, "narrow", json_string(tw_gemm_narrow_names[p->narrow]));
    if (p->scales) json_object_set_new(o, "scales", json_integer(p->scales));
    json_object_set_new(o, "config", cli_config_json(&v->config));
    json_object_set_new(o, "ours_us", json_real(us));
    if (v->has_vendor) {
        const double first = v->first.us.median, best = v->best.us.median;
        json_object_set_new(o, "peer", json_string(r->vendor_name));
        json_object_set_new(o, "peer_us", json_real(first));
        json_object_set_new(o, "ratio", json_real(first / us));
        json_object_set_new(o, "peer_best_us", json_real(best));
        json_object_set_new(o, "peer_best_algorithm", json_integer(v->best_algorithm));
        json_object_set_new(o, "ratio_best", json_real(best / us));
        json_object_set_new(o, "peer_spread", json_real(spread(&v->first.us)));
        json_object_set_new(o, "peer_correct", json_boolean(v->first.correct));
        json_object_set_new(o, "peer_best_correct", json_boolean(v->best.correct));
        json_object_set_new(o, "peer_error", json_real(v->first.worst));
    }
    if (v->has_chosen) {
        const double us_chosen = v->chosen.us.median;
        json_object_set_new(o, "select_config", cli_config_json(w->chosen));
        json_object_set_new(o, "select_us", json_real(us_chosen));
        json_object_set_new(o, "select_correct", json_boolean(v->chosen.correct));
        if (v->has_vendor) json_object_set_new(o, "select_ratio", json_real(v->first.us.median / us_chosen));
        if (v->has_vendor) json_object_set_new(o, "select_ratio_best", json_real(v->best.us.median / us_chosen));
    }
    const double work = 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
    json_object_set_new(o, "tflops", json_real(work / us * 1e-6));
    json_object_set_new(o, "gbs", json_real(tw_gemm_bytes(p) / us * 1e-3));
    if (v->clock_mhz > 0) json_object_set_new(o, "clock_mhz", json_real(v->clock_mhz));
    if (v->watts > 0) json_object_set_new(o, "watts", json_real(v->watts));
    json_object_set_new(o, "spread", json_real(spread(&v->ours.us)));
    json_object_set_new(o, "ceiling", json_real(v->floor_us));
    json_object_set_new(o, "ceiling_by", json_string(v->bytes_bound ? "bytes" : "operations"));
    json_object_set_new(o, "correct", json_boolean(v->ours.correct));
    json_object_set_new(o, "error", json_real(v->ours.worst));
    json_object_set_new(o, "load_ms", json_real(v->load_ms));
    json_object_set_new(o, "registers", json_integer(v->registers));
    json_object_set_new(o, "spill_bytes", json_integer(v->spill_bytes));
    json_object_set_new(o, "sampled", json_integer(v->search.sampled));
    json_object_set_new(o, "measured", json_integer(v->search.built));
    json_object_set_new(o, "wrong", json_integer(v->search.wrong + v->search.failed));
    cli_results_print(o, CLI_RESULTS_DIGITS);
}

static void report_row(bench_run *r, const row *w) {
    const tw_gemm_bench_result *v = &w->result;
    const double us = v->ours.us.median;
    if (v->has_vendor && v->first.correct) {
        r->log_first += log(v->first.us.median / us);
        r->log_best += log(v->best.us.median / us);
        r->rows++;
    }
    if (r->json)
        print_json(r, w);
    else
        print_text(r, w);
    fflush(stdout);
}

/* Writes a measurement to the log and the store, where they are open. */
static tw_status keep_one(void *context, const tw_gemm_config *c, const tw_measured *m, tw_diag *diag) {
    const bench_run *r = context;
    char problem[400], config[300], protocol[80];
    snprintf(protocol, sizeof protocol, "samples=%d caches=cold launches=graph", TW_GEMM_SCREENS);
    tw_gemm_problem_print(r->logged, problem, sizeof problem);
    tw_gemm_config_print(c, config, sizeof config);
    const double us = m->status == TW_OK ? m->time.median : -1;
    if (r->log) fprintf(r->log, "%s %s %s us=%.3f\n", r->logged_case, problem, config, us);
    if (!r->store) return TW_OK;
    const tw_measurement one = {.environment = r->environment,
                                .space = tw_gemm_space.name,
                                .problem = problem,
                                .config = config,
                                .protocol = protocol,
                                .unit = "us",
                                .status = m->status,
                                .message = m->status == TW_OK ? "" : m->diag->message,
                                .samples = m->samples,
                                .n = (int)m->time.n,
                                .began = m->began};
    return tw_store_add(r->store, &one, NULL, diag);
}

static bool same_problem(tw_gemm_problem *q, const tw_gemm_problem *p) {
    char one[400], other[400];
    if (tw_gemm_problem_complete(q, NULL) != TW_OK) return false;
    tw_gemm_problem_print(q, one, sizeof one);
    tw_gemm_problem_print(p, other, sizeof other);
    return !strcmp(one, other);
}

/* Adds the configurations that a log holds for this product, except wrong ones. A line has a name, the words of a
   problem, and those of a configuration. What it does not say of the problem is as in this product. */
static tw_status read_known(const char *text, const tw_gemm_problem *p, tw_buf *configs, tw_diag *diag) {
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char words[1024];
        snprintf(words, sizeof words, "%.*s", (int)strcspn(line, "\n"), line);
        tw_gemm_problem q = *p;
        tw_gemm_config c = tw_gemm_config_default(p);
        bool good = *words && *words != '#';
        char *save = NULL, *word = strtok_r(words, " ", &save); /* The case's name. */
        while (word && (word = strtok_r(NULL, " ", &save))) {
            tw_status st;
            if (!strncmp(word, "us=", 3))
                good &= word[3] != '-';
            else if (tw_gemm_problem_word(&q, word, &st, NULL))
                good &= st == TW_OK;
            else
                good &= st == TW_OK && tw_gemm_config_parse(&c, word, NULL) == TW_OK;
        }
        c = tw_gemm_config_plain(p, c);
        if (good && same_problem(&q, p) && !tw_buf_add(configs, &c, sizeof c)) return tw_fail_memory(diag);
    }
    return TW_OK;
}

/* Asks the artefact for an own configuration of the product. */
static bool choose(const bench_run *r, const tw_gemm_problem *p, tw_gemm_config *out) {
    tw_select_source source;
    return tw_gemm_choose(r->selector, p, tw_cuda_describe(r->cuda)->target, 0, out, &source, NULL) == TW_OK &&
           source != TW_SELECT_NONE;
}

static tw_status compare(bench_run *r, const char *name, const table_row *of_table, const tw_gemm_data *d,
                         tw_gemm_rig *rig, tw_diag *diag) {
    row w = {.name = name, .problem = &d->problem, .of_table = of_table};
    tw_buf known = {0};
    tw_status st = r->known ? read_known(r->known, &d->problem, &known, diag) : TW_OK;
    r->search.known = (const tw_gemm_config *)known.data;
    r->search.n_known = (int)(known.size / sizeof *r->search.known);
    tw_gemm_config chosen;
    r->search.chosen = r->selector && choose(r, &d->problem, &chosen) ? &chosen : NULL;
    w.chosen = r->search.chosen;
    r->logged_case = name;
    r->logged = &d->problem;
    if (st == TW_OK) st = tw_gemm_bench(&w.result, name, rig, r->cuda, r->vendor, d, &r->search, diag);
    tw_buf_free(&known);
    const tw_gemm_search_report *tried = &w.result.search;
    if (tried->complaint[0])
        fprintf(stderr, "%s: %d wrong, %d failed: %s\n", name, tried->wrong, tried->failed, tried->complaint);
    if (st == TW_OK) report_row(r, &w);
    return st;
}

static tw_status bench_one(bench_run *r, const char *name, const table_row *of_table, const tw_gemm_problem *p,
                           tw_diag *diag) {
    tw_gemm_data d;
    tw_gemm_rig *rig;
    tw_status st = tw_gemm_data_make(&d, p, r->search.seed + 1, diag);
    if (st != TW_OK) return st;
    st = tw_gemm_rig_make(&rig, r->cuda, &d, WORKSPACE, diag);
    if (st == TW_OK) {
        st = compare(r, name, of_table, &d, rig, diag);
        tw_gemm_rig_free(rig);
    }
    tw_gemm_data_free(&d);
    return st;
}

enum { POOL_BYTES = 2000 << 20 };

/* Makes the run's pool of elements, if it covers the product. *covered tells. */
static tw_status open_pool(bench_run *r, const tw_gemm_problem *p, bool *covered, tw_diag *diag) {
    *covered = false;
    if (!tw_gemm_pool_has(p->type)) return TW_OK;
    if (r->pool && r->pool_type != p->type) {
        tw_gemm_pool_free(r->pool);
        r->pool = NULL;
    }
    r->pool_type = p->type;
    if (!r->pool) {
        tw_status st = tw_gemm_pool_make(&r->pool, r->cuda, p->type, POOL_BYTES, r->search.seed + 1, diag);
        if (st != TW_OK) return st;
    }
    *covered = tw_gemm_pool_covers(r->pool, p, NULL) == TW_OK;
    return TW_OK;
}

/* Compares a product whose matrices and reference are on the device, where it can be computed there. */
static tw_status bench_listed(bench_run *r, const char *name, const tw_gemm_problem *p, tw_diag *diag) {
    bool covered;
    tw_gemm_rig *rig;
    tw_status st = open_pool(r, p, &covered, diag);
    if (st != TW_OK) return st;
    if (!covered && p->groups && r->skew > 0)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s: --skew is of products whose reference the device computes", name);
    if (!covered) return bench_one(r, name, NULL, p, diag);
    const tw_gemm_data only_problem = {.problem = *p};
    st = tw_gemm_rig_make_of(&rig, r->cuda, r->pool, p, r->skew, WORKSPACE, diag);
    if (st != TW_OK) return st;
    st = compare(r, name, NULL, &only_problem, rig, diag);
    tw_gemm_rig_free(rig);
    return st;
}

/* Reads the product of a line: a name and the words of a problem. *name is NULL if the line has none. */
static tw_status read_product(char *line, const char **name, tw_gemm_problem *p, tw_diag *diag) {
    char *save = NULL;
    *p = (tw_gemm_problem){.alpha = 1};
    *name = *line == '#' ? NULL : strtok_r(line, " ", &save);
    if (!*name) return TW_OK;
    for (const char *word = strtok_r(NULL, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        tw_status st = TW_OK;
        if (tw_gemm_problem_word(p, word, &st, diag)) continue;
        return st != TW_OK ? st : tw_fail(diag, TW_ERR_FORMAT, "\"%s\" says nothing of a product", word);
    }
    return tw_gemm_problem_complete(p, diag);
}

/* Compares the products of a list. Without a run it only looks for mistakes, which it names by `path`. */
static tw_status bench_list(bench_run *r, const char *path, const char *text, tw_diag *diag) {
    tw_status st = TW_OK;
    int number = 0;
    for (const char *at = text; *at && st == TW_OK; at += strcspn(at, "\n"), at += *at == '\n') {
        char line[1024];
        const char *name;
        tw_gemm_problem p;
        tw_diag why = {0};
        number++;
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        if (read_product(line, &name, &p, &why) != TW_OK)
            return tw_fail_line(diag, TW_ERR_FORMAT, path, number, 1, "%s", why.message);
        if (r && name) st = bench_listed(r, name, &p, diag);
    }
    if (r) tw_gemm_pool_free(r->pool);
    return st;
}

/* Tells whether `list` (separated by commas) has `name`. NULL has every name. */
static bool listed(const char *list, const char *name) {
    const size_t n = strlen(name);
    if (!list) return true;
    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ',') && (!at[n] || at[n] == ',')) return true;
    return false;
}

static tw_status bench_table(bench_run *r, const char *types, const char *cases, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int t = 0; t < TW_GEMM_TYPES; t++)
        for (size_t i = 0; i < sizeof table4 / sizeof *table4 && st == TW_OK; i++) {
            const table_row *w = &table4[i];
            /* A column-major product is the row-major one with its factors exchanged. */
            const bool columns = !r->row_major;
            tw_gemm_problem p = {.type = (tw_gemm_type)t,
                                 .m = columns ? w->n : w->m,
                                 .n = columns ? w->m : w->n,
                                 .k = w->k,
                                 .trans_a = columns ? w->trans_b : w->trans_a,
                                 .trans_b = columns ? w->trans_a : w->trans_b,
                                 .alpha = 1};
            if (listed(types, tw_gemm_types[p.type].name) && listed(cases, w->name))
                st = bench_one(r, w->name, w, &p, diag);
        }
    return st;
}

/* Describes the device and the versions that measurements depend on. */
static tw_status describe_environment(bench_run *r, tw_diag *diag) {
    const tw_cuda_info *i = tw_cuda_describe(r->cuda);
    json_t *o = json_pack("{s:s, s:s, s:i, s:i, s:s}", "device", i->name, "driver", i->driver, "sms", i->sms,
                          "clock_khz", i->clock_khz, "tilewright", TW_VERSION);
    char *text = tw_json_text(o, JSON_SORT_KEYS);
    const tw_status st = text ? TW_OK : tw_fail_memory(diag);
    if (text) snprintf(r->environment, sizeof r->environment, "%s", text);
    free(text);
    json_decref(o);
    return st;
}

static void print_environment(const bench_run *r) {
    const tw_cuda_info *i = tw_cuda_describe(r->cuda);
    if (!r->json) {
        printf("%s, driver %s, %s\n", i->name, i->driver, r->vendor ? r->vendor_name : "no cuBLASLt here");
        return;
    }
    cli_results_head(
        i->name, r->commit, r->command, "cold L2 by rotation, CUDA graphs, contenders in turn, medians of 24",
        json_pack("{s:s, s:s, s:i, s:i, s:I}", "driver", i->driver, "peer", r->vendor ? r->vendor_name : "", "sms",
                  i->sms, "clock_khz", i->clock_khz, "l2_bytes", (json_int_t)i->l2_bytes));
}

static tw_status bench(bench_run *r, const tw_gemm_problem *p, bool table, const char *types, const char *cases,
                       tw_diag *diag) {
    tw_status st = tw_cuda_open(&r->cuda, 0, diag);
    if (st != TW_OK) return st;
    if (tw_cublaslt_open(&r->vendor, r->cuda, NULL) == TW_OK) {
        char version[32];
        tw_cublaslt_version(r->vendor, version, sizeof version);
        snprintf(r->vendor_name, sizeof r->vendor_name, "cuBLASLt %s", version);
    }
    tw_power_open_gpu(&r->search.power, tw_cuda_describe(r->cuda)->bus, NULL);
    r->search.compiler = tw_ptx_compiler_for(r->cuda, false);
    print_environment(r);
    st = describe_environment(r, diag);
    if (st == TW_OK)
        st = r->products ? bench_list(r, NULL, r->products, diag)
             : table     ? bench_table(r, types, cases, diag)
                         : bench_one(r, "gemm", NULL, p, diag);
    if (st == TW_OK && r->rows > 1 && !r->json)
        printf("geometric mean over %d: %.3fx its first choice, %.3fx its best\n", r->rows, exp(r->log_first / r->rows),
               exp(r->log_best / r->rows));
    if (r->vendor) tw_cublaslt_close(r->vendor);
    tw_power_close(r->search.power);
    tw_cuda_close(r->cuda);
    return st;
}

/* Checks the lists that choose among the rows of the table. Returns the exit status. */
static int check_lists(const char *types, const char *cases) {
    for (const char *at = types; at && *at; at += strcspn(at, ","), at += *at == ',') {
        char name[32];
        tw_gemm_type t;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        if (!tw_gemm_type_from_name(name, &t))
            return cli_usage("bench gemm: --types: \"%s\" is not f32, f64, f16, bf16, tf32, s8, e4m3 or tf32x3", name);
    }
    for (const char *at = cases; at && *at; at += strcspn(at, ","), at += *at == ',') {
        char name[32];
        bool known_case = false;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        for (size_t i = 0; i < sizeof table4 / sizeof *table4; i++) known_case |= !strcmp(table4[i].name, name);
        if (!known_case) return cli_usage("bench gemm: --cases: \"%s\" is not a row, like linpack-512 or ica-32", name);
    }
    return CLI_OK;
}

int cli_bench_gemm(int argc, char **argv) {
    static const cli_verb verb = {
        "bench gemm", "m=M n=N k=K ... [ml=64 ...]", "the fastest own kernel for a product beside cuBLASLt",
        "tilewright bench gemm m=2560 n=16 k=2560 type=f32\n  tilewright bench gemm --table4 --types f16 --json", NULL};
    const char *words[32], *types = NULL, *cases = NULL, *log_path = NULL, *store_path = NULL, *known_path = NULL,
                           *products_path = NULL, *artefact_path = NULL, *commit = "";
    bool table = false, row_major = false, json = false, deterministic = false;
    int64_t sampled = TW_GEMM_SAMPLED, measured = TW_GEMM_MEASURED, generations = TW_GEMM_GENERATIONS;
    int64_t offspring = TW_GEMM_OFFSPRING, seed = 1;
    double skew = 0;
    const cli_flag flags[] = {
        {"--table4", CLI_FLAG, &table, NULL, "every product of ISAAC's table 4"},
        {"--row-major", CLI_FLAG, &row_major, NULL, "read the table's layouts as row-major ones"},
        {"--types", CLI_TEXT, &types, "LIST", "of these types only, e.g. f32,f16"},
        {"--cases", CLI_TEXT, &cases, "LIST", "these rows only, e.g. linpack-512,ica-32"},
        {"--products", CLI_TEXT, &products_path, "FILE", "of its lines: a name, then m=M n=N k=K ..."},
        {"--artefact", CLI_TEXT, &artefact_path, "FILE", "compare what this artefact chooses, too"},
        {"--sampled", CLI_INT, &sampled, "N", "legal configurations drawn for each (default 20000)"},
        {"--measured", CLI_INT, &measured, "N", "of them built, checked and timed (default 256)"},
        {"--generations", CLI_INT, &generations, "N", "of variations of the best (default 4)"},
        {"--offspring", CLI_INT, &offspring, "N", "variations in each (default 128)"},
        {"--seed", CLI_INT, &seed, "N", "of the drawing (default 1)"},
        {"--deterministic", CLI_FLAG, &deterministic, NULL, "no atomic splits"},
        {"--known", CLI_TEXT, &known_path, "FILE", "a log whose configurations are tried first"},
        {"--log", CLI_TEXT, &log_path, "FILE", "every configuration that was timed, a line each"},
        {"--store", CLI_TEXT, &store_path, "FILE", "add them to a store, which `tilewright export` reads"},
        {"--skew", CLI_REAL, &skew, "X", "group i of a mixture has rows in proportion to (i + 1) ^ -X (default 0)"},
        {"--commit", CLI_TEXT, &commit, "NAME", "what was built, for the first line of --json"},
        {"--json", CLI_FLAG, &json, NULL, "a line of JSON for each"},
    };
    int n, status;
    if (!cli_parse(&verb, argc, argv, flags, sizeof flags / sizeof *flags, words, 0, 32, &n, &status)) return status;
    tw_gemm_problem p = {.alpha = 1};
    tw_gemm_config keep = tw_gemm_config_any();
    tw_diag d;
    for (int i = 0; i < n; i++) {
        tw_status st;
        const bool problem = tw_gemm_problem_word(&p, words[i], &st, &d);
        if (problem && products_path) return cli_usage("bench gemm: \"%s\": --products has its own products", words[i]);
        if (problem && table) return cli_usage("bench gemm: \"%s\": --table4 has its own products", words[i]);
        if (problem) continue;
        if (st != TW_OK || tw_gemm_config_parse(&keep, words[i], &d) != TW_OK) return cli_fail(&d);
    }
    if (table && products_path) return cli_usage("bench gemm: either --table4 or --products");
    if (!table && !products_path && tw_gemm_problem_complete(&p, &d) != TW_OK) return cli_fail(&d);
    const struct {
        const char *flag;
        int64_t value, least, most;
    } ranges[] = {{"--sampled", sampled, 1, 10000000},
                  {"--measured", measured, 0, 1000000},
                  {"--generations", generations, 0, 10000},
                  {"--offspring", offspring, 1, 100000}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].value < ranges[i].least || ranges[i].value > ranges[i].most)
            return cli_usage("bench gemm: %s: %lld is not within %lld..%lld", ranges[i].flag,
                             (long long)ranges[i].value, (long long)ranges[i].least, (long long)ranges[i].most);
    if (!(skew >= 0 && skew <= 10)) return cli_usage("bench gemm: --skew: %g is not within 0..10", skew);
    if (skew > 0 && !products_path) return cli_usage("bench gemm: --skew is of --products");
    if (!table && (types || cases || row_major))
        return cli_usage("bench gemm: --types, --cases and --row-major choose among the rows of --table4");
    bench_run r = {.json = json,
                   .commit = commit,
                   .skew = skew,
                   .row_major = row_major,
                   .search = {.sampled = (int)sampled,
                              .measured = (int)measured,
                              .generations = (int)generations,
                              .offspring = (int)offspring,
                              .seed = (uint64_t)seed,
                              .deterministic = deterministic,
                              .keep = &keep}};
    cli_results_command(r.command, sizeof r.command, "bench gemm", argc, argv);
    status = check_lists(types, cases);
    if (status != CLI_OK) return status;
    /* The known log is read before the new one is opened, which empties it, since both may be the same file. */
    tw_buf known = {0}, products = {0};
    tw_status st = known_path ? tw_file_read(&known, known_path, &d) : TW_OK;
    if (st == TW_OK && products_path) st = tw_file_read(&products, products_path, &d);
    r.known = known.data;
    if (products_path) r.products = products.data ? products.data : "";
    if (st == TW_OK && r.products) st = bench_list(NULL, products_path, r.products, &d);
    if (st == TW_OK && log_path && !(r.log = fopen(log_path, "w")))
        st = tw_fail_at(&d, TW_ERR_IO, log_path, -1, "cannot write: %s", strerror(errno));
    if (st == TW_OK && artefact_path) st = tw_selector_open(&r.selector, artefact_path, &d);
    if (st == TW_OK && store_path) st = tw_store_open(&r.store, store_path, false, &d);
    if (r.log || r.store) r.search.measured_one = keep_one;
    r.search.context = &r;
    if (st == TW_OK) st = bench(&r, &p, table, types, cases, &d);
    tw_buf_free(&known);
    tw_buf_free(&products);
    tw_selector_close(r.selector);
    tw_store_close(r.store);
    if (r.log && fclose(r.log) && st == TW_OK) st = tw_fail_at(&d, TW_ERR_IO, log_path, -1, "cannot write");
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}
