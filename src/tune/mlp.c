/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/mlp.h"

#include "base/arena.h"
#include "base/diag.h"
#include "base/divide.h"
#include "tilewright/device.h"
#include "tune/mlp_layer.h"

#include <cblas.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAYERS = TW_MLP_LAYERS + 1, /* The most layers, the output included. */
    WIDEST = 8192,              /* The most units of a layer. */
    BATCH = 65536               /* The most rows of a training step. */
};

/* Adam's decay rates and the term that keeps its quotient finite. */
static const double FIRST = 0.9, SECOND = 0.999, TINY = 1e-8;

struct tw_mlp {
    tw_arena arena;
    int n;                  /* Number of layers, the output included. */
    int sizes[LAYERS + 1];  /* Number of inputs, then of each layer's units. */
    size_t count;           /* Number of weights and biases. */
    float *w;               /* [count]: each layer's weights, [inputs][units], then its biases. */
    float *mean, *scale;    /* [inputs]: the network's input i is (x[i] - mean[i]) * scale[i]. */
    double mean_y, scale_y; /* A prediction is mean_y + scale_y times the network's output. */
    /* What predictions use. */
    tw_mlp_layer layers[LAYERS]; /* Layers whose weights and biases are in `packed`. */
    float *packed[LAYERS];       /* Weights of each layer in the order of tw_mlp_layer, then its biases. Units are
                                    padded to a multiple of TW_MLP_UNITS. */
    bool stale;                  /* True: `w` has changed since `packed` was written. */
    float *values[2];            /* [widest][TW_MLP_ROWS]: a layer's inputs, and its results. */
    int *live[2];                /* [widest]: indices of the inputs, and of the results, that are not 0 in every row. */
    tw_mlp_layer_fn *compute;
    double error; /* Mean squared error on held rows. 0: no rows were held. */
    int epochs;   /* Number of passes of the training. */
};

typedef struct training {
    tw_mlp *m;
    const tw_table *t;
    const tw_mlp_options *o;
    tw_arena arena;
    int *order;                       /* [rows]: indices of the rows that are not held, in the order of the pass. */
    int rows;                         /* Number of rows that are not held. */
    float *units[LAYERS + 1];         /* [batch][units]: the inputs, then each layer's results, of a batch. */
    float *back[LAYERS + 1];          /* [batch][units]: derivatives of the error by `units`. */
    float *gradient, *first, *second; /* [count]: derivatives by the weights and biases, and Adam's two moments. */
    float *best;                      /* [count]: weights and biases of the pass with the least error so far. */
    float *held_x, *held_y;           /* [held][columns] and [held]: the held rows. */
    float *predicted;                 /* [held]: predictions of the held rows. */
    int held;                         /* Number of held rows. */
    int64_t steps;                    /* Number of steps so far. */
    tw_random random;
} training;

/* ---- forward */

static size_t layer_size(const tw_mlp *m, int l) {
    return (size_t)(m->sizes[l] + 1) * (size_t)m->sizes[l + 1];
}

/* Adds the biases of a layer to n rows, and takes the positive part if `rectify`. */
static void finish_layer(float *restrict z, const float *restrict bias, int n, int units, bool rectify) {
    for (int i = 0; i < n; i++)
        for (int u = 0; u < units; u++) {
            const float v = z[(size_t)i * (size_t)units + (size_t)u] + bias[u];
            z[(size_t)i * (size_t)units + (size_t)u] = rectify && !(v > 0) ? 0 : v;
        }
}

/* Computes all layers of n rows. units[0] has the inputs. */
static void forward(const tw_mlp *m, float *const *units, int n) {
    const float *w = m->w;
    for (int l = 0; l < m->n; l++) {
        const int in = m->sizes[l], out = m->sizes[l + 1];
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, out, in, 1, units[l], in, w, out, 0, units[l + 1],
                    out);
        finish_layer(units[l + 1], w + (size_t)in * (size_t)out, n, out, l + 1 < m->n);
        w += layer_size(m, l);
    }
}

/* Returns the network's input i of a row. */
static float input_of(const tw_mlp *m, const float *row, int i) {
    return (row[i] - m->mean[i]) * m->scale[i];
}

/* ---- predictions */

static int padded(int units) {
    return (int)tw_ceil_div(units, TW_MLP_UNITS) * TW_MLP_UNITS;
}

