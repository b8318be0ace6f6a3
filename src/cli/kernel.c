/* SPDX-License-Identifier: Apache-2.0 */
/* `tilewright kernel` shows one generated kernel: its resources, its text, a run in the emulator, a run on the GPU. */
#include "cli/kernel.h"
#include "base/diag.h"
#include "base/stats.h"
#include "cli/cli.h"
#include "cli/problem.h"
#include "cli/results.h"
#include "ir/text.h"
#include "kernels/gemm/space.h"
#include "ptx/load.h"
#include "ptx/ptx.h"
#include "ptx/ptxas.h"
#include "space/categorical.h"
#include "tune/gemm_bench.h"
#include "tune/gemm_choose.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 64, PATHS = 4096, WORKSPACE = 256 << 20, JUDGED = 1000000, DRAWN = 20000, SHOWN = 8 };

typedef cli_kernel_request request;

/* A product, its configuration and the resources they take. */
typedef struct gemm {
    tw_gemm_problem problem;
    tw_gemm_config config;
    const tw_target *target;
    tw_gemm_resources need;
    bool chosen;             /* True: an artefact chose the configuration. */
    tw_select_source source; /* What its choice comes from. */
    const char *why;         /* Why the configuration is not legal. NULL: it is. */
    char text[512];          /* Text of the configuration. */
} gemm;

/* -- what the kernel is */

json_t *cli_kernel_show_parameters(const tw_space *s, bool json, bool counts) {
    json_t *o = json_object();
    for (int i = 0; i < s->n; i++) {
        const int count = tw_space_values(s, i);
        const char *name = s->params[i].name, *role = tw_space_role_name(s->params[i].role);
        json_t *all = json_array();
        if (!json) printf("  %-6s %s ", name, role);
        if (!json && counts) printf(" %3d ", count);
        for (int j = 0; j < count; j++) {
            const long long value = (long long)tw_space_value(s, i, j);
            if (!json) printf(" %lld", value);
            json_array_append_new(all, json_integer(value));
        }
        if (!json) putchar('\n');
        json_t *of = json_pack("{s:s, s:o}", "role", role, "values", all);
        if (counts) json_object_set_new(of, "count", json_integer(count));
        json_object_set_new(o, name, of);
    }
    return o;
}

static int list_gemm(bool json) {
    if (!json)
        printf("of the problem:\n%s\n\n"
               "of the configuration, with the values that searches draw from;\n"
               "macro: what changes the grid or the work of a block, micro: how a block does it:\n",
               tw_gemm_problem_words);
    json_t *o = cli_kernel_show_parameters(&tw_gemm_space, json, false);
    if (json)
        cli_results_print(o, CLI_RESULTS_DIGITS);
    else
        json_decref(o);
    return CLI_OK;
}

/* Sets the configuration to what the artefact chooses. */
static tw_status choose(const char *artefact, gemm *g, tw_diag *diag) {
    tw_selector *s;
    tw_status st = tw_selector_open(&s, artefact, diag);
    if (st != TW_OK) return st;
    g->chosen = true;
    st = tw_gemm_choose(s, &g->problem, g->target, 0, &g->config, &g->source, diag);
    if (st != TW_OK && !diag->path[0]) snprintf(diag->path, sizeof diag->path, "%s", artefact);
    tw_selector_close(s);
    return st;
}

static tw_status parse_gemm(const request *r, gemm *g, tw_diag *diag) {
    const char *rest[WORDS];
    int n = 0;
    *g = (gemm){.problem = {.alpha = 1}, .target = tw_target_find(r->target)};
    for (int i = 0; i < r->n; i++) {
        tw_status st;
        if (tw_gemm_problem_word(&g->problem, r->words[i], &st, diag)) continue;
        if (st != TW_OK) return st;
        rest[n++] = r->words[i];
    }
    /* Words that are no parameter are reported before what the problem lacks. */
    tw_status st = TW_OK;
    for (int i = 0; i < n && st == TW_OK; i++) st = tw_gemm_config_parse(&g->config, rest[i], diag);
    if (st == TW_OK) st = tw_gemm_problem_complete(&g->problem, diag);
    if (st != TW_OK) return st;
    g->config = tw_gemm_config_default(&g->problem);
    if (r->artefact) st = choose(r->artefact, g, diag);
    if (st != TW_OK) return st;
    for (int i = 0; i < n; i++) tw_gemm_config_parse(&g->config, rest[i], NULL);
    tw_gemm_legal(&g->problem, &g->config, g->target, &g->need, &g->why);
    tw_gemm_config_print(&g->config, g->text, sizeof g->text);
    return TW_OK;
}

