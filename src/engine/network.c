/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/network.h"

#include "base/clock.h"
#include "base/diag.h"
#include "engine/package.h"
#include "graph/golden.h"
#include "graph/inputs.h"
#include "graph/run.h"
#include "graph/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening */

/* Chooses the kind of machine, and opens it. "auto" is a GPU if there is one. */
static tw_status open_machine(tw_network *n, tw_diag *diag) {
    const char *device = n->options.device;
    if (!strcmp(device, "auto")) {
        n->runner = &tw_runner_cuda;
        if (n->runner->open(n, "cuda", NULL) == TW_OK) return tw_network_lend(n, diag);
        device = "cpu";
    }
    if (strcmp(device, "cpu") != 0 && strcmp(device, "plain") != 0 && strncmp(device, "cuda", 4) != 0 &&
        strncmp(device, "emulator", 8) != 0)
        return tw_fail(diag, TW_ERR_USAGE, "device: \"%s\" is not auto, cpu, cuda, cuda:N, plain or emulator", device);
    n->runner = !strcmp(device, "cpu") ? &tw_runner_cpu : !strcmp(device, "plain") ? &tw_runner_plain : &tw_runner_cuda;
    const tw_status st = n->runner->open(n, device, diag);
    if (st != TW_OK) n->runner = NULL;
    return st == TW_OK ? tw_network_lend(n, diag) : st;
}

static tw_status set_type(tw_network *n, const char *dtype, tw_diag *diag) {
    n->type = TW_E_none;
    if (!dtype || !strcmp(dtype, "f32") || !*dtype) return TW_OK;
    if (!tw_element_from_name(dtype, &n->type) || (n->type != TW_E_f16 && n->type != TW_E_bf16))
        return tw_fail(diag, TW_ERR_USAGE, "dtype: \"%s\" is not f32, f16 or bf16", dtype);
    return TW_OK;
}

static tw_status read_model(tw_network *n, const char *dtype, tw_diag *diag) {
    if (!tw_is_package(n->path)) return tw_graph_open(&n->model, n->path, diag);
    tw_status st = tw_package_open(&n->package, n->path, diag);
    if (st != TW_OK) return st;
    n->model = tw_graph_keep(n->package->interface);
    if (dtype && strcmp(dtype, n->package->dtype) != 0)
        return tw_fail_at(diag, TW_ERR_USAGE, n->path, -1, "the package is of %s, and not of %s", n->package->dtype,
                          dtype);
    st = set_type(n, n->package->dtype, diag);
    const bool has_plan = st == TW_OK && n->package->plan_bytes;
    return has_plan ? tw_network_plan_read(&n->plan, n->package->plan, n->package->plan_bytes, diag) : st;
}

static tw_status open_network(tw_network *n, const char *path, tw_diag *diag) {
    const char *dtype = n->options.dtype;
    if (strlen(path) >= sizeof n->path) return tw_fail(diag, TW_ERR_USAGE, "the path is too long");
    snprintf(n->path, sizeof n->path, "%s", path);
    tw_status st = set_type(n, dtype, diag);
    if (st == TW_OK) st = read_model(n, dtype, diag);
    if (st != TW_OK) return st;
    n->in_data = calloc((size_t)n->model->n_inputs + 1, sizeof *n->in_data);
    n->out_data = calloc((size_t)n->model->n_outputs + 1, sizeof *n->out_data);
    if (!n->in_data || !n->out_data) return tw_fail_memory(diag);
    return open_machine(n, diag);
}

tw_status tw_network_open(tw_network **out, const char *path, const tw_network_options *options, tw_diag *diag) {
    tw_network *n = *out = calloc(1, sizeof *n);
    if (!n) return tw_fail_memory(diag);
    n->last = -1;
    if (options) n->options = *options;
    const char *device = n->options.device ? n->options.device : "auto";
    snprintf(n->asked, sizeof n->asked, "%s", device);
    n->options.device = n->asked;
    const tw_status st = open_network(n, path, diag);
    n->options.dtype = n->type == TW_E_none ? "f32" : tw_element_name(n->type);
    if (st == TW_OK) return TW_OK;
    tw_network_close(n);
    *out = NULL;
    return st;
}