/* Writes the weights and biases to `packed`. */
static void pack(tw_mlp *m) {
    const float *w = m->w;
    for (int l = 0; l < m->n; l++) {
        const int in = m->sizes[l], out = m->sizes[l + 1], to = padded(out);
        const float *bias = w + (size_t)in * (size_t)out;
        for (int u = 0; u < to; u++) {
            float *at = m->packed[l] + (size_t)(u / TW_MLP_UNITS) * (size_t)in * TW_MLP_UNITS + u % TW_MLP_UNITS;
            for (int i = 0; i < in; i++)
                at[(size_t)i * TW_MLP_UNITS] = u < out ? w[(size_t)i * (size_t)out + (size_t)u] : 0;
            m->packed[l][(size_t)in * (size_t)to + (size_t)u] = u < out ? bias[u] : 0;
        }
        w += layer_size(m, l);
    }
    m->stale = false;
}

/* Predicts y for at most TW_MLP_ROWS rows. */
static void predict_rows(const tw_mlp *m, const float *x, int rows, float *y) {
    float *from = m->values[0], *to = m->values[1];
    int *live = m->live[0], *next = m->live[1], n = 0;
    for (int i = 0; i < m->sizes[0]; i++) {
        float *at = from + (size_t)i * TW_MLP_ROWS;
        for (int r = 0; r < TW_MLP_ROWS; r++)
            at[r] = r < rows ? input_of(m, x + (size_t)r * (size_t)m->sizes[0], i) : 0;
        if (m->scale[i] != 0) live[n++] = i;
    }
    for (int l = 0; l < m->n; l++) {
        n = m->compute(&m->layers[l], from, live, n, to, next);
        float *const values = from;
        int *const list = live;
        from = to;
        live = next;
        to = values;
        next = list;
    }
    for (int r = 0; r < rows; r++) y[r] = (float)(m->mean_y + m->scale_y * (double)from[r]);
}

void tw_mlp_predict(tw_mlp *m, const float *x, int n, float *y) {
    if (m->stale) pack(m);
    for (int at = 0; at < n; at += TW_MLP_ROWS)
        predict_rows(m, x + (size_t)at * (size_t)m->sizes[0], n - at < TW_MLP_ROWS ? n - at : TW_MLP_ROWS, y + at);
}

void tw_mlp_limit(tw_mlp *m, uint32_t isa) {
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    isa &= cpu.isa;
    m->compute = isa & TW_CPU_AVX512 ? tw_mlp_layer_avx512 : isa & TW_CPU_AVX2 ? tw_mlp_layer_avx2 : tw_mlp_layer_c;
}

/* ---- backward */

/* Computes the derivatives of half the mean squared error of n rows by all weights and biases. back[m->n] has the
   derivatives by the outputs. */
static void backward(const training *t, int n) {
    const tw_mlp *m = t->m;
    size_t at = m->count;
    for (int l = m->n - 1; l >= 0; l--) {
        const int in = m->sizes[l], out = m->sizes[l + 1];
        at -= layer_size(m, l);
        float *g = t->gradient + at, *bias = g + (size_t)in * (size_t)out;
        const float *d = t->back[l + 1];
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, in, out, n, 1, t->units[l], in, d, out, 0, g, out);
        memset(bias, 0, (size_t)out * sizeof *bias);
        for (int i = 0; i < n; i++)
            for (int u = 0; u < out; u++) bias[u] += d[(size_t)i * (size_t)out + (size_t)u];
        if (!l) break;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, in, out, 1, d, out, m->w + at, out, 0, t->back[l], in);
        const float *z = t->units[l];
        for (size_t i = 0; i < (size_t)n * (size_t)in; i++)
            if (!(z[i] > 0)) t->back[l][i] = 0;
    }
}

/* Takes a step of Adam, against the gradient. */
static void move(training *t, double rate) {
    t->steps++;
    const double a = 1 - pow(FIRST, (double)t->steps), b = 1 - pow(SECOND, (double)t->steps);
    const float step = (float)(rate * sqrt(b) / a), tiny = (float)(TINY * sqrt(b));
    const float f = (float)FIRST, s = (float)SECOND;
    float *restrict w = t->m->w, *restrict m = t->first, *restrict v = t->second;
    const float *restrict g = t->gradient;
    for (size_t i = 0; i < t->m->count; i++) {
        m[i] = f * m[i] + (1 - f) * g[i];
        v[i] = s * v[i] + (1 - s) * g[i] * g[i];
        w[i] -= step * m[i] / (sqrtf(v[i]) + tiny);
    }
    t->m->stale = true;
}

