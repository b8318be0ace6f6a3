# SPDX-License-Identifier: Apache-2.0
# Generation. The prompts are those of golden.json whose greedy continuation is clear on every machine.
$ P=$(json models/demo/golden.json cases.1.prompt | tr -d '[]'); echo "$P"
  0,410,1011,1360,288,260
$ tilewright run models/demo --ids "$(json models/demo/golden.json cases.1.prompt | tr -d '[]')" -n 20 --quiet
   land of Egypt, and in the land of Egypt, and in the land of Egypt, and in
# Standard error tells the speed; nothing else goes there.
$ tilewright run models/demo -p "In the beginning" -n 4 2>&1 >/dev/null | sed 's/[0-9.]*\/s/N\/s/g'
  [4 prompt tokens at N/s, 4 new tokens at N/s, ended by length]
# The same twice, with plain C kernels, on one thread, on three, and through a schedule.
$ P=$(json models/demo/golden.json cases.2.prompt | tr -d '[]')
> run() { tilewright run models/demo --ids "$P" -n 64 --quiet "$@"; }
> run >1; run >2; run --isa none >3; run --isa avx2 >4; run -t 1 >5; run -t 3 >6
> tilewright compile models/demo --workers 2 -c 256 -o s.json && run -t 2 --schedule s.json >7
> for i in 2 3 4 5 6 7; do cmp 1 $i && echo same; done
  s.json: 66 instructions for 2 workers, 34 counters, 78 buffers
  same
  same
  same
  same
  same
  same
# JSON holds ids, text and timings.
$ tilewright run models/demo --ids "$(json models/demo/golden.json cases.1.prompt | tr -d '[]')" -n 64 --json >r.json
> json r.json ids >ours; json models/demo/golden.json cases.1.greedy >theirs; cmp ours theirs && echo same
> json r.json finish prompt_ids timings.prefill_tokens timings.decode_steps
  same
  length
  [0,410,1011,1360,288,260]
  6
  63
# Quantised.
$ for w in int8 int4; do tilewright run models/demo -p "In the beginning" -n 8 --quiet --weights $w | wc -w | tr -d ' '; done
  7
  8
$ for g in 32 64 128; do tilewright run models/demo -p "In the beginning" -n 1 --quiet --weights int4 --group $g >/dev/null; done
# Sampling is reproducible from its seed, and seeds differ.
$ run() { tilewright run models/demo -p "And it came to pass" -n 40 --quiet --temp 0.8 "$@"; }
> run -s 7 >1; run -s 7 >2; run -s 8 >3; run -s 7 --top-k 40 --top-p 0.9 --min-p 0.05 >4; run -s 7 --top-k 40 --top-p 0.9 --min-p 0.05 >5
> cmp 1 2 && cmp 4 5 && { cmp -s 1 3 || echo differ; }
  differ
$ for i in 1 2 3; do tilewright run models/demo -p "And it came to pass" -n 20 --quiet --temp 2 | tr '\n' ' '; echo; done | sort -u | wc -l | tr -d ' '
  3
# One candidate left is greedy.
$ run() { tilewright run models/demo --ids "$(json models/demo/golden.json cases.1.prompt | tr -d '[]')" -n 40 --quiet "$@"; }
> run >1; run --temp 5 --top-k 1 >2; run --temp 0.5 --top-p 0.000001 >3; run --temp 5 --min-p 1 >4; cmp 1 2 && cmp 1 3 && cmp 1 4
# Nothing to do, and no more room.
$ tilewright run models/demo -p "In the beginning" -n 0 --quiet
  
$ tilewright run models/demo -p "In the beginning" -n 50 -c 12 --json | json - finish
  context
$ tilewright run models/demo -p "In the beginning" -n 0 --json | json - finish ids text
  length
  []
  
# Standard input.
$ echo "In the beginning" | tr -d '\n' | tilewright run models/demo -p - -n 8 --quiet >1
> tilewright run models/demo -p "In the beginning" -n 8 --quiet >2; cmp 1 2
# Stop strings end the text before they begin; the first that comes counts.
$ run() { tilewright run models/demo --ids "$(json models/demo/golden.json cases.1.prompt | tr -d '[]')" -n 64 "$@"; }
> run --quiet >all; word=$(awk '{print $6}' all); run --quiet --stop nosuchtext >1; cmp all 1
> run --json --stop "$word" --stop nosuchtext >r.json; json r.json finish
> case $(cat all) in "$(json r.json text)$word"*) echo a prefix;; esac
  stop
  a prefix
# A prompt that does not fit.
$ tilewright run models/demo -p - -n 1 <models/demo/heldout.txt
  tilewright: 10343 tokens do not fit the context of 1024, of which 0 are taken: a larger -c, or a shorter prompt
  [2]
$ tilewright run models/demo -p "In the beginning God created the heaven" -c 4
  tilewright: 8 tokens do not fit the context of 4, of which 0 are taken: a larger -c, or a shorter prompt
  [2]
