/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
/* Every allocation of parsing and rendering a template fails once: an error that says so, and no leak. */
#include "support/support.h"

#include "support/alloc_fail.h"
#include "tokenizer/chat.h"

#include <stdlib.h>
#include <string.h>

static const char everything[] =
    "{% macro m(a, b=2) %}[{{ a ~ b }}{{ varargs }}{{ kwargs }}{{ caller() if caller }}]{% endmacro %}"
    "{% set ns = namespace(n=0, t='') %}{% for x in messages if x.role != 'none' %}{{ loop.index }}/{{ loop.length }}"
    "{% set ns.n = ns.n + 1 %}{% set ns.t = ns.t + x.content + 'abc' * 20 %}{% if loop.index > 5 %}{% break %}{% endif "
    "%}"
    "{% else %}none{% endfor %}{{ ns.t | upper | replace('A', 'bb') | indent }}{{ ns }}"
    "{% call(v) m(1, c=3) %}{{ v }}{% endcall %}{{ m(1, 2, 3) }}"
    "{% for k, v in {'a': [1, 2.5, none], 'b': 'c', 'd': 1, 'e': 2, 'f': 3, 'g': 4, 'h': 5, 'i': 6, 'j': 7}.items() "
    "recursive %}"
    "{{ k }}{% if v is string %}{{ loop([['x', 1]]) }}{% endif %}{% endfor %}"
    "{% set t | trim | title %} {{ messages | tojson(indent=2, sort_keys=true) }} {% endset %}{{ t[3:-2:2] }}"
    "{{ messages | map(attribute='content') | select('string') | sort | join('|') }}{{ 'a b,c'.split(',') | list }}"
    "{{ [3, 1] | sort | batch(1) | list }}{{ '%s %5.2f' % ('x', 1.5) }}{{ '{:>8}|{k}'.format('y', k='z') }}"
    "{{ 'some words to be wrapped around here' | wordwrap(10) }}{{ ('<' | safe) + '>' }}{{ {'k': '<v>'} | xmlattr }}"
    "{% filter lower %}ABC{% endfilter %}{% with q = 1 %}{{ q }}{% endwith %}{{ [{'g': 1}] | groupby('g') }}"
    "{% generation %}{{ bos_token }}{% endgeneration %}{% set c = cycler('a', 'b') %}{{ c.next() }}{{ range(9)[::2] | "
    "list }}"
    "{{ 'x' is divisibleby 2 if false else 'y' 'z' }}{{ strftime_now('%Y') }}{{ "
    "messages[0].content.strip().partition('i') }}";

/* Jansson is left out of it: when the buffer of a token fails to grow, its lexer takes no notice. */
void *__real_malloc(size_t n);

static int attempt(void *context) {
    char **whole = context; /* the text, once it was rendered */
    static const tw_chat_request r = {.messages = "[{\"role\": \"user\", \"content\": \" hi \"}, {\"role\": "
                                                  "\"assistant\", \"content\": \"ho\", \"reasoning\": \"r\"}]",
                                      .tools = "[{\"name\": \"f\"}]",
                                      .arguments = "{\"x\": [1, 2.5, {\"y\": null}]}",
                                      .now = 1700000000};
    tw_chat *c = NULL;
    tw_chat_text t = {0};
    tw_diag diag = {0};
    json_set_alloc_funcs(__real_malloc, free);
    tw_status s = tw_chat_open_memory(&c, everything, sizeof everything - 1, NULL, "t", &diag);
    if (s == TW_OK) s = tw_chat_render(c, &r, &t, &diag);
    bool cut = s == TW_OK && *whole && strcmp(t.text, *whole) != 0;
    if (s == TW_OK && !*whole) *whole = strdup(t.text);
    tw_chat_text_free(&t);
    tw_chat_close(c);
    if (s != TW_OK && s != TW_ERR_MEMORY) print_error("%d:%d: %s\n", diag.line, diag.column, diag.message);
    if (cut) return 2; /* a failure that nobody was told of */
    return s == TW_OK ? 0 : s == TW_ERR_MEMORY && diag.message[0] ? 1 : 2;
}

static void every_allocation(void **state) {
    (void)state;
    char *whole = NULL;
    assert_int_equal(attempt(&whole), 0);
    alloc_fail_exhaust(attempt, &whole);
    free(whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
