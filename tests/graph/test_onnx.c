/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* ONNX models: what is read, and what is refused with which words. Models are made here byte by byte. */
#include "base/buf.h"
#include "base/diag.h"
#include "graph/onnx/onnx.h"
#include "graph/run.h"
#include "graph/text.h"
#include "support/support.h"
#include "support/wire.h"
#include "tilewright/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- models */

/* Adds an input or output of f32 with the dimensions of `shape`, like "batch,3". */
static void info(tw_buf *graph, int field, const char *name, const char *shape) {
    tw_buf v = {0}, type = {0}, tensor = {0}, dims = {0};
    for (const char *at = shape; *at; at += strcspn(at, ","), at += *at == ',') {
        tw_buf dim = {0};
        char word[32];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
        if (*word >= '0' && *word <= '9')
            wire_number(&dim, 1, (uint64_t)atoi(word));
        else
            wire_text(&dim, 2, word);
        wire_message(&dims, 1, &dim);
    }
    wire_number(&tensor, 1, 1);
    wire_message(&tensor, 2, &dims);
    wire_message(&type, 1, &tensor);
    wire_text(&v, 1, name);
    wire_message(&v, 2, &type);
    wire_message(graph, field, &v);
}

/* Adds a node. `operands` and `results` are names with commas between them. */
static void node(tw_buf *graph, const char *op, const char *operands, const char *results) {
    tw_buf n = {0};
    const char *const lists[] = {operands, results};
    for (int i = 0; i < 2; i++)
        for (const char *at = lists[i]; *at; at += strcspn(at, ","), at += *at == ',')
            wire_bytes(&n, i + 1, at, strcspn(at, ","));
    wire_text(&n, 3, "the node");
    wire_text(&n, 4, op);
    wire_message(graph, 1, &n);
}

/* Adds a constant of f32 with one dimension, as bytes. */
static void constant(tw_buf *graph, const char *name, const float *x, size_t n, size_t said) {
    tw_buf t = {0};
    wire_number(&t, 1, said);
    wire_number(&t, 2, 1);
    wire_text(&t, 8, name);
    wire_bytes(&t, 9, x, n * sizeof *x);
    wire_message(graph, 5, &t);
}

/* Makes a model of a graph, which is freed. */
static tw_buf model_of(tw_buf *graph) {
    tw_buf m = {0}, set = {0};
    wire_number(&m, 1, 8);
    wire_message(&m, 7, graph);
    wire_number(&set, 2, 17);
    wire_message(&m, 8, &set);
    return m;
}

/* Reads a model that must be refused with these words. */
static void refused(tw_buf *model, tw_status want, const char *words) {
    tw_graph *g = NULL;
    tw_diag d = {0};
    tw_status st = tw_onnx_read(&g, model->data, model->size, "folder/m.onnx", &d);
    if (st == TW_OK) st = tw_graph_resolve(g, "folder/m.onnx", &d);
    assert_int_equal(st, want);
    if (!strstr(d.message, words)) fail_msg("\"%s\" does not say \"%s\"", d.message, words);
    assert_string_equal(d.path, "folder/m.onnx");
    tw_graph_free(g);
    tw_buf_free(model);
}

/* ---- tests */

static void a_model_is_read_and_run(void **state) {
    (void)state;
    const float weight[] = {1, 2, 3}, x[] = {1, 1, 1, 2, 2, 2};
    const tw_array input = {.type = TW_E_f32, .rank = 2, .dims = {2, 3}, .data = x}, *in[] = {&input};
    tw_buf graph = {0};
    constant(&graph, "w", weight, 3, 3);
    info(&graph, 11, "x", "batch,3");
    node(&graph, "Add", "x,w", "sum");
    node(&graph, "Relu", "sum", "y");
    info(&graph, 12, "y", "batch,3");
    tw_buf model = model_of(&graph), shown = {0};
    tw_graph *g;
    tw_diag d = {0};
    tw_array out;
    tw_arena arena = {0};
    assert_int_equal(tw_onnx_read(&g, model.data, model.size, "m", &d), TW_OK);
    assert_int_equal(tw_graph_resolve(g, "m", &d), TW_OK);
    tw_graph_print(g, &shown);
    assert_string_equal(shown.data, "graph \"\" @17\n"
                                    "  input %x: f32[batch, 3]\n"
                                    "  constant %w: f32[3] {1.0, 2.0, 3.0}\n"
                                    "  %sum = Add(%x, %w) \"the node\"\n"
                                    "  %y = Relu(%sum) \"the node\"\n"
                                    "  output %y\n");
    assert_int_equal(tw_graph_run(g, in, &arena, &out, &d), TW_OK);
    assert_int_equal(tw_array_elements(&out), 6);
    for (int i = 0; i < 6; i++) assert_true(tw_array_real(&out, i) == (double)(x[i] + weight[i % 3]));
    tw_arena_free(&arena);
    tw_graph_free(g);
    tw_buf_free(&shown);
    tw_buf_free(&model);
}

