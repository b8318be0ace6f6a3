/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as config.json and as generation_config.json: malformed, refused with reasons, or a model whose sizes hold.
 */
#include "base/diag.h"
#include "model/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_model(const tw_config *c, bool accepted) {
    static tw_model m;
    memset(&m, 0, sizeof m);
    if (!tw_config_apply(c, &m)) abort();
    if (!accepted) { /* applied all the same, so that the faults of the weights can be told too */
        tw_arena_free(&m.arena);
        return;
    }
    if (m.n_layers < 1 || m.head_dim < 1 || m.n_heads % m.n_kv_heads || m.max_seq < 1 || m.n_experts_used > m.n_experts)
        abort();
    for (int e = TW_EXTENT_ONE; e <= TW_EXTENT_MAX_SEQ; e++)
        if (tw_model_extent(&m, (tw_extent)e) < 0) abort();
    for (int64_t i = 0; i < m.n_layers; i++) {
        unsigned f = tw_config_features(c, i);
        if (!(f & TW_HAS_DENSE) == !(f & TW_HAS_EXPERTS) || m.layers[i].window < 0) abort();
    }
    if (m.rope.kind != TW_ROPE_NONE) {
        float *far = malloc((size_t)(m.rope.dims / 2) * sizeof *far);
        if (!far) abort();
        tw_rope_frequencies(&m.rope, m.max_seq, far);
        for (int64_t i = 0; i < m.rope.dims / 2; i++)
            if (isnan(far[i]) || isnan(m.rope.inv_freq[i])) abort();
        free(far);
    }
    tw_arena_free(&m.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tw_config c;
    tw_arena arena = {0};
    tw_diag diag;
    tw_diag_clear(&diag);
    tw_reasons reasons = {.diag = &diag, .path = "f"};
    bool usable;
    tw_status s = tw_config_parse(&c, &arena, (const char *)data, size, "f", &reasons, &usable);
    if (s != TW_OK && !diag.message[0]) abort();
    if ((reasons.count > 0) != (diag.message[0] != 0) && s == TW_OK) abort();
    if (usable) {
        check_model(&c, !reasons.count);
        if (s == TW_OK) tw_config_parse_generation(&c, &arena, (const char *)data, size, "f", &reasons);
        if (c.n_eos < 0 || c.n_eos > TW_EOS_MAX) abort();
    }
    tw_arena_free(&arena);
    return 0;
}
