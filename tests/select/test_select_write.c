/* SPDX-License-Identifier: Apache-2.0 */
/* Artefacts that the writer refuses, and failing writes. */
#include "support/support.h"

#include "base/file.h"
#include "select/artefact.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const tw_artefact_anchor one_anchor[] = {{4, 0}}, wrong_order[] = {{4, 0}, {4, 0}}, no_rounds[] = {{0, 0}},
                                no_micro[] = {{4, 2}};
static const char *const words[] = {"x", "y"}, *const odd_words[] = {"x", "\xff"};

typedef struct content {
    tw_artefact a;
    tw_artefact_macro m;
    tw_artefact_fit f;
    tw_artefact_exact e;
} content;

static void fill(content *c) {
    c->f = (tw_artefact_fit){.c = {1, 1, 1, 1}, .anchors = one_anchor, .n_anchors = 1, .samples = 3, .error = 0.1};
    c->m = (tw_artefact_macro){.config = "w",
                               .grid = {8},
                               .slots = 4,
                               .micros = words,
                               .n_micros = 2,
                               .fits = &c->f,
                               .n_fits = 1,
                               .most = {99}};
    c->e = (tw_artefact_exact){.problem = {5}, .time = 2, .second_macro = 0, .second_micro = 1, .second_time = 3};
    c->a = (tw_artefact){.kernel = "k",
                         .unit = "us",
                         .device = "d",
                         .alike = "a",
                         .architecture = "r",
                         .about = "{}",
                         .axes = {"m"},
                         .n_axes = 1,
                         .macros = &c->m,
                         .n_macros = 1,
                         .exact = &c->e,
                         .n_exact = 1};
}

