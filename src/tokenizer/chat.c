/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates: where a directory has them, which variables they see, and which of their text was typed. */
#include "tokenizer/chat.h"

#include "base/diag.h"
#include "base/file.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

struct tw_chat {
    jinja_template *main;
    jinja_template *tools; /* The template "tool_use", for requests with tools. NULL: `main` serves them. */
    json_t *tokens;        /* Tokens such as bos_token. */
};

/* ---- special tokens ---- */

/* Reads a token that is a string or {"content": …}. */
static const char *token_text(const json_t *v) {
    if (json_is_object(v)) v = json_object_get(v, "content");
    return json_string_value(v);
}

/* Adds tokens whose names end in _token. Those already there stay. */
static tw_status add_tokens(json_t *tokens, const json_t *from, tw_diag *diag) {
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)from, name, v) {
        size_t n = strlen(name);
        const char *text = token_text(v);
        if (!text || n < 6 || strcmp(name + n - 6, "_token") != 0 || json_object_get(tokens, name)) continue;
        if (json_object_set_new(tokens, name, json_string(text))) return tw_fail_memory(diag);
    }
    return TW_OK;
}

/* ---- where templates are ---- */

typedef struct place {
    tw_buf path, text; /* The file's path and its text. */
    bool found;
} place;

static void place_free(place *p) {
    tw_buf_free(&p->path);
    tw_buf_free(&p->text);
}

static tw_status read_place(place *p, tw_diag *diag) {
    if (p->path.failed) return tw_fail_memory(diag);
    if (!tw_file_exists(p->path.data)) return TW_OK;
    p->found = true;
    return tw_file_read(&p->text, p->path.data, diag);
}

/* Finds the template of this name in the configuration. A plain string is "default". */
static const json_t *configured(const json_t *config, const char *name) {
    const json_t *v = json_object_get(config, "chat_template");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *o = json_array_get(v, i), *own = json_object_get(o, "name");
        if (json_is_string(own) && !strcmp(json_string_value(own), name)) return json_object_get(o, "template");
    }
    return json_is_string(v) && !strcmp(name, "default") ? v : NULL;
}

/* Finds a template. A file goes before the configuration, as in transformers. */
static tw_status find_template(place *p, const char *directory, const char *config_path, const json_t *config,
                               const char *name, tw_diag *diag) {
    *p = (place){0};
    if (!strcmp(name, "default"))
        tw_buf_printf(&p->path, "%s/chat_template.jinja", directory);
    else
        tw_buf_printf(&p->path, "%s/additional_chat_templates/%s.jinja", directory, name);
    tw_status s = strchr(name, '/') ? TW_OK : read_place(p, diag);
    const json_t *v = configured(config, name);
    if (s != TW_OK || p->found || !json_is_string(v)) return s;
    p->found = true;
    tw_buf_clear(&p->path);
    tw_buf_printf(&p->path, "%s (chat_template)", config_path);
    tw_buf_add(&p->text, json_string_value(v), json_string_length(v));
    return p->path.failed || p->text.failed ? tw_fail_memory(diag) : TW_OK;
}

static tw_status open_named(jinja_template **out, const char *directory, const char *config_path, const json_t *config,
                            const char *name, bool needed, tw_diag *diag) {
    place p;
    tw_status s = find_template(&p, directory, config_path, config, name, diag);
    if (s == TW_OK && p.found)
        s = jinja_open(out, p.text.data ? p.text.data : "", p.text.size, p.path.data, diag);
    else if (s == TW_OK && needed)
        s = !strcmp(name, "default")
                ? tw_fail_at(diag, TW_ERR_UNSUPPORTED, config_path, -1, "there is no chat_template")
                : tw_fail_at(diag, TW_ERR_UNSUPPORTED, config_path, -1, "there is no chat template named %.100s", name);
    place_free(&p);
    return s;
}

/* Loads a configuration that may be missing. */
static tw_status load_if_there(json_t **out, const char *path, tw_diag *diag) {
    *out = NULL;
    return tw_file_exists(path) ? tw_json_load(out, path, diag) : TW_OK;
}