static void inputs_must_fit(void **state) {
    (void)state;
    const float x[] = {1, 2};
    const tw_array input = {.type = TW_E_f32, .rank = 2, .dims = {1, 2}, .data = x}, *in[] = {&input}, *none[] = {NULL};
    tw_buf graph = {0};
    info(&graph, 11, "x", "batch,3");
    node(&graph, "Relu", "x", "y");
    info(&graph, 12, "y", "batch,3");
    tw_buf model = model_of(&graph);
    tw_graph *g;
    tw_diag d = {0};
    tw_array out;
    tw_arena arena = {0};
    assert_int_equal(tw_onnx_read(&g, model.data, model.size, "m", &d), TW_OK);
    assert_int_equal(tw_graph_resolve(g, "m", &d), TW_OK);
    assert_int_equal(tw_graph_run(g, in, &arena, &out, &d), TW_ERR_USAGE);
    assert_string_equal(d.message, "input \"x\" is f32[batch, 3], and not f32[1, 2]");
    assert_int_equal(tw_graph_run(g, none, &arena, &out, &d), TW_ERR_USAGE);
    assert_string_equal(d.message, "there is no input \"x\"");
    tw_graph_free(g);
    tw_buf_free(&model);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    const float weight[] = {1, 2, 3};
    tw_buf graph = {0};
    info(&graph, 11, "x", "3");
    node(&graph, "Add", "x,later", "y");
    node(&graph, "Relu", "y", "later");
    tw_buf cyclic = model_of(&graph);
    refused(&cyclic, TW_ERR_FORMAT, "the node (Add) needs \"later\", which nothing before it computes");
    info(&graph, 11, "x", "3");
    node(&graph, "Attention", "x,x,x,x,x,x,x,x", "y");
    tw_buf sinks = model_of(&graph);
    refused(&sinks, TW_ERR_FORMAT, "the node (Attention) has more than 7 operands");
    node(&graph, "Relu", "y", "y");
    tw_buf itself = model_of(&graph);
    refused(&itself, TW_ERR_FORMAT, "needs \"y\"");
    info(&graph, 11, "x", "3");
    node(&graph, "Relu", "x", "x");
    tw_buf twice = model_of(&graph);
    refused(&twice, TW_ERR_FORMAT, "the node (Relu) computes \"x\", which there is already");
    info(&graph, 12, "y", "3");
    tw_buf nothing = model_of(&graph);
    refused(&nothing, TW_ERR_FORMAT, "nothing computes the output \"y\"");
    constant(&graph, "w", weight, 3, 4);
    tw_buf small = model_of(&graph);
    refused(&small, TW_ERR_FORMAT, "tensor \"w\" has 12 bytes where its shape needs 16");
    constant(&graph, "w", weight, 3, 1ull << 60);
    tw_buf huge = model_of(&graph);
    refused(&huge, TW_ERR_FORMAT, "tensor \"w\" has too many elements");
    constant(&graph, "w", weight, 3, 3);
    constant(&graph, "w", weight, 3, 3);
    tw_buf both = model_of(&graph);
    refused(&both, TW_ERR_FORMAT, "two tensors are called \"w\"");
    constant(&graph, "w", weight, 3, 3);
    info(&graph, 11, "w", "4");
    tw_buf input = model_of(&graph);
    refused(&input, TW_ERR_FORMAT, "tensor \"w\" is f32[3], and as an input f32[4]");
    info(&graph, 11, "", "4");
    tw_buf nameless = model_of(&graph);
    refused(&nameless, TW_ERR_FORMAT, "an input has no name");
    info(&graph, 11, "x", "3");
    tw_buf later = model_of(&graph), set = {0};
    wire_number(&set, 2, 1000);
    wire_message(&later, 8, &set);
    refused(&later, TW_ERR_UNSUPPORTED, "operators are of set 1000, and sets up to 27 are known");
    for (int i = 0; i < 5000; i++) {
        char name[32], dim[32];
        snprintf(name, sizeof name, "x%d", i);
        snprintf(dim, sizeof dim, "d%d", i);
        info(&graph, 11, name, dim);
    }
    tw_buf names = model_of(&graph);
    refused(&names, TW_ERR_UNSUPPORTED, "dimensions have more than 4096 names");
    tw_buf empty = {0};
    tw_buf_str(&empty, "");
    wire_number(&empty, 1, 8);
    refused(&empty, TW_ERR_FORMAT, "the file has no graph");
}

