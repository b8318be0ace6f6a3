# SPDX-License-Identifier: Apache-2.0
# Many prompts from a file: lines of JSON in, lines of JSON out. On a processor they follow one another.
$ printf '%s\n' '{"prompt": "In the beginning", "n": 8}' '' '{"ids": [0,410,1011,1360,288,260], "id": {"of": "golden"}}' >p.jsonl
$ tilewright run models/demo --prompts p.jsonl -n 3 --quiet >out.jsonl; sed -n 2p out.jsonl
  {"line":3,"id":{"of":"golden"},"text":" land of Egypt","ids":[501,270,739],"prompt_tokens":6,"finish":"length"}
$ head -1 out.jsonl | json - line prompt_tokens finish
  1
  4
  length
$ tilewright run models/demo -p "In the beginning" -n 8 --json >alone; json alone ids >1; head -1 out.jsonl | json - ids >2; cmp 1 2 && echo same
  same
$ tilewright run models/demo --prompts - -n 3 --quiet <p.jsonl | cmp - out.jsonl && echo same
  same
$ tilewright run models/demo --prompts p.jsonl -n 3 2>&1 >/dev/null | sed 's/in [0-9.]* s: [0-9.]*/in T s: N/'
  [2 prompts of 10 tokens and 11 new tokens in T s: N new tokens/s, 1 together]
# Each line draws by the seed that it would have alone.
$ echo '{"prompt": "And it came to pass", "seed": 7}' | tilewright run models/demo --prompts - -n 20 --temp 0.8 --quiet | json - ids >1
> tilewright run models/demo -p "And it came to pass" -s 7 -n 20 --temp 0.8 --json | json - ids >2; cmp 1 2 && echo same
  same
# Chat templates.
$ echo '{"prompt": "What is the sky like?"}' | tilewright run data/chat-model --prompts - --chat -n 4 --quiet | json - ids >1
> tilewright run data/chat-model -p "What is the sky like?" --chat -n 4 --json | json - ids >2; cmp 1 2 && echo same
  same
# A file without prompts.
$ tilewright run models/demo --prompts /dev/null
# What is wrong, and where. Nothing runs before all lines are read.
$ bad() { printf '%s\n' '{"prompt": "x"}' "$1" >bad.jsonl; tilewright run models/demo --prompts bad.jsonl --quiet; }
> bad '{"prompt": "x"'; bad '{"promt": "x"}'; bad '"x"'; bad '{"prompt": "x", "ids": [1]}'; bad '{"prompt": 5}'
> bad '{"ids": "1,2"}'; bad '{"ids": [1, -2]}'; bad '{"ids": []}'; bad '{"prompt": "x", "n": -1}'; bad '{"prompt": "x", "seed": 1.5}'; bad '{"ids": [99999]}'
  tilewright: bad.jsonl:2:14: invalid JSON: '}' expected near end of file
  tilewright: bad.jsonl:2:1: a line is an object with "prompt" or "ids", one of them, and may have "n", "seed" and "id"
  tilewright: bad.jsonl:2:3: invalid JSON: '[' or '{' expected near '"x"'
  tilewright: bad.jsonl:2:1: a line is an object with "prompt" or "ids", one of them, and may have "n", "seed" and "id"
  tilewright: bad.jsonl:2:1: "prompt" is not a text
  tilewright: bad.jsonl:2:1: "ids" is not a list of token ids such as [1, 2, 3]
  tilewright: bad.jsonl:2:1: "ids" is not a list of token ids such as [1, 2, 3]
  tilewright: bad.jsonl:2:1: the prompt has no tokens
  tilewright: bad.jsonl:2:1: "n" is not a whole number within 0..16777216
  tilewright: bad.jsonl:2:1: "seed" is not a whole number within 0..9223372036854775807
  tilewright: bad.jsonl:2:1: token 99999 is not within 0..4095
  [2]
$ echo '{"ids": [1,2,3,4,5]}' | tilewright run models/demo --prompts - -c 4 --quiet
  tilewright: (standard input):1:1: 5 tokens do not fit the context of 4
  [2]
$ echo '{"max_seq": 4}' >four.json; echo '{"ids": [1,2,3,4,5]}' | tilewright run models/demo --prompts - --config four.json --quiet
  tilewright: (standard input):1:1: 5 tokens do not fit the context of 4
  [2]
# A message that the template refuses. What is wrong with the template or the tools is no line's.
$ mkdir m && for f in models/demo/*; do ln -s "$(realpath "$f")" m/; done && rm m/tokenizer_config.json
> cat >m/tokenizer_config.json <<'END'
> {"chat_template": "{% if messages[0].content == 'no' %}{{ raise_exception('never') }}{% endif %}{{ messages[0].content }}"}
> END
$ printf '%s\n' '{"prompt": "yes"}' '{"prompt": "no"}' >said.jsonl; tilewright run m --prompts said.jsonl --chat
  tilewright: said.jsonl:2:1: m/tokenizer_config.json (chat_template):1:55: the template says: never
  [1]
$ tilewright run m --prompts said.jsonl --chat --tools absent.json
  tilewright: absent.json: cannot open: No such file or directory
  [1]
$ tilewright run m --prompts said.jsonl --chat --chat-arg x
  tilewright: --chat-arg: "x" is not NAME=JSON, such as enable_thinking=false
  [2]
$ tilewright run models/demo --prompts said.jsonl --chat
  tilewright: models/demo/tokenizer_config.json: there is no chat_template
  [1]
$ tilewright run models/demo --prompts absent.jsonl
  tilewright: absent.jsonl: cannot open: No such file or directory
  [1]
$ tilewright run models/demo --prompts p.jsonl -p x
  tilewright: run: needs -p TEXT, --ids 1,2,3 or --prompts FILE, one of them
  [2]
$ tilewright run models/demo --prompts p.jsonl --json
  tilewright: run: --prompts writes lines of JSON without --json
  [2]
$ tilewright run models/demo -p x --sequences 4
  tilewright: run: --sequences goes with --prompts
  [2]
$ tilewright run models/demo --prompts p.jsonl --sequences 0
  tilewright: --sequences: 0 is not within 1..128
  [2]
# An interrupt leaves what is complete.
$ printf '%s\n' '{"prompt": "x", "n": 2}' '{"prompt": "x", "n": 1000000}' >long.jsonl
> env --default-signal=INT tilewright run models/demo --prompts long.jsonl -c 100000 --ignore-eos --isa none -t 1 >cut.jsonl 2>said & until [ -s cut.jsonl ]; do sleep 0.1; done
> sleep 0.5; kill -INT $!; wait $!; echo "status $?"; cat said; json cut.jsonl line finish
  status 1
  tilewright: interrupted
  1
  length
