#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks and times causal attention for `tilewright measure attention.json` and other verbs. docs/tune.md describes the
lines that are read and written. It needs PyTorch and Triton 3, since it measures as examples/triton/runner.py does.

    measure.py             answers requests on standard input
    measure.py --compile   compiles kernels for the cache on disk: a JSON pair of words and a configuration a line

Queries, keys and values are [heads][sequence][128]: each head is a sequence of its own, of one head. A kernel is made for
one problem, so that the configurations of each are compiled first, by processes of their own.

Variables: TILEWRIGHT_LIBRARY is the library (build/libtilewright.so), TILEWRIGHT_PROCESSES how many compile (16 at most)."""
import json
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "bench"), os.path.join(ROOT, "examples", "triton")]
from tilewright_gpu import Error, Gpu  # noqa: E402

LIBRARY = os.environ.get("TILEWRIGHT_LIBRARY", os.path.join(ROOT, "build", "libtilewright.so"))
PROCESSES = int(os.environ.get("TILEWRIGHT_PROCESSES", min(16, os.cpu_count() or 1)))
AT_ONCE = 2 * PROCESSES  # Configurations that are compiled before the first of them is measured.


def words_of(p):
    return f"attention type=bf16 batch={p['heads']} heads=1 queries={p['sequence']} head=128 causal=1"


def text_of(c):
    """Returns a configuration in words. None: it is another library's."""
    if c.get("by") == "cudnn":
        return None
    return " ".join(f"{k}={v}" for k, v in c.items() if k != "by")


def compile_lines():
    """Compiles what lines name, and answers each by a line. What fails does so again when it is measured."""
    gpu = Gpu(LIBRARY, "cuda:0")
    for line in sys.stdin:
        try:
            gpu.kernel(*json.loads(line)).close()
        except Error:
            pass
        print("done", flush=True)


class Compilers:
    """Processes that compile, until standard input ends."""

    def __init__(self):
        start = [sys.executable, "-B", os.path.abspath(__file__), "--compile"]
        self.all = [subprocess.Popen(start, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                    for _ in range(PROCESSES)]
        self.seen = set()

    def run(self, words, texts, busy):
        """Compiles the configurations that were not compiled yet. Calls busy(how many are done) every five seconds."""
        jobs = [t for t in dict.fromkeys(texts) if (words, t) not in self.seen]
        self.seen.update((words, t) for t in jobs)
        left, done, lock = list(reversed(jobs)), [0], threading.Lock()

        def work(process):
            while True:
                with lock:
                    if not left: return
                    text = left.pop()
                try:
                    process.stdin.write(json.dumps([words, text]) + "\n")
                    process.stdin.flush()
                    if not process.stdout.readline(): return
                except OSError:  # The process died. What is left is compiled by others, or when it is measured.
                    return
                with lock: done[0] += 1

        threads = [threading.Thread(target=work, args=(p,), daemon=True) for p in self.all[:len(jobs)]]
        for t in threads: t.start()
        told = time.monotonic()
        while any(t.is_alive() for t in threads):
            time.sleep(0.02)
            if time.monotonic() - told > 5:
                told = time.monotonic()
                busy(done[0])


def main():
    if sys.argv[1:] == ["--compile"]:
        compile_lines()
        return
    if sys.argv[1:]: sys.exit(f"measure.py: \"{sys.argv[1]}\" is not --compile")
    import runner
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    class Attention(runner.Attention):
        def by_torch(self, tensors, y):
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION): return super().by_torch(tensors, y)

    class Runner(runner.Runner):
        """Launches Tilewright's kernels in the place of Triton's."""

        def __init__(self):
            runner.FAMILIES["attention"] = Attention
            super().__init__("attention")
            self.gpu, self.compilers, self.kernels = Gpu(LIBRARY, "cuda:0"), Compilers(), []
            self.launchers, self.graphs = {}, {}

        def environment(self):
            return dict(super().environment(), ptxas=os.environ.get("TILEWRIGHT_PTXAS", "driver"))

        def prepare(self, problem):
            if problem != self.problem: self.forget()
            super().prepare(problem)

        def forget(self):
            torch.cuda.synchronize()
            self.launchers, self.graphs = {}, {}
            for k in self.kernels: k.close()
            self.kernels = []

        def launcher(self, c):
            """Further requests about a problem find the launchers and graphs of the ones before."""
            text = text_of(c)
            if text is None: return self.work.by_torch
            if text not in self.launchers: self.launchers[text] = self.bound(text)
            return self.launchers[text]

        def graph(self, launch, us):
            if launch not in self.launchers.values(): return super().graph(launch, us)
            if launch not in self.graphs: self.graphs[launch] = super().graph(launch, us)
            return self.graphs[launch]

        def open(self, i, c):
            """A configuration after which the device can run nothing has a result, so that no other process tries it."""
            try:
                return super().open(i, c)
            except Exception as e:
                runner.say({"config": i, "status": "unsupported", "message": f"{type(e).__name__}: {e}"[:300]})
                raise

        def bound(self, text):
            kernel = self.gpu.kernel(words_of(self.problem), text)
            self.kernels.append(kernel)
            bound, sizes = {}, kernel.buffers()

            def bind(tensors, y):
                of = dict(zip("qkv", tensors), out=y)
                for name in sizes.keys() - of.keys():
                    of[name] = torch.zeros((sizes[name] + 3) // 4, device="cuda", dtype=torch.int32)
                return kernel.launch(**{name: of[name].data_ptr() for name in sizes}), of

            def launch(tensors, y):
                if y.data_ptr() not in bound: bound[y.data_ptr()] = bind(tensors, y)
                bound[y.data_ptr()][0].run(torch.cuda.current_stream().cuda_stream)

            return self.warm(launch)

        def warm(self, launch):
            """Binds all copies now: while a graph is captured nothing may be allocated."""
            for tensors, y in self.copies: launch(tensors, y)
            return launch

        def answer(self, r):
            began, configs, end = time.monotonic(), r["configs"], r["seconds"]
            step = len(configs) if r["turns"] else AT_ONCE
            for first in range(0, len(configs), max(step, 1)):
                some = configs[first:first + step]
                if end is not None and time.monotonic() - began >= end: break
                texts = [t for t in map(text_of, some) if t is not None]
                self.compilers.run(words_of(r["problem"]), texts,
                                   lambda n: runner.say({"busy": f"compiled {n} of {len(texts)}"}))
                self.answer_some(r, first, some, None if end is None else end - (time.monotonic() - began))
            runner.say({"end": True})

        def answer_some(self, r, first, some, seconds):
            """Answers for some configurations, by their numbers in the request."""
            say = runner.say

            def renumbered(o):
                if "config" in o: o = dict(o, config=o["config"] + first)
                if "end" not in o: say(o)

            runner.say = renumbered
            try:
                super().answer(dict(r, configs=some, seconds=seconds))
            finally:
                runner.say = say

    runner.Setting.name = "bf16"
    if not torch.cuda.is_available(): sys.exit("measure.py: PyTorch finds no GPU")
    of = Runner()
    runner.say({"environment": of.environment()})
    for line in sys.stdin:
        try:
            of.answer(json.loads(line))
        except Exception as e:  # For example, the device failed. Earlier results are written already.
            sys.exit(f"measure.py: {type(e).__name__}: {e}".replace("\n", " ")[:500])


if __name__ == "__main__":
    main()
