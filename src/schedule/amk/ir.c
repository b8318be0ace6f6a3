/* SPDX-License-Identifier: Apache-2.0 */
/* Names of kinds, spaces, types, parameters and ops in files, and their properties. */
#include "schedule/amk/ir.h"

#include <stdio.h>

#define NAME(name)            #name,
#define TYPE_NAME(name, bits) #name,
const char *const amk_kind_names[] = {AMK_KINDS(NAME)};
const char *const amk_space_names[] = {AMK_SPACES(NAME)};
const char *const amk_dtype_names[] = {AMK_DTYPES(TYPE_NAME)};
const char *const amk_param_names[] = {AMK_INT_PARAMS(NAME) AMK_REAL_PARAMS(NAME)};

void amk_name_task(const amk_task *t, char out[96]) {
    snprintf(out, 96, "task %lld %.64s", (long long)t->id, t->label);
}

bool amk_read_only(amk_kind k) {
    return k == AMK_WEIGHT || k == AMK_CONST || k == AMK_IO_INPUT;
}

int amk_dtype_bits(amk_dtype t) {
#define BITS(name, bits) bits,
    static const int bits[] = {AMK_DTYPES(BITS)};
#undef BITS
    return bits[t];
}

void amk_extents(const amk_buffer *b, int64_t extent[3]) {
    int cut = b->kind != AMK_KV_CACHE ? b->rank - 1 : b->rank == 4 ? 2 : 1;
    extent[0] = extent[1] = extent[2] = 1;
    for (int d = 0; d < b->rank; d++) {
        int at = d >= cut ? 2 : b->kind == AMK_KV_CACHE && b->rank == 4 && d == 0 ? 0 : 1;
        extent[at] *= b->shape[d];
    }
    int64_t bits = extent[2] * amk_dtype_bits(b->dtype);
    if (bits % 8) { /* Elements of less than a byte are packed across rows. */
        extent[0] = extent[1] = 1;
        extent[2] = b->bytes;
    } else
        extent[2] = bits / 8;
}
