/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/bench_sequences.h"

#include "base/random.h"
#include "base/stats.h"
#include "cli/bench_memory.h"
#include "cli/generate.h"
#include "cli/results.h"
#include "engine/timing.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 3, MOST = 100 };

/* What is timed: prompts, tokens after the first, and both. */
typedef struct row {
    char test[64];
    int64_t tokens;       /* Tokens of a sequence that a repetition makes or reads. */
    double seconds[MOST]; /* Seconds of each repetition. */
    tw_stats rate;        /* Tokens per second of all sequences together. */
    tw_stats time;
} row;

typedef struct measured {
    const cli_bench_sequences *o;
    const tw_engine *e;
    tw_model_info info;
    tw_verdict verdict;
    row rows[ROWS];
} measured;

static void name_rows(measured *m) {
    const long long p = m->o->prompt, n = m->o->n;
    snprintf(m->rows[0].test, sizeof m->rows[0].test, "pp%lld", p);
    snprintf(m->rows[1].test, sizeof m->rows[1].test, "tg%lld", n);
    snprintf(m->rows[2].test, sizeof m->rows[2].test, "pp%lld+tg%lld", p, n + 1);
    m->rows[0].tokens = m->o->prompt;
    m->rows[1].tokens = m->o->n;
    m->rows[2].tokens = m->o->n + 1;
}

static tw_status measure(measured *m, tw_batch *b, tw_diag *d) {
    const cli_bench_sequences *o = m->o;
    tw_random r = tw_random_seed(1);
    tw_status st = tw_batch_check(b, o->prompt, 1, &m->verdict, d);
    /* The first repetition warms caches and pages, and is not counted. */
    for (int64_t i = -1; i < o->repetitions && st == TW_OK; i++) {
        tw_batch_times t;
        st = tw_time_batch(b, &r, o->prompt, o->n, &t, d);
        if (i < 0) continue;
        m->rows[0].seconds[i] = t.prompt_seconds;
        m->rows[1].seconds[i] = t.decode_seconds;
        m->rows[2].seconds[i] = t.seconds;
    }
    for (int k = 0; k < ROWS && st == TW_OK; k++) {
        row *w = &m->rows[k];
        double rates[MOST], seconds[MOST];
        for (int64_t i = 0; i < o->repetitions; i++)
            rates[i] = w->seconds[i] > 0 ? (double)(o->sequences * w->tokens) / w->seconds[i] : 0;
        memcpy(seconds, w->seconds, sizeof seconds);
        w->rate = tw_stats_of(rates, (size_t)o->repetitions);
        w->time = tw_stats_of(seconds, (size_t)o->repetitions);
    }
    return st;
}

static void print_md(const measured *m) {
    printf("| model | stored | weights | SMs | sequences | test | tokens/s, together | of each | ms, 10 to 90 %% | | "
           "correct |\n|---|---|---|---:|---:|---|---:|---:|---:|---:|---|\n");
    for (const row *w = m->rows; w < m->rows + ROWS; w++)
        if (w->tokens)
            printf("| %s | %s %.2f B | %s | %d | %lld | %s | %.1f ± %.1f | %.1f | %.2f | %.2f to %.2f | yes |\n",
                   m->info.name, tw_dtype_name(m->info.dtype), (double)m->info.parameters / 1e9, m->o->weights,
                   tw_engine_workers(m->e), (long long)m->o->sequences, w->test, w->rate.mean, w->rate.stddev,
                   w->rate.median / (double)m->o->sequences, 1e3 * w->time.median, 1e3 * w->time.p10,
                   1e3 * w->time.p90);
    cli_bench_memory_print(m->e);
}

static void print_csv(const measured *m) {
    printf(
        "model,stored,weights,threads,sequences,test,tokens,tokens_per_second,stddev,median,seconds,correct,device\n");
    for (const row *w = m->rows; w < m->rows + ROWS; w++)
        printf("\"%s\",%s,%s,%d,%lld,%s,%lld,%.4f,%.4f,%.4f,%.6g,true,\"%s\"\n", m->info.name,
               tw_dtype_name(m->info.dtype), m->o->weights, tw_engine_workers(m->e), (long long)m->o->sequences,
               w->test, (long long)w->tokens, w->rate.mean, w->rate.stddev, w->rate.median, w->time.median,
               tw_engine_device(m->e));
}

static void print_json(const measured *m) {
    json_t *rows = json_array();
    for (const row *w = m->rows; w < m->rows + ROWS; w++) {
        json_t *samples = json_array();
        for (int64_t i = 0; i < m->o->repetitions; i++) json_array_append_new(samples, json_real(w->seconds[i]));
        json_t *o =
            json_pack("{s:s, s:s, s:s, s:i, s:I, s:s, s:I, s:f, s:f, s:f, s:f, s:b, s:I, s:I, s:f, s:s, s:o}", "model",
                      m->info.name, "stored", tw_dtype_name(m->info.dtype), "weights", m->o->weights, "threads",
                      tw_engine_workers(m->e), "sequences", (json_int_t)m->o->sequences, "test", w->test, "tokens",
                      (json_int_t)w->tokens, "tokens_per_second", w->rate.mean, "stddev", w->rate.stddev, "median",
                      w->rate.median, "per_sequence", w->rate.median / (double)m->o->sequences, "correct", 1,
                      "tokens_equal", (json_int_t)m->verdict.tokens, "tokens_close", (json_int_t)m->verdict.close,
                      "worst_logit", m->verdict.worst_logit, "device", tw_engine_device(m->e), "samples_s", samples);
        cli_bench_memory_add(o, m->e);
        json_array_append_new(rows, o);
    }
    cli_results_print(rows, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
}

tw_status cli_bench_sequences_run(const cli_bench_sequences *o, const tw_model *model, const tw_engine_options *options,
                                  tw_diag *d) {
    measured m = {.o = o};
    tw_batch *b;
    tw_status st = tw_batch_open(&b, model, options, o->sequences, NULL, d);
    if (st != TW_OK) return st;
    m.e = tw_batch_engine(b);
    tw_model_describe(model, &m.info);
    name_rows(&m);
    if (tw_batch_sequences(b) != o->sequences)
        st = cli_say(d, TW_ERR_UNSUPPORTED, "--sequences: this machine decodes at most %lld together of this model",
                     (long long)tw_batch_sequences(b));
    if (st == TW_OK) st = measure(&m, b, d);
    if (st == TW_OK) (!strcmp(o->format, "md") ? print_md : !strcmp(o->format, "csv") ? print_csv : print_json)(&m);
    tw_batch_close(b);
    return st;
}
