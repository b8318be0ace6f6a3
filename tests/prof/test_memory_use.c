/* SPDX-License-Identifier: Apache-2.0 */
/* How kernels with known patterns use memory. */
#include "prof/hand.h"

#include "base/file.h"
#include "emu/emu_test.h"
#include "ir/verify.h"
#include "prof/memory.h"

enum { BYTES = 1 << 16 };

typedef void build_fn(tw_builder *b, tw_val in, tw_val out, int step);

/* Runs a kernel of one warp, or more, and reports how it used memory. */
static void observe_blocks(build_fn *build, int step, int threads, int blocks, tw_prof_memory_report *r) {
    static uint8_t zeros[BYTES];
    tw_emu *e = tw_emu_new();
    tw_kernel *k = tw_kernel_new("pattern", 90, threads);
    tw_builder b = tw_builder_of(k);
    tw_val in = tw_pointer_add(&b, "in", 16, true), out = tw_pointer_add(&b, "out", 16, false);
    tw_shared_add(&b, "tile", 1 << 14, 128, false);
    build(&b, in, out, step);
    tw_diag d;
    if (tw_kernel_verify(k, 90, &d) != TW_OK) fail_msg("%s", d.message);
    const uint64_t a[2] = {tw_emu_alloc(e, "in", zeros, BYTES, true), tw_emu_alloc(e, "out", zeros, BYTES, false)};
    tw_prof_memory *m = tw_prof_memory_new();
    run_clean(e, k, a,
              (tw_emu_options){
                  .unchecked = true, .grid = {blocks}, .observer = tw_prof_memory_observe, .observer_context = m});
    assert_int_equal(tw_prof_memory_finish(m, r, NULL), TW_OK);
    tw_prof_memory_free(m);
    tw_kernel_free(k);
    tw_emu_free(e);
}

static void observe(build_fn *build, int step, tw_prof_memory_report *r) {
    observe_blocks(build, step, 32, 1, r);
}

/* -- global memory */

static tw_val load_at(tw_builder *b, tw_val in, int step, int offset) {
    return tw_ld(b, (tw_attrs){I32}, at64(b, tw_add(b, in, tw_i64(b, offset)), tid(b), step));
}

static void strided(tw_builder *b, tw_val in, tw_val out, int step) {
    store(b, (tw_attrs){I32}, at64(b, out, tid(b), 4), load_at(b, in, step, 0));
}

static void from_four(tw_builder *b, tw_val in, tw_val out, int step) {
    store(b, (tw_attrs){I32}, at64(b, out, tid(b), 4), load_at(b, in, step, 4));
}

static void sectors(build_fn *build, int step, int want, int least) {
    tw_prof_memory_report r;
    observe(build, step, &r);
    const tw_prof_memory_site *load = NULL, *store_site = NULL;
    for (int i = 0; i < r.n_sites; i++) *(r.sites[i].read ? &load : &store_site) = &r.sites[i];
    if (!load || !store_site) fail();
    assert_string_equal(load->object, "in");
    assert_int_equal(load->space, TW_SPACE_global);
    assert_int_equal(load->requests, 1);
    assert_int_equal(load->lanes, 32);
    assert_int_equal(load->bytes, 128);
    assert_int_equal(load->sectors, want);
    assert_int_equal(load->least_sectors, least);
    assert_int_equal(load->wavefronts, 0);
    assert_int_equal(store_site->sectors, 4);
    assert_int_equal(store_site->least_sectors, 4);
    assert_false(load->mixed || load->engine || load->write);
    tw_prof_memory_report_free(&r);
}

static void loads_touch_sectors(void **state) {
    (void)state;
    sectors(strided, 4, 4, 4);   /* Neighbours. */
    sectors(strided, 8, 8, 4);   /* Every other word. */
    sectors(strided, 32, 32, 4); /* A sector each. */
    sectors(strided, 128, 32, 4);
    sectors(strided, 0, 1, 1);   /* One word for all. */
    sectors(from_four, 4, 5, 4); /* Not aligned. */
}

/* -- shared memory */

