#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/decode_gpu.py with stand-ins for ours, the peers and the reference: what it writes, and that it says when something
is wrong, missing, or faster than the device can be."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
DRIVER = os.path.join(HERE, "..", "..", "bench", "decode_gpu.py")

# One program for all three parts. $FAKE names what goes wrong: words, separated by spaces.
FAKE = r'''
import json, os, sys
wrong = os.environ.get("FAKE", "").split()
part = sys.argv[1]
words = dict(zip(sys.argv[2::2], sys.argv[3::2]))
def reply(*rows):
    for r in rows:
        print(json.dumps(r))
    if part == "ours":
        print()
    sys.stdout.flush()
if part == "ours":
    if "ours-dies" in wrong and words["--weights"] == "int8":
        sys.exit("no memory")
    reply({"ready": True})
    name = "%s %s, batch %s" % (words["--shape"], words["--weights"], words["--batch"])
    contexts = [c for c in (words["--depths"] + "," + words["--contexts"]).split(",") if c]
    bad, slower = False, 0.0
    for line in sys.stdin:
        do, *rest = line.split()
        if do == "check":
            open(os.path.join(words["--serve"], "record.json"), "w").close()
            reply({"record": True})
        elif do == "judge":
            ok = "logits" not in wrong
            bad = bad or not ok
            reply(*[{"case": "%s, context %s" % (name, c), "evidence": rest[0], "worst_logit": 0.001 if ok else None,
                     "tokens_equal": 16, "tokens_close": 0, "tokens_wrong": 0, "correct": ok} for c in contexts])
        elif "ours-fails" in wrong:
            bad = True
            reply()
        else:
            us = 500.0 if "too-fast" in wrong else 700.0 - slower
            slower = 7.0 - slower  # every second time is faster
            verdict = None if "unjudged" in wrong else "logits" not in wrong
            reply({"case": name, "depth": int(rest[0]), "config": "0/0/0/0", "ours_us": us, "p10": us, "p90": us, "bytes": 2400000000,
                   "gb_per_s": 3428.6, "ceiling_gb_per_s": 4000.0, "worst_logit": 0.001, "correct": verdict})
    sys.exit(1 if bad or "ours-status" in wrong else 0)
if part == "reference":
    reply({"torch": "0"})
    for line in sys.stdin:
        if "reference" in wrong:
            reply({"error": "no"})
        else:
            open(line.split()[1], "w").close()
            reply({"rows": 1, "seconds": 0.1})
if part == "bench":
    us, d = (1.0 if "run-too-fast" in wrong else 700.0), words["-d"]
    at = "" if d == "0" else " @ d" + d
    rows = [("tg128" + at, us), ("tg128" + at + " by single launches", 790.0), ("run128" + at + " greedy", us * 1.02),
            ("run128" + at + " temp 0.7 top-k 20 top-p 0.95", us * 1.03)]
    if "run" in wrong:
        sys.exit("no device")
    print(json.dumps([{"test": t, "us_per_token": u, "correct": "run-logits" not in wrong} for t, u in rows]))
if part == "peers":
    reply({"device": "Fake GPU"})
    for line in sys.stdin:
        do, shape, weights, batch, depth, peers = line.split()
        if "peer" in wrong and peers == "compile" and depth == "1024":
            reply({"error": "it does not compile"})
        elif "peers-die" in wrong and do == "time":
            sys.exit("lost")
        else:
            us = 100.0 if "peer-too-fast" in wrong else 1400.0
            reply([{"peer": p, "first_s": 1.0, "us": us, "p10_us": us, "p90_us": us, "weight_bytes": 2400000000, "kv_bytes": 0}
                   for p in peers.split(",")])
'''