/* A file that says another type of an output than its nodes make is refused as it is opened. */
static void types_of_outputs_are_checked(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[1024];
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    for (int i = 0; i < 2; i++) {
        tw_buf graph = {0};
        info(&graph, 11, "x", "3");
        node(&graph, i ? "Relu" : "Shape", "x", "y");
        info(&graph, 12, "y", "3");
        tw_buf model = model_of(&graph);
        tw_graph *g;
        tw_diag d = {0};
        test_write(folder, "m.onnx", model.data, model.size);
        assert_int_equal(tw_graph_open(&g, path, &d), i ? TW_OK : TW_ERR_FORMAT);
        if (!i) assert_string_equal(d.message, "output \"y\" is of i64, and the file says of f32");
        if (!i) assert_string_equal(d.path, path);
        tw_graph_close(g);
        tw_buf_free(&model);
    }
    test_folder_remove(folder);
}

/* Names of any bytes become text that can be printed, and written as JSON. */
static void names_are_text(void **state) {
    (void)state;
    tw_buf graph = {0};
    info(&graph, 11, "x\xff\n", "d\x1b");
    node(&graph, "Relu", "x\xff\n", "\xc3\xbc\xe2\x82");
    info(&graph, 12, "\xc3\xbc\xe2\x82", "d\x1b");
    tw_buf model = model_of(&graph);
    tw_graph *g;
    tw_diag d = {0};
    assert_int_equal(tw_onnx_read(&g, model.data, model.size, "m", &d), TW_OK);
    assert_string_equal(g->values[g->inputs[0]].name, "x??");
    assert_string_equal(g->values[g->outputs[0]].name, "\xc3\xbc??");
    assert_string_equal(g->symbols[0], "d?");
    tw_graph_free(g);
    tw_buf_free(&model);
}

/* All nodes that are not supported are listed, with reasons. */
static void all_reasons_are_listed(void **state) {
    (void)state;
    tw_buf graph = {0};
    info(&graph, 11, "x", "3");
    node(&graph, "Conv3000", "x", "a");
    node(&graph, "Relu", "a,a", "b");
    node(&graph, "Gelu", "b", "c");
    tw_buf model = model_of(&graph);
    tw_graph *g;
    tw_diag d = {0};
    assert_int_equal(tw_onnx_read(&g, model.data, model.size, "m", &d), TW_OK);
    assert_int_equal(tw_graph_resolve(g, "m", &d), TW_ERR_UNSUPPORTED);
    assert_string_equal(d.message, "the node (Conv3000): no such operator here\n"
                                   "the node (Relu): not as many operands as it takes\n"
                                   "the node (Gelu): an older version of the operator");
    tw_graph_free(g);
    tw_buf_free(&model);
}

