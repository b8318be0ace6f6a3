/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "kernels/cpu/vendor_onednn.h"

#ifndef TW_HAVE_ONEDNN

tw_onednn *tw_onednn_open(void) {
    return NULL;
}
void tw_onednn_close(tw_onednn *o) {
    (void)o;
}
void tw_onednn_version(const tw_onednn *o, char *out, size_t size) {
    (void)o;
    if (size) out[0] = 0;
}
bool tw_onednn_run(tw_onednn *o, const tw_onednn_product *p, const void *x, const void *w, float *y) {
    (void)o, (void)p, (void)x, (void)w, (void)y;
    return false;
}

#else

#include <dlfcn.h>
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if DNNL_VERSION_MAJOR >= 3
/* Debian's name has the minor version. The last name comes with the headers' package. */
static const char *const libraries[] = {"libdnnl.so.3", "libdnnl.so.3.6", "libdnnl.so", NULL};
#define OF_VERSION(FN)                                                                                                 \
    FN(dnnl_memory_desc_create_with_strides)                                                                           \
    FN(dnnl_memory_desc_destroy)                                                                                       \
    FN(dnnl_matmul_primitive_desc_create)
#else
static const char *const libraries[] = {"libdnnl.so.2", NULL};
#define OF_VERSION(FN)                                                                                                 \
    FN(dnnl_memory_desc_init_by_strides)                                                                               \
    FN(dnnl_matmul_desc_init)                                                                                          \
    FN(dnnl_primitive_desc_create)
#endif
#define FUNCTIONS(FN)                                                                                                  \
    OF_VERSION(FN)                                                                                                     \
    FN(dnnl_engine_create)                                                                                             \
    FN(dnnl_engine_destroy)                                                                                            \
    FN(dnnl_stream_create)                                                                                             \
    FN(dnnl_stream_destroy)                                                                                            \
    FN(dnnl_stream_wait)                                                                                               \
    FN(dnnl_primitive_desc_destroy)                                                                                    \
    FN(dnnl_primitive_create)                                                                                          \
    FN(dnnl_primitive_destroy)                                                                                         \
    FN(dnnl_primitive_execute)                                                                                         \
    FN(dnnl_memory_create)                                                                                             \
    FN(dnnl_memory_destroy)                                                                                            \
    FN(dnnl_memory_set_data_handle)                                                                                    \
    FN(dnnl_version)

enum { SHAPES = 32, OPERANDS = 3 };

typedef struct shape {
    tw_onednn_product product;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[OPERANDS]; /* x, w, y */
} shape;

struct tw_onednn {
    void *library;
    void (*set_threads)(int);
#define MEMBER(name) __typeof__(&name) name;
    FUNCTIONS(MEMBER)
#undef MEMBER
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    shape shapes[SHAPES];
    int next; /* The shape that is replaced next. */
};

static bool find(void *library, const char *name, void *slot, size_t size) {
    void *p = dlsym(library, name);
    memcpy(slot, &p, size);
    return p != NULL;
}

static bool find_all(tw_onednn *o) {
    bool ok = true;
#define FIND(name) ok = find(o->library, #name, &o->name, sizeof o->name) && ok;
    FUNCTIONS(FIND)
#undef FIND
    return ok;
}

tw_onednn *tw_onednn_open(void) {
    tw_onednn *o = calloc(1, sizeof *o);
    if (!o) return NULL;
    /* The library stays loaded, since its OpenMP runtime does not survive being unloaded. */
    for (int i = 0; libraries[i] && !o->library; i++)
        o->library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!o->library || !find_all(o) || o->dnnl_version()->major != DNNL_VERSION_MAJOR ||
        o->dnnl_engine_create(&o->engine, dnnl_cpu, 0) != dnnl_success ||
        o->dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags) != dnnl_success) {
        tw_onednn_close(o);
        return NULL;
    }
    find(o->library, "omp_set_num_threads", &o->set_threads, sizeof o->set_threads);
    return o;
}

static void shape_drop(tw_onednn *o, shape *s) {
    if (s->primitive) o->dnnl_primitive_destroy(s->primitive);
    for (int i = 0; i < OPERANDS; i++)
        if (s->memory[i]) o->dnnl_memory_destroy(s->memory[i]);
    memset(s, 0, sizeof *s);
}

void tw_onednn_close(tw_onednn *o) {
    if (!o) return;
    for (int i = 0; i < SHAPES; i++) shape_drop(o, &o->shapes[i]);
    if (o->stream) o->dnnl_stream_destroy(o->stream);
    if (o->engine) o->dnnl_engine_destroy(o->engine);
    if (o->library) dlclose(o->library);
    free(o);
}

void tw_onednn_version(const tw_onednn *o, char *out, size_t size) {
    const dnnl_version_t *v = o->dnnl_version();
    snprintf(out, size, "%d.%d.%d", v->major, v->minor, v->patch);
}

