/* SPDX-License-Identifier: Apache-2.0 */
/* Which problems are searched, in what order, and for how long. */
#include "base/clock.h"
#include "base/diag.h"
#include "base/grow.h"
#include "kernels/gemm/estimate.h"
#include "vm/network/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A problem to search. */
typedef struct item {
    bool is_attention;
    tw_gemm_problem product;
    tw_attention_problem attention;
    char words[512];
    double us; /* Estimated time of all steps that have it. */
} item;

typedef struct list {
    item *items;
    int n, room;
} list;

/* Adds an item, or its time to that of its like. */
static tw_status add(list *l, const item *x, tw_diag *diag) {
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->items[i].words, x->words)) {
            l->items[i].us += x->us;
            return TW_OK;
        }
    item *grown = tw_grow(l->items, l->n, &l->room, 16, sizeof *grown);
    if (!grown) return tw_fail_memory(diag);
    l->items = grown;
    l->items[l->n++] = *x;
    return TW_OK;
}

static tw_status add_product(const tw_cuda_network *n, const tw_step *s, list *l, tw_diag *diag) {
    tw_gemm_config c;
    item x = {.is_attention = false};
    const tw_status st = tw_network_searched(n, s, &x.product, diag);
    if (st != TW_OK) return st;
    if (x.product.pointers) return TW_OK; /* Matrices that lie anywhere are not measured. */
    tw_gemm_problem_print(&x.product, x.words, sizeof x.words);
    if (tw_network_estimate(n, &x.product, &c)) x.us = tw_gemm_estimate(&x.product, &c, &n->info);
    return add(l, &x, diag);
}

static tw_status add_attention(const tw_step *s, list *l, tw_diag *diag) {
    const double rate = 300e6; /* Operations of a microsecond. */
    item x = {.is_attention = true};
    tw_status st = tw_network_attention(s, &x.attention, diag);
    if (st != TW_OK) return st;
    const tw_attention_problem *p = &x.attention;
    tw_attention_print(p, x.words, sizeof x.words);
    const double pairs = (double)p->batch * (double)p->heads * (double)p->queries * (double)p->keys;
    x.us = 4 * pairs * (double)p->head / (p->causal ? 2 : 1) / rate;
    return add(l, &x, diag);
}

static int longest_first(const void *a, const void *b) {
    const double x = ((const item *)a)->us, y = ((const item *)b)->us;
    return (x < y) - (x > y);
}

/* Returns the seconds for an item: its share of what is left, but for what those behind it take at least. What others
   did not need is shared by those behind it. */
static double share(const list *l, int i, double left) {
    const double least = 0.8; /* Seconds for the reference, the usual choice and a few others. */
    const double shared = fmax(left - least * (l->n - 1 - i), fmin(left, least));
    double all = 0;
    for (int k = i; k < l->n; k++) all += l->items[k].us;
    return all > 0 ? shared * l->items[i].us / all : shared / (l->n - i);
}

static tw_status search_list(tw_cuda_network *n, const list *l, tw_diag *diag) {
    const double to_settle = 0.15 /* The share of time that is left for settling. */;
    const double limit = (1 - to_settle) * n->options.seconds;
    const int64_t began = tw_now_ns();
    tw_status st = TW_OK;
    for (int i = 0; i < l->n && st == TW_OK; i++) {
        const double left = limit - (double)(tw_now_ns() - began) * 1e-9;
        const item *x = &l->items[i];
        if (limit > 0 && left <= 0) {
            n->plan->cut++;
            continue;
        }
        n->searching.seconds = limit > 0 ? share(l, i, left) : 0;
        st = x->is_attention ? tw_network_search_attention(n, &x->attention, x->words, diag)
                             : tw_network_search(n, &x->product, x->words, diag);
        if (st != TW_ERR_MEMORY) continue;
        /* Measuring takes more memory than the network does, which can go on with an estimate. */
        n->plan->cut++;
        st = TW_OK;
    }
    n->searching.spent = (double)(tw_now_ns() - began) * 1e-9;
    return st;
}

tw_status tw_network_search_all(tw_cuda_network *n, tw_diag *diag) {
    list l = {0};
    tw_status st = TW_OK;
    for (int i = 0; i < n->p->n_steps && st == TW_OK; i++) {
        const tw_step *s = &n->p->steps[i];
        if (s->kind == TW_STEP_PRODUCT) st = add_product(n, s, &l, diag);
        if (s->kind == TW_STEP_ATTENTION) st = add_attention(s, &l, diag);
    }
    int kept = 0;
    for (int i = 0; i < l.n; i++)
        if (tw_network_plan_find(n->plan, l.items[i].words, 0) < 0) l.items[kept++] = l.items[i];
    l.n = kept;
    if (kept) qsort(l.items, (size_t)kept, sizeof *l.items, longest_first);
    if (kept) n->searching.compiler = tw_ptx_compiler_for_many(n->gpu->cuda);
    if (st == TW_OK) st = search_list(n, &l, diag);
    free(l.items);
    tw_gemm_pool_free(n->searching.pool);
    n->searching.pool = NULL;
    return st;
}
