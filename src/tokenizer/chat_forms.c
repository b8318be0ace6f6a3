/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates. A template is recognised by what it does, not by how it is written down: it is brought into a plain
   form, one step a line, and that form is looked up. Two templates with one form render alike.

   The form: "% for message in messages" is a statement, "' text" is text written out (\n and \\ escaped), "=
   expression" is a value written out. White space is as in the reference (blocks trimmed and stripped to the left),
   literals that follow each other are joined, x['name'] is x.name, and what raise_exception says is left out. */
#include "tokenizer/chat_forms.h"

#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/json.h"
#include "tokenizer/unicode.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOP "% for message in messages\n"
#define TURN "' <|im_start|>\n= message.role\n' \\n\n= message.content\n' <|im_end|>\\n\n"
#define ASK  "% if add_generation_prompt\n' <|im_start|>assistant\\n\n% endif\n"
#define DEFAULT(s)                                                                                                     \
    "% if loop.first and messages[0].role != 'system'\n' <|im_start|>system\\n" s "<|im_end|>\\n\n% endif\n"
#define ALTERNATE "% if (message.role == 'user') != (loop.index0 % 2 == 0)\n= raise_exception()\n% endif\n"

#define QWEN2   "You are a helpful assistant."
#define SMOLLM2 "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

#define LLAMA2_HEAD                                                                                                    \
    "% if messages[0].role == 'system'\n% set loop_messages = messages[1:]\n"                                          \
    "% set system_message = messages[0].content\n"
#define LLAMA2_LOOP                                                                                                    \
    "% else\n% set loop_messages = messages\n% set system_message = false\n% endif\n% for message in "                 \
    "loop_messages\n" ALTERNATE "% if loop.index0 == 0 and system_message != false\n"                                  \
    "% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message.content\n% else\n"                  \
    "% set content = message.content\n% endif\n% if message.role == 'user'\n= bos_token\n' [INST] \n= "                \
    "content.strip()\n'  [/INST]\n"
#define LLAMA2_TAIL "% elif message.role == 'assistant'\n'  \n= content.strip()\n'  \n= eos_token\n% endif\n% endfor\n"

#define LLAMA3                                                                                                         \
    "% set loop_messages = messages\n% for message in loop_messages\n"                                                 \
    "% set content = '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + "     \
    "'<|eot_id|>'\n"                                                                                                   \
    "% if loop.index0 == 0\n% set content = bos_token + content\n% endif\n= content\n% endfor\n"
#define LLAMA3_ASK "' <|start_header_id|>assistant<|end_header_id|>\\n\\n\n"

#define MISTRAL(eos)                                                                                                   \
    "= bos_token\n" LOOP ALTERNATE "% if message.role == 'user'\n' [INST] \n= message.content\n'  [/INST]\n"           \
    "% elif message.role == 'assistant'\n= message.content\n= eos_token\n" eos                                         \
    "% else\n= raise_exception()\n% endif\n% endfor\n"

#define ZEPHYR_TURN(role) "message.role == '" role "'\n' <|" role "|>\\n\n= message.content\n= eos_token\n' \\n\n"
#define ZEPHYR_ASK        "% endif\n% if loop.last and add_generation_prompt\n' <|assistant|>\\n\n% endif\n% endfor\n"

