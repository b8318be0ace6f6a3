/* SPDX-License-Identifier: Apache-2.0 */
/* Every model below tests/data/models, run by the plainest decoder there can be (double sums, one position after the
   other, straight from tw_weight_read), gives what transformers computed: the import is right, whatever the engine is.
 */
#define _GNU_SOURCE
#include "support/support.h"

#include "base/json.h"
#include "model/model.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 512 /* positions kept */ };

typedef struct decoder {
    const tw_model *m;
    double **k, **v; /* [layer][position * kv_heads * head_dim] */
    float *row;      /* scratch for one row of weights */
    double *logits;  /* of the last position */
    double loss;     /* summed over the positions that had a next token */
} decoder;

static double *numbers(int64_t n) {
    double *p = calloc((size_t)(n > 0 ? n : 1), sizeof *p);
    assert_non_null(p);
    return p;
}

static void multiply(decoder *d, const tw_linear *l, const double *x, double *y) {
    const tw_weight *w = &l->weight;
    for (int64_t r = 0; r < w->rows; r++) {
        tw_weight_read(w, r, 0, w->cols, d->row);
        double sum = 0;
        for (int64_t c = 0; c < w->cols; c++) sum += (double)d->row[c] * x[c];
        if (l->bias.rows) {
            tw_weight_read(&l->bias, r, 0, 1, d->row);
            sum += (double)d->row[0];
        }
        y[r] = sum;
    }
}

static double capped(double x, float cap) {
    return cap > 0 ? (double)cap * tanh(x / (double)cap) : x;
}

static void vector(const tw_weight *w, float *out) {
    for (int64_t r = 0; r < w->rows; r++) tw_weight_read(w, r, 0, 1, out + r);
}

static void normalise(decoder *d, const tw_weight *w, const tw_weight *bias, const double *x, int64_t n, double *y) {
    double mean = 0, square = 0;
    if (d->m->norm == TW_NORM_LAYER)
        for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean) / (double)n;
    double scale = 1 / sqrt(square + (double)d->m->norm_eps);
    vector(w, d->row);
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * (double)d->row[i];
    if (!bias || !bias->rows) return;
    vector(bias, d->row);
    for (int64_t i = 0; i < n; i++) y[i] += (double)d->row[i];
}

static double activate(tw_activation a, double x) {
    switch (a) {
    case TW_ACT_SILU:
        return x / (1 + exp(-x));
    case TW_ACT_GELU:
        return x * 0.5 * (1 + erf(x / sqrt(2)));
    case TW_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case TW_ACT_RELU:
        return x > 0 ? x : 0;
    }
    return 0;
}

static void rotate(const tw_rope *r, const float *inv_freq, int64_t position, double *head) {
    if (!r) return;
    for (int64_t i = 0; i < r->dims / 2; i++) {
        float angle = (float)position * inv_freq[i];
        double c = cos((double)angle) * (double)r->attention_factor,
               s = sin((double)angle) * (double)r->attention_factor;
        double a = head[i], b = head[i + r->dims / 2];
        head[i] = a * c - b * s;
        head[i + r->dims / 2] = b * c + a * s;
    }
}

static void mlp(decoder *d, const tw_linear *gate, const tw_linear *up, const tw_linear *down, const double *x,
                double scale, double *out) {
    int64_t n = up->weight.rows;
    double *g = numbers(n), *u = numbers(n), *y = numbers(down->weight.rows);
    multiply(d, up, x, u);
    if (gate->weight.rows) multiply(d, gate, x, g);
    for (int64_t i = 0; i < n; i++)
        u[i] = gate->weight.rows ? activate(d->m->activation, g[i]) * u[i] : activate(d->m->activation, u[i]);
    multiply(d, down, u, y);
    for (int64_t i = 0; i < down->weight.rows; i++) out[i] += scale * y[i];
    free(g), free(u), free(y);
}

static void mixture(decoder *d, const tw_layer *l, const double *x, double *out) {
    const tw_model *m = d->m;
    double *p = numbers(m->n_experts), sum = 0, chosen = 0;
    int64_t best[64];
    multiply(d, &(tw_linear){.weight = l->router}, x, p);
    for (int64_t e = 0; e < m->n_experts; e++) sum += p[e] = exp(p[e]);
    for (int64_t i = 0; i < m->n_experts_used; i++) {
        best[i] = -1;
        for (int64_t e = 0; e < m->n_experts; e++) {
            bool taken = false;
            for (int64_t j = 0; j < i; j++) taken |= best[j] == e;
            if (!taken && (best[i] < 0 || p[e] > p[best[i]])) best[i] = e;
        }
        chosen += p[best[i]] / sum;
    }
    for (int64_t i = 0; i < m->n_experts_used; i++) {
        const tw_expert *e = &l->experts[best[i]];
        mlp(d, &e->gate, &e->up, &e->down, x, p[best[i]] / sum / (m->renormalise_experts ? chosen : 1), out);
    }
    free(p);
}

