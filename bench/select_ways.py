#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times decisions as they are, and in ways that were tried instead (docs/select.md). Prints lines of JSON.

    bench/select_ways.py [--runs 10] [--device WORDS] > bench/results/decide-cpu.jsonl
    bench/select_ways.py --check        checks that each line to change is in its file

The script builds bench_select for each way, from a copy of the tree in which one line is changed, and runs the programs in
turn. A figure is the least of the runs' medians; with `_middle_run` it is the middle one. If a program decides wrongly, the
exit status is 1 and no figure is printed.
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
# Changes of one line: a file of src/select, the line, and the text that takes its place.
UNFETCHED = ("decide.c", "    __builtin_prefetch(at);", "    (void)at;")
SSE2 = ("open.c", '    if (__builtin_cpu_supports("avx2")) return select_scan_avx2;\n', "")
UNBOUNDED = ("scan.h", "low[i] = (slope * w + start) * holds;", "low[i] = (slope * w + start) * holds * 0;")
WIDE = ("write.c", "if (!fill_records(w, SELECT_NARROW)) fill_records(w, SELECT_WIDE);", "fill_records(w, SELECT_WIDE);")
UNFETCHED_COLUMNS = ("decide.c",
                     "    for (int i = 0; i < v->hot_lines; i++) prefetch(v->hot + (size_t)i * SELECT_LINE);\n", "")
UNFETCHED_TAILS = ("decide.c", "    prefetch(&v->tails[c->macro]);\n", "")
# A way's name, the options of bench_select, and the change. None: nothing is changed.
WAYS = [
    ("direct", [], None),
    ("direct, nothing is fetched ahead", [], UNFETCHED),
    ("direct, SSE2 instead of AVX2", [], SSE2),
    ("waves", ["--waves"], None),
    ("no bounds", ["--waves"], UNBOUNDED),
    ("floats in records", ["--waves"], WIDE),
    ("nothing is fetched ahead", ["--waves"], UNFETCHED),
    ("columns are not fetched ahead", ["--waves"], UNFETCHED_COLUMNS),
    ("tails are not fetched ahead", ["--waves"], UNFETCHED_TAILS),
    ("SSE2 instead of AVX2", ["--waves"], SSE2),
]


def say(*words):
    return subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def changed(tree, change):
    """Returns the path of a change's file, its text, and the changed text."""
    name, old, new = change
    path = os.path.join(tree, "src", "select", name)
    with open(path) as f:
        text = f.read()
    if text.count(old) != 1:
        sys.exit("%s has %d times: %s" % (name, text.count(old), old))
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
    for i, (_, _, change) in enumerate(WAYS):
        if change:
            path, text, other = changed(tree, change)
            write(path, other)
        subprocess.run(["cmake", "--build", os.path.join(folder, "build"), "--target", "bench_select"], **quiet)
        programs.append(shutil.copy(os.path.join(folder, "build", "bench", "bench_select"), os.path.join(folder, "way%d" % i)))
        if change:
            write(path, text)
    return programs


def row(name, runs):
    first = runs[0]
    out = {"case": name, "macros": first["macros"], "bytes": first["bytes"], "records_read": first["records_read"],
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
        for _, _, change in WAYS:
            if change:
                changed(ROOT, change)
        return
    commit = say("git", "rev-parse", "--short=12", "HEAD")
    if subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "src", "include", "bench", "tests/select"], cwd=ROOT).returncode:
        commit += "+changes"
    runs = [[] for _ in WAYS]
    with tempfile.TemporaryDirectory() as folder:
        programs = build(folder)
        for _ in range(o.runs):
            for (name, options, _), program, of in zip(WAYS, programs, runs):
                done = subprocess.run([program] + options, stdout=subprocess.PIPE, text=True)
                if done.returncode:
                    sys.exit("%s: a decision is wrong" % name)
                of.append(json.loads(done.stdout))
    device = o.device or "%s, %d cores" % (runs[0][0].get("cpu", platform.machine()), len(os.sched_getaffinity(0)))
    print(json.dumps({"device": device, "kernel": platform.release(),
                      "versions": {"compiler": say("cc", "--version").split("\n")[0]},
                      "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "commit": commit,
                      "command": " ".join(["bench/select_ways.py"] + ["'%s'" % a if " " in a else a for a in sys.argv[1:]])}))
    for (name, _, _), of in zip(WAYS, runs):
        print(json.dumps(row(name, of)))


main()
