/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all parameters of tw_schedule_config. */
#include "schedule/config.h"

#include "base/diag.h"
#include "base/file.h"

#include <stddef.h>

/* Words of the cache's type. KV_F32 asks for exactly f32. KV_AUTO lets the machine choose. */
enum { KV_AUTO, KV_F32, KV_F16, KV_BF16 };

static int64_t get_kv(const void *config) {
    const tw_lowering *l = &((const tw_schedule_config *)config)->lowering;
    return l->kv == TW_F16 ? KV_F16 : l->kv == TW_BF16 ? KV_BF16 : l->exact_kv ? KV_F32 : KV_AUTO;
}

static void set_kv(void *config, int64_t value) {
    tw_lowering *l = &((tw_schedule_config *)config)->lowering;
    l->kv = value == KV_F16 ? TW_F16 : value == KV_BF16 ? TW_BF16 : TW_F32;
    l->exact_kv = value != KV_AUTO;
}

#define LOWERING(f, r) .name = #f, .role = TW_SPACE_##r, .at = offsetof(tw_schedule_config, lowering.f)
#define MACHINE(f, r)                                                                                                  \
    .name = #f, .object = "machine", .role = TW_SPACE_##r, .at = offsetof(tw_schedule_config, machine.f)
#define INT32(from, to) .form = TW_SPACE_INT32, .least = from, .most = to
#define INT64(from, to) .form = TW_SPACE_INT64, .least = from, .most = to
#define FLAG            .form = TW_SPACE_FLAG
#define WORDS(...)                                                                                                     \
    .form = TW_SPACE_WORD, .words = (const char *const[]) {                                                            \
        __VA_ARGS__, NULL                                                                                              \
    }
#define CODES(...)                                                                                                     \
    .codes = (const int[]) {                                                                                           \
        __VA_ARGS__                                                                                                    \
    }
#define VALUES(...) .values = (const int[]){__VA_ARGS__}, .n_values = sizeof((const int[]){__VA_ARGS__}) / sizeof(int)

