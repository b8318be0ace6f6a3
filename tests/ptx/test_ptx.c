/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation of the table and random kernels, printed for every target and assembled where ptxas is on PATH. */
#define _GNU_SOURCE
#include "ptx/assemble.h"
#include "ptx/every.h"

#include "ptx/ptx.h"

static tw_buf print(const tw_kernel *k, const tw_target *t) {
    tw_buf out = {0};
    tw_diag d;
    if (tw_ptx_print(&out, k, t, &d) != TW_OK) fail_msg("%s", d.message);
    return out;
}

static void prints_and_assembles(const tw_kernel *k, const tw_target *t) {
    tw_buf once = print(k, t), again = print(k, t);
    assert_string_equal(once.data, again.data);
    if (have_ptxas()) assemble(&once, t);
    tw_buf_free(&once);
    tw_buf_free(&again);
}

static void every_scalar_operation(void **state) {
    (void)state;
    const tw_target *t;
    for (int i = 0; (t = tw_target_at(i)); i++)
        for (int constants = 0; constants < 2; constants++) {
            tw_random r = tw_random_seed(1);
            tw_kernel *k = tw_kernel_new("scalar", t->sm, 128);
            pool p = pool_of(k, constants ? &r : NULL);
            for (int turn = 0; turn < (constants ? 6 : 1); turn++)
                for (int c = 0; c < TW_OPCODES; c++)
                    if (tw_op_describe((tw_opcode)c)->scalar) pool_scalar(&p, (tw_opcode)c, true);
            prints_and_assembles(k, t);
            tw_kernel_free(k);
        }
}

enum { AT_ONCE = 1000 };

/* Control cannot come back from these, so without a guard they end the kernel. */
static bool ends(tw_opcode code) {
    return code == TW_OP_exit || code == TW_OP_trap;
}

/* All are printed; each is assembled for one target at least, and each operation for all. */
static void every_form_of_every_operation(void **state) {
    const forms *f = *state;
    const tw_target *t;
    for (int i = 0; (t = tw_target_at(i)); i++)
        for (int from = 0; from < f->n; from += AT_ONCE) {
            tw_kernel *k = tw_kernel_new("forms", t->sm, 128), *some = tw_kernel_new("some", t->sm, 128);
            pool p = pool_of(k, NULL), q = pool_of(some, NULL);
            for (int j = from; j < f->n && j < from + AT_ONCE; j++) {
                int guard = ends(f->of[j].code) ? 1 : (i + j) % 3;
                if (f->of[j].sm > t->sm) continue;
                pool_form(&p, &f->of[j], guard, false);
                bool first = j == 0 || f->of[j].code != f->of[j - 1].code;
                if (first || (i + j) % 5 == 0) pool_form(&q, &f->of[j], guard, true);
            }
            tw_buf out = print(k, t);
            tw_buf_free(&out);
            prints_and_assembles(some, t);
            tw_kernel_free(k);
            tw_kernel_free(some);
        }
}

/* What a target lacks is refused by its name. */
static void what_a_target_lacks(void **state) {
    const forms *f = *state;
    const tw_target *t;
    int refused = 0;
    for (int i = 0; (t = tw_target_at(i)); i++)
        for (int j = 0; j < f->n; j++) {
            if (f->of[j].sm <= t->sm) continue;
            tw_kernel *k = tw_kernel_new("lacks", t->sm, 128);
            pool p = pool_of(k, NULL);
            pool_form(&p, &f->of[j], 0, true);
            tw_buf out = {0};
            tw_diag d;
            if (tw_ptx_print(&out, k, t, &d) != TW_ERR_UNSUPPORTED) fail_msg("%s: %s", t->name, out.data);
            assert_non_null(strstr(d.message, tw_op_describe(f->of[j].code)->name));
            assert_non_null(strstr(d.message, t->name));
            assert_int_equal(out.size, 0);
            tw_buf_free(&out);
            tw_kernel_free(k);
            refused++;
        }
    assert_true(refused > 100);
}

