/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "decode_evidence.h"

#include "base/diag.h"
#include "base/random.h"
#include "base/thread.h"
#include "model/parts.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SKEW = 13,   /* positions that each sequence is behind the one before it */
    PROMPT = 64, /* positions a step of the processor's machine */
};

/* One launch's answers. */
typedef struct launch {
    int64_t begin[TW_CUDA_VM_TOKENS]; /* the position of each sequence's first token */
    int32_t *found;                   /* [steps][batch] */
    float *logits;                    /* [batch][vocab] of the last step */
} launch;

struct evidence {
    decode_machine *m;
    int steps, batch, n;
    int64_t vocab, cache;
    evidence_verdict verdicts[EVIDENCE_CONTEXTS];
    launch launches[EVIDENCE_CONTEXTS];
    int32_t *fed[TW_CUDA_VM_TOKENS];   /* [cache] by position */
    int64_t filled[TW_CUDA_VM_TOKENS]; /* positions that hold a sequence's own contents */
    tw_random random[TW_CUDA_VM_TOKENS];
};

tw_status evidence_new(evidence **out, decode_machine *m, const int64_t *contexts, int n, int steps, tw_diag *d) {
    *out = NULL;
    const int64_t cache = m->lowering.max_seq;
    if (n > EVIDENCE_CONTEXTS || steps < 1 || steps > EVIDENCE_STEPS || steps > cache)
        return tw_fail(d, TW_ERR_USAGE, "at most %d contexts, and launches of 1 to %d tokens within the cache",
                       EVIDENCE_CONTEXTS, EVIDENCE_STEPS);
    evidence *e = calloc(1, sizeof *e);
    if (!e) return tw_fail_memory(d);
    e->m = m;
    e->steps = steps;
    e->batch = m->batch;
    e->n = n;
    e->vocab = m->model->vocab;
    e->cache = cache;
    bool ok = true;
    for (int s = 0; s < e->batch; s++) {
        e->random[s] = tw_random_seed((uint64_t)(100 + s));
        e->fed[s] = calloc((size_t)cache, sizeof *e->fed[s]);
        ok = ok && e->fed[s];
    }
    for (int i = 0; i < n; i++) {
        e->verdicts[i] = (evidence_verdict){.context = contexts[i], .expected = (int64_t)steps * e->batch};
        e->launches[i].found = calloc((size_t)(steps * e->batch), sizeof(int32_t));
        e->launches[i].logits = calloc((size_t)(e->batch * e->vocab), sizeof(float));
        ok = ok && e->launches[i].found && e->launches[i].logits;
    }
    if (!ok) {
        evidence_free(e);
        return tw_fail_memory(d);
    }
    *out = e;
    return TW_OK;
}

void evidence_free(evidence *e) {
    if (!e) return;
    for (int s = 0; s < e->batch; s++) free(e->fed[s]);
    for (int i = 0; i < e->n; i++) {
        free(e->launches[i].found);
        free(e->launches[i].logits);
    }
    free(e);
}

int evidence_count(const evidence *e) {
    return e->n;
}

const evidence_verdict *evidence_at(const evidence *e, int i) {
    return &e->verdicts[i];
}

const evidence_verdict *evidence_find(const evidence *e, int64_t context) {
    for (int i = 0; e && i < e->n; i++)
        if (e->verdicts[i].context == context) return &e->verdicts[i];
    return NULL;
}

bool evidence_holds(const evidence_verdict *v) {
    return v && v->judged == v->expected && !v->wrong && v->worst <= EVIDENCE_TOLERANCE;
}

void evidence_spoil_at(evidence *e, int64_t context, evidence_spoil how) {
    for (int i = 0; i < e->n; i++) {
        launch *l = &e->launches[i];
        if (e->verdicts[i].context != context) continue;
        float *logit = &l->logits[e->batch * e->vocab - 1];
        int32_t *token = &l->found[e->steps * e->batch - 1];
        if (how == EVIDENCE_LOGIT) *logit += 1;
        if (how == EVIDENCE_NAN) *logit = NAN;
        if (how == EVIDENCE_TOKEN) *token = (int32_t)((*token + 1) % e->vocab);
    }
}

/* ---- contents and answers */

static int32_t draw(evidence *e, int s) {
    return (int32_t)tw_random_below(&e->random[s], (uint64_t)e->vocab);
}

