#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/results_tables on a small tree of its own: what is right passes, and each thing that is wrong is told."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "results_tables")
HEAD = {"device": "NVIDIA H200", "date": "2026-01-01", "command": "bench", "commit": None}
ROWS = [{"case": "a native, batch 1, context 1", "ours_us": 10.0, "floor_us": 8.0, "share": 0.8, "bytes": 100, "worst_logit": 0.001,
         "correct": True, "peer": "compile", "peer_us": 20.0, "ratio": 2.0},
        {"case": "a native, batch 1, context 8", "evidence": "float32", "worst_logit": 0.002, "tokens_equal": 16, "tokens_close": 0,
         "tokens_wrong": 0, "correct": True}]
PAGE = "# Results\n\n## `x-h200.jsonl`\n\n<!-- from: x-h200 head -->\n<!-- /from -->\n"
README = """<!-- from: x-h200 decode-gpu -->
<!-- /from -->
<!-- from: x-h200 evidence -->
<!-- /from -->
<!-- from: x-h200 rows case = {case}; µs: = {ours_us:.0f} || ours_us; case^=a; !case=b -->
<!-- /from -->
"""


class Tables(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.TemporaryDirectory()
        self.root = self.tree.name
        os.makedirs(os.path.join(self.root, "bench", "results"))
        self.git("init", "-q")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "a")
        self.head = dict(HEAD, commit=self.git("rev-parse", "HEAD"))
        self.write("bench/results/README.md", PAGE)
        self.write("README.md", README)
        self.record(self.head, ROWS)
        self.assertEqual(self.tool(), (0, ""))

    def tearDown(self):
        self.tree.cleanup()

    def git(self, *words):
        done = subprocess.run(["git", "-C", self.root] + list(words), stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    def write(self, name, text):
        with open(os.path.join(self.root, name), "w") as f:
            f.write(text)

    def read(self, name):
        with open(os.path.join(self.root, name)) as f:
            return f.read()

    def record(self, head, rows, name="x-h200.jsonl"):
        self.write("bench/results/" + name, "".join(json.dumps(r) + "\n" for r in [head] + rows))

    def tool(self, *words):
        done = subprocess.run([sys.executable, "-B", TOOL, "--root", self.root] + list(words), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        return done.returncode, done.stderr

    def complains(self, words):
        status, told = self.tool("--check")
        self.assertEqual(status, 1)
        self.assertIn(words, told)

    def test_what_is_right_passes(self):
        self.assertEqual(self.tool("--check"), (0, ""))
        page = self.read("README.md")
        self.assertIn("| a, bf16, context 1 | 10 |  |  | 8 | 80 % |  | 20 | 2.00 | 0.10 % |", page)
        self.assertIn("| a, bf16 | 0.20 % | 16 | 0 | 0 |", page)
        self.assertIn("| a native, batch 1, context 1 | 10 |", page)
        self.assertIn("`%s`" % self.head["commit"], self.read("bench/results/README.md"))

    def test_a_number_that_differs_is_told(self):
        self.write("README.md", self.read("README.md").replace("| 10 |  |  | 8 |", "| 9 |  |  | 8 |"))
        self.complains("README.md: differs from the files it cites")
        # And is put right.
        self.tool()
        self.assertEqual(self.tool("--check"), (0, ""))

    def test_a_page_that_cites_nothing_is_told(self):
        self.write("README.md", "<!-- from: y-h200 head -->\n<!-- /from -->\n")
        self.complains("y-h200: there is no such file")
        self.write("README.md", "<!-- from: x-h200 what -->\n<!-- /from -->\n")
        self.complains("what: no such kind")
        self.write("README.md", "<!-- from: x-h200 rows a = {nothing} -->\n<!-- /from -->\n")
        self.complains("{nothing}: KeyError")
        self.write("README.md", "<!-- from: x-h200 head -->\n")
        self.complains("has no end")

    def test_a_file_off_the_page_is_told(self):
        self.record(self.head, ROWS, "y-h200.jsonl")
        self.complains("y-h200.jsonl: bench/results/README.md does not speak of it")

    def test_a_head_that_lacks_something_is_told(self):
        for key in ("device", "date", "commit", "command"):
            self.record({k: v for k, v in self.head.items() if k != key}, ROWS)
            self.complains("its first line has no " + key)

    def test_another_device_is_told(self):
        self.record(dict(self.head, device="NVIDIA H100"), ROWS)
        self.complains("its name says h200, its first line NVIDIA H100")
        self.write("bench/results/README.md", PAGE + "`x.jsonl` `y-cpu.jsonl`")
        self.record(self.head, ROWS, "x.jsonl")
        self.complains("x.jsonl: its name ends in no device")
        self.record(self.head, [{"case": "counted", "verdict": "passes", "correct": True}], "x.jsonl")
        self.assertNotIn("x.jsonl", self.tool("--check")[1])
        self.record(self.head, ROWS, "y-cpu.jsonl")
        self.complains("y-cpu.jsonl: its name says cpu")

    def test_a_commit_that_is_none_is_told(self):
        self.record(dict(self.head, commit="0123456789ab"), ROWS)
        self.complains("its commit 0123456789ab is not in the history")
        self.record(dict(self.head, commit=self.head["commit"][:12] + "+changes"), ROWS)
        self.complains("its commit is none")
        # One that exists, but that what is checked out does not come from.
        self.git("checkout", "-q", "--orphan", "other")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "b")
        self.record(self.head, ROWS)
        self.complains("is not in the history")

    def test_without_a_history_commits_are_not_looked_up(self):
        os.rename(os.path.join(self.root, ".git"), os.path.join(self.root, "git"))
        self.record(dict(self.head, commit="0123456789ab"), ROWS)
        self.tool()
        self.assertEqual(self.tool("--check"), (0, ""))

    def test_a_row_that_cannot_be_is_told(self):
        for change, words in (({"correct": False}, "is not correct"), ({"correct": None}, "is not correct"),
                              ({"share": 1.01}, "has a share of 1.010"), ({"shares": [0.9, 1.2]}, "has a share of 1.200"),
                              ({"ours_us": 7.8}, "has ours_us 7.800 below the floor 8.000"),
                              ({"run_us": 7.8}, "has run_us"), ({"peer_us": 7.8}, "has peer_us"),
                              ({"ceiling": 11, "ceiling_by": "bytes", "floor_us": None}, "below the floor"),
                              ({"rate": 11, "ceiling": 10}, "moves or computes 11.00 where 10.00 is possible"),
                              ({"peer_us": 15.0, "peer_bytes": 200}, "has peer_us 15.000 below the floor 16.000"),
                              ({"config": {"inner": {"correct": False}}}, "is not correct")):
            row = {k: v for k, v in dict(ROWS[0], **change).items() if v is not None or k == "correct"}
            self.record(self.head, [row] + ROWS[1:])
            self.complains(words)
        # A peer of fewer bytes has a lower floor.
        self.record(self.head, [dict(ROWS[0], peer_us=5.0, peer_bytes=50)] + ROWS[1:])
        self.tool()
        self.assertEqual(self.tool("--check"), (0, ""))

    def test_a_time_without_a_verdict_is_told(self):
        for field in ("ours_us", "flushed_ns", "us", "ours_tokens_per_s", "million_operations_per_second", "rate"):
            self.record(self.head, ROWS + [{"case": "b", field: 10.0}])
            self.complains("x-h200.jsonl:4: b has %s and no verdict" % field)
        # A verdict further in is none of the row; what has neither time nor rate needs none.
        self.record(self.head, ROWS + [{"case": "b", "ours_us": 10.0, "config": {"correct": True}}])
        self.complains("b has ours_us and no verdict")
        self.record(self.head, ROWS + [{"case": "b", "bonus": 1, "ours_us_list": []}])
        self.tool()
        self.assertEqual(self.tool("--check"), (0, ""))

    def test_a_file_without_a_verdict_is_told(self):
        self.record(self.head, [{"case": "a", "bonus": 1}, {"case": "b", "bonus": 2}])
        self.complains("x-h200.jsonl: no row has a verdict")

    def test_a_file_that_is_no_json_is_told(self):
        self.write("bench/results/x-h200.jsonl", "{")
        self.complains("x-h200.jsonl:")
        self.write("bench/results/x-h200.jsonl", "")
        self.complains("has no first line")


if __name__ == "__main__":
    unittest.main()
