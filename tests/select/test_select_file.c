/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are no artefacts, damaged, or malicious. */
#include "support/support.h"

#include "select/artefacts.h"
#include "select/selector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct sample {
    tw_arena arena;
    const tw_artefact *a;
    char *folder, path[512], other[512];
    unsigned char *bytes;
    size_t size;
} sample;

/* Tells whether the file of an artefact has every part. A property that all macro choices share has no part. */
static bool has_all_parts(const tw_artefact *a) {
    bool slots = false, times = false, fits = false, kinds = false;
    for (int i = 1; i < a->n_macros; i++) {
        const tw_artefact_macro *m = &a->macros[i], *first = a->macros;
        slots |= m->slots != first->slots;
        times |= (m->times ? m->times : 1) != (first->times ? first->times : 1);
        fits |= m->n_fits != first->n_fits;
        kinds |= m->properties != first->properties;
    }
    return a->n_macros >= 5 && a->n_exact >= 5 && a->n_axes == 3 && a->lattice && a->lattice->nodes[0] > 1 && slots &&
           times && fits && kinds && !a->direct;
}

static int setup(void **state) {
    sample *s = calloc(1, sizeof *s);
    tw_random r = tw_random_seed(3);
    tw_diag d = {0};
    tw_buf b = {0};
    assert_non_null(s);
    do {
        s->a = artefact_random(&s->arena, &r, &(artefact_limits){3, 6, 4, 5, 12, false});
    } while (!has_all_parts(s->a));
    s->folder = test_folder_make();
    snprintf(s->path, sizeof s->path, "%s/a.tws", s->folder);
    snprintf(s->other, sizeof s->other, "%s/other.tws", s->folder);
    assert_int_equal(tw_artefact_write(s->a, s->path, &d), TW_OK);
    assert_int_equal(tw_file_read(&b, s->path, &d), TW_OK);
    s->bytes = (unsigned char *)b.data;
    s->size = b.size;
    *state = s;
    return 0;
}

static int teardown(void **state) {
    sample *s = *state;
    test_folder_remove(s->folder);
    tw_arena_free(&s->arena);
    free(s->bytes);
    free(s);
    return 0;
}

/* Exercises a selector: problems, flags, explanations. */
static void use(const tw_selector *s, tw_random *r) {
    tw_selector_info info;
    tw_selection some[5];
    tw_select_explanation e;
    char text[2000];
    tw_selector_describe(s, &info);
    assert_true(strlen(info.kernel) + strlen(info.about) < s->map.size);
    for (int i = 0; i < 60; i++) {
        int64_t problem[TW_SELECT_AXES];
        const unsigned flags = (unsigned)tw_random_below(r, 16);
        for (int x = 0; x < info.n_axes; x++)
            problem[x] = 1 + (int64_t)tw_random_below(r, i % 4 ? 1u << tw_random_below(r, 12) : TW_SELECT_MOST);
        if (i < info.exact)
            for (int x = 0; x < info.n_axes; x++) problem[x] = s->view.exact[i].problem[x];
        if (tw_select_choose(s, problem, flags, some) == TW_OK) assert_true(strlen(some->config) < s->map.size);
        tw_select_best(s, problem, flags, 5, some);
        tw_select_explain(s, problem, flags, TW_SELECT_SAME, &e);
        tw_select_explain_text(s, problem, flags, TW_SELECT_SAME, text, sizeof text);
    }
}

/* Opens bytes as a file, and exercises the selector if they are accepted. */
static tw_status open_bytes(const sample *s, const unsigned char *bytes, size_t size, tw_diag *d) {
    tw_selector *sel = NULL;
    tw_random r = tw_random_seed(4);
    unlink(s->other); /* Some file systems flush a file that is truncated and written again, which is slow. */
    test_write(s->folder, "other.tws", bytes, size);
    *d = (tw_diag){0};
    const tw_status st = tw_selector_open(&sel, s->other, d);
    assert_true((st == TW_OK) == (sel != NULL));
    if (st == TW_OK) {
        use(sel, &r);
        tw_selector_close(sel);
    } else {
        assert_int_equal(d->status, st);
        assert_string_equal(d->path, s->other);
        assert_true(d->offset < (int64_t)size || d->offset == -1);
    }
    return st;
}

