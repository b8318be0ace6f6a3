/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/boost.h"

#include "base/arena.h"
#include "base/diag.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 255, NODES = 1 << 24 /* The most nodes of a tree. */ };

/* A node of a tree. */
typedef struct node {
    /* Of a split: the threshold. Rows with a smaller value go to node `left`, others to the node after it. Of a leaf:
       the value that the leaf adds to a prediction. */
    float at;
    uint32_t left; /* Index of the left child in the tree times 256, plus the column of the split. 0: a leaf. */
} node;

struct tw_boost {
    tw_arena arena;
    double mean;    /* Mean of y in training, to which the trees' sum is added. */
    int n, columns; /* Number of trees, and of columns of a row. */
    node **trees;   /* [n]: the nodes of each tree, its root first. */
    int64_t nodes;  /* Number of nodes of all trees. */
};

/* ---- prediction */

void tw_boost_predict(const tw_boost *b, const float *x, int n, float *y) {
    for (int i = 0; i < n; i++) y[i] = (float)b->mean;
    for (int t = 0; t < b->n; t++) {
        const node *tree = b->trees[t];
        for (int i = 0; i < n; i++) {
            const float *row = x + (size_t)i * (size_t)b->columns;
            const node *at = tree;
            while (at->left) at = tree + (at->left >> 8) + !(row[at->left & 255] < at->at);
            y[i] += at->at;
        }
    }
}

int64_t tw_boost_nodes(const tw_boost *b) {
    return b->nodes;
}

int64_t tw_boost_bytes(const tw_boost *b) {
    return b->nodes * (int64_t)sizeof(node) + b->n * (int64_t)sizeof *b->trees;
}

/* ---- XGBoost's JSON */

/* A tree as XGBoost writes it: an array for each field of a node. */
typedef struct written {
    const json_t *left, *right, *column, *at;
    size_t n;
} written;

static bool read_tree(const json_t *o, written *w) {
    w->left = json_object_get(o, "left_children");
    w->right = json_object_get(o, "right_children");
    w->column = json_object_get(o, "split_indices");
    w->at = json_object_get(o, "split_conditions");
    w->n = json_array_size(w->left);
    return w->n >= 1 && w->n <= NODES && json_array_size(w->right) == w->n && json_array_size(w->column) == w->n &&
           json_array_size(w->at) == w->n;
}

static json_int_t whole(const json_t *array, size_t i) {
    const json_t *v = json_array_get(array, i);
    return json_is_integer(v) ? json_integer_value(v) : -2;
}

/* Copies a tree with the children of each node side by side. `from` has room for a number per node. False: the
   arrays are no tree. */
static bool copy_tree(const written *w, int columns, node *to, size_t *from) {
    size_t n = 1;
    from[0] = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t k = from[i];
        const json_int_t left = whole(w->left, k), right = whole(w->right, k), column = whole(w->column, k);
        const json_t *at = json_array_get(w->at, k);
        if (!json_is_number(at)) return false;
        to[i] = (node){(float)json_number_value(at), 0};
        if (left == -1 && right == -1) continue;
        if (left < 1 || right < 1 || (size_t)left >= w->n || (size_t)right >= w->n || column < 0 || column >= columns ||
            n + 2 > w->n)
            return false;
        to[i].left = (uint32_t)(n << 8) | (uint32_t)column;
        from[n++] = (size_t)left;
        from[n++] = (size_t)right;
    }
    return true;
}

static tw_status read_model(tw_boost *b, const json_t *trees, tw_diag *diag) {
    b->trees = tw_arena_array(&b->arena, json_array_size(trees) + 1, sizeof *b->trees);
    if (!b->trees) return tw_fail_memory(diag);
    for (size_t i = 0; i < json_array_size(trees); i++) {
        written w;
        if (!read_tree(json_array_get(trees, i), &w))
            return tw_fail(diag, TW_ERR_FORMAT, "tree %zu of XGBoost's model has no nodes that fit", i);
        size_t *from = malloc(w.n * sizeof *from);
        node *tree = tw_arena_array(&b->arena, w.n, sizeof *tree);
        const bool room = from && tree, good = room && copy_tree(&w, b->columns, tree, from);
        free(from);
        if (!room) return tw_fail_memory(diag);
        if (!good) return tw_fail(diag, TW_ERR_FORMAT, "tree %zu of XGBoost's model is no tree", i);
        b->trees[b->n++] = tree;
        b->nodes += (int64_t)w.n;
    }
    return TW_OK;
}

