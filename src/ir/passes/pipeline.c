/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "ir/passes/passes.h"
#include "ir/verify.h"

static tw_status check(const tw_kernel *k, const char *pass, tw_diag *diag) {
    tw_diag found;
    tw_status s = tw_kernel_verify(k, 0, &found);
    if (s == TW_OK) return s;
    if (s != TW_ERR_REJECTED) return tw_fail(diag, s, "%s", found.message);
    return pass ? tw_fail(diag, s, "after pass %s:\n%s", pass, found.message)
                : tw_fail(diag, s, "before any pass:\n%s", found.message);
}

tw_status tw_pipeline_run(tw_kernel *k, const tw_pass *passes, int n, int rounds, bool verify, tw_diag *diag) {
    tw_diag_clear(diag);
    tw_status s = verify ? check(k, NULL, diag) : TW_OK;
    bool changed = true;
    for (int round = 0; s == TW_OK && changed && round < (rounds ? rounds : 4); round++) {
        changed = false;
        for (int i = 0; s == TW_OK && i < n; i++) {
            bool did = passes[i].run(k);
            changed |= did;
            if (verify && did && !tw_kernel_failed(k)) s = check(k, passes[i].name, diag);
        }
    }
    return tw_kernel_failed(k) ? tw_fail_memory(diag) : s;
}

tw_status tw_pipeline_default(tw_kernel *k, bool verify, tw_diag *diag) {
    static const tw_pass passes[] = {{"fold", tw_pass_fold},
                                     {"common", tw_pass_common},
                                     {"addresses", tw_pass_addresses},
                                     {"dead_code", tw_pass_dead_code}};
    return tw_pipeline_run(k, passes, sizeof passes / sizeof *passes, 0, verify, diag);
}
