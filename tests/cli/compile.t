# SPDX-License-Identifier: Apache-2.0
# Lowering; whatever comes out is accepted by the check.
$ tilewright compile models/demo --workers 2 -o s.json
  s.json: 66 instructions for 2 workers, 34 counters, 78 buffers
$ ls
  data
  models
  s.json
$ tilewright check s.json
  s.json: accepted: 66 instructions on 2 workers, 34 counters, every interleaving of every step
# The same bytes every time, and on standard output.
$ tilewright compile models/demo --workers 2 | cmp - s.json && tilewright compile models/demo --workers 2 -o - | cmp - s.json
# From one verb to the next.
$ for n in 1 2 3 7 16 64 128; do tilewright compile models/demo --workers $n | tilewright check -; done
  -: accepted: 34 instructions on 1 workers, 34 counters, every interleaving of every step
  -: accepted: 66 instructions on 2 workers, 34 counters, every interleaving of every step
  -: accepted: 98 instructions on 3 workers, 34 counters, every interleaving of every step
  -: accepted: 256 instructions on 7 workers, 40 counters, every interleaving of every step
  -: accepted: 538 instructions on 16 workers, 40 counters, every interleaving of every step
  -: accepted: 1162 instructions on 64 workers, 40 counters, every interleaving of every step
  -: accepted: 1610 instructions on 128 workers, 40 counters, every interleaving of every step
$ for n in 2 16 512; do tilewright compile models/demo --workers 4 --tokens $n | tilewright check -; done
  -: accepted: 130 instructions on 4 workers, 34 counters, every interleaving of every step
  -: accepted: 130 instructions on 4 workers, 34 counters, every interleaving of every step
  -: accepted: 130 instructions on 4 workers, 34 counters, every interleaving of every step
$ for w in native int8 int4; do tilewright compile models/demo --workers 2 --weights $w | tilewright check -; done
  -: accepted: 66 instructions on 2 workers, 34 counters, every interleaving of every step
  -: accepted: 66 instructions on 2 workers, 34 counters, every interleaving of every step
  -: accepted: 66 instructions on 2 workers, 34 counters, every interleaving of every step