/* Returns what the artefact's choice comes from. "default" is the configuration of a problem that nobody tuned. */
static const char *source_name(const gemm *g) {
    return tw_select_source_name(g->source == TW_SELECT_NONE ? TW_SELECT_DEFAULT : g->source);
}

static json_t *describe(const gemm *g) {
    json_t *o = json_pack("{s:s, s:o, s:o, s:s}", "kernel", "gemm", "problem", cli_problem_json(&g->problem), "config",
                          cli_config_json(&g->config), "target", g->target->name);
    if (g->chosen) json_object_set_new(o, "chosen_by", json_string(source_name(g)));
    return o;
}

/* Learns a categorical model from JUDGED uniform draws, which also estimate the number of legal points. *share gets the
   share of the model's own draws that are legal. SHOWN of these are appended to `shown`, an array, as texts. */
static tw_status try_categorical(const gemm *g, uint64_t seed, tw_space_size *size, double *share, json_t *shown,
                                 tw_diag *diag) {
    const tw_gemm_space_context of = {&g->problem, g->target, NULL};
    tw_random random = tw_random_seed(seed);
    tw_categorical *model;
    int64_t drawn = 0, legal = 0;
    tw_status st = tw_categorical_make(&model, &tw_gemm_space, TW_CATEGORICAL_ALPHA, diag);
    if (st != TW_OK) return st;
    const int64_t learned = tw_categorical_learn(model, &of, &g->config, JUDGED, &random);
    *size = tw_space_estimate(&tw_gemm_space, (uint64_t)learned, JUDGED);
    while (drawn < DRAWN) {
        tw_gemm_config c = g->config;
        const bool found = tw_categorical_draw(model, &of, NULL, &random, 1, &c, &drawn);
        legal += found;
        if (!found || json_array_size(shown) == SHOWN) continue;
        char words[512];
        tw_gemm_config_print(&c, words, sizeof words);
        json_array_append_new(shown, json_string(words));
    }
    *share = (double)legal / (double)drawn;
    tw_categorical_free(model);
    return TW_OK;
}

/* Shows the space of a problem's configurations. The number of legal ones is estimated from a sample of JUDGED. */
static tw_status show_space(const gemm *g, const request *r, tw_diag *diag) {
    const double points = (double)tw_space_points(&tw_gemm_space, TW_SPACE_ROLES);
    const double macro = (double)tw_space_points(&tw_gemm_space, TW_SPACE_MACRO);
    tw_space_size legal;
    double categorical;
    json_t *shown = json_array();
    const tw_status st = try_categorical(g, r->seed, &legal, &categorical, shown, diag);
    if (st != TW_OK) {
        json_decref(shown);
        return st;
    }
    const double uniform = points > 0 ? legal.legal / points : 0;
    if (!r->json) printf("parameter, role, how many values, and which:\n");
    json_t *parameters = cli_kernel_show_parameters(&tw_gemm_space, r->json, true);
    if (r->json) {
        json_t *o = describe(g);
        json_object_del(o, "config");
        json_object_update_new(o,
                               json_pack("{s:o, s:f, s:f, s:f, s:f, s:b, s:I, s:f, s:f, s:o}", "parameters", parameters,
                                         "points", points, "macro_points", macro, "legal", legal.legal, "error",
                                         legal.error, "exact", legal.exact, "judged", (json_int_t)legal.judged,
                                         "uniform_share", uniform, "categorical_share", categorical, "drawn", shown));
        cli_results_print(o, CLI_RESULTS_DIGITS);
        return TW_OK;
    }
    json_decref(parameters);
    json_decref(shown);
    printf("points     %.4g, of the macro parameters %.4g\n"
           "legal      %.2g on %s, give or take %.1g: estimated from %llu at random\n",
           points, macro, legal.legal, g->target->name, legal.error, (unsigned long long)legal.judged);
    printf("drawing    of uniform draws %.2g %% are legal, of a categorical model's %.2g %%\n", 100 * uniform,
           100 * categorical);
    return TW_OK;
}

