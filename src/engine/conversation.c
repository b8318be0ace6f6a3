/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/diag.h"
#include "base/json.h"
#include "engine/engine.h"
#include "engine/reasoning.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Ids of a prompt that are fed before the caller is asked whether to go on: on a processor, and on a GPU. */
enum { CHUNK = 512, CHUNK_GPU = 4096 };

struct tw_conversation {
    tw_engine *e;
    const tw_tokenizer *t;
    const tw_chat *chat;
    json_t *messages;
    char *tools, *arguments;
    int64_t now;
    int32_t *cached; /* Ids whose keys and values the engine's cache holds, from position 0. */
    int64_t n_cached;
};

tw_status tw_conversation_open(tw_conversation **out, tw_engine *e, const tw_tokenizer *t, const tw_chat *chat,
                               const tw_conversation_options *options, tw_diag *diag) {
    const tw_conversation_options none = {0}, *o = options ? options : &none;
    *out = NULL;
    tw_conversation *c = calloc(1, sizeof *c);
    if (!c) return tw_fail_memory(diag);
    *c = (tw_conversation){.e = e, .t = t, .chat = chat, .messages = json_array()};
    c->now = o->now ? o->now : (int64_t)time(NULL);
    if (o->tools) c->tools = strdup(o->tools);
    if (o->arguments) c->arguments = strdup(o->arguments);
    c->cached = malloc(((size_t)tw_engine_context(e) + 1) * sizeof *c->cached);
    if (!c->messages || !c->cached || (o->tools && !c->tools) || (o->arguments && !c->arguments)) {
        tw_conversation_close(c);
        return tw_fail_memory(diag);
    }
    *out = c;
    return TW_OK;
}

void tw_conversation_close(tw_conversation *c) {
    if (!c) return;
    json_decref(c->messages);
    free(c->tools);
    free(c->arguments);
    free(c->cached);
    free(c);
}

/* ---- messages */

int64_t tw_conversation_count(const tw_conversation *c) {
    return (int64_t)json_array_size(c->messages);
}

static const char *role_of(const tw_conversation *c, size_t i) {
    const char *role = json_string_value(json_object_get(json_array_get(c->messages, i), "role"));
    return role ? role : "";
}

static tw_status make_message(json_t **out, const char *role, const char *content, tw_diag *diag) {
    json_t *text = json_string(content);
    *out = text ? json_pack("{s:s, s:o}", "role", role, "content", text) : NULL;
    if (*out) return TW_OK;
    /* Jansson does not say why it failed. Copying without validation fails only for want of memory. */
    json_t *any = json_string_nocheck(content);
    const bool memory = !any;
    json_decref(any);
    return memory ? tw_fail_memory(diag) : tw_fail(diag, TW_ERR_FORMAT, "the %s message is not UTF-8", role);
}

tw_status tw_conversation_add(tw_conversation *c, const char *role, const char *content, tw_diag *diag) {
    json_t *m;
    tw_status st = make_message(&m, role, content, diag);
    if (st == TW_OK && json_array_append_new(c->messages, m)) st = tw_fail_memory(diag);
    return st;
}

tw_status tw_conversation_system(tw_conversation *c, const char *content, tw_diag *diag) {
    json_t *m = NULL;
    tw_status st = content && *content ? make_message(&m, "system", content, diag) : TW_OK;
    if (st != TW_OK) return st;
    const bool there = json_array_size(c->messages) && !strcmp(role_of(c, 0), "system");
    if (m && json_array_insert_new(c->messages, 0, m)) return tw_fail_memory(diag);
    if (there) json_array_remove(c->messages, m ? 1 : 0);
    return TW_OK;
}

bool tw_conversation_undo(tw_conversation *c) {
    size_t at = json_array_size(c->messages);
    while (at > 0 && strcmp(role_of(c, at - 1), "user") != 0) at--;
    if (!at) return false;
    for (size_t n = json_array_size(c->messages); n >= at; n--) json_array_remove(c->messages, n - 1);
    return true;
}

void tw_conversation_reset(tw_conversation *c) {
    const size_t keep = json_array_size(c->messages) && !strcmp(role_of(c, 0), "system");
    for (size_t n = json_array_size(c->messages); n > keep; n--) json_array_remove(c->messages, n - 1);
}

