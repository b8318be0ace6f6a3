/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "base/clock.h"
#include "base/diag.h"
#include "base/file.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA TEST_DATA "/tokenizers/"

static tw_tokenizer *open_data(const char *name) {
    char path[600];
    snprintf(path, sizeof path, DATA "%s", name);
    tw_tokenizer *t = NULL;
    tw_diag diag = {0};
    if (tw_tokenizer_open(&t, path, &diag) != TW_OK) fail_msg("%s: %s", name, diag.message);
    return t;
}

/* Every folder of reference data, in all fields, streaming included. */
static void agrees_with_the_reference(void **state) {
    (void)state;
    DIR *d = opendir(TEST_DATA "/tokenizers");
    assert_non_null(d);
    int folders = 0, bad = 0;
    for (struct dirent *e; (e = readdir(d));) {
        char golden[600];
        snprintf(golden, sizeof golden, DATA "%s/golden.json", e->d_name);
        if (e->d_name[0] == '.' || !tw_file_exists(golden)) continue;
        tw_tokenizer *t = open_data(e->d_name);
        tw_diag diag = {0};
        int64_t cases = 0;
        if (tw_tokenizer_check_golden(t, golden, &cases, &diag) != TW_OK) {
            print_error("%s: after %lld cases: %s\n", e->d_name, (long long)cases, diag.message);
            bad++;
        }
        tw_tokenizer_close(t);
        folders++;
    }
    closedir(d);
    assert_true(folders >= 20);
    assert_int_equal(bad, 0);
}

static void golden_check_finds_every_difference(void **state) {
    (void)state;
    static const char *const texts[][2] = {{"{\"cases\":[{\"text\":\"\",\"ids\":[1],\"ids_with_special\":[],"
                                            "\"decoded\":\"\",\"decoded_keep_special\":\"\"}]}",
                                            ".ids[0]"},
                                           {"{\"cases\":[{\"text\":\"\",\"ids\":[],\"ids_with_special\":[1],"
                                            "\"decoded\":\"\",\"decoded_keep_special\":\"\"}]}",
                                            ".ids_with_special[0]"},
                                           {"{\"cases\":[{\"text\":\"\",\"ids\":[],\"ids_with_special\":[],\"decoded\":"
                                            "\"x\",\"decoded_keep_special\":\"\"}]}",
                                            ".decoded:"},
                                           {"{\"cases\":[{\"text\":\"\",\"ids\":[],\"ids_with_special\":[],\"decoded\":"
                                            "\"\",\"decoded_keep_special\":\"\\u0001\"}]}",
                                            ".decoded_keep_special:"}};
    static const char *const broken[] = {"",
                                         "{}",
                                         "{\"cases\":[]}",
                                         "{\"cases\":[1]}",
                                         "{\"cases\":[{\"text\":1}]}",
                                         "{\"cases\":[{\"text\":\"\"}]}",
                                         "{\"cases\":[{\"text\":\"\",\"ids\":[-1]}]}",
                                         "{\"cases\":[{\"text\":\"\",\"ids\":[],\"ids_with_special\":[]}]}"};
    tw_tokenizer *t = open_data("bpe-gpt2");
    char *folder = test_folder_make(), path[4096];
    snprintf(path, sizeof path, "%s/golden.json", folder);
    tw_diag diag;
    int64_t n;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        test_write(folder, "golden.json", texts[i][0], strlen(texts[i][0]));
        assert_int_equal(tw_tokenizer_check_golden(t, path, &n, &diag), TW_ERR_MISMATCH);
        if (!strstr(diag.message, texts[i][1])) fail_msg("%s: %s", texts[i][1], diag.message);
        assert_int_equal(n, 0);
    }
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        test_write(folder, "golden.json", broken[i], strlen(broken[i]));
        assert_int_equal(tw_tokenizer_check_golden(t, path, NULL, &diag), TW_ERR_FORMAT);
    }
    tw_tokenizer_close(t);
    test_folder_remove(folder);
}

/* ---- files ---- */