/* A prompt, as the engine reads one. */
static tw_status read_prompt(evidence *e, int64_t target, tw_diag *d) {
    tw_status st = TW_OK;
    while (e->filled[0] < target && st == TW_OK) {
        const int64_t left = target - e->filled[0], most = tw_cuda_vm_tokens(e->m->vm);
        tw_vm_step step = {.program = e->m->id[DECODE_PROMPT], .pos = e->filled[0], .length = target};
        step.n = left < most ? left : most;
        step.tokens = e->fed[0] + step.pos;
        for (int64_t i = 0; i < step.n; i++) e->fed[0][step.pos + i] = draw(e, 0);
        st = tw_cuda_vm_run(e->m->vm, &step, d);
        e->filled[0] += step.n;
    }
    return st;
}

/* One position of each sequence. One that is where it should be runs its last position again, which changes nothing;
   one that has no contents at all runs position 0, where its launch will begin. */
static tw_status fill_step(evidence *e, const int64_t *target, tw_diag *d) {
    int32_t token[TW_CUDA_VM_TOKENS], out[TW_CUDA_VM_TOKENS];
    int64_t at[TW_CUDA_VM_TOKENS], longest = 0;
    for (int s = 0; s < e->batch; s++) {
        const bool grows = e->filled[s] < target[s];
        at[s] = grows ? e->filled[s] : e->filled[s] ? e->filled[s] - 1 : 0;
        if (grows) e->fed[s][e->filled[s]++] = draw(e, s);
        token[s] = e->fed[s][at[s]];
        longest = at[s] + 1 > longest ? at[s] + 1 : longest;
    }
    return tw_cuda_vm_batch(e->m->vm, decode_machine_decoder(e->m, longest), token, at, 1, out, NULL, NULL, d);
}

static tw_status fill(evidence *e, const int64_t *target, tw_diag *d) {
    if (e->batch == 1) return read_prompt(e, target[0], d);
    tw_status st = TW_OK;
    for (bool more = true; more && st == TW_OK;) {
        more = false;
        for (int s = 0; s < e->batch; s++) more |= e->filled[s] < target[s];
        if (more) st = fill_step(e, target, d);
    }
    return st;
}

/* The launch itself, from a token that is drawn; what it finds is what it feeds. */
static tw_status answer(evidence *e, launch *l, tw_diag *d) {
    int32_t token[TW_CUDA_VM_TOKENS];
    int64_t longest = 0;
    const float *logits;
    for (int s = 0; s < e->batch; s++) {
        token[s] = draw(e, s);
        if (l->begin[s] > longest) longest = l->begin[s];
    }
    tw_status st = tw_cuda_vm_batch(e->m->vm, decode_machine_decoder(e->m, longest + e->steps), token, l->begin,
                                    e->steps, l->found, &logits, NULL, d);
    if (st != TW_OK) return st;
    memcpy(l->logits, logits, (size_t)(e->batch * e->vocab) * sizeof *logits);
    for (int s = 0; s < e->batch; s++) {
        for (int i = 0; i < e->steps; i++) e->fed[s][l->begin[s] + i] = i ? l->found[(i - 1) * e->batch + s] : token[s];
        e->filled[s] = l->begin[s] + e->steps;
    }
    return TW_OK;
}

/* Where a launch begins at most, that its tokens fit. */
static int64_t begin_of(const evidence *e, int64_t context) {
    const int64_t room = e->cache - e->steps;
    return context - 1 < room ? context - 1 : room;
}

tw_status evidence_fill(evidence *e, int64_t context, tw_diag *d) {
    int64_t target[TW_CUDA_VM_TOKENS];
    for (int s = 0; s < e->batch; s++) target[s] = begin_of(e, context);
    return fill(e, target, d);
}

tw_status evidence_collect(evidence *e, tw_diag *d) {
    tw_status st = TW_OK;
    for (int i = 0; i < e->n && st == TW_OK; i++) {
        launch *l = &e->launches[i];
        const int64_t context = e->verdicts[i].context;
        for (int s = 0; s < e->batch; s++) {
            const int64_t begin = begin_of(e, context) - SKEW * s;
            l->begin[s] = begin > e->filled[s] || !s ? begin : e->filled[s];
        }
        if (l->begin[0] < e->filled[0])
            return tw_fail(d, TW_ERR_USAGE, "context %lld is not %d positions beyond the one before it",
                           (long long)context, e->steps);
        st = fill(e, l->begin, d);
        if (st == TW_OK) st = answer(e, l, d);
    }
    return st;
}

