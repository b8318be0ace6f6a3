/* SPDX-License-Identifier: Apache-2.0 */
/* What every operation demands of its operands and parameters: each is changed a little, alone, in schedules that are
   safe, and what the check says of it is written down in tests/data/schedules/own/findings.txt. */
#include "support/support.h"

#include "base/buf.h"
#include "schedule/json.h"
#include "schedule/schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const files[] = {"decode", "mixture", "learned", "sequences", "parts", "raw"};

static tw_schedule *fresh(const char *file) {
    char path[512];
    tw_schedule *s;
    tw_diag d;
    snprintf(path, sizeof path, TEST_DATA "/schedules/own/%s.json", file);
    if (tw_schedule_read(&s, path, &d) != TW_OK) fail_msg("%s: %s", path, d.message);
    return s;
}

/* The verdict, the first finding of one that is rejected, and how many there are. */
static void note(tw_buf *golden, tw_schedule *s) {
    enum { FEW = 1 };
    tw_checked *c = NULL;
    tw_report r;
    tw_diag d;
    tw_status st = tw_schedule_check(&c, &s, &r, &d);
    if (st == TW_OK) tw_buf_str(golden, " accepted\n");
    if (st != TW_OK && st != TW_ERR_REJECTED) fail_msg("%s", d.message);
    if (st == TW_ERR_REJECTED) tw_buf_printf(golden, " %zu\n", r.count);
    for (size_t i = 0; i < r.count && i < FEW; i++)
        tw_buf_printf(golden, "    %s: %s: %s\n", r.findings[i].where, r.findings[i].rule, r.findings[i].text);
    tw_report_free(&r);
    tw_checked_free(c);
    tw_schedule_free(s);
}

/* The first instruction of this operation that has this operand (-1: any); NULL: there is none. */
static tw_instr *find(tw_schedule *s, tw_instr_op op, int operand) {
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            tw_instr *in = &s->workers[w].list[i];
            if (in->op == op && (operand < 0 || in->operand[operand] >= 0)) return in;
        }
    return NULL;
}

static void change_operand(tw_buf *golden, const char *file, tw_instr_op op, int o) {
    const char *name = tw_instr_op_describe(op)->name, *operand = tw_instr_op_describe(op)->operands[o].name;
    for (int axis = 0; axis < 3; axis++)
        for (int by = -1; by <= 1; by += 2) {
            tw_schedule *s = fresh(file);
            tw_buffer *b = &s->buffers[find(s, op, o)->operand[o]];
            if ((b->shape[axis] += by) == 0) {
                tw_schedule_free(s);
                continue;
            }
            tw_buf_printf(golden, "%s %s.%s extent %d%+d:", file, name, operand, axis, by);
            note(golden, s);
        }
    for (int to = 0; to < 2; to++) {
        static const tw_dtype types[] = {TW_F16, TW_I8};
        tw_schedule *s = fresh(file);
        tw_buffer *b = &s->buffers[find(s, op, o)->operand[o]];
        if (b->dtype == types[to]) {
            tw_schedule_free(s);
            continue;
        }
        b->dtype = types[to];
        b->group = 0;
        tw_buf_printf(golden, "%s %s.%s %s:", file, name, operand, tw_dtype_name(types[to]));
        note(golden, s);
    }
    tw_schedule *s = fresh(file);
    find(s, op, o)->operand[o] = -1;
    tw_buf_printf(golden, "%s %s.%s missing:", file, name, operand);
    note(golden, s);
    s = fresh(file);
    tw_buffer *b = &s->buffers[find(s, op, o)->operand[o]];
    b->kind = b->kind == TW_BUFFER_ACTIVATION ? TW_BUFFER_WEIGHT : TW_BUFFER_ACTIVATION;
    tw_buf_printf(golden, "%s %s.%s %s:", file, name, operand, tw_buffer_kind_name(b->kind));
    note(golden, s);
}

static void change_parameter(tw_buf *golden, const char *file, tw_instr_op op, int k) {
    static const int64_t by[] = {-1, 1, 1 << 20};
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        tw_schedule *s = fresh(file);
        find(s, op, -1)->param[k] += by[i];
        tw_buf_printf(golden, "%s %s.%s%+" PRId64 ":", file, tw_instr_op_describe(op)->name,
                      tw_instr_op_describe(op)->params[k], by[i]);
        note(golden, s);
    }
}

static void every_demand_is_written_down(void **state) {
    (void)state;
    tw_buf golden = {0};
    static bool shown[TW_INSTR_COUNT][TW_MAX_OPERANDS + 1];
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        tw_buf_printf(&golden, "%s:", files[f]);
        note(&golden, fresh(files[f]));
        for (int op = 0; op < TW_INSTR_COUNT; op++) {
            tw_schedule *s = fresh(files[f]);
            const tw_instr_op_info *info = tw_instr_op_describe((tw_instr_op)op);
            /* Each operand where it first occurs, and of several sequences and attention that norms heads again. */
            const bool all = !strcmp(files[f], "sequences") || (op == TW_INSTR_ATTEND && !strcmp(files[f], "raw"));
            const bool first = !shown[op][TW_MAX_OPERANDS];
            for (int o = 0; o < info->n_operands; o++)
                if (find(s, (tw_instr_op)op, o) && (all || !shown[op][o])) {
                    change_operand(&golden, files[f], (tw_instr_op)op, o);
                    shown[op][o] = true;
                }
            for (int k = 0; k < info->n_params && (all || first); k++)
                if (find(s, (tw_instr_op)op, -1)) change_parameter(&golden, files[f], (tw_instr_op)op, k);
            shown[op][TW_MAX_OPERANDS] |= find(s, (tw_instr_op)op, -1) != NULL;
            tw_schedule_free(s);
        }
    }
    test_golden("data/schedules/own/findings.txt", golden.data, golden.size);
    tw_buf_free(&golden);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_demand_is_written_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
