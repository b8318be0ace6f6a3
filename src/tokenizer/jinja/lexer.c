/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a template into tokens. White space around tags is removed as with trim_blocks and lstrip_blocks: a newline
   behind a statement or comment, and blanks before one that begins its line. */
#include "base/diag.h"
#include "tokenizer/jinja/jinja.h"
#include "tokenizer/unicode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct lexer {
    jinja_parser *p;
    const char *s;
    size_t n, i;
    bool line_starting;
    char open[JINJA_NESTING * 4]; /* Open brackets. */
    int n_open;
} lexer;

static jinja_token *push(lexer *l, jinja_token_type type, size_t at) {
    jinja_parser *p = l->p;
    if (p->n == p->room) {
        size_t room = p->room ? 2 * p->room : 256;
        jinja_token *v = realloc(p->tokens, room * sizeof *v);
        if (!v) {
            if (p->status == TW_OK) p->status = tw_fail_memory(p->diag);
            return NULL;
        }
        p->tokens = v;
        p->room = room;
    }
    p->tokens[p->n] = (jinja_token){.type = type, .at = (uint32_t)at};
    return &p->tokens[p->n++];
}

static jinja_value text_value(jinja_template *t, const char *s, size_t n) {
    jinja_string *v = tw_arena_alloc(&t->arena, sizeof *v);
    char *data = tw_arena_strndup(&t->arena, s, n);
    if (!v || !data) return (jinja_value){.kind = JINJA_STRING, .s = &jinja_empty};
    *v = (jinja_string){.data = data, .size = n};
    for (size_t i = 0; i < n; i++) v->chars += ((unsigned char)s[i] & 0xc0) != 0x80;
    return (jinja_value){.kind = JINJA_STRING, .s = v};
}

static void push_data(lexer *l, size_t from, size_t to) {
    if (from >= to) return;
    jinja_value v = text_value(l->p->t, l->s + from, to - from);
    jinja_token *t = push(l, JT_DATA, from);
    if (t) t->value = v;
}

static size_t skip_space(const lexer *l, size_t i) {
    while (i < l->n) {
        size_t k = i;
        if (!jinja_is_space(tw_utf8_next(l->s, &k))) break;
        i = k;
    }
    return i;
}

static bool starts(const lexer *l, size_t i, const char *what) {
    size_t k = strlen(what);
    return l->n - i >= k && !memcmp(l->s + i, what, k);
}

/* Finds where text before a tag ends, given the tag's sign. */
static size_t strip_before(const lexer *l, size_t from, size_t to, char sign, bool printed) {
    if (sign == '-') {
        while (to > from) {
            size_t k = tw_utf8_before(l->s, to), next = k;
            if (!jinja_is_space(tw_utf8_next(l->s, &next))) break;
            to = k;
        }
        return to;
    }
    if (sign == '+' || printed) return to;
    size_t line = to;
    while (line > from && l->s[line - 1] != '\n') line--;
    if (line == from && !l->line_starting) return to;
    for (size_t i = line; i < to;)
        if (!jinja_is_space(tw_utf8_next(l->s, &i))) return to;
    return line;
}

static void ended(lexer *l, size_t to) {
    l->i = to;
    l->line_starting = to && l->s[to - 1] == '\n';
}

/* Reads the end of a tag at i ("%}", with its sign). Returns the byte behind what the tag takes, or 0. */
static size_t tag_end(const lexer *l, size_t i, const char *end, bool plus, bool trim) {
    if (l->s[i] == '-' && starts(l, i + 1, end)) return skip_space(l, i + 3);
    if (plus && l->s[i] == '+' && starts(l, i + 1, end)) return i + 3;
    if (!starts(l, i, end)) return 0;
    i += 2;
    return i + (trim && i < l->n && l->s[i] == '\n');
}

/* Reads {% raw %} at i. Returns the byte behind it. 0: it is another tag. */
static size_t raw_begin(const lexer *l, size_t i, char *sign) {
    i += 2;
    *sign = 0;
    if (i < l->n && (l->s[i] == '-' || l->s[i] == '+')) *sign = l->s[i++];
    i = skip_space(l, i);
    if (!starts(l, i, "raw")) return 0;
    i = skip_space(l, i + 3);
    return i < l->n ? tag_end(l, i, "%}", false, false) : 0;
}

