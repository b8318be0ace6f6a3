/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/flag.h"

static const tw_attrs flagged = {.type = TW_T_i32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_gpu};

void tw_flag_store(tw_builder *b, tw_val address, tw_val x, tw_val tag) {
    /* Rounding would turn a NaN whose fraction is all ones into a zero. */
    tw_val rounded = tw_add_imm(b, tw_bitcast(b, TW_T_i32, x), 8);
    tw_val bits = tw_select(b, tw_ne(b, x, x), tw_i32(b, 0x7fc00000), rounded);
    bits = tw_or(b, tw_and(b, bits, tw_i32(b, ~TW_FLAG_TAG)), tag);
    tw_st(b, flagged, address, &bits);
}

/* Computes the predicate that some element at addresses `from` to below - 1 has another tag. */
static tw_val stale(tw_builder *b, const tw_flag_words *x, int from, int below) {
    tw_val any = TW_NONE;
    for (int i = from; i < below; i++) {
        tw_val wrong = TW_NONE;
        for (int e = 0; e < x->width; e++) {
            tw_val one = tw_xor(b, x->word[i][e], x->tag);
            wrong = e ? tw_or(b, wrong, one) : one;
        }
        wrong = tw_ne(b, tw_and(b, wrong, x->mask.id ? x->mask : tw_i32(b, TW_FLAG_TAG)), tw_i32(b, 0));
        wrong = tw_and(b, x->there[i], wrong);
        any = i > from ? tw_or(b, any, wrong) : wrong;
    }
    return any;
}

void tw_flag_poll(tw_builder *b, tw_flag_words *x, int n, const tw_patience *p) {
    tw_attrs how = flagged;
    how.vec = x->width;
    for (int i = 0; i < n; i++)
        for (int e = 0; e < x->width; e++) x->word[i][e] = tw_var_of(b, x->tag);
    for (int i = 0; i < n; i++)
        TW_IF (b, x->there[i]) tw_ld_vec(b, how, x->at[i], x->word[i]);
    TW_WHILE (b, tw_patience_left(b, p, stale(b, x, 0, n))) {
        for (int i = 0; i < n; i++)
            TW_IF (b, stale(b, x, i, i + 1)) tw_ld_vec(b, how, x->at[i], x->word[i]);
        p->between(p->context, x->word[0][0]);
    }
}

tw_val tw_flag_value(tw_builder *b, const tw_flag_words *x, int i, int e) {
    tw_val value = x->mask.id ? tw_not(b, x->mask) : tw_i32(b, ~TW_FLAG_TAG);
    return tw_bitcast(b, TW_T_f32, tw_and(b, x->word[i][e], value));
}
