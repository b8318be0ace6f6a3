/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/random.h"
#include "base/stats.h"
#include "cli/bench_gemm.h"
#include "cli/bench_memory.h"
#include "cli/bench_sequences.h"
#include "cli/network.h"
#include "cli/results.h"
#include "engine/timing.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_ROWS = 32,
    MAX_PROMPTS = 8,
    MAX_REPETITIONS = 100,
    SLICE = 8 /* Tokens between two measurements of the ceiling. */
};

typedef struct row {
    char test[80];
    int64_t n, depth;
    bool decode;            /* True: decode. False: prefill. */
    bool apart;             /* True: on a GPU each token takes its own launch. */
    const tw_sampling *how; /* Settings by which `run` draws tokens. NULL: one launch computes all tokens. */
    tw_stats rate;          /* Tokens per second. Each repetition is a sample. */
    tw_stats us;         /* Microseconds per token. With `apart` each token is a sample, else each repetition is one. */
    double share;        /* Share of the ceiling that was reached: the median of the repetitions. */
    double work;         /* Bytes or operations per second that were reached. */
    double ceiling;      /* The most bytes or operations per second, as measured. */
    char ceiling_of[48]; /* The resource that the ceiling is of: "reads" of memory, or the unit that multiplies. */
    double samples[MAX_REPETITIONS]; /* Seconds of each repetition. */
    double shares[MAX_REPETITIONS];  /* Share of the ceiling that each repetition reached. */
} row;

typedef struct bench {
    tw_engine *e;
    tw_model_info info;
    const char *weights, *activations, *format;
    int64_t repetitions;
    tw_verdict verdict;
    row rows[MAX_ROWS];
    int n_rows;
} bench;

static void note(const char *what) {
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K%s", what);
}

/* Computes the work of n tokens after `depth` others: bytes of weights, keys and values, or operations. A GPU's work is
   bytes also for a prompt, since it streams all weights in each of many small steps. */
static double work_of(const bench *b, const row *w, int64_t depth, int64_t n) {
    if (!w->decode && tw_engine_on_gpu(b->e)) return tw_prompt_streamed_bytes(b->e, depth, n);
    if (!w->decode) return tw_engine_operations(b->e, depth, n);
    /* The keys and values to read grow with each token, and the middle position stands for all. */
    return (double)n * (double)tw_engine_streamed_bytes(b->e, depth + n / 2);
}

/* Measures the bytes or operations per second that are possible now. A repetition that does not count needs no
   ceiling. */
static tw_status look_up(const bench *b, row *w, bool counts, double *rate, tw_diag *d) {
    *rate = INFINITY;
    if (!counts) return TW_OK;
    snprintf(w->ceiling_of, sizeof w->ceiling_of, "reads");
    if (w->decode) return tw_engine_measure_bandwidth(b->e, rate, d);
    return tw_engine_measure_arithmetic(b->e, w->n, rate, w->ceiling_of, sizeof w->ceiling_of, d);
}

/* Runs one repetition in slices. The ceiling is measured before and after each slice, and the higher rate counts.
   *possible receives the seconds that the ceilings allow. On a shared machine memory's speed may change by half within
   a second, so only rates that are measured side by side can be divided. */
static tw_status repeat(bench *b, row *w, tw_random *r, bool counts, double *seconds, double *possible, tw_diag *d) {
    double before = 0, after = 0, taken = 0;
    tw_engine_rewind(b->e, 0);
    tw_status st = tw_feed_random(b->e, r, w->depth, d);
    if (st == TW_OK) st = look_up(b, w, counts, &before, d);
    *seconds = *possible = 0;
    for (int64_t done = 0, n; done < w->n && st == TW_OK; done += n, before = after) {
        n = w->decode && w->n - done > SLICE ? SLICE : w->n - done;
        st = w->decode ? tw_time_steps(b->e, n, NULL, &taken, d) : tw_time_prompt(b->e, r, n, &taken, d);
        if (st == TW_OK) st = look_up(b, w, counts, &after, d);
        *seconds += taken;
        *possible += work_of(b, w, w->depth + done, n) / (before > after ? before : after);
    }
    return st;
}

static void summarise(bench *b, row *w, double *rates, double work) {
    double us[MAX_REPETITIONS], shares[MAX_REPETITIONS];
    for (int64_t i = 0; i < b->repetitions; i++) us[i] = 1e6 / rates[i];
    memcpy(shares, w->shares, sizeof shares);
    w->us = tw_stats_of(us, (size_t)b->repetitions);
    w->rate = tw_stats_of(rates, (size_t)b->repetitions);
    w->share = tw_stats_of(shares, (size_t)b->repetitions).median;
    w->work = work * w->rate.median / (double)w->n;
    w->ceiling = w->work / w->share;
}

