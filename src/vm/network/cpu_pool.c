/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "base/grow.h"
#include "base/sum.h"
#include "tilewright/device.h"
#include "vm/cpu/pages.h"
#include "vm/network/cpu_parts.h"

#include <stdlib.h>
#include <string.h>

tw_status tw_cpu_pages(size_t bytes, const char *what, unsigned char **out, tw_diag *diag) {
    *out = tw_pages(bytes);
    if (*out) return TW_OK;
    return tw_fail(diag, TW_ERR_MEMORY, "no memory for %.1f MB of %s", (double)bytes / 1e6, what);
}

tw_status tw_cpu_pool_open(tw_cpu_pool **out, int threads, const tw_cpu_pool_options *options, tw_diag *diag) {
    static const tw_cpu_pool_options none;
    const tw_cpu_pool_options *o = options ? options : &none;
    tw_cpu_pool *p = calloc(1, sizeof *p);
    tw_cpu cpu;
    *out = NULL;
    if (!p) return tw_fail_memory(diag);
    tw_cpu_detect(&cpu);
    const uint32_t isa = o->limit_isa ? cpu.isa & o->isa : cpu.isa;
    tw_kernels_choose(&p->k, o->exact ? isa & ~(uint32_t)TW_CPU_AMX : isa);
    const tw_status st = tw_team_start(&p->team, threads, !o->no_pin, diag);
    if (st == TW_OK)
        *out = p;
    else
        tw_cpu_pool_close(p);
    return st;
}

void tw_cpu_pool_close(tw_cpu_pool *p) {
    if (!p) return;
    tw_team_stop(p->team);
    tw_cpu_pool_forget(p, p->n_packed);
    free(p->packed);
    free(p->known);
    free(p);
}

void tw_cpu_pool_forget(tw_cpu_pool *p, int n) {
    for (; n > 0; n--) {
        const tw_cpu_packed *last = &p->packed[--p->n_packed];
        if (!last->lent) tw_pages_free(last->panels, last->bytes);
    }
}

int64_t tw_cpu_pool_bytes(const tw_cpu_pool *p) {
    int64_t sum = 0;
    for (int i = 0; i < p->n_packed; i++) sum += p->packed[i].lent ? 0 : (int64_t)p->packed[i].bytes;
    return sum;
}

static tw_status add(tw_cpu_pool *p, const tw_cpu_packed *x, tw_diag *diag) {
    tw_cpu_packed *grown = tw_grow(p->packed, p->n_packed, &p->room_packed, 64, sizeof *grown);
    if (!grown) return tw_fail_memory(diag);
    p->packed = grown;
    p->packed[p->n_packed++] = *x;
    return TW_OK;
}

tw_status tw_cpu_pool_lend(tw_cpu_pool *p, const tw_cpu_panels *x, tw_diag *diag) {
    unsigned char *panels = (unsigned char *)(uintptr_t)x->data; /* Kernels only read them. */
    return add(p, &(tw_cpu_packed){{x->name[0], x->name[1]}, panels, x->bytes, true}, diag);
}

bool tw_cpu_pool_panels(const tw_cpu_pool *p, int i, tw_cpu_panels *out) {
    if (i >= p->n_packed) return false;
    const tw_cpu_packed *x = &p->packed[i];
    *out = (tw_cpu_panels){{x->name[0], x->name[1]}, x->panels, x->bytes};
    return true;
}

tw_status tw_cpu_pool_know(tw_cpu_pool *p, const void *content, int64_t bytes, uint64_t sum, tw_diag *diag) {
    tw_cpu_known *grown = tw_grow(p->known, p->n_known, &p->room_known, 64, sizeof *grown);
    if (!grown) return tw_fail_memory(diag);
    p->known = grown;
    p->known[p->n_known++] = (tw_cpu_known){content, bytes, sum};
    return TW_OK;
}

uint64_t tw_cpu_pool_sum(const tw_cpu_pool *p, const void *content, int64_t bytes) {
    for (int i = 0; i < p->n_known; i++)
        if (p->known[i].content == content && p->known[i].bytes == bytes) return p->known[i].sum;
    return tw_sum(content, (size_t)bytes);
}

tw_status tw_cpu_pool_packed(tw_cpu_pool *p, const uint64_t name[2], size_t bytes, unsigned char **panels, bool *found,
                             tw_diag *diag) {
    *found = false;
    for (int i = 0; i < p->n_packed && !*found; i++) {
        *found = !memcmp(p->packed[i].name, name, sizeof p->packed[i].name) && p->packed[i].bytes == bytes;
        *panels = p->packed[i].panels;
    }
    if (*found) return TW_OK;
    tw_status st = tw_cpu_pages(bytes, "packed constants", panels, diag);
    if (st != TW_OK) return st;
    st = add(p, &(tw_cpu_packed){{name[0], name[1]}, *panels, bytes, false}, diag);
    if (st != TW_OK) tw_pages_free(*panels, bytes);
    return st;
}
