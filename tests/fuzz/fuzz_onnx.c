/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an ONNX model: refused with a reason, or a graph, which runs if it has no inputs and only operators that
   are supported. */
#include "fuzz/concrete.h"
#include "graph/onnx/onnx.h"
#include "graph/run.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void);

/* A few bytes may ask for arrays of any size, which must be refused as they are where memory ends. */
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1:max_allocation_size_mb=128";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { OUTPUTS = 64 };
    tw_diag d = {0};
    tw_graph *g;
    tw_array out[OUTPUTS];
    tw_arena arena = {0};
    const tw_array *in[1] = {NULL};
    tw_status st = tw_onnx_read(&g, data, size, "f", &d);
    if (st != TW_OK && (!d.message[0] || d.status != st || d.offset < -1 || d.offset > (int64_t)size)) abort();
    if (st != TW_OK) return 0;
    st = tw_graph_resolve(g, "f", &d);
    if (st == TW_OK && !g->n_inputs && g->n_outputs <= OUTPUTS) st = tw_graph_run(g, in, &arena, out, &d);
    if (st != TW_OK && (!d.message[0] || d.status != st)) abort();
    if (st == TW_OK) fuzz_concrete(g);
    tw_arena_free(&arena);
    tw_graph_free(g);
    return 0;
}
