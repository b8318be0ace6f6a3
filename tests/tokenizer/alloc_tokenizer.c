/* SPDX-License-Identifier: Apache-2.0 */
/* The n-th allocation fails, for every n, in everything the tokenizers and chat templates do. */
#include "support/support.h"

#include "support/alloc_fail.h"
#include "tokenizer/tokenizer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define DATA TEST_DATA "/tokenizers/"

/* Jansson is left out of it: when the buffer of a token fails to grow, its lexer takes no notice. */
void *__real_malloc(size_t n);
static void spare_jansson(void) {
    json_set_alloc_funcs(__real_malloc, free);
}

/* 0 for success, 1 for "out of memory, said so". */
static int verdict(tw_status s, const tw_diag *diag) {
    if (s == TW_OK) return 0;
    return s == TW_ERR_MEMORY && diag->status == TW_ERR_MEMORY && !strcmp(diag->message, "out of memory") ? 1 : -(int)s;
}

/* What an attempt gave: a hash of its texts and ids. Memory must not end without a word, so every attempt that succeeds
   gives the same. */
typedef struct attempt {
    const tw_tokenizer *t;
    int32_t ids[4];
    uint64_t gave, gives; /* the first attempt, and this one */
} attempt;

static void hear(attempt *a, const void *data, size_t bytes) {
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++) a->gives = (a->gives ^ p[i]) * 1099511628211u;
    a->gives = (a->gives ^ bytes) * 1099511628211u;
}

static int same_verdict(attempt *a, tw_status s, const tw_diag *diag) {
    if (s == TW_OK && !a->gave) a->gave = a->gives;
    return s == TW_OK && a->gives != a->gave ? 2 : verdict(s, diag);
}

