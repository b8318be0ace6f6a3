/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace of attention says of other orders of its steps. */
#include "base/diag.h"
#include "cli/trace.h"
#include "kernels/attention/attention.h"
#include "prof/orders.h"

#include <stdio.h>

tw_status cli_trace_orders(const tw_trace *t, tw_orders_times *out, tw_diag *diag) {
    static const tw_orders_names names = {.first = TW_ATTENTION_SCORE,
                                          .work = TW_ATTENTION_WEIGH,
                                          .second = TW_ATTENTION_SUM,
                                          .rest = TW_ATTENTION_RESCALE,
                                          .turn = TW_ATTENTION_TURNS};
    return tw_orders_measure(out, t, &names, diag);
}

static const tw_orders_order orders[] = {{false, false}, {false, true}, {true, false}, {true, true}};
enum { ORDERS = sizeof orders / sizeof *orders };

void cli_trace_print_orders(const tw_trace *t) {
    tw_orders_times x;
    if (cli_trace_orders(t, &x, NULL) != TW_OK) return;
    printf("\nan iteration of each of %d warpgroups, %s: scores %.1f, softmax %.1f, values %.1f, rescaling %.1f, loads "
           "%.1f, other %.1f; %.1f in all, %.1f %% of the time\n",
           x.tracks, t->unit, x.first, x.work, x.second, x.rest, x.loads, x.other, x.iteration, 100 * x.share);
    for (int i = 0; i < ORDERS; i++) {
        const bool now = orders[i].overlapped == x.order.overlapped && orders[i].turns == x.order.turns;
        printf("  overlap=%d pingpong=%d: %.1f, the whole %+.1f %%%s\n", orders[i].overlapped, orders[i].turns,
               tw_orders_iteration(&x, orders[i]), 100 * (tw_orders_ratio(&x, orders[i]) - 1), now ? " (traced)" : "");
    }
    fflush(stdout);
}

static json_t *orders_json(const tw_orders_times *x) {
    json_t *list = json_array();
    for (int i = 0; list && i < ORDERS; i++)
        json_array_append_new(list, json_pack("{s:i, s:i, s:f, s:f}", "overlap", orders[i].overlapped, "pingpong",
                                              orders[i].turns, "iteration", tw_orders_iteration(x, orders[i]), "ratio",
                                              tw_orders_ratio(x, orders[i])));
    return json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:o}", "warpgroups", x->tracks, "scores",
                     x->first, "softmax", x->work, "values", x->second, "rescale", x->rest, "loads", x->loads, "other",
                     x->other, "iteration", x->iteration, "share", x->share, "overlap", x->order.overlapped, "pingpong",
                     x->order.turns, "predicted", list);
}

tw_status cli_trace_add_orders(json_t *o, const tw_trace *t, tw_diag *diag) {
    tw_orders_times x;
    if (cli_trace_orders(t, &x, NULL) != TW_OK) return TW_OK;
    return json_object_set_new(o, "orders", orders_json(&x)) ? tw_fail_memory(diag) : TW_OK;
}
