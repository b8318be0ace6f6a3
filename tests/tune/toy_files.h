/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tests on the toy family. Each test has a folder of its own for them. */
#ifndef TW_TESTS_TUNE_TOY_FILES_H
#define TW_TESTS_TUNE_TOY_FILES_H

#include "tune/toy_family.h"

#include "tune/store.h"

static char *toy_folder;
/* Paths of a store, an artefact and a report in the folder. */
static char toy_store[512], toy_artefact[512], toy_page[512];

/* Makes the folder and the paths. Set-up of a test or a group. */
static inline int toy_setup(void **state) {
    (void)state;
    toy_folder = test_folder_make();
    snprintf(toy_store, sizeof toy_store, "%s/store.db", toy_folder);
    snprintf(toy_artefact, sizeof toy_artefact, "%s/toy.select", toy_folder);
    snprintf(toy_page, sizeof toy_page, "%s/toy.html", toy_folder);
    return 0;
}

/* Removes the folder with all files in it. Tear-down of a test or a group. */
static inline int toy_teardown(void **state) {
    (void)state;
    test_folder_remove(toy_folder);
    return 0;
}

/* Opens a store, or makes it. The caller closes it. */
static inline tw_store *toy_open_store(const char *path) {
    tw_store *s;
    tw_diag d;
    if (tw_store_open(&s, path, false, &d) != TW_OK) fail_msg("%s", d.message);
    return s;
}

/* Options of a campaign by waves that is small, but learns the toy family well. */
#define TOY_CAMPAIGN                                                                                                   \
    {                                                                                                                  \
        .name = "tune", .screens = 6, .slow = 1.5, .waves = 4, .parts = 2, .far = 4, .rounds = 4, .micros = 2,         \
        .samples = 3, .seed = 1                                                                                        \
    }

#endif