static tw_tokenizer *open_text(const char *text, tw_status want, const char *word) {
    tw_tokenizer *t = NULL;
    tw_diag diag = {0};
    tw_status s = tw_tokenizer_open_memory(&t, text, strlen(text), "t.json", &diag);
    if (s != want) fail_msg("status %d, not %d: %s\n%s", s, want, diag.message, text);
    if (word && !strstr(diag.message, word)) fail_msg("\"%s\" is not in: %s", word, diag.message);
    if (s != TW_OK) assert_null(t);
    return t;
}

/* A small BPE with `parts` between the braces beside its model. */
static tw_tokenizer *open_bpe(const char *parts, tw_status want, const char *word) {
    char text[4096];
    snprintf(text, sizeof text,
             "{%s\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":5,\"c\":2},\"merges\":[\"a b\"]}}",
             parts);
    return open_text(text, want, word);
}

static void broken_files_are_told_apart(void **state) {
    (void)state;
    static const struct {
        const char *text;
        tw_status want;
        const char *word;
    } files[] = {
        {"", TW_ERR_FORMAT, "JSON"},
        {"[]", TW_ERR_FORMAT, "object"},
        {"{}", TW_ERR_FORMAT, "model"},
        {"{\"model\":{\"type\":\"BPE\"}}", TW_ERR_FORMAT, "merges"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}}", TW_ERR_FORMAT, "vocab"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", TW_ERR_FORMAT, "same id 0"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", TW_ERR_FORMAT, "2^31"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":2147483648},\"merges\":[]}}", TW_ERR_FORMAT, "2^31"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":2147483647},\"merges\":[]}}", TW_ERR_UNSUPPORTED, "beyond"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"x\"},\"merges\":[]}}", TW_ERR_FORMAT, "whole number"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", TW_ERR_FORMAT, "names b"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", TW_ERR_FORMAT, "makes aa"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", TW_ERR_FORMAT, "merges[0]"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", TW_ERR_FORMAT, "merges[0]"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[[\"a\",\"a\"],\"a a\"]}}",
         TW_ERR_FORMAT, "merges[1]"},
        {"{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{},\"merges\":[]}}", TW_ERR_UNSUPPORTED, "dropout"},
        {"{\"model\":{\"type\":\"BPE\",\"fuse_unk\":1,\"vocab\":{},\"merges\":[]}}", TW_ERR_FORMAT, "fuse_unk"},
        {"{\"model\":{\"type\":\"BPE\",\"flavour\":1,\"vocab\":{},\"merges\":[]}}", TW_ERR_UNSUPPORTED, "flavour"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"extra\":{}}", TW_ERR_UNSUPPORTED, "extra"},
        {"{\"version\":\"2.0\",\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", TW_ERR_UNSUPPORTED,
         "version"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", TW_ERR_UNSUPPORTED, "Unigram"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", TW_ERR_FORMAT, "unk_token"},
        {"{\"model\":{\"type\":7}}", TW_ERR_UNSUPPORTED, "no name"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) open_text(files[i].text, files[i].want, files[i].word);
    tw_tokenizer *t;
    assert_int_equal(tw_tokenizer_open(&t, "/nowhere/tokenizer.json", NULL), TW_ERR_IO);
    assert_int_equal(tw_tokenizer_open(NULL, "x", NULL), TW_ERR_USAGE);
}

