/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of graphs on a processor's workers, compared with graphs that are run plainly.

       test_network_cpu MODEL.onnx [BATCH [LENGTH]]    checks any encoder or decoder */
#include "base/clock.h"
#include "base/diag.h"
#include "base/random.h"
#include "graph/arrays.h"
#include "graph/build.h"
#include "graph/onnx/onnx.h"
#include "graph/passes/passes.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "schedule/report.h"
#include "support/support.h"
#include "vm/network/cpu_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32 /* Inputs and outputs. */, WORKERS = 3 };

static void good(tw_status st, const tw_diag *diag) {
    if (st != TW_OK) fail_msg("%s", diag->message);
}

/* Runs a program with so many workers, twice, and compares its outputs. */
static void run(const tw_program *p, const tw_array *const *in, const tw_array *want, int workers,
                const tw_cpu_pool_options *o, double most) {
    tw_cpu_network *n;
    tw_diag diag = {0};
    tw_arena arena = {0};
    const void *inputs[MOST];
    void *outputs[MOST];
    char what[64];
    snprintf(what, sizeof what, "%d workers", workers);
    tw_cpu_pool *pool;
    good(tw_cpu_pool_open(&pool, workers, o, &diag), &diag);
    good(tw_cpu_network_open(&n, p, pool, &diag), &diag);
    for (int i = 0; i < p->n_inputs; i++) inputs[i] = in[i]->data;
    for (int i = 0; i < p->n_outputs; i++) outputs[i] = tw_arena_alloc(&arena, (size_t)tw_array_bytes(&want[i]) + 64);
    for (int times = 0; times < 2; times++) {
        good(tw_cpu_network_run(n, inputs, outputs, &diag), &diag);
        for (int i = 0; i < p->n_outputs; i++) {
            tw_array have = want[i];
            have.data = outputs[i];
            arrays_compare(&want[i], &have, most, what);
            memset(outputs[i], 0xff, (size_t)tw_array_bytes(&want[i]));
        }
    }
    /* Another one of the same shares constants. */
    const int64_t bytes = tw_cpu_pool_bytes(pool);
    tw_cpu_network_close(n);
    good(tw_cpu_network_open(&n, p, pool, &diag), &diag);
    assert_int_equal(tw_cpu_pool_bytes(pool), bytes);
    tw_cpu_network_close(n);
    tw_cpu_pool_close(pool);
    tw_arena_free(&arena);
}

/* ---- what tasks touch */

/* Memory that tasks write: scratch memory, and an output each. */
typedef struct region {
    unsigned char *at, *before, *after;
    bool *read, *written; /* [byte] */
    size_t bytes;
} region;

enum { REGIONS = MOST + 1, POISON = 0xff };

static void mark(const tw_cpu_network *n, const region *regions, const tw_access *a) {
    const unsigned char *base = n->base[a->buffer];
    const int64_t pitch = n->ranges->buffers[a->buffer].bytes;
    for (int i = 0; i < REGIONS; i++) {
        const region *r = &regions[i];
        if (!r->bytes || base < r->at || base >= r->at + r->bytes) continue;
        for (int64_t row = a->lo[1]; row < a->hi[1]; row++)
            memset((a->write ? r->written : r->read) + (base - r->at) + row * pitch + a->lo[2], 1,
                   (size_t)(a->hi[2] - a->lo[2]));
        return;
    }
}

/* Runs a task as it comes, and then with all memory poisoned that its step does not say it reads, and the worker's own.
   Both times it must write the same bytes, all of those that its step says, and no others. */
static void touch(tw_cpu_network *n, region *regions, int worker, const tw_range_task *t) {
    tw_access_list boxes = {0};
    tw_diag diag;
    good(tw_ranges_effects(n->ranges, t, &boxes, &diag), &diag);
    for (int i = 0; i < REGIONS; i++) {
        if (!regions[i].bytes) continue;
        memset(regions[i].read, 0, regions[i].bytes);
        memset(regions[i].written, 0, regions[i].bytes);
        memcpy(regions[i].before, regions[i].at, regions[i].bytes);
    }
    for (int i = 0; i < boxes.count; i++) mark(n, regions, &boxes.item[i]);
    tw_cpu_run_task(n, worker, t);
    for (int i = 0; i < REGIONS; i++) {
        region *r = &regions[i];
        if (!r->bytes) continue;
        memcpy(r->after, r->at, r->bytes);
        for (size_t k = 0; k < r->bytes; k++) r->at[k] = r->read[k] ? r->before[k] : POISON;
    }
    memset(n->workers[worker].scratch, POISON, n->workers[worker].scratch_bytes);
    tw_cpu_run_task(n, worker, t);
    for (int i = 0; i < REGIONS; i++) {
        region *r = &regions[i];
        if (!r->bytes) continue;
        for (size_t k = 0; k < r->bytes; k++) {
            const unsigned char untouched = r->read[k] ? r->before[k] : POISON;
            if (r->written[k] ? r->at[k] != r->after[k] : r->at[k] != untouched || r->after[k] != r->before[k])
                fail_msg("%s: byte %zu of region %d is %s", n->ranges->steps[t->step].name, k, i,
                         r->written[k] ? "computed from what it does not read, or not written" : "written");
        }
        memcpy(r->at, r->after, r->bytes);
    }
    tw_access_list_free(&boxes);
}

