/* SPDX-License-Identifier: Apache-2.0 */
/* Random inputs, and results in double precision. */
#include "base/diag.h"
#include "base/divide.h"
#include "base/random.h"
#include "base/team.h"
#include "ir/value.h"
#include "kernels/attention/attention.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* -- inputs */

static float element(const tw_attention_data *d, const void *data, int64_t i) {
    const uint16_t x = ((const uint16_t *)data)[i];
    return d->problem.type == TW_T_f16 ? tw_f16_to_f32(x) : tw_bf16_to_f32(x);
}

/* Returns the scale of K or V, of a head of K. */
static double scale_of(const tw_attention_data *d, tw_attention_buffer which, int64_t head) {
    const float *scales = d->of[which == TW_ATTENTION_K ? TW_ATTENTION_K_SCALES : TW_ATTENTION_V_SCALES];
    return d->problem.kv ? (double)scales[head] : 1;
}

/* Converts Q, K or V once. Elements are read many times. */
static bool widen(tw_attention_data *d, int which, int64_t n) {
    const bool narrow = d->problem.kv && which != TW_ATTENTION_Q;
    float *out = d->wide[which] = malloc((size_t)n * sizeof *out);
    for (int64_t i = 0; i < n && out; i++)
        out[i] = narrow ? tw_e4m3_to_f32(((const uint8_t *)d->of[which])[i]) : element(d, d->of[which], i);
    return out;
}

/* Scales are such that e4m3 take all of their range. */
static const float size_of_e4m3 = 100;

static void fill_scales(float *data, int64_t n, tw_random *r) {
    for (int64_t i = 0; i < n; i++) data[i] = (0.5F + (float)tw_random_unit(r)) / size_of_e4m3;
}

static void fill_e4m3(uint8_t *data, int64_t n, tw_random *r) {
    for (int64_t i = 0; i < n; i++) data[i] = (uint8_t)tw_f32_to_e4m3(size_of_e4m3 * tw_random_normal(r));
}

/* Scores are spread by a standard deviation of about `spread`, if they are multiplied by 1 / sqrt(head). */
static void fill(const tw_attention_data *d, void *data, int64_t n, double spread, tw_random *r) {
    enum { REPEAT = 999983 /* Period of the elements: a prime, so that rows begin anywhere in it. */ };
    uint16_t *out = data;
    for (int64_t i = 0; i < n && i < REPEAT; i++) {
        const float x = (float)spread * tw_random_normal(r);
        out[i] = d->problem.type == TW_T_f16 ? tw_f32_to_f16(x) : tw_f32_to_bf16(x);
    }
    for (int64_t i = REPEAT; i < n; i++) out[i] = out[i - REPEAT];
}

/* A mask leaves about three keys of four, and of some queries none, the last of several among them. Behind the last key
   it has no numbers. */
static void draw_mask(const tw_attention_data *d, void *data, tw_random *r) {
    const tw_attention_problem *p = &d->problem;
    const int64_t rows = p->mask_batch * p->mask_heads * p->queries;
    for (int64_t i = 0; i < rows; i++) {
        const bool drawn = !tw_random_below(r, 16), blind = drawn || (rows > 1 && i == rows - 1);
        for (int64_t j = 0; j < p->ldm; j++) {
            const bool sees = !blind && tw_random_below(r, 4);
            const float x = j >= p->keys ? NAN : sees ? 2 * tw_random_normal(r) : -INFINITY;
            const int64_t at = i * p->ldm + j;
            if (p->mask == TW_T_f32) ((float *)data)[at] = x;
            if (p->mask == TW_T_f16) ((uint16_t *)data)[at] = tw_f32_to_f16(x);
            if (p->mask == TW_T_bf16) ((uint16_t *)data)[at] = tw_f32_to_bf16(x);
            if (p->mask == TW_T_i8) ((uint8_t *)data)[at] = sees ? (uint8_t)(1 + tw_random_below(r, 255)) : 0;
        }
    }
}

