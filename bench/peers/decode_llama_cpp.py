#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of the decode benchmark: llama.cpp, through the bindings of llama-cpp-python, every core.

    decode_llama_cpp.py make DIR OUT_DIR          writes the checkpoint in DIR as bf16.gguf, q8_0.gguf and q4_0.gguf
    decode_llama_cpp.py serve OUT_DIR             answers requests, one JSON object a line, until its input ends

The checkpoint is a Llama's in Hugging Face's form. Integers are made by llama.cpp's own functions, of every matrix, the embedding too. Requests
name the weights by the file: {"do":"load","weights":"q8_0","n":64} loads it and settles on the fastest settings for decoding n tokens;
{"do":"decode","weights":...,"n":64} and {"do":"prefill","n":512} answer {"seconds":...}; {"do":"greedy","ids":[...],"n":32} answers {"ids":[...]}.
Needs numpy, gguf (`make` alone) and llama-cpp-python as pip builds it, which is for the processor it is built on.
LLAMA_CPP_LIB_PATH names a folder with other libraries of the same version; of its kernels for processors, those with LLAMA_CPP_WITHOUT in their
name are not used.
"""
import argparse
import ctypes
import importlib.util
import json
import math
import os
import sys
import time
import types

CORES = len(os.sched_getaffinity(0))
FILES = {"q8_0": 7, "q4_0": 2}  # llama.cpp's numbers of whole files' types
MICRO_BATCH = 512


def chosen(folder, without):
    """A folder of links to the libraries in `folder` but those of processors whose name is `without`."""
    import atexit
    import shutil
    import tempfile
    links = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, links, ignore_errors=True)
    for name in os.listdir(folder):
        if ".so" in name and without not in name:
            os.symlink(os.path.join(folder, name), os.path.join(links, name))
    return links


def bindings():
    """llama_cpp.llama_cpp without its package's __init__, which asks for more packages than these functions need."""
    spec = importlib.util.find_spec("llama_cpp")
    if not spec:
        raise ImportError("llama-cpp-python is not installed")
    package = types.ModuleType("llama_cpp")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["llama_cpp"] = package
    import llama_cpp.llama_cpp as lib
    silent = lib.llama_log_callback(lambda level, text, user: None)
    lib.llama_log_set(silent, None)
    lib.tilewright_keeps = silent  # the library calls it for as long as it lives
    # Where processors' kernels are libraries of their own, the best that this one runs is loaded.
    folder = str(lib._base_path)
    without = os.environ.get("LLAMA_CPP_WITHOUT")
    if without:
        folder = chosen(folder, without)
    try:
        ctypes.CDLL(os.path.join(str(lib._base_path), "libggml.so")).ggml_backend_load_all_from_path(folder.encode())
    except (OSError, AttributeError):
        pass
    lib.llama_backend_init()
    return lib


# ---- a checkpoint as GGUF ----

def tensors(folder):
    """(name, type, shape, bytes as mapped) of each tensor."""
    import numpy as np
    path = os.path.join(folder, "model.safetensors")
    with open(path, "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        header = json.loads(f.read(size))
    data = np.memmap(path, np.uint8, "r", 8 + size)
    for name, t in header.items():
        if name != "__metadata__":
            yield name, t["dtype"], t["shape"], data[slice(*t["data_offsets"])]


def gguf_name(name):
    inside = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
              "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
              "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    outside = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
               "lm_head.weight": "output.weight"}
    if name in outside:
        return outside[name]
    layer, what = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
    return "blk.%d.%s.weight" % (int(layer), inside[what])


