# SPDX-License-Identifier: Apache-2.0
# Wrong use: one line, exit status 2.
$ tilewright frobnicate
  tilewright: "frobnicate" is not a verb; the verbs are doctor, run, chat, verify, bench, ppl, tokenize, compile, check, kernel, tune, measure, train, eval, select, explain, export, import, trace, build
  [2]
$ tilewright run
  tilewright: run: needs MODEL|M.onnx|M.tw (tilewright run --help)
  [2]
$ tilewright run models/demo
  tilewright: run: needs -p TEXT, --ids 1,2,3 or --prompts FILE, one of them
  [2]
$ tilewright run models/demo another -p x
  tilewright: run: too many arguments: "another" (tilewright run --help)
  [2]
$ tilewright run models/demo -p x --ids 1
  tilewright: run: needs -p TEXT, --ids 1,2,3 or --prompts FILE, one of them
  [2]
$ tilewright run models/demo -p x --frob
  tilewright: run: unknown flag --frob (tilewright run --help)
  [2]
$ tilewright run models/demo -p x -q
  tilewright: run: unknown flag -q (tilewright run --help)
  [2]
$ tilewright run models/demo -p x -n
  tilewright: run: -n needs a value: N
  [2]
# Numbers.
$ tilewright run models/demo -p x -n ten
  tilewright: -n: "ten" is not a whole number
  [2]
$ tilewright run models/demo -p x -n 10x
  tilewright: -n: "10x" is not a whole number
  [2]
$ tilewright run models/demo -p x -n -5
  tilewright: -n: -5 is not within 0..16777216
  [2]
$ tilewright run models/demo -p x -n 99999999999999999999
  tilewright: -n: "99999999999999999999" is not a whole number
  [2]
$ tilewright run models/demo -p x --temp hot
  tilewright: --temp: "hot" is not a number
  [2]
$ tilewright run models/demo -p x --temp -1
  tilewright: temperature and top-k are not negative; top-p and min-p lie within 0..1
  [2]
$ tilewright run models/demo -p x --temp nan
  tilewright: temperature and top-k are not negative; top-p and min-p lie within 0..1
  [2]
$ tilewright run models/demo -p x --temp 1 --top-k -1
  tilewright: temperature and top-k are not negative; top-p and min-p lie within 0..1
  [2]
$ tilewright run models/demo -p x --temp 1 --top-p 1.5
  tilewright: temperature and top-k are not negative; top-p and min-p lie within 0..1
  [2]
$ tilewright run models/demo -p x --temp 1 --min-p -0.5
  tilewright: temperature and top-k are not negative; top-p and min-p lie within 0..1
  [2]
$ tilewright run models/demo -p x -t 5000
  tilewright: -t: 5000 is not within 0..1024
  [2]
$ tilewright run models/demo -p x -t -1
  tilewright: -t: -1 is not within 0..1024
  [2]
$ tilewright run models/demo -p x -c -1
  tilewright: -c: -1 is not within 0..2147483647
  [2]
$ tilewright run models/demo -p x --activations int4
  tilewright: --activations: "int4" is not float, bf16 or int8
  [2]
$ tilewright run models/demo -p x --weights int4 --group 48
  tilewright: group: 48 is not 32, 64 or 128
  [2]
$ tilewright run models/demo -p x --weights int8 --group 999
  tilewright: --group: 999 is not within 0..128
  [2]
# Token ids.
$ tilewright run models/demo --ids 999999
  tilewright: token id 999999 is not within 0..4095
  [2]
$ tilewright run models/demo --ids 4096
  tilewright: token id 4096 is not within 0..4095
  [2]
$ tilewright run models/demo --ids 1,,2
  tilewright: --ids: not a list of token ids such as 1,2,3
  [2]
$ tilewright run models/demo --ids one
  tilewright: --ids: not a list of token ids such as 1,2,3
  [2]
$ tilewright run models/demo --ids=-3
  tilewright: --ids: not a list of token ids such as 1,2,3
  [2]