/* Deals the rows of Q out to sequences, some of which may have none, and not all rows may be used. */
static void draw_starts(const tw_attention_problem *p, int32_t *starts, tw_random *r) {
    for (int64_t i = 1; i <= p->batch; i++) starts[i] = (int32_t)tw_random_below(r, (uint64_t)p->queries + 1);
    for (int64_t i = 1; i <= p->batch; i++) /* Sorts by insertion: there are few. */
        for (int64_t j = i; j > 1 && starts[j] < starts[j - 1]; j--) {
            const int32_t x = starts[j];
            starts[j] = starts[j - 1];
            starts[j - 1] = x;
        }
    starts[0] = 0;
}

/* Keys of a cache are the new ones and some before. Keys that lie as queries do have as many rows. */
static void draw_lengths(const tw_attention_problem *p, const int32_t *starts, int32_t *lengths, tw_random *r) {
    for (int64_t i = 0; i < p->batch; i++) {
        const int64_t own = starts[i + 1] - starts[i];
        int64_t length = own;
        if (p->capacity || p->page) length = own + (int64_t)tw_random_below(r, (uint64_t)p->keys + 1);
        if (length > p->keys) length = p->keys;
        if (!p->capacity && !p->page && starts[i] + length > p->keys)
            length = p->keys > starts[i] ? p->keys - starts[i] : 0;
        lengths[i] = (int32_t)length;
    }
}

/* Draws the pages of each sequence. Numbers of pages that it does not need make no sense. */
static void draw_pages(const tw_attention_data *d, tw_random *r) {
    const tw_attention_problem *p = &d->problem;
    const int32_t *lengths = d->of[TW_ATTENTION_LENGTHS];
    const int64_t each = tw_ceil_div(p->keys, p->page);
    int32_t *pages = d->of[TW_ATTENTION_PAGES];
    for (int64_t i = 0; i < p->batch * each; i++) {
        const int64_t keys = lengths ? lengths[i / each] : p->keys;
        const bool needed = i % each * p->page < keys;
        pages[i] = needed ? (int32_t)tw_random_below(r, (uint64_t)p->pool) : (int32_t)tw_random_u64(r);
    }
}

tw_status tw_attention_data_make(tw_attention_data *d, const tw_attention_problem *p, uint64_t seed, tw_diag *diag) {
    tw_random r = tw_random_seed(seed);
    *d = (tw_attention_data){.problem = *p};
    for (int i = 0; i < TW_ATTENTION_BUFFERS; i++) {
        const tw_attention_array a = tw_attention_array_of(p, (tw_attention_buffer)i);
        d->bytes[i] = (size_t)a.elements * (size_t)tw_type_bits(a.type) / 8;
        if (!a.elements || i == TW_ATTENTION_OUT || i == TW_ATTENTION_LSE) continue;
        d->of[i] = malloc(d->bytes[i]);
        if (!d->of[i]) {
            tw_attention_data_free(d);
            return tw_fail_memory(diag);
        }
        const bool narrow = p->kv && (i == TW_ATTENTION_K || i == TW_ATTENTION_V);
        if (narrow) fill_e4m3(d->of[i], a.elements, &r);
        if (i == TW_ATTENTION_K_SCALES || i == TW_ATTENTION_V_SCALES) fill_scales(d->of[i], a.elements, &r);
        if (i <= TW_ATTENTION_V && !narrow) fill(d, d->of[i], a.elements, i == TW_ATTENTION_Q ? 2 : 1, &r);
        if (i == TW_ATTENTION_MASK) draw_mask(d, d->of[i], &r);
        if (i <= TW_ATTENTION_V && !widen(d, i, a.elements)) {
            tw_attention_data_free(d);
            return tw_fail_memory(diag);
        }
        for (int64_t j = 0; i == TW_ATTENTION_SINKS && j < a.elements; j++)
            ((float *)d->of[i])[j] = 3 * tw_random_normal(&r);
    }
    if (p->ragged) {
        draw_starts(p, d->of[TW_ATTENTION_STARTS], &r);
        draw_lengths(p, d->of[TW_ATTENTION_STARTS], d->of[TW_ATTENTION_LENGTHS], &r);
    }
    if (p->page) draw_pages(d, &r);
    return TW_OK;
}

void tw_attention_data_free(tw_attention_data *d) {
    for (int i = 0; i < TW_ATTENTION_BUFFERS; i++) free(d->of[i]);
    for (int i = 0; i <= TW_ATTENTION_V; i++) free(d->wide[i]);
    *d = (tw_attention_data){0};
}

