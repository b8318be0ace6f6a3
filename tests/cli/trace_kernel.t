# SPDX-License-Identifier: Apache-2.0
# A product of a producer warp and a consumer warpgroup, in the emulator: who did what, how often.
$ G='gemm type=f16 m=64 n=128 k=256 tb=1 mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=2 vec=16 kg=1 --device emulator:sm_90a'; echo "$G" >words
$ tilewright trace kernel $(cat words) >out; sed 's/, [0-9.]* ops$//; 3q' out; grep -o '^  [a-z][a-z.]* *\(async\|region\|wait\|mark\)  *[a-z]*  *[0-9]*' out | sed 's/   */ /g'
  type=f16 m=64 n=128 k=256 tb=1
  emulator of sm_90a: 4 tracks of 2 blocks on 2 SMs, 48 events
  What recording cost was not measured.
   products async tensor 8
   tiles.full wait copy 8
   store region memory 2
   products wait tensor 10
   tiles.empty mark sync 4
   tiles.full async copy 8
   tiles.empty wait sync 8
# Every warp, with the iterations; of the second block alone; of some names.
$ tilewright trace kernel $(cat words) --granularity warp --iterations --json >t.json; json t.json unit tracks events dropped roles.# roles.0.role roles.1.role
  ops
  10
  184
  0
  2
  consumer
  producer
$ tilewright trace kernel $(cat words) --first 1 --json | json - tracks
  2
$ tilewright trace kernel $(cat words) --warps 16 --granularity warp --json | json - tracks
  2
$ tilewright trace kernel $(cat words) --only products,store | grep -o '^  [a-z][a-z.]* *\(async\|region\|wait\|mark\)'
    products                         async
    store                            region
    products                         wait
# Two iterations of each loop are kept, of four; or all, when rings are written out.
$ tilewright trace kernel $(cat words) --frames 2 --json | json - dropped
  36
$ tilewright trace kernel $(cat words) --frames 2 --flush --json | json - dropped
  0
$ tilewright trace kernel $(cat words) --global --json | json - dropped
  0
# Another counter.
$ tilewright trace kernel $(cat words) --metric globaltimer --json | json - tracks
  4
$ tilewright trace kernel $(cat words) --metric smid | grep -o '^  [a-z][a-z.]* *[a-z]*' | sed 's/   */ /g' | sort -u
   products value
   store value
   tiles.empty value
   tiles.full value
# Rates come from the IR: 2 m n k operations of tensor cores, and (m + n) k elements of 2 bytes for each block's tiles.
$ tilewright trace kernel $(cat words) --analyse --json >a.json; for i in 0 1; do json a.json analysis.regions.$i.name analysis.regions.$i.busy analysis.regions.$i.flops_rate analysis.regions.$i.bytes_rate | { read n; read b; read f; read y; awk "BEGIN { printf \"%s %.0f %.0f\n\", \"$n\", $f * $b, $y * $b }"; }; done
  products 4194304 0
  tiles.full 0 131072
$ tilewright trace kernel gemm m=64 n=64 k=64 --device emulator --analyse --json >a.json; json a.json analysis.regions.1.name analysis.regions.1.busy analysis.regions.1.flops_rate | { read n; read b; read f; awk "BEGIN { printf \"%s %.0f\n\", \"$n\", $f * $b }"; }
  multiply 524288
# IR that computes something else is found, also where the kernel adds to C.
$ for b in 0 1; do tilewright kernel gemm m=32 n=32 k=32 beta=$b --emit ir | awk '{ if (/ fma_f32 .*[0-9]$/) last = NR; line[NR] = $0 } END { sub(/fma_f32 /, "fma_f32 @alpha, ", line[last]); sub(/, [^,]*$/, "", line[last]); for (i = 1; i <= NR; i++) print line[i] }' >other.ir; tilewright trace kernel gemm m=32 n=32 k=32 beta=$b --device emulator --ir other.ir; done
  tilewright: the kernel with records has other results than without
  tilewright: the kernel with records has other results than without
  [1]
# How operations and buffers use memory: the emulator sees every address.
$ tilewright trace kernel $(cat words) --memory | sed -n '/^objects/,$p'
  objects
    a                    global, 32768 bytes: 2.00 times read, 0.00 times written
    b                    global, 65536 bytes: 1.00 times read, 0.00 times written
    c                    global, 16384 bytes: 0.00 times read, 1.00 times written
    tiles                shared, 32768 bytes: 10.00 times read, 4.00 times written
    barriers             shared, 32 bytes: 0.00 times read, 2.00 times written
