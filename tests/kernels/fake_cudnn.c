/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for cuDNN over the host's memory. It takes no attribute but those that its table has, of the type that the
   table says, before the descriptor is finalized. A descriptor is finalized when it has all attributes that it needs,
   and when what it refers to is finalized. A product's factors are of one type, and a graph has logarithms, as the real
   one wants them. A graph is computed operation by operation, in f32. A query whose scores are all infinite gets zeros,
   which the real one may not do.

   Its heuristics propose three engines: 2 with knob 24 = 7, which needs 256 bytes of workspace and takes as long as two
   kernels; 1 with knob 24 = 6, which takes as long as one kernel and computes something else; and 1 with knob 24 = 5,
   of which no plan is made. A head of 72 elements has none, and one of 80 only in mode FALLBACK. FAKE_CUDNN_VERSION
   is the number of another version. */
#define _GNU_SOURCE
#include "kernels/fake_cudnn.h"

#include "base/dtype.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

enum { BAD = 2000, NOT_FINALIZED = 2004, UNSUPPORTED = 3000 };
enum { POINTWISE, ENGINE = 2, CONFIGURATION, HEURISTICS, PLAN, CHOICE = 7, POINTWISE_OPERATION = 13, GRAPH = 15 };
enum { PACK = 16, TENSOR, MATMUL, MATMUL_OPERATION, REDUCTION = 21, REDUCTION_OPERATION };
enum { F32, F16 = 2, I32 = 4, BF16 = 9, TRUTH = 11 };
enum { VALUES = 32, ATTRIBUTES = 10, WORKSPACE = 256 };

/* Attributes of descriptors. */
static const struct {
    int descriptor, attribute, type, least, most; /* Values that it has. */
    bool needed;
} known[] = {
    {POINTWISE, 0, 14, 1, 1, true},
    {POINTWISE, 1, 1, 1, 1, true},
    {POINTWISE, 9, 3, 1, 1, false},
    {ENGINE, 1300, 15, 1, 1, true},
    {ENGINE, 1301, 3, 1, 1, true},
    {CONFIGURATION, 300, 15, 1, 1, true},
    {CONFIGURATION, 302, 15, 1, 16, false},
    {HEURISTICS, 200, 8, 1, 1, true},
    {HEURISTICS, 201, 15, 1, 1, true},
    {PLAN, 400, 0, 1, 1, true},
    {PLAN, 401, 15, 1, 1, true},
    {CHOICE, 600, 9, 1, 1, true},
    {CHOICE, 601, 3, 1, 1, true},
    {POINTWISE_OPERATION, 750, 15, 1, 1, true},
    {POINTWISE_OPERATION, 751, 15, 1, 1, true},
    {POINTWISE_OPERATION, 752, 15, 1, 1, false},
    {POINTWISE_OPERATION, 753, 15, 1, 1, true},
    {POINTWISE_OPERATION, 758, 15, 1, 1, false},
    {GRAPH, 800, 0, 1, 1, true},
    {GRAPH, 801, 15, 1, VALUES, true},
    {PACK, 1000, 3, 1, VALUES, true},
    {PACK, 1001, 6, 1, VALUES, true},
    {PACK, 1003, 6, 1, 1, true},
    {TENSOR, 900, 3, 1, 1, true},
    {TENSOR, 901, 1, 1, 1, true},
    {TENSOR, 902, 3, 4, 4, true},
    {TENSOR, 903, 3, 4, 4, true},
    {TENSOR, 906, 3, 1, 1, true},
    {TENSOR, 907, 2, 1, 1, false},
    {TENSOR, 908, 2, 1, 1, false},
    {MATMUL, 1500, 1, 1, 1, true},
    {MATMUL_OPERATION, 1520, 15, 1, 1, true},
    {MATMUL_OPERATION, 1521, 15, 1, 1, true},
    {MATMUL_OPERATION, 1522, 15, 1, 1, true},
    {MATMUL_OPERATION, 1523, 15, 1, 1, true},
    {REDUCTION, 1600, 18, 1, 1, true},
    {REDUCTION, 1601, 1, 1, 1, true},
    {REDUCTION_OPERATION, 1610, 15, 1, 1, true},
    {REDUCTION_OPERATION, 1611, 15, 1, 1, true},
    {REDUCTION_OPERATION, 1612, 15, 1, 1, true},
};
enum { KNOWN = sizeof known / sizeof *known };

