#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A runner of made-up kernels, the command of made_up.json. Times come from a formula; a real runner compiles, checks
and times kernels. docs/tune.md describes the lines that are read and written. With --fault=F the runner misbehaves, for
tests."""
import json
import math
import os
import sys
import time

SMS = 16
FAULT = next((a[8:] for a in sys.argv if a.startswith("--fault=")), "")


def write(text):
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # Nobody listens any more.
        os._exit(0)


def say(o):
    write(json.dumps(o) + "\n")


def time_of(p, c):
    """Returns the microseconds of a configuration. Rounds of a block are fastest with the right number of stages."""
    if "by" in c:
        return 2e-5 * p["m"] * p["n"] * p["k"] / 1000 + 9
    blocks = p.get("groups", 1) * math.ceil(p["m"] / c["BM"]) * math.ceil(p["n"] / c["BN"]) * c["SPLIT"]
    rounds = math.ceil(p["k"] / c["BK"]) / c["SPLIT"]
    best = 2 if rounds < 16 else 3 if rounds < 64 else 4
    a_round = c["BM"] * c["BN"] * c["BK"] * 2e-6 + (c["BM"] + c["BN"]) * c["BK"] * 3e-5 + 0.05
    waves = math.ceil(blocks / (2 * SMS))
    slow = 1 + 0.08 * abs(best - c["stages"]) + (0.05 if (c["order"] == "grouped") != (waves > 8) else 0)
    return waves * (rounds * a_round + 2) * slow + (4 if c["SPLIT"] > 1 else 0) + 3


def answer(request, i):
    """Checks and times configuration i of a request."""
    c = request["configs"][i]
    if c.get("stages") == 4 and c.get("BM") == 128 and c.get("BN") == 128:
        return {"config": i, "status": "unsupported", "message": "too many registers"}
    if FAULT == "wrong" and c.get("SPLIT") == 4:
        return {"config": i, "status": "wrong", "message": "3 of 9 cells are wrong"}
    us = time_of(request["problem"], c)
    return {"config": i, "status": "right", "samples": [us * (1 + 0.001 * s) for s in range(request["samples"])]}


def misbehave(o):
    """Commits the fault in place of the result `o`. Returns False if `o` is to be written."""
    if FAULT == "exit":
        sys.exit(3)
    if FAULT == "die":
        os.kill(os.getpid(), 9)
    if FAULT == "sleep":
        time.sleep(1000)
    if FAULT == "endless":
        while True:
            write("x" * 4096)
    texts = {
        "text": "compiling...",
        "list": "[1, 2]",
        "twice": json.dumps(o) + "\n" + json.dumps(o),
        "index": json.dumps(dict(o, config=100000)),
        "status": json.dumps(dict(o, status="fine")),
        "negative": json.dumps(dict(o, samples=[-1.0])),
        "many": json.dumps(dict(o, samples=[1.0] * 1000)),
        "none": json.dumps(dict(o, samples=[])),
        "early": '{"end": true}',
    }
    if FAULT in texts:
        write(texts[FAULT] + "\n")
        return True
    return False


if FAULT == "greeting":
    say({"hello": True})
if FAULT == "mute":
    sys.exit(0)
say({"environment": {"device": "a made-up GPU", "alike": "made up, 16 SMs", "sms": SMS, "shared": 65536}})
for line in sys.stdin:
    request = json.loads(line)
    began = time.monotonic()
    for i in range(len(request["configs"])):
        if request["seconds"] is not None and time.monotonic() - began >= request["seconds"]:
            break
        result = answer(request, i)
        if not misbehave(result):
            say(result)
        if FAULT == "slow":
            time.sleep(0.2)
            say({"busy": "resting"})
    say({"end": True})
