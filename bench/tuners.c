/* SPDX-License-Identifier: Apache-2.0 */
/* bench_tuners table [--commit NAME]
   bench_tuners measure STORE [--type f16] [--device N] [--seconds S]
   bench_tuners judge STORE [--type f16] [--log FILE] [--device NAME] [--commit NAME]
   The case study of tuners of CURATOR's paper (section 4.4, Figure 11) with Tilewright's products.

     table    how many of each model's products are searched, since equal ones are searched once (Table 2)
     measure  measures OpenLlama-3B's products and then those of the BERT and GPT-2 models in all own configurations,
              and prints a line for each with its seconds. Of OpenLlama's, those near the fastest are measured again,
              and the fastest and cuBLASLt once more, in turn
     judge    lets each tuner learn from the products of BERT and GPT-2, and prints what its choices for OpenLlama-3B's
              are worth. Searches are replayed on the measured times

   A tuner chooses among own configurations. */
#include "tuners.h"
#include "base/clock.h"
#include "base/diag.h"
#include "tune/campaign.h"
#include "tune/shortlist.h"
#include "tune/trials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LEARNED = 64,      /* The most products that tuners learn from. */
    FINALISTS = 10,    /* Configurations that are measured with FINAL_SAMPLES. */
    FINAL_SAMPLES = 9, /* Samples of finalists and of cuBLASLt, in turn. */
    CLOSE_SAMPLES = 3, /* Samples of configurations near the fastest. */
    RANKED = 8         /* Places of cuBLASLt's ranking that are measured. */
};
static const double CLOSE = 1.5; /* A configuration is near the fastest if it takes at most so many times its time. */

void tuners_print(json_t *o) {
    char *text = json_dumps(o, JSON_REAL_PRECISION(6));
    if (text) puts(text);
    fflush(stdout);
    free(text);
    json_decref(o);
}

int tuners_products(bool judged, tuner_product *out, int *batch, int most) {
    int n = 0;
    for (int b = 0; b < TUNER_BATCHES; b++)
        for (int i = 0; i < tuner_models_n; i++) {
            const tuner_model *m = &tuner_models[i];
            tuner_product of[PRODUCTS];
            if (judged ? strcmp(m->name, TUNERS_MODEL) != 0 : m->kind == TUNER_LLAMA) continue;
            const int count = tuner_products_list(m, tuner_batches[b], TUNER_TOKENS, false, of);
            for (int k = 0; k < count; k++) {
                bool known = false;
                for (int j = 0; j < n; j++) known |= out[j].m == of[k].m && out[j].n == of[k].n && out[j].k == of[k].k;
                if (known || n == most) continue;
                batch[n] = tuner_batches[b];
                out[n++] = of[k];
            }
        }
    return n;
}

/* ---- the table */

/* Attention has two products a layer, or none where one kernel computes it. */
static void print_table(void) {
    for (int i = 0; i < tuner_models_n; i++) {
        const tuner_model *m = &tuner_models[i];
        tuner_product of[PRODUCTS];
        int total[2] = {2 * m->layers, 0}, distinct[2];
        for (int joined = 0; joined < 2; joined++) {
            distinct[joined] = tuner_products_list(m, 1, TUNER_TOKENS, joined, of);
            for (int k = 0; k < distinct[joined]; k++) total[joined] += of[k].count;
        }
        tuners_print(json_pack("{s:s, s:s, s:i, s:i, s:s, s:i, s:i, s:b}", "case", "searched", "model", m->name,
                               "searched", distinct[0] + 2, "products", total[0], "paper", m->paper, "joined_searched",
                               distinct[1], "joined_products", total[1], "correct", true));
    }
}

/* ---- measuring */

typedef struct run {
    tw_family f;
    tw_store *store;
    tw_shortlist list;              /* Own configurations that can compute the product. */
    char (*texts)[TW_FAMILY_WORDS]; /* Room for the words of the list and of the vendor's. */
    const char **configs;           /* The words of what is measured. */
    tw_campaign_progress progress;
} run;

