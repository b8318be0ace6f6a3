/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that tests write in the words of patterns (graph/patterns/term.h). */
#ifndef TW_TEST_PATTERNS_H
#define TW_TEST_PATTERNS_H

#include "graph/patterns/fuse.h"
#include "graph/patterns/term.h"

enum { TEST_PATTERN_VALUES = 16 };

/* A graph of one expression. */
typedef struct test_pattern {
    tw_graph *g;
    tw_term_names names;
    int values[TEST_PATTERN_VALUES]; /* Of names. */
    tw_arena arena;
} test_pattern;

/* Makes a graph of declarations, like "x 2,3,4; mask bool 2,1,1,5; gain! 8; shape! = 2,12", and expressions. Values are
   of f64 if nothing else is said; ! marks a constant. The last expression is the output, and those with @0 are, too. */
test_pattern test_pattern_make(const char *declared, const char *expression);
void test_pattern_end(test_pattern *p);

/* A graph, the operators that are left of it, and a pattern that is found. NULL: any. */
typedef struct test_trial {
    const char *declared, *expression, *want, *pattern;
} test_trial;

/* Rewrites graphs, and compares their results with those they had. */
void test_patterns_check(const test_trial *t, size_t n);
/* Does the same with graphs that are changed a little, each so many times: other operands, constants and outputs. What
   is left of them is not looked at. */
void test_patterns_change(const test_trial *t, size_t n, int times);
#define CHECK_ALL(table)                                                                                               \
    test_patterns_check(table, sizeof table / sizeof *table);                                                          \
    test_patterns_change(table, sizeof table / sizeof *table, TEST_SANITIZED ? 2 : 12)

#endif
