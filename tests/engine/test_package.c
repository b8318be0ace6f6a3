/* SPDX-License-Identifier: Apache-2.0 */
/* Networks: the same outputs on every machine and from a package; packages that are damaged are refused. */
#include "base/hash.h"
#include "base/random.h"
#include "base/sum.h"
#include "engine/package.h"
#include "support/support.h"
#include "tilewright/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENCODER TEST_DATA "/onnx/encoder/"

static void succeed(tw_status st, const tw_diag *d) {
    if (st != TW_OK) fail_msg("%s", d->message);
}

static tw_network *opened(const char *path, const char *device, const char *dtype) {
    const tw_network_options o = {.device = device, .dtype = dtype, .threads = 2};
    tw_network *n;
    tw_diag d = {0};
    succeed(tw_network_open(&n, path, &o, &d), &d);
    return n;
}

static void agrees(tw_network *n) {
    tw_network_verdict v;
    tw_diag d = {0};
    char why[512];
    succeed(tw_network_verify(n, ENCODER "case.npz", &v, why, sizeof why, &d), &d);
    if (!v.agrees) fail_msg("%s", why);
    assert_int_equal(v.elements.elements, 160);
    assert_true(v.rms > 0 && v.rms < 1e-2 && v.worst >= v.rms);
}

static const char *package_path(void) {
    static char path[4096];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/test_package.%ld.tw", folder ? folder : "/tmp", (long)getpid());
    return path;
}

/* Writes a package with the shape of the case. */
static void build(const char *dtype) {
    tw_network *n = opened(ENCODER "model.onnx", "plain", dtype);
    tw_tensors *in;
    tw_diag d = {0};
    succeed(tw_tensors_new(&in, n, &d), &d);
    succeed(tw_tensors_extent(in, "batch", 2, &d), &d);
    succeed(tw_tensors_extent(in, "length", 5, &d), &d);
    succeed(tw_tensors_complete(in, false, &d), &d);
    assert_int_equal(tw_network_save(n, package_path(), &d), TW_ERR_USAGE);
    succeed(tw_network_prepare(n, tw_tensors_list(in), &d), &d);
    succeed(tw_network_save(n, package_path(), &d), &d);
    tw_tensors_free(in);
    tw_network_close(n);
}

static void every_machine_agrees(void **state) {
    (void)state;
    static const char *const devices[] = {"plain", "cpu", "emulator"}, *const types[] = {NULL, "f16", "bf16"};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            tw_network *n = opened(ENCODER "model.onnx", devices[i], types[k]);
            agrees(n);
            agrees(n); /* Again, by the program that there is. */
            tw_network_info info;
            tw_network_describe(n, &info);
            assert_int_equal(info.prepared, 1);
            assert_string_equal(info.device, devices[i]);
            assert_string_equal(info.dtype, types[k] ? types[k] : "f32");
            tw_network_close(n);
        }
}

/* A program is kept for its extents, and computes what it is given each time. */
static void later_contents_count(void **state) {
    (void)state;
    static const char *const devices[] = {"plain", "cpu", "emulator"};
    for (int i = 0; i < 3; i++) {
        tw_network *n = opened(ENCODER "model.onnx", devices[i], NULL);
        tw_tensors *in;
        tw_tensor out[1];
        tw_diag d = {0};
        succeed(tw_tensors_new(&in, n, &d), &d);
        succeed(tw_tensors_extent(in, "batch", 2, &d), &d);
        succeed(tw_tensors_extent(in, "length", 5, &d), &d);
        succeed(tw_tensors_complete(in, true, &d), &d);
        succeed(tw_network_run(n, tw_tensors_list(in), out, &d), &d);
        tw_tensors_free(in);
        agrees(n);
        tw_network_close(n);
    }
}

static void packages_agree(void **state) {
    (void)state;
    static const char *const devices[] = {"plain", "cpu", "emulator"}, *const types[] = {"f32", "f16"};
    for (int k = 0; k < 2; k++) {
        build(types[k]);
        for (int i = 0; i < 3; i++) {
            tw_network *n = opened(package_path(), devices[i], NULL);
            tw_diag d = {0};
            succeed(tw_network_check_file(n, &d), &d);
            agrees(n);
            tw_network_close(n);
        }
    }
    unlink(package_path());
}

