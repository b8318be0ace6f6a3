# SPDX-License-Identifier: Apache-2.0
# Bad files: exit status 1, and lines that name the file and the place.
$ tilewright run nowhere -p x
  tilewright: nowhere: not a directory
  [1]
$ tilewright run models -p x
  tilewright: models/config.json: cannot open: No such file or directory
  [1]
$ tilewright run models/demo/config.json -p x
  tilewright: models/demo/config.json: not a directory
  [1]
$ tilewright verify nowhere
  tilewright: nowhere: not a directory
  [1]
$ tilewright bench nowhere
  tilewright: nowhere: not a directory
  [1]
$ tilewright compile nowhere
  tilewright: nowhere: not a directory
  [1]
$ tilewright ppl nowhere -f models/demo/heldout.txt
  tilewright: nowhere: not a directory
  [1]
$ tilewright tokenize nowhere x
  tilewright: nowhere: cannot open: No such file or directory
  [1]

# A model without a tokenizer runs on ids alone.
$ tilewright run data/models/llama-biases -p hello
  tilewright: data/models/llama-biases/tokenizer.json: cannot open: No such file or directory
  [1]
$ tilewright run data/models/llama-biases --ids 1,2 -n 3 --stop x
  tilewright: data/models/llama-biases: no tokenizer.json: ids only
  tilewright: stop strings need a tokenizer
  [2]
$ tilewright run data/models/llama-biases -p hello --chat
  tilewright: data/models/llama-biases/tokenizer.json: cannot open: No such file or directory
  [1]
$ tilewright ppl data/models/llama-biases -f models/demo/heldout.txt
  tilewright: data/models/llama-biases/tokenizer.json: cannot open: No such file or directory
  [1]
$ tilewright run models/demo -p hello --chat
  tilewright: models/demo/tokenizer_config.json: there is no chat_template
  [1]
$ tilewright ppl models/demo -f nothing.txt
  tilewright: nothing.txt: cannot open: No such file or directory
  [1]
$ tilewright ppl models/demo -f models
  tilewright: models: cannot read: Is a directory
  [1]

# Weights that are not what their header says. The first 8 bytes are the header's size.
$ cp -r data/models/llama-biases m && chmod -R u+w m && cp m/model.safetensors whole
$ head -c 5000 whole >m/model.safetensors; tilewright verify m
  tilewright: m/model.safetensors:40: lm_head.weight: ends at data byte 65536, but the file has 1488; is it truncated?
  [1]
$ head -c 5 whole >m/model.safetensors; tilewright verify m
  tilewright: m/model.safetensors:0: 5 bytes are too few for a safetensors file
  [1]
$ : >m/model.safetensors; tilewright verify m
  tilewright: m/model.safetensors:0: 0 bytes are too few for a safetensors file
  [1]
$ { printf '\377\377\377\177\0\0\0\0'; tail -c +9 whole; } >m/model.safetensors; tilewright verify m
  tilewright: m/model.safetensors:0: a header of 2147483647 bytes; the format allows 100000000
  [1]
$ { printf '\377\377\377\377\377\377\377\377'; tail -c +9 whole; } >m/model.safetensors; tilewright verify m
  tilewright: m/model.safetensors:0: a header of 18446744073709551615 bytes; the format allows 100000000
  [1]
