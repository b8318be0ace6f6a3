#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times a PyTorch prefill of Qwen3-30B-A3B's shape, with random weights. Its products and attention are computed in
several ways: by PyTorch's own kernels ("torch"), and by Triton kernels in default configurations ("default"), in those
that artefacts choose, and under full autotuning ("autotune"). Writes lines of JSON: the environment, then a row for
each number of tokens and way.

    prefill.py --small                                   checks everything on a small model, in seconds
    prefill.py --select select=DIR -o prefill.jsonl      DIR has gemm.select, grouped.select and attention.select
    prefill.py --describe gemm                           prints a family's description for these problems, in bf16

A way is first checked at the size that is timed, in a pass of all layers in which outputs are NaN before they are
computed. In the first and the last layer each result is compared with what PyTorch's kernels compute, and some rows of
it with double precision. The hidden states behind the last layer are compared with those of way "torch", where each
token takes the same experts. A way that is wrong has no times. Without a GPU, with TRITON_INTERPRET=1, --small checks
the same, and nothing is timed."""
import argparse
import datetime
import json
import math
import os
import statistics
import sys
import time

import torch

import model as models
import runner
import ways
from tilewright import Error
from judge import Judge

CUDA = torch.cuda.is_available()
FAR = {"bf16": 0.1, "f16": 0.0125}  # By type: the largest relative difference of hidden states that rounding explains.
# By family and axis: the least and the most value in prefills, and the step.
RANGES = {
    "gemm": {"m": (2048, 65536, 64), "n": (2048, 5120, 1024), "k": (2048, 4096, 2048)},
    "grouped": {"rows": (128, 4096, 1), "experts": (128, 128, 128), "n": (1536, 2048, 512), "k": (768, 2048, 256)},
    "attention": {"sequence": (512, 16384, 1), "heads": (128, 128, 128)},
}
MOST_WORK = {"gemm": 1e12, "grouped": 1e12, "attention": 4e12}


def describe(kind):
    """Returns the description of a family for the problems of a prefill. Its command is this folder's runner."""
    d = ways.describe(kind)
    d["name"] = d["name"].replace("-f16", "-prefill-bf16")
    d["command"] = [sys.executable, os.path.join(ways.HERE, "runner.py"), kind, "bf16"]
    d["most_work"] = MOST_WORK[kind]
    for axis in d["axes"]:
        axis["least"], axis["most"], axis["step"] = RANGES[kind][axis["name"]]
    return d


def say(text):
    print(f"prefill.py: {text}", file=sys.stderr, flush=True)


def synchronize():
    if CUDA:
        torch.cuda.synchronize()


def release():
    if CUDA:
        torch.cuda.empty_cache()


# ---- checking


