#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures tiles of a prompt's products on a GPU, and fits src/vm/prefill/tiles.def to what was measured:

    bench/tiles.py measure --bench build/bench/bench_tiles --log tiles.log [--seconds 150] [--few | --parts | --rows 144,176,704]
    bench/tiles.py fit tiles.log --device "NVIDIA H200" --command "..." > src/vm/prefill/tiles.def
    bench/tiles.py fit parts.log --parts --device "NVIDIA H200" --command "..." > src/vm/prefill/tiles_parts.def

`measure` times the products of language models' layers, as prompts compute them, with the tiles that may be fast by a rough
estimate. The log grows product by product. `fit` chooses few tiles that together come near the fastest of every product. Each
gets two times, of 64 elements along k and of a wave, such that the fastest by these times is nearly the fastest measured. It
says on stderr how far off it is. It also reads logs of `tilewright bench gemm --log`."""
import argparse
import lzma
import math
import random
import subprocess
import sys

SMS, LAUNCH, BYTES, BOTH = 132, 1.5, 4.0e6, 0.15  # As in src/vm/prefill/tiles.c.
KEYS = ("ml", "ms", "nl", "u", "kg", "multicast", "swap", "pingpong", "persistent", "blocks")
FEW_GATED = 256  # Gated products of so many rows may have teams.
NARROW, SUMS = 64, 128  # Columns of swapped tiles that rotate, and sums of a thread that adds to C.
HEADS = {"0.6b": 128}  # Columns of heads that have norms, which lie within a tile.
TORN, FEW_TILES = 0.3, 4  # The share of a tile's rows that A lacks, and tiles along A's rows, up to which it counts.
NEAR = 1.35  # Tiles slower than the fastest by more than this are not compared.
CLOCK = 1750.0  # Clocks of a microsecond, under load.
REFINED, STAY = 100000, (0.003, 0.03)  # Changes that are tried for better choices, and the price of distance from what was fitted.
SLOWER = 3  # The price of what is slower than by known times, beside that of all that is slow.
ABSOLUTE = (0.1, 2)  # The price of how long a product takes with all tiles. The second: numbers of parts are compared, too.
PARTS_BYTES, PARTS_CACHED = 4.9e6, 8.8e6  # Of products in parts, as in src/vm/prefill/tiles.c.
WARM = 0.02  # How much worse choices may become by a change at first, in the mean.

# ---- what is measured

# The rows and columns of a layer's matrices: qkv, o, gate and up, down. qkv's sums are rotated before they are rounded. o and
# down add to the residual stream, and ready it for a norm, whose division the product behind it does.
DIVIDES, READIES = "sums=16 eps=1e-05", "out=f32 beta=1 squares=1 scaled=1"
EPILOGUES = {"qkv": "out=f32 " + DIVIDES, "o": READIES, "gateup": "gated=1 activation=silu " + DIVIDES, "down": READIES}
MODELS = {"1b": {"qkv": (3072, 2048), "o": (2048, 2048), "gateup": (16384, 2048), "down": (2048, 8192)},
          "8b": {"qkv": (6144, 4096), "o": (4096, 4096), "gateup": (28672, 4096), "down": (4096, 14336)},
          "0.6b": {"qkv": (4096, 1024), "o": (1024, 2048), "gateup": (6144, 1024), "down": (1024, 3072)}}
ROWS = (512, 128, 2048, 256, 1024, 768, 192, 8192, 640, 64)  # The most telling first, should time be up.
MOST, MOST_LONG, LONG = 64, 32, 4096  # Tiles of a product, and of one of more than LONG rows.
FEW = 512  # Products of so many rows also have tiles that leave room on an SM for another block, of the next launch, too.


FURTHER = 256  # Rows that A has beside the product's, as in prompts, which are fetched in whole tiles.
BETWEEN = (144, 176)  # Columns that suit rows of a prompt, which swapped operands have there: 144, 176, 704.


def tiles(gated):
    """Yields all tiles that may be measured."""
    for swap in (0, 1):
        for ml, ms in ((64, 64), (128, 64), (128, 128), (256, 128)):
            for nl in (32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256):
                if nl in BETWEEN and not swap:
                    continue
                if ms == 128 and nl > 192 or (gated and not swap and nl % 16):
                    continue
                for u in (64, 128):
                    for multicast in (0, 2):
                        yield ml, ms, nl, u, 1, multicast, swap, 0, 0, 0
                    for kg in range(2, 9) if not gated else ():
                        yield ml, ms, nl, u, kg, 0, swap, 0, 0, 0
                    yield ml, ms, nl, u, 1, 0, swap, 0, 1, 0
                    if ml == ms:
                        yield ml, ms, nl, u, 1, 0, swap, 1, 1, 0


def estimate(key, extents):
    """Returns a rough time of a tile in microseconds, by which those to measure are chosen."""
    ml, ms, nl, _, kg, multicast, _, pingpong, persistent, _ = key
    waves, steps, memory = shape_of(key, extents)
    step = max(ml * nl * 64 / 2048 / (0.95 if ml > 64 or pingpong else 0.8), (ml + nl) * 128 / (60 if multicast else 52)) + 16
    end = 0.6 + ml * nl * 8 / 64 / CLOCK / (ml / ms) + (1.0 if kg > 1 else 0)
    computing = waves * steps * step / CLOCK + (end if pingpong else waves * end * (0.8 if persistent else 1))
    return LAUNCH + max(computing, memory) + BOTH * min(computing, memory)


def candidates(extents, gated):
    """Returns the tiles to measure: the best by estimate of those with a split, with multicast, and with neither."""
    most = MOST_LONG if extents[0] > LONG else MOST
    best = sorted(tiles(gated), key=lambda key: estimate(key, extents))
    split, cast = [k for k in best if k[4] > 1][:most * 3 // 8], [k for k in best if k[5]][:most // 8]
    out = split + cast + [k for k in best if k[4] == 1 and not k[5]][:most - len(split) - len(cast)]
    small = [k for k in best if not k[8] and k[0] // k[1] * k[2] * k[1] <= 128 * 128 and k[3] == 64]
    return out + [k[:9] + (2,) for k in small[:most // 2] if extents[0] <= FEW]


def words_of(key):
    ml, ms, nl, u, kg, multicast, swap, pingpong, persistent, blocks = key
    return ("mma=2 ml=%d ms=%d nl=%d u=%d kg=%d split=%d multicast=%d group=%d swap=%d pingpong=%d persistent=%d blocks=%d" %
            (ml, ms, nl, u, kg, 3 if kg > 1 else 0, multicast, 1 if multicast and not swap else 8, swap, pingpong,
             SMS if persistent else 0, blocks))


FEWEST = (1,)  # With --few: the rows of a prompt's tail.


def few():
    """Yields tiles for a row, whose product reads weights and computes hardly anything, and two of tiles.def."""
    yield from ((64, 64, 32, 128, 1, 0, 0, 1, 1, 0), (64, 64, 128, 128, 1, 0, 0, 0, 1, 0))
    for ml in (64, 128):
        for u in (64, 128):
            for kg in (1, 2, 3, 4, 8):
                for blocks in (0, 2):
                    yield ml, 64, 8, u, kg, 0, 1, 0, 0, blocks


PARTS = (2, 4, 8, 16)  # With --parts: those of products that are added to the residual stream.
IN_PARTS, MOST_PARTS = ("down", "o"), 8  # Which these are, and the most parts that prompts have (TW_PROMPT_PARTS).
SHORT = (128, 64, 192)  # Rows of prompts whose products may be in parts.
CACHED = 6.0e6  # Bytes that the L2 cache moves in a microsecond to all blocks.
MOST_IN_PARTS = 10  # Tiles of a product in so many parts.


def parts_estimate(key, extents):
    """Returns a rough time of a product in parts: of its stages, of all blocks' bytes from the L2 cache, of the sums."""
    m, n, k, moved = extents
    ml, _, nl, u, kg, multicast, swap, _, _, _ = key
    waves, steps, memory = shape_of(key, extents)
    of_a, of_b = (nl, ml) if swap else (ml, nl)
    blocks = -(-n // of_b) * -(-m // of_a) * kg
    fetched = blocks * steps * 128 * (of_b + of_a / (multicast or 1))
    step = max(ml * nl * 64 / 2048, (ml + nl) * 128 / 64) + 16
    return max(waves * steps * step / CLOCK, fetched / CACHED, memory) + 8 * m * n * kg / CACHED


def in_parts(rows):
    """Returns the lines for bench_tiles of products in parts, beside whole ones with the tiles that are likely fast."""
    out = []
    for m in rows:
        for model, matrices in MODELS.items():
            for name in IN_PARTS:
                n, k = matrices[name]
                problem = "type=bf16 m=%d n=%d k=%d tb=1 weights=1 tape=8x4x%d rows_a=%d " % (m, n, k, -(-k // (32 * 8 * 4)) * 4,
                                                                                              m + FURTHER)
                extents = (m, n, k, bytes_of(m, n, k, EPILOGUES[name]))
                for parts in (1,) + PARTS:
                    by = estimate if parts == 1 else parts_estimate
                    ways = set(tiles(False)) if parts == 1 else {t[:4] + (parts, cast) + t[6:] for t in tiles(False)
                                                                 for cast in (0, 2, 4) if not t[7] and not t[8]}
                    ways = sorted((t for t in ways if t[4] == parts), key=lambda t: by(t, extents))
                    # Of each number of blocks that fetch together the best by estimate, since the estimates are rough.
                    ways = [t for cast in (0, 2, 4) for t in [w for w in ways if w[5] == cast][:MOST_IN_PARTS]]
                    of = EPILOGUES[name] if parts == 1 else "out=f32 addends=%d" % parts
                    out += ["%s-%s-tape-%d-parts-%d %s%s %s early=2" % (model, name, m, parts, problem, of,
                                                                        words_of(t).replace("split=3", "split=0")) for t in ways]
    return out


def lines(rows):
    """Returns the lines for bench_tiles."""
    out = []
    for m in rows:
        for model, matrices in MODELS.items():
            for name, (n, k) in matrices.items():
                run = -(-k // (32 * 8 * 4)) * 4  # Pieces of a run: 8 warps read them 4 at a time.
                problem = "type=bf16 m=%d n=%d k=%d tb=1 weights=1 tape=8x4x%d %s" % (m, n, k, run, EPILOGUES[name])
                problem += " rows_a=%d" % (m + FURTHER) if m > 8 else ""
                gated = "gated" in EPILOGUES[name]
                keys = few() if rows == FEWEST else candidates((m, n, k, bytes_of(m, n, k, EPILOGUES[name])), gated)
                for key in keys:
                    out.append("%s-%s-tape-%d %s %s early=2" % (model, name, m, problem, words_of(key)))
    return out


def measure(a):
    rows = tuple(a.rows or ())
    todo = in_parts(rows or SHORT) if a.parts else lines(FEWEST if a.few else rows or ROWS)
    print("tiles: %d configurations of %d products" % (len(todo), len({x.split()[0] for x in todo})), file=sys.stderr)
    with open(a.log, "w") as log:
        done = subprocess.run([a.bench, "--seconds", str(a.seconds)], input="".join(x + "\n" for x in todo), stdout=log, text=True)
    return done.returncode


# ---- the fit


def bytes_of(m, n, k, epilogue):
    """Returns the bytes that a product moves, as tw_gemm_bytes does."""
    columns = n // 2 if "gated=1" in epilogue else n
    return 2 * (n * k + m * k) + m * columns * (4 if "out=f32" in epilogue else 2) * (2 if "beta=1" in epilogue else 1)


def parts_of(name):
    """Returns the parts of a product, as `measure --parts` names it. 0: of a whole one."""
    return int(name.rsplit("-", 1)[1]) if "-parts-" in name else 0


def suits(name, m, key):
    """Tells whether prompts have such a tile (src/vm/prefill/tiles.c)."""
    _, ms, nl, _, kg, _, swap, pingpong, _, _ = key
    model, matrix = name.split("-")[:2]
    if parts_of(name):
        return True
    if matrix == "qkv" and swap and nl > NARROW:
        return False
    if matrix == "qkv" and model in HEADS and (swap or kg > 1 or nl % HEADS[model]):
        return False
    if matrix == "gateup" and kg > 1:
        return False
    if matrix in ("o", "down") and ms // 64 * nl // 2 > SUMS:
        return False
    # In whole prompts these took 16 to 23 % longer than by themselves.
    return not (m > FEW_GATED and matrix == "gateup" and pingpong)


def torn(m, key):
    """Tells whether rows that A lacks make a tile slow. Fetching one takes longer than fetching one that A has."""
    rows = key[2] if key[6] else key[0]
    return -m % rows > TORN * rows and m <= FEW_TILES * rows


def mend(times, extents):
    """Gives torn tiles the time of as many whole ones, or none. A prompt's A has the rows (rows_a), and the logs' had not."""
    at = {(row.rsplit("-", 1)[0], extents[row][0]): dict(t) for row, t in times.items()}
    for row, of in times.items():
        m = extents[row][0]
        for key in [k for k in of if torn(m, k)]:
            rows = key[2] if key[6] else key[0]
            same = [n for (name, n), t in at.items() if name == row.rsplit("-", 1)[0] and key in t and
                    -(-n // rows) == -(-m // rows) and not torn(n, key)]
            if same:
                of[key] = at[row.rsplit("-", 1)[0], min(same)][key]
            else:
                del of[key]


def read(path, least=0, most=1 << 30, parts=False):
    """Returns the extents of each product of `least` to `most` rows, and the least time of each of its tiles. `parts`: of
    products in parts, not of whole ones."""
    extents, times, whole = {}, {}, True
    opened = lzma.open(path, "rt") if path.endswith(".xz") else open(path)
    for line in opened:
        words = line.split()
        d = dict(w.split("=") for w in words[1:] if "=" in w)
        if "us" not in d or d.get("mma") != "2" or "batch" in d or d["type"] != "bf16" or d.get("tb") != "1":
            continue
        if not least <= int(d["m"]) <= most or float(d["us"]) <= 0 or int(d["stream"]) or not 32 <= int(d["m"]) <= 8192:
            continue
        name = words[0]
        if parts and not 1 < int(d.get("addends", 0)) <= MOST_PARTS:
            continue
        if not parts and int(d["kg"]) > 1 and d["split"] != "3":
            continue
        if not parts:
            name = name.split("-parts-")[0]
        d["persistent"] = int(int(d["persistent"]) > 0)
        if parts:
            d["kg"] = 0  # A tile has the same times in any number of parts.
        key = tuple(int(d[k]) for k in KEYS)
        m, n, k = (int(d[x]) for x in "mnk")
        if not suits(name, m, key):
            continue
        whole = whole and "rows_a" in d
        extents[name] = m, n, k, bytes_of(m, n, k, line)
        of = times.setdefault(name, {})
        of[key] = min(of.get(key, 1e9), float(d["us"]))
    if not whole:
        mend(times, extents)
    return extents, {row: t for row, t in times.items() if len(t) > 4}


def cover(times, first, most):
    """Chooses tiles one after another, each the one that takes the most off the rows' distances to their fastest. The tiles
    `first` are chosen already."""
    times = {row: {k: v / min(t.values()) for k, v in t.items()} for row, t in times.items()}
    chosen, at = list(first), {row: min([t[k] for k in first if k in t], default=9.0) for row, t in times.items()}
    while len(chosen) < most:
        def gain(k):
            return sum(max(0, min(at[r], 1.5) - max(1.01, t[k])) for r, t in times.items() if k in t and t[k] < at[r])
        best = max(sorted({k for t in times.values() for k in t}, reverse=True), key=gain)
        if gain(best) < 0.01:
            break
        chosen.append(best)
        for row, t in times.items():
            at[row] = min(at[row], t.get(best, 9))
    return chosen


def shape_of(key, extents):
    """Returns a tile's waves, the steps of 64 elements along k of each, and the least time of the bytes."""
    m, n, k, moved = extents
    ml, _, nl, u, kg, multicast, swap, _, _, _ = key
    of_b, of_a, together = (ml, nl, multicast or 1) if swap else (nl, ml, multicast or 1)
    # Blocks that fetch the other operand together are neighbours along the columns of B.
    blocks = -(-(-(-n // of_b)) // together) * together * -(-m // of_a) * kg
    return -(-blocks // SMS), -(-(-(-k // u)) // kg) * u / 64, moved / BYTES


def parts_shape_of(key, extents, parts):
    """Does the same for a product in parts. Its bytes are those of its operands, since the L2 cache keeps the sums. A step
    takes at least the time of what all blocks of a wave fetch through that cache."""
    m, n, k, _ = extents
    ml, _, nl, u, _, multicast, swap, _, _, _ = key
    of_b, of_a, together = (ml, nl, multicast or 1) if swap else (nl, ml, multicast or 1)
    blocks = -(-(-(-n // of_b)) // together) * together * -(-m // of_a) * parts
    waves = -(-blocks // (SMS * 10 // 11 if together == 4 else SMS))  # Not all clusters of four find room at a time.
    fetched = blocks / waves * (of_b + of_a / together) * 64 * 2
    return waves, -(-(-(-k // u)) // parts) * u / 64, 2 * (n * k + m * k) / PARTS_BYTES, fetched / PARTS_CACHED


def parts_time_of(key, shape, p):
    waves, steps, memory, fetched = shape
    return math.hypot(waves * (steps * max(p[0], fetched) + p[1]), memory)


def time_of(key, shape, p):
    if len(shape) == 4:
        return parts_time_of(key, shape, p)
    waves, steps, memory = shape
    t = waves * steps * p[0] + (p[1] if key[7] else waves * p[1])
    return LAUNCH + max(t, memory) + BOTH * min(t, memory)


def fit_times(chosen, known, extents, times, absolute):
    p = {k: [max(k[0] * k[2] * 64 / 2048 / 0.85, (k[0] + k[2]) * 128 / 60) / CLOCK, 0.8] for k in chosen}
    p.update({k: list(v) for k, v in known.items()})
    new = [k for k in chosen if k not in known]
    shapes = {(k, r): parts_shape_of(k, extents[r], parts_of(r)) if parts_of(r) else shape_of(k, extents[r])
              for k in chosen for r in times}
    rows_of = {k: [r for r in times if k in times[r]] for k in chosen}

    def error(row):
        of = times[row]
        near = NEAR * min(of.values())
        v = [math.log(time_of(k, shapes[k, row], p[k]) / of[k]) for k in chosen if of.get(k, 1e9) < near]
        if not v:
            return 0
        mean = sum(v) / len(v)
        # The ratios between tiles count, and hardly how long a product takes with all of them.
        return sum((x - mean) ** 2 for x in v) + absolute * mean * mean

    random.seed(3)
    errors = {r: error(r) for r in times}
    for i in range(20000 if new else 0):
        k, j = random.choice(new), random.randrange(2)
        old = p[k][j]
        p[k][j] = old * math.exp(random.gauss(0, 0.1 if i < 8000 else 0.03))
        now = {r: error(r) for r in rows_of[k]}
        if sum(now.values()) < sum(errors[r] for r in rows_of[k]):
            errors.update(now)
        else:
            p[k][j] = old
    return p, shapes


def refine(p, known, shapes, extents, times, stay):
    """Changes times such that what is chosen by them is nearer to the fastest, hardly ever slower than what is chosen by those
    that were known, and they stay near what was fitted."""
    fitted = {k: list(v) for k, v in p.items()}
    of_row = {r: [k for k in sorted(p) if suits(r, extents[r][0], k)] for r in times}
    rows_of = {k: [r for r in times if k in of_row[r]] for k in p}
    time = {r: {k: time_of(k, shapes[k, r], p[k]) for k in of_row[r]} for r in times}
    far = {r: {k: math.log(of.get(k, NEAR * min(of.values())) / min(of.values())) for k in p} for r, of in times.items()}
    best = {r: min(t, key=t.get) for r, t in time.items()}
    for r in times if known else ():
        before = far[r][min((k for k in of_row[r] if k in known), key=lambda k: time_of(k, shapes[k, r], known[k]))]
        far[r] = {k: x + SLOWER * max(0, x - before) for k, x in far[r].items()}
    tiles = sorted(p)
    random.seed(4)
    rows = sorted(times)
    for i in range(REFINED):
        k, j = random.choice(tiles), random.randrange(2)
        by = math.exp(random.gauss(0, (0.2, 0.08, 0.03)[i % 3]))
        r = random.choice(rows)
        faster = [x for x in of_row[r] if far[r][x] < far[r][best[r]] - 0.01] if i % 2 else ()
        if faster:
            # A tile that is faster becomes the chosen one, or the chosen one another.
            k, to = (random.choice(faster), time[r][best[r]]) if random.random() < 0.7 else (best[r], 1.03 * time[r][best[r]])
            waves, steps = shapes[k, r][:2]
            along = waves * steps if j == 0 else 1 if k[7] else waves
            by = max(0.01, 1 + (to * random.uniform(0.95, 1) - time[r][k]) / (along * p[k][j]))
        old, now, change = p[k][j], {}, 0
        p[k][j] = old * by
        for r in rows_of[k]:
            t, of = time_of(k, shapes[k, r], p[k]), time[r]
            if best[r] == k:
                to = min(of_row[r], key=lambda x: t if x == k else of[x])
            else:
                to = k if t < of[best[r]] else best[r]
            now[r] = t, to
            change += far[r][to] - far[r][best[r]]
        away = stay * (math.log(p[k][j] / fitted[k][j]) ** 2 - math.log(old / fitted[k][j]) ** 2)
        if change + away < WARM * (1 - i / REFINED) * -math.log(1 - random.random()):  # Worse ones at first, too.
            for r, (t, to) in now.items():
                time[r][k], best[r] = t, to
        else:
            p[k][j] = old
    return best


def known_of(path):
    """Returns the tiles of a table, and their times."""
    out = {}
    for line in open(path) if path else ():
        if line.startswith("TILE("):
            words = line[5:line.index(")")].split(",")
            out[tuple(int(x) for x in words[:10])] = tuple(float(x) for x in words[10:])
    return out


def fit(a):
    extents, times = {}, {}
    for path in a.logs:
        e, t = read(path, a.least_rows, a.most_rows, a.parts)
        t = {row: of for row, of in t.items() if not a.without or not a.without[0] <= e[row][0] <= a.without[1]}
        extents.update(e)
        times.update(t)
    known = known_of(a.known)
    chosen = cover(times, sorted(known), a.most)
    p, shapes = fit_times(chosen, known, extents, times, ABSOLUTE[a.parts])
    best = refine(p, known, shapes, extents, times, STAY[a.parts])
    far = []
    for row, of in times.items():
        mine = of.get(best[row], NEAR * min(of.values()))
        far.append(mine / min(of.values()))
        print("tiles: %-22s %9.2f us%s, the fastest %9.2f: %.3f" %
              (row, mine, "" if best[row] in of else " (not measured)", min(of.values()), far[-1]), file=sys.stderr)
    print("tiles: %d products, mean %.3f, most %.3f" % (len(far), sum(far) / len(far), max(far)), file=sys.stderr)
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/* Tiles of a prompt's products%s, of which each product takes the one with the least time (tiles.c):" %
          (" in parts" if a.parts else ""))
    print("     TILE(ml, ms, nl, u, kg, multicast, swap, pingpong, persistent, blocks, step, wave)")
    print("   Times are in microseconds. Written by bench/tiles.py from measurements on an %s (%s):" % (a.device, ", ".join(a.logs)))
    print("   %s */" % a.command)
    for k in sorted(chosen):
        print("TILE(%s, %.4f, %.4f)" % (", ".join(str(x) for x in k), *p[k]))
    return 0


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = a.add_subparsers(required=True)
    v = verbs.add_parser("measure")
    v.add_argument("--bench", required=True, help="the program bench_tiles")
    v.add_argument("--log", required=True)
    v.add_argument("--seconds", type=float, default=150)
    v.add_argument("--rows", type=lambda x: [int(n) for n in x.split(",")], help="measure products of these rows")
    v.add_argument("--few", action="store_true", help="products of a row, whose tiles src/vm/prefill/few.c has")
    v.add_argument("--parts", action="store_true", help="products in parts, which a norm adds up")
    v.set_defaults(run=measure)
    v = verbs.add_parser("fit")
    v.add_argument("logs", nargs="+", help="of a product that several have, the last one counts")
    v.add_argument("--device", required=True)
    v.add_argument("--command", required=True)
    v.add_argument("--parts", action="store_true", help="products in parts")
    v.add_argument("--most", type=int, default=32)
    v.add_argument("--known", help="a table whose tiles and times are the first ones")
    v.add_argument("--least-rows", type=int, default=0, help="leave out products of fewer rows")
    v.add_argument("--most-rows", type=int, default=1 << 30, help="leave out products of more rows")
    v.add_argument("--without", nargs=2, type=int, metavar=("LEAST", "MOST"), help="leave out products of these rows")
    v.set_defaults(run=fit)
    a = a.parse_args()
    sys.exit(a.run(a))


main()
