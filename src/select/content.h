/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the writer share. */
#ifndef TW_SELECT_CONTENT_H
#define TW_SELECT_CONTENT_H

#include "base/buf.h"
#include "select/selector.h"

/* Checks what a tuner filled in. */
tw_status select_check_content(const tw_artefact *a, tw_diag *diag);

static inline uint32_t select_or_one(int64_t x) {
    return x > 0 ? (uint32_t)x : 1;
}

/* The rule that a macro choice keeps, and the values of its columns. */
select_rule select_rule_of(const tw_artefact *a, const tw_artefact_macro *m);

/* ---- records (record.c) */

/* Computes a fit's record at full precision. `before` is the number of fits before it. */
select_record select_record_make(const tw_artefact_macro *m, int before, uint8_t row);

/* Rounds the coefficients to 20 bits. */
select_record select_record_round(const select_record *r);

/* Tells whether a record's times are within 0.1 % of the fit's where it was fitted: in its wave, from the least to the
   largest L of its anchors, as far as the fit's are above 0. Floats are near enough even where terms nearly cancel. */
bool select_record_is_near(const tw_artefact_macro *m, int before, const select_record *r);

/* Returns the code of the least error that is not below it. */
uint8_t select_error_code(double error);
#endif