/* The inverse frequencies of the model's ropes. */
typedef struct frequencies {
    float of[2][512];
} frequencies;

static void attend(decoder *d, int64_t layer, int64_t position, const frequencies *f, const double *x, double *out) {
    const tw_model *m = d->m;
    const tw_layer *l = &m->layers[layer];
    int64_t hd = m->head_dim, kv = m->n_kv_heads * hd, group = m->n_heads / m->n_kv_heads;
    double *q = numbers(m->n_heads * hd), *k = d->k[layer] + position * kv, *v = d->v[layer] + position * kv;
    double *mixed = numbers(m->n_heads * hd), *y = numbers(m->dim), *p = numbers(position + 1);
    multiply(d, &l->q, x, q);
    multiply(d, &l->k, x, k);
    multiply(d, &l->v, x, v);
    for (int64_t h = 0; h < m->n_heads + m->n_kv_heads; h++) {
        double *head = h < m->n_heads ? q + h * hd : k + (h - m->n_heads) * hd;
        const tw_weight *norm = h < m->n_heads ? &l->q_norm : &l->k_norm;
        const bool first = h == 0 || h == m->n_heads;
        if (norm->rows && !m->qk_norm_whole) normalise(d, norm, NULL, head, hd, head);
        if (norm->rows && m->qk_norm_whole && first) normalise(d, norm, NULL, head, norm->rows, head);
        rotate(tw_model_rope(m, layer), f->of[l->rope == TW_LAYER_ROPE_LOCAL], position, head);
    }
    int64_t first = l->window && position >= l->window ? position - l->window + 1 : 0;
    for (int64_t h = 0; h < m->n_heads; h++) {
        double sum = 0;
        for (int64_t t = first; t <= position; t++) {
            const double *key = d->k[layer] + t * kv + h / group * hd;
            double dot = 0;
            for (int64_t i = 0; i < hd; i++) dot += q[h * hd + i] * key[i];
            sum += p[t] = exp(capped(dot * (double)m->attn_scale, m->attn_cap));
        }
        for (int64_t t = first; t <= position; t++)
            for (int64_t i = 0; i < hd; i++) mixed[h * hd + i] += p[t] / sum * d->v[layer][t * kv + h / group * hd + i];
    }
    multiply(d, &l->o, mixed, y);
    for (int64_t i = 0; i < m->dim; i++) out[i] += y[i];
    free(q), free(mixed), free(y), free(p);
}

/* n = norm(x), or x where there is none. */
static void before(decoder *d, const tw_norm *norm, const double *x, double *n) {
    if (norm->weight.rows)
        normalise(d, &norm->weight, &norm->bias, x, d->m->dim, n);
    else
        memcpy(n, x, (size_t)d->m->dim * sizeof *n);
}

/* x += norm(y), or y where there is none. */
static void add(decoder *d, const tw_norm *norm, double *y, double *x) {
    if (norm->weight.rows) normalise(d, &norm->weight, &norm->bias, y, d->m->dim, y);
    for (int64_t i = 0; i < d->m->dim; i++) {
        x[i] += y[i];
        y[i] = 0;
    }
}

static void step(decoder *d, int64_t token, int64_t position, const frequencies *f) {
    const tw_model *m = d->m;
    double *x = numbers(m->dim), *n = numbers(m->dim), *y = numbers(m->dim);
    tw_weight_read(&m->embed, token, 0, m->dim, d->row);
    for (int64_t i = 0; i < m->dim; i++) x[i] = (double)d->row[i] * (double)m->embed_scale;
    if (m->positions.rows) {
        tw_weight_read(&m->positions, position, 0, m->dim, d->row);
        for (int64_t i = 0; i < m->dim; i++) x[i] += (double)d->row[i];
    }
    for (int64_t i = 0; i < m->n_layers; i++) {
        const tw_layer *l = &m->layers[i];
        before(d, &l->attn_norm, x, n);
        attend(d, i, position, f, n, y);
        add(d, &l->attn_post_norm, y, x);
        before(d, &l->mlp_norm, x, n);
        if (l->experts)
            mixture(d, l, n, y);
        else
            mlp(d, &l->gate, &l->up, &l->down, n, 1, y);
        add(d, &l->mlp_post_norm, y, x);
    }
    normalise(d, &m->final_norm.weight, &m->final_norm.bias, x, m->dim, n);
    multiply(d, &m->head, n, d->logits);
    for (int64_t i = 0; i < m->vocab; i++) d->logits[i] = capped(d->logits[i], m->logit_cap);
    free(x), free(n), free(y);
}

