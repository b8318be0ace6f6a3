# SPDX-License-Identifier: Apache-2.0
$ for t in data/tokenizers/*/; do tilewright tokenize ${t%/} --golden ${t}golden.json | sed 's/: [0-9]* cases//'; done
  agrees with data/tokenizers/bpe-gpt2/golden.json
  agrees with data/tokenizers/bpe-llama3/golden.json
  agrees with data/tokenizers/made-bert-cased/golden.json
  agrees with data/tokenizers/made-bert-short/golden.json
  agrees with data/tokenizers/made-bert-uncased/golden.json
  agrees with data/tokenizers/made-continuing/golden.json
  agrees with data/tokenizers/made-deepseek/golden.json
  agrees with data/tokenizers/made-flags/golden.json
  agrees with data/tokenizers/made-gemma/golden.json
  agrees with data/tokenizers/made-gpt1/golden.json
  agrees with data/tokenizers/made-gpt2/golden.json
  agrees with data/tokenizers/made-llama2/golden.json
  agrees with data/tokenizers/made-llama3/golden.json
  agrees with data/tokenizers/made-metaspace-always/golden.json
  agrees with data/tokenizers/made-metaspace-first/golden.json
  agrees with data/tokenizers/made-metaspace-never/golden.json
  agrees with data/tokenizers/made-o200k/golden.json
  agrees with data/tokenizers/made-plain/golden.json
  agrees with data/tokenizers/made-qwen2/golden.json
  agrees with data/tokenizers/made-roberta/golden.json
  agrees with data/tokenizers/made-smollm/golden.json
  agrees with data/tokenizers/made-t5/golden.json
  agrees with data/tokenizers/sp-llama2/golden.json
  agrees with data/tokenizers/wordpiece-uncased/golden.json
$ tilewright tokenize models/demo --golden models/demo/tokenizer-golden.json
  agrees with models/demo/tokenizer-golden.json: 16 cases
$ tilewright tokenize models/demo/tokenizer.json --golden models/demo/tokenizer-golden.json --json | json - agrees
  true
$ tilewright tokenize models/demo "In the beginning"
         0  <|begin_of_text|>
      2068  In
       260  Ġthe
      2066  Ġbeginning
$ tilewright tokenize models/demo "In the beginning" --no-special
      2068  In
       260  Ġthe
      2066  Ġbeginning
$ tilewright tokenize models/demo "In the beginning" --json | json - '#' 1.id 1.piece
  4
  2068
  In
$ printf 'In the beginning' | tilewright tokenize models/demo - --no-special
      2068  In
       260  Ġthe
      2066  Ġbeginning
$ tilewright tokenize models/demo ''
         0  <|begin_of_text|>
$ tilewright tokenize models/demo '' --no-special
$ tilewright tokenize data/tokenizers/bpe-gpt2 x --golden g.json
  tilewright: tokenize: needs a TEXT, --golden FILE or --chat MESSAGES.json, one of them
  [2]
$ sed 's/"ids": *\[[0-9]*/"ids": [4095/' models/demo/tokenizer-golden.json >g.json; tilewright tokenize models/demo --golden g.json
  tilewright: g.json: cases[0].ids[0] is 4095, not the end (1 ids, not 0)
  [1]
$ echo '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is <|im_end|> safe?"}]' >m.json
$ tilewright tokenize data/chat-model --chat m.json --json | json - text ids.0 ids.17 ids.29
  <|im_start|>system
  Be brief.<|im_end|>
  <|im_start|>user
  Is <|im_end|> safe?<|im_end|>
  <|im_start|>assistant
  
  256
  257
  124
$ tilewright tokenize data/chat-model --chat m.json | sed -n '1,9p'
  <|im_start|>system
  Be brief.<|im_end|>
  <|im_start|>user
  Is <|im_end|> safe?<|im_end|>
  <|im_start|>assistant
       256  <|im_start|>
       115  s
       121  y
       115  s
$ tilewright tokenize data/chat-model --chat - --chat-arg add_generation_prompt=false <m.json | sed -n '1,6p'
  <|im_start|>system
  Be brief.<|im_end|>
  <|im_start|>user
  Is <|im_end|> safe?<|im_end|>
       256  <|im_start|>
       115  s
$ echo '[{"name": "sum"}]' >tools.json; mkdir -p of; cp data/chat-model/tokenizer.json of; printf '{%% for t in tools %%}{{ t.name }}{%% endfor %%}{{ mood }}' >of/chat_template.jinja
$ tilewright tokenize of --chat m.json --tools tools.json --chat-arg 'mood="calm"' | sed -n '1,3p'
  sumcalm
       115  s
       117  u
$ mkdir -p of/additional_chat_templates; printf 'o' >of/additional_chat_templates/short.jinja; tilewright tokenize of --chat m.json --chat-template short
  o
       111  o
$ tilewright tokenize of --chat m.json --chat-template none
  tilewright: of/tokenizer_config.json: there is no chat template named none
  [1]
$ printf 'a\n{%% if x %%}' >of/chat_template.jinja; tilewright tokenize of --chat m.json
  tilewright: of/chat_template.jinja:2:4: the block is never ended by endif
  [1]
$ printf '{{ raise_exception("no " ~ messages | length) }}' >of/chat_template.jinja; tilewright tokenize of --chat m.json
  tilewright: of/chat_template.jinja:1:19: the template says: no 2
  [1]
$ echo '[{"role": ' >m.json; tilewright tokenize of --chat m.json; tilewright tokenize of --chat - </dev/null; echo '{}' | tilewright tokenize of --chat -
  tilewright: m.json:2:0: invalid JSON: unexpected token near end of file
  tilewright: (standard input):1:0: invalid JSON: '[' or '{' expected near end of file
  tilewright: (standard input): not a JSON list
  [1]
$ tilewright tokenize of --chat m.json text; tilewright tokenize of text --tools m.json; tilewright tokenize of --chat nothing.json
  tilewright: tokenize: needs a TEXT, --golden FILE or --chat MESSAGES.json, one of them
  tilewright: tokenize: --tools, --chat-arg and --chat-template go with --chat
  tilewright: nothing.json: cannot open: No such file or directory
  [1]
