# SPDX-License-Identifier: Apache-2.0
# A conversation on a terminal: editing, history, Ctrl-C and Ctrl-D.
$ cat >edit <<'END'
> expect (/help lists the commands)
> prompt
> send helo\e[Dl\r
> expect \e[2m[reasoning]
> expect Let me see.\e[0m
> expect [answer]
> expect The sky is blue.
> prompt
> send caf\303\251\303\251\177!\r
> expect blue.
> prompt
> send two\\\r
> expect . 
> send lines\r
> expect blue.
> prompt
> send /save edit.json\r
> expect (6 messages saved
> prompt
> send \004
> end 0
> END
> export TILEWRIGHT_CACHE="$PWD/cache"; pty tilewright chat data/chat-model <edit; for i in 0 2 4; do json edit.json $i.content; done
  hello
  café!
  two
  lines
# The lines of the last time are there again: up, twice.
$ cat >again <<'END'
> prompt
> send \e[A
> expect /save edit.json
> send \e[A
> expect lines
> send \r
> expect blue.
> prompt
> send /save again.json\r
> expect saved
> prompt
> send /quit\r
> end 0
> END
> export TILEWRIGHT_CACHE="$PWD/cache"; pty tilewright chat data/chat-model <again; json again.json 0.content; ls -l cache/chat-history | cut -c1-10
  lines
  -rw-------
$ cat >none <<'END'
> prompt
> send \e[A\r
> never edit.json
> send /quit\r
> end 0
> END
> export TILEWRIGHT_CACHE="$PWD/cache"; cp cache/chat-history before; pty tilewright chat data/chat-model --no-history <none; cmp before cache/chat-history
# Ctrl-C stops the answer, and what came stays; the line is dropped at the prompt; twice at an empty prompt it ends.
$ cat >cut <<'END'
> prompt
> send Hello.\r
> expect blue.
> send \003
> expect (stopped)
> prompt
> send /save cut.json\r
> expect (2 messages saved
> prompt
> send nonsense
> expect nonsense
> send \003
> expect ^C
> never once more
> prompt
> send \003
> expect (once more ends the conversation
> prompt
> send /set n 9\r
> prompt
> send \003
> expect (once more
> prompt
> send \003
> end 0
> END
> pty tilewright chat data/chat-model --no-history --ignore-eos -c 100000 --isa none -t 1 <cut; json cut.json 0.content 1.reasoning_content 1.content | cut -c1-16 | head -3
  Hello.
  Let me see.
  The sky is blue.
# A mistake is told, and no more; the input's end ends it well.
$ cat >wrong <<'END'
> prompt
> send /frob\r
> expect "/frob" is no command
> prompt
> send \004
> end 0
> END
> pty tilewright chat data/chat-model --no-history <wrong
# A terminal to type on, and results elsewhere: no prompt and no escapes among them.
$ cat >aside <<'END'
> prompt
> send Hello.\r
> prompt
> send \004
> end 0
> END
> pty sh -c 'tilewright chat data/chat-model --no-history >out' <aside; cat out
  [reasoning]
  Let me see.
  
  [answer]
  The sky is blue.
  
# Ended by a signal while it waits.
$ printf 'prompt\nkill 15\nend 143\n' | pty tilewright chat data/chat-model --no-history