/* -- results */

/* A query of a sequence: its row in Q, and the keys that it sees. */
typedef struct query {
    int64_t row;         /* Its row in Q and OUT. */
    int64_t sequence;    /* The number of its sequence. */
    int64_t from, below; /* The keys. */
    int64_t key_row;     /* The row of the sequence's first key, if keys lie as queries do. */
} query;

static query query_of(const tw_attention_data *d, int64_t sequence, int64_t i, int64_t n, int64_t keys, int64_t start) {
    const tw_attention_problem *p = &d->problem;
    const int64_t position = keys - n + i;
    query q = {.row = start + i, .sequence = sequence, .below = keys};
    q.key_row = p->ragged ? start : sequence * p->keys;
    if (p->causal && q.below > position + 1) q.below = position + 1;
    if (p->window && q.below > position + p->window) q.below = position + p->window;
    if (p->window && position - p->window + 1 > 0) q.from = position - p->window + 1;
    if (q.below < q.from) q.below = q.from;
    return q;
}

static int64_t key_at(const tw_attention_data *d, const query *q, int64_t head, int64_t key) {
    const tw_attention_problem *p = &d->problem;
    const int64_t kv = head / (p->heads / p->kv_heads);
    if (p->page) {
        const int32_t *pages = (const int32_t *)d->of[TW_ATTENTION_PAGES] + q->sequence * tw_ceil_div(p->keys, p->page);
        return (pages[key / p->page] * p->page + key % p->page) * p->ldk + kv * p->head;
    }
    if (p->capacity) return ((q->sequence * p->kv_heads + kv) * p->capacity + key) * p->ldk;
    return (q->key_row + key) * p->ldk + kv * p->head;
}

/* Returns a score after the mask's array. */
static double masked(const tw_attention_data *d, const query *q, int64_t head, int64_t key, double score) {
    const tw_attention_problem *p = &d->problem;
    const void *mask = d->of[TW_ATTENTION_MASK];
    if (!p->mask) return score;
    const int64_t matrix = (p->mask_batch > 1 ? q->sequence * p->mask_heads : 0) + (p->mask_heads > 1 ? head : 0);
    const int64_t at = (matrix * p->queries + q->row % p->queries) * p->ldm + key;
    if (p->mask == TW_T_i8) return ((const uint8_t *)mask)[at] ? score : -INFINITY;
    if (p->mask == TW_T_f32) return score + (double)((const float *)mask)[at];
    const uint16_t bits = ((const uint16_t *)mask)[at];
    return score + (double)(p->mask == TW_T_f16 ? tw_f16_to_f32(bits) : tw_bf16_to_f32(bits));
}

typedef struct mean {
    double value[TW_ATTENTION_MOST_HEAD]; /* The result. */
    double size[TW_ATTENTION_MOST_HEAD];  /* The same with absolute values. */
    double lse;
} mean;

/* Multiplies two vectors. Sums of eight parts are added at the end. */
static double dot(const float *a, const float *b, int64_t n) {
    double parts[8] = {0}, sum = 0;
    int64_t e = 0;
    for (; e + 8 <= n; e += 8)
        for (int i = 0; i < 8; i++) parts[i] += (double)a[e + i] * (double)b[e + i];
    for (; e < n; e++) sum += (double)a[e] * (double)b[e];
    for (int i = 0; i < 8; i++) sum += parts[i];
    return sum;
}

/* Computes a query's result. `weights` has room for all keys. */
static void attend(const tw_attention_data *d, const query *q, int64_t head, double *weights, mean *out) {
    const tw_attention_problem *p = &d->problem;
    const int64_t at = q->row * p->ldq + head * p->head, kv = head / (p->heads / p->kv_heads);
    const double sink = p->sinks ? (double)((const float *)d->of[TW_ATTENTION_SINKS])[head] : -INFINITY;
    const double of_k = p->scale * scale_of(d, TW_ATTENTION_K, kv), of_v = scale_of(d, TW_ATTENTION_V, kv);
    const float *const keys = d->wide[TW_ATTENTION_K], *const values = d->wide[TW_ATTENTION_V];
    double most = sink, sum = 0;
    *out = (mean){.lse = -INFINITY};
    for (int64_t j = q->from; j < q->below; j++) {
        double s = of_k * dot(d->wide[TW_ATTENTION_Q] + at, keys + key_at(d, q, head, j), p->head);
        if (p->cap > 0) s = p->cap * tanh(s / p->cap);
        weights[j] = masked(d, q, head, j, s);
        if (weights[j] > most) most = weights[j];
    }
    if (most == -INFINITY) return;
    for (int64_t j = q->from; j < q->below; j++) sum += weights[j] = exp(weights[j] - most);
    sum += exp(sink - most);
    out->lse = most + log(sum);
    for (int64_t j = q->from; j < q->below; j++) {
        const float *v = values + key_at(d, q, head, j);
        const double weight = of_v * weights[j] / sum;
        for (int64_t e = 0; e < p->head; e++) {
            out->value[e] += (double)v[e] * weight;
            out->size[e] += fabs((double)v[e] * weight);
        }
    }
}

