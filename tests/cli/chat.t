# SPDX-License-Identifier: Apache-2.0
# A conversation through pipes. What the model says is known: after a line end it thinks, and then it answers.
$ printf 'Hello.\n' | tilewright chat data/chat-model
  [reasoning]
  Let me see.
  
  [answer]
  The sky is blue.
# No prompts, no heading without reasoning; a turn is a line of JSON.
$ printf 'Hello.\nAgain.\n\n   \nOnce more.\n' | tilewright chat data/chat-model --json >t.json; wc -l <t.json | tr -d ' '
> for i in 1 2 3; do sed -n ${i}p t.json | json - answer reasoning finish new_tokens; done
  3
  The sky is blue.
  Let me see.
  eos
  8
  The sky is blue.
  Let me see.
  eos
  8
  The sky is blue.
  Let me see.
  eos
  8
# The cache is kept: every turn but the first reuses all of the prompt before it.
$ before=0; for i in 1 2 3; do sed -n ${i}p t.json >1; [ "$(json 1 reused_tokens)" = $before ] && echo kept; before=$(json 1 prompt_tokens); done
  kept
  kept
  kept
$ printf 'Hello.\nAgain.\n' | tilewright chat data/chat-model --verbose 2>&1 >/dev/null | sed 's/[0-9.]*\/s/N\/s/g'
  [25 prompt tokens, 0 of them kept, the others read at N/s; 8 new at N/s, ended by eos]
  [55 prompt tokens, 25 of them kept, the others read at N/s; 8 new at N/s, ended by eos]
# The shipped model says the same with what it kept as without.
$ mkdir demo && cp data/chat-model/tokenizer_config.json demo && for f in config.json model.safetensors tokenizer.json; do ln -s "$PWD/models/demo/$f" demo; done
> printf 'And it came to pass\nin those days\n/save two.json\nthat the king\n' | tilewright chat demo -n 12 --json >kept.json 2>/dev/null
> printf 'that the king\n' | tilewright chat demo -n 12 --json --load two.json >fresh.json
> sed -n 3p kept.json >3; [ "$(json 3 answer)" = "$(json fresh.json answer)" ] && [ "$(json 3 prompt_tokens)" = "$(json fresh.json prompt_tokens)" ] && echo same
> [ "$(json 3 reused_tokens)" -gt 60 ] && json fresh.json reused_tokens
  (cut at -n tokens)
  same
  0
# Commands. A message with a slash is typed with two; lines that go on, and blocks.
$ printf 'one\n/undo\n/system Be kind.\ntwo \\\n  lines\\\n\n"""\nthree\n\nin a \\ "block"\n"""\n"""in one"""\n//slash\n/save s.json\n/reset\n/save r.json\n' | tilewright chat data/chat-model >/dev/null
> json s.json 0.role 0.content; for i in 1 3 5 7; do json s.json $i.content; done; json s.json 2; json s.json 9; cat r.json
  (the last turn is taken back; 0 messages are left)
  (system message set)
  (9 messages saved in s.json)
  (a new conversation)
  (1 messages saved in r.json)
  system
  Be kind.
  two 
    lines
  
  three
  
  in a \ "block"
  in one
  /slash
  {"role":"assistant","content":"The sky is blue.","reasoning_content":"Let me see."}
  json: nothing at 9
  [
   {
    "role": "system",
    "content": "Be kind."
   }
  ]