/* However many nodes are not supported, the list is whole. */
static void long_lists_are_whole(void **state) {
    (void)state;
    enum { OPERATORS = 100, NODES = 2000 };
    tw_buf graph = {0};
    info(&graph, 11, "x", "3");
    for (int i = 0; i < NODES; i++) {
        char op[64], result[64];
        snprintf(op, sizeof op, "Operator%d", i % OPERATORS);
        snprintf(result, sizeof result, "value%d", i);
        node(&graph, op, "x", result);
    }
    tw_buf model = model_of(&graph);
    tw_graph *g;
    tw_diag d = {0};
    assert_int_equal(tw_onnx_read(&g, model.data, model.size, "m", &d), TW_OK);
    assert_int_equal(tw_graph_resolve(g, "m", &d), TW_ERR_UNSUPPORTED);
    for (int i = 0; i < OPERATORS; i++) {
        char line[64];
        snprintf(line, sizeof line, " Operator%d (20)", i);
        assert_non_null(strstr(d.message, line));
    }
    assert_null(strstr(d.message, "(and more)"));
    for (const char *line = d.message; line; line = strchr(line + 1, '\n'))
        assert_non_null(strstr(line, "no such operator here: "));
    g->n_nodes = OPERATORS;
    d = (tw_diag){0};
    assert_int_equal(tw_graph_resolve(g, "m", &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "Operator99: no such operator here"));
    g->n_nodes = 2 * OPERATORS;
    d = (tw_diag){0};
    g->nodes[1].name = "first";
    for (int i = 2; i < 2 * OPERATORS; i++) g->nodes[i] = g->nodes[1];
    assert_int_equal(tw_graph_resolve(g, "m", &d), TW_ERR_UNSUPPORTED);
    assert_string_equal(d.message, "the node (Operator0): no such operator here\n"
                                   "Operator1, 199 nodes (first, first, first, ...): no such operator here");
    for (int i = 2; i < 2 * OPERATORS; i++) g->nodes[i].n_attributes = 0;
    tw_graph_free(g);
    tw_buf_free(&model);
}

/* Adds a function f of the domain "d", x to y, whose nodes are of the domain, too. */
static void function(tw_buf *model, const char *name, const char *op, int nodes) {
    tw_buf f = {0}, set = {0};
    wire_text(&f, 1, name);
    wire_text(&f, 10, "d");
    wire_text(&f, 4, "x");
    wire_text(&f, 5, "y");
    for (int i = 0; i < nodes; i++) {
        tw_buf n = {0};
        char from[16], to[16];
        snprintf(from, sizeof from, i ? "v%d" : "x", i);
        snprintf(to, sizeof to, i + 1 < nodes ? "v%d" : "y", i + 1);
        wire_text(&n, 1, from);
        wire_text(&n, 2, to);
        wire_text(&n, 4, op);
        wire_text(&n, 7, strcmp(op, "Neg") != 0 ? "d" : "");
        wire_message(&f, 7, &n);
    }
    wire_number(&set, 2, 17);
    wire_message(&f, 9, &set);
    wire_message(model, 25, &f);
}

/* Functions that call themselves, or stand for more nodes than there is room for. */
static void endless_functions_are_refused(void **state) {
    (void)state;
    for (int deep = 0; deep < 2; deep++) {
        tw_buf graph = {0}, call = {0}, model, *of = &model;
        info(&graph, 11, "x", "3");
        wire_text(&call, 1, "x");
        wire_text(&call, 2, "y");
        wire_text(&call, 4, "f0");
        wire_text(&call, 7, "d");
        wire_message(&graph, 1, &call);
        info(&graph, 12, "y", "3");
        model = model_of(&graph);
        if (deep) {
            function(of, "f0", "f0", 1);
            refused(of, TW_ERR_FORMAT, "functions are nested deeper than 32");
            continue;
        }
        for (int i = 0; i < 20; i++) {
            char name[16], next[16];
            snprintf(name, sizeof name, "f%d", i);
            snprintf(next, sizeof next, "f%d", i + 1);
            function(of, name, i < 19 ? next : "Neg", 4);
        }
        refused(of, TW_ERR_FORMAT, "functions stand for more than 262144 nodes");
    }
}

