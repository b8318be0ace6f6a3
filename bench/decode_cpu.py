#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode and prefill of one model, or with -n 0 prefill alone, beside PyTorch, llama.cpp, the libraries' matrix products and a naive decoder; docs/bench.md.

One random bf16 checkpoint, in a temporary folder that is removed, is what every program reads. In each round every
candidate runs once, in an order that is turned round from one round to the next; medians over the rounds are compared. What
is printed and written is the environment, then a row for each pair, as JSON lines. Needs only Python itself; the peers run
on $PYTHON, which must have torch and transformers, and for llama.cpp numpy, gguf and llama-cpp-python.
"""
import argparse
import contextlib
import datetime
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PYTHON = os.environ.get("PYTHON", sys.executable)
KINDS = ("bf16", "f32", "int8", "int4")
PROMPT = [1, 17, 101, 7, 64, 250, 33, 12, 199, 5, 90, 41, 222, 8, 150, 77]
GREEDY = 32
# Integers beside integers: a scale for 32 columns there, for a row (int8) or 64 columns (int4) here.
LLAMA_CPP = {"bf16": "bf16", "int8": "q8_0", "int4": "q4_0"}
# tokens of the plain decoder, which is too slow for all of them, and of the one that the compiler may vectorise
NAIVE = {"naive": 4, "naive_fast": 32}
GEMM = ("openblas", "openblas-avx512", "onednn", "torch-f32", "torch-onednn-f32", "torch-bf16", "torch-onednn-bf16")
NAMES = {
    "openblas": "OpenBLAS sgemm", "openblas-avx512": "OpenBLAS sgemm, OPENBLAS_CORETYPE=SkylakeX", "onednn": "oneDNN sgemm",
    "torch-f32": "torch.mm f32 (MKL)", "torch-onednn-f32": "oneDNN in torch, f32, packed",
    "torch-bf16": "torch.mm bf16", "torch-onednn-bf16": "oneDNN in torch, bf16, packed",
    "naive": "naive C -O2, 1 thread", "naive_fast": "naive C -O3 -march=native -ffast-math, OpenMP",
}


def say(text):
    print("[%6.1f s] %s" % (time.monotonic() - STARTED, text), file=sys.stderr, flush=True)


def fail(text):
    sys.exit("decode_cpu: " + text)


def command(args, **more):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if done.returncode:
        fail("%s: exit status %d: %s" % (" ".join(os.path.basename(a) for a in args[:2]), done.returncode,
                                         done.stderr.strip()[-600:]))
    return done


class Ended(Exception):
    pass


class Server:
    """A peer that answers a line with a line, for as long as the benchmark runs."""

    def __init__(self, args, environment=None, may_end=False):
        self.may_end = may_end
        self.process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env=dict(os.environ, **(environment or {})))
        self.hello = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line and self.may_end:
            raise Ended()
        if not line:
            fail("a peer ended: " + " ".join(os.path.basename(a) for a in self.process.args[:2]))
        return json.loads(line)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.read()
        if "error" in answer:
            fail("a peer said: " + answer["error"])
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Load:
    """What else the processor did meanwhile: busy time, and time stolen by other guests, that is not ours."""

    def __init__(self):
        self.busy, self.total = self.read()
        self.own = self.mine()

    @staticmethod
    def read():
        with open("/proc/stat") as f:
            t = [int(v) for v in f.readline().split()[1:9]]
        return sum(t) - t[3] - t[4], sum(t)

    @staticmethod
    def mine():
        t = os.times()
        return t.user + t.system + t.children_user + t.children_system

    def others(self):
        busy, total = self.read()
        tick = os.sysconf("SC_CLK_TCK")
        return max(0.0, ((busy - self.busy) / tick - (self.mine() - self.own)) / ((total - self.total) / tick))


# ---- the environment ----

def compiler(build):
    try:
        with open(os.path.join(build, "CMakeCache.txt")) as f:
            path = [line.split("=", 1)[1].strip() for line in f if line.startswith("CMAKE_C_COMPILER:")][0]
        return command([path, "--version"]).stdout.splitlines()[0]
    except (OSError, IndexError):
        return None


def commit():
    def git(*args):
        return subprocess.run(["git", "-C", ROOT, *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "include", "CMakeLists.txt", "bench/naive.c",
                  "bench/peers").strip()
    return (git("rev-parse", "--short=12", "HEAD").strip() or "unknown") + ("+changes" if changed else "")


def environment(a, doctor, torch, gemm, llama_cpp):
    versions = {"tilewright": doctor["version"], "python": platform.python_version(), "torch": torch["torch"],
                "transformers": torch["transformers"]}
    if llama_cpp:
        versions["llama-cpp-python"] = llama_cpp["llama-cpp-python"] + "; " + llama_cpp["system"]
    for name in ("openblas", "onednn", "torch-f32"):
        if "version" in gemm.get(name, {}):
            versions[{"torch-f32": "torch's libraries"}.get(name, name)] = gemm[name]["version"]
    return {"device": "%s, %d cores, %s" % (doctor["cpu"], doctor["cores"], doctor["isa"]), "cores": doctor["cores"],
            "l2_bytes": doctor["l2_bytes"], "l3_bytes": doctor["l3_bytes"], "memory_bytes": doctor["memory_bytes"],
            "kernel": doctor["kernel"], "compiler": compiler(a.build), "versions": versions,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "commit": a.commit or commit(),
            "command": "bench/decode_cpu.py --shape %s -p %d -n %d --rounds %d --minutes %g%s" %
                       (a.shape, a.prompt, a.tokens, a.rounds, a.minutes,
                        ("" if a.compile == tuple(a.kinds) else " --compile " + (",".join(a.compile) or "none")) +
                        ("" if a.kinds == list(KINDS) else " --kinds " + ",".join(a.kinds)) +
                        ("" if a.repeat == 1 else " --repeat %d" % a.repeat) +
                        (" --no-products" if a.no_products else "") + (" --no-llama-cpp" if a.no_llama_cpp else "")),
            "operations_per_second": doctor["operations"],
            "weights": "one checkpoint of random bf16 values for all; f32 rows of ours have random values of their own"}


# ---- candidates: each takes one sample a round; samples are seconds for `tokens` tokens ----

class Candidate:
    def __init__(self, name, kind, config):
        self.name, self.kind, self.config = name, kind, config
        self.samples, self.tokens, self.ids = {}, {}, None

    def add(self, test, seconds, tokens):
        self.samples.setdefault(test, []).append(seconds)
        self.tokens[test] = tokens


class Ours(Candidate):
    """`tilewright bench`: refuses to print when its tuned kernels disagree with plain ones."""

    def __init__(self, a, kind, folder, activations="float"):
        super().__init__("tilewright", kind, {"activations": activations})
        self.correct, self.worst_logit = True, 0.0
        self.program, self.weights = a.tilewright, ["--weights", kind] if kind.startswith("int") else []
        if activations != "float":
            self.weights += ["--activations", activations]
        what = ["--shape", a.shape, "--dtype", "f32"] if kind == "f32" else [folder]
        self.args = [a.tilewright, "bench", *what, *self.weights, "-p", str(a.prompt), "-n", str(a.tokens), "-r", str(a.repeat),
                     "-o", "json", "--explain"]
        self.work, self.shares, self.ceiling_of = {}, {}, {}

    def run(self):
        done = command(self.args)
        # The first run measures who computes each product fastest, the others remember.
        self.config.setdefault("products", done.stderr.strip().splitlines())
        for row in json.loads(done.stdout):
            test = "decode" if row["unit"] == "bytes/s" else "prefill"
            for seconds in row["samples_s"]:
                self.add(test, seconds, row["n"])
            self.work[test] = row["work"] / row["median"]  # bytes or operations a token
            self.shares.setdefault(test, []).extend(row["shares"])
            self.ceiling_of[test] = row["ceiling_of"]
            self.correct = self.correct and row["correct"] is True
            self.worst_logit = max(self.worst_logit, row["worst_logit"])
            self.config["packed_bytes"], self.config["threads"] = row["packed_bytes"], row["threads"]

    def greedy(self, folder):
        return json.loads(command([self.program, "run", folder, *self.weights, "--ids", ",".join(map(str, PROMPT)), "-n",
                                   str(GREEDY), "--temp", "0", "--ignore-eos", "--json"]).stdout)["ids"]


class Theirs(Candidate):
    def __init__(self, a, server, kind):
        super().__init__("transformers " + kind, kind, {})
        self.a, self.server = a, server
        self.config = server.ask(json.dumps({"do": "load", "weights": kind, "n": a.tokens or 16, "compile": kind in a.compile}))
        self.ask("prefill", min(a.prompt, 64))
        # What its integer products take for many rows is not known beforehand; a hopeless one is left out.
        self.prefills = not kind.startswith("int") or self.ask("prefill", min(a.prompt, 64)) * a.prompt / 64 < 15

    def ask(self, what, n):
        return self.server.ask(json.dumps({"do": what, "weights": self.kind, "n": n, "room": self.a.tokens}))["seconds"]

    def greedy(self, folder):
        return self.server.ask(json.dumps({"do": "greedy", "weights": self.kind, "ids": PROMPT, "n": GREEDY}))["ids"]

    def run(self):
        if self.a.tokens:
            self.ask("decode", 2)
            self.add("decode", self.ask("decode", self.a.tokens), self.a.tokens)
        for _ in range(self.a.repeat if self.prefills else 0):
            self.add("prefill", self.ask("prefill", self.a.prompt), self.a.prompt)


class LlamaCpp(Candidate):
    """llama.cpp on the same weights, in its own files; its integers are its own rounding of them."""

    def __init__(self, a, server, kind):
        self.file = LLAMA_CPP[kind]
        super().__init__("llama.cpp " + (self.file.upper() if kind != "bf16" else kind), kind, {})
        self.a, self.server = a, server
        self.config = server.ask(json.dumps({"do": "load", "weights": self.file, "n": a.tokens or 16, "room": a.prompt}))

    def ask(self, what, n):
        return self.server.ask(json.dumps({"do": what, "weights": self.file, "n": n}))["seconds"]

    def greedy(self, folder):
        return self.server.ask(json.dumps({"do": "greedy", "weights": self.file, "ids": PROMPT, "n": GREEDY}))["ids"]

    def run(self):
        if self.a.tokens:
            self.ask("decode", 2)
            self.add("decode", self.ask("decode", self.a.tokens), self.a.tokens)
        for _ in range(self.a.repeat):
            self.add("prefill", self.ask("prefill", self.a.prompt), self.a.prompt)


class Naive(Candidate):
    def __init__(self, a, program, folder):
        super().__init__(NAMES[program], "bf16", {"tokens": min(NAIVE[program], a.tokens)})
        self.args = [os.path.join(a.build, "bench", program), folder]

    def decode(self, prompt, n):
        return json.loads(command([*self.args, ",".join(map(str, prompt)), str(n), "1"]).stdout)

    def run(self):
        n = self.config["tokens"]
        done = self.decode([1], n)
        self.config["threads"] = done["threads"]
        self.add("decode", done["seconds"][0], n)

    def greedy(self, folder):
        return self.decode(PROMPT, GREEDY)["ids"]


class Gemm(Candidate):
    def __init__(self, server, library, config, tokens):
        super().__init__(NAMES[library], "f32" if config["exact"] else "bf16", config)
        self.server, self.asked, self.n = server, library.split("-avx512")[0], tokens

    def run(self):
        self.add("products", self.server.ask(self.asked)["seconds"], self.n)


def layer_products(folder):
    """Rows and columns of the weights that a layer multiplies with, joined where their input is the same."""
    with open(os.path.join(folder, "config.json")) as f:
        c = json.load(f)
    dim, head = c["hidden_size"], c["head_dim"]
    heads, kv = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    return c["num_hidden_layers"], [(heads + 2 * kv, dim), (dim, heads), (2 * c["intermediate_size"], dim),
                                    (dim, c["intermediate_size"])]


def gemm_candidates(a, folder, isa, stack):
    """A process for each library that starts threads of its own."""
    layers, shapes = layer_products(folder)
    products = ",".join("%dx%dx%dx%d" % (layers, a.prompt, n, k) for n, k in shapes)
    groups = [(["openblas"], {}), (["onednn"], {}), ([n for n in GEMM if n.startswith("torch")], {})]
    if "avx512" in isa:
        # An OpenBLAS older than the processor falls back to AVX2; told to use AVX-512 it may be faster.
        groups.append((["openblas-avx512"], {"OPENBLAS_CORETYPE": "SkylakeX"}))
    found, said = [], {}
    for names, variables in groups:
        asked = [n.split("-avx512")[0] for n in names]
        server = Server([PYTHON, os.path.join(HERE, "peers", "gemm_cpu.py"), ",".join(asked), "--products", products], variables)
        stack.callback(server.close)
        for name, ask in zip(names, asked):
            said[name] = server.hello[ask]
            if "error" in said[name]:
                say("without %s: %s" % (name, said[name]["error"]))
            else:
                found.append(Gemm(server, name, {k: v for k, v in said[name].items() if k != "version"}, a.prompt))
    return found, said


def llama_cpp_candidates(a, folder, stack):
    """None, with a word why, where the Python has no llama.cpp or it cannot run."""
    script, files = os.path.join(HERE, "peers", "decode_llama_cpp.py"), os.path.join(folder, "gguf")
    if a.no_llama_cpp:
        return [], None
    os.mkdir(files)
    say("writing the weights as llama.cpp wants them")
    made = subprocess.run([PYTHON, script, "make", folder, files], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if made.returncode:
        say("without llama.cpp: " + (made.stderr.strip().splitlines() or ["it cannot run"])[-1])
        return [], None
    found, hello = [], None
    for kind in a.kinds:
        for without in ("", "sapphirerapids") if kind in LLAMA_CPP else ():
            # Where its kernels for AMX end the process, those for AVX-512 are its best.
            server = Server([PYTHON, script, "serve", files], {"LLAMA_CPP_WITHOUT": without}, may_end=True)
            hello = hello or server.hello
            try:
                found.append(LlamaCpp(a, server, kind))
            except Ended:
                status = server.process.wait()
                say("llama.cpp %s ended with status %d%s" % (LLAMA_CPP[kind], status, "" if without else ": again without AMX"))
                continue
            stack.callback(server.close)
            if without:
                found[-1].config["without"] = without + ": ended with status %d" % status
            say("%s: %s" % (found[-1].name, json.dumps({w: found[-1].config[w] for w in ("decode", "prefill")})))
            break
    return found, hello


# ---- correctness ----

def agreeing(ids, reference):
    n = 0
    while n < min(len(ids), len(reference)) and ids[n] == reference[n]:
        n += 1
    return n


def verify(a, folder, server):
    """Logits, loss and greedy tokens of ours against transformers in f32 on the same weights."""
    path = os.path.join(folder, "golden.json")
    ids = server.ask(json.dumps({"do": "golden", "weights": "f32", "ids": PROMPT, "n": GREEDY, "path": path}))["ids"]
    done = subprocess.run([a.tilewright, "verify", folder, "--rope", "float", "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode:
        return ids, {"agrees": False, "message": done.stderr.strip().replace(folder, "DIR")}
    verdict = json.loads(done.stdout)
    verdict["reference"] = "transformers f32"
    return ids, verdict


def greedy_row(a, folder, ours, theirs, reference, verdict):
    everyone = [("tilewright " + o.kind, o) for o in ours if o.kind != "f32"] + [(t.name, t) for t in theirs]
    for _, c in everyone:
        c.ids = reference if c.name == "transformers f32" else c.greedy(folder)
    agree = {name: agreeing(c.ids, reference) for name, c in everyone}
    return {"case": "greedy %s" % a.shape, "config": {"prompt": len(PROMPT), "tokens": GREEDY, "reference": "transformers f32"},
            "agree": agree, "verify": verdict, "distinct_tokens": len(set(reference)),
            "correct": bool(verdict["agrees"]) and agree["tilewright bf16"] == GREEDY}


# ---- rows ----

def spread(samples):
    """From the 10th to the 90th percentile, over the median."""
    s = sorted(samples)

    def at(p):
        i, part = divmod(p * (len(s) - 1), 1)
        return s[int(i)] + part * (s[min(int(i) + 1, len(s) - 1)] - s[int(i)])
    return (at(0.9) - at(0.1)) / statistics.median(s)


def compare(a, test, ours, peer, correct, peer_test=None, **more):
    """Microseconds are of one token in decode, of the whole prompt in prefill."""
    peer_test = peer_test or test
    seconds = statistics.median(ours.samples[test]) / ours.tokens[test]
    peer_seconds = statistics.median(peer.samples[peer_test]) / peer.tokens[peer_test]
    tokens = 1 if test == "decode" else a.prompt
    rate, share = ours.work[test] / seconds, statistics.median(ours.shares[test])
    config = {"shape": a.shape, "weights": ours.kind, "tokens": ours.tokens[test], "depth": 0, "threads": ours.config["threads"],
              "activations": ours.config["activations"], "packed_bytes": ours.config["packed_bytes"]}
    integers = [k.startswith("int") for k in (ours.kind, peer.kind)]
    beside = "integers" if all(integers) else "other weights" if any(integers) else "stored"
    rounded = "" if ours.config["activations"] == "float" else ", %s activations" % ours.config["activations"]
    return {"case": "%s %s %s%s" % (test, a.shape, ours.kind, rounded), "beside": beside, "config": config, "ours_us": round(seconds * tokens * 1e6, 2),
            "ours_tokens_per_s": round(1 / seconds, 2), "peer": peer.name, "peer_config": peer.config,
            "peer_us": round(peer_seconds * tokens * 1e6, 2), "peer_tokens_per_s": round(1 / peer_seconds, 2),
            "ratio": round(peer_seconds / seconds, 3), "spread": round(spread(ours.samples[test]), 4),
            "peer_spread": round(spread(peer.samples[peer_test]), 4), "samples": len(ours.samples[test]),
            "rate": round(rate / 1e9, 2), "ceiling": round(rate / share / 1e9, 2), "ceiling_of": ours.ceiling_of[test],
            "unit": "GB/s" if test == "decode" else "GFLOP/s", "share": round(share, 4), "correct": correct,
            "worst_logit": round(ours.worst_logit, 6), **more}


def product_row(a, folder, ours, gemm, correct):
    layers, shapes = layer_products(folder)
    flops = 2.0 * layers * a.prompt * sum(n * k for n, k in shapes)
    seconds = statistics.median(gemm.samples["products"])
    note = "ours: the whole prefill, attention and norms too; peer: its matrix products alone, in one process without the rest"
    if not gemm.config["exact"] and ours.config["activations"] == "float":
        note += "; activations rounded to bf16, which ours keeps in float: a less exact product, for information"
    return compare(a, "prefill", ours, gemm, correct, "products", same_product=gemm.config["exact"] == (ours.config["activations"] == "float"), note=note,
                   peer_rate=round(flops / seconds / 1e9, 2))


def rows(a, folder, ours, rounded, theirs, llama_cpp, naive, gemm, greedy):
    kind = {o.kind: o for o in ours}
    peer = {t.kind: t for t in theirs}
    same = {c.kind: c for c in llama_cpp}
    for test in ("decode", "prefill") if a.tokens else ("prefill",):
        for o in ours:
            correct = o.correct and (greedy["correct"] or o.kind != "bf16")
            if o.kind in peer and test in peer[o.kind].samples:
                yield compare(a, test, o, peer[o.kind], correct)
            if o.kind in same:
                note = "activations rounded to %s there" % ("bf16" if o.kind == "bf16" else "8 bits")
                yield compare(a, test, o, same[o.kind], correct, note=note,
                              peer_agrees=agreeing(same[o.kind].ids, greedy["reference_ids"]))
            other = peer["f32" if o.kind == "bf16" else "bf16"]
            if o.kind.startswith("int") or (o.kind == "bf16" and test == "prefill"):
                note = "the same arithmetic: float activations" if o.kind == "bf16" else "the peer's weights are not quantised"
                yield compare(a, test, o, other, correct, note=note)
    correct = kind["bf16"].correct and greedy["correct"]
    for n in naive:
        yield compare(a, "decode", kind["bf16"], n, correct, peer_agrees=agreeing(n.ids, greedy["reference_ids"]))
    for g in gemm:
        yield product_row(a, folder, kind["bf16"], g, correct)
    for o in rounded:
        for t in theirs + llama_cpp:
            if t.kind == o.kind:
                yield compare(a, "prefill", o, t, o.correct, note="activations rounded to %s here" % o.config["activations"])
    for g in gemm:
        if not g.config["exact"]:
            yield product_row(a, folder, rounded[0], g, rounded[0].correct)


# ---- the run ----

def measure(a, everyone, deadline):
    longest = done = 0
    while done < a.rounds and (done < a.least or time.monotonic() + longest < deadline):
        start = time.monotonic()
        for c in everyone if done % 2 == 0 else reversed(everyone):
            c.run()
            time.sleep(0.2)  # threads that spin for more work give up
        longest, done = max(longest, time.monotonic() - start), done + 1
        say("round %d of at most %d: %.0f s" % (done, a.rounds, time.monotonic() - start))


def benchmark(a, folder, stack):
    load = Load()
    doctor = json.loads(command([a.tilewright, "doctor", "--json"]).stdout)
    peer = os.path.join(HERE, "peers", "decode_cpu.py")
    os.environ["TILEWRIGHT_CACHE"] = os.path.join(folder, "choices-before")
    cache = {"TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "compiled")}
    say("writing a random %s" % a.shape)
    command([PYTHON, peer, "make", folder, "--shape", a.shape])
    say("loading the peers")
    server = Server([PYTHON, peer, "serve", folder], cache)
    stack.callback(server.close)
    theirs = []
    # Integers of prompts are compared with llama.cpp's; PyTorch's products of many rows with them take seconds.
    for k in a.kinds if a.tokens else ("bf16", "f32"):
        theirs.append(Theirs(a, server, k))
        say("%s: %s" % (theirs[-1].name, json.dumps(theirs[-1].config["tried_ms_per_token"])))
    ours = [Ours(a, k, folder) for k in a.kinds if a.tokens or k != "f32"]
    rounded = [Ours(a, k, folder, "int8" if k.startswith("int") else "bf16") for k in a.kinds if k != "f32"]
    llama_cpp, release = llama_cpp_candidates(a, folder, stack)
    naive = [Naive(a, n, folder) for n in NAIVE if a.tokens and os.path.exists(os.path.join(a.build, "bench", n))]
    if len(naive) < len(NAIVE) and a.tokens:
        say("without the naive decoders: build with tests and benchmarks")
    reference, verdict = verify(a, folder, server)
    greedy = greedy_row(a, folder, ours, theirs + llama_cpp + naive, reference, verdict)
    say("greedy tokens of %d that agree with transformers f32: %s" % (GREEDY, json.dumps(greedy["agree"])))
    gemm, said = ([], {}) if a.no_products else gemm_candidates(a, folder, doctor["isa"].split(), stack)
    # Who computes each product is measured anew in the first round, not remembered from another day's machine.
    os.environ["TILEWRIGHT_CACHE"] = os.path.join(folder, "choices")
    measure(a, [*ours, *rounded, *theirs, *llama_cpp, *naive, *gemm], STARTED + 60 * a.minutes)
    first = environment(a, doctor, server.hello, said, release)
    del greedy["agree"]["transformers f32"]
    found = list(rows(a, folder, ours, rounded, theirs, llama_cpp, naive, gemm, dict(greedy, reference_ids=reference)))
    stack.close()  # the peers' processor time counts once they have ended
    first["others_load"] = round(load.others(), 4)
    first["products"] = {**{o.kind: o.config["products"] for o in ours}, **{"%s, activations in %s" % (o.kind, o.config["activations"]): o.config["products"] for o in rounded}}
    return [first, greedy, *found]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--shape", default="llama-1b", choices=["llama-1b", "llama-tiny"])
    p.add_argument("-p", dest="prompt", type=int, default=512, help="tokens of a prefill (default 512)")
    p.add_argument("-n", dest="tokens", type=int, default=64, help="tokens decoded (default 64); 0: prefill alone, without f32 weights of ours")
    p.add_argument("--repeat", type=int, default=1, help="prefills a round, of every candidate (default 1)")
    p.add_argument("--kinds", default=",".join(KINDS), help="weights to measure; bf16 and f32 are always (default all)")
    p.add_argument("--rounds", type=int, default=7, help="at most (default 7)")
    p.add_argument("--least", type=int, default=3, help="rounds whatever they take (default 3)")
    p.add_argument("--minutes", type=float, default=11.5, help="no round is begun that would end later (default 11.5)")
    p.add_argument("--compile", default=",".join(KINDS),
                   help="weights for which torch.compile is tried, a minute each; none: for no weights (default all)")
    p.add_argument("--commit", help="what was built, where the tree is not there to ask")
    p.add_argument("--no-llama-cpp", action="store_true", help="without llama.cpp")
    p.add_argument("--no-products", action="store_true", help="without the libraries' matrix products")
    p.add_argument("--build", default=os.path.join(ROOT, "build"), help="where tilewright and bench/naive were built")
    p.add_argument("-o", dest="out", help="write here instead of standard output")
    a = p.parse_args()
    a.kinds = [k for k in KINDS if k in a.kinds.split(",") or k in ("bf16", "f32")]
    a.compile = tuple(k for k in a.kinds if k in a.compile.split(","))
    a.tilewright = os.environ.get("TILEWRIGHT", os.path.join(a.build, "tilewright"))
    if not os.access(a.tilewright, os.X_OK):
        fail("%s is not there: build first" % a.tilewright)
    if subprocess.run([PYTHON, "-c", "import torch, transformers"], stderr=subprocess.DEVNULL).returncode:
        fail("%s has no torch and transformers; name one that has: PYTHON=... bench/decode_cpu.py" % PYTHON)
    if a.shape == "llama-1b" and shutil.disk_usage(tempfile.gettempdir()).free < 9e9:
        fail("%s has less than the 9 GB that the checkpoint takes; set TMPDIR" % tempfile.gettempdir())
    return a


def main():
    a = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("decode_cpu: terminated"))
    if os.getloadavg()[0] > 0.5:
        say("the machine is not idle: load %.1f" % os.getloadavg()[0])
    with tempfile.TemporaryDirectory(prefix="tilewright-bench-") as folder, contextlib.ExitStack() as stack:
        lines = [json.dumps(line) for line in benchmark(a, folder, stack)]
    text = "\n".join(lines) + "\n"
    if not a.out:
        sys.stdout.write(text)
        return
    with open(a.out + ".new", "w") as f:
        f.write(text)
    os.replace(a.out + ".new", a.out)
    say("written to " + a.out)


if __name__ == "__main__":
    STARTED = time.monotonic()
    main()
