/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "model/tokenizer.h"
#include "model/tokenizer_golden.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every folder of reference data, in all fields. */
static void agrees_with_the_reference(void **state) {
    (void)state;
    DIR *d = opendir(TEST_DATA "/tokenizers");
    assert_non_null(d);
    int folders = 0, bad = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        char path[512], golden[600];
        snprintf(path, sizeof path, "%s/tokenizers/%s", TEST_DATA, e->d_name);
        snprintf(golden, sizeof golden, "%s/golden.json", path);
        tw_tokenizer *t = NULL;
        tw_diag diag = {0};
        int64_t cases = 0;
        tw_status s = tw_tokenizer_open(&t, path, &diag);
        if (s == TW_OK) s = tw_tokenizer_check_golden(t, golden, &cases, &diag);
        if (s != TW_OK) {
            print_error("%s: after %lld cases: %s\n", e->d_name, (long long)cases, diag.message);
            bad++;
        }
        tw_tokenizer_close(t);
        folders++;
    }
    closedir(d);
    assert_true(folders >= 4);
    assert_int_equal(bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
