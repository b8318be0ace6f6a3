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

# Reasoning that only the last turn keeps, tools as JSON lines, a switch for thinking.
THINKER = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# What you can call\\n\\nEach line is one function:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\nAnswer with <tool_call>{\\"name\\": ..., \\"arguments\\": ...}</tool_call><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(open=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.open and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.open = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last %}
            {%- if loop.last or (not loop.last and reasoning) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if call.function %}
                    {%- set call = call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- call.name }}
                {{- '", "arguments": ' }}
                {%- if call.arguments is string %}
                    {{- call.arguments }}
                {%- else %}
                    {{- call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

# A date, tools in the first user message, Python's spelling of what is not a string.
HEADERS = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\\n\\n"}}
{%- endif %}
{{- "Known until: long ago\\nToday: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("No first user message to put the tools in!") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
    {{- "These functions may help. Answer with JSON: " }}
    {{- '{"name": function name, "parameters": names and values}.\\n\\n' }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one call at a time") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {%- if builtin_tools is defined and tool_call.name in builtin_tools %}
            {{- "<|python_tag|>" + tool_call.name + ".call(" }}
            {%- for arg_name, arg_val in tool_call.arguments | items %}
                {{- arg_name + '="' + arg_val + '"' }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- endif %}
            {%- endfor %}
            {{- ")" }}
        {%- else %}
            {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + tool_call.name + '", ' }}
            {{- '"parameters": ' }}
            {{- tool_call.arguments | tojson }}
            {{- "}" }}
        {%- endif %}
        {%- if builtin_tools is defined %}
            {{- "<|eom_id|>" }}
        {%- else %}
            {{- "<|eot_id|>" }}
        {%- endif %}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

# Turns checked with a namespace, calls with ids, tools before the last user message, key by key.
CALLER = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, roles must alternate user/assistant") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if tool_call.id is defined and tool_call.id|length != 9 %}
                {{- raise_exception("ids have nine letters or digits") }}
            {%- endif %}
            {{- ', "id": "' + (tool_call.id or 'abcdefghi') + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
"""

# One line with flags in a namespace; system messages gathered first.
GATHERER = """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='', is_first_sp=true) %}{%- for message in messages %}{%- if message['role'] == 'system' %}{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}{%- else %}{% set ns.system_prompt = ns.system_prompt + '\\n\\n' + message['content'] %}{%- endif %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<|User|>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' in message %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls'] %}{%- if not ns.is_first %}{%- if message['content'] is none %}{{'<|Assistant|><|calls|><|call|>' + tool['type'] + '<|sep|>' + tool['function']['name'] + '\\n' + '```json' + '\\n' + tool['function']['arguments']|tojson + '\\n' + '```' + '<|end|>'}}{%- else %}{{'<|Assistant|>' + message['content'] + '<|calls|>'}}{%- endif %}{%- set ns.is_first = true -%}{%- else %}{{'\\n' + '<|call|>' + tool['type']}}{%- endif %}{%- endfor %}{{'<|calls_end|>'}}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is not none and 'tool_calls' not in message %}{%- if ns.is_tool %}{{'<|outputs_end|>' + message['content'] + eos_token}}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<|Assistant|>' + content + eos_token}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<|outputs|><|output|>' + message['content'] + '<|output_end|>'}}{%- set ns.is_output_first = false %}{%- else %}{{'<|output|>' + message['content']}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'<|outputs_end|>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<|Assistant|><think>\\n'}}{% endif %}"""

# Other names for roles; a content of parts; the system message joins the first turn.
TURNS = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set prefix = "" -%}
    {%- set rest = messages -%}
{%- endif -%}
{%- for message in rest -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + (prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\\n'}}
{%- endif -%}
"""

# Tokens made of roles.
PIPES = """{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}{{ '<|' + message['role'] + '|>' + (message['content'] or '') ~ '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}"""

# A schema written out as types, by macros that call each other.
TYPES = """{%- macro type_of(spec, depth=0) -%}
    {%- if spec.enum is defined -%}
        {%- for e in spec.enum %}{{ '"' ~ e ~ '"' }}{{ " | " if not loop.last }}{% endfor -%}
    {%- elif spec.type == "string" -%}string
    {%- elif spec.type in ["integer", "number"] -%}number
    {%- elif spec.type == "boolean" -%}boolean
    {%- elif spec.type == "array" -%}
        {{- type_of(spec['items'], depth + 1) if spec['items'] else "any" }}[]
    {%- elif spec.type == "object" -%}
        {{- object_of(spec, depth) }}
    {%- else -%}any
    {%- endif -%}
{%- endmacro -%}
{%- macro object_of(spec, depth=0) -%}
    {{- "{\\n" }}
    {%- set required = spec.required or [] -%}
    {%- for name, inner in spec.properties | default({}) | items -%}
        {%- if inner.description -%}{{ "  " * depth + "// " + inner.description ~ "\\n" }}{%- endif -%}
        {{- "  " * depth ~ name ~ ("?" if name not in required) ~ ": " ~ type_of(inner, depth + 1) -}}
        {{- ",\\n" if not loop.last else "\\n" -}}
    {%- endfor -%}
    {{- "}" -}}
{%- endmacro -%}
<|start|>system<|message|>
{%- if tools %}
# Tools

namespace functions {
{% for tool in tools %}
{%- set f = tool.function %}
// {{ f.description | replace("\\n", "\\n// ") }}
type {{ f.name }} = (_: {{ object_of(f.parameters, 1) }}) => any;

{% endfor -%}
}
{%- endif -%}
<|end|>
{%- for m in messages -%}
    {{- "<|start|>" ~ m.role -}}
    {%- if m.thinking and not loop.last -%}
        {{- "<|channel|>analysis<|message|>" ~ m.thinking ~ "<|end|><|start|>" ~ m.role -}}
    {%- endif -%}
    {{- "<|message|>" ~ (m.content if m.content is string else m.content | tojson) ~ "<|end|>" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}
"""