tw_status tw_boost_read(tw_boost **out, const char *json, size_t size, int columns, tw_diag *diag) {
    *out = NULL;
    if (columns < 1 || columns > COLUMNS)
        return tw_fail(diag, TW_ERR_USAGE, "trees are of 1 to %d columns, not %d", COLUMNS, columns);
    json_t *o = json_loadb(json, size, 0, NULL), *trees = NULL;
    tw_boost *b = calloc(1, sizeof *b);
    tw_status st = b ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK && (json_unpack(o, "{s:{s:{s:{s:o}}}}", "learner", "gradient_booster", "model", "trees", &trees) ||
                        !json_array_size(trees)))
        st = tw_fail(diag, TW_ERR_FORMAT, "XGBoost's model has no trees");
    if (st == TW_OK) {
        b->columns = columns;
        st = read_model(b, trees, diag);
    }
    json_decref(o);
    if (st == TW_OK) *out = b;
    if (st != TW_OK) tw_boost_free(b);
    return st;
}

void tw_boost_free(tw_boost *b) {
    if (!b) return;
    tw_arena_free(&b->arena);
    free(b);
}

/* ---- training */

/* The used functions of XGBoost's C interface, which versions from 1.6 have. They return 0, or -1 after a failure. */
typedef struct xgboost {
    void *library;
    const char *(*last_error)(void);
    int (*matrix_make)(const float *x, uint64_t rows, uint64_t columns, float missing, void **out);
    int (*matrix_set)(void *matrix, const char *field, const float *values, uint64_t n);
    int (*matrix_free)(void *matrix);
    int (*make)(void *const *matrices, uint64_t n, void **out);
    int (*set)(void *booster, const char *name, const char *value);
    int (*update)(void *booster, int step, void *matrix);
    int (*save)(void *booster, const char *config, uint64_t *size, const char **bytes);
    int (*free)(void *booster);
} xgboost;

static tw_status open_library(xgboost *x, const char *path, tw_diag *diag) {
    static const char *const names[] = {"libxgboost.so", "libxgboost.so.0"};
    struct {
        const char *name;
        void *to;
    } functions[] = {{"XGBGetLastError", &x->last_error},
                     {"XGDMatrixCreateFromMat", &x->matrix_make},
                     {"XGDMatrixSetFloatInfo", &x->matrix_set},
                     {"XGDMatrixFree", &x->matrix_free},
                     {"XGBoosterCreate", &x->make},
                     {"XGBoosterSetParam", &x->set},
                     {"XGBoosterUpdateOneIter", &x->update},
                     {"XGBoosterSaveModelToBuffer", &x->save},
                     {"XGBoosterFree", &x->free}};
    if (path) x->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    for (size_t i = 0; !path && !x->library && i < sizeof names / sizeof *names; i++)
        x->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    bool good = x->library != NULL;
    for (size_t i = 0; good && i < sizeof functions / sizeof *functions; i++) {
        void *at = dlsym(x->library, functions[i].name);
        memcpy(functions[i].to, &at, sizeof at);
        good = at != NULL;
    }
    if (good) return TW_OK;
    if (x->library) dlclose(x->library);
    x->library = NULL;
    return tw_fail(diag, TW_ERR_UNSUPPORTED,
                   "boosted trees are trained by XGBoost 1.6 or later, which is not installed (Debian: libxgboost0)");
}