/* Dimensions and strides of an operand. x is m x k, w is k x n and stored transposed, y is m x n. */
typedef struct layout {
    dnnl_dims_t dims, strides;
    dnnl_data_type_t type;
} layout;

static void layouts_of(const tw_onednn_product *p, layout l[OPERANDS]) {
    dnnl_data_type_t in = p->bf16 ? dnnl_bf16 : dnnl_f32;
    l[0] = (layout){{p->m, p->k}, {p->ldx, 1}, in};
    l[1] = (layout){{p->k, p->n}, {1, p->ldw}, in};
    l[2] = (layout){{p->m, p->n}, {p->ldy, 1}, dnnl_f32};
}

#if DNNL_VERSION_MAJOR >= 3
static bool shape_make(tw_onednn *o, shape *s) {
    layout l[OPERANDS];
    dnnl_memory_desc_t d[OPERANDS] = {0};
    dnnl_primitive_desc_t pd = NULL;
    bool ok = true;
    layouts_of(&s->product, l);
    for (int i = 0; i < OPERANDS && ok; i++)
        ok = o->dnnl_memory_desc_create_with_strides(&d[i], 2, l[i].dims, l[i].type, l[i].strides) == dnnl_success &&
             o->dnnl_memory_create(&s->memory[i], d[i], o->engine, DNNL_MEMORY_NONE) == dnnl_success;
    ok = ok && o->dnnl_matmul_primitive_desc_create(&pd, o->engine, d[0], d[1], NULL, d[2], NULL) == dnnl_success &&
         o->dnnl_primitive_create(&s->primitive, pd) == dnnl_success;
    if (pd) o->dnnl_primitive_desc_destroy(pd);
    for (int i = 0; i < OPERANDS; i++)
        if (d[i]) o->dnnl_memory_desc_destroy(d[i]);
    return ok;
}
#else
static bool shape_make(tw_onednn *o, shape *s) {
    layout l[OPERANDS];
    dnnl_memory_desc_t d[OPERANDS];
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_t pd = NULL;
    bool ok = true;
    layouts_of(&s->product, l);
    for (int i = 0; i < OPERANDS && ok; i++)
        ok = o->dnnl_memory_desc_init_by_strides(&d[i], 2, l[i].dims, l[i].type, l[i].strides) == dnnl_success &&
             o->dnnl_memory_create(&s->memory[i], &d[i], o->engine, DNNL_MEMORY_NONE) == dnnl_success;
    ok = ok && o->dnnl_matmul_desc_init(&matmul, &d[0], &d[1], NULL, &d[2]) == dnnl_success &&
         o->dnnl_primitive_desc_create(&pd, &matmul, NULL, o->engine, NULL) == dnnl_success &&
         o->dnnl_primitive_create(&s->primitive, pd) == dnnl_success;
    if (pd) o->dnnl_primitive_desc_destroy(pd);
    return ok;
}
#endif

static bool same(const tw_onednn_product *a, const tw_onednn_product *b) {
    return a->m == b->m && a->n == b->n && a->k == b->k && a->ldx == b->ldx && a->ldw == b->ldw && a->ldy == b->ldy &&
           a->bf16 == b->bf16;
}

static shape *shape_of(tw_onednn *o, const tw_onednn_product *p) {
    for (int i = 0; i < SHAPES; i++)
        if (o->shapes[i].primitive && same(&o->shapes[i].product, p)) return &o->shapes[i];
    shape *s = &o->shapes[o->next];
    o->next = (o->next + 1) % SHAPES;
    shape_drop(o, s);
    s->product = *p;
    if (shape_make(o, s)) return s;
    shape_drop(o, s);
    return NULL;
}

bool tw_onednn_run(tw_onednn *o, const tw_onednn_product *p, const void *x, const void *w, float *y) {
    /* oneDNN 3 does not take the rows' distance from the strides of a single column, and packs the rows. */
    if (p->n == 1 && p->m > 1 && p->ldy > 1) return false;
    /* The number of threads belongs to the calling thread. A primitive may keep the number it was made with. */
    if (o->set_threads) o->set_threads(1);
    shape *s = shape_of(o, p);
    void *data[OPERANDS] = {(void *)(uintptr_t)x, (void *)(uintptr_t)w, y};
    if (!s) return false;
    for (int i = 0; i < OPERANDS; i++)
        if (o->dnnl_memory_set_data_handle(s->memory[i], data[i]) != dnnl_success) return false;
    dnnl_exec_arg_t args[OPERANDS] = {
        {DNNL_ARG_SRC, s->memory[0]}, {DNNL_ARG_WEIGHTS, s->memory[1]}, {DNNL_ARG_DST, s->memory[2]}};
    return o->dnnl_primitive_execute(s->primitive, o->stream, OPERANDS, args) == dnnl_success &&
           o->dnnl_stream_wait(o->stream) == dnnl_success;
}

#endif
