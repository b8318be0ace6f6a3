/* SPDX-License-Identifier: Apache-2.0 */
/* Faults planted in attention kernels, one at a time. The emulator must find each under a rule that fits it, or the
   comparison must. */
#include "support/support.h"

#include "ir/ir.h"
#include "ir/passes/edit.h"
#include "kernels/attention/attention.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 1 << 14, MISMATCH = TW_EMU_RULES };

static tw_ir_op *found[MOST];

static void collect(const tw_block *b, tw_opcode code, int *n) {
    for (tw_ir_op *op = b->first; op; op = op->next) {
        if (op->code == code && *n < MOST) found[(*n)++] = op;
        for (int i = 0; i < op->n_blocks; i++) collect(&op->blocks[i], code, n);
    }
}

/* Finds all operations of a code, in order. */
static int all(const tw_kernel *k, tw_opcode code) {
    int n = 0;
    collect(&k->body, code, &n);
    return n;
}

static int drop_all(tw_kernel *k, tw_opcode code, int count) {
    int dropped = 0;
    for (int i = 0, n = all(k, code); i < n; i++)
        if (count < 0 || found[i]->at.count == count) tw_edit_remove(found[i]), dropped++;
    return dropped;
}

/* Drops the waits of a channel. */
static int drop_waits(tw_kernel *k, const char *channel) {
    int dropped = 0;
    for (int i = 0, n = all(k, TW_OP_record_begin); i < n; i++) {
        tw_ir_op *wait = found[i]->next;
        if (strcmp(found[i]->name, channel) != 0) continue;
        while (wait && wait->code != TW_OP_mbarrier_wait) wait = wait->next;
        if (wait) tw_edit_remove(wait), dropped++;
    }
    return dropped;
}

/* -- the faults: each returns how many places it changed */

static int mask_sees_one_key_more(tw_kernel *k) {
    int changed = 0;
    for (int i = 0, n = all(k, TW_OP_lt_s32); i < n; i++) {
        uint64_t column, limit;
        const bool of_mask = tw_value_constant(k, found[i]->operands[0], &column) && column < 256 &&
                             !tw_value_constant(k, found[i]->operands[1], &limit);
        const bool of_branch = found[i]->next && found[i]->next->code == TW_OP_if;
        if (!of_mask || of_branch) continue;
        found[i]->operands[0] = tw_edit_constant(k, TW_T_i32, (uint32_t)(column - 1));
        changed++;
    }
    return changed;
}

/* Pairs of the mask's array are taken from the pair before. */
static int array_of_other_keys(tw_kernel *k) {
    int changed = 0;
    for (int i = 0, n = all(k, TW_OP_ld); i < n; i++)
        if (found[i]->at.type == TW_T_f32 && found[i]->at.vec == 2) found[i]->at.offset -= 8, changed++;
    return changed;
}

static int sums_are_not_rescaled(tw_kernel *k) {
    int changed = 0;
    for (int i = 0, n = all(k, TW_OP_mul_f32); i < n; i++)
        if (found[i]->results[0].id == found[i]->operands[0].id) tw_edit_remove(found[i]), changed++;
    return changed;
}

static int stale_keys(tw_kernel *k) {
    return drop_waits(k, "keys.full");
}

static int stale_values(tw_kernel *k) {
    return drop_waits(k, "values.full");
}

static int stale_queries(tw_kernel *k) {
    return drop_waits(k, "queries.full");
}

static int keys_overwritten(tw_kernel *k) {
    return drop_waits(k, "keys.empty");
}

static int queries_overwritten(tw_kernel *k) {
    return drop_waits(k, "queries.empty");
}

static int scores_not_waited_for(tw_kernel *k) {
    return drop_all(k, TW_OP_wgmma_wait, 1);
}

static int sums_not_waited_for(tw_kernel *k) {
    return drop_all(k, TW_OP_wgmma_wait, 0);
}

static int no_fence_before_products(tw_kernel *k) {
    return drop_all(k, TW_OP_wgmma_fence, -1);
}

static int results_not_fenced(tw_kernel *k) {
    return drop_all(k, TW_OP_fence_proxy, -1);
}

static int results_overwritten(tw_kernel *k) {
    return drop_all(k, TW_OP_bulk_wait, -1);
}

static int counter_stays(tw_kernel *k) {
    int changed = 0;
    for (int i = 0, n = all(k, TW_OP_atom); i < n; i++)
        if (found[i]->at.rmw == TW_RMW_exch) tw_edit_remove(found[i]), changed++;
    return changed;
}