static bool ready(const tw_range_task *t, const int64_t *arrivals) {
    for (int i = 0; i < t->n_waits; i++)
        if (arrivals[t->waits[i].counter] < t->waits[i].threshold) return false;
    return true;
}

/* Runs a program's tasks one by one. */
static void check_touches(const tw_program *p, const tw_array *const *in) {
    tw_cpu_network *n;
    tw_diag diag = {0};
    tw_arena arena = {0};
    region regions[REGIONS] = {{0}};
    const void *inputs[MOST];
    void *outputs[MOST];
    tw_cpu_pool *pool;
    good(tw_cpu_pool_open(&pool, 2, NULL, &diag), &diag);
    good(tw_cpu_network_open(&n, p, pool, &diag), &diag);
    for (int i = 0; i < p->n_inputs; i++) inputs[i] = in[i]->data;
    for (int i = 0; i < REGIONS; i++) {
        region *r = &regions[i];
        if (i < MOST && i >= p->n_outputs) continue;
        r->bytes = i == MOST ? (size_t)n->ranges->scratch : (size_t)p->buffers[p->outputs[i]].bytes;
        r->at = i == MOST ? n->memory : (outputs[i] = tw_arena_alloc(&arena, r->bytes + 64));
        r->before = tw_arena_alloc(&arena, r->bytes + 1);
        r->after = tw_arena_alloc(&arena, r->bytes + 1);
        r->read = tw_arena_alloc(&arena, r->bytes + 1);
        r->written = tw_arena_alloc(&arena, r->bytes + 1);
    }
    int64_t *arrivals = tw_arena_array(&arena, (size_t)n->ranges->n_counters + 1, sizeof *arrivals);
    tw_cpu_place(n, inputs, outputs);
    int next[2] = {0};
    for (bool moved = true; moved;) {
        moved = false;
        for (int w = 0; w < 2; w++)
            while (next[w] < n->ranges->workers[w].count && ready(&n->ranges->workers[w].list[next[w]], arrivals)) {
                const tw_range_task *t = &n->ranges->workers[w].list[next[w]++];
                touch(n, regions, w, t);
                if (t->arrive >= 0) arrivals[t->arrive]++;
                moved = true;
            }
    }
    for (int w = 0; w < 2; w++) assert_int_equal(next[w], n->ranges->workers[w].count);
    tw_cpu_network_close(n);
    tw_cpu_pool_close(pool);
    tw_arena_free(&arena);
}

static void check_program(const tw_graph *g, const tw_array *const *in, tw_program_fuse attention, double most) {
    tw_arena arena = {0};
    tw_array want[MOST];
    tw_program *p = NULL;
    tw_diag diag = {0};
    const tw_program_options o = {.attention = attention};
    good(tw_graph_run(g, in, &arena, want, &diag), &diag);
    good(tw_program_lower(&p, g, &o, &diag), &diag);
    for (int workers = 1; workers <= WORKERS; workers++) run(p, in, want, workers, NULL, most);
    /* Without any instruction set, with AVX2 alone, and without AMX. */
    run(p, in, want, 2, &(tw_cpu_pool_options){.limit_isa = true}, most);
    run(p, in, want, 2, &(tw_cpu_pool_options){.limit_isa = true, .isa = TW_CPU_AVX2}, most);
    run(p, in, want, 2, &(tw_cpu_pool_options){.exact = true}, most);
    check_touches(p, in);
    tw_program_free(p);
    tw_arena_free(&arena);
}

/* Makes a graph concrete, which it frees, and checks it with random inputs. `below`: integers are below it. */
static void check(tw_graph *g, const int64_t *const *dims, int64_t below, double most) {
    tw_arena arena = {0};
    tw_array in[MOST];
    const tw_array *at[MOST];
    tw_diag diag = {0};
    tw_graph *c = NULL;
    good(tw_graph_resolve(g, "", &diag), &diag);
    for (int i = 0; i < g->n_inputs; i++) {
        const tw_value *v = &g->values[g->inputs[i]];
        in[i] = arrays_random(&arena, v, dims ? dims[i] : v->dims, 7 + (uint64_t)i, below);
        at[i] = &in[i];
    }
    good(tw_graph_specialize(&c, g, at, &diag), &diag);
    tw_graph_free(g);
    good(tw_graph_simplify(c, &diag), &diag);
    good(tw_graph_resolve(c, "", &diag), &diag);
    check_program(c, at, TW_PROGRAM_FUSE_NONE, most);
    good(tw_graph_fuse(c, NULL, &diag), &diag);
    good(tw_graph_simplify(c, &diag), &diag);
    good(tw_graph_resolve(c, "", &diag), &diag);
    check_program(c, at, TW_PROGRAM_FUSE_ALL, most);
    tw_graph_free(c);
    tw_arena_free(&arena);
}

