# SPDX-License-Identifier: Apache-2.0
"""Verdicts of the emulator on configurations of products, for results that measure nothing themselves."""
import json
import subprocess


def reduced(m, n, k, config):
    """Returns the sizes of a smaller product on which a configuration is like on m, n and k: at most two tiles along m and along n,
    and a few rounds along k. The last tile is as full as that of the product itself, since a size that is reduced keeps its
    remainder by the tile. n and k stay multiples of 8 if they are."""
    c = {name: int(value) for name, value in (word.split("=") for word in config.split())}
    rows, columns = (c["nl"], c["ml"]) if c["swap"] else (c["ml"], c["nl"])
    depth = c["u"] * c["kg"] * c["kl"] * c["ks"]
    return [size if size <= 2 * part else part + (size % part or part)
            for size, part in ((m, rows), (n, columns), (k, 2 * depth))]


def emulate(tilewright, words, m, n, k, config):
    """Runs a product in the emulator, which compares the result with double precision and looks for faults. `words`: further words
    of `tilewright kernel gemm`. Returns the command's answer, or {} if the configuration is refused."""
    ran = subprocess.run([tilewright, "kernel", "gemm", *words, f"m={m}", f"n={n}", f"k={k}", *config.split(), "--emulate",
                          "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(ran.stdout) if ran.stdout else {}


def verdict(tilewright, words, m, n, k, config):
    """Returns whether a configuration is right on the reduced product, and that product's sizes."""
    sizes = reduced(m, n, k, config)
    return emulate(tilewright, words, *sizes, config).get("correct") is True, dict(zip("mnk", sizes))
