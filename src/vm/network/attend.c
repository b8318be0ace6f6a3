/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations of attention: what a search found, or else the usual one. */
#include "base/clock.h"
#include "base/diag.h"
#include "base/stats.h"
#include "vm/network/machine.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64 /* Configurations to measure. */, SAMPLES = 7, KEPT = 3 /* Entered into the plan. */ };

/* Lets a launch begin early, if its kernel can. */
static tw_attention_config settle(const tw_cuda_network *n, const tw_attention_problem *p, tw_attention_config c) {
    tw_attention_config early = c;
    early.early = !n->options.late;
    c.early = 0;
    return tw_attention_legal(p, &early, n->gpu->target, NULL, NULL) ? early : c;
}

/* A candidate, compiled, and its time. */
typedef struct candidate {
    tw_attention_config config;
    tw_buf ptx;
    double us; /* 1e30: it does not run, or is wrong. */
} candidate;

static int list(const tw_cuda_network *n, const tw_attention_problem *p, candidate *out) {
    static const int rows[] = {64, 128, 192}, columns[] = {64, 80, 96, 112, 128, 160, 176, 192};
    const tw_attention_config usual = tw_attention_config_default(p, n->gpu->target, 0);
    const int most = n->options.measured > 0 && n->options.measured < MOST ? n->options.measured : MOST;
    int count = 0;
    out[count++] = (candidate){.config = usual, .us = 1e30};
    for (int i = 0; i < 3 * 8 * 2 * 2 * 2 && count < most; i++) {
        tw_attention_config c = usual;
        c.rows = rows[i % 3];
        c.columns = columns[i / 3 % 8];
        c.pingpong = i / 24 % 2;
        c.persistent = i / 48 % 2 ? n->info.sms : 0;
        c.pack = i / 96;
        c.splits = 1;
        bool known = c.rows == 64 && c.pingpong;
        known |= p->heads == p->kv_heads && c.pack;
        for (int k = 0; k < count && !known; k++) known = !memcmp(&out[k].config, &c, sizeof c);
        if (!known && tw_attention_legal(p, &c, n->gpu->target, NULL, NULL))
            out[count++] = (candidate){.config = c, .us = 1e30};
    }
    return count;
}

static void measure(const tw_cuda_network *n, const tw_attention_data *d, candidate *all, tw_ptx_job *jobs, int count) {
    const tw_ptx_compiler by = tw_ptx_compiler_for(n->gpu->cuda, true);
    for (int i = 0; i < count; i++) {
        tw_attention_ptx(&d->problem, &all[i].config, n->gpu->target, &all[i].ptx, NULL);
        jobs[i].ptx = all[i].ptx.data;
        jobs[i].bytes = all[i].ptx.size;
    }
    tw_ptx_compile_all_by(&by, jobs, count, 0);
    for (int i = 0; i < count; i++) {
        double samples[SAMPLES];
        if (jobs[i].status == TW_OK &&
            tw_attention_run(d, &all[i].config, n->gpu->cuda, &jobs[i].cubin, samples, SAMPLES, NULL) == TW_OK)
            all[i].us = tw_stats_of(samples, SAMPLES).median;
        tw_cubin_free(&jobs[i].cubin);
        tw_buf_free(&all[i].ptx);
    }
}

static tw_status search(tw_cuda_network *n, const tw_attention_problem *p, const char *words, tw_diag *diag) {
    const int64_t began = tw_now_ns();
    candidate *all = calloc(MOST, sizeof *all);
    tw_ptx_job *jobs = calloc(MOST, sizeof *jobs);
    tw_attention_data d = {0};
    tw_status st = all && jobs ? tw_attention_data_make(&d, p, 1, diag) : tw_fail_memory(diag);
    const int count = st == TW_OK ? list(n, p, all) : 0;
    if (st == TW_OK) measure(n, &d, all, jobs, count);
    for (int k = 0; k < KEPT && st == TW_OK; k++) {
        char text[256];
        int best = 0;
        for (int i = 1; i < count; i++)
            if (all[i].us < all[best].us) best = i;
        if (all[best].us >= 1e30) break;
        tw_attention_config_print(&all[best].config, text, sizeof text);
        st = tw_network_plan_add(n->plan, &(tw_network_choice){"attention", words, text, all[best].us}, diag);
        all[best].us = 1e30;
    }
    tw_attention_data_free(&d);
    free(all);
    free(jobs);
    n->plan->searched++;
    n->plan->measured += count;
    n->plan->seconds += (double)(tw_now_ns() - began) * 1e-9;
    return st;
}

tw_status tw_network_choose_attention(tw_cuda_network *n, const tw_attention_problem *p, tw_attention_config *out,
                                      tw_diag *diag) {
    char words[512];
    tw_status st = TW_OK;
    tw_attention_print(p, words, sizeof words);
    *out = tw_attention_config_default(p, n->gpu->target, 0);
    int i = n->plan ? tw_network_plan_find(n->plan, words, 0) : -1;
    if (i < 0 && n->plan && n->options.search && n->gpu->cuda) {
        st = search(n, p, words, diag);
        i = tw_network_plan_find(n->plan, words, 0);
    }
    for (; st == TW_OK && i >= 0; i = tw_network_plan_find(n->plan, words, i + 1)) {
        tw_attention_config c = *out;
        if (tw_attention_config_parse(p, &c, n->plan->choices[i].configuration, NULL) != TW_OK) continue;
        if (!tw_attention_legal(p, &c, n->gpu->target, NULL, NULL)) continue;
        *out = c;
        break;
    }
    if (n->options.unsplit) out->splits = 1;
    *out = settle(n, p, *out);
    return st;
}
