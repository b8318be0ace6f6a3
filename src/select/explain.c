/* SPDX-License-Identifier: Apache-2.0 */
/* Explanations of choices. They predict every macro choice, and are not fast. */
#include "base/text.h"
#include "select/selector.h"

#include <math.h>

static void write_decision(const select_view *v, const select_decision *d, tw_selection *out) {
    const select_answer a = select_answer_of(d);
    select_answer_write(v, &a, false, out);
}

/* Inserts a prediction into a list of `n` in ascending order that has room for `top`. Returns the new length. */
static int insert(const select_view *v, const select_decision *d, int n, int top, tw_selection *out) {
    int at = n;
    while (at > 0 && d->time < out[at - 1].time) at--;
    if (at == top) return n;
    if (n < top) n++;
    for (int i = n - 1; i > at; i--) out[i] = out[i - 1];
    write_decision(v, d, &out[at]);
    return n;
}

static int best(const select_view *v, const select_problem *p, int top, tw_selection *out) {
    int n = 0;
    for (int i = 0; i < v->macros; i++) {
        select_decision d;
        if (select_allows(v, p, i) && select_predict(v, p, i, &d)) n = insert(v, &d, n, top, out);
    }
    return n;
}

int tw_select_best(const tw_selector *s, const int64_t *problem, unsigned flags, int top, tw_selection *out) {
    select_problem p;
    if (!select_problem_of(&s->view, problem, flags, &p)) return -1;
    return top > 0 ? best(&s->view, &p, top, out) : 0;
}

/* Counts the macro choices that are left out, by reason. */
static void count(const select_view *v, const select_problem *p, tw_select_explanation *out) {
    int reasons[SELECT_CANNOT + 1] = {0};
    out->macros = v->macros;
    for (int i = 0; i < v->macros; i++) {
        select_decision d;
        const select_reason why = select_why_not(v, p, i);
        reasons[why]++;
        out->unknown += why == SELECT_ALLOWED && !select_predict(v, p, i, &d);
    }
    out->atomic = reasons[SELECT_IS_ATOMIC];
    out->workspace = reasons[SELECT_NEEDS_WORKSPACE];
    out->vendor = reasons[SELECT_IS_VENDOR];
    out->own = reasons[SELECT_IS_OWN];
    out->illegal = reasons[SELECT_CANNOT];
}

/* Fills in the model's prediction of the choice. */
static void describe(const select_view *v, const select_problem *p, int macro, tw_select_explanation *out) {
    select_decision d;
    const bool known = select_predict(v, p, macro, &d);
    const uint32_t slots = select_item(&v->columns[COLUMN_SLOTS], macro);
    const int fits = (int)select_item(&v->columns[COLUMN_FITS], macro);
    out->grid = d.grid;
    out->rounds = d.rounds;
    out->slots = slots;
    out->waves = ceil(d.grid / slots);
    if (!known) return;
    const uint32_t first = v->first ? v->first[macro] : (uint32_t)macro * (uint32_t)fits;
    out->predicted = d.time;
    out->fit = d.fit + 1;
    out->beyond = out->fit == fits;
    out->samples = v->samples[first + (uint32_t)d.fit];
    out->error = d.error;
}

/* Finds the second best choice. */
static void find_second(const select_view *v, const select_problem *p, tw_select_explanation *out) {
    const tw_selection *choice = &out->choice;
    tw_selection two[2];
    out->second = (tw_selection){.macro = -1, .micro = -1};
    if (choice->source == TW_SELECT_EXACT) {
        const select_exact *e = select_find(v, p->whole);
        const bool other = e->second_macro != e->macro || e->second_micro != e->micro;
        const select_answer a = {TW_SELECT_EXACT, e->second_micro, e->second_macro, 0, (double)e->second_time};
        if (other && choice->macro == e->macro && choice->micro == e->micro && select_allows(v, p, e->second_macro))
            select_answer_write(v, &a, false, &out->second);
    } else if (choice->source == TW_SELECT_MODEL && best(v, p, 2, two) == 2) {
        out->second = two[1];
    }
    if (out->second.source != TW_SELECT_NONE) out->behind = out->second.time / choice->time - 1;
}

