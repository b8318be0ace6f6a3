/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of programs: what shares it, and that programs which use it wrongly are refused. */
#include "base/diag.h"
#include "base/random.h"
#include "graph/program/program.h"
#include "kernels/rows/rows.h"
#include "support/support.h"

#include <string.h>

/* A chain of maps: input -> b0 -> b1 -> ... -> output. */
typedef struct chain {
    tw_program *p;
    int input, constant, output;
} chain;

enum { N = 100 };
static const float numbers[N];
static const tw_map_problem map = {.x.rank = 1};

static int buffer(tw_program *p, tw_program_buffer_kind kind, int64_t elements) {
    const tw_program_buffer b = {
        .name = "b", .kind = kind, .bytes = 4 * elements, .content = numbers, .number = 0, .offset = -1};
    return tw_program_add_buffer(p, &b);
}

static tw_view vector(int b, int64_t from, int64_t n, int64_t stride) {
    return (tw_view){.buffer = b, .offset = 4 * from, .type = TW_E_f32, .rank = 1, .dims = {n}, .strides = {stride}};
}

static void step(tw_program *p, tw_view in, tw_view out) {
    const tw_step s = {.kind = TW_STEP_MAP, .in = &in, .n_in = 1, .out = &out, .n_out = 1, .of.map = &map};
    tw_program_add_step(p, &s);
}

static chain begin(void) {
    chain c = {.p = tw_program_new(NULL)};
    c.input = buffer(c.p, TW_PROGRAM_INPUT, N);
    c.constant = buffer(c.p, TW_PROGRAM_CONSTANT, N);
    c.output = buffer(c.p, TW_PROGRAM_OUTPUT, N);
    return c;
}

static void good(const chain *c) {
    tw_diag diag = {0};
    assert_int_equal(tw_program_plan_memory(c->p, &diag), TW_OK);
    if (tw_program_verify(c->p, &diag) != TW_OK) fail_msg("%s", diag.message);
}

static void refused(chain *c, const char *why) {
    tw_diag diag = {0};
    assert_int_equal(tw_program_verify(c->p, &diag), TW_ERR_REJECTED);
    if (!strstr(diag.message, why)) fail_msg("\"%s\" is not \"%s\"", diag.message, why);
    tw_program_free(c->p);
}

/* Buffers b[0] to b[n - 1] of a chain. */
static chain chain_of(int n, int *b) {
    chain c = begin();
    for (int i = 0; i < n; i++) b[i] = buffer(c.p, TW_PROGRAM_SCRATCH, N);
    for (int i = 0; i <= n; i++)
        step(c.p, vector(i ? b[i - 1] : c.input, 0, N, 1), vector(i < n ? b[i] : c.output, 0, N, 1));
    good(&c);
    return c;
}

static void buffers_share_memory(void **state) {
    (void)state;
    int b[5];
    const chain c = chain_of(5, b);
    /* Two live at once. */
    assert_int_equal(c.p->scratch_bytes, 2 * 512);
    tw_program_free(c.p);
}

/* Random programs: each step reads some of the buffers that are there. Their lives differ, and their sizes. */
static void random_programs_hold(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        tw_random r = tw_random_seed(seed);
        chain c = begin();
        int written[64] = {c.input}, n = 1;
        for (int i = 0; i < 40; i++) {
            const int64_t size = 1 + (int64_t)tw_random_below(&r, 2000);
            const int out = buffer(c.p, TW_PROGRAM_SCRATCH, size);
            const int in = written[tw_random_below(&r, (uint64_t)n)];
            step(c.p, vector(in, 0, 1 + (int64_t)tw_random_below(&r, (uint64_t)c.p->buffers[in].bytes / 4), 1),
                 vector(out, 0, size, 1));
            written[n++] = out;
        }
        step(c.p, vector(written[n - 1], 0, 1, 0), vector(c.output, 0, N, 1));
        good(&c);
        for (int i = 0; i < c.p->n_buffers; i++)
            if (c.p->buffers[i].offset >= 0) assert_int_equal(c.p->buffers[i].offset % TW_PROGRAM_ALIGN, 0);
        tw_program_free(c.p);
    }
}

static void strided_views_are_followed(void **state) {
    (void)state;
    chain c = begin();
    const int b = buffer(c.p, TW_PROGRAM_SCRATCH, 2 * N);
    step(c.p, vector(c.input, N - 1, N, -1), vector(b, 0, N, 2));
    step(c.p, vector(c.constant, 0, N, 1), vector(b, 1, N, 2));
    step(c.p, vector(b, 0, N, 1), vector(c.output, 0, N, 1));
    good(&c);
    /* Without the second step every other element is not written. */
    c.p->steps[1] = c.p->steps[2];
    c.p->n_steps = 2;
    refused(&c, "is read where it was not written");
}

static void wrong_programs_are_refused(void **state) {
    (void)state;
    int b[3];
    chain c = chain_of(3, b);
    c.p->buffers[b[1]].offset = c.p->buffers[b[0]].offset; /* A step writes where it reads. */
    refused(&c, "is overwritten while it is read");
    c = chain_of(3, b);
    c.p->buffers[b[2]].offset += 4; /* Its end is beyond scratch memory, or another's. */
    c.p->steps[3].in[0].buffer = b[0];
    refused(&c, "");
    c = chain_of(3, b);
    c.p->steps[0].out[0].buffer = c.constant;
    refused(&c, "is written");
    c = chain_of(3, b);
    c.p->steps[2].out[0].buffer = c.input;
    refused(&c, "is written");
    c = chain_of(3, b);
    c.p->steps[1].in[0].offset = 4;
    refused(&c, "beyond its end");
    c = chain_of(3, b);
    c.p->steps[3].out[0].dims[0] = N - 1;
    refused(&c, "is not written");
    c = chain_of(3, b);
    c.p->buffers[b[0]].offset = c.p->scratch_bytes;
    refused(&c, "does not lie in scratch memory");
    c = chain_of(3, b);
    const tw_step first = c.p->steps[1];
    c.p->steps[1] = c.p->steps[2]; /* Out of order. */
    c.p->steps[2] = first;
    refused(&c, "is read where it was not written");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_share_memory),
        cmocka_unit_test(random_programs_hold),
        cmocka_unit_test(strided_views_are_followed),
        cmocka_unit_test(wrong_programs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