typedef union cell {
    int64_t whole;
    const void *pointer;
    struct descriptor *descriptor;
} cell;

typedef struct attribute {
    int name;
    int64_t n;
    cell of[VALUES];
} attribute;

typedef struct descriptor {
    int type, n;
    bool final;
    attribute attributes[ATTRIBUTES];
    float *elements;                /* Of a tensor while a graph is computed. */
    const struct descriptor *graph; /* Of a configuration that heuristics filled in, or an engine's. */
    int number;                     /* Of a configuration that heuristics filled in. */
} descriptor;

static int failing = -1, failure, alive, runs, calls;

EXPORT void fake_cudnn_reset(void) {
    failing = -1;
    runs = 0;
}
EXPORT void fake_cudnn_fail(int nth, int status) {
    failing = nth;
    failure = status;
}
EXPORT int fake_cudnn_alive(void) {
    return alive;
}
EXPORT int fake_cudnn_calls(void) {
    return calls;
}
EXPORT int fake_cudnn_runs(void) {
    return runs;
}

static int fails(void) {
    calls++;
    return failing >= 0 && failing-- == 0 ? failure : 0;
}

static const attribute *find(const descriptor *d, int name) {
    for (int i = 0; i < d->n; i++)
        if (d->attributes[i].name == name) return &d->attributes[i];
    return NULL;
}

static int64_t whole(const descriptor *d, int name) {
    const attribute *a = find(d, name);
    return a ? a->of[0].whole : 0;
}

static descriptor *referred(const descriptor *d, int name) {
    const attribute *a = find(d, name);
    return a ? a->of[0].descriptor : NULL;
}

EXPORT size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void) {
    const char *other = getenv("FAKE_CUDNN_VERSION");
    return other ? (size_t)atoi(other) : 91901;
}
EXPORT void cudnnGetLastErrorString(char *out, size_t size);
void cudnnGetLastErrorString(char *out, size_t size) {
    strncpy(out, "why not\nand more", size);
}
EXPORT int cudnnCreate(void **handle);
int cudnnCreate(void **handle) {
    const int s = fails();
    if (s) return s;
    *handle = calloc(1, 1);
    alive++;
    return 0;
}
EXPORT int cudnnDestroy(void *handle);
int cudnnDestroy(void *handle) {
    free(handle);
    alive--;
    return 0;
}
EXPORT int cudnnSetStream(void *handle, void *stream);
int cudnnSetStream(void *handle, void *stream) {
    return handle && stream ? fails() : BAD;
}

EXPORT int cudnnBackendCreateDescriptor(int type, descriptor **d);
int cudnnBackendCreateDescriptor(int type, descriptor **d) {
    const int s = fails();
    if (s) return s;
    bool is = false;
    for (int i = 0; i < KNOWN; i++) is |= known[i].descriptor == type;
    if (!is) return BAD;
    *d = calloc(1, sizeof **d);
    (*d)->type = type;
    alive++;
    return 0;
}
EXPORT int cudnnBackendDestroyDescriptor(descriptor *d);
int cudnnBackendDestroyDescriptor(descriptor *d) {
    free(d);
    alive--;
    return 0;
}

static const int sizes[] = {
    [0] = 8, [1] = 4, [2] = 1, [3] = 8, [6] = 8, [8] = 4, [9] = 4, [14] = 4, [15] = 8, [18] = 4};