void tw_network_close(tw_network *n) {
    if (!n) return;
    for (int i = 0; i < n->n_buckets; i++) tw_bucket_free(n, n->buckets[i]);
    if (n->runner) n->runner->close(n);
    tw_network_plan_free(&n->plan);
    tw_program_made_free(&n->made);
    tw_contents_free(&n->contents);
    tw_graph_free(n->model);
    tw_package_close(n->package);
    free(n->in_data);
    free(n->out_data);
    free(n);
}

/* ---- facts */

static void describe_value(const tw_graph *g, int value, tw_tensor *out) {
    const tw_value *v = &g->values[value];
    *out = (tw_tensor){.name = v->name, .type = tw_element_name(v->type), .rank = v->rank};
    for (int i = 0; i < v->rank; i++) {
        out->dims[i] = v->dims[i];
        if (v->dims[i] >= 0) continue;
        out->dims[i] = -1;
        if (v->dims[i] != TW_DIM_UNKNOWN) out->symbols[i] = g->symbols[tw_dim_symbol(v->dims[i])];
    }
}

void tw_network_input(const tw_network *n, int i, tw_tensor *out) {
    describe_value(n->model, n->model->inputs[i], out);
}

void tw_network_output(const tw_network *n, int i, tw_tensor *out) {
    describe_value(n->model, n->model->outputs[i], out);
}

int64_t tw_network_input_limit(const tw_network *n, int i) {
    const tw_graph *g = n->package && n->package->n_graphs ? n->package->graphs[0] : n->model;
    int64_t limit = 0;
    for (int k = 0; k < g->n_nodes; k++) {
        const tw_node *node = &g->nodes[k];
        if (strcmp(node->op, "Gather") != 0 || node->n_in < 2 || node->in[1] != g->inputs[i] || node->in[0] < 0)
            continue;
        const tw_value *table = &g->values[node->in[0]];
        const int64_t axis = tw_node_integer(node, "axis", 0);
        if (!table->content || axis < 0 || axis >= table->content->rank) continue;
        const int64_t rows = table->content->dims[axis];
        if (!limit || rows < limit) limit = rows;
    }
    return limit;
}

static double operations_of(const tw_program *p) {
    double sum = 0;
    for (int i = 0; i < p->n_steps; i++) {
        const tw_step *s = &p->steps[i];
        const tw_program_product *x = &s->of.product;
        const tw_program_attention *a = &s->of.attention;
        if (s->kind == TW_STEP_PRODUCT)
            sum += 2.0 * (double)(x->batch[0] * x->batch[1] * x->batch[2]) * (double)x->m * (double)x->n * (double)x->k;
        if (s->kind == TW_STEP_ATTENTION)
            sum += 2.0 * (double)(a->batch * a->heads * a->queries) * (double)(a->keys * (a->head + a->head_v)) *
                   (a->causal ? 0.5 : 1);
    }
    return sum;
}

void tw_network_describe(const tw_network *n, tw_network_info *info) {
    *info = (tw_network_info){.name = n->model->name ? n->model->name : "",
                              .device = n->device,
                              .dtype = n->options.dtype,
                              .inputs = n->model->n_inputs,
                              .outputs = n->model->n_outputs,
                              .prepared = n->n_buckets};
    if (n->last < 0) return;
    const tw_bucket *b = n->buckets[n->last];
    const tw_graph *g = b->graph ? b->graph : n->model;
    info->prepare_seconds = b->seconds;
    info->steps = b->program ? b->program->n_steps : g->n_nodes;
    for (int i = 0; i < g->n_values; i++)
        if (g->values[i].content) info->weight_bytes += tw_array_bytes(g->values[i].content);
    info->operations = b->program ? operations_of(b->program) : 0;
    if (n->runner->describe) n->runner->describe(n, b, info);
}

/* ---- running */

