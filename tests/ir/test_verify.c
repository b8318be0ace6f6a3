/* SPDX-License-Identifier: Apache-2.0 */
/* Every rule of the verifier has a kernel that breaks it, and the finding names rule and place. */
#include "support/support.h"

#include "ir/builder.h"
#include "ir/random_kernel.h"
#include "ir/text.h"
#include "ir/verify.h"

#include <stdio.h>
#include <string.h>

#define OPEN                                                                                                           \
    " pointer p align 16\n pointer r align 16 read_only\n parameter n i32\n parameter x f32\n"                         \
    " shared tile 4096 align 16\n{\n %t:i32 = sreg(type=i32 sreg=tid_x)\n"                                             \
    " %s:i32 = shared_address(name=\"tile\")\n"

typedef struct rule {
    const char *body;
    const char *says; /* NULL: accepted */
} rule;

/* Verifies a body that stands behind OPEN, for a target and a number of threads. */
static void check(const rule *r, int target, int threads) {
    char text[4096];
    tw_kernel *k;
    tw_diag d;
    snprintf(text, sizeof text, "kernel k\n target %d\n threads %d\n%s%s\n}\n", target, threads, OPEN, r->body);
    if (tw_kernel_parse(&k, text, strlen(text), "t", &d) != TW_OK)
        fail_msg("%s\n%d:%d: %s", text, d.line, d.column, d.message);
    tw_status s = tw_kernel_verify(k, 0, &d);
    if (r->says ? s != TW_ERR_REJECTED || strcmp(d.message, r->says) : s != TW_OK)
        fail_msg("%s\nwas found: %s\nnot: %s", r->body, s ? d.message : "nothing", r->says ? r->says : "nothing");
    assert_int_equal(tw_kernel_verify(k, 0, NULL), s);
    tw_kernel_free(k);
}

#define CHECK_ALL(target, threads, ...)                                                                                \
    do {                                                                                                               \
        static const rule rules[] = {__VA_ARGS__};                                                                     \
        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) check(&rules[i], target, threads);                   \
    } while (0)

static void signatures(void **state) {
    (void)state;
    CHECK_ALL(80, 128, {"%a:i32 = add_i32 %t, %s", NULL},
              {"%a:i32 = add_i32 %t", "body/add_i32 2: has 1 operands, not 2"},
              {"%a:i32, %b:i32 = add_i32 %t, %t", "body/add_i32 2: has 2 results, not 1"},
              {"add_i32 %t, %t", "body/add_i32 2: has 0 results, not 1"},
              {"%a:f32 = add_i32 %t, %t", "body/add_i32 2: result 0 is f32, not i32"},
              {"%a:i32 = add_i32 %t, @x", "body/add_i32 2: operand 1 is f32, not i32"},
              {"%a:i32 = add_i32 _, 1:i32", "body/add_i32 2: operand 0 is no value"},
              {"%a:f32 = ld(type=f32)", "body/ld 2: has only 0 operands"},
              {"%a:f32 = ld(type=f32) @p, @p", "body/ld 2: has 2 operands, 1 too many"},
              {"%a:f32 = ld(type=f32 vec=2) @p", "body/ld 2: has only 1 results"},
              {"%a:f32, %b:f32 = ld(type=f32 vec=2) @p", NULL}, {"%a:i32 = ld(type=i8) @p", NULL},
              {"%a:f32 = ld(type=f32) %s", "body/ld 2: operand 0 is i32, not i64"},
              {"%a:f32 = ld(type=f32 space=shared) @p", "body/ld 2: operand 0 is i64, not i32"},
              {"%a:f32 = ld(type=f32 space=shared) %s", NULL},
              {"cp_async(bytes=16) %s, @r, 0:i32, 0:i32", "body/cp_async 2: has 4 operands, 1 too many"},
              {"bulk_prefetch @p, 16:i32", "body/bulk_prefetch 2: needs sm_90, the target is sm_80"},
              {"barrier %t", "body/barrier 2: has 1 operands, 1 too many"},
              {"%a:i32 = add_i32(vec=2) %t, %t", "body/add_i32 2: attribute vec means nothing here"},
              {"%a:i32 = add_i32(name=\"a\") %t, %t", "body/add_i32 2: a name means nothing here"},
              {"record_begin", "body/record_begin 2: a name is missing"});
}

