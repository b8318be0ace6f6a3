# SPDX-License-Identifier: Apache-2.0
"""Models of the zoo node by node, with Microsoft's operators, as builders of onnxruntime write them. Used by make_zoo.py."""
import numpy as np
import torch
from onnx import TensorProto, helper

import zoo

MICROSOFT = "com.microsoft"
EPSILON = {zoo.BERT: 1e-12, zoo.GPT2: 1e-5, zoo.LLAMA: 1e-6}


class Builder:
    def __init__(self, spec, params):
        self.spec, self.nodes, self.known = spec, [], {}
        self.numbers = {name: number for number, (name, _) in params.items()}

    def weight(self, param, transposed=False):
        name = param + (".transposed" if transposed else "")
        self.known[name] = self.numbers[param], transposed
        return name

    def constant(self, name, value):
        self.known[name] = torch.from_numpy(np.asarray(value))
        return name

    def add(self, op, operands, name, outputs=None, **attributes):
        self.nodes.append(helper.make_node(op, operands, outputs or [name], name="/" + name, **attributes))
        return name

    def product(self, x, layer, transposed=True, bias=True):
        y = self.add("MatMul", [x, self.weight(layer + ".weight", transposed)], layer + ".product")
        return self.add("Add", [y, self.weight(layer + ".bias")], layer + ".sum") if bias else y

    def skip_norm(self, x, skip, norm, bias=None):
        """Returns the norm of x + skip + bias, and the sum."""
        operands = [x, skip, self.weight(norm + ".weight"), self.weight(norm + ".bias")] + ([self.weight(bias)] if bias else [])
        self.add("SkipLayerNormalization", operands, norm, [norm, "", "", norm + ".input"], domain=MICROSOFT,
                 epsilon=EPSILON[self.spec.kind])
        return norm, norm + ".input"

    def norm(self, x, norm):
        return self.add("LayerNormalization", [x, self.weight(norm + ".weight"), self.weight(norm + ".bias")], norm, axis=-1,
                        epsilon=EPSILON[self.spec.kind])

    def attention(self, operands, name, causal):
        return self.add("Attention", operands, name, q_num_heads=self.spec.heads, kv_num_heads=self.spec.kv_heads,
                        is_causal=int(causal))

    def length(self):
        shape = self.add("Shape", ["input_ids"], "shape")
        return self.add("Gather", [shape, self.constant("one", np.array([1], np.int64))], "length", axis=0)

    def positions(self, table):
        zero = self.constant("zero", np.array([0], np.int64))
        return self.add("Slice", [self.weight(table), zero, self.length(), zero], "positions")

    def last(self, x):
        return self.add("Slice", [x, self.constant("minus_one", np.array([-1], np.int64)),
                                  self.constant("end", np.array([2**62], np.int64)), "one"], "last")


def bert(b):
    words = b.add("Gather", [b.weight("embeddings.word_embeddings.weight"), "input_ids"], "words")
    kind = b.add("Gather", [b.weight("embeddings.token_type_embeddings.weight"), b.constant("zero", np.array([0], np.int64))],
                 "kind")
    place = b.add("Add", [b.positions("embeddings.position_embeddings.weight"), kind], "place")
    x = b.norm(b.add("Add", [words, place], "embedded"), "embeddings.LayerNorm")
    for i in range(b.spec.layers):
        at = "encoder.layer.%d." % i
        qkv = [b.product(x, at + "attention.self." + name) for name in ("query", "key", "value")]
        mixed = b.product(b.attention(qkv, at + "mixed", False), at + "attention.output.dense", bias=False)
        x, _ = b.skip_norm(x, mixed, at + "attention.output.LayerNorm", at + "attention.output.dense.bias")
        up = b.product(x, at + "intermediate.dense", bias=False)
        up = b.add("BiasGelu", [up, b.weight(at + "intermediate.dense.bias")], at + "gelu", domain=MICROSOFT)
        x, _ = b.skip_norm(b.product(up, at + "output.dense", bias=False), x, at + "output.LayerNorm", at + "output.dense.bias")
    return x


