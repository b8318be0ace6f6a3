/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* Decode on a GPU for several ways of building the machine: microseconds a step of greedy launches at several depths of
   context, of one sequence or several together, the logits of a short prompt first compared with the processor's.
   docs/bench.md says more. */
#include "base/diag.h"
#include "base/stats.h"
#include "schedule/schedule.h"
#include "tilewright/model.h"
#include "vm/cuda/bandwidth.h"
#include "vm/cuda/vm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROMPT = 6,
    LAUNCHES = 30,
    CONTEXT = 8192,
    CHUNK = 64,
};
#define TOLERANCE 0.01 /* of the largest logit: a cache of bf16 */

typedef struct options {
    const char *shape, *weights, *depths, *tunings, *target;
    int tokens; /* of a launch, and sequence */
    int batch;  /* sequences */
    bool unchecked, trace;
    int64_t consecutive; /* tokens of --long */
    double ceiling;      /* bytes a second that plain reads reach */
} options;

/* Of the worst difference: -1, nothing was compared; one that is no number is false. */
static const char *verdict(double worst) {
    return worst < 0 ? "null" : worst <= TOLERANCE ? "true" : "false";
}

/* As JSON has it, which knows of no number that is none. */
static const char *number(char text[32], double x) {
    snprintf(text, 32, isfinite(x) && x >= 0 ? "%.3g" : "null", x);
    return text;
}

static int complain(const char *what, const tw_diag *d) {
    fprintf(stderr, "decode: %s: %s\n", what, d->message);
    return 1;
}

static tw_dtype weights_of(const char *name) {
    return !strcmp(name, "int8") ? TW_I8 : !strcmp(name, "int4") ? TW_I4 : TW_F32;
}

static tw_status lower(const tw_model *m, tw_lowering l, tw_checked **out, tw_diag *d) {
    tw_schedule *s = NULL;
    tw_status st = tw_schedule_lower(&s, m, &l, d);
    if (st == TW_OK) st = tw_schedule_check(out, &s, NULL, d);
    return st;
}

/* The processor's logits after a prompt. */
static tw_status reference(const tw_model *m, tw_dtype weights, int64_t vocab, float *logits, tw_diag *d) {
    tw_vm *vm = NULL;
    tw_checked *c = NULL;
    int id;
    tw_vm_options o = {.workers = 16, .no_vendor = true};
    tw_status st = tw_vm_open(&vm, m, &o, d);
    if (st == TW_OK) st = lower(m, (tw_lowering){.workers = 16, .tokens = 1, .max_seq = 64, .weights = weights}, &c, d);
    if (st == TW_OK) st = tw_vm_load(vm, c, &id, d);
    for (int32_t i = 0; i < PROMPT && st == TW_OK; i++) {
        int32_t token = 17 * i + 3;
        tw_vm_step s = {.program = id, .tokens = &token, .n = 1, .pos = i};
        st = tw_vm_run(vm, &s, d);
        if (st == TW_OK) memcpy(logits + i * vocab, s.logits, (size_t)vocab * sizeof *logits);
    }
    tw_vm_close(vm);
    tw_checked_free(c);
    return st;
}

/* The largest difference, over the largest logit. */
static double differ(const float *got, const float *want, int64_t vocab) {
    double largest = 0, error = 0;
    for (int64_t k = 0; k < vocab; k++) {
        largest = fmax(largest, fabs((double)want[k]));
        double e = fabs((double)got[k] - (double)want[k]);
        error = e > error || isnan(e) ? e : error;
    }
    return error / largest;
}

/* The largest of all steps' differences in *worst; one that is no number ends the search, so that nothing hides it.
   Sequence s is s steps behind the first, so that positions differ; those that are through begin again, and those that
   have not begun stand at position 0. */