static size_t raw_end(const lexer *l, size_t i, char *sign) {
    i += 2;
    *sign = 0;
    if (i < l->n && (l->s[i] == '-' || l->s[i] == '+')) *sign = l->s[i++];
    i = skip_space(l, i);
    if (!starts(l, i, "endraw")) return 0;
    i = skip_space(l, i + 6);
    return i < l->n ? tag_end(l, i, "%}", true, true) : 0;
}

static void lex_raw(lexer *l, size_t tag, size_t body) {
    ended(l, body);
    for (size_t i = body; i + 1 < l->n; i++) {
        char sign;
        size_t end;
        if (!starts(l, i, "{%") || !(end = raw_end(l, i, &sign))) continue;
        push_data(l, body, strip_before(l, body, i, sign, false));
        ended(l, end);
        return;
    }
    jinja_syntax(l->p, (uint32_t)tag, TW_ERR_FORMAT, "raw is never ended by endraw");
}

static void lex_comment(lexer *l, size_t tag, size_t body) {
    for (size_t i = body; i + 1 < l->n; i++) {
        size_t end = tag_end(l, i, "#}", true, true);
        if (!end) continue;
        ended(l, end);
        return;
    }
    jinja_syntax(l->p, (uint32_t)tag, TW_ERR_FORMAT, "the comment is never ended by #}");
}

/* ---- inside a tag ---- */

static size_t digits(const lexer *l, size_t i, const char *allowed) {
    /* Reads (_?digit)*. Some callers have checked that it begins with a digit. */
    while (i < l->n) {
        size_t k = i + (l->s[i] == '_');
        if (k >= l->n || !l->s[k] || !strchr(allowed, l->s[k])) break;
        i = k + 1;
    }
    return i;
}

#define DECIMAL "0123456789"

/* Reads (\d+_)*\d+ at i. Returns its end, or i if there is none. */
static size_t decimal(const lexer *l, size_t i) {
    if (i >= l->n || l->s[i] < '0' || l->s[i] > '9') return i;
    return digits(l, i, DECIMAL);
}

static size_t float_end(const lexer *l, size_t i) {
    if (i && l->s[i - 1] == '.') return 0;
    size_t a = decimal(l, i);
    if (a == i) return 0;
    size_t b = a;
    if (a < l->n && l->s[a] == '.' && decimal(l, a + 1) > a + 1) b = decimal(l, a + 1);
    size_t e = b;
    if (e < l->n && (l->s[e] == 'e' || l->s[e] == 'E')) {
        size_t k = e + 1;
        if (k < l->n && (l->s[k] == '+' || l->s[k] == '-')) k++;
        if (decimal(l, k) > k) return decimal(l, k);
    }
    return b > a ? b : 0;
}

/* Copies a number's text without underscores. */
static bool plain_number(const lexer *l, size_t from, size_t to, char *out, size_t room) {
    size_t k = 0;
    for (size_t i = from; i < to; i++) {
        if (l->s[i] == '_') continue;
        if (k + 1 == room) return false;
        out[k++] = l->s[i];
    }
    out[k] = 0;
    return true;
}

static bool lex_number(lexer *l) {
    char text[512];
    size_t from = l->i, to = float_end(l, from);
    if (to) {
        if (!plain_number(l, from, to, text, sizeof text)) goto large;
        jinja_token *t = push(l, JT_FLOAT, from);
        if (t) t->value = jinja_float(strtod(text, NULL));
        l->i = to;
        return true;
    }
    char c = l->s[from];
    if (c < '0' || c > '9') return false;
    int base = 10, skip = 0;
    char kind = from + 1 < l->n ? (char)(l->s[from + 1] | 32) : 0;
    const char *set = kind == 'b' ? "01" : kind == 'o' ? "01234567" : "0123456789abcdefABCDEF";
    if (c == '0' && (kind == 'b' || kind == 'o' || kind == 'x') && digits(l, from + 2, set) > from + 2) {
        base = kind == 'b' ? 2 : kind == 'o' ? 8 : 16;
        skip = 2;
        to = digits(l, from + 2, set);
    } else
        to = digits(l, from + 1, c == '0' ? "0" : DECIMAL);
    if (!plain_number(l, from + (size_t)skip, to, text, sizeof text)) goto large;
    errno = 0;
    long long v = strtoll(text, NULL, base);
    if (errno) goto large;
    jinja_token *t = push(l, JT_INT, from);
    if (t) t->value = jinja_int(v);
    l->i = to;
    return true;
large:
    jinja_syntax(l->p, (uint32_t)from, TW_ERR_UNSUPPORTED, "a number beyond 64 bits");
    return true;
}

