/* SPDX-License-Identifier: Apache-2.0 */
/* What the check believes of an instruction against what the oracle plays: every element that is touched must lie in a
   box of the check's, at every position, and every element of a box that is written must be touched. The two were
   written apart; a box too small would let a race through, a written box too large what is not defined. */
#include "support/support.h"

#include "schedule/effects.h"
#include "soundness/cases.h"
#include "soundness/touch.h"

#include <stdlib.h>

enum { PROGRAMS = 20000 };

static bool in_box(const tw_schedule *s, const tw_access *a, touch_step step, const int64_t at[3]) {
    bool kv = s->buffers[a->buffer].kind == TW_BUFFER_KV;
    int64_t row = at[1] - (kv ? touch_position(&step, touch_sequence(s, &s->buffers[a->buffer], at[0])) : 0);
    return at[0] >= a->lo[0] && at[0] < a->hi[0] && row >= a->lo[1] && row < a->hi[1] && 4 * at[2] >= a->lo[2] &&
           4 * at[2] + 4 <= a->hi[2];
}

static bool claimed(const touch_space *space, const tw_access_list *list, touch_step step, int buffer, int element,
                    bool write) {
    const int64_t *n = space->s->buffers[buffer].shape, i = element - space->base[buffer];
    const int64_t at[3] = {i / n[2] / n[1], i / n[2] % n[1], i % n[2]};
    for (int a = 0; a < list->count; a++)
        if (list->item[a].buffer == buffer && list->item[a].write == write &&
            in_box(space->s, &list->item[a], step, at))
            return true;
    return false;
}

static bool written(const touch_list *touches, int element) {
    for (int t = 0; t < touches->count; t++) {
        const touch *x = &touches->item[t];
        if (x->write && element >= x->first && element < x->first + x->count) return true;
    }
    return false;
}

/* A write that is claimed and does not happen would pass for a definition. Boxes are of a full step. */
static void claims_happen(const touch_space *space, const tw_instr *in, const tw_access_list *boxes, touch_step step,
                          const touch_list *touches) {
    for (int a = 0; a < boxes->count && step.n == space->s->tokens; a++) {
        const tw_access *x = &boxes->item[a];
        const tw_buffer *b = &space->s->buffers[x->buffer];
        if (!x->write) continue;
        for (int64_t i = x->lo[0]; i < x->hi[0]; i++) {
            const bool kv = b->kind == TW_BUFFER_KV;
            int64_t pos = kv ? touch_position(&step, touch_sequence(space->s, b, i)) : 0;
            for (int64_t j = x->lo[1] + pos; j < x->hi[1] + pos; j++)
                for (int64_t k = x->lo[2] / 4; k < x->hi[2] / 4; k++)
                    if (!written(touches, space->base[x->buffer] + (int)((i * b->shape[1] + j) * b->shape[2] + k)))
                        fail_msg("%s does not write %s[%d][%d][%d], which the check believes", space->ops[in->op].name,
                                 b->name, (int)i, (int)j, (int)k);
        }
    }
}

static int compare(const touch_space *space, const tw_instr *in, const tw_access_list *boxes, touch_step step) {
    touch_list touches = {0};
    int compared = 0;
    if (touch_instr(space, in, step, &touches) == HAZARD_NONE) {
        claims_happen(space, in, boxes, step, &touches);
        for (int t = 0; t < touches.count; t++) {
            const touch *x = &touches.item[t];
            for (int e = x->first; x->operand >= 0 && e < x->first + x->count; e++, compared++)
                if (!claimed(space, boxes, step, in->operand[x->operand], e, x->write))
                    fail_msg("%s %s element %d of %s at %lld+%lld, which the check does not know of",
                             space->ops[in->op].name, x->write ? "writes" : "reads",
                             e - space->base[in->operand[x->operand]], space->s->buffers[in->operand[x->operand]].name,
                             (long long)step.pos, (long long)step.n);
        }
    }
    free(touches.item);
    return compared;
}

static int compare_program(touch_space *space, tw_access_list *boxes, const tw_schedule *s, tw_random *r) {
    int compared = 0;
    if (!touch_space_set(space, s) || s->sequences < 1 || (s->sequences > 1 && s->sequences != s->tokens)) return 0;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            boxes->count = 0;
            if (touch_form(space, in) != HAZARD_NONE || tw_instr_effects(s, in, boxes, NULL) != TW_OK) continue;
            for (int n = 0; n < 3; n++) {
                touch_step step = {.n = s->sequences > 1 ? s->tokens : 1 + draw_below(r, (int)s->tokens)};
                int last = (int)(s->max_seq - (s->sequences > 1 ? 1 : step.n));
                step.pos = n ? draw_below(r, last + 1) : 0;
                for (int k = 1; k < s->sequences; k++) step.others[k - 1] = n ? draw_below(r, last + 1) : 0;
                compared += compare(space, in, boxes, step);
            }
        }
    return compared;
}

static void every_touch_is_claimed(void **state) {
    (void)state;
    program_pool pool = program_pool_open(64, 300);
    touch_space space = {0};
    tw_access_list boxes = {0};
    int64_t compared = 0;
    for (int seed = 0; seed < PROGRAMS; seed++) {
        tw_random r = tw_random_seed((uint64_t)seed);
        tw_schedule *s = case_make(&pool, seed % 2 ? CASE_LOWERING : seed / 2 % case_classes(), &r);
        compared += compare_program(&space, &boxes, s, &r);
        tw_schedule_free(s);
    }
    assert_true(compared > 10000000);
    touch_space_free(&space);
    tw_access_list_free(&boxes);
    program_pool_close(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_touch_is_claimed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