/* One of every part. */
static const char spec[] =
    "{\"added_tokens\":[{\"id\":9,\"content\":\"<x>\",\"single_word\":false,\"lstrip\":true,\"rstrip\":true,"
    "\"normalized\":false,\"special\":true},{\"id\":10,\"content\":\"<Y>\",\"single_word\":true,\"lstrip\":false,"
    "\"rstrip\":false,\"normalized\":true,\"special\":false}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":\"BertNormalizer\","
    "\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_accents\":false,\"lowercase\":true},{\"type\":"
    "\"Replace\","
    "\"pattern\":{\"Regex\":\"\\\\s{2,}\"},\"content\":\" \"},{\"type\":\"Prepend\",\"prepend\":\"_\"},"
    "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true},{\"type\":\"StripAccents\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
    "\"[^\\\\S\\\\n]+|[a-c&&[^b]]\"},\"behavior\":\"MergedWithNext\",\"invert\":false},{\"type\":\"Split\",\"pattern\":"
    "{\"String\":\"x\"},\"behavior\":\"Contiguous\",\"invert\":true},{\"type\":\"BertPreTokenizer\"},{\"type\":"
    "\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\",\"split\":true},{\"type\":\"ByteLevel\","
    "\"add_prefix_space\":true,\"use_regex\":true}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<x>\",\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{\"<x>\":{\"id\":\"<x>\",\"ids\":[9],"
    "\"tokens\":[\"<x>\"]}}},"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"b+\"},\"content\":"
    "\"q\"},{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},{\"type\":\"Metaspace\",\"replacement\":\"_\"},"
    "{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"},{\"type\":\"ByteFallback\"},{\"type\":\"ByteLevel\","
    "\"add_prefix_space\":true,\"trim_offsets\":true},{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":{"
    "\"String\":"
    "\"ab\"},\"content\":\"ba\"},{\"type\":\"Strip\",\"content\":\"b\",\"start\":1,\"stop\":1},{\"type\":\"WordPiece\","
    "\"prefix\":\"##\",\"cleanup\":true}]},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"continuing_subword_prefix\":\"##\",\"end_of_word_suffix\":\"</"
    "w>\","
    "\"byte_fallback\":true,\"fuse_unk\":true,\"vocab\":{\"u\":0,\"a\":1,\"b\":2,\"##b\":3,\"ab\":4,\"<0xCC>\":5,"
    "\"<0xC3>\":6,\"##b</w>\":7,\"ab</w>\":8},\"merges\":[\"a ##b\",\"a ##b</w>\"]}}";

#define MARKS "\xcc\x81\xcc\xa3\xcc\x81\xcc\xa3\xcc\x81\xcc\xa3\xcc\x81\xcc\xa3\xcc\x81\xcc\xa3\xcc\x81\xcc\xa3"

static int open_and_use(void *context) {
    attempt *a = context;
    /* The long row of marks is put in order by counting, which allocates. */
    static const char text[] =
        "ab a\xcc\xa3\xcc\x87 <x>  <Y> don't abb 12 \xe6\x97\xa5 \xf0\x9f\x99\x82 x" MARKS MARKS MARKS MARKS;
    tw_tokenizer *t = NULL;
    tw_token_stream *stream = NULL;
    int32_t *ids = NULL;
    char *back = NULL;
    const char *part;
    size_t n = 0, size;
    tw_diag diag = {0};
    a->gives = 1;
    spare_jansson();
    tw_status s = tw_tokenizer_open_memory(&t, spec, sizeof spec - 1, "spec.json", &diag);
    if (s == TW_OK) s = tw_tokenizer_encode(t, text, sizeof text - 1, true, &ids, &n, &diag);
    if (s == TW_OK) s = tw_tokenizer_decode(t, ids, n, true, &back, &size, &diag);
    if (s == TW_OK) hear(a, ids, n * sizeof *ids);
    if (s == TW_OK) hear(a, back, size);
    if (s == TW_OK) s = tw_token_stream_open(&stream, t, false, &diag);
    for (size_t i = 0; i < n && s == TW_OK; i++) {
        s = tw_token_stream_push(stream, ids[i], &part, &diag);
        hear(a, part, strlen(part));
    }
    if (s == TW_OK) s = tw_token_stream_flush(stream, &part, &diag);
    if (s == TW_OK) hear(a, part, strlen(part));
    tw_token_stream_close(stream);
    tw_tokenizer_close(t);
    free(ids);
    free(back);
    return same_verdict(a, s, &diag);
}

static void every_part(void **state) {
    (void)state;
    attempt a = {0};
    alloc_fail_exhaust(open_and_use, &a);
}

static int stream(void *context) {
    attempt *a = context;
    tw_token_stream *s = NULL;
    tw_diag diag = {0};
    const char *part;
    a->gives = 1;
    tw_status st = tw_token_stream_open(&s, a->t, true, &diag);
    for (int i = 0; i < 4 && st == TW_OK; i++) {
        st = tw_token_stream_push(s, a->ids[i], &part, &diag);
        hear(a, part, strlen(part));
    }
    if (st == TW_OK) st = tw_token_stream_flush(s, &part, &diag);
    if (st == TW_OK) hear(a, part, strlen(part));
    tw_token_stream_close(s);
    return same_verdict(a, st, &diag);
}

static int encode(void *context) {
    attempt *a = context;
    static const char text[] = "Unbelievable, isn't it? \xe4\xb8\xad";
    tw_diag diag = {0};
    int32_t *ids = NULL;
    size_t n;
    a->gives = 1;
    tw_status s = tw_tokenizer_encode(a->t, text, sizeof text - 1, true, &ids, &n, &diag);
    if (s == TW_OK) hear(a, ids, n * sizeof *ids);
    free(ids);
    return same_verdict(a, s, &diag);
}

static void whole_tokenizers(void **state) {
    (void)state;
    static const char *const names[] = {DATA "bpe-gpt2", DATA "bpe-llama3", DATA "sp-llama2", DATA "wordpiece-uncased"};
    for (int i = 0; i < 4; i++) {
        tw_tokenizer *t = NULL;
        assert_int_equal(tw_tokenizer_open(&t, names[i], NULL), TW_OK);
        attempt streamed = {.t = t, .ids = {300, 301, 302, 303}}, encoded = {.t = t};
        alloc_fail_exhaust(stream, &streamed);
        alloc_fail_exhaust(encode, &encoded);
        tw_tokenizer_close(t);
    }
}

/* The last token may be the beginning of what is replaced, and is held until the end. */
static void a_held_end(void **state) {
    (void)state;
    static const char text[] =
        "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":"
        "{\"String\":\"ab\"},\"content\":\"-\"}]},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}";
    tw_tokenizer *t = NULL;
    assert_int_equal(tw_tokenizer_open_memory(&t, text, sizeof text - 1, "t.json", NULL), TW_OK);
    attempt a = {.t = t, .ids = {0, 1, 1, 0}};
    alloc_fail_exhaust(stream, &a);
    tw_tokenizer_close(t);
}

static char *folder;

static int from_files(void *context) {
    (void)context;
    tw_diag diag = {0};
    tw_chat *chat = NULL;
    tw_chat_text text = {0};
    int32_t *ids = NULL;
    size_t n;
    char golden[4096];
    tw_tokenizer *t = NULL;
    spare_jansson();
    strcpy(golden, folder);
    strcat(golden, "/golden.json");
    tw_status s = tw_tokenizer_open(&t, folder, &diag);
    if (s == TW_OK) s = tw_tokenizer_check_golden(t, golden, NULL, &diag);
    if (s == TW_OK) s = tw_chat_open(&chat, folder, NULL, &diag);
    if (s == TW_OK)
        s = tw_chat_render(chat, &(tw_chat_request){.messages = "[{\"role\":\"user\",\"content\":\"a\"}]"}, &text,
                           &diag);
    if (s == TW_OK) s = tw_chat_encode(t, &text, &ids, &n, &diag);
    free(ids);
    tw_chat_text_free(&text);
    tw_chat_close(chat);
    tw_tokenizer_close(t);
    return verdict(s, &diag);
}

static void files_and_chats(void **state) {
    (void)state;
    static const char tokenizer[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
    static const char golden[] = "{\"cases\":[{\"text\":\"abb\",\"ids\":[2,1],\"ids_with_special\":[2,1],\"decoded\":"
                                 "\"ab b\",\"decoded_keep_special\":\"ab b\"}]}";
    static const char config[] = "{\"chat_template\":\"{% for message in messages %}{{'<|im_start|>' + message['role'] "
                                 "+ '\\n' + message['content'] + "
                                 "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
                                 "'<|im_start|>assistant\\n' }}{% endif %}\"}";
    folder = test_folder_make();
    test_write(folder, "tokenizer.json", tokenizer, sizeof tokenizer - 1);
    test_write(folder, "golden.json", golden, sizeof golden - 1);
    test_write(folder, "tokenizer_config.json", config, sizeof config - 1);
    alloc_fail_exhaust(from_files, NULL);
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_part), cmocka_unit_test(whole_tokenizers),
                                       cmocka_unit_test(a_held_end), cmocka_unit_test(files_and_chats)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