static bool make_room(run *r) {
    const size_t n = (size_t)tw_family_configs(&r->f) + RANKED + 1;
    r->list = (tw_shortlist){.f = &r->f, .of = malloc(n * sizeof *r->list.of), .time = malloc(n * sizeof(double))};
    r->texts = malloc(n * sizeof *r->texts);
    r->configs = malloc(n * sizeof *r->configs);
    return r->list.of && r->list.time && r->texts && r->configs;
}

static void free_room(run *r) {
    free(r->list.of);
    free(r->list.time);
    free(r->texts);
    free(r->configs);
}

static void list_own(run *r, const int64_t *problem) {
    r->list.n = 0;
    for (int i = 0; i < r->f.n_macros; i++) {
        if (tw_family_is_vendor(&r->f, i) || tw_family_divide(&r->f, i, problem).grid < 1) continue;
        for (int j = 0; j < r->f.macros[i].n_micros; j++) r->list.of[r->list.n++] = (tw_choice){i, j};
    }
}

/* Measures the listed configurations whose time is at most `most` (0: all), with `extra` words behind them. */
static tw_status measure(run *r, const int64_t *problem, const char *campaign, const char *phase, double most,
                         int extra, const tw_measure_protocol *p, tw_diag *diag) {
    char words[TW_FAMILY_WORDS];
    int n = 0;
    for (int i = 0; i < r->list.n; i++) {
        if (most > 0 && !(r->list.time[i] > 0 && r->list.time[i] <= most)) continue;
        tw_family_config(&r->f, r->list.of[i].macro, r->list.of[i].micro, r->texts[n], TW_FAMILY_WORDS);
        r->configs[n] = r->texts[n];
        n++;
    }
    for (int i = 0; i < extra; i++, n++) {
        snprintf(r->texts[n], TW_FAMILY_WORDS, "by=cublaslt algorithm=%d", i);
        r->configs[n] = r->texts[n];
    }
    const int64_t began = tw_now_ns();
    const tw_campaign_progress before = r->progress;
    tw_status st = tw_campaign_measure(&r->f, r->store, campaign, phase, problem, r->configs, n, p, NULL, NULL,
                                       &r->progress, diag);
    tw_family_print(&r->f, problem, words, sizeof words);
    tuners_print(json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:f}", "campaign", campaign, "phase", phase, "problem",
                           words, "measured", (json_int_t)(r->progress.measured - before.measured), "failed",
                           (json_int_t)(r->progress.failed - before.failed), "wrong",
                           (json_int_t)(r->progress.wrong - before.wrong), "seconds",
                           (double)(tw_now_ns() - began) * 1e-9));
    if (st == TW_OK) st = tw_shortlist_read(&r->list, r->store, problem, campaign, phase, diag);
    return st;
}

/* Returns the time of the FINALISTS-th fastest configuration of the list. */
static double last_finalist(const tw_shortlist *l) {
    double last = 0;
    for (int i = 0; i < FINALISTS; i++) {
        double next = 0;
        for (int k = 0; k < l->n; k++)
            if (l->time[k] > last && (next == 0 || l->time[k] < next)) next = l->time[k];
        if (next > 0) last = next;
    }
    return last;
}

static tw_status measure_product(run *r, const tuner_product *p, bool judged, tw_diag *diag) {
    static const tw_measure_protocol once = {.samples = 1}, close = {.samples = CLOSE_SAMPLES, .turns = true},
                                     final = {.warmups = 1, .samples = FINAL_SAMPLES, .turns = true};
    const int64_t problem[TW_SELECT_AXES] = {p->m, p->n, p->k};
    list_own(r, problem);
    if (!judged) return measure(r, problem, TUNERS_LEARN, TW_TRIALS_SCREENS, 0, 0, &once, diag);
    tw_status st = measure(r, problem, TUNERS_JUDGE, "first", 0, 0, &once, diag);
    int best = tw_shortlist_fastest(&r->list, -1);
    if (st == TW_OK && best >= 0)
        st = measure(r, problem, TUNERS_JUDGE, "close", CLOSE * r->list.time[best], 0, &close, diag);
    if (st == TW_OK && best >= 0)
        st = measure(r, problem, TUNERS_JUDGE, "final", last_finalist(&r->list), RANKED, &final, diag);
    return st;
}

