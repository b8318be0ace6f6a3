/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* Decode on a GPU for several ways of building the machine: microseconds a step of greedy launches at several depths of
   context, of one sequence or several together. The very launches that are timed are first held against a reference,
   each sequence on contents of its own (decode_evidence.h). docs/bench.md says more. */
#include "base/diag.h"
#include "base/stats.h"
#include "decode_evidence.h"
#include "model/model.h"
#include "tune/gpu_bandwidth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAUNCHES = 30,
    CACHE = 8192,
    CHUNK = 64,
};

/* Times the weights of the queries. Attention of a random model is nearly flat, so that of thousands of positions none
   matters; now some few decide, and which they are depends on all. A power of two: every type holds them as before. */
#define SHARPEN 2.0f

typedef struct options {
    const char *shape, *weights, *depths, *contexts, *tunings, *target, *serve;
    int tokens;   /* of a launch, and sequence */
    int batch;    /* sequences */
    int launches; /* that are timed */
    int layers;   /* the model's first ones; 0: all */
    int64_t cache;
    bool unchecked, trace, emulate;
    evidence_spoil spoil;
    int64_t consecutive; /* tokens of --long */
    double ceiling;      /* bytes a second that plain reads reach; 0: emulated, not known */
} options;

/* As JSON has it, which knows of no number that is none. */
static const char *number(char text[32], double x) {
    snprintf(text, 32, isfinite(x) ? "%.3g" : "null", x);
    return text;
}

static const char *rate(char text[32], double bytes_per_second) {
    snprintf(text, 32, bytes_per_second > 0 ? "%.1f" : "null", bytes_per_second * 1e-9);
    return text;
}

static const char *verdict(const evidence_verdict *v) {
    return !v || v->judged < v->expected ? "null" : evidence_holds(v) ? "true" : "false";
}

static int complain(const char *what, const tw_diag *d) {
    fprintf(stderr, "decode: %s: %s\n", what, d->message);
    return 1;
}

static tw_dtype weights_of(const char *name) {
    return !strcmp(name, "int8") ? TW_I8 : !strcmp(name, "int4") ? TW_I4 : TW_F32;
}

/* What the reference thinks of each context. 1: something is wrong. */
static int print_evidence(const evidence *e, const options *o, const char *reference) {
    int failed = 0;
    for (int i = 0; i < evidence_count(e); i++) {
        const evidence_verdict *v = evidence_at(e, i);
        char worst[32];
        printf("{\"case\": \"%s %s, batch %d, context %lld\", \"evidence\": \"%s\", \"tokens_a_launch\": %d, "
               "\"worst_logit\": %s, \"tokens_equal\": %lld, \"tokens_close\": %lld, \"tokens_wrong\": %lld, "
               "\"correct\": %s}\n",
               o->shape, o->weights, o->batch, (long long)v->context, reference, o->tokens, number(worst, v->worst),
               (long long)v->equal, (long long)v->close, (long long)v->wrong, verdict(v));
        failed |= !evidence_holds(v);
    }
    fflush(stdout);
    return failed;
}

/* Where the last step's time went, by kind of instruction: the mean of each phase and, in brackets, the largest, in
   clocks of an SM. */
static int show_trace(tw_cuda_vm *vm, int id) {
    static const char *const phases[] = {"wait", "prepare", "multiply", "finish", "arrive"};
    tw_cuda_vm_times t[TW_CUDA_VM_KINDS];
    tw_diag d;
    if (tw_cuda_vm_trace(vm, id, t, &d) != TW_OK) return complain("trace", &d);
    for (int k = 0; k < TW_CUDA_VM_KINDS; k++) {
        if (!t[k].count) continue;
        printf("%-8s %6d", t[k].name, t[k].count);
        for (int i = 0; i < TW_CUDA_VM_PHASES; i++)
            printf("  %s %6.0f (%6.0f)", phases[i], t[k].clocks[i], t[k].most[i]);
        printf("\n");
    }
    return 0;
}