static void parts_that_are_not_known_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *parts;
        tw_status want;
        const char *word;
    } parts[] = {
        {"\"normalizer\":{\"type\":\"Precompiled\"},", TW_ERR_UNSUPPORTED, "Precompiled"},
        {"\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true},", TW_ERR_FORMAT, "strip_right"},
        {"\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true,\"x\":1},", TW_ERR_UNSUPPORTED,
         "normalizer.x"},
        {"\"normalizer\":7,", TW_ERR_FORMAT, "normalizer"},
        {"\"normalizer\":{\"type\":\"Sequence\"},", TW_ERR_FORMAT, "normalizers"},
        {"\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"},", TW_ERR_UNSUPPORTED,
         "does not end"},
        {"\"normalizer\":{\"type\":\"Replace\",\"pattern\":\"x\",\"content\":\"\"},", TW_ERR_FORMAT, "pattern"},
        {"\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"},", TW_ERR_UNSUPPORTED, "UnicodeScripts"},
        {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"ab\"},", TW_ERR_FORMAT, "one character"},
        {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"},",
         TW_ERR_UNSUPPORTED, "prepend_scheme"},
        {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\",\"add_prefix_"
         "space\":false},",
         TW_ERR_FORMAT, "contradicts"},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Glued\",\"invert\":false}"
         ",",
         TW_ERR_UNSUPPORTED, "Glued"},
        {"\"decoder\":{\"type\":\"CTC\"},", TW_ERR_UNSUPPORTED, "CTC"},
        {"\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":-1,\"stop\":0},", TW_ERR_FORMAT, "start"},
        {"\"post_processor\":{\"type\":\"Else\"},", TW_ERR_UNSUPPORTED, "Else"},
        {"\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",0],\"sep\":[\"x\",77]},", TW_ERR_FORMAT, "77"},
        {"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"B\"}}]},",
         TW_ERR_FORMAT, "sequence A"},
        {"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"q\"}}]},",
         TW_ERR_FORMAT, "special"},
        {"\"padding\":{\"strategy\":{\"Fixed\":8}},", TW_ERR_UNSUPPORTED, "padding"},
        {"\"padding\":{\"strategy\":\"BatchLongest\",\"pad_to_multiple_of\":8},", TW_ERR_UNSUPPORTED, "multiple"},
        {"\"truncation\":{\"max_length\":4,\"strategy\":\"OnlySecond\",\"stride\":0},", TW_ERR_UNSUPPORTED, "strategy"},
        {"\"truncation\":{\"max_length\":4,\"strategy\":\"LongestFirst\",\"stride\":4},", TW_ERR_UNSUPPORTED,
         "no room"},
        {"\"added_tokens\":[7],", TW_ERR_FORMAT, "added_tokens[0]"},
        {"\"added_tokens\":[{\"id\":9,\"content\":\"x\"}],", TW_ERR_FORMAT, "single_word"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) open_bpe(parts[i].parts, parts[i].want, parts[i].word);
    /* All reasons at once. */
    static const char two[] = "\"normalizer\":{\"type\":\"Precompiled\"},\"decoder\":{\"type\":\"CTC\"},"
                              "\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"},";
    open_bpe(two, TW_ERR_UNSUPPORTED, "Precompiled");
    open_bpe(two, TW_ERR_UNSUPPORTED, "CTC");
    open_bpe(two, TW_ERR_UNSUPPORTED, "UnicodeScripts");
}

#define FLAGS "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true"

static void added_tokens_keep_their_ids(void **state) {
    (void)state;
    open_bpe("\"added_tokens\":[{\"id\":1,\"content\":\"x\"," FLAGS "}],", TW_ERR_FORMAT, "belongs to b");
    open_bpe("\"added_tokens\":[{\"id\":1,\"content\":\"a\"," FLAGS "}],", TW_ERR_FORMAT, "but 0 before");
    open_bpe("\"added_tokens\":[{\"id\":9,\"content\":\"x\"," FLAGS "},{\"id\":9,\"content\":\"x\"," FLAGS "}],",
             TW_ERR_FORMAT, "twice");
    open_bpe("\"added_tokens\":[{\"id\":4000000000,\"content\":\"x\"," FLAGS "}],", TW_ERR_FORMAT, "range");
    tw_tokenizer *t =
        open_bpe("\"added_tokens\":[{\"id\":0,\"content\":\"a\"," FLAGS "},{\"id\":9,\"content\":\"<x>\"," FLAGS "}],",
                 TW_OK, NULL);
    assert_int_equal(tw_tokenizer_size(t), 10);
    assert_string_equal(tw_tokenizer_piece(t, 9), "<x>");
    assert_string_equal(tw_tokenizer_piece(t, 5), "ab");
    for (int64_t id = 6; id < 9; id++) assert_null(tw_tokenizer_piece(t, id));
    assert_null(tw_tokenizer_piece(t, -1));
    assert_null(tw_tokenizer_piece(t, 10));
    assert_int_equal(tw_tokenizer_id(t, "<x>"), 9);
    assert_int_equal(tw_tokenizer_id(t, "zz"), -1);
    assert_true(tw_tokenizer_is_special(t, 9));
    assert_true(tw_tokenizer_is_special(t, 0));
    assert_false(tw_tokenizer_is_special(t, 1));
    assert_false(tw_tokenizer_is_special(t, 7));
    char *text;
    tw_diag diag;
    /* No text, and no space of a token's own either. */
    static const int32_t holes[] = {7, 5, 10, 2000000000, 9, 8}, without[] = {5, 9}, negative = -1;
    char *plain;
    assert_int_equal(tw_tokenizer_decode(t, holes, 6, true, &text, NULL, &diag), TW_OK);
    assert_int_equal(tw_tokenizer_decode(t, without, 2, true, &plain, NULL, &diag), TW_OK);
    assert_string_equal(text, plain);
    assert_true(*text);
    free(text);
    free(plain);
    tw_token_stream *s;
    const char *now = NULL;
    assert_int_equal(tw_token_stream_open(&s, t, true, &diag), TW_OK);
    for (int i = 0; i < 6; i += 2) {
        assert_int_equal(tw_token_stream_push(s, holes[i], &now, &diag), TW_OK);
        if (i < 4) assert_string_equal(now, "");
    }
    tw_token_stream_close(s);
    assert_int_equal(tw_tokenizer_decode(t, &negative, 1, true, &text, NULL, &diag), TW_ERR_USAGE);
    assert_null(text);
    assert_non_null(strstr(diag.message, "-1 is not the id of a token"));
    tw_tokenizer_close(t);
}

