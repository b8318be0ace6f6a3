/* SPDX-License-Identifier: Apache-2.0 */
/* What every test needs: cmocka behind one include, and the project's data. */
#ifndef TW_TEST_SUPPORT_H
#define TW_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TEST_DATA TW_SOURCE_DIR "/tests/data"

/* A fresh folder below the build folder, removed by test_folder_remove. Owned by the caller. */
char *test_folder_make(void);
void test_folder_remove(char *path);

/* Writes a file for a test; fails the test when it cannot. */
void test_write(const char *folder, const char *name, const void *data, size_t size);

#endif
