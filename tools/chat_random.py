# SPDX-License-Identifier: Apache-2.0
"""Random templates for make_chat_cases.py: mostly ones that render, of every construct, white space at random."""

TEXT_FILTERS = ["upper", "lower", "title", "capitalize", "trim", "e", "escape", "forceescape", "safe", "string", "striptags",
                "urlencode", "wordcount", "length", "reverse", "list", "first", "last", "int", "float", "tojson", "count",
                "center(%d)", "truncate(%d)", "truncate(%d, true)", "truncate(%d, false, '..', 0)", "wordwrap(%d)",
                "wordwrap(%d, false)", "indent(%d)", "indent(%d, true)", "indent(%d, blank=true)", "indent('> ', true, true)",
                "replace('a', 'XY')", "replace('', '-', 2)", "replace('l', '')", "trim('ab ')", "default('d')",
                "default('d', true)", "batch(3)|list", "slice(2)|list", "unique|list", "sort|join", "unique|join('|')",
                "map('upper')|join", "select('in', 'abc')|list", "max", "min", "pprint", "format", "d", "attr('upper')",
                "urlencode", "wordcount", "int(7)", "int(base=16)", "float(1.5)", "round", "abs", "filesizeformat", "items|list"]
LIST_FILTERS = ["length", "first", "last", "sort", "sort(reverse=true)", "reverse|list", "unique|list", "join", "join(', ')",
                "list", "sum", "max", "min", "tojson", "tojson(indent=2)", "string", "batch(2)|list", "batch(3, 'f')|list",
                "slice(2)|list", "slice(3, none)|list", "slice(2, 'z')|list", "map('string')|list", "map('int')|list",
                "select|list", "reject|list", "select('odd')|list", "reject('string')|list", "select('number')|list",
                "select('gt', 1)|list", "map('upper')|join", "count", "default([])", "pprint", "sort(case_sensitive=true)",
                "max(case_sensitive=true)", "sum(start=10)", "random", "select('defined')|list|length", "e", "upper",
                "map('tojson')|join(';')", "select('==', 1)|list", "groupby(0)|list", "dictsort", "items|list", "length|string"]
RECORD_FILTERS = ["map(attribute='role')|list", "selectattr('content')|list|length", "selectattr('role', 'eq', 'user')|list|count",
                  "rejectattr('role', 'equalto', 'user')|map(attribute='role')|join('/')", "map(attribute='x', default='-')|join",
                  "groupby('role')|map(attribute=0)|list", "sort(attribute='role')|map(attribute='role')|list",
                  "unique(attribute='role')|list|length", "map(attribute='content.0', default=none)|list|length",
                  "join(', ', attribute='role')", "groupby('k', default='z')|length", "selectattr('n')|sum(attribute='n')",
                  "map('length')|sum", "min(attribute='role')|length", "sort(attribute='role,content', reverse=true)|length",
                  "map(attribute='role')|map('upper')|map('first')|join", "selectattr('tool_calls', 'defined')|list|length"]
DICT_FILTERS = ["length", "list", "tojson", "dictsort", "dictsort(true)", "dictsort(by='value')", "dictsort(reverse=true)", "items|list",
                "xmlattr", "string", "first", "urlencode", "pprint", "tojson(sort_keys=true)", "tojson(separators=(',', ':'))", "sort",
                "tojson(indent=1)", "tojson(ensure_ascii=true)", "join", "max", "count", "last", "reverse|list", "d", "sum"]
TEXT_METHODS = ["upper()", "lower()", "title()", "capitalize()", "strip()", "lstrip()", "rstrip()", "strip('ab')", "split()",
                "split(' ')", "split('a', 1)", "rsplit('l', 1)", "rsplit()", "rsplit(none, 1)", "split(none, 1)", "split(maxsplit=1)",
                "splitlines()", "splitlines(true)",
                "startswith('a')", "endswith(('b', 'o'))", "replace('l', 'L')", "replace('a', '', 1)", "find('l')", "rfind('l')",
                "index('l')", "count('l')", "count('')", "join(['x', 'y'])", "isdigit()", "isalpha()", "isalnum()", "isspace()",
                "islower()", "isupper()", "istitle()", "isnumeric()", "isascii()", "isprintable()", "isidentifier()", "isdecimal()",
                "zfill(7)", "ljust(8)", "rjust(8, '*')", "center(9, '-')", "removeprefix('he')", "removesuffix('o')", "swapcase()",
                "casefold()", "expandtabs(4)", "partition('l')", "rpartition('l')", "find('l', 2)", "startswith('l', 2)",
                "find('o', -3, -1)", "encode()", "format()", "nope()", "strip(none)", "find('', 3)", "count('l', 1, 4)", "split('')"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false", "mapping", "sequence",
         "iterable", "callable", "lower", "upper", "odd", "even", "escaped", "divisibleby 2", "divisibleby(3)", "eq 1", "equalto('a')",
         "ne 'a'", "gt 0", "ge 1", "lt 5", "le 2", "in [1, 'a', none]", "in 'abc'", "sameas true", "filter", "test", "sameas(none)",
         "greaterthan 1", "lessthan(3)"]