static int time_depth(decode_machine *m, evidence *e, const options *o, int64_t depth, const char *label) {
    enum { MOST = 1000 };
    static int32_t out[TW_CUDA_VM_GREEDY * TW_CUDA_VM_TOKENS];
    tw_diag d;
    double us[MOST];
    const int id = decode_machine_decoder(m, depth + o->tokens - 1), launches = o->launches < MOST ? o->launches : MOST;
    const int64_t room = o->cache - o->tokens;
    if (evidence_fill(e, depth, &d) != TW_OK) return complain("fill", &d);
    for (int i = -3; i < launches; i++) {
        double one;
        int32_t begin[TW_CUDA_VM_TOKENS];
        int64_t at[TW_CUDA_VM_TOKENS];
        for (int s = 0; s < o->batch; s++) {
            begin[s] = (1 + i + 3 + 5 * s) % (int32_t)m->model->vocab;
            at[s] = depth - 1 < room ? depth - 1 : room;
        }
        if (tw_cuda_vm_batch(m->vm, id, begin, at, o->tokens, out, NULL, &one, &d) != TW_OK) return complain("run", &d);
        if (i >= 0) us[i] = one / o->tokens;
    }
    const tw_stats s = tw_stats_of(us, (size_t)launches);
    const evidence_verdict *v = evidence_find(e, depth);
    const int64_t bytes = decode_machine_bytes(m, depth);
    char worst[32], ceiling[32];
    printf(
        "{\"case\": \"%s %s\", \"depth\": %lld, \"config\": \"%s\", \"ours_us\": %.2f, \"p10\": %.2f, \"p90\": %.2f, "
        "\"tokens_a_launch\": %d, \"batch\": %d, \"bytes\": %lld, \"gb_per_s\": %.1f, \"ceiling_gb_per_s\": %s, "
        "\"worst_logit\": %s, \"correct\": %s}\n",
        o->shape, o->weights, (long long)depth, label, s.median, s.p10, s.p90, o->tokens, o->batch, (long long)bytes,
        (double)bytes / s.median * 1e-3, rate(ceiling, o->ceiling), number(worst, v && v->judged ? v->worst : NAN),
        verdict(v));
    fflush(stdout);
    return o->trace ? show_trace(m->vm, id) : 0;
}

/* Tokens one after another, as far as the context goes and then from its start again; then once more, a launch for each
   of CHUNK in place of one for all: every token must be the same. The first and the last pass over the same depths are
   timed. */
static int run_long(tw_cuda_vm *vm, int id, const options *o) {
    tw_diag d;
    const int64_t n = o->consecutive, pass = n < o->cache / 2 ? n : o->cache / 2;
    int32_t *first = malloc((size_t)n * sizeof *first), *again = malloc((size_t)n * sizeof *again);
    if (!first || !again) return 1;
    double begin = 0, end = 0, us;
    int64_t different = 0;
    for (int64_t at = 0, k; at < n; at += k) {
        k = n - at < pass ? n - at : pass;
        const int32_t token = (int32_t)(at / pass * 7 + 1);
        if (tw_cuda_vm_batch(vm, id, &token, &(int64_t){0}, k, first + at, NULL, &us, &d) != TW_OK)
            return complain("long", &d);
        if (!at) begin = us / (double)k;
        if (k == pass) end = us / (double)k;
        for (int64_t i = 0, c; i < k; i += c) {
            c = k - i < CHUNK ? k - i : CHUNK;
            const int32_t *from = i ? &again[at + i - 1] : &token;
            if (tw_cuda_vm_batch(vm, id, from, &i, c, again + at + i, NULL, &us, &d) != TW_OK)
                return complain("long", &d);
        }
    }
    for (int64_t i = 0; i < n; i++) different += first[i] != again[i];
    printf("{\"case\": \"%s %s, %lld consecutive tokens\", \"different\": %lld, \"first_us\": %.2f, \"last_us\": %.2f, "
           "\"correct\": %s}\n",
           o->shape, o->weights, (long long)n, (long long)different, begin, end, different ? "false" : "true");
    free(first);
    free(again);
    return different != 0;
}

/* A list of depths or contexts; how many there are, -1 where one is none. "end": the cache's. */
static int numbers(const char *list, int64_t cache, int64_t *out, int most) {
    int n = 0;
    char *copy = strdup(list), *rest = copy;
    for (char *one; copy && n >= 0 && (one = strsep(&rest, ","));) {
        const int64_t x = !strcmp(one, "end") ? cache : atoll(one);
        if (!*one) continue;
        if (x < 1 || x > cache || n == most)
            n = -1;
        else
            out[n++] = x;
    }
    free(copy);
    return n;
}

static int ascending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* What is timed, and the other contexts that are asked for, each once. */
static int contexts_of(const options *o, int64_t *out) {
    int n = numbers(o->depths, o->cache, out, EVIDENCE_CONTEXTS), kept = 0;
    const int more = n < 0 ? n : numbers(o->contexts, o->cache, out + n, EVIDENCE_CONTEXTS - n);
    if (more < 0) return -1;
    n += more;
    qsort(out, (size_t)n, sizeof *out, ascending);
    for (int i = 0; i < n; i++)
        if (!kept || out[kept - 1] != out[i]) out[kept++] = out[i];
    return kept;
}

/* 1: it could not be measured. */
static int measure_ceiling(options *o) {
    tw_diag d;
    if (o->emulate || tw_cuda_measure_bandwidth(0, &o->ceiling, &d) == TW_OK) return 0;
    return complain("bandwidth", &d);
}

