# SPDX-License-Identifier: Apache-2.0
"""Ways to compute the products and the attention of a model: the Triton kernels of kernels.py, by different rules to
choose their configurations, and PyTorch's own kernels. A way has the methods product, grouped and attention (class
Tiled), a `name`, and

    poison  True: outputs of Triton kernels are NaN before they are computed
    made    the configuration of each problem that was computed while `poison` was true, both as words"""
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
from tilewright import Selector, words_of

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


def to_triton(config):
    """Returns a configuration as triton.autotune takes it."""
    constants = meta_of(config)
    warps, stages = constants.pop("num_warps"), constants.pop("num_stages")
    return triton.Config(constants, num_warps=warps, num_stages=stages)


def from_triton(found):
    """Returns the configuration of a triton.Config."""
    return dict(found.kwargs, warps=found.num_warps, stages=found.num_stages)


class Tiled:
    """The Triton kernels in the configurations that choose(kind, problem) returns, always the same object for a
    configuration. Tensors are contiguous."""

    def __init__(self, name, choose):
        self.name, self.choose = name, choose
        self.poison, self.made = False, {}
        self.metas = {}  # Configurations and their compile-time arguments, by the configuration's id.

    def output(self, like, *shape):
        y = torch.empty(shape, dtype=like.dtype, device=like.device)
        return y.fill_(float("nan")) if self.poison else y

    def launch(self, kind, problem, grid, arguments, **constants):
        """Launches a kernel on a problem. grid(c) is the grid of configuration c; `constants` are compile-time
        arguments beside those of the configuration."""
        config = self.choose(kind, problem)
        meta = self.metas.get(id(config))
        if meta is None:
            meta = self.metas[id(config)] = (config, dict(meta_of(config), **constants))
        getattr(kernels, kind)[grid(config)](*arguments, **meta[1])
        self.note(kind, problem, config)

    def note(self, kind, problem, config):
        if self.poison:
            self.made[f"{kind} {words_of(problem)}"] = words_of(config)

    def product(self, x, w):
        """Returns x w^T, with x [m, k] and w [n, k]."""
        (m, k), n = x.shape, w.shape[0]
        y = self.output(x, m, n)
        self.launch("gemm", {"m": m, "n": n, "k": k}, lambda c: (cdiv(m, c["BM"]) * cdiv(n, c["BN"]),),
                    (x, w, y, m, n, k))
        return y

    def grouped(self, x, w, sizes, ends):
        """Returns the rows of x [rows, k], each multiplied by w[e]^T of its expert e, with w [experts, n, k]. Rows are
        in the order of their experts. sizes[e] is the number of rows of an expert, ends[e] the index behind its
        last."""
        (rows, k), (experts, n, _) = x.shape, w.shape
        y = self.output(x, rows, n)
        self.launch("grouped", {"rows": max(1, rows // experts), "experts": experts, "n": n, "k": k},
                    lambda c: (kernels.most_tiles(rows, experts, c["BM"]) * cdiv(n, c["BN"]),),
                    (x, w, y, sizes, rows, experts, n, k), MOST=MOST_EXPERTS)
        return y

    def attention(self, q, k, v):
        """Returns the causal attention of heads q [heads, sequence, width] over k and v [shared, sequence, width], of
        which each serves heads / shared heads of q."""
        heads, sequence, width = q.shape
        y = self.output(q, *q.shape)
        self.launch("attention", {"sequence": sequence, "heads": heads}, lambda c: (cdiv(sequence, c["BM"]), heads),
                    (q, k, v, y, sequence, heads // k.shape[0], math.log2(math.e) / math.sqrt(width)), D=width)
        return y


def by_default():
    """Returns a function that chooses the tutorials' configurations for products and attention, and by vLLM's rule for
    groups."""
    chosen = {}

    def choose(kind, problem):
        key = (kind, *problem.values())
        config = chosen.get(key)
        if config is None:
            config = chosen[key] = baseline(kind, "vllm" if kind == "grouped" else "default", problem)
        return config

    return choose


def by_artefacts(folder):
    """Returns a function that asks the artefacts gemm.select, grouped.select and attention.select of a folder, and the
    artefacts by kind."""
    selectors = {kind: Selector(os.path.join(folder, f"{kind}.select")) for kind in KINDS}

    def choose(kind, problem):
        return selectors[kind].choose(problem)

    return choose, selectors


class Tuned(Tiled):
    """The Triton kernels under triton.autotune over the configurations of their families. Each new problem is searched
    once. A configuration is launched once, and then `samples` times with a cold L2 cache; the median counts. `most`:
    about the most configurations of a family, which are taken at equal distances. 0: all."""

    def __init__(self, name, environment, most=0, samples=3):
        super().__init__(name, None)
        self.seconds, self.samples = 0.0, samples  # Seconds of all searches so far.
        self.cold = torch.empty(256 << 20, dtype=torch.int8, device="cuda") if torch.cuda.is_available() else None
        keys = {"gemm": ["m", "n", "k"], "grouped": ["rows", "experts", "n", "k"], "attention": ["sequence", "share"]}
        self.kernels = {}
        for kind in KINDS:
            listed = configurations(kind, environment)
            listed = listed[:: max(1, len(listed) // most)] if most else listed
            self.kernels[kind] = triton.autotune([to_triton(c) for c in listed], key=keys[kind],
                                                 do_bench=self.bench)(getattr(kernels, kind))

    def bench(self, call, quantiles):
        """Times a configuration, for triton.autotune. The time of one that cannot run is infinite."""
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

    def launch(self, kind, problem, grid, arguments, **constants):
        self.kernels[kind][grid](*arguments, **constants)
        if self.poison:
            self.note(kind, problem, from_triton(self.kernels[kind].best_config))


# ---- PyTorch


class Torch:
    """PyTorch's own kernels: cuBLAS, scaled_dot_product_attention and grouped_mm. Without grouped_mm it is a product
    for each expert, for which the host waits until it knows the groups' sizes."""

    def __init__(self, name):
        self.name, self.poison, self.made = name, False, {}
        self.shares_heads = True  # False: the attention wants as many heads of keys as of queries.
        # The grouped product. None: there is none.
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
    """Returns PyTorch's causal attention. `shares`: k and v have fewer heads than q. On a GPU kernels that store all
    weights are ruled out."""
    fast = [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
    with sdpa_kernel(fast if q.is_cuda else [*fast, SDPBackend.MATH]):
        return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True,
                                                                enable_gqa=shares)[0]


def group_by_group(x, w, ends):
    """Returns the grouped product by a product for each expert. The host waits until it knows `ends`."""
    y = torch.empty((x.shape[0], w.shape[1]), dtype=x.dtype, device=x.device)
    first = 0
    for e, end in enumerate(ends.tolist()):
        if end > first:
            torch.matmul(x[first:end], w[e].t(), out=y[first:end])
        first = end
    return y
