/* SPDX-License-Identifier: Apache-2.0 */
/* Stands before tw_select_choose (linked with --wrap): the decision of number WRONG_AT, from 1, is another one. */
#include "tilewright/select.h"

#include <stdlib.h>

tw_status __real_tw_select_choose(const tw_selector *s, const int64_t *problem, unsigned flags, tw_selection *out);
tw_status __wrap_tw_select_choose(const tw_selector *s, const int64_t *problem, unsigned flags, tw_selection *out);

tw_status __wrap_tw_select_choose(const tw_selector *s, const int64_t *problem, unsigned flags, tw_selection *out) {
    static long calls, at;
    const char *text = at ? NULL : getenv("WRONG_AT");
    if (text) at = strtol(text, NULL, 10);
    const tw_status st = __real_tw_select_choose(s, problem, flags, out);
    if (++calls == at) out->macro ^= 1;
    return st;
}
