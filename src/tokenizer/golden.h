/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer held against a reference file: {"cases": [{"text", "ids", "ids_with_special", "decoded",
   "decoded_keep_special"}]}, the decodes being those of ids. */
#ifndef TW_TOKENIZER_GOLDEN_H
#define TW_TOKENIZER_GOLDEN_H

#include "tilewright/tokenizer.h"

/* TW_OK when all fields of all cases agree, TW_ERR_MISMATCH naming the first case and field that does not,
   TW_ERR_FORMAT for a file that is no such reference. *cases (may be NULL) is how many were compared. The streaming
   decode of every case is held against the decode at once, too. */
tw_status tw_tokenizer_check_golden(const tw_tokenizer *t, const char *golden_path, int64_t *cases, tw_diag *diag);

#endif
