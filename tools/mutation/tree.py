# SPDX-License-Identifier: Apache-2.0
"""Functions of C files as clang sees them: its syntax tree as JSON, with every place resolved to a file and an offset."""
import hashlib
import json
import os
import re
import subprocess
import sys

sys.setrecursionlimit(20000)


class Locations:
    """clang names the file of a place only where it differs from the place printed before; this remembers it."""

    def __init__(self):
        self.file = None

    def visit(self, loc):
        if not loc:
            return
        if 'spellingLoc' in loc:
            self.visit(loc['spellingLoc'])
            self.visit(loc['expansionLoc'])
        elif 'offset' in loc:
            self.file = loc.get('file', self.file)
            loc['of'] = self.file

    def walk(self, node):
        self.visit(node.get('loc'))
        r = node.get('range')
        if r:
            self.visit(r['begin'])
            self.visit(r['end'])
        for child in node.get('inner', ()):
            self.walk(child)


# Statements of C that are macros, whose arguments are code like any other: src/ir/builder.h.
STATEMENTS = re.compile(r'TW_(IF|FOR|WHILE|LOOP|BLOCK) ?\(')


def place(loc, text):
    """Where a token is: within an argument of a statement where it was written, else where its macro was expanded."""
    outer = loc.get('expansionLoc')
    if not outer:
        return loc
    inner = loc['spellingLoc']
    if outer.get('isMacroArgExpansion') and inner.get('of') == outer.get('of') and STATEMENTS.match(text, outer['offset']):
        return inner
    return outer


def extent(node, text):
    """(begin, end) of a node in its file. None where it comes from inside a macro or ends in a call of one."""
    r = node.get('range')
    if not r or not r['begin'] or not r['end']:
        return None
    b, e = r['begin'], r['end']
    begin, end = place(b, text), place(e, text)
    if 'offset' not in begin or 'offset' not in end or begin.get('of') != end.get('of'):
        return None
    inside = begin is b.get('expansionLoc') and end is e.get('expansionLoc')
    if inside and begin['offset'] == end['offset']:
        return None
    stop = end['offset'] + end['tokLen']
    if end is e.get('expansionLoc') and text[stop:stop + 1] == '(':
        return None
    piece = text[begin['offset']:stop]
    if piece.count('(') != piece.count(')') or piece.count('{') != piece.count('}'):
        return None
    return begin['offset'], stop


def file_of(node):
    loc = node.get('loc') or {}
    loc = loc.get('expansionLoc', loc)
    return loc.get('of')


def functions(command, directory, root):
    """Yields (file relative to `root`, function's node) of all definitions below root/src in one translation unit."""
    out = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if out.returncode:
        raise RuntimeError(out.stderr.decode(errors='replace')[-2000:])
    unit = json.loads(out.stdout)
    del out
    where = Locations()
    src = os.path.join(root, 'src') + os.sep
    for node in unit['inner']:
        where.walk(node)
        if node['kind'] != 'FunctionDecl':
            continue
        name = file_of(node)
        if not name:
            continue
        name = os.path.normpath(os.path.join(directory, name))
        if name.startswith(src) and any(c['kind'] == 'CompoundStmt' for c in node.get('inner', ())):
            yield os.path.relpath(name, root), node


def digest(*parts):
    h = hashlib.sha256()
    for p in parts:
        h.update(p if isinstance(p, bytes) else str(p).encode())
        h.update(b'\0')
    return h.hexdigest()