static tw_status illegal(const gemm *g, tw_diag *diag) {
    return tw_fail(diag, TW_ERR_USAGE, "the configuration is not legal: %s", g->why);
}

static tw_status print_ir(const gemm *g, tw_buf *out, tw_diag *diag) {
    if (g->why) return illegal(g, diag);
    tw_kernel *k = tw_gemm_make(&g->problem, &g->config, g->target, true, diag);
    tw_status st = k ? TW_OK : diag->status;
    if (st == TW_OK && !tw_kernel_print(out, k)) st = tw_fail_memory(diag);
    tw_kernel_free(k);
    return st;
}

static tw_status print_ptx(const gemm *g, tw_buf *out, tw_diag *diag) {
    return g->why ? illegal(g, diag) : tw_gemm_ptx(&g->problem, &g->config, g->target, out, diag);
}

static tw_status summary(const gemm *g, bool json, tw_diag *diag) {
    tw_buf ptx = {0};
    tw_status st = g->why ? TW_OK : print_ptx(g, &ptx, diag);
    const tw_gemm_resources *n = &g->need;
    const int blocks = tw_target_blocks(g->target, n->threads, n->registers, (int)n->shared_bytes);
    int lines = 0;
    for (size_t i = 0; i < ptx.size; i++) lines += ptx.data[i] == '\n';
    if (st == TW_OK && json) {
        json_t *o = describe(g);
        json_object_set_new(o, "legal", json_boolean(!g->why));
        if (g->why) json_object_set_new(o, "why", json_string(g->why));
        if (!g->why)
            json_object_update_new(o, json_pack("{s:i, s:I, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:i, s:I}", "threads",
                                                n->threads, "shared_bytes", (json_int_t)n->shared_bytes, "registers",
                                                n->registers, "blocks_per_sm", blocks, "tiles", (json_int_t)n->tiles,
                                                "grid", (json_int_t)n->grid, "stages_of_k", (json_int_t)n->stages_of_k,
                                                "workspace_bytes", (json_int_t)n->workspace_bytes, "counter_bytes",
                                                (json_int_t)n->counter_bytes, "ptx_lines", lines, "ptx_bytes",
                                                (json_int_t)ptx.size));
        cli_results_print(o, CLI_RESULTS_DIGITS);
    } else if (st == TW_OK) {
        char problem[512];
        tw_gemm_problem_print(&g->problem, problem, sizeof problem);
        printf("problem    %s\nconfig     %s\n", problem, g->text);
        if (g->chosen) printf("chosen     by %s\n", source_name(g));
        printf("target     %s\n", g->target->name);
        if (g->why)
            printf("legal      no: %s\n", g->why);
        else
            printf(
                "legal      yes\n"
                "block      %d threads, %lld bytes of shared memory, about %d registers a thread: %d of them on an SM\n"
                "grid       %lld blocks: %lld tiles, split by %d; each walks %lld stages of k\n"
                "workspace  %lld bytes, and %lld of counters\n"
                "PTX        %d lines, %zu bytes\n",
                n->threads, (long long)n->shared_bytes, n->registers, blocks, (long long)n->grid, (long long)n->tiles,
                g->config.kg, (long long)n->stages_of_k, (long long)n->workspace_bytes, (long long)n->counter_bytes,
                lines, ptx.size);
    }
    tw_buf_free(&ptx);
    return st != TW_OK || !g->why ? st : TW_ERR_REJECTED;
}

/* -- machine code as text */

/* Compiles by the program that the environment names, else by the driver for its own device, else by ptxas from
   PATH. */