static tw_status array_of(const tw_tensor *t, const char *name, tw_array *out, tw_diag *diag) {
    *out = (tw_array){.rank = t->rank, .data = t->data};
    if (!t->type || !tw_element_from_name(t->type, &out->type) || t->rank < 0 || t->rank > TW_ARRAY_RANK)
        return tw_fail(diag, TW_ERR_USAGE, "input \"%s\" has no type or shape", name);
    for (int d = 0; d < t->rank; d++) out->dims[d] = t->dims[d];
    return tw_array_bytes(out) < 0 ? tw_fail(diag, TW_ERR_USAGE, "input \"%s\" is too large", name) : TW_OK;
}

static bool is_for(const tw_bucket *b, const tw_array *in, int n) {
    for (int i = 0; i < n; i++) {
        const tw_array *a = &b->inputs[i];
        if (a->type != in[i].type || a->rank != in[i].rank ||
            memcmp(a->dims, in[i].dims, (size_t)a->rank * sizeof *a->dims) != 0)
            return false;
    }
    return true;
}

/* Finds the bucket of extents, or makes it. */
static tw_status find_bucket(tw_network *n, const tw_array *in, tw_diag *diag) {
    for (int i = 0; i < n->n_buckets; i++)
        if (is_for(n->buckets[i], in, n->model->n_inputs)) {
            n->last = i;
            return TW_OK;
        }
    if (n->n_buckets == TW_BUCKETS)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "no more than %d shapes are kept", TW_BUCKETS);
    const int64_t begin = tw_now_ns();
    tw_status st = tw_bucket_make(n, in, &n->buckets[n->n_buckets], diag);
    if (st == TW_ERR_UNSUPPORTED && n->runner->gpu && !strcmp(n->options.device, "auto") && !n->n_buckets) {
        /* Nobody asked for the GPU, and it lacks kernels. */
        n->runner->close(n);
        n->options.device = "cpu";
        if (diag) tw_diag_clear(diag);
        st = open_machine(n, diag);
        if (st == TW_OK) st = tw_bucket_make(n, in, &n->buckets[n->n_buckets], diag);
    }
    if (st != TW_OK) return st;
    n->last = n->n_buckets++;
    n->buckets[n->last]->seconds = (double)(tw_now_ns() - begin) / 1e9;
    return TW_OK;
}

/* Names the model's file where a failure names none. */
static tw_status blame(const tw_network *n, tw_status st, tw_diag *diag) {
    if (st != TW_OK && diag && !*diag->path) snprintf(diag->path, sizeof diag->path, "%s", n->path);
    return st;
}

static tw_status prepare(tw_network *n, const tw_tensor *inputs, tw_diag *diag) {
    const tw_graph *g = n->model;
    const size_t count = (size_t)g->n_inputs + 1;
    tw_arena arena = {0};
    tw_array *given = tw_arena_array(&arena, count, sizeof *given), *in = tw_arena_array(&arena, count, sizeof *in);
    const tw_array **list = tw_arena_array(&arena, count, sizeof *list);
    tw_status st = given && in && list ? TW_OK : tw_fail_memory(diag);
    for (int i = 0; i < g->n_inputs && st == TW_OK; i++) {
        st = array_of(&inputs[i], g->values[g->inputs[i]].name, &given[i], diag);
        list[i] = &given[i];
    }
    const int last = n->last;
    /* The processor that was to stand in for a GPU was not there. */
    if (st == TW_OK && !n->runner) st = open_machine(n, diag);
    if (st == TW_OK) st = tw_graph_bind(g, NULL, 0, list, in, diag);
    if (st == TW_OK) st = find_bucket(n, in, diag);
    if (n->last != last) n->ran = false; /* Contents that there are belong to other extents. */
    tw_arena_free(&arena);
    return st;
}

tw_status tw_network_prepare(tw_network *n, const tw_tensor *inputs, tw_diag *diag) {
    return blame(n, prepare(n, inputs, diag), diag);
}

