/* SPDX-License-Identifier: Apache-2.0 */
/* AutoMegaKernel's schedules: its own lowerings, safe and with a fault put in, and one fault at a time in ours. */
#include "support/support.h"

#include "base/buf.h"
#include "base/json.h"
#include "schedule/formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES TEST_DATA "/schedules/amk/"

static tw_status check_file(const char *name, tw_report *report, tw_diag *diag) {
    char path[512];
    tw_schedule_file *f;
    tw_schedule_info info;
    snprintf(path, sizeof path, CASES "%s", name);
    assert_int_equal(tw_schedule_file_read(&f, path, TW_SCHEDULE_AUTO, diag), TW_OK);
    assert_int_equal(tw_schedule_file_describe(f, &info), TW_SCHEDULE_AMK);
    tw_status st = tw_schedule_file_check(f, report, diag);
    tw_schedule_file_free(f);
    return st;
}

static tw_status check_text(const char *text, tw_schedule_format format, tw_report *report, tw_diag *diag) {
    tw_schedule_file *f;
    *report = (tw_report){0};
    tw_status st = tw_schedule_file_parse(&f, text, strlen(text), "x.json", format, diag);
    if (st == TW_OK) st = tw_schedule_file_check(f, report, diag);
    tw_schedule_file_free(f);
    return st;
}

static bool named(const tw_report *r, const char *rules) {
    for (size_t i = 0; i < r->count; i++) {
        const char *at = strstr(rules, r->findings[i].rule);
        size_t n = strlen(r->findings[i].rule);
        if (at && (at == rules || at[-1] == '|') && (!at[n] || at[n] == '|')) return true;
    }
    return false;
}