class Session:
    """A model, and the ways that are compared. The first way is PyTorch's."""

    def __init__(self, args):
        self.args = args
        self.began = time.monotonic()
        self.failed = False  # True: a way could not run.
        self.searches = []  # Of the way "autotune": pairs of the number of tokens and the seconds of its searches.
        self.dtype = runner.TYPES[args.type]
        self.device = "cuda" if CUDA else "cpu"
        self.shape = models.SMALL if args.small else models.QWEN3_30B_A3B
        if args.layers:
            self.shape = models.dataclasses.replace(self.shape, layers=args.layers)
        self.environment = runner.Runner("gemm").environment() if CUDA else {"device": "none", "shared_bytes": 232448}
        self.ways = [ways.Torch("torch"), ways.Tiled("default", ways.by_default())]
        self.artefacts = {}
        for text in args.select:
            name, _, folder = text.partition("=")
            choose, selectors = ways.by_artefacts(folder)
            self.ways.append(ways.Tiled(name, choose))
            self.artefacts[name] = {k: {"family": s.kernel, "device": s.device, "bytes": s.bytes}
                                    for k, s in selectors.items()}
        self.tuned = None
        if args.autotune > 0:
            self.tuned = ways.Tuned("autotune", self.environment, most=3 if args.small else 0)
            self.ways.append(self.tuned)
        self.compile_s = 0.0

    def compile(self):
        """Compiles the configurations that autotuning tries, by all cores. Others are compiled when they are first
        launched."""
        if not CUDA:
            return
        runner.Setting.name = self.args.type
        began = time.perf_counter()
        for kind in ways.KINDS if self.tuned else ():
            configs = ways.configurations(kind, self.environment)
            if not self.args.small and not runner.are_cached(runner.FAMILIES[kind], configs):
                say(f"{kind}: compiling {len(configs)} configurations")
                runner.compile_in_parallel(kind, configs, busy=say_busy)
        self.compile_s = time.perf_counter() - began

    def make(self):
        """Makes the model. As many layers have weights of their own as fit into memory beside the activations."""
        kept = self.shape.layers
        if CUDA:
            free, size = torch.cuda.mem_get_info()[0], torch.finfo(self.dtype).bits // 8
            rows = self.args.batch * max(self.args.tokens)
            # The largest tensors of a mixture, with those of a judge, once for the run and once for CUDA graphs.
            activations = rows * (self.shape.top * (6 * self.shape.inner + 8 * self.shape.hidden)) * size * 2
            kept = (free - activations - 2 * self.shape.vocabulary * self.shape.hidden * size - (6 << 30)) // (
                self.shape.parameters() * size)
            kept = max(1, min(self.shape.layers, int(kept)))
        self.model = models.Model(self.shape, self.dtype, self.device, kept)
        synchronize()
        say(f"{self.shape.layers} layers with the weights of {self.model.kept}")

    def prompts(self, tokens):
        g = torch.Generator().manual_seed(tokens)
        return torch.randint(self.shape.vocabulary, (self.args.batch, tokens), generator=g).to(self.device)

    def check(self, way, ids, routes, expected):
        """Checks a way. Returns the fields of its row, and the hidden states. `expected` are those of way "torch".
        None: it is this one."""
        judge, last = Judge(way), self.shape.layers - 1

        def watch(layer):
            judge.on = layer in (0, last)

        way.poison, way.made = True, {}
        began = self.tuned.seconds if self.tuned else 0
        hidden, logits = self.model.prefill(ids, judge, routes, watch)
        synchronize()
        way.poison = False
        row = {"checked_cells": judge.checked, "wrong_cells": judge.wrong}
        if way is self.tuned:
            row["tune_s"] = self.tuned.seconds - began
        if way.made:
            row["configs"] = way.made
        far = 0.0 if expected is None else distance(hidden, expected)
        finite = bool(torch.isfinite(hidden).all().item() and torch.isfinite(logits).all().item())
        row["far"] = far if math.isfinite(far) else None
        row["correct"] = finite and not judge.wrong and far <= FAR[self.args.type]
        if judge.wrong:
            row["why"] = judge.first
        elif not row["correct"]:
            row["why"] = "hidden states are no numbers" if not finite else f"hidden states differ by {far:.3f}"
        return row, hidden


def say_busy(o):
    say(o["busy"])


def distance(a, b):
    """Returns the norm of the difference of two tensors over the norm of the second one."""
    squares, differences = 0.0, 0.0
    for x, y in zip(a.split(4096), b.split(4096)):
        differences += (x.double() - y.double()).square().sum().item()
        squares += y.double().square().sum().item()
    return math.sqrt(differences / squares)


# ---- timing


def rounds_of(rows, args):
    """Returns how many times a prefill of so many rows is timed."""
    return args.rounds or (9 if rows <= 8192 else 5 if rows <= 16384 else 3)


def time_ways(session, some, ids):
    """Returns for each way the milliseconds of its prefills, by the clock of the host. Ways take turns."""
    n = rounds_of(ids.numel(), session.args)
    times = {w.name: [] for w in some}
    for r in range(n + 1):
        for i in range(len(some)):
            way = some[(i + r) % len(some)]
            synchronize()
            began = time.perf_counter()
            session.model.prefill(ids, way)
            synchronize()
            if r:  # The first round warms up.
                times[way.name].append((time.perf_counter() - began) * 1e3)
    return times


def capture(session, way, ids, pool):
    """Returns a CUDA graph of a prefill."""
    g = torch.cuda.CUDAGraph()
    session.model.prefill(ids, way)
    torch.cuda.synchronize()
    with torch.cuda.graph(g, pool=pool):
        session.model.prefill(ids, way)
    return g


def time_graphs(session, some, ids):
    """Returns for each way the milliseconds of its prefills as CUDA graphs, by the clock of the device: kernels alone.
    A way that cannot be captured has none."""
    graphs, pool, times = {}, torch.cuda.graph_pool_handle(), {w.name: [] for w in some}
    # PyTorch's own kernels come last: they may wait for the device, which ends a capture with an error.
    for way in sorted(some, key=lambda w: isinstance(w, ways.Torch)):
        try:
            graphs[way.name] = capture(session, way, ids, pool)
        except Exception as e:
            say(f"{way.name}: no graph: {type(e).__name__}: {e}"[:300].replace("\n", " "))
            torch.cuda.synchronize()
    for r in range(rounds_of(ids.numel(), session.args) + 1):
        for name, g in graphs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            g.replay()
            end.record()
            end.synchronize()
            if r:
                times[name].append(begin.elapsed_time(end))
    del graphs
    release()
    return times


