/* SPDX-License-Identifier: Apache-2.0 */
/* A folder for each test, with a store, an artefact and a report of the toy family. */
#ifndef TW_TESTS_TUNE_TOY_STORE_H
#define TW_TESTS_TUNE_TOY_STORE_H

#include "tune/store.h"
#include "tune/toy_family.h"

static char *folder;
static char path[512];                /* Path of the store. */
static char artefact[512], page[512]; /* Paths of an artefact and of a report. */

static int setup(void **state) {
    (void)state;
    folder = test_folder_make();
    snprintf(path, sizeof path, "%s/store.db", folder);
    snprintf(artefact, sizeof artefact, "%s/toy.select", folder);
    snprintf(page, sizeof page, "%s/toy.html", folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    test_folder_remove(folder);
    return 0;
}

static tw_store *open_store(void) {
    tw_store *s;
    tw_diag d;
    if (tw_store_open(&s, path, false, &d) != TW_OK) fail_msg("%s", d.message);
    return s;
}

#endif
