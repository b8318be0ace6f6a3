/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations of attention: what a search found, or else the usual one. */
#include "base/clock.h"
#include "base/diag.h"
#include "base/divide.h"
#include "base/stats.h"
#include "base/thread.h"
#include "vm/network/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST = 96,   /* Configurations that a search measures. */
    SAMPLES = 7, /* Of each configuration. */
    KEPT = 6     /* The fastest of them, which the plan keeps. */
};

/* Configurations that are this many times slower than the fastest so far are sampled once. */
static const double give_up = 1.5;

/* Lets a launch begin early, if its kernel can. Blocks that have half an SM keep that. */
static tw_attention_config complete(const tw_cuda_network *n, const tw_attention_problem *p, tw_attention_config c) {
    tw_attention_config early = c;
    if (c.early != TW_ATTENTION_BESIDE) early.early = TW_ATTENTION_EARLY;
    c.early = TW_ATTENTION_LATE;
    return !n->options.late && tw_attention_legal(p, &early, n->gpu->target, NULL, NULL) ? early : c;
}

/* A configuration, and its time. */
typedef struct candidate {
    tw_attention_config config;
    double us;       /* 1e30: it does not run, or is wrong. */
    double estimate; /* As tw_network_attention_time has it. */
} candidate;

static int promising_first(const void *a, const void *b) {
    const double x = ((const candidate *)a)->estimate, y = ((const candidate *)b)->estimate;
    return (x > y) - (x < y);
}

/* Lists configurations in which two warpgroups share a tile's queries. There are none where tiles are many enough to
   fill the SMs twice. Returns their number, at most `most`. */
static int list_shared(const tw_cuda_network *n, const tw_attention_problem *p, const tw_attention_config *usual,
                       candidate *out, int most) {
    static const int columns[] = {64, 128, 192, 256};
    int count = 0;
    if (usual->mma != TW_ATTENTION_BY_WARPGROUPS) return 0;
    if (p->batch * p->heads * tw_ceil_div(p->queries, 64) > 2 * n->info.sms) return 0;
    for (int i = 0; i < 4 * 2 && count < most; i++) {
        tw_attention_config c = *usual;
        c.rows = 64;
        c.columns = columns[i % 4];
        c.slices = 2;
        c.splits = 1;
        c.pingpong = c.pack = 0;
        c.persistent = i / 4 ? n->info.sms : 0;
        if (tw_attention_legal(p, &c, n->gpu->target, NULL, NULL)) out[count++] = (candidate){.config = c, .us = 1e30};
    }
    return count;
}

static int list(const tw_cuda_network *n, const tw_attention_problem *p, candidate *out) {
    static const int rows[] = {64, 128, 192, 64}, columns[] = {64, 80, 96, 112, 128, 160, 176, 192};
    const tw_attention_config usual = tw_attention_config_default(p, n->gpu->target, 0);
    tw_attention_config first;
    const int most = n->options.measured > 0 && n->options.measured < MOST ? n->options.measured : MOST;
    int count = 0;
    out[count++] = (candidate){.config = usual, .us = 1e30};
    tw_network_attention_tile(p, n->gpu->target, n->info.sms, &first);
    if (most > 1 && memcmp(&first, &usual, sizeof first) != 0) out[count++] = (candidate){.config = first, .us = 1e30};
    count += list_shared(n, p, &usual, out + count, most - count);
    for (int i = 0; i < 4 * 8 * 2 * 2 * 2 && count < most; i++) {
        tw_attention_config c = usual;
        c.rows = rows[i % 4];
        c.columns = columns[i / 4 % 8];
        c.pingpong = i / 32 % 2;
        c.early = i % 4 == 3 ? TW_ATTENTION_BESIDE : TW_ATTENTION_LATE;
        c.persistent = i / 64 % 2 ? n->info.sms * (c.early ? 2 : 1) : 0;
        c.pack = i / 128;
        c.splits = 1;
        bool known = c.rows == 64 && c.pingpong;
        known |= p->heads == p->kv_heads && c.pack;
        for (int k = 0; k < count && !known; k++) known = !memcmp(&out[k].config, &c, sizeof c);
        if (!known && tw_attention_legal(p, &c, n->gpu->target, NULL, NULL))
            out[count++] = (candidate){.config = c, .us = 1e30};
    }
    for (int i = 0; i < count; i++) out[i].estimate = tw_network_attention_time(p, &out[i].config, n->info.sms);
    qsort(out, (size_t)count, sizeof *out, promising_first);
    return count;
}

