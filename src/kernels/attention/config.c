/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "kernels/attention/attention.h"

#include <stddef.h>

#define PARAM(name, role, ...) static const int name##_values[] = {__VA_ARGS__};
#include "kernels/attention/space.def"
#undef PARAM

static const tw_param params[] = {
#define PARAM(label, part, ...)                                                                                        \
    {.name = #label,                                                                                                   \
     .role = TW_SPACE_##part,                                                                                          \
     .form = TW_SPACE_INT32,                                                                                           \
     .at = offsetof(tw_attention_config, label),                                                                       \
     .most = 65535,                                                                                                    \
     .values = label##_values,                                                                                         \
     .n_values = sizeof label##_values / sizeof *label##_values},
#include "kernels/attention/space.def"
#undef PARAM
};

static tw_status legal(const void *context, const void *config, tw_diag *diag) {
    const tw_attention_space_context *of = context;
    const char *why;
    if (tw_attention_legal(of->problem, config, of->target, NULL, &why)) return TW_OK;
    return diag ? tw_fail(diag, TW_ERR_USAGE, "%s", why) : TW_ERR_USAGE;
}

static void plain(const void *context, void *config) {
    const tw_attention_space_context *of = context;
    tw_attention_config *c = config;
    if (c->rows == 64) c->pingpong = 0;
    if (of->problem->heads == of->problem->kv_heads) c->pack = 0;
    if (of->problem->ragged) c->band = 1; /* Ragged tiles come by rows. */
}

const tw_space tw_attention_space = {.name = "attention",
                                     .example = "rows=128",
                                     .params = params,
                                     .n = sizeof params / sizeof *params,
                                     .bytes = sizeof(tw_attention_config),
                                     .legal = legal,
                                     .plain = plain};

void tw_attention_config_print(const tw_attention_config *c, char *out, size_t size) {
    tw_space_print(&tw_attention_space, c, out, size);
}

tw_status tw_attention_config_parse(const tw_attention_problem *p, tw_attention_config *c, const char *text,
                                    tw_diag *diag) {
    const tw_status st = tw_space_parse(&tw_attention_space, c, text, diag);
    if (st == TW_OK) plain(&(tw_attention_space_context){.problem = p}, c);
    return st;
}

/* Tiles are those that FlashAttention-3 was tuned to on an H100, where their registers suffice. */
tw_attention_config tw_attention_config_default(const tw_attention_problem *p) {
    enum { SMS = 132 };
    const bool masks = p->causal || p->window;
    tw_attention_config c = {
        .rows = 128, .stages = 2, .overlap = 1, .pingpong = 1, .splits = 1, .persistent = SMS, .band = 4};
    c.columns = p->head <= 64    ? 128
                : p->head <= 96  ? 144
                : p->head <= 128 ? (masks ? 128 : 176)
                : p->head <= 192 ? 112
                                 : 80;
    if (p->head <= 64) c.rows = 192;
    if (p->head > 128) c.pingpong = 0;
    if (p->queries <= 64)
        c = (tw_attention_config){
            .rows = 64, .columns = 128, .stages = 2, .overlap = 1, .splits = 1, .persistent = SMS, .band = 4};
    if (p->queries <= 64 && p->head > 128) c.columns = 80;
    return c;
}
