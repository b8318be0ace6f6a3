# SPDX-License-Identifier: Apache-2.0
"""All places where the rules apply, and those that a seed draws."""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess

from mutation import rules, tree

ISA = {'avx2': 'avx2', 'avx512': 'avx512f', 'avx512vnni': 'avx512_vnni', 'avx512bf16': 'avx512_bf16', 'avx512fp16': 'avx512_fp16',
       'amx': 'amx_tile'}


class Place:
    """A fault with its name: the same as long as the function's text around it says the same."""

    def __init__(self, file, function, line, fault, old, ordinal):
        self.file, self.function, self.line, self.fault, self.old, self.ordinal = file, function, line, fault, old, ordinal
        self.room = file.split('/')[1]
        self.id = tree.digest(file, function, fault.rule, old, fault.new, ordinal)[:8]
        self.listed = None

    def change(self):
        return one_line(self.old) + ' → ' + (one_line(self.fault.new) if self.fault.kind != rules.VOID else 'nothing') + (
            f' (#{self.ordinal + 1})' if self.ordinal else '')


def one_line(text):
    return re.sub(r'\s+', ' ', text.encode('latin-1').decode(errors='replace')).strip()


def units(root, build):
    """(file, clang's command, directory) for each C file below src/ that this machine can run."""
    with open(os.path.join(build, 'compile_commands.json')) as f:
        commands = json.load(f)
    flags = set()
    with open('/proc/cpuinfo') as f:
        for line in f:
            if line.startswith('flags'):
                flags = set(line.split())
                break
    src = os.path.join(root, 'src') + os.sep
    for c in commands:
        file = os.path.normpath(os.path.join(c['directory'], c['file']))
        if not file.startswith(src):
            continue
        isa = re.search(r'_([a-z0-9]+)\.c$', file)
        if isa and ISA.get(isa[1], 'fpu') not in flags:
            continue
        words = shlex.split(c['command'])
        keep = [w for w in words if re.match(r'-(I|D|std=|m)', w) and not re.match(r'-(MD|MT|MF)', w)]
        yield file, ['clang'] + keep + ['-w', '-fsyntax-only', '-Xclang', '-ast-dump=json', file], c['directory']


def of_unit(args):
    """The faults in one translation unit: a list of plain values, kept beside the build by what they were made from."""
    file, command, directory, root, cache = args
    seen = {}
    for f in (file, rules.__file__, tree.__file__):
        reads(root, f, seen)
    key = tree.digest(*[x for name in sorted(seen) for x in (name, seen[name])])
    kept = os.path.join(cache, key[:24] + '.json')
    if os.path.exists(kept):
        with open(kept) as f:
            return json.load(f)
    out, texts = [], {}
    for name, node in tree.functions(command, directory, root):
        if name not in texts:
            with open(os.path.join(root, name), encoding='latin-1', newline='') as f:
                texts[name] = f.read()
        fn = rules.Function(name, node, texts[name])
        for f in fn.collect():
            out.append([name, fn.name, f.rule, f.begin, f.end, f.new, f.kind])
    with open(kept + '.new', 'w') as f:
        json.dump(out, f)
    os.replace(kept + '.new', kept)
    return out


def reads(root, file, seen):
    """The files of the tree that `file` includes, and those that they do."""
    if file in seen or not os.path.exists(file):
        return
    with open(file, 'rb') as f:
        seen[file] = f.read()
    for name in re.findall(rb'^#\s*include "([^"]+)"', seen[file], re.M):
        for folder in ('src', 'include'):
            reads(root, os.path.join(root, folder, name.decode()), seen)


def candidates(root, build, cache, jobs):
    os.makedirs(cache, exist_ok=True)
    work = [(f, c, d, root, cache) for f, c, d in units(root, build)]
    found = {}
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        for faults in pool.map(of_unit, work):
            for x in faults:
                found[tuple(x)] = True
    by_file = {}
    for x in found:
        by_file.setdefault(x[0], []).append(x)
    places = []
    for file, list_ in by_file.items():
        with open(os.path.join(root, file), encoding='latin-1', newline='') as f:
            text = f.read()
        count = {}
        for _, function, rule, begin, end, new, kind in sorted(list_, key=lambda x: (x[3], x[4], x[2], x[5])):
            old = text[begin:end]
            key = (function, rule, one_line(old), one_line(new))
            ordinal = count.get(key, 0)
            count[key] = ordinal + 1
            places.append(Place(file, function, text.count('\n', 0, begin) + 1, rules.Fault(rule, begin, end, new, kind), old, ordinal))
    return places


class Exclusions:
    """Lines `path[:function[:rule]] reason`; `*` matches within a name. What is meant must not change any result."""

    def __init__(self, file):
        self.lines = []
        with open(file) as f:
            for line in f:
                line = line.strip()
                if line and not line.startswith('#'):
                    what, _, reason = line.partition(' ')
                    parts = (what.split(':') + ['*', '*'])[:3]
                    self.lines.append([re.compile(re.escape(p).replace(r'\*', '.*') + '$') for p in parts] + [what, reason])

    def match(self, place):
        for path, function, rule, what, _ in self.lines:
            if path.match(place.file) and function.match(place.function) and rule.match(place.fault.rule):
                return what
        return None


def quotas(sizes, total, least):
    """Faults a room: `least` each, the rest by the number of places."""
    quota = {r: min(least, n) for r, n in sizes.items()}
    rest = total - sum(quota.values())
    everything = sum(sizes.values())
    for r, n in sizes.items():
        quota[r] = min(n, quota[r] + max(0, rest) * n // max(1, everything))
    for r in sorted(sizes, key=lambda r: -sizes[r]):
        if sum(quota.values()) < total and quota[r] < sizes[r]:
            quota[r] += 1
    return quota


def draw(places, seed, total, least):
    """A seed's places: in every room the rules take turns, so that none drowns the others; no two places overlap."""
    rooms = {}
    for p in places:
        rooms.setdefault(p.room, []).append(p)
    quota = quotas({r: len(l) for r, l in rooms.items()}, total, least)
    drawn = []
    for room in sorted(rooms):
        by_rule = {}
        for p in rooms[room]:
            by_rule.setdefault(p.fault.rule, []).append(p)
        queues = {r: sorted(l, key=lambda p: tree.digest(seed, p.id), reverse=True) for r, l in by_rule.items()}
        taken = {}
        n = 0
        while n < quota[room] and queues:
            for rule in sorted(queues):
                while queues[rule]:
                    p = queues[rule].pop()
                    spans = taken.setdefault(p.file, [])
                    if all(p.fault.end <= b or p.fault.begin >= e for b, e in spans):
                        spans.append((p.fault.begin, p.fault.end))
                        drawn.append(p)
                        n += 1
                        break
                if n == quota[room]:
                    break
            queues = {r: q for r, q in queues.items() if q}
    return sorted(drawn, key=lambda p: (p.file, p.fault.begin))


def compiles(command, directory):
    words = [w for w in command if w not in ('-Xclang', '-ast-dump=json')]
    return subprocess.run(words, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