/* What a job prints. */
typedef struct printed {
    const tw_attention_problem *problem;
    const tw_attention_config *config;
    const tw_target *target;
} printed;

static tw_status print(const void *context, tw_buf *ptx, tw_diag *diag) {
    const printed *p = context;
    return tw_attention_ptx(p->problem, p->config, p->target, ptx, diag);
}

/* All that are tried. */
typedef struct attempt {
    candidate all[MOST];
    printed prints[MOST];
    tw_ptx_job jobs[MOST];
    int count;
} attempt;

/* Checks and times candidates while others are compiled. The first one is always measured. */
static void measure(tw_cuda_network *n, tw_attention_rig *rig, tw_ptx_crew *crew, attempt *a, int64_t began) {
    candidate *all = a->all;
    const tw_ptx_job *jobs = a->jobs;
    const double limit = n->searching.seconds;
    double least = 0;
    for (int i = 0; i < a->count; i++) {
        double samples[SAMPLES];
        int taken = 0;
        const int64_t now = tw_now_ns();
        if (i && limit > 0 && (double)(now - began) * 1e-9 > limit) {
            n->plan->cut++;
            break;
        }
        tw_ptx_crew_wait(crew, i);
        n->plan->costs.wait += (double)(tw_now_ns() - now) * 1e-9;
        n->plan->costs.threads += jobs[i].print_seconds + jobs[i].cubin.seconds;
        n->plan->measured++;
        if (jobs[i].status == TW_OK && tw_attention_rig_try(rig, &all[i].config, &jobs[i].cubin, samples, SAMPLES,
                                                            give_up * least, &taken, NULL) == TW_OK)
            all[i].us = tw_stats_of(samples, (size_t)taken).median;
        if (all[i].us < 1e30 && (least <= 0 || all[i].us < least)) least = all[i].us;
    }
    const tw_attention_seconds *s = tw_attention_rig_seconds(rig);
    n->plan->costs.load += s->load;
    n->plan->costs.check += s->check;
    n->plan->costs.time += s->time;
}

/* Returns of how many queries one is compared: of few operations all are, so that a verdict is of the whole result. */
static int64_t every(const tw_attention_problem *p) {
    const double per_processor = 2e8 /* Multiplications that take a processor half a second. */, most_rows = 65536;
    const double rows = (double)p->batch * (double)p->queries * (double)p->heads;
    const double work = rows * (double)p->keys * (double)p->head * 2 / (p->causal ? 2 : 1);
    const double of_work = work / (per_processor * tw_allowed_cpus(NULL, 0)), of_rows = rows / most_rows;
    return (int64_t)ceil(fmax(1, fmax(of_work, of_rows)));
}

/* Enters the fastest into the plan. */
static tw_status enter(tw_cuda_network *n, candidate *all, int count, const char *words, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int k = 0; k < KEPT && st == TW_OK; k++) {
        char text[256];
        int best = 0;
        for (int i = 1; i < count; i++)
            if (all[i].us < all[best].us) best = i;
        if (all[best].us >= 1e30) break;
        tw_attention_config_print(&all[best].config, text, sizeof text);
        st = tw_network_plan_add(n->plan, &(tw_network_choice){"attention", words, text, all[best].us, false}, diag);
        all[best].us = 1e30;
    }
    return st;
}

/* What may compute attention. */
static int makers(const tw_cuda_network *n) {
    return n->options.by ? n->options.by : TW_NETWORK_OWN | TW_NETWORK_VENDOR;
}