# A file of choices has the context, too.
$ echo '{"max_seq": 5}' >five.json; tilewright run models/demo --ids 1,2,3,4 --config five.json --json | json - finish
  context
$ tilewright run models/demo --ids 1,2,3,4,5,6 --config five.json
  tilewright: 6 tokens do not fit the context of 5, of which 0 are taken: a larger -c, or a shorter prompt
  [2]
# A schedule for other circumstances.
$ tilewright compile models/demo --workers 2 -c 256 -o s.json
  s.json: 66 instructions for 2 workers, 34 counters, 78 buffers
$ tilewright run models/demo -p x -t 3 --schedule s.json
  tilewright: the schedule is for 2 workers, the machine has 3 (-t 2)
  [1]
$ tilewright run data/models/llama-biases --ids 1 -t 2 --schedule s.json
  tilewright: the schedule's embed [4096, 256] is not a weight of this model
  [1]
$ sed 's/\["0.qkv", 2\]/["0.qkv", 1]/' s.json >unsafe.json; tilewright run models/demo -p x -t 2 --schedule unsafe.json
  tilewright: the schedule is unsafe: workers[0][3] attend: partial join: waits for 1 arrivals at 0.qkv, which gets 2 a step: it may pass before all producers ran
  [1]
$ tilewright compile models/demo --workers 2 -c 256 --weights int8 -o s8.json
  s8.json: 66 instructions for 2 workers, 34 counters, 78 buffers
$ tilewright run models/demo -p x -t 2 --schedule s8.json -n 2 --quiet >/dev/null
# A model without a tokenizer.
$ tilewright run data/models/llama-biases --ids 1,2,3 -n 5 --quiet
  tilewright: data/models/llama-biases: no tokenizer.json: ids only
  130,41,135,41,146
# A model with more rows than the tokenizer has tokens: those rows have no text, and the text goes on.
$ cp -r data/models/llama-biases padded && chmod -R u+w padded
> echo '{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "x": 41}, "merges": []}, "decoder": {"type": "Fuse"}}' >padded/tokenizer.json
$ tilewright run padded --ids 1,2,3 -n 5 --json | json - ids text finish
  [130,41,135,41,146]
  xx
  length
# Weights that are not numbers: said, and run all the same.
$ cp -r data/models/llama-biases m && chmod -R u+w m
> printf '\000\000\300\177' | dd of=m/model.safetensors bs=1 seek=$(($(wc -c <m/model.safetensors) - 4)) conv=notrunc 2>/dev/null
$ tilewright run m --ids 1,2,3 -n 2 --quiet
  tilewright: warning: 1 weights are NaN or infinite, first in final_norm
  tilewright: m: no tokenizer.json: ids only
  0,0
# generation_config.json: sampling where it says do_sample, stop strings and the penalty always; flags win.
$ mkdir g && cp models/demo/config.json g && ln -s "$PWD"/models/demo/model.safetensors "$PWD"/models/demo/tokenizer.json g
> cat >f <<'END'
> say() { tilewright run g --ids "$(json models/demo/golden.json cases.1.prompt | tr -d '[]')" -n 40 --quiet "$@"; }
> config() { echo "{$1}" >g/generation_config.json; }
> END
> . ./f; say >greedy
> config '"temperature": 5, "min_p": 1'; say | cmp greedy - && echo "greedy without do_sample"
> config '"do_sample": true, "temperature": 5, "top_k": 0'; say -s 1 >wild; cmp -s greedy wild || echo "a temperature"
> say -s 1 --temp 0 | cmp greedy - && echo "flags win"
> config '"do_sample": true, "temperature": 5, "top_k": 0, "min_p": 1'; say -s 1 | cmp greedy - && echo min_p
> say -s 1 --min-p 0 | cmp wild - && echo "flags win"
> config '"do_sample": true, "temperature": 5, "top_k": 1'; say | cmp greedy - && echo top_k
> config '"do_sample": true, "temperature": 5, "top_k": 0, "top_p": 0.000001'; say | cmp greedy - && echo top_p
> config '"repetition_penalty": 1.5'; say >varied; cmp -s greedy varied || echo "a penalty"; say --repetition-penalty 1 | cmp greedy - && echo "flags win"
  greedy without do_sample
  a temperature
  flags win
  min_p
  flags win
  top_k
  top_p
  a penalty
  flags win
$ . ./f; config '"stop_strings": [" Egypt", "nothing"]'; say; say --json | json - finish; config '"stop_strings": ", and in"'; say; say --stop " land"
   land of
  stop
   land of Egypt
  
# Every one of several end tokens ends a text; config.json's count where generation_config.json has none.
$ . ./f; config '"eos_token_id": [4000, 13]'; say --json | json - finish ids; config '"eos_token_id": 270'; say --json | json - finish ids
> config '"top_k": 5'; sed 's/"eos_token_id": [0-9]*/"eos_token_id": [7, 739]/' models/demo/config.json >g/config.json; say --json | json - finish ids
  eos
  [501,270,739]
  eos
  [501]
  eos
  [501,270]