/* Weights and results are rounded to the type, and exponentials of scores in f32 approximate. A capped score is off by
   tanh.approx's error. */
static tw_status compare(const tw_attention_data *d, const query *q, int64_t head, const mean *right, const void *out,
                         const float *lse, tw_diag *diag) {
    const tw_attention_problem *p = &d->problem;
    const bool half = p->type == TW_T_f16;
    const double unit = half ? 0x1p-11 : 0x1p-8, bent = p->cap * 0x1p-10;
    for (int64_t e = 0; e < p->head; e++) {
        const double is = (double)element(d, out, q->row * p->ldo + head * p->head + e),
                     off = fabs(is - right->value[e]);
        const double allowed = 1.1 * unit * fabs(right->value[e]) + (unit + 0x1p-14 + bent) * right->size[e] +
                               (half ? (double)(q->below - q->from) * 0x1p-24 : 0) + 0x1p-24;
        if (!(off <= allowed))
            return tw_fail(
                diag, TW_ERR_MISMATCH, "sequence %lld, row %lld, head %lld, element %lld is %.9g, and should be %.9g",
                (long long)q->sequence, (long long)q->row, (long long)head, (long long)e, is, right->value[e]);
    }
    if (!lse) return TW_OK;
    const int64_t at =
        p->ragged ? head * p->queries + q->row : (q->sequence * p->heads + head) * p->queries + q->row % p->queries;
    const double is = (double)lse[at];
    const bool same =
        right->lse == -INFINITY ? is == right->lse : fabs(is - right->lse) <= 1e-4 * (1 + fabs(right->lse)) + bent;
    if (same) return TW_OK;
    return tw_fail(diag, TW_ERR_MISMATCH, "lse of sequence %lld, row %lld, head %lld is %.9g, and should be %.9g",
                   (long long)q->sequence, (long long)q->row, (long long)head, is, right->lse);
}

/* Checks that rows of no query, and gaps between rows, were not written. */
static tw_status check_gaps(const tw_attention_data *d, const void *out, tw_diag *diag) {
    const tw_attention_problem *p = &d->problem;
    const int64_t elements = (int64_t)d->bytes[TW_ATTENTION_OUT] / 2, dense = p->heads * p->head;
    const int64_t rows = p->ragged ? ((const int32_t *)d->of[TW_ATTENTION_STARTS])[p->batch] : p->batch * p->queries;
    for (int64_t i = 0; i < elements; i++)
        if ((i % p->ldo >= dense || i / p->ldo >= rows) && ((const uint16_t *)out)[i] != 0xffff)
            return tw_fail(diag, TW_ERR_MISMATCH, "element %lld of row %lld was written, and is no query's",
                           (long long)(i % p->ldo), (long long)(i / p->ldo));
    return TW_OK;
}

/* -- answers */

/* What is called with a query and a head. */
typedef tw_status visitor(void *context, const query *q, int64_t head);