static void shared_words(tw_builder *b, tw_val in, tw_val out, int step) {
    (void)in;
    tw_val tile = tw_shared_base(b, "tile");
    tw_val x = tw_ld(b, (tw_attrs){I32, SHARED}, at32(b, tile, tid(b), step));
    store(b, (tw_attrs){I32}, at64(b, out, tid(b), 4), x);
}

static void shared_halves(tw_builder *b, tw_val in, tw_val out, int step) {
    (void)in;
    tw_val tile = tw_shared_base(b, "tile");
    tw_val x = tw_ld(b, (tw_attrs){.type = TW_T_i16, SHARED}, at32(b, tile, tid(b), step));
    store(b, (tw_attrs){.type = TW_T_i16}, at64(b, out, tid(b), 2), x);
}

/* Stores of 16 bytes a lane: rows of `step` bytes. */
static void shared_vectors(tw_builder *b, tw_val in, tw_val out, int step) {
    (void)in, (void)out;
    tw_val tile = tw_shared_base(b, "tile"), zero = tw_i32(b, 0), x[4] = {zero, zero, zero, zero};
    tw_st(b, (tw_attrs){I32, SHARED, .vec = 4}, at32(b, tile, tid(b), step), x);
}

static void shared_pairs(tw_builder *b, tw_val in, tw_val out, int step) {
    (void)in, (void)out;
    tw_val tile = tw_shared_base(b, "tile"), zero = tw_i32(b, 0), x[2] = {zero, zero};
    tw_st(b, (tw_attrs){I32, SHARED, .vec = 2}, at32(b, tile, tid(b), step), x);
}

static void matrices(tw_builder *b, tw_val in, tw_val out, int step) {
    (void)in;
    tw_val tile = tw_shared_base(b, "tile"), x[4] = {{0}};
    tw_ldmatrix(b, 4, false, at32(b, tile, tid(b), step), 0, x);
    store(b, (tw_attrs){I32}, at64(b, out, tid(b), 4), x[0]);
}

static void wavefronts(build_fn *build, int step, int want, int least, int ways) {
    tw_prof_memory_report r;
    observe(build, step, &r);
    const tw_prof_memory_site *s = NULL;
    for (int i = 0; i < r.n_sites; i++)
        if (r.sites[i].space == TW_SPACE_shared) s = &r.sites[i];
    if (!s) fail();
    assert_string_equal(s->object, "tile");
    assert_int_equal(s->requests, 1);
    if (s->wavefronts != want || s->least_wavefronts != least || s->ways != ways)
        fail_msg("step %d: %d wavefronts of %d, %d ways", step, (int)s->wavefronts, (int)s->least_wavefronts, s->ways);
    assert_int_equal(s->sectors, 0);
    tw_prof_memory_report_free(&r);
}

static void accesses_of_shared_memory_conflict(void **state) {
    (void)state;
    wavefronts(shared_words, 4, 1, 1, 1);
    wavefronts(shared_words, 8, 2, 1, 2);
    wavefronts(shared_words, 32, 8, 1, 8);
    wavefronts(shared_words, 128, 32, 1, 32);
    wavefronts(shared_words, 132, 1, 1, 1); /* A padded column. */
    wavefronts(shared_words, 0, 1, 1, 1);   /* A broadcast. */
    wavefronts(shared_halves, 2, 1, 1, 1);  /* Two lanes a word. */
    wavefronts(shared_halves, 256, 32, 1, 32);
    wavefronts(shared_pairs, 8, 2, 2, 1);
    wavefronts(shared_pairs, 16, 4, 2, 2);
    wavefronts(shared_vectors, 16, 4, 4, 1);
    wavefronts(shared_vectors, 32, 8, 4, 2);
    wavefronts(shared_vectors, 128, 32, 4, 8);
    wavefronts(shared_vectors, 144, 4, 4, 1); /* Padded by 16 bytes. */
    wavefronts(matrices, 128, 32, 4, 8);
    wavefronts(matrices, 144, 4, 4, 1);
    wavefronts(matrices, 64, 16, 4, 4);
}

/* -- copies, and places */

