/* SPDX-License-Identifier: Apache-2.0 */
/* Between networks and their packages: what one writes, and what a machine takes from one. */
#include "base/diag.h"
#include "base/grow.h"
#include "engine/network.h"
#include "engine/package.h"
#include "kernels/gpu.h"
#include "vm/network/cpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening */

tw_status tw_network_lend(struct tw_network *n, tw_diag *diag) {
    const tw_package *p = n->package;
    if (!p) return TW_OK;
    n->contents.kept = p->data;
    n->contents.kept_bytes = p->data_bytes;
    if (n->runner == &tw_runner_cuda) {
        const tw_gpu_machine *m = n->machine;
        m->gpu->code = p->code;
        m->gpu->n_code = p->n_code;
    }
    tw_status st = TW_OK;
    if (n->runner != &tw_runner_cpu) return st;
    for (int i = 0; i < p->n_panels && st == TW_OK; i++) st = tw_cpu_pool_lend(n->machine, &p->panels[i], diag);
    for (int64_t i = 0; i < p->n_constants && st == TW_OK; i++) {
        const tw_package_constant *c = &p->constants[i];
        st = tw_cpu_pool_know(n->machine, p->data + c->at, (int64_t)c->bytes, c->sum, diag);
    }
    return st;
}

/* ---- checking */

/* Which constants are read. */
typedef struct marks {
    const tw_package *p;
    const tw_cpu_network *by; /* NULL: by all that there is. */
    bool *which;
} marks;

static void mark(marks *m, const void *data) {
    const size_t at = (size_t)((uintptr_t)data - (uintptr_t)m->p->data);
    if (at >= m->p->data_bytes) return;
    for (int64_t i = 0; i < m->p->n_constants; i++)
        if (m->p->constants[i].at == at) m->which[i] = true;
}

/* Constants of attributes are few and small, and read by whatever makes programs. */
static void mark_graph(marks *m, const tw_graph *g) {
    for (int i = 0; i < g->n_values; i++) {
        const tw_array *a = g->values[i].content;
        if (a && (!m->by || tw_cpu_network_reads(m->by, a->data))) mark(m, a->data);
    }
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_attributes; k++)
            if (g->nodes[i].attributes[k].kind == TW_ATTRIBUTE_ARRAY) mark(m, g->nodes[i].attributes[k].array->data);
}

/* Begins with no marks. The caller frees m->which. */
static tw_status begin(marks *m, struct tw_network *n, tw_diag *diag) {
    *m = (marks){.p = n->package, .which = calloc((size_t)n->package->n_constants + 1, sizeof *m->which)};
    return m->which ? TW_OK : tw_fail_memory(diag);
}

static tw_status check(marks *m, struct tw_network *n, tw_diag *diag) {
    const tw_status st = tw_package_check(n->package, m->which, n->path, diag);
    free(m->which);
    return st;
}

tw_status tw_network_check_read(struct tw_network *n, const tw_bucket *b, tw_diag *diag) {
    const tw_package *p = n->package;
    marks m;
    const tw_status st = begin(&m, n, diag);
    if (st != TW_OK) return st;
    if (n->runner == &tw_runner_cpu) m.by = b->state;
    mark_graph(&m, b->graph);
    for (int i = 0; i < p->n_code && n->runner->gpu; i++) mark(&m, p->code[i].data);
    for (int i = 0; i < p->n_panels && m.by; i++)
        if (tw_cpu_network_takes(m.by, p->panels[i].data)) mark(&m, p->panels[i].data);
    return check(&m, n, diag);
}

tw_status tw_network_check_graph(struct tw_network *n, const tw_graph *g, tw_diag *diag) {
    marks m;
    const tw_status st = begin(&m, n, diag);
    if (st != TW_OK) return st;
    mark_graph(&m, g);
    return check(&m, n, diag);
}

/* ---- describing */

/* Counts kernels of a bucket's program by where their machine code came from. */
static tw_status describe_code(const tw_bucket *b, tw_buf *out, tw_diag *diag) {
    int counts[3] = {0};
    tw_cuda_network_code(b->state, counts);
    tw_buf_printf(out, "%7d  kernels by the package's machine code, %d by the cache, %d compiled\n", counts[0],
                  counts[1], counts[2]);
    return out->failed ? tw_fail_memory(diag) : TW_OK;
}

