/* SPDX-License-Identifier: Apache-2.0 */
/* `tilewright kernel attention`: the resources of a kernel, its text, a run in the emulator, a run on the GPU. */
#include "base/diag.h"
#include "base/stats.h"
#include "cli/cli.h"
#include "cli/kernel.h"
#include "cli/results.h"
#include "ir/text.h"
#include "kernels/attention/attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct attention {
    tw_attention_problem problem;
    tw_attention_config config;
    const tw_target *target;
    tw_attention_resources need;
    const char *why; /* Why the configuration is not legal. NULL: it is. */
    char problem_text[512], config_text[256];
} attention;

static int list(bool json) {
    if (!json) printf("problem     %s\nparameters  with their roles and values:\n", tw_attention_words);
    json_t *o = cli_kernel_show_parameters(&tw_attention_space, json, false);
    if (json)
        cli_results_print(json_pack("{s:s, s:o}", "kernel", "attention", "parameters", o), CLI_RESULTS_DIGITS);
    else
        json_decref(o);
    return CLI_OK;
}

/* Words that are none of the problem's are the configuration's. */
static tw_status parse(const cli_kernel_request *r, attention *a, tw_diag *diag) {
    tw_status st = TW_OK;
    *a = (attention){.target = tw_target_find(r->target ? r->target : "sm_90a")};
    for (int i = 0; i < r->n && st == TW_OK; i++)
        if (!tw_attention_word(&a->problem, r->words[i], &st, diag) && st == TW_OK)
            st = tw_attention_config_parse(&a->problem, &a->config, r->words[i], diag);
    if (st == TW_OK) st = tw_attention_complete(&a->problem, diag);
    if (st != TW_OK) return st;
    a->config = tw_attention_config_default(&a->problem, a->target, a->config.mma);
    for (int i = 0; i < r->n; i++) {
        tw_attention_problem unused = {0};
        tw_status known;
        if (!tw_attention_word(&unused, r->words[i], &known, NULL))
            tw_attention_config_parse(&a->problem, &a->config, r->words[i], NULL);
    }
    tw_attention_legal(&a->problem, &a->config, a->target, &a->need, &a->why);
    tw_attention_print(&a->problem, a->problem_text, sizeof a->problem_text);
    tw_attention_config_print(&a->config, a->config_text, sizeof a->config_text);
    return TW_OK;
}

static tw_status emit(const attention *a, const char *what, tw_diag *diag) {
    tw_buf text = {0};
    tw_status st = TW_OK;
    if (!strcmp(what, "ir")) {
        tw_kernel *k = tw_attention_make(&a->problem, &a->config, a->target, true, diag);
        st = !k ? diag->status : tw_kernel_print(&text, k) ? TW_OK : tw_fail_memory(diag);
        tw_kernel_free(k);
    } else {
        st = tw_attention_ptx(&a->problem, &a->config, a->target, &text, diag);
    }
    if (st == TW_OK) st = cli_kernel_emit_text(a->target->name, &text, what, diag);
    tw_buf_free(&text);
    return st;
}

static json_t *describe(const attention *a) {
    return json_pack("{s:s, s:s, s:s, s:s}", "kernel", "attention", "problem", a->problem_text, "config",
                     a->config_text, "target", a->target->name);
}

static tw_status emulate(const attention *a, const cli_kernel_request *r, tw_diag *diag) {
    tw_attention_data d;
    tw_emu_report report = {0};
    tw_status st = tw_attention_data_make(&d, &a->problem, r->seed, diag);
    if (st != TW_OK) return st;
    st = tw_attention_emulate(&d, &a->config, a->target, r->seed, &report, diag);
    tw_attention_data_free(&d);
    if (st != TW_OK) return st;
    if (r->json) {
        json_t *o = describe(a);
        json_object_update_new(o, json_pack("{s:s, s:I, s:b, s:I}", "on", "emulator", "seed", (json_int_t)r->seed,
                                            "correct", true, "lane_operations", (json_int_t)report.lane_operations));
        cli_results_print(o, CLI_RESULTS_DIGITS);
    } else {
        printf("emulated for %s, seed %llu: correct, nothing found; %lld lane operations\n", a->target->name,
               (unsigned long long)r->seed, (long long)report.lane_operations);
    }
    return TW_OK;
}