void tw_conversation_forget(tw_conversation *c) {
    c->n_cached = 0;
}

tw_status tw_conversation_write(const tw_conversation *c, char **json, tw_diag *diag) {
    *json = tw_json_text(c->messages, JSON_INDENT(1));
    return *json ? TW_OK : tw_fail_memory(diag);
}

tw_status tw_conversation_read(tw_conversation *c, const char *json, size_t size, const char *path, tw_diag *diag) {
    json_t *list;
    tw_status st = tw_json_parse(&list, json, size, path, -1, diag);
    if (st != TW_OK) return st;
    if (!json_is_array(list)) st = tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "not a list of messages");
    for (size_t i = 0; i < json_array_size(list) && st == TW_OK; i++)
        if (!json_is_string(json_object_get(json_array_get(list, i), "role")))
            st = tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "message %zu is not an object with a role", i + 1);
    if (st != TW_OK) {
        json_decref(list);
        return st;
    }
    json_decref(c->messages);
    c->messages = list;
    return TW_OK;
}

/* ---- a turn */

typedef struct prompt {
    int32_t *ids;
    int64_t n;
    bool in_reasoning; /* The prompt ends with <think>. */
} prompt;

static tw_status make_prompt(const tw_conversation *c, prompt *p, tw_diag *diag) {
    tw_chat_text text = {0};
    size_t n = 0;
    *p = (prompt){0};
    char *messages = tw_json_text(c->messages, JSON_COMPACT);
    tw_chat_request r = {.messages = messages, .tools = c->tools, .arguments = c->arguments, .now = c->now};
    tw_status st = messages ? tw_chat_render(c->chat, &r, &text, diag) : tw_fail_memory(diag);
    if (st == TW_OK) {
        p->in_reasoning = tw_split_is_open(text.text);
        st = tw_chat_encode(c->t, &text, &p->ids, &n, diag);
    }
    p->n = (int64_t)n;
    tw_chat_text_free(&text);
    free(messages);
    if (st != TW_OK || p->n <= tw_engine_context(c->e)) return st;
    return tw_fail(diag, TW_ERR_USAGE, "the conversation's %lld tokens do not fit the context of %lld", (long long)p->n,
                   (long long)tw_engine_context(c->e));
}

/* Rewinds the engine to the longest beginning of `p` that its cache holds, and returns its length. The last id is
   always fed again, for its logits. */
static int64_t reuse(tw_conversation *c, const prompt *p) {
    const int64_t held = tw_engine_position(c->e);
    int64_t n = 0, most = c->n_cached < held ? c->n_cached : held;
    if (most > p->n - 1) most = p->n - 1;
    while (n < most && c->cached[n] == p->ids[n]) n++;
    tw_engine_rewind(c->e, n);
    c->n_cached = n;
    return n;
}

/* Feeds all but the last chunk of the prompt. Where rope's frequencies depend on the length of the sequence nothing is
   fed here: that is the prompt's whole length. */
static tw_status feed_chunks(tw_conversation *c, const prompt *p, tw_split *split, bool *stopped, double *seconds,
                             tw_diag *diag) {
    const int64_t chunk = tw_engine_on_gpu(c->e) ? CHUNK_GPU : CHUNK;
    tw_status st = tw_engine_warm(c->e, p->n - c->n_cached, diag);
    const int64_t start = tw_now_ns();
    *stopped = false;
    while (st == TW_OK && p->n - c->n_cached > chunk && !tw_rope_moves(&c->e->model->rope)) {
        if (!tw_split_text(split, "")) {
            *stopped = true;
            break;
        }
        const int32_t *ids = p->ids + c->n_cached;
        st = tw_engine_feed(c->e, ids, chunk, NULL, NULL, diag);
        if (st != TW_OK) break;
        memcpy(c->cached + c->n_cached, ids, (size_t)chunk * sizeof *ids);
        c->n_cached += chunk;
    }
    *seconds = (double)(tw_now_ns() - start) * 1e-9;
    return st;
}

static bool pass_on(void *user, int32_t id, const char *text) {
    (void)id;
    return tw_split_text(user, text);
}