static void attributes(void **state) {
    (void)state;
    CHECK_ALL(80, 128, {"%a:f32 = ld @p", "body/ld 2: attribute type is missing"},
              {"mma", "body/mma 2: attribute mma is missing"},
              {"%a:f32 = ld(type=f32 vec=3) @p", "body/ld 2: vec is 1, 2, 4 or 8"},
              {"%a:i32 = ldmatrix(vec=1 trans=2) %s", "body/ldmatrix 2: trans is 0 or 1"},
              {"%i:i32 = for(type=i32 unroll=2) 0:i32, 1:i32, 1:i32 {\n}", "body/for 2: unroll is 0 or 1"},
              {"cp_async_wait(count=-1)", "body/cp_async_wait 2: count is negative"},
              {"%a:pred = vote(mode=bfly) 1:pred, -1:i32", "body/vote 2: mode is any, all or ballot"},
              {"%a:i32 = vote(mode=any) 1:pred, -1:i32", "body/vote 2: has one result, of type pred"},
              {"%a:i32 = vote(mode=ballot) 1:pred, -1:i32", NULL},
              {"%a:i32 = shfl(mode=all type=i32) %t, 0:i32, -1:i32", "body/shfl 2: mode is idx, up, down or bfly"},
              {"%a:i32 = shfl(mode=idx type=i32) %t, 32:i32, -1:i32", "body/shfl 2: lane or delta is 0 to 31"},
              {"%a:i64 = shfl(mode=idx type=i64) @p, 0:i32, -1:i32",
               "body/shfl 2: registers of 32 bits are exchanged, not i64"});
    CHECK_ALL(
        90, 128, {"bulk_wait(read=2)", "body/bulk_wait 2: read is 0 or 1"},
        {"fence_proxy", "body/fence_proxy 2: needs a proxy other than the generic one"},
        {"fence_proxy(proxy=async_shared)", NULL}, {"fence_proxy(proxy=alias)", NULL},
        {"fence_proxy(proxy=async_all order=release)",
         "body/fence_proxy 2: order, scope, bytes and an address are for tensor maps"},
        {"fence_proxy(proxy=alias) @p", "body/fence_proxy 2: order, scope, bytes and an address are for tensor maps"},
        {"fence_proxy(proxy=tensormap order=acquire scope=gpu bytes=128) @p", NULL},
        {"fence_proxy(proxy=tensormap order=release scope=gpu)", NULL},
        {"fence_proxy(proxy=tensormap order=release scope=gpu bytes=128)",
         "body/fence_proxy 2: acquires 128 bytes at an address, or releases none"},
        {"fence_proxy(proxy=tensormap order=acquire bytes=64) @p",
         "body/fence_proxy 2: acquires 128 bytes at an address, or releases none"},
        {"fence_proxy(proxy=tensormap order=acquire bytes=128)",
         "body/fence_proxy 2: acquires 128 bytes at an address, or releases none"},
        {"fence_proxy(proxy=tensormap)", "body/fence_proxy 2: order=weak is not one of its"},
        {"prefetch(level=L1) @p", NULL}, {"prefetch(cache=evict_last) @p", NULL},
        {"prefetch(cache=evict_last level=L1) @p", "body/prefetch 2: cache is default, or evict_last in L2"},
        {"prefetch(cache=evict_first) @p", "body/prefetch 2: cache is default, or evict_last in L2"});
}

static void guards(void **state) {
    (void)state;
    CHECK_ALL(80, 128, {"%a:f32 = ld(type=f32) @p when %t", "body/ld 2: the guard is no predicate"},
              {"%a:pred = lt_s32 %t, @n\n %b:f32 = ld(type=f32) @p unless %a", NULL});
}

static void scopes(void **state) {
    (void)state;
    CHECK_ALL(80, 128,
              {"if 1:pred {\n %a:i32 = add_i32 %t, %t\n }\n %b:i32 = add_i32 %a, %t",
               "body/add_i32 3: operand 0 (a) is used outside of the block that defines it"},
              {"if 1:pred {\n %1.v:i32 = add_i32 %t, %t\n } else {\n %b:i32 = add_i32 %1, %t\n }",
               "body/if 2 else/add_i32 0: operand 0 (v) is used outside of the block that defines it"},
              {"%i:i32 = for(type=i32) 0:i32, @n, 1:i32 {\n %b:i32 = add_i32 %i, %t\n }", NULL},
              {"%i:i32 = for(type=i32) 0:i32, @n, 1:i32 {\n }\n %b:i32 = add_i32 %i, %t",
               "body/add_i32 3: operand 0 (i) is used outside of the block that defines it"},
              {"while {\n %q:pred = lt_s32 %t, @n\n } do %q {\n %b:pred = not_pred %q\n }",
               "body/while 2 body/not_pred 0: operand 0 (q) is used outside of the block that defines it"},
              {"if 1:pred {\n $v:i32 = set(type=i32) 0:i32\n }\n $v = set(type=i32) 1:i32",
               "body/set 3: result 0 (v) is a variable assigned outside of the block that declares it"},
              {"$v:i32 = add_i32 %t, %t", "body/add_i32 2: result 0 (v) is a variable that is not declared yet"},
              {"$v:i32 = undef(type=i32)\n $v = undef(type=i32)",
               "body/undef 3: result 0 (v) is a variable that is declared twice"},
              {"%v:i32 = set(type=i32) %t", "body/set 2: the result is no variable"},
              {"$i:i32 = for(type=i32) 0:i32, @n, 1:i32 {\n }",
               "body/for 2: the result is a register of its own, no variable"});
}

static void assignment(void **state) {
    (void)state;
#define LATE "operand 0 (v) is a variable that may not be assigned yet"
#define USE  "\n %b:i32 = add_i32 $v, %t"
    CHECK_ALL(
        80, 128, {"$v:i32 = undef(type=i32)" USE, "body/add_i32 3: " LATE},
        {"$v:i32 = undef(type=i32)\n $v = add_i32 %t, %t" USE, NULL},
        {"$v:i32 = undef(type=i32)\n if 1:pred {\n $v = add_i32 %t, %t\n }" USE, "body/add_i32 4: " LATE},
        {"$v:i32 = undef(type=i32)\n if 1:pred {\n $v = add_i32 %t, %t\n } else {\n $v = add_i32 %t, %s\n }" USE, NULL},
        {"$v:i32 = undef(type=i32)\n if 1:pred {\n $v = add_i32 %t, %t\n } else {\n exit\n }" USE, NULL},
        {"$v:i32 = undef(type=i32)\n if 1:pred {\n exit\n } else {\n $v = add_i32 %t, %t\n }" USE, NULL},
        {"$v:i32 = undef(type=i32)\n if 1:pred {\n $v = add_i32 %t, %t\n } else {\n exit when 1:pred\n }" USE,
         "body/add_i32 4: " LATE},
        /* the else's own join must not forget what the then assigned */
        {"$v:i32 = undef(type=i32)\n if 1:pred {\n $v = add_i32 %t, %t\n } else {\n if 1:pred {\n $v = add_i32 %t, "
         "%t\n }"
         " else {\n $v = add_i32 %t, %t\n }\n }" USE,
         NULL},
        {"$v:i32 = undef(type=i32)\n %i:i32 = for(type=i32) 0:i32, @n, 1:i32 {\n $v = add_i32 %t, %i\n }" USE,
         "body/add_i32 4: " LATE},
        {"$v:i32 = undef(type=i32)\n while {\n $v = add_i32 %t, %t\n } do 0:pred {\n }" USE, NULL},
        {"$v:i32 = undef(type=i32)\n while {\n } do 0:pred {\n $v = add_i32 %t, %t\n }" USE, "body/add_i32 4: " LATE},
        {"$v:i32 = undef(type=i32)\n roles 0:i32, 4:i32 {\n $v = add_i32 %t, %t\n }" USE, "body/add_i32 4: " LATE},
        {"$v:f32 = undef(type=f32)\n $v = ld(type=f32) @p when 0:pred\n %b:f32 = neg_f32 $v", NULL},
        {"$v:i32 = undef(type=i32)\n exit" USE, NULL},
        {"$v:pred = undef(type=pred)\n exit when $v",
         "body/exit 3: the guard (v) is a variable that may not be assigned yet"},
        {"$v:pred = undef(type=pred)\n while {\n } do $v {\n }",
         "body/while 3: operand 0 (v) is a variable that may not be assigned yet"});
}

