#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks and times the Triton kernels of kernels.py for `tilewright measure gemm.json` and other verbs. docs/tune.md
describes the lines that are read and written. The runner needs PyTorch and Triton 3.

    runner.py KERNEL [f16|bf16]             answers requests on standard input; KERNEL is gemm, grouped or attention
    runner.py KERNEL [f16|bf16] --compile   compiles the configurations of a JSON list, for Triton's cache

A configuration is first checked at the size that is timed: its output, NaN before, is compared with PyTorch's. A sample
replays a CUDA graph of launches, which lasts about 200 us or longer. The launches use several copies of the tensors in
turn, so that a launch finds none of its inputs in the L2 cache."""
import json
import math
import os
import subprocess
import sys
import threading
import time

import torch
import triton

import kernels

PROCESSES = min(16, os.cpu_count() or 1)  # The most processes that compile.
SAMPLE_US = 200  # The least time of a sample.
LAUNCHES = 400  # The most launches of a sample.
HEAD = 128  # Width of a head.
MOST_EXPERTS = 128  # The most experts of a grouped product.
MOST_CELLS = 1 << 31  # Kernels count the cells of a tensor in 32 bits.
CELLS_AT_ONCE = 1 << 27  # Cells that are compared at once.
TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}


def cdiv(a, b):
    return -(-a // b)


def meta_of(c):
    """Returns the compile-time arguments of a configuration."""
    constants = {k: v for k, v in c.items() if k not in ("warps", "stages")}
    return dict(constants, num_warps=c["warps"], num_stages=c["stages"])


class Setting:
    """The element type of the tensors of this process."""

    name = "f16"

    @classmethod
    def type(cls):
        return TYPES[cls.name]

    @classmethod
    def coarser(cls):
        """Returns the rounding unit of the type over that of f16."""
        return 8 if cls.name == "bf16" else 1


def empty(shape):
    if math.prod(shape) >= MOST_CELLS:
        raise NotImplementedError(f"a tensor of {math.prod(shape)} cells")
    return torch.empty(shape, dtype=Setting.type(), device="cuda")


def generator(seed):
    return torch.Generator(device="cuda").manual_seed(seed)


def uniform(shape, seed):
    return empty(shape).uniform_(-1, 1, generator=generator(seed))


def normal(shape, seed):
    return empty(shape).normal_(0, 1, generator=generator(seed))


def tolerance_of_product(k):
    """Returns the absolute and the relative tolerance of a product of depth k. Rounding to f16 changes a result by
    2^-11 of its size; the errors of sums in f32 are much smaller."""
    return 2e-4 * math.sqrt(k), 1e-3 * Setting.coarser()


# A family has these members:
#   example              a problem for which configurations are compiled
#   kernel               the Triton kernel
#   types()              types of the tensors that inputs() makes
#   inputs(), output()   tensors of the problem; the output's values are undefined
#   reference(tensors)   the right output, in f32
#   tolerance()          absolute and relative tolerance of the output
#   arguments(tensors, y), grid(c), constants()
#                        the kernel's arguments, which may be types in place of tensors to compile it; the grid of
#                        configuration c; compile-time arguments that no configuration has
#   by_torch(tensors, y) (not all) PyTorch's own kernel, which writes y, or returns the output


class Gemm:
    """c [m, n] = a [m, k] b^T."""

    example = {"m": 4096, "n": 4096, "k": 4096}
    kernel = kernels.gemm

    @staticmethod
    def types():
        return [Setting.type()] * 2

    def __init__(self, p):
        self.m, self.n, self.k = p["m"], p["n"], p["k"]

    def inputs(self):
        return [uniform((self.m, self.k), 1), uniform((self.n, self.k), 2)]

    def output(self):
        return empty((self.m, self.n))

    def reference(self, tensors):
        a, b = tensors
        return torch.matmul(a.double(), b.double().t()).float()

    def tolerance(self):
        return tolerance_of_product(self.k)

    def arguments(self, tensors, y):
        return (*tensors, y, self.m, self.n, self.k)

    def grid(self, c):
        return (cdiv(self.m, c["BM"]) * cdiv(self.n, c["BN"]),)

    def constants(self):
        return {}

    def by_torch(self, tensors, y):
        torch.matmul(tensors[0], tensors[1].t(), out=y)


class Grouped:
    """y = the rows of each expert times the expert's weights. Experts have uneven numbers of rows."""

    example = {"rows": 64, "experts": 64, "n": 2048, "k": 2048}
    kernel = kernels.grouped

    @staticmethod
    def types():
        return [Setting.type(), Setting.type(), torch.int32]

    def __init__(self, p):
        self.experts, self.n, self.k = p["experts"], p["n"], p["k"]
        self.rows = p["rows"] * self.experts
        if self.experts > MOST_EXPERTS:
            raise NotImplementedError(f"more than {MOST_EXPERTS} experts")

    def inputs(self):
        # The host draws the groups, so that they are the same on every device.
        g = torch.Generator().manual_seed(self.rows * 1000003 + self.experts)
        likely = torch.softmax(0.5 * torch.randn(self.experts, generator=g), 0)
        of = torch.multinomial(likely, self.rows, replacement=True, generator=g)
        sizes = torch.bincount(of, minlength=self.experts).to(torch.int32).cuda()
        return [uniform((self.rows, self.k), 1), uniform((self.experts, self.n, self.k), 2), sizes]

    def output(self):
        return empty((self.rows, self.n))

    def reference(self, tensors):
        x, w, sizes = tensors
        y = torch.empty((self.rows, self.n), dtype=torch.float32, device="cuda")
        first = 0
        for e, n in enumerate(sizes.tolist()):
            y[first:first + n] = torch.matmul(x[first:first + n].double(), w[e].double().t()).float()
            first += n
        return y

    def tolerance(self):
        return tolerance_of_product(self.k)

    def arguments(self, tensors, y):
        x, w, sizes = tensors
        return (x, w, y, sizes, self.rows, self.experts, self.n, self.k)

    def grid(self, c):
        return (kernels.most_tiles(self.rows, self.experts, c["BM"]) * cdiv(self.n, c["BN"]),)

    def constants(self):
        return {"MOST": MOST_EXPERTS}


