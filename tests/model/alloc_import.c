/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a model with the n-th allocation failing, for every n. */
#include "model/tiny_checkpoint.h"
#include "support/alloc_fail.h"

#include "model/model.h"

#include <jansson.h>

/* Jansson is left out of it: 2.14 writes beyond a string it could not make room for (its lexer takes no notice when the
   buffer of a token fails to grow), which no caller can help. Everything of ours is exhausted. */
void *__real_malloc(size_t n);
static void spare_jansson(void) {
    json_set_alloc_funcs(__real_malloc, free);
}

/* Out of memory, and said so; a map that fails is an error of the file, in the system's words. */
static int result(tw_status s, const tw_diag *diag, tw_model *m) {
    if (s == TW_OK) {
        tw_model_close(m);
        return 0;
    }
    if (m || !diag->message[0]) return 2;
    if (s == TW_ERR_IO) return strstr(diag->message, "cannot map: ") ? 1 : 3;
    return s == TW_ERR_MEMORY ? 1 : 4;
}

static int attempt_open(void *context) {
    tw_model *m;
    tw_diag diag;
    spare_jansson();
    tw_status s = tw_model_open(&m, context, &diag);
    return result(s, &diag, m);
}

static int attempt_synthetic(void *context) {
    tw_model *m;
    tw_diag diag;
    tw_status s = tw_model_synthetic(&m, context, TW_F16, 1, &diag);
    return result(s, &diag, m);
}

static void test_open(void **state) {
    (void)state;
    static const char *const models[] = {"llama-llama3-sharded", "qwen3moe-dense-first", "mixtral-fused",
                                         "gpt2-gelu-bare", "qwen2-window"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/models/%s", TEST_DATA, models[i]);
        alloc_fail_exhaust(attempt_open, path);
    }
}

static void test_synthetic(void **state) {
    (void)state;
    alloc_fail_exhaust(attempt_synthetic, (char[]){"llama-tiny"});
}

/* A model that is refused: its reasons, or that memory ran out; never anything else. */
static int attempt_refused(void *context) {
    tw_model *m;
    tw_diag diag;
    spare_jansson();
    tw_status s = tw_model_open(&m, context, &diag);
    if (m || s == TW_OK) return 2;
    return s == TW_ERR_UNSUPPORTED ? 0 : result(s, &diag, m);
}

static void test_refused(void **state) {
    (void)state;
    char *folder = test_folder_make();
    tiny c = tiny_llama();
    tiny_find(&c, "model.norm.weight")->dropped = true;
    tiny_find(&c, "lm_head.weight")->shape[0] = 3;
    tiny_write(&c, folder, "{\"model_type\":\"llama\",\"odd\":{\"a\":[1,2]}," TINY_SIZES "}");
    alloc_fail_exhaust(attempt_refused, folder);
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_synthetic),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