static const struct {
    tw_chat_kind kind;
    const char *form;
} forms[] = {
    {TW_CHAT_CHATML, LOOP TURN "% endfor\n" ASK},
    {TW_CHAT_CHATML,
     LOOP TURN "% if loop.last and add_generation_prompt\n' <|im_start|>assistant\\n\n% endif\n% endfor\n"},
    {TW_CHAT_QWEN2, LOOP DEFAULT(QWEN2) TURN "% endfor\n" ASK},
    {TW_CHAT_SMOLLM2, LOOP DEFAULT(SMOLLM2) TURN "% endfor\n" ASK},
    {TW_CHAT_LLAMA2, LLAMA2_HEAD LLAMA2_LOOP LLAMA2_TAIL},
    /* The same with a branch for system messages further in, which are refused here. */
    {TW_CHAT_LLAMA2, LLAMA2_HEAD LLAMA2_LOOP
     "% elif message.role == 'system'\n' <<SYS>>\\n\n= content.strip()\n' \\n<</SYS>>\\n\\n\n" LLAMA2_TAIL},
    {TW_CHAT_LLAMA3, LLAMA3 LLAMA3_ASK},
    {TW_CHAT_LLAMA3, LLAMA3 "% if add_generation_prompt\n" LLAMA3_ASK "% endif\n"},
    {TW_CHAT_MISTRAL, MISTRAL("")},
    {TW_CHAT_MISTRAL_V1, MISTRAL("'  \n")},
    {TW_CHAT_ZEPHYR,
     LOOP "% if " ZEPHYR_TURN("user") "% elif " ZEPHYR_TURN("system") "% elif " ZEPHYR_TURN("assistant") ZEPHYR_ASK},
    {TW_CHAT_ZEPHYR,
     LOOP "% if " ZEPHYR_TURN("system") "% elif " ZEPHYR_TURN("user") "% elif " ZEPHYR_TURN("assistant") ZEPHYR_ASK},
};

static const struct {
    const char *name, *bos, *eos; /* the tokens that the rendering spells out; NULL: it does not */
} kinds[] = {
    [TW_CHAT_CHATML] = {"chatml", NULL, NULL},
    [TW_CHAT_LLAMA2] = {"llama2", "<s>", "</s>"},
    [TW_CHAT_LLAMA3] = {"llama3", "<|begin_of_text|>", NULL},
    [TW_CHAT_MISTRAL] = {"mistral", "<s>", "</s>"},
    [TW_CHAT_ZEPHYR] = {"zephyr", NULL, "</s>"},
    [TW_CHAT_QWEN2] = {"qwen2", NULL, NULL},
    [TW_CHAT_SMOLLM2] = {"smollm2", NULL, NULL},
    [TW_CHAT_MISTRAL_V1] = {"mistral-v0.1", "<s>", "</s>"},
};
#define N_KINDS ((int)(sizeof kinds / sizeof *kinds))

const char *tw_chat_name(tw_chat_kind kind) {
    return (int)kind >= 0 && (int)kind < N_KINDS ? kinds[kind].name : "unknown";
}

/* ---- the plain form ---- */

typedef struct token {
    char type;   /* 's' string, 'w' name or number, 'o' operator */
    tw_buf text; /* a string's content, unescaped */
} token;

#define MAX_TOKENS 256 /* of one tag */

typedef struct former {
    tw_buf out;     /* the form */
    tw_buf literal; /* text written out, not yet in the form */
    token tokens[MAX_TOKENS];
    int n;
} former;

static void put_escaped(tw_buf *out, const tw_buf *text) {
    for (size_t i = 0; i < text->size; i++) {
        char c = text->data[i];
        if (c == '\n')
            tw_buf_str(out, "\\n");
        else if (c == '\\')
            tw_buf_str(out, "\\\\");
        else
            tw_buf_add(out, &c, 1);
    }
}

static void end_literal(former *f) {
    if (!f->literal.size) return;
    tw_buf_str(&f->out, "' ");
    put_escaped(&f->out, &f->literal);
    tw_buf_str(&f->out, "\n");
    tw_buf_clear(&f->literal);
}

static void clear_tokens(former *f) {
    for (int i = 0; i < f->n; i++) tw_buf_free(&f->tokens[i].text);
    f->n = 0;
}

