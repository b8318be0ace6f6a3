/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the text of a graph: refused with a place and a reason, or a graph that prints as it is read again. */
#include "fuzz/concrete.h"
#include "graph/run.h"
#include "graph/text.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void);

const char *__asan_default_options(void) {
    return "allocator_may_return_null=1:max_allocation_size_mb=128";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tw_diag d = {0};
    tw_graph *g, *back;
    tw_buf once = {0}, twice = {0};
    const tw_status st = tw_graph_parse(&g, (const char *)data, size, "f", &d);
    if (st != TW_OK && (!d.message[0] || d.status != st || g)) abort();
    if (st != TW_OK) return 0;
    tw_graph_print_whole(g, &once);
    if (once.failed || tw_graph_parse(&back, once.data, once.size, "f", &d) != TW_OK) abort();
    tw_graph_print_whole(back, &twice);
    if (once.size != twice.size || memcmp(once.data, twice.data, once.size) != 0) abort();
    tw_graph_free(back);
    tw_buf_free(&once);
    tw_buf_free(&twice);
    if (tw_graph_resolve(g, "f", &d) == TW_OK) fuzz_concrete(g);
    tw_graph_free(g);
    return 0;
}
