# SPDX-License-Identifier: Apache-2.0
"""Ways to compute the products and the attention of a model: by the Triton kernels of kernels.py, in configurations
that somebody chooses, or by PyTorch's own kernels."""
import json
import math
import os
import sys
import time

import torch
import triton
from torch.nn.attention import SDPBackend, sdpa_kernel

import kernels
from runner import MOST_EXPERTS, cdiv, meta_of
from tilewright import Selector

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = ("gemm", "grouped", "attention")


# ---- descriptions


def describe(kind):
    """Reads the description of a family."""
    with open(os.path.join(HERE, f"{kind}.json"), encoding="utf-8") as f:
        return json.load(f)


def value_of(expression, names):
    """Computes an expression of a description (docs/tune.md). Names are bound to whole numbers."""
    for mark, word in (("&&", " and "), ("||", " or "), ("/", "//")):
        expression = expression.replace(mark, word)
    return eval(expression, {"__builtins__": {}, "min": min, "max": max}, dict(names))


def configurations(kind, environment):
    """Lists the legal configurations of a family on a device."""
    description = describe(kind)
    legal = [{}]
    for p in description["parameters"]:
        legal = [dict(c, **{p["name"]: v}) for c in legal for v in p["values"]]
    for constraint in description.get("constraints", []):
        legal = [c for c in legal if value_of(constraint, {**environment, **c})]
    return legal


def baseline(kind, name, problem):
    """Returns the configuration of a description's baseline for a problem, or its default."""
    description = describe(kind)
    for b in description.get("baselines", []):
        if b["name"] == name:
            rules = b.get("rules", [b])
            return next(r["config"] for r in rules if "when" not in r or value_of(r["when"], problem))
    return description["default"]


# ---- Triton


