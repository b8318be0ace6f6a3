/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays from files, and extents of inputs. */
#include "base/diag.h"
#include "graph/inputs.h"
#include "support/graphs.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void files_are_told_apart(void **state) {
    (void)state;
    static const char npy[] = "\x93NUMPY\x01\0\x3a\0{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n"
                              "\x05\0\0\0\x07\0\0\0";
    static const char pb[] = "\x08\x02\x10\x06\x42\x03ids\x4a\x08\x05\0\0\0\x07\0\0\0";
    char *folder = test_folder_make(), path[1024];
    tw_arena arena = {0};
    for (int i = 0; i < 2; i++) {
        tw_npz_entry *e;
        int n;
        tw_diag d = {0};
        test_write(folder, "array", i ? pb : npy, (i ? sizeof pb : sizeof npy) - 1);
        snprintf(path, sizeof path, "%s/array", folder);
        if (tw_arrays_open(&arena, path, &e, &n, &d) != TW_OK) fail_msg("%s", d.message);
        assert_int_equal(n, 1);
        assert_string_equal(e->name, i ? "ids" : "");
        assert_int_equal(e->array.type, TW_E_i32);
        assert_int_equal(e->array.dims[0], 2);
        assert_int_equal(tw_array_integer(&e->array, 1), 7);
    }
    tw_npz_entry *e;
    int n;
    tw_diag d = {0};
    assert_int_equal(tw_arrays_open(&arena, TEST_DATA "/onnx/encoder/case.npz", &e, &n, &d), TW_OK);
    assert_true(n > 1);
    test_write(folder, "array", "nonsense", 8);
    assert_int_equal(tw_arrays_open(&arena, path, &e, &n, &d), TW_ERR_FORMAT);
    assert_int_equal(n, 0);
    snprintf(path, sizeof path, "%s/none", folder);
    assert_int_equal(tw_arrays_open(&arena, path, &e, &n, &d), TW_ERR_IO);
    test_folder_remove(folder);
    tw_arena_free(&arena);
}

/* Names of outputs are whole, however long they are, and those that no zip can have are refused. */
static void long_names_are_kept(void **state) {
    (void)state;
    enum { LONG = 65531 };
    char *folder = test_folder_make(), path[1024], *name = calloc(1, LONG + 2);
    const int32_t x[] = {5, 7};
    const tw_npz_entry entry = {name, {.type = TW_E_i32, .rank = 1, .dims = {2}, .data = x}};
    tw_arena arena = {0};
    tw_npz_entry *e = NULL;
    tw_diag d = {0};
    int n = 0;
    snprintf(path, sizeof path, "%s/out.npz", folder);
    memset(name, 'n', 1000);
    if (tw_npz_write(path, &entry, 1, &d) != TW_OK || tw_arrays_open(&arena, path, &e, &n, &d) != TW_OK)
        fail_msg("%s", d.message);
    assert_int_equal(n, 1);
    assert_string_equal(e->name, name);
    memset(name, 'n', LONG + 1);
    assert_int_equal(tw_npz_write(path, &entry, 1, &d), TW_ERR_UNSUPPORTED);
    assert_string_equal(d.path, path);
    free(name);
    test_folder_remove(folder);
    tw_arena_free(&arena);
}

static void huge_arrays_are_refused(void **state) {
    (void)state;
    static const char npy[] = "\x93NUMPY\x01\0\x54\0{'descr': '<i4', 'fortran_order': False, 'shape': "
                              "(1099511627776, 1099511627776,), }\n\x05\0\0\0";
    tw_array a;
    tw_diag d = {0};
    assert_int_equal(tw_npy_read(npy, sizeof npy - 1, "a.npy", &a, &d), TW_ERR_FORMAT);
    assert_string_equal(d.message, "the shape has too many elements");
}

static void text_is_no_input(void **state) {
    (void)state;
    tw_graph *g = test_graph("graph g\n input %names: string[n]\n output %names\n");
    const tw_binding two = {"n", 2};
    tw_array out[1];
    tw_diag d = {0};
    assert_int_equal(tw_graph_bind(g, &two, 1, NULL, out, &d), TW_ERR_UNSUPPORTED);
    assert_string_equal(d.message, "input \"names\" has elements of type string, which are not supported");
    tw_graph_free(g);
}