EXPORT int cudnnBackendSetAttribute(descriptor *d, int name, int type, int64_t n, const void *values);
int cudnnBackendSetAttribute(descriptor *d, int name, int type, int64_t n, const void *values) {
    const int s = fails();
    if (s) return s;
    int at = 0;
    while (at < KNOWN && (known[at].descriptor != d->type || known[at].attribute != name)) at++;
    if (at == KNOWN || known[at].type != type || n < known[at].least || n > known[at].most || d->final) return BAD;
    if (find(d, name) || d->n == ATTRIBUTES) return BAD;
    attribute *a = &d->attributes[d->n++];
    *a = (attribute){.name = name, .n = n};
    for (int64_t i = 0; i < n; i++) {
        int32_t number;
        const char *from = (const char *)values + i * sizes[type];
        memcpy(&a->of[i], from, (size_t)sizes[type]);
        memcpy(&number, from, sizes[type] == 4 ? 4 : 0);
        if (sizes[type] == 4) a->of[i].whole = number;
        if (type == 15 && (!a->of[i].descriptor || !a->of[i].descriptor->final)) return NOT_FINALIZED;
    }
    return 0;
}

/* An engine that the stand-in knows, with its one knob. */
static bool is_known(int64_t index, const attribute *choices) {
    if (index != 1 && index != 2) return false;
    if (!choices) return true;
    const int64_t knob = whole(choices->of[0].descriptor, 600), value = whole(choices->of[0].descriptor, 601);
    return choices->n == 1 && knob == 24 && value >= 5 && value <= 7;
}

static int64_t knob_of(const descriptor *configuration) {
    const attribute *choices = find(configuration, 302);
    return choices ? whole(choices->of[0].descriptor, 601) : 7;
}

static bool has_logarithms(const descriptor *graph) {
    const attribute *operations = find(graph, 801);
    bool found = false;
    for (int64_t i = 0; i < operations->n; i++) {
        const descriptor *how = referred(operations->of[i].descriptor, 750);
        found |= how && whole(how, 0) == 15;
    }
    return found;
}

EXPORT int cudnnBackendFinalize(descriptor *d);
int cudnnBackendFinalize(descriptor *d) {
    const int s = fails();
    if (s) return s;
    if (d->final) return BAD;
    for (int i = 0; i < KNOWN; i++)
        if (known[i].descriptor == d->type && known[i].needed && !find(d, known[i].attribute)) return BAD;
    if (d->type == PACK && find(d, 1000)->n != find(d, 1001)->n) return BAD;
    if (d->type == TENSOR && whole(d, 907) && whole(d, 908)) return BAD;
    if (d->type == MATMUL_OPERATION && whole(referred(d, 1520), 901) != whole(referred(d, 1521), 901))
        return UNSUPPORTED;
    if (d->type == GRAPH && !has_logarithms(d)) return UNSUPPORTED;
    if (d->type == ENGINE && !is_known(whole(d, 1301), NULL)) return UNSUPPORTED;
    if (d->type == CONFIGURATION && !is_known(whole(referred(d, 300), 1301), find(d, 302))) return UNSUPPORTED;
    if (d->type == PLAN && knob_of(referred(d, 401)) == 5) return UNSUPPORTED;
    d->final = true;
    return 0;
}

/* Elements of a head, from the graph's first operation. */
static int64_t head_of(const descriptor *graph) {
    return find(referred(find(graph, 801)->of[0].descriptor, 1520), 902)->of[3].whole;
}

static int64_t fill_results(const descriptor *h, int64_t room, descriptor **out) {
    const descriptor *graph = referred(h, 201);
    const int64_t head = head_of(graph), mode = whole(h, 200);
    if (head == 72 || mode != (head == 80 ? 2 : 3)) return 0;
    for (int i = 0; i < 3 && i < room; i++) {
        out[i]->graph = graph;
        out[i]->number = i;
        out[i]->final = true;
    }
    return 3;
}