static void values(void **state) {
    (void)state;
    CHECK_ALL(80, 128, {"$v:i32 = undef(type=i8)", "body/undef 2: no register is i8"},
              {"%a:i32 = bitcast(type=i32) @x", NULL},
              {"%a:i32 = bitcast(type=i32) @p", "body/bitcast 2: i64 and i32 differ in width"},
              {"%a:i32 = bitcast(type=i32) @x, @x", "body/bitcast 2: has 2 operands, not 1"},
              {"%a:i64 = sreg(sreg=tid_x type=i64)", "body/sreg 2: tid_x is i32"},
              {"%a:i32 = sreg(sreg=clock64 type=i32)", "body/sreg 2: clock64 is i64"},
              {"%a:i32 = sreg(sreg=cluster_rank type=i32)",
               "body/sreg 2: the rank in a cluster needs sm_90, the target is sm_80"},
              {"cluster_sync", "body/cluster_sync 2: needs sm_90, the target is sm_80"},
              {"%a:i32 = shared_address(name=\"tiles\")", "body/shared_address 2: there is no shared object tiles"});
}

static void memory(void **state) {
    (void)state;
    CHECK_ALL(
        80, 128, {"%a:pred = ld(type=pred) @p", "body/ld 2: a predicate is not kept in memory"},
        {"%a:f64, %b:f64, %c:f64, %d:f64 = ld(type=f64 vec=4) @p",
         "body/ld 2: an access of 32 bytes needs sm_100, the target is sm_80"},
        {"st(type=f32 space=shared vec=8) %s, @x, @x, @x, @x, @x, @x, @x, @x",
         "body/st 2: 32 bytes at once: 16 at most"},
        {"st(type=f32 space=shared cache=cs) %s, @x", "body/st 2: cache policies are for global memory"},
        {"%a:f32 = ld(type=f32 cache=cg order=acquire) @p", "body/ld 2: cache=cg is for weak accesses"},
        {"st(type=f32 space=local order=relaxed) @p, @x", "body/st 2: local memory is nobody else's: no order"},
        {"st(type=f32 scope=gpu) @p, @x", "body/st 2: a scope means nothing to a weak access"},
        {"%a:f32 = ld(type=f32 order=release) @p", "body/ld 2: order=release is not one of its"},
        {"st(type=f32 order=acquire) @p, @x", "body/st 2: order=acquire is not one of its"},
        {"st(type=f32 cache=nc) @p, @x", "body/st 2: cache=nc is for what nobody writes"},
        {"%a:f32 = ld(type=f32 order=acquire scope=cluster) @p",
         "body/ld 2: the scope of a cluster needs sm_90, the target is sm_80"},
        {"%a:f32 = ld(type=f32 space=cluster) %s",
         "body/ld 2: the space of a cluster needs sm_90, the target is sm_80"},
        {"%a:f32 = atom(type=f32 rmw=xor) @p, @x", "body/atom 2: there is no rmw=xor of f32"},
        {"%a:i64 = atom(type=i64 rmw=inc) @p, 0:i64", "body/atom 2: there is no rmw=inc of i64"},
        {"%a:i32 = atom(type=i32 rmw=cas) @p, %t", "body/atom 2: cas has two values, everything else one"},
        {"%a:i32 = atom(type=i32 rmw=add) @p, %t, %t", "body/atom 2: cas has two values, everything else one"},
        {"%a:i32 = atom(type=i32 rmw=add order=sc) @p, %t", "body/atom 2: order=sc is not one of its"},
        {"%a:i32 = atom(type=i32 rmw=add space=local) @p, %t",
         "body/atom 2: local memory is nobody else's: no atomics"},
        {"red(type=bf16x2 rmw=add) @p, 0x0:bf16x2",
         "body/red 2: an atomic bf16 addition needs sm_90, the target is sm_80"},
        {"red(type=i32 rmw=exch) @p, %t", "body/red 2: cas and exch give something back: atom"},
        {"red(type=i32 rmw=add order=acquire) @p, %t", "body/red 2: order=acquire is not one of its"},
        {"red(type=f32 vec=2 rmw=add) @p, @x, @x",
         "body/red 2: a reduction of vectors needs sm_90, the target is sm_80"},
        {"fence(scope=gpu)", "body/fence 2: order=weak is not one of its"}, {"fence(order=sc scope=gpu)", NULL},
        {"fence(order=sc scope=cluster)", "body/fence 2: the scope of a cluster needs sm_90, the target is sm_80"});
    CHECK_ALL(90, 128,
              {"red(type=i32 vec=2 rmw=add) @p, %t, %t",
               "body/red 2: vectors are reduced by additions of floating-point "
               "numbers other than f64 in global memory alone, 16 bytes at most"},
              {"red(type=f32 vec=4 rmw=add scope=gpu) @p, @x, @x, @x, @x", NULL},
              {"red(type=bf16x2 vec=2 rmw=add scope=sys) @p, 0x0:bf16x2, 0x0:bf16x2", NULL},
              {"red(type=f64 vec=2 rmw=add) @p, 0x0:f64, 0x0:f64",
               "body/red 2: vectors are reduced by additions of floating-point numbers other than f64 in global memory "
               "alone, 16 bytes at most"});
    CHECK_ALL(100, 128, {"%a:f64, %b:f64, %c:f64, %d:f64 = ld(type=f64 vec=4) @p", NULL});
}