/* Records which ids the cache holds after a generation: the prompt, then every generated id that was fed back. */
static void remember(tw_conversation *c, const prompt *p, const tw_generation *g) {
    int64_t fed = tw_engine_position(c->e) - p->n;
    if (fed > g->n_ids) fed = g->n_ids;
    if (fed < 0) fed = 0;
    memcpy(c->cached, p->ids, (size_t)p->n * sizeof *p->ids);
    memcpy(c->cached + p->n, g->ids, (size_t)fed * sizeof *g->ids);
    c->n_cached = p->n + fed;
}

static tw_status generate(tw_conversation *c, const prompt *p, tw_turn *turn, tw_split *split, tw_diag *diag) {
    tw_generation g = turn->how;
    g.past = p->ids;
    g.n_past = c->n_cached;
    g.prompt = p->ids + c->n_cached;
    g.n_prompt = p->n - c->n_cached;
    if (g.limit < 1) g.limit = tw_engine_context(c->e) - p->n + 2;
    g.emit = pass_on;
    g.user = split;
    g.ids = NULL;
    tw_status st = tw_generate(c->e, c->t, &g, diag);
    if (st != TW_OK) {
        tw_conversation_forget(c);
        return st;
    }
    remember(c, p, &g);
    turn->finish = g.finish;
    turn->n_new = g.n_ids;
    turn->prefill_seconds += g.prefill_seconds;
    turn->decode_seconds = g.decode_seconds;
    turn->n_decoded = g.n_decoded;
    free(g.ids);
    return TW_OK;
}

static char *taken(tw_buf *b) {
    if (!b->data) return strdup("");
    char *text = b->data;
    *b = (tw_buf){0};
    return text;
}

static tw_status add_answer(tw_conversation *c, const tw_turn *turn, tw_diag *diag) {
    if (turn->finish == TW_FINISH_ABORTED && !*turn->answer && !*turn->reasoning) return TW_OK;
    json_t *m;
    tw_status st = make_message(&m, "assistant", turn->answer, diag);
    if (st == TW_OK && *turn->reasoning && json_object_set_new(m, "reasoning_content", json_string(turn->reasoning))) {
        json_decref(m);
        return tw_fail_memory(diag);
    }
    if (st == TW_OK && json_array_append_new(c->messages, m)) st = tw_fail_memory(diag);
    return st;
}

tw_status tw_conversation_answer(tw_conversation *c, tw_turn *turn, tw_diag *diag) {
    prompt p;
    bool stopped = false;
    turn->answer = turn->reasoning = NULL;
    turn->n_new = turn->n_decoded = turn->n_reused = 0;
    turn->prefill_seconds = turn->decode_seconds = 0;
    tw_status st = make_prompt(c, &p, diag);
    tw_split split = {
        .state = p.in_reasoning ? TW_SPLIT_REASONING : TW_SPLIT_START, .emit = turn->emit, .user = turn->user};
    turn->n_prompt = p.n;
    if (st == TW_OK && p.n < 1) st = tw_fail(diag, TW_ERR_USAGE, "the conversation has no tokens");
    if (st == TW_OK) turn->n_reused = reuse(c, &p);
    if (st == TW_OK) st = feed_chunks(c, &p, &split, &stopped, &turn->prefill_seconds, diag);
    turn->finish = TW_FINISH_ABORTED;
    if (st == TW_OK && !stopped) {
        st = generate(c, &p, turn, &split, diag);
        if (st == TW_OK) tw_split_end(&split);
        if (st == TW_OK && tw_split_failed(&split)) st = tw_fail_memory(diag);
    }
    if (st == TW_OK) {
        turn->answer = taken(&split.answer);
        turn->reasoning = taken(&split.reasoning);
        if (!turn->answer || !turn->reasoning) st = tw_fail_memory(diag);
    }
    if (st == TW_OK) st = add_answer(c, turn, diag);
    if (st != TW_OK) tw_turn_free(turn);
    tw_split_free(&split);
    free(p.ids);
    return st;
}

void tw_turn_free(tw_turn *turn) {
    free(turn->answer);
    free(turn->reasoning);
    turn->answer = turn->reasoning = NULL;
}