# What the assistant says is marked as such; blocks set, filtered, called.
MARKED = """{% set intro %}
You are {{ name | default('a helper') }}.
{% endset %}
{% macro turn(role) -%}
<|{{ role }}|>
{{ caller() | trim }}
<|/{{ role }}|>
{% endmacro %}
{% call turn('system') %}{{ intro }}{% endcall %}
{% for message in messages if message.role != 'system' %}
{% if message.role == 'assistant' %}
{% generation %}{% call turn(message.role) %}{{ message.content or '...' }}{% endcall %}{% endgeneration %}
{% else %}
{% call turn(message.role) %}{{ message.content }}{% endcall %}
{% endif %}
{% endfor %}
{% filter upper %}{% if add_generation_prompt %}<|assistant|>{% endif %}{% endfilter %}
"""

# Functions listed with a loop in a loop, documents, break and continue.
GROUNDED = """{{ bos_token }}{% set ns = namespace(n=0, seen=[]) -%}
{% for message in messages -%}
    {%- if message.role in ns.seen and message.role == 'system' %}{% continue %}{% endif -%}
    {%- set ns.seen = ns.seen + [message.role] -%}
    {%- set ns.n = ns.n + 1 -%}
    {%- if ns.n > 4 %}{% break %}{% endif -%}
    [{{ loop.index }}/{{ loop.length }}] {{ message.role | capitalize }}:
    {%- for part in ([message.content] if message.content is string else message.content or []) %}
        {{- ' ' }}{{ part if part is string else part.text | default('<' ~ part.type ~ '>') }}
    {%- else %} (nothing)
    {%- endfor %}{{ '\\n' }}
{%- endfor %}
{% for d in documents or [] %}Document {{ loop.index0 }}: {{ d.title }}
{% else %}No documents.
{% endfor -%}
{% for tool in tools or [] recursive %}{{ '- ' * loop.depth }}{{ tool.function.name if tool.function else tool }}
{% if tool.function %}{{ loop(tool.function.parameters.properties | list) }}{% endif %}{% endfor %}
{{ ns.seen | unique | sort | join('+') }} {{ messages | map(attribute='role') | map('first') | join }} {{ messages | groupby('role') | map(attribute='grouper') | list }}
"""

# Sizes, slices and arithmetic over the talk.
LEDGER = """{% set total = messages | map(attribute='content') | select('string') | map('length') | sum %}
{{ total }} {{ total // 3 }} {{ total % 7 }} {{ (total / 4) | round(1) }} {{ '%05.1f%%' % (100.0 * total / (total + 1)) }}
{% for m in messages[-2:] %}{{ loop.cycle('odd', 'even') }} {{ m.role.upper()[:4] | center(8) }}|{{ (m.content | string)[:12][::-1] }}
{% endfor %}
{{ messages | length > 2 and 'long' or 'short' }} {{ ('x' in bos_token) is false }} {{ [messages[0].role, messages[-1].role] | unique | list }}
{% set j = joiner('; ') %}{% for m in messages %}{{ j() }}{{ m.role }}{% if loop.changed(m.role) %}!{% endif %}{% endfor %}

{% set c = cycler('a', 'b') %}{% for m in messages %}{{ c.next() }}{% endfor %} {{ c.current }}
{%- with first = messages[0], n = 2 %} {{ first.role * n }}{% endwith %} {{ first is defined }}
{{ {'roles': messages | map(attribute='role') | list, 'n': messages | length} | tojson(indent=2) }}
"""

MANNERS = [THINKER, HEADERS, CALLER, GATHERER, TURNS, PIPES, TYPES, MARKED, GROUNDED, LEDGER]
MODELS = [text for texts in CHATS.values() for text in texts] + MANNERS

# ---------------------------------------------------------------- one construct a template

CONSTRUCTS = [
    '{% for i in [1, 2] %}{% continue %}{% else %}E{% endfor %}|{% for i in [1, 2] %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% else %}E{% endfor %}',
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
    '{{ 0.35 // 0.1 }} {{ -0.35 // 0.1 }} {{ 7.5 // 2.5 }} {{ (-8.0) ** 3.0 }} {{ (1.5).is_integer() }} {{ (-2.0).is_integer() }} {{ (messages|length * 1e308 * 1e9).is_integer() }}',
    "{{ 14.9|round(-1) }} {{ 25.5|round(-1) }} {{ 25.0|round(-1) }} {{ 35.0|round(-1) }} {{ -25.5|round(-1) }}",
    "{{ {1: 'a', 1.5: 'b'}[1.0] }} {{ {1: 'a', 1.5: 'b'}[1.5] }} {{ 2.0 in range(3) }} {{ 1.5 in range(3) }} {{ {1: 'a'}[1.5] is defined }}",
    "{{ '\U0001f600\ue000\u00e9'|tojson(ensure_ascii=true) }} {{ {'a': [1, {'b': 2}]}|tojson(indent='--') }}",
    "{{ 'ab 12-34567890 1-2-3-4-5-6-7 ---------'|wordwrap(7) }}|{{ 'ab 12-34567890'|wordwrap(7, break_on_hyphens=false) }}",
    "{{ ('\u00e9' * 78)|pprint }}",
    "{{ 'a-b'.isidentifier() }} {{ 'a1'.isidentifier() }} {{ '1a'.isidentifier() }} {{ '\u00e9\u0301\u203f\u0663'.isidentifier() }} {{ '_'.isidentifier() }}",
]

TEMPLATES = MODELS + CONSTRUCTS
