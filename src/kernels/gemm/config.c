/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "kernels/gemm/gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARAM(name, role, ...) static const int name##_values[] = {__VA_ARGS__};
#include "kernels/gemm/space.def"
#undef PARAM

static const struct {
    const char *name;
    tw_gemm_role role;
    size_t at;
    const int *values;
    int count;
} parameters[] = {
#define PARAM(name, role, ...)                                                                                         \
    {#name, TW_GEMM_##role, offsetof(tw_gemm_config, name), name##_values,                                             \
     sizeof name##_values / sizeof *name##_values},
#include "kernels/gemm/space.def"
#undef PARAM
};

int tw_gemm_parameters(void) {
    return sizeof parameters / sizeof *parameters;
}

const char *tw_gemm_parameter_name(int i) {
    return parameters[i].name;
}

tw_gemm_role tw_gemm_parameter_role(int i) {
    return parameters[i].role;
}

const char *tw_gemm_role_name(tw_gemm_role role) {
    static const char *const names[TW_GEMM_ROLES] = {[TW_GEMM_macro] = "macro", [TW_GEMM_micro] = "micro"};
    return names[role];
}

const int *tw_gemm_parameter_values(int i, int *count) {
    *count = parameters[i].count;
    return parameters[i].values;
}

int tw_gemm_config_get(const tw_gemm_config *c, int i) {
    return *(const int *)((const char *)c + parameters[i].at);
}

void tw_gemm_config_set(tw_gemm_config *c, int i, int value) {
    *(int *)((char *)c + parameters[i].at) = value;
}

void tw_gemm_config_print(const tw_gemm_config *c, char *out, size_t size) {
    size_t n = 0;
    if (size) out[0] = 0;
    for (int i = 0; i < tw_gemm_parameters() && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s=%d", i ? " " : "", parameters[i].name, tw_gemm_config_get(c, i));
}

tw_status tw_gemm_config_parse(tw_gemm_config *c, const char *text, tw_diag *diag) {
    while (*text) {
        size_t blank = strspn(text, " ,"), name, word;
        text += blank;
        if (!*text) break;
        word = strcspn(text, " ,");
        name = strcspn(text, "=");
        int i = 0;
        while (i < tw_gemm_parameters() &&
               (strlen(parameters[i].name) != name || strncmp(parameters[i].name, text, name)))
            i++;
        if (name >= word || i == tw_gemm_parameters())
            return tw_fail(diag, TW_ERR_USAGE, "\"%.*s\" is not a parameter's name and value, like ml=64", (int)word,
                           text);
        char *end;
        long value = strtol(text + name + 1, &end, 10);
        if (end == text + name + 1 || end != text + word || value < 0 || value > 65535)
            return tw_fail(diag, TW_ERR_USAGE, "\"%.*s\": the value is not a number within 0..65535", (int)word, text);
        tw_gemm_config_set(c, i, (int)value);
        text += word;
    }
    return TW_OK;
}

tw_gemm_config tw_gemm_config_plain(const tw_gemm_problem *p, tw_gemm_config c) {
    const int es = tw_type_bits(tw_gemm_element(p->type)) / 8;
    if (c.vec < es) c.vec = es;
    if (c.frag < es) c.frag = es;
    if (c.kg == 1) c.split = 0;
    if (c.mma) c.frag = 16;
    if (c.mma == 2) {
        c.ns = c.nl;
        c.ks = c.kl = 1;
        c.vec = 16;
        c.copy = 0;
    } else {
        c.exchange = c.cast = c.walk = 0;
    }
    return c;
}

bool tw_gemm_config_random(tw_gemm_config *c, const tw_gemm_problem *p, const tw_target *t, const tw_gemm_config *keep,
                           tw_random *random, int tries) {
    for (; tries > 0; tries--) {
        for (int i = 0; i < tw_gemm_parameters(); i++) {
            int kept = keep ? tw_gemm_config_get(keep, i) : -1;
            const int drawn = parameters[i].values[tw_random_below(random, (uint64_t)parameters[i].count)];
            tw_gemm_config_set(c, i, kept >= 0 ? kept : drawn);
        }
        /* One spelling each: what has no meaning is at its first value. */
        *c = tw_gemm_config_plain(p, *c);
        if (tw_gemm_legal(p, c, t, NULL, NULL)) return true;
    }
    return false;
}

tw_gemm_config tw_gemm_config_default(const tw_gemm_problem *p) {
    tw_gemm_config c = {.ms = 4,
                        .ns = 4,
                        .ml = 64,
                        .nl = 32,
                        .u = 16,
                        .ks = 1,
                        .kl = 1,
                        .kg = 1,
                        .vec = 4,
                        .frag = 8,
                        .stages = 3,
                        .group = 4};
    switch (p->type) {
    case TW_GEMM_F32:
        return c;
    case TW_GEMM_F64:
        c.vec = 8;
        c.mma = 1;
        c.ms = 32;
        c.ns = 16;
        break;
    case TW_GEMM_TF32:
        c.mma = 1;
        c.ms = 32;
        c.ns = 16;
        break;
    default:
        c.mma = 1;
        c.ms = 32;
        c.ns = 16;
        c.u = 64;
        c.vec = 16;
        break;
    }
    /* Rows that are aligned to less than an asynchronous copy go through registers. */
    tw_gemm_variant v = tw_gemm_variant_of(p, &c);
    if (v.vec_a < 4 || v.vec_b < 4) c.stages = c.copy = 1;
    return c;
}
