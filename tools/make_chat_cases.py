#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures Python and Jinja2 and writes what Tilewright's chat templates are held to.

    make_chat_cases.py tables > src/tokenizer/jinja/tables.c
    make_chat_cases.py cases PROGRAM        rewrites tests/data/chat; PROGRAM is test_chat_cases
    make_chat_cases.py random N SEED        prints N generated templates with their cases, for test_chat_cases
    make_chat_cases.py check                compares this set-up of Jinja2 with transformers' own, on all cases written

Needs Jinja2 3.1.6; `check` also transformers 5.
"""
import datetime
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import unicodedata

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "tests", "data", "chat")
NOW = 1700000000  # what the test says the time is, in UTC


# ---------------------------------------------------------------- Jinja2 as transformers sets it up

def environment():
    import jinja2
    import jinja2.ext
    import jinja2.nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

        def _body(self, caller):
            return caller()

    class Dict:
        def __call__(self, *args, **kwargs):
            return dict(*args, **kwargs)

        def fromkeys(self, *args, **kwargs):
            return dict.fromkeys(*args, **kwargs)

    class Namespace(jinja2.utils.Namespace):
        def __init__(*args, **kwargs):
            self, args = args[0], args[1:]
            attributes = dict(*args, **kwargs)
            for name in attributes:
                Namespace.check(name)
            jinja2.utils.Namespace.__init__(self, attributes)

        def __setitem__(self, name, value):
            Namespace.check(name)
            jinja2.utils.Namespace.__setitem__(self, name, value)

        @staticmethod
        def check(name):
            if isinstance(name, str) and name.startswith("_"):
                raise jinja2.exceptions.SecurityError(name)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def strftime_now(format):
        return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None).strftime(format)

    e = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                      extensions=[Generation, jinja2.ext.loopcontrols])
    e.filters["tojson"] = tojson
    e.globals.update(raise_exception=raise_exception, strftime_now=strftime_now, dict=Dict(), namespace=Namespace)
    return e


REASONING = ("reasoning_content", "thinking", "reasoning")


def aliased(messages):
    out = []
    for m in messages:
        found = next((m[k] for k in REASONING if m.get(k) is not None), None)
        out.append(m if found is None else {"thinking": found, **m, "reasoning_content": found})
    return out


class TooLong(BaseException):
    pass


def give_up(*_):
    raise TooLong


ENVIRONMENT = []


def render(template, case, tokens):
    """The text, or None where Jinja2 raises; TooLong after some seconds."""
    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 5)
    try:
        if not ENVIRONMENT:
            ENVIRONMENT.append(environment())
        t = ENVIRONMENT[0].from_string(template)
        variables = {**tokens, "documents": None, "messages": aliased(case["messages"]), "tools": case.get("tools"),
                     "add_generation_prompt": case.get("prompt", True), **case.get("arguments", {})}
        text = t.render(**variables)
        text.encode()
        return text
    except TooLong:
        raise
    except Exception:
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)

# ---------------------------------------------------------------- tables


def ranges(numbers):
    out = []
    for n in numbers:
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return out


def tables():
    """What Python's letters have beyond a library's categories and simple mappings."""
    w = sys.stdout.write
    every = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    category = {c: unicodedata.category(chr(c)) for c in every}
    w("/* SPDX-License-Identifier: Apache-2.0 */\n")
    w("/* Measured on Python %d.%d by tools/make_chat_cases.py tables; do not edit. */\n" % sys.version_info[:2])
    w('#include "tokenizer/jinja/letters.h"\n\n/* clang-format off */\n')
    for name, members in [
            ("digit", [c for c in every if chr(c).isdigit() and category[c] != "Nd"]),
            ("numeric", [c for c in every if chr(c).isnumeric() and category[c][0] != "N"]),
            ("lower", [c for c in every if chr(c).islower() and category[c] != "Ll"]),
            ("upper", [c for c in every if chr(c).isupper() and category[c] != "Lu"])]:
        text = ", ".join("{0x%x, 0x%x}" % tuple(r) for r in ranges(members))
        w("static const tw_char_range %s[] = {%s};\n" % (name, text))
        w("const tw_char_class jinja_class_%s = {%s, sizeof %s / sizeof *%s};\n\n" % (name, name, name, name))
    w("const jinja_long_case jinja_long_cases[] = {\n")
    count = 0
    for c in every:
        upper, title = chr(c).upper(), chr(c).title()
        if len(upper) > 1 or len(title) > 1:
            spell = ["{%s}" % ", ".join("0x%x" % ord(x) for x in text) for text in (upper, title)]
            w("    {0x%x, %s, %s},\n" % (c, *spell))
            count += 1
    w("};\nconst size_t jinja_n_long_cases = %d;\n" % count)


# ---------------------------------------------------------------- conversations

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def called(name, arguments, **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def tool(name, description, **properties):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": properties, "required": sorted(properties)[:1]}}}


TOOLS = [tool("weather", "What the sky does, \u00e9ven <b>now</b>", city={"type": "string", "description": "Where"},
              unit={"type": "string", "enum": ["c", "f"]}),
         tool("sum", "Adds", numbers={"type": "array", "items": {"type": "number"}})]
TALKS = [
    {"messages": [message("user", "Hi")]},
    {"messages": [message("system", "  Be brief. "), message("user", " Hi\n")], "prompt": False},
    {"messages": [message("user", "a"), message("assistant", " b "), message("user", "c\u00a0\x1c")],
     "arguments": {"enable_thinking": False}},
    {"messages": [message("system", "S\n"), message("user", "q1"), message("assistant", "<think>\nhm\n</think>\n\na1"),
                  message("user", "q2"), message("assistant", ""), message("user", "\u65e5\u672c ")],
     "arguments": {"enable_thinking": True}},
    {"messages": [message("user", "a"), message("user", "b")]},
    {"messages": [message("assistant", "x")]},
    {"messages": [message("system", "only")]},
    {"messages": [message("user", "{{ x }}'\"\\n<|im_end|>"), message("assistant", "[/INST]")]},
    {"messages": [message("user", "Weather in K\u00f6ln?"),
                  message("assistant", None, tool_calls=[called("weather", {"city": "K\u00f6ln", "n": 1.0, "b": None})]),
                  message("tool", '{"t": 3}', name="weather", tool_call_id="call_1"),
                  message("assistant", "3 degrees.", reasoning_content="cold"), message("user", "thanks")],
     "tools": TOOLS},
    {"messages": [message("user", [{"type": "text", "text": "see "}, {"type": "image"}, {"type": "text", "text": "this"}]),
                  message("assistant", [{"type": "text", "text": "yes"}])], "tools": TOOLS[:1], "prompt": False},
]


def cases_of(template, talks=TALKS, tokens=TOKENS):
    """A line of cases, or None when some rendering cannot be compared."""
    cases = []
    for talk in talks:
        want = render(template, talk, tokens)
        if want is not None and " at 0x" in want:
            return None
        cases.append({**talk, "want": want})
    return {"template": template, "tokens": tokens, "cases": cases}


def compact(o):
    return json.dumps(o, ensure_ascii=False, separators=(",", ":")) + "\n"


def write_lines(name, lines):
    """The talks and the tokens once, in the first line; a case then names its talk by number."""
    os.makedirs(DATA, exist_ok=True)
    with open(os.path.join(DATA, name), "w", encoding="utf-8") as f:
        f.write(compact({"tokens": TOKENS, "talks": TALKS}))
        for line in lines:
            cases = [{"talk": next(i for i, t in enumerate(TALKS) if all(c.get(k) == v for k, v in t.items()) and
                                   all(k in t for k in c if k != "want")), "want": c["want"]} for c in line["cases"]]
            f.write(compact({"template": line["template"], "cases": cases}))


def refused(program, line):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        f.write(compact(line))
        f.flush()
        said = subprocess.run([program, f.name], capture_output=True, text=True, check=False).stdout
    return ", 1 refused" in said


def cases(program):
    from chat_templates import TEMPLATES
    lines = [cases_of(t) for t in TEMPLATES]
    assert all(lines), "a template prints an address"
    write_lines("written.jsonl", lines)
    # What is refused on purpose (numbers beyond 64 bits, printed addresses …) has tests of its own.
    write_lines("generated.jsonl", [line for line in generated(2150, 2026) if not refused(program, line)])


def generated(n, seed):
    """Lines of random templates with a conversation each. Most of those that Jinja2 raises on are left out, and what shows
    an address, takes long, or comes to much text."""
    from chat_random import Gen
    r = random.Random(seed)
    done = 0
    while done < n:
        template = Gen(r).template()
        keep = r.random() < 0.25
        talk = r.choice(TALKS)
        if len(template) > 1200:
            continue
        try:
            line = cases_of(template, [talk])
        except TooLong:
            continue
        if line is None or len(line["cases"][0]["want"] or "") > 2000 or (line["cases"][0]["want"] is None and not keep):
            continue
        done += 1
        yield line


def check():
    """Whether transformers renders every case as `render` does."""
    from transformers.utils.chat_template_utils import render_jinja_template
    n = 0
    for name in ("written.jsonl", "generated.jsonl"):
        with open(os.path.join(DATA, name), encoding="utf-8", newline="\n") as f:
            first, *lines = [json.loads(line) for line in f]
        for line in lines:
            for case in line["cases"]:
                talk = first["talks"][case["talk"]]
                try:
                    got = render_jinja_template([talk["messages"]], tools=talk.get("tools"), chat_template=line["template"],
                                                add_generation_prompt=talk.get("prompt", True), **first["tokens"],
                                                **talk.get("arguments", {}))[0][0]
                except Exception:
                    got = None
                if "strftime_now" not in line["template"] and got != case["want"]:
                    sys.exit("transformers differs on %r" % line["template"])
                n += 1
    print("transformers agrees with all %d cases" % n)


if __name__ == "__main__":
    sys.setrecursionlimit(4000)
    if sys.argv[1:] == ["tables"]:
        tables()
    elif sys.argv[1:2] == ["cases"] and len(sys.argv) == 3:
        cases(sys.argv[2])
    elif sys.argv[1:] == ["check"]:
        check()
    elif sys.argv[1:2] == ["random"] and len(sys.argv) == 4:
        for line in generated(int(sys.argv[2]), int(sys.argv[3])):
            sys.stdout.write(compact(line))
    else:
        sys.exit(__doc__)