static void copied(tw_builder *b, tw_val in, tw_val out, int step) {
    tw_val tile = tw_shared_base(b, "tile"), t = tid(b);
    TW_FOR (b, i, tw_i32(b, 0), tw_i32(b, 4), tw_i32(b, 1), false) {
        (void)i;
        tw_cp_async(b, (tw_attrs){.bytes = 16}, at32(b, tile, t, step), at64(b, in, t, 16), TW_NONE);
        tw_do(b, TW_OP_cp_async_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
        tw_do(b, TW_OP_cp_async_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
    }
    tw_red(b, (tw_attrs){I32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_gpu}, out, (tw_val[]){tw_i32(b, 1)});
}

static void sites_are_places_of_the_text(void **state) {
    (void)state;
    tw_prof_memory_report r;
    observe(copied, 128, &r);
    int found = 0;
    for (int i = 0; i < r.n_sites; i++) {
        const tw_prof_memory_site *s = &r.sites[i];
        if (strstr(s->place, "/cp_async ")) {
            found++;
            assert_int_equal(strncmp(s->place, "body/for ", 9), 0);
            assert_int_equal(s->requests, 4);
            assert_int_equal(s->bytes, 4 * 512);
            if (s->space == TW_SPACE_global) {
                assert_string_equal(s->object, "in");
                assert_true(s->read && !s->write);
                assert_int_equal(s->sectors, 4 * 16);
                assert_int_equal(s->least_sectors, 4 * 16);
            } else {
                assert_string_equal(s->object, "tile");
                assert_true(s->write && !s->read);
                assert_int_equal(s->ways, 8);
                assert_int_equal(s->wavefronts, 4 * 32);
                assert_int_equal(s->least_wavefronts, 4 * 4);
            }
        } else {
            assert_non_null(strstr(s->place, "body/red "));
            assert_true(s->read && s->write);
            assert_int_equal(s->sectors, 1);
            found++;
        }
    }
    assert_int_equal(found, 3);
    assert_int_equal(r.sites[0].space, TW_SPACE_global);
    assert_int_equal(r.sites[2].space, TW_SPACE_shared);
    tw_prof_memory_report_free(&r);
}

static void bulk(tw_builder *b, tw_val in, tw_val out, int step) {
    (void)step;
    tw_shared_add(b, "full", 8, 8, false);
    tw_val tile = tw_shared_base(b, "tile"), full = tw_shared_base(b, "full"), t = tid(b);
    const tw_scope first = tw_push_if(b, tw_eq(b, t, tw_i32(b, 0)));
    tw_do(b, TW_OP_mbarrier_init, (tw_attrs){0}, full, tw_i32(b, 1));
    tw_do(b, TW_OP_fence_mbarrier_init, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_mbarrier_expect, (tw_attrs){0}, full, tw_i32(b, 1024));
    tw_val load[4] = {tile, tw_add(b, in, tw_i64(b, 512)), tw_i32(b, 1024), full};
    tw_emit(b, TW_OP_bulk_load, (tw_attrs){0}, NULL, NULL, 0, load, 4);
    tw_pop(b, first);
    tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_mbarrier_wait, (tw_attrs){0}, full, tw_i32(b, 0));
    store(b, (tw_attrs){I32}, at64(b, out, t, 4), tw_ld(b, (tw_attrs){I32, SHARED}, at32(b, tile, t, 4)));
}

static const tw_prof_memory_object *object(const tw_prof_memory_report *r, const char *name) {
    for (int i = 0; i < r->n_objects; i++)
        if (!strcmp(r->objects[i].name, name)) return &r->objects[i];
    fail_msg("no object %s", name);
    return NULL;
}

static void engines_have_sectors_alone(void **state) {
    (void)state;
    tw_prof_memory_report r;
    observe_blocks(bulk, 0, 32, 3, &r);
    for (int i = 0; i < r.n_sites; i++) {
        const tw_prof_memory_site *s = &r.sites[i];
        if (!strstr(s->place, "bulk_load")) continue;
        assert_true(s->engine);
        assert_int_equal(s->requests, 3);
        assert_int_equal(s->bytes, 3 * 1024);
        assert_int_equal(s->wavefronts, 0);
        if (s->space != TW_SPACE_global) continue;
        assert_int_equal(s->sectors, 3 * 32);
        assert_int_equal(s->least_sectors, 3 * 32);
    }
    assert_int_equal(object(&r, "in")->read, 3 * 1024);
    assert_int_equal(object(&r, "tile")->written, 3 * 1024);
    assert_int_equal(object(&r, "tile")->read, 3 * 128);
    /* Parts of `in` are of 1024 bytes: the copy is from half of one to half of the next. */
    assert_int_equal(object(&r, "in")->parts[0], 3 * 512);
    assert_int_equal(object(&r, "in")->parts[1], 3 * 512);
    assert_int_equal(object(&r, "in")->parts[2], 0);
    int64_t sum[4] = {0};
    for (int i = 0; i < r.n_slots; i++)
        for (int k = 0; k < 2; k++) sum[2 * k] += r.slots[i].read[k], sum[2 * k + 1] += r.slots[i].written[k];
    assert_int_equal(sum[0], 3 * 1024);
    assert_int_equal(sum[1], 3 * 128);
    assert_int_equal(sum[2], 3 * 128);
    assert_int_equal(sum[3], 3 * (1024 + 8)); /* The mbarrier's, too. */
    tw_prof_memory_report_free(&r);
}

/* A loop whose later half stores. */
static void phases(tw_builder *b, tw_val in, tw_val out, int step) {
    tw_val t = tid(b);
    TW_FOR (b, i, tw_i32(b, 0), tw_i32(b, step), tw_i32(b, 1), false) {
        (void)i;
        tw_ld(b, (tw_attrs){I32}, at64(b, in, t, 4));
    }
    TW_FOR (b, i, tw_i32(b, 0), tw_i32(b, step), tw_i32(b, 1), false) {
        (void)i;
        store(b, (tw_attrs){I32}, at64(b, out, t, 4), t);
    }
}

static void density_is_over_time(void **state) {
    (void)state;
    tw_prof_memory_report r;
    observe(phases, 2000, &r);
    assert_true(r.slot > 1 && (r.slot & (r.slot - 1)) == 0);
    assert_true(r.n_slots > TW_PROF_MEMORY_SLOTS / 2 - 1 && r.n_slots <= TW_PROF_MEMORY_SLOTS);
    int64_t read = 0, written = 0;
    int last_read = 0, first_written = TW_PROF_MEMORY_SLOTS;
    for (int i = 0; i < r.n_slots; i++) {
        read += r.slots[i].read[0];
        written += r.slots[i].written[0];
        if (r.slots[i].read[0]) last_read = i;
        if (r.slots[i].written[0] && i < first_written) first_written = i;
    }
    assert_int_equal(read, 2000 * 128);
    assert_int_equal(written, 2000 * 128);
    assert_true(last_read <= first_written);
    tw_prof_memory_report_free(&r);
}

/* Launches of one collector add up, and the finished collector begins anew. */
static void launches_add_up(void **state) {
    (void)state;
    static uint8_t zeros[BYTES];
    tw_emu *e = tw_emu_new();
    tw_kernel *k = tw_kernel_new("twice", 90, 32);
    tw_builder b = tw_builder_of(k);
    tw_val in = tw_pointer_add(&b, "in", 16, true), out = tw_pointer_add(&b, "out", 16, false);
    strided(&b, in, out, 8);
    const uint64_t a[2] = {tw_emu_alloc(e, "in", zeros, BYTES, true), tw_emu_alloc(e, "out", zeros, BYTES, false)};
    tw_prof_memory *m = tw_prof_memory_new();
    const tw_emu_options o = {.observer = tw_prof_memory_observe, .observer_context = m};
    tw_prof_memory_report r;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++) run_clean(e, k, a, o);
        assert_int_equal(tw_prof_memory_finish(m, &r, NULL), TW_OK);
        assert_int_equal(r.n_sites, 2);
        assert_int_equal(r.sites[0].requests, 3);
        assert_int_equal(r.sites[0].sectors, 3 * 8);
        int used = 0;
        for (int i = 0; i < r.n_slots; i++) used += r.slots[i].read[0] > 0;
        assert_int_equal(used, 3);
        tw_prof_memory_report_free(&r);
    }
    assert_int_equal(tw_prof_memory_finish(m, &r, NULL), TW_OK);
    assert_int_equal(r.n_sites + r.n_objects + r.n_slots, 0);
    tw_prof_memory_report_free(&r);
    tw_prof_memory_free(m);
    tw_kernel_free(k);
    tw_emu_free(e);
}

