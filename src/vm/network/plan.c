/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/network/plan.h"

#include "base/diag.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

void tw_network_plan_free(tw_network_plan *p) {
    free(p->choices);
    tw_arena_free(&p->arena);
    *p = (tw_network_plan){0};
}

tw_status tw_network_plan_add(tw_network_plan *p, const tw_network_choice *c, tw_diag *diag) {
    const tw_network_choice copy = {tw_arena_strdup(&p->arena, c->kind), tw_arena_strdup(&p->arena, c->problem),
                                    tw_arena_strdup(&p->arena, c->configuration), c->us, c->settled};
    tw_network_choice *grown = p->arena.failed ? NULL : tw_grow(p->choices, p->n, &p->room, 16, sizeof *p->choices);
    if (!grown) return tw_fail_memory(diag);
    p->choices = grown;
    p->choices[p->n++] = copy;
    return TW_OK;
}

int tw_network_plan_find(const tw_network_plan *p, const char *problem, int from) {
    for (int i = from; i < p->n; i++)
        if (!strcmp(p->choices[i].problem, problem)) return i;
    return -1;
}

void tw_network_plan_settle(tw_network_plan *p, const char *problem, int settle) {
    for (int i = tw_network_plan_find(p, problem, 0); i >= 0; i = tw_network_plan_find(p, problem, i + 1))
        p->choices[i].settled = i == settle;
}

tw_status tw_network_plan_explain(const tw_network_plan *p, tw_buf *out, tw_diag *diag) {
    const tw_network_costs *c = &p->costs;
    const tw_network_settled *s = &p->settled;
    if (!p->searched && !p->cut && !s->problems) return TW_OK;
    bool good = tw_buf_printf(
        out,
        "# search: %d problems, %d configurations in %.2f s: drawing %.2f, references %.2f, waiting for kernels %.2f, "
        "loading %.2f, checking %.2f, timing %.2f, again %.2f, vendor %.2f; compiling %.2f s of all threads; "
        "%d problems cut short",
        p->searched, p->measured, p->seconds, c->draw, c->refer, c->wait, c->load, c->check, c->time, c->again,
        c->vendor, c->threads, p->cut);
    if (s->problems)
        good &=
            tw_buf_printf(out, "; settling %.2f s: %.1f -> %.1f us, %d of %d problems otherwise, %d passes compared",
                          c->settle, s->before, s->after, s->changed, s->problems, s->tried);
    good &= tw_buf_printf(out, "\n");
    return good ? TW_OK : tw_fail_memory(diag);
}

tw_status tw_network_plan_write(const tw_network_plan *p, tw_buf *out, tw_diag *diag) {
    bool good = true;
    for (int i = 0; i < p->n; i++) {
        const tw_network_choice *c = &p->choices[i];
        good &= tw_buf_printf(out, "%s\t%s\t%s\t%s%.9g\n", c->kind, c->problem, c->configuration, c->settled ? "+" : "",
                              c->us);
    }
    return good ? TW_OK : tw_fail_memory(diag);
}

/* Cuts a field off a line. NULL: it has no more. */
static char *field(char **line) {
    char *at = *line, *end = at ? strchr(at, '\t') : NULL;
    *line = end ? end + 1 : NULL;
    if (end) *end = 0;
    return at;
}

static tw_status read_line(tw_network_plan *p, char *line, int number, tw_diag *diag) {
    char *kind = field(&line), *problem = field(&line), *configuration = field(&line), *us = field(&line), *end = NULL;
    const double time = us ? strtod(us, &end) : 0;
    const bool known = kind && (!strcmp(kind, "gemm") || !strcmp(kind, "cublaslt") || !strcmp(kind, "attention"));
    if (!known || !problem || !configuration || !us || line || end == us || *end || !(time > 0))
        return tw_fail(diag, TW_ERR_FORMAT, "line %d of a plan is none", number);
    return tw_network_plan_add(p, &(tw_network_choice){kind, problem, configuration, time, *us == '+'}, diag);
}

tw_status tw_network_plan_read(tw_network_plan *p, const char *text, size_t size, tw_diag *diag) {
    char *copy = malloc(size + 1), *save = NULL;
    tw_status st = copy ? TW_OK : tw_fail_memory(diag);
    int number = 0;
    if (copy) {
        memcpy(copy, text, size);
        copy[size] = 0;
        if (strlen(copy) != size) st = tw_fail(diag, TW_ERR_FORMAT, "a plan has a byte 0");
    }
    for (char *line = copy; line && *line && st == TW_OK; line = save) {
        save = strchr(line, '\n');
        if (save) *save++ = 0;
        st = read_line(p, line, ++number, diag);
    }
    free(copy);
    return st;
}