static bool lex_name(lexer *l) {
    size_t from = l->i, i = from;
    while (i < l->n) {
        size_t k = i;
        uint32_t c = tw_utf8_next(l->s, &k);
        bool ascii = c < 0x80;
        bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
        if (ascii ? !(letter || c == '_' || (c >= '0' && c <= '9' && i > from))
                  : !jinja_is(c, i > from ? JC_ID_CONTINUE : JC_ID_START))
            break;
        i = k;
    }
    if (i == from) return false;
    uint32_t name = jinja_intern(l->p->t, l->s + from, i - from);
    jinja_token *t = push(l, JT_NAME, from);
    if (t) t->name = name;
    l->i = i;
    return true;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Reads an escape of Python's at s[*i], behind the backslash. False: it is an error, or not supported. */
static bool unescape(const char *s, size_t n, size_t *i, tw_buf *out) {
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    unsigned char c = (unsigned char)s[*i];
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        tw_buf_add(out, &to[simple - from], 1);
        ++*i;
        return true;
    }
    if (c == '\n') {
        ++*i;
        return true;
    }
    uint32_t v = 0;
    if (c >= '0' && c <= '7') {
        for (int k = 0; k < 3 && *i < n && s[*i] >= '0' && s[*i] <= '7'; k++) v = 8 * v + (uint32_t)(s[(*i)++] - '0');
    } else if (c == 'x' || c == 'u' || c == 'U') {
        int want = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        ++*i;
        for (int k = 0; k < want; k++) {
            int d = *i < n ? hex_digit(s[*i]) : -1;
            if (d < 0) return false;
            v = 16 * v + (uint32_t)d;
            ++*i;
        }
        if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) return false;
    } else if (c == 'N')
        return false; /* \N names a character. */
    else if (c >= 0x80) {
        /* Python spells the character out before it looks for escapes, and so uses the backslash itself. */
        char text[16];
        uint32_t cp = tw_utf8_next(s, i);
        snprintf(text, sizeof text, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)cp);
        tw_buf_str(out, text);
        return true;
    } else {
        tw_buf_add(out, "\\", 1); /* This is no escape, so both characters stay. */
        tw_buf_add(out, &c, 1);
        ++*i;
        return true;
    }
    char utf8[4];
    tw_buf_add(out, utf8, tw_utf8_put(utf8, v));
    return true;
}

static bool lex_string(lexer *l) {
    size_t from = l->i, i = from + 1;
    char quote = l->s[from];
    while (i < l->n && l->s[i] != quote) i += l->s[i] == '\\' ? 2 : 1;
    if (i >= l->n) {
        jinja_syntax(l->p, (uint32_t)from, TW_ERR_FORMAT, "the string is never ended");
        return true;
    }
    tw_buf text = {0};
    tw_buf_add(&text, "", 0);
    for (size_t k = from + 1; k < i;) {
        if (l->s[k] != '\\') {
            tw_buf_add(&text, &l->s[k++], 1);
            continue;
        }
        size_t escape = k++;
        if (!unescape(l->s, i, &k, &text)) {
            jinja_syntax(l->p, (uint32_t)escape, TW_ERR_FORMAT, "the escape \\%c is not understood", l->s[escape + 1]);
            break;
        }
    }
    if (text.failed && l->p->status == TW_OK) l->p->status = tw_fail_memory(l->p->diag);
    if (l->p->status == TW_OK) {
        jinja_value v = text_value(l->p->t, text.data ? text.data : "", text.size);
        jinja_token *t = push(l, JT_STRING, from);
        if (t) t->value = v;
    }
    tw_buf_free(&text);
    l->i = i + 1;
    return true;
}