class Attention:
    """Causal attention of heads of 128."""

    example = {"heads": 32, "sequence": 4096}
    kernel = kernels.attention

    @staticmethod
    def types():
        return [Setting.type()] * 3

    def __init__(self, p):
        self.heads, self.sequence = p["heads"], p["sequence"]

    def shape(self):
        return (self.heads, self.sequence, HEAD)

    def inputs(self):
        # Queries are long, so that few keys decide a result, and a missing block of keys changes it.
        return [normal(self.shape(), 1) * 3, normal(self.shape(), 2), normal(self.shape(), 3)]

    def output(self):
        return empty(self.shape())

    def reference(self, tensors):
        q, k, v = tensors
        out = torch.empty(self.shape(), dtype=torch.float32, device="cuda")
        rows = max(1, min(self.sequence, (1 << 28) // self.sequence))
        keys = torch.arange(self.sequence, device="cuda")
        for h in range(self.heads):
            for first in range(0, self.sequence, rows):
                end = min(first + rows, self.sequence)
                s = torch.matmul(q[h, first:end].float(), k[h].float().t()) / math.sqrt(HEAD)
                s.masked_fill_(keys[None, :] > keys[first:end, None], float("-inf"))
                out[h, first:end] = torch.matmul(torch.softmax(s, -1), v[h].float())
        return out

    def tolerance(self):
        """Weights, at most 1, are rounded before they are multiplied by values, of which few are above 4."""
        return 5e-3 * Setting.coarser(), 2e-3 * Setting.coarser()

    def arguments(self, tensors, y):
        return (*tensors, y, self.sequence, 1, math.log2(math.e) / math.sqrt(HEAD))

    def grid(self, c):
        return (cdiv(self.sequence, c["BM"]), self.heads)

    def constants(self):
        return {"D": HEAD}

    def by_torch(self, tensors, y):
        q, k, v = (t[None] for t in tensors)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)[0]


FAMILIES = {"gemm": Gemm, "grouped": Grouped, "attention": Attention}


# ---- compiling


def compile_one(family, c):
    """Compiles a configuration, or finds it in Triton's cache. All problems share the compiled kernel."""
    work = family(family.example)
    arguments = work.arguments(family.types(), Setting.type())
    family.kernel.warmup(*arguments, grid=(1,), **work.constants(), **meta_of(c))


def compile_all(family, configs):
    """Compiles configurations one after another, as a process of its own, and writes a line for each."""
    for c in configs:
        try:
            compile_one(family, c)
            print("compiled", flush=True)
        except Exception as e:  # The configuration fails again when it is measured, and is reported then.
            print(f"failed: {e}"[:200].replace("\n", " "), flush=True)


def say(o):
    try:
        print(json.dumps(o), flush=True)
    except BrokenPipeError:  # Whoever asked has ended.
        os._exit(0)


def are_cached(family, configs):
    """Guesses whether configurations are in Triton's cache, by the time that two of them take."""
    try:
        compile_one(family, configs[0])  # The first one starts the compiler.
        began = time.monotonic()
        compile_one(family, configs[1])
        compile_one(family, configs[-1])
        return time.monotonic() - began < 0.3
    except Exception:
        return False


def compile_in_parallel(name, configs, busy=say):
    """Fills Triton's cache by several processes, and reports progress every 5 s."""
    n = min(PROCESSES, cdiv(len(configs), 4))
    done, lock = [0], threading.Lock()

    def watch(process):
        for _ in process.stdout:
            with lock:
                done[0] += 1

    running = []
    for i in range(n):
        p = subprocess.Popen([sys.executable, os.path.abspath(__file__), name, Setting.name, "--compile"],
                             text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            p.stdin.write(json.dumps(configs[i::n]))
            p.stdin.close()
        except BrokenPipeError:  # What this process did not compile is compiled when it is measured.
            pass
        t = threading.Thread(target=watch, args=(p,), daemon=True)
        t.start()
        running.append((p, t))
    told = time.monotonic()
    while any(p.poll() is None for p, _ in running):
        time.sleep(0.1)
        if time.monotonic() - told > 5:
            told = time.monotonic()
            busy({"busy": f"compiled {done[0]} of {len(configs)}"})
    for p, t in running:
        p.wait()
        t.join(1)


# ---- measuring


class Runner:
    """Answers requests about the kernels of one family."""

    def __init__(self, name):
        self.name = name
        self.family = FAMILIES[name]
        self.compiled = set()
        self.problem, self.device_bytes = None, torch.cuda.mem_get_info()[1]
        self.properties = torch.cuda.get_device_properties(0)
        self.l2 = getattr(self.properties, "L2_cache_size", 50 << 20)
        torch.cuda.set_stream(torch.cuda.Stream())  # Graphs are not captured from the default stream.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.set_float32_matmul_precision("highest")

    def environment(self):
        q, major, minor = self.properties, *torch.cuda.get_device_capability(0)
        shared = triton.runtime.driver.active.utils.get_device_properties(0)["max_shared_mem"]
        sms = q.multi_processor_count
        try:
            driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], text=True,
                                    stdout=subprocess.PIPE, check=True).stdout.split("\n")[0].strip()
        except (OSError, subprocess.CalledProcessError):
            driver = "unknown"
        return {"device": q.name, "alike": f"sm_{major}{minor}, {sms} SMs, {self.l2 >> 20} MiB of L2",
                "architecture": f"sm_{major}{minor}", "sms": sms, "l2_bytes": self.l2, "shared_bytes": shared,
                "driver": driver, "torch": torch.__version__, "triton": triton.__version__,
                "cuda": torch.version.cuda or "none"}

    def prepare(self, problem):
        """Makes the reference of a problem, and as many copies of its tensors as fill the L2 cache twice."""
        if problem == self.problem:
            return
        self.problem, self.copies, self.expected = None, None, None
        if torch.cuda.memory_reserved() > self.device_bytes // 2:
            torch.cuda.empty_cache()
        self.work = self.family(problem)
        tensors = self.work.inputs()
        self.expected = self.work.reference(tensors)
        y = self.work.output()
        a_copy = sum(t.numel() * t.element_size() for t in (*tensors, y))
        n = max(2, min(LAUNCHES // 2, cdiv(2 * self.l2, a_copy)))
        if a_copy > 8 * self.l2:  # A launch alone evicts what the next one reads first.
            n = 1
        self.copies = [(tensors, y)]
        self.copies += [([t.clone() for t in tensors], torch.empty_like(y)) for _ in range(n - 1)]
        self.problem = problem

    def launcher(self, c):
        """Returns a function that launches a configuration on a copy, and returns the output. None: the output is y."""
        work = self.work
        if c.get("by") == "torch":
            return work.by_torch
        grid = work.grid(c)
        if max(grid[1:], default=1) > 65535:
            raise NotImplementedError("the grid is too large")
        kernel, meta = work.kernel[grid], dict(work.constants(), **meta_of(c))

        def launch(tensors, y):
            kernel(*work.arguments(tensors, y), **meta)

        return launch

    def check(self, launch):
        """Launches once on poisoned output. Returns the number of wrong cells, and the time in microseconds."""
        tensors, y = self.copies[0]
        launch(tensors, y)  # Loads the kernel.
        y.fill_(float("nan"))
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        out = launch(tensors, y)
        end.record()
        out = y if out is None else out
        absolute, relative = self.work.tolerance()
        right = torch.zeros((), dtype=torch.int64, device="cuda")
        for a, b in zip(out.reshape(-1).split(CELLS_AT_ONCE), self.expected.reshape(-1).split(CELLS_AT_ONCE)):
            right += ((a.float() - b).abs_() <= b.abs().mul_(relative).add_(absolute)).sum()
        return y.numel() - int(right.item()), max(begin.elapsed_time(end) * 1000, 1)

    def graph(self, launch, us):
        """Returns a graph of launches over all copies, and the number of launches."""
        rounds = max(1, min(LAUNCHES // len(self.copies), math.ceil(SAMPLE_US / (us * len(self.copies)))))
        g = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        g.capture_begin()
        try:
            for _ in range(rounds):
                for tensors, y in self.copies:
                    launch(tensors, y)
        finally:
            g.capture_end()
        torch.cuda.synchronize()
        return g, rounds * len(self.copies)

    def sample(self, graph):
        """Returns the time of a launch in microseconds."""
        g, launches = graph
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        g.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1000 / launches

    def open(self, i, c):
        """Checks a configuration. Returns its graph. None: it is wrong or cannot run, which is reported."""
        try:
            launch = self.launcher(c)
            wrong, us = self.check(launch)
            if wrong:
                cells = self.copies[0][1].numel()
                say({"config": i, "status": "wrong", "message": f"{wrong} of {cells} cells are wrong"})
                return None
            return self.graph(launch, us)
        except Exception as e:
            torch.cuda.synchronize()  # After a fault of the device this raises, and the runner ends.
            say({"config": i, "status": "unsupported", "message": f"{type(e).__name__}: {e}"[:300]})
            return None

    def refuse(self, configs, why):
        """Answers that no configuration can compute a problem."""
        self.problem, self.copies, self.expected = None, None, None
        torch.cuda.empty_cache()
        for i in range(len(configs)):
            say({"config": i, "status": "unsupported", "message": f"{type(why).__name__}: {why}"[:300]})
        say({"end": True})

    def answer(self, r):
        """Answers a request."""
        began, configs, rounds = time.monotonic(), r["configs"], r["warmups"] + r["samples"]

        def late():
            return r["seconds"] is not None and time.monotonic() - began >= r["seconds"]

        new = [c for c in configs if "warps" in c and json.dumps(c) not in self.compiled]
        if len(new) > 3 and not are_cached(self.family, new):
            compile_in_parallel(self.name, new)
        self.compiled.update(json.dumps(c) for c in new)
        try:
            self.prepare(r["problem"])
        except (torch.OutOfMemoryError, NotImplementedError) as e:
            self.refuse(configs, e)
            return
        groups = [range(len(configs))] if r["turns"] else [[i] for i in range(len(configs))]
        for group in groups:
            if late():
                break
            graphs = {i: self.open(i, configs[i]) for i in group}
            order, samples = [i for i in group if graphs[i]], {i: [] for i in group}
            for k in range(rounds):
                if r["turns"] and k > r["warmups"] and late():
                    break
                for j in range(len(order)):
                    i = order[(j + k) % len(order)]
                    samples[i].append(self.sample(graphs[i]))
            for i in order:
                say({"config": i, "status": "right", "samples": samples[i][r["warmups"]:]})
        say({"end": True})


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in FAMILIES:
        sys.exit("runner.py: the first word is not gemm, grouped or attention")
    words = sys.argv[2:]
    if words and words[0] in TYPES:
        Setting.name = words.pop(0)
    if words not in ([], ["--compile"]):
        sys.exit(f"runner.py: \"{words[0]}\" is not f16, bf16 or --compile")
    if words:
        compile_all(FAMILIES[name], json.load(sys.stdin))
        return
    if not torch.cuda.is_available():
        sys.exit("runner.py: PyTorch finds no GPU")
    runner = Runner(name)
    say({"environment": runner.environment()})
    for line in sys.stdin:
        try:
            runner.answer(json.loads(line))
        except Exception as e:  # For example, the device failed. Earlier results are written already.
            sys.exit(f"runner.py: {type(e).__name__}: {e}".replace("\n", " ")[:500])


if __name__ == "__main__":
    main()
