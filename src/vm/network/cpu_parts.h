/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the processor's runner share. */
#ifndef TW_VM_NETWORK_CPU_PARTS_H
#define TW_VM_NETWORK_CPU_PARTS_H

#include "base/counter.h"
#include "base/team.h"
#include "kernels/cpu/kernels.h"
#include "vm/network/cpu.h"
#include "vm/network/deal.h"

/* A step that is ready to run. */
typedef struct tw_cpu_step {
    const tw_step *of;
    struct {
        bool split;            /* By sums of products of bf16 (kernels/cpu/split.h). */
        unsigned char *panels; /* B in panels, a matrix after another. NULL: it is packed by each task. */
        size_t bytes;          /* From a matrix to the next. */
    } product;
} tw_cpu_step;

typedef struct tw_cpu_task {
    const tw_range_task *of;
    tw_counter_cell **waits;
    tw_counter_cell *arrive; /* NULL: none. */
} tw_cpu_task;

typedef struct tw_cpu_worker {
    unsigned char *scratch;
    size_t scratch_bytes;
    tw_cpu_task *tasks;
    tw_status status; /* Of the last run. */
    tw_diag diag;
} tw_cpu_worker;

/* A constant B in panels. */
typedef struct tw_cpu_packed {
    uint64_t name[2]; /* A hash of what is packed, and how. */
    unsigned char *panels;
    size_t bytes;
    bool lent; /* They are somebody else's. */
} tw_cpu_packed;

/* A content whose sum is known. */
typedef struct tw_cpu_known {
    const void *content;
    int64_t bytes;
    uint64_t sum;
} tw_cpu_known;

struct tw_cpu_pool {
    tw_team *team;
    tw_kernels k;
    tw_cpu_packed *packed;
    int n_packed, room_packed;
    tw_cpu_known *known;
    int n_known, room_known;
};

struct tw_cpu_network {
    const tw_program *p;
    tw_ranges *ranges;
    tw_cpu_pool *pool;
    tw_kernels k;
    tw_arena arena;
    tw_cpu_step *steps;
    tw_cpu_worker *workers;
    tw_counter_cell *counters;
    unsigned char **base; /* [buffer]: where it lies in this run. */
    unsigned char *memory;
    size_t memory_bytes; /* Bytes of scratch buffers and copied constants. */
    uint32_t runs;       /* Runs that have begun. */
    _Atomic bool failed; /* A task of this run failed. */
};

/* A worker's own memory while a task runs. */
typedef struct tw_cpu_room {
    unsigned char *at;
} tw_cpu_room;

static inline size_t tw_cpu_lines(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}
static inline void *tw_cpu_take(tw_cpu_room *r, size_t bytes) {
    void *p = r->at;
    r->at += tw_cpu_lines(bytes);
    return p;
}

static inline const unsigned char *tw_cpu_at(const tw_cpu_network *n, const tw_view *v) {
    return n->base[v->buffer] + v->offset;
}

/* Reads `count` elements of f32, f16 or bf16, or truths as 0 and -inf, that are `stride` elements apart. */
void tw_cpu_read(tw_element type, const void *data, int64_t at, int64_t stride, int64_t count, float *out);
/* Writes neighbours. */
void tw_cpu_write(tw_element type, void *data, int64_t at, int64_t count, const float *x);

/* cpu.c: what a run consists of. Sets where inputs and outputs lie. */
void tw_cpu_place(tw_cpu_network *n, const void *const *in, void *const *out);
void tw_cpu_run_task(tw_cpu_network *n, int worker, const tw_range_task *t); /* Sets the worker's status. */

/* cpu_product.c. Chooses how a product is computed, which decides how B is packed. */
void tw_cpu_product_plan(const tw_cpu_network *n, tw_cpu_step *s);
size_t tw_cpu_product_scratch(const tw_cpu_network *n, const tw_cpu_step *s, const tw_range_task *t);
/* Bytes of all panels of a constant B, and their name in the pool. 0: B is no constant. */
size_t tw_cpu_product_packed(const tw_cpu_network *n, const tw_cpu_step *s, uint64_t name[2]);
size_t tw_cpu_product_panel(const tw_cpu_step *s); /* Bytes of a panel of floats. */
/* Packs a constant B. `panel` has room for a panel of floats. */
void tw_cpu_product_pack(const tw_cpu_network *n, const tw_cpu_step *s, float *panel);

/* cpu_pool.c. The sum of a content. */
uint64_t tw_cpu_pool_sum(const tw_cpu_pool *pool, const void *content, int64_t bytes);
/* Finds a packed constant, or room for one, which *found tells. */
tw_status tw_cpu_pool_packed(tw_cpu_pool *pool, const uint64_t name[2], size_t bytes, unsigned char **panels,
                             bool *found, tw_diag *diag);
void tw_cpu_pool_forget(tw_cpu_pool *pool, int n); /* The n that were added last. */
tw_status tw_cpu_pages(size_t bytes, const char *what, unsigned char **out, tw_diag *diag);
void tw_cpu_product(const tw_cpu_network *n, const tw_cpu_step *s, const tw_range_task *t, tw_cpu_room room);

/* cpu_attention.c */
size_t tw_cpu_attention_scratch(const tw_cpu_network *n, const tw_step *s, const tw_range_task *t);
void tw_cpu_attention(const tw_cpu_network *n, const tw_step *s, const tw_range_task *t, tw_cpu_room room);

/* cpu_step.c: all others. */
tw_status tw_cpu_other(const tw_cpu_network *n, const tw_cpu_step *s, const tw_range_task *t, tw_diag *diag);

#endif