static tw_status measure_row(bench *b, row *w, tw_diag *d) {
    tw_random r = tw_random_seed(1);
    double rates[MAX_REPETITIONS], seconds = 0, possible = 0, work = work_of(b, w, w->depth, w->n);
    tw_status st = tw_engine_warm(b->e, w->decode && !w->depth ? 1 : 2, d);
    /* The first repetition warms caches and pages, and is not counted. */
    for (int64_t i = -1; i < b->repetitions && st == TW_OK; i++) {
        char what[160];
        snprintf(what, sizeof what, "%s: %lld of %lld", w->test, (long long)i + 1, (long long)b->repetitions);
        note(what);
        st = repeat(b, w, &r, i >= 0, &seconds, &possible, d);
        if (i < 0 || st != TW_OK) continue;
        w->samples[i] = seconds;
        w->shares[i] = possible / seconds;
        rates[i] = (double)w->n / seconds;
    }
    if (st != TW_OK) return st;
    summarise(b, w, rates, work);
    return TW_OK;
}

static tw_status repeat_gpu(bench *b, row *w, tw_random *r, int32_t *ids, double *seconds, double *each, tw_diag *d) {
    tw_engine_rewind(b->e, w->depth);
    tw_status st = tw_feed_random(b->e, r, w->depth - tw_engine_position(b->e), d);
    if (st != TW_OK) return st;
    if (!w->decode) return tw_time_prompt(b->e, r, w->n, seconds, d);
    if (w->how) return tw_time_generation(b->e, w->how, w->n, seconds, d);
    if (w->apart) return tw_time_steps(b->e, w->n, each, seconds, d);
    return tw_time_greedy(b->e, w->n, ids, seconds, d);
}

/* Measures a row on a GPU. The bench alone uses the GPU's memory, so two measurements of its speed suffice: one before
   and one after the repetitions. */
static tw_status measure_gpu_row(bench *b, row *w, tw_diag *d) {
    tw_random r = tw_random_seed(1);
    double rates[MAX_REPETITIONS], before = 0, after = 0, work = work_of(b, w, w->depth, w->n);
    int64_t n = w->n, count = w->apart ? n * b->repetitions : b->repetitions;
    double *us = malloc((size_t)(count + n) * sizeof *us);
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    tw_status st = us && ids ? tw_engine_warm(b->e, w->decode && !w->depth ? 1 : 2, d) : TW_ERR_MEMORY;
    if (!us || !ids) *d = (tw_diag){.status = st, .offset = -1, .line = -1, .message = "out of memory"};
    snprintf(w->ceiling_of, sizeof w->ceiling_of, "reads");
    if (st == TW_OK) st = tw_engine_measure_bandwidth(b->e, &before, d);
    for (int64_t i = -1; i < b->repetitions && st == TW_OK; i++) {
        double seconds = 0;
        note(w->test);
        st = repeat_gpu(b, w, &r, ids, &seconds, us + (i < 0 ? count : w->apart ? i * n : 0), d);
        if (i < 0 || st != TW_OK) continue;
        w->samples[i] = seconds;
        rates[i] = (double)n / seconds;
        if (!w->apart) us[i] = seconds * 1e6 / (double)n;
    }
    if (st == TW_OK) st = tw_engine_measure_bandwidth(b->e, &after, d);
    for (int64_t i = 0; i < b->repetitions && st == TW_OK; i++)
        w->shares[i] = work / (before > after ? before : after) / w->samples[i];
    if (st == TW_OK) {
        summarise(b, w, rates, work);
        w->us = tw_stats_of(us, (size_t)count);
    }
    free(us);
    free(ids);
    return st;
}

static const char *unit_of(const bench *b, const row *w) {
    return w->decode || tw_engine_on_gpu(b->e) ? "B/s" : "FLOP/s";
}

/* Computes what a launch costs beyond its step, in microseconds per token. The row before w has one launch for all
   tokens. */
static double launch_cost(const row *w) {
    return w->us.median - w[-1].us.median;
}