/* ---- judging */

typedef struct range {
    int64_t at;     /* of the largest */
    double top;     /* the largest in magnitude */
    bool is_number; /* all of them are */
} range;

static range range_of(const float *x, int64_t n) {
    range r = {.is_number = true};
    for (int64_t i = 0; i < n; i++) {
        if (x[i] > x[r.at]) r.at = i;
        r.top = fmax(r.top, fabs((double)x[i]));
        r.is_number = r.is_number && isfinite(x[i]);
    }
    return r;
}

/* Row `step` of the reference's answers to a launch of sequence s. */
static void judge_row(evidence *e, int number, int s, int step, const float *want) {
    evidence_verdict *v = &e->verdicts[number];
    const launch *l = &e->launches[number];
    const range r = range_of(want, e->vocab);
    const int32_t found = l->found[step * e->batch + s];
    v->judged++;
    if (!r.is_number || found < 0 || found >= e->vocab)
        v->wrong++;
    else if (found == r.at)
        v->equal++;
    else if ((double)want[r.at] - (double)want[found] <= 2 * EVIDENCE_TOLERANCE * r.top)
        v->close++;
    else
        v->wrong++;
    for (int64_t k = 0; k < e->vocab && step == e->steps - 1 && !isnan(v->worst); k++) {
        const double x = fabs((double)l->logits[s * e->vocab + k] - (double)want[k]) / r.top;
        if (!(x <= v->worst)) v->worst = x;
    }
}

static void forget(evidence *e) {
    for (int i = 0; i < e->n; i++)
        e->verdicts[i] = (evidence_verdict){.context = e->verdicts[i].context, .expected = e->verdicts[i].expected};
}

tw_status evidence_judge_file(evidence *e, const char *path, tw_diag *d) {
    forget(e);
    FILE *f = fopen(path, "rb");
    float *row = malloc((size_t)e->vocab * sizeof *row);
    tw_status st = !row ? tw_fail_memory(d) : !f ? tw_fail(d, TW_ERR_IO, "%s: %s", path, strerror(errno)) : TW_OK;
    for (int s = 0; s < e->batch && st == TW_OK; s++)
        for (int i = 0; i < e->n && st == TW_OK; i++)
            for (int k = 0; k < e->steps && st == TW_OK; k++) {
                if (fread(row, sizeof *row, (size_t)e->vocab, f) == (size_t)e->vocab)
                    judge_row(e, i, s, k, row);
                else
                    st = tw_fail(d, TW_ERR_FORMAT, "%s: too few logits", path);
            }
    if (st == TW_OK && fgetc(f) != EOF) st = tw_fail(d, TW_ERR_FORMAT, "%s: too many logits", path);
    if (st != TW_OK) forget(e);
    if (f) fclose(f);
    free(row);
    return st;
}

/* ---- the processor's machine */

typedef struct processor {
    tw_vm *vm;
    tw_checked *decode, *prompt;
    int decode_id, prompt_id;
} processor;

static tw_status open_processor(processor *p, const evidence *e, tw_diag *d) {
    int cpus[1];
    const int workers = tw_allowed_cpus(cpus, 1);
    const tw_lowering *own = &e->m->lowering;
    const tw_vm_options o = {.workers = workers, .no_vendor = true};
    tw_lowering l = {
        .workers = workers, .tokens = 1, .max_seq = e->cache, .weights = own->weights, .group = own->group};
    tw_status st = tw_vm_open(&p->vm, e->m->model, &o, d);
    if (st == TW_OK) st = decode_lower(e->m->model, l, &p->decode, d);
    if (st == TW_OK) st = tw_vm_load(p->vm, p->decode, &p->decode_id, d);
    l.tokens = PROMPT < e->cache ? PROMPT : e->cache;
    if (st == TW_OK) st = decode_lower(e->m->model, l, &p->prompt, d);
    return st == TW_OK ? tw_vm_load(p->vm, p->prompt, &p->prompt_id, d) : st;
}

static void close_processor(processor *p) {
    tw_vm_close(p->vm);
    tw_checked_free(p->decode);
    tw_checked_free(p->prompt);
}