static tw_status compile_for(const char *target, const tw_buf *ptx, tw_cubin *cubin, tw_diag *diag) {
    char path[PATHS];
    tw_cuda *cuda = NULL;
    tw_diag none;
    tw_ptx_compiler by = tw_ptx_compiler_for(NULL, true);
    by.target = target;
    /* A kernel that moves registers is compiled by the driver when it is loaded alone. */
    const bool driver = ptx->data && !strstr(ptx->data, "setmaxnreg.");
    if (!by.ptxas && driver && tw_cuda_open(&cuda, 0, &none) == TW_OK &&
        !strcmp(tw_cuda_describe(cuda)->target->name, target))
        by.cuda = cuda;
    else if (!by.ptxas && tw_ptxas_find("ptxas", path, sizeof path))
        by.ptxas = path;
    tw_status st = by.cuda || by.ptxas ? tw_ptx_compile_by(&by, ptx->data, ptx->size, cubin, diag)
                                       : tw_fail(diag, TW_ERR_UNSUPPORTED,
                                                 "--emit sass: ptxas is not on PATH, and no GPU here is of %s", target);
    if (cuda) tw_cuda_close(cuda);
    return st;
}

tw_status cli_kernel_emit_text(const char *target, const tw_buf *text, const char *what, tw_diag *diag) {
    const bool sass = !strcmp(what, "sass");
    tw_buf code = {0};
    tw_cubin cubin = {0};
    tw_status st = sass ? compile_for(target, text, &cubin, diag) : TW_OK;
    if (st == TW_OK && sass) st = tw_ptxas_disassemble(cubin.data, cubin.bytes, &code, diag);
    const tw_buf *out = sass ? &code : text;
    if (st == TW_OK) fwrite(out->data, 1, out->size, stdout);
    tw_cubin_free(&cubin);
    tw_buf_free(&code);
    return st;
}

static tw_status emit(const gemm *g, const char *what, tw_diag *diag) {
    tw_buf text = {0};
    tw_status st = strcmp(what, "ir") ? print_ptx(g, &text, diag) : print_ir(g, &text, diag);
    if (st == TW_OK) st = cli_kernel_emit_text(g->target->name, &text, what, diag);
    tw_buf_free(&text);
    return st;
}

/* -- running it */

static void print_emulated(const gemm *g, const request *r, const tw_emu_report *report, tw_status st,
                           const tw_diag *diag) {
    const double seconds = report->seconds > 0 ? report->seconds : 1e-9;
    if (r->json) {
        json_t *o = describe(g), *found = json_array();
        for (int i = 0; i < report->n; i++)
            json_array_append_new(found, json_pack("{s:s, s:s}", "rule", tw_emu_rule_name(report->findings[i].rule),
                                                   "text", report->findings[i].text));
        json_object_update_new(o, json_pack("{s:s, s:I, s:b, s:o, s:I, s:f}", "on", "emulator", "seed",
                                            (json_int_t)r->seed, "correct", st == TW_OK, "findings", found,
                                            "lane_operations", (json_int_t)report->lane_operations, "seconds",
                                            report->seconds));
        if (st == TW_ERR_MISMATCH) json_object_set_new(o, "mismatch", json_string(diag->message));
        cli_results_print(o, CLI_RESULTS_DIGITS);
    } else if (st == TW_OK) {
        printf("emulated for %s, seed %llu: correct, nothing found; %lld lane operations, %.3g million a second\n",
               g->target->name, (unsigned long long)r->seed, (long long)report->lane_operations,
               (double)report->lane_operations / seconds * 1e-6);
    } else {
        printf("emulated for %s, seed %llu: %s\n", g->target->name, (unsigned long long)r->seed,
               st == TW_ERR_MISMATCH ? "wrong" : "rejected");
        fflush(stdout);
    }
}

static tw_status emulate(const gemm *g, const request *r, tw_diag *diag) {
    tw_gemm_data d;
    tw_emu_report report = {0};
    tw_status st = tw_gemm_data_make(&d, &g->problem, r->seed, diag);
    if (st != TW_OK) return st;
    st = tw_gemm_emulate(&d, &g->config, g->target, r->seed, &report, diag);
    if (st == TW_OK || st == TW_ERR_MISMATCH || st == TW_ERR_REJECTED) print_emulated(g, r, &report, st, diag);
    tw_gemm_data_free(&d);
    return st;
}

/* A device's verdict and times. */
typedef struct measured {
    tw_stats us;
    double floor;
    bool bytes_bound;
    tw_cubin cubin;
    tw_cuda_resources resources;
} measured;

