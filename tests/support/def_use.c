/* SPDX-License-Identifier: Apache-2.0 */
#include "support/def_use.h"

#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static bool each(const tw_kernel *k, const tw_block *block, test_op_fn *see, void *context) {
    for (const tw_ir_op *op = block->first; op; op = op->next) {
        if (!see(context, k, op)) return false;
        for (int i = 0; i < op->n_blocks; i++)
            if (!each(k, &op->blocks[i], see, context)) return false;
    }
    return true;
}

void test_each_op(const tw_kernel *k, test_op_fn *see, void *context) {
    each(k, &k->body, see, context);
}

void test_each_op_within(const tw_kernel *k, const tw_ir_op *op, test_op_fn *see, void *context) {
    for (int i = 0; i < op->n_blocks; i++)
        if (!each(k, &op->blocks[i], see, context)) return;
}

/* The closure of what defines a set of values, reached by going over the kernel until nothing is added. */
typedef struct closure {
    bool *wanted; /* [value] */
    bool grew, through;
    test_op_fn *is;
    void *context;
    const tw_ir_op *found[4096];
    int n;
} closure;

static bool defines(const closure *c, const tw_ir_op *op) {
    for (int i = 0; i < op->n_results; i++)
        if (c->wanted[op->results[i].id]) return true;
    return false;
}

static bool grow(void *context, const tw_kernel *k, const tw_ir_op *op) {
    closure *c = context;
    if (!defines(c, op)) return true;
    if (c->is && c->is(c->context, k, op)) {
        bool known = false;
        for (int i = 0; i < c->n; i++) known |= c->found[i] == op;
        if (!known) {
            assert_true(c->n < 4096);
            c->found[c->n++] = op;
        }
        if (!c->through) return true;
    }
    for (int i = 0; i < op->n_operands; i++) {
        int id = op->operands[i].id;
        c->grew |= id && !c->wanted[id];
        c->wanted[id] = true;
    }
    return true;
}

static void close(closure *c, const tw_kernel *k, tw_val value) {
    c->wanted = calloc((size_t)k->n_values + 1, sizeof *c->wanted);
    assert_non_null(c->wanted);
    c->wanted[value.id] = true;
    do {
        c->grew = false;
        test_each_op(k, grow, c);
    } while (c->grew);
}

int test_depends_on(const tw_kernel *k, tw_val value, test_op_fn *is, void *context, bool through) {
    closure *c = calloc(1, sizeof *c);
    assert_non_null(c);
    *c = (closure){.is = is, .context = context, .through = through};
    close(c, k, value);
    int n = c->n;
    free(c->wanted);
    free(c);
    return n;
}

bool test_depends_on_parameter(const tw_kernel *k, tw_val value, const char *name) {
    closure c = {.through = true};
    bool found = false;
    close(&c, k, value);
    for (int i = 0; i < k->n_parameters; i++)
        found |= !strcmp(k->parameters[i].name, name) && c.wanted[k->parameters[i].value.id];
    free(c.wanted);
    return found;
}
