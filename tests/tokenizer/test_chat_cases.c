/* SPDX-License-Identifier: Apache-2.0 */
/* Templates rendered as Jinja2 renders them, byte for byte, and refused where it raises. The cases are JSON lines that
   tools/make_chat_cases.py wrote: a template, and conversations with what comes out (null: an error). By hand:
   `test_chat_cases FILE…` runs other files and prints what differs. */
#define _POSIX_C_SOURCE 200809L
#include "support/support.h"

#include "base/file.h"
#include "tokenizer/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES TEST_DATA "/chat/"

typedef struct tally {
    int cases, refused, different;
    bool print;
    json_t *talks, *tokens; /* of the file's first line, if it has any */
} tally;

static char *dumped(const json_t *o) {
    return o && !json_is_null(o) ? json_dumps(o, JSON_ENCODE_ANY) : NULL;
}

static void show(const char *title, const char *text, size_t size) {
    json_t *s = json_stringn_nocheck(text, size);
    char *line = json_dumps(s, JSON_ENCODE_ANY);
    printf("  %s %s\n", title, line ? line : "?");
    free(line);
    json_decref(s);
}

static void differs(tally *t, const json_t *template, const json_t *c, const tw_chat_text *got, const tw_diag *diag) {
    const json_t *want = json_object_get(c, "want");
    t->different++;
    if (!t->print && t->different > 5) return;
    printf("DIFFERENT\n");
    show("template", json_string_value(template), json_string_length(template));
    char *line = json_dumps(c, 0);
    printf("  case     %s\n", line);
    free(line);
    if (json_is_string(want)) show("want", json_string_value(want), json_string_length(want));
    if (got->text)
        show("got ", got->text, got->size);
    else
        printf("  error    %d:%d %s\n", diag->line, diag->column, diag->message);
}

static void run_case(tally *t, const tw_chat *chat, const json_t *line, json_t *c, tw_diag *diag) {
    const json_t *want = json_object_get(c, "want"), *talk = json_object_get(c, "talk");
    if (talk) json_object_update(c, json_array_get(t->talks, (size_t)json_integer_value(talk)));
    tw_chat_text got = {0};
    char *messages = dumped(json_object_get(c, "messages")), *tools = dumped(json_object_get(c, "tools")),
         *arguments = dumped(json_object_get(c, "arguments"));
    tw_chat_request r = {.messages = messages,
                         .tools = tools,
                         .arguments = arguments,
                         .no_generation_prompt = json_is_false(json_object_get(c, "prompt")),
                         .now = 1700000000};
    tw_status s = chat ? tw_chat_render(chat, &r, &got, diag) : diag->status;
    t->cases++;
    bool same = json_is_null(want) ? s != TW_OK
                                   : s == TW_OK && got.size == json_string_length(want) &&
                                         !memcmp(got.text, json_string_value(want), got.size);
    if (!same && t->print && s == TW_ERR_UNSUPPORTED) t->refused++;
    if (!same && !(t->print && s == TW_ERR_UNSUPPORTED && !getenv("SHOW_REFUSED")))
        differs(t, json_object_get(line, "template"), c, &got, diag);
    tw_chat_text_free(&got);
    free(messages);
    free(tools);
    free(arguments);
}

static void run_line(tally *t, const json_t *line) {
    const json_t *template = json_object_get(line, "template"), *cases = json_object_get(line, "cases");
    const json_t *tokens = json_object_get(line, "tokens");
    tw_diag diag = {0};
    tw_chat *chat = NULL;
    if (!template) {
        t->talks = json_incref(json_object_get(line, "talks"));
        t->tokens = json_incref(json_object_get(line, "tokens"));
        return;
    }
    tw_chat_open_memory(&chat, json_string_value(template), json_string_length(template), tokens ? tokens : t->tokens,
                        "template", &diag);
    for (size_t i = 0; i < json_array_size(cases); i++) run_case(t, chat, line, json_array_get(cases, i), &diag);
    tw_chat_close(chat);
}

static tally run_file(const char *path, bool print) {
    tw_buf text = {0};
    tally t = {.print = print};
    if (tw_file_read(&text, path, NULL) != TW_OK) fail_msg("%s cannot be read", path);
    for (char *p = text.data, *end = text.data + text.size; p < end;) {
        char *next = memchr(p, '\n', (size_t)(end - p));
        if (!next) next = end;
        json_error_t e;
        json_t *line = json_loadb(p, (size_t)(next - p), JSON_ALLOW_NUL, &e);
        if (!line) fail_msg("%s: %s", path, e.text);
        run_line(&t, line);
        json_decref(line);
        p = next + 1;
    }
    json_decref(t.talks);
    json_decref(t.tokens);
    tw_buf_free(&text);
    return t;
}

static void holds(const char *path, int at_least) {
    setenv("TZ", "UTC", 1);
    tally t = run_file(path, false);
    if (t.different) fail_msg("%s: %d of %d cases differ", path, t.different, t.cases);
    assert_true(t.cases >= at_least);
}

static void written_templates(void **state) {
    (void)state;
    holds(CASES "written.jsonl", 180);
}

static void generated_templates(void **state) {
    (void)state;
    holds(CASES "generated.jsonl", 2000);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(written_templates), cmocka_unit_test(generated_templates)};
    if (argc < 2) return cmocka_run_group_tests(tests, NULL, NULL);
    setenv("TZ", "UTC", 1);
    int different = 0;
    for (int i = 1; i < argc; i++) {
        tally t = run_file(argv[i], true);
        printf("%s: %d cases, %d refused, %d different\n", argv[i], t.cases, t.refused, t.different);
        different += t.different;
    }
    return different != 0;
}