static tw_status measure_all(const char *path, tw_gemm_type type, int device, double seconds, tw_diag *diag) {
    const tw_gemm_gpu_options o = {.kind = {.type = type}, .device = device};
    const int64_t began = tw_now_ns();
    run r = {.store = NULL};
    tw_status st = tw_gemm_gpu_open(&r.f, &o, diag);
    if (st != TW_OK) return st;
    st = tw_store_open(&r.store, path, false, diag);
    if (st == TW_OK && !make_room(&r)) st = tw_fail_memory(diag);
    for (int judged = 1; judged >= 0; judged--) {
        tuner_product of[LEARNED];
        int batch[LEARNED];
        const int n = tuners_products(judged, of, batch, LEARNED);
        for (int i = 0; i < n && st == TW_OK; i++) {
            if (seconds > 0 && (double)(tw_now_ns() - began) * 1e-9 > seconds) break;
            st = measure_product(&r, &of[i], judged, diag);
        }
    }
    free_room(&r);
    tw_store_close(r.store);
    tw_family_close(&r.f);
    return st;
}

/* ---- the command */

static const char *text_of(int argc, char **argv, const char *flag) {
    for (int i = 2; i + 1 < argc; i++)
        if (!strcmp(argv[i], flag)) return argv[i + 1];
    return NULL;
}

/* The first line of results. `usual`: the device where no flag names one. */
static json_t *head_of(int argc, char **argv, const char *usual) {
    char date[32], command[1000] = "bench_tuners";
    const time_t now = time(NULL);
    const char *device = text_of(argc, argv, "--device"), *commit = text_of(argc, argv, "--commit");
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    for (int i = 1; i < argc; i++) {
        strncat(command, " ", sizeof command - strlen(command) - 1);
        strncat(command, argv[i], sizeof command - strlen(command) - 1);
    }
    return json_pack("{s:s, s:s, s:s, s:s}", "device", device ? device : usual, "date", date, "commit",
                     commit ? commit : "", "command", command);
}

int main(int argc, char **argv) {
    tw_diag d;
    tw_status st = TW_ERR_USAGE;
    const char *verb = argc > 1 ? argv[1] : "", *store = argc > 2 ? argv[2] : NULL;
    const char *name = text_of(argc, argv, "--type"), *seconds = text_of(argc, argv, "--seconds");
    const char *device = text_of(argc, argv, "--device");
    tw_gemm_type type = TW_GEMM_F16;
    if (name && !tw_gemm_type_from_name(name, &type)) store = NULL;
    tw_fail(&d, TW_ERR_USAGE, "bench_tuners table | measure STORE | judge STORE [--type f16|bf16|f32]");
    if (!strcmp(verb, "table")) {
        tuners_print(head_of(argc, argv, "none, counted from shapes"));
        print_table();
        st = TW_OK;
    } else if (!strcmp(verb, "measure") && store)
        st = measure_all(store, type, device ? atoi(device) : 0, seconds ? atof(seconds) : 0, &d);
    else if (!strcmp(verb, "judge") && store)
        st = tuners_judge(store, type, text_of(argc, argv, "--log"), head_of(argc, argv, ""), &d);
    if (st != TW_OK) fprintf(stderr, "bench_tuners: %s\n", d.message);
    return st == TW_OK ? 0 : st == TW_ERR_USAGE ? 2 : 1;
}