static void check_model(const char *path, int64_t batch, int64_t length) {
    tw_diag diag = {0};
    tw_graph *g = NULL;
    int64_t dims[MOST][TW_ARRAY_RANK];
    const int64_t *all[MOST];
    good(tw_onnx_open(&g, path, &diag), &diag);
    for (int i = 0; i < g->n_inputs; i++) {
        const tw_value *v = &g->values[g->inputs[i]];
        int symbols = 0;
        for (int d = 0; d < v->rank; d++) dims[i][d] = v->dims[d] >= 0 ? v->dims[d] : symbols++ ? length : batch;
        all[i] = dims[i];
    }
    check(g, all, 2, 1e-4);
}

#define DIMS(...) ((const tw_dim[]){__VA_ARGS__})

static int constant(tw_graph *g, tw_element type, int rank, const int64_t *dims, uint64_t seed) {
    const tw_value v = {.type = type, .rank = rank};
    const tw_array a = arrays_random(&g->arena, &v, dims, seed, 5);
    return tw_graph_constant(g, &a);
}

static int64_t pick(tw_random *r, int64_t from, int64_t to) {
    return from + (int64_t)tw_random_below(r, (uint64_t)(to - from + 1));
}

/* x times a matrix, with what may follow it. */
static int linear(tw_graph *g, tw_random *r, tw_element t, int x, int64_t k, int64_t n) {
    int y = tw_graph_op(g, "MatMul", TW_OPERANDS(x, constant(g, t, 2, DIMS(k, n), tw_random_u64(r))), TW_NO_ATTRIBUTES);
    if (pick(r, 0, 2))
        y = tw_graph_op(g, "Add", TW_OPERANDS(y, constant(g, t, 1, DIMS(n), tw_random_u64(r))), TW_NO_ATTRIBUTES);
    switch (pick(r, 0, 4)) {
    case 0:
        return tw_graph_op(g, "Gelu", TW_OPERANDS(y), TW_NO_ATTRIBUTES);
    case 1:
        return tw_graph_op(g, "Gelu", TW_OPERANDS(y), TW_ATTRIBUTES(TW_TEXT("approximate", "tanh")));
    case 2:
        return tw_graph_op(g, "Mul", TW_OPERANDS(y, tw_graph_op(g, "Sigmoid", TW_OPERANDS(y), TW_NO_ATTRIBUTES)),
                           TW_NO_ATTRIBUTES);
    default:
        return y;
    }
}

/* Attention of x by itself, with a mask of numbers or truths, or none. */
static int attend(tw_graph *g, tw_random *r, tw_element t, int x, int64_t batch, int64_t length, int64_t dim) {
    const int64_t kv_heads = pick(r, 1, 2), heads = kv_heads * pick(r, 1, 2), head = pick(r, 3, 20), keys = length;
    int parts[4] = {linear(g, r, t, x, dim, heads * head), linear(g, r, t, x, dim, kv_heads * head),
                    linear(g, r, t, x, dim, kv_heads * head), -1};
    const int64_t mask = pick(r, 0, 3);
    if (mask == 1) parts[3] = constant(g, t, 2, DIMS(length, keys), tw_random_u64(r));
    if (mask == 2) parts[3] = constant(g, TW_E_bool, 4, DIMS(batch, 1, 1, keys), tw_random_u64(r));
    const tw_attribute attributes[] = {TW_INT("q_num_heads", heads), TW_INT("kv_num_heads", kv_heads),
                                       TW_INT("is_causal", mask == 3)};
    const int y = tw_graph_op(g, "Attention", parts, 4, attributes, 3);
    return linear(g, r, t, y, heads * head, dim);
}