/* Takes a training step on n rows, which are given by their indices. */
static void learn(training *t, const int *rows, int n, double rate) {
    tw_mlp *m = t->m;
    const size_t in = (size_t)m->sizes[0];
    for (int r = 0; r < n; r++)
        for (int i = 0; i < m->sizes[0]; i++)
            t->units[0][(size_t)r * in + (size_t)i] = input_of(m, t->t->x + (size_t)rows[r] * in, i);
    forward(m, t->units, n);
    for (int i = 0; i < n; i++) {
        const double wanted = ((double)t->t->y[rows[i]] - m->mean_y) / m->scale_y;
        t->back[m->n][i] = (float)(((double)t->units[m->n][i] - wanted) / n);
    }
    backward(t, n);
    move(t, rate);
}

/* ---- training */

/* Finds the mean and the spread of each input and of y. An input that does not vary becomes 0. */
static void find_scales(const training *t) {
    tw_mlp *m = t->m;
    const int in = m->sizes[0];
    for (int c = 0; c <= in; c++) {
        double sum = 0, squares = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < t->rows; i++) {
                const size_t row = (size_t)t->order[i];
                const double v = (double)(c < in ? t->t->x[row * (size_t)in + (size_t)c] : t->t->y[row]);
                if (!pass) sum += v / t->rows;
                if (pass) squares += (v - sum) * (v - sum) / t->rows;
            }
        const double spread = sqrt(squares);
        if (c < in) {
            m->mean[c] = (float)sum;
            m->scale[c] = spread > 1e-12 ? (float)(1 / spread) : 0;
        } else {
            m->mean_y = sum;
            m->scale_y = spread > 1e-12 ? spread : 1;
        }
    }
}

/* Draws first weights with the variance 2 / inputs (He et al., ICCV 2015). Biases are 0. */
static void draw_weights(training *t) {
    float *w = t->m->w;
    for (int l = 0; l < t->m->n; l++) {
        const int in = t->m->sizes[l], out = t->m->sizes[l + 1];
        const float spread = (float)sqrt((l + 1 < t->m->n ? 2.0 : 1.0) / in);
        for (size_t i = 0; i < (size_t)in * (size_t)out; i++) w[i] = spread * tw_random_normal(&t->random);
        w += layer_size(t->m, l);
    }
}

static void shuffle(training *t) {
    for (int i = t->rows - 1; i > 0; i--) {
        const int j = (int)tw_random_below(&t->random, (uint64_t)i + 1), x = t->order[i];
        t->order[i] = t->order[j];
        t->order[j] = x;
    }
}

/* Returns the mean squared error on held rows. */
static double held_error(const training *t) {
    double sum = 0;
    tw_mlp_predict(t->m, t->held_x, t->held, t->predicted);
    for (int i = 0; i < t->held; i++)
        sum += (double)((t->predicted[i] - t->held_y[i]) * (t->predicted[i] - t->held_y[i]));
    return sum / t->held;
}

static void train(training *t) {
    tw_mlp *m = t->m;
    const double turn = 3.14159265358979323846;
    int since = 0;
    for (int e = 0; e < t->o->epochs && !(t->o->patience && since >= t->o->patience); e++) {
        shuffle(t);
        for (int at = 0; at < t->rows; at += t->o->batch) {
            const double done = (e + (double)at / t->rows) / t->o->epochs;
            const int n = t->rows - at < t->o->batch ? t->rows - at : t->o->batch;
            learn(t, t->order + at, n, t->o->rate * (1 + cos(turn * done)) / 2);
        }
        m->epochs = e + 1;
        if (!t->held) continue;
        const double error = held_error(t);
        since++;
        if (e && !(error < m->error)) continue;
        m->error = error;
        since = 0;
        memcpy(t->best, m->w, m->count * sizeof *m->w);
    }
    if (t->held) memcpy(m->w, t->best, m->count * sizeof *m->w);
    m->stale = true;
}

/* Allocates floats whose address is a multiple of TW_MLP_ALIGN. NULL: out of memory. */
static float *aligned(tw_arena *a, size_t n) {
    char *at = tw_arena_array(a, n * sizeof(float) + TW_MLP_ALIGN, 1);
    return at ? (float *)(at + (TW_MLP_ALIGN - (uintptr_t)at % TW_MLP_ALIGN)) : NULL;
}

/* Makes room for predictions. m->arena.failed tells whether there was too little memory. */
static void make_layers(tw_mlp *m) {
    int widest = m->sizes[0];
    for (int l = 0; l < m->n; l++) {
        const int in = m->sizes[l], out = padded(m->sizes[l + 1]);
        if (out > widest) widest = out;
        m->packed[l] = aligned(&m->arena, (size_t)(in + 1) * (size_t)out);
        if (!m->packed[l]) return;
        m->layers[l] = (tw_mlp_layer){m->packed[l], m->packed[l] + (size_t)in * (size_t)out, in, out, l + 1 < m->n};
    }
    for (int i = 0; i < 2; i++) {
        m->values[i] = aligned(&m->arena, (size_t)widest * TW_MLP_ROWS);
        m->live[i] = tw_arena_array(&m->arena, (size_t)widest, sizeof **m->live);
    }
    m->stale = true;
    tw_mlp_limit(m, UINT32_MAX);
}