EXPORT int cudnnBackendGetAttribute(const descriptor *d, int name, int type, int64_t room, int64_t *n, void *values);
int cudnnBackendGetAttribute(const descriptor *d, int name, int type, int64_t room, int64_t *n, void *values) {
    const int s = fails();
    descriptor **out = values;
    if (s) return s;
    if (!d->final || room < 1) return d->final ? BAD : NOT_FINALIZED;
    *n = 1;
    if (d->type == HEURISTICS && name == 202 && type == 15) {
        for (int64_t i = 0; i < room; i++)
            if (out[i]->type != CONFIGURATION || out[i]->final) return BAD;
        *n = fill_results(d, room, out);
    } else if (d->type == CONFIGURATION && name == 300 && type == 15 && out[0]->type == ENGINE) {
        out[0]->number = d->number ? 1 : 2;
        out[0]->final = true;
    } else if (d->type == CONFIGURATION && name == 302 && type == 15 && out[0]->type == CHOICE) {
        out[0]->number = 7 - d->number;
        out[0]->final = true;
    } else if (d->type == ENGINE && name == 1301 && type == 3) {
        memcpy(values, &(int64_t){d->number}, 8);
    } else if (d->type == CHOICE && name == 600 && type == 9) {
        memcpy(values, &(int32_t){24}, 4);
    } else if (d->type == CHOICE && name == 601 && type == 3) {
        memcpy(values, &(int64_t){d->number}, 8);
    } else if (d->type == PLAN && name == 402 && type == 3) {
        memcpy(values, &(int64_t){whole(referred(referred(d, 401), 300), 1301) == 2 ? WORKSPACE : 0}, 8);
    } else {
        return BAD;
    }
    return 0;
}

/* ---- computing a graph */

static int64_t dim(const descriptor *t, int i) {
    return find(t, 902)->of[i].whole;
}

/* Where an element lies, or the only one of a dimension that has no more. */
static int64_t offset(const descriptor *t, const int64_t at[4], bool dense) {
    int64_t sum = 0;
    for (int i = 0; i < 4; i++) {
        const int64_t place = dim(t, i) == 1 ? 0 : at[i];
        sum = dense ? sum * dim(t, i) + place : sum + place * find(t, 903)->of[i].whole;
    }
    return sum;
}

static int64_t count(const descriptor *t) {
    return dim(t, 0) * dim(t, 1) * dim(t, 2) * dim(t, 3);
}

static void place_of(const descriptor *t, int64_t i, int64_t at[4]) {
    for (int k = 3; k >= 0; k--) {
        at[k] = i % dim(t, k);
        i /= dim(t, k);
    }
}

static const void *address(const descriptor *pack, int64_t id) {
    const attribute *ids = find(pack, 1000), *pointers = find(pack, 1001);
    for (int64_t i = 0; i < ids->n; i++)
        if (ids->of[i].whole == id) return pointers->of[i].pointer;
    return NULL;
}

/* The value of an element that an operation reads. */
static float read_at(const descriptor *t, const int64_t at[4], const descriptor *pack) {
    if (whole(t, 907)) return t->elements[offset(t, at, true)];
    const void *p = address(pack, whole(t, 906));
    const int64_t i = offset(t, at, false);
    switch (whole(t, 901)) {
    case F16:
        return tw_f16_to_f32(((const uint16_t *)p)[i]);
    case BF16:
        return tw_bf16_to_f32(((const uint16_t *)p)[i]);
    case I32:
        return (float)((const int32_t *)p)[i];
    default:
        return ((const float *)p)[i];
    }
}

static void write_at(descriptor *t, const int64_t at[4], float x, const descriptor *pack) {
    const int64_t type = whole(t, 901);
    const uint16_t bits = type == BF16 ? tw_f32_to_bf16(x) : tw_f32_to_f16(x);
    const float rounded = type == BF16 ? tw_bf16_to_f32(bits) : type == F16 ? tw_f16_to_f32(bits) : x;
    if (whole(t, 907)) {
        t->elements[offset(t, at, true)] = rounded;
        return;
    }
    union {
        const void *from;
        uint16_t *to;
    } p = {address(pack, whole(t, 906))};
    p.to[offset(t, at, false)] = bits;
}

static float compute(const descriptor *how, float x, float b, float t, const int64_t at[4]) {
    switch (whole(how, 0)) {
    case 0:
        return x + b;
    case 1:
        return x * b;
    case 6:
        return b != 0 ? x / b : 0;
    case 9:
        return x > -INFINITY ? x - b : x;
    case 13:
        return expf(x);
    case 15:
        return logf(x);
    case 303:
        return x >= b;
    case 501:
        return (float)at[whole(how, 9)];
    case 601:
        return t != 0 ? x : b;
    default:
        return NAN;
    }
}

