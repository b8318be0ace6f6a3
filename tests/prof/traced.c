/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/traced.h"

#include "support/support.h"

#include "emu/emu.h"
#include "ir/passes/passes.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "prof/decode.h"
#include "ptx/ptx.h"

#include <stdlib.h>
#include <string.h>

tw_kernel *traced_kernel(traced_build *build) {
    tw_kernel *k = tw_kernel_new("test", 90, TRACED_THREADS);
    tw_builder b = tw_builder_of(k);
    tw_val out = tw_pointer_add(&b, "out", 4, false), n = tw_parameter_add(&b, "n", TW_T_i32);
    build(&b, out, n);
    assert_false(tw_kernel_failed(k));
    tw_diag d;
    if (tw_kernel_verify(k, 0, &d) != TW_OK) fail_msg("%s", d.message);
    return k;
}

/* A record is a line of its own. */
static void remove_records(char *text) {
    for (char *at; (at = strstr(text, "record_"));) {
        char *line = at;
        while (line > text && line[-1] != '\n') line--;
        char *next = strchr(at, '\n');
        memmove(line, next + 1, strlen(next + 1) + 1);
    }
}

tw_kernel *traced_without_records(const tw_kernel *k) {
    tw_buf text = {0};
    tw_kernel *without;
    tw_diag d;
    assert_true(tw_kernel_print(&text, k));
    remove_records(text.data);
    if (tw_kernel_parse(&without, text.data, strlen(text.data), "text", &d) != TW_OK) fail_msg("%s", d.message);
    tw_buf_free(&text);
    return without;
}

char *traced_ptx(const tw_kernel *k, const char *target) {
    tw_buf out = {0};
    tw_diag d;
    if (tw_ptx_print(&out, k, tw_target_find(target), &d) != TW_OK) fail_msg("%s", d.message);
    return out.data;
}

static bool has_records(const tw_block *block) {
    for (const tw_ir_op *op = block->first; op; op = op->next) {
        if (tw_is_record(op)) return true;
        for (int i = 0; i < op->n_blocks; i++)
            if (has_records(&op->blocks[i])) return true;
    }
    return false;
}

bool traced_check_off(tw_kernel *k, const char *target) {
    tw_kernel *without = traced_without_records(k);
    const bool records = has_records(&k->body);
    tw_diag d;
    assert_false(has_records(&without->body));
    if (tw_pipeline_default(k, false, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_pipeline_default(without, false, &d) != TW_OK) fail_msg("%s", d.message);
    char *a = traced_ptx(k, target), *b = traced_ptx(without, target);
    if (strcmp(a, b) != 0) fail_msg("other PTX with records that are off than without records");
    free(a);
    free(b);
    tw_kernel_free(without);
    return records;
}

tw_val traced_work(tw_builder *b, int operations) {
    tw_val x = tw_var_of(b, tw_sreg(b, TW_SREG_tid_x));
    for (int i = 0; i < operations; i++) tw_op_to(b, x, TW_OP_add_i32, x, tw_i32(b, 3), TW_NONE);
    return x;
}

void traced_store(tw_builder *b, tw_val out, tw_val x) {
    tw_val yz = tw_fma(b, tw_sreg(b, TW_SREG_ctaid_z), tw_sreg(b, TW_SREG_nctaid_y), tw_sreg(b, TW_SREG_ctaid_y));
    tw_val block = tw_fma(b, yz, tw_sreg(b, TW_SREG_nctaid_x), tw_sreg(b, TW_SREG_ctaid_x));
    tw_val i = tw_fma(b, block, tw_i32(b, TRACED_THREADS), tw_sreg(b, TW_SREG_tid_x));
    tw_val at = tw_op_emit(b, TW_OP_mad_wide_s32, i, tw_i32(b, 4), out);
    tw_st(b, (tw_attrs){.type = TW_T_i32}, at, &x);
}

traced traced_run_grid(traced_build *build, int n, const int grid[3], tw_prof_options o) {
    traced x = {0};
    tw_diag d;
    tw_kernel *k = traced_kernel(build);
    const int64_t blocks = (int64_t)grid[0] * grid[1] * grid[2];
    if (!o.shared_bytes) o.shared_bytes = 16384;
    if (tw_prof_lower(k, &o, &x.layout, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_pipeline_default(k, true, &d) != TW_OK) fail_msg("%s", d.message);
    x.bytes = (size_t)tw_prof_bytes(&x.layout, blocks);
    x.buffer = calloc(1, x.bytes + 1);
    tw_emu *e = tw_emu_new();
    const uint64_t arguments[3] = {tw_emu_alloc(e, "out", NULL, (size_t)blocks * 4 * TRACED_THREADS, false),
                                   (uint32_t)n, tw_emu_alloc(e, "profile", x.buffer, x.bytes, false)};
    tw_emu_report report;
    const tw_emu_options eo = {.seed = 5, .grid = {grid[0], grid[1], grid[2]}, .sms = 2};
    if (tw_emu_launch(e, k, arguments, &eo, &report, &d) != TW_OK) {
        tw_emu_explain(&report, &d);
        fail_msg("%s", d.message);
    }
    assert_true(tw_emu_read(e, arguments[2], x.buffer, x.bytes));
    const tw_prof_decoding how = {.title = "test", .device = "emulator", .emulated = true, .iterations = true};
    if (tw_prof_decode(&x.t, &x.layout, x.buffer, blocks, &how, &d) != TW_OK) fail_msg("%s", d.message);
    tw_emu_free(e);
    tw_kernel_free(k);
    return x;
}

traced traced_run(traced_build *build, int n, int blocks, tw_prof_options o) {
    return traced_run_grid(build, n, (const int[3]){blocks, 1, 1}, o);
}

void traced_end(traced *x) {
    tw_trace_free(x->t);
    tw_prof_layout_free(&x->layout);
    free(x->buffer);
}

int traced_count(const tw_trace *t, tw_event_kind kind, const char *name) {
    int n = 0;
    for (int i = 0; i < t->n_events; i++)
        n += t->events[i].kind == kind && !strcmp(t->names[t->events[i].name].text, name);
    return n;
}

const tw_trace_event *traced_nth(const tw_trace *t, int track, tw_event_kind kind, const char *name, int n) {
    for (int i = 0; i < t->n_events; i++) {
        const tw_trace_event *e = &t->events[i];
        if (e->track == track && e->kind == kind && !strcmp(t->names[e->name].text, name) && !n--) return e;
    }
    fail_msg("no such event: %s", name);
    return NULL;
}
