/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of a conversation fails once; each time the caller hears of it, and the messages stay as they were.
 */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "tilewright/engine.h"
#include "tilewright/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char chatml[] =
    "{\"chat_template\": \"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\\n' }}{% endif %}\"}";

static tw_model *model;
static tw_tokenizer *tokenizer;
static tw_chat *chat;
static tw_engine *engine;
static char *folder;

/* Nothing is said any more once something has failed. */
static bool hear(void *user, tw_turn_part part, const char *text) {
    (void)part;
    (void)user;
    assert_true(text && !alloc_fail_hit());
    return true;
}

static int talk(void *context) {
    (void)context;
    tw_conversation *c = NULL;
    tw_turn turn = {.how = {.sampling = {.repetition_penalty = 1.1}}, .emit = hear};
    const tw_conversation_options o = {.tools = "[]", .arguments = "{}", .now = 1};
    char *json = NULL;
    tw_diag d;
    tw_engine_rewind(engine, 0);
    tw_status st = tw_conversation_open(&c, engine, tokenizer, chat, &o, &d);
    if (st == TW_OK) st = tw_conversation_system(c, "be kind", &d);
    if (st == TW_OK) st = tw_conversation_add(c, "user", "hello", &d);
    if (st == TW_OK) {
        st = tw_conversation_answer(c, &turn, &d);
        assert_int_equal(tw_conversation_count(c), st == TW_OK ? 3 : 2);
        assert_true(st == TW_OK ? !strcmp(turn.answer, "The sky is blue.") : !turn.answer && !turn.reasoning);
        tw_turn_free(&turn);
    }
    if (st == TW_OK) st = tw_conversation_write(c, &json, &d);
    if (st == TW_OK) st = tw_conversation_read(c, json, strlen(json), "m", &d);
    free(json);
    tw_conversation_close(c);
    if (st != TW_OK && st != TW_ERR_MEMORY) fail_msg("%s", d.message);
    return st == TW_OK ? 0 : 1;
}

static void a_conversation_survives_every_failure(void **state) {
    (void)state;
    alloc_fail_exhaust(talk, NULL);
}

static int open_all(void **state) {
    (void)state;
    tw_diag d;
    const tw_engine_options o = {.workers = 1, .context = 200, .no_vendor = true};
    const int32_t warm[2] = {1, 2};
    folder = test_folder_make();
    test_write(folder, "tokenizer_config.json", chatml, sizeof chatml - 1);
    if (tw_model_open(&model, TEST_DATA "/chat-model", &d) != TW_OK) return -1;
    if (tw_tokenizer_open(&tokenizer, TEST_DATA "/chat-model/tokenizer.json", &d) != TW_OK) return -1;
    if (tw_chat_open(&chat, folder, NULL, &d) != TW_OK) return -1;
    if (tw_engine_open(&engine, model, &o, &d) != TW_OK) return -1;
    return tw_engine_feed(engine, warm, 2, NULL, NULL, &d) == TW_OK ? 0 : -1;
}

static int close_all(void **state) {
    (void)state;
    tw_engine_close(engine);
    tw_chat_close(chat);
    tw_tokenizer_close(tokenizer);
    tw_model_close(model);
    test_folder_remove(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_conversation_survives_every_failure)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