tw_status tw_select_explain(const tw_selector *s, const int64_t *problem, unsigned flags, tw_select_match match,
                            tw_select_explanation *out) {
    const select_view *v = &s->view;
    select_problem p;
    select_decision d;
    *out = (tw_select_explanation){.match = match, .choice = {.macro = -1, .micro = -1}};
    out->second = out->choice;
    if (!select_problem_of(v, problem, flags, &p)) return TW_ERR_USAGE;
    count(v, &p, out);
    select_decide(v, &p, &d);
    if (d.source == TW_SELECT_NONE) return TW_ERR_UNSUPPORTED;
    write_decision(v, &d, &out->choice);
    describe(v, &p, d.macro, out);
    find_second(v, &p, out);
    return TW_OK;
}

/* ---- text */

static void say_choice(tw_text *t, const tw_select_explanation *e, const char *unit) {
    const tw_selection *c = &e->choice;
    static const char *const why[] = {
        [TW_SELECT_DEFAULT] = "the default, since there is no prediction",
        [TW_SELECT_MODEL] = "the least prediction",
        [TW_SELECT_EXACT] = "the fastest measured: this problem is listed",
    };
    tw_text_add(t, "choice: %s (%s)\n", c->config, why[c->source]);
    if (c->source == TW_SELECT_EXACT) tw_text_add(t, "measured: %.4g %s\n", c->time, unit);
    if (e->fit) {
        const double low = e->error < 1 ? e->predicted * (1 - e->error) : 0, high = e->predicted * (1 + e->error);
        tw_text_add(t, "predicted: %.4g %s, 9 of 10 times from %.4g to %.4g\n", e->predicted, unit, low, high);
    }
    tw_text_add(t, "work: G = %.0f blocks of L = %.0f rounds on %lld slots: %.0f wave%s\n", e->grid, e->rounds,
                (long long)e->slots, e->waves, e->waves == 1 ? "" : "s");
    if (e->fit)
        tw_text_add(t, "evidence: the fit of wave %d%s, %lld%s samples, 9 of 10 residuals within %.3g %%\n", e->fit,
                    e->beyond ? " and later" : "", (long long)e->samples, e->samples == UINT16_MAX ? " or more" : "",
                    100 * e->error);
}

static void say_reason(tw_text *t, int n, const char *why, const char **between) {
    if (!n) return;
    tw_text_add(t, "%s%d %s", *between, n, why);
    *between = ", ";
}

static void say_left_out(tw_text *t, const tw_select_explanation *e) {
    const char *between = "";
    const int n = e->atomic + e->workspace + e->vendor + e->own + e->illegal + e->unknown;
    if (!n) return;
    tw_text_add(t, "left out: %d of %d macro choices: ", n, e->macros);
    say_reason(t, e->atomic, "that sum atomically", &between);
    say_reason(t, e->workspace, "that need workspace", &between);
    say_reason(t, e->vendor, "of a vendor's", &between);
    say_reason(t, e->own, "of our own", &between);
    say_reason(t, e->illegal, "that cannot compute this problem", &between);
    say_reason(t, e->unknown, "without a prediction", &between);
    tw_text_add(t, "\n");
}

static const char *of_device(tw_select_match m) {
    static const char *const what[] = {
        [TW_SELECT_SAME] = "this device",
        [TW_SELECT_ALIKE] = "one of this kind, so this is a prior",
        [TW_SELECT_ARCHITECTURE] = "one of this architecture, so this is a prior",
        [TW_SELECT_OTHER] = "another device, so this is a guess",
        [TW_SELECT_UNKNOWN] = "not compared with a device here",
    };
    return (unsigned)m <= TW_SELECT_UNKNOWN ? what[m] : "?";
}

tw_status tw_select_explain_text(const tw_selector *s, const int64_t *problem, unsigned flags, tw_select_match match,
                                 char *out, size_t size) {
    tw_select_explanation e;
    tw_selector_info info;
    tw_text t = {out, size, 0};
    const tw_status st = tw_select_explain(s, problem, flags, match, &e);
    tw_selector_describe(s, &info);
    if (size) *out = 0;
    if (st == TW_ERR_USAGE)
        tw_text_add(&t, "choice: none (an axis is below 1 or above %d, or a flag is unknown)\n", TW_SELECT_MOST);
    else if (st != TW_OK)
        tw_text_add(&t, "choice: none (nothing is allowed)\n");
    else
        say_choice(&t, &e, info.unit);
    if (e.second.source != TW_SELECT_NONE)
        tw_text_add(&t, "second: %s: %.4g %s, %.3g %% more\n", e.second.config, e.second.time, info.unit,
                    100 * e.behind);
    if (st != TW_ERR_USAGE) say_left_out(&t, &e);
    tw_text_add(&t, "measured on: %s (%s)\n", info.device, of_device(match));
    return st;
}
