# SPDX-License-Identifier: Apache-2.0
"""Templates of our own, in the manner of those that models have, for make_chat_cases.py."""

# ---------------------------------------------------------------- in the manner of models

TURN = """{%- for message in messages %}
%s    {{- "<|im_start|>" ~ message.role + "\\n" + message.content }}{{ "<|im_end|>\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>' + "assistant\\n" }}{% endif %}
"""
FIRST = """{%% if loop.first and messages[0].role != "system" -%%}
<|im_start|>system
%s<|im_end|>
{%% endif %%}
"""
ALTERNATE = "{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('out of turn') }}{%- endif %}"
INSTRUCT = """{{- bos_token }}{#- no system messages -#}
{%- for message in messages %}""" + ALTERNATE + """
    {%- if message.role == "user" %}{{- "[INST] " + message.content + " [/INST]" }}
    {%- elif message.role == "assistant" %}{{- message.content ~ eos_token%s }}
    {%- else %}{{ raise_exception("only user and assistant") }}{%- endif %}
{%- endfor %}"""
CHATS = {
    "chatml": [TURN.replace("%s", "")],
    "qwen2": [TURN.replace("%s", FIRST % "You are a helpful assistant.")],
    "smollm2": [TURN.replace("%s", FIRST % "You are a helpful AI assistant named SmolLM, trained by Hugging Face")],
    "llama2": ["""{%- if messages[0].role == 'system' %}
  {%- set loop_messages = messages[1:] %}{%- set system_message = messages[0].content %}
{%- else %}
  {%- set loop_messages = messages %}{%- set system_message = false %}
{%- endif -%}
{%- for message in loop_messages -%}
  """ + ALTERNATE + """
  {%- if loop.index0 == 0 and system_message != false %}
    {%- set content = "<<SYS>>\\n" + system_message + "\\n<</SYS>>" + "\\n\\n" + message.content %}
  {%- else %}{%- set content = message.content %}{%- endif %}
  {%- if message.role == "user" -%} {{ bos_token }}[INST] {{ content.strip() }} [/INST]
  {%- elif message.role == "assistant" %}{{- " " + content.strip() }}{{ ' ' + eos_token }}{% endif %}
{%- endfor -%}
"""],
    "llama3": ["""{%- set loop_messages = messages %}
{%- for message in loop_messages %}
    {%- set content = "<|start_header_id|>" + message.role + "<|end_header_id|>\\n\\n" + message.content | trim + "<|eot_id|>" %}
    {%- if loop.index0 == 0 %}{%- set content = bos_token + content %}{%- endif %}
    {{- content }}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<|start_header_id|>assistant<|end_header_id|>\\n\\n" }}{%- endif %}
"""],
    "mistral": [INSTRUCT.replace("%s", "")],
    "mistral-v0.1": [INSTRUCT.replace("%s", ' + " "')],
    "zephyr": ["""{%- for message in messages %}
    {%- if message.role == "user" %}
        {{- "<|user|>\\n" + message.content + eos_token + "\\n" }}
    {%- elif message.role == "system" %}
        {{- "<|system|>\\n" + message.content + eos_token + "\\n" }}
    {%- elif message.role == "assistant" %}
        {{- "<|assistant|>\\n" + message.content + eos_token + "\\n" }}
    {%- endif %}
    {%- if loop.last and add_generation_prompt %}{{- "<|assistant|>\\n" }}{%- endif %}
{%- endfor %}"""],
}

MODELS = [text for texts in CHATS.values() for text in texts]

# ---------------------------------------------------------------- one construct a template