/* A few layers of anything over [batch, length, dim]. */
static void random_graph(uint64_t seed, tw_element t) {
    tw_random r = tw_random_seed(seed);
    tw_graph *g = tw_graph_new();
    const int64_t batch = pick(&r, 1, 3), length = pick(&r, 1, 40), dim = pick(&r, 1, 40);
    const tw_dim dims[] = {batch, length, dim};
    int x = tw_graph_input(g, "x", t, 3, dims);
    for (int64_t i = pick(&r, 1, 4); i > 0; i--) {
        const int before = x;
        switch (pick(&r, 0, 6)) {
        case 0:
            x = linear(g, &r, t, x, dim, dim);
            break;
        case 1:
            x = attend(g, &r, t, x, batch, length, dim);
            break;
        case 2:
            x = tw_graph_op(g, "Softmax", TW_OPERANDS(x), TW_ATTRIBUTES(TW_INT("axis", pick(&r, 0, 2))));
            break;
        case 3:
            x = tw_graph_op(g, "LayerNormalization", TW_OPERANDS(x, constant(g, t, 1, DIMS(dim), seed)),
                            TW_NO_ATTRIBUTES);
            break;
        case 4: { /* Turned round and back, with a product of two that are no constants. */
            const int64_t order[] = {0, 2, 1};
            const tw_array list = {.type = TW_E_i64, .rank = 1, .dims = {3}, .data = order};
            const tw_attribute perm = {.name = "perm", .kind = TW_ATTRIBUTE_ARRAY, .array = &list};
            tw_attribute *own = tw_arena_alloc(&g->arena, sizeof *own);
            tw_array *copy = tw_arena_alloc(&g->arena, sizeof *copy);
            int64_t *data = tw_arena_array(&g->arena, 3, sizeof *data);
            memcpy(data, order, sizeof order);
            *copy = list;
            copy->data = data;
            *own = perm;
            own->array = copy;
            const int turned = tw_graph_op(g, "Transpose", TW_OPERANDS(x), own, 1);
            x = tw_graph_op(g, "MatMul",
                            TW_OPERANDS(tw_graph_op(g, "MatMul", TW_OPERANDS(x, turned), TW_NO_ATTRIBUTES), x),
                            TW_NO_ATTRIBUTES);
            x = tw_graph_op(g, "Tanh", TW_OPERANDS(x), TW_NO_ATTRIBUTES);
            break;
        }
        case 5: { /* Parts that are put together again. */
            const int64_t axis = pick(&r, 0, 2), n = dims[axis];
            if (n < 2) break;
            const int halves =
                tw_graph_op_several(g, "Split", TW_OPERANDS(x, tw_graph_integers(g, TW_INTEGERS(n / 2, n - n / 2))),
                                    TW_ATTRIBUTES(TW_INT("axis", axis)), 2);
            x = tw_graph_op(g, "Concat",
                            TW_OPERANDS(tw_graph_op(g, "Neg", TW_OPERANDS(halves + 1), TW_NO_ATTRIBUTES), halves),
                            TW_ATTRIBUTES(TW_INT("axis", axis)));
            break;
        }
        default: /* A node that is computed plainly. */
            x = tw_graph_op(g, "CumSum", TW_OPERANDS(x, tw_graph_integer(g, 1)), TW_NO_ATTRIBUTES);
            break;
        }
        if (pick(&r, 0, 1)) x = tw_graph_op(g, "Add", TW_OPERANDS(x, before), TW_NO_ATTRIBUTES);
    }
    tw_graph_output(g, x, "out");
    check(g, NULL, 2, t == TW_E_f32 ? 2e-4 : t == TW_E_f16 ? 2e-2 : 1e-1);
}

enum { GRAPHS = TEST_SANITIZED ? 20 : 60 };

static void random_graphs_run(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        random_graph(seed, seed % 4 ? TW_E_f32 : seed % 8 ? TW_E_f16 : TW_E_bf16);
    }
}

/* Numbers of 64 bits are computed plainly. */
static void attention_of_doubles(void **state) {
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        const tw_element t = wide ? TW_E_f64 : TW_E_f32;
        tw_graph *g = tw_graph_new();
        const int q = tw_graph_input(g, "q", t, 4, (const tw_dim[]){1, 2, 3, 8}),
                  k = tw_graph_input(g, "k", t, 4, (const tw_dim[]){1, 2, 3, 8}),
                  mask = tw_graph_input(g, "mask", TW_E_f64, 2, (const tw_dim[]){3, 3});
        tw_graph_output(g, tw_graph_op(g, "Attention", TW_OPERANDS(q, k, k, mask), TW_NO_ATTRIBUTES), "out");
        check(g, NULL, 2, 1e-4);
    }
}

static void an_encoder_runs(void **state) {
    (void)state;
    check_model(TW_SOURCE_DIR "/tests/data/onnx/encoder/model.onnx", 2, 37);
}

int main(int argc, char **argv) {
    if (argc > 1) return check_model(argv[1], argc > 2 ? atoi(argv[2]) : 2, argc > 3 ? atoi(argv[3]) : 7), 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_encoder_runs), cmocka_unit_test(attention_of_doubles),
                                       cmocka_unit_test(random_graphs_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