static void lowerings_of_theirs(void **state) {
    (void)state;
    static const struct {
        const char *name, *rules; /* NULL: safe */
    } files[] = {
        {"safe-m0-nNone-p0-round_robin.json", NULL},
        {"safe-m2-n16-p5-load_balance.json", NULL},
        {"safe-m4-n64-p0-load_balance.json", NULL},
        {"toy-split.json", NULL},
        {"toy-batch.json", NULL},
        {"unsafe-cycle-00.json", "deadlock"},
        {"unsafe-drop_wait-00.json", "race|undefined read"},
        {"unsafe-gap-00.json", "undefined read"},
        {"unsafe-init-00.json", "counter init"},
        {"unsafe-kvpos-00.json", "bounds"},
        {"unsafe-oob-00.json", "bounds"},
        {"unsafe-partial-00.json", "partial join"},
        {"unsafe-wweight-00.json", "read-only"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        tw_report r;
        tw_diag d;
        tw_status st = check_file(files[i].name, &r, &d);
        if (st != (files[i].rules ? TW_ERR_REJECTED : TW_OK))
            fail_msg("%s: %d %s", files[i].name, st, r.count ? r.findings[0].text : d.message);
        if (files[i].rules && !named(&r, files[i].rules))
            fail_msg("%s: %s: %s", files[i].name, r.findings[0].rule, r.findings[0].text);
        tw_report_free(&r);
    }
}

/* ---- edits ---- */

/* The index that `key` names in a list: a number, or a label, name or note. */
static size_t find_index(const json_t *list, const char *key) {
    size_t i;
    json_t *v;
    if (strspn(key, "0123456789") == strlen(key)) return strtoul(key, NULL, 10);
    json_array_foreach(list, i, v) {
        static const char *const fields[] = {"label", "name", "note"};
        for (size_t f = 0; f < 3; f++) {
            const char *text = json_string_value(json_object_get(v, fields[f]));
            if (text && !strcmp(text, key)) return i;
        }
    }
    fail_msg("no %s", key);
    return 0;
}

/* JSON, with @name for the id of a buffer and #note for that of a counter. */
static json_t *value_of(const json_t *root, const char *text) {
    char out[512];
    size_t n = 0;
    for (; *text; text++) {
        if (*text != '@' && *text != '#') {
            out[n++] = *text;
            continue;
        }
        char name[64];
        size_t len = strcspn(text + 1, ",]} ");
        snprintf(name, sizeof name, "%.*s", (int)len, text + 1);
        n += (size_t)snprintf(out + n, sizeof out - n, "%zu",
                              find_index(json_object_get(root, *text == '@' ? "buffers" : "counters"), name));
        text += len;
    }
    out[n] = 0;
    json_t *v = json_loads(out, JSON_DECODE_ANY, NULL);
    if (!v) fail_msg("not JSON: %s", out);
    return v;
}

/* Sets what `path` leads to, steps parted by /; an empty value deletes it. */
static void edit(json_t *root, const char *path, const char *value) {
    char steps[128], *step = steps, *next;
    json_t *at = root;
    snprintf(steps, sizeof steps, "%s", path);
    for (; (next = strchr(step, '/')); step = next + 1) {
        *next = 0;
        at = json_is_array(at) ? json_array_get(at, find_index(at, step)) : json_object_get(at, step);
        if (!at) fail_msg("%s: no %s", path, step);
    }
    char key[128];
    snprintf(key, sizeof key, "%s", step);
    if (*step == '@') snprintf(key, sizeof key, "%zu", find_index(json_object_get(root, "buffers"), step + 1));
    json_t *v = *value ? value_of(root, value) : NULL;
    if (!v)
        assert_int_equal(json_object_del(at, key), 0);
    else if (json_is_array(at))
        assert_int_equal(json_array_set_new(at, find_index(at, key), v), 0);
    else
        assert_int_equal(json_object_set_new(at, key, v), 0);
}

typedef struct fault {
    const char *file, *rules; /* NULL: none, the schedule stays safe */
    const char *edits[6];     /* path, value, path, value */
} fault;

static tw_status check_edited(const fault *f, tw_report *report, tw_diag *diag) {
    char path[512];
    json_t *root;
    snprintf(path, sizeof path, CASES "%s.json", f->file);
    assert_int_equal(tw_json_load(&root, path, diag), TW_OK);
    for (int i = 0; i < 6 && f->edits[i]; i += 2) edit(root, f->edits[i], f->edits[i + 1]);
    char *text = json_dumps(root, 0);
    assert_non_null(text);
    tw_status st = check_text(text, TW_SCHEDULE_AMK, report, diag);
    free(text);
    json_decref(root);
    return st;
}

static const char S[] = "toy-split", B[] = "toy-batch";

static const fault faults[] = {
    /* what stays safe */
    {S, NULL, {"tasks/norm/params/unheard_of", "[1]"}},
    {S, NULL, {"buffers/q.heads/space", "\"SMEM\""}},
    {S,
     NULL,
     {"tasks/residual/inputs", "[@h0,@o]", "tasks/residual/outputs", "[@o]", "tasks/norm.final/inputs/0", "@o"}},
    {S, NULL, {"meta/kv_len", ""}},
    {S, NULL, {"pages", "null"}},
    {B, NULL, {"target", "null"}},
    {B, NULL, {"tasks/attention/params/flags", "1"}},
    /* references */
    {S, "reference", {"tasks/norm/inputs/0", "99"}},
    {S, "reference", {"tasks/norm/outputs/0", "-1"}},
    {S, "reference", {"tasks/norm/out_counter", "-4"}},
    {S, "reference", {"tasks/norm/waits/0/counter", "99"}},
    {S, "reference", {"buffers/q/id", "3"}},
    {S, "reference", {"tasks/q[t0]/id", "77"}},
    {S, "reference", {"tasks/k.append/inputs/1", "@vcache"}},
    /* an instruction's form */
    {S, "arity", {"tasks/residual/inputs", "[@h0]"}},
    {S, "arity", {"tasks/q[t0]/inputs", "[@an,@wq]"}},
    {S, "arity", {"tasks/norm/outputs", "[]"}},
    {S, "capacity", {"tasks/norm/inputs", "[1,1,1,1,1,1,1,1,1]"}},
    {S, "capacity", {"tasks/norm/outputs", "[@an,@an,@an,@an,@an]"}},
    {S, "capacity", {"buffers/h0/shape", "[1,1,1,1,32]"}},
    {S, "parameter", {"tasks/q[t0]/params/K", ""}},
    {S, "parameter", {"tasks/q[t0]/params/K", "32.0"}},
    {S, "parameter", {"tasks/q[t0]/params/n_off", "4294967296"}},
    {S, "parameter", {"tasks/norm/params/eps", "\"small\""}},
    {S, "parameter", {"tasks/q[t0]/params/N_tile", "0"}},
    {S, "parameter", {"tasks/q[t0]/params/group", "0"}},
    {S, "parameter", {"tasks/v[t0]/params/qdtype", "3"}},
    {S, "parameter", {"tasks/attention.s0/params/flags", "6"}},
    {S, "unknown op", {"tasks/q.rope/op", "\"FUSED\""}},
    {S, "unknown op", {"tasks/q.rope/op", "\"WARP\""}},
    /* shapes */
    {S, "shape", {"tasks/v[t0]/params/K", "16"}},
    {S, "shape", {"buffers/wv/shape", "[16,16]"}},
    {S, "shape", {"buffers/wq.scales/shape", "[32,3]"}},
    {S, "shape", {"buffers/wk/dtype", "\"F32\""}},
    {S, "shape", {"tasks/norm/params/hidden", "31"}},
    {S, "shape", {"buffers/q.rope/shape", "[4,9]"}},
    {S, "shape", {"buffers/h0/shape", "[1,-32]"}},
    {S, "shape", {"buffers/h0/shape", "[4611686018427387904,4]"}},
    {S,
     "shape",
     {"tasks/attention.s0/params/n_heads", "2147483647", "tasks/attention.s0/params/head_dim", "2147483647"}},
    {S, "shape", {"tasks/attention.s0/params/n_kv_heads", "0"}},
    {S, "shape", {"tasks/attention.s0/params/flags", "0"}},
    {S, "shape", {"buffers/kcache/shape", "[64,16]"}},
    {S, "shape", {"buffers/token_id/dtype", "\"F32\""}},
    {B, "shape", {"buffers/pos/shape", "[1]"}},
    {B, "shape", {"buffers/kcache/shape", "[3,64,2,8]"}},
    /* bounds */
    {S, "bounds", {"tasks/q[t0]/params/n_off", "1048576"}},
    {S, "bounds", {"tasks/q[t0]/params/n_off", "-16"}},
    {S, "bounds", {"tasks/q[t0]/params/N_tile", "33"}},
    {S, "bounds", {"buffers/wv/shape", "[8,32]"}},
    {B, "bounds", {"tasks/v[t0]/params/m_off", "1"}},
    {B, "bounds", {"tasks/v[t0]/params/M_tile", "3"}},
    {S, "bounds", {"tasks/k.append/params/pos", "999"}},
    {S, "bounds", {"tasks/k.append/params/pos", "-3"}},
    {S, "bounds", {"tasks/attention.s0/params/kv_start", "-1"}},
    {S, "bounds", {"tasks/attention.s0/params/kv_len", "1000000"}},
    {S, "bounds", {"tasks/attention.s0/params/kv_len", "-1"}},
    /* kinds */
    {S, "read-only", {"tasks/residual/outputs/0", "@norm"}},
    {S, "read-only", {"tasks/residual/outputs/0", "@token_id"}},
    {S, "read-only", {"tasks/k.append/params/pos", "31"}},
    {B, "read-only", {"tasks/k.append/params/pos", "0"}},
    {S, "kind", {"tasks/residual/outputs/0", "@kcache"}},
    {S, "kind", {"tasks/residual/inputs/0", "@kcache"}},
    {S, "kind", {"buffers/kcache/kind", "\"ACTIVATION\""}},
    /* windows of attention */
    {S, "coverage", {"tasks/attention.s0/params/kv_len", "16"}},
    {S, "coverage", {"tasks/attention.s1/params/kv_start", "16"}},
    {S, "coverage", {"tasks/attention.s1/params/kv_len", "15"}},
    {S, "coverage", {"tasks/attention.merge/inputs", "[@part0,@part0]"}},
    {S, "coverage", {"tasks/attention.s1/inputs/1", "@vcache"}},
    {S, "coverage", {"meta/kv_len", "40"}},
    {S,
     "coverage",
     {"tasks/attention.merge/params", "{\"head_dim\":3}", "buffers/attn/shape", "[1,24]", "buffers/wo/shape",
      "[32,24]"}},
    {B, "coverage", {"tasks/attention/params/kv_len", "5"}},
    {B, "coverage", {"tasks/attention/params/kv_start", "1", "tasks/attention/params/kv_len", "5"}},
    {S, "structure", {"meta/pos", ""}},
    {S, "structure", {"meta/kv_len", "32"}},
    {S, "structure", {"meta/pos", "-1"}},
    /* what is read but not written, or in no order */
    {S, "undefined read", {"tasks/k.append/params/pos", "33"}},
    {B, "undefined read", {"tasks/k.append/params/pos", "63"}},
    {B, "undefined read", {"tasks/v[t0]/params/M_tile", "1"}},
    {S, "undefined read|coverage|race", {"tasks/q[t1]/params/n_off", "0"}},
    {S, "undefined read|coverage|race", {"tasks/q[t1]/params/n_off", "15"}},
    {S, "undefined read|race", {"tasks/residual/waits", "[]"}},
    {S, "undefined read|race", {"tasks/attention.s1/waits/1/counter", "#norm"}},
    {B, "undefined read|race", {"tasks/q[t0]/waits", "[]"}},
    {S, "coverage", {"tasks/head[t2]/params/N_tile", "15", "tasks/argmax/inputs/0", "@h1"}},
    {S, "partial join", {"tasks/q.reshape/waits/0/threshold", "1"}},
    {S, "partial join", {"tasks/q.reshape/waits/0/threshold", "0"}},
    {S, "deadlock", {"tasks/q.reshape/waits/0/threshold", "3"}},
    {S, "deadlock", {"tasks/norm/waits/0/counter", "#residual"}},
    {S, "deadlock", {"tasks/norm/waits/0/counter", "#norm"}},
    {B, "deadlock", {"tasks/norm/waits/0/counter", "#residual"}},
    {S, "counter init", {"counters/q/init", "1"}},
    {S, "counter init", {"counters/q/init", "-1"}},
    /* where things are */
    {S, "placement", {"tasks/norm/sm", "4"}},
    {S, "placement", {"tasks/norm/sm", "-1"}},
    {S, "placement", {"target", "null"}},
    {S, "placement", {"buffers/q.rope/space", "\"SMEM\""}},
    {B, "placement", {"buffers/q.heads/space", "\"REGISTER\""}},
    {S, "placement", {"pages/pages/0/space", "\"SMEM\""}},
    {S, "capacity", {"buffers/q.heads/space", "\"SMEM\"", "target/smem_bytes_per_block_optin", "127"}},
    {S, "page", {"pages/buffer_to_page/@h1", "9"}},
    {S, "page", {"pages/buffer_to_page/999", "0"}},
    {S, "page", {"pages/pages/0/nbytes", "64"}},
    {S, "page", {"pages/pages/0/nbytes", "-64"}},
    {S, "reference", {"pages/pages/0/id", "1"}},
    {S, "page", {"pages/buffer_to_page/@logits", "1", "pages/pages/1/nbytes", "4096"}},
    {S, "page reuse", {"pages/buffer_to_page/@h0", "0"}},
    {S, "page reuse", {"pages/buffer_to_page/@q.heads", "2"}},
    {S, "page reuse", {"pages/buffer_to_page/@v", "0"}},
    {S,
     "race",
     {"pages/buffer_to_page/@part0", "1", "pages/buffer_to_page/@part1", "1", "pages/pages/1/nbytes", "4096"}},
    {S, "in place", {"tasks/o[t0]/outputs/0", "@attn"}},
};

/* The first few that the check says; files of one fault seldom have more that matter. */
static void note_findings(tw_buf *golden, const fault *f, const tw_report *r) {
    enum { FEW = 3 };
    tw_buf_printf(golden, "%s", f->file);
    for (int i = 0; i < 6 && f->edits[i]; i += 2) tw_buf_printf(golden, " %s=%s", f->edits[i], f->edits[i + 1]);
    tw_buf_str(golden, "\n");
    for (size_t i = 0; i < r->count && i < FEW; i++)
        tw_buf_printf(golden, "    %s: %s: %s\n", r->findings[i].where, r->findings[i].rule, r->findings[i].text);
    if (r->count > FEW) tw_buf_printf(golden, "    and %zu more\n", r->count - FEW);
}

/* Under its rule, in the words that tests/data/schedules/amk/findings.txt has. */
static void one_fault_is_named(void **state) {
    (void)state;
    tw_buf golden = {0};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const fault *f = &faults[i];
        tw_report r;
        tw_diag d;
        tw_status st = check_edited(f, &r, &d);
        if (st != (f->rules ? TW_ERR_REJECTED : TW_OK))
            fail_msg("%s %s=%s: %d %s", f->file, f->edits[0], f->edits[1], st,
                     r.count ? r.findings[0].text : d.message);
        if (f->rules && !named(&r, f->rules))
            fail_msg("%s %s=%s: %s: %s", f->file, f->edits[0], f->edits[1], r.findings[0].rule, r.findings[0].text);
        note_findings(&golden, f, &r);
        tw_report_free(&r);
    }
    test_golden("data/schedules/amk/findings.txt", golden.data, golden.size);
    tw_buf_free(&golden);
}