$ for m in data/models/*; do tilewright compile $m --workers 3 | tilewright check - || echo $m; done
  -: accepted: 38 instructions on 3 workers, 14 counters, every interleaving of every step
  -: accepted: 71 instructions on 3 workers, 25 counters, every interleaving of every step
  -: accepted: 71 instructions on 3 workers, 25 counters, every interleaving of every step
  -: accepted: 53 instructions on 3 workers, 22 counters, every interleaving of every step
  -: accepted: 38 instructions on 3 workers, 14 counters, every interleaving of every step
  -: accepted: 38 instructions on 3 workers, 14 counters, every interleaving of every step
  -: accepted: 38 instructions on 3 workers, 14 counters, every interleaving of every step
  -: accepted: 38 instructions on 3 workers, 14 counters, every interleaving of every step
  -: accepted: 38 instructions on 3 workers, 14 counters, every interleaving of every step
  -: accepted: 53 instructions on 3 workers, 19 counters, every interleaving of every step
  -: accepted: 38 instructions on 3 workers, 14 counters, every interleaving of every step
  -: accepted: 38 instructions on 3 workers, 14 counters, every interleaving of every step
  -: accepted: 40 instructions on 3 workers, 16 counters, every interleaving of every step
  -: accepted: 40 instructions on 3 workers, 16 counters, every interleaving of every step
  -: accepted: 56 instructions on 3 workers, 20 counters, every interleaving of every step
  -: accepted: 38 instructions on 3 workers, 14 counters, every interleaving of every step
  -: accepted: 38 instructions on 3 workers, 14 counters, every interleaving of every step
  -: accepted: 53 instructions on 3 workers, 19 counters, every interleaving of every step
  -: accepted: 38 instructions on 3 workers, 14 counters, every interleaving of every step
  -: accepted: 39 instructions on 3 workers, 15 counters, every interleaving of every step
  -: accepted: 39 instructions on 3 workers, 15 counters, every interleaving of every step
  -: accepted: 53 instructions on 3 workers, 19 counters, every interleaving of every step
$ for s in llama-1b llama-8b qwen3-30b-a3b; do tilewright compile --shape $s --workers 8 -c 4096 | tilewright check -; done
  -: accepted: 658 instructions on 8 workers, 84 counters, every interleaving of every step
  -: accepted: 1298 instructions on 8 workers, 164 counters, every interleaving of every step
  -: accepted: 1986 instructions on 8 workers, 292 counters, every interleaving of every step
# Choices in a file; flags win.
$ echo '{"workers": 3, "max_seq": 512, "tokens": 8}' >c.json
$ tilewright compile models/demo --config c.json -o s.json && json s.json tokens max_seq workers.#
  s.json: 98 instructions for 3 workers, 34 counters, 78 buffers
  8
  512
  3
$ tilewright compile models/demo --config c.json --workers 2 -c 128 -o s.json && json s.json tokens max_seq workers.#
  s.json: 66 instructions for 2 workers, 34 counters, 78 buffers
  8
  128
  2
# The cache's type and attention by groups of heads.
$ echo '{"workers": 5, "kv": "bf16", "group_heads": true}' >c.json
$ tilewright compile models/demo --config c.json -o s.json && grep -c '"kv", "dtype": "bf16"' s.json && tilewright check s.json
  s.json: 180 instructions for 5 workers, 40 counters, 79 buffers
  12
  s.json: accepted: 180 instructions on 5 workers, 40 counters, every interleaving of every step
$ tilewright run models/demo -p x --schedule s.json -t 5
  tilewright: layers.0.k is bf16: on a processor the key/value cache is f32
  [1]
$ echo '{"kv": "i8"}' >c.json; tilewright compile models/demo --config c.json
  tilewright: c.json: kv: "i8" is not auto, f32, f16 or bf16
  [1]
# For a GPU that need not be here.
$ tilewright compile --shape llama-1b -c 4096 --target sm_90a --workers 132 | tilewright check -
  -: accepted: 11274 instructions on 132 workers, 100 counters, every interleaving of every step
# Choices of its machine too: what could not be built is refused here.
$ echo '{"kv_splits": 2, "machine": {"warps": 4, "blocks": 2, "stages": 6, "edges": "counters"}}' >c.json
$ tilewright compile models/demo --target sm_80 --workers 8 --config c.json | tilewright check -
  -: accepted: 258 instructions on 8 workers, 40 counters, every interleaving of every step
$ echo '{"machine": {"warps": 16, "blocks": 8}}' >c.json; tilewright compile models/demo --target sm_89 --workers 8 --config c.json
  tilewright: stages of 65536 bytes: a block has 101376 bytes of shared memory, and a ring needs 2 stages
  [2]
$ echo '{"machine": {"warps": 17}}' >c.json; tilewright compile models/demo --config c.json
  tilewright: c.json: machine.warps: not a whole number within 0..16
  [1]
$ echo '{"machine": {"edges": "barrier"}}' >c.json; tilewright compile models/demo --config c.json
  tilewright: c.json: machine.edges: "barrier" is not auto, counters or data
  [1]
$ echo '{"machine": {"rings": 1}}' >c.json; tilewright compile models/demo --config c.json
  tilewright: c.json: machine.rings: unknown field
  [1]
$ echo '{"workers": "all"}' >c.json; tilewright compile models/demo --config c.json
  tilewright: c.json: workers: not a whole number within 0..1024
  [1]
$ echo '{"group_heads": 1}' >c.json; tilewright compile models/demo --config c.json
  tilewright: c.json: group_heads: not true or false
  [1]
$ echo '[]' >c.json; tilewright run models/demo -p x --config c.json
  tilewright: c.json: configuration: not a JSON object
  [1]
$ tilewright compile models/demo --target sm_90a --workers 4 --tokens 9
  tilewright: a program of 9 positions a step: the GPU's machine takes 8
  [1]
$ tilewright compile --schema >schema.json && json schema.json properties.machine.properties.edges.enum.1
  counters
# A file's choices where a model runs.
$ echo '{"workers": 2, "max_seq": 64, "kv_splits": 2, "tokens": 4}' >c.json; tilewright run models/demo -p "In the" -n 4 --temp 0 --config c.json --json | json - finish
  length
$ echo '{"kv": "f16"}' >c.json; tilewright verify models/demo --device cpu --config c.json
  tilewright: layers.0.k is f16: on a processor the key/value cache is f32
  [1]
$ tilewright compile models/demo --target sm_80
  tilewright: --target sm_80: needs --workers, the number of its SMs
  [2]
$ tilewright compile models/demo --target cuda
  tilewright: no NVIDIA driver: none: cannot open shared object file: No such file or directory
  [1]
# An old file is replaced whole, and permissions are the umask's.
$ echo old >s.json; chmod 600 s.json; umask 022; tilewright compile models/demo --workers 2 -o s.json && ls -l s.json | cut -c1-10
  s.json: 66 instructions for 2 workers, 34 counters, 78 buffers
  -rw-r--r--