/* Compiles candidates, and measures each as soon as it is compiled. Then measures the vendor's. */
static tw_status try_all(tw_cuda_network *n, const tw_attention_problem *p, attempt *a, const char *words,
                         int64_t began, tw_diag *diag) {
    tw_attention_data d = {0};
    tw_attention_answer *answer = NULL;
    tw_attention_rig *rig = NULL;
    tw_ptx_crew *crew = NULL;
    const bool vendor = makers(n) & TW_NETWORK_VENDOR && tw_network_has_cudnn(n, p);
    const bool own = !vendor || makers(n) & TW_NETWORK_OWN;
    a->count = own ? list(n, p, a->all) : 0;
    for (int i = 0; i < a->count; i++) {
        a->prints[i] = (printed){p, &a->all[i].config, n->gpu->target};
        a->jobs[i] = (tw_ptx_job){.print = print, .context = &a->prints[i]};
    }
    tw_status st = own ? tw_ptx_crew_start(&crew, &n->searching.compiler, a->jobs, a->count, 0, diag) : TW_OK;
    const int64_t refer = tw_now_ns();
    if (st == TW_OK) st = tw_attention_data_make(&d, p, 1, diag);
    if (st == TW_OK) st = tw_attention_answer_make(&answer, &d, every(p), diag);
    if (st == TW_OK) st = tw_attention_rig_make(&rig, n->gpu->cuda, &d, answer, diag);
    n->plan->costs.refer += (double)(tw_now_ns() - refer) * 1e-9;
    if (st == TW_OK && own) measure(n, rig, crew, a, began);
    tw_ptx_crew_end(crew);
    if (st == TW_OK && own) st = enter(n, a->all, a->count, words, diag);
    if (st == TW_OK && vendor) st = tw_network_search_cudnn(n, p, rig, words, began, diag);
    for (int i = 0; i < a->count; i++) tw_cubin_free(&a->jobs[i].cubin);
    tw_attention_rig_free(rig);
    tw_attention_answer_free(answer);
    tw_attention_data_free(&d);
    return st;
}

tw_status tw_network_search_attention(tw_cuda_network *n, const tw_attention_problem *p, const char *words,
                                      tw_diag *diag) {
    const int64_t began = tw_now_ns();
    attempt *a = calloc(1, sizeof *a);
    const tw_status st = a ? try_all(n, p, a, words, began, diag) : tw_fail_memory(diag);
    free(a);
    n->plan->searched++;
    n->plan->seconds += (double)(tw_now_ns() - began) * 1e-9;
    return st;
}

/* Chooses among the plan's entries of these makers, if one computes it. */
static tw_status by_plan(tw_cuda_network *n, const tw_attention_problem *p, const char *words, int by,
                         tw_network_attending *out, tw_diag *diag) {
    const tw_attention_config usual = out->config;
    double least = 1e30;
    for (int i = tw_network_plan_find(n->plan, words, 0); i >= 0; i = tw_network_plan_find(n->plan, words, i + 1)) {
        const tw_network_choice *c = &n->plan->choices[i];
        tw_network_attending x = {.entry = i + 1, .config = usual};
        const bool vendor = !strcmp(c->kind, "cudnn");
        const double us = c->settled ? 0 : c->us;
        if (!(by & (vendor ? TW_NETWORK_VENDOR : TW_NETWORK_OWN)) || us >= least) continue;
        if (vendor) {
            const tw_status st = tw_network_open_cudnn(n, p, words, c->configuration, &x.cudnn, diag);
            if (st != TW_OK) return st;
            if (!x.cudnn) continue;
        } else if (tw_attention_config_parse(p, &x.config, c->configuration, NULL) != TW_OK ||
                   !tw_attention_legal(p, &x.config, n->gpu->target, NULL, NULL)) {
            continue;
        }
        *out = x;
        least = us;
    }
    return TW_OK;
}

tw_status tw_network_choose_attention(tw_cuda_network *n, const tw_attention_problem *p, tw_network_attending *out,
                                      tw_diag *diag) {
    char words[512];
    tw_status st = TW_OK;
    *out = (tw_network_attending){0};
    tw_attention_print(p, words, sizeof words);
    tw_network_attention_tile(p, n->gpu->target, n->info.sms, &out->config);
    if (n->plan) st = by_plan(n, p, words, makers(n), out, diag);
    if (makers(n) == TW_NETWORK_VENDOR && st == TW_OK && !out->cudnn) {
        st = tw_network_open_cudnn(n, p, words, NULL, &out->cudnn, diag);
        /* Somebody must compute it. */
        if (st == TW_OK && !out->cudnn && n->plan) st = by_plan(n, p, words, TW_NETWORK_OWN, out, diag);
    }
    if (n->options.unsplit) out->config.splits = 1;
    out->config = complete(n, p, out->config);
    return st;
}