static void files_without_a_type_are_understood(void **state) {
    (void)state;
    tw_tokenizer_close(open_text(
        "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"#version: 0.2\",\"a b\"]}}", TW_OK, NULL));
    tw_tokenizer_close(open_text(
        "{\"model\":{\"unk_token\":\"u\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,"
        "\"vocab\":{\"u\":0}}}",
        TW_OK, NULL));
}

/* ---- texts ---- */

static void text_that_is_not_utf8_is_refused_with_its_place(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int at;
    } bad[] = {{"\x80", 0},
               {"ab\xc3", 2},
               {"\xc0\x80", 0},
               {"a\xed\xa0\x80", 1},
               {"\xf4\x90\x80\x80", 0},
               {"\xf0\x8f\xbf\xbf", 0},
               {"\xe0\x9f\xbf", 0},
               {"\xf8\x88\x80\x80\x80", 0},
               {"\xe2\x82", 0},
               {"\xf0\x9f\x99", 0}};
    tw_tokenizer *t = open_data("bpe-gpt2");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int32_t *ids = NULL;
        size_t n;
        tw_diag diag;
        assert_int_equal(tw_tokenizer_encode(t, bad[i].text, strlen(bad[i].text), false, &ids, &n, &diag),
                         TW_ERR_FORMAT);
        assert_int_equal(diag.offset, bad[i].at);
        assert_null(ids);
    }
    tw_tokenizer_close(t);
}

/* Nothing takes time that grows with the square of a word. */
static void long_words_take_linear_time(void **state) {
    (void)state;
    static const char *const names[] = {"bpe-gpt2",   "sp-llama2",  "wordpiece-uncased",
                                        "made-qwen2", "made-flags", "made-metaspace-always"};
    static const char *const units[] = {
        "a", " ", "ab", "\n", "1", "\xcc\x81\xcc\xa3", "e\xcc\x81", "\xe6\x97\xa5", "<|endoftext", " \n"};
    size_t size = TEST_SANITIZED ? 1 << 16 : 1 << 20;
    char *text = malloc(size);
    assert_non_null(text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tw_tokenizer *t = open_data(names[i]);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            size_t k = strlen(units[u]), n = size / k * k, count, out;
            for (size_t j = 0; j < n; j += k) memcpy(text + j, units[u], k);
            int32_t *ids;
            char *back;
            int64_t start = tw_now_ns();
            assert_int_equal(tw_tokenizer_encode(t, text, n, true, &ids, &count, NULL), TW_OK);
            assert_int_equal(tw_tokenizer_decode(t, ids, count, false, &back, &out, NULL), TW_OK);
            int64_t ms = (tw_now_ns() - start) / 1000000;
            if (ms > 20000) fail_msg("%s took %lld ms for \"%s\"", names[i], (long long)ms, units[u]);
            free(ids);
            free(back);
        }
        tw_tokenizer_close(t);
    }
    free(text);
}