$ tilewright trace kernel $(cat words) --memory | grep -c 'sectors that its bytes fill'
  8
$ tilewright trace kernel $(cat words) --memory --json >m.json; json m.json memory.objects.0.name memory.objects.0.read memory.operations.0.sectors memory.density.columns.1
  a
  65536
  64
  global written
$ tilewright trace kernel $(cat words) --memory -o m.html >/dev/null; grep -o 'Global memory over time\|Heat of buffers\|>wgmma [0-9]*' m.html | sort -u
  Global memory over time
  Heat of buffers
$ tilewright trace kernel $(cat words) --memory --emit ptx
  tilewright: --memory is of a run, which --emit replaces
  [2]
# The configuration is edited where the trace says that it pays, and edits that are not faster are not kept. In the emulator stages are not worth their operations.
$ S='gemm type=f16 m=64 n=64 k=128 mma=1 u=16 stages=2 --device emulator:sm_90a'; echo "$S" >stages
$ tilewright trace kernel $(cat stages) --improve | head -1
  stages=3 for 2 (copies=+1): predicted -2.4 %, measured +3.6 %: not kept
$ tilewright trace kernel $(cat stages) --improve --json | json - improvements.# improvements.0.word improvements.0.from improvements.0.to improvements.0.edit improvements.0.kept
  1
  stages
  2
  3
  copies=+1
  false
$ tilewright trace kernel $(cat words) --improve | head -2 | sed 's/[-+][0-9.]* %/X %/g'
  staged=2 for 0 (store=0.1333): predicted X %, measured X %: not kept
  configuration: mma=2 ms=64 ns=64 ml=64 nl=64 u=64 ks=1 kl=1 kg=1 vec=16 frag=8 copy=0 stages=2 split=0 swap=0 group=4 multicast=0 persistent=0 pingpong=0 stream=0 staged=0 early=0 blocks=0
$ tilewright trace kernel gemm m=64 n=64 k=64 --device emulator --improve | head -1
  no edit is predicted to be worth it
$ for f in --memory '--emit ptx' '--ir words'; do tilewright trace kernel $(cat words) --improve $f; done
  tilewright: --memory is of one kernel, and --improve makes several
  tilewright: --improve changes the configuration, which --ir and --emit do not
  tilewright: --improve changes the configuration, which --ir and --emit do not
  [2]
# Attention: both products, what is computed between them, and turns. Orders of its steps are predicted and tried.
$ A='attention heads=1 queries=128 keys=512 head=32 rows=128 columns=128 splits=1 persistent=0 --device emulator:sm_90a'; echo "$A" >attention
$ tilewright trace kernel $(cat attention) overlap=1 pingpong=1 >out; sed 's/, [0-9.]* ops$//; 2q' out; grep -o '^  [a-z][a-z.]* *\(async\|region\|wait\|mark\)  *[a-z]*  *[0-9]*' out | sed 's/   */ /g' | sort
  type=bf16 heads=1 head=32 queries=128 keys=512
  emulator of sm_90a: 3 tracks of 1 blocks on 1 SMs, 109 events
   keys.empty mark sync 8
   keys.empty wait sync 4
   keys.full async copy 4
   keys.full wait copy 8
   queries.empty mark sync 2
   queries.empty wait sync 1
   queries.full async copy 1
   queries.full wait copy 2
   rescale region alu 6
   scores async tensor 8
   scores wait tensor 8
   softmax region alu 8
   store region memory 2
   turn wait sync 7
   values async tensor 8
   values wait tensor 8
   values.empty mark sync 8
   values.empty wait sync 4
   values.full async copy 4
   values.full wait copy 8
$ for o in 0 1; do tilewright trace kernel $(cat attention) overlap=$o pingpong=$o --analyse --json >a.json; json a.json orders.warpgroups orders.overlap orders.pingpong orders.predicted.#; done
  2
  0
  0
  4
  2
  1
  1
  4
$ tilewright trace kernel $(cat attention) overlap=0 pingpong=0 --analyse | grep -c '^  overlap=[01] pingpong=[01]: [1-9][0-9.]*, the whole'
  4
$ tilewright trace kernel $(cat attention) overlap=0 pingpong=0 --what-if overlap=1,pingpong=1 | grep -c '^with overlap=1,pingpong=1: .* -'
  1
$ tilewright trace kernel $(cat attention) overlap=0 pingpong=0 --improve | grep -o '^overlap=1 for 0 (overlap=1): predicted -'
  overlap=1 for 0 (overlap=1): predicted -
