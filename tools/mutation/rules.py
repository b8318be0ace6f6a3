# SPDX-License-Identifier: Apache-2.0
"""The rules: each turns a node of a function's syntax tree into faults, single changes of meaning.

A fault replaces the text of one expression. Where the rules do not look: inside macros, constant expressions (cases,
sizes, static initialisers), operands of sizeof, compiler built-ins, and text that is only said to people."""
import re

from mutation.tree import digest, extent, place

RELATION = {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '=='}
ARITHMETIC = {'+': '-', '-': '+', '*': '+', '/': '*', '%': '/'}
BITS = {'&': '|', '|': '&', '^': '&'}
SHIFT = {'<<': '>>', '>>': '<<'}
LOGIC = {'&&': '||', '||': '&&'}
BINARY = [('relation', RELATION), ('arithmetic', ARITHMETIC), ('bits', BITS), ('shift', SHIFT), ('logic', LOGIC)]

# Functions whose neighbour takes the same arguments. tw_*: the kernel builder's.
TWINS = {}
for a, b in [('fmin', 'fmax'), ('fminf', 'fmaxf'), ('tw_min', 'tw_max'), ('tw_add', 'tw_sub'), ('tw_lt', 'tw_le'), ('tw_eq', 'tw_ne'),
             ('tw_and', 'tw_or'), ('tw_shl', 'tw_shr'), ('tw_div', 'tw_rem'), ('tw_add_imm', 'tw_mul_imm'),
             ('tw_when', 'tw_unless'), ('v_min', 'v_max'), ('sinf', 'cosf'), ('floor', 'ceil')]:
    TWINS[a], TWINS[b] = b, a

COMMUTES = {'tw_add', 'tw_mul', 'tw_min', 'tw_max', 'tw_and', 'tw_or', 'tw_xor', 'tw_eq', 'tw_ne', 'fmin', 'fmax', 'fminf', 'fmaxf', 'strcmp',
            'memcmp', 'fma', 'fmaf', 'tw_fma', 'v_fma', 'v_add', 'v_mul', 'v_min', 'v_max', 'strcasecmp', 'tw_same', 'calloc'}

COMMUTING_OP = re.compile(r'tw_binary\([^,]*, TW_OP_(add|mul|mul_wide|min|max|and|or|xor|eq|ne)_')

# A call less of these changes no result: memory and handles kept too long are what the leak checker is for.
RELEASES = re.compile(r'^(free|fclose|close|munmap|dlclose|json_decref|pcre2_\w+_free\w*|pthread_\w+_destroy)$|_(free|close|destroy|release)$')
# More room than is needed changes no result.
ROOM = re.compile(r'^(malloc|calloc|realloc|aligned_alloc)$|_(reserve|grow|alloc)$')

VOID, VALUE, TRUTH = 'void', 'value', 'truth'


class Fault:
    """One change: text[begin:end] becomes `new`. `kind` says how the two are joined under a switch."""

    def __init__(self, rule, begin, end, new, kind=VALUE):
        self.rule, self.begin, self.end, self.new, self.kind = rule, begin, end, new, kind


