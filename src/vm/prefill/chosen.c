/* SPDX-License-Identifier: Apache-2.0 */
/* Artefacts that choose products' configurations (tilewright/select.h). Each kind of products has its own. */
#define _GNU_SOURCE
#include "base/file.h"
#include "device/identity.h"
#include "tune/gemm_choose.h"
#include "vm/prefill/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tells whether an artefact is of a device like this one. What was measured on another of its kind is a prior, and as
   good as an estimate. */
static bool fits(const tw_prefill *p, const tw_selector *s) {
    tw_identity here;
    tw_identity_of_gpu(&here, p->info.name, p->info.target->name, p->info.sms, p->info.l2_bytes);
    return tw_selector_match(s, here.device, here.alike, here.architecture) <= TW_SELECT_ARCHITECTURE;
}

/* Returns the path of the artefact that the caller or the environment names. NULL: none is named. */
static const char *given_by(const tw_prefill *p) {
    return p->artefact ? p->artefact : getenv("TILEWRIGHT_SELECT");
}

static tw_selector *open_artefact(const tw_prefill *p, tw_gemm_kind kind) {
    char name[TW_GEMM_KIND_NAME], file[TW_GEMM_KIND_NAME + 8], path[4096];
    const char *given = given_by(p);
    tw_selector *s;
    tw_selector_info info;
    if (given && !*given) return NULL;
    tw_gemm_kind_name(kind, name);
    snprintf(file, sizeof file, "%s.select", name);
    /* The emulator's configurations depend on nothing that a machine remembers. */
    if (!given && (!p->vm->cuda || !tw_cache_path(file, path, sizeof path))) return NULL;
    if (tw_selector_open(&s, given ? given : path, NULL) != TW_OK) return NULL;
    tw_selector_describe(s, &info);
    if (!strcmp(info.kernel, name) && fits(p, s)) return s;
    tw_selector_close(s);
    return NULL;
}

/* Finds the artefact of a kind. NULL: there is none. */
static const tw_selector *find(tw_prefill *p, tw_gemm_kind kind) {
    tw_prefill_artefact *a = &p->artefacts[kind.form];
    if (!a->asked) *a = (tw_prefill_artefact){true, open_artefact(p, kind)};
    return a->selector;
}

bool tw_prefill_chosen(tw_prefill *p, const tw_gemm_problem *problem, tw_gemm_config *out) {
    /* Artefacts of the cache folder learnt from matrices. Of a tape's small tiles they think too well: a bulk copy
       fetches eight columns alone. */
    if (problem->tape.warps && !given_by(p)) return false;
    if (problem->addends) return false; /* They do not know how many blocks there are along k. */
    const tw_selector *s = find(p, tw_gemm_kind_of(problem));
    tw_select_source source = TW_SELECT_NONE;
    if (!s || tw_gemm_choose(s, problem, p->gpu.target, 0, out, &source, NULL) != TW_OK) return false;
    return source == TW_SELECT_EXACT || source == TW_SELECT_MODEL;
}

void tw_prefill_forget_artefacts(tw_prefill *p) {
    for (int i = 0; i < TW_GEMM_FORMS; i++) tw_selector_close(p->artefacts[i].selector);
    memset(p->artefacts, 0, sizeof p->artefacts);
}
