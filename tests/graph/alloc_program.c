/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering a graph, and running its program in the emulator, with the n-th allocation failing, for every n. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "base/diag.h"
#include "graph/program/program.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "graph/text.h"
#include "vm/network/network.h"

#include <string.h>

/* One of each kind of step, and what is not in memory yet at each. */
static const char all[] = "graph \"all\" @23\n"
                          "  input %x: f32[2, 4, 16]\n"
                          "  input %ids: i64[2, 4]\n"
                          "  constant %w: f32[16, 48] random 7\n"
                          "  constant %words: f32[5, 16] random 8\n"
                          "  constant %one: f32[16] random 9\n"
                          "  constant %cosine: f32[1, 4, 4] random 10\n"
                          "  constant %sine: f32[1, 4, 4] random 11\n"
                          "  constant %axis: i64[] {1}\n"
                          "  %e = Gather(%words, %ids)\n"
                          "  %s = Add(%e, %x)\n"
                          "  %n = LayerNormalization(%s, %one, %one)\n"
                          "  %p = MatMul(%n, %w)\n"
                          "  %q, %k, %v = Split(%p) axis=-1 num_outputs=3\n"
                          "  %u = RotaryEmbedding(%q, %cosine, %sine) num_heads=2\n"
                          "  %r = RotaryEmbedding(%k, %cosine, %sine) num_heads=2\n"
                          "  %a = Attention(%u, %r, %v) q_num_heads=2 kv_num_heads=2 is_causal=1\n"
                          "  %t = Transpose(%a) perm={0, 2, 1}\n"
                          "  %c = Concat(%t, %t) axis=1\n"
                          "  %y = CumSum(%c, %axis)\n"
                          "  output %y\n"
                          "  output %s\n";
/* Norms that become part of products: of A, of gates, of a residual, and one that is stored after all. */
static const char norms[] = "graph \"norms\" @23\n"
                            "  input %x: f16[2, 4, 16]\n"
                            "  input %ids: i64[2, 4]\n"
                            "  constant %w: f16[16, 16] random 7\n"
                            "  constant %one: f16[16] random 9\n"
                            "  constant %odd: f16[16, 12] random 8\n"
                            "  constant %bias: f16[12] random 5\n"
                            "  %a = MatMul(%x, %w)\n"
                            "  %n = LayerNormalization(%a, %one, %one)\n"
                            "  %b = tilewright::Product(%n, %w, %one)\n"
                            "  %c = tilewright::Product(%b, %w, _, _, %n)\n"
                            "  %m = RMSNormalization(%c, %one)\n"
                            "  %g = tilewright::Product(%m, %w) activation=\"silu\"\n"
                            "  %h = tilewright::Product(%m, %w, _, %g)\n"
                            "  %d = MatMul(%h, %w)\n"
                            "  %o = LayerNormalization(%d, %one)\n"
                            "  %e = MatMul(%o, %w)\n"
                            "  %f = tilewright::Product(%e, %odd, %bias)\n"
                            "  %y = Cast(%f) to=1\n"
                            "  output %y\n";
/* A map, for the emulator. */
static const char few[] = "graph \"few\" @23\n"
                          "  input %x: f32[2, 4, 16]\n"
                          "  input %ids: i64[2, 4]\n"
                          "  %y = Exp(%x)\n"
                          "  output %y\n";

static int result(tw_status st, const tw_diag *diag) {
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY && diag->message[0] ? 1 : 3;
}

static tw_status read_graph(const char *text, tw_graph **out, tw_diag *diag) {
    const tw_element type = text == norms ? TW_E_f16 : TW_E_f32;
    const tw_array x = {.type = type, .rank = 3, .dims = {2, 4, 16}},
                   ids = {.type = TW_E_i64, .rank = 2, .dims = {2, 4}};
    const tw_array *in[] = {&x, &ids};
    tw_graph *g = NULL;
    tw_status st = tw_graph_parse(&g, text, strlen(text), "text", diag);
    if (st == TW_OK) st = tw_graph_resolve(g, "text", diag);
    if (st == TW_OK) st = tw_graph_specialize(out, g, in, diag);
    tw_graph_free(g);
    return st;
}

static int attempt(const tw_graph *g, const tw_program_options *o) {
    tw_program *p;
    tw_diag diag = {0};
    const tw_status st = tw_program_lower(&p, g, o, &diag);
    if ((st == TW_OK) != (p != NULL)) return 2;
    tw_program_free(p);
    return result(st, &diag);
}

static int attempt_lower(void *context) {
    return attempt(context, &(tw_program_options){.attention = TW_PROGRAM_FUSE_NONE});
}

static int attempt_norms(void *context) {
    return attempt(context, &(tw_program_options){.gpu = true, .norms = true});
}

/* What is made is kept for the next program. */
static int attempt_shared(void *context) {
    tw_program_made made = {0};
    int found = 0;
    for (int i = 0; i < 2 && !found; i++)
        found = attempt(context, &(tw_program_options){.gpu = true, .norms = true, .made = &made});
    for (int i = 0; i < made.n; i++)
        if (!made.list[i].data) found = 2; /* Missing memory is no reason why it could not be made. */
    tw_program_made_free(&made);
    return found;
}

static int attempt_network(void *context) {
    static float x[2 * 4 * 16], y[2 * 4 * 16];
    static int64_t ids[2 * 4];
    const void *in[] = {x, ids};
    void *out[] = {y};
    tw_gpu *gpu = NULL;
    tw_network_weights *w = NULL;
    tw_cuda_network *n = NULL;
    tw_diag diag = {0};
    tw_status st = tw_gpu_open(&gpu, "emulator", &diag);
    if (st == TW_OK) st = tw_network_weights_open(&w, gpu, &diag);
    if (st == TW_OK) st = tw_cuda_network_open(&n, context, w, &(tw_cuda_network_options){0}, NULL, &diag);
    if (st == TW_OK) st = tw_cuda_network_run(n, in, out, &diag);
    tw_cuda_network_close(n);
    tw_network_weights_close(w);
    tw_gpu_close(gpu);
    return result(st, &diag);
}

static void lowering(void **state) {
    (void)state;
    tw_graph *g = NULL;
    tw_diag diag = {0};
    if (read_graph(all, &g, &diag) != TW_OK) fail_msg("%s", diag.message);
    alloc_fail_exhaust(attempt_lower, g);
    tw_graph_free(g);
    if (read_graph(norms, &g, &diag) != TW_OK) fail_msg("%s", diag.message);
    alloc_fail_exhaust(attempt_norms, g);
    alloc_fail_exhaust(attempt_shared, g);
    tw_graph_free(g);
}

static void networks(void **state) {
    (void)state;
    tw_graph *g = NULL;
    tw_program *p = NULL;
    tw_diag diag = {0};
    if (read_graph(few, &g, &diag) != TW_OK) fail_msg("%s", diag.message);
    if (tw_program_lower(&p, g, &(tw_program_options){.gpu = true}, &diag) != TW_OK) fail_msg("%s", diag.message);
    alloc_fail_exhaust(attempt_network, p);
    tw_program_free(p);
    tw_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lowering),
        cmocka_unit_test(networks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