static void says_no(tw_kernel *k, const char *target, const char *what) {
    tw_buf out = {0};
    tw_diag d;
    tw_buf_str(&out, "before");
    assert_int_equal(tw_ptx_print(&out, k, tw_target_find(target), &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, what));
    assert_string_equal(out.data, "before");
    tw_buf_free(&out);
    tw_kernel_free(k);
}

static tw_kernel *with(tw_opcode code, tw_attrs at) {
    tw_kernel *k = tw_kernel_new("odd", 80, 32);
    pool p = pool_of(k, NULL);
    pool_form(&p, &(form){.code = code, .at = at}, 0, false);
    return k;
}

static void what_ptx_cannot_say(void **state) {
    (void)state;
    says_no(with(TW_OP_ld, (tw_attrs){.type = TW_T_i32, .order = TW_ORDER_release}), "sm_90", "ld");
    says_no(with(TW_OP_st, (tw_attrs){.type = TW_T_i32, .order = TW_ORDER_acquire}), "sm_90", "st");
    says_no(with(TW_OP_ld, (tw_attrs){.type = TW_T_f64, .vec = 8}), "sm_100", "width");
    says_no(with(TW_OP_ld, (tw_attrs){.type = TW_T_i32, .vec = 8, .space = TW_SPACE_shared}), "sm_100", "256");
    says_no(with(TW_OP_red, (tw_attrs){.type = TW_T_i32, .rmw = TW_RMW_exch}), "sm_90", "red");
    says_no(with(TW_OP_red, (tw_attrs){.type = TW_T_i32, .order = TW_ORDER_acquire}), "sm_90", "order");
    says_no(with(TW_OP_atom, (tw_attrs){.type = TW_T_f32, .rmw = TW_RMW_xor}), "sm_90", "atom");
    says_no(with(TW_OP_atom, (tw_attrs){.type = TW_T_i64, .rmw = TW_RMW_inc}), "sm_90", "atom");
    says_no(with(TW_OP_fence_proxy, (tw_attrs){0}), "sm_90", "proxy");
    says_no(tw_kernel_new("not a name", 80, 32), "sm_80", "name");
    tw_kernel *k = tw_kernel_new("pair", 90, 32);
    k->cluster = 2;
    says_no(k, "sm_89", "cluster");
}

/* A constant's text says each of its bits. */
static void constants_are_exact(void **state) {
    (void)state;
    static const struct {
        tw_type type;
        uint64_t bits;
        const char *text;
    } constants[] = {
        {TW_T_f32, 0x3fc12345, "0f3FC12345"},
        {TW_T_f32, 0x80000000, "0f80000000"},
        {TW_T_f64, 0x3fb999999999999a, "0d3FB999999999999A"},
        {TW_T_i32, 0xffffffff, "-1"},
        {TW_T_i32, 0x80000000, "-2147483648"},
        {TW_T_i64, 0xffffffff, "4294967295"},
        {TW_T_i64, 0xffffffff80000000, "-2147483648"},
        {TW_T_i64, 0xfedcba9876543210, "0xFEDCBA9876543210"},
        {TW_T_i64, 0x100000000, "0x0000000100000000"},
        {TW_T_f16, 0x3c01, "0x3C01"},
        {TW_T_bf16x2, 0x3f80bf81, "0x3F80BF81"},
    };
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        tw_kernel *k = tw_kernel_new("constant", 80, 32);
        tw_builder b = tw_builder_of(k);
        tw_val out = tw_pointer_add(&b, "out", 16, false);
        tw_val x = tw_var_of(&b, tw_const(&b, constants[i].type, constants[i].bits));
        tw_st(&b, (tw_attrs){.type = constants[i].type}, out, &x);
        char want[64];
        snprintf(want, sizeof want, ", %s;\n", constants[i].text);
        tw_buf text = print(k, tw_target_find("sm_80"));
        if (!strstr(text.data, want)) fail_msg("%s is not in: %s", constants[i].text, text.data);
        tw_buf_free(&text);
        tw_kernel_free(k);
    }
}

/* -- random kernels */

static int below(pool *p, int n) {
    return (int)tw_random_below(p->r, (uint64_t)n);
}

static void statements(pool *p, const forms *f, int n, int depth, int sm);

