/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the files of the writer share. */
#ifndef TW_SELECT_CONTENT_H
#define TW_SELECT_CONTENT_H

#include "base/buf.h"
#include "select/selector.h"

/* Checks all fields of an artefact. TW_ERR_USAGE: one is out of range; the message names it. */
tw_status select_check_content(const tw_artefact *a, tw_diag *diag);

static inline uint32_t select_or_one(int64_t x) {
    return x > 0 ? (uint32_t)x : 1;
}

/* Returns the legality rule of a macro choice. */
select_rule select_rule_of(const tw_artefact *a, const tw_artefact_macro *m);

/* ---- records (record.c) */

/* Computes a fit's record at full precision. `before` is the number of fits before it. */
select_record select_record_make(const tw_artefact_macro *m, int before, uint8_t row);

/* Rounds the coefficients to 20 bits. */
select_record select_record_round(const select_record *r);

/* Tells whether a record's times are within 0.1 % of its fit's: in the fit's wave, from the least to the largest L of
   its anchors, where the fit's times are above 0. Rounding to floats is allowed for where terms nearly cancel. */
bool select_record_is_near(const tw_artefact_macro *m, int before, const select_record *r);

/* Rounds a relative error up to the next error that has a code, and returns the code. */
uint8_t select_error_code(double error);
#endif