static int turns_not_passed(tw_kernel *k) {
    return drop_all(k, TW_OP_barrier_arrive, 256);
}

/* Rows that are gathered are told to be there when they are on their way. */
static int gathered_too_early(tw_kernel *k) {
    return drop_all(k, TW_OP_cp_async_wait, -1);
}

/* Rows that are gathered were not fenced before tensor cores read them. Fences of results are in other roles. */
static int gathered_not_fenced(tw_kernel *k) {
    int changed = 0;
    for (int i = 0, n = all(k, TW_OP_cp_async_wait); i < n; i++) {
        tw_ir_op *fence = found[i]->next;
        while (fence && fence->code != TW_OP_fence_proxy) fence = fence->next;
        if (fence) tw_edit_remove(fence), changed++;
    }
    return changed;
}

/* Of each block that is gathered the lines of the lower lanes lie where those of others should. */
static int gathered_elsewhere(tw_kernel *k) {
    int changed = 0;
    for (int i = 0, n = all(k, TW_OP_cp_async); i < n; i++)
        if (found[i]->at.offset) found[i]->at.offset ^= 1024, changed++;
    return changed;
}

/* Kernels by mma.sync: warps multiply what others copy before it is there, or copy where others still multiply. */
static int copies_not_met(tw_kernel *k) {
    return drop_all(k, TW_OP_barrier, -1);
}

/* Loads of fragments do not follow the swizzle beyond a line's first 16 elements. */
static int fragments_not_swizzled(tw_kernel *k) {
    int changed = 0;
    uint64_t bits;
    for (int i = 0, n = all(k, TW_OP_xor_i32); i < n; i++)
        if (tw_value_constant(k, found[i]->operands[1], &bits)) found[i]->code = TW_OP_add_i32, changed++;
    return changed;
}

/* Of e4m3 keys the elements in odd places are multiplied by queries' even ones. */
static int queries_in_other_places(tw_kernel *k) {
    int changed = 0;
    uint64_t bits;
    for (int i = 0, n = all(k, TW_OP_prmt_i32); i < n; i++)
        if (tw_value_constant(k, found[i]->operands[2], &bits) && bits == 0x7632)
            found[i]->operands[2] = tw_edit_constant(k, TW_T_i32, 0x5410), changed++;
    return changed;
}

/* Warpgroups that share queries: one or the other of the two meetings before sums are added is left out. */
static int drop_meetings(tw_kernel *k, int of_two) {
    int met = 0, dropped = 0;
    for (int i = 0, n = all(k, TW_OP_barrier_sync); i < n; i++)
        if (found[i]->at.count == 256 && met++ % 2 == of_two) tw_edit_remove(found[i]), dropped++;
    return dropped;
}

static int slices_overwritten(tw_kernel *k) {
    return drop_meetings(k, 0);
}

static int slices_joined_too_early(tw_kernel *k) {
    return drop_meetings(k, 1);
}

/* One page is fetched in the place of all. */
static int stale_page(tw_kernel *k) {
    const int n = all(k, TW_OP_min_u32);
    for (int i = 0; i < n; i++) found[i]->operands[1] = tw_edit_constant(k, TW_T_i32, 0);
    return n;
}

/* The last of the blocks that share a tile takes the sums of the first part in the place of others. */
static int part_merged_twice(tw_kernel *k) {
    const int n = all(k, TW_OP_min_s32);
    for (int i = 0; i < n; i++) found[i]->operands[0] = tw_edit_constant(k, TW_T_i32, 0);
    return n;
}

/* Blocks merge parts before all are there. */
static int merged_too_early(tw_kernel *k) {
    int changed = 0;
    for (int i = 0, n = all(k, TW_OP_atom); i < n; i++)
        if (found[i]->at.rmw == TW_RMW_inc) found[i]->at.order = TW_ORDER_relaxed, changed++;
    return changed;
}