static tw_status open_files(tw_chat *c, const char *directory, const char *name, tw_diag *diag) {
    tw_buf config_path = {0}, map_path = {0};
    json_t *config = NULL, *map = NULL;
    tw_status s = TW_OK;
    tw_buf_printf(&config_path, "%s/tokenizer_config.json", directory);
    tw_buf_printf(&map_path, "%s/special_tokens_map.json", directory);
    c->tokens = json_object();
    if (config_path.failed || map_path.failed || !c->tokens) s = tw_fail_memory(diag);
    if (s == TW_OK) s = load_if_there(&config, config_path.data, diag);
    if (s == TW_OK) s = load_if_there(&map, map_path.data, diag);
    if (s == TW_OK) s = add_tokens(c->tokens, config, diag);
    if (s == TW_OK) s = add_tokens(c->tokens, map, diag);
    const char *want = name ? name : "default";
    if (s == TW_OK && !tw_path_is_dir(directory))
        s = tw_fail_at(diag, TW_ERR_IO, directory, -1, "not a directory: a chat template is beside tokenizer.json");
    if (s == TW_OK) s = open_named(&c->main, directory, config_path.data, config, want, true, diag);
    if (s == TW_OK && !name) s = open_named(&c->tools, directory, config_path.data, config, "tool_use", false, diag);
    json_decref(config);
    json_decref(map);
    tw_buf_free(&config_path);
    tw_buf_free(&map_path);
    return s;
}

tw_status tw_chat_open(tw_chat **out, const char *directory, const char *name, tw_diag *diag) {
    if (!out || !directory)
        return tw_fail(diag, TW_ERR_USAGE, "tw_chat_open needs a directory and somewhere to put the template");
    *out = NULL;
    tw_diag_clear(diag);
    tw_chat *c = calloc(1, sizeof *c);
    if (!c) return tw_fail_memory(diag);
    tw_status s = open_files(c, directory, name, diag);
    if (s == TW_OK)
        *out = c;
    else
        tw_chat_close(c);
    return s;
}

tw_status tw_chat_open_memory(tw_chat **out, const char *text, size_t size, const json_t *tokens, const char *path,
                              tw_diag *diag) {
    *out = NULL;
    tw_chat *c = calloc(1, sizeof *c);
    if (!c) return tw_fail_memory(diag);
    c->tokens = json_object();
    tw_status s = c->tokens ? jinja_open(&c->main, text, size, path, diag) : tw_fail_memory(diag);
    if (s == TW_OK && tokens) s = add_tokens(c->tokens, tokens, diag);
    if (s == TW_OK)
        *out = c;
    else
        tw_chat_close(c);
    return s;
}

void tw_chat_close(tw_chat *c) {
    if (!c) return;
    jinja_close(c->main);
    jinja_close(c->tools);
    json_decref(c->tokens);
    free(c);
}

/* ---- variables ---- */

/* Tells whether a role looks like a plain word. Such a role is the template's vocabulary, and templates make special
   tokens of it. */
static bool is_plain_word(const json_t *v) {
    const char *s = json_string_value(v);
    if (!s || !*s || json_string_length(v) > 64) return false;
    for (; *s; s++)
        if (!(*s >= 'a' && *s <= 'z') && !(*s >= 'A' && *s <= 'Z') && !(*s >= '0' && *s <= '9') && *s != '_' &&
            *s != '-')
            return false;
    return true;
}

/* Makes a message's value. Its texts count as typed, except for the assistant's. */
static jinja_value message_value(jinja_env *env, const json_t *m) {
    const json_t *role = json_object_get(m, "role");
    bool typed = !json_is_string(role) || strcmp(json_string_value(role), "assistant") != 0;
    jinja_value v = jinja_from_json(env, m, typed);
    jinja_value *own = v.kind == JINJA_DICT ? jinja_dict_get(v.dict, "role") : NULL;
    if (own && is_plain_word(role)) *own = jinja_from_json(env, role, false);
    return v;
}

/* Copies a message's reasoning, which may have any of three keys. As in transformers, the first one that is set is
   copied to "reasoning_content". It is copied to "thinking" if that is missing, since gpt-oss's template reads it. */
static jinja_value with_reasoning(jinja_env *env, jinja_value m) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    jinja_value *found = NULL;
    for (int i = 0; i < 3 && m.kind == JINJA_DICT && !(found && found->kind != JINJA_NONE); i++)
        found = jinja_dict_get(m.dict, names[i]);
    if (!found || found->kind == JINJA_NONE) return m;
    jinja_value out = jinja_dict_new(env), reasoning = *found;
    if (env->failed) return m;
    jinja_dict_put(env, NULL, out.dict, jinja_text(env, "thinking"), reasoning);
    for (size_t i = 0; i < m.dict->n; i++) jinja_dict_put(env, NULL, out.dict, m.dict->v[i].key, m.dict->v[i].value);
    jinja_dict_put(env, NULL, out.dict, jinja_text(env, "reasoning_content"), reasoning);
    return out;
}

