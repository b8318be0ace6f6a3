#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode on a GPU beside PyTorch, in one run; docs/bench.md.

    decode_gpu.py --ours build/bench/bench_decode -o decode.jsonl [--cases 1b,1b-batch,int8,...] [--commit NAME]
                  [--run build/tilewright] [--seconds 540]

For every case the machine is first held against a float32 reference (peers/reference.py) at every context that is timed and at
320, 1024, 4096 and the cache's end: a row each, whose `correct` is of that context. Then ours is timed, each peer, and ours
again; a row holds the slower of our two medians. What is written is the environment, then the rows, as JSON lines, anew after
every case: what ends early loses nothing, and --go-on keeps such a call's rows. Peers compile while ours loads, and nothing else runs while anything is timed.

`bytes` are weights, and keys and values of `context` positions of every sequence; `floor_us` is what they take at the fastest
plain reads that any case's process measured; a row that is faster is not correct. Exit 1: a row or a peer is missing, or
anything is not correct. Needs only Python itself; the peers run on $PYTHON, which must have torch with CUDA.
"""
import argparse
import datetime
import json
import os
import queue
import shlex
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ.get("PYTHON", sys.executable)
END = "end"
EVERY = (320, 1024, 4096, END)
CASES = {  # name: shape, weights, batch, depths that are timed, contexts that are checked besides
    "1b": ("llama-1b", "native", 1, (1, 1024, 4096), EVERY),
    "1b-batch": ("llama-1b", "native", 8, (1024,), EVERY),
    "int8": ("llama-1b", "int8", 1, (1,), EVERY),
    "int4": ("llama-1b", "int4", 1, (1,), EVERY),
    "8b": ("llama-8b", "native", 1, (1, 1024), EVERY),
    "8b-int8": ("llama-8b", "int8", 1, (1,), EVERY),
    "8b-int4": ("llama-8b", "int4", 1, (1,), EVERY),
    "int8-batch": ("llama-1b", "int8", 8, (), EVERY),
    "int4-batch": ("llama-1b", "int4", 8, (), EVERY),
    "8b-batch": ("llama-8b", "native", 8, (), (320, 1024)),
    "8b-int8-batch": ("llama-8b", "int8", 8, (), (320, 1024)),
    "8b-int4-batch": ("llama-8b", "int4", 8, (), (320, 1024)),
}
PEERS = ("cublas", "compile")  # ways of peers/decode.py; cublas has no integer weights
LARGE_RUN = 100  # seconds that `bench` of a large shape may take
BEGIN = time.monotonic()


def say(text):
    print("decode_gpu: [%3.0f s] %s" % (time.monotonic() - BEGIN, text), file=sys.stderr, flush=True)


class Lost(Exception):
    """A program ended, or did not answer in time."""


class Program:
    """One that answers requests: a line each, or, of ours, lines until an empty one."""

    def __init__(self, words, log, several=False):
        self.name, self.several, self.lines = os.path.basename(words[-2] if words[-1] == "serve" else words[0]), several, queue.Queue()
        self.log = open(log, "w+")
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, bufsize=1)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, text):
        try:
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()
        except OSError:
            raise Lost("%s has ended: %s" % (self.name, self.trouble()))

    def answer(self, seconds):
        rows, until = [], time.monotonic() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(0.01, until - time.monotonic()))
            except queue.Empty:
                self.process.kill()
                raise Lost("%s did not answer within %.0f s" % (self.name, seconds))
            if line is None:
                self.lines.put(None)  # for whoever asks again
                raise Lost("%s has ended: %s" % (self.name, self.trouble()))
            if self.several and not line.strip():
                return rows
            rows.append(json.loads(line))
            if not self.several:
                return rows[0]

    def ask(self, text, seconds):
        self.send(text)
        return self.answer(seconds)

    def trouble(self):
        self.log.flush()
        self.log.seek(0)
        return self.log.read().strip()[-300:] or "it said nothing"

    def close(self):
        """The exit status."""
        try:
            self.process.stdin.close()
            return self.process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            return self.process.wait()


class Run:
    def __init__(self, a):
        self.a, self.rows, self.missing, self.wrong = a, [], [], []
        self.until = BEGIN + a.seconds
        self.folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.peers = self.start(a.peers, "decode.py")
        self.reference = self.start(a.reference, "reference.py")
        self.environment, self.calls = {}, []
        if a.go_on:
            self.go_on()

    def go_on(self):
        """The rows of an earlier call, but those of the cases that are measured now. Of the same code and device, or of no use."""
        with open(self.a.output) as f:
            head, *rows = [json.loads(line) for line in f]
        if head["commit"] != self.a.commit:
            raise SystemExit("decode_gpu: %s is of commit %s" % (self.a.output, head["commit"]))
        self.calls = head.pop("calls", [head["command"]])
        self.device = head["device"]
        again = tuple("%s %s, batch %d," % CASES[n][:3] for n in self.a.cases.split(","))
        self.rows = [r for r in rows if not r["case"].startswith(again)]

    def start(self, command, script):
        words = shlex.split(command) if command else [PYTHON, os.path.join(HERE, "peers", script), "serve"]
        return Program(words, os.path.join(self.folder, script + ".log"))

    def left(self):
        return self.until - time.monotonic()

    def greet(self):
        """Their first lines. Without the peers' there is no device to name."""
        self.environment = self.peers.answer(self.left())
        if self.calls and self.environment["device"] != self.device:
            raise Lost("this is another device than %s" % self.device)
        self.reference.answer(self.left())

    def load(self, case):
        shape, weights, batch, depths, contexts = case
        words = [self.a.ours, "--shape", shape, "--weights", weights, "--batch", str(batch), "--serve", self.folder,
                 "--depths", ",".join(map(str, depths)), "--contexts", ",".join(map(str, contexts))]
        return Program(words, os.path.join(self.folder, "ours.log"), True)

    def peer(self, do, case, depth, peer, name):
        """The row of a peer, weights and program; None, and told, where there is none."""
        shape, _, batch = case[:3]
        weights, peer = peer
        try:
            found = self.peers.ask("%s %s %s %d %d %s" % (do, shape, weights, batch, depth, peer), self.left())
        except Lost as lost:
            found = {"error": str(lost)}
        if isinstance(found, list):
            return found[0]
        self.miss("%s, context %d: %s: %s" % (name, depth, peer, found["error"]))
        return None

    def compile(self, name, case):
        """The peers of each depth that could be built."""
        shape, weights, batch, depths, _ = case
        ready = {}
        for depth in depths:
            ready[depth] = []
            # Beside integers, bf16 too: what people do where it is faster.
            integers = [(weights, "compile")] + ([] if self.a.integers_alone else [("native", "compile")])
            all_of = integers if weights != "native" else [(weights, "cublas"), (weights, "compile")]
            for peer in [p for p in all_of if p[1] in self.a.beside.split(",")]:
                found = self.peer("prepare", case, depth, peer, name)
                if found:
                    ready[depth].append(peer)
                    say("%s %s, batch %d, context %d: %s in %.1f s" % (shape, peer[0], batch, depth, peer[1], found["first_s"]))
        return ready

    def miss(self, what):
        say("missing: " + what)
        self.missing.append(what)

    def judge(self, ours):
        """The rows of evidence."""
        ours.ask("check", self.left())
        record, answers = (os.path.join(self.folder, n) for n in ("record.json", "reference.f32"))
        found = self.reference.ask("%s %s" % (record, answers), self.left())
        if "error" in found:
            raise Lost("reference: " + found["error"])
        rows = ours.ask("judge float32", self.left())
        os.unlink(answers)
        say("reference in %.1f s" % found["seconds"])
        return rows

    def time(self, name, case, ours, ready):
        shape, weights, batch, depths, _ = case
        for depth in depths:
            first = ours.ask("time %d" % depth, self.left())
            found = []
            for peer in ready[depth]:
                row = self.peer("time", case, depth, peer, name)
                if row:
                    found.append(dict(row, peer=row["peer"] + (" " + peer[0] if peer[0] != "native" else "")))
            second = ours.ask("time %d" % depth, self.left())
            if not first or not second:
                self.miss("%s, context %d: ours" % (name, depth))
                continue
            self.rows += [pair(case, depth, first[0], second[0], peer) for peer in found or [None]]

    def one(self, name):
        case = CASES[name]
        say("%s %s, batch %d" % case[:3])
        ours, before = self.load(case), len(self.rows)
        try:
            if not self.environment:
                self.greet()
            ready = self.compile(name, case)
            ours.answer(self.left())
            rows = self.judge(ours)
            self.rows += rows
            if len(rows) < len(case[3]):
                self.miss(name + ": evidence")
            self.time(name, case, ours, ready)
        except Lost as lost:
            self.miss("%s: %s" % (name, lost))
            ours.close()
            return
        if ours.close() and all(r["correct"] is True for r in self.rows[before:]):
            self.miss(name + ": ours failed: " + ours.trouble())

    def run_speeds(self):
        """What `run` takes, where there is one sequence; shapes that load quickly first."""
        timed = {r["case"].rsplit(",", 1)[0] for r in self.rows if "ours_us" in r and "run_us" not in r}
        for case in sorted(CASES.values(), key=lambda c: c[0]):
            shape, weights, batch, depths, _ = case
            if "%s %s, batch %d" % case[:3] not in timed:
                continue
            if shape != "llama-1b" and self.left() < LARGE_RUN:
                continue  # a shape's own speed is no goal
            for depth in depths if batch == 1 else ():
                found = run_speed(self.a.run, shape, weights, depth, self.left())
                if isinstance(found, str):
                    self.miss("%s %s, context %d: run: %s" % (shape, weights, depth, found))
                    continue
                for r in self.rows:
                    if "ours_us" in r and r["case"] == "%s %s, batch %d, context %d" % (shape, weights, batch, depth):
                        r.update(found)
                self.write()

    def finish(self):
        """The fastest reads of all are every row's ceiling, which none may pass."""
        timed = [r for r in self.rows if "ours_us" in r]
        ceiling = max([r["ceiling_gb_per_s"] or 0 for r in timed] or [0])
        for r in timed if ceiling else []:
            floor = r["bytes"] / ceiling * 1e-3
            r.update(ceiling_gb_per_s=ceiling, floor_us=round(floor, 1), share=round(floor / r["ours_us"], 3))
            ours = [r[k] for k in ("ours_us", "bench_us", "run_us", "run_drawn_us") if k in r]
            if min(ours) < floor or r.get("peer_us", floor) < r.get("peer_bytes", 0) / ceiling * 1e-3:
                r["correct"] = False
                say("%s is faster than reading its bytes takes" % r["case"])
        self.wrong = sorted({r["case"] for r in self.rows if r["correct"] is not True})

    def write(self):
        self.finish()
        head = dict(self.environment, date=datetime.date.today().isoformat(), commit=self.a.commit,
                    command=" ".join(["bench/decode_gpu.py"] + sys.argv[1:]))
        if self.calls:
            head["calls"] = self.calls + [head["command"]]
        if self.missing:
            head["missing"] = self.missing
        with open(self.a.output + ".new", "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in [head] + self.rows)
        os.replace(self.a.output + ".new", self.a.output)

    def close(self):
        self.peers.close()
        self.reference.close()
        for name in os.listdir(self.folder):
            os.unlink(os.path.join(self.folder, name))
        os.rmdir(self.folder)


def run_speed(program, shape, weights, depth, seconds):
    """What `tilewright run` takes for a token, and `bench` in the same process, whose single launch is what ratios are to: the
    columns, or what went wrong."""
    words = [program, "bench", "--shape", shape, "--weights", weights, "--device", "cuda", "-p", "0", "-n", "128", "-d",
             str(depth - 1), "-r", "5", "-o", "json"]
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=max(1, seconds))
        rows = json.loads(done.stdout)
        us = {kind: [r["us_per_token"] for r in rows if r["test"].startswith(begin) and r["test"].endswith(end) and
                     r["correct"] is True][0]
              for kind, begin, end in (("bench", "tg128", str(depth - 1) if depth > 1 else "128"), ("run", "run128", "greedy"),
                                       ("run_drawn", "run128", "0.95"))}
    except subprocess.TimeoutExpired:
        return "no time was left"
    except (ValueError, KeyError, IndexError) as error:
        return "%s: %s %s" % (" ".join(words[1:]), type(error).__name__, done.stderr.strip()[-200:])
    out = {kind + "_us": round(x, 2) for kind, x in us.items()}
    return dict(out, run_ratio=round(us["run"] / us["bench"], 3), run_drawn_ratio=round(us["run_drawn"] / us["bench"], 3))