CONSTRUCTS = [
    'hello',
    '{{ 1 + 2 }}|{{ 7 // 2 }}|{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 7.5 // 2 }}|{{ -7.5 % 2 }}|{{ 2 ** 10 }}|{{ 2 ** -1 }}|{{ 10 / 4 }}|{{ 6 / 3 }}',
    '{{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e15 }} {{ 123456789012345678 }} {{ 1.0 }} {{ 1e-5 }} {{ 0.0001 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ -0.0 }} {{ 100.0 }} {{ 12345.678 }}',
    "{{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1,'x'] ~ {'a': 1} ~ (1,) ~ (1,2) ~ () }}",
    '{{ messages }}',
    '{{ messages | tojson }}',
    '{{ messages | tojson(indent=2) }}',
    "{{ tools | tojson(indent=4, sort_keys=true) }}{{ tools|tojson(separators=(',', ':')) }}{{ tools|tojson(ensure_ascii=true) }}",
    '{% for m in messages %}{{ loop.index }}/{{ loop.length }} {{ loop.first }} {{ loop.last }} {{ loop.revindex }} {{ m.role }}: {{ m.content }}\n{% endfor %}',
    "{% for m in messages -%}\n   {{ m['content'] }}\n{%- endfor %}",
    '{% set ns = namespace(x=1) %}{% for m in messages %}{% set ns.x = ns.x + loop.index %}{% endfor %}{{ ns.x }} {{ ns }}',
    '{{ messages[0].content[1:5] }}|{{ messages[0].content[::-1] }}|{{ messages[::-1][0].role }}|{{ messages[-1].role }}|{{ messages[5] }}|{{ messages[5] is defined }}',
    "{{ 'a' if false }}|{{ 'a' if true else 'b' }}|{{ x }}|{{ x is defined }}|{{ x|default('d') }}|{{ none|default('d') }}|{{ none|default('d', true) }}",
    '{{ x.y }}',
    '{{ messages[0].nope }}|{{ messages[0].nope.x }}',
    '{% macro m(a, b=2, c=a) %}[{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}]{% endmacro %}{{ m(1) }}{{ m(1,3,4,5,z=6) }}{{ m(b=1) }}{{ m.name }}{{ m.arguments }}{{ m }}',
    "{% macro c() %}<{{ caller('q') }}>{% endmacro %}{% call(x) c() %}in {{ x }}{% endcall %}",
    "{% filter upper %}abc {{ 'd' }}{% endfilter %}{% set x %}  hi {% endset %}[{{ x }}]{% set y | trim | upper %}  hi {% endset %}[{{ y }}]",
    '{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% else %}E{% endfor %}|{% for i in [] %}{% else %}E{% endfor %}|{% for i in [1] %}{% break %}{% else %}E{% endfor %}',
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}{% for k in {'a':1} %}{{ k }}{% endfor %}{{ {'a':1}.keys() }}{{ {'a':1}.values() }}{{ {'a':1}.items() }}",
    '{% set a, b = 1, 2 %}{{ a }}{{ b }}{% with c=a, d=5 %}{{ c }}{{ d }}{% endwith %}{{ c }}',
    '{% raw %}{{ x }}{% endraw %}{# comment #}X{#- c -#} Y',
    '{{ \'abc\'|upper }} {{ \'ABC\'|lower }} {{ \'hello world-foo\'|title }} {{ \'hELLO\'|capitalize }} {{ \'a b\'.title() }} {{ "it\'s"|title }} {{ \'ß\'|upper }} {{ \'ΑΣ\'|lower }}',
    "{{ ' a b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a b c'.rsplit(maxsplit=1) }} {{ ' a  b '.split(none, 1) }} {{ 'a\\nb\\r\\nc'.splitlines() }}",
    "{{ [3,1,2]|sort }} {{ ['b','A','c']|sort }} {{ ['b','A','c']|sort(case_sensitive=true) }} {{ [1,2,3]|sum }} {{ [1,2]|max }} {{ ['a','B']|min }} {{ [1,2,3]|first }} {{ [1,2]|last }} {{ []|first }}",
    "{{ messages|map(attribute='role')|join(', ') }} {{ messages|selectattr('role','equalto','user')|list|length }} {{ [1,2,3,4]|select('odd')|list }} {{ [1,2,3]|reject('odd')|list }} {{ messages|rejectattr('tool_calls')|map(attribute='role')|list }}",
    "{{ 'x' is string }} {{ 1 is number }} {{ [] is sequence }} {{ {} is mapping }} {{ 1 is odd }} {{ 4 is divisibleby 2 }} {{ x is undefined }} {{ none is none }} {{ 1 is not none }} {{ 'a' in 'abc' }} {{ 1 in [1] }} {{ 'a' not in {} }}",
    "{{ '%s-%d-%05.2f-%x' % ('a', 3, 2.5, 255) }} {{ '%(a)s' % {'a': 1} }} {{ '{} {1}'.format(1, 2) }}",
    "{{ '{} {}'.format(1, 2) }} {{ '{0}{1}{0}'.format(1, 2) }} {{ '{a.b}'.format(a={'b':1}) }} {{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}'.format('a','b','c',4,3.14159,1234567) }}",
    '{{ "a\\tb\\x41\\u00e9\\n" }} {{ \'a\' \'b\' }} {{ \'é\\é\' }}',
    "{{ strftime_now('%Y-%m-%d %H:%M') }} {{ raise_exception('x') }}",
    "{{ strftime_now('%Y-%m-%d %H:%M %j %b %A') }}",
    "{{ 42.55|round }} {{ 42.55|round(1) }} {{ 2.5|round }} {{ 42.55|round(1,'floor') }} {{ 42|round }} {{ 1234|round(-2) }} {{ '12'|int }} {{ '1x'|int(7) }} {{ 3.9|int }} {{ '3.5'|float }} {{ '0x1f'|int(base=16) }}",
    "{{ [1,2,3,4,5]|batch(2)|list }} {{ [1,2,3,4,5]|batch(2,'x')|list }} {{ [1,2,3,4,5]|slice(2)|list }} {{ [1,2,3]|slice(2,'f')|list }}",
    "{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9,true) }} {{ 'foo bar baz qux'|wordwrap(7) }} {{ 'a\\nb\\n\\nc'|indent }} {{ 'a\\nb\\n\\nc'|indent(2,true,true) }}",
    '{{ \'<a href="x">b</a>\'|e }} {{ \'<b>x</b>\'|striptags }} {{ \'<\'|safe }} {{ (\'<\'|safe) + \'>\' }} {{ {\'a\':1,\'b\':none}|xmlattr }} {{ \'a b/ü?\'|urlencode }} {{ {\'a b\':\'c d\'}|urlencode }}',
    "{{ {'b':1,'a':2}|dictsort }} {{ [{'a':1,'b':2},{'a':1,'b':3},{'a':2,'b':4}]|groupby('a') }} {% for g in [{'a':1}]|groupby('a') %}{{ g.grouper }}{{ g.list }}{% endfor %}",
    "{{ [1,1,2]|unique|list }} {{ [1,2,3]|reverse|list }} {{ 'abc'|reverse }} {{ 'a b c'|wordcount }} {{ 'x'|center(5) }}| {{ 'abc'|list }} {{ 5|string }} {{ -5|abs }} {{ ('a'|attr('upper'))() }}",
    "{% set c = cycler('a','b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner('|') %}{{ j() }}a{{ j() }}b{% for i in range(3) %}{{ loop.cycle('x','y') }}{{ loop.changed(i//2) }}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}",
    '{% for i in [1,[2,[3]]] recursive %}{% if i is number %}{{ i }}@{{ loop.depth }}{% else %}({{ loop(i) }}){% endif %}{% endfor %}',
    '{% generation %}abc{{ bos_token }}{% endgeneration %}{{ eos_token }}',
    '{{ messages.append(1) }}',
    "{{ dict(a=1, b=2) }} {{ dict([('a',1)]) }} {{ range(5) }} {{ range(1,10,3)|list }} {{ range(5)[1:3] }}",
    "{% set loop_messages = messages[1:] %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}{% endif %}{{ message.content | trim }}{% endfor %}",
    '{% for i in [1] %}{{ y }}{% endfor %}{% set y = 2 %}{{ y }}',
    '{% if true %}{% set z = 1 %}{% endif %}{{ z }}{% for i in [1,2] %}{% set z = z + i %}{{ z }}{% endfor %}{{ z }}',
    "{{ true and 1 }} {{ 0 or 'x' }} {{ not 1 }} {{ 1 < 2 < 3 }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ 1 == true }} {{ {'a':1} == {'a':1.0} }}",
    "{{ 'x'.join(['a','b']) }} {{ 'aXbX'.replace('X','-',1) }} {{ 'abc'.find('c') }} {{ 'abcabc'.rfind('c') }} {{ 'abc'.startswith(('x','a')) }} {{ 'a'.zfill(3) }} {{ 'ab'.ljust(4) }}| {{ 'x'.center(4,'*') }} {{ 'abc'.removeprefix('a') }} {{ 'aab'.count('a') }} {{ 'abc'.partition('b') }}",
]

TEMPLATES = MODELS + CONSTRUCTS
