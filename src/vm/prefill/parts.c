/* SPDX-License-Identifier: Apache-2.0 */
/* Products in parts along k. A product of few rows has few tiles, and each block reads many bytes of both operands from
   the L2 cache, which is what it waits for. In parts, as many blocks have larger tiles and less of k, and blocks that
   fetch rows of A together. Nobody waits for a part: the norm behind the product adds them up, and so is a kernel. */
#include "base/divide.h"
#include "vm/prefill/program.h"

#include "tilewright/schedule.h"

enum {
    FEW = 8,     /* Rows of products that few.c has in parts already. */
    MOST = 384,  /* Rows. Products of more have large tiles for all multiprocessors. */
    SHORT = 256, /* Rows of a product that is in parts although nobody asked, at most. */
    LONG = 8192, /* Its columns, at least. */
};

/* Returns the microseconds of a product in parts, and of the norm behind it. Behind a whole product the norm is no
   kernel, and takes none. Here it is one, which reads the parts. */
static double time_of(const tw_prefill *p, int64_t rows, int64_t columns, int parts) {
    const double norm = 2 /* Microseconds of the norm's launch. */,
                 bytes = 6e6 /* Bytes of parts that the norm reads from the L2 cache in a microsecond. */;
    tw_gemm_problem of = {.type = p->type == TW_T_bf16 ? TW_GEMM_BF16 : TW_GEMM_F16,
                          .out = TW_T_f32,
                          .m = rows,
                          .n = p->vm->m->dim,
                          .k = columns,
                          .trans_b = true,
                          .alpha = 1,
                          .addends = parts};
    if (tw_gemm_problem_complete(&of, NULL) != TW_OK) return 1e30;
    return tw_prefill_tile_time(&of, NULL, p->gpu.target, p->info.sms) + norm +
           (double)(parts * rows * of.n) * sizeof(float) / bytes;
}

/* Chooses the parts of a product that nobody asked for. On an H200 a llama's `down` of 64 to 256 rows, with its norm,
   takes 0.2 to 5 us less a layer in parts than whole: 1 to 16 %. With 384 rows, or columns of 4,096 and less, it gains
   less than it may lose. No tiles of f32 were measured. */
static int usual(const tw_prefill *p, int64_t rows, int64_t columns) {
    enum { CHOICES = 3 };
    const double hardly = 0.02;
    double times[CHOICES], least = 1e30;
    if (p->type == TW_T_f32 || columns < LONG || rows > SHORT) return 1;
    for (int i = 0; i < CHOICES; i++) {
        times[i] = time_of(p, tw_ceil_div(rows, TW_PREFILL_GRAIN) * TW_PREFILL_GRAIN, columns, 2 << i);
        least = times[i] < least ? times[i] : least;
    }
    /* Fewer parts are fewer bytes, if they take hardly longer. */
    for (int i = 0; i < CHOICES && least < 1e30; i++)
        if (times[i] <= least * (1 + hardly)) return 2 << i;
    return 1;
}

int64_t tw_prefill_parts_bytes(const tw_prefill *p, int64_t rows) {
    const tw_model *m = p->vm->m;
    const int asked[] = {p->options.o_parts, p->options.down_parts};
    const int64_t columns[] = {m->n_heads * m->head_dim, m->ffn_dim};
    int64_t most = 0;
    for (int64_t up_to = TW_PREFILL_GRAIN; up_to < (rows < MOST ? rows : MOST) + TW_PREFILL_GRAIN;
         up_to += TW_PREFILL_GRAIN)
        for (int i = 0; i < 2; i++) {
            const int64_t of = up_to < rows ? up_to : rows;
            const int parts = asked[i] ? asked[i] : usual(p, of, columns[i]);
            if (parts > 1 && parts * of > most) most = parts * of;
        }
    return most * m->dim * (int64_t)sizeof(float);
}

int tw_prefill_parts(const tw_prefill *p, const tw_prefill_list *list, const tw_prefill_matrix *matrix, int asked) {
    enum { STAGE = 64 /* Elements along k. */ };
    const int64_t stages = tw_ceil_div(matrix->columns, STAGE); /* Tapes may have more, of zeros. */
    if (list->masked || matrix->groups || list->tokens <= FEW || list->tokens > MOST) return 1;
    if (asked) return asked <= stages && asked <= TW_PROMPT_PARTS ? asked : 1;
    return usual(p, list->tokens, matrix->columns);
}