/* Each row is judged, or written to `f`. */
static tw_status follow(const processor *p, evidence *e, int s, FILE *f, tw_diag *d) {
    tw_status st = TW_OK;
    int64_t pos = 0;
    for (int i = 0; i < e->n && st == TW_OK; i++) {
        const int64_t begin = e->launches[i].begin[s];
        const int64_t most = PROMPT < e->cache ? PROMPT : e->cache;
        for (int64_t n; pos < begin && st == TW_OK; pos += n) {
            n = begin - pos < most ? begin - pos : most;
            tw_vm_step step = {.program = p->prompt_id, .tokens = e->fed[s] + pos, .n = n, .pos = pos};
            st = tw_vm_run(p->vm, &step, d);
        }
        for (int k = 0; k < e->steps && st == TW_OK; k++, pos++) {
            tw_vm_step step = {.program = p->decode_id, .tokens = e->fed[s] + pos, .n = 1, .pos = pos};
            st = tw_vm_run(p->vm, &step, d);
            if (st == TW_OK && !f) judge_row(e, i, s, k, step.logits);
            if (st == TW_OK && f && fwrite(step.logits, sizeof(float), (size_t)e->vocab, f) < (size_t)e->vocab)
                st = tw_fail(d, TW_ERR_IO, "the reference's logits cannot be written");
        }
    }
    return st;
}

static tw_status ask_processor(evidence *e, FILE *f, tw_diag *d) {
    processor p = {0};
    tw_status st = open_processor(&p, e, d);
    for (int s = 0; s < e->batch && st == TW_OK; s++) st = follow(&p, e, s, f, d);
    close_processor(&p);
    return st;
}

tw_status evidence_judge_cpu(evidence *e, tw_diag *d) {
    forget(e);
    return ask_processor(e, NULL, d);
}

tw_status evidence_answer_cpu(evidence *e, const char *path, tw_diag *d) {
    FILE *f = fopen(path, "wb");
    if (!f) return tw_fail(d, TW_ERR_IO, "%s: %s", path, strerror(errno));
    tw_status st = ask_processor(e, f, d);
    if (fclose(f) && st == TW_OK) st = tw_fail(d, TW_ERR_IO, "%s: %s", path, strerror(errno));
    return st;
}

/* ---- for a reference elsewhere */

static bool add_weight(void *list, const tw_weight *w) {
    char seed[24];
    snprintf(seed, sizeof seed, "%016" PRIx64, w->seed);
    json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:s, s:f, s:f}", "name", w->name, "type", tw_dtype_name(w->dtype),
                          "rows", (json_int_t)w->rows, "cols", (json_int_t)w->cols, "seed", seed, "scale",
                          (double)w->scale, "offset", (double)w->offset);
    return !json_array_append_new(list, o);
}

static json_t *sequence_of(const evidence *e, int s) {
    json_t *tokens = json_array(), *begins = json_array();
    for (int64_t i = 0; i < e->filled[s]; i++) json_array_append_new(tokens, json_integer(e->fed[s][i]));
    for (int i = 0; i < e->n; i++) json_array_append_new(begins, json_integer(e->launches[i].begin[s]));
    return json_pack("{s:o, s:o}", "tokens", tokens, "begins", begins);
}

tw_status evidence_write(const evidence *e, const char *path, tw_diag *d) {
    const tw_lowering *l = &e->m->lowering;
    json_t *weights = json_array(), *sequences = json_array();
    tw_model_each(e->m->model, add_weight, weights);
    for (int s = 0; s < e->batch; s++) json_array_append_new(sequences, sequence_of(e, s));
    const char *kind = l->weights == TW_I8 ? "int8" : l->weights == TW_I4 ? "int4" : "native";
    json_t *o =
        json_pack("{s:s, s:s, s:i, s:s, s:i, s:f, s:o, s:o}", "shape", e->m->model->name, "weights", kind, "group",
                  l->weights == TW_I4 && !l->group ? 64 : l->group, "cache", tw_dtype_name(l->kv), "steps", e->steps,
                  "epsilon", (double)e->m->model->norm_eps, "tensors", weights, "sequences", sequences);
    const bool written = o && !json_dump_file(o, path, 0);
    json_decref(o);
    return written ? TW_OK : tw_fail(d, TW_ERR_IO, "%s: cannot be written", path);
}