static bool balance(lexer *l, char c) {
    if (c == '(' || c == '[' || c == '{') {
        if (l->n_open == (int)sizeof l->open) {
            jinja_syntax(l->p, (uint32_t)l->i, TW_ERR_UNSUPPORTED, "brackets nested too deeply");
            return false;
        }
        l->open[l->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (!l->n_open || l->open[--l->n_open] != c) {
            jinja_syntax(l->p, (uint32_t)l->i, TW_ERR_FORMAT, "unexpected '%c'", c);
            return false;
        }
    }
    return true;
}

static bool lex_operator(lexer *l) {
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    char c = l->s[l->i];
    uint16_t op = (uint16_t)(unsigned char)c;
    for (size_t k = 0; k < sizeof two / sizeof *two; k++)
        if (starts(l, l->i, two[k])) op = (uint16_t)((unsigned char)two[k][0] | (unsigned char)two[k][1] << 8);
    if (op < 256 && (!c || !strchr("+-/*%~[](){}><=.:|,;", c))) return false;
    if (op < 256 && !balance(l, c)) return true;
    jinja_token *t = push(l, JT_OPERATOR, l->i);
    if (t) t->op = op;
    l->i += op < 256 ? 1 : 2;
    return true;
}

static void lex_tag(lexer *l, bool printed) {
    l->n_open = 0;
    size_t tag = l->i - 2;
    while (l->p->status == TW_OK && !l->p->t->arena.failed) {
        if (l->i >= l->n) {
            jinja_syntax(l->p, (uint32_t)tag, TW_ERR_FORMAT, "the tag is never ended by %s", printed ? "}}" : "%}");
            return;
        }
        size_t end = l->n_open ? 0 : tag_end(l, l->i, printed ? "}}" : "%}", !printed, !printed);
        if (end) {
            push(l, printed ? JT_PRINT_END : JT_BLOCK_END, l->i);
            ended(l, end);
            return;
        }
        size_t k = skip_space(l, l->i);
        if (k > l->i) {
            l->i = k;
            continue;
        }
        char c = l->s[l->i];
        if (lex_number(l) || lex_name(l)) continue;
        if ((c == '\'' || c == '"') && lex_string(l)) continue;
        if (lex_operator(l)) continue;
        jinja_syntax(l->p, (uint32_t)l->i, TW_ERR_FORMAT, "unexpected character");
    }
}

/* Finds the next tag from i on. n: there is none. */
static size_t find_tag(const lexer *l, size_t i) {
    for (; i + 1 < l->n; i++) {
        const char *brace = memchr(l->s + i, '{', l->n - 1 - i);
        if (!brace) break;
        i = (size_t)(brace - l->s);
        if (l->s[i + 1] == '%' || l->s[i + 1] == '{' || l->s[i + 1] == '#') return i;
    }
    return l->n;
}

void jinja_lex(jinja_parser *p) {
    lexer *l = calloc(1, sizeof *l);
    if (!l) {
        p->status = tw_fail_memory(p->diag);
        return;
    }
    *l = (lexer){.p = p, .s = p->t->text, .n = p->t->size, .line_starting = true};
    while (p->status == TW_OK && !p->t->arena.failed && l->i < l->n) {
        size_t from = l->i, tag = find_tag(l, from);
        if (tag == l->n) {
            push_data(l, from, tag);
            break;
        }
        char kind = l->s[tag + 1], sign = 0;
        size_t raw = kind == '%' ? raw_begin(l, tag, &sign) : 0, inside = tag + 2;
        if (!raw && inside < l->n && (l->s[inside] == '-' || l->s[inside] == '+')) sign = l->s[inside++];
        push_data(l, from, strip_before(l, from, tag, sign, kind == '{'));
        l->line_starting = false;
        l->i = inside;
        if (raw)
            lex_raw(l, tag, raw);
        else if (kind == '#')
            lex_comment(l, tag, inside);
        else {
            push(l, kind == '{' ? JT_PRINT_BEGIN : JT_BLOCK_BEGIN, tag);
            lex_tag(l, kind == '{');
        }
    }
    push(l, JT_END, l->n);
    free(l);
}