static void hopeless_patterns_end_in_an_error(void **state) {
    (void)state;
    tw_tokenizer *t = open_bpe(
        "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a|a)+$|(?:a+)+b\"},\"behavior\":\"Isolated\","
        "\"invert\":false},",
        TW_OK, NULL);
    int32_t *ids;
    size_t n;
    tw_diag diag;
    static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac";
    assert_int_equal(tw_tokenizer_encode(t, text, sizeof text - 1, false, &ids, &n, &diag), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.message, "backtracks"));
    tw_tokenizer_close(t);
}

/* A word that no pieces cover, and no token stands for. */
static void a_text_may_need_what_is_not_there(void **state) {
    (void)state;
    tw_tokenizer *t = open_text("{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
                                "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":3,"
                                "\"vocab\":{\"a\":0,\"##b\":1}}}",
                                TW_OK, NULL);
    static const char *const texts[] = {"ac", "c", "abbb"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t *ids;
        size_t n;
        tw_diag diag;
        assert_int_equal(tw_tokenizer_encode(t, texts[i], strlen(texts[i]), false, &ids, &n, &diag), TW_ERR_FORMAT);
        assert_null(ids);
        assert_non_null(strstr(diag.message, "needs the unknown token [UNK]"));
    }
    int32_t *ids;
    size_t n;
    assert_int_equal(tw_tokenizer_encode(t, "abb", 3, false, &ids, &n, NULL), TW_OK);
    assert_int_equal(n, 3);
    free(ids);
    tw_tokenizer_close(t);
}

/* ---- patterns ---- */

static void patterns_become_pcre2s(void **state) {
    (void)state;
    static const struct {
        const char *from, *to; /* NULL: refused */
    } patterns[] = {
        {"ab", "\\x{61}\\x{62}"},
        {"\\x41\\u00e9\\x{1F600}\\n", "\\x{41}\\x{e9}\\x{1f600}\\x{a}"},
        {"(?m:.)(?i)", NULL},
        {"(?i)(?m:.)", "(?i)(?s:.)"},
        {"a{,2}b{3}c{2,}d{x", "\\x{61}{0,2}\\x{62}{3}\\x{63}{2,}\\x{64}\\x{7b}\\x{78}"},
        {"a{2}+b++", "(?:\\x{61}{2})+\\x{62}++"},
        {"a{2}?b{1,2}?", "(?:\\x{61}{2})?\\x{62}{1,2}?"},
        {"[a-c&&[^b]]", "(?:(?=[\\x{61}-\\x{63}])(?:[^\\x{62}]))"},
        {"[^\\S\\n]",
         "(?:(?![\\x{a}]|[^\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
         "\\x{205f}\\x{3000}])[\\x{0}-\\x{10ffff}])"},
        {"\\h[\\H]", "[0-9A-Fa-f](?:[^0-9A-Fa-f])"},
        {"(a)\\1", "(\\x{61})\\g{1}"},
        {"(?#note)a", "\\x{61}"},
        {"(?<n>a)", "(?:\\x{61})"},
        {"\\K", NULL},
        {"\\Qa", NULL},
        {"\\pL", NULL},
        {"\\p{Nonsense}", NULL},
        {"(*UTF)", NULL},
        {"(?x)a", NULL},
        {"(?R)", NULL},
        {"(?(1)a)", NULL},
        {"(?~a)", NULL},
        {"a)", NULL},
        {"(a", NULL},
        {"[a", NULL},
        {"[]a]", NULL},
        {"[b-a]", NULL},
        {"[[:nope:]]", NULL},
        {"*a", NULL},
        {"{2}", NULL},
        {"a{2,1}", NULL},
        {"a{99999}", NULL},
        {"\\2(a)", NULL},
        {"\\", NULL},
        {"\\xff", NULL},
        {"\\x{110000}", NULL},
        {"\\ud800", NULL},
        {"(?i", NULL},
    };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        tw_buf out = {0};
        char why[300] = "";
        tw_status s = tw_regex_translate(&out, patterns[i].from, strlen(patterns[i].from), why, sizeof why);
        if (!patterns[i].to) {
            if (s != TW_ERR_UNSUPPORTED || !*why) fail_msg("%s: not refused", patterns[i].from);
        } else {
            if (s != TW_OK) fail_msg("%s: %s", patterns[i].from, why);
            assert_string_equal(out.data, patterns[i].to);
        }
        tw_buf_free(&out);
    }
    char nul[] = "a\0b", why[300];
    tw_buf out = {0};
    assert_int_equal(tw_regex_translate(&out, nul, 3, why, sizeof why), TW_ERR_UNSUPPORTED);
    tw_buf_free(&out);
}