static int64_t argmax(const double *x, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* Tokens [position, position + n) of a sequence, which reach position + n at once. */
static void feed(decoder *d, const json_t *ids, int64_t position, int64_t n) {
    frequencies f;
    const tw_rope *rope[2] = {&d->m->rope, &d->m->rope_local};
    for (int i = 0; i < 2; i++)
        if (rope[i]->kind != TW_ROPE_NONE) tw_rope_frequencies(rope[i], position + n, f.of[i]);
    for (int64_t i = 0; i < n; i++) {
        step(d, json_integer_value(json_array_get(ids, (size_t)i)), position + i, &f);
        const json_t *next = i + 1 < n ? json_array_get(ids, (size_t)(i + 1)) : NULL;
        if (!next) continue;
        double sum = 0;
        for (int64_t t = 0; t < d->m->vocab; t++) sum += exp(d->logits[t]);
        d->loss += log(sum) - d->logits[json_integer_value(next)];
    }
}

/* Of a sequence that comes to be longer than longrope's original length all is computed again. */
static void feed_again(decoder *d, const json_t *prompt, const json_t *greedy, size_t i, int64_t n) {
    json_t *all = json_copy((json_t *)(uintptr_t)prompt);
    for (size_t t = 0; t <= i; t++) json_array_append(all, json_array_get(greedy, t));
    feed(d, all, 0, n + (int64_t)i + 1);
    json_decref(all);
}

static void compare(const char *name, decoder *d, const json_t *c) {
    const json_t *prompt = json_object_get(c, "prompt"), *want = json_object_get(c, "logits_last");
    const json_t *greedy = json_object_get(c, "greedy"), *loss = json_object_get(c, "loss");
    int64_t n = (int64_t)json_array_size(prompt), vocab = d->m->vocab;
    assert_true(n + (int64_t)json_array_size(greedy) <= LONGEST);
    d->loss = 0;
    feed(d, prompt, 0, n);
    assert_int_equal(json_array_size(want), vocab);
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < vocab; i++) {
        double w = json_number_value(json_array_get(want, (size_t)i));
        largest = fmax(largest, fabs(w));
        worst = fmax(worst, fabs(w - d->logits[i]));
    }
    if (!(worst <= 1e-4 * largest + 1e-5))
        fail_msg("%s, prompt of %lld: a logit differs by %g (largest %g)", name, (long long)n, worst, largest);
    if (json_is_number(loss) && fabs(d->loss / (double)(n - 1) / json_number_value(loss) - 1) > 1e-5)
        fail_msg("%s, prompt of %lld: loss %.7f, not %.7f", name, (long long)n, d->loss / (double)(n - 1),
                 json_number_value(loss));
    for (size_t i = 0; i < json_array_size(greedy); i++) {
        json_t *id = json_array_get(greedy, i), *one = json_array();
        if (argmax(d->logits, vocab) != json_integer_value(id))
            fail_msg("%s, prompt of %lld: greedy token %zu differs", name, (long long)n, i);
        json_array_append(one, id);
        if (d->m->rope.kind == TW_ROPE_LONG && n + (int64_t)i == d->m->rope.original_max)
            feed_again(d, prompt, greedy, i, n);
        else
            feed(d, one, n + (int64_t)i, 1);
        json_decref(one);
    }
}

static void check_model(const char *path, const char *name) {
    char file[1200];
    tw_model *m;
    tw_diag diag;
    json_t *golden;
    if (tw_model_open(&m, path, &diag) != TW_OK) fail_msg("%s: %s", path, diag.message);
    snprintf(file, sizeof file, "%s/golden.json", path);
    if (tw_json_load(&golden, file, &diag) != TW_OK) fail_msg("%s: %s", file, diag.message);
    int64_t width = m->n_kv_heads * m->head_dim, row = m->dim + m->ffn_dim + m->n_heads * m->head_dim;
    decoder d = {.m = m, .k = calloc((size_t)m->n_layers, sizeof *d.k), .v = calloc((size_t)m->n_layers, sizeof *d.v)};
    d.row = calloc((size_t)row, sizeof *d.row);
    d.logits = numbers(m->vocab);
    for (int64_t i = 0; i < m->n_layers; i++) {
        d.k[i] = numbers(LONGEST * width);
        d.v[i] = numbers(LONGEST * width);
    }
    const json_t *cases = json_object_get(golden, "cases");
    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++) compare(name, &d, json_array_get(cases, i));
    for (int64_t i = 0; i < m->n_layers; i++) free(d.k[i]), free(d.v[i]);
    free(d.k), free(d.v), free(d.row), free(d.logits);
    json_decref(golden);
    tw_model_close(m);
}

/* TW_TEST_MODELS names another folder of models. */
static void test_models(void **state) {
    (void)state;
    const char *root = getenv("TW_TEST_MODELS") ? getenv("TW_TEST_MODELS") : TEST_DATA "/models";
    struct dirent **all;
    int n = scandir(root, &all, NULL, alphasort), checked = 0;
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        char path[1100], golden[1200];
        snprintf(path, sizeof path, "%s/%s", root, all[i]->d_name);
        snprintf(golden, sizeof golden, "%s/golden.json", path);
        FILE *f = all[i]->d_name[0] == '.' ? NULL : fopen(golden, "rb");
        if (f) {
            fclose(f);
            check_model(path, all[i]->d_name);
            checked++;
        }
        free(all[i]);
    }
    free(all);
    assert_true(checked > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
