/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_kind.h"

#include <stdio.h>
#include <string.h>

static const char *const words[TW_GEMM_FORMS] = {
    [TW_GEMM_PLAIN] = "", [TW_GEMM_GROUPS] = "groups", [TW_GEMM_BATCH] = "batch"};

const char *tw_gemm_form_word(tw_gemm_form f) {
    return words[f];
}

void tw_gemm_kind_name(tw_gemm_kind k, char out[TW_GEMM_KIND_NAME]) {
    snprintf(out, TW_GEMM_KIND_NAME, "gemm-gpu-%s%s%s", tw_gemm_types[k.type].name, k.form ? "-" : "", words[k.form]);
}

bool tw_gemm_kind_from_name(const char *name, tw_gemm_kind *out) {
    char own[TW_GEMM_KIND_NAME];
    for (int t = 0; t < TW_GEMM_TYPES; t++)
        for (int f = 0; f < TW_GEMM_FORMS; f++) {
            *out = (tw_gemm_kind){(tw_gemm_type)t, (tw_gemm_form)f};
            tw_gemm_kind_name(*out, own);
            if (!strcmp(own, name)) return true;
        }
    return false;
}

tw_gemm_kind tw_gemm_kind_of(const tw_gemm_problem *p) {
    return (tw_gemm_kind){p->type, p->groups ? TW_GEMM_GROUPS : p->batch > 1 ? TW_GEMM_BATCH : TW_GEMM_PLAIN};
}

tw_gemm_problem tw_gemm_kind_problem(tw_gemm_kind k, const int64_t *axes) {
    tw_gemm_problem p = {.type = k.type,
                         .m = axes[0],
                         .n = axes[1],
                         .k = axes[2],
                         .trans_b = true,
                         .alpha = 1,
                         .weights = k.form == TW_GEMM_PLAIN};
    if (k.form == TW_GEMM_GROUPS) p.groups = axes[3];
    if (k.form == TW_GEMM_BATCH) p.batch = axes[3];
    return p;
}

int tw_gemm_kind_axes(const tw_gemm_problem *p, int64_t axes[TW_SELECT_AXES]) {
    const tw_gemm_form form = tw_gemm_kind_of(p).form;
    axes[0] = p->m;
    axes[1] = p->n;
    axes[2] = p->k;
    if (form) axes[3] = form == TW_GEMM_GROUPS ? p->groups : p->batch;
    return form ? 4 : 3;
}
