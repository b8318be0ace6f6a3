#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peers of the whole-model benchmark: a pass of a zoo's model in PyTorch with the weights of its exported file.

    engine.py FOLDER --out CASES [--dtype f16|f32] [--batches 1,4,8] [--length 512] [--peers graph,compile,max-autotune]

prints one JSON object a line, the environment first. CASES gets case-B.npz for each batch B: the ids, and the outputs of f32
arithmetic without a graph, to which every way is compared. A decoder gives the last position's logits, without a cache.
Attention takes no mask, a decoder's is causal by the kernel's flag. Each way runs in a CUDA graph and is timed by events:

    graph           as transformers has it, scaled_dot_product_attention, cuBLAS
    compile         torch.compile in its default mode
    max-autotune    torch.compile(mode="max-autotune-no-cudagraphs")

On a machine without a GPU it writes the cases, and times nothing."""
import argparse
import json
import os
import statistics
import sys
import time

import numpy as np
import torch

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
import zoo  # noqa: E402
import zoo_weights  # noqa: E402

MODES = {"compile": "default", "max-autotune": "max-autotune-no-cudagraphs"}
SAMPLES, WARM = 20, 5
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def loaded(folder, spec):
    """Returns the model in f32, with the file's weights."""
    with torch.device(DEVICE):
        model = spec.make().eval()
    params = dict(model.named_parameters(remove_duplicate=False))
    left = {id(p) for p in params.values()}
    for name, x in zoo_weights.parameters(folder):
        params[name].copy_(torch.from_numpy(np.array(x)))
        left.discard(id(params[name]))
    if left:
        raise SystemExit("%s: no weights for %s" % (folder, [n for n, p in params.items() if id(p) in left]))
    return model


def halved(model):
    """Converts parameters alone: frequencies of rope stay in f32, as transformers has them."""
    kept = dict(model.named_buffers())
    model.half()
    for name, value in kept.items():
        owner, _, key = name.rpartition(".")
        model.get_submodule(owner)._buffers[key] = value
    return model


def timed(run):
    """Returns milliseconds of a graph's replays, and the output."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run()
    samples = []
    for i in range(SAMPLES + WARM):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if i >= WARM:
            samples.append(begin.elapsed_time(end))
    return samples, out.float().clone()


def difference(y, base):
    """Returns the largest difference, and the root of their mean square, relative to that of `base`."""
    scale = base.double().square().mean().sqrt()
    d = (y.double() - base.double()).abs()
    return {"worst": round((d.max() / scale).item(), 7), "rms": round((d.square().mean().sqrt() / scale).item(), 7)}


def measure(spec, model, ids, peer, base):
    start, row = time.monotonic(), {}
    run = lambda: spec.forward(model, ids)  # noqa: E731
    if peer in MODES:
        torch._dynamo.reset()
        run = torch.compile(run, mode=MODES[peer], dynamic=False)
    samples, out = timed(run)
    middle = statistics.median(samples)
    row.update(ms=round(middle, 4), spread=round((max(samples) - min(samples)) / middle, 4), **difference(out, base))
    row["took_s"] = round(time.monotonic() - start, 1)
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--out", required=True)
    p.add_argument("--dtype", choices=("f16", "f32"), default="f16")
    p.add_argument("--batches", default="1,4,8")
    p.add_argument("--length", type=int, default=512)
    p.add_argument("--peers", default="graph,compile")
    a = p.parse_args()
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    zoo.without_masks()
    with open(os.path.join(a.folder, zoo.MANIFEST)) as f:
        spec = zoo.of_manifest(json.load(f))
    zoo_weights.write(a.folder)
    model = loaded(a.folder, spec)
    print(json.dumps({"device": torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu", "torch": torch.__version__,
                      "cuda": torch.version.cuda}), flush=True)
    os.makedirs(a.out, exist_ok=True)
    cases = {}
    for batch in map(int, a.batches.split(",")):
        ids = np.random.default_rng(batch).integers(0, spec.vocab, (batch, a.length))
        on = torch.from_numpy(ids).to(DEVICE)
        # A row after another: outputs do not depend on one another, and f32 takes memory.
        base = torch.cat([spec.forward(model, on[i : i + 1]) for i in range(batch)])
        np.savez(os.path.join(a.out, "case-%d.npz" % batch), in_input_ids=ids, out_0=base.cpu().numpy())
        cases[batch] = on, base
    if DEVICE == "cpu":
        return
    if a.dtype == "f16":
        model = halved(model)
    for batch, (ids, base) in cases.items():
        for peer in a.peers.split(","):
            row = {"model": spec.name, "dtype": a.dtype, "batch": batch, "tokens": a.length, "peer": peer}
            try:
                row.update(measure(spec, model, ids, peer, base))
            except Exception as error:  # What a peer cannot do is a row that says so.
                row["error"] = "%s: %s" % (type(error).__name__, str(error)[:200])
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
