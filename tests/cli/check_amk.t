# SPDX-License-Identifier: Apache-2.0
# Schedules of AutoMegaKernel's: lowerings of its own, and unsafe ones made from them.
$ tilewright check data/schedules/amk/safe-m2-n16-p5-load_balance.json
  data/schedules/amk/safe-m2-n16-p5-load_balance.json: accepted: 202 tasks on any SMs, 41 counters, every interleaving
$ tilewright check --format amk data/schedules/amk/toy-split.json
  data/schedules/amk/toy-split.json: accepted: 24 tasks on 4 SMs, 19 counters, every interleaving
$ for f in data/schedules/amk/unsafe-*.json; do tilewright check $f; echo "exit $?"; done
  data/schedules/amk/unsafe-cycle-00.json: task 1 L0.input_norm: deadlock: no worker can go on: task 1 L0.input_norm waits for counter 2 (L0.q_proj (4 tiles)); task 2 L0.q_proj[t0] waits for counter 1 (L0.input_norm)
  exit 1
  data/schedules/amk/unsafe-drop_wait-00.json: task 78 L0.gate_proj[t19]: undefined read: reads L0.mn [0..1, 0..1, bytes 0..1024], part of which nothing before it has written
  data/schedules/amk/unsafe-drop_wait-00.json: task 58 L0.post_norm: race: writes L0.mn [0..1, 0..1, bytes 0..1024], which task 78 L0.gate_proj[t19] reads; nothing orders them
  exit 1
  data/schedules/amk/unsafe-gap-00.json: task 12 L0.v_append: undefined read: reads L0.v [0..1, 0..1, bytes 0..256], part of which nothing before it has written
  exit 1
  data/schedules/amk/unsafe-init-00.json: counter 14 (L0.post_norm): counter init: starts at 1: waits would pass before their producers ran
  exit 1
  data/schedules/amk/unsafe-kvpos-00.json: task 18 L0.k_append: bounds: writes rows 1000000..1000001 of L0.kcache, which has 256
  exit 1
  data/schedules/amk/unsafe-oob-00.json: task 347 L2.up_proj[t0]: bounds: writes columns 1000000..1000016 of L2.up, which has 512
  exit 1
  data/schedules/amk/unsafe-partial-00.json: task 63 L0.swiglu: partial join: waits for 1 arrivals at counter 15 (L0.gate_proj (16 tiles)), which gets 16 a step: it may pass before all producers ran
  exit 1
  data/schedules/amk/unsafe-wweight-00.json: task 17 L0.attn_residual: read-only: writes layers.1.input_norm, which is of kind WEIGHT
  exit 1
# One edit each of a safe one; shown is the first finding under the rule that it breaks.
$ cat >reject <<'END'
> sed "$2" data/schedules/amk/toy-split.json >u.json; cmp -s data/schedules/amk/toy-split.json u.json && echo "the edit changes nothing"
> tilewright check u.json >found; echo "exit $?"; grep -m1 ": $1: " found || cat found
> END
# Two windows of attention that leave a row out, or count one twice.
$ sh reject coverage '/"attention.s0"/s/"kv_len":17/"kv_len":16/'
  exit 1
  u.json: task 15 attention.merge: coverage: merges windows that leave rows 16..17 out
$ sh reject coverage '/"attention.s1"/s/"kv_start":17/"kv_start":16/'
  exit 1
  u.json: task 15 attention.merge: coverage: merges windows that leave rows 16..17 to be counted twice
# A row of the cache that this step should have written.
$ sh reject 'undefined read' '/"k.append"/s/"pos":32/"pos":33/'
  exit 1
  u.json: task 14 attention.s1: undefined read: reads kcache [0..1, -15..1, bytes 0..64], part of which nothing before it has written
# A row of the cache that an earlier step has written.
$ sh reject read-only '/"v.append"/s/"pos":32/"pos":31/'
  exit 1
  u.json: task 12 v.append: read-only: writes row 31 of vcache, which is from before row 32 of this step
# A page that is written to while somebody has yet to read what was there.
$ sh reject 'page reuse' '/buffer_to_page/s/"3":2/"3":2,"16":2/'
  exit 1
  u.json: task 18 residual: page reuse: reads h0, whose page 2 q.heads has been written to since
# An op whose effects are not known.
$ sh reject 'unknown op' '/"q.rope"/s/ROPE/FUSED/'
  exit 1
  u.json: task 8 q.rope: unknown op: FUSED: what it reads and writes is not known
# Shared memory of one SM, used from two.
$ sh reject placement '/"name":"q.rope"/s/HBM/SMEM/'
  exit 1
  u.json: task 14 attention.s1: placement: uses buffer 17 q.rope, which is on one SM, from SM 1, and task 8 from SM 0
# As JSON.
$ sed 's/"n_off":16/"n_off":17/' data/schedules/amk/toy-split.json | tilewright check - --json >r.json; echo $?; json r.json format accepted workers findings.0.rule
  1
  amk
  false
  4
  bounds
# What is no schedule of theirs.
$ sed 's/"ir_version":"0.2.0"/"ir_version":"1.0.0"/' data/schedules/amk/toy-split.json | tilewright check -
  tilewright: -: schedule: ir_version is not 0.2, the only one that is known
  [1]
$ sed 's/"kind":"KV_CACHE"/"kind":"STATE"/' data/schedules/amk/toy-split.json | tilewright check -
  tilewright: -: buffers[20]: kind is not a kind of buffer
  [1]
$ tilewright check --format tilewright data/schedules/amk/toy-split.json
  tilewright: data/schedules/amk/toy-split.json: schedule: not a schedule: no tilewright_schedule field
  [1]
$ tilewright check --format megakernel s.json
  tilewright: --format: "megakernel" is not auto, tilewright, ranges or amk
  [2]
$ echo '{}' | tilewright check --format amk -
  tilewright: -: schedule: ir_version and tasks are missing: not AutoMegaKernel's
  [1]
