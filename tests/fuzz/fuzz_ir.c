/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a kernel's text: refused with a place, or a kernel that can be verified; what the verifier accepts comes
   back from its text the same, and every pass leaves it so. */
#include "ir/passes/passes.h"
#include "ir/text.h"
#include "ir/verify.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const tw_kernel *k) {
    tw_buf text = {0}, again = {0};
    tw_kernel *parsed;
    tw_diag d;
    if (!tw_kernel_print(&text, k)) abort();
    if (tw_kernel_parse(&parsed, text.data, text.size, "printed", &d) != TW_OK) abort();
    if (!tw_kernel_print(&again, parsed)) abort();
    if (text.size != again.size || memcmp(text.data, again.data, text.size)) abort();
    if (tw_kernel_verify(parsed, 0, &d) != TW_OK) abort();
    tw_kernel_free(parsed);
    tw_buf_free(&text);
    tw_buf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tw_kernel *k;
    tw_diag d;
    tw_status s = tw_kernel_parse(&k, (const char *)data, size, "fuzz", &d);
    if ((s == TW_OK) != (k != NULL)) abort();
    if (s != TW_OK) {
        if (!d.message[0] || (size <= 64 << 20 && d.line < 1)) abort();
        return 0;
    }
    s = tw_kernel_verify(k, 0, &d);
    if ((s == TW_OK) != !d.message[0]) abort();
    if (s == TW_OK) {
        check_text(k);
        if (tw_pipeline_default(k, true, &d) != TW_OK) abort();
        check_text(k);
    }
    tw_kernel_free(k);
    return 0;
}