/* The tokens of a tag's inside; false when it is not understood. */
static bool tokenize(former *f, const char *s, size_t n) {
    clear_tokens(f);
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        if (isspace(c)) {
            i++;
            continue;
        }
        if (f->n == MAX_TOKENS) return false;
        token *t = &f->tokens[f->n++];
        *t = (token){.type = 'o'};
        if (c == '\'' || c == '"') {
            t->type = 's';
            for (i++; i < n && (unsigned char)s[i] != c; i++) {
                char d = s[i];
                if (d == '\\') {
                    if (++i == n) return false;
                    d = s[i] == 'n'                                   ? '\n'
                        : s[i] == 't'                                 ? '\t'
                        : s[i] == '\\' || s[i] == '\'' || s[i] == '"' ? s[i]
                                                                      : 0;
                    if (!d) return false;
                }
                tw_buf_add(&t->text, &d, 1);
            }
            if (i++ == n) return false;
            continue;
        }
        size_t from = i++;
        if (isalnum(c) || c == '_') {
            t->type = 'w';
            while (i < n && (isalnum((unsigned char)s[i]) || s[i] == '_')) i++;
        } else if (i < n && s[i] == '=' && strchr("=!<>", c))
            i++;
        tw_buf_add(&t->text, s + from, i - from);
    }
    for (int i = 0; i < f->n; i++) f->out.failed = f->out.failed || f->tokens[i].text.failed;
    return true;
}

static bool is(const former *f, int i, const char *op) {
    return i >= 0 && i < f->n && f->tokens[i].type != 's' && f->tokens[i].text.data &&
           !strcmp(f->tokens[i].text.data, op);
}

static bool is_name(const tw_buf *b) {
    if (!b->size || isdigit((unsigned char)b->data[0])) return false;
    for (size_t i = 0; i < b->size; i++)
        if (!isalnum((unsigned char)b->data[i]) && b->data[i] != '_') return false;
    return true;
}

static void remove_tokens(former *f, int at, int count) {
    for (int i = at; i < at + count; i++) tw_buf_free(&f->tokens[i].text);
    memmove(f->tokens + at, f->tokens + at + count, (size_t)(f->n - at - count) * sizeof *f->tokens);
    f->n -= count;
}

/* Rewrites that change nothing: x['name'] to x.name, 'a' + 'b' to 'ab', raise_exception(…) to raise_exception(). */
static void simplify(former *f) {
    for (int i = 0; i + 2 < f->n; i++)
        if (is(f, i, "[") && f->tokens[i + 1].type == 's' && is(f, i + 2, "]") && is_name(&f->tokens[i + 1].text) &&
            i > 0) {
            f->tokens[i].text.data[0] = '.';
            f->tokens[i + 1].type = 'w';
            remove_tokens(f, i + 2, 1);
        }
    for (int i = 0; i + 2 < f->n;) {
        bool join = f->tokens[i].type == 's' && (is(f, i + 1, "+") || is(f, i + 1, "~")) &&
                    f->tokens[i + 2].type == 's' && !is(f, i + 3, "|") && !is(f, i + 3, ".") && !is(f, i + 3, "[") &&
                    !is(f, i - 1, "%") && !is(f, i - 1, "*");
        if (!join) {
            i++;
            continue;
        }
        if (f->tokens[i + 2].text.size)
            tw_buf_add(&f->tokens[i].text, f->tokens[i + 2].text.data, f->tokens[i + 2].text.size);
        if (f->tokens[i].text.failed) f->out.failed = true;
        remove_tokens(f, i + 1, 2);
    }
    for (int i = 0; i + 3 < f->n; i++)
        if (is(f, i, "raise_exception") && is(f, i + 1, "(") && f->tokens[i + 2].type == 's' && is(f, i + 3, ")"))
            remove_tokens(f, i + 2, 1);
}