static bool make(tw_mlp *m, const tw_table *t, const tw_mlp_options *o) {
    m->n = o->n_layers + 1;
    m->sizes[0] = t->columns;
    memcpy(m->sizes + 1, o->layers, (size_t)o->n_layers * sizeof *m->sizes);
    m->sizes[m->n] = 1;
    for (int l = 0; l < m->n; l++) m->count += layer_size(m, l);
    m->w = tw_arena_array(&m->arena, m->count, sizeof *m->w);
    m->mean = tw_arena_array(&m->arena, (size_t)t->columns, sizeof *m->mean);
    m->scale = tw_arena_array(&m->arena, (size_t)t->columns, sizeof *m->scale);
    make_layers(m);
    return !m->arena.failed;
}

static bool make_training(training *t) {
    const size_t batch = (size_t)t->o->batch, count = t->m->count, n = (size_t)t->t->n + 1;
    const size_t in = (size_t)t->t->columns;
    for (int l = 0; l <= t->m->n; l++) {
        t->units[l] = tw_arena_array(&t->arena, batch * (size_t)t->m->sizes[l], sizeof(float));
        t->back[l] = tw_arena_array(&t->arena, batch * (size_t)t->m->sizes[l], sizeof(float));
    }
    t->gradient = tw_arena_array(&t->arena, count, sizeof(float));
    t->first = tw_arena_array(&t->arena, count, sizeof(float));
    t->second = tw_arena_array(&t->arena, count, sizeof(float));
    t->best = tw_arena_array(&t->arena, count, sizeof(float));
    t->order = tw_arena_array(&t->arena, n, sizeof *t->order);
    t->held_x = tw_arena_array(&t->arena, n * in, sizeof(float));
    t->held_y = tw_arena_array(&t->arena, n, sizeof(float));
    t->predicted = tw_arena_array(&t->arena, n, sizeof(float));
    if (t->arena.failed) return false;
    for (int i = 0; i < t->t->n; i++) {
        if (!t->t->held[i]) {
            t->order[t->rows++] = i;
            continue;
        }
        memcpy(t->held_x + (size_t)t->held * in, t->t->x + (size_t)i * in, in * sizeof(float));
        t->held_y[t->held++] = t->t->y[i];
    }
    return true;
}

static tw_status check(const tw_table *t, const tw_mlp_options *o, tw_diag *diag) {
    bool good = o->n_layers >= 1 && o->n_layers <= TW_MLP_LAYERS && o->epochs >= 1 && o->batch >= 1 &&
                o->batch <= BATCH && o->rate > 0 && o->patience >= 0;
    for (int i = 0; good && i < o->n_layers; i++) good = o->layers[i] >= 1 && o->layers[i] <= WIDEST;
    if (!good) return tw_fail(diag, TW_ERR_USAGE, "a network has 1 to %d layers of 1 to %d units", LAYERS - 1, WIDEST);
    for (int i = 0; i < t->n; i++)
        if (!t->held[i]) return TW_OK;
    return tw_fail(diag, TW_ERR_USAGE, "there is nothing that a network can learn from");
}

tw_status tw_mlp_fit(tw_mlp **out, const tw_table *t, const tw_mlp_options *o, tw_diag *diag) {
    *out = NULL;
    const tw_status st = check(t, o, diag);
    if (st != TW_OK) return st;
    tw_mlp *m = calloc(1, sizeof *m);
    training work = {.m = m, .t = t, .o = o, .random = tw_random_seed(o->seed)};
    const bool good = m && make(m, t, o) && make_training(&work);
    if (good) {
        find_scales(&work);
        draw_weights(&work);
        train(&work);
        *out = m;
    }
    tw_arena_free(&work.arena);
    if (!good) tw_mlp_free(m);
    return good ? TW_OK : tw_fail_memory(diag);
}

void tw_mlp_free(tw_mlp *m) {
    if (!m) return;
    tw_arena_free(&m->arena);
    free(m);
}

int64_t tw_mlp_weights(const tw_mlp *m) {
    return (int64_t)m->count;
}

double tw_mlp_error(const tw_mlp *m) {
    return m->error;
}

int tw_mlp_epochs(const tw_mlp *m) {
    return m->epochs;
}