STRINGS = ["''", "'a'", "'hello'", "' a b\\n c '", "\"it's\"", "'<b>&\"x'", "'Ünï ß ǆ'", "'日本語 text'", "'12'", "'-3.50'", "'a,b;c'", "'%s|%d'",
           "'{}-{}'", "'x' 'y'", "'ΣΑΣ οΣ'", "'a\\tb\\x07'", "'\\u00e9\\\\'", "'hello-world well-known e-mail'", "'one two  three   four'",
           "'line1\\nline2\\r\\n\\nline4'", "'1e3'", "'0x1F'", "'true'", "'<p>a</p> <!-- x --> b'", "'\U0001f642\u200b'", "'UPPER lower'", "'a.b/c?d=e f'"]
NUMBERS = ["0", "1", "2", "3", "-1", "7", "10", "255", "1000000", "-17", "1.5", "0.1", "-2.5", "1e3", "2.0", "1e-7", "1.5e300", "123456.789", "12_000",
           "0x1f", "0b101", "4.5", "1e22", "3.14159"]


class Gen:
    def __init__(self, r):
        self.r = r
        self.names = ["messages", "tools", "x", "bos_token", "add_generation_prompt", "undefined_name"]
        self.macros = []
        self.loops = 0
        self.in_macro = 0
        self.spaces = []

    def pick(self, items):
        return self.r.choice(items)

    def chance(self, p):
        return self.r.random() < p

    # ---- expressions; what kind a value is, is only a wish

    def text(self, d):
        r = self.r.random()
        if d <= 0 or r < 0.3:
            return self.pick(STRINGS)
        if r < 0.4:
            return "%s %s %s" % (self.text(d - 1), self.pick(["~", "+", "~"]), self.text(d - 1))
        if r < 0.5:
            return "(%s)|%s" % (self.text(d - 1), self.filled(self.pick(["upper", "lower", "trim", "title", "capitalize", "replace('a', 'b')", "safe", "e", "indent(2)", "string"])))
        if r < 0.6:
            return "(%s).%s" % (self.text(d - 1), self.pick(["upper()", "strip()", "lower()", "replace('l', 'r')", "title()", "lstrip()"]))
        if r < 0.68:
            return "(%s)[%s]" % (self.text(d - 1), self.slice(d - 1))
        if r < 0.74:
            return "(%s if %s else %s)" % (self.text(d - 1), self.bool(d - 1), self.text(d - 1))
        if r < 0.8:
            return "%s %% (%s, %s)" % (self.pick(["'%s/%s'", "'%5s|%-5s|'", "'%r %s'", "'%.2s%%%s'", "'%05d %x'", "'%+.1f %e'", "'%d%%%g'"]), self.any(d - 1), self.any(d - 1))
        if r < 0.85:
            return "%s.format(%s, %s, k=%s)" % (self.pick(["'{}{}'", "'{1}{0}'", "'{k}{}'", "'{0!r:>8}'", "'{:>6}|{:<6}'", "'{:^7}{{}}'", "'{0:05d}'", "'{0:.2f}'", "'{0:,}'", "'{k[0]}'", "'{:{}}'"]), self.any(d - 1), self.any(d - 1), self.any(d - 1))
        if r < 0.92:
            return "messages[%d].%s" % (self.r.randrange(-3, 4), self.pick(["role", "content", "content", "nope", "name"]))
        return "(%s)|tojson" % self.any(d - 1)

    def filled(self, f):
        return f % self.r.randrange(0, 14) if "%d" in f else f

    def number(self, d):
        r = self.r.random()
        if d <= 0 or r < 0.35:
            return self.pick(NUMBERS)
        if r < 0.65:
            return "(%s %s %s)" % (self.number(d - 1), self.pick(["+", "-", "*", "/", "//", "%", "+", "-", "**"]), self.pick([self.number(d - 1), self.pick(NUMBERS)]))
        if r < 0.72:
            return "%s(%s)" % (self.pick(["-", "+", "- -"]), self.number(d - 1))
        if r < 0.82:
            return "(%s)|%s" % (self.number(d - 1), self.pick(["int", "float", "abs", "round", "round(1)", "round(-1)", "round(2, 'floor')", "round(1, 'ceil')", "string|length", "filesizeformat", "round(0)|int"]))
        if r < 0.9:
            return "(%s)|length" % self.pick([self.text(d - 1), self.list(d - 1)])
        return "(%s)|sum" % self.list(d - 1)

    def bool(self, d):
        r = self.r.random()
        if d <= 0 or r < 0.15:
            return self.pick(["true", "false", "none", "1", "''", "x", "add_generation_prompt"])
        if r < 0.3:
            return "%s %s %s" % (self.paren(d), self.pick(["==", "!=", "<", "<=", ">", ">=", "==", "!="]), self.paren(d))
        if r < 0.4:
            return "%s %s %s" % (self.paren(d), self.pick(["in", "not in"]), self.pick([self.list(d - 1), self.text(d - 1), self.dict(d - 1), "(%s)" % self.any(d - 1)]))
        if r < 0.65:
            return "%s is %s" % (self.paren(d), self.pick(TESTS) if self.chance(0.8) else "not " + self.pick(TESTS))
        if r < 0.8:
            return "%s %s %s" % (self.bool(d - 1), self.pick(["and", "or"]), self.bool(d - 1))
        if r < 0.9:
            return "not %s" % self.bool(d - 1)
        return "%s < %s <= %s" % (self.number(d - 1), self.number(d - 1), self.number(d - 1))

    def paren(self, d):
        return "(%s)" % self.any(d - 1)

    def slice(self, d):
        part = lambda: self.pick(["", "", "0", "1", "2", "-1", "-2", "5", "none", "100", "(1 + 1)"])
        return self.pick([part() + ":" + part(), part() + ":" + part() + ":" + self.pick(["", "1", "2", "-1", "-2", "-1"])])

    def list(self, d):
        r = self.r.random()
        if d <= 0 or r < 0.15:
            return self.pick(["[]", "[1, 2, 3]", "['b', 'A', 'c']", "range(4)", "range(5, 0, -2)", "messages", "[3, 1, 2, 1]", "[none, 0, '']", "[[2, 'a'], [1, 'b']]", "(1, 'x')", "()", "(2,)"])
        if r < 0.45:
            kind = self.pick([self.any, self.number, self.text])
            items = [kind(d - 1) for _ in range(self.r.randrange(0, 4))]
            if self.chance(0.3):
                return "(%s%s)" % (", ".join(items), "," if len(items) == 1 else "")
            return "[%s%s]" % (", ".join(items), "," if items and self.chance(0.1) else "")
        if r < 0.6:
            return "(%s)[%s]" % (self.list(d - 1), self.slice(d - 1))
        if r < 0.7:
            return "%s + %s" % (self.list(d - 1), self.list(d - 1))
        if r < 0.85:
            return "(%s)|%s" % (self.list(d - 1), self.pick(["sort", "reverse|list", "unique|list", "list", "batch(2)|list", "map('string')|list"]))
        if r < 0.92:
            return "(%s).%s|list" % (self.dict(d - 1), self.pick(["items()", "keys()", "values()"]))
        return "(%s) * %d" % (self.list(d - 1), self.r.randrange(0, 3))

    def dict(self, d):
        r = self.r.random()
        if d <= 0 or r < 0.25:
            return self.pick(["{}", "{'a': 1, 'b': 2}", "{'b': 'x', 'A': 'y'}", "messages[0]", "dict(k=1, j='v')", "{1: 'a', 'x': none}", "tools[0].function", "{'items': 1, 'n': 2}"])
        if r < 0.8:
            return "{%s}" % ", ".join("%s: %s" % (self.pick(["'k'", "'a'", "1", "'key two'", "true", "none", self.text(0), "(1, 2)"]), self.any(d - 1)) for _ in range(self.r.randrange(0, 4)))
        return "dict(%s, z=%s)" % (self.dict(d - 1), self.any(d - 1))

    def any(self, d):
        r = self.r.random()
        if d <= 0 or r < 0.1:
            return self.pick(self.names + ["true", "false", "none", self.pick(STRINGS), self.pick(NUMBERS)])
        if r < 0.3:
            return self.text(d)
        if r < 0.45:
            return self.number(d)
        if r < 0.55:
            return self.bool(d)
        if r < 0.65:
            return self.list(d)
        if r < 0.72:
            return self.dict(d)
        if r < 0.78:
            return "(%s)|%s" % (self.text(d - 1), self.filled(self.pick(TEXT_FILTERS)))
        if r < 0.84:
            return "(%s)|%s" % (self.list(d - 1), self.pick(LIST_FILTERS))
        if r < 0.87:
            return "%s|%s" % (self.pick(["messages", "messages[1:]", "(%s)" % self.list(d - 1)]), self.pick(RECORD_FILTERS))
        if r < 0.9:
            return "(%s)|%s" % (self.dict(d - 1), self.pick(DICT_FILTERS))
        if r < 0.94:
            return "(%s).%s" % (self.text(d - 1), self.pick(TEXT_METHODS))
        if r < 0.955 and self.macros:
            return "%s(%s)" % (self.pick(self.macros), self.args(d - 1))
        if r < 0.97 and self.loops:
            return "loop." + self.pick(["index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem", "depth", "cycle('a', 'b', 3)", "changed(%s)" % self.any(0), "depth0"])
        if r < 0.98 and self.spaces:
            return "%s.%s" % (self.pick(self.spaces), self.pick(["a", "b", "c"]))
        return self.pick(["(%s).get('a', %s)" % (self.dict(d - 1), self.any(d - 1)), "(%s)['a']" % self.dict(d - 1), "(%s).a" % self.dict(d - 1), "(%s)[%s]" % (self.list(d - 1), self.number(0)),
                          "(%s).count(%s)" % (self.list(d - 1), self.any(0)), "(%s).index(1)" % self.list(d - 1), "%s.items" % self.dict(0), "(%s).real" % self.number(d - 1),
                          "(%s if %s)" % (self.any(d - 1), self.bool(d - 1)), "strftime_now('%d %b %Y')", "range(%s)|list" % self.number(0), "namespace(a=1).a", "[%s]|first" % self.any(d - 1), "(%s)|default(%s)" % (self.any(d - 1), self.any(d - 1))])

    def args(self, d):
        out = [self.any(d) for _ in range(self.r.randrange(0, 3))]
        if self.chance(0.3):
            out.append("%s=%s" % (self.pick(["p", "q", "w"]), self.any(d)))
        if self.chance(0.08):
            out.append("*%s" % self.list(0))
        return ", ".join(out)

    # ---- statements

    def tag(self, inside):
        left, right = self.pick(["", "", "", "-", "-", "+"]), self.pick(["", "", "", "-", "-", "+"])
        return "{%%%s %s %s%%}" % (left, inside, right)

    def out(self, inside):
        left, right = self.pick(["", "", "", "-"]), self.pick(["", "", "", "-"])
        return "{{%s %s %s}}" % (left, inside, right)

    def white(self):
        return self.pick(["", "", "\n", "\n  ", " ", "  \n", "\n\n", "\t", "x", "text\n", " word ", "\r\n", "<b>\n"])

    def name(self):
        n = self.pick(["x", "y", "z", "item", "acc"])
        if n not in self.names:
            self.names.append(n)
        return n

    def body(self, d):
        return "".join(self.white() + self.statement(d) for _ in range(self.r.randrange(1, 4))) + self.white()

    def inner(self, d, *added):
        saved = list(self.names), list(self.macros), list(self.spaces)
        self.names += added
        out = self.body(d)
        self.names, self.macros, self.spaces = saved
        return out

    def statement(self, d):
        r = self.r.random()
        if d <= 0 or r < 0.38:
            return self.out(self.any(self.r.randrange(0, 4)))
        if r < 0.48:
            t = self.tag
            s = t("if " + self.bool(2)) + self.body(d - 1)
            for _ in range(self.r.randrange(0, 2)):
                s += t("elif " + self.bool(2)) + self.body(d - 1)
            if self.chance(0.4):
                s += t("else") + self.body(d - 1)
            return s + t("endif")
        if r < 0.62:
            return self.loop(d)
        if r < 0.72:
            if self.chance(0.15):
                return self.tag("set %s, %s = %s" % (self.name(), self.name(), self.pick(["1, 2", "'ab'", self.list(1), "[%s, 2]" % self.any(1)])))
            value = self.any(2)
            return self.tag("set %s = %s" % (self.name(), value))
        if r < 0.76:
            filters = "".join(" | " + self.filled(self.pick(TEXT_FILTERS)) for _ in range(self.r.randrange(0, 2)))
            body = self.inner(d - 1)
            return self.tag("set %s%s" % (self.name(), filters)) + body + self.tag("endset")
        if r < 0.8:
            s = "ns%d" % self.r.randrange(2)
            if s not in self.spaces or self.chance(0.2):
                self.spaces.append(s)
                return self.tag("set %s = namespace(a=%s, b=0)" % (s, self.any(1)))
            if self.chance(0.2):
                return self.tag("set %s.%s" % (s, self.pick("abc"))) + self.inner(d - 1) + self.tag("endset")
            return self.tag("set %s.%s = %s" % (s, self.pick("abc"), self.pick([self.any(2), "%s.b + 1" % s])))
        if r < 0.86:
            return self.macro(d)
        if r < 0.89:
            if not self.macros:
                return self.macro(d)
            args = self.pick(["", "", "(v)", "(v, w=3)"])
            return self.tag("call%s %s(%s)" % (args, self.pick(self.macros), self.args(1))) + self.inner(d - 1, "v") + self.tag("endcall")
        if r < 0.915:
            return self.tag("filter " + "|".join(self.filled(self.pick(TEXT_FILTERS)) for _ in range(self.r.randrange(1, 3)))) + self.inner(d - 1) + self.tag("endfilter")
        if r < 0.94:
            return self.tag("with %s = %s%s" % ("w", self.any(2), ", y = w" if self.chance(0.3) else "")) + self.inner(d - 1, "w") + self.tag("endwith")
        if r < 0.95:
            return self.tag("raw").replace("+%}", "%}") + self.pick(["{{ x }}", " {% if %} ", "\n{# #}\n", ""]) + self.tag("endraw")
        if r < 0.97:
            return self.pick(["{# note #}", "{#- note -#}", "{# a\nb #}", "{#+ c +#}"])
        if r < 0.985:
            return self.tag("generation") + self.inner(d - 1) + self.tag("endgeneration")
        return self.tag("print " + ", ".join(self.any(1) for _ in range(self.r.randrange(1, 3))))

    def loop(self, d):
        target, over = self.pick([("item", self.list(2)), ("item", self.list(2)), ("message", "messages"), ("k, v", "(%s).items()" % self.dict(1)), ("k, v", "(%s)|dictsort" % self.dict(1)),
                                  ("item", self.text(1)), ("item", self.any(2)), ("k", self.dict(1)), ("a, (b, c)", "[[1, [2, 3]], ['x', 'yz']]"), ("group", "messages|groupby('role')"), ("item", "messages|map(attribute='role')"),
                                  ("item", "messages|selectattr('content', 'string')"), ("k, v", "(%s)|items" % self.dict(1)), ("item", "range(4)")])
        names = target.replace("(", "").replace(")", "").replace(" ", "").split(",")
        recursive = self.chance(0.06)
        s = "for %s in %s" % (target, "[1, [2, [3]], 4]" if recursive else over)
        if self.chance(0.2) and not recursive:
            saved = list(self.names)
            self.names += names
            s += " if " + self.bool(2)
            self.names = saved
        self.loops += 1
        if recursive:
            body = self.tag("if item is number") + self.inner(d - 1, "item") + self.tag("else") + "(" + self.out("loop(item)") + ")" + self.tag("endif")
            s = "for item in [1, [2, [3]], 4] recursive"
        else:
            body = self.inner(d - 1, *names)
            if self.chance(0.12):
                body += self.tag("if " + self.bool(1)) + self.tag(self.pick(["break", "continue"])) + self.tag("endif") + self.inner(0, *names)
        self.loops -= 1
        s = self.tag(s) + body
        if self.chance(0.2):
            s += self.tag("else") + self.inner(d - 1)
        return s + self.tag("endfor")

    def macro(self, d):
        name = "m%d" % self.r.randrange(3)
        params = self.pick(["", "p", "p, q='Q'", "p=1, q=p", "p, q=none, w=[1]"])
        loops, self.loops = self.loops, 0
        body = self.inner(d - 1, *[n for n in "pqw" if n in params])
        self.loops = loops
        extra = self.pick(["", "", "", self.out("varargs"), self.out("kwargs"), self.out("caller()"), self.out("caller(%s)" % self.any(1)), self.tag("if caller") + "C" + self.tag("endif"), self.out("varargs|length")])
        s = self.tag("macro %s(%s)" % (name, params)) + body + extra + self.tag("endmacro")
        self.macros.append(name)
        return s

    def template(self):
        d = self.r.choice([1, 2, 2, 3])
        s = "".join(self.white() + self.statement(d) for _ in range(self.r.randrange(1, 5))) + self.white()
        if self.chance(0.02):
            i = self.r.randrange(len(s) + 1)
            s = s[:i] + self.pick(["{", "}", "%", "'", "|", "-", "", ")"]) + s[i + self.r.randrange(0, 2):]
        return s