$ { head -c 8 whole; printf '['; tail -c +10 whole; } >m/model.safetensors; tilewright verify m
  tilewright: m/model.safetensors:8: the header does not start with {
  [1]
$ sed 's/"F32"/"F99"/' whole >m/model.safetensors; tilewright verify m 2>&1 | head -3
  tilewright: m/model.safetensors:40: lm_head.weight: dtype F99 is not one of the format
$ sed 's/"data_offsets":\[0,/"data_offsets":[8,/' whole >m/model.safetensors; tilewright verify m 2>&1 | head -3
  tilewright: m/model.safetensors:40: lm_head.weight: data_offsets hold 65528 bytes, its shape and dtype 65536
$ rm m/model.safetensors; tilewright verify m
  tilewright: m: has neither model.safetensors nor model.safetensors.index.json
  [1]
$ mkdir m/model.safetensors; tilewright verify m; rmdir m/model.safetensors; cp whole m/model.safetensors
  tilewright: m/model.safetensors: not a regular file

# A missing file does not hide what the config is refused for.
$ mkdir half && sed 's/"hidden_act": "silu"/"hidden_act": "snake"/; s/"hidden_size": 64/"hidden_size": 64, "magic": 1/' data/models/llama-biases/config.json >half/config.json
$ tilewright run half --ids 1
  tilewright: half: magic: 1 is not understood, and may change the arithmetic
  tilewright: half: hidden_act: snake is not supported
  tilewright: half: has neither model.safetensors nor model.safetensors.index.json
  [1]
$ cp data/models/llama-llama3-sharded/* half; rm half/model-0000[13]*; tilewright run half --ids 1
  tilewright: half: model-00001-of-00003.safetensors is missing, which the index names
  tilewright: half: model-00003-of-00003.safetensors is missing, which the index names
  [1]

# The config.
$ sed 's/"hidden_size": 64/"hidden_size": 64,,/' data/models/llama-biases/config.json >m/config.json; tilewright verify m
  tilewright: m/config.json:12:21: invalid JSON: string or '}' expected near ','
  [1]
$ sed 's/"hidden_size": 64/"hidden_size": "64"/' data/models/llama-biases/config.json >m/config.json; tilewright verify m
  tilewright: m: hidden_size: 64 is not an integer from 1 to 1048576
  [1]
$ sed 's/"hidden_size": 64/"hidden_size": 63/' data/models/llama-biases/config.json >m/config.json; tilewright verify m 2>&1 | head -5
  tilewright: m: model.embed_tokens.weight is [256, 64], not [256, 63]
  tilewright: m: model.norm.weight is [64], not [63]
  tilewright: m: lm_head.weight is [256, 64], not [256, 63]
  tilewright: m: layer 0: input_layernorm.weight is [64], not [63]
  tilewright: m: layer 0: self_attn.q_proj.weight is [96, 64], not [96, 63]
$ sed 's/LlamaForCausalLM/OrcaForCausalLM/; s/"llama"/"orca"/' data/models/llama-biases/config.json >m/config.json; tilewright verify m
  tilewright: m: model_type: orca is not supported; supported: llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, gpt2, gemma, gemma2, gemma3_text, phi3, smollm3, olmo2
  [1]
$ sed 's/"hidden_act": "silu"/"hidden_act": "snake"/' data/models/llama-biases/config.json >m/config.json; tilewright verify m
  tilewright: m: hidden_act: snake is not supported
  [1]
$ echo '[1, 2]' >m/config.json; tilewright verify m
  tilewright: m/config.json: not a JSON object
  [1]
$ : >m/config.json; tilewright verify m
  tilewright: m/config.json:1:0: invalid JSON: '[' or '{' expected near end of file
  [1]
$ cp data/models/llama-biases/config.json m/config.json; tilewright verify m | sed 's/, logits.*//'
  agrees with m/golden.json: 4 cases, 128 greedy tokens equal

# The tokenizer.
$ mkdir t && cp models/demo/tokenizer.json t
$ head -c 1000 models/demo/tokenizer.json >t/tokenizer.json; tilewright tokenize t x
  tilewright: t/tokenizer.json:45:15: invalid JSON: premature end of input near '"post_process'
  [1]
$ echo '{"version": "1.0"}' >t/tokenizer.json; tilewright tokenize t x
  tilewright: t/tokenizer.json: tokenizer.model is missing, not an object
  [1]
$ sed 's/"ByteLevel"/"BiteLevel"/' models/demo/tokenizer.json >t/tokenizer.json; tilewright tokenize t x
  tilewright: t/tokenizer.json: pre_tokenizer[1]: the pre-tokenizer BiteLevel is not supported
  tilewright: t/tokenizer.json: decoder: the decoder BiteLevel is not supported
  [1]
$ rm t/tokenizer.json; tilewright tokenize t x
  tilewright: t/tokenizer.json: cannot open: No such file or directory
  [1]
$ printf 'caf\351' | tilewright tokenize models/demo -
  tilewright: (standard input):3: not UTF-8
  [1]
$ printf 'caf\351' >bad.txt; tilewright ppl models/demo -f bad.txt
  tilewright: bad.txt:3: not UTF-8
  [1]
$ printf 'caf\351' | tilewright run models/demo -p -
  tilewright: (standard input):3: not UTF-8
  [1]

# References.
$ tilewright verify models/demo --golden nothing.json
  tilewright: nothing.json: cannot open: No such file or directory
  [1]
$ echo '{"cases": [{]}' >g.json; tilewright verify models/demo --golden g.json
  tilewright: g.json:1:13: invalid JSON: string or '}' expected near ']'
  [1]
$ echo '{"cases": []}' >g.json; tilewright verify models/demo --golden g.json
  tilewright: g.json: there are no cases
  [1]
$ echo '{}' >g.json; tilewright tokenize models/demo --golden g.json
  tilewright: g.json: no list of cases
  [1]
$ echo '{"cases": [{"prompt": [1, "two"], "greedy": []}]}' >g.json; tilewright verify models/demo --golden g.json
  tilewright: g.json: cases[0]: an id is not an integer within the vocabulary
  [1]
$ echo '{"cases": [{"prompt": [999999], "greedy": []}]}' >g.json; tilewright verify models/demo --golden g.json
  tilewright: g.json: cases[0]: an id is not an integer within the vocabulary
  [1]
$ echo '{"cases": [{"prompt": [1], "greedy": [], "logits_last": [1, 2]}]}' >g.json; tilewright verify models/demo --golden g.json
  tilewright: g.json: cases[0]: logits_last has not as many values as the vocabulary
  [1]

# Schedules.
$ tilewright check nothing.json
  tilewright: nothing.json: cannot open: No such file or directory
  [1]
$ tilewright check models
  tilewright: models: cannot read: Is a directory
  [1]
$ tilewright check models/demo/config.json
  tilewright: models/demo/config.json: schedule: not a schedule: no tilewright_schedule field
  [1]
$ tilewright run models/demo -p x --schedule nothing.json
  tilewright: nothing.json: cannot open: No such file or directory
  [1]
$ printf '{\n "tokens": 1,\n "max_seq" 8}\n' >s.json; tilewright check s.json
  tilewright: s.json:3:12: invalid JSON: ':' expected near '8'
  [1]
$ : | tilewright check -
  tilewright: -:1:0: invalid JSON: '[' or '{' expected near end of file
  [1]

# Configurations of the lowering.
$ tilewright compile models/demo --config nothing.json
  tilewright: nothing.json: cannot open: No such file or directory
  [1]
$ echo '{"wrokers": 2}' >c.json; tilewright compile models/demo --config c.json
  tilewright: c.json: wrokers: unknown field
  [1]
$ echo '{"workers": "two"}' >c.json; tilewright compile models/demo --config c.json
  tilewright: c.json: workers: not a whole number within 0..1024
  [1]
$ echo '{"workers": 2,' >c.json; tilewright compile models/demo --config c.json
  tilewright: c.json:2:0: invalid JSON: string or '}' expected near end of file
  [1]

# Where nothing can be written.
$ mkdir folder
$ tilewright compile models/demo --workers 2 -o nowhere/s.json
  tilewright: nowhere/s.json: cannot write: No such file or directory
  [1]
$ tilewright compile models/demo --workers 2 -o folder
  tilewright: folder: cannot write: Is a directory
  [1]
