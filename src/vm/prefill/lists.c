/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of launches: finding, running, capturing. */
#include "base/diag.h"
#include "vm/prefill/program.h"

#include <stdlib.h>

tw_status tw_prefill_list_find(tw_prefill *p, const tw_prefill_list *wanted, tw_prefill_list **out, tw_diag *diag) {
    for (int i = 0; i < p->n_lists; i++) {
        const tw_prefill_list *l = *out = &p->lists[i];
        if (l->tokens == wanted->tokens && l->keys == wanted->keys && l->masked == wanted->masked &&
            l->many == wanted->many && l->ends == wanted->ends && l->whole == wanted->whole)
            return TW_OK;
    }
    if (p->n_lists == p->room_lists) {
        const int room = 2 * p->room_lists + 8;
        tw_prefill_list *grown = realloc(p->lists, (size_t)room * sizeof *grown);
        if (!grown) return tw_fail_memory(diag);
        p->lists = grown;
        p->room_lists = room;
    }
    tw_prefill_list *list = *out = &p->lists[p->n_lists];
    *list = *wanted;
    const tw_status st = tw_prefill_list_make(p, list, diag);
    if (st == TW_OK)
        p->n_lists++;
    else
        tw_prefill_list_free(list);
    return st;
}

void tw_prefill_list_free(tw_prefill_list *list) {
    tw_cuda_graph_free(list->graph);
    for (int i = 0; i < list->n; i++) tw_gpu_launch_close(list->launches[i]);
    free(list->launches);
    *list = (tw_prefill_list){0};
}

static tw_status launch_all(const tw_prefill_list *list, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < list->n && st == TW_OK; i++) st = tw_gpu_launch_run(list->launches[i], NULL, diag);
    return st;
}

/* Captures all launches. They have run before, since what the driver loads lazily cannot be captured. */
void tw_prefill_list_capture(tw_prefill *p, tw_prefill_list *list) {
    if (!p->vm->cuda || list->graph || list->one_by_one || !list->n) return;
    tw_status st = tw_cuda_capture_begin(p->vm->cuda, NULL);
    if (st == TW_OK) {
        const tw_status launched = launch_all(list, NULL);
        st = tw_cuda_capture_end(p->vm->cuda, &list->graph, NULL);
        if (launched != TW_OK) st = launched;
    }
    if (st == TW_OK) return;
    tw_cuda_graph_free(list->graph);
    list->graph = NULL;
    list->one_by_one = true;
}

tw_status tw_prefill_list_run(tw_prefill *p, const tw_prefill_list *list, tw_diag *diag) {
    return list->graph ? tw_cuda_graph_run(p->vm->cuda, list->graph, diag) : launch_all(list, diag);
}
