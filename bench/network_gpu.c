/* SPDX-License-Identifier: Apache-2.0 */
/* Times networks with random weights on a GPU:

       network_gpu MODEL [dtype=f16] [batch=1] [length=512] [layers=0] [device=auto] [search=0] [by=0] [unsplit=0]
                   [unsplit_batches=0] [clear=0] [late=0] [attention=1] [apart=0] [norms=1] [check=0] [explain=0]
                   [samples=20] [measured=0] [seconds=0] [plan=FILE]

   A line of JSON for each run. measured: configurations of each search; seconds: a limit of all. 0: as usual. check=1
   compares with the graph as it is run plainly, which takes long. by: 1 are our own products, 2 the vendor's.
   attention=0: no attention step. norms=0: norms are steps of their own. plan: read where it is, and written after a
   search. */
#include "base/clock.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/stats.h"
#include "graph/passes/passes.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "network_models.h"
#include "vm/network/network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 2 };

typedef struct settings {
    const char *model, *dtype, *device, *plan;
    int64_t batch, length, layers, search, by, unsplit, unsplit_batches, clear, late, attention, apart, norms, check,
        explain, samples, measured, seconds;
} settings;

static bool set(settings *s, const char *word) {
    const struct {
        const char *name;
        int64_t *to;
        const char **text;
    } all[] = {{"dtype", NULL, &s->dtype},         {"device", NULL, &s->device},
               {"plan", NULL, &s->plan},           {"batch", &s->batch, NULL},
               {"length", &s->length, NULL},       {"layers", &s->layers, NULL},
               {"search", &s->search, NULL},       {"by", &s->by, NULL},
               {"clear", &s->clear, NULL},         {"unsplit_batches", &s->unsplit_batches, NULL},
               {"unsplit", &s->unsplit, NULL},     {"late", &s->late, NULL},
               {"attention", &s->attention, NULL}, {"check", &s->check, NULL},
               {"apart", &s->apart, NULL},         {"explain", &s->explain, NULL},
               {"samples", &s->samples, NULL},     {"measured", &s->measured, NULL},
               {"seconds", &s->seconds, NULL},     {"norms", &s->norms, NULL}};
    const char *equals = strchr(word, '=');
    for (size_t i = 0; i < sizeof all / sizeof *all && equals; i++) {
        if (strlen(all[i].name) != (size_t)(equals - word) || strncmp(all[i].name, word, (size_t)(equals - word)) != 0)
            continue;
        if (all[i].to)
            *all[i].to = atoll(equals + 1);
        else
            *all[i].text = equals + 1;
        return true;
    }
    return false;
}

/* What is made of a model, from above to below. */
typedef struct made {
    tw_graph *graph;
    tw_program *program;
    tw_gpu *gpu;
    tw_network_weights *weights;
    tw_cuda_network *network;
    tw_network_plan plan;
    tw_array in[INPUTS], out;
    tw_arena arena;
} made;

static tw_status make_graph(made *m, const settings *s, tw_diag *diag) {
    tw_element type;
    if (!tw_element_from_name(s->dtype, &type)) return tw_fail(diag, TW_ERR_USAGE, "no such type");
    tw_graph *g = network_model(s->model, type, s->batch, s->length, (int)s->layers);
    if (!g) return tw_fail(diag, TW_ERR_USAGE, "models are %s", network_model_names);
    const tw_array *at[INPUTS];
    for (int i = 0; i < g->n_inputs; i++) {
        m->in[i] = (tw_array){.type = TW_E_i64, .rank = 2, .dims = {s->batch, s->length}};
        int64_t *x = tw_arena_array(&m->arena, (size_t)(s->batch * s->length), sizeof *x);
        for (int64_t k = 0; x && k < s->batch * s->length; k++) x[k] = i ? k % s->length : (k * 7919 + 13) % 1000;
        m->in[i].data = x;
        at[i] = &m->in[i];
    }
    tw_status st = tw_graph_resolve(g, s->model, diag);
    if (st == TW_OK) st = tw_graph_specialize(&m->graph, g, at, diag);
    tw_graph_free(g);
    if (st == TW_OK) st = tw_graph_simplify(m->graph, diag);
    if (st == TW_OK) st = tw_graph_fuse(m->graph, NULL, diag);
    return st == TW_OK ? tw_graph_resolve(m->graph, s->model, diag) : st;
}

static tw_status read_plan(made *m, const settings *s, tw_diag *diag) {
    tw_map map;
    if (!s->plan || tw_map_open(&map, s->plan, NULL) != TW_OK) return TW_OK;
    const tw_status st = tw_network_plan_read(&m->plan, (const char *)map.data, map.size, diag);
    tw_map_close(&map);
    return st;
}

static tw_status write_plan(made *m, const settings *s, tw_diag *diag) {
    tw_buf text = {0};
    if (!s->plan || !s->search) return TW_OK;
    tw_status st = tw_network_plan_write(&m->plan, &text, diag);
    FILE *f = st == TW_OK ? fopen(s->plan, "wb") : NULL;
    if (f && (fwrite(text.data, 1, text.size, f) != text.size || fclose(f))) st = tw_fail(diag, TW_ERR_IO, "the plan");
    tw_buf_free(&text);
    return st;
}