static jinja_value messages_value(jinja_env *env, const json_t *list) {
    jinja_value out = jinja_list_new(env, JINJA_LIST, json_array_size(list));
    for (size_t i = 0; i < json_array_size(list) && !env->failed; i++)
        jinja_push(env, out, with_reasoning(env, message_value(env, json_array_get(list, i))));
    return out;
}

/* Parses JSON of a request. `what` names it in the diagnostic. */
static tw_status parse(json_t **out, const char *text, const char *what, bool list, tw_diag *diag) {
    *out = NULL;
    if (!text) return TW_OK;
    tw_status s = tw_json_parse(out, text, strlen(text), what, -1, diag);
    if (s == TW_OK && !(list ? json_is_array(*out) : json_is_object(*out)))
        s = tw_fail_at(diag, TW_ERR_FORMAT, what, -1, list ? "not a JSON list" : "not a JSON object");
    return s;
}

typedef struct request {
    json_t *messages, *tools, *arguments;
} request;

static tw_status parse_request(request *q, const tw_chat_request *r, tw_diag *diag) {
    tw_status s = parse(&q->messages, r->messages, "messages", true, diag);
    if (s == TW_OK) s = parse(&q->tools, r->tools, "tools", true, diag);
    if (s == TW_OK) s = parse(&q->arguments, r->arguments, "arguments", false, diag);
    for (size_t i = 0; s == TW_OK && i < json_array_size(q->messages); i++)
        if (!json_is_object(json_array_get(q->messages, i)))
            s = tw_fail_at(diag, TW_ERR_FORMAT, "messages", -1, "message %zu is no object", i);
    return s;
}

/* Sets variables in transformers' order, in which later ones replace earlier ones: tokens, then the request, then its
   arguments. */
static void set_variables(jinja_env *env, const tw_chat *c, const request *q, bool prompt) {
    const char *name;
    json_t *v;
    json_object_foreach(c->tokens, name, v) jinja_set(env, name, jinja_from_json(env, v, false));
    jinja_set(env, "documents", JINJA_NULL);
    jinja_set(env, "messages", messages_value(env, q->messages));
    jinja_set(env, "tools", q->tools ? jinja_from_json(env, q->tools, true) : JINJA_NULL);
    jinja_set(env, "add_generation_prompt", jinja_bool(prompt));
    json_object_foreach(q->arguments, name, v)
        jinja_set(env, name, jinja_from_json(env, v, !strcmp(name, "documents")));
}

tw_status tw_chat_render_within(const tw_chat *c, const tw_chat_request *r, const jinja_limits *limits,
                                tw_chat_text *out, tw_diag *diag) {
    request q = {NULL, NULL, NULL};
    jinja_env *env = NULL;
    tw_status s = parse_request(&q, r, diag);
    if (s == TW_OK) s = jinja_begin(&env, q.tools && c->tools ? c->tools : c->main, limits, r->now, diag);
    if (s == TW_OK) {
        set_variables(env, c, &q, !r->no_generation_prompt);
        s = jinja_run(env, &out->text, &out->typed, &out->size);
    }
    jinja_end(env);
    json_decref(q.messages);
    json_decref(q.tools);
    json_decref(q.arguments);
    return s;
}

tw_status tw_chat_render(const tw_chat *c, const tw_chat_request *r, tw_chat_text *out, tw_diag *diag) {
    if (!c || !r || !out || !r->messages)
        return tw_fail(diag, TW_ERR_USAGE,
                       "tw_chat_render needs a template, a request with messages and somewhere to put the text");
    *out = (tw_chat_text){0};
    tw_diag_clear(diag);
    return tw_chat_render_within(c, r, NULL, out, diag);
}

void tw_chat_text_free(tw_chat_text *t) {
    if (!t) return;
    free(t->text);
    free(t->typed);
    *t = (tw_chat_text){0};
}

tw_status tw_chat_encode(const tw_tokenizer *t, const tw_chat_text *text, int32_t **ids, size_t *count, tw_diag *diag) {
    if (!text || (text->size && !text->text)) return tw_fail(diag, TW_ERR_USAGE, "tw_chat_encode needs a text");
    return tw_tokenizer_encode_typed(t, text->text, text->typed, text->size, false, ids, count, diag);
}