/* Files have the parameters in this order. */
static const tw_param params[] = {
    {LOWERING(workers, MACRO), INT32(0, TW_MAX_WORKERS), VALUES(0, 1, 2, 4, 8, 16, 32, 64, 128),
     .meaning = "lists of instructions; 0: as many as the machine has"},
    {LOWERING(tokens, GIVEN), INT64(0, 1 << 20), .meaning = "positions a step takes at most; 0: 1"},
    {LOWERING(sequences, GIVEN), INT64(0, 1 << 20),
     .meaning = "that decode together, one position of each a step; 0: 1"},
    {LOWERING(max_seq, GIVEN), INT64(0, INT32_MAX),
     .meaning = "rows of the key/value cache; 0: what the model was made for"},
    {LOWERING(all_logits, GIVEN), FLAG, .meaning = "logits of every position, not of the last alone"},
    {LOWERING(weights, GIVEN), WORDS("native", "int8", "int4"), CODES(TW_F32, TW_I8, TW_I4),
     .meaning = "matrices as stored, or quantised"},
    {LOWERING(group, GIVEN), INT32(0, 128),
     .meaning = "columns that share a scale: 32, 64 or 128; 0: a row (int8), 64 (int4)"},
    {LOWERING(row_unit, MACRO), INT64(0, INT32_MAX), VALUES(0, 2, 4, 8, 16, 32, 64),
     .meaning = "rows are dealt out in multiples of this even number; 0: what suits the machine"},
    {LOWERING(kv_splits, MACRO), INT64(0, 4096), VALUES(0, 1, 2, 4, 8, 16, 32),
     .meaning = "parts of the past that attention is split in; 0: enough to busy every worker"},
    {LOWERING(row_blocks, MACRO), INT64(0, INT32_MAX), VALUES(0, 1, 2, 4, 8),
     .meaning = "blocks of positions that attention is split in; 0: likewise"},
    {LOWERING(down_splits, MACRO), INT64(0, 16), VALUES(0, 1, 2, 4, 7, 8),
     .meaning = "equal parts that the columns of the feed-forward layer's second product are split in, in steps of "
                "several positions on a GPU; 0: what suits the machine"},
    {LOWERING(kv, GIVEN), WORDS("auto", "f32", "f16", "bf16"), .get = get_kv, .set = set_kv,
     .meaning = "of the key/value cache; auto: what suits the machine"},
    {LOWERING(group_heads, MACRO), FLAG,
     .meaning = "one instruction for all query heads of a key/value head; a GPU's machine always has them so"},
    {LOWERING(head_norms, MACRO), WORDS("auto", "qkv", "turn", "attend"),
     CODES(TW_HEAD_NORMS_AUTO, TW_HEAD_NORMS_QKV, TW_HEAD_NORMS_TURN, TW_HEAD_NORMS_ATTEND),
     .meaning = "which instruction norms the heads of queries and keys: qkv, of whole heads, turn after it, or a GPU's "
                "attend where a step has one position; auto: what is likely faster"},
    {MACHINE(warps, MICRO), INT32(0, 16), VALUES(0, 1, 2, 4, 8, 12, 16),
     .meaning = "warps of a block that multiply; 0: choose"},
    {MACHINE(blocks, MICRO), INT32(0, 8), VALUES(0, 1, 2, 4, 8),
     .meaning = "pieces of 512 bytes that each of them takes of a stage; 0: choose"},
    {MACHINE(stages, MICRO), INT32(0, 32), VALUES(0, 2, 4, 8, 16, 32),
     .meaning = "of the ring in shared memory; 0: as many as fit"},
    {MACHINE(window, MICRO), INT32(0, 32), VALUES(0, 1, 2, 4, 8, 16),
     .meaning = "stages in flight at once, at most; 0: choose, 48 or 64 KB"},
    {MACHINE(ahead, MICRO), INT32(0, 32), VALUES(0, 1, 2, 4, 8, 16),
     .meaning = "stages in flight at most while the next one's instruction waits for its input; 0: choose, 32 KB or "
                "the window"},
    {MACHINE(edges, MICRO), WORDS("auto", "counters", "data"), CODES(TW_EDGES_AUTO, TW_EDGES_COUNTERS, TW_EDGES_DATA),
     .meaning = "how an instruction learns that what it reads is there"},
    {MACHINE(spin_limit, GIVEN), INT32(0, INT32_MAX),
     .meaning = "looks at an edge before the machine gives up; 0: seconds' worth"},
    {.name = "prompts",
     .role = TW_SPACE_GIVEN,
     .at = offsetof(tw_schedule_config, prompts),
     WORDS("auto", "steps", "unpacked", "apart"),
     CODES(TW_PROMPTS_AUTO, TW_PROMPTS_STEPS, TW_PROMPTS_UNPACKED, TW_PROMPTS_APART),
     .meaning = "how a GPU runs prompts: auto: long ones by kernels for all positions at once where these cover model "
                "and GPU; steps: by steps of the machine that decodes; unpacked: as auto, with matrices unpacked "
                "before each product; apart: as auto, with kernels of their own for what products could do"},
    {.name = "prompt_o_parts",
     .role = TW_SPACE_GIVEN,
     .at = offsetof(tw_schedule_config, prompt_o_parts),
     INT32(0, TW_PROMPT_PARTS),
     VALUES(0, 1, 2, 4, 8),
     .meaning =
         "equal parts that the columns of attention's second product are split in, which the norm behind it adds "
         "up, in short prompts on a GPU; 1: none; 0: choose"},
    {.name = "prompt_down_parts",
     .role = TW_SPACE_GIVEN,
     .at = offsetof(tw_schedule_config, prompt_down_parts),
     INT32(0, TW_PROMPT_PARTS),
     VALUES(0, 1, 2, 4, 8),
     .meaning = "the same of the feed-forward layer's second product"},
};

static tw_status legal(const void *context, const void *config, tw_diag *diag) {
    const tw_schedule_space_context *of = context;
    tw_lowering l = ((const tw_schedule_config *)config)->lowering;
    if (!l.workers) l.workers = of->workers;
    if (l.workers > of->workers)
        return tw_fail(diag, TW_ERR_USAGE, "workers: %d are more than the machine's %d", l.workers, of->workers);
    return tw_lowering_check(of->model, &l, diag);
}

const tw_space tw_schedule_space = {.name = "schedule",
                                    .title = "How Tilewright lowers a model, and how a GPU's machine is built",
                                    .example = "machine.warps=8",
                                    .params = params,
                                    .n = sizeof params / sizeof *params,
                                    .bytes = sizeof(tw_schedule_config),
                                    .legal = legal};

tw_status tw_schedule_config_read(tw_schedule_config *c, const char *path, tw_diag *diag) {
    return tw_space_read_json(&tw_schedule_space, c, path, diag);
}

static tw_status finish(tw_buf *out, const char *path, tw_diag *diag) {
    tw_status st = out->failed ? tw_fail_memory(diag) : tw_file_write(path, out->data, out->size, diag);
    tw_buf_free(out);
    return st;
}

tw_status tw_schedule_config_write(const tw_schedule_config *c, const char *path, tw_diag *diag) {
    tw_buf out = {0};
    tw_space_put_json(&tw_schedule_space, c, &out);
    return finish(&out, path, diag);
}

tw_status tw_schedule_config_schema(const char *path, tw_diag *diag) {
    tw_buf out = {0};
    tw_space_put_schema(&tw_schedule_space, &out);
    return finish(&out, path, diag);
}