static void results_are_written(void **state) {
    (void)state;
    tw_prof_memory_report r;
    observe(copied, 128, &r);
    tw_buf text = {0};
    assert_true(tw_prof_memory_lines(&r, 0, &text));
    json_t *o = tw_prof_memory_json(&r);
    assert_non_null(o);
    assert_int_equal(json_array_size(json_object_get(o, "operations")), 3);
    assert_int_equal(json_array_size(json_object_get(o, "objects")), 3);
    char *json = json_dumps(o, JSON_COMPACT);
    tw_buf_printf(&text, "%s\n", json);
    test_golden("prof/golden/memory.txt", text.data, text.size);
    free(json);
    json_decref(o);
    text.size = 0;
    assert_true(tw_prof_memory_lines(&r, 1, &text));
    assert_non_null(strstr(text.data, "  and 1 more\n"));
    tw_buf_free(&text);
    tw_prof_memory_report_free(&r);
}

/* Returns the sum of y over the points of a series. */
static double sum_of(const json_t *plots, size_t plot, size_t series, const char *name) {
    const json_t *s = json_array_get(json_object_get(json_array_get(plots, plot), "series"), series), *point;
    double sum = 0;
    size_t i;
    assert_string_equal(json_string_value(json_object_get(s, "name")), name);
    json_array_foreach(json_object_get(s, "points"), i, point) sum += json_number_value(json_object_get(point, "y"));
    return sum;
}

