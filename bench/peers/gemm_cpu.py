#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a library's matrix product needs for the products of one prefill, every core.

    gemm_cpu.py LIBRARY,... --products 16x512x3072x2048,...      each COUNTxMxNxK: y[M][N] = x[M][K] w[N][K]^T

Libraries: openblas (cblas_sgemm), onednn (dnnl_sgemm), torch-f32, torch-bf16 (torch.mm), torch-onednn-f32,
torch-onednn-bf16 (the oneDNN inside PyTorch, weights packed beforehand). Answers a line that
names a library with {"seconds": of all products}. Each product is done in the faster of the two layouts of w, found at the start; the products
of a layer follow each other, so that no weights are found in a cache from the time before.
"""
import argparse
import ctypes
import json
import os
import sys
import time

import numpy as np

THREADS = len(os.sched_getaffinity(0))


class OpenBlas:
    exact = True

    def __init__(self):
        self.lib = ctypes.CDLL("libopenblas.so.0")
        self.lib.openblas_set_num_threads(THREADS)
        self.lib.openblas_get_config.restype = ctypes.c_char_p
        self.version = self.lib.openblas_get_config().decode()

    def prepare(self, w, transposed):
        return np.ascontiguousarray(w.T) if transposed else w

    def run(self, x, w, y, transposed):
        (m, k), n = x.shape, y.shape[1]
        p, i, one = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
        self.lib.cblas_sgemm(i(101), i(111), i(111 if transposed else 112), i(m), i(n), i(k), one(1), p(x.ctypes.data), i(k),
                             p(w.ctypes.data), i(n if transposed else k), one(0), p(y.ctypes.data), i(n))
        return y


class OneDnn(OpenBlas):
    def __init__(self):
        for name in ("libdnnl.so.3", "libdnnl.so.2"):
            try:
                self.lib = ctypes.CDLL(name)
                break
            except OSError:
                continue
        else:
            raise OSError("libdnnl is not installed")

        class Version(ctypes.Structure):
            _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int)]

        self.lib.dnnl_version.restype = ctypes.POINTER(Version)
        v = self.lib.dnnl_version().contents
        self.version = "%d.%d.%d" % (v.major, v.minor, v.patch)

    def run(self, x, w, y, transposed):
        (m, k), n = x.shape, y.shape[1]
        p, i, one, c = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_char
        status = self.lib.dnnl_sgemm(c(b"N"), c(b"N" if transposed else b"T"), i(m), i(n), i(k), one(1), p(x.ctypes.data),
                                     i(k), p(w.ctypes.data), i(n if transposed else k), one(0), p(y.ctypes.data), i(n))
        if status:
            raise RuntimeError("dnnl_sgemm: status %d" % status)
        return y


class Torch:
    def __init__(self, dtype, packed=False):
        import torch
        self.torch, self.packed, self.exact = torch, packed, dtype == "f32"
        self.dtype = torch.float32 if dtype == "f32" else torch.bfloat16
        torch.set_num_threads(THREADS)
        parts = [s.strip() for s in torch.__config__.show().splitlines() if "Math Kernel" in s or "MKL-DNN" in s]
        self.version = "torch " + torch.__version__ + "; " + "; ".join(p.lstrip("- ") for p in parts)

    def tensor(self, a):
        return self.torch.from_numpy(a).to(self.dtype)

    def prepare(self, w, transposed):
        w = self.tensor(w)
        if self.packed:
            return self.torch.ops.mkldnn._reorder_linear_weight(w, self.rows)
        return w.t().contiguous() if transposed else w

    def run(self, x, w, y, transposed):
        with self.torch.no_grad():
            if self.packed:
                return self.torch.ops.mkldnn._linear_pointwise(x, w, None, "none", [], "")
            return self.torch.mm(x, w if transposed else w.t(), out=y)


LIBRARIES = {
    "openblas": OpenBlas,
    "onednn": OneDnn,
    "torch-f32": lambda: Torch("f32"),
    "torch-bf16": lambda: Torch("bf16"),
    "torch-onednn-f32": lambda: Torch("f32", True),
    "torch-onednn-bf16": lambda: Torch("bf16", True),
}


class Product:
    """One shape: its operands, and the layout of w that this library is faster with."""

    def __init__(self, lib, count, m, n, k, random):
        self.lib, self.count = lib, count
        x = random.standard_normal((m, k), dtype=np.float32)
        w = random.standard_normal((n, k), dtype=np.float32)
        y = np.zeros((m, n), np.float32)
        lib.rows = m
        self.x, self.y = (lib.tensor(x), lib.tensor(y)) if isinstance(lib, Torch) else (x, y)
        best = None
        for transposed in (False,) if getattr(lib, "packed", False) else (False, True):
            prepared = lib.prepare(w, transposed)
            lib.run(self.x, prepared, self.y, transposed)
            start = time.perf_counter()
            lib.run(self.x, prepared, self.y, transposed)
            seconds = time.perf_counter() - start
            if best is None or seconds < best:
                best, self.w, self.transposed = seconds, prepared, transposed
        self.check(x, w)

    def run(self):
        return self.lib.run(self.x, self.w, self.y, self.transposed)

    def check(self, x, w):
        y = self.run()
        y = y if isinstance(y, np.ndarray) else y.float().numpy()
        rows, cols = np.arange(0, x.shape[0], 61), np.arange(0, w.shape[0], 251)
        a, b = x[rows].astype(np.float64), w[cols].astype(np.float64)
        allowed = (1e-5 if self.lib.exact else 1e-2) * (np.abs(a) @ np.abs(b).T)
        if not (np.abs(y[np.ix_(rows, cols)] - a @ b.T) <= allowed).all():
            raise RuntimeError("wrong product %dx%dx%d" % (x.shape[0], w.shape[0], x.shape[1]))


class Library:
    def __init__(self, name, products):
        random = np.random.default_rng(1)
        self.lib = LIBRARIES[name]()
        self.products = [Product(self.lib, *map(int, s.split("x")), random) for s in products.split(",")]

    def describe(self):
        packed = getattr(self.lib, "packed", False)
        return {"version": self.lib.version, "threads": THREADS, "exact": self.lib.exact,
                "weights_as": ["packed" if packed else "KxN" if q.transposed else "NxK" for q in self.products]}

    def seconds(self):
        start = time.perf_counter()
        for i in range(max(q.count for q in self.products)):
            for q in self.products:
                if i < q.count:
                    q.run()
        return time.perf_counter() - start


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("libraries")
    p.add_argument("--products", required=True)
    a = p.parse_args()
    reply = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    libraries, said = {}, {}
    for name in a.libraries.split(","):
        try:
            libraries[name] = Library(name, a.products)
            said[name] = libraries[name].describe()
        except (OSError, ImportError, RuntimeError, NotImplementedError, AttributeError) as error:
            said[name] = {"error": "%s: %s" % (type(error).__name__, str(error).split("\n")[0])}
    print(json.dumps(said), file=reply)
    for line in sys.stdin:
        print(json.dumps({"seconds": libraries[line.strip()].seconds()}), file=reply)


if __name__ == "__main__":
    main()
