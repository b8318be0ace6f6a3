/* SPDX-License-Identifier: Apache-2.0 */
/* The library, its engines, and plans that run. */
#define _GNU_SOURCE
#include "base/diag.h"
#include "kernels/vendor/cudnn_parts.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of the library's interface. */
enum {
    /* Descriptors. */
    ENGINE = 2,
    CONFIGURATION = 3,
    HEURISTICS = 4,
    PLAN = 5,
    CHOICE = 7,
    PACK = 16,

    /* Attributes. */
    HEURISTICS_MODE = 200,
    HEURISTICS_GRAPH = 201,
    HEURISTICS_RESULTS = 202,
    CONFIGURATION_ENGINE = 300,
    CONFIGURATION_CHOICES = 302,
    PLAN_HANDLE = 400,
    PLAN_CONFIGURATION = 401,
    PLAN_WORKSPACE = 402,
    CHOICE_TYPE = 600,
    CHOICE_VALUE = 601,
    PACK_IDS = 1000,
    PACK_POINTERS = 1001,
    PACK_WORKSPACE = 1003,
    ENGINE_GRAPH = 1300,
    ENGINE_INDEX = 1301,

    /* Modes of heuristics. */
    FALLBACK = 2,
    USUAL = 3,

    STATUS_NO_DEVICE_MEMORY = 4004,
    STATUS_CATEGORY = 1000,
    STATUS_UNSUPPORTED = 3, /* A category. */

    MAJOR = 10000,      /* What a major version counts in a version's number. */
    KNOWN = 9,          /* The major version whose numbers these are. */
    INFINITIES = 91000, /* From this version on masked scores may be -infinity. */
    MOST = 16,          /* The most engines that are asked for. */
};

static void *open_library(const char **name) {
    static const char *const names[] = {"libcudnn.so.9", "libcudnn.so"};
    const char *own = getenv("TILEWRIGHT_LIBCUDNN");
    const int how = RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE;
    if (own && *own) return dlopen(*name = own, how);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *h = dlopen(*name = names[i], how);
        if (h) return h;
    }
    return NULL;
}

const char *tw_cudnn_find(void) {
    const char *name;
    void *h = open_library(&name);
    if (!h) return NULL;
    dlclose(h);
    return name;
}

/* The library's status as ours. `planning`: nothing runs on the device, and another version may know the answer, so
   that all errors but those of memory are TW_ERR_UNSUPPORTED. */
static tw_status result(const tw_cudnn *dnn, int status, bool planning, const char *what, tw_diag *diag) {
    char why[200] = "";
    if (status == 0) return TW_OK;
    if (status == TW_CUDNN_NO_HOST_MEMORY || status == STATUS_NO_DEVICE_MEMORY) return tw_fail_memory(diag);
    dnn->cudnnGetLastErrorString(why, sizeof why);
    why[sizeof why - 1] = 0;
    why[strcspn(why, "\n")] = 0;
    const bool unsupported = planning || status / STATUS_CATEGORY == STATUS_UNSUPPORTED;
    return tw_fail(diag, unsupported ? TW_ERR_UNSUPPORTED : TW_ERR_IO, "cuDNN cannot %s: status %d%s%s", what, status,
                   *why ? ", " : "", why);
}

static bool find(void *library, const char *name, void *slot, size_t size) {
    void *p = dlsym(library, name);
    memcpy(slot, &p, size);
    return p != NULL;
}

static tw_status start(tw_cudnn *dnn, tw_diag *diag) {
    const char *name = NULL, *missing = NULL;
    dnn->library = open_library(&name);
    if (!dnn->library) {
        const char *why = dlerror();
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "no cuDNN: %s", why ? why : name);
    }
#define FIND(fn, parameters)                                                                                           \
    if (!find(dnn->library, #fn, &dnn->fn, sizeof dnn->fn)) missing = #fn;
    TW_CUDNN_FUNCTIONS(FIND)
    FIND(cudnnGetLastErrorString, ())
    FIND(cudnnGetVersion, ())
#undef FIND
    if (missing) return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s has no %s", name, missing);
    const size_t major = dnn->cudnnGetVersion() / MAJOR;
    if (major != KNOWN)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s is %s than version %d", name, major < KNOWN ? "older" : "newer",
                       KNOWN);
    tw_status st = tw_cuda_enter(dnn->cuda, diag);
    if (st != TW_OK) return st;
    const int status = dnn->cudnnCreate(&dnn->handle);
    if (status != 0) dnn->handle = NULL;
    st = result(dnn, status, true, "start", diag);
    return st == TW_OK
               ? result(dnn, dnn->cudnnSetStream(dnn->handle, tw_cuda_stream(dnn->cuda)), true, "use a stream", diag)
               : st;
}

