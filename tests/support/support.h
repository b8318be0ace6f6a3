/* SPDX-License-Identifier: Apache-2.0 */
/* What every test needs: cmocka behind one include, and the project's data. */
#ifndef TW_TEST_SUPPORT_H
#define TW_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Whether a sanitizer looks on, which takes several times as long: tests of many random cases then take fewer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

#define TEST_DATA TW_SOURCE_DIR "/tests/data"

/* A fresh folder below the build folder, removed by test_folder_remove. Owned by the caller. */
char *test_folder_make(void);
void test_folder_remove(char *path);

/* Writes a file for a test; fails the test when it cannot. */
void test_write(const char *folder, const char *name, const void *data, size_t size);

/* Fails the test at the first line in which `text` is not what the file `name` below tests/ holds. With
   TILEWRIGHT_GOLDEN in the environment it writes the file instead: read the difference before it is committed. */
void test_golden(const char *name, const char *text, size_t size);

#endif
