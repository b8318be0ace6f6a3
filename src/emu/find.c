/* SPDX-License-Identifier: Apache-2.0 */
/* Reports findings: composes their texts, and decides whether the run goes on. */
#include "base/diag.h"
#include "emu/machine.h"

#include <stdarg.h>
#include <stdio.h>

const char *tw_emu_rule_name(tw_emu_rule r) {
    static const char *const names[] = {
        "bounds",  "alignment", "read-only", "uninitialised", "race", "proxy",     "async", "divergence",
        "barrier", "mbarrier",  "deadlock",  "limit",         "trap", "registers", "leak",
    };
    _Static_assert(sizeof names / sizeof *names == TW_EMU_RULES, "a name a rule");
    return (unsigned)r < TW_EMU_RULES ? names[r] : "?";
}

/* Tells whether a rule's finding ends the run, since nothing sensible follows it. */
static bool ends(tw_emu_rule r) {
    return r == TW_EMU_DIVERGENCE || r == TW_EMU_BARRIER || r == TW_EMU_MBARRIER || r == TW_EMU_DEADLOCK ||
           r == TW_EMU_LIMIT || r == TW_EMU_TRAP;
}

static void put(char *out, size_t size, size_t *at, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static void put(char *out, size_t size, size_t *at, const char *fmt, ...) {
    if (*at >= size) return;
    char *from = out + *at, *end = out + size;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(from, (size_t)(end - from), fmt, ap);
    va_end(ap);
    if (n > 0) *at += (size_t)n;
}

/* Prints an operation's place, such as "body/for 3/else/st 2": each operation around it with its number in its
   block. */
static void path(const tw_ir_op *ir, char *out, size_t size, size_t *at) {
    const tw_ir_op *owner = ir->block->owner;
    if (!owner) {
        put(out, size, at, "body");
    } else {
        path(owner, out, size, at);
        int which = (int)(ir->block - owner->blocks);
        if (owner->code == TW_OP_if && which) put(out, size, at, "/else");
        if (owner->code == TW_OP_while && !which) put(out, size, at, "/test");
        if (owner->code == TW_OP_roles) put(out, size, at, "/role %d", which);
    }
    int n = 0;
    for (const tw_ir_op *o = ir; o->prev; o = o->prev) n++;
    put(out, size, at, "/%s %d", tw_op_describe((tw_opcode)ir->code)->name, n);
}

void tw_emu_place(const tw_ir_op *op, char *out, size_t size) {
    size_t at = 0;
    if (op)
        path(op, out, size, &at);
    else
        put(out, size, &at, "the end");
}

void emu_place(const emu_launch *l, const emu_op *op, char *out, size_t size) {
    (void)l;
    tw_emu_place(op ? op->ir : NULL, out, size);
}

static void block_text(const emu_launch *l, int64_t number, char *out, size_t size, size_t *at) {
    int64_t x = number % l->grid[0], y = number / l->grid[0] % l->grid[1], z = number / l->grid[0] / l->grid[1];
    if (l->grid[1] == 1 && l->grid[2] == 1)
        put(out, size, at, "block %d", (int)number);
    else
        put(out, size, at, "block (%d,%d,%d)", (int)x, (int)y, (int)z);
}

void emu_thread_text(const emu_launch *l, const emu_mark *m, char *out, size_t size) {
    uint32_t thread = m->thread - 1, slot = thread & (uint32_t)(l->stride - 1);
    size_t at = 0;
    block_text(l, thread >> l->stride_log2, out, size, &at);
    if (slot < (uint32_t)l->n_warps * EMU_AGENTS) put(out, size, &at, " warp %d", (int)(slot / EMU_AGENTS));
    put(out, size, &at, " lane %d", __builtin_ctz(m->mask));
    if (m->mask & (m->mask - 1)) put(out, size, &at, " (of %d)", __builtin_popcount(m->mask));
}

const emu_object *emu_object_below(const emu_launch *l, int space, uint64_t address) {
    const emu_object *best = NULL;
    if (space == TW_SPACE_shared) {
        for (int i = 0; i < l->kernel->n_shared; i++)
            if (l->shared[i].base <= address && (!best || l->shared[i].base > best->base)) best = &l->shared[i];
        return best;
    }
    for (int i = 0; i < l->emu->n && l->emu->objects[i]->base <= address; i++) best = l->emu->objects[i];
    return best;
}

void emu_address_text(const emu_launch *l, const emu_block *b, int space, uint64_t address, char *out, size_t size) {
    size_t at = 0;
    int64_t number = b->number / l->cluster * l->cluster + (int64_t)emu_rank(address);
    if (space == TW_SPACE_cluster && emu_rank(address) < l->cluster) {
        emu_address_text(l, b, TW_SPACE_shared, address & EMU_RANK_MASK, out, size);
        at = strlen(out);
        if (emu_rank(address) < 0 || number == b->number) return;
        put(out, size, &at, " of ");
        block_text(l, number, out, size, &at);
        return;
    }
    const emu_object *o = space == TW_SPACE_cluster ? NULL : emu_object_below(l, space, address);
    if (!o || address - o->base > o->bytes + (1u << 20))
        put(out, size, &at, "%s address 0x%llx", tw_attr_value_name(TW_ATTR_space, space), (unsigned long long)address);
    else
        put(out, size, &at, "%.40s+%llu", o->name, (unsigned long long)(address - o->base));
}

void emu_object_text(const emu_launch *l, const emu_block *own, const emu_object *o, uint64_t from, char *out,
                     size_t size) {
    size_t at = 0;
    put(out, size, &at, "%.40s+%llu", o->name, (unsigned long long)from);
    if (o->block < 0 || o->block == own->number) return;
    put(out, size, &at, " of ");
    block_text(l, o->block, out, size, &at);
}

void emu_find_text(emu_launch *l, tw_emu_rule rule, const char *text) {
    tw_emu_report *r = l->report;
    if (r->n < TW_EMU_FINDINGS) {
        tw_emu_finding *f = &r->findings[r->n++];
        f->rule = rule;
        snprintf(f->text, sizeof f->text, "%.40s: %s", l->kernel->name, text);
    }
    if (!l->options->keep_going || r->n == TW_EMU_FINDINGS || ends(rule)) l->stop = true;
}

void emu_find(emu_warp *w, const emu_op *op, int lane, tw_emu_rule rule, const char *fmt, ...) {
    emu_launch *l = w->launch;
    if (l->stop) return;
    for (int i = 0; i < l->report->n; i++)
        if (l->report->findings[i].rule == rule && l->found_op[i] == op) return;
    if (l->report->n < TW_EMU_FINDINGS) l->found_op[l->report->n] = op;
    char text[sizeof l->report->findings[0].text];
    size_t at = 0, size = sizeof text;
    emu_place(l, op, text, size);
    at = strlen(text);
    put(text, size, &at, ", ");
    block_text(l, w->block->number, text, size, &at);
    put(text, size, &at, " warp %d", w->index);
    if (lane >= 0) put(text, size, &at, " lane %d", lane);
    put(text, size, &at, ": ");
    if (at < size) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(text + at, size - at, fmt, ap);
        va_end(ap);
    }
    emu_find_text(l, rule, text);
}

tw_status tw_emu_explain(const tw_emu_report *report, tw_diag *diag) {
    tw_diag_clear(diag);
    for (int i = 0; i < report->n; i++)
        tw_diag_add(diag, TW_ERR_REJECTED, "", "%s: %s", tw_emu_rule_name(report->findings[i].rule),
                    report->findings[i].text);
    return TW_ERR_REJECTED;
}