static void print_md(const bench *b) {
    printf(
        "| model | stored | weights | packed | %s | test | tokens/s | µs a token, 10 to 90 %% | | ceiling, measured | "
        "share | correct |\n",
        tw_engine_on_gpu(b->e) ? "SMs" : "threads");
    printf("|---|---|---|---:|---:|---|---:|---:|---:|---:|---:|---|\n");
    for (int i = 0; i < b->n_rows; i++) {
        const row *w = &b->rows[i];
        const char *unit = unit_of(b, w);
        printf("| %s | %s %.2f B | %s | %.2f GB | %d | %s | %.2f ± %.2f | %.1f to %.1f | %.1f G%s | %.1f G%s, %s | "
               "%.1f %% | "
               "yes |\n",
               b->info.name, tw_dtype_name(b->info.dtype), (double)b->info.parameters / 1e9, b->weights,
               (double)tw_engine_tape_bytes(b->e) / 1e9, tw_engine_workers(b->e), w->test, w->rate.mean, w->rate.stddev,
               w->us.p10, w->us.p90, w->work / 1e9, unit, w->ceiling / 1e9, unit, w->ceiling_of, 100 * w->share);
    }
    for (int i = 0; i < b->n_rows; i++)
        if (b->rows[i].apart) printf("\na launch costs %.1f µs beside its step\n", launch_cost(&b->rows[i]));
    if (b->verdict.choices)
        printf("\n%lld choices of experts judged by a reference's scores, %lld of them not its own, but as good within "
               "rounding (worst %.2f of what is allowed)\n",
               (long long)b->verdict.choices, (long long)b->verdict.choices_close, b->verdict.worst_choice);
    cli_bench_memory_print(b->e);
}

static void print_csv(const bench *b) {
    printf("model,stored,parameters,weights,packed_bytes,threads,test,n,depth,tokens_per_second,stddev,median,work_per_"
           "second,ceiling,share,correct,device,us_per_token,p10_us,p90_us,ceiling_of\n");
    for (int i = 0; i < b->n_rows; i++) {
        const row *w = &b->rows[i];
        printf("\"%s\",%s,%lld,%s,%lld,%d,%s,%lld,%lld,%.4f,%.4f,%.4f,%.6g,%.6g,%.4f,true,\"%s\",%.3f,%.3f,%.3f,%s\n",
               b->info.name, tw_dtype_name(b->info.dtype), (long long)b->info.parameters, b->weights,
               (long long)tw_engine_tape_bytes(b->e), tw_engine_workers(b->e), w->test, (long long)w->n,
               (long long)w->depth, w->rate.mean, w->rate.stddev, w->rate.median, w->work, w->ceiling, w->share,
               tw_engine_device(b->e), w->us.median, w->us.p10, w->us.p90, w->ceiling_of);
    }
}

static json_t *row_json(const bench *b, const row *w) {
    json_t *samples = json_array(), *shares = json_array();
    for (int64_t k = 0; k < b->repetitions; k++) {
        json_array_append_new(samples, json_real(w->samples[k]));
        json_array_append_new(shares, json_real(w->shares[k]));
    }
    json_t *o = json_pack(
        "{s:s, s:s, s:I, s:s, s:I, s:i, s:s, s:I, s:I, s:f, s:f, s:f, s:s, s:f, s:f, s:f, s:b, s:f, s:o, s:o}", "model",
        b->info.name, "stored", tw_dtype_name(b->info.dtype), "parameters", (json_int_t)b->info.parameters, "weights",
        b->weights, "packed_bytes", (json_int_t)tw_engine_tape_bytes(b->e), "threads", tw_engine_workers(b->e), "test",
        w->test, "n", (json_int_t)w->n, "depth", (json_int_t)w->depth, "tokens_per_second", w->rate.mean, "stddev",
        w->rate.stddev, "median", w->rate.median, "unit", w->decode || tw_engine_on_gpu(b->e) ? "bytes/s" : "flop/s",
        "work", w->work, "ceiling", w->ceiling, "share", w->share, "correct", 1, "worst_logit", b->verdict.worst_logit,
        "samples_s", samples, "shares", shares);
    json_t *more =
        json_pack("{s:s, s:s, s:f, s:f, s:f, s:s}", "activations", b->activations, "device", tw_engine_device(b->e),
                  "us_per_token", w->us.median, "p10_us", w->us.p10, "p90_us", w->us.p90, "ceiling_of", w->ceiling_of);
    if (o && more) json_object_update(o, more);
    if (o && w->apart) json_object_set_new(o, "launch_cost_us", json_real(launch_cost(w)));
    json_decref(more);
    if (o && b->verdict.choices) {
        json_object_set_new(o, "choices", json_integer((json_int_t)b->verdict.choices));
        json_object_set_new(o, "choices_close", json_integer((json_int_t)b->verdict.choices_close));
        json_object_set_new(o, "worst_choice", json_real(b->verdict.worst_choice));
    }
    cli_bench_memory_add(o, b->e);
    return o;
}

