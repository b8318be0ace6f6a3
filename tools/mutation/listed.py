# SPDX-License-Identifier: Apache-2.0
"""Faults by list (tools/faults/*.txt), and the argued survivors of docs/testing.md."""
import glob
import os
import re

from mutation import tree
from mutation.draw import one_line


class Listed:
    """One entry: in `file`, the text `old` becomes `new`, and one of `tests` must fail."""

    def __init__(self, source, line):
        self.source, self.at = source, line
        self.what, self.file, self.old, self.new, self.nth, self.tests = '', '', None, None, 1, []

    def finish(self):
        self.id = tree.digest('listed', self.file, self.old, self.new, self.nth)[:8]
        self.room = self.file.split('/')[1] if self.file.startswith('src/') else self.file.split('/')[0]
        self.function = ''
        return self

    def change(self):
        return f'{one_line(latin(self.old))} → {one_line(latin(self.new)) or "nothing"}'

    # (text with the fault, its line), or what is wrong with the entry.
    def apply(self, root):
        path = os.path.join(root, self.file)
        if not self.old or self.new is None or not self.tests or not os.path.exists(path):
            return 'an entry needs file, old, new and test'
        with open(path, encoding='utf-8', newline='') as f:
            text = f.read()
        at = [m.start() for m in re.finditer(re.escape(self.old), text)]
        if len(at) < self.nth or (self.nth == 1 and len(at) > 1 and not self.picked):
            return f'the old text occurs {len(at)} times'
        at = at[self.nth - 1]
        return text[:at] + self.new + text[at + len(self.old):], text.count('\n', 0, at) + 1

    picked = False


def latin(text):
    return text.encode().decode('latin-1')


def entries(root):
    """All entries of tools/faults/*.txt, in order."""
    out = []
    for path in sorted(glob.glob(os.path.join(root, 'tools', 'faults', '*.txt'))):
        entry, field = None, None
        with open(path, encoding='utf-8') as f:
            lines = f.read().split('\n')
        for n, line in enumerate(lines + [''], 1):
            m = re.match(r'(file|old|new|nth|test): ?(.*)$', line)
            if line.startswith('    ') and entry and field in ('old', 'new'):
                setattr(entry, field, getattr(entry, field) + '\n' + line[4:])
            elif line.startswith('#') or m:
                if entry is None:
                    entry = Listed(os.path.relpath(path, root), n)
                if not m:
                    entry.what = (entry.what + ' ' + line[1:].strip()).strip()
                    continue
                field, value = m[1], m[2]
                if field == 'nth':
                    entry.nth, entry.picked = int(value), True
                elif field == 'test':
                    entry.tests = value.split()
                else:
                    setattr(entry, field, value)
            elif not line.strip():
                if entry and entry.file:
                    out.append(entry.finish())
                entry, field = None, None
            else:
                raise SystemExit(f'tools/mutate: {path}:{n}: not a line of an entry: {line}')
    return out


def argued(root):
    """{(file, function, change): why} of the table in docs/testing.md."""
    table = {}
    with open(os.path.join(root, 'docs', 'testing.md'), encoding='utf-8') as f:
        for line in f:
            if not line.startswith('| `src/'):
                continue
            cells = [c.strip().replace('\\|', '|') for c in re.split(r'(?<!\\)\|', line.strip())[1:-1]]
            if len(cells) == 4:
                table[tuple(plain(c) for c in cells[:3])] = cells[3]
    return table


# A cell's code without the marks: two of them where the code itself holds one.
def plain(cell):
    m = re.fullmatch(r'(`+) ?(.*?) ?\1', cell)
    return m[2] if m else cell
