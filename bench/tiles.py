#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the tiles of a prompt's products (src/vm/prefill/tiles.def) to what `tilewright bench gemm --log` measured:

    bench/tiles.py bench/data/gemm-tiles-h200.log.xz --device "NVIDIA H200" --command "..." > src/vm/prefill/tiles.def

Few tiles are chosen that together come near the fastest configuration of every product. Each gets two times, of 64 elements
along k and of a wave, such that the fastest by these times is nearly the fastest measured. Says on stderr how far off it is."""
import argparse
import lzma
import math
import random
import sys

SMS, LAUNCH, BYTES, BOTH = 132, 1.5, 4.0e6, 0.15  # As in src/vm/prefill/tiles.c.
KEYS = ("ml", "ms", "nl", "u", "kg", "swap", "pingpong", "persistent")
NEAR = 1.35  # Tiles slower than the fastest by more than this are not compared.


def read(path):
    """Returns the extents of each product, and the least time of each of its tiles."""
    extents, times = {}, {}
    opened = lzma.open(path, "rt") if path.endswith(".xz") else open(path)
    for line in opened:
        words = line.split()
        d = dict(w.split("=") for w in words[1:] if "=" in w)
        if "us" not in d or d.get("mma") != "2" or "batch" in d or d["type"] != "bf16" or d.get("tb") != "1":
            continue
        if int(d["multicast"]) or int(d["stream"]) or not 32 <= int(d["m"]) <= 4096:
            continue
        d["persistent"] = int(int(d["persistent"]) > 0)
        key = tuple(int(d[k]) for k in KEYS)
        extents[words[0]] = tuple(int(d[k]) for k in "mnk")
        of = times.setdefault(words[0], {})
        of[key] = min(of.get(key, 1e9), float(d["us"]))
    return extents, {row: t for row, t in times.items() if len(t) > 8}


def cover(times, most):
    """Chooses tiles one after another, each the one that takes the most off the rows' distances to their fastest."""
    chosen, at = [], {row: 9.0 for row in times}
    times = {row: {k: v / min(t.values()) for k, v in t.items()} for row, t in times.items()}
    while len(chosen) < most:
        def gain(k):
            return sum(max(0, min(at[r], 1.5) - max(1.015, t[k])) for r, t in times.items() if k in t and t[k] < at[r])
        best = max(sorted({k for t in times.values() for k in t}, reverse=True), key=gain)
        if gain(best) < 0.01:
            break
        chosen.append(best)
        for row, t in times.items():
            at[row] = min(at[row], t.get(best, 9))
    return chosen


def shape_of(key, extents):
    """Returns a tile's waves, the steps of 64 elements along k of each, and the least time of the bytes."""
    m, n, k = extents
    ml, _, nl, u, kg, swap, _, _ = key
    rows, columns = (n, m) if swap else (m, n)
    blocks = -(-rows // ml) * -(-columns // nl) * kg
    return -(-blocks // SMS), -(-(-(-k // u)) // kg) * u / 64, 2 * (n * k + m * k + m * n) / BYTES


def time_of(key, shape, p):
    waves, steps, memory = shape
    t = waves * steps * p[0] + (p[1] if key[6] else waves * p[1])
    return LAUNCH + max(t, memory) + BOTH * min(t, memory)


def fit(chosen, extents, times):
    p = {k: [max(k[0] * k[2] * 64 / 2048 / 0.85, (k[0] + k[2]) * 128 / 60) / 1750, 0.8] for k in chosen}
    shapes = {(k, r): shape_of(k, extents[r]) for k in chosen for r in times}
    rows_of = {k: [r for r in times if k in times[r]] for k in chosen}

    def error(row):
        of = times[row]
        near = NEAR * min(of.values())
        v = [math.log(time_of(k, shapes[k, row], p[k]) / of[k]) for k in chosen if of.get(k, 1e9) < near]
        mean = sum(v) / len(v)
        # The ratios between tiles count, and hardly how long a product takes with all of them.
        return sum((x - mean) ** 2 for x in v) * (3 if "tape" in row else 1) + 0.1 * mean * mean

    random.seed(3)
    errors = {r: error(r) for r in times}
    for i in range(8000):
        k, j = random.choice(chosen), random.randrange(2)
        old = p[k][j]
        p[k][j] = old * math.exp(random.gauss(0, 0.1 if i < 4000 else 0.03))
        now = {r: error(r) for r in rows_of[k]}
        if sum(now.values()) < sum(errors[r] for r in rows_of[k]):
            errors.update(now)
        else:
            p[k][j] = old
    return p, shapes


def main():
    a = argparse.ArgumentParser()
    a.add_argument("log", nargs="+")
    a.add_argument("--device", required=True)
    a.add_argument("--command", required=True)
    a.add_argument("--most", type=int, default=18)
    a = a.parse_args()
    extents, times = {}, {}
    for path in a.log:
        e, t = read(path)
        extents.update(e)
        times.update(t)
    chosen = cover(times, a.most)
    p, shapes = fit(chosen, extents, times)
    far = []
    for row, of in times.items():
        mine = min((k for k in chosen if k in of), key=lambda k: time_of(k, shapes[k, row], p[k]))
        far.append(of[mine] / min(of.values()))
        if far[-1] > 1.03:
            print("tiles: %s: %.3f of the fastest" % (row, far[-1]), file=sys.stderr)
    print("tiles: %d products, mean %.3f, most %.3f" % (len(far), sum(far) / len(far), max(far)), file=sys.stderr)
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/* Tiles of a prompt's products, of which each product takes the one with the least time (tiles.c):")
    print("     TILE(ml, ms, nl, u, kg, swap, pingpong, persistent, step, wave)")
    print("   Times are in microseconds. Written by bench/tiles.py from measurements on an %s (%s):" % (a.device, ", ".join(a.log)))
    print("   %s */" % a.command)
    for k in sorted(chosen):
        print("TILE(%s, %.4f, %.4f)" % (", ".join(str(x) for x in k), *p[k]))


main()