def rope_factors(c, dims):
    """What llama3's scaling divides each frequency by; None where there is none."""
    r = c.get("rope_parameters") or c.get("rope_scaling") or {}
    if r.get("rope_type") != "llama3":
        return None
    old, factors = r["original_max_position_embeddings"], []
    for i in range(dims // 2):
        length = 2 * math.pi * r["rope_theta"] ** (2 * i / dims)
        if length < old / r["high_freq_factor"]:
            factors.append(1.0)
        elif length > old / r["low_freq_factor"]:
            factors.append(float(r["factor"]))
        else:
            smooth = (old / length - r["low_freq_factor"]) / (r["high_freq_factor"] - r["low_freq_factor"])
            factors.append(1 / ((1 - smooth) / r["factor"] + smooth))
    return factors


def write_gguf(folder, path):
    import gguf
    import numpy as np
    with open(os.path.join(folder, "config.json")) as f:
        c = json.load(f)
    head = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    theta = (c.get("rope_parameters") or {}).get("rope_theta") or c.get("rope_theta", 10000.0)
    w = gguf.GGUFWriter(path, "llama")
    w.add_vocab_size(c["vocab_size"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_key_length(head)
    w.add_value_length(head)
    w.add_rope_dimension_count(head)
    w.add_rope_freq_base(theta)
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_file_type(32)
    w.add_tokenizer_model("no_vocab")
    factors = rope_factors(c, head)
    if factors:
        w.add_tensor("rope_freqs.weight", np.array(factors, np.float32))
    for name, kind, shape, data in tensors(folder):
        size = {"BF16": 2, "F32": 4}[kind]
        if len(shape) == 1:  # vectors are float32 in every file
            v = data.view(np.float32) if size == 4 else (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
            w.add_tensor(gguf_name(name), np.array(v))
            continue
        rows, cols = shape
        data = data.reshape(rows, cols * size)
        heads = {"q": c["num_attention_heads"], "k": c["num_key_value_heads"]}.get(name.split("_proj")[0][-1:])
        if "_proj" in name and "self_attn" in name and heads:
            # llama.cpp pairs neighbours for rope, Hugging Face elements half a head apart.
            data = data.reshape(heads, 2, head // 2, -1).swapaxes(1, 2).reshape(rows, -1)
        data = np.ascontiguousarray(data)
        if kind == "F32":
            w.add_tensor(gguf_name(name), data.view(np.float32))
        else:
            w.add_tensor(gguf_name(name), data, raw_dtype=gguf.GGMLQuantizationType.BF16)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make(folder, out):
    lib = bindings()
    base = os.path.join(out, "bf16.gguf")
    write_gguf(folder, base)
    for name, number in FILES.items():
        p = lib.llama_model_quantize_default_params()
        p.nthread, p.ftype, p.pure = CORES, number, True
        if lib.llama_model_quantize(base.encode(), os.path.join(out, name + ".gguf").encode(), ctypes.byref(p)):
            raise RuntimeError("llama.cpp cannot make " + name)
    return {name: os.path.getsize(os.path.join(out, name + ".gguf")) for name in ("bf16", *FILES)}


# ---- running ----

class Peer:
    def __init__(self, lib, path, room):
        self.lib, self.room, self.context = lib, room, None
        p = lib.llama_model_default_params()
        p.n_gpu_layers = 0
        p.load_mode = lib.LLAMA_LOAD_MODE_NONE  # out of the file, into memory of its own
        self.model = lib.llama_model_load_from_file(path.encode(), p)
        if not self.model:
            raise RuntimeError("llama.cpp cannot read " + os.path.basename(path))
        self.vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))

    def use(self, threads, flash):
        lib = self.lib
        if self.context:
            lib.llama_free(self.context)
        p = lib.llama_context_default_params()
        p.n_ctx = p.n_batch = self.room
        p.n_ubatch, p.n_threads, p.n_threads_batch = MICRO_BATCH, threads, threads
        p.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        p.no_perf = True
        self.context = lib.llama_init_from_model(self.model, p)
        if not self.context:
            raise RuntimeError("llama.cpp makes no context")

    def clear(self):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), False)

    def feed(self, ids):
        """Logits of the last."""
        array = (self.lib.llama_token * len(ids))(*ids)
        if self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(array, len(ids))):
            raise RuntimeError("llama_decode failed")
        return self.lib.llama_get_logits_ith(self.context, -1)

    def argmax(self, logits):
        import numpy as np
        return int(np.ctypeslib.as_array(ctypes.cast(logits, ctypes.POINTER(ctypes.c_float)), (self.vocab,)).argmax())

    def decode(self, n):
        self.clear()
        token = 1
        start = time.perf_counter()
        for _ in range(n):
            token = self.argmax(self.feed([token]))
        return time.perf_counter() - start

    def prefill(self, n):
        import random
        draw = random.Random(1)
        ids = [draw.randrange(self.vocab) for _ in range(n)]
        self.clear()
        start = time.perf_counter()
        self.feed(ids)
        return time.perf_counter() - start

    def greedy(self, ids, n):
        self.clear()
        out = [self.argmax(self.feed(ids))]
        while len(out) < n:
            out.append(self.argmax(self.feed([out[-1]])))
        return out

    def settle(self):
        """Threads, one a core or one for two, and flash attention or not: what decodes fastest, and what reads prompts fastest."""
        tried, self.best = {}, {}
        for threads in sorted({CORES, max(1, CORES // 2)}, reverse=True):
            for flash in (True, False):
                self.use(threads, flash)
                self.decode(2)
                seconds = {"decode": min(self.decode(8) for _ in range(2)) / 8,
                           "prefill": min(self.prefill(64) for _ in range(2)) / 64}
                for what, s in seconds.items():
                    name = "%s, %d threads%s" % (what, threads, ", flash attention" if flash else "")
                    tried[name] = round(s * 1e3, 3)
                    if what not in self.best or s < self.best[what][0]:
                        self.best[what] = (s, threads, flash)
        return {"micro_batch": MICRO_BATCH, "tried_ms_per_token": tried,
                **{what: {"threads": t, "flash_attention": flash} for what, (_, t, flash) in self.best.items()}}

    def ready(self, what):
        _, threads, flash = self.best[what]
        self.use(threads, flash)
        self.feed([1])


class Server:
    def __init__(self, folder):
        self.folder, self.lib, self.peers = folder, bindings(), {}

    def hello(self):
        try:
            from importlib.metadata import version
            release = version("llama-cpp-python")
        except Exception:
            release = os.environ.get("LLAMA_CPP_VERSION", "unknown")
        return {"llama-cpp-python": release, "system": self.lib.llama_print_system_info().decode().strip(), "threads": CORES}

    def answer(self, q):
        if q["do"] == "load":
            path = os.path.join(self.folder, q["weights"] + ".gguf")
            peer = self.peers[q["weights"]] = Peer(self.lib, path, max(q["n"] + 64, q.get("room", 0), 2 * MICRO_BATCH))
            return {**peer.settle(), "bytes": os.path.getsize(path)}
        peer = self.peers[q["weights"]]
        if q["do"] in ("decode", "prefill"):
            peer.ready(q["do"])
            return {"seconds": peer.decode(q["n"]) if q["do"] == "decode" else peer.prefill(q["n"])}
        if q["do"] == "greedy":
            peer.ready("decode")
            return {"ids": peer.greedy(q["ids"], q["n"])}
        raise ValueError("no such request: %s" % q["do"])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("verb", choices=["make", "serve"])
    p.add_argument("folder")
    p.add_argument("out", nargs="?", help="of `make`")
    a = p.parse_args()
    if (a.verb == "make") != (a.out is not None):
        p.error("make takes DIR OUT_DIR, serve one folder")
    reply = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    if a.verb == "make":
        print(json.dumps(make(a.folder, a.out)), file=reply)
        return
    server = Server(a.folder)
    print(json.dumps(server.hello()), file=reply)
    for line in sys.stdin:
        try:
            print(json.dumps(server.answer(json.loads(line))), file=reply)
        except Exception as error:
            print(json.dumps({"error": "%s: %s" % (type(error).__name__, error)}), file=reply)


if __name__ == "__main__":
    main()
