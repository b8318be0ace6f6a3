/* SPDX-License-Identifier: Apache-2.0 */
/* Products in parts along k. A product of few rows has few tiles, and each block reads many bytes of both operands from
   the L2 cache, which is what it waits for. In parts, as many blocks have larger tiles and less of k. Nobody waits for
   a part: the norm behind the product adds them up, and so is a kernel. */
#include "base/divide.h"
#include "vm/prefill/program.h"

#include "tilewright/schedule.h"

#include <stdio.h>

enum {
    FEW = 8,   /* Rows of products that few.c has in parts already. */
    MOST = 192 /* Rows. Products of more have large tiles for all multiprocessors. */
};

int64_t tw_prefill_parts_bytes(const tw_prefill *p, int64_t rows) {
    const int chosen = p->type == TW_T_f32 ? 1 : TW_PROMPT_PARTS; /* At most. No tiles of f32 were measured. */
    const int o = p->options.o_parts ? p->options.o_parts : chosen,
              down = p->options.down_parts ? p->options.down_parts : chosen, parts = o > down ? o : down;
    if (parts == 1) return 0;
    return parts * (rows < MOST ? rows : MOST) * p->vm->m->dim * (int64_t)sizeof(float);
}

/* Returns the time of a product in parts, and of what the norm behind it has more to do. `fused`: the norm would be no
   kernel otherwise. */
static double time_of(const tw_prefill *p, const tw_prefill_list *list, const tw_prefill_matrix *matrix, int parts,
                      bool fused) {
    const double kernel = fused ? 1.5 : 0;
    char epilogue[32];
    snprintf(epilogue, sizeof epilogue, "out=f32 addends=%d", parts);
    const double moved = 2.0 * parts * (double)list->tokens * (double)matrix->rows * sizeof(float);
    return tw_prefill_product_time(p, list, matrix, epilogue) + kernel + moved / TW_PREFILL_CACHED;
}

/* Chooses by estimates. Those of short products are too long by half, so that they stay whole. */
static int choose(const tw_prefill *p, const tw_prefill_list *list, const tw_prefill_matrix *matrix, const char *whole,
                  bool fused, int most) {
    const double shortest = 10, gain = 1; /* Microseconds. */
    double least = tw_prefill_product_time(p, list, matrix, whole);
    if (least < shortest || least >= 1e30) return 1;
    int best = 1;
    least -= gain;
    for (int parts = 2; parts <= most; parts *= 2) {
        const double time = time_of(p, list, matrix, parts, fused);
        if (time >= least) continue;
        least = time;
        best = parts;
    }
    return best;
}

int tw_prefill_parts(const tw_prefill *p, const tw_prefill_list *list, const tw_prefill_matrix *matrix,
                     const char *whole, bool fused, int asked) {
    enum { STAGE = 64 /* Elements along k. */ };
    const int64_t stages = tw_ceil_div(matrix->columns, STAGE); /* Tapes may have more, of zeros. */
    const int most = stages < TW_PROMPT_PARTS ? (int)stages : TW_PROMPT_PARTS;
    if (list->masked || matrix->groups || list->tokens <= FEW || list->tokens > MOST) return 1;
    if (asked) return asked <= most ? asked : 1;
    return choose(p, list, matrix, whole, fused, most);
}
