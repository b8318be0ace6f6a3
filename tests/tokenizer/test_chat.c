/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "base/json.h"
#include "tokenizer/chat_forms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    assert_non_null(s);
    return s;
}

/* Writes tokenizer_config.json with the template and tokens. */
static void write_config(const char *folder, const char *template, const char *bos, const char *eos) {
    json_t *o =
        json_pack("{s:s, s:{s:s}, s:s}", "chat_template", template, "bos_token", "content", bos, "eos_token", eos);
    char *text = json_dumps(o, 0);
    test_write(folder, "tokenizer_config.json", text, strlen(text));
    free(text);
    json_decref(o);
}

static void templates_render_as_the_reference_does(void **state) {
    (void)state;
    json_t *all = NULL;
    assert_int_equal(tw_json_load(&all, TEST_DATA "/tokenizers/chat.json", NULL), TW_OK);
    char *folder = test_folder_make();
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *t = json_array_get(all, i), *cases = json_object_get(t, "cases");
        write_config(folder, text_of(t, "template"), text_of(t, "bos_token"), text_of(t, "eos_token"));
        tw_chat_kind kind = (tw_chat_kind)-1;
        tw_diag diag = {0};
        if (tw_chat_recognise(&kind, folder, &diag) != TW_OK) fail_msg("%s: %s", text_of(t, "name"), diag.message);
        assert_string_equal(tw_chat_name(kind), text_of(t, "name"));
        for (size_t k = 0; k < json_array_size(cases); k++) {
            const json_t *c = json_array_get(cases, k), *list = json_object_get(c, "messages");
            tw_chat_message messages[16];
            size_t n = json_array_size(list);
            for (size_t j = 0; j < n; j++) {
                const json_t *m = json_array_get(list, j);
                messages[j] = (tw_chat_message){text_of(m, "role"), text_of(m, "content")};
            }
            char *text = NULL;
            tw_status s = tw_chat_render_form(kind, messages, n, &text, &diag);
            const json_t *want = json_object_get(c, "rendered");
            if (json_is_null(want))
                assert_int_equal(s, TW_ERR_USAGE);
            else {
                assert_int_equal(s, TW_OK);
                assert_string_equal(text, json_string_value(want));
            }
            free(text);
        }
    }
    json_decref(all);
    test_folder_remove(folder);
}

static void refuses(const char *folder, tw_status want, const char *word) {
    tw_chat_kind kind;
    tw_diag diag = {0};
    assert_int_equal(tw_chat_recognise(&kind, folder, &diag), want);
    if (!strstr(diag.message, word)) fail_msg("\"%s\" is not in: %s", word, diag.message);
}

static void other_templates_are_refused_by_name(void **state) {
    (void)state;
    static const char chatml[] =
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] "
        "+ '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
        "'<|im_start|>assistant\n' }}{% endif %}";
    static const char *const near[] = {"<|im_begin|>", "messages[0]", "messages", ""};
    char *folder = test_folder_make();
    refuses(folder, TW_ERR_IO, "open");
    test_write(folder, "tokenizer_config.json", "{}", 2);
    refuses(folder, TW_ERR_UNSUPPORTED, "chat_template");
    test_write(folder, "tokenizer_config.json", "{", 1);
    refuses(folder, TW_ERR_FORMAT, "JSON");
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        write_config(folder, near[i], "<s>", "</s>");
        refuses(folder, TW_ERR_UNSUPPORTED, "none that is known");
    }
    static const char *const broken[] = {"{% for", "{{ 'a }}", "{{ 'a\\q' }}", "{%%}",  "{%-%}",
                                         "{{",     "{#",       "{%- -%}{{-}}", "{{ a }"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        write_config(folder, broken[i], "<s>", "</s>");
        refuses(folder, TW_ERR_UNSUPPORTED, "none that is known");
    }
    /* Every template that differs from a known one in a character is another one, or the same to the letter. */
    tw_chat_kind kind;
    for (size_t i = 0; i < sizeof chatml - 1; i++) {
        char other[sizeof chatml];
        memcpy(other, chatml, sizeof chatml);
        other[i] = other[i] == 'x' ? 'y' : 'x';
        write_config(folder, other, "<s>", "</s>");
        if (tw_chat_recognise(&kind, folder, NULL) == TW_OK && chatml[i] != ' ') fail_msg("recognised: %s", other);
    }
    write_config(folder, chatml, "<s>", "</s>");
    assert_int_equal(tw_chat_recognise(&kind, folder, NULL), TW_OK);
    assert_int_equal(kind, TW_CHAT_CHATML);
    /* A file of its own goes before the configuration's. */
    test_write(folder, "chat_template.jinja", "{{ x }}", 7);
    refuses(folder, TW_ERR_UNSUPPORTED, "{{ x }}");
    test_folder_remove(folder);
}

static void tokens_must_be_the_templates_own(void **state) {
    (void)state;
    json_t *all = NULL;
    assert_int_equal(tw_json_load(&all, TEST_DATA "/tokenizers/chat.json", NULL), TW_OK);
    char *folder = test_folder_make();
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *t = json_array_get(all, i);
        if (strcmp(text_of(t, "name"), "mistral") != 0) continue;
        write_config(folder, text_of(t, "template"), "<bos>", "</s>");
        refuses(folder, TW_ERR_UNSUPPORTED, "bos_token");
    }
    json_decref(all);
    test_folder_remove(folder);
}

static void wrong_use_is_told(void **state) {
    (void)state;
    tw_chat_message m[] = {{"tool", "x"}, {"user", NULL}, {"user", "\xff"}, {"system", "s"}};
    char *text = NULL;
    assert_int_equal(tw_chat_render_form(TW_CHAT_CHATML, m, 0, &text, NULL), TW_ERR_USAGE);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tw_chat_render_form(TW_CHAT_CHATML, m + i, 1, &text, NULL), TW_ERR_USAGE);
    assert_int_equal(tw_chat_render_form(TW_CHAT_MISTRAL, m + 3, 1, &text, NULL), TW_ERR_USAGE);
    assert_int_equal(tw_chat_render_form((tw_chat_kind)99, m + 3, 1, &text, NULL), TW_ERR_USAGE);
    assert_null(text);
    assert_string_equal(tw_chat_name((tw_chat_kind)99), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_render_as_the_reference_does), cmocka_unit_test(other_templates_are_refused_by_name),
        cmocka_unit_test(tokens_must_be_the_templates_own), cmocka_unit_test(wrong_use_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
