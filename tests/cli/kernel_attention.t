# Attention: what it takes, and a checked run.
$ tilewright kernel attention heads=32 kv_heads=8 head=128 queries=4096 causal=1
  problem    type=bf16 heads=32 kv_heads=8 head=128 queries=4096 keys=4096 causal=1
  config     rows=128 columns=160 stages=2 overlap=1 pingpong=1 lazy=0 pack=0 splits=1 persistent=132 band=16 early=0 mma=2 strips=1 slices=1
  target     sm_90a
  legal      yes
  block      384 threads, 229552 bytes of shared memory, 168 registers a thread at launch
  grid       132 blocks: 1024 tiles
$ tilewright kernel attention heads=2 head=64 queries=40 keys=70 causal=1 rows=64 columns=32 --emulate | sed 's/; .*//'
  emulated for sm_90a, seed 1: correct, nothing found
$ tilewright kernel attention heads=2 head=64 queries=40 keys=70 rows=64 columns=32 splits=2 --emulate --json | json - kernel
  attention
# Its text.
$ tilewright kernel attention heads=2 head=64 queries=40 --emit ptx | grep -c wgmma.mma_async
  24
$ tilewright kernel attention heads=2 head=64 queries=40 --emit ir | head -1
  kernel attention
# Without wgmma.
$ tilewright kernel attention heads=2 head=64 queries=40 --target sm_80 --emit ptx | grep -c mma.sync
  128
$ tilewright kernel attention heads=2 head=64 queries=40 keys=70 mma=1 rows=64 columns=32 splits=2 --emulate | sed 's/; .*//'
  emulated for sm_90a, seed 1: correct, nothing found
$ tilewright kernel attention heads=2 head=64 queries=40 keys=70 kv=e4m3 --emulate | sed 's/; .*//'
  emulated for sm_90a, seed 1: correct, nothing found
$ tilewright kernel attention heads=2 head=64 queries=40 kv=e4m3 mma=2 | grep legal
  legal      no: keys and values of e4m3 need mma=1
# What it cannot be.
$ tilewright kernel attention heads=2 head=64 queries=40 rows=100; echo $?
  problem    type=bf16 heads=2 head=64 queries=40 keys=40
  config     rows=100 columns=128 stages=2 overlap=1 pingpong=0 lazy=0 pack=0 splits=1 persistent=132 band=4 early=0 mma=2 strips=1 slices=1
  target     sm_90a
  legal      no: a tile has 16, 32, 64, 128 or 192 queries
  1
$ tilewright kernel attention heads=2 head=60 queries=40
  tilewright: heads and rows are multiples of 8 elements
  [2]
$ tilewright kernel attention heads=2 head=64 queries=40 rows=64 color=red
  tilewright: "color=red" is not a parameter's name and value, like rows=128
  [2]
$ tilewright kernel attention heads=2 head=64 queries=40 --space
  tilewright: kernel attention: --artefact and --space are not of it
  [2]
$ tilewright kernel attention --list
  problem     type=bf16|f16; heads kv_heads head (elements); queries keys batch; causal=1; window=W; scale cap; lse=1 sinks=1;
  kv=e4m3: K and V are of that type, and their heads have scales;
  ldq ldk ldo (elements from row to row); capacity=C: K and V are [batch][kv_heads][C][head];
  page=P pool=N: K and V are [N][P][kv_heads][head], and each sequence has a list of pages;
  ragged=1: the device knows each sequence's queries (starts) and keys (lengths);
  mask=f32|f16|bf16 (added to scores) or i8 (0: not seen), [mask_batch][mask_heads][queries][ldm]
  parameters  with their roles and values:
    rows   macro  16 32 64 128 192
    columns macro  16 32 48 64 80 96 112 128 144 160 176 192 208 224 240 256
    stages micro  1 2 3 4
    overlap micro  0 1
    pingpong micro  0 1
    lazy   micro  0 1
    pack   macro  0 1
    splits macro  1 2 3 4 5 6 7 8 10 12 14 16 20 24 28 32 40 48 56 64
    persistent macro  0 66 78 114 132 264
    band   micro  1 2 4 8 16 32 64
    early  micro  0 1 2
    mma    macro  1 2
    strips micro  1 2
    slices micro  1 2 4 8
