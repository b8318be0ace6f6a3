/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "tune/gemm_choose.h"

#include "base/diag.h"
#include "kernels/gpu.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 256 /* The most choices that are tried. */, CONFIG = 512 };

static bool is_half(tw_gemm_type t) {
    return t == TW_GEMM_F16 || t == TW_GEMM_BF16;
}

/* Checks that an artefact is of a problem's kind. */
static tw_status check_kind(const tw_selector *s, const tw_gemm_problem *p, tw_diag *diag) {
    const tw_gemm_kind wanted = tw_gemm_kind_of(p);
    tw_selector_info info;
    tw_gemm_kind kind;
    if (p->narrow) return tw_fail(diag, TW_ERR_USAGE, "artefacts know no products of narrow weights");
    tw_selector_describe(s, &info);
    const bool known = tw_gemm_kind_from_name(info.kernel, &kind);
    if (known && kind.form == wanted.form && (kind.type == wanted.type || (is_half(kind.type) && is_half(wanted.type))))
        return TW_OK;
    char name[TW_GEMM_KIND_NAME];
    tw_gemm_kind_name(wanted, name);
    return tw_fail(diag, TW_ERR_USAGE, "the artefact is of %s, and the problem is one of %s", info.kernel, name);
}

/* Tells whether a choice is a legal configuration, which *out becomes then. */
static bool take(const tw_selection *choice, const tw_gemm_problem *p, const tw_target *target, tw_gemm_config *out) {
    tw_gemm_config c = tw_gemm_config_default(p);
    if (tw_gemm_config_parse(&c, choice->config, NULL) != TW_OK) return false;
    c = tw_gemm_config_plain(p, c);
    if (!tw_gemm_legal(p, &c, target, NULL, NULL)) return false;
    *out = c;
    return true;
}

tw_status tw_gemm_choose(const tw_selector *s, const tw_gemm_problem *p, const tw_target *target, unsigned flags,
                         tw_gemm_config *out, tw_select_source *source, tw_diag *diag) {
    int64_t axes[TW_SELECT_AXES] = {0};
    tw_selection choice;
    *source = TW_SELECT_NONE;
    tw_status st = check_kind(s, p, diag);
    if (st != TW_OK) return st;
    tw_gemm_kind_axes(p, axes);
    *out = tw_gemm_config_default(p);
    st = tw_select_choose(s, axes, flags | TW_SELECT_OWN_ONLY, &choice);
    if (st == TW_ERR_USAGE) return tw_fail(diag, st, "an extent is above %d, or there is no such flag", TW_SELECT_MOST);
    if (st == TW_OK && take(&choice, p, target, out)) {
        *source = choice.source;
        return TW_OK;
    }
    tw_selection *all = calloc(MOST, sizeof *all);
    if (!all) return tw_fail_memory(diag);
    const int n = tw_select_best(s, axes, flags | TW_SELECT_OWN_ONLY, MOST, all);
    for (int i = 0; i < n && *source == TW_SELECT_NONE; i++)
        if (take(&all[i], p, target, out)) *source = TW_SELECT_MODEL;
    free(all);
    return TW_OK;
}

/* ---- the public object */

tw_status tw_gpu_kernel_open_chosen(tw_gpu_kernel **out, tw_gpu *g, const char *words, const tw_selector *by,
                                    unsigned flags, tw_diag *diag) {
    static const char gemm[] = "gemm";
    tw_gemm_problem p;
    tw_gemm_config c;
    tw_select_source source;
    char text[CONFIG];
    *out = NULL;
    if (strncmp(words, gemm, sizeof gemm - 1) != 0 || (words[sizeof gemm - 1] && words[sizeof gemm - 1] != ' '))
        return tw_fail(diag, TW_ERR_USAGE, "\"%s\": artefacts choose for gemm alone", words);
    char *copy = strdup(words + sizeof gemm - 1);
    tw_status st = copy ? tw_gemm_problem_parse(&p, copy, diag) : tw_fail_memory(diag);
    free(copy);
    if (st == TW_OK) st = tw_gemm_choose(by, &p, g->target, flags, &c, &source, diag);
    if (st != TW_OK) return st;
    tw_gemm_config_print(&c, text, sizeof text);
    return tw_gpu_kernel_open(out, g, words, text, diag);
}