tw_status tw_cudnn_open(tw_cudnn **out, tw_cuda *c, tw_diag *diag) {
    *out = NULL;
    tw_cudnn *dnn = calloc(1, sizeof *dnn);
    if (!dnn) return tw_fail_memory(diag);
    dnn->cuda = c;
    const tw_status st = start(dnn, diag);
    if (st == TW_OK)
        *out = dnn;
    else
        tw_cudnn_close(dnn);
    return st;
}

void tw_cudnn_close(tw_cudnn *dnn) {
    if (!dnn) return;
    if (dnn->handle && tw_cuda_enter(dnn->cuda, NULL) == TW_OK) dnn->cudnnDestroy(dnn->handle);
    if (dnn->library) dlclose(dnn->library);
    free(dnn);
}

void tw_cudnn_version(const tw_cudnn *dnn, char *out, size_t size) {
    const size_t v = dnn->cudnnGetVersion();
    snprintf(out, size, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
}

/* ---- engines as text */

void tw_cudnn_engine_print(const tw_cudnn_engine *e, char out[TW_CUDNN_ENGINE_TEXT]) {
    int n = snprintf(out, TW_CUDNN_ENGINE_TEXT, "%" PRId64, e->index);
    for (int i = 0; i < e->n; i++)
        n += snprintf(out + n, TW_CUDNN_ENGINE_TEXT - (size_t)n, " %" PRId32 "=%" PRId64, e->knobs[i].type,
                      e->knobs[i].value);
}

bool tw_cudnn_engine_parse(tw_cudnn_engine *e, const char *text) {
    char *end;
    *e = (tw_cudnn_engine){.index = strtoll(text, &end, 10)};
    if (end == text || e->index < 0) return false;
    for (const char *at = end; *at; at = end) {
        const long type = strtol(at, &end, 10);
        if (*at != ' ' || end == at || *end != '=' || type < 0 || type > INT32_MAX || e->n == TW_CUDNN_KNOBS)
            return false;
        const char *value = end + 1;
        e->knobs[e->n].type = (int32_t)type;
        e->knobs[e->n++].value = strtoll(value, &end, 10);
        if (end == value) return false;
    }
    return true;
}

/* ---- engines */

/* Asks for an attribute. Returns how many values there are, at most `room`. */
static int64_t get(tw_cudnn_maker *m, void *d, int attribute, int type, int64_t room, void *values) {
    int64_t count = 0;
    if (m->status) return 0;
    tw_cudnn_note(m, m->dnn->cudnnBackendGetAttribute(d, attribute, type, room, &count, values), "choose an engine");
    return m->status ? 0 : count < room ? count : room;
}

/* Descriptors that the library fills in. */
static void create_all(tw_cudnn_maker *m, int type, void **out, int n) {
    for (int i = 0; i < n; i++) out[i] = tw_cudnn_create(m, type);
}

/* Reads what the heuristics propose. False: it has more knobs than are known. */
static bool read_engine(tw_cudnn_maker *m, void *configuration, tw_cudnn_engine *out) {
    void *engine = tw_cudnn_create(m, ENGINE), *choices[TW_CUDNN_KNOBS];
    int64_t count = 0;
    *out = (tw_cudnn_engine){0};
    get(m, configuration, CONFIGURATION_ENGINE, TW_CUDNN_DESCRIPTOR, 1, &engine);
    get(m, engine, ENGINE_INDEX, TW_CUDNN_INT64, 1, &out->index);
    create_all(m, CHOICE, choices, TW_CUDNN_KNOBS);
    if (!m->status)
        tw_cudnn_note(m,
                      m->dnn->cudnnBackendGetAttribute(configuration, CONFIGURATION_CHOICES, TW_CUDNN_DESCRIPTOR,
                                                       TW_CUDNN_KNOBS, &count, choices),
                      "choose an engine");
    if (m->status || count > TW_CUDNN_KNOBS) return false;
    for (out->n = 0; out->n < count; out->n++) {
        get(m, choices[out->n], CHOICE_TYPE, TW_CUDNN_KNOB, 1, &out->knobs[out->n].type);
        get(m, choices[out->n], CHOICE_VALUE, TW_CUDNN_INT64, 1, &out->knobs[out->n].value);
    }
    return !m->status;
}

static int ask(tw_cudnn_maker *m, void *graph, int mode, int most, tw_cudnn_engine *out) {
    void *h = tw_cudnn_create(m, HEURISTICS), *found[MOST];
    int n = 0;
    tw_cudnn_set_descriptor(m, h, HEURISTICS_GRAPH, graph);
    tw_cudnn_set_number(m, h, HEURISTICS_MODE, TW_CUDNN_HEURISTICS, mode);
    tw_cudnn_finish(m, h, "choose an engine");
    create_all(m, CONFIGURATION, found, most);
    const int64_t count = get(m, h, HEURISTICS_RESULTS, TW_CUDNN_DESCRIPTOR, most, found);
    for (int64_t i = 0; i < count; i++) n += read_engine(m, found[i], &out[n]);
    return m->status ? 0 : n;
}

tw_status tw_cudnn_propose(tw_cudnn *dnn, const tw_cudnn_problem *p, int most, tw_cudnn_engine *out, int *n,
                           tw_diag *diag) {
    tw_cudnn_maker m = {.dnn = dnn, .p = p};
    *n = 0;
    if (most < 1 || most > MOST) return tw_fail(diag, TW_ERR_USAGE, "%d engines, and not 1 to %d", most, MOST);
    tw_status st = tw_cuda_enter(dnn->cuda, diag);
    if (st != TW_OK) return st;
    void *graph = tw_cudnn_graph(&m);
    *n = ask(&m, graph, USUAL, most, out);
    if (!*n) *n = ask(&m, graph, FALLBACK, most, out);
    st = result(dnn, m.status, true, m.what, diag);
    tw_cudnn_destroy(&m);
    return st == TW_OK && !*n ? tw_fail(diag, TW_ERR_UNSUPPORTED, "cuDNN has no engine for this attention") : st;
}

/* ---- plans */

struct tw_cudnn_plan {
    tw_cudnn *dnn;
    tw_cudnn_problem problem;
    tw_cudnn_maker descriptors;
    void *plan; /* One of them. */
    uint64_t workspace;
    int64_t bytes; /* Of the workspace. */
    float scale, lowest;
    int32_t keys, queries;
};

/* Describes the plan. Returns the bytes of its workspace. */
static int64_t describe(tw_cudnn_plan *x, const tw_cudnn_engine *e) {
    tw_cudnn_maker *m = &x->descriptors;
    void *graph = tw_cudnn_graph(m), *engine = tw_cudnn_create(m, ENGINE), *choices[TW_CUDNN_KNOBS];
    int64_t bytes = 0;
    tw_cudnn_set_descriptor(m, engine, ENGINE_GRAPH, graph);
    tw_cudnn_set(m, engine, ENGINE_INDEX, TW_CUDNN_INT64, 1, &e->index);
    tw_cudnn_finish(m, engine, "use this engine");
    for (int i = 0; i < e->n; i++) {
        choices[i] = tw_cudnn_create(m, CHOICE);
        tw_cudnn_set_number(m, choices[i], CHOICE_TYPE, TW_CUDNN_KNOB, e->knobs[i].type);
        tw_cudnn_set(m, choices[i], CHOICE_VALUE, TW_CUDNN_INT64, 1, &e->knobs[i].value);
        tw_cudnn_finish(m, choices[i], "use this knob");
    }
    void *configuration = tw_cudnn_create(m, CONFIGURATION);
    tw_cudnn_set_descriptor(m, configuration, CONFIGURATION_ENGINE, engine);
    if (e->n) tw_cudnn_set(m, configuration, CONFIGURATION_CHOICES, TW_CUDNN_DESCRIPTOR, e->n, choices);
    tw_cudnn_finish(m, configuration, "configure this engine");
    x->plan = tw_cudnn_create(m, PLAN);
    tw_cudnn_set(m, x->plan, PLAN_HANDLE, TW_CUDNN_HANDLE, 1, &m->dnn->handle);
    tw_cudnn_set_descriptor(m, x->plan, PLAN_CONFIGURATION, configuration);
    tw_cudnn_finish(m, x->plan, "compute this attention so");
    get(m, x->plan, PLAN_WORKSPACE, TW_CUDNN_INT64, 1, &bytes);
    return bytes;
}

tw_status tw_cudnn_plan_make(tw_cudnn *dnn, const tw_cudnn_problem *p, const tw_cudnn_engine *e, tw_cudnn_plan **out,
                             tw_diag *diag) {
    *out = NULL;
    tw_status st = tw_cuda_enter(dnn->cuda, diag);
    if (st != TW_OK) return st;
    tw_cudnn_plan *x = calloc(1, sizeof *x);
    if (!x) return tw_fail_memory(diag);
    x->dnn = dnn;
    x->problem = *p;
    x->descriptors = (tw_cudnn_maker){.dnn = dnn, .p = &x->problem};
    x->scale = (float)p->scale;
    x->lowest = dnn->cudnnGetVersion() < INFINITIES ? -3.402823466e38f : -INFINITY;
    x->keys = (int32_t)p->keys;
    x->queries = (int32_t)p->queries;
    x->bytes = describe(x, e);
    st = result(dnn, x->descriptors.status, true, x->descriptors.what, diag);
    if (st == TW_OK && x->bytes > 0) st = tw_cuda_alloc(dnn->cuda, (size_t)x->bytes, &x->workspace, diag);
    if (st == TW_OK)
        *out = x;
    else
        tw_cudnn_plan_free(x);
    return st;
}

void tw_cudnn_plan_free(tw_cudnn_plan *p) {
    if (!p) return;
    tw_cudnn_destroy(&p->descriptors);
    if (p->workspace) tw_cuda_release(p->dnn->cuda, p->workspace);
    free(p);
}

int64_t tw_cudnn_plan_bytes(const tw_cudnn_plan *p) {
    return p->bytes;
}

static void *pointer(uint64_t address) {
    return (void *)(uintptr_t)address;
}

/* Makes the pack of a run's addresses and values. */
static void *pack_of(tw_cudnn_maker *m, const tw_cudnn_plan *x, const uint64_t at[TW_CUDNN_TENSORS]) {
    int64_t ids[TW_CUDNN_QUERIES];
    void *pointers[TW_CUDNN_QUERIES], *workspace = pointer(x->workspace);
    int n = 0;
    for (int id = TW_CUDNN_Q; id < TW_CUDNN_TENSORS; id++) {
        if (!at[id]) continue;
        ids[n] = id;
        pointers[n++] = pointer(at[id]);
    }
    void *pack = tw_cudnn_create(m, PACK);
    tw_cudnn_set(m, pack, PACK_IDS, TW_CUDNN_INT64, n, ids);
    tw_cudnn_set(m, pack, PACK_POINTERS, TW_CUDNN_POINTER, n, pointers);
    tw_cudnn_set(m, pack, PACK_WORKSPACE, TW_CUDNN_POINTER, 1, &workspace);
    tw_cudnn_finish(m, pack, "take addresses");
    return pack;
}

tw_status tw_cudnn_run(tw_cudnn_plan *p, uint64_t q, uint64_t k, uint64_t v, uint64_t mask, uint64_t out,
                       tw_diag *diag) {
    const tw_cudnn *dnn = p->dnn;
    const tw_cudnn_problem *of = &p->problem;
    const bool shifted = of->causal && of->queries != of->keys;
    const uint64_t at[TW_CUDNN_TENSORS] = {
        [TW_CUDNN_Q] = q,
        [TW_CUDNN_K] = k,
        [TW_CUDNN_V] = v,
        [TW_CUDNN_OUT] = out,
        [TW_CUDNN_MASK] = of->masked ? mask : 0,
        [TW_CUDNN_SCALE] = (uintptr_t)&p->scale,
        [TW_CUDNN_LOWEST] = of->causal ? (uintptr_t)&p->lowest : 0,
        [TW_CUDNN_KEYS] = shifted ? (uintptr_t)&p->keys : 0,
        [TW_CUDNN_QUERIES] = shifted ? (uintptr_t)&p->queries : 0,
    };
    tw_cudnn_maker m = {.dnn = dnn};
    tw_status st = tw_cuda_enter(dnn->cuda, diag);
    if (st != TW_OK) return st;
    void *pack = pack_of(&m, p, at);
    if (!m.status) tw_cudnn_note(&m, dnn->cudnnBackendExecute(dnn->handle, p->plan, pack), "compute attention");
    st = result(dnn, m.status, false, m.what, diag);
    tw_cudnn_destroy(&m);
    return st;
}