class Function:
    def __init__(self, file, node, text):
        self.file, self.node, self.text = file, node, text
        self.name = node['name']
        self.returns = node['type']['qualType'].split('(')[0].strip()
        self.faults = []

    def extent(self, node):
        return extent(node, self.text)

    def add(self, rule, at, new, kind=VALUE):
        if at and self.text[at[0]:at[1]] != new:
            self.faults.append(Fault(rule, at[0], at[1], new, kind))

    def collect(self):
        for child in self.node['inner']:
            if child['kind'] == 'CompoundStmt':
                self.walk(child, None)
        seen, once = set(), []
        for f in self.faults:
            key = (f.rule, f.begin, f.end, f.new)
            if key not in seen:
                seen.add(key)
                once.append(f)
        return once

    def walk(self, node, parent):
        kind = node['kind']
        if kind in ('ConstantExpr', 'UnaryExprOrTypeTraitExpr', 'StaticAssertDecl', 'RecordDecl', 'EnumDecl',
                    'GenericSelectionExpr', 'OffsetOfExpr', 'GCCAsmStmt', 'TypedefDecl'):
            return
        if kind == 'VarDecl' and node.get('storageClass') == 'static':
            return
        if kind == 'CallExpr' and (callee(node) or '').startswith('__builtin'):
            return
        visit = getattr(self, 'at_' + kind, None)
        if visit:
            visit(node, parent)
        inner = node.get('inner', ())
        self.statements(node, inner)
        for i, child in enumerate(inner):
            if not child or 'kind' not in child:
                continue
            # A size in a request for memory.
            if kind == 'CallExpr' and i and ROOM.search(callee(node) or ''):
                continue
            self.walk(child, node)

    # The operator stands alone between its operands, or this is not what it seems.
    def operator(self, node, old, new):
        at = self.extent(node)
        left, right = (self.extent(c) for c in node['inner'][:2])
        if not at or not left or not right:
            return None
        between = self.text[left[1]:right[0]]
        if between.strip() != old:
            return None
        a, b = (self.operand(c, self.text[e[0]:e[1]]) for c, e in zip(node['inner'], (left, right)))
        return at, a + between.replace(old, new) + b

    # The new operator may bind otherwise than the old one: what has operators of its own gets parentheses.
    def operand(self, node, text):
        while node['kind'] == 'ImplicitCastExpr':
            node = node['inner'][0]
        return f'({text})' if node['kind'] in ('BinaryOperator', 'ConditionalOperator') else text

    def at_BinaryOperator(self, node, parent):
        op = node['opcode']
        pointers = [is_pointer(c) for c in node['inner']]
        for rule, table in BINARY:
            if op not in table:
                continue
            if any(pointers) and (rule in ('bits', 'shift') or (rule == 'arithmetic' and pointers[1])):
                return
            made = self.operator(node, op, table[op])
            if made:
                self.add(rule, made[0], made[1])

    def at_CompoundAssignOperator(self, node, parent):
        op = node['opcode'][:-1]
        for rule, table in BINARY:
            if op in table:
                made = self.operator(node, op + '=', table[op] + '=')
                if made:
                    self.add(rule, made[0], made[1])

    def condition(self, node):
        at = self.extent(node)
        if at:
            self.add('condition', at, '!(' + self.text[at[0]:at[1]] + ')', TRUTH)

    def at_IfStmt(self, node, parent):
        self.condition(node['inner'][0])

    def at_WhileStmt(self, node, parent):
        self.condition(node['inner'][0])

    def at_ConditionalOperator(self, node, parent):
        self.condition(node['inner'][0])

    def at_IntegerLiteral(self, node, parent):
        b = node['range']['begin']
        if 'expansionLoc' in b and place(b, self.text) is b['expansionLoc']:
            at = b['expansionLoc']['offset'], b['expansionLoc']['offset'] + b['expansionLoc']['tokLen']
            word = self.text[at[0]:at[1]]
            if word in ('true', 'false'):
                self.add('constant', at, 'false' if word == 'true' else 'true')
            return
        at = self.extent(node)
        if not at or self.unsaid(node, parent):
            return
        m = re.fullmatch(r"(0[xX][0-9a-fA-F]+|0|[1-9][0-9]*)([uUlL]*)", self.text[at[0]:at[1]])
        if not m:
            return
        n = int(m[1], 0)
        # One more or one less, by the place; nothing and one become each other.
        step = -1 if n > 1 and int(digest(self.name, at[0] - self.extent_begin())[:2], 16) % 2 else 1
        n = 1 - n if n < 2 else n + step
        self.add('constant', at, (hex(n) if m[1][:2].lower() == '0x' else str(n)) + m[2])

    def extent_begin(self):
        at = self.node['range']['begin']
        return at.get('expansionLoc', at).get('offset', 0)

    # Null pointers and {0}.
    def unsaid(self, node, parent):
        return parent is not None and (parent.get('castKind') == 'NullToPointer' or
                                       (parent['kind'] == 'InitListExpr' and node.get('value') == '0') or
                                       (parent.get('castKind') == 'IntegralToPointer'))

    def at_FloatingLiteral(self, node, parent):
        at = self.extent(node)
        if at:
            old = self.text[at[0]:at[1]]
            self.add('constant', at, '1' if float(node['value']) == 0 else f'2 * {old}')

    def at_CallExpr(self, node, parent):
        name = callee(node)
        at = self.extent(node)
        if not at or not name:
            return
        head = self.extent(node['inner'][0])
        if name in TWINS and head:
            self.add('twin', at, self.text[at[0]:head[0]] + TWINS[name] + self.text[head[1]:at[1]])
        if name in COMMUTES or COMMUTING_OP.match(self.text[at[0]:at[1]]):
            return
        args = node['inner'][1:]
        for x, y in zip(args, args[1:]):
            ax, ay = self.extent(x), self.extent(y)
            if not ax or not ay or type_of(x) != type_of(y) or ax[1] > ay[0]:
                continue
            tx, ty = self.text[ax[0]:ax[1]], self.text[ay[0]:ay[1]]
            if tx == ty or 'char *' in type_of(x) and (tx[0] == '"' or ty[0] == '"'):
                continue
            self.add('arguments', at,
                     self.text[at[0]:ax[0]] + ty + self.text[ax[1]:ay[0]] + tx + self.text[ay[1]:at[1]])

    def at_ReturnStmt(self, node, parent):
        at = self.extent(node)
        if not at or not node.get('inner'):
            return
        text = self.text[at[0]:at[1]]
        value = text[len('return'):].strip()
        at = at[1] - len(value), at[1]
        if self.returns == 'tw_status' and value != 'TW_OK':
            self.add('status', at, f'(void)({value}), TW_OK')
        elif self.returns in ('bool', '_Bool') and value not in ('true', 'false'):
            self.add('returned', at, f'!({value})', TRUTH)
        elif self.returns in ('bool', '_Bool'):
            self.add('returned', at, 'false' if value == 'true' else 'true')

    # Statements that may be left out: calls whose result nobody takes, and assignments.
    def statements(self, node, inner):
        if node['kind'] == 'CompoundStmt':
            places = inner
        elif node['kind'] in ('IfStmt',):
            places = inner[1:]
        elif node['kind'] in ('WhileStmt', 'ForStmt'):
            places = inner[-1:]
        elif node['kind'] in ('CaseStmt', 'DefaultStmt', 'LabelStmt'):
            places = inner[-1:]
        else:
            return
        for s in places:
            if not s or 'kind' not in s:
                continue
            if s['kind'] == 'CallExpr':
                name = callee(s)
                if name and not RELEASES.search(name) and not name.startswith('__builtin'):
                    self.add('dropped', self.extent(s), '', VOID)
            elif s['kind'] == 'CompoundAssignOperator' or (s['kind'] == 'BinaryOperator' and s['opcode'] == '='):
                self.add('dropped', self.extent(s), '', VOID)


def callee(call):
    node = call['inner'][0]
    while node['kind'] in ('ImplicitCastExpr', 'ParenExpr'):
        node = node['inner'][0]
    if node['kind'] == 'MemberExpr':
        return node.get('name')
    return node.get('referencedDecl', {}).get('name')


def type_of(node):
    t = node.get('type', {})
    return t.get('desugaredQualType', t.get('qualType', '')).replace('const ', '')


def is_pointer(node):
    t = type_of(node)
    return '*' in t or '[' in t


def switched(number, fault, text):
    """The expression that is the fault where its number is switched on, and the text as it was elsewhere."""
    old = text[fault.begin:fault.end]
    if fault.kind == VOID:
        return f'(tw_mutant({number}) ? (void)0 : (void)({old}))'
    if fault.kind == TRUTH:
        return f'(tw_mutant({number}) ? !({old}) : !!({old}))'
    return f'(tw_mutant({number}) ? ({fault.new}) : ({old}))'
