/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* A model with 7 GB of data in another file is opened at once, and its data stay where they are. The file is sparse. */
#include "base/clock.h"
#include "base/diag.h"
#include "support/support.h"
#include "support/wire.h"
#include "tilewright/graph.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WEIGHTS = 28, EXTENT = 8192 };
static const int64_t bytes_of_weight = (int64_t)EXTENT * EXTENT * 4;

/* Adds a pair of texts to a tensor, which say where its data lie. */
static void place(tw_buf *tensor, const char *key, const char *value) {
    tw_buf pair = {0};
    wire_text(&pair, 1, key);
    wire_text(&pair, 2, value);
    wire_message(tensor, 13, &pair);
}

static void weight(tw_buf *graph, int i) {
    tw_buf t = {0};
    char text[32];
    wire_number(&t, 1, EXTENT);
    wire_number(&t, 1, EXTENT);
    wire_number(&t, 2, 1);
    snprintf(text, sizeof text, "w%d", i);
    wire_text(&t, 8, text);
    place(&t, "location", "data.bin");
    snprintf(text, sizeof text, "%lld", (long long)(i * bytes_of_weight));
    place(&t, "offset", text);
    snprintf(text, sizeof text, "%lld", (long long)bytes_of_weight);
    place(&t, "length", text);
    wire_number(&t, 14, 1);
    wire_message(graph, 5, &t);
}

static void product(tw_buf *graph, int i) {
    tw_buf n = {0};
    char text[32];
    snprintf(text, sizeof text, "y%d", i);
    wire_text(&n, 1, text);
    snprintf(text, sizeof text, "w%d", i);
    wire_text(&n, 1, text);
    snprintf(text, sizeof text, "y%d", i + 1);
    wire_text(&n, 2, text);
    wire_text(&n, 4, "MatMul");
    wire_message(graph, 1, &n);
}

/* Adds an input or output of f32 with the dimensions batch and EXTENT. */
static void info(tw_buf *graph, int field, const char *name) {
    tw_buf v = {0}, type = {0}, tensor = {0}, dims = {0}, batch = {0}, extent = {0};
    wire_text(&batch, 2, "batch");
    wire_number(&extent, 1, EXTENT);
    wire_message(&dims, 1, &batch);
    wire_message(&dims, 1, &extent);
    wire_number(&tensor, 1, 1);
    wire_message(&tensor, 2, &dims);
    wire_message(&type, 1, &tensor);
    wire_text(&v, 1, name);
    wire_message(&v, 2, &type);
    wire_message(graph, field, &v);
}

static void write_model(const char *folder) {
    tw_buf graph = {0}, model = {0}, set = {0};
    char last[32];
    for (int i = 0; i < WEIGHTS; i++) weight(&graph, i);
    for (int i = 0; i < WEIGHTS; i++) product(&graph, i);
    snprintf(last, sizeof last, "y%d", WEIGHTS);
    info(&graph, 11, "y0");
    info(&graph, 12, last);
    wire_number(&model, 1, 8);
    wire_message(&model, 7, &graph);
    wire_number(&set, 2, 18);
    wire_message(&model, 8, &set);
    test_write(folder, "model.onnx", model.data, model.size);
    tw_buf_free(&model);
}

/* Makes the file of data. False: the file system has no files that are sparse and as large. */
static bool write_data(const char *folder) {
    char path[1024];
    struct stat s;
    snprintf(path, sizeof path, "%s/data.bin", folder);
    const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    const bool made = !ftruncate(fd, WEIGHTS * bytes_of_weight) && !fstat(fd, &s) && s.st_blocks < 2048;
    close(fd);
    return made;
}

/* Returns how much memory of the process is there, in KB: its own, or all with files that are mapped. */
static long resident(const char *what) {
    char line[256];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, what, strlen(what))) kb = strtol(line + strlen(what), NULL, 10);
    if (f) fclose(f);
    return kb;
}

static void large_files_are_opened_at_once(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[1024];
    double best = 1e30;
    bool sparse = write_data(folder);
    if (sparse) write_model(folder);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    for (int i = 0; i < 5 && sparse; i++) {
        tw_graph *g;
        tw_diag d = {0};
        tw_graph_info info;
        const long own = resident("RssAnon:"), all = resident("VmRSS:");
        const int64_t begin = tw_now_ns();
        if (tw_graph_open(&g, path, &d) != TW_OK) fail_msg("%s", d.message);
        const double ms = (double)(tw_now_ns() - begin) * 1e-6;
        if (ms < best) best = ms;
        assert_true(resident("RssAnon:") - own < 100 << 10);
        assert_true(resident("VmRSS:") - all < 100 << 10);
        tw_graph_describe(g, &info);
        assert_int_equal(info.constant_bytes, WEIGHTS * bytes_of_weight);
        assert_true(info.constant_bytes > 7000000000);
        tw_graph_close(g);
    }
    test_folder_remove(folder);
    if (!sparse) skip();
    if (best >= 50) fail_msg("opening took %.1f ms", best);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(large_files_are_opened_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