/* Tokens [from, to) as text: no spaces inside of brackets and around dots, one elsewhere. */
static void put_tokens(former *f, int from, int to) {
    for (int i = from; i < to; i++) {
        const token *t = &f->tokens[i];
        bool tight = i == from || is(f, i, ".") || is(f, i - 1, ".") || is(f, i, "[") || is(f, i - 1, "[") ||
                     is(f, i, "]") || is(f, i - 1, "(") || is(f, i, ")") || is(f, i, ":") || is(f, i - 1, ":") ||
                     (is(f, i, "(") && f->tokens[i - 1].type == 'w' && !is(f, i - 1, "if") && !is(f, i - 1, "not") &&
                      !is(f, i - 1, "and") && !is(f, i - 1, "or") && !is(f, i - 1, "in"));
        if (!tight) tw_buf_str(&f->out, " ");
        if (t->type == 's') tw_buf_str(&f->out, "'");
        put_escaped(&f->out, &t->text);
        if (t->type == 's') tw_buf_str(&f->out, "'");
    }
}

static void put_statement(former *f) {
    end_literal(f);
    simplify(f);
    tw_buf_str(&f->out, "% ");
    put_tokens(f, 0, f->n);
    tw_buf_str(&f->out, "\n");
}

/* {{ a + 'b' + c }} writes a, then b, then c. */
static void put_output(former *f) {
    simplify(f);
    int depth = 0, from = 0;
    bool other = false; /* operators that bind less than + */
    for (int i = 0; i < f->n; i++)
        other = other || is(f, i, "if") || is(f, i, "and") || is(f, i, "or") || is(f, i, "==") || is(f, i, "!=");
    for (int i = 0; i <= f->n; i++) {
        if (is(f, i, "(") || is(f, i, "[")) depth++;
        if (is(f, i, ")") || is(f, i, "]")) depth--;
        if (i < f->n && (other || depth || !(is(f, i, "+") || is(f, i, "~")))) continue;
        if (i == from + 1 && f->tokens[from].type == 's') {
            if (f->tokens[from].text.size)
                tw_buf_add(&f->literal, f->tokens[from].text.data, f->tokens[from].text.size);
        } else if (i > from) {
            end_literal(f);
            tw_buf_str(&f->out, "= ");
            put_tokens(f, from, i);
            tw_buf_str(&f->out, "\n");
        }
        from = i + 1;
    }
}

/* The end of the tag that begins at `s` with {% or {{, behind its closing braces; 0 when there is none. Closing braces
   within strings do not count. */
static size_t tag_end(const char *s, size_t n, char close) {
    char quote = 0;
    for (size_t i = 2; i + 1 < n; i++) {
        if (quote) {
            if (s[i] == '\\')
                i++;
            else if (s[i] == quote)
                quote = 0;
        } else if (close != '#' && (s[i] == '\'' || s[i] == '"'))
            quote = s[i];
        else if (s[i] == close && s[i + 1] == '}')
            return i + 2;
    }
    return 0;
}

/* Text between tags, its ends trimmed as the tags beside it say. */
static void put_text(former *f, const char *s, size_t n) {
    if (n) tw_buf_add(&f->literal, s, n);
}

static bool plain_form(former *f, const char *s, size_t n) {
    if (n && s[n - 1] == '\n') n--; /* the one newline that ends a template is not part of it */
    size_t i = 0, text = 0;         /* text starts here */
    while (i < n) {
        if (s[i] != '{' || i + 1 >= n || !strchr("%{#", s[i + 1])) {
            i++;
            continue;
        }
        char kind = s[i + 1];
        size_t size = tag_end(s + i, n - i, kind == '{' ? '}' : kind), end = i;
        if (!size || size < 4) return false;
        char left = s[i + 2], right = size > 4 ? s[i + size - 3] : 0;
        bool strip_left = left == '-', strip_right = right == '-';
        if (strip_left)
            while (end > text && isspace((unsigned char)s[end - 1])) end--;
        else if (kind != '{' && left != '+') { /* a block alone on its line is stripped to the line's start */
            size_t k = end;
            while (k > text && (s[k - 1] == ' ' || s[k - 1] == '\t')) k--;
            if (k == 0 || s[k - 1] == '\n') end = k;
        }
        put_text(f, s + text, end - text);
        size_t from = i + 2 + (left == '-' || left == '+'), to = i + size - 2 - (right == '-' || right == '+');
        if (kind != '#') {
            if (to < from || !tokenize(f, s + from, to - from)) return false;
            if (kind == '%')
                put_statement(f);
            else
                put_output(f);
        }
        i += size;
        if (strip_right)
            while (i < n && isspace((unsigned char)s[i])) i++;
        else if (kind != '{' && right != '+' && i < n && s[i] == '\n')
            i++;
        text = i;
    }
    put_text(f, s + text, n - text);
    end_literal(f);
    return true;
}