def gpt2(b):
    words = b.add("Gather", [b.weight("transformer.wte.weight"), "input_ids"], "words")
    x = b.add("Add", [words, b.positions("transformer.wpe.weight")], "embedded")
    y = b.norm(x, "transformer.h.0.ln_1")
    for i in range(b.spec.layers):
        at = "transformer.h.%d." % i
        qkv = [at + name for name in "qkv"]
        b.add("Split", [b.product(y, at + "attn.c_attn", transposed=False)], at + "split", qkv, axis=-1, num_outputs=3)
        mixed = b.product(b.attention(qkv, at + "mixed", True), at + "attn.c_proj", transposed=False, bias=False)
        y, x = b.skip_norm(x, mixed, at + "ln_2", at + "attn.c_proj.bias")
        up = b.product(y, at + "mlp.c_fc", transposed=False, bias=False)
        up = b.add("FastGelu", [up, b.weight(at + "mlp.c_fc.bias")], at + "gelu", domain=MICROSOFT)
        following = "transformer.h.%d.ln_1" % (i + 1) if i + 1 < b.spec.layers else "transformer.ln_f"
        y, x = b.skip_norm(x, b.product(up, at + "mlp.c_proj", transposed=False, bias=False), following, at + "mlp.c_proj.bias")
    return b.add("MatMul", [b.last(y), b.weight("transformer.wte.weight", True)], "head")


def rope(b):
    half = b.spec.hidden // b.spec.heads // 2
    angles = np.outer(np.arange(min(b.spec.positions, 1024)), b.spec.theta ** (-np.arange(half) / half))
    return [b.constant("cos", np.cos(angles).astype(np.float32)), b.constant("sin", np.sin(angles).astype(np.float32))]


def llama(b):
    s, eps = b.spec, EPSILON[zoo.LLAMA]
    x = b.add("Gather", [b.weight("model.embed_tokens.weight"), "input_ids"], "words")
    total = b.add("Cast", [b.length()], "total_row", to=TensorProto.INT32)
    before = b.add("Sub", [total, b.constant("one_i32", np.array([1], np.int32))], "before")
    batch = b.add("Gather", ["shape", b.constant("zero", np.array([0], np.int64))], "batch", axis=0)
    seen = b.add("Expand", [before, batch], "seen")
    total = b.add("Squeeze", [total], "total")
    tables = rope(b)
    y = b.add("SimplifiedLayerNormalization", [x, b.weight("model.layers.0.input_layernorm.weight")], "first", axis=-1, epsilon=eps,
              stash_type=1)

    def skip_norm(x, skip, norm):
        b.add("SkipSimplifiedLayerNormalization", [x, skip, b.weight(norm + ".weight")], norm, [norm, "", "", norm + ".input"],
              domain=MICROSOFT, epsilon=eps)
        return norm, norm + ".input"

    for i in range(s.layers):
        at = "model.layers.%d." % i
        qkv = [b.product(y, at + "self_attn.%s_proj" % name, bias=False) for name in "qkv"]
        mixed = b.add("GroupQueryAttention", qkv + ["", "", seen, total] + tables, at + "mixed",
                      [at + "mixed", at + "keys", at + "values"], domain=MICROSOFT, num_heads=s.heads, kv_num_heads=s.kv_heads,
                      do_rotary=1)
        y, x = skip_norm(x, b.product(mixed, at + "self_attn.o_proj", bias=False), at + "post_attention_layernorm")
        gate, up = (b.product(y, at + "mlp.%s_proj" % name, bias=False) for name in ("gate", "up"))
        silu = b.add("Mul", [gate, b.add("Sigmoid", [gate], at + "sigmoid")], at + "silu")
        gated = b.add("Mul", [silu, up], at + "gated")
        following = "model.layers.%d.input_layernorm" % (i + 1) if i + 1 < s.layers else "model.norm"
        y, x = skip_norm(x, b.product(gated, at + "mlp.down_proj", bias=False), following)
    return b.add("MatMul", [b.last(y), b.weight("lm_head.weight", True)], "head")


def built(spec, params):
    """Returns the model as a protocol buffer without weights, and its tensors by name."""
    b = Builder(spec, params)
    y = {zoo.BERT: bert, zoo.GPT2: gpt2, zoo.LLAMA: llama}[spec.kind](b)
    b.nodes.append(helper.make_node("Identity", [y], [spec.output], name="/output"))
    dims = ["batch", "sequence", spec.hidden] if spec.encoder else ["batch", 1, spec.vocab]
    graph = helper.make_graph(b.nodes, spec.name,
                              [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])],
                              [helper.make_tensor_value_info(spec.output, TensorProto.FLOAT, dims)])
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11, producer_name="tilewright"), b.known