static tw_status gather(evidence **e, decode_machine *m, const options *o, tw_diag *d) {
    int64_t contexts[EVIDENCE_CONTEXTS] = {0};
    const int n = o->unchecked ? 0 : contexts_of(o, contexts);
    tw_status st = evidence_new(e, m, contexts, n, o->tokens, d);
    if (st == TW_OK) st = evidence_collect(*e, d);
    if (st == TW_OK && n > 0) evidence_spoil_at(*e, contexts[n - 1], o->spoil);
    return st;
}

static int time_depths(decode_machine *m, evidence *e, const options *o, const char *depths, const char *label) {
    int64_t depth[EVIDENCE_CONTEXTS];
    const int n = numbers(depths, o->cache, depth, EVIDENCE_CONTEXTS);
    int failed = n < 0;
    for (int i = 0; i < n && !failed; i++) failed = time_depth(m, e, o, depth[i], label);
    return failed;
}

/* One command a line, each answered by lines of JSON and an empty one:
     check                the launches; a record for a reference elsewhere is then in DIR/record.json
     answer               the processor's machine is that reference
     judge REFERENCE      of what it wrote to DIR/reference.f32: a line a context
     time DEPTH,...       a line a depth, with the verdict on that context */
static int serve(decode_machine *m, const options *o, const char *label) {
    char line[256], record[4096], answers[4096];
    evidence *e = NULL;
    tw_diag d;
    int failed = 0;
    snprintf(record, sizeof record, "%s/record.json", o->serve);
    snprintf(answers, sizeof answers, "%s/reference.f32", o->serve);
    printf("{\"ready\": true}\n\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        char *rest = line, *word = strsep(&rest, " \n"), *argument = rest ? strsep(&rest, " \n") : NULL;
        if (!strcmp(word, "check")) {
            evidence_free(e);
            tw_status st = gather(&e, m, o, &d);
            if (st == TW_OK) st = evidence_write(e, record, &d);
            if (st != TW_OK) failed = complain("check", &d);
            if (st == TW_OK) printf("{\"record\": true}\n");
        } else if (!strcmp(word, "answer") && e) {
            if (evidence_answer_cpu(e, answers, &d) != TW_OK) failed = complain("answer", &d);
        } else if (!strcmp(word, "judge") && e && argument) {
            if (evidence_judge_file(e, answers, &d) != TW_OK) failed = complain("judge", &d);
            failed |= print_evidence(e, o, argument);
        } else if (!strcmp(word, "time") && e && argument) {
            options now = *o; /* others may have used the device while the machine was made */
            failed |= measure_ceiling(&now) || time_depths(m, e, &now, argument, label);
        } else {
            fprintf(stderr, "decode: no such command: %s\n", word);
            failed = 1;
        }
        printf("\n");
        fflush(stdout);
    }
    evidence_free(e);
    return failed;
}

static int measure(decode_machine *m, const options *o, const char *label) {
    evidence *e = NULL;
    tw_diag d;
    int failed = 0;
    tw_status st = gather(&e, m, o, &d);
    if (st == TW_OK && !o->unchecked) st = evidence_judge_cpu(e, &d);
    failed = st != TW_OK ? complain("check", &d) : print_evidence(e, o, "processor");
    if (o->consecutive) failed |= run_long(m->vm, m->id[DECODE_ANY], o);
    if (e) failed |= time_depths(m, e, o, o->depths, label);
    evidence_free(e);
    return failed;
}

/* 1: something failed, or an answer is not the reference's. */
static int run_tuning(const tw_model *model, const options *o, const char *label) {
    tw_diag d;
    decode_machine m;
    int splits = 0, down = 0;
    tw_cuda_vm_options v = {.trace = o->trace, .target = o->target, .emulate = o->emulate};
    sscanf(label, "%d/%d/%d/%d/%d/%d/%d/%d", &v.tuning.warps, &v.tuning.blocks, &v.tuning.stages, &v.tuning.window,
           &splits, &v.tuning.edges, &v.tuning.ahead, &down);
    const tw_lowering l = {.sequences = o->batch,
                           .max_seq = o->cache,
                           .weights = weights_of(o->weights),
                           .kv_splits = splits,
                           .down_splits = down};
    const tw_status st = decode_machine_open(&m, model, &v, &l, &d);
    const int failed = st != TW_OK ? complain(label, &d) : (o->serve ? serve : measure)(&m, o, label);
    decode_machine_close(&m);
    return failed;
}

