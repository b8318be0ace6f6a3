/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "base/json.h"
#include "tokenizer/chat_forms.h"

#include <stdlib.h>
#include <string.h>

struct tw_chat {
    tw_chat_kind kind;
};

tw_status tw_chat_open(tw_chat **out, const char *directory, const char *name, tw_diag *diag) {
    *out = NULL;
    if (name) return tw_fail(diag, TW_ERR_UNSUPPORTED, "there is no chat template named %s", name);
    tw_chat *c = calloc(1, sizeof *c);
    if (!c) return tw_fail_memory(diag);
    tw_status s = tw_chat_recognise(&c->kind, directory, diag);
    if (s != TW_OK) {
        free(c);
        return s;
    }
    *out = c;
    return TW_OK;
}

void tw_chat_close(tw_chat *c) {
    free(c);
}

tw_status tw_chat_render(const tw_chat *c, const tw_chat_request *r, tw_chat_text *out, tw_diag *diag) {
    *out = (tw_chat_text){0};
    json_t *list = NULL;
    tw_status s = tw_json_parse(&list, r->messages, strlen(r->messages), "messages", -1, diag);
    if (s != TW_OK) return s;
    size_t n = json_array_size(list);
    tw_chat_message *m = calloc(n + 1, sizeof *m);
    for (size_t i = 0; m && i < n; i++) {
        const json_t *o = json_array_get(list, i);
        m[i].role = json_string_value(json_object_get(o, "role"));
        m[i].content = json_string_value(json_object_get(o, "content"));
    }
    s = m ? tw_chat_render_form(c->kind, m, n, &out->text, diag) : tw_fail_memory(diag);
    if (s == TW_OK) {
        out->size = strlen(out->text);
        out->typed = calloc(out->size + 1, 1);
        if (!out->typed) s = tw_fail_memory(diag);
    }
    if (s != TW_OK) tw_chat_text_free(out);
    free(m);
    json_decref(list);
    return s;
}

void tw_chat_text_free(tw_chat_text *t) {
    free(t->text);
    free(t->typed);
    *t = (tw_chat_text){0};
}

tw_status tw_chat_encode(const tw_tokenizer *t, const tw_chat_text *text, int32_t **ids, size_t *count, tw_diag *diag) {
    return tw_tokenizer_encode(t, text->text, text->size, false, ids, count, diag);
}