/* What only gives add_generation_prompt a value changes nothing here, where it is always set. */
static const char *without_default(const char *form) {
    static const char *const defaults[] = {
        "% if not add_generation_prompt is defined\n% set add_generation_prompt = false\n% endif\n",
        "% if add_generation_prompt is not defined\n% set add_generation_prompt = false\n% endif\n"};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (!strncmp(form, defaults[i], strlen(defaults[i]))) return form + strlen(defaults[i]);
    return form;
}

tw_status tw_chat_recognise_text(tw_chat_kind *out, const char *text, size_t size) {
    former *f = calloc(1, sizeof *f);
    if (!f) return TW_ERR_MEMORY;
    tw_status s = TW_ERR_UNSUPPORTED;
    bool formed = plain_form(f, text, size);
    if (f->out.failed || f->literal.failed)
        s = TW_ERR_MEMORY;
    else if (formed && f->out.size)
        for (size_t i = 0; i < sizeof forms / sizeof *forms && s != TW_OK; i++)
            if (!strcmp(without_default(f->out.data), forms[i].form)) {
                *out = forms[i].kind;
                s = TW_OK;
            }
    clear_tokens(f);
    tw_buf_free(&f->out);
    tw_buf_free(&f->literal);
    free(f);
    return s;
}

/* ---- files ---- */

/* The template among the named ones of a list, or the string itself. */
static const json_t *template_of(const json_t *config) {
    const json_t *v = json_object_get(config, "chat_template");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *o = json_array_get(v, i), *name = json_object_get(o, "name");
        if (json_is_string(name) && !strcmp(json_string_value(name), "default")) return json_object_get(o, "template");
    }
    return json_is_string(v) ? v : NULL;
}

/* A rendering spells tokens out, so they must be the model's own. */
static tw_status check_token(const json_t *config, const char *path, tw_chat_kind kind, const char *key,
                             const char *want, tw_diag *diag) {
    const json_t *v = json_object_get(config, key);
    if (json_is_object(v)) v = json_object_get(v, "content");
    if (!want || !json_is_string(v) || !strcmp(json_string_value(v), want)) return TW_OK;
    return tw_fail_at(diag, TW_ERR_UNSUPPORTED, path, -1, "the chat template %s is known with the %s %s, not %s",
                      kinds[kind].name, key, want, json_string_value(v));
}

tw_status tw_chat_recognise(tw_chat_kind *out, const char *directory, tw_diag *diag) {
    if (!out || !directory)
        return tw_fail(diag, TW_ERR_USAGE, "tw_chat_recognise needs a directory and somewhere to put the kind");
    tw_buf file = {0}, config_path = {0}, text = {0};
    json_t *config = NULL;
    tw_status s = TW_OK;
    tw_diag_clear(diag);
    tw_buf_printf(&file, "%s/chat_template.jinja", directory);
    tw_buf_printf(&config_path, "%s/tokenizer_config.json", directory);
    if (file.failed || config_path.failed) {
        s = tw_fail_memory(diag);
        goto done;
    }
    bool alone = tw_file_exists(file.data);
    if (!alone || tw_file_exists(config_path.data)) s = tw_json_load(&config, config_path.data, diag);
    if (s != TW_OK) goto done;
    const char *path = alone ? file.data : config_path.data;
    if (alone) {
        s = tw_file_read(&text, path, diag);
    } else {
        const json_t *t = template_of(config);
        if (!t)
            s = tw_fail_at(diag, TW_ERR_UNSUPPORTED, path, -1, "there is no chat_template");
        else if (!tw_buf_add(&text, json_string_value(t), json_string_length(t)))
            s = tw_fail_memory(diag);
    }
    if (s != TW_OK) goto done;
    s = tw_chat_recognise_text(out, text.data ? text.data : "", text.size);
    if (s == TW_ERR_MEMORY)
        tw_fail_memory(diag);
    else if (s != TW_OK)
        tw_fail_at(
            diag, s, path, -1,
            "the chat template is none that is known (chatml, qwen2, smollm2, llama2, llama3, mistral, zephyr): it "
            "begins \"%.160s\"",
            text.data ? text.data : "");
    if (s == TW_OK) s = check_token(config, config_path.data, *out, "bos_token", kinds[*out].bos, diag);
    if (s == TW_OK) s = check_token(config, config_path.data, *out, "eos_token", kinds[*out].eos, diag);
done:
    json_decref(config);
    tw_buf_free(&file);
    tw_buf_free(&config_path);
    tw_buf_free(&text);
    return s;
}