static void copies(void **state) {
    (void)state;
    CHECK_ALL(
        80, 128, {"cp_async(bytes=16 cache=cg) %s, @r", NULL},
        {"cp_async(bytes=12) %s, @r", "body/cp_async 2: bytes is 4, 8 or 16, not 12"},
        {"cp_async(bytes=8 cache=cg) %s, @r", "body/cp_async 2: cache=cg is for 16 bytes"},
        {"cp_async(bytes=8 cache=cs) %s, @r", "body/cp_async 2: cache is default, cg or an eviction policy, not cs"},
        {"cp_async(bytes=8) %s, @r, 9:i32", "body/cp_async 2: 9 source bytes, 8 are copied"},
        {"%a:i64 = policy(cache=cg)", "body/policy 2: an L2 policy is default, evict_first or evict_last"});
    CHECK_ALL(
        90, 128, {"bulk_load %s, @r, 24:i32, %s", "body/bulk_load 2: bytes are a multiple of 16"},
        {"bulk_store @p, %s, 0:i32", "body/bulk_store 2: bytes are a multiple of 16"},
        {"bulk_reduce(type=i32 rmw=add) @p, %s, 8:i32", "body/bulk_reduce 2: bytes are a multiple of 16"},
        {"bulk_reduce(type=i32 rmw=exch) @p, %s, 16:i32", "body/bulk_reduce 2: there is no bulk rmw=exch of i32"},
        {"bulk_reduce(type=f16x2 rmw=add) @p, %s, 16:i32", "body/bulk_reduce 2: there is no bulk rmw=add of f16x2"},
        {"bulk_reduce(type=i64 rmw=min_s32) @p, %s, 16:i32", "body/bulk_reduce 2: there is no bulk rmw=min_s32 of i64"},
        {"bulk_reduce(type=bf16 rmw=add) @p, %s, 16:i32", NULL},
        {"bulk_prefetch @p, 8:i32", "body/bulk_prefetch 2: bytes are a multiple of 16"});
}

static void barriers(void **state) {
    (void)state;
    CHECK_ALL(80, 128, {"barrier_sync(count=64) 16:i32", "body/barrier_sync 2: barriers are 0 to 15, not 16"},
              {"barrier_sync(count=48) 1:i32",
               "body/barrier_sync 2: count is a multiple of 32 up to the block's threads, not 48"},
              {"barrier_sync(count=64 apart=2) 1:i32", "body/barrier_sync 2: apart is 0 or 1"},
              {"barrier_sync(count=64 apart=1) 1:i32", NULL},
              {"barrier_arrive(count=160) 1:i32",
               "body/barrier_arrive 2: count is a multiple of 32 up to the block's threads, not 160"},
              {"mbarrier_init %s, 0:i32", "body/mbarrier_init 2: an mbarrier counts 1 to 1048575"},
              {"mbarrier_arrive(count=2) %s",
               "body/mbarrier_arrive 2: an arrival for several needs sm_90, the target is sm_80"},
              {"mbarrier_expect %s, 16:i32", "body/mbarrier_expect 2: needs sm_90, the target is sm_80"});
    CHECK_ALL(90, 128,
              {"mbarrier_arrive(count=1048576) %s", "body/mbarrier_arrive 2: an mbarrier counts 1 to 1048575"});
}

static void warps(void **state) {
    (void)state;
#define EIGHT "%a:i32, %b:i32, %c:i32, %d:i32, %e:i32, %f:i32, %g:i32, %h:i32"
    CHECK_ALL(80, 128, {EIGHT " = ldmatrix(vec=8) %s", "body/ldmatrix 2: 1, 2 or 4 matrices, not 8"},
              {"stmatrix(vec=1) %s, %t", "body/stmatrix 2: needs sm_90, the target is sm_80"},
              {"%a:f64, %b:f64 = mma(mma=m8n8k4_f64) 0x0:f64, 0x0:f64, 0x0:f64, 0x0:f64", NULL},
              {"%a:f64, %b:f64 = mma(mma=m8n8k4_f64) 0x0:f64, 0x0:f64, 0x0:f64", "body/mma 2: has only 3 operands"},
              {"%a:f64, %b:f64, %c:f64, %d:f64 = mma(mma=m16n8k4_f64) 0x0:f64, 0x0:f64, 0x0:f64, 0x0:f64, 0x0:f64, "
               "0x0:f64, 0x0:f64",
               "body/mma 2: m16n8k4_f64 needs sm_90, the target is sm_80"});
    CHECK_ALL(80, 48, {"%a:i32 = ldmatrix %s", "kernel: 48 threads a block, but there are operations of whole warps"},
              {"%a:i32 = shfl(mode=idx type=i32) %t, 0:i32, -1:i32", NULL});
}

