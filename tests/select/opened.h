/* SPDX-License-Identifier: Apache-2.0 */
/* Writes artefacts to a temporary folder and opens them. */
#ifndef TW_TEST_OPENED_H
#define TW_TEST_OPENED_H

#include "support/support.h"

#include "select/artefacts.h"
#include "select/selector.h"

#include <stdio.h>

typedef struct fixture {
    tw_arena arena;
    char *folder, path[512];
    tw_selector *s;
} fixture;

/* Writes and opens an artefact. Fails the test on an error. */
static inline void begin(fixture *f, const tw_artefact *a) {
    tw_diag d = {0};
    if (!f->folder) f->folder = test_folder_make();
    snprintf(f->path, sizeof f->path, "%s/a.tws", f->folder);
    if (tw_artefact_write(a, f->path, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_selector_open(&f->s, f->path, &d) != TW_OK) fail_msg("%s", d.message);
}

/* Closes the selector and frees the artefact. `begin` may follow. */
static inline void again(fixture *f) {
    tw_selector_close(f->s);
    tw_arena_free(&f->arena);
    f->s = NULL;
}

static inline void end(fixture *f) {
    again(f);
    test_folder_remove(f->folder);
}

#endif