static void the_writer_refuses(void **state) {
    (void)state;
    content c;
    tw_diag d;
    char *folder = test_folder_make(), path[512];
    snprintf(path, sizeof path, "%s/a.tws", folder);
    fill(&c);
    assert_int_equal(tw_artefact_write(&c.a, path, &d), TW_OK);
    unlink(path);
#define REFUSED(what, value)                                                                                           \
    {                                                                                                                  \
        fill(&c);                                                                                                      \
        (what) = (value);                                                                                              \
        if (tw_artefact_write(&c.a, path, &d) != TW_ERR_USAGE) fail_msg("written: %s = %s", #what, #value);            \
        assert_true(d.message[0] && !tw_file_exists(path));                                                            \
    }
    REFUSED(c.a.kernel, NULL)
    REFUSED(c.a.unit, "\xc3")
    REFUSED(c.a.device, NULL)
    REFUSED(c.a.alike, NULL)
    REFUSED(c.a.architecture, "\xed\xa0\x80")
    REFUSED(c.a.about, NULL)
    REFUSED(c.a.axes[0], NULL)
    REFUSED(c.a.n_axes, 0)
    REFUSED(c.a.n_axes, 7)
    REFUSED(c.a.n_macros, 0)
    REFUSED(c.a.n_macros, TW_ARTEFACT_MACROS + 1)
    REFUSED(c.a.n_exact, -1)
    REFUSED(c.a.macro, 1)
    REFUSED(c.a.micro, 2)
    REFUSED(c.a.micro, -1)
    REFUSED(c.m.config, NULL)
    REFUSED(c.m.config, "\xc0\x80")
    REFUSED(c.m.properties, 8)
    REFUSED(c.m.grid[0], 65536)
    REFUSED(c.m.grid[0], -1)
    REFUSED(c.m.rounds[0], 65536)
    REFUSED(c.m.times, 65536)
    REFUSED(c.m.multiple[0], -1)
    REFUSED(c.m.parts[0], -1)
    REFUSED(c.m.least[0], 100)
    REFUSED(c.m.most[0], TW_SELECT_MOST + 1)
    REFUSED(c.m.slots, 0)
    REFUSED(c.m.slots, 65536)
    REFUSED(c.m.n_micros, 0)
    REFUSED(c.m.n_micros, 256)
    REFUSED(c.m.micros, odd_words)
    REFUSED(c.m.n_fits, 257)
    REFUSED(c.f.c[2], NAN)
    REFUSED(c.f.c[0], INFINITY)
    REFUSED(c.f.c[0], 3e38f)
    REFUSED(c.f.error, 16)
    REFUSED(c.f.error, NAN)
    REFUSED(c.f.samples, -1)
    REFUSED(c.f.anchors, no_rounds)
    REFUSED(c.f.anchors, no_micro)
    REFUSED(c.f, ((tw_artefact_fit){.c = {1, 1, 1, 1}, .anchors = wrong_order, .n_anchors = 2}))
    static const tw_lattice no_nodes = {{0}, {0}, {0}}, backwards = {{2, 1, 1, 1, 1, 1}, {4}, {4}},
                            beyond_axes = {{1, 2, 1, 1, 1, 1}, {0, 4}, {0, 8}}, none = {{1, 1, 1, 1, 1, 1}, {0}, {0}};
    static const double too_low[] = {-0.91}, too_high[] = {9.1}, fine[] = {0.5};
    REFUSED(c.a.lattice, &no_nodes)
    REFUSED(c.a.lattice, &backwards)
    REFUSED(c.a.lattice, &beyond_axes)
    REFUSED(c.m.corrections, fine)
    REFUSED(c.m.corrections, (c.a.lattice = &none, too_low))
    REFUSED(c.m.corrections, (c.a.lattice = &none, too_high))
    REFUSED(c.f.waves[0], 1)
    REFUSED(c.f.c[3], (c.a.direct = true, -1))
    REFUSED(c.f.waves[1], (c.a.direct = true, -1))
    REFUSED(c.f.waves[0], (c.a.direct = true, NAN))
    REFUSED(c.f.waves[0], (c.a.direct = true, 2e20f))
    REFUSED(c.m.n_fits, (c.a.direct = true, 2))
    static const double cells[TW_FILL_CELLS] = {1, -1}, beyond[TW_FILL_CELLS] = {[47] = 1.1};
    REFUSED(c.f.tail[1], 1)
    REFUSED(c.f.flow[0], (c.a.direct = true, -1))
    REFUSED(c.f.memory[1], 1)
    REFUSED(c.f.memory[0], (c.a.direct = true, -1))
    REFUSED(c.m.fills, cells)
    REFUSED(c.m.fills, (c.a.direct = true, beyond))
    REFUSED(c.a.tiled[1], -1)
    REFUSED(c.a.tiled[0], c.a.n_axes + 1)
    fill(&c);
    c.m.fills = cells;
    c.a.tiled[1] = c.a.n_axes;
    c.f.flow[1] = 1;
    c.f.memory[1] = 1;
    c.a.lattice = &none;
    c.m.corrections = fine;
    c.a.direct = true;
    c.f.waves[1] = 1;
    assert_int_equal(tw_artefact_write(&c.a, path, &d), TW_OK);
    unlink(path);
    REFUSED(c.e.problem[0], 0)
    REFUSED(c.e.problem[0], 100)
    REFUSED(c.e.macro, 1)
    REFUSED(c.e.micro, 2)
    REFUSED(c.e.time, 0)
    REFUSED(c.e.time, 1e-60)
    REFUSED(c.e.second_macro, 1)
    REFUSED(c.e.second_time, 1)
    REFUSED(c.e.second_time, 1e60)
#undef REFUSED
    fill(&c);
    tw_artefact_exact twice[] = {c.e, c.e};
    c.a.exact = twice;
    c.a.n_exact = 2;
    assert_int_equal(tw_artefact_write(&c.a, path, &d), TW_ERR_USAGE);
    assert_non_null(strstr(d.message, "twice"));
    test_folder_remove(folder);
}

/* A failing write leaves the old file, and no other file. */
static void a_failed_write_changes_nothing(void **state) {
    (void)state;
    content c;
    tw_diag d = {0};
    char *folder = test_folder_make(), path[512], nowhere[512];
    struct rlimit was, small;
    snprintf(path, sizeof path, "%s/a.tws", folder);
    snprintf(nowhere, sizeof nowhere, "%s/no/a.tws", folder);
    fill(&c);
    assert_int_equal(tw_artefact_write(&c.a, path, &d), TW_OK);
    tw_buf before = {0}, after = {0};
    assert_int_equal(tw_file_read(&before, path, &d), TW_OK);
    assert_int_equal(tw_artefact_write(&c.a, nowhere, &d), TW_ERR_IO);
    assert_string_equal(d.path, nowhere);
    assert_int_equal(tw_artefact_write(&c.a, folder, &d), TW_ERR_IO);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = 100;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    c.a.kernel = "another";
    const tw_status st = tw_artefact_write(&c.a, path, &d);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(st, TW_ERR_IO);
    assert_int_equal(tw_file_read(&after, path, &d), TW_OK);
    assert_int_equal(after.size, before.size);
    assert_memory_equal(after.data, before.data, before.size);
    tw_buf_free(&before);
    tw_buf_free(&after);
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* The folder is empty. */
    assert_int_equal(mkdir(folder, 0777), 0);
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_writer_refuses),
        cmocka_unit_test(a_failed_write_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
