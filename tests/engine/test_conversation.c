/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations: what is reused of the cache and that it changes nothing, messages, reasoning apart, being stopped. */
#define _GNU_SOURCE
#include "support/support.h"

#include "engine/engine.h"
#include "engine/reasoning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reasoning apart from the answer */

typedef struct heard {
    tw_buf parts[2];
    int calls;
} heard;

static bool hear(void *user, tw_turn_part part, const char *text) {
    heard *h = user;
    h->calls++;
    return tw_buf_str(&h->parts[part], text);
}

static const char *text_of(const tw_buf *b) {
    return b->data ? b->data : "";
}

/* In pieces of every size, the same; what is let out while it streams is what there is in the end. */
static void split_as(const char *text, bool open, const char *reasoning, const char *answer) {
    const size_t n = strlen(text);
    for (size_t piece = 1; piece <= n + 1; piece++)
        for (size_t first = 0; first < piece && first <= n; first++) {
            heard h = {0};
            tw_split s = {.state = open ? TW_SPLIT_REASONING : TW_SPLIT_START, .emit = hear, .user = &h};
            for (size_t at = 0, end = first; at <= n; at = end, end += piece) {
                char part[256];
                const int calls = h.calls;
                if (end > n) end = n;
                snprintf(part, sizeof part, "%.*s", (int)(end - at), text + at);
                assert_true(tw_split_text(&s, part));
                assert_true(h.calls > calls);
                if (end == n) break;
            }
            assert_true(tw_split_end(&s));
            assert_string_equal(text_of(&s.reasoning), reasoning);
            assert_string_equal(text_of(&s.answer), answer);
            assert_string_equal(text_of(&h.parts[TW_TURN_REASONING]), reasoning);
            assert_string_equal(text_of(&h.parts[TW_TURN_ANSWER]), answer);
            tw_buf_free(&h.parts[0]);
            tw_buf_free(&h.parts[1]);
            tw_split_free(&s);
        }
}

static void reasoning_is_split_off(void **state) {
    (void)state;
    split_as("hello", false, "", "hello");
    split_as("", false, "", "");
    split_as("  hello\n", false, "", "  hello\n");
    split_as("<think>a b</think>c", false, "a b", "c");
    split_as("\n <think>\n\na\n\nb\n</think>\n\nc\n", false, "a\n\nb", "c\n");
    split_as("<think></think>c", false, "", "c");
    split_as("<think>\n\n</think>\n\nc", false, "", "c");
    split_as("<think>cut short \n", false, "cut short", "");
    split_as("<think>a</thin", false, "a</thin", "");
    split_as("<think>a < b </t> c</think>d", false, "a < b </t> c", "d");
    split_as("<thin", false, "", "<thin");
    split_as("<thinks>a</thinks>", false, "", "<thinks>a</thinks>");
    split_as("say <think> and </think>", false, "", "say <think> and </think>");
    split_as("<think>a</think>b <think>c</think>", false, "a", "b <think>c</think>");
    split_as("\na\n</think>\nb", true, "a", "b");
    split_as("a", true, "a", "");
    split_as("</think>b", true, "", "b");
}

static void a_prompt_may_have_opened_it(void **state) {
    (void)state;
    assert_true(tw_split_is_open("<|im_start|>assistant\n<think>\n"));
    assert_true(tw_split_is_open("<think>"));
    assert_false(tw_split_is_open("<think>\n\n</think>\n\n"));
    assert_false(tw_split_is_open("think>"));
    assert_false(tw_split_is_open(""));
    assert_false(tw_split_is_open("<think>\nwell"));
}

/* ---- turns: the shipped model, and the one whose every word is known */

typedef struct fixture {
    tw_model *m;
    tw_tokenizer *t;
    tw_chat *chat;
    tw_engine *e;
    char *folder;
} fixture;

static const char chatml[] =
    "{\"chat_template\": \"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\\n' }}{% endif %}\"}";