static void other_shapes_and_types_are_refused(void **state) {
    (void)state;
    build("f16");
    tw_network *n = opened(package_path(), "cpu", "f16");
    tw_tensors *in;
    tw_diag d = {0};
    tw_tensor out[1];
    succeed(tw_tensors_new(&in, n, &d), &d);
    succeed(tw_tensors_extent(in, "batch", 3, &d), &d);
    assert_int_equal(tw_tensors_complete(in, true, &d), TW_ERR_USAGE);
    succeed(tw_tensors_extent(in, "length", 5, &d), &d);
    succeed(tw_tensors_complete(in, true, &d), &d);
    d = (tw_diag){0};
    assert_int_equal(tw_network_run(n, tw_tensors_list(in), out, &d), TW_ERR_UNSUPPORTED);
    assert_string_equal(d.message, "the package was built for x f32[2, 5, 16], mask i64[2, 5]");
    tw_tensors_free(in);
    tw_network_close(n);
    const tw_network_options o = {.device = "cpu", .dtype = "bf16"};
    assert_int_equal(tw_network_open(&n, package_path(), &o, &d), TW_ERR_USAGE);
    assert_null(n);
    unlink(package_path());
}

/* ---- damage */

typedef struct bytes {
    unsigned char *data;
    size_t size, meta, data_at; /* Of the whole, the description's end, and constants' begin. */
} bytes;

static bytes read_package(void) {
    tw_buf b = {0};
    tw_diag d = {0};
    tw_package_header h;
    build("f32");
    succeed(tw_file_read(&b, package_path(), &d), &d);
    unlink(package_path());
    memcpy(&h, b.data, sizeof h);
    return (bytes){(unsigned char *)b.data, b.size, sizeof h + h.meta_bytes, h.data_at};
}

static void refused(const unsigned char *data, size_t size) {
    tw_package *p;
    tw_diag d = {0};
    const tw_status st = tw_package_read(&p, data, size, "f", &d);
    if (st == TW_OK) fail_msg("a damaged package was read");
    assert_null(p);
    assert_true(*d.message && !strchr(d.message, '\n'));
}

static void damage_is_found(void **state) {
    (void)state;
    const bytes b = read_package();
    for (size_t n = 0; n < b.size; n += n < b.meta ? 7 : 97) refused(b.data, n);
    for (size_t i = 0; i < b.meta; i++) {
        if (i >= 12 && i < 16) continue; /* Reserved. */
        b.data[i] ^= 0x10;
        refused(b.data, b.size);
        b.data[i] ^= 0x10;
    }
    tw_package *p;
    tw_diag d = {0};
    succeed(tw_package_read(&p, b.data, b.size, "f", &d), &d);
    succeed(tw_package_check(p, NULL, "f", &d), &d);
    const int64_t constants = p->n_constants;
    tw_package_close(p);
    bool large = false;
    for (int64_t i = 0; i < constants; i++) {
        tw_package_constant c;
        succeed(tw_package_read(&p, b.data, b.size, "f", &d), &d);
        c = p->constants[i];
        tw_package_close(p);
        if (!c.bytes) continue;
        b.data[b.data_at + c.at + (c.bytes - 1)] ^= 1;
        const tw_status st = tw_package_read(&p, b.data, b.size, "f", &d);
        assert_int_equal(st, c.bytes <= TW_PACKAGE_SMALL ? TW_ERR_FORMAT : TW_OK);
        if (st == TW_OK) assert_int_equal(tw_package_check(p, NULL, "f", &d), TW_ERR_FORMAT);
        large |= st == TW_OK;
        assert_int_equal(d.offset, b.data_at + c.at);
        tw_package_close(p);
        b.data[b.data_at + c.at + (c.bytes - 1)] ^= 1;
    }
    assert_true(large);
    free(b.data);
}