static const char usage[] =
    "usage: bench_decode [--shape NAME] [--layers N] [--weights native|int8|int4] [--depths N,N] [--contexts N,end] "
    "[--batch N]\n"
    "                    [--tokens N] [--cache N] [--launches N] [--tunings "
    "WARPS/BLOCKS/STAGES/WINDOW/SPLITS/EDGES/AHEAD/DOWN,...]\n"
    "                    [--long N] [--target sm_80] [--unchecked] [--trace] [--serve DIR] [--emulate]\n"
    "                    [--spoil logit|nan|token]\n";

static evidence_spoil spoil_of(const char *name) {
    return !strcmp(name, "logit")   ? EVIDENCE_LOGIT
           : !strcmp(name, "nan")   ? EVIDENCE_NAN
           : !strcmp(name, "token") ? EVIDENCE_TOKEN
                                    : EVIDENCE_SOUND;
}

/* Words and their values; false: one is unknown, or has none. */
static bool read_options(options *o, int count, char **words) {
    for (int i = 1; i < count; i++) {
        const char *w = words[i];
        bool *flag = !strcmp(w, "--unchecked") ? &o->unchecked
                     : !strcmp(w, "--trace")   ? &o->trace
                     : !strcmp(w, "--emulate") ? &o->emulate
                                               : NULL;
        if (flag) {
            *flag = true;
            continue;
        }
        const struct {
            const char *name, **text;
            int *number;
            int64_t *large;
        } known[] = {
            {"--shape", &o->shape, 0, 0},       {"--weights", &o->weights, 0, 0}, {"--depths", &o->depths, 0, 0},
            {"--contexts", &o->contexts, 0, 0}, {"--tunings", &o->tunings, 0, 0}, {"--target", &o->target, 0, 0},
            {"--serve", &o->serve, 0, 0},       {"--tokens", 0, &o->tokens, 0},   {"--batch", 0, &o->batch, 0},
            {"--launches", 0, &o->launches, 0}, {"--layers", 0, &o->layers, 0},   {"--cache", 0, 0, &o->cache},
            {"--long", 0, 0, &o->consecutive}};
        const char *value = i + 1 < count ? words[++i] : NULL;
        bool found = value && !strcmp(w, "--spoil");
        if (found) o->spoil = spoil_of(value);
        for (size_t k = 0; k < sizeof known / sizeof *known && value && !found; k++) {
            found = !strcmp(w, known[k].name);
            if (found && known[k].text) *known[k].text = value;
            if (found && known[k].number) *known[k].number = atoi(value);
            if (found && known[k].large) *known[k].large = atoll(value);
        }
        if (!found) return false;
    }
    return true;
}

/* What would go wrong later is refused here. */
static const char *refusal(const options *o) {
    int64_t contexts[EVIDENCE_CONTEXTS] = {0};
    if (o->batch < 1 || o->batch > TW_CUDA_VM_TOKENS) return "a batch is of 1 to 8 sequences";
    if (o->tokens < 1 || o->tokens > EVIDENCE_STEPS) return "a launch is of 1 to 64 tokens of each sequence";
    if (o->cache < o->tokens) return "the cache has no room for a launch";
    if (o->launches < 1) return "at least one launch is timed";
    if (o->layers < 0) return "a model has layers";
    if (contexts_of(o, contexts) < 0) return "depths and contexts are numbers within the cache, 16 at most, or end";
    return NULL;
}

int main(int count, char **words) {
    options o = {.shape = "llama-1b",
                 .weights = "native",
                 .depths = "1,1024,4096",
                 .contexts = "",
                 .tunings = "0/0/0/0",
                 .tokens = 16,
                 .batch = 1,
                 .launches = LAUNCHES,
                 .cache = CACHE};
    const bool understood = read_options(&o, count, words);
    const char *why = understood ? refusal(&o) : NULL;
    if (!understood || why) {
        fprintf(stderr, "%s%s%s", why ? "bench_decode: " : "", why ? why : usage, why ? "\n" : "");
        return 2;
    }
    tw_diag d;
    tw_model *m = NULL;
    if (tw_model_synthetic(&m, o.shape, TW_BF16, 1, &d) != TW_OK) return complain("model", &d);
    if (o.layers > 0 && o.layers < m->n_layers) m->n_layers = o.layers;
    for (int64_t i = 0; i < m->n_layers; i++) m->layers[i].q.weight.scale *= SHARPEN;
    int failed = 0;
    if (!o.serve) failed = measure_ceiling(&o);
    char *tunings = strdup(o.tunings), *rest = tunings;
    const int ready = !failed && tunings; /* one tuning that fails keeps no other from its turn */
    for (char *one; ready && (one = strsep(&rest, ","));) failed |= run_tuning(m, &o, one);
    free(tunings);
    tw_model_close(m);
    return failed;
}