static void open_fixture(fixture *f, const char *model, int64_t context) {
    char path[4200];
    tw_diag d;
    *f = (fixture){.folder = test_folder_make()};
    test_write(f->folder, "tokenizer_config.json", chatml, sizeof chatml - 1);
    snprintf(path, sizeof path, "%s/tokenizer.json", model);
    if (tw_model_open(&f->m, model, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_tokenizer_open(&f->t, path, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_chat_open(&f->chat, f->folder, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    const tw_engine_options o = {.workers = 2, .context = context, .no_vendor = true};
    if (tw_engine_open(&f->e, f->m, &o, &d) != TW_OK) fail_msg("%s", d.message);
}

static void close_fixture(fixture *f) {
    tw_engine_close(f->e);
    tw_chat_close(f->chat);
    tw_tokenizer_close(f->t);
    tw_model_close(f->m);
    test_folder_remove(f->folder);
}

static tw_conversation *begin(const fixture *f) {
    tw_conversation *c;
    tw_diag d;
    if (tw_conversation_open(&c, f->e, f->t, f->chat, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    return c;
}

static void user(tw_conversation *c, const char *text) {
    tw_diag d;
    assert_int_equal(tw_conversation_add(c, "user", text, &d), TW_OK);
}

static tw_turn answer(tw_conversation *c, tw_turn turn) {
    tw_diag d;
    if (tw_conversation_answer(c, &turn, &d) != TW_OK) fail_msg("%s", d.message);
    return turn;
}

static char *written(const tw_conversation *c) {
    char *json;
    tw_diag d;
    assert_int_equal(tw_conversation_write(c, &json, &d), TW_OK);
    return json;
}

/* The messages' ids as a stranger would make them. */
static int64_t encode(const fixture *f, const char *messages, int32_t **ids) {
    tw_chat_text text;
    size_t n;
    tw_diag d;
    const tw_chat_request r = {.messages = messages};
    assert_int_equal(tw_chat_render(f->chat, &r, &text, &d), TW_OK);
    assert_int_equal(tw_chat_encode(f->t, &text, ids, &n, &d), TW_OK);
    tw_chat_text_free(&text);
    return (int64_t)n;
}

/* The turn once more, from the messages alone, with nothing in the cache. */
static void same_without_cache(const fixture *f, const char *messages, tw_turn how, const tw_turn *was) {
    tw_diag d;
    tw_conversation *c = begin(f);
    assert_int_equal(tw_conversation_read(c, messages, strlen(messages), "m", &d), TW_OK);
    tw_engine_rewind(f->e, 0);
    tw_turn again = answer(c, how);
    assert_int_equal(again.n_reused, 0);
    assert_int_equal(again.n_prompt, was->n_prompt);
    assert_int_equal(again.n_new, was->n_new);
    assert_string_equal(again.answer, was->answer);
    tw_turn_free(&again);
    tw_conversation_close(c);
}

/* Three turns, greedy, with penalties and drawn: each reuses what the ones before left, and says what it would say
   without a cache. */
static void the_cache_is_kept_and_changes_nothing(void **state) {
    (void)state;
    static const char *const said[] = {"And it came to pass", "in those days,", "that the king"};
    const tw_turn ways[] = {{.how = {.limit = 12}},
                            {.how = {.limit = 12, .sampling = {.repetition_penalty = 1.7}}},
                            {.how = {.limit = 12, .sampling = {.temperature = 0.8, .seed = 3}}}};
    fixture f;
    open_fixture(&f, TW_SOURCE_DIR "/models/demo", 400);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        char *messages[3];
        tw_turn turns[3];
        tw_conversation *c = begin(&f);
        tw_engine_rewind(f.e, 0);
        int32_t *before = NULL;
        for (int i = 0; i < 3; i++) {
            user(c, said[i]);
            messages[i] = written(c);
            turns[i] = answer(c, ways[w]);
            int32_t *ids;
            assert_int_equal(encode(&f, messages[i], &ids), turns[i].n_prompt);
            /* At least the prompt before, whose ids this one's begin with. */
            if (i) {
                int64_t same = 0;
                while (same < turns[i - 1].n_prompt && ids[same] == before[same]) same++;
                assert_true(same > 20);
                assert_true(turns[i].n_reused >= same);
                assert_true(turns[i].n_reused < turns[i].n_prompt);
            } else
                assert_int_equal(turns[i].n_reused, 0);
            free(before);
            before = ids;
        }
        free(before);
        tw_conversation_close(c);
        for (int i = 0; i < 3; i++) {
            same_without_cache(&f, messages[i], ways[w], &turns[i]);
            tw_turn_free(&turns[i]);
            free(messages[i]);
        }
    }
    close_fixture(&f);
}

/* A turn taken back and said otherwise; an engine that somebody else used in between. */
static void what_the_cache_holds_is_known(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    open_fixture(&f, TW_SOURCE_DIR "/models/demo", 300);
    const tw_turn how = {.how = {.limit = 8}};
    tw_conversation *c = begin(&f);
    user(c, "In the beginning");
    tw_turn first = answer(c, how);
    /* Exactly: all of the prompt again, but for the last id. */
    assert_true(tw_conversation_undo(c));
    user(c, "In the beginning");
    tw_turn again = answer(c, how);
    assert_int_equal(again.n_reused, first.n_prompt - 1);
    assert_string_equal(again.answer, first.answer);
    tw_turn_free(&again);
    assert_true(tw_conversation_undo(c));
    user(c, "Therefore");
    char *messages = written(c);
    again = answer(c, how);
    assert_true(again.n_reused > 0 && again.n_reused < first.n_prompt);
    same_without_cache(&f, messages, how, &again);
    free(messages);
    tw_turn_free(&again);
    /* Somebody rewinds: what is beyond is not there any more. Somebody feeds: it must be said. */
    user(c, "and");
    tw_engine_rewind(f.e, 3);
    messages = written(c);
    again = answer(c, how);
    assert_true(again.n_reused <= 3);
    same_without_cache(&f, messages, how, &again);
    tw_turn_free(&again);
    assert_true(tw_conversation_undo(c));
    user(c, "and");
    tw_engine_rewind(f.e, 0);
    const int32_t other[40] = {7, 8, 9};
    assert_int_equal(tw_engine_feed(f.e, other, 40, NULL, NULL, &d), TW_OK);
    tw_conversation_forget(c);
    again = answer(c, how);
    assert_int_equal(again.n_reused, 0);
    same_without_cache(&f, messages, how, &again);
    free(messages);
    tw_turn_free(&again);
    tw_turn_free(&first);
    tw_conversation_close(c);
    close_fixture(&f);
}

/* The GPU's machine, in the emulator: the same turns, the same beginning of the cache reused. */
static void a_gpu_keeps_its_cache_too(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    open_fixture(&f, TEST_DATA "/chat-model", 100);
    int64_t reused[2][2];
    for (int gpu = 0; gpu < 2; gpu++) {
        if (gpu) {
            const tw_engine_options o = {.context = 100, .emulate = true};
            tw_engine_close(f.e);
            if (tw_engine_open(&f.e, f.m, &o, &d) != TW_OK) fail_msg("%s", d.message);
        }
        tw_conversation *c = begin(&f);
        for (int i = 0; i < 2; i++) {
            user(c, i ? "and" : "Hi");
            tw_turn turn = answer(c, (tw_turn){0});
            assert_string_equal(turn.reasoning, "Let me see.");
            assert_string_equal(turn.answer, "The sky is blue.");
            assert_int_equal(turn.finish, TW_FINISH_EOS);
            reused[gpu][i] = turn.n_reused;
            tw_turn_free(&turn);
        }
        tw_conversation_close(c);
    }
    assert_true(reused[0][1] > 0);
    assert_memory_equal(reused[0], reused[1], sizeof reused[0]);
    close_fixture(&f);
}

typedef struct stopper {
    int after; /* calls that let it go on */
    int calls;
} stopper;

static bool stop(void *user_data, tw_turn_part part, const char *text) {
    stopper *s = user_data;
    (void)part;
    (void)text;
    return ++s->calls <= s->after;
}

static void a_stopped_answer_stays(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, TEST_DATA "/chat-model", 2000);
    tw_conversation *c = begin(&f);
    user(c, "hello");
    tw_turn whole = answer(c, (tw_turn){0});
    assert_int_equal(whole.finish, TW_FINISH_EOS);
    assert_string_equal(whole.reasoning, "Let me see.");
    assert_string_equal(whole.answer, "The sky is blue.");
    assert_int_equal(whole.n_new, 8);
    /* The answer's ids are those it was generated with, without what it thought; so all of the prompt is reused. */
    user(c, "again");
    stopper s = {.after = 6};
    tw_turn part = answer(c, (tw_turn){.emit = stop, .user = &s});
    assert_int_equal(part.n_reused, whole.n_prompt);
    assert_int_equal(part.finish, TW_FINISH_ABORTED);
    assert_string_equal(part.reasoning, "Let me see.");
    assert_true(*part.answer && strlen(part.answer) < strlen("The sky is blue."));
    assert_int_equal(tw_conversation_count(c), 4);
    char *json = written(c);
    assert_non_null(strstr(json, part.answer));
    assert_non_null(strstr(json, "\"reasoning_content\": \"Let me see.\""));
    free(json);
    /* Stopped within what it thinks: an answer of nothing, with its reasoning. */
    user(c, "and again");
    s = (stopper){.after = 1};
    tw_turn thought = answer(c, (tw_turn){.emit = stop, .user = &s});
    assert_string_equal(thought.answer, "");
    assert_true(*thought.reasoning);
    assert_int_equal(tw_conversation_count(c), 6);
    user(c, "go on");
    tw_turn last = answer(c, (tw_turn){0});
    assert_string_equal(last.answer, "The sky is blue.");
    tw_turn_free(&whole);
    tw_turn_free(&part);
    tw_turn_free(&thought);
    tw_turn_free(&last);
    tw_conversation_close(c);
    close_fixture(&f);
}

/* A long prompt is fed in chunks; stopped between two of them, nothing is added, and what was fed is kept. */
static void a_long_prompt_can_be_stopped(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, TEST_DATA "/chat-model", 4000);
    tw_conversation *c = begin(&f);
    char text[2001];
    memset(text, 'a', 2000);
    text[2000] = 0;
    user(c, text);
    stopper s = {.after = 2};
    tw_turn turn = answer(c, (tw_turn){.emit = stop, .user = &s});
    assert_int_equal(turn.finish, TW_FINISH_ABORTED);
    assert_int_equal(s.calls, 3);
    assert_int_equal(turn.n_new, 0);
    assert_string_equal(turn.answer, "");
    assert_int_equal(tw_conversation_count(c), 1);
    tw_turn_free(&turn);
    turn = answer(c, (tw_turn){0});
    assert_int_equal(turn.n_reused, 1024);
    assert_string_equal(turn.answer, "The sky is blue.");
    tw_turn_free(&turn);
    tw_conversation_close(c);
    close_fixture(&f);
}

static void a_full_context_is_said(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    open_fixture(&f, TEST_DATA "/chat-model", 60);
    tw_conversation *c = begin(&f);
    user(c, "hello");
    tw_turn turn = answer(c, (tw_turn){0});
    assert_int_equal(turn.finish, TW_FINISH_EOS);
    tw_turn_free(&turn);
    user(c, "a message that is too long for what is left of the context");
    turn = (tw_turn){0};
    assert_int_equal(tw_conversation_answer(c, &turn, &d), TW_ERR_USAGE);
    assert_non_null(strstr(d.message, "do not fit the context of 60"));
    assert_null(turn.answer);
    assert_int_equal(tw_conversation_count(c), 3);
    /* Taken back, the conversation goes on with what the cache held; here, until no position is left. */
    assert_true(tw_conversation_undo(c));
    user(c, "x");
    turn = answer(c, (tw_turn){.how = {.ignore_eos = true}});
    assert_true(turn.n_reused > 0);
    assert_int_equal(turn.finish, TW_FINISH_CONTEXT);
    assert_int_equal(turn.n_prompt + turn.n_new, 61);
    tw_turn_free(&turn);
    tw_conversation_close(c);
    close_fixture(&f);
}

/* ---- messages */

static void messages_are_kept(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    open_fixture(&f, TEST_DATA "/chat-model", 100);
    tw_conversation *c = begin(&f);
    assert_false(tw_conversation_undo(c));
    assert_int_equal(tw_conversation_system(c, NULL, &d), TW_OK);
    assert_int_equal(tw_conversation_count(c), 0);
    user(c, "one");
    assert_int_equal(tw_conversation_system(c, "be brief", &d), TW_OK);
    assert_int_equal(tw_conversation_system(c, "be \"kind\"", &d), TW_OK);
    assert_int_equal(tw_conversation_add(c, "assistant", "two\nlines", &d), TW_OK);
    user(c, "three");
    assert_int_equal(tw_conversation_count(c), 4);
    char *json = written(c), *again;
    assert_string_equal(json,
                        "[\n {\n  \"role\": \"system\",\n  \"content\": \"be \\\"kind\\\"\"\n },\n {\n  \"role\": "
                        "\"user\",\n  \"content\": \"one\"\n },\n {\n  \"role\": \"assistant\",\n  \"content\": "
                        "\"two\\nlines\"\n },\n {\n  \"role\": \"user\",\n  \"content\": \"three\"\n }\n]");
    assert_true(tw_conversation_undo(c));
    assert_int_equal(tw_conversation_count(c), 3);
    assert_true(tw_conversation_undo(c)); /* the answer goes with its question */
    assert_int_equal(tw_conversation_count(c), 1);
    assert_false(tw_conversation_undo(c));
    assert_int_equal(tw_conversation_read(c, json, strlen(json), "f", &d), TW_OK);
    again = written(c);
    assert_string_equal(again, json);
    tw_conversation_reset(c);
    assert_int_equal(tw_conversation_count(c), 1);
    assert_int_equal(tw_conversation_system(c, "", &d), TW_OK);
    assert_int_equal(tw_conversation_count(c), 0);
    free(json);
    free(again);
    tw_conversation_close(c);
    close_fixture(&f);
}

static void what_is_no_message_is_refused(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    open_fixture(&f, TEST_DATA "/chat-model", 100);
    tw_conversation *c = begin(&f);
    user(c, "kept");
    assert_int_equal(tw_conversation_add(c, "user", "caf\351", &d), TW_ERR_FORMAT);
    assert_string_equal(d.message, "the user message is not UTF-8");
    assert_int_equal(tw_conversation_system(c, "\200", &d), TW_ERR_FORMAT);
    static const struct {
        const char *json, *message;
    } bad[] = {{"{}", "not a list of messages"},
               {"[{\"role\": \"user\"}, 7]", "message 2 is not an object with a role"},
               {"[{\"content\": \"x\"}]", "message 1 is not an object with a role"},
               {"[{\"role\": 7}]", "message 1 is not an object with a role"},
               {"[", "invalid JSON"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(tw_conversation_read(c, bad[i].json, strlen(bad[i].json), "f.json", &d), TW_ERR_FORMAT);
        assert_non_null(strstr(d.message, bad[i].message));
        assert_string_equal(d.path, "f.json");
    }
    char *json = written(c);
    assert_non_null(strstr(json, "kept"));
    assert_int_equal(tw_conversation_count(c), 1);
    free(json);
    tw_conversation_close(c);
    tw_conversation_close(NULL);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasoning_is_split_off),
        cmocka_unit_test(a_prompt_may_have_opened_it),
        cmocka_unit_test(the_cache_is_kept_and_changes_nothing),
        cmocka_unit_test(what_the_cache_holds_is_known),
        cmocka_unit_test(a_gpu_keeps_its_cache_too),
        cmocka_unit_test(a_stopped_answer_stays),
        cmocka_unit_test(a_long_prompt_can_be_stopped),
        cmocka_unit_test(a_full_context_is_said),
        cmocka_unit_test(messages_are_kept),
        cmocka_unit_test(what_is_no_message_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
