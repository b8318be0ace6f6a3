# SPDX-License-Identifier: Apache-2.0
"""simulate.py LINES CACHE [OTHER]: has Kernel Tuner simulate a tuning run on CACHE. Fails unless every configuration has
the mean of its samples in LINES (`tilewright export`) for its time, and the best one is the one with the least mean. OTHER
is a cache that must give the same times.
simulate.py --schema FILE: fails unless FILE meets the schema of T4."""
import json
import shutil
import sys

import jsonschema
import kernel_tuner
from kernel_tuner.file_utils import output_file_schema


def close(a, b):
    return abs(a - b) <= 1e-12 * max(abs(a), abs(b))


def simulate(path):
    """Runs through the space of a cache by brute force. Returns the time of each configuration by its values, the names of
    the parameters, and the best configuration. Works on a copy, and fails if Kernel Tuner changed it."""
    shutil.copy(path, "copy.json")
    results, env = kernel_tuner.tune_cache("copy.json", quiet=True)
    with open(path) as f, open("copy.json") as g:
        assert f.read() == g.read()
        f.seek(0)
        keys = json.load(f)["tune_params_keys"]
    return {tuple(str(r[k]) for k in keys): r["time"] for r in results}, keys, env["best_config"]


def main():
    if sys.argv[1] == "--schema":
        with open(sys.argv[2]) as f:
            jsonschema.validate(json.load(f), output_file_schema("results")[1])
        return print("meets the schema")
    times, keys, best = simulate(sys.argv[2])
    means, most = {}, {}
    with open(sys.argv[1]) as f:
        for line in map(json.loads, f):
            key = tuple(str(line["config"].get(k)) for k in keys)
            if line["status"] == "right" and len(line["samples"]) >= most.get(key, 0):
                most[key] = len(line["samples"])
                means[key] = sum(line["samples"]) / len(line["samples"]) * 1e-3
    assert len(times) > 3 and times.keys() == means.keys(), (times.keys() ^ means.keys())
    assert all(close(times[k], means[k]) for k in times), "times differ"
    assert close(best["time"], min(means.values())), "another configuration is best"
    if len(sys.argv) > 3:
        others, _, _ = simulate(sys.argv[3])
        assert others.keys() == times.keys() and all(close(others[k], times[k]) for k in times)
    print(f"{len(times)} configurations, the best takes {best['time']:.6f} ms")


main()