static tw_status run_on_device(attention *a, const cli_kernel_request *r, tw_diag *diag) {
    enum { SAMPLES = 20 };
    tw_cuda *cuda;
    tw_attention_data d = {0};
    tw_cubin cubin = {0};
    tw_buf ptx = {0};
    double samples[SAMPLES];
    tw_status st = tw_cuda_open(&cuda, 0, diag);
    if (st != TW_OK) return st;
    const tw_cuda_info *info = tw_cuda_describe(cuda);
    const tw_ptx_compiler by = tw_ptx_compiler_for(cuda, true);
    st = tw_attention_ptx(&a->problem, &a->config, info->target, &ptx, diag);
    if (st == TW_OK) st = tw_ptx_compile_by(&by, ptx.data, ptx.size, &cubin, diag);
    if (st == TW_OK) st = tw_attention_data_make(&d, &a->problem, r->seed, diag);
    if (st == TW_OK) st = tw_attention_run(&d, &a->config, cuda, &cubin, samples, SAMPLES, diag);
    if (st == TW_OK) {
        const tw_stats us = tw_stats_of(samples, SAMPLES);
        if (r->json) {
            json_t *o = describe(a);
            json_object_update_new(o, json_pack("{s:s, s:s, s:I, s:b, s:f, s:f, s:f, s:i, s:i}", "on", info->name,
                                                "driver", info->driver, "seed", (json_int_t)r->seed, "correct", true,
                                                "us", us.median, "us_p10", us.p10, "us_p90", us.p90, "registers",
                                                cubin.registers, "spill_bytes", cubin.spill_bytes));
            cli_results_print(o, CLI_RESULTS_DIGITS);
        } else {
            printf("%s, driver %s, seed %llu: correct\n%.2f us (p10 %.2f, p90 %.2f, warm L2)\n", info->name,
                   info->driver, (unsigned long long)r->seed, us.median, us.p10, us.p90);
        }
    }
    tw_attention_data_free(&d);
    tw_cubin_free(&cubin);
    tw_buf_free(&ptx);
    tw_cuda_close(cuda);
    return st;
}

static tw_status summary(const attention *a, bool json) {
    if (json) {
        json_t *o = describe(a);
        json_object_set_new(o, "legal", json_boolean(!a->why));
        if (a->why) json_object_set_new(o, "why", json_string(a->why));
        if (!a->why)
            json_object_update_new(o, json_pack("{s:i, s:i, s:I, s:I, s:I}", "threads", a->need.threads, "registers",
                                                a->need.registers, "shared_bytes", (json_int_t)a->need.shared_bytes,
                                                "tiles", (json_int_t)a->need.tiles, "grid", (json_int_t)a->need.grid));
        cli_results_print(o, CLI_RESULTS_DIGITS);
        return TW_OK;
    }
    printf("problem    %s\nconfig     %s\ntarget     %s\n", a->problem_text, a->config_text, a->target->name);
    if (a->why)
        printf("legal      no: %s\n", a->why);
    else
        printf("legal      yes\nblock      %d threads, %lld bytes of shared memory, %d registers a thread at launch\n"
               "grid       %lld blocks: %lld tiles\n",
               a->need.threads, (long long)a->need.shared_bytes, a->need.registers, (long long)a->need.grid,
               (long long)a->need.tiles);
    return a->why ? TW_ERR_REJECTED : TW_OK;
}

int cli_kernel_attention(const cli_kernel_request *r) {
    attention a;
    tw_diag d;
    if (r->list) return list(r->json);
    if (r->artefact || r->space) return cli_usage("kernel attention: --artefact and --space are not of it");
    if (parse(r, &a, &d) != TW_OK) return cli_fail(&d);
    if (!r->emit && !r->emulate && !r->run) return summary(&a, r->json) == TW_OK ? CLI_OK : CLI_FAILED;
    const tw_status st = r->emit ? emit(&a, r->emit, &d) : r->emulate ? emulate(&a, r, &d) : run_on_device(&a, r, &d);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}