#define ACC                                                                                                            \
    "$a:f32 = set(type=f32) 0x0:f32\n $b:f32 = set(type=f32) 0x0:f32\n"                                                \
    "$c:f32 = set(type=f32) 0x0:f32\n $d:f32 = set(type=f32) 0x0:f32\n"
#define MULT "wgmma(wgmma=f16 columns=8) 0:i64, 0:i64, 1:pred, "

#define PARTS                                                                                                          \
    "$w:i32 = set(type=i32) %t\n $x:i32 = set(type=i32) %t\n $y:i32 = set(type=i32) %t\n"                              \
    "$z:i32 = set(type=i32) %t\n $u:i32 = set(type=i32) %t\n $v:i32 = set(type=i32) %t\n"
#define MULT_RS "wgmma_rs(wgmma=tf32 columns=8) "

static void registers_of_warpgroups(void **state) {
    (void)state;
    static const struct {
        int threads, max_registers, count;
        const char *says;
    } cases[] = {
        {128, 128, 24, NULL},
        {256, 80, 256, NULL},
        {128, 128, 16, "body/setmaxnreg_dec 0: count is a multiple of 8 from 24 to 256, not 16"},
        {128, 128, 264, "body/setmaxnreg_dec 0: count is a multiple of 8 from 24 to 256, not 264"},
        {128, 128, 44, "body/setmaxnreg_dec 0: count is a multiple of 8 from 24 to 256, not 44"},
        {128, 0, 40, "body/setmaxnreg_dec 0: needs a kernel that says max_registers"},
        {160, 128, 40, "body/setmaxnreg_dec 0: needs whole warpgroups, a block has 160 threads"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_kernel *k = tw_kernel_new("k", 90, cases[i].threads);
        tw_builder b = tw_builder_of(k);
        tw_diag d;
        k->max_registers = cases[i].max_registers;
        tw_do(&b, TW_OP_setmaxnreg_dec, (tw_attrs){.count = cases[i].count}, TW_NONE, TW_NONE);
        tw_status s = tw_kernel_verify(k, 0, &d);
        assert_string_equal(s == TW_OK ? "" : d.message, cases[i].says ? cases[i].says : "");
        tw_kernel_free(k);
    }
}

/* Columns that products of integers have. */
static void columns_of_integers(void **state) {
    (void)state;
    for (int columns = 8; columns <= 256; columns += 8) {
        tw_kernel *k = tw_kernel_new("k", 90, 128);
        tw_builder b = tw_builder_of(k);
        tw_val acc[128], zero = tw_i64(&b, 0);
        for (int i = 0; i < columns / 2; i++) acc[i] = tw_var_of(&b, tw_i32(&b, 0));
        tw_wgmma(&b, (tw_attrs){.wgmma = TW_WGMMA_s8, .columns = columns}, acc, zero, zero, tw_const(&b, TW_T_pred, 0));
        tw_diag d;
        const bool has = columns == 8 || columns == 24 || columns % 16 == 0;
        assert_int_equal(tw_kernel_verify(k, 0, &d), has ? TW_OK : TW_ERR_REJECTED);
        if (!has) assert_non_null(strstr(d.message, "columns of integers are 8, 24 or a multiple of 16, not "));
        tw_kernel_free(k);
    }
}

static void warpgroups(void **state) {
    (void)state;
    CHECK_ALL(
        90, 128, {ACC "$a, $b, $c, $d = " MULT "$a, $b, $c, $d", NULL},
        {ACC "$a, $b, $c, $d = " MULT "$a, $b, $d, $c",
         "body/wgmma 6: result 2 is not the variable that it is added to"},
        {ACC "$a, $b, $c, %e:f32 = " MULT "$a, $b, $c, $d",
         "body/wgmma 6: result 3 is not the variable that it is added to"},
        {ACC "$a, $b, $a, $d = " MULT "$a, $b, $a, $d", "body/wgmma 6: results 0 and 2 are the same variable"},
        {ACC "$a, $b, $c = " MULT "$a, $b, $c", "body/wgmma 6: has only 3 results\nbody/wgmma 6: has only 6 operands"},
        {"wgmma(wgmma=f16 columns=12) 0:i64, 0:i64, 1:pred",
         "body/wgmma 2: columns is a multiple of 8 up to 256, not 12"},
        {"wgmma(wgmma=f16 columns=264) 0:i64, 0:i64, 1:pred",
         "body/wgmma 2: columns is a multiple of 8 up to 256, not 264"},
        {"wgmma(columns=8) 0:i64, 0:i64, 1:pred", "body/wgmma 2: attribute wgmma is missing"},
        {ACC "$a, $b, $c, $d = wgmma(wgmma=f16 columns=8 trans_a=2) 0:i64, 0:i64, 1:pred, $a, $b, $c, $d",
         "body/wgmma 6: trans_a and trans_b are 0 or 1"},
        {ACC "$a, $b, $c, $d = wgmma(wgmma=tf32 columns=8 trans_b=1) 0:i64, 0:i64, 1:pred, $a, $b, $c, $d",
         "body/wgmma 6: only types of 16 bits lie across k, not tf32"},
        {ACC "$a, $b, $c, $d = wgmma(wgmma=e4m3 columns=8 trans_a=1) 0:i64, 0:i64, 1:pred, $a, $b, $c, $d",
         "body/wgmma 6: only types of 16 bits lie across k, not e4m3"},
        {ACC "$a, $b, $c, $d = wgmma(wgmma=e5m2_e4m3 columns=8) 0:i64, 0:i64, 1:pred, $a, $b, $c, $d", NULL},
        {ACC "$a, $b, $c, $d = wgmma(wgmma=s8 columns=8) 0:i64, 0:i64, 1:pred, $a, $b, $c, $d",
         "body/wgmma 6: result 0 is f32, not i32\nbody/wgmma 6: result 1 is f32, not i32\n"
         "body/wgmma 6: result 2 is f32, not i32\nbody/wgmma 6: result 3 is f32, not i32\n"
         "body/wgmma 6: operand 3 is f32, not i32\nbody/wgmma 6: operand 4 is f32, not i32\n"
         "body/wgmma 6: operand 5 is f32, not i32\nbody/wgmma 6: operand 6 is f32, not i32"},
        {PARTS ACC "$a, $b, $c, $d = " MULT_RS "$w, $x, $y, $z, 0:i64, 1:pred, $a, $b, $c, $d", NULL},
        {PARTS ACC "$a, $b, $c, $d = " MULT_RS "$w, $x, $y, %t, 0:i64, 1:pred, $a, $b, $c, $d",
         "body/wgmma_rs 12: operand 3, of A, is no variable"},
        {PARTS ACC "$a, $b, $c, $d = " MULT_RS "$w, $x, 7:i32, $z, 0:i64, 1:pred, $a, $b, $c, $d",
         "body/wgmma_rs 12: operand 2, of A, is no variable"},
        {PARTS "$w, $x, $y, $z = wgmma_rs(wgmma=u8 columns=8) $u, $v, $x, $u, 0:i64, 1:pred, $w, $x, $y, $z",
         "body/wgmma_rs 8: operand 2, of A, is a sum too"},
        {PARTS "$w, $x, $y, $z, $u, $v = wgmma(wgmma=u8 columns=12) 0:i64, 0:i64, 1:pred, $w, $x, $y, $z, $u, $v",
         "body/wgmma 8: columns is a multiple of 8 up to 256, not 12"},
        {"wgmma_wait(count=8)", "body/wgmma_wait 2: count is 0 to 7, not 8"},
        {"mbarrier_arrive(space=shared) %s", "body/mbarrier_arrive 2: space is of this block (none given) or cluster"},
        {"tensor_load %s, @p, 0:i32, 0:i32, %s", "body/tensor_load 2: operand 1 is no tensor map"},
        {"tensor_load %s, 0:i64, 0:i32, 0:i32, %s", "body/tensor_load 2: operand 1 is no tensor map"});
    CHECK_ALL(90, 96, {"wgmma_fence", "body/wgmma_fence 2: needs four warps, a block has 96 threads"});
    CHECK_ALL(
        100, 128, {"wgmma_fence", "body/wgmma_fence 2: is of sm_90a alone, the target is sm_100"},
        {"wgmma_commit", "body/wgmma_commit 2: is of sm_90a alone, the target is sm_100"},
        {"wgmma_wait", "body/wgmma_wait 2: is of sm_90a alone, the target is sm_100"},
        {ACC "$a, $b, $c, $d = " MULT "$a, $b, $c, $d", "body/wgmma 6: is of sm_90a alone, the target is sm_100"});
}

/* A map is nothing to calculate with. */
static void tensor_maps(void **state) {
    (void)state;
    tw_kernel *k = tw_kernel_new("k", 90, 32);
    tw_builder b = tw_builder_of(k);
    tw_val map = tw_map_add(&b, "m"), zero = tw_i32(&b, 0);
    tw_shared_add(&b, "s", 1024, 1024, false);
    tw_val s = tw_shared_base(&b, "s");
    tw_tensor_load(&b, 0, s, map, zero, zero, s, TW_NONE);
    tw_do(&b, TW_OP_tensor_prefetch, (tw_attrs){0}, map, TW_NONE);
    tw_diag d;
    assert_int_equal(tw_kernel_verify(k, 0, &d), TW_OK);
    assert_int_equal(tw_kernel_verify(k, 89, &d), TW_ERR_REJECTED);
    assert_non_null(strstr(d.message, "body/tensor_load 1: needs sm_90, the target is sm_89"));
    tw_attrs at = {.dims = 3, .im2col = 1, .rmw = TW_RMW_add, .type = TW_T_f32};
    const tw_box box = {map, {zero, zero, zero, zero, zero}, {tw_const(&b, TW_T_i16, 1)}};
    tw_tensor_load_box(&b, at, s, &box, s, TW_NONE);
    b.kernel->body.last->at.rmw = b.kernel->body.last->at.type = 0;
    assert_int_equal(tw_kernel_verify(k, 0, &d), TW_OK);
    k->body.last->at.dims = 4; /* a coordinate and an offset too few */
    assert_int_equal(tw_kernel_verify(k, 0, &d), TW_ERR_REJECTED);
    assert_non_null(strstr(d.message, "body/tensor_load 3: "));
    k->body.last->at.dims = 2;
    assert_int_equal(tw_kernel_verify(k, 0, &d), TW_ERR_REJECTED);
    assert_string_equal(d.message, "body/tensor_load 3: im2col has 3 to 5 dims");
    k->body.last->at.dims = 6;
    assert_int_equal(tw_kernel_verify(k, 0, &d), TW_ERR_REJECTED);
    assert_string_equal(d.message, "body/tensor_load 3: dims is 1 to 5, not 6");
    k->body.last->at.dims = 3;
    tw_tensor_reduce(&b, at, &box, s, TW_NONE);
    assert_int_equal(tw_kernel_verify(k, 0, &d), TW_OK);
    k->body.last->at.rmw = TW_RMW_exch;
    assert_int_equal(tw_kernel_verify(k, 0, &d), TW_ERR_REJECTED);
    assert_string_equal(d.message, "body/tensor_reduce 4: there is no bulk rmw=exch of f32");
    k->body.last->at.rmw = TW_RMW_add;
    tw_tensor_load(&b, 2, s, map, zero, zero, s, TW_NONE);
    assert_int_equal(tw_kernel_verify(k, 0, &d), TW_ERR_REJECTED);
    assert_string_equal(d.message, "body/tensor_load 5: ranks 0x2 are not all in a cluster of 0");
    k->cluster = 2;
    assert_int_equal(tw_kernel_verify(k, 0, &d), TW_OK);
    k->cluster = 0;
    k->body.last->at.ranks = 0;
    tw_add(&b, map, tw_i64(&b, 64));
    assert_int_equal(tw_kernel_verify(k, 0, &d), TW_ERR_REJECTED);
    assert_string_equal(d.message, "body/add_i64 6: operand 0 is a tensor map");
    tw_kernel_free(k);
}

static void control(void **state) {
    (void)state;
    CHECK_ALL(80, 128, {"if %t {\n }", "body/if 2: operand 0 is i32, not pred"},
              {"%i:f32 = for(type=f32) @x, @x, @x {\n }", "body/for 2: counts in i32 or i64, not f32"},
              {"%i:i32 = for(type=i32) 0:i32, @n, 0:i32 {\n }", "body/for 2: the step is not positive"},
              {"%i:i32 = for(type=i32) 0:i32, @n, -1:i32 {\n }", "body/for 2: the step is not positive"},
              {"%i:i64 = for(type=i64) 0:i64, 9:i64, 2:i64 {\n }", NULL},
              {"while {\n } do %t {\n }", "body/while 2: operand 0 is i32, not pred"},
              {"roles 0:i32, 2:i32 {\n } 2:i32, 4:i32 {\n }", NULL},
              {"roles 0:i32, @n {\n }", "body/roles 2: role 0 is of warps that are no i32 constants"},
              {"roles 0:i32, 2:i32 {\n } 1:i32, 4:i32 {\n }",
               "body/roles 2: role 1 is of warps 1 to 4: ascending, apart, and of 4 warps"},
              {"roles 2:i32, 2:i32 {\n }", "body/roles 2: role 0 is of warps 2 to 2: ascending, apart, and of 4 warps"},
              {"roles 0:i32, 5:i32 {\n }", "body/roles 2: role 0 is of warps 0 to 5: ascending, apart, and of 4 warps"},
              {"%i:i32 = for(type=i32) 0:i32, @n, 1:i32 {\n roles 0:i32, 1:i32 {\n %a:i32 = add_i32 %t, @x\n }\n }",
               "body/for 2/roles 0 role 0/add_i32 0: operand 1 is f32, not i32"});
}

/* -- the kernel's head */

static void heads(void **state) {
    (void)state;
    static const struct {
        const char *head, *says;
    } rules[] = {
        {" target 75\n threads 32\n", "kernel: target 75 is not known: 80 to 129"},
        {" threads 0\n", "kernel: 0 threads a block: 1 to 1024"},
        {" threads 1025\n", "kernel: 1025 threads a block: 1 to 1024"},
        {" threads 32\n min_blocks 33\n", "kernel: min_blocks is 0 to 32"},
        {" threads 32\n max_registers 256\n", "kernel: max_registers is 0 to 255"},
        {" threads 32\n cluster 2\n", "kernel: clusters need sm_90, the target is sm_80"},
        {" target 90\n threads 32\n cluster 17\n", "kernel: cluster is 0 to 16"},
        {" threads 32\n parameter p pred\n", "kernel: parameter p is of a type that none can have"},
        {" threads 32\n pointer p align 3\n", "kernel: pointer p is no i64, or aligned to no power of two"},
        {" threads 32\n shared s 16 align 24\n", "kernel: shared object s is aligned to no power of two up to 1024"},
        {" threads 32\n shared s 2000000 align 16\n", "kernel: shared object s has 2000000 bytes"},
        {" threads 32\n shared s 49136 align 16\n shared q 32 align 16\n",
         "kernel: 49168 bytes of static shared memory, 49152 at most"},
        {" threads 32\n shared s 166913 align 16 dynamic\n",
         "kernel: 166913 bytes of shared memory, sm_80 has 166912 a block"},
        {" threads 32\n shared s 166912 align 16 dynamic\n", NULL},
        {" threads 32\n target 90\n shared s 232448 align 16 dynamic\n", NULL},
        {" threads 32\n target 120\n shared s 101377 align 16 dynamic\n",
         "kernel: 101377 bytes of shared memory, sm_120 has 101376 a block"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        char text[512];
        tw_kernel *k;
        tw_diag d;
        snprintf(text, sizeof text, "kernel k\n%s{\n}\n", rules[i].head);
        assert_int_equal(tw_kernel_parse(&k, text, strlen(text), "t", &d), TW_OK);
        tw_status s = tw_kernel_verify(k, 0, &d);
        assert_string_equal(s == TW_OK ? "" : d.message, rules[i].says ? rules[i].says : "");
        tw_kernel_free(k);
    }
}

/* A lesser target than the kernel's own may be asked about. */
static void another_target(void **state) {
    (void)state;
    tw_kernel *k = tw_kernel_new("k", 90, 32);
    tw_builder b = tw_builder_of(k);
    tw_diag d;
    tw_do(&b, TW_OP_bulk_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
    assert_int_equal(tw_kernel_verify(k, 0, &d), TW_OK);
    assert_int_equal(tw_kernel_verify(k, 80, &d), TW_ERR_REJECTED);
    assert_string_equal(d.message, "body/bulk_commit 0: needs sm_90, the target is sm_80");
    tw_kernel_free(k);
}

/* -- what no text can say: a kernel that memory was written over */

static tw_ir_op *first;

static tw_kernel *small(void) {
    tw_kernel *k = tw_kernel_new("k", 80, 32);
    tw_builder b = tw_builder_of(k);
    tw_val p = tw_pointer_add(&b, "p", 16, false), x = tw_sreg(&b, TW_SREG_tid_x);
    tw_shared_add(&b, "s", 64, 16, false);
    const tw_scope branch = tw_push_if(&b, tw_lt(&b, x, tw_i32(&b, 5)));
    tw_st(&b, (tw_attrs){.type = TW_T_i32}, p, &x);
    tw_pop(&b, branch);
    first = k->body.first;
    return k;
}

static void finds(tw_kernel *k, const char *says) {
    tw_diag d;
    assert_int_equal(tw_kernel_verify(k, 0, &d), TW_ERR_REJECTED);
    if (!strstr(d.message, says)) fail_msg("%s\nnot: %s", d.message, says);
    tw_kernel_free(k);
}

static void damaged_kernels(void **state) {
    (void)state;
    tw_kernel *k = small();
    k->body.last->next = first; /* a ring */
    finds(k, "is linked wrongly into its block");
    k = small();
    first->next->prev = NULL;
    finds(k, "is linked wrongly into its block");
    k = small();
    k->body.last = first;
    finds(k, "the last operation of a block is not at its end");
    k = small();
    first->code = TW_OPCODES;
    finds(k, "is no operation");
    k = small();
    k->body.last->blocks[1].owner = NULL;
    finds(k, "block 1 belongs to another operation");
    k = small();
    k->body.owner = first;
    finds(k, "kernel: its body belongs to an operation");
    k = small();
    k->body.last->n_blocks = 1;
    finds(k, "has 1 blocks, not 2");
    k = small();
    first->results[0].id = 1000;
    finds(k, "result 0 is no value");
    k = small();
    first->at.sreg = 99;
    finds(k, "attribute sreg is out of range: 99");
    k = small();
    first->guard_not = true;
    finds(k, "negates a guard that is not there");
    k = small();
    first->guard = first->next->results[0];
    finds(k, "cannot carry a guard");
    k = small();
    first->next->results[0] = first->results[0];
    finds(k, "result 0 is i32, not pred");
    k = small();
    first->results[0] = k->parameters[0].value;
    finds(k, "result 0 (p) is a constant or parameter");
    k = small();
    first->n_blocks = 1;
    finds(k, "cannot hold blocks");
    k = small();
    first->next->operands[0] = first->next->results[0];
    finds(k, "is used before its definition");
}

static void damaged_tables(void **state) {
    (void)state;
    tw_kernel *k = small();
    k->values[first->results[0].id].type = TW_T_i8;
    finds(k, "has no type of a register");
    k = small();
    for (int i = 1; i < k->n_values; i++)
        if (k->values[i].kind == TW_V_CONSTANT) k->values[i].bits = 1ull << 40;
    finds(k, "does not fit in i32");
    k = small();
    k->values[first->results[0].id].name = "a b";
    finds(k, "is not of letters, digits and underscores");
    k = small();
    k->values[first->results[0].id].name = "";
    finds(k, "has an empty name");
    k = small();
    k->values[k->parameters[0].value.id].bits = 7;
    finds(k, "is no parameter of the kernel");
    k = small();
    k->parameters[0].value = TW_NONE;
    finds(k, "has a value that is not its own");
    k = small();
    k->parameters[0].pointer = false;
    finds(k, "is no pointer, but read_only or aligned");
    k = small();
    k->parameters[0].name = "1p";
    finds(k, "parameter 0 has no name of letters");
    k = small();
    k->shared[0].name = NULL;
    finds(k, "shared object 0 has no name of letters");
    k = small();
    k->name = "a-b";
    finds(k, "kernel: its name is not of letters");
}

static void registers_are_assigned_once(void **state) {
    (void)state;
    tw_kernel *k = tw_kernel_new("k", 80, 32);
    tw_builder b = tw_builder_of(k);
    tw_val x = tw_sreg(&b, TW_SREG_tid_x);
    tw_op_to(&b, x, TW_OP_add_i32, x, x, TW_NONE);
    finds(k, "body/add_i32 1: result 0 is a register that is assigned twice");
}

static void many_findings_are_cut(void **state) {
    (void)state;
    tw_kernel *k = tw_kernel_new("k", 80, 32);
    tw_builder b = tw_builder_of(k);
    for (int i = 0; i < 1000; i++) tw_do(&b, TW_OP_bulk_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
    finds(k, "(and more)");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(signatures),
                                       cmocka_unit_test(attributes),
                                       cmocka_unit_test(guards),
                                       cmocka_unit_test(scopes),
                                       cmocka_unit_test(assignment),
                                       cmocka_unit_test(values),
                                       cmocka_unit_test(memory),
                                       cmocka_unit_test(copies),
                                       cmocka_unit_test(barriers),
                                       cmocka_unit_test(warps),
                                       cmocka_unit_test(warpgroups),
                                       cmocka_unit_test(tensor_maps),
                                       cmocka_unit_test(columns_of_integers),
                                       cmocka_unit_test(registers_of_warpgroups),
                                       cmocka_unit_test(control),
                                       cmocka_unit_test(heads),
                                       cmocka_unit_test(another_target),
                                       cmocka_unit_test(damaged_kernels),
                                       cmocka_unit_test(damaged_tables),
                                       cmocka_unit_test(registers_are_assigned_once),
                                       cmocka_unit_test(many_findings_are_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
