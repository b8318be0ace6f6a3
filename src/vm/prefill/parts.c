/* SPDX-License-Identifier: Apache-2.0 */
/* Products in parts along k. A product of few rows has few tiles, and each block reads many bytes of both operands from
   the L2 cache, which is what it waits for. In parts, as many blocks have larger tiles and less of k. Nobody waits for
   a part: the norm behind the product adds them up, and so is a kernel. */
#include "vm/prefill/program.h"

#include "tilewright/schedule.h"

#include <stdio.h>

enum {
    FEW = 8,   /* Rows of products that few.c has in parts already. */
    MOST = 192 /* Rows. Products of more have large tiles for all multiprocessors. */
};

int64_t tw_prefill_parts_bytes(const tw_prefill *p, int64_t rows) {
    if (p->options.parts == 1) return 0;
    const int64_t parts = p->options.parts ? p->options.parts : TW_PROMPT_PARTS;
    return parts * (rows < MOST ? rows : MOST) * p->vm->m->dim * (int64_t)sizeof(float);
}

/* Returns the time of a product in parts, and of what a norm then has more to do than in the product behind it or, if
   that does not norm, by itself. */
static double time_of(const tw_prefill *p, const tw_prefill_list *list, const tw_prefill_matrix *matrix, int parts) {
    const double kernel = 1.5, cached = 1.0e7 /* Bytes that the L2 cache moves in a microsecond. */;
    char epilogue[32];
    snprintf(epilogue, sizeof epilogue, "out=f32 addends=%d", parts);
    const double moved = 2.0 * parts * (double)list->tokens * (double)matrix->rows * sizeof(float);
    return tw_prefill_product_time(p, list, matrix, epilogue) + kernel + moved / cached;
}

int tw_prefill_parts(const tw_prefill *p, const tw_prefill_list *list, const tw_prefill_matrix *matrix,
                     const char *whole) {
    enum { STEP = 128 /* Elements along k that a part has at least. */ };
    const int64_t most = matrix->columns / STEP;
    int best = p->options.parts;
    if (list->masked || matrix->groups || list->tokens <= FEW || list->tokens > MOST) return 1;
    if (best) return best < TW_PROMPT_PARTS ? best : TW_PROMPT_PARTS;
    best = 1;
    double least = tw_prefill_product_time(p, list, matrix, whole);
    for (int parts = 2; parts <= TW_PROMPT_PARTS && parts <= most && least < 1e30; parts *= 2) {
        const double time = time_of(p, list, matrix, parts);
        if (time >= least) continue;
        least = time;
        best = parts;
    }
    return best;
}
