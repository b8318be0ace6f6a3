/* SPDX-License-Identifier: Apache-2.0 */
/* Times an ONNX model on a processor's workers. Reals of inputs are from -0.5 to 0.5, integers are 0 or 1. The first
   output goes to a file if one is given, and so does the schedule.

       network_cpu MODEL.onnx BATCH LENGTH THREADS SECONDS [OUTPUT.f32 [SCHEDULE.json]] */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/diag.h"
#include "graph/onnx/onnx.h"
#include "graph/passes/passes.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "vm/network/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64 /* Inputs and outputs. */ };

/* Processor time of all threads, which neighbours on the machine lengthen less than the time that passes. */
static double busy_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void fill(tw_arena *arena, const tw_value *v, int64_t batch, int64_t length, tw_array *a) {
    int symbols = 0;
    *a = (tw_array){.type = v->type, .rank = v->rank};
    for (int d = 0; d < v->rank; d++) a->dims[d] = v->dims[d] >= 0 ? v->dims[d] : symbols++ ? length : batch;
    void *data = tw_arena_alloc(arena, (size_t)tw_array_bytes(a) + 64);
    for (int64_t i = 0; i < tw_array_elements(a) && data; i++) {
        const uint32_t bits = (uint32_t)i * 2654435761u >> 8;
        const double x = (double)bits / 0x1p24 - 0.5;
        const int64_t whole = bits & 1;
        if (tw_element_kind(a->type) == TW_KIND_real)
            tw_array_set_reals(a->type, data, i, 1, &x);
        else
            tw_array_set_integers(a->type, data, i, 1, &whole);
    }
    a->data = data;
}

typedef struct model {
    tw_arena arena;
    tw_graph *graph;
    tw_program *program;
    tw_array in[MOST];
} model;

static tw_status load(model *m, const char *path, int64_t batch, int64_t length, tw_diag *d) {
    tw_graph *g = NULL;
    const tw_array *at[MOST];
    tw_status st = tw_onnx_open(&g, path, d);
    if (st == TW_OK) st = tw_graph_resolve(g, path, d);
    for (int i = 0; st == TW_OK && i < g->n_inputs; i++) {
        fill(&m->arena, &g->values[g->inputs[i]], batch, length, &m->in[i]);
        at[i] = &m->in[i];
    }
    if (st == TW_OK) st = tw_graph_specialize(&m->graph, g, at, d);
    tw_graph_free(g);
    if (st == TW_OK) st = tw_graph_simplify(m->graph, d);
    if (st == TW_OK) st = tw_graph_fuse(m->graph, NULL, d);
    if (st == TW_OK) st = tw_graph_simplify(m->graph, d);
    if (st == TW_OK) st = tw_graph_resolve(m->graph, path, d);
    const tw_program_options o = {.attention = TW_PROGRAM_FUSE_ALL};
    return st == TW_OK ? tw_program_lower(&m->program, m->graph, &o, d) : st;
}

static tw_status measure(tw_cpu_network *n, const model *m, double seconds, const char *path, tw_diag *d) {
    const tw_program *p = m->program;
    tw_arena arena = {0};
    const void *in[MOST];
    void *out[MOST];
    double best = 1e30, least = 1e30, sum = 0;
    int runs = 0;
    tw_status st = TW_OK;
    for (int i = 0; i < p->n_inputs; i++) in[i] = m->in[i].data;
    for (int i = 0; i < p->n_outputs; i++)
        out[i] = tw_arena_alloc(&arena, (size_t)p->buffers[p->outputs[i]].bytes + 64);
    for (const int64_t begin = tw_now_ns(); st == TW_OK && (!runs || (double)(tw_now_ns() - begin) < seconds * 1e9);
         runs++) {
        const double busy = busy_ms();
        const int64_t start = tw_now_ns();
        st = tw_cpu_network_run(n, in, out, d);
        const double ms = (double)(tw_now_ns() - start) / 1e6, spent = busy_ms() - busy;
        best = ms < best ? ms : best;
        least = spent < least ? spent : least;
        sum += ms;
    }
    printf("best %.2f ms, mean %.2f ms of %d runs; processor time at least %.2f ms\n", best, sum / runs, runs, least);
    FILE *f = path ? fopen(path, "wb") : NULL;
    if (f) {
        fwrite(out[0], 1, (size_t)p->buffers[p->outputs[0]].bytes, f);
        fclose(f);
    }
    tw_arena_free(&arena);
    return st;
}

int main(int argc, char **argv) {
    model m = {0};
    tw_cpu_network *n = NULL;
    tw_diag d = {0};
    if (argc < 6)
        return fprintf(stderr, "network_cpu MODEL.onnx BATCH LENGTH THREADS SECONDS [OUTPUT.f32 [S.json]]\n"), 2;
    int64_t start = tw_now_ns();
    tw_status st = load(&m, argv[1], atoi(argv[2]), atoi(argv[3]), &d);
    printf("lowered in %.1f ms\n", (double)(tw_now_ns() - start) / 1e6);
    start = tw_now_ns();
    if (st == TW_OK) st = tw_cpu_network_open(&n, m.program, atoi(argv[4]), NULL, &d);
    if (st == TW_OK) {
        const tw_cpu_network_memory memory = tw_cpu_network_memory_of(n);
        printf("opened in %.1f ms: %d steps, %.1f MB packed, %.1f MB beside\n", (double)(tw_now_ns() - start) / 1e6,
               m.program->n_steps, (double)memory.packed / 1e6, (double)memory.scratch / 1e6);
    }
    if (st == TW_OK && argc > 7) st = tw_ranges_write(tw_cpu_network_schedule(n), argv[7], &d);
    if (st == TW_OK) st = measure(n, &m, atof(argv[5]), argc > 6 ? argv[6] : NULL, &d);
    if (st != TW_OK) fprintf(stderr, "%s\n", d.message);
    tw_cpu_network_close(n);
    tw_program_free(m.program);
    tw_graph_free(m.graph);
    tw_arena_free(&m.arena);
    return st != TW_OK;
}