tw_status tw_network_run(tw_network *n, const tw_tensor *inputs, tw_tensor *outputs, tw_diag *diag) {
    tw_status st = tw_network_prepare(n, inputs, diag);
    if (st != TW_OK) return st;
    tw_bucket *b = n->buckets[n->last];
    for (int i = 0; i < n->model->n_inputs; i++) {
        const size_t bytes = (size_t)tw_array_bytes(&b->inputs[i]);
        if (!inputs[i].data && bytes)
            return tw_fail_at(diag, TW_ERR_USAGE, n->path, -1, "input \"%s\" has no content",
                              n->model->values[n->model->inputs[i]].name);
        /* Timed runs go on with these contents, when the caller's may be gone. */
        if (bytes) memcpy((void *)b->inputs[i].data, inputs[i].data, bytes);
        n->in_data[i] = b->inputs[i].data;
    }
    for (int i = 0; i < n->model->n_outputs; i++) n->out_data[i] = (void *)b->outputs[i].data;
    st = n->runner->run(n, b, n->in_data, n->out_data, diag);
    for (int i = 0; i < n->model->n_outputs && st == TW_OK; i++) {
        const tw_array *a = &b->outputs[i];
        outputs[i] = (tw_tensor){.name = n->model->values[n->model->outputs[i]].name,
                                 .type = tw_element_name(a->type),
                                 .rank = a->rank,
                                 .data = a->data};
        for (int d = 0; d < a->rank; d++) outputs[i].dims[d] = a->dims[d];
    }
    n->ran = st == TW_OK;
    return blame(n, st, diag);
}

tw_status tw_network_time(tw_network *n, double *us, int samples, tw_diag *diag) {
    if (!n->ran) return tw_fail(diag, TW_ERR_USAGE, "a network runs before it is timed");
    tw_bucket *b = n->buckets[n->last];
    if (n->runner->time) return blame(n, n->runner->time(n, b, us, samples, diag), diag);
    tw_status st = TW_OK;
    for (int i = 0; i < samples && st == TW_OK; i++) {
        const int64_t begin = tw_now_ns();
        st = n->runner->run(n, b, n->in_data, n->out_data, diag);
        us[i] = (double)(tw_now_ns() - begin) / 1e3;
    }
    return blame(n, st, diag);
}

/* ---- comparing */

/* What elements may differ by in what networks compute: bf16 has 3 bits fewer than f16. 0: as types of outputs say. */
static double share_of(const tw_network *n) {
    return n->type == TW_E_bf16 ? 8e-2 : n->type == TW_E_f16 ? 1e-2 : 0;
}

static tw_status verify(tw_network *n, tw_golden *f, tw_difference *d, tw_diag *diag) {
    const tw_graph *g = n->model;
    const tw_array **in = tw_arena_array(&f->arena, (size_t)g->n_inputs + 1, sizeof *in);
    tw_tensor *inputs = tw_arena_array(&f->arena, (size_t)g->n_inputs + 1, sizeof *inputs);
    tw_tensor *outputs = tw_arena_array(&f->arena, (size_t)g->n_outputs + 1, sizeof *outputs);
    if (!in || !inputs || !outputs) return tw_fail_memory(diag);
    tw_status st = tw_golden_inputs(f, g, in, diag);
    for (int i = 0; i < g->n_inputs && st == TW_OK; i++) {
        inputs[i] = (tw_tensor){.type = tw_element_name(in[i]->type), .rank = in[i]->rank, .data = in[i]->data};
        memcpy(inputs[i].dims, in[i]->dims, sizeof inputs[i].dims);
    }
    if (st == TW_OK) st = tw_network_run(n, inputs, outputs, diag);
    if (st != TW_OK) return st;
    return tw_golden_compare(f, g, n->buckets[n->last]->outputs, share_of(n), d, diag);
}

static void conclude(const tw_difference *d, tw_network_verdict *verdict, char *why, size_t why_size) {
    *verdict = (tw_network_verdict){.elements = {.outputs = d->outputs, .elements = d->elements, .worst = d->allowed},
                                    .worst = d->worst,
                                    .rms = d->rms,
                                    .agrees = !*d->first};
    if (why) snprintf(why, why_size, "%s", d->first);
}

