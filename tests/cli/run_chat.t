# SPDX-License-Identifier: Apache-2.0
# A chat's prompt is what the template renders, which says itself what is special in it: nothing is put before it.
$ mkdir m && for f in models/demo/*; do ln -s "$(realpath "$f")" m/; done && rm m/tokenizer_config.json
> cat >m/tokenizer_config.json <<'END'
> {"chat_template": "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"}
> END
$ printf '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n' >rendered
> tilewright run m -p Hi --chat -n 0 --json | json - prompt_ids >chat
> tilewright run m -p - -n 0 --json <rendered | json - prompt_ids | sed 's/^\[0,/[/' >plain; cmp chat plain && echo same
  same
# A prompt that is no chat begins with what the tokenizer puts first.
$ tilewright run m -p Hi -n 0 --json | json - prompt_ids
  [0,41,74]
