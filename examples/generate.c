/* SPDX-License-Identifier: Apache-2.0 */
/* Continues a text with a model, a token at a time:

     cc generate.c $(pkg-config --cflags --libs tilewright) -o generate && ./generate MODEL "Once upon a time" */
#include <tilewright/engine.h>
#include <tilewright/model.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool show(void *user, int32_t id, const char *text) {
    (void)user, (void)id;
    fputs(text, stdout);
    fflush(stdout);
    return true;
}

static tw_status generate(const char *directory, const char *text, tw_diag *diag) {
    tw_model *model = NULL;
    tw_tokenizer *tokenizer = NULL;
    tw_engine *engine = NULL;
    int32_t *prompt = NULL;
    size_t count = 0;
    tw_status st = tw_model_open(&model, directory, diag);
    if (st == TW_OK) st = tw_tokenizer_open(&tokenizer, directory, diag);
    if (st == TW_OK) st = tw_engine_open(&engine, model, &(tw_engine_options){.device = "auto"}, diag);
    if (st == TW_OK) st = tw_tokenizer_encode(tokenizer, text, strlen(text), true, &prompt, &count, diag);
    if (st == TW_OK) {
        tw_generation g = {.prompt = prompt, .n_prompt = (int64_t)count, .limit = 32, .emit = show};
        st = tw_generate(engine, tokenizer, &g, diag);
        if (st == TW_OK) printf("\n%lld tokens\n", (long long)g.n_ids);
        free(g.ids);
    }
    free(prompt);
    tw_engine_close(engine);
    tw_tokenizer_close(tokenizer);
    tw_model_close(model);
    return st;
}

int main(int argc, char **argv) {
    tw_diag diag;
    char place[1200];
    if (argc != 3) {
        fprintf(stderr, "usage: generate MODEL PROMPT\n");
        return 2;
    }
    if (generate(argv[1], argv[2], &diag) == TW_OK) return 0;
    tw_diag_place(&diag, place, sizeof place);
    fprintf(stderr, "generate: %s%s\n", place, diag.message);
    return 1;
}