tw_status tw_network_describe_package(const struct tw_network *n, const tw_bucket *b, tw_buf *out, tw_diag *diag) {
    const tw_package *p = n->package;
    double code = 0, panels = 0, constants = 0;
    for (int i = 0; i < p->n_code; i++) code += (double)p->code[i].bytes;
    for (int i = 0; i < p->n_panels; i++) panels += (double)p->panels[i].bytes;
    for (int64_t i = 0; i < p->n_constants; i++) constants += (double)p->constants[i].bytes;
    tw_buf_printf(out, "%7d  programs' graphs in %s\n", p->n_graphs, p->dtype);
    tw_buf_printf(out, "%7lld  constants (%.1f MB)\n", (long long)p->n_constants - p->n_code - p->n_panels,
                  (constants - code - panels) / 1e6);
    if (p->n_panels)
        tw_buf_printf(out, "%7d  constants as a processor reads them (%.1f MB)\n", p->n_panels, panels / 1e6);
    if (p->n_code) tw_buf_printf(out, "%7d  kernels of %s (%.1f MB)\n", p->n_code, p->code[0].target, code / 1e6);
    if (p->model) tw_buf_printf(out, "%7d  model for other extents (%d nodes)\n", 1, p->model->n_nodes);
    if (out->failed) return tw_fail_memory(diag);
    return n->runner->gpu && strncmp(n->device, "emulator", 8) != 0 ? describe_code(b, out, diag) : TW_OK;
}

/* ---- writing */

/* A package in the making. */
typedef struct making {
    const struct tw_network *n;
    tw_package_parts parts;
    tw_buf *ptx; /* Texts of kernels. */
    tw_ptx_job *jobs;
    tw_machine_code *code;
    int n_ptx, room_ptx;
    tw_cpu_panels *panels;
    int room_panels;
} making;

static void free_making(making *m) {
    for (int i = 0; i < m->n_ptx; i++) tw_buf_free(&m->ptx[i]);
    for (int i = 0; i < m->n_ptx && m->jobs; i++) tw_cubin_free(&m->jobs[i].cubin);
    free(m->ptx);
    free(m->jobs);
    free(m->code);
    free(m->panels);
}

/* Adds a text, which it takes, unless it is there. */
static tw_status add_ptx(making *m, tw_buf *ptx, tw_diag *diag) {
    for (int i = 0; i < m->n_ptx; i++)
        if (m->ptx[i].size == ptx->size && !memcmp(m->ptx[i].data, ptx->data, ptx->size)) {
            tw_buf_free(ptx);
            return TW_OK;
        }
    tw_buf *grown = tw_grow(m->ptx, m->n_ptx, &m->room_ptx, 64, sizeof *grown);
    if (!grown) {
        tw_buf_free(ptx);
        return tw_fail_memory(diag);
    }
    m->ptx = grown;
    m->ptx[m->n_ptx++] = *ptx;
    return TW_OK;
}

static tw_status collect_ptx(making *m, tw_diag *diag) {
    for (int b = 0; b < m->n->n_buckets; b++)
        for (int i = 0;; i++) {
            tw_buf ptx = {0};
            bool more;
            tw_status st = tw_cuda_network_ptx(m->n->buckets[b]->state, i, &ptx, &more, diag);
            if (st == TW_OK && !more) break;
            if (st == TW_OK)
                st = add_ptx(m, &ptx, diag);
            else
                tw_buf_free(&ptx);
            if (st != TW_OK) return st;
        }
    return TW_OK;
}

/* What the driver compiles as it loads stays text, which a package has no use for. */
static tw_status take_code(making *m, const char *target, tw_diag *diag) {
    for (int i = 0; i < m->n_ptx; i++) {
        const tw_ptx_job *j = &m->jobs[i];
        if (j->status != TW_OK) {
            if (diag) *diag = j->diag;
            return j->status;
        }
        if (!tw_is_machine_code(j->cubin.data, j->cubin.bytes)) continue;
        m->code[m->parts.n_code++] = (tw_machine_code){.key = tw_machine_code_name(j->ptx, j->bytes, target),
                                                       .target = target,
                                                       .data = j->cubin.data,
                                                       .bytes = j->cubin.bytes,
                                                       .registers = j->cubin.registers,
                                                       .spill_bytes = j->cubin.spill_bytes};
    }
    m->parts.code = m->code;
    return TW_OK;
}

