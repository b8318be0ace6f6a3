#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of the decode benchmark: transformers' LlamaForCausalLM on PyTorch, every core.

    decode_cpu.py make DIR --shape llama-1b       writes a checkpoint with random bf16 weights
    decode_cpu.py serve DIR                       answers requests, one JSON object a line, until its input ends

Requests name the weights: bf16, f32, int8 or int4. {"do":"load","weights":"bf16","n":64,"compile":true} loads them and settles on the
fastest way to decode n tokens, torch.compile among them if it may be; {"do":"decode","n":64} and {"do":"prefill","n":512} answer {"seconds":...};
{"do":"greedy","ids":[...],"n":32} answers {"ids":[...]}; {"do":"golden","ids":[...],"n":32,"path":FILE} also writes a
reference for `tilewright verify`. Models stay loaded, so that rounds can be interleaved with other programs.
"""
import argparse
import json
import math
import os
import sys
import time

os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # huge pages, as the engine beside it has

import torch
import transformers
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, StaticCache

LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
# As `tilewright bench --shape` knows them.
SHAPES = {
    "llama-1b": dict(num_hidden_layers=16, hidden_size=2048, num_attention_heads=32, num_key_value_heads=8, head_dim=64,
                     intermediate_size=8192, vocab_size=128256, max_position_embeddings=131072, rope_parameters=LLAMA3),
    "llama-tiny": dict(num_hidden_layers=2, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                       intermediate_size=160, vocab_size=256, max_position_embeddings=1024, rope_parameters=PLAIN),
}


def make(folder, shape):
    torch.manual_seed(1)
    config = LlamaConfig(rms_norm_eps=1e-5, tie_word_embeddings=True, dtype="bfloat16", bos_token_id=None, eos_token_id=None,
                         **SHAPES[shape])
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    # In place of the usual start: a variance that is kept from layer to layer, and norms that are not all 1.
    model = model.to(torch.bfloat16).to_empty(device="cpu")
    model.tie_weights()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.uniform_(0.75, 1.25)
            else:
                p.normal_(0, 1 / math.sqrt(p.shape[-1]))
    model.save_pretrained(folder, max_shard_size="100GB")
    return {"parameters": sum(p.numel() for p in model.parameters())}


class Int8Linear(torch.nn.Module):
    """int8 weights, a scale a row, bf16 activations: the product that torchao uses on CPUs."""

    def __init__(self, weight):
        super().__init__()
        w = weight.float()
        scale = w.abs().amax(1).clamp_min(1e-12) / 127
        self.register_buffer("weight", (w / scale[:, None]).round().clamp(-127, 127).to(torch.int8))
        self.register_buffer("scale", scale.to(torch.bfloat16))

    def forward(self, x):
        return torch.ops.aten._weight_int8pack_mm(x.reshape(-1, x.shape[-1]), self.weight, self.scale).view(*x.shape[:-1], -1)


class Int4Linear(torch.nn.Module):
    """int4 weights, a scale and a zero for 64 columns, bf16 activations: the product that torchao uses on CPUs."""

    GROUP = 64

    def __init__(self, weight):
        super().__init__()
        rows, cols = weight.shape
        group = self.GROUP if cols % self.GROUP == 0 else 32
        w = weight.float().view(rows, cols // group, group)
        low, high = w.amin(2, keepdim=True), w.amax(2, keepdim=True)
        scale = ((high - low) / 15).clamp_min(1e-6)
        q = ((w - low) / scale).round().clamp(0, 15).view(rows, cols).to(torch.int32)
        # The kernel's value of an integer is (q - 8) * scale + zero.
        zero = low + 8 * scale
        self.group = group
        self.register_buffer("weight", torch.ops.aten._convert_weight_to_int4pack_for_cpu(q, 1))
        pairs = torch.cat([scale, zero], 2).transpose(0, 1).contiguous()
        self.register_buffer("pairs", pairs.to(torch.bfloat16))

    def forward(self, x):
        y = torch.ops.aten._weight_int4pack_mm_for_cpu(x.reshape(-1, x.shape[-1]), self.weight, self.group, self.pairs)
        return y.view(*x.shape[:-1], -1)


def quantise(model, kind):
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(parent, name, kind(child.weight.data))


class Peer:
    def __init__(self, folder, weights, compile_it, embedding=None):
        self.dtype = torch.float32 if weights == "f32" else torch.bfloat16
        self.model = LlamaForCausalLM.from_pretrained(folder, dtype=self.dtype).eval()
        for p in self.model.parameters():
            p.data = p.data.clone()  # out of the mapped file, onto huge pages
        self.model.tie_weights()
        if weights in ("int8", "int4"):
            quantise(self.model, Int8Linear if weights == "int8" else Int4Linear)
            if embedding is not None:
                self.model.model.embed_tokens.weight.data = embedding  # the same values: held once
        self.step = self.model.forward
        self.cache_kind = "dynamic"
        self.compiled = False
        self.want_compile = compile_it
        self.notes = []

    def cache(self, room):
        if self.cache_kind == "dynamic":
            return DynamicCache(config=self.model.config)
        return StaticCache(config=self.model.config, max_cache_len=room)

    def forward(self, ids, cache, step=None):
        # Logits of the last position alone, as a server asks for.
        return (step or self.model.forward)(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1]

    def decode(self, n, room=None):
        cache = self.cache(room or n)  # code compiled for one size of cache is compiled again for another
        token = torch.tensor([[1]])
        start = time.perf_counter()
        for _ in range(n):
            token = self.forward(token, cache, self.step).argmax().view(1, 1)
        return time.perf_counter() - start

    def prefill(self, n):
        ids = torch.randint(0, self.model.config.vocab_size, (1, n), generator=torch.Generator().manual_seed(1))
        cache = DynamicCache(config=self.model.config)
        start = time.perf_counter()
        self.forward(ids, cache)
        return time.perf_counter() - start

    def greedy(self, ids, n):
        cache = DynamicCache(config=self.model.config)
        token, out, first = torch.tensor([ids]), [], None
        for _ in range(n):
            logits = self.forward(token, cache)
            first = logits if first is None else first
            token = logits.argmax().view(1, 1)
            out.append(int(token))
        return out, first

    def settle(self, n):
        """The faster of a growing and a fixed cache, then compiled code if it works and is faster still."""
        best = {}
        for kind in ("dynamic", "static"):
            self.cache_kind = kind
            self.decode(2, n)
            best[kind] = min(self.decode(8, n) for _ in range(2))
        if self.want_compile:
            try:
                self.cache_kind = "static"
                self.step = torch.compile(self.model.forward, dynamic=False)
                self.decode(4, n)
                best["static compiled"] = min(self.decode(8, n) for _ in range(2))
            except Exception as error:  # whatever the compiler dislikes, the peer still runs without
                self.notes.append("torch.compile: " + type(error).__name__)
        choice = min(best, key=best.get)
        self.cache_kind = choice.split()[0]
        self.compiled = "compiled" in choice
        if not self.compiled:
            self.step = self.model.forward
        return {"cache": self.cache_kind, "attention": self.model.config._attn_implementation, "compiled": self.compiled, "tried_ms_per_token":
                {k: round(v / 8 * 1e3, 2) for k, v in best.items()}, "notes": self.notes}

    def golden(self, ids, n, path):
        greedy, logits = self.greedy(ids, n)
        full = self.model(input_ids=torch.tensor([ids])).logits[0].float()
        loss = torch.nn.functional.cross_entropy(full[:-1], torch.tensor(ids[1:])).item()
        case = {"prompt": ids, "logits_last": logits.float().tolist(), "greedy": greedy, "loss": loss}
        with open(path, "w") as f:
            json.dump({"cases": [case]}, f)
        return greedy


class Server:
    def __init__(self, folder):
        self.folder, self.peers = folder, {}

    def answer(self, q):
        with torch.inference_mode():
            if q["do"] == "load":
                held = self.peers["bf16"].model.model.embed_tokens.weight.data if "bf16" in self.peers else None
                self.peers[q["weights"]] = Peer(self.folder, q["weights"], q.get("compile", False), held)
                return self.peers[q["weights"]].settle(q["n"])
            peer = self.peers[q["weights"]]
            if q["do"] == "decode":
                return {"seconds": peer.decode(q["n"], q.get("room"))}
            if q["do"] == "prefill":
                return {"seconds": peer.prefill(q["n"])}
            if q["do"] == "greedy":
                return {"ids": peer.greedy(q["ids"], q["n"])[0]}
            if q["do"] == "golden":
                return {"ids": peer.golden(q["ids"], q["n"], q["path"])}
        raise ValueError("no such request: %s" % q["do"])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("verb", choices=["make", "serve"])
    p.add_argument("folder")
    p.add_argument("--shape", default="llama-1b", choices=sorted(SHAPES))
    a = p.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    reply = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    if a.verb == "make":
        print(json.dumps(make(a.folder, a.shape)), file=reply)
        return
    server = Server(a.folder)
    print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__,
                      "threads": torch.get_num_threads()}), file=reply)
    for line in sys.stdin:
        try:
            print(json.dumps(server.answer(json.loads(line))), file=reply)
        except Exception as error:
            print(json.dumps({"error": "%s: %s" % (type(error).__name__, error)}), file=reply)


if __name__ == "__main__":
    main()
