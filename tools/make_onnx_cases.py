#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/onnx: small models with inputs and outputs, and the archive of ONNX's node tests.

    tools/make_onnx_cases.py model             needs packages onnx (1.22.0), onnxruntime and numpy
    tools/make_onnx_cases.py nodes PROGRAM     PROGRAM: build/bench/onnx_nodes
    tools/make_onnx_cases.py exports           needs torch, transformers, onnx and onnxscript

`model` writes encoder/model.onnx, a block of an encoder as exporters write it (layer norm of nine nodes, attention of
primitives, GELU by erf, symbolic batch and length), branches/model.onnx, with If in If, functions/model.onnx, with functions
in functions, and of each a case.npz, outputs by onnxruntime. `nodes` packs the package's
node tests that pass (Apache-2.0, https://github.com/onnx/onnx). `exports` writes tiny models of random weights (BERT, GPT-2,
Llama, with and without a mask, attention of primitives and of torch's operator) by PyTorch's old and new exporter, at several
sets of operators, and of seven families a layer with a cache, as optimum exports them. It packs them into exports.tar.xz
without traces of Python's stack. What zoo.tar.xz has (make_zoo.py) is not among them: torch's operator without a mask.
"""
import os
import subprocess
import sys

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "data", "onnx")
DIM, HEADS, FFN = 16, 2, 32


def encoder():
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    r = np.random.default_rng(7)
    nodes, constants = [], {}

    def weight(name, *shape):
        constants[name] = (r.standard_normal(shape) * 0.3).astype(np.float32)
        return name

    def constant(name, value):
        constants[name] = np.asarray(value)
        return name

    def add(op, operands, result, **attributes):
        nodes.append(helper.make_node(op, operands, [result], name="/" + result, **attributes))
        return result

    def layer_norm(x, name):
        mean = add("ReduceMean", [x, constant("last", np.array([-1], np.int64))], name + "_mean")
        centred = add("Sub", [x, mean], name + "_centred")
        square = add("Pow", [centred, constant("two", np.float32(2))], name + "_square")
        variance = add("ReduceMean", [square, "last"], name + "_variance")
        root = add("Sqrt", [add("Add", [variance, constant("eps", np.float32(1e-5))], name + "_eps")], name + "_root")
        scaled = add("Mul", [add("Div", [centred, root], name + "_normed"), weight(name + "_gain", DIM)], name + "_scaled")
        return add("Add", [scaled, weight(name + "_bias", DIM)], name)

    def linear(x, name, n, k):
        return add("Add", [add("MatMul", [x, weight(name + "_w", k, n)], name + "_product"), weight(name + "_b", n)], name)

    def heads(x, name, order):
        shape = constant("split", np.array([0, 0, HEADS, DIM // HEADS], np.int64))
        return add("Transpose", [add("Reshape", [x, shape], name + "_split")], name, perm=order)

    x = layer_norm("x", "norm")
    q, k, v = (linear(x, name, DIM, DIM) for name in "qkv")
    q, k, v = heads(q, "queries", [0, 2, 1, 3]), heads(k, "keys", [0, 2, 3, 1]), heads(v, "values", [0, 2, 1, 3])
    scores = add("Div", [add("MatMul", [q, k], "scores"), constant("root", np.float32((DIM // HEADS) ** 0.5))], "scaled")
    axes = constant("axes", np.array([1, 2], np.int64))
    seen = add("Cast", [add("Unsqueeze", ["mask", axes], "mask_wide")], "mask_real", to=TensorProto.FLOAT)
    hidden = add("Mul", [add("Sub", [constant("one", np.float32(1)), seen], "hidden"), constant("least", np.float32(-1e9))], "bias")
    chances = add("Softmax", [add("Add", [scores, hidden], "masked")], "chances", axis=-1)
    mixed = add("Transpose", [add("MatMul", [chances, v], "mixed")], "rows", perm=[0, 2, 1, 3])
    joined = add("Reshape", [mixed, constant("join", np.array([0, 0, DIM], np.int64))], "joined")
    y = add("Add", ["x", linear(joined, "o", DIM, DIM)], "attended")
    up = linear(layer_norm(y, "norm2"), "up", FFN, DIM)
    erf = add("Erf", [add("Div", [up, constant("root2", np.float32(2 ** 0.5))], "by_root")], "erf")
    gelu = add("Mul", [add("Mul", [up, add("Add", [erf, "one"], "raised")], "both"), constant("half", np.float32(0.5))], "gelu")
    add("Add", [y, linear(gelu, "down", DIM, FFN)], "y")
    graph = helper.make_graph(
        nodes, "encoder",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length", DIM]),
         helper.make_tensor_value_info("mask", TensorProto.INT64, ["batch", "length"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "length", DIM])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8, producer_name="tilewright")
    onnx.checker.check_model(model)
    folder = os.path.join(HERE, "encoder")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "model.onnx")
    onnx.save(model, path)
    inputs = {"x": r.standard_normal((2, 5, DIM)).astype(np.float32), "mask": np.array([[1] * 5, [1, 1, 1, 0, 0]], np.int64)}
    (result,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)
    np.savez(os.path.join(folder, "case.npz"), out_y=result, **{"in_" + name: value for name, value in inputs.items()})


BRANCHES = """<ir_version: 8, opset_import: ["": 18]>
branches (float[n, 3] x, bool up, float[3] w) => (float[m, 3] y, float[3] z, float[n, 3] same)
<float[1] two = {2}, int64[1] three = {3}, int64 zero = {0}, float[2, 3] rows = {1, 2, 3, 4, 5, 6}> {
  shape = Shape(x)
  n = Gather(shape, zero)
  long = Greater(n, three)
  many = Mul(x, two)
  y = If(long) <then_branch = first() => (float[k, 3] a) {
    a = If(up) <then_branch = add() => (float[k, 3] b) { b = Add(many, w) },
                else_branch = sub() => (float[k, 3] c) { d = Sub(many, w) c = Neg(d) }>
  }, else_branch = second() => (float[k, 3] e) { f = Unsqueeze(w, zero) e = Concat <axis = 0> (x, rows, f) }>
  z, same = If(up) <then_branch = third() => (float[3] g, float[n, 3] h) { g = Identity(w) h = Identity(x) },
                    else_branch = fourth() => (float[3] i, float[n, 3] j) { i = Mul(w, two) j = Add(x, w) }>
}
"""
FUNCTIONS = """<ir_version: 8, opset_import: ["": 18, "local": 1]>
functions (float[n, 4] x, float[4] w) => (float[n, 4] y, float[n, 4] z) {
  y = local.shifted(x, w)
  p, q = local.pair <axis = 0, by = 3.0> (x)
  r = local.shifted(p)
  z = Add(r, q)
}
<domain: "local", opset_import: ["": 18, "local": 1]>
shifted (x, w) => (y) { s = Constant <value = float[1] {0.5}> () p, q = local.pair <by = 2.0> (x) r = Add(p, s) y = Mul(r, q) }
<domain: "local", opset_import: ["": 18]>
pair <by, axis: int = 1> (x) => (a, s) { f = Constant <value_float: float = @by> () a = Mul(x, f) s = Softmax <axis: int = @axis> (a) }
"""


def parsed(name, text, inputs):
    import numpy as np
    import onnx
    import onnxruntime

    model = onnx.parser.parse_model(text)
    onnx.checker.check_model(model)
    folder = os.path.join(HERE, name)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "model.onnx")
    onnx.save(model, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    results = {"out_" + o.name: r for o, r in zip(session.get_outputs(), session.run(None, inputs))}
    np.savez(os.path.join(folder, "case.npz"), **results, **{"in_" + key: value for key, value in inputs.items()})


def others():
    import numpy as np

    r = np.random.default_rng(8)
    parsed("branches", BRANCHES, {"x": r.standard_normal((5, 3)).astype(np.float32), "up": np.array(False),
                                  "w": r.standard_normal(3).astype(np.float32)})
    parsed("functions", FUNCTIONS, {"x": r.standard_normal((3, 4)).astype(np.float32),
                                    "w": r.standard_normal(4).astype(np.float32)})


def nodes(program):
    import onnx

    folder = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "node")
    said = subprocess.run([program, folder], stdout=subprocess.PIPE, text=True, check=False).stdout
    names = [line.split()[1] for line in said.splitlines() if line.startswith("passes ")]
    archive = os.path.join(HERE, "node.tar.xz")
    pack(archive, folder, names)
    print("%d tests, %d bytes" % (len(names), os.path.getsize(archive)))


def pack(archive, folder, names):
    same = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]
    subprocess.run(["tar", *same, "-C", folder, "-I", "xz -9e", "-cf", archive, *names], check=True)


def tiny_models():
    import torch
    from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    size = {"vocab_size": 40, "num_hidden_layers": 2, "max_position_embeddings": 32}
    kinds = [("bert", BertModel, BertConfig(hidden_size=16, num_attention_heads=2, intermediate_size=32, **size)),
             ("gpt2", GPT2LMHeadModel, GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=32)),
             ("llama", LlamaForCausalLM, LlamaConfig(hidden_size=16, num_attention_heads=4, num_key_value_heads=2,
                                                     intermediate_size=32, **size))]
    for name, of, config in kinds:
        for attention in ("eager", "sdpa"):
            torch.manual_seed(0)
            yield name + "-" + attention, of._from_config(config, attn_implementation=attention).eval()


def export(model, masked, new, version, path):
    """Returns whether the exporter can."""
    import torch

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, mask=None):
            more = {} if "Bert" in type(model).__name__ else {"use_cache": False}
            return self.model(input_ids=ids, attention_mask=mask, return_dict=False, **more)[0]

    names = ["ids", "mask"][:1 + masked]
    given = (torch.randint(0, 40, (2, 7)), torch.ones(2, 7, dtype=torch.int64))[:1 + masked]
    options = {"dynamo": new, "opset_version": version, "input_names": names, "output_names": ["y"]}
    if new:
        axes = {0: torch.export.Dim("batch", min=1, max=64), 1: torch.export.Dim("length", min=2, max=32)}
        options.update(dynamic_shapes=[axes] * len(names), external_data=False, verbose=False)
    else:
        options.update(dynamic_axes={name: {0: "batch", 1: "length"} for name in names})
    try:
        torch.onnx.export(Whole().eval(), given, path, **options)
    except torch.onnx.errors.UnsupportedOperatorError:
        return False
    return True


SMALL = {"vocab_size": 40, "num_hidden_layers": 1, "max_position_embeddings": 64}
WIDE = {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 24, **SMALL}
GROUPS = {"num_key_value_heads": 2, **WIDE}
# By family: the class, sizes, heads of keys, elements of a head.
CACHED = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPS, 2, 4),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {"head_dim": 8, **GROUPS}, 2, 8),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **GROUPS}, 2, 4),
    "gptneox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", {**WIDE, "hidden_size": 32}, 4, 8),
    "gptj": ("GPTJForCausalLM", "GPTJConfig", {"vocab_size": 40, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 64,
                                               "rotary_dim": 4, "n_inner": 24}, 4, 8),
    "opt": ("OPTForCausalLM", "OPTConfig", {"ffn_dim": 24, "word_embed_proj_dim": 16,
                                            **{k: WIDE[k] for k in WIDE if k != "intermediate_size"}}, 4, 4),
    "bloom": ("BloomForCausalLM", "BloomConfig", {"vocab_size": 40, "hidden_size": 16, "n_layer": 1, "n_head": 4}, 4, 4),
}


def export_cached(family, new, version, path):
    """A layer with keys and values of tokens before: ids, mask, positions and past_key_values to logits and present. BLOOM
    takes no mask, since it counts what a mask shows by CumSum."""
    import torch
    import transformers
    from transformers import DynamicCache, masking_utils
    from transformers.integrations import sdpa_attention

    masking_utils.find_packed_sequence_indices = lambda *a, **k: None
    if not new:
        sdpa_attention.use_gqa_in_sdpa = lambda *a, **k: False
    of, config, sizes, heads, width = CACHED[family]
    bloom, n, past = family == "bloom", 3, 4
    torch.manual_seed(0)
    model = getattr(transformers, of)._from_config(getattr(transformers, config)(**sizes),
                                                   attn_implementation="eager" if bloom else "sdpa").eval()
    for p in model.parameters():  # Rounded, so that an archive of them is small.
        p.data = torch.round(torch.randn_like(p) * 4) / 16 + (p.dim() == 1)

    class Cached(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, *more):
            mask, positions = (None, None) if bloom else more[:2]
            named = {} if bloom else {"position_ids": positions}
            done = self.model(input_ids=ids, attention_mask=mask, past_key_values=DynamicCache([more[-2:]]), use_cache=True,
                              **named)
            present = done.past_key_values.layers[0]
            return done.logits, present.keys, present.values

    given = [("ids", torch.randint(0, 40, (2, n)), {0: "batch", 1: "length"})]
    if not bloom:
        given.append(("mask", torch.ones(2, past + n, dtype=torch.int64), {0: "batch", 1: "total"}))
        given.append(("positions", torch.arange(past, past + n)[None].repeat(2, 1), {0: "batch", 1: "length"}))
    for name in ("past_key", "past_value"):
        given.append((name, torch.randn(2, heads, past, width), {0: "batch", 2: "past"}))
    options = {"dynamo": new, "opset_version": version, "input_names": [g[0] for g in given],
               "output_names": ["logits", "key", "value"]}
    if new:
        open_dims = [{d: torch.export.Dim.DYNAMIC for d in g[2]} for g in given]
        options.update(dynamic_shapes=(open_dims[0], tuple(open_dims[1:])), external_data=False, verbose=False)
    else:
        options.update(dynamic_axes={g[0]: g[2] for g in given})
    torch.onnx.export(Cached().eval(), tuple(g[1] for g in given), path, **options)


def strip(path):
    """Removes what a graph is not made of: traces, and extents that follow from others."""
    import onnx

    model = onnx.load(path)
    graph = model.graph
    del graph.value_info[:], graph.metadata_props[:], model.metadata_props[:]
    for thing in [*graph.node, *graph.input, *graph.output, *graph.initializer]:
        thing.doc_string = ""
        if hasattr(thing, "metadata_props"):
            del thing.metadata_props[:]
    onnx.save(model, path)


def exports():
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        names = []
        for family in CACHED:
            for new, version in ((False, 17), (True, 18))[:1 + (family in ("llama", "qwen3", "phi3"))]:
                file = "%s-past-%s%d.onnx" % (family, "new" if new else "old", version)
                export_cached(family, new, version, os.path.join(folder, file))
                names.append(file)
        for name, model in tiny_models():
            for masked in (False, True):
                for new, version in ((False, 11), (False, 17), (True, 18), (True, 23)):
                    if "sdpa" in name and not masked and version in (17, 18):
                        continue
                    file = "%s-%s-%s%d.onnx" % (name, "mask" if masked else "nomask", "new" if new else "old", version)
                    if export(model, masked, new, version, os.path.join(folder, file)):
                        names.append(file)
        for file in names:
            strip(os.path.join(folder, file))
        archive = os.path.join(HERE, "exports.tar.xz")
        pack(archive, folder, names)
        print("%d models, %d bytes" % (len(names), os.path.getsize(archive)))


if __name__ == "__main__":
    if sys.argv[1:] == ["model"]:
        encoder()
        others()
    elif len(sys.argv) == 3 and sys.argv[1] == "nodes":
        nodes(sys.argv[2])
    elif sys.argv[1:] == ["exports"]:
        exports()
    else:
        sys.exit(__doc__)