static tw_status make_code(making *m, const char *target, tw_diag *diag) {
    const struct tw_network *n = m->n;
    const tw_gpu_machine *machine = n->runner->gpu ? n->machine : NULL;
    if (!machine && target)
        return tw_fail(diag, TW_ERR_USAGE, "target: %s makes no kernels for %s; emulator:%s does", n->device, target,
                       target);
    if (!machine || (!machine->gpu->cuda && !target)) return TW_OK;
    if (target && strcmp(target, machine->gpu->target->name) != 0)
        return tw_fail(diag, TW_ERR_USAGE, "target: %s has kernels for %s, and not for %s", n->device,
                       machine->gpu->target->name, target);
    tw_ptx_compiler by = tw_ptx_compiler_for(machine->gpu->cuda, true);
    by.target = machine->gpu->target->name;
    if (target && !by.ptxas) by.ptxas = "ptxas";
    tw_status st = collect_ptx(m, diag);
    if (st != TW_OK) return st;
    m->jobs = calloc((size_t)m->n_ptx + 1, sizeof *m->jobs);
    m->code = calloc((size_t)m->n_ptx + 1, sizeof *m->code);
    if (!m->jobs || !m->code) return tw_fail_memory(diag);
    for (int i = 0; i < m->n_ptx; i++) m->jobs[i] = (tw_ptx_job){.ptx = m->ptx[i].data, .bytes = m->ptx[i].size};
    tw_ptx_compile_all_by(&by, m->jobs, m->n_ptx, 0);
    return take_code(m, by.target, diag);
}

static tw_status list_panels(making *m, tw_diag *diag) {
    tw_cpu_panels x;
    if (m->n->runner != &tw_runner_cpu)
        return tw_fail(diag, TW_ERR_USAGE, "packed: %s packs no constants; cpu does", m->n->device);
    for (int i = 0; tw_cpu_pool_panels(m->n->machine, i, &x); i++) {
        tw_cpu_panels *grown = tw_grow(m->panels, m->parts.n_panels, &m->room_panels, 64, sizeof *grown);
        if (!grown) return tw_fail_memory(diag);
        m->panels = grown;
        m->panels[m->parts.n_panels++] = x;
    }
    m->parts.panels = m->panels;
    return TW_OK;
}

/* Fills in all but the plan, which the caller has. */
static tw_status make(making *m, const tw_package_options *o, tw_diag *diag) {
    tw_status st = make_code(m, o->target, diag);
    if (st == TW_OK && o->packed) st = list_panels(m, diag);
    if (o->model) m->parts.model = m->n->package ? m->n->package->model : m->n->model;
    if (st == TW_OK && o->model && !m->parts.model)
        st = tw_fail_at(diag, TW_ERR_USAGE, m->n->path, -1, "the package was built without the model");
    return st;
}

tw_status tw_network_save_with(const tw_network *n, const char *path, const tw_package_options *options,
                               tw_diag *diag) {
    static const tw_package_options none;
    const tw_graph *graphs[TW_BUCKETS];
    tw_buf plan = {0};
    if (!n->n_buckets) return tw_fail(diag, TW_ERR_USAGE, "nothing is prepared that a package could have");
    for (int i = 0; i < n->n_buckets; i++) {
        graphs[i] = n->buckets[i]->graph;
        if (!graphs[i])
            return tw_fail_at(diag, TW_ERR_UNSUPPORTED, n->path, -1,
                              "extents depend on what inputs contain: there is nothing to build");
    }
    /* A new package has sums of what is written, which must not be damaged already. */
    tw_status st = tw_network_check_file(n, diag);
    making m = {.n = n};
    if (st == TW_OK && n->plan.n) st = tw_network_plan_write(&n->plan, &plan, diag);
    m.parts = (tw_package_parts){.dtype = n->options.dtype,
                                 .plan = plan.data ? plan.data : "",
                                 .plan_bytes = plan.size,
                                 .interface = n->model,
                                 .graphs = graphs,
                                 .n_graphs = n->n_buckets};
    if (st == TW_OK) st = make(&m, options ? options : &none, diag);
    if (st == TW_OK) st = tw_package_write(&m.parts, path, diag);
    free_making(&m);
    tw_buf_free(&plan);
    return st;
}

tw_status tw_network_save(const tw_network *n, const char *path, tw_diag *diag) {
    return tw_network_save_with(n, path, NULL, diag);
}