static void inside(pool *p, const forms *f, int depth, int sm) {
    pool saved = *p;
    statements(p, f, below(p, 5), depth - 1, sm);
    saved.b = p->b;
    *p = saved;
}

static void loops(pool *p, const forms *f, int depth, int sm) {
    tw_type t = below(p, 2) ? TW_T_i32 : TW_T_i64;
    tw_val from = pool_take(p, t), end = pool_take(p, t), v = tw_var_of(&p->b, from);
    const tw_scope loop =
        tw_push_for(&p->b, from, below(p, 2) ? v : end, tw_const(&p->b, t, 1 + (uint64_t)below(p, 4)), below(p, 2));
    tw_assign(&p->b, v, end);
    inside(p, f, depth, sm);
    tw_pop(&p->b, loop);
    pool_put(p, t, v);
}

static void whiles(pool *p, const forms *f, int depth, int sm) {
    tw_val i = tw_var_of(&p->b, tw_i32(&p->b, below(p, 9)));
    const tw_scope poll = tw_push_while(&p->b);
    tw_val go = tw_lt(&p->b, i, pool_take(p, TW_T_i32));
    tw_push_while_body(&p->b, poll, go);
    tw_op_to(&p->b, i, TW_OP_add_i32, i, tw_i32(&p->b, 1), TW_NONE);
    inside(p, f, depth, sm);
    tw_pop(&p->b, poll);
}

static void branches(pool *p, const forms *f, int depth, int sm) {
    bool otherwise = below(p, 2);
    const tw_scope if_pool_take = tw_push_if(&p->b, pool_take(p, TW_T_pred));
    inside(p, f, depth, sm);
    if (otherwise) {
        tw_push_else(&p->b, if_pool_take);
        inside(p, f, depth, sm);
    }
    tw_pop(&p->b, if_pool_take);
}

static void warps(pool *p, const forms *f, int depth, int sm) {
    const tw_scope roles = tw_push_roles(&p->b, (const int[]){0, 1, 1, 2, 3, 4}, 3);
    for (int i = 0; i < 3; i++) {
        if (i) tw_next_role(&p->b, roles);
        inside(p, f, depth, sm);
    }
    tw_pop(&p->b, roles);
}

static void statements(pool *p, const forms *f, int n, int depth, int sm) {
    for (int i = 0; i < n; i++) {
        int kind = below(p, 20), c = below(p, TW_OPCODES);
        const form *x = &f->of[below(p, f->n)];
        if (kind < 4 && depth)
            (kind == 0 ? loops : kind == 1 ? whiles : kind == 2 ? branches : warps)(p, f, depth, sm);
        else if (kind < 10 && tw_op_describe((tw_opcode)c)->scalar)
            pool_scalar(p, (tw_opcode)c, below(p, 2));
        else if (!ends(x->code) && x->sm <= sm)
            pool_form(p, x, below(p, 3), below(p, 2));
    }
}

static void random_kernels(void **state) {
    const forms *f = *state;
    for (int seed = 0; seed < 60; seed++) {
        const tw_target *t = tw_target_at(seed % 5);
        tw_random r = tw_random_seed((uint64_t)seed);
        tw_kernel *k = tw_kernel_new("drawn", t->sm, 128);
        pool p = pool_of(k, &r);
        k->min_blocks = seed % 3;
        k->max_registers = seed % 5 ? 0 : 128;
        k->cluster = t->sm >= 90 && seed % 7 == 0 ? 2 : 0;
        statements(&p, f, 60, 4, t->sm);
        tw_diag d;
        if (tw_kernel_verify(k, t->sm, &d) != TW_OK) fail_msg("seed %d: %s", seed, d.message);
        tw_buf out = print(k, t);
        if (have_ptxas() && seed % 6 == 0) assemble(&out, t);
        tw_buf_free(&out);
        tw_kernel_free(k);
    }
}

static int set_up(void **state) {
    static forms f;
    f = every_form();
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    free(((forms *)*state)->of);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scalar_operation), cmocka_unit_test(every_form_of_every_operation),
        cmocka_unit_test(what_a_target_lacks),    cmocka_unit_test(what_ptx_cannot_say),
        cmocka_unit_test(constants_are_exact),    cmocka_unit_test(random_kernels),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
