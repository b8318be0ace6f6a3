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
  tilewright: tokenize: needs a TEXT or --golden FILE, one of them
  [2]
$ sed 's/"ids": *\[[0-9]*/"ids": [4095/' models/demo/tokenizer-golden.json >g.json; tilewright tokenize models/demo --golden g.json
  tilewright: g.json: cases[0].ids[0] is 4095, not the end (1 ids, not 0)
  [1]
