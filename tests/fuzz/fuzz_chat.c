/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a chat template, and behind a NUL JSON for it: {"messages", "tools", "arguments"}. Refused with a place,
   or rendered within its bounds to UTF-8 whose marks are 0 or 1; twice, to the same. */
#include "tokenizer/chat.h"
#include "tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char otherwise[] = "{\"messages\": [{\"role\": \"system\", \"content\": \"Be <b>\\u00fc</b>\"}, "
                                "{\"role\": \"user\", \"content\": \" hi <s> \"}, "
                                "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": "
                                "{\"name\": \"f\", \"arguments\": {\"a\": "
                                "[1, 2.5, true]}}}]}], \"tools\": [{\"function\": {\"name\": \"f\", \"parameters\": "
                                "{}}}], \"arguments\": {\"x\": 3, \"y\": \"z\"}}";

static char *part(const json_t *root, const char *key) {
    const json_t *v = json_object_get(root, key);
    return v ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
}

static tw_status render(const tw_chat *c, const tw_chat_request *r, tw_chat_text *t, tw_diag *diag) {
    static const jinja_limits limits = {.steps = 200000, .bytes = 32 << 20, .output = 1 << 20};
    *diag = (tw_diag){0};
    tw_status s = tw_chat_render_within(c, r, &limits, t, diag);
    if (s == TW_OK) {
        if (t->text[t->size] || tw_utf8_check(t->text, t->size) != t->size) abort();
        for (size_t i = 0; i < t->size; i++)
            if (t->typed[i] > 1) abort();
    } else if (t->text || !diag->message[0] || (diag->line < 1 && s != TW_ERR_MEMORY && !diag->path[0]))
        abort();
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t n = nul ? (size_t)(nul - data) : size;
    json_t *root = nul ? json_loadb((const char *)nul + 1, size - n - 1, JSON_ALLOW_NUL, NULL) : NULL;
    if (!root) root = json_loads(otherwise, 0, NULL);
    tw_chat *c = NULL;
    tw_diag diag = {0};
    if (tw_chat_open_memory(&c, (const char *)data, n, NULL, "t", &diag) != TW_OK) {
        if (!diag.message[0]) abort();
    } else {
        char *messages = part(root, "messages"), *tools = part(root, "tools"), *arguments = part(root, "arguments");
        tw_chat_request r = {
            .messages = messages ? messages : "[]", .tools = tools, .arguments = arguments, .now = 1700000000};
        tw_chat_text a = {0}, b = {0};
        tw_status s = render(c, &r, &a, &diag);
        if (render(c, &r, &b, &diag) != s || a.size != b.size || (a.size && memcmp(a.text, b.text, a.size) != 0))
            abort();
        tw_chat_text_free(&a);
        tw_chat_text_free(&b);
        free(messages);
        free(tools);
        free(arguments);
    }
    tw_chat_close(c);
    json_decref(root);
    return 0;
}