/* Descriptions that somebody changed, and gave their checksum: never a crash, and a line if they are refused. */
static void changed_descriptions_are_survived(void **state) {
    (void)state;
    const bytes b = read_package();
    unsigned char *copy = malloc(b.size);
    tw_random r = tw_random_seed(5);
    int read = 0;
    for (int i = 0; i < 4000; i++) {
        tw_package_header h;
        tw_package *p;
        tw_diag d = {0};
        memcpy(copy, b.data, b.size);
        for (uint64_t k = 1 + tw_random_below(&r, 3); k; k--) {
            const uint64_t at = sizeof h + tw_random_below(&r, b.meta - sizeof h);
            copy[at] = (unsigned char)(tw_random_below(&r, 2) ? tw_random_u64(&r) : copy[at] + 1u);
        }
        memcpy(&h, copy, sizeof h);
        tw_hash hash = tw_hash_begin();
        tw_hash_add(&hash, copy + sizeof h, h.meta_bytes);
        tw_hash_end(&hash, h.hash);
        memcpy(copy, &h, sizeof h);
        if (tw_package_read(&p, copy, b.size, "f", &d) != TW_OK) {
            assert_true(*d.message);
            continue;
        }
        read++;
        tw_package_close(p);
    }
    assert_true(read > 0); /* Names may change. */
    free(copy);
    free(b.data);
}

/* Large constants are summed by several threads, a block each. */
static void large_constants_are_checked_in_blocks(void **state) {
    (void)state;
    enum { N = 3, BYTES = 4 * TW_SUM_BLOCK + 100 };
    unsigned char *data = calloc(N, BYTES);
    tw_package_constant constants[N];
    tw_diag d = {0};
    assert_non_null(data);
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < BYTES; k += 509) data[i * BYTES + k] = (unsigned char)(i + k / 509);
        constants[i] = (tw_package_constant){(uint64_t)(i * BYTES), BYTES, tw_sum(data + i * BYTES, BYTES)};
    }
    for (int wrong = -1; wrong < N; wrong++)
        for (int block = 0; block < (wrong < 0 ? 1 : 5); block++) {
            bool checked[N] = {false}, some[N] = {true, true, false};
            tw_package p = {.constants = constants, .n_constants = N, .checked = checked, .data = data, .data_at = 256};
            const int at = wrong * BYTES + block * TW_SUM_BLOCK + 99;
            if (wrong >= 0) data[at] ^= 16;
            assert_int_equal(tw_package_check(&p, some, "f", &d), wrong < 0 || wrong == 2 ? TW_OK : TW_ERR_FORMAT);
            assert_int_equal(tw_package_check(&p, NULL, "f", &d), wrong < 0 ? TW_OK : TW_ERR_FORMAT);
            if (wrong >= 0) assert_int_equal(d.offset, 256 + wrong * BYTES);
            if (wrong >= 0) data[at] ^= 16;
        }
    free(data);
}

/* Says something else of a value, with the right checksum. */
static void values_without_extents_are_refused(void **state) {
    (void)state;
    const bytes b = read_package();
    tw_package *p;
    tw_diag d = {0};
    tw_buf out = {0};
    succeed(tw_package_read(&p, b.data, b.size, "f", &d), &d);
    tw_graph *g = p->graphs[0];
    for (int i = 0; i < g->n_nodes; i++) g->values[g->nodes[i].out[0]].rank = TW_RANK_UNKNOWN;
    const tw_graph *const graphs[] = {g};
    const tw_package_parts parts = {
        .dtype = "f32", .plan = "", .interface = p->interface, .graphs = graphs, .n_graphs = 1};
    succeed(tw_package_write(&parts, package_path(), &d), &d);
    tw_package_close(p);
    free(b.data);
    succeed(tw_file_read(&out, package_path(), &d), &d);
    unlink(package_path());
    refused((const unsigned char *)out.data, out.size);
    tw_buf_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_machine_agrees),
                                       cmocka_unit_test(later_contents_count),
                                       cmocka_unit_test(packages_agree),
                                       cmocka_unit_test(other_shapes_and_types_are_refused),
                                       cmocka_unit_test(damage_is_found),
                                       cmocka_unit_test(changed_descriptions_are_survived),
                                       cmocka_unit_test(large_constants_are_checked_in_blocks),
                                       cmocka_unit_test(values_without_extents_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