$ for e in overlap=2 overlap=0,softmax=0.5; do tilewright trace kernel $(cat attention) overlap=0 pingpong=0 --what-if $e 2>&1 | grep -o '^with [^:]*: \|^tilewright.*'; done
  tilewright: --what-if: the trace has nothing called "overlap"
  with overlap=0,softmax=0.5: 
$ tilewright trace kernel $(cat words) --what-if overlap=1 2>&1 >/dev/null
  tilewright: --what-if: the trace has nothing called "overlap"
  [2]
$ tilewright trace kernel attention heads=1 queries=128 ragged=1 batch=2 --device emulator:sm_90a
  tilewright: attention of ragged sequences or of pages is not traced
  [1]
# All formats.
$ tilewright trace kernel $(cat words) --format chrome -o - | json - otherData.unit
  ops
$ for f in t.pftrace t.json t.html t.txt; do tilewright trace kernel $(cat words) -o $f >/dev/null; test -s $f && echo $f; done
  t.pftrace
  t.json
  t.html
  t.txt
# More blocks than there are.
$ tilewright trace kernel $(cat words) --first 2
  tilewright: the first recorded block is 2, and there are 2 blocks
  [2]
# Wrong use.
$ tilewright trace kernel
  tilewright: trace: needs MODEL|kernel gemm|attention WORD... (tilewright trace --help)
  [2]
$ tilewright trace kernel conv m=3
  tilewright: "conv" is no kernel; there are gemm and attention
  [2]
$ tilewright trace kernel gemm m=64 n=64 k=64 --device emulator --only nothing
  tilewright: the kernel has no record of the names nothing
  [1]
$ tilewright trace kernel $(cat words) --granularity thread
  tilewright: granularity: "thread" is not warpgroup, warp or block
  [2]
$ tilewright trace kernel $(cat words) --metric power
  tilewright: metric: "power" is not clock, globaltimer or smid
  [2]
$ tilewright trace kernel $(cat words) --frames 4294967298
  tilewright: --first, --every, --frames: out of range
  [2]
$ tilewright trace kernel $(cat words) --every -1
  tilewright: --first, --every, --frames: out of range
  [2]
$ tilewright trace kernel gemm m=64 n=64 k=64 u=7 --device emulator
  tilewright: the configuration is not legal: u and kl are powers of two
  [2]
$ tilewright trace kernel gemm m=64 n=64 k=64 speed=9 --device emulator
  tilewright: "speed=9" is not a parameter's name and value, like ml=64
  [2]
$ tilewright trace kernel gemm m=64 n=64 k=64 --device emulator:sm_1
  tilewright: device: the emulator knows no target "sm_1"
  [2]
$ tilewright trace kernel $(cat words) -o nowhere/t.html
  tilewright: nowhere/t.html: cannot write: No such file or directory
  [1]
$ tilewright trace kernel $(cat words) --format svg -o t.svg
  tilewright: --format: "svg" is not perfetto, chrome, html or summary
  [2]
# What edits would gain: a region shorter, more stages; in both outputs.
$ tilewright trace kernel $(cat words) --what-if store=0 --json >w.json; tilewright trace kernel $(cat words) --what-if store=1 --json | json - predicted.edits; json w.json predicted.after predicted.before | { read after; read before; awk "BEGIN { print $after < $before }"; }
  store=1
  1
$ for e in store=0 store=0,tiles.empty=-1 tiles.empty=-1,store=0; do tilewright trace kernel $(cat words) --what-if $e --json | json - predicted.after; done | uniq | wc -l
  1
$ tilewright trace kernel $(cat words) --what-if store=1,tiles.empty=+0 | tail -1 | sed 's/[0-9.]* ops instead of [0-9.]*,/T ops instead of T,/'
  with store=1,tiles.empty=+0: T ops instead of T, +0.0 %
$ tilewright trace kernel $(cat words) --analyse --json | json - analysis.what_if.0.change
  half
$ for e in store nix=2 store=-x store=nan =2; do tilewright trace kernel $(cat words) --what-if "$e" --json; done
  tilewright: --what-if: "store" is no list of NAME=FACTOR and NAME=+STAGES
  tilewright: --what-if: the trace has nothing called "nix"
  tilewright: --what-if: "store=-x" is no list of NAME=FACTOR and NAME=+STAGES
  tilewright: --what-if: "store=nan" is no list of NAME=FACTOR and NAME=+STAGES
  tilewright: --what-if: "=2" is no list of NAME=FACTOR and NAME=+STAGES
  [2]
