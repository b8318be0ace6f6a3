/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of bench_tuners. */
#ifndef TW_BENCH_TUNERS_H
#define TW_BENCH_TUNERS_H

#include "tune/gemm_gpu.h"
#include "tuner_products.h"

#include <jansson.h>

enum {
    TUNER_TOKENS = 512,
    TUNER_HELD = 16 /* The most products on which tuners are judged. */
};

/* Names of campaigns (tune/trials.h): what tuners learn from, and what they are judged on. */
#define TUNERS_LEARN "tuners"
#define TUNERS_JUDGE "judged"
/* The model on whose products tuners are judged. They learn from those of the BERT and GPT-2 models. */
#define TUNERS_MODEL "openllama-3b"

/* Batches of both. */
static const int tuner_batches[] = {1, 4};
enum { TUNER_BATCHES = sizeof tuner_batches / sizeof *tuner_batches };

/* Lists the products that tuners are judged on (`judged`), or learn from; `batch` of each. Each is listed once. Returns
   their number, at most `most`. */
int tuners_products(bool judged, tuner_product *out, int *batch, int most);

/* Prints a line of JSON, and frees it. */
void tuners_print(json_t *o);

/* Judges all tuners by what a store has. `log`: what measuring printed. NULL: seconds of searches are not told. */
tw_status tuners_judge(const char *path, tw_gemm_type type, const char *log, json_t *head, tw_diag *diag);

#endif
