/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of another autotuner. A refusal names the file. What is read is written in both formats, and read
   again as the same number of measurements. */
#include "tune/condition.h"
#include "tune/interchange.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct taken {
    json_t *all;
    int n;
} taken;

static tw_status take(void *context, const tw_measurement *m, tw_diag *diag) {
    taken *t = context;
    t->n++;
    return tw_interchange_add(&t->all, m, diag);
}

static tw_status count(void *context, const tw_measurement *m, tw_diag *diag) {
    (void)m;
    (void)diag;
    ++*(int *)context;
    return TW_OK;
}

/* Reads the bytes as a condition and as a list of values. */
static void condition(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    bool holds;
    tw_diag diag;
    json_t *list;
    if (!text) abort();
    memcpy(text, data, size);
    text[size] = 0;
    tw_condition(text, NULL, &holds, &diag);
    if (tw_condition_list(text, &list, &diag) == TW_OK) json_decref(list);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const tw_interchange_names names = {.device = "D", .space = "s", .problem = "p=1"};
    taken t = {0};
    tw_diag diag = {0};
    condition(data, size);
    if (tw_interchange_read((const char *)data, size, "f", &names, take, &t, &diag) != TW_OK) {
        if (!diag.message[0] || strcmp(diag.path, "f") != 0) abort();
    } else if (t.n) {
        for (int cache = 0; cache < 2; cache++) {
            tw_buf text = {0};
            int n = 0;
            if ((cache ? tw_interchange_write_cache : tw_interchange_write_t4)(&text, t.all, &diag) != TW_OK) abort();
            if (tw_interchange_read(text.data, text.size, "f", NULL, count, &n, &diag) != TW_OK || n != t.n) abort();
            tw_buf_free(&text);
        }
    }
    json_decref(t.all);
    return 0;
}
