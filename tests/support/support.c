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

void test_golden(const char *name, const char *text, size_t size) {
    char path[4096], *then = NULL;
    size_t room = 0, line = 1, i = 0, start = 0;
    if (getenv("TILEWRIGHT_GOLDEN")) {
        test_write(TW_SOURCE_DIR "/tests", name, text, size);
        return;
    }
    snprintf(path, sizeof path, "%s/tests/%s", TW_SOURCE_DIR, name);
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot read %s", path);
    ssize_t n = getdelim(&then, &room, 0, f);
    fclose(f);
    const size_t was = n > 0 ? (size_t)n : 0;
    for (; i < size && i < was && text[i] == then[i]; i++)
        if (text[i] == '\n') {
            line++;
            start = i + 1;
        }
    if (i < size || i < was) {
        size_t length = 0;
        while (start + length < size && text[start + length] != '\n') length++;
        free(then);
        fail_msg("tests/%s:%zu: it is now: %.*s", name, line, (int)length, text + start);
    }
    free(then);
}