static void print_json(const bench *b) {
    json_t *rows = json_array();
    for (int i = 0; i < b->n_rows; i++) json_array_append_new(rows, row_json(b, &b->rows[i]));
    cli_results_print(rows, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
}

/* Finds the number of positions that the kernels' check covers: the longest prompt. On a GPU it includes the positions
   that are in the cache before the timed ones. */
static int64_t longest_prompt(const bench *b) {
    int64_t n = 0;
    for (int i = 0; i < b->n_rows; i++) {
        const row *w = &b->rows[i];
        const int64_t prompt = (w->decode ? 0 : w->n) + (tw_engine_on_gpu(b->e) ? w->depth : 0);
        if (prompt > n) n = prompt;
    }
    return n;
}

static tw_status measure(bench *b, tw_diag *d) {
    bool gpu = tw_engine_on_gpu(b->e);
    note(gpu ? "comparing the kernel with the processor's" : "comparing the kernels with plainer ones");
    tw_status st = tw_engine_check_kernels(b->e, longest_prompt(b), 1, &b->verdict, d);
    for (int i = 0; i < b->n_rows && st == TW_OK; i++) st = (gpu ? measure_gpu_row : measure_row)(b, &b->rows[i], d);
    note("");
    return st;
}

/* Settings of the rows "run": those that most models come with, and greedy. */
static const tw_sampling drawn = {.temperature = 0.7, .top_k = 20, .top_p = 0.95, .seed = 1}, greedy = {.seed = 1};

/* The measurements, in the order of the rows. */
static const struct timing {
    const char *kind, *suffix;
    const tw_sampling *how;
    bool prompt, apart, gpu; /* `gpu`: measured on a GPU only. */
} timings[] = {{.kind = "pp", .suffix = "", .prompt = true},
               {.kind = "tg", .suffix = ""},
               {.kind = "tg", .suffix = " by single launches", .apart = true, .gpu = true},
               {.kind = "run", .suffix = " greedy", .how = &greedy, .gpu = true},
               {.kind = "run", .suffix = " temp 0.7 top-k 20 top-p 0.95", .how = &drawn, .gpu = true}};

static void add_row(bench *b, const struct timing *t, int64_t n, int64_t depth) {
    if (n < 1 || b->n_rows == MAX_ROWS) return;
    row *w = &b->rows[b->n_rows++];
    char at[32] = "";
    w->n = n;
    w->depth = depth;
    w->decode = !t->prompt;
    w->how = t->how;
    w->apart = t->apart;
    if (depth) snprintf(at, sizeof at, " @ d%lld", (long long)depth);
    snprintf(w->test, sizeof w->test, "%s%lld%s%s", t->kind, (long long)n, at, t->suffix);
}

/* Reads the lengths of prompts, and sorts them: the longest first. Returns how many there are. 0: `text` is not a list
   of lengths. */
static int prompt_lengths(const char *text, int64_t p[MAX_PROMPTS]) {
    int n = 0;
    for (char *end; n < MAX_PROMPTS; text = end + 1) {
        errno = 0;
        const int64_t x = strtoll(text, &end, 10);
        if (end == text || errno || x < 0 || x > 1 << 24) return 0;
        int at = n++;
        for (; at && p[at - 1] < x; at--) p[at] = p[at - 1];
        p[at] = x;
        if (!*end) return n;
        if (*end != ',') return 0;
    }
    return 0;
}

static int run(const cli_verb *verb, int argc, char **argv) {
    if (cli_is_network(argc, argv)) return cli_bench_network(argc, argv);
    if (argc && !strcmp(argv[0], "gemm")) return cli_bench_gemm(argc - 1, argv + 1);
    cli_model_flags m = {0};
    const char *path = NULL, *shape = NULL, *dtype = "bf16";
    const char *prompts = "512";
    int64_t p[MAX_PROMPTS], n = 128, depth = 0, sequences = 1;
    bench b = {.repetitions = 5, .format = "md"};
    bool explain = false, json = false;
    const cli_flag flags[] = {
        {"--shape", CLI_TEXT, &shape, "NAME",
         "random weights of a known shape instead of a model: llama-1b, llama-8b, ..."},
        {"--dtype", CLI_TEXT, &dtype, "f32|f16|bf16", "of --shape's weights (default bf16)"},
        {"-p", CLI_TEXT, &prompts, "N[,N...]", "prompt tokens, read at once (default 512; 0: skip)"},
        {"-n", CLI_INT, &n, "N", "tokens decoded one by one (default 128; 0: skip)"},
        {"-d", CLI_INT, &depth, "N", "tokens in the cache before either (default 0)"},
        {"-r", CLI_INT, &b.repetitions, "N", "repetitions (default 5)"},
        {"--sequences", CLI_INT, &sequences, "N", "prompts and tokens of N sequences together (default 1)"},
        {"-o", CLI_TEXT, &b.format, "md|csv|json", "how to print (default md)"},
        {"--json", CLI_FLAG, &json, NULL, "the same as -o json"},
        {"--explain", CLI_FLAG, &explain, NULL, "also who computes each product, on stderr"},
        CLI_MODEL_FLAGS(m),
    };
    int status, count;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, &path, 0, 1, &count, &status)) return status;
    tw_dtype t;
    if ((count == 1) == (shape != NULL)) return cli_usage("bench: needs a MODEL or --shape, one of them");
    if (!tw_dtype_from_name(dtype, &t) || t > TW_BF16)
        return cli_usage("--dtype: \"%s\" is not f32, f16 or bf16", dtype);
    if (json) b.format = "json";
    if (strcmp(b.format, "md") && strcmp(b.format, "csv") && strcmp(b.format, "json"))
        return cli_usage("-o: \"%s\" is not md, csv or json", b.format);
    const int lengths = prompt_lengths(prompts, p);
    if (!lengths) return cli_usage("-p: \"%s\" is not 1 to %d lengths with commas between them", prompts, MAX_PROMPTS);
    const int64_t longest = p[0];
    if (n < 0 || depth < 0 || b.repetitions < 1 || b.repetitions > MAX_REPETITIONS || longest + n + depth > 1 << 24)
        return cli_usage("-p, -n, -d, -r: out of range");
    if (sequences < 1 || sequences > 128)
        return cli_usage("--sequences: %lld is not within 1..128", (long long)sequences);
    if (sequences > 1 && (depth || lengths > 1 || explain))
        return cli_usage("bench: --sequences goes with one length of -p, without -d and --explain");
    tw_model *model = NULL;
    tw_engine_options o;
    tw_diag d;
    tw_status st = cli_engine_options(&m, &o, &d);
    b.activations = tw_activations_name(o.activations);
    b.weights = o.weights == TW_I8 ? "int8" : o.weights == TW_I4 ? "int4" : "native"; /* A file may have set it. */
    const int64_t positions = sequences > 1 ? longest + n : longest > n ? longest : n;
    if (!o.context && !m.config.lowering.max_seq) o.context = depth + positions + 8;
    note("loading");
    if (st == TW_OK) st = shape ? tw_model_synthetic(&model, shape, t, 1, &d) : tw_model_open(&model, path, &d);
    const cli_bench_sequences many = {sequences, longest, n, b.repetitions, b.weights, b.format};
    if (st == TW_OK && sequences > 1) {
        st = cli_bench_sequences_run(&many, model, &o, &d);
        note("");
        tw_model_close(model);
        return st == TW_OK ? CLI_OK : cli_fail(&d);
    }
    if (st == TW_OK) st = tw_engine_open(&b.e, model, &o, &d);
    if (st == TW_OK) {
        tw_model_describe(model, &b.info);
        for (size_t i = 0; i < sizeof timings / sizeof *timings; i++) {
            if (timings[i].gpu && !tw_engine_on_gpu(b.e)) continue;
            for (int k = 0; k < (timings[i].prompt ? lengths : 1); k++)
                add_row(&b, &timings[i], timings[i].prompt ? p[k] : n, depth);
        }
        st = measure(&b, &d);
    }
    if (st == TW_OK) (!strcmp(b.format, "md") ? print_md : !strcmp(b.format, "csv") ? print_csv : print_json)(&b);
    if (st == TW_OK && explain) {
        char text[1 << 14];
        tw_engine_explain(b.e, text, sizeof text);
        const size_t length = strlen(text);
        fprintf(stderr, "%s%s", text, length && text[length - 1] != '\n' ? "\n" : "");
    }
    tw_engine_close(b.e);
    tw_model_close(model);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_bench = {
    "bench", "MODEL|M.onnx|M.tw",
    "tokens per second beside what this machine could do (tilewright bench M.onnx --help: ONNX models)",
    "tilewright bench --shape llama-1b --weights int8 -p 128,512 -n 64", run};