static const char text[] = "graph g\n input %ids: i64[batch, seq]\n input %past: f32[batch, 4, past, 8]\n"
                           " input %any: f32[?]\n output %ids\n";
static const tw_array any = {.type = TW_E_f32, .rank = 1, .dims = {3}},
                      ids = {.type = TW_E_i64, .rank = 2, .dims = {2, 5}},
                      many = {.type = TW_E_i64, .rank = 2, .dims = {3, 5}},
                      wrong = {.type = TW_E_f32, .rank = 2, .dims = {2, 5}},
                      past = {.type = TW_E_f32, .rank = 4, .dims = {2, 4, 6, 8}};

static void inputs_are_picked(void **state) {
    (void)state;
    tw_graph *g = test_graph(text);
    const tw_npz_entry entries[] = {{"other", any}, {"in_past", past}, {"any", any}};
    const tw_array *in[3];
    tw_graph_pick(g, entries, 3, in);
    assert_null(in[0]);
    assert_ptr_equal(in[1], &entries[1].array);
    assert_ptr_equal(in[2], &entries[2].array);
    tw_graph_free(g);
}

static void extents_are_bound(void **state) {
    (void)state;
    tw_graph *g = test_graph(text);
    tw_array out[3];
    tw_diag d = {0};
    const tw_array *given[] = {&ids, NULL, &any};
    const tw_binding bindings[] = {{"past", 0}, {"batch", 2}};
    if (tw_graph_bind(g, bindings, 2, given, out, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(out[0].dims[1], 5);
    assert_int_equal(out[1].type, TW_E_f32);
    assert_int_equal(out[1].rank, 4);
    assert_int_equal(out[1].dims[0], 2);
    assert_int_equal(out[1].dims[1], 4);
    assert_int_equal(out[1].dims[2], 0);
    assert_null(out[1].data);
    assert_int_equal(out[2].dims[0], 3);
    tw_graph_free(g);
}

static void wrong_extents_are_refused(void **state) {
    (void)state;
    static const struct {
        const tw_array *given[3];
        tw_binding bindings[2];
        int n;
        const char *words;
    } cases[] = {
        {{&ids, &past, NULL},
         {{0}},
         0,
         "dimension 0 of input \"any\", f32[?], has no name, so that only a content tells its extent"},
        {{NULL, &past, &any},
         {{0}},
         0,
         "dimension \"seq\" of input \"ids\", i64[batch, seq], has no extent; \"seq=N\" or the input's content gives "
         "it"},
        {{&many, &past, &any}, {{0}}, 0, "dimension \"batch\" is 2 in input \"past\", and 3 in input \"ids\""},
        {{&ids, &past, &any},
         {{"batch", 4}},
         1,
         "dimension \"batch\" is 2 in input \"ids\", and 4 in what is asked for"},
        {{&ids, NULL, &any},
         {{"pasta", 4}},
         1,
         "no dimension of the model is called \"pasta\"; it has \"batch\", \"seq\", \"past\""},
        {{&ids, NULL, &any}, {{"past", 4}, {"past", 5}}, 2, "dimension \"past\" is given twice, as 4 and as 5"},
        {{&ids, NULL, &any}, {{"past", -4}}, 1, "dimension \"past\" cannot be -4"},
        {{&ids, NULL, &any},
         {{"past", INT64_MAX}},
         1,
         "input \"past\" would be f32[2, 4, 9223372036854775807, 8], and arrays have fewer than 2^48 elements"},
        {{&wrong, &past, &any}, {{0}}, 0, "input \"ids\" is i64[batch, seq], and not f32[2, 5]"},
        {{&any, &past, &any}, {{0}}, 0, "input \"ids\" is i64[batch, seq], and not f32[3]"},
    };
    tw_graph *g = test_graph(text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_array out[3];
        tw_diag d = {0};
        assert_int_equal(tw_graph_bind(g, cases[i].bindings, cases[i].n, cases[i].given, out, &d), TW_ERR_USAGE);
        if (strcmp(d.message, cases[i].words) != 0) fail_msg("case %zu: %s", i, d.message);
    }
    tw_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_told_apart),      cmocka_unit_test(long_names_are_kept),
        cmocka_unit_test(huge_arrays_are_refused),   cmocka_unit_test(text_is_no_input),
        cmocka_unit_test(inputs_are_picked),         cmocka_unit_test(extents_are_bound),
        cmocka_unit_test(wrong_extents_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
