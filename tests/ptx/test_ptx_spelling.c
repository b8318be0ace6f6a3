/* SPDX-License-Identifier: Apache-2.0 */
/* How each operation is spelled in PTX, written down in tests/ptx/golden/operations.txt: every scalar one, and of every
 * other one as many forms as it takes to see each value of each attribute, each type of each read-modify-write, and
 * each scope of each order. What a wrong mnemonic, order, scope or place of an operand would do shows on a device
 * alone. tests/ptx/update.sh rewrites the file and shows the difference. */
#define _GNU_SOURCE
#include "ptx/assemble.h"
#include "ptx/every.h"

#include "base/file.h"
#include "ptx/ptx.h"

/* What comes before it is not shown. */
static void mark(tw_builder *b) {
    tw_do(b, TW_OP_nanosleep, (tw_attrs){0}, tw_i32(b, 1), TW_NONE);
}

static void body(tw_buf *golden, const tw_kernel *k, const tw_target *t) {
    static const char marked[] = "nanosleep.u32 1;\n", end[] = "    ret;\n";
    tw_buf out = {0};
    tw_diag d;
    if (tw_ptx_print(&out, k, t, &d) != TW_OK) fail_msg("%s", d.message);
    const char *line = strstr(out.data, marked);
    assert_non_null(line);
    line += strlen(marked);
    const char *last = strstr(line, end);
    assert_non_null(last);
    tw_buf_add(golden, line, (size_t)(last - line));
    tw_buf_free(&out);
}

/* Operands are the parameters in order, so that the first of a register's letter is the first operand of that type. */
static void scalar(tw_buf *golden, tw_opcode code) {
    const tw_op_info *info = tw_op_describe(code);
    const tw_target *t = tw_target_find(info->sm > 90 ? "sm_120a" : "sm_90a");
    tw_kernel *k = tw_kernel_new("one", t->sm, 128);
    tw_builder b = tw_builder_of(k);
    tw_val v[3], d = TW_NONE;
    bool predicates = false;
    for (int i = 0; i < info->n_operands; i++) {
        char name[8];
        snprintf(name, sizeof name, "%c", 'a' + i);
        predicates |= info->operand[i] == TW_T_pred;
        v[i] = tw_parameter_add(&b, name, info->operand[i] == TW_T_pred ? TW_T_i32 : info->operand[i]);
    }
    for (int i = 0; predicates && i < info->n_operands; i++) v[i] = tw_ne(&b, v[i], tw_i32(&b, 0));
    mark(&b);
    tw_emit(&b, code, (tw_attrs){0}, &d, &info->result, 1, v, info->n_operands);
    tw_buf_printf(golden, "%s\n", info->name);
    body(golden, k, t);
    tw_kernel_free(k);
}

/* -- forms of the others */

/* Pairs of attributes of which every combination is shown. */
static bool together(int a, int b) {
    return (a == TW_ATTR_order && b == TW_ATTR_scope) || (a == TW_ATTR_type && b == TW_ATTR_rmw) ||
           (a == TW_ATTR_type && b == TW_ATTR_vec);
}

typedef struct shown {
    uint8_t one[TW_ATTRS][256], two[TW_ATTRS][32][32], absent[2];
} shown;

/* Whether this form shows anything that none before it did. */
static bool is_new(shown *s, const form *f) {
    bool news = !s->absent[f->absent];
    s->absent[f->absent] = 1;
    for (int a = 0; a < TW_ATTRS; a++) {
        if (!tw_op_allows(f->code, a)) continue;
        int x = tw_attr_get(&f->at, a) & 255;
        news |= !s->one[a][x];
        s->one[a][x] = 1;
        for (int b = 0; b < TW_ATTRS; b++) {
            if (!together(a, b) || !tw_op_allows(f->code, b)) continue;
            int y = tw_attr_get(&f->at, b) & 31;
            news |= !s->two[a][x & 31][y];
            s->two[a][x & 31][y] = 1;
        }
    }
    return news;
}

static void attributes(tw_buf *golden, const form *f) {
    for (int a = 0; a < TW_ATTRS; a++) {
        int32_t x = tw_attr_get(&f->at, a);
        const char *name = tw_attr_value_name(a, x);
        if (!tw_op_allows(f->code, a) || !x) continue;
        if (name)
            tw_buf_printf(golden, " %s=%s", tw_attr_name(a), name);
        else
            tw_buf_printf(golden, " %s=%d", tw_attr_name(a), (int)x);
    }
    if (f->absent) tw_buf_str(golden, " without the last operand");
    tw_buf_str(golden, "\n");
}

static void one_form(tw_buf *golden, const form *f) {
    const tw_target *t = tw_target_find(f->sm > 90 ? "sm_120a" : "sm_90a");
    tw_kernel *k = tw_kernel_new("one", t->sm, 128);
    pool p = pool_of(k, NULL);
    mark(&p.b);
    pool_form(&p, f, 0, false);
    tw_buf_str(golden, tw_op_describe(f->code)->name);
    attributes(golden, f);
    body(golden, k, t);
    tw_kernel_free(k);
}

static void are_spelled_as_written_down(void **state) {
    (void)state;
    static const char path[] = TW_SOURCE_DIR "/tests/ptx/golden/operations.txt";
    forms f = every_form();
    tw_buf now = {0}, then = {0};
    tw_diag d;
    for (int c = 0; c < TW_OPCODES; c++)
        if (tw_op_describe((tw_opcode)c)->scalar) scalar(&now, (tw_opcode)c);
    shown *s = calloc(TW_OPCODES, sizeof *s);
    assert_non_null(s);
    for (int i = 0; i < f.n; i++)
        if (is_new(&s[f.of[i].code], &f.of[i])) one_form(&now, &f.of[i]);
    if (getenv("TILEWRIGHT_GOLDEN")) {
        assert_int_equal(tw_file_write(path, now.data, now.size, &d), TW_OK);
    } else {
        assert_int_equal(tw_file_read(&then, path, &d), TW_OK);
        tw_buf_add(&then, "", 1);
        int line = 1;
        size_t i = 0, start = 0;
        for (; now.data[i] && now.data[i] == then.data[i]; i++)
            if (now.data[i] == '\n') {
                line++;
                start = i + 1;
            }
        if (now.data[i] != then.data[i])
            fail_msg("%s:%d: printed now: %.*s (tests/ptx/update.sh)", path, line, (int)strcspn(now.data + start, "\n"),
                     now.data + start);
    }
    free(s);
    free(f.of);
    tw_buf_free(&now);
    tw_buf_free(&then);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(are_spelled_as_written_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