/* Visits the heads of all queries, or about one of `every`. */
static tw_status visit_all(const tw_attention_data *d, int64_t every, visitor *visit, void *context) {
    const tw_attention_problem *p = &d->problem;
    const int32_t *starts = d->of[TW_ATTENTION_STARTS], *lengths = d->of[TW_ATTENTION_LENGTHS];
    tw_random r = tw_random_seed(7);
    tw_status st = TW_OK;
    for (int64_t s = 0; s < p->batch && st == TW_OK; s++) {
        const int64_t start = p->ragged ? starts[s] : s * p->queries, keys = p->ragged ? lengths[s] : p->keys;
        const int64_t n = p->ragged ? starts[s + 1] - start : p->queries;
        for (int64_t i = 0; i < n * p->heads && st == TW_OK; i++) {
            if (every > 1 && tw_random_below(&r, (uint64_t)every)) continue;
            const query q = query_of(d, s, i / p->heads, n, keys, start);
            st = visit(context, &q, i % p->heads);
        }
    }
    return st;
}

/* A query's head, and its right result. */
typedef struct answered {
    query of;
    int64_t head;
    mean right;
} answered;

struct tw_attention_answer {
    const tw_attention_data *d;
    answered *list;
    int64_t n;
    _Atomic int64_t next; /* The next one to compute. */
    _Atomic bool failed;  /* There was no memory. */
};

static void answer_some(void *context, int member) {
    tw_attention_answer *a = context;
    double *weights = malloc((size_t)a->d->problem.keys * sizeof *weights);
    (void)member;
    if (!weights) atomic_store(&a->failed, true);
    for (int64_t i; weights && (i = atomic_fetch_add(&a->next, 1)) < a->n;)
        attend(a->d, &a->list[i].of, a->list[i].head, weights, &a->list[i].right);
    free(weights);
}

static tw_status count_one(void *context, const query *q, int64_t head) {
    tw_attention_answer *a = context;
    (void)q, (void)head;
    a->n++;
    return TW_OK;
}

static tw_status list_one(void *context, const query *q, int64_t head) {
    tw_attention_answer *a = context;
    a->list[a->n++] = (answered){.of = *q, .head = head};
    return TW_OK;
}

tw_status tw_attention_answer_make(tw_attention_answer **out, const tw_attention_data *d, int64_t every,
                                   tw_diag *diag) {
    enum { LITTLE = 1 << 24 /* Multiplications that are not worth threads. */ };
    tw_attention_answer *a = *out = calloc(1, sizeof *a);
    if (!a) return tw_fail_memory(diag);
    a->d = d;
    visit_all(d, every, count_one, a);
    a->list = malloc((size_t)(a->n + 1) * sizeof *a->list);
    atomic_store(&a->failed, !a->list);
    tw_team *team = NULL;
    a->n = 0;
    if (a->list) visit_all(d, every, list_one, a);
    if (a->list && a->n * d->problem.keys * d->problem.head * 2 > LITTLE &&
        tw_team_start(&team, 0, false, NULL) == TW_OK)
        tw_team_run(team, answer_some, a);
    else if (a->list)
        answer_some(a, 0);
    tw_team_stop(team);
    if (!atomic_load(&a->failed)) return TW_OK;
    tw_attention_answer_free(a);
    *out = NULL;
    return tw_fail_memory(diag);
}

void tw_attention_answer_free(tw_attention_answer *a) {
    if (!a) return;
    free(a->list);
    free(a);
}

tw_status tw_attention_answer_judge(const tw_attention_answer *a, const void *out, const float *lse, tw_diag *diag) {
    tw_status st = check_gaps(a->d, out, diag);
    for (int64_t i = 0; i < a->n && st == TW_OK; i++)
        st = compare(a->d, &a->list[i].of, a->list[i].head, &a->list[i].right, out, lse, diag);
    return st;
}

/* What one judgement compares. */
typedef struct judging {
    const tw_attention_data *d;
    const void *out;
    const float *lse;
    double *weights;
    tw_diag *diag;
} judging;

static tw_status judge_one(void *context, const query *q, int64_t head) {
    const judging *j = context;
    mean right;
    attend(j->d, q, head, j->weights, &right);
    return compare(j->d, q, head, &right, j->out, j->lse, j->diag);
}

tw_status tw_attention_data_judge(const tw_attention_data *d, const void *out, const float *lse, int64_t every,
                                  tw_diag *diag) {
    judging j = {d, out, lse, malloc((size_t)d->problem.keys * sizeof *j.weights), diag};
    tw_status st = j.weights ? check_gaps(d, out, diag) : tw_fail_memory(diag);
    if (st == TW_OK) st = visit_all(d, every, judge_one, &j);
    free(j.weights);
    return st;
}
