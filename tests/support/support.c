/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "support/support.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *test_folder_make(void) {
    char *path = strdup(TW_BINARY_DIR "/test.XXXXXX");
    if (!path || !mkdtemp(path)) fail_msg("cannot make a folder under %s", TW_BINARY_DIR);
    return path;
}

static int drop(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

void test_folder_remove(char *path) {
    nftw(path, drop, 16, FTW_DEPTH | FTW_PHYS);
    free(path);
}

void test_write(const char *folder, const char *name, const void *data, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f) fail_msg("cannot write %s", path);
    if (size && fwrite(data, 1, size, f) != size) fail_msg("cannot write %s", path);
    if (fclose(f)) fail_msg("cannot write %s", path);
}
