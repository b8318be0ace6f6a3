#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the weights of models that tools/make_zoo.py exported: random numbers that depend on a parameter's name alone.

    bench/zoo_weights.py FOLDER...     each has manifest.json; weights.bin is written beside it

A model's file is the same on every machine, so only its structure need be copied. Needs NumPy alone."""
import json
import math
import os
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import zoo


def values(row):
    """Returns a parameter's values, as its model has them."""
    r = np.random.Generator(np.random.Philox(zlib.crc32(row["param"].encode())))
    x = r.standard_normal(math.prod(row["shape"]), dtype=np.float32)
    x *= np.float32(row["deviation"])
    x += np.float32(row["mean"])
    return x.reshape(row["shape"])


def write(folder, threads=None):
    """Writes a folder's weights, unless a whole file is there."""
    with open(os.path.join(folder, zoo.MANIFEST)) as f:
        manifest = json.load(f)
    path = os.path.join(folder, zoo.DATA)
    if os.path.exists(path) and os.path.getsize(path) == manifest["bytes"]:
        return path
    fd = os.open(path + ".new", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
    os.ftruncate(fd, manifest["bytes"])

    def fill(row):
        x = values(row)
        left = memoryview(np.ascontiguousarray(x.T if row["transposed"] else x)).cast("B")
        at = row["offset"]
        while left:  # A call writes 2 GB at most.
            n = os.pwrite(fd, left[: 1 << 30], at)
            left, at = left[n:], at + n

    with ThreadPoolExecutor(threads or min(os.cpu_count() or 1, 16)) as pool:
        list(pool.map(fill, manifest["tensors"]))
    os.close(fd)
    os.replace(path + ".new", path)
    return path


def parameters(folder):
    """Yields each parameter's name and values, mapped from the file that write() made."""
    with open(os.path.join(folder, zoo.MANIFEST)) as f:
        manifest = json.load(f)
    data = np.memmap(os.path.join(folder, zoo.DATA), mode="r", dtype=np.float32)
    seen = set()
    for row in manifest["tensors"]:
        if row["param"] in seen:
            continue
        seen.add(row["param"])
        first = row["offset"] // 4
        x = data[first : first + math.prod(row["shape"])]
        yield row["param"], x.reshape(row["shape"][::-1]).T if row["transposed"] else x.reshape(row["shape"])


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for each in sys.argv[1:]:
        print(write(each), flush=True)