static tw_status compare(made *m, tw_diag *diag) {
    const tw_array *at[INPUTS] = {&m->in[0], &m->in[1]};
    tw_array want;
    double worst = 0, square = 0;
    const tw_status st = tw_graph_run(m->graph, at, &m->arena, &want, diag);
    if (st != TW_OK) return st;
    const int64_t n = tw_array_elements(&want);
    for (int64_t i = 0; i < n; i++) square += tw_array_real(&want, i) * tw_array_real(&want, i) / (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double x = tw_array_real(&want, i), y = tw_array_real(&m->out, i), e = fabs(x - y);
        worst = fmax(worst, isnan(e) ? INFINITY : e / fmax(fabs(x), sqrt(square)));
    }
    printf("{\"worst\": %.3g}\n", worst);
    return TW_OK;
}

static tw_status run(made *m, const settings *s, tw_diag *diag) {
    const tw_cuda_network_options options = {.by = (int)s->by,
                                             .unsplit = s->unsplit,
                                             .unsplit_batches = s->unsplit_batches,
                                             .clear = s->clear,
                                             .search = s->search,
                                             .measured = (int)s->measured,
                                             .seconds = (double)s->seconds,
                                             .late = s->late};
    tw_program_options lowering = {
        .gpu = true, .apart = s->apart, .attention = s->attention ? TW_PROGRAM_FUSE_GPU : TW_PROGRAM_FUSE_NONE};
    int64_t began = tw_now_ns();
    tw_status st = make_graph(m, s, diag);
    const double graph_s = (double)(tw_now_ns() - began) * 1e-9;
    began = tw_now_ns();
    if (st == TW_OK) st = tw_gpu_open(&m->gpu, s->device, diag);
    lowering.norm_rows = TW_CUDA_NETWORK_NORM_ROWS;
    if (st == TW_OK) lowering.norms = s->norms && s->by != 2 && tw_cuda_network_joins_norms(m->gpu);
    if (st == TW_OK) st = tw_program_lower(&m->program, m->graph, &lowering, diag);
    if (st == TW_OK) st = tw_network_weights_open(&m->weights, m->gpu, diag);
    if (st == TW_OK) st = read_plan(m, s, diag);
    if (st == TW_OK) st = tw_cuda_network_open(&m->network, m->program, m->weights, &options, &m->plan, diag);
    if (st == TW_OK) st = write_plan(m, s, diag);
    if (st != TW_OK) return st;
    const double open_s = (double)(tw_now_ns() - began) * 1e-9;
    const tw_value *v = &m->graph->values[m->graph->outputs[0]];
    m->out = (tw_array){.type = v->type, .rank = v->rank};
    memcpy(m->out.dims, v->dims, sizeof m->out.dims);
    void *out = tw_arena_alloc(&m->arena, (size_t)tw_array_bytes(&m->out) + 1);
    const void *in[INPUTS] = {m->in[0].data, m->in[1].data};
    m->out.data = out;
    st = out ? tw_cuda_network_run(m->network, in, &out, diag) : tw_fail_memory(diag);
    if (st == TW_OK) st = tw_cuda_network_run(m->network, in, &out, diag);
    double samples[256] = {0};
    const int n = s->samples < 256 ? (int)s->samples : 256;
    if (st == TW_OK && !tw_gpu_emulated(m->gpu)) st = tw_cuda_network_time(m->network, 10, samples, n, diag);
    if (st != TW_OK) return st;
    const tw_stats us = tw_stats_of(samples, (size_t)n);
    printf("{\"model\": \"%s\", \"dtype\": \"%s\", \"batch\": %lld, \"length\": %lld, \"us\": %.2f, \"least\": %.2f, "
           "\"launches\": %d, \"by\": %lld, \"search\": %lld, \"unsplit\": %lld, \"unsplit_batches\": %lld, "
           "\"clear\": %lld, \"attention\": %lld, \"norms\": %lld, \"late\": %lld, "
           "\"graph_s\": %.2f, \"open_s\": %.2f, \"searched\": %d, \"measured\": %d, \"search_s\": %.1f, "
           "\"device\": \"%s\"}\n",
           s->model, s->dtype, (long long)s->batch, (long long)s->length, us.median, us.min,
           tw_cuda_network_launches(m->network), (long long)s->by, (long long)s->search, (long long)s->unsplit,
           (long long)s->unsplit_batches, (long long)s->clear, (long long)s->attention, (long long)s->norms,
           (long long)s->late, graph_s, open_s, m->plan.searched, m->plan.measured, m->plan.seconds,
           tw_gpu_name(m->gpu));
    if (s->check) st = compare(m, diag);
    if (st == TW_OK && s->explain) {
        tw_buf text = {0};
        st = tw_cuda_network_explain(m->network, true, &text, diag);
        if (st == TW_OK) st = tw_network_plan_explain(&m->plan, &text, diag);
        if (st == TW_OK) printf("%.*s", (int)text.size, text.data);
        tw_buf_free(&text);
    }
    return st;
}

int main(int argc, char **argv) {
    settings s = {
        .dtype = "f16", .device = "auto", .batch = 1, .length = 512, .attention = 1, .norms = 1, .samples = 20};
    made m = {0};
    tw_diag diag = {0};
    if (argc < 2) return fprintf(stderr, "network_gpu MODEL [NAME=VALUE...]; models: %s\n", network_model_names), 2;
    s.model = argv[1];
    for (int i = 2; i < argc; i++)
        if (!set(&s, argv[i])) return fprintf(stderr, "\"%s\" is no setting\n", argv[i]), 2;
    const tw_status st = run(&m, &s, &diag);
    if (st != TW_OK) fprintf(stderr, "%s: %s\n", s.model, diag.message);
    tw_cuda_network_close(m.network);
    tw_network_weights_close(m.weights);
    tw_gpu_close(m.gpu);
    tw_program_free(m.program);
    tw_graph_free(m.graph);
    tw_network_plan_free(&m.plan);
    tw_arena_free(&m.arena);
    return st != TW_OK;
}