$ printf '/help\n' | tilewright chat data/chat-model
    /help                this list
    /system [TEXT]       set the system message; without TEXT, have none
    /undo                take the last turn back
    /reset               forget all but the system message
    /save FILE           write the messages as JSON
    /load FILE           read them
    /set [NAME VALUE]    set a number of the sampling, or n; alone, list them
    /quit                end, as Ctrl-D does
  A line that ends in \ goes on with the next; """ begins and ends a message of many lines.
  A message that begins with a slash is typed with two. Ctrl-C stops an answer.
$ printf '/set top-k 5\n/set temp 0.5\n/set n 3\n/set seed 7\n/set\nHello.\n' | tilewright chat data/chat-model
    temp                 0.5
    top-k                5
    top-p                1
    min-p                0
    repetition-penalty   1
    presence-penalty     0
    frequency-penalty    0
    seed                 7
    n                    3
  [reasoning]
  Let me see.
  (cut at -n tokens)
$ printf '/quit\nHello.\n' | tilewright chat data/chat-model
# What cannot be done is said, and the conversation goes on; the exit status tells.
$ printf '/frob\n/undo\n/set\theat 1\n/set heat 1\n/set temp hot\n/set n 1.5\n/set top-p 2\n/quit now\n/save\n/save nowhere/s.json\n/load nothing.json\ncaf\351\nHello.\n' | tilewright chat data/chat-model --json | json - answer
  tilewright: "/frob" is no command; /help lists them, and // begins a message with a slash
  tilewright: /undo: there is no turn to take back
  tilewright: "/set	heat" is no command; /help lists them, and // begins a message with a slash
  tilewright: /set: "heat" is none of the numbers that /set alone lists
  tilewright: /set temp: "hot" is not a number
  tilewright: /set n: "1.5" is not a whole number
  tilewright: temperature and top-k are not negative; top-p and min-p lie within 0..1
  tilewright: /quit takes nothing behind it
  tilewright: /save: needs a file
  tilewright: nowhere/s.json: cannot write: No such file or directory
  tilewright: nothing.json: cannot open: No such file or directory
  tilewright: the user message is not UTF-8
  The sky is blue.
$ printf '/frob\nHello.\n' | tilewright chat data/chat-model
  tilewright: "/frob" is no command; /help lists them, and // begins a message with a slash
  [reasoning]
  Let me see.
  
  [answer]
  The sky is blue.
  [1]
$ printf 'a\000b\nHello.\n' | tilewright chat data/chat-model --json | json - answer
  tilewright: a message has no NUL characters
  The sky is blue.
$ echo '[{"role": "user"}, 7]' >l.json; echo '{' >m.json; for f in l.json m.json nothing.json; do tilewright chat data/chat-model --load $f </dev/null; done
  tilewright: l.json: message 2 is not an object with a role
  tilewright: m.json:2:0: invalid JSON: string or '}' expected near end of file
  tilewright: nothing.json: cannot open: No such file or directory
  [1]
$ tilewright chat models/demo </dev/null
  tilewright: models/demo/tokenizer_config.json: there is no chat_template
  [1]
$ tilewright chat data/models/llama-biases </dev/null
  tilewright: data/models/llama-biases/tokenizer.json: cannot open: No such file or directory
  [1]
$ tilewright chat data/chat-model --temp -1 </dev/null
  tilewright: temperature and top-k are not negative; top-p and min-p lie within 0..1
  [2]
$ tilewright chat data/chat-model --chat-arg thinking </dev/null; tilewright chat data/chat-model --chat-arg =1 </dev/null; tilewright chat data/chat-model --chat-arg date=1.May </dev/null
  tilewright: --chat-arg: "thinking" is not NAME=JSON, such as enable_thinking=false
  tilewright: --chat-arg: "=1" is not NAME=JSON, such as enable_thinking=false
  tilewright: --chat-arg date: 1.May is not JSON: a number, true, false, null, a list, an object, or a text in double quotes
  [2]
$ tilewright chat data/chat-model --tools nothing.json </dev/null; echo '{}' >tools.json; tilewright chat data/chat-model --tools tools.json </dev/null; echo '[' >tools.json; tilewright chat data/chat-model --tools tools.json </dev/null
  tilewright: nothing.json: cannot open: No such file or directory
  tilewright: tools.json: not a JSON list of tools
  tilewright: tools.json:2:0: invalid JSON: ']' expected near end of file
  [1]
$ tilewright run data/chat-model -p x --system y; tilewright run data/chat-model --chat --ids 1
  tilewright: run: --system, --chat-arg, --tools and --chat-template go with --chat
  tilewright: run: --chat goes with -p or --prompts, not with --ids
  [2]
# The template's variables: thinking off, and begun by the prompt itself; the cache is kept all the same.
$ printf 'Hello.\n' | tilewright chat data/chat-model --chat-arg enable_thinking=false
  The sky is blue.
$ printf 'Hello.\nAgain.\n' | tilewright chat data/chat-model --chat-arg 'begun="<think>"' --json >b.json
> sed -n 2p b.json | json - answer reasoning new_tokens; [ "$(sed -n 2p b.json | json - reused_tokens)" -gt 20 ] && echo kept
  The sky is blue.
  Let me see.
  7
  kept
# What run gives the model is what tokenize shows; special tokens that are typed are text; tools and variables reach the template.
$ ids() { tilewright run data/chat-model --chat -n 0 --json "$@" | json - prompt_ids; }; echo '[{"role": "system", "content": "S"}, {"role": "user", "content": "a<|im_end|>b"}]' >m.json
> ids -p 'a<|im_end|>b' --system S >1; tilewright tokenize data/chat-model --chat m.json --json | json - ids | cmp 1 - && echo same; tr ',' '\n' <1 | grep -c '^257$'
> ids -p x --chat-arg enable_thinking=false | sed 's/.*,\(258,.*\)/\1/'; echo '[{"type": "function", "function": {"name": "f"}}]' >tools.json; [ "$(ids -p x --tools tools.json | wc -c)" -gt "$(($(ids -p x | wc -c) + 100))" ] && echo tools
  same
  2
  258,262,261,262]
  tools
# Templates by name, and those that cannot be evaluated.
$ cp -r data/chat-model named && chmod -R u+w named && mkdir named/additional_chat_templates && printf '%s' '{{ messages[0].content }}' >named/additional_chat_templates/bare.jinja
> tilewright run named --chat --chat-template bare -p 'ab' -n 0 --json | json - prompt_ids; echo Hello. | tilewright chat named --chat-template none
> printf '{%% for m in messages %%}\n  {{ m.content | frob }}{%% endfor %%}' >named/chat_template.jinja; tilewright run named --chat -p x; echo Hello. | tilewright chat named
> printf '{{ 1 +\n }}' >named/chat_template.jinja; tilewright run named --chat -p x; tilewright chat named </dev/null
  [97,98]
  tilewright: named/tokenizer_config.json: there is no chat template named none
  tilewright: named/chat_template.jinja:2:18: there is no filter frob
  tilewright: named/chat_template.jinja:2:18: there is no filter frob
  tilewright: named/chat_template.jinja:2:2: expected an expression, not the end of the tag
  tilewright: named/chat_template.jinja:2:2: expected an expression, not the end of the tag
  [1]
# What a template refuses is taken back, and the conversation goes on.
$ echo '[{"role": "narrator", "content": "Once"}]' >l.json; printf 'Hello.\n/save n.json\n' | tilewright chat data/chat-model --load l.json; json n.json 1
  tilewright: data/chat-model/tokenizer_config.json (chat_template):3:81: the template says: no such role: narrator; the message is taken back
  (1 messages saved in n.json)
  json: nothing at 1
  [1]
# A full context: before a message, which is taken back, and within an answer.
$ { echo Hello.; printf '%060d\n' 0; echo /undo; echo Hi.; echo /save c.json; } | tilewright chat data/chat-model -c 60 --json >c.out; json c.json 0.content 1.content; sed -n 2p c.out | json - finish
  tilewright: the conversation's 109 tokens do not fit the context of 60; the message is taken back: /undo or /reset make room, a larger -c gives more
  (the last turn is taken back; 0 messages are left)
  (2 messages saved in c.json)
  Hi.
  The sky is blue.
  eos
$ echo Hello. | tilewright chat data/chat-model -c 30
  [reasoning]
  Let me see.
  
  [answer]
  The sky
  (the context is full and the answer cut short: /undo or /reset make room, a larger -c gives more)
$ printf 'Hello.\nAgain.\n' | tilewright chat data/chat-model -n 2
  [reasoning]
  Let me
  (cut at -n tokens)
  [reasoning]
  Let me
  (cut at -n tokens)
$ printf 'Hello.\n' | tilewright chat data/chat-model --stop ' is'
  [reasoning]
  Let me see.
  
  [answer]
  The sky
# An interrupt stops the answer and not the program.
$ { echo Hello.; sleep 4; echo '/set n 20'; echo More.; echo /save i.json; } | timeout --foreground --preserve-status -s INT 2 env --default-signal=INT tilewright chat data/chat-model --ignore-eos -c 100000 --json --isa none -t 1 >i.out; echo $?
> json i.json 0.content 2.content; head -1 i.out | json - finish reasoning; tail -1 i.out | json - finish new_tokens; [ "$(head -1 i.out | json - new_tokens)" -gt 20 ] && echo partial
  (stopped)
  (cut at -n tokens)
  (4 messages saved in i.json)
  0
  Hello.
  More.
  aborted
  Let me see.
  length
  20
  partial
# Killed while it saves: the old file, or the new one whole.
$ printf '[{"role": "user", "content": "%08000000d"}]' 0 >big.json; printf '/save whole.json\n' | tilewright chat data/chat-model --load big.json; echo old >s.json
> for delay in 0.02 0.04 0.06 0.08 0.1 0.12 0.15 0.2 0.3; do
>     printf '/save s.json\n' | tilewright chat data/chat-model --load big.json 2>/dev/null & sleep $delay; kill -9 $!; wait $! 2>/dev/null
>     [ "$(head -c 4 s.json)" = old ] || cmp s.json whole.json || echo torn at $delay
> done 2>/dev/null; echo done
  (1 messages saved in whole.json)
  done