#define BIT(x) (1u << (x))
enum {
    ASYNC = BIT(TW_EMU_ASYNC) | BIT(TW_EMU_RACE) | BIT(TW_EMU_UNINITIALISED) | BIT(TW_EMU_MBARRIER) | BIT(TW_EMU_PROXY),
    WRONG = BIT(MISMATCH)
};
static const struct {
    const char *name;
    int (*plant)(tw_kernel *k);
    unsigned by;    /* A set of verdicts, any of which fits. */
    const char *of; /* Words of a problem of its own, with the small configuration. NULL: of the usual ones. */
    enum { GROUPS, WARPS, SHARED } kind; /* By wgmma, by mma.sync, or by wgmma with queries that are shared. */
} faults[] = {
    {"the mask sees one key more", mask_sees_one_key_more, WRONG, NULL, GROUPS},
    {"sums are not rescaled", sums_are_not_rescaled, WRONG, NULL, GROUPS},
    {"stale keys", stale_keys, ASYNC, NULL, GROUPS},
    {"stale values", stale_values, ASYNC, NULL, GROUPS},
    {"stale queries", stale_queries, ASYNC, NULL, GROUPS},
    {"keys overwritten", keys_overwritten, ASYNC, NULL, GROUPS},
    {"queries overwritten", queries_overwritten, ASYNC, NULL, GROUPS},
    {"scores not waited for", scores_not_waited_for, ASYNC, NULL, GROUPS},
    {"sums not waited for", sums_not_waited_for, ASYNC, NULL, GROUPS},
    {"no fence before products", no_fence_before_products, ASYNC, NULL, GROUPS},
    {"results not fenced", results_not_fenced, BIT(TW_EMU_PROXY), NULL, GROUPS},
    {"results overwritten", results_overwritten, ASYNC | BIT(TW_EMU_LEAK), NULL, GROUPS},
    {"the counter stays", counter_stays, WRONG, NULL, GROUPS},
    {"turns not passed", turns_not_passed, BIT(TW_EMU_DEADLOCK) | BIT(TW_EMU_LEAK) | BIT(TW_EMU_BARRIER), NULL, GROUPS},
    {"a stale page", stale_page, WRONG, "heads=2 head=64 queries=90 keys=120 page=16 pool=20 causal=1", GROUPS},
    {"gathered too early", gathered_too_early, ASYNC, "heads=2 head=64 queries=90 keys=120 page=3 pool=50 causal=1",
     GROUPS},
    {"gathered, not fenced", gathered_not_fenced, BIT(TW_EMU_PROXY),
     "heads=2 head=64 queries=90 keys=120 page=3 pool=50 causal=1", GROUPS},
    {"gathered elsewhere", gathered_elsewhere, WRONG | ASYNC | BIT(TW_EMU_BOUNDS),
     "heads=2 head=64 queries=90 keys=120 page=3 pool=50 causal=1", GROUPS},
    {"a mask of other keys", array_of_other_keys, WRONG | BIT(TW_EMU_BOUNDS),
     "heads=2 head=64 queries=90 keys=120 mask=f32 mask_heads=2", GROUPS},
    {"a part merged twice", part_merged_twice, WRONG, "heads=4 kv_heads=2 head=64 queries=30 keys=140", GROUPS},
    {"parts merged too early", merged_too_early, ASYNC, "heads=4 kv_heads=2 head=64 queries=30 keys=140", GROUPS},
    {"warps: the mask sees one key more", mask_sees_one_key_more, WRONG, NULL, WARPS},
    {"warps: sums are not rescaled", sums_are_not_rescaled, WRONG, NULL, WARPS},
    {"warps: copies not waited for", gathered_too_early, ASYNC, NULL, WARPS},
    {"warps: threads not waited for", copies_not_met, ASYNC, NULL, WARPS},
    {"warps: fragments not swizzled", fragments_not_swizzled, WRONG | BIT(TW_EMU_BOUNDS) | ASYNC, NULL, WARPS},
    {"warps: copied elsewhere", gathered_elsewhere, WRONG | ASYNC | BIT(TW_EMU_BOUNDS), NULL, WARPS},
    {"warps: queries in other places", queries_in_other_places, WRONG, "heads=2 head=64 queries=90 keys=120 kv=e4m3",
     WARPS},
    {"warps: a stale page", stale_page, WRONG, "heads=2 head=64 queries=90 keys=120 page=16 pool=20 causal=1", WARPS},
    {"warps: a part merged twice", part_merged_twice, WRONG, "heads=4 kv_heads=2 head=64 queries=70 keys=140 causal=1",
     WARPS},
    {"warps: parts merged too early", merged_too_early, ASYNC, "heads=4 kv_heads=2 head=64 queries=30 keys=140", WARPS},
    {"shared: the mask sees one key more", mask_sees_one_key_more, WRONG, NULL, SHARED},
    {"shared: sums are not rescaled", sums_are_not_rescaled, WRONG, NULL, SHARED},
    {"shared: stale keys", stale_keys, ASYNC, NULL, SHARED},
    {"shared: keys overwritten", keys_overwritten, ASYNC, NULL, SHARED},
    {"shared: slices overwritten", slices_overwritten, ASYNC, NULL, SHARED},
    {"shared: slices joined too early", slices_joined_too_early, ASYNC, NULL, SHARED},
};