static tw_status set_options(const xgboost *x, void *booster, const tw_boost_options *o, tw_diag *diag) {
    char depth[16], rate[32], subsample[32], seed[32], threads[16];
    const char *const of[][2] = {{"objective", "reg:squarederror"},
                                 {"tree_method", "hist"},
                                 {"verbosity", "0"},
                                 {"base_score", "0"},
                                 {"max_depth", depth},
                                 {"eta", rate},
                                 {"subsample", subsample},
                                 {"seed", seed},
                                 {"nthread", threads}};
    snprintf(depth, sizeof depth, "%d", o->depth);
    snprintf(rate, sizeof rate, "%g", o->rate);
    snprintf(subsample, sizeof subsample, "%g", o->subsample);
    snprintf(seed, sizeof seed, "%" PRIu64, o->seed % 1000000007);
    snprintf(threads, sizeof threads, "%d", o->threads);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (x->set(booster, of[i][0], of[i][1]))
            return tw_fail(diag, TW_ERR_UNSUPPORTED, "XGBoost does not take %s=%s", of[i][0], of[i][1]);
    return TW_OK;
}

/* Copies the rows that are not held to x, and their y, less the mean, to y. Returns the number of rows. */
static int gather(const tw_table *t, float *x, float *y, double *mean) {
    const size_t columns = (size_t)t->columns;
    int n = 0;
    double sum = 0;
    for (int i = 0; i < t->n; i++) {
        if (t->held[i]) continue;
        memcpy(x + (size_t)n * columns, t->x + (size_t)i * columns, columns * sizeof *x);
        y[n++] = t->y[i];
        sum += (double)t->y[i];
    }
    *mean = n ? sum / n : 0;
    for (int i = 0; i < n; i++) y[i] -= (float)*mean;
    return n;
}

static tw_status train(tw_boost **out, const xgboost *x, const tw_table *t, const float *rows, const float *y, int n,
                       const tw_boost_options *o, tw_diag *diag) {
    void *matrix = NULL, *booster = NULL;
    const char *bytes = NULL;
    uint64_t size = 0;
    tw_status st = TW_OK;
    bool good = !x->matrix_make(rows, (uint64_t)n, (uint64_t)t->columns, NAN, &matrix) &&
                !x->matrix_set(matrix, "label", y, (uint64_t)n) && !x->make(&matrix, 1, &booster);
    if (good) st = set_options(x, booster, o, diag);
    for (int i = 0; i < o->trees && good && st == TW_OK; i++) good = !x->update(booster, i, matrix);
    if (good && st == TW_OK) good = !x->save(booster, "{\"format\": \"json\"}", &size, &bytes);
    if (!good) st = tw_fail(diag, TW_ERR_UNSUPPORTED, "XGBoost failed: %.300s", x->last_error());
    if (st == TW_OK) st = tw_boost_read(out, bytes, size, t->columns, diag);
    if (booster) x->free(booster);
    if (matrix) x->matrix_free(matrix);
    return st;
}

tw_status tw_boost_fit(tw_boost **out, const tw_table *t, const tw_boost_options *o, tw_diag *diag) {
    xgboost x = {0};
    double mean = 0;
    *out = NULL;
    if (o->trees < 1 || o->depth < 1 || !(o->rate > 0) || !(o->subsample > 0) || o->subsample > 1)
        return tw_fail(diag, TW_ERR_USAGE, "there are no such trees");
    tw_status st = open_library(&x, o->xgboost, diag);
    if (st != TW_OK) return st;
    float *rows = malloc(((size_t)t->n + 1) * (size_t)t->columns * sizeof *rows);
    float *y = malloc(((size_t)t->n + 1) * sizeof *y);
    const int n = rows && y ? gather(t, rows, y, &mean) : 0;
    if (!rows || !y)
        st = tw_fail_memory(diag);
    else if (!n)
        st = tw_fail(diag, TW_ERR_USAGE, "there is nothing that trees can learn from");
    else
        st = train(out, &x, t, rows, y, n, o, diag);
    if (st == TW_OK) (*out)->mean = mean;
    free(rows);
    free(y);
    return st;
}
