/* SPDX-License-Identifier: Apache-2.0 */
/* `verify` of ONNX models. */
#include "cli/cli.h"
#include "cli/results.h"
#include "cli/verify.h"
#include "tilewright/graph.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

bool cli_is_onnx(const char *path) {
    const size_t n = strlen(path);
    return n > 5 && !strcmp(path + n - 5, ".onnx");
}

tw_status cli_verify_onnx(const char *path, const char *golden, bool json, tw_diag *d) {
    tw_graph *g = NULL;
    tw_graph_verdict v;
    tw_status st = tw_graph_open(&g, path, d);
    if (st == TW_OK) st = tw_graph_verify(g, golden, &v, d);
    tw_graph_close(g);
    if (st != TW_OK) return st;
    if (json)
        cli_results_print(json_pack("{s:b, s:s, s:s, s:I, s:I, s:f}", "agrees", 1, "reference", golden, "device", "cpu",
                                    "outputs", (json_int_t)v.outputs, "elements", (json_int_t)v.elements, "worst",
                                    v.worst),
                          JSON_REAL_PRECISION(9));
    else
        printf("agrees with %s: %lld outputs, %lld elements within %.3f of what is allowed\n", golden,
               (long long)v.outputs, (long long)v.elements, v.worst);
    return TW_OK;
}