def pair(case, depth, first, second, peer):
    shape, weights, batch = case[:3]
    worse = max(first, second, key=lambda r: r["ours_us"])
    row = {"case": "%s %s, batch %d, context %d" % (shape, weights, batch, depth), "config": worse["config"],
           "ours_us": worse["ours_us"], "ours_p10": worse["p10"], "ours_p90": worse["p90"],
           "ours_again_us": [first["ours_us"], second["ours_us"]], "bytes": worse["bytes"],
           "gb_per_s": worse["gb_per_s"], "ceiling_gb_per_s": worse["ceiling_gb_per_s"],
           "correct": first["correct"] if first["correct"] is not True else second["correct"],
           "worst_logit": first["worst_logit"]}
    if peer:
        row.update({"peer": peer["peer"], "peer_us": peer["us"],
                    "peer_p10": peer["p10_us"], "peer_p90": peer["p90_us"],
                    "peer_bytes": peer["weight_bytes"] + peer["kv_bytes"], "ratio": round(peer["us"] / worse["ours_us"], 3)})
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", default=os.path.join(HERE, "..", "build", "bench", "bench_decode"))
    p.add_argument("--run", help="the command itself, whose `bench` says what `run` takes: columns run_us and so on")
    p.add_argument("-o", "--output", required=True)
    p.add_argument("--cases", default=",".join(CASES))
    p.add_argument("--commit", default="unknown")
    p.add_argument("--seconds", type=float, default=3600, help="after these, what is left is missing")
    p.add_argument("--go-on", action="store_true", help="keep the rows that --output has")
    p.add_argument("--integers-alone", action="store_true", help="no bf16 beside integer weights")
    p.add_argument("--beside", default=",".join(PEERS), help="the peers that are timed")
    p.add_argument("--peers", help="a command in place of peers/decode.py serve")
    p.add_argument("--reference", help="a command in place of peers/reference.py serve")
    a = p.parse_args()
    for what, asked, there in (("case", a.cases, CASES), ("peer", a.beside, PEERS)):
        unknown = [x for x in asked.split(",") if x not in there]
        if unknown:
            p.error("no such %s: %s; there are %s" % (what, ", ".join(unknown), ", ".join(there)))
    run = Run(a)
    try:
        for name in a.cases.split(","):
            run.one(name)
            run.write()
        if a.run:
            run.peers.close()  # their memory is needed no more
            run.run_speeds()
    except Lost as lost:
        run.miss(str(lost))
    run.write()
    run.close()
    for r in run.rows:
        if "ours_us" in r:
            peer = "%s %.1f: %.2f" % (r["peer"], r["peer_us"], r["ratio"]) if "peer" in r else ""
            say("%-44s ours %8.1f us  floor %7.1f  %s  %s" % (r["case"], r["ours_us"], r.get("floor_us", 0), r["correct"], peer))
        else:
            say("%-44s %s, worst logit %s, tokens %d + %d close, %d wrong" % (
                r["case"], r["correct"], r["worst_logit"], r["tokens_equal"], r["tokens_close"], r["tokens_wrong"]))
    for what, names in (("missing", run.missing), ("not correct", run.wrong)):
        if names:
            say(what + ": " + "; ".join(names))
    return 1 if run.missing or run.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