tw_status tw_network_verify(tw_network *n, const char *golden, tw_network_verdict *verdict, char *why, size_t why_size,
                            tw_diag *diag) {
    tw_golden f;
    tw_difference d = {0};
    *verdict = (tw_network_verdict){0};
    tw_status st = tw_golden_open(&f, golden, diag);
    if (st == TW_OK) st = verify(n, &f, &d, diag);
    tw_golden_close(&f);
    if (st == TW_OK) conclude(&d, verdict, why, why_size);
    return st;
}

static tw_status check(tw_network *n, tw_arena *arena, tw_difference *d, tw_diag *diag) {
    const tw_bucket *b = n->buckets[n->last];
    const tw_graph *g = n->package ? b->graph : n->model;
    const tw_array **in = tw_arena_array(arena, (size_t)g->n_inputs + 1, sizeof *in);
    tw_array *out = tw_arena_array(arena, (size_t)g->n_outputs + 1, sizeof *out);
    if (!in || !out) return tw_fail_memory(diag);
    for (int i = 0; i < g->n_inputs; i++) in[i] = &b->inputs[i];
    /* A program may have read other constants of a package, such as panels. */
    tw_status st = n->package ? tw_network_check_graph(n, g, diag) : TW_OK;
    if (st == TW_OK) st = tw_graph_run(g, in, arena, out, diag);
    for (int i = 0; i < g->n_outputs && st == TW_OK; i++)
        st = tw_array_compare(n->model->values[n->model->outputs[i]].name, &b->outputs[i], &out[i], share_of(n), d,
                              diag);
    return st;
}

tw_status tw_network_check(tw_network *n, tw_network_verdict *verdict, char *why, size_t why_size, tw_diag *diag) {
    tw_arena arena = {0};
    tw_difference d = {0};
    *verdict = (tw_network_verdict){0};
    const tw_status st =
        n->ran ? check(n, &arena, &d, diag) : tw_fail(diag, TW_ERR_USAGE, "a network runs before it is compared");
    tw_arena_free(&arena);
    if (st == TW_OK) conclude(&d, verdict, why, why_size);
    return st;
}

tw_status tw_network_check_file(const tw_network *n, tw_diag *diag) {
    return n->package ? tw_package_check(n->package, NULL, n->path, diag) : TW_OK;
}

/* ---- text */

static tw_status write_text(tw_network *n, tw_network_view view, tw_buf *out, tw_diag *diag) {
    if (n->last < 0) return tw_fail(diag, TW_ERR_USAGE, "nothing is prepared yet");
    tw_bucket *b = n->buckets[n->last];
    const tw_graph *g = b->graph ? b->graph : n->model;
    switch (view) {
    case TW_NETWORK_FUSIONS:
        if (n->package) return tw_network_describe_package(n, b, out, diag);
        tw_fusions_print(&b->fusions, false, out);
        return TW_OK;
    case TW_NETWORK_GRAPH:
        tw_graph_print(g, out);
        return TW_OK;
    case TW_NETWORK_DOT:
        tw_graph_dot(g, out);
        return TW_OK;
    case TW_NETWORK_STEPS:
        if (!b->program) return tw_fail(diag, TW_ERR_UNSUPPORTED, "the graph runs plainly, without a program");
        tw_program_print(b->program, out);
        return TW_OK;
    case TW_NETWORK_LAUNCHES:
        if (!n->runner->explain) return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s has no launches", n->device);
        return n->runner->explain(n, b, out, diag);
    }
    return tw_fail(diag, TW_ERR_USAGE, "there is no such view");
}

char *tw_network_text(tw_network *n, tw_network_view view, tw_diag *diag) {
    tw_buf out = {0};
    tw_status st = write_text(n, view, &out, diag);
    if (st == TW_OK && !tw_buf_add(&out, "", 0)) st = tw_fail_memory(diag);
    if (st == TW_OK) return out.data;
    tw_buf_free(&out);
    return NULL;
}