/* ---- rendering ---- */

/* White space as the templates' strip() sees it: the separators of ASCII count. */
static bool is_blank(uint32_t cp) {
    return tw_is_space(cp) || (cp >= 0x1c && cp <= 0x1f);
}

static void put_stripped(tw_buf *b, const char *s, size_t n) {
    size_t from = 0;
    while (from < n) {
        size_t i = from;
        if (!is_blank(tw_utf8_next(s, &i))) break;
        from = i;
    }
    while (n > from) {
        size_t i = tw_utf8_before(s, n), k = i;
        if (!is_blank(tw_utf8_next(s, &k))) break;
        n = i;
    }
    if (n > from) tw_buf_add(b, s + from, n - from);
}

static void put_turn(tw_buf *b, const char *role, const char *content) {
    tw_buf_str(b, "<|im_start|>");
    tw_buf_str(b, role);
    tw_buf_str(b, "\n");
    tw_buf_str(b, content);
    tw_buf_str(b, "<|im_end|>\n");
}

static void render_chatml(tw_buf *b, const char *otherwise, const tw_chat_message *m, size_t n) {
    if (otherwise && strcmp(m[0].role, "system") != 0) put_turn(b, "system", otherwise);
    for (size_t i = 0; i < n; i++) put_turn(b, m[i].role, m[i].content);
    tw_buf_str(b, "<|im_start|>assistant\n");
}

static void render_llama2(tw_buf *b, const tw_chat_message *m, size_t n) {
    const char *system = strcmp(m[0].role, "system") == 0 ? m[0].content : NULL;
    tw_buf first = {0};
    for (size_t i = system ? 1 : 0; i < n; i++) {
        bool user = i % 2 == (system ? 1 : 0);
        const char *content = m[i].content;
        if (system && i == 1) {
            tw_buf_printf(&first, "<<SYS>>\n%s\n<</SYS>>\n\n%s", system, content);
            if (first.failed)
                b->failed = true;
            else
                content = first.data;
        }
        tw_buf_str(b, user ? "<s>[INST] " : " ");
        put_stripped(b, content, strlen(content));
        tw_buf_str(b, user ? " [/INST]" : " </s>");
    }
    tw_buf_free(&first);
}

