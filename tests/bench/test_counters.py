#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/counters.py with stand-ins for Nsight Compute and the command: units, metrics that are missing, and results that are
wrong or only rounded."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
DRIVER = os.path.join(HERE, "..", "..", "bench", "counters.py")

# One program for ncu and for the command. $ERROR is the vendor's error, $NONE leaves the search without a result.
FAKE = r'''#!%s
import json, os, sys
words = sys.argv[1:]
if words[0] == "bench":
    if not os.environ.get("NONE"):
        print(json.dumps({"config": {"mma": 2, "u": 64}}))
    sys.exit()
assert words[0] == "--csv"
asked = words[words.index("--metrics") + 1].split(",")
assert len(set(asked)) == len(asked)
ours = "kernel" in words
assert not ours or words[-4:] == ["mma=2", "u=64", "--run", "--json"]
print("==PROF== Connected to process 7")
print('{"correct": true}' if ours else "error " + os.environ["ERROR"])
print("==PROF== Disconnected from process 7")
print('"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"')
for name in asked:
    unit, value = "%%", "50.25"
    if "time" in name:
        unit, value = "ns", "12,500"
    if "bytes" in name:
        unit, value = ("Kbyte", "1,500") if "dram" in name else ("Mbyte", "2.5")
    if name.endswith("ratio"):
        unit, value = ("cycle", "8") if "latency" in name else ("inst", "1")
    if "compute_memory" in name:
        unit, value = "", "n/a"
    print('"0","gemm","%%s","%%s","%%s"' %% (name, unit, value))
print("==WARNING== The end")
''' % sys.executable


class Counters(unittest.TestCase):
    def run_with(self, dtype, error, none=""):
        with tempfile.TemporaryDirectory() as place:
            fake = os.path.join(place, "ncu")
            with open(fake, "w") as f:
                f.write(FAKE)
            os.chmod(fake, 0o755)
            environment = dict(os.environ, PATH=place + os.pathsep + os.environ["PATH"], ERROR=error, NONE=none)
            done = subprocess.run([sys.executable, "-B", DRIVER, "--tilewright", fake, "--products", "8x16x32", "--dtype", dtype],
                                  env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            return done, [json.loads(x) for x in done.stdout.splitlines()[1:]]

    def test_units(self):
        done, rows = self.run_with("f16", "0.002")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([r["by"] for r in rows], ["vendor", "own"])
        for r in rows:
            self.assertEqual((r["us"], r["dram_mb"], r["l2_mb"], r["tensor"], r["stall"]), (12.5, 1.5, 2.5, 50.25, 25))
            self.assertEqual((r["memory"], r["kernel"]), (None, "gemm"))

    def test_results(self):
        # The largest of some million sums, of six times their rms, is off by 6 * 2^-8 at most where it is rounded to bf16.
        for dtype, error, correct in (("bf16", "0.0156", True), ("f16", "0.0156", False), ("bf16", "0.05", False)):
            done, rows = self.run_with(dtype, error)
            self.assertEqual([r["correct"] for r in rows], [correct, True])
            self.assertEqual(done.returncode, 0 if correct else 1)

    def test_no_configuration(self):
        done, _ = self.run_with("f16", "0.002", none="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no configuration", done.stderr)


if __name__ == "__main__":
    unittest.main()
