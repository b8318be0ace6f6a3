/* SPDX-License-Identifier: Apache-2.0 */
/* `tilewright kernel` for kernels that are shown and emulated, and nothing else: combine, map and rows. */
#include "base/buf.h"
#include "base/diag.h"
#include "cli/cli.h"
#include "cli/kernel.h"
#include "ir/text.h"
#include "kernels/combine/combine.h"
#include "kernels/pointwise/map_kernel.h"
#include "kernels/rows/rows_kernel.h"
#include "ptx/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A kind of kernel. Both functions overwrite the words of the problem and of the configuration. */
typedef struct kind {
    const char *name;
    const char *configuration; /* The words that are the configuration's, each between blanks. */
    tw_kernel *(*make)(char *words, char *configuration, const tw_target *t, tw_diag *diag);
    tw_status (*emulate)(char *words, char *configuration, const tw_target *t, uint64_t seed, tw_emu_report *report,
                         tw_diag *diag);
} kind;

/* -- combine */

static tw_kernel *make_combine(char *words, char *configuration, const tw_target *t, tw_diag *diag) {
    tw_combine_problem p;
    (void)configuration;
    return tw_combine_parse(&p, words, diag) == TW_OK ? tw_combine_make(&p, t, true, diag) : NULL;
}

static tw_status emulate_combine(char *words, char *configuration, const tw_target *t, uint64_t seed,
                                 tw_emu_report *report, tw_diag *diag) {
    tw_combine_problem p;
    (void)configuration;
    const tw_status st = tw_combine_parse(&p, words, diag);
    return st == TW_OK ? tw_combine_emulate(&p, t, seed, report, diag) : st;
}

/* -- map */

static tw_kernel *make_map(char *words, char *configuration, const tw_target *t, tw_diag *diag) {
    tw_map_problem p;
    (void)configuration;
    return tw_map_parse(&p, words, diag) == TW_OK ? tw_map_make(&p, t, true, diag) : NULL;
}

static tw_status emulate_map(char *words, char *configuration, const tw_target *t, uint64_t seed, tw_emu_report *report,
                             tw_diag *diag) {
    tw_map_problem p;
    (void)configuration;
    const tw_status st = tw_map_parse(&p, words, diag);
    return st == TW_OK ? tw_map_emulate(&p, t, seed, report, diag) : st;
}

/* -- rows */

static tw_status parse_rows(tw_rows_problem *p, tw_rows_config *c, char *words, char *configuration, tw_diag *diag) {
    const tw_status st = tw_rows_parse(p, words, diag);
    if (st != TW_OK) return st;
    *c = tw_rows_config_default(p);
    return tw_rows_config_parse(c, configuration, diag);
}

static tw_kernel *make_rows(char *words, char *configuration, const tw_target *t, tw_diag *diag) {
    tw_rows_problem p;
    tw_rows_config c;
    return parse_rows(&p, &c, words, configuration, diag) == TW_OK ? tw_rows_make(&p, &c, t, true, diag) : NULL;
}

static tw_status emulate_rows(char *words, char *configuration, const tw_target *t, uint64_t seed,
                              tw_emu_report *report, tw_diag *diag) {
    tw_rows_problem p;
    tw_rows_config c;
    const tw_status st = parse_rows(&p, &c, words, configuration, diag);
    return st == TW_OK ? tw_rows_emulate(&p, &c, t, seed, report, diag) : st;
}

/* -- all of them */

static tw_status emit(const kind *k, char *words, char *configuration, const tw_target *t, const char *what,
                      tw_diag *diag) {
    tw_buf text = {0};
    tw_kernel *made = k->make(words, configuration, t, diag);
    tw_status st = made ? TW_OK : diag->status;
    if (st == TW_OK && !strcmp(what, "ir"))
        st = tw_kernel_print(&text, made) ? TW_OK : tw_fail_memory(diag);
    else if (st == TW_OK)
        st = tw_ptx_print(&text, made, t, diag);
    if (st == TW_OK) st = cli_kernel_emit_text(t->name, &text, what, diag);
    tw_kernel_free(made);
    tw_buf_free(&text);
    return st;
}

/* Whether a word is one of the configuration. */
static bool configures(const kind *k, const char *word) {
    char name[32];
    const int n = snprintf(name, sizeof name, " %.*s ", (int)strcspn(word, "="), word);
    return n < (int)sizeof name && strstr(k->configuration, name);
}

static int perform(const kind *k, const cli_kernel_request *r) {
    const tw_target *t = tw_target_find(r->target ? r->target : "sm_90a");
    tw_buf words = {0}, configuration = {0};
    tw_emu_report report = {0};
    tw_diag d;
    if (!r->emit && !r->emulate) return cli_usage("kernel %s: --emit or --emulate says what to do with it", k->name);
    if (r->artefact || r->json)
        return cli_usage("kernel %s: %s is of gemm alone", k->name, r->artefact ? "--artefact" : "--json");
    tw_buf_printf(&words, " ");
    tw_buf_printf(&configuration, " ");
    for (int i = 0; i < r->n; i++)
        tw_buf_printf(configures(k, r->words[i]) ? &configuration : &words, "%s ", r->words[i]);
    tw_status st = words.data && configuration.data ? TW_OK : tw_fail_memory(&d);
    if (st == TW_OK)
        st = r->emit ? emit(k, words.data, configuration.data, t, r->emit, &d)
                     : k->emulate(words.data, configuration.data, t, r->seed, &report, &d);
    tw_buf_free(&words);
    tw_buf_free(&configuration);
    if (st != TW_OK) return cli_fail(&d);
    if (r->emulate)
        printf("emulated for %s, seed %llu: correct, nothing found; %lld lane operations\n", t->name,
               (unsigned long long)r->seed, (long long)report.lane_operations);
    return CLI_OK;
}

int cli_kernel_combine(const cli_kernel_request *r) {
    return perform(&(kind){"combine", "", make_combine, emulate_combine}, r);
}

int cli_kernel_map(const cli_kernel_request *r) {
    return perform(&(kind){"map", "", make_map, emulate_map}, r);
}

int cli_kernel_rows(const cli_kernel_request *r) {
    return perform(&(kind){"rows", " warps rows ", make_rows, emulate_rows}, r);
}
