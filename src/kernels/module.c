/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/module.h"

#include "base/diag.h"
#include "ptx/ptx.h"

#include <stdlib.h>
#include <string.h>

static tw_shared_module *find(const tw_gpu *g, const tw_buf *ptx, int64_t dynamic_shared) {
    tw_shared_module *m = g->modules;
    while (m && (m->dynamic_shared != dynamic_shared || m->ptx.size != ptx->size ||
                 memcmp(m->ptx.data, ptx->data, ptx->size) != 0))
        m = m->next;
    return m;
}

/* Loads machine code that there is. False: there is none, or the driver does not take it. */
static bool load_known(tw_shared_module *m, tw_gpu *g, const char *kernel) {
    if (!g->n_code) return false;
    const tw_cubin_key key = tw_machine_code_name(m->ptx.data, m->ptx.size, g->target->name);
    for (int i = 0; i < g->n_code; i++) {
        const tw_machine_code *c = &g->code[i];
        if (memcmp(&c->key, &key, sizeof key) != 0) continue;
        m->registers = c->registers;
        m->spill_bytes = c->spill_bytes;
        m->code = c->from ? c->from : "package";
        return tw_cuda_load(g->cuda, &m->module, c->data, c->bytes, kernel, m->dynamic_shared, NULL) == TW_OK;
    }
    return false;
}

static tw_status load(tw_shared_module *m, tw_gpu *g, const char *kernel, tw_diag *diag) {
    if (load_known(m, g, kernel)) return TW_OK;
    const tw_ptx_compiler by = tw_ptx_compiler_for(g->cuda, true);
    tw_cubin cubin;
    tw_status st = tw_ptx_compile_by(&by, m->ptx.data, m->ptx.size, &cubin, diag);
    if (st == TW_OK) st = tw_cuda_load(g->cuda, &m->module, cubin.data, cubin.bytes, kernel, m->dynamic_shared, diag);
    m->registers = cubin.registers;
    m->spill_bytes = cubin.spill_bytes;
    m->code = cubin.cached ? "cache" : "compiler";
    tw_cubin_free(&cubin);
    return st;
}

static void free_module(tw_shared_module *m) {
    if (m->module) tw_cuda_unload(m->module);
    tw_buf_free(&m->ptx);
    free(m);
}

tw_status tw_shared_module_open(tw_shared_module **out, tw_gpu *g, tw_kernel *k, tw_diag *diag) {
    tw_shared_module *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return tw_fail_memory(diag);
    m->dynamic_shared = tw_kernel_shared_layout(k, NULL);
    tw_status st = tw_ptx_print(&m->ptx, k, tw_cuda_describe(g->cuda)->target, diag);
    tw_shared_module *same = st == TW_OK ? find(g, &m->ptx, m->dynamic_shared) : NULL;
    if (st == TW_OK && !same) st = load(m, g, k->name, diag);
    if (st != TW_OK || same) {
        free_module(m);
        m = same;
    } else {
        m->next = g->modules;
        g->modules = m;
    }
    if (m) m->users++;
    *out = m;
    return st;
}

void tw_shared_module_close(tw_gpu *g, tw_shared_module *m) {
    if (!m || --m->users) return;
    tw_shared_module **at = &g->modules;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    free_module(m);
}