static void a_page_has_plots(void **state) {
    (void)state;
    char path[4096], *folder = test_folder_make();
    snprintf(path, sizeof path, "%s/memory.html", folder);
    static const char begin[] = "id=\"data\">";
    tw_prof_memory_report r;
    tw_buf text = {0};
    tw_diag d;
    observe(strided, 4, &r);
    tw_page *p = tw_page_open("memory", "a kernel");
    tw_prof_memory_page(&r, p);
    if (tw_page_write(p, path, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    tw_page_close(p);
    assert_int_equal(tw_file_read(&text, path, &d), TW_OK);
    const char *from = strstr(text.data, begin) + strlen(begin);
    json_t *data = json_loadb(from, (size_t)(strstr(from, "</script>") - from), 0, NULL);
    assert_non_null(data);
    const json_t *plots = json_object_get(data, "plots");
    /* Each lane reads a word and writes one. The series repeats the last slot, to end its step. */
    const double read = sum_of(plots, 0, 0, "read"), written = sum_of(plots, 0, 1, "written");
    const tw_prof_memory_slot *last = &r.slots[r.n_slots - 1];
    assert_true(read == 128 + (double)last->read[0] && written == 128 + (double)last->written[0] && read != written);
    /* All words lie in the first of the 64 parts of their buffer. */
    const double part = (double)BYTES / TW_PROF_MEMORY_PARTS;
    assert_true(sum_of(plots, 2, 0, "in") == 128 / part && sum_of(plots, 2, 1, "out") == 128 / part);
    json_decref(data);
    tw_buf_free(&text);
    tw_prof_memory_report_free(&r);
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_touch_sectors),          cmocka_unit_test(accesses_of_shared_memory_conflict),
        cmocka_unit_test(sites_are_places_of_the_text), cmocka_unit_test(engines_have_sectors_alone),
        cmocka_unit_test(density_is_over_time),         cmocka_unit_test(launches_add_up),
        cmocka_unit_test(results_are_written),          cmocka_unit_test(a_page_has_plots)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