class Tiled:
    """The Triton kernels, in configurations of `choose(kind, problem)`. Tensors are contiguous."""

    def __init__(self, name, choose):
        self.name, self.choose = name, choose
        self.poison = False  # True: outputs are NaN before they are computed.
        self.metas = {}  # Compile-time arguments by configuration; whoever chooses keeps its configurations.
        self.made = {}  # Configurations by kind and problem.

    def output(self, like, *shape):
        y = torch.empty(shape, dtype=like.dtype, device=like.device)
        return y.fill_(float("nan")) if self.poison else y

    def meta(self, kind, problem, **constants):
        config = self.choose(kind, problem)
        meta = self.metas.get(id(config))
        if meta is None:
            meta = self.metas[id(config)] = (config, dict(meta_of(config), **constants))
        if self.poison:
            self.made[f"{kind} " + " ".join(f"{k}={v}" for k, v in problem.items())] = config
        return meta[1]

    def product(self, x, w):
        """x [m, k] w^T, with w [n, k]."""
        (m, k), n = x.shape, w.shape[0]
        c = self.meta("gemm", {"m": m, "n": n, "k": k})
        y = self.output(x, m, n)
        kernels.gemm[(cdiv(m, c["BM"]) * cdiv(n, c["BN"]),)](x, w, y, m, n, k, **c)
        return y

    def grouped(self, x, w, sizes, ends):
        """The rows of each expert of x [rows, k] times its w[e]^T, with w [experts, n, k]."""
        (rows, k), (experts, n, _) = x.shape, w.shape
        c = self.meta("grouped", {"rows": max(1, rows // experts), "experts": experts, "n": n, "k": k},
                      MOST=MOST_EXPERTS)
        y = self.output(x, rows, n)
        grid = (kernels.most_tiles(rows, experts, c["BM"]) * cdiv(n, c["BN"]),)
        kernels.grouped[grid](x, w, y, sizes, rows, experts, n, k, **c)
        return y

    def attention(self, q, k, v):
        """Causal attention of heads q [heads, sequence, width] over k and v [fewer heads, sequence, width]."""
        heads, sequence, width = q.shape
        c = self.meta("attention", {"sequence": sequence, "heads": heads}, D=width)
        y = self.output(q, *q.shape)
        kernels.attention[(cdiv(sequence, c["BM"]), heads)](q, k, v, y, sequence, heads // k.shape[0],
                                                            math.log2(math.e) / math.sqrt(width), **c)
        return y


def by_default(kind, problem, chosen={}):
    """The tutorials' configurations for products and attention, and vLLM's rule for groups."""
    key = (kind, *problem.values())
    config = chosen.get(key)
    if config is None:
        config = chosen[key] = baseline(kind, "vllm" if kind == "grouped" else "default", problem)
    return config


def by_artefacts(folder):
    """Returns a function that asks the artefacts gemm.select, grouped.select and attention.select of a folder."""
    selectors = {kind: Selector(os.path.join(folder, f"{kind}.select")) for kind in KINDS}

    def choose(kind, problem):
        return selectors[kind].choose(problem)

    return choose, selectors


class Tuned(Tiled):
    """The Triton kernels under triton.autotune over all configurations of their families. Each new problem is searched
    once. A configuration is launched once, and then `samples` times with a cold L2 cache; the median counts."""

    def __init__(self, name, environment, most=0, samples=3):
        super().__init__(name, None)
        self.seconds, self.samples = 0.0, samples
        self.cold = torch.empty(256 << 20, dtype=torch.int8, device="cuda") if torch.cuda.is_available() else None
        keys = {"gemm": ["m", "n", "k"], "grouped": ["rows", "experts", "n", "k"], "attention": ["sequence", "share"]}
        self.kernels = {}
        for kind in KINDS:
            listed = configurations(kind, environment)
            listed = listed[:: max(1, len(listed) // most)] if most else listed
            configs = [triton.Config({k: v for k, v in c.items() if k not in ("warps", "stages")}, num_warps=c["warps"],
                                     num_stages=c["stages"]) for c in listed]
            self.kernels[kind] = triton.autotune(configs, key=keys[kind], do_bench=self.bench)(getattr(kernels, kind))

    def bench(self, call, quantiles):
        """Times a configuration, for triton.autotune. One that cannot run takes forever."""
        began = time.perf_counter()
        try:
            call()
            times = [self.sample(call) for _ in range(self.samples)]
        except Exception:
            if self.cold is not None:
                torch.cuda.synchronize()
            times = [math.inf]
        self.seconds += time.perf_counter() - began
        return [sorted(times)[len(times) // 2]] * len(quantiles)

    def sample(self, call):
        if self.cold is None:
            began = time.perf_counter()
            call()
            return time.perf_counter() - began
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.cold.zero_()
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    def keep(self, kind, problem):
        if self.poison:
            best = self.kernels[kind].best_config
            self.made[f"{kind} {problem}"] = dict(best.kwargs, warps=best.num_warps, stages=best.num_stages)

    def product(self, x, w):
        (m, k), n = x.shape, w.shape[0]
        y = self.output(x, m, n)
        self.kernels["gemm"][lambda c: (cdiv(m, c["BM"]) * cdiv(n, c["BN"]),)](x, w, y, m, n, k)
        self.keep("gemm", f"m={m} n={n} k={k}")
        return y

    def grouped(self, x, w, sizes, ends):
        (rows, k), (experts, n, _) = x.shape, w.shape
        y = self.output(x, rows, n)
        self.kernels["grouped"][lambda c: (kernels.most_tiles(rows, experts, c["BM"]) * cdiv(n, c["BN"]),)](
            x, w, y, sizes, rows, experts, n, k, MOST=MOST_EXPERTS)
        self.keep("grouped", f"rows={max(1, rows // experts)} experts={experts} n={n} k={k}")
        return y

    def attention(self, q, k, v):
        heads, sequence, width = q.shape
        y = self.output(q, *q.shape)
        self.kernels["attention"][lambda c: (cdiv(sequence, c["BM"]), heads)](
            q, k, v, y, sequence, heads // k.shape[0], math.log2(math.e) / math.sqrt(width), D=width)
        self.keep("attention", f"sequence={sequence} heads={heads}")
        return y


# ---- PyTorch


class Torch:
    """PyTorch's own kernels: cuBLAS, scaled_dot_product_attention, and grouped_mm, or without it a product for each
    expert, for which the host waits for the groups' sizes."""

    def __init__(self, name):
        self.name, self.poison, self.made = name, False, {}
        self.shares_heads = True
        self.by_groups = getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
        if not torch.cuda.is_available():
            self.by_groups = None

    def product(self, x, w):
        return torch.matmul(x, w.t())

    def grouped(self, x, w, sizes, ends):
        if self.by_groups:
            try:
                return self.by_groups(x, w.transpose(1, 2), offs=ends)
            except (RuntimeError, TypeError) as e:
                complain(f"no grouped_mm: {e}")
                self.by_groups = None
        return group_by_group(x, w, ends)

    def attention(self, q, k, v):
        share = q.shape[0] // k.shape[0]
        if self.shares_heads:
            try:
                return attend(q, k, v, share > 1)
            except RuntimeError as e:
                complain(f"no attention with shared heads: {e}")
                self.shares_heads = False
        return attend(q, *(t.repeat_interleave(share, 0) for t in (k, v)), False)


def complain(text):
    print(f"ways.py: {text}"[:300].replace("\n", " "), file=sys.stderr, flush=True)


def attend(q, k, v, shares):
    """PyTorch's causal attention. On a GPU it must not fall back to kernels that store all weights."""
    fast = [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
    with sdpa_kernel(fast if q.is_cuda else [*fast, SDPBackend.MATH]):
        return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True,
                                                                enable_gqa=shares)[0]


def group_by_group(x, w, ends):
    """A product for each expert. The host waits for the ends of the groups."""
    y = torch.empty((x.shape[0], w.shape[1]), dtype=x.dtype, device=x.device)
    first = 0
    for e, end in enumerate(ends.tolist()):
        if end > first:
            torch.matmul(x[first:end], w[e].t(), out=y[first:end])
        first = end
    return y