/* ---- decoding ---- */

static void bytes_are_the_alphabet_and_back(void **state) {
    (void)state;
    for (int b = 0; b < 256; b++) assert_int_equal(tw_char_byte(tw_byte_char((uint8_t)b)), b);
    int n = 0;
    for (uint32_t c = 0; c < 0x1000; c++) n += tw_char_byte(c) >= 0;
    assert_int_equal(n, 256);
}

/* What a stream lets out for each id. */
static void expect_stream(const tw_tokenizer *t, const char *const *pieces, const char *const *texts, size_t n) {
    tw_token_stream *s;
    const char *text;
    assert_int_equal(tw_token_stream_open(&s, t, false, NULL), TW_OK);
    for (int twice = 0; twice < 2; twice++) {
        for (size_t i = 0; i < n; i++) {
            int64_t id = tw_tokenizer_id(t, pieces[i]);
            if (id < 0) fail_msg("no piece %s", pieces[i]);
            assert_int_equal(tw_token_stream_push(s, (int32_t)id, &text, NULL), TW_OK);
            assert_string_equal(text, texts[i]);
            assert_int_equal(tw_token_stream_size(s), strlen(texts[i]));
        }
        assert_int_equal(tw_token_stream_flush(s, &text, NULL), TW_OK);
        assert_string_equal(text, texts[n]);
    }
    tw_diag diag;
    assert_int_equal(tw_token_stream_push(s, -5, &text, &diag), TW_ERR_USAGE);
    tw_token_stream_close(s);
}

static void streams_are_prompt_and_never_split_characters(void **state) {
    (void)state;
    tw_tokenizer *t = open_data("bpe-gpt2"); /* the bytes of U+65E5, then half of it */
    expect_stream(t, (const char *[]){"a", "\xc3\xa6", "\xc4\xb9", "\xc2\xa5", "\xc3\xa6", "b", "\xc3\xa6"},
                  (const char *[]){"a", "", "", "\xe6\x97\xa5", "",
                                   "\xef\xbf\xbd"
                                   "b",
                                   "", "\xef\xbf\xbd"},
                  7);
    tw_tokenizer_close(t);
    t = open_data("sp-llama2"); /* a run of bytes is decided at its end; broken ones at once */
    expect_stream(t,
                  (const char *[]){"\xe2\x96\x81"
                                   "th",
                                   "<0xE6>", "<0x97>", "<0xA5>", "th", "<0xFF>", "<0x41>", "th", "<0xE6>"},
                  (const char *[]){"th", "", "", "",
                                   "\xe6\x97\xa5"
                                   "th",
                                   "\xef\xbf\xbd", "\xef\xbf\xbd", "th", "", "\xef\xbf\xbd"},
                  9);
    expect_stream(t, (const char *[]){"<s>", "\xe2\x96\x81", "\xe2\x96\x81", "</s>"},
                  (const char *[]){"", "", " ", "", ""}, 4);
    tw_tokenizer_close(t);
    t = open_data("wordpiece-uncased");
    expect_stream(t, (const char *[]){"[CLS]", "the", "##s", ".", "the", "[SEP]"},
                  (const char *[]){"", "the", "s", ".", " the", "", ""}, 6);
    tw_tokenizer_close(t);
    t = open_data("made-gpt1");
    expect_stream(t, (const char *[]){"a</w>", "b", "a</w>"}, (const char *[]){"", "a ", "b", "a"}, 3);
    tw_tokenizer_close(t);
}