$ tilewright run models/demo --ids ''
  tilewright: nothing to feed: the prompt has no tokens
  [2]
# Names.
$ tilewright run models/demo -p x --weights int3
  tilewright: --weights: "int3" is not native, int8 or int4
  [2]
$ tilewright run models/demo -p x --isa mmx
  tilewright: --isa: "mmx" is not none or a list of avx2, avx512, avx512vnni, avx512bf16, avx512fp16, amx
  [2]
$ tilewright run models/demo -p x --device gpu
  tilewright: device: "gpu" is not auto, cpu, cuda or cuda:N
  [2]
$ tilewright verify models/demo --rope blue
  tilewright: --rope: "blue" is not auto, float or stored
  [2]
$ tilewright bench models/demo -o xml
  tilewright: -o: "xml" is not md, csv or json
  [2]
$ tilewright bench models/demo --dtype i8
  tilewright: --dtype: "i8" is not f32, f16 or bf16
  [2]
$ tilewright bench --shape llama-1b --dtype i8
  tilewright: --dtype: "i8" is not f32, f16 or bf16
  [2]
$ tilewright bench --shape llama-5t
  tilewright: no shape is called llama-5t; there are llama-1b, llama-3b, llama-8b, qwen2-0.5b, qwen2-1.5b, qwen3-0.6b, qwen3-1.7b, qwen3-4b, qwen3-30b-a3b, mistral-7b, smollm2-135m, smollm2-360m, tinyllama-1.1b, gemma2-2b, gemma3-1b, phi3-mini, smollm3-3b, olmo2-1b, gpt2, llama-tiny, gpt2-tiny, qwen3-tiny, qwen3-moe-tiny
  [2]
$ tilewright bench
  tilewright: bench: needs a MODEL or --shape, one of them
  [2]
$ tilewright bench models/demo --shape llama-1b
  tilewright: bench: needs a MODEL or --shape, one of them
  [2]
$ tilewright bench models/demo -r 0
  tilewright: -p, -n, -d, -r: out of range
  [2]
$ tilewright bench models/demo -p -1
  tilewright: -p: "-1" is not 1 to 8 lengths with commas between them
  [2]
$ tilewright compile
  tilewright: compile: needs a MODEL or --shape, one of them
  [2]
$ tilewright compile models/demo --target gpu
  tilewright: --target: "gpu" is not cpu, cuda or a target such as sm_90a
  [2]
$ tilewright compile models/demo --workers 99999
  tilewright: --workers: 99999 is not within 0..1024
  [2]
$ tilewright compile models/demo --workers -1
  tilewright: --workers: -1 is not within 0..1024
  [2]
$ tilewright compile models/demo --tokens 0 -o s.json --workers 2
  s.json: 66 instructions for 2 workers, 34 counters, 78 buffers
$ tilewright compile models/demo --tokens -4
  tilewright: tokens: -4 is not within 1..max_seq (1024)
  [2]
$ tilewright check
  tilewright: check: needs S.json (tilewright check --help)
  [2]
$ tilewright check s.json --format onnx
  tilewright: --format: "onnx" is not auto, tilewright, ranges or amk
  [2]
$ tilewright tokenize models/demo
  tilewright: tokenize: needs a TEXT, --golden FILE or --chat MESSAGES.json, one of them
  [2]
$ tilewright tokenize models/demo x --golden g.json
  tilewright: tokenize: needs a TEXT, --golden FILE or --chat MESSAGES.json, one of them
  [2]
$ tilewright ppl models/demo
  tilewright: ppl: -f FILE is needed
  [2]
$ tilewright doctor everything
  tilewright: doctor: too many arguments: "everything" (tilewright doctor --help)
  [2]
# Flags after -- are objects.
$ tilewright tokenize models/demo -- --help
         0  <|begin_of_text|>
        14  -
        14  -
        73  h
       348  el
        81  p
# A value may follow an equals sign.
$ tilewright run models/demo --ids=1 --temp=cold
  tilewright: --temp: "cold" is not a number
  [2]
