/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of byte-pair encoding one by one, on vocabularies small enough to see the answer. */
#include "support/support.h"

#include "tilewright/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct encoding {
    const char *text;
    int n;
    int32_t ids[8];
} encoding;

static void encodes(const char *model, const encoding *cases, int n) {
    char *folder = test_folder_make(), path[4200], json[2000];
    tw_tokenizer *t;
    tw_diag d;
    snprintf(json, sizeof json, "{\"version\":\"1.0\",\"model\":{\"type\":\"BPE\",%s}}", model);
    test_write(folder, "tokenizer.json", json, strlen(json));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (tw_tokenizer_open(&t, path, &d) != TW_OK) fail_msg("%s: %s", model, d.message);
    for (int i = 0; i < n; i++) {
        int32_t *ids;
        size_t count;
        if (tw_tokenizer_encode(t, cases[i].text, strlen(cases[i].text), false, &ids, &count, &d) != TW_OK)
            fail_msg("%s: %s", cases[i].text, d.message);
        if ((int)count != cases[i].n || memcmp(ids, cases[i].ids, count * sizeof *ids) != 0)
            fail_msg("%s: \"%s\": %zu ids, first %d", model, cases[i].text, count, count ? ids[0] : -1);
        free(ids);
    }
    tw_tokenizer_close(t);
    test_folder_remove(folder);
}
#define ENCODES(model, ...)                                                                                            \
    encodes(model, (const encoding[]){__VA_ARGS__}, (int)(sizeof((const encoding[]){__VA_ARGS__}) / sizeof(encoding)))

/* No merge makes "abc": a word of that name is one id only where merges may be ignored, and alone where it is the whole
   word. */
#define VOCAB "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"c\":3,\"abc\":4},\"merges\":[\"a b\"]"

static void a_word_of_the_vocabulary_may_go_before_merges(void **state) {
    (void)state;
    ENCODES("\"ignore_merges\":true," VOCAB, {"abc", 1, {4}}, {"abcc", 3, {2, 3, 3}}, {"ab", 1, {2}},
            {"ca", 2, {3, 0}});
    ENCODES("\"ignore_merges\":false," VOCAB, {"abc", 2, {2, 3}}, {"abcc", 3, {2, 3, 3}}, {"ab", 1, {2}});
    ENCODES(VOCAB, {"abc", 2, {2, 3}});
}

/* The merge of the lowest rank goes first wherever it stands, the leftmost of equals first. */
static void merges_go_by_rank(void **state) {
    (void)state;
    ENCODES("\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4,\"abc\":5},\"merges\":[\"b c\",\"a b\",\"a bc\"]",
            {"abc", 1, {5}}, {"ab", 1, {3}}, {"abab", 2, {3, 3}}, {"abcab", 2, {5, 3}});
    ENCODES("\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4},\"merges\":[\"a b\",\"b c\"]", {"abc", 2, {3, 2}},
            {"bcabc", 3, {4, 3, 2}});
    ENCODES("\"vocab\":{\"a\":0,\"aa\":1,\"aaaa\":2},\"merges\":[\"a a\",\"aa aa\"]", {"aaa", 2, {1, 0}},
            {"aaaa", 1, {2}}, {"aaaaa", 2, {2, 0}}, {"aaaaaaa", 3, {2, 1, 0}});
}

static void what_is_unknown_is_said_so(void **state) {
    (void)state;
#define UNKNOWN "\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"<0xC3>\":2,\"<0xA9>\":3},\"merges\":[]"
    ENCODES("\"fuse_unk\":false," UNKNOWN, {"axxa", 4, {1, 0, 0, 1}});
    ENCODES("\"fuse_unk\":true," UNKNOWN, {"axxa", 3, {1, 0, 1}}, {"xax", 3, {0, 1, 0}});
    ENCODES("\"byte_fallback\":true," UNKNOWN, {"a\303\251", 3, {1, 2, 3}}, {"x", 1, {0}});
    ENCODES("\"byte_fallback\":false," UNKNOWN, {"a\303\251", 2, {1, 0}});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_of_the_vocabulary_may_go_before_merges),
        cmocka_unit_test(merges_go_by_rank),
        cmocka_unit_test(what_is_unknown_is_said_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