static int verdict_of(const char *words, const char *configuration, int fault, tw_diag *diag) {
    const tw_target *t = tw_target_find("sm_90a");
    char copy[200];
    tw_attention_problem p;
    tw_attention_data d;
    tw_emu_report report;
    snprintf(copy, sizeof copy, "%s", words);
    assert_int_equal(tw_attention_parse(&p, copy, diag), TW_OK);
    const bool warps = strstr(configuration, "mma=1");
    tw_attention_config c = tw_attention_config_default(&p, t, warps ? TW_ATTENTION_BY_WARPS : 0);
    assert_int_equal(tw_attention_config_parse(&p, &c, configuration, diag), TW_OK);
    tw_kernel *k = tw_attention_make(&p, &c, t, true, diag);
    assert_non_null(k);
    assert_int_equal(tw_attention_data_make(&d, &p, 3, diag), TW_OK);
    if (fault >= 0 && !faults[fault].plant(k)) fail_msg("%s: nothing to change", faults[fault].name);
    const tw_status st = tw_attention_emulate_kernel(&d, &c, k, 3, &report, diag);
    tw_attention_data_free(&d);
    tw_kernel_free(k);
    return st == TW_OK             ? -1
           : st == TW_ERR_MISMATCH ? MISMATCH
           : st == TW_ERR_REJECTED ? (int)report.findings[0].rule
                                   : -2;
}

static void every_planted_fault_is_caught(void **state) {
    (void)state;
    static const char *const problems[] = {"heads=2 head=64 queries=150 causal=1",
                                           "heads=4 kv_heads=2 head=64 queries=140 keys=170 causal=1 capacity=190"};
    static const char usual[] = "rows=128 columns=32 stages=2 persistent=2 pingpong=1 overlap=1 pack=0 splits=1";
    static const char small[] = "rows=64 columns=32 stages=2 persistent=2 overlap=1 pack=1 splits=3";
    static const char usual_of_warps[] = "rows=64 columns=32 stages=2 mma=1 strips=2 pack=0 splits=1";
    static const char small_of_warps[] = "rows=64 columns=32 stages=2 mma=1 strips=1 pack=1 splits=3";
    static const char shared[] = "rows=64 columns=64 stages=2 persistent=2 overlap=1 pack=0 splits=1 slices=2";
    int missed = 0;
    for (int f = -1; f < (int)(sizeof faults / sizeof *faults); f++)
        for (int i = 0; i < 2; i++) {
            tw_diag d = {0};
            const char *own = f < 0 ? NULL : faults[f].of, *words = own ? own : problems[i];
            const int kind = f < 0 ? GROUPS : (int)faults[f].kind;
            const char *configuration = kind == SHARED  ? shared
                                        : kind == WARPS ? own ? small_of_warps : usual_of_warps
                                        : own           ? small
                                                        : usual;
            const int v = verdict_of(words, configuration, f, &d);
            if (f < 0 ? v == -1 : v >= 0 && faults[f].by >> v & 1) continue;
            print_message("%s, %s: %s\n", words, f < 0 ? "no fault" : faults[f].name,
                          v == -1 ? "nothing found" : d.message);
            missed++;
        }
    assert_int_equal(missed, 0);
}

static void split_and_paged_attention_without_faults_is_right(void **state) {
    (void)state;
    for (int f = 0; f < (int)(sizeof faults / sizeof *faults); f++) {
        tw_diag d = {0};
        const char *configuration = faults[f].kind == WARPS ? "mma=1 rows=64 columns=32 pack=1 splits=3"
                                                            : "rows=64 columns=32 persistent=2 pack=1 splits=3";
        if (faults[f].of && verdict_of(faults[f].of, configuration, -1, &d) != -1)
            fail_msg("%s: %s", faults[f].of, d.message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_planted_fault_is_caught),
                                       cmocka_unit_test(split_and_paged_attention_without_faults_is_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