/* A model that is cut anywhere is refused, or it is what comes before its sets of operators. */
static void cut_files_are_refused(void **state) {
    (void)state;
    const float weight[] = {1, 2, 3};
    tw_buf graph = {0};
    constant(&graph, "w", weight, 3, 3);
    info(&graph, 11, "x", "batch,3");
    node(&graph, "Add", "x,w", "y");
    info(&graph, 12, "y", "batch,3");
    tw_buf model = model_of(&graph);
    int read = 0;
    for (size_t n = 0; n < model.size; n++) {
        char *part = malloc(n + 1);
        memcpy(part, model.data, n);
        tw_graph *g = NULL;
        tw_diag d = {0};
        if (tw_onnx_read(&g, part, n, "m", &d) == TW_OK)
            read++;
        else
            assert_true(d.message[0] && d.offset >= 0 && d.offset <= (int64_t)n);
        tw_graph_free(g);
        free(part);
    }
    assert_int_equal(read, 1); /* Behind the graph, before the sets. */
    tw_buf_free(&model);
}

/* Adds a constant whose bytes are in another file. */
static void elsewhere(tw_buf *graph, const char *location, const char *offset, const char *length) {
    tw_buf t = {0};
    const char *const pairs[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    wire_number(&t, 1, 3);
    wire_number(&t, 2, 1);
    wire_text(&t, 8, "w");
    for (int i = 0; i < 3; i++) {
        tw_buf entry = {0};
        wire_text(&entry, 1, pairs[i][0]);
        wire_text(&entry, 2, pairs[i][1]);
        wire_message(&t, 13, &entry);
    }
    wire_number(&t, 14, 1);
    wire_message(graph, 5, &t);
}

static tw_status read_elsewhere(const char *path, const char *location, const char *offset, const char *length,
                                tw_diag *d, double *first) {
    tw_buf graph = {0};
    elsewhere(&graph, location, offset, length);
    tw_buf model = model_of(&graph);
    tw_graph *g;
    const tw_status st = tw_onnx_read(&g, model.data, model.size, path, d);
    if (st == TW_OK) {
        *first = tw_array_real(g->values[0].content, 0);
        tw_graph_free(g);
    }
    tw_buf_free(&model);
    return st;
}

static void data_lie_beside(void **state) {
    (void)state;
    const float data[] = {0, 5, 6, 7};
    char folder[] = TW_BINARY_DIR "/scratch/onnx-XXXXXX", path[256], file[256];
    tw_diag d = {0};
    double first = 0;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    snprintf(file, sizeof file, "%s/w.bin", folder);
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, sizeof *data, 4, f), 4);
    fclose(f);
    assert_int_equal(read_elsewhere(path, "w.bin", "4", "12", &d, &first), TW_OK);
    assert_true(first == 5);
    assert_int_equal(read_elsewhere(path, "w.bin", "8", "12", &d, &first), TW_ERR_FORMAT);
    assert_non_null(strstr(d.message, "end at byte 20 of w.bin, which has 16"));
    assert_int_equal(read_elsewhere(path, "w.bin", "8", "9223372036854775807", &d, &first), TW_ERR_FORMAT);
    assert_non_null(strstr(d.message, "end at byte 9223372036854775807 of w.bin"));
    assert_int_equal(read_elsewhere(path, "w.bin", "0", "16", &d, &first), TW_ERR_FORMAT);
    assert_non_null(strstr(d.message, "16 bytes of external data where its shape needs 12"));
    assert_int_equal(read_elsewhere(path, "w.bin", "-4", "12", &d, &first), TW_ERR_FORMAT);
    const char *const outside[] = {"../w.bin", "/w.bin", "a/../../w.bin", ""};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        assert_int_equal(read_elsewhere(path, outside[i], "4", "12", &d, &first), TW_ERR_FORMAT);
        assert_non_null(strstr(d.message, "not in the model's folder"));
    }
    assert_int_equal(read_elsewhere(path, "absent.bin", "4", "12", &d, &first), TW_ERR_IO);
    unlink(file);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_read_and_run),      cmocka_unit_test(inputs_must_fit),
        cmocka_unit_test(what_is_wrong_is_said),        cmocka_unit_test(all_reasons_are_listed),
        cmocka_unit_test(types_of_outputs_are_checked), cmocka_unit_test(names_are_text),
        cmocka_unit_test(long_lists_are_whole),         cmocka_unit_test(endless_functions_are_refused),
        cmocka_unit_test(cut_files_are_refused),        cmocka_unit_test(data_lie_beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