static void files_that_are_none(void **state) {
    (void)state;
    static const struct {
        const char *path, *value, *message;
    } bad[] = {
        {"ir_version", "\"0.3.0\"", "schedule: ir_version is not 0.2, the only one that is known"},
        {"abi_version", "2", "schedule: abi_version is not 0.2, the only one that is known"},
        {"buffers", "{}", "buffers: the list is missing"},
        {"buffers/q/kind", "\"STATE\"", "buffers[7]: kind is not a kind of buffer"},
        {"buffers/q/dtype", "0", "buffers[7]: dtype is not an element type"},
        {"buffers/q/shape", "[1,32.0]", "buffers[7]: shape is not a list of integers"},
        {"counters/q/init", "\"0\"", "counters[2]: init is not an integer"},
        {"counters/q/id", "\"2\"", "counters[2]: id is not an integer"},
        {"tasks/norm/op", "3", "tasks[1]: op is not a text"},
        {"tasks/norm/sm", "0.5", "tasks[1]: sm is not an integer"},
        {"tasks/norm/inputs", "[null]", "tasks[1]: inputs is not a list of ids"},
        {"tasks/norm/waits", "[1]", "tasks[1]: waits is not a list of counter and threshold"},
        {"tasks/norm/params", "[]", "tasks[1]: params is not an object"},
        {"meta/pos", "\"0\"", "meta: pos is not an integer"},
        {"target/num_sms", "null", "target: num_sms is not an integer"},
        {"pages/pages/0/space", "0", "pages.pages[0]: space is not a memory space"},
        {"pages/buffer_to_page/01", "0", "pages: buffer_to_page does not map ids of buffers to ids of pages"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tw_report r;
        tw_diag d;
        fault f = {S, NULL, {bad[i].path, bad[i].value}};
        assert_int_equal(check_edited(&f, &r, &d), TW_ERR_FORMAT);
        assert_string_equal(d.message, bad[i].message);
        tw_report_free(&r);
    }
}

/* ---- packed weights ---- */

/* One product of `k` columns with a weight of nibbles, `columns` bytes a row. */
static void check_packed(int k, int columns, const char *rule) {
    char text[2048];
    snprintf(
        text, sizeof text,
        "{\"target\":{\"num_sms\":1,\"smem_bytes_per_block_optin\":0},\"buffers\":["
        "{\"id\":0,\"name\":\"x\",\"kind\":\"IO_INPUT\",\"dtype\":\"F32\",\"shape\":[1,%d],\"space\":\"HBM\"},"
        "{\"id\":1,\"name\":\"w\",\"kind\":\"WEIGHT\",\"dtype\":\"U8\",\"shape\":[4,%d],\"space\":\"HBM\"},"
        "{\"id\":2,\"name\":\"s\",\"kind\":\"WEIGHT\",\"dtype\":\"F16\",\"shape\":[4,2],\"space\":\"HBM\"},"
        "{\"id\":3,\"name\":\"y\",\"kind\":\"IO_OUTPUT\",\"dtype\":\"F32\",\"shape\":[1,4],\"space\":\"HBM\"}],"
        "\"tasks\":[{\"id\":0,\"op\":\"GEMV_TILE\",\"inputs\":[0,1,2],\"outputs\":[3],\"out_counter\":0,\"waits\":[],"
        "\"params\":{\"K\":%d,\"N_tile\":4,\"n_off\":0,\"qdtype\":7,\"group\":16}}],\"counters\":[{\"id\":0}]}",
        k, columns, k);
    tw_report r;
    tw_diag d;
    tw_status st = check_text(text, TW_SCHEDULE_AUTO, &r, &d);
    if (st != (rule ? TW_ERR_REJECTED : TW_OK))
        fail_msg("%d columns in %d bytes: %d %s", k, columns, st, r.count ? r.findings[0].text : d.message);
    if (rule) assert_string_equal(r.findings[0].rule, rule);
    tw_report_free(&r);
}

static void two_nibbles_share_a_byte(void **state) {
    (void)state;
    check_packed(32, 16, NULL);
    check_packed(31, 16, NULL); /* the last byte is half empty */
    check_packed(32, 15, "shape");
    check_packed(31, 15, "shape");
    check_packed(32, 17, "shape");
    check_packed(31, 31, "shape");
}

/* ---- order ---- */

/* Tasks that touch nothing: [counter it arrives at, SM or -1, counters it waits for, each with all its arrivals]. */
static tw_status check_nops(const char *tasks, const char *rule) {
    char text[1 << 14], note[64];
    json_t *list = json_loads(tasks, 0, NULL), *out = json_array(), *v;
    size_t i, n_counters = 0;
    assert_non_null(list);
    json_array_foreach(list, i, v) {
        json_t *waits = json_array();
        json_int_t arrive = json_integer_value(json_array_get(v, 0)), sm = json_integer_value(json_array_get(v, 1));
        for (size_t w = 2; w < json_array_size(v); w++)
            json_array_append_new(waits, json_pack("{s:O, s:i}", "counter", json_array_get(v, w), "threshold", 1));
        json_array_append_new(out, json_pack("{s:i, s:s, s:[], s:[], s:I, s:o, s:o}", "id", (int)i, "op", "NOP",
                                             "inputs", "outputs", "out_counter", arrive, "waits", waits, "sm",
                                             sm < 0 ? json_null() : json_integer(sm)));
        if ((size_t)arrive >= n_counters) n_counters = (size_t)arrive + 1;
    }
    char *dumped = json_dumps(out, 0);
    size_t n = (size_t)snprintf(text, sizeof text,
                                "{\"target\":{\"num_sms\":8,\"smem_bytes_per_block_optin\":0},"
                                "\"buffers\":[],\"tasks\":%s,\"counters\":[",
                                dumped);
    for (i = 0; i < n_counters; i++) {
        snprintf(note, sizeof note, "%s{\"id\":%zu}", i ? "," : "", i);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s", note);
    }
    snprintf(text + n, sizeof text - n, "]}");
    tw_report r;
    tw_diag d;
    tw_status st = check_text(text, TW_SCHEDULE_AUTO, &r, &d);
    if (st != (rule ? TW_ERR_REJECTED : TW_OK)) fail_msg("%s: %d %s", tasks, st, d.message);
    if (rule) assert_string_equal(r.findings[0].rule, rule);
    tw_report_free(&r);
    free(dumped);
    json_decref(out);
    json_decref(list);
    return st;
}

static void queues_must_not_wait_for_each_other(void **state) {
    (void)state;
    check_nops("[]", NULL);
    check_nops("[[0,0],[1,1,0]]", NULL);
    /* Task 0 waits for task 3, which is behind task 2, which waits for task 1, which is behind task 0. No counters make
       a cycle; the queues do. */
    check_nops("[[0,0,3],[1,0],[2,1,1],[3,1]]", "deadlock");
    check_nops("[[0,-1,3],[1,-1],[2,-1,1],[3,-1]]", NULL);
    check_nops("[[0,0,3],[1,-1],[2,1,1],[3,1]]", NULL);
    /* The list need not be in an order that works when no queue is bound to it. */
    check_nops("[[0,-1,1],[1,-1,2],[2,-1]]", NULL);
    check_nops("[[0,-1,1],[1,-1,2],[2,-1,0]]", "deadlock");
    check_nops("[[0,2,1],[1,2]]", "deadlock");
    check_nops("[[0,-1,0]]", "deadlock");
    check_nops("[[1,-1,0]]", "deadlock");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lowerings_of_theirs),
        cmocka_unit_test(one_fault_is_named),
        cmocka_unit_test(files_that_are_none),
        cmocka_unit_test(two_nibbles_share_a_byte),
        cmocka_unit_test(queues_must_not_wait_for_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