static tw_status compare(tw_cuda_vm *vm, int id, int batch, int64_t vocab, const float *want, double *worst,
                         tw_diag *d) {
    tw_status st = TW_OK;
    *worst = 0;
    for (int i = 0; i < PROMPT + batch - 1 && st == TW_OK && !isnan(*worst); i++) {
        int32_t token[TW_CUDA_VM_TOKENS], out[TW_CUDA_VM_TOKENS];
        int64_t at[TW_CUDA_VM_TOKENS];
        const float *logits;
        for (int s = 0; s < batch; s++) {
            at[s] = i < s ? 0 : (i - s) % PROMPT;
            token[s] = (int32_t)(17 * at[s] + 3);
        }
        st = tw_cuda_vm_batch(vm, id, token, at, 1, out, &logits, NULL, d);
        for (int s = 0; s < batch && st == TW_OK && !isnan(*worst); s++) {
            const double e = differ(logits + s * vocab, want + at[s] * vocab, vocab);
            if (!(e <= *worst)) *worst = e;
        }
    }
    return st;
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

/* `kv`: bytes that a position has in the cache. */
static int time_depth(tw_cuda_vm *vm, int id, const options *o, long depth, int64_t kv, const char *label,
                      double worst) {
    tw_diag d;
    char difference[32];
    double us[LAUNCHES];
    static int32_t out[TW_CUDA_VM_GREEDY * TW_CUDA_VM_TOKENS];
    for (int i = -3; i < LAUNCHES; i++) {
        double one;
        int32_t begin[TW_CUDA_VM_TOKENS];
        int64_t at[TW_CUDA_VM_TOKENS];
        for (int s = 0; s < o->batch; s++) {
            begin[s] = 1 + i + 3 + 5 * s;
            at[s] = depth - 1;
        }
        if (tw_cuda_vm_batch(vm, id, begin, at, o->tokens, out, NULL, &one, &d) != TW_OK) return complain("run", &d);
        if (i >= 0) us[i] = one / o->tokens;
    }
    tw_stats s = tw_stats_of(us, LAUNCHES);
    const int64_t bytes = tw_cuda_vm_streamed_bytes(vm) + kv * depth * o->batch;
    printf("{\"case\": \"%s %s\", \"depth\": %ld, \"config\": \"%s\", \"ours_us\": %.2f, \"p10\": %.2f, \"p90\": %.2f, "
           "\"tokens_a_launch\": %d, \"batch\": %d, \"bytes\": %lld, \"gb_per_s\": %.1f, \"ceiling_gb_per_s\": %.1f, "
           "\"worst_logit\": %s, \"correct\": %s}\n",
           o->shape, o->weights, depth, label, s.median, s.p10, s.p90, o->tokens, o->batch, (long long)bytes,
           (double)bytes / s.median * 1e-3, o->ceiling * 1e-9, number(difference, worst), verdict(worst));
    fflush(stdout);
    return o->trace ? show_trace(vm, id) : 0;
}

/* Tokens one after another, as far as the context goes and then from its start again; then once more, a launch for each
   of CHUNK in place of one for all: every token must be the same. The first and the last pass over the same depths are
   timed. */
static int run_long(tw_cuda_vm *vm, int id, const options *o, double worst) {
    tw_diag d;
    const int64_t n = o->consecutive, pass = n < CONTEXT / 2 ? n : CONTEXT / 2;
    int32_t *first = malloc((size_t)n * sizeof *first), *again = malloc((size_t)n * sizeof *again);
    if (!first || !again) return 1;
    double begin = 0, end = 0, us;
    int64_t different = 0;
    char difference[32];
    for (int64_t at = 0, k; at < n; at += k) {
        k = n - at < pass ? n - at : pass;
        const int32_t token = (int32_t)(at / pass * 7 + 1);
        if (tw_cuda_vm_greedy(vm, id, token, 0, k, first + at, &us, &d) != TW_OK) return complain("long", &d);
        if (!at) begin = us / (double)k;
        if (k == pass) end = us / (double)k;
        for (int64_t i = 0, c; i < k; i += c) {
            c = k - i < CHUNK ? k - i : CHUNK;
            int32_t from = i ? again[at + i - 1] : token;
            if (tw_cuda_vm_greedy(vm, id, from, i, c, again + at + i, &us, &d) != TW_OK) return complain("long", &d);
        }
    }
    for (int64_t i = 0; i < n; i++) different += first[i] != again[i];
    printf("{\"case\": \"%s %s, %lld consecutive tokens\", \"different\": %lld, \"first_us\": %.2f, \"last_us\": %.2f, "
           "\"worst_logit\": %s, \"correct\": %s}\n",
           o->shape, o->weights, (long long)n, (long long)different, begin, end, number(difference, worst),
           different ? "false" : verdict(worst));
    free(first);
    free(again);
    return different != 0;
}

/* The machine with a program, and one that decodes while the past is short, in place of which the other may stand. */
typedef struct programs {
    tw_cuda_vm *vm;
    tw_checked *checked[2];
    int id[2];
    int64_t short_past; /* 0: one program for all */
    double worst;       /* of the logits of both */
} programs;

static tw_status load_programs(programs *p, const tw_model *m, tw_lowering *l, tw_diag *d) {
    tw_cuda_vm_lowering(p->vm, l);
    p->short_past = l->kv_splits ? 0 : tw_cuda_vm_short_past(p->vm, l);
    tw_status st = lower(m, *l, &p->checked[0], d);
    if (st == TW_OK) st = tw_cuda_vm_load(p->vm, p->checked[0], &p->id[0], d);
    if (st != TW_OK || !p->short_past) return st;
    tw_lowering unsplit = *l;
    unsplit.kv_splits = 1;
    st = lower(m, unsplit, &p->checked[1], d);
    return st == TW_OK ? tw_cuda_vm_load(p->vm, p->checked[1], &p->id[1], d) : st;
}

static tw_status compare_programs(programs *p, const options *o, int64_t vocab, const float *want, tw_diag *d) {
    tw_status st = TW_OK;
    for (int i = 0; i < 1 + (p->short_past > 0) && st == TW_OK && !isnan(p->worst); i++) {
        double worst;
        st = compare(p->vm, p->id[i], o->batch, vocab, want, &worst, d);
        if (!(worst <= p->worst)) p->worst = worst;
    }
    return st;
}

/* 1: something failed, or the logits are not the processor's. */
static int run_tuning(const tw_model *m, const options *o, const char *label, const tw_model_info *info,
                      const float *want) {
    tw_diag d;
    programs p = {.worst = -1};
    int failed = 0, splits = 0;
    tw_cuda_vm_options v = {.trace = o->trace, .target = o->target};
    sscanf(label, "%d/%d/%d/%d/%d/%d", &v.tuning.warps, &v.tuning.blocks, &v.tuning.stages, &v.tuning.window, &splits,
           &v.tuning.edges);
    if (tw_cuda_vm_open(&p.vm, m, &v, &d) != TW_OK) return complain("open", &d);
    tw_lowering l = {.sequences = o->batch, .max_seq = CONTEXT, .weights = weights_of(o->weights), .kv_splits = splits};
    tw_status st = load_programs(&p, m, &l, &d);
    if (st == TW_OK && want) st = compare_programs(&p, o, info->vocab, want, &d);
    if (st != TW_OK) failed = complain(label, &d);
    if (!failed && o->consecutive) failed = run_long(p.vm, p.id[0], o, p.worst);
    const int64_t kv = 2 * info->layers * info->kv_heads * info->head_dim * (int64_t)tw_dtype_bits(l.kv) / 8;
    char *depths = strdup(o->depths), *rest = depths;
    for (char *one; !failed && (one = strsep(&rest, ","));) {
        const bool is_short = atol(one) + o->tokens - 1 <= p.short_past;
        failed = time_depth(p.vm, p.id[is_short], o, atol(one), kv, label, p.worst);
    }
    free(depths);
    tw_cuda_vm_close(p.vm);
    for (int i = 0; i < 2; i++) tw_checked_free(p.checked[i]);
    return failed || !strcmp(verdict(p.worst), "false");
}

int main(int count, char **words) {
    options o = {.shape = "llama-1b", .weights = "native", .depths = "1,1024,4096", .tunings = "0/0/0/0", .tokens = 16};
    o.batch = 1;
    for (int i = 1; i < count; i++) {
        const char *next = i + 1 < count ? words[i + 1] : "";
        if (!strcmp(words[i], "--shape"))
            o.shape = next, i++;
        else if (!strcmp(words[i], "--weights"))
            o.weights = next, i++;
        else if (!strcmp(words[i], "--depths"))
            o.depths = next, i++;
        else if (!strcmp(words[i], "--tunings"))
            o.tunings = next, i++;
        else if (!strcmp(words[i], "--target"))
            o.target = next, i++;
        else if (!strcmp(words[i], "--tokens"))
            o.tokens = atoi(next), i++;
        else if (!strcmp(words[i], "--batch"))
            o.batch = atoi(next), i++;
        else if (!strcmp(words[i], "--unchecked"))
            o.unchecked = true;
        else if (!strcmp(words[i], "--long"))
            o.consecutive = atoll(next), i++;
        else if (!strcmp(words[i], "--trace"))
            o.trace = true;
        else {
            fprintf(stderr, "usage: decode [--shape NAME] [--weights native|int8|int4] [--depths N,N] [--tunings "
                            "WARPS/BLOCKS/STAGES/WINDOW/SPLITS/EDGES,...] [--tokens N] [--batch N] [--long N] "
                            "[--target sm_80] [--unchecked] [--trace]\n");
            return 2;
        }
    }
    if (o.batch < 1 || o.batch > TW_CUDA_VM_TOKENS || o.tokens < 1 || o.tokens > TW_CUDA_VM_GREEDY) {
        fprintf(stderr, "decode: a batch is of 1 to %d sequences, a launch of 1 to %d tokens of each\n",
                TW_CUDA_VM_TOKENS, TW_CUDA_VM_GREEDY);
        return 2;
    }
    tw_diag d;
    tw_model *m = NULL;
    if (tw_model_synthetic(&m, o.shape, TW_BF16, 1, &d) != TW_OK) return complain("model", &d);
    tw_model_info info;
    tw_model_describe(m, &info);
    float *want = o.unchecked ? NULL : malloc(PROMPT * (size_t)info.vocab * sizeof *want);
    int failed = 0;
    if (tw_cuda_measure_bandwidth(0, &o.ceiling, &d) != TW_OK) return complain("bandwidth", &d);
    if (want && reference(m, weights_of(o.weights), info.vocab, want, &d) != TW_OK) failed = complain("reference", &d);
    char *tunings = strdup(o.tunings), *rest = tunings;
    const int ready = !failed; /* one tuning that fails keeps no other from its turn */
    for (char *one; ready && (one = strsep(&rest, ","));) failed |= run_tuning(m, &o, one, &info, want);
    free(tunings);
    free(want);
    tw_model_close(m);
    return failed;
}