static tw_status measure(const gemm *g, tw_cuda *cuda, const tw_gemm_data *d, measured *m, tw_diag *diag) {
    tw_gemm_rig *rig = NULL;
    tw_gemm_own own = {0};
    tw_buf ptx = {0};
    const tw_ptx_compiler by = tw_ptx_compiler_for(cuda, true);
    tw_status st = tw_gemm_rig_make(&rig, cuda, d, WORKSPACE, diag);
    if (st == TW_OK) st = print_ptx(g, &ptx, diag);
    if (st == TW_OK) st = tw_ptx_compile_by(&by, ptx.data, ptx.size, &m->cubin, diag);
    if (st == TW_OK) st = tw_gemm_own_load(&own, rig, &g->config, m->cubin.data, m->cubin.bytes, diag);
    const tw_gemm_candidate x = tw_gemm_own_candidate(&own);
    if (st == TW_OK) st = tw_gemm_time(rig, &x, &m->us, diag);
    if (st == TW_OK)
        st = tw_cuda_module_resources(own.module, own.need.threads, own.need.shared_bytes, &m->resources, diag);
    m->floor = tw_gemm_floor(&g->problem, tw_cuda_describe(cuda), &m->bytes_bound);
    if (st == TW_OK && m->us.median < m->floor)
        st = tw_fail(diag, TW_ERR_MISMATCH, "%.3f us is faster than the device can be (%.3f us)", m->us.median,
                     m->floor);
    tw_gemm_own_unload(&own);
    tw_gemm_rig_free(rig);
    tw_buf_free(&ptx);
    return st;
}

static void print_measured(const gemm *g, const request *r, const tw_cuda_info *info, const measured *m) {
    const char *by = m->bytes_bound ? "bytes" : "operations";
    if (r->json) {
        json_t *o = describe(g);
        json_object_update_new(o,
                               json_pack("{s:s, s:s, s:I, s:b, s:f, s:f, s:f, s:f, s:s, s:i, s:i, s:i}", "on",
                                         info->name, "driver", info->driver, "seed", (json_int_t)r->seed, "correct",
                                         true, "us", m->us.median, "us_p10", m->us.p10, "us_p90", m->us.p90, "floor_us",
                                         m->floor, "floor_by", by, "registers", m->resources.registers, "spill_bytes",
                                         m->cubin.spill_bytes, "blocks_per_sm", m->resources.blocks_per_sm));
        cli_results_print(o, CLI_RESULTS_DIGITS);
        return;
    }
    printf("%s, driver %s, seed %llu: correct\n", info->name, info->driver, (unsigned long long)r->seed);
    printf("%.2f us (p10 %.2f, p90 %.2f, cold L2), floor %.2f us by %s: %.0f %%\n", m->us.median, m->us.p10, m->us.p90,
           m->floor, by, m->us.median > 0 ? 100 * m->floor / m->us.median : 0);
    printf("%d registers, ", m->resources.registers);
    if (m->cubin.spill_bytes >= 0) printf("%d bytes spilt, ", m->cubin.spill_bytes);
    printf("%d blocks on an SM\n", m->resources.blocks_per_sm);
}

static tw_status run_on_device(gemm *g, const request *r, bool target_given, tw_diag *diag) {
    tw_cuda *cuda;
    tw_gemm_data d;
    measured m = {0};
    tw_status st = tw_cuda_open(&cuda, 0, diag);
    if (st != TW_OK) return st;
    const tw_cuda_info *info = tw_cuda_describe(cuda);
    if (target_given && g->target != info->target)
        st = tw_fail(diag, TW_ERR_USAGE, "--run: the device is of %s, not %s", info->target->name, g->target->name);
    g->target = info->target;
    if (st == TW_OK && !tw_gemm_legal(&g->problem, &g->config, g->target, &g->need, &g->why)) st = illegal(g, diag);
    if (st == TW_OK) st = tw_gemm_data_make(&d, &g->problem, r->seed, diag);
    if (st == TW_OK) {
        st = measure(g, cuda, &d, &m, diag);
        if (st == TW_OK) print_measured(g, r, info, &m);
        tw_cubin_free(&m.cubin);
        tw_gemm_data_free(&d);
    }
    tw_cuda_close(cuda);
    return st;
}