static void sign(unsigned char *bytes, size_t size) {
    select_header *h = (void *)bytes;
    select_checksum(bytes, size, h->checksum);
}

static unsigned char *copy_of(const sample *s) {
    unsigned char *c = malloc(s->size);
    assert_non_null(c);
    return memcpy(c, s->bytes, s->size);
}

static void what_is_written_is_opened(void **state) {
    const sample *s = *state;
    tw_diag d;
    assert_int_equal(open_bytes(s, s->bytes, s->size, &d), TW_OK);
    tw_selector_close(NULL);
}

static void a_cut_file_is_refused(void **state) {
    const sample *s = *state;
    tw_diag d;
    for (size_t n = 0; n < s->size; n++) assert_int_equal(open_bytes(s, s->bytes, n, &d), TW_ERR_FORMAT);
    unsigned char *longer = calloc(1, s->size + 1);
    assert_non_null(longer);
    memcpy(longer, s->bytes, s->size);
    assert_int_equal(open_bytes(s, longer, s->size + 1, &d), TW_ERR_FORMAT);
    free(longer);
}

static void a_changed_byte_is_noticed(void **state) {
    const sample *s = *state;
    tw_random r = tw_random_seed(5);
    tw_diag d;
    unsigned char *c = copy_of(s);
    for (int i = 0; i < 400; i++) {
        const size_t at = tw_random_below(&r, s->size);
        const unsigned char was = c[at];
        c[at] ^= (unsigned char)(1 + tw_random_below(&r, 255));
        const tw_status st = open_bytes(s, c, s->size, &d);
        assert_true(st == TW_ERR_FORMAT || (st == TW_ERR_UNSUPPORTED && at < 16));
        c[at] = was;
    }
    free(c);
}

/* Values near limits, most often written where a field is. */
static void corrupt(tw_random *r, unsigned char *c, size_t size) {
    static const uint32_t odd[] = {0,          1,          2,          255,        256,        65535,      65536,
                                   0x7f800000, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe, 0x00010001, 0xff00ff00};
    for (int n = 1 + (int)tw_random_below(r, 3); n > 0; n--) {
        const size_t part = tw_random_below(r, 2) ? sizeof(select_header) : size, at = tw_random_below(r, part / 4) * 4;
        uint32_t word;
        memcpy(&word, c + at, sizeof word);
        switch (tw_random_below(r, 4)) {
        case 0:
            word = odd[tw_random_below(r, sizeof odd / sizeof *odd)];
            break;
        case 1:
            word += (uint32_t)tw_random_below(r, 9) - 4;
            break;
        case 2:
            word ^= 1u << tw_random_below(r, 32);
            break;
        default:
            word = (uint32_t)tw_random_below(r, 2 * size);
            break;
        }
        memcpy(c + at, &word, sizeof word);
    }
}

static void an_enemy_s_file_does_no_harm(void **state) {
    const sample *s = *state;
    tw_random r = tw_random_seed(6);
    tw_diag d;
    unsigned char *c = copy_of(s);
    int let_in = 0;
    const int times = TEST_SANITIZED ? 1000 : 4000;
    for (int i = 0; i < times; i++) {
        memcpy(c, s->bytes, s->size);
        corrupt(&r, c, s->size);
        sign(c, s->size);
        let_in += open_bytes(s, c, s->size, &d) == TW_OK;
    }
    free(c);
    assert_true(let_in > times / 50 && let_in < times / 2);
}