static void stages_behind_a_joint_stream_too(void **state) {
    (void)state;
    /* Fuse, then a literal that spans tokens, then stripping at both ends. */
    tw_tokenizer *t = open_bpe(
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":"
        "{\"String\":\"bca\"},\"content\":\"-\"},{\"type\":\"Strip\",\"content\":\"c\",\"start\":1,\"stop\":2}]},",
        TW_OK, NULL);
    expect_stream(t, (const char *[]){"c", "c", "b", "c", "b", "c", "a", "c", "c", "c"},
                  (const char *[]){"", "", "", "", "cb", "", "c-", "", "", "c", ""}, 10);
    tw_tokenizer_close(t);
}

/* ---- threads ---- */

typedef struct crowd {
    const tw_tokenizer *t;
    const char *golden;
    tw_status status;
} crowd;

static void *check(void *p) {
    crowd *c = p;
    for (int i = 0; i < 3 && c->status == TW_OK; i++)
        c->status = tw_tokenizer_check_golden(c->t, c->golden, NULL, NULL);
    return NULL;
}

static void many_threads_share_one(void **state) {
    (void)state;
    tw_tokenizer *t = open_data("bpe-llama3");
    crowd c[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        c[i] = (crowd){t, DATA "bpe-llama3/golden.json", TW_OK};
        assert_int_equal(pthread_create(&threads[i], NULL, check, &c[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(c[i].status, TW_OK);
    }
    tw_tokenizer_close(t);
}

static void wrong_use_is_told(void **state) {
    (void)state;
    tw_tokenizer *t = open_data("bpe-gpt2");
    int32_t *ids;
    size_t n;
    char *text;
    assert_int_equal(tw_tokenizer_encode(t, NULL, 3, false, &ids, &n, NULL), TW_ERR_USAGE);
    assert_int_equal(tw_tokenizer_encode(NULL, "a", 1, false, &ids, &n, NULL), TW_ERR_USAGE);
    assert_int_equal(tw_tokenizer_decode(t, NULL, 3, false, &text, NULL, NULL), TW_ERR_USAGE);
    assert_int_equal(tw_token_stream_open(NULL, t, false, NULL), TW_ERR_USAGE);
    assert_int_equal(tw_token_stream_push(NULL, 0, NULL, NULL), TW_ERR_USAGE);
    assert_int_equal(tw_tokenizer_encode(t, NULL, 0, false, &ids, &n, NULL), TW_OK);
    assert_int_equal(n, 0);
    assert_non_null(ids);
    free(ids);
    assert_int_equal(tw_tokenizer_decode(t, NULL, 0, false, &text, &n, NULL), TW_OK);
    assert_string_equal(text, "");
    free(text);
    tw_token_stream_close(NULL);
    tw_tokenizer_close(t);
    tw_tokenizer_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_the_reference),
                                       cmocka_unit_test(golden_check_finds_every_difference),
                                       cmocka_unit_test(broken_files_are_told_apart),
                                       cmocka_unit_test(parts_that_are_not_known_are_refused),
                                       cmocka_unit_test(added_tokens_keep_their_ids),
                                       cmocka_unit_test(files_without_a_type_are_understood),
                                       cmocka_unit_test(text_that_is_not_utf8_is_refused_with_its_place),
                                       cmocka_unit_test(long_words_take_linear_time),
                                       cmocka_unit_test(hopeless_patterns_end_in_an_error),
                                       cmocka_unit_test(a_text_may_need_what_is_not_there),
                                       cmocka_unit_test(patterns_become_pcre2s),
                                       cmocka_unit_test(bytes_are_the_alphabet_and_back),
                                       cmocka_unit_test(streams_are_prompt_and_never_split_characters),
                                       cmocka_unit_test(stages_behind_a_joint_stream_too),
                                       cmocka_unit_test(many_threads_share_one),
                                       cmocka_unit_test(wrong_use_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