static int perform_gemm(const request *asked) {
    request r = *asked;
    gemm g;
    tw_diag d;
    if (r.list) return list_gemm(r.json);
    if (!r.target) r.target = "sm_90a";
    if (parse_gemm(&r, &g, &d) != TW_OK) return cli_fail(&d);
    tw_status st = r.emit      ? emit(&g, r.emit, &d)
                   : r.emulate ? emulate(&g, &r, &d)
                   : r.space   ? show_space(&g, &r, &d)
                   : r.run     ? run_on_device(&g, &r, asked->target, &d)
                               : summary(&g, r.json, &d);
    if (st == TW_OK) return CLI_OK;
    /* The summary has printed why the configuration is not legal. */
    return !r.emit && !r.emulate && !r.run && !r.space && g.why ? CLI_FAILED : cli_fail(&d);
}

/* -- which kernels there are */

static const struct {
    const char *name;
    int (*perform)(const request *r);
} kernels[] = {
    {"gemm", perform_gemm},
    {"attention", cli_kernel_attention},
    {"combine", cli_kernel_combine},
    {"map", cli_kernel_map},
    {"rows", cli_kernel_rows},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static int unknown_target(const char *name) {
    tw_buf all = {0};
    for (int i = 0; tw_target_at(i); i++) tw_buf_printf(&all, "%s%s", i ? ", " : "", tw_target_at(i)->name);
    const int status = cli_usage("--target: \"%s\" is none of %s", name, all.data ? all.data : "those known");
    tw_buf_free(&all);
    return status;
}

static int run(const cli_verb *verb, int argc, char **argv) {
    const char *words[WORDS];
    int64_t seed = 1;
    request r = {0};
    const cli_flag flags[] = {
        {"--target", CLI_TEXT, &r.target, "NAME", "whose rules it keeps: sm_80, sm_89, sm_90a, ... (default sm_90a)"},
        {"--emit", CLI_TEXT, &r.emit, "ir|ptx|sass", "print its text; sass needs ptxas and cuobjdump or nvdisasm"},
        {"--artefact", CLI_TEXT, &r.artefact, "FILE", "the configuration is what this artefact chooses"},
        {"--emulate", CLI_FLAG, &r.emulate, NULL, "run it on the processor, with every checker, on random data"},
        {"--run", CLI_FLAG, &r.run, NULL, "check it on the GPU, then time it"},
        {"--seed", CLI_INT, &seed, "N", "of the data and the emulator's interleaving (default 1)"},
        {"--list", CLI_FLAG, &r.list, NULL, "show the words that describe the kernel, with their values"},
        {"--space", CLI_FLAG, &r.space, NULL, "show its configurations' parameters, and how many are legal"},
        {"--json", CLI_FLAG, &r.json, NULL, "print as JSON"},
    };
    int n, status;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, words, 1, WORDS, &n, &status)) return status;
    if (r.target && !tw_target_find(r.target)) return unknown_target(r.target);
    if (r.emit && strcmp(r.emit, "ir") && strcmp(r.emit, "ptx") && strcmp(r.emit, "sass"))
        return cli_usage("--emit: \"%s\" is not ir, ptx or sass", r.emit);
    if ((r.emit != NULL) + r.emulate + r.run + r.list + r.space > 1)
        return cli_usage("kernel: --emit, --emulate, --run, --list and --space: one of them");
    r.words = words + 1;
    r.n = n - 1;
    r.seed = (uint64_t)seed;
    for (int i = 0; i < KERNELS; i++)
        if (!strcmp(kernels[i].name, words[0])) return kernels[i].perform(&r);
    return cli_usage("kernel: \"%s\" is no kernel; there are gemm, attention, combine, map and rows", words[0]);
}

const cli_verb cli_kernel = {"kernel", "NAME k=v ...", "a generated GPU kernel: what it takes, its text, a checked run",
                             "tilewright kernel gemm m=64 n=64 k=256 type=f16 kg=4 --emulate\n"
                             "  tilewright kernel gemm m=2560 n=16 k=2560 --emit ptx\n"
                             "  tilewright kernel gemm type=bf16 m=512 n=4096 k=4096 tb=1 --artefact gemm.select\n"
                             "  tilewright kernel attention heads=8 kv_heads=2 head=64 queries=256 causal=1 --emulate\n"
                             "  tilewright kernel gemm --list",
                             run};