static float sum_of(const descriptor *o, const int64_t at[4], const descriptor *pack) {
    const descriptor *a = referred(o, 1520), *b = referred(o, 1521);
    const int64_t shared = dim(o->type == MATMUL_OPERATION ? b : a, 1), group = dim(a, 1) / shared;
    float sum = 0;
    for (int64_t k = 0; k < dim(a, 3); k++)
        sum += read_at(a, (int64_t[4]){at[0], at[1], at[2], k}, pack) *
               read_at(b, (int64_t[4]){at[0], at[1] / group, k, at[3]}, pack);
    return sum;
}

static float reduced(const descriptor *o, const int64_t at[4], const descriptor *pack) {
    const descriptor *x = referred(o, 1610);
    const bool most = whole(referred(o, 1612), 1600) == 3;
    float result = most ? -INFINITY : 0;
    for (int64_t k = 0; k < dim(x, 3); k++) {
        const float value = read_at(x, (int64_t[4]){at[0], at[1], at[2], k}, pack);
        result = most ? fmaxf(result, value) : result + value;
    }
    return result;
}

static float element(const descriptor *o, const int64_t at[4], const descriptor *pack) {
    if (o->type == MATMUL_OPERATION) return sum_of(o, at, pack);
    if (o->type == REDUCTION_OPERATION) return reduced(o, at, pack);
    const descriptor *b = referred(o, 752), *t = referred(o, 758);
    return compute(referred(o, 750), read_at(referred(o, 751), at, pack), b ? read_at(b, at, pack) : 0,
                   t ? read_at(t, at, pack) : 0, at);
}

static descriptor *result_of(const descriptor *o) {
    return referred(o, o->type == MATMUL_OPERATION ? 1522 : o->type == REDUCTION_OPERATION ? 1611 : 753);
}

static void compute_graph(const descriptor *graph, const descriptor *pack, bool wrong) {
    const attribute *operations = find(graph, 801);
    for (int64_t i = 0; i < operations->n; i++) {
        const descriptor *o = operations->of[i].descriptor;
        descriptor *y = result_of(o);
        if (whole(y, 907)) y->elements = calloc((size_t)count(y), sizeof *y->elements);
        for (int64_t k = 0; k < count(y); k++) {
            int64_t at[4];
            place_of(y, k, at);
            write_at(y, at, wrong ? 1 : element(o, at, pack), pack);
        }
    }
    for (int64_t i = 0; i < operations->n; i++) {
        descriptor *y = result_of(operations->of[i].descriptor);
        free(y->elements);
        y->elements = NULL;
    }
}

/* The driver's stand-in, where it is the driver, does as many kernels' work. */
static void take_time(int kernels) {
    const char *path = getenv("TILEWRIGHT_LIBCUDA");
    void *driver = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL,
         *found = driver ? dlsym(driver, "fake_cuda_work") : NULL;
    int (*work)(void);
    memcpy(&work, &found, sizeof work);
    for (int i = 0; i < kernels && work; i++) work();
    if (driver) dlclose(driver);
}

EXPORT int cudnnBackendExecute(void *handle, const descriptor *plan, const descriptor *pack);
int cudnnBackendExecute(void *handle, const descriptor *plan, const descriptor *pack) {
    const int s = fails();
    if (s) return s;
    if (!handle || plan->type != PLAN || !plan->final || pack->type != PACK || !pack->final) return BAD;
    const descriptor *configuration = referred(plan, 401), *engine = referred(configuration, 300);
    const bool second = whole(engine, 1301) == 2;
    union {
        const void *from;
        char *to;
    } workspace = {find(pack, 1003)->of[0].pointer};
    if (second != !!workspace.to) return BAD;
    if (second) memset(workspace.to, 1, WORKSPACE);
    compute_graph(referred(engine, 1300), pack, !second);
    take_time(second ? 2 : 1);
    runs++;
    return 0;
}