class Stopwatch:
    """A way (ways.py) that computes by another one, between events of the device."""

    def __init__(self, by):
        self.by, self.events = by, {"product": [], "grouped": [], "attention": []}

    def __getattr__(self, what):
        do = getattr(self.by, what)

        def timed(*tensors):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            y = do(*tensors)
            end.record()
            self.events[what].append((begin, end))
            return y

        return timed

    def sums(self):
        """Returns the milliseconds of all products, grouped products and attentions."""
        torch.cuda.synchronize()
        return {f"{what}_ms": sum(a.elapsed_time(b) for a, b in pairs) for what, pairs in self.events.items()}


def time_decisions(session, way, tokens):
    """Returns the number of decisions of a prefill, and the microseconds that they take together. All layers have the
    same five problems, so most decisions are of a problem that was decided before."""
    s, rows = session.shape, session.args.batch * tokens
    mixed = max(1, rows * s.top // s.experts)
    problems = [("gemm", {"m": rows, "n": (s.heads + 2 * s.shared) * s.width, "k": s.hidden}),
                ("attention", {"sequence": tokens, "heads": session.args.batch * s.heads}),
                ("gemm", {"m": rows, "n": s.hidden, "k": s.heads * s.width}),
                ("grouped", {"rows": mixed, "experts": s.experts, "n": 2 * s.inner, "k": s.hidden}),
                ("grouped", {"rows": mixed, "experts": s.experts, "n": s.hidden, "k": s.inner})]
    times = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(s.layers):
            for kind, problem in problems:
                way.choose(kind, problem)
        times.append((time.perf_counter() - began) * 1e6)
    return s.layers * len(problems), min(times)


def measure(session, tokens, rows):
    """Times the ways that are right, and adds the times to their rows."""
    ids, args = session.prompts(tokens), session.args
    some = [w for w in session.ways if w.name in rows and rows[w.name]["correct"]]
    if not some or not CUDA:
        return
    times = time_ways(session, some, ids)
    graphs = time_graphs(session, some, ids) if tokens <= args.graphs else {}
    for way in some:
        row, all_ms = rows[way.name], sorted(times[way.name])
        row["ms"] = statistics.median(all_ms)
        row["spread"] = (all_ms[-1] - all_ms[0]) / row["ms"]
        row["tokens_per_s"] = args.batch * tokens / row["ms"] * 1e3
        row["tflops"] = session.shape.flops(args.batch, tokens) / row["ms"] * 1e-9
        if graphs.get(way.name):
            row["graph_ms"] = statistics.median(graphs[way.name])
        watch = Stopwatch(way)
        session.model.prefill(ids, watch)
        row.update(watch.sums())
        if getattr(way, "choose", None):
            row["decisions"], row["decide_us"] = time_decisions(session, way, tokens)
    for peer in ("default", "torch"):
        if peer in rows and "ms" in rows[peer]:
            for way in some:
                rows[way.name][f"over_{peer}"] = rows[peer]["ms"] / rows[way.name]["ms"]


# ---- the run


def affords(session, tokens):
    """Tells whether autotuning is likely to end within its budget and the run's. For twice the tokens it is taken to
    last 2^1.5 times as long."""
    if not session.searches:
        return True
    last, seconds = session.searches[-1]
    needed = seconds * (tokens / last) ** 1.5
    return (session.tuned.seconds + needed <= session.args.autotune and
            time.monotonic() - session.began + needed <= session.args.budget)


def run_tokens(session, tokens):
    """Checks and times all ways for a number of tokens. Returns the rows."""
    args, ids, routes, expected, rows = session.args, session.prompts(tokens), [], None, {}
    for way in session.ways:
        if way is session.tuned and not affords(session, tokens):
            say(f"{tokens} tokens: no autotuning, for which too little time is left")
            continue
        if time.monotonic() - session.began > args.budget:
            say(f"{tokens} tokens: no time is left for {way.name}")
            continue
        try:
            rows[way.name], hidden = session.check(way, ids, routes, expected)
        except Exception as e:  # A kernel that cannot run, or too little memory. Others go on.
            synchronize()
            say(f"{tokens} tokens, {way.name}: {type(e).__name__}: {e}"[:400].replace("\n", " "))
            session.failed = True
            continue
        finally:
            way.poison = False
        if way is session.tuned:
            session.searches.append((tokens, rows[way.name]["tune_s"]))
        if way is session.ways[0]:
            expected = hidden
            if args.small:
                far = distance(hidden, models.reference(session.model, ids, routes))
                rows[way.name]["far_from_double"] = far
                rows[way.name]["correct"] = rows[way.name]["correct"] and far <= FAR[args.type]
        say(f"{tokens} tokens, {way.name}: " + ("right" if rows[way.name]["correct"] else
                                               f"WRONG: {rows[way.name].get('why', 'far from double precision')}"))
        del hidden
        release()
    del routes, expected
    release()
    measure(session, tokens, rows)
    return [dict({"case": f"{tokens} tokens", "way": name, "tokens": tokens, "batch": args.batch}, **row)
            for name, row in rows.items()]


def head(session):
    """Returns the first line of the results."""
    args = session.args
    return {"device": session.environment["device"], "date": datetime.date.today().isoformat(), "commit": args.commit,
            "command": "examples/triton/prefill.py " + " ".join(args.words),
            "protocol": "ways in turn; medians of prefills by the host's clock, after one to warm up; graphs by the "
                        "device's", "shape": models.dataclasses.asdict(session.shape), "type": args.type,
            "weights_of_layers": session.model.kept,
            "environment": session.environment, "artefacts": session.artefacts,
            "autotune": {"compile_s": session.compile_s, "samples": 3, "configs": {
                k: len(ways.configurations(k, session.environment)) for k in ways.KINDS}} if session.tuned else None,
            "notes": args.note}


def parse(words):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--describe", choices=ways.KINDS, help="print a family's description and end")
    p.add_argument("--small", action="store_true", help="a small model")
    p.add_argument("--select", action="append", default=[], metavar="NAME=DIR", help="a way that asks artefacts")
    p.add_argument("--tokens", default="", help="numbers of tokens (default 512,1024,...,16384; small: 70,128)")
    p.add_argument("--batch", type=int, default=0, help="prompts (default 4; small: 2)")
    p.add_argument("--layers", type=int, default=0, help="layers (default: the shape's)")
    p.add_argument("--type", choices=sorted(runner.TYPES), default="bf16" if CUDA else "f16")
    p.add_argument("--autotune", type=float, default=150, help="seconds of autotuning; 0: without (default 150)")
    p.add_argument("--budget", type=float, default=1e9, help="seconds after which no further way is begun")
    p.add_argument("--graphs", type=int, default=4096, help="the most tokens that are timed as graphs, too")
    p.add_argument("--rounds", type=int, default=0, help="prefills that are timed (default 3 to 9)")
    p.add_argument("--commit", default="", help="what was built, for the head")
    p.add_argument("--note", action="append", default=[], help="a text for the head")
    p.add_argument("-o", "--output", default="-", help="file of the rows (default: standard output)")
    args = p.parse_args(words)
    args.words = words
    args.batch = args.batch or (2 if args.small else 4)
    try:
        usual = "70,128" if args.small else "512,1024,2048,4096,8192,16384"
        args.tokens = [int(t) for t in (args.tokens or usual).split(",")]
        for text in args.select:
            name, mark, folder = text.partition("=")
            if not (name and mark and folder) or name in ("torch", "default", "autotune"):
                p.error(f"--select: \"{text}\" is not a name of its own and a folder, NAME=DIR")
        if min(args.tokens) < 1 or max(args.tokens) > 1 << 17 or args.batch < 1 or args.layers < 0:
            raise ValueError
    except ValueError:
        p.error("--tokens, --batch and --layers are numbers from 1")
    return args


def main():
    args = parse(sys.argv[1:])
    if args.describe:
        print(json.dumps(describe(args.describe), indent=2))
        return 0
    if not CUDA and not (args.small and os.environ.get("TRITON_INTERPRET") == "1"):
        sys.exit("prefill.py: PyTorch finds no GPU; --small with TRITON_INTERPRET=1 needs none")
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    try:
        session = Session(args)
    except (Error, OSError) as e:
        sys.exit(f"prefill.py: {e}")
    good = True
    session.compile()
    session.make()
    out = sys.stdout if args.output == "-" else open(args.output, "w", encoding="utf-8")
    out.write(json.dumps(head(session)) + "\n")
    for tokens in args.tokens:
        for row in run_tokens(session, tokens):
            good = good and row["correct"]
            out.write(json.dumps(row) + "\n")
            out.flush()
            if "ms" in row:
                say(f"{tokens} tokens, {row['way']}: {row['ms']:.1f} ms")
    say(f"{time.monotonic() - session.began:.0f} s")
    return 0 if good and not session.failed else 1


if __name__ == "__main__":
    with torch.no_grad():
        sys.exit(main())
