# SPDX-License-Identifier: Apache-2.0
# A schedule as a graph for Graphviz, and one in which something is wrong.
$ tilewright check data/schedules/own/mixture.json --dot d.dot; cat d.dot
  data/schedules/own/mixture.json: accepted: 15 instructions on 1 workers, 15 counters, every interleaving of every step
  digraph schedule {
   rankdir=TB; node [shape=box, fontsize=10]; edge [fontsize=8];
   subgraph cluster_0 {
    label="worker 0"; color=gray80;
    t0 [label="workers[0][0] input"];
    t1 [label="workers[0][1] embed"];
    t0 -> t1 [color=gray60];
    t2 [label="workers[0][2] qkv"];
    t1 -> t2 [color=gray60];
    t3 [label="workers[0][3] attend"];
    t2 -> t3 [color=gray60];
    t4 [label="workers[0][4] project"];
    t3 -> t4 [color=gray60];
    t5 [label="workers[0][5] ffn"];
    t4 -> t5 [color=gray60];
    t6 [label="workers[0][6] project"];
    t5 -> t6 [color=gray60];
    t7 [label="workers[0][7] qkv"];
    t6 -> t7 [color=gray60];
    t8 [label="workers[0][8] attend"];
    t7 -> t8 [color=gray60];
    t9 [label="workers[0][9] project"];
    t8 -> t9 [color=gray60];
    t10 [label="workers[0][10] route"];
    t9 -> t10 [color=gray60];
    t11 [label="workers[0][11] experts_up"];
    t10 -> t11 [color=gray60];
    t12 [label="workers[0][12] experts_down"];
    t11 -> t12 [color=gray60];
    t13 [label="workers[0][13] head"];
    t12 -> t13 [color=gray60];
    t14 [label="workers[0][14] output"];
    t13 -> t14 [color=gray60];
   }
   t0 -> t1 [label="1"];
   t1 -> t2 [label="1"];
   t2 -> t3 [label="1"];
   t3 -> t4 [label="1"];
   t4 -> t5 [label="1"];
   t5 -> t6 [label="1"];
   t6 -> t7 [label="1"];
   t7 -> t8 [label="1"];
   t8 -> t9 [label="1"];
   t9 -> t10 [label="1"];
   t10 -> t11 [label="1"];
   t11 -> t12 [label="1"];
   t12 -> t13 [label="1"];
   t13 -> t14 [label="1"];
  }
$ cp d.dot sound.dot; sed 's/\["embed", 1\]/["embed", 0]/' data/schedules/own/mixture.json >s.json; tilewright check s.json --dot d.dot; diff sound.dot d.dot
  s.json: workers[0][2] qkv: partial join: waits for 0 arrivals at embed, which gets 1 a step: it may pass before all producers ran
  8c8
  <   t2 [label="workers[0][2] qkv"];
  ---
  >   t2 [label="workers[0][2] qkv\npartial join", style=filled, fillcolor="#ffb3a7"];
  36c36
  <  t1 -> t2 [label="1"];
  ---
  >  t1 -> t2 [label="0", color=red, penwidth=2];
  [1]
$ tilewright check data/schedules/amk/toy-batch.json --dot d.dot; sed -n '1,12p' d.dot; tail -n 3 d.dot
  data/schedules/amk/toy-batch.json: accepted: 22 tasks on any SMs, 17 counters, every interleaving
  digraph schedule {
   rankdir=TB; node [shape=box, fontsize=10]; edge [fontsize=8];
   subgraph cluster_0 {
    label="worker 0"; color=gray80;
    t0 [label="task 0 embed"];
    t1 [label="task 1 norm"];
    t0 -> t1 [color=gray60];
    t2 [label="task 2 q[t0]"];
    t1 -> t2 [color=gray60];
    t3 [label="task 7 q.reshape"];
    t2 -> t3 [color=gray60];
    t4 [label="task 8 q.rope"];
   t21 -> t20 [label="2"];
   t1 -> t21 [label="1"];
  }
# Where it cannot be written, that is said.
$ tilewright check data/schedules/amk/toy-batch.json --dot nowhere/d.dot
  tilewright: nowhere/d.dot: cannot write: No such file or directory
  data/schedules/amk/toy-batch.json: accepted: 22 tasks on any SMs, 17 counters, every interleaving
  [1]
$ tilewright check data/schedules/own/decode.json --dot nowhere/d.dot
  tilewright: nowhere/d.dot: cannot write: No such file or directory
  data/schedules/own/decode.json: accepted: 42 instructions on 2 workers, 16 counters, every interleaving of every step
  [1]
# What has no structure has no graph.
$ sed 's/"kind": *"kv"/"kind": "activation"/' data/schedules/own/mixture.json >k.json; tilewright check k.json --dot k.dot 2>&1 | head -n 2; ls k.dot
  tilewright: k.dot: not drawn: workers[0][2] qkv: operand k must be of kind kv, but layers.0.k is of kind activation
  k.json: workers[0][2] qkv: kind: operand k must be of kind kv, but layers.0.k is of kind activation
  ls: cannot access 'k.dot': No such file or directory
  [2]
