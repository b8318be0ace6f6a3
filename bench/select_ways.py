#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a decision takes, and in the ways that were tried in its place (docs/select.md): lines of JSON.

    bench/select_ways.py [--runs 10] [--device WORDS] > bench/results/decide-cpu.jsonl
    bench/select_ways.py --check        are the lines there that are changed?

Builds bench_select once for each way, from a copy of the tree in which one line is changed, and runs the programs in turn. A
figure is the least of the runs' medians, `_middle_run` the middle one. Exit 1, without any figure: a program decided wrongly.
"""
import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TIMES = ["remembered", "new", "flushed", "evicted", "walked"]
# A way's name, and the line that makes it: a file of src/select, what is there, and what stands there instead. All but the
# direct ones run with --waves.
WAYS = [
    ("direct", None, None, None),
    ("direct, nothing is fetched ahead", "decide.c", "    __builtin_prefetch(at);", "    (void)at;"),
    ("direct, SSE2 instead of AVX2", "open.c", '    if (__builtin_cpu_supports("avx2")) return select_scan_avx2;\n', ""),
    ("waves", None, None, None),
    ("no bounds", "scan.h", "low[i] = (slope * w + start) * holds;", "low[i] = (slope * w + start) * holds * 0;"),
    ("floats in records", "write.c", "if (!fill_records(w, SELECT_NARROW)) fill_records(w, SELECT_WIDE);",
     "fill_records(w, SELECT_WIDE);"),
    ("nothing is fetched ahead", "decide.c", "    __builtin_prefetch(at);", "    (void)at;"),
    ("columns are not fetched ahead", "decide.c",
     "    for (int i = 0; i < v->hot_lines; i++) prefetch(v->hot + (size_t)i * SELECT_LINE);\n", ""),
    ("tails are not fetched ahead", "decide.c", "    prefetch(&v->tails[c->macro]);\n", ""),
    ("SSE2 instead of AVX2", "open.c", '    if (__builtin_cpu_supports("avx2")) return select_scan_avx2;\n', ""),
]


def say(*words):
    return subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def changed(tree, way):
    """Returns the path of a way's file, its text, and the text with the line changed. None: nothing is changed."""
    what, name, old, new = way
    if not name:
        return None
    path = os.path.join(tree, "src", "select", name)
    with open(path) as f:
        text = f.read()
    if text.count(old) != 1:
        sys.exit("%s: %s has its line %d times" % (what, name, text.count(old)))
    return path, text, text.replace(old, new)


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def build(folder):
    """Returns the program of each way."""
    tree, programs = os.path.join(folder, "tree"), []
    for name in ["src", "include", "bench", "tests", "cmake"]:
        shutil.copytree(os.path.join(ROOT, name), os.path.join(tree, name))
    shutil.copy(os.path.join(ROOT, "CMakeLists.txt"), tree)
    quiet = {"check": True, "stdout": sys.stderr}
    subprocess.run(["cmake", "-S", tree, "-B", os.path.join(folder, "build"), "-DTW_TESTS=ON"], **quiet)
    for i, way in enumerate(WAYS):
        change = changed(tree, way)
        if change:
            write(change[0], change[2])
        subprocess.run(["cmake", "--build", os.path.join(folder, "build"), "--target", "bench_select"], **quiet)
        programs.append(shutil.copy(os.path.join(folder, "build", "bench", "bench_select"), os.path.join(folder, "way%d" % i)))
        if change:
            write(change[0], change[1])
    return programs


def row(way, runs):
    first = runs[0]
    out = {"case": way, "macros": first["macros"], "bytes": first["bytes"], "records_read": first["records_read"],
           "runs": len(runs)}
    for t in TIMES:
        medians = sorted(r[t + "_ns"] for r in runs)
        out[t + "_ns"], out[t + "_middle_run_ns"] = round(medians[0]), round(medians[len(medians) // 2])
    out.update(checked=sum(r["checked"] for r in runs), correct=all(r["correct"] for r in runs))
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=int, default=10, help="runs of each program (default 10)")
    p.add_argument("--device", help="the device in words (default: the processor's name and its cores)")
    p.add_argument("--check", action="store_true", help="build and time nothing")
    o = p.parse_args()
    if o.check:
        for way in WAYS:
            changed(ROOT, way)
        return
    commit = say("git", "rev-parse", "--short=12", "HEAD")
    if subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "src", "include", "bench", "tests/select"], cwd=ROOT).returncode:
        commit += "+changes"
    runs = [[] for _ in WAYS]
    with tempfile.TemporaryDirectory() as folder:
        programs = build(folder)
        for _ in range(o.runs):
            for i, program in enumerate(programs):
                waves = [] if WAYS[i][0].startswith("direct") else ["--waves"]
                done = subprocess.run([program] + waves, stdout=subprocess.PIPE, text=True)
                if done.returncode:
                    sys.exit("%s: a decision is wrong" % WAYS[i][0])
                runs[i].append(json.loads(done.stdout))
    device = o.device or "%s, %d cores" % (runs[0][0].get("cpu", platform.machine()), len(os.sched_getaffinity(0)))
    print(json.dumps({"device": device, "kernel": platform.release(),
                      "versions": {"compiler": say("cc", "--version").split("\n")[0]},
                      "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "commit": commit,
                      "command": " ".join(["bench/select_ways.py"] + ["'%s'" % a if " " in a else a for a in sys.argv[1:]])}))
    for way, of in zip(WAYS, runs):
        print(json.dumps(row(way[0], of)))


main()