/* Corruptions that the check must find, with the checksum corrected. */
static void each_part_is_checked(void **state) {
    const sample *s = *state;
    unsigned char *c = copy_of(s);
    select_header *h = (void *)c;
    tw_diag d;
    assert_true(h->macros > 2 && h->exact > 2 && h->rules > 2 && h->records > 2);
    assert_true(h->lattice_at && h->axes < 6 && h->columns[COLUMN_STEP].at);
    assert_true(h->columns[COLUMN_KIND].at && h->columns[COLUMN_SLOTS].at && h->columns[COLUMN_TIMES].at &&
                h->first_at);
    select_macro *m = (void *)(c + h->macros_at);
    select_exact *e = (void *)(c + h->exact_at);
    select_rule *rule = (void *)(c + h->rules_at);
    uint32_t *records = (void *)(c + h->records_at), *first = (void *)(c + h->first_at),
             *buckets = (void *)(c + h->buckets_at);
    uint16_t *kind = (void *)(c + h->columns[COLUMN_KIND].at), *slots = (void *)(c + h->columns[COLUMN_SLOTS].at),
             *times = (void *)(c + h->columns[COLUMN_TIMES].at), *ratio = (void *)(c + h->columns[COLUMN_RATIO].at);
    uint16_t *step = (void *)(c + h->columns[COLUMN_STEP].at);
    unsigned bounded = 0, with_rows = 0, listed = 0, corrected = 0, wide = 0;
    while (ratio[bounded] == 0x7f80) bounded++;
    while (!m[with_rows].rows) with_rows++;
    while (!step[corrected]) corrected++;
    while (h->lattice.nodes[wide] < 2) wide++;
    while (!buckets[listed]) listed++;
    assert_true(bounded < h->macros && with_rows < h->macros && h->axes < TW_SELECT_AXES);
    uint32_t *rounds = (void *)(c + m[with_rows].anchors);
    unsigned char *row = c + m[with_rows].anchors + 4 * m[with_rows].anchor_count;
    char *config = (char *)c + m[0].config, *name = (char *)c + h->names[0];
#define REFUSED(what, value)                                                                                           \
    {                                                                                                                  \
        memcpy(c, s->bytes, s->size);                                                                                  \
        (what) = (value);                                                                                              \
        sign(c, s->size);                                                                                              \
        if (open_bytes(s, c, s->size, &d) != TW_ERR_FORMAT) fail_msg("let in: %s = %s", #what, #value);                \
    }
    REFUSED(h->order, 7)
    REFUSED(h->version, 0)
    REFUSED(h->size, s->size - 1)
    REFUSED(h->axes, 0)
    REFUSED(h->axes, 7)
    REFUSED(h->macros, 0)
    REFUSED(h->macros, 5000)
    REFUSED(h->record_words, 4)
    REFUSED(h->rules, 0)
    REFUSED(h->rules, 1 << 20)
    REFUSED(h->exact, SELECT_INDEX)
    REFUSED(h->exact, 0)
    REFUSED(h->buckets, h->buckets - 1)
    REFUSED(h->buckets, 16)
    REFUSED(h->macro, h->macros)
    REFUSED(h->micro, 250)
    REFUSED(h->least, 0)
    REFUSED(h->most, h->least / 2)
    REFUSED(h->most, INFINITY)
    REFUSED(h->least, NAN)
    REFUSED(h->records, h->records + 1)
    REFUSED(h->records_at, 8)
    REFUSED(h->records_at, (uint32_t)s->size)
    REFUSED(h->macros_at, h->macros_at + 2)
    REFUSED(h->rules_at, (uint32_t)s->size - 4)
    REFUSED(h->samples_at, (uint32_t)s->size - 2)
    REFUSED(h->exact_at, (uint32_t)s->size - 4)
    REFUSED(h->buckets_at, (uint32_t)s->size - 4)
    REFUSED(h->first_at, (uint32_t)s->size - 4)
    REFUSED(h->hot_end, (uint32_t)s->size + 64)
    REFUSED(h->hot_at, h->hot_at + 4)
    REFUSED(h->hot_at, h->hot_end + 64)
    REFUSED(h->texts[TEXT_ABOUT], (uint32_t)s->size)
    REFUSED(h->names[0], 0)
    REFUSED(h->names[5], h->names[0])
    REFUSED(h->shrinks, 1u << TW_SELECT_AXES)
    REFUSED(h->spread, (h->groups = 0, 1))
    REFUSED(h->spread, (h->groups = 2, TW_SELECT_AXES + 1))
    REFUSED(h->spread, (h->groups = 1, 1))
    REFUSED(h->spread, (h->groups = 2, h->shrinks = 1, 1))
    REFUSED(h->groups, (h->spread = 0, 1))
    REFUSED(h->groups, (h->spread = 1, TW_SELECT_AXES + 1))
    REFUSED(h->lattice_at, 0)
    REFUSED(h->lattice_at, h->lattice_at + 4)
    REFUSED(h->lattice_at, (uint32_t)s->size / 64 * 64)
    REFUSED(h->lattice_pitch, 0)
    REFUSED(h->lattice_pitch, h->lattice_pitch + 1)
    REFUSED(h->lattice_pitch, 1u << 30)
    REFUSED(h->lattice.nodes[0], 0)
    REFUSED(h->lattice.nodes[0], TW_LATTICE_NODES + 1)
    REFUSED(h->lattice.nodes[5], 2)
    REFUSED(h->lattice.low[0], NAN)
    REFUSED(h->lattice.low[wide], h->lattice.high[wide])
    REFUSED(step[corrected], 0x3f80)
    REFUSED(step[corrected], 0x8000 | step[corrected])
    REFUSED(step[corrected], 0x7fc0)
    REFUSED(*((int8_t *)c + h->lattice_at + corrected), (step[corrected] = 0x3c80, -128))
    REFUSED(h->columns[COLUMN_GRID].at, (uint32_t)s->size - 4)
    REFUSED(h->columns[COLUMN_KIND].same, 1)
    REFUSED(h->columns[COLUMN_RATIO].at, 0)
    REFUSED(h->columns[COLUMN_SLOTS], ((select_column){0, 0}))
    REFUSED(h->columns[COLUMN_SLOTS], ((select_column){0, 65536}))
    REFUSED(h->columns[COLUMN_FITS], ((select_column){0, 257}))
    REFUSED(kind[1], (uint16_t)(h->rules << SELECT_RULE))
    REFUSED(slots[1], 0)
    REFUSED(times[1], 0)
    REFUSED(first[1], first[1] + 1)
    REFUSED(ratio[bounded], 0x3f80)
    REFUSED(ratio[bounded], 0x7fc0)
    REFUSED(*((uint16_t *)(void *)(c + h->columns[COLUMN_BOUND + 3].at) + bounded), 0x4900)
    REFUSED(records[0], 0x7f800000)
    REFUSED(records[2], records[2] | 0xff)
    REFUSED(m[0].config, (uint32_t)s->size - 1)
    REFUSED(m[1].config, m[0].config)
    REFUSED(m[0].pitch, 0)
    REFUSED(m[0].pitch, 1)
    REFUSED(m[0].micros, 0)
    REFUSED(m[0].zero, 1)
    REFUSED(m[with_rows].rows, 257)
    REFUSED(m[with_rows].rows, 0)
    REFUSED(m[with_rows].anchor_count, 0)
    REFUSED(m[with_rows].anchors, (uint32_t)s->size - 4)
    REFUSED(m[with_rows].anchors, 4)
    REFUSED(rounds[0], 0)
    REFUSED(rounds[1], rounds[0])
    REFUSED(row[0], 200)
    REFUSED(config[0], (char)0xc0)
    REFUSED(name[0], (char)0xff)
    REFUSED(rule[0].multiple[0], 0)
    REFUSED(rule[0].least[0], 0)
    REFUSED(rule[0].least[0], rule[0].most[0] + 1)
    REFUSED(rule[0].most[0], TW_SELECT_MOST + 1)
    REFUSED(rule[0].tile[0], 0)
    REFUSED(rule[0].parts[0], 0)
    REFUSED(buckets[listed], buckets[listed] + SELECT_INDEX)
    REFUSED(buckets[listed], buckets[listed] - buckets[listed] % SELECT_INDEX + h->exact + 1)
    REFUSED(buckets[listed], 0)
    REFUSED(e[0].problem[0], 0)
    REFUSED(e[0].problem[0], TW_SELECT_MOST + 1)
    REFUSED(e[0].problem[5], 1)
    REFUSED(e[0].macro, 6)
    REFUSED(e[0].second_macro, 6)
    REFUSED(e[0].micro, 100)
    REFUSED(e[0].second_micro, 100)
    REFUSED(e[0].time, 0)
    REFUSED(e[0].time, NAN)
    REFUSED(e[0].second_time, e[0].time / 2)
    REFUSED(e[0].second_time, INFINITY)
    REFUSED(e[0].zero, 1)
    REFUSED(e[1], e[0])
    free(c);
}

/* Corruptions of a direct artefact that the check must find. */
static void direct_parts_are_checked(void **state) {
    const sample *all = *state;
    tw_random r = tw_random_seed(7);
    sample direct = *all, *s = &direct;
    tw_arena arena = {0};
    tw_buf b = {0};
    tw_diag d = {0};
    tw_artefact *a = artefact_of_products(&arena, &r, 20, 3);
    artefact_direct(&arena, &r, a);
    s->a = a;
    assert_int_equal(tw_artefact_write(a, s->path, &d), TW_OK);
    assert_int_equal(tw_file_read(&b, s->path, &d), TW_OK);
    s->bytes = (unsigned char *)b.data;
    s->size = b.size;
    unsigned char *c = copy_of(s);
    select_header *h = (void *)c;
    assert_true(h->terms_at && h->terms_pitch == 32 && !h->lattice_at && open_bytes(s, c, s->size, &d) == TW_OK);
    float *terms = (void *)(c + h->terms_at);
    select_macro *m = (void *)(c + h->macros_at);
    REFUSED(h->terms_at, 0)
    REFUSED(h->terms_at, h->terms_at + 4)
    REFUSED(h->terms_at, (uint32_t)s->size / 64 * 64)
    REFUSED(h->terms_pitch, 19)
    REFUSED(h->terms_pitch, 1u << 31)
    REFUSED(terms[3], NAN)
    REFUSED(terms[5 * 32 + 19], -1)
    REFUSED(terms[32], INFINITY)
    assert_true(h->fills_at && h->tiled[0] == 1 && h->tiled[1] == 2);
    select_fill *fills = (void *)(c + h->fills_at);
    uint16_t *low = (void *)(c + h->columns[COLUMN_LOW].at), *high = (void *)(c + h->columns[COLUMN_HIGH].at);
    REFUSED(h->fills_at, h->fills_at + 4)
    REFUSED(h->fills_at, (uint32_t)s->size / 64 * 64)
    REFUSED(h->tiled[1], 4)
    REFUSED(h->columns[COLUMN_HIGH].at, 0)
    REFUSED(fills[3].step, 0x7fc0)
    REFUSED(fills[3].step, 0x3f80)
    REFUSED(fills[3].step, 0xbf80)
    REFUSED(fills[3].zero[6], 1)
    REFUSED(low[3], 0)
    REFUSED(low[3], 0xff80)
    REFUSED(high[3], 0)
    REFUSED(high[3], 0x7fc0)
    REFUSED(m[2].rows, (m[2].anchor_count = 0, 0))
    free(c);
    tw_buf_free(&b);
    tw_arena_free(&arena);
}

static void others_are_told_apart(void **state) {
    const sample *s = *state;
    unsigned char *c = copy_of(s);
    select_header *h = (void *)c;
    tw_diag d;
    h->version = SELECT_VERSION + 1;
    sign(c, s->size);
    assert_int_equal(open_bytes(s, c, s->size, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "version 6"));
    memcpy(c, s->bytes, s->size);
    h->order = __builtin_bswap32(h->order);
    assert_int_equal(open_bytes(s, c, s->size, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "byte order"));
    assert_int_equal(open_bytes(s, (const unsigned char *)"{\"a\": 1}", 8, &d), TW_ERR_FORMAT);
    assert_non_null(strstr(d.message, "no artefact"));
    assert_int_equal(open_bytes(s, c, 0, &d), TW_ERR_FORMAT);
    tw_selector *sel;
    assert_int_equal(tw_selector_open(&sel, s->folder, &d), TW_ERR_IO);
    assert_null(sel);
    assert_int_equal(tw_selector_open(&sel, "/no/such/file", &d), TW_ERR_IO);
    assert_string_equal(d.path, "/no/such/file");
    free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_opened), cmocka_unit_test(a_cut_file_is_refused),
        cmocka_unit_test(a_changed_byte_is_noticed), cmocka_unit_test(an_enemy_s_file_does_no_harm),
        cmocka_unit_test(each_part_is_checked),      cmocka_unit_test(direct_parts_are_checked),
        cmocka_unit_test(others_are_told_apart),

    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
