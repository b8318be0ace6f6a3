#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/chat-model: a llama whose next token follows from the last one alone, so that what it says in a chat
is known. After a line end it thinks and then answers:

    <think>\nLet me see.\n</think>\n\nThe sky is blue.<|im_end|>

After "tick" comes " tock" and the other way round, without end. Attention and MLP add nothing: embeddings are random signs,
and a token's row of the head is the embedding of what comes before it.

usage: make_chat_model.py [FOLDER]        needs numpy
"""
import json
import os
import struct
import sys

import numpy as np

DIM, HEADS, KV_HEADS, FFN = 64, 4, 2, 16
SPECIAL = ["<|im_start|>", "<|im_end|>"]
WORDS = ["<think>", "\nLet me", " see.\n", "</think>", "\n\n", "The sky", " is", " blue.", " tick", " tock"]
CHAIN = ["\n", "<think>", "\nLet me", " see.\n", "</think>", "\n\n", "The sky", " is", " blue.", "<|im_end|>"]
LOOP = [" tick", " tock", " tick"]

TEMPLATE = """{%- if tools %}{{- '<|im_start|>tools\\n' + (tools | tojson) + '<|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}
{%- if message.role not in ['system', 'user', 'assistant'] %}{{- raise_exception('no such role: ' + message.role) }}{%- endif %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- if begun is defined %}{{- begun }}{%- endif %}
{%- endif %}"""


def alphabet():
    """The printable characters that byte-level tokenizers spell bytes with."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in kept]
    return {**{b: chr(b) for b in kept}, **{b: chr(256 + i) for i, b in enumerate(other)}}


def tokenizer(spelling):
    added = [
        {"id": 256 + i, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": word in SPECIAL}
        for i, word in enumerate(SPECIAL + WORDS)
    ]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {spelling[b]: b for b in range(256)}, "merges": []},
    }


def weights(ids):
    size, head_dim = 256 + len(SPECIAL + WORDS), DIM // HEADS
    embed = np.random.RandomState(1).choice([-1.0, 1.0], (size, DIM))
    head = np.zeros((size, DIM))
    follows = {a: b for chain in (CHAIN, LOOP) for a, b in zip(chain, chain[1:])}
    for a, b in follows.items():
        head[ids[b]] += embed[ids[a]]
    for a, b in follows.items():
        logits = head @ embed[ids[a]]
        assert logits.argmax() == ids[b] and np.sort(logits)[-2] < 0.75 * logits.max(), a
    layer, zeros = "model.layers.0.", np.zeros
    return {
        "model.embed_tokens.weight": embed, "lm_head.weight": head, "model.norm.weight": np.ones(DIM),
        layer + "input_layernorm.weight": np.ones(DIM), layer + "post_attention_layernorm.weight": np.ones(DIM),
        layer + "self_attn.q_proj.weight": zeros((HEADS * head_dim, DIM)),
        layer + "self_attn.k_proj.weight": zeros((KV_HEADS * head_dim, DIM)),
        layer + "self_attn.v_proj.weight": zeros((KV_HEADS * head_dim, DIM)),
        layer + "self_attn.o_proj.weight": zeros((DIM, HEADS * head_dim)),
        layer + "mlp.gate_proj.weight": zeros((FFN, DIM)), layer + "mlp.up_proj.weight": zeros((FFN, DIM)),
        layer + "mlp.down_proj.weight": zeros((DIM, FFN)),
    }


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, t in tensors.items():
        raw = t.astype("<f2").tobytes()
        header[name] = {"dtype": "F16", "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, indent=1)
        f.write("\n")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "tests", "data", "chat-model")
    os.makedirs(folder, exist_ok=True)
    ids = {"\n": 10, **{word: 256 + i for i, word in enumerate(SPECIAL + WORDS)}}
    write_json(folder, "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256 + len(SPECIAL + WORDS),
        "hidden_size": DIM, "intermediate_size": FFN, "num_hidden_layers": 1, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": None,
        "eos_token_id": ids["<|im_end|>"], "torch_dtype": "float16"})
    write_json(folder, "generation_config.json", {"eos_token_id": [ids["<|im_end|>"]]})
    write_json(folder, "tokenizer.json", tokenizer(alphabet()))
    write_json(folder, "tokenizer_config.json", {"eos_token": "<|im_end|>", "chat_template": TEMPLATE})
    write_safetensors(os.path.join(folder, "model.safetensors"), weights(ids))


if __name__ == "__main__":
    main()