static void render_llama3(tw_buf *b, const tw_chat_message *m, size_t n) {
    tw_buf_str(b, "<|begin_of_text|>");
    for (size_t i = 0; i < n; i++) {
        tw_buf_str(b, "<|start_header_id|>");
        tw_buf_str(b, m[i].role);
        tw_buf_str(b, "<|end_header_id|>\n\n");
        put_stripped(b, m[i].content, strlen(m[i].content));
        tw_buf_str(b, "<|eot_id|>");
    }
    tw_buf_str(b, "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

static void render_mistral(tw_buf *b, const char *after, const tw_chat_message *m, size_t n) {
    tw_buf_str(b, "<s>");
    for (size_t i = 0; i < n; i++) {
        if (i % 2 == 0) tw_buf_str(b, "[INST] ");
        tw_buf_str(b, m[i].content);
        tw_buf_str(b, i % 2 == 0 ? " [/INST]" : after);
    }
}

static void render_zephyr(tw_buf *b, const tw_chat_message *m, size_t n) {
    for (size_t i = 0; i < n; i++) {
        tw_buf_str(b, "<|");
        tw_buf_str(b, m[i].role);
        tw_buf_str(b, "|>\n");
        tw_buf_str(b, m[i].content);
        tw_buf_str(b, "</s>\n");
    }
    tw_buf_str(b, "<|assistant|>\n");
}

/* Roles the template can tell apart, in an order it takes. */
static tw_status check_messages(tw_chat_kind kind, const tw_chat_message *m, size_t n, tw_diag *diag) {
    bool turns = kind == TW_CHAT_LLAMA2 || kind == TW_CHAT_MISTRAL || kind == TW_CHAT_MISTRAL_V1;
    bool system = kind != TW_CHAT_MISTRAL && kind != TW_CHAT_MISTRAL_V1;
    size_t first = 0;
    for (size_t i = 0; i < n; i++) {
        if (!m[i].role || !m[i].content) return tw_fail(diag, TW_ERR_USAGE, "message %zu has no role or no content", i);
        bool is_system = !strcmp(m[i].role, "system"), is_user = !strcmp(m[i].role, "user");
        if (!is_system && !is_user && strcmp(m[i].role, "assistant") != 0)
            return tw_fail(diag, TW_ERR_USAGE, "message %zu has the role %.60s, not system, user or assistant", i,
                           m[i].role);
        size_t bad = tw_utf8_check(m[i].content, strlen(m[i].content));
        if (m[i].content[bad]) return tw_fail(diag, TW_ERR_USAGE, "message %zu is not UTF-8 at byte %zu", i, bad);
        if (is_system && !system)
            return tw_fail(diag, TW_ERR_USAGE, "the chat template %s has no system messages", kinds[kind].name);
        if (turns && is_system && i == 0)
            first = 1;
        else if (turns && (is_system || is_user != ((i - first) % 2 == 0)))
            return tw_fail(diag, TW_ERR_USAGE,
                           "the chat template %s wants user and assistant in turns; message %zu is of %s",
                           kinds[kind].name, i, m[i].role);
    }
    return TW_OK;
}

tw_status tw_chat_render_form(tw_chat_kind kind, const tw_chat_message *messages, size_t count, char **text,
                              tw_diag *diag) {
    if (!text || !messages || !count || (int)kind < 0 || (int)kind >= N_KINDS)
        return tw_fail(diag, TW_ERR_USAGE,
                       "tw_chat_render_form needs a known template, messages and somewhere to put the text");
    *text = NULL;
    tw_status s = check_messages(kind, messages, count, diag);
    if (s != TW_OK) return s;
    tw_buf b = {0};
    switch (kind) {
    case TW_CHAT_CHATML:
        render_chatml(&b, NULL, messages, count);
        break;
    case TW_CHAT_QWEN2:
        render_chatml(&b, QWEN2, messages, count);
        break;
    case TW_CHAT_SMOLLM2:
        render_chatml(&b, SMOLLM2, messages, count);
        break;
    case TW_CHAT_LLAMA2:
        render_llama2(&b, messages, count);
        break;
    case TW_CHAT_LLAMA3:
        render_llama3(&b, messages, count);
        break;
    case TW_CHAT_MISTRAL:
        render_mistral(&b, "</s>", messages, count);
        break;
    case TW_CHAT_MISTRAL_V1:
        render_mistral(&b, "</s> ", messages, count);
        break;
    case TW_CHAT_ZEPHYR:
        render_zephyr(&b, messages, count);
        break;
    }
    if (!tw_buf_add(&b, "", 0)) {
        tw_buf_free(&b);
        return tw_fail_memory(diag);
    }
    *text = b.data;
    return TW_OK;
}