class Driver(unittest.TestCase):
    def drive(self, wrong, cases="1b,int8", run=False, before=None, more=()):
        with tempfile.TemporaryDirectory() as folder:
            fake, out = os.path.join(folder, "fake.py"), os.path.join(folder, "out.jsonl")
            with open(fake, "w") as f:
                f.write(FAKE)
            ours = os.path.join(folder, "ours")
            with open(ours, "w") as f:
                f.write('#!/bin/sh\nexec %s %s ours "$@"\n' % (sys.executable, fake))
            os.chmod(ours, 0o755)
            command = [sys.executable, DRIVER, "--ours", ours, "-o", out, "--cases", cases, "--commit", "abc", "--seconds", "60"]
            for part in ("peers", "reference"):
                command += ["--" + part, "%s %s %s" % (sys.executable, fake, part)]
            command += more
            if before:
                with open(out, "w") as f:
                    f.writelines(json.dumps(r) + "\n" for r in before)
            if run:
                tilewright = os.path.join(folder, "tilewright")
                with open(tilewright, "w") as f:
                    f.write('#!/bin/sh\nexec %s %s "$@"\n' % (sys.executable, fake))
                os.chmod(tilewright, 0o755)
                command += ["--run", tilewright]
            done = subprocess.run(command, env=dict(os.environ, FAKE=wrong), stderr=subprocess.PIPE, text=True)
            with open(out) as f:
                rows = [json.loads(line) for line in f]
            return done.returncode, rows[0], rows[1:], done.stderr

    def test_all_is_well(self):
        status, head, rows, _ = self.drive("")
        self.assertEqual((status, head["device"], head["commit"]), (0, "Fake GPU", "abc"))
        timed = [r for r in rows if "ours_us" in r]
        self.assertEqual([(r["case"], r["peer"]) for r in timed],
                         [("llama-1b native, batch 1, context %d" % c, p) for c in (1, 1024, 4096) for p in ("cublas", "compile")] +
                         [("llama-1b int8, batch 1, context 1", p) for p in ("compile int8", "compile")])
        self.assertTrue(all(r["ours_again_us"] == [700, 693] and r["correct"] is True and r["ratio"] == 2 and r["floor_us"] == 600 and r["share"] == 0.857 for r in timed))
        # A row of evidence for every context, timed or not.
        self.assertEqual(len(rows) - len(timed), 7 + 5)

    def test_what_run_takes(self):
        status, _, rows, _ = self.drive("", run=True)
        self.assertEqual(status, 0)
        for r in rows:
            if "ours_us" in r:
                self.assertEqual([r[k] for k in ("bench_us", "run_us", "run_drawn_us", "run_ratio", "run_drawn_ratio")],
                                 [700, 714, 721, 1.02, 1.03])
        for wrong in ("run", "run-logits"):
            status, head, rows, _ = self.drive(wrong, "int8", True)
            self.assertEqual((status, len(head["missing"]), "run_us" in rows[-1]), (1, 1, False))
        status, _, rows, _ = self.drive("run-too-fast", "int8", True)
        self.assertEqual((status, rows[-1]["correct"]), (1, False))

    def test_a_call_goes_on_where_one_ended(self):
        _, head, rows, _ = self.drive("ours-dies")
        status, both, all_rows, _ = self.drive("", "int8", True, [head] + rows, ["--go-on"])
        self.assertEqual((status, both["calls"], "missing" in both), (0, [head["command"], both["command"]], False))
        self.assertEqual([r["case"] for r in all_rows][:len(rows)], [r["case"] for r in rows])
        self.assertEqual(len([r for r in all_rows if "run_us" in r]), 6 + 2)
        self.assertEqual(len(all_rows), len(rows) + 5 + 2)
        # What is measured again replaces what was there; another commit's rows are of no use, nor another device's.
        _, _, again, _ = self.drive("", "int8", False, [both] + all_rows, ["--go-on"])
        self.assertEqual(len(again), len(all_rows))
        self.assertEqual(self.drive("", "int8", False, [dict(both, commit="def")] + all_rows, ["--go-on"])[0], 1)
        self.assertEqual(self.drive("", "int8", False, [dict(both, device="Another")] + all_rows, ["--go-on"])[0], 1)

    def test_wrong_logits_are_not_correct(self):
        status, _, rows, told = self.drive("logits")
        self.assertEqual(status, 1)
        self.assertFalse(any(r["correct"] for r in rows))
        self.assertIn("not correct: llama-1b int8", told)

    def test_what_was_not_judged_is_not_correct(self):
        status, _, rows, _ = self.drive("unjudged")
        self.assertEqual((status, [r["correct"] for r in rows if "ours_us" in r][0]), (1, None))

    def test_a_reference_that_fails_leaves_no_row(self):
        status, head, rows, _ = self.drive("reference", "int8")
        self.assertEqual((status, rows, head["missing"]), (1, [], ["int8: reference: no"]))

    def test_faster_than_its_bytes_is_not_correct(self):
        for wrong in ("too-fast", "peer-too-fast"):
            status, _, rows, _ = self.drive(wrong)
            self.assertEqual((status, {r["correct"] for r in rows if "ours_us" in r}), (1, {False}))

    def test_a_peer_that_is_missing_is_told(self):
        status, head, rows, _ = self.drive("peer")
        self.assertEqual((status, head["missing"]), (1, ["1b, context 1024: compile: it does not compile"]))
        self.assertEqual(len([r for r in rows if "peer" in r]), 7)

    def test_peers_are_chosen_by_name(self):
        status, _, rows, _ = self.drive("", "1b", more=["--beside", "compile"])
        self.assertEqual((status, {r["peer"] for r in rows if "ours_us" in r}), (0, {"compile"}))
        done = subprocess.run([sys.executable, DRIVER, "-o", os.devnull, "--beside", "compile,cublass"], stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no such peer: cublass; there are cublas, compile", done.stderr)

    def test_what_is_lost_takes_nothing_else_with_it(self):
        status, head, rows, _ = self.drive("ours-dies")
        self.assertEqual((status, len(head["missing"])), (1, 1))
        self.assertIn("no memory", head["missing"][0])
        self.assertEqual(len([r for r in rows if "peer" in r]), 6)
        status, head, rows, _ = self.drive("peers-die")
        self.assertEqual((status, len([r for r in rows if "ours_us" in r]), len([r for r in rows if "peer" in r])), (1, 4, 0))

    def test_ours_that_times_nothing_or_fails_is_told(self):
        status, head, _, _ = self.drive("ours-fails", "int8")
        self.assertEqual((status, head["missing"][0]), (1, "int8, context 1: ours"))
        status, head, _, _ = self.drive("ours-status", "int8")
        self.assertEqual((status, len(head["missing"])), (1, 1))


if __name__ == "__main__":
    unittest.main()
