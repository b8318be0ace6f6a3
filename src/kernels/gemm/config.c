/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "kernels/gemm/space.h"

#include <stddef.h>

#define PARAM(name, role, ...) static const int name##_values[] = {__VA_ARGS__};
#include "kernels/gemm/space.def"
#undef PARAM

static const tw_param params[] = {
#define PARAM(label, part, ...)                                                                                        \
    {.name = #label,                                                                                                   \
     .role = TW_SPACE_##part,                                                                                          \
     .form = TW_SPACE_INT32,                                                                                           \
     .at = offsetof(tw_gemm_config, label),                                                                            \
     .most = 65535,                                                                                                    \
     .values = label##_values,                                                                                         \
     .n_values = sizeof label##_values / sizeof *label##_values},
#include "kernels/gemm/space.def"
#undef PARAM
};

static tw_status legal(const void *context, const void *config, tw_diag *diag) {
    const tw_gemm_space_context *of = context;
    const char *why;
    if (tw_gemm_legal(of->problem, config, of->target, NULL, diag ? &why : NULL)) return TW_OK;
    return diag ? tw_fail(diag, TW_ERR_USAGE, "%s", why) : TW_ERR_USAGE;
}

static void plain(const void *context, void *config) {
    const tw_gemm_space_context *of = context;
    tw_gemm_config *c = config;
    *c = tw_gemm_config_plain(of->problem, *c);
}

static double estimate(const void *context, const void *config) {
    const tw_gemm_space_context *of = context;
    return tw_gemm_estimate(of->problem, config, of->device);
}

const tw_space tw_gemm_space = {.name = "gemm",
                                .example = "ml=64",
                                .params = params,
                                .n = sizeof params / sizeof *params,
                                .bytes = sizeof(tw_gemm_config),
                                .legal = legal,
                                .plain = plain,
                                .estimate = estimate};

const int64_t *tw_gemm_space_keep(const tw_gemm_config *c, int64_t keep[TW_SPACE_PARAMS]) {
    for (int i = 0; i < tw_gemm_space.n; i++) keep[i] = c ? tw_space_get(&tw_gemm_space, c, i) : -1;
    return keep;
}

void tw_gemm_config_print(const tw_gemm_config *c, char *out, size_t size) {
    tw_space_print(&tw_gemm_space, c, out, size);
}

tw_status tw_gemm_config_parse(tw_gemm_config *c, const char *text, tw_diag *diag) {
    return tw_space_parse(&tw_gemm_space, c, text, diag);
}

tw_gemm_config tw_gemm_config_any(void) {
    tw_gemm_config c = {0};
    for (int i = 0; i < tw_gemm_space.n; i++) tw_space_set(&tw_gemm_space, &c, i, -1);
    return c;
}

tw_gemm_config tw_gemm_config_plain(const tw_gemm_problem *p, tw_gemm_config c) {
    const int es = tw_type_bits(tw_gemm_types[p->type].element) / 8;
    if (c.vec < es) c.vec = es;
    if (c.frag < es) c.frag = es;
    if (c.kg == 1 || p->addends) c.split = 0;
    if (c.mma) c.frag = 16;
    if (c.early == TW_GEMM_AHEAD && (!p->weights || p->groups)) c.early = TW_GEMM_EARLY;
    if (c.mma == 2) {
        c.ns = c.nl;
        c.ks = c.kl = 1;
        c.vec = 16;
        c.copy = 0;
    } else {
        c.staged = c.multicast = c.persistent = c.pingpong = c.stream = c.early = 0;
    }
    return c;
}

/* Narrow elements are for warpgroups alone. Few rows of A are bound by the bytes of B, and many by tensor cores. */
static tw_gemm_config default_of_narrow(const tw_gemm_problem *p) {
    const int columns = p->m <= 8 ? 8 : p->m <= 64 ? (int)(p->m + 15) / 16 * 16 : 128;
    const int u = p->scales % 128 && 128 % p->scales ? 64 : 128;
    return (tw_gemm_config){.mma = 2,
                            .ms = 64,
                            .ns = columns,
                            .ml = 128,
                            .nl = columns,
                            .u = u,
                            .ks = 1,
                            .kl = 1,
                            .kg = p->addends ? (int)p->addends : 1,
                            .vec = 16,
                            .frag = 16,
                            .stages = 4,
                            .swap = 1,
                            .group = 1};
}

tw_gemm_config tw_gemm_config_default(const tw_gemm_problem *p) {
    if (p->narrow) return default_of_narrow(p);
    const int es = tw_type_bits(tw_gemm_types[p->type].element) / 8;
    const bool tensor = p->type != TW_GEMM_F32, narrow = es < 4;
    tw_gemm_config c = {.mma = tensor,
                        .ms = tensor ? 32 : 4,
                        .ns = tensor ? 16 : 4,
                        .ml = 64,
                        .nl = 32,
                        .u = narrow ? 64 : 16,
                        .ks = 1,
                        .kl = 1,
                        .kg = p->addends ? (int)p->addends : 1,
                        .vec = narrow ? 16 : es,
                        .frag = 8,
                        .stages = 3,
                        .group = 4};
    /* Only warpgroups multiply e4m3, tapes, and rows in groups. */
    if (p->type == TW_GEMM_E4M3 || p->groups || p->tape.warps) {
        enum { LINE = 128 /* Bytes of a stage along k. */, BLOCKS = 132 /* Blocks of a persistent grid. */ };
        c.mma = 2;
        c.ms = c.ns = c.ml = c.nl = 64;
        c.u = p->tape.blocks % 2 ? 32 : LINE / es;
        c.vec = 16;
        c.persistent = p->groups ? BLOCKS : 0;
        return c;
    }
    /* Rows that are aligned to less than an asynchronous copy go through registers. */
    tw_gemm_variant v = tw_gemm_variant_of(p, &c);
    if (v.vec_a < 4 || v.vec_b < 4) c.stages = c.copy = 1;
    return c;
}
