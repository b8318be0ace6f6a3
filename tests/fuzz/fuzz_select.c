/* SPDX-License-Identifier: Apache-2.0 */
/* Checks any bytes as an artefact with a correct checksum, and decides problems by those that pass. */
#include "select/selector.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const select_view *v) {
    for (unsigned i = 0; i < 40; i++) {
        int64_t problem[TW_SELECT_AXES];
        select_problem p;
        select_decision d, alone;
        for (int x = 0; x < v->axes; x++) problem[x] = (int64_t)1 << (i * (unsigned)(x + 1) % 25);
        for (int x = 0; i < v->n_exact && x < v->axes; x++) problem[x] = v->exact[i].problem[x];
        if (!select_problem_of(v, problem, i % 16, &p)) abort();
        select_decide(v, &p, &d);
        if (d.source == TW_SELECT_NONE) continue;
        if (d.micro < 0 || strlen(select_config(v, d.macro, d.micro)) >= v->tails[d.macro].pitch) abort();
        if (d.source != TW_SELECT_MODEL) continue;
        /* No allowed macro choice has a lower prediction. */
        for (int m = 0; m < v->macros; m++)
            if (select_allows(v, &p, m) && select_predict(v, &p, m, &alone) && alone.time < d.time) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tw_diag diag = {0};
    unsigned char *copy = aligned_alloc(64, (size + 64) / 64 * 64);
    if (!copy) abort();
    memcpy(copy, data, size);
    if (size >= sizeof(select_header)) {
        select_header *h = (void *)copy;
        h->size = size;
        select_checksum(copy, size, h->checksum);
    }
    /* The file is in an allocation of its size, so that a read beyond it is found. */
    unsigned char *exact = malloc(size ? size : 1);
    if (!exact) abort();
    memcpy(exact, copy, size);
    free(copy);
    if (select_verify(exact, size, "f", &diag) == TW_OK) {
        select_view v;
        select_view_of(&v, exact);
        use(&v);
    } else if (!diag.message[0] || diag.offset >= (int64_t)size) {
        abort();
    }
    free(exact);
    return 0;
}
