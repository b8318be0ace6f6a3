/* SPDX-License-Identifier: Apache-2.0 */
/* Products in parts along k. A product of few rows has few tiles, and each block reads many bytes of both operands from
   the L2 cache, which is what it waits for. In parts, as many blocks have larger tiles and less of k. Nobody waits for
   a part: the norm behind the product adds them up, and so is a kernel. */
#include "base/divide.h"
#include "vm/prefill/program.h"

#include "tilewright/schedule.h"

enum {
    FEW = 8,     /* Rows of products that few.c has in parts already. */
    MOST = 192,  /* Rows. Products of more have large tiles for all multiprocessors. */
    USUAL = 4,   /* Parts that nobody asked for. */
    SHORT = 128, /* Rows of a product in these, at most. */
    LONG = 8192, /* Its columns, at least. */
};

/* On an H200 a 1B llama's `down` in 4 parts takes 1.5 % off a prompt of 64 or 128 tokens, and nothing off one of 129 to
   192; an 8B llama's takes 8 % off 128. Products of 3,072 columns and less lose. No tiles of f32 were measured. */
static int usual(const tw_prefill *p, int64_t columns) {
    return p->type == TW_T_f32 || columns < LONG ? 1 : USUAL;
}

int64_t tw_prefill_parts_bytes(const tw_prefill *p, int64_t rows) {
    const tw_model *m = p->vm->m;
    const int o = p->options.o_parts ? p->options.o_parts : usual(p, m->n_heads * m->head_dim),
              down = p->options.down_parts ? p->options.down_parts : usual(p, m->ffn_dim), parts = o > down ? o : down;
    if (parts == 1) return 0;
    return parts * (rows < MOST ? rows : MOST) * m->dim * (int64_t)sizeof(float);
}

int tw_prefill_parts(const tw_prefill *p, const tw_prefill_list *list, const tw_prefill_matrix *matrix, int asked) {
    enum { STAGE = 64 /* Elements along k. */ };
    const int64_t stages = tw_ceil_div(matrix->columns, STAGE); /* Tapes may have more, of zeros. */
    if (list->masked || matrix->groups || list->tokens <= FEW || list->tokens > MOST) return 1;
    if (asked) return asked <= stages && asked <= TW_PROMPT_PARTS ? asked : 1;
    return list->tokens <= SHORT ? usual(p, matrix->columns) : 1;
}
