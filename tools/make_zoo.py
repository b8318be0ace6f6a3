#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the models of CURATOR's evaluation as ONNX files: published sizes, random weights.

    tools/make_zoo.py FOLDER [--models bert-base,gpt2] [--exporter old|new|builder] [--layers N] [--opset N] [--structure]
    tools/make_zoo.py fixtures          tests/data/onnx/zoo.tar.xz: a tiny model of each kind by each exporter, with a case

A model's folder has model.onnx, whose weights are external data, manifest.json, and weights.bin unless --structure is given:
bench/zoo_weights.py makes that file, anywhere, from the manifest. Exporters are PyTorch's TorchScript one (old), its
torch.export one (new), and a builder by hand with Microsoft's operators. Batch and length are symbolic. Encoders give
last_hidden_state, decoders the last position's logits without a cache. Parameters are exported as views of a few numbers
each, so that a model of any size takes no memory, and a parameter is known after an exporter moved or transposed it.
Needs packages torch, transformers and onnx; new needs onnxscript, fixtures need onnxruntime."""
import argparse
import io
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import types
import warnings

import numpy as np
import onnx
import torch
from onnx import TensorProto, numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, "bench"))  # Last: it has a profile.py, and so has Python.
import zoo  # noqa: E402
import zoo_builder  # noqa: E402
import zoo_weights  # noqa: E402

ALIGNED = 256


def marked(number, shape):
    """Returns a view of few elements: rows beyond the first are half more, which tells a square matrix from its transpose."""
    if len(shape) == 1:
        return torch.full((), float(number)).expand(shape)
    rows = torch.full((shape[0], 1), number + 0.5)
    rows[0] = number
    return rows.expand(shape)


def numbered(model):
    """Replaces each parameter by a view of its number, from 1 on. Returns names and shapes by number."""
    views, params = {}, {}
    for name, p in model.named_parameters():
        number = len(params) + 1
        params[number] = name, list(p.shape)
        views[id(p)] = torch.nn.Parameter(marked(number, p.shape), requires_grad=False)
    for module in model.modules():
        for key, p in list(module._parameters.items()):
            if p is not None:
                module._parameters[key] = views[id(p)]
    return params


def buffers_of(spec):
    """Returns the buffers of a model of one small layer, which are those of every layer."""
    small = zoo.Spec(spec.name, sizes={**spec.sizes, "layers": 1, "vocab": 8, "inner": spec.hidden})
    return dict(small.make().named_buffers())


def unweighted(spec):
    """Returns the model with numbered parameters, and their names and shapes."""
    with torch.device("meta"):
        model = spec.make().eval()
    values = buffers_of(spec)
    for name, _ in list(model.named_buffers()):
        owner, _, key = name.rpartition(".")
        model.get_submodule(owner)._buffers[key] = values[re.sub(r"\.\d+\.", ".0.", name)]
    return model, numbered(model)


def exported(spec, exporter, opset):
    """Returns the model as a protocol buffer without weights; tensors by name, a parameter as (number, transposed); and the
    parameters by number."""
    model, params = unweighted(spec)
    model.forward = types.MethodType(lambda self, input_ids: spec.forward(type(self).forward.__get__(self), input_ids), model)
    ids = torch.randint(0, spec.vocab, (2, 8))
    with torch.no_grad():
        proto, tensors = (by_old if exporter == "old" else by_new)(model, ids, spec, opset)
    return proto, {name: number_of(t, params) or t.contiguous() for name, t in tensors.items()}, params


def number_of(t, params):
    """Returns (number, transposed) of the parameter that a tensor is, or None."""
    if not t.is_floating_point() or not t.numel():
        return None
    first = t[(0,) * t.dim()].item()
    if first != int(first) or int(first) not in params:
        return None
    shape = params[int(first)][1]
    for transposed in (False, True)[: t.dim()]:
        straight = t.t() if transposed else t
        if list(straight.shape) == shape and bool((straight == marked(int(first), shape)).all()):
            return int(first), transposed
    return None


def by_old(model, ids, spec, opset):
    f = io.BytesIO()
    axes = {0: "batch", 1: "sequence"} if spec.encoder else {0: "batch"}
    torch.onnx.export(model, (ids,), f, dynamo=False, opset_version=opset or 17, input_names=["input_ids"],
                      output_names=[spec.output], export_params=False, do_constant_folding=False,
                      dynamic_axes={"input_ids": {0: "batch", 1: "sequence"}, spec.output: axes})
    proto = onnx.load_from_string(f.getvalue())
    state = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers())
    tensors = {i.name: state[i.name] for i in proto.graph.input if i.name in state}
    inputs = [i for i in proto.graph.input if i.name not in state]
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    fold_transposes(proto.graph, tensors)
    return proto, tensors


def fold_transposes(graph, tensors):
    """Transposes weights at export, as the exporter does where it has their contents."""
    kept, names = [], {}
    for n in graph.node:
        if n.op_type == "Transpose" and n.input[0] in tensors and tensors[n.input[0]].dim() == 2:
            names[n.output[0]] = "onnx::MatMul_%d" % (len(names) + 1)
            tensors[names[n.output[0]]] = tensors[n.input[0]].t()
        else:
            kept.append(n)
    used = set()
    for n in kept:
        for i, x in enumerate(n.input):
            n.input[i] = names.get(x, x)
        used.update(n.input)
    del graph.node[:]
    graph.node.extend(kept)
    for name in [name for name in tensors if name not in used]:
        del tensors[name]


def by_new(model, ids, spec, opset):
    dims = {0: torch.export.Dim("batch", max=1024), 1: torch.export.Dim("sequence", max=spec.positions)}
    done = torch.onnx.export(model, (ids,), dynamo=True, opset_version=opset, input_names=["input_ids"],
                             output_names=[spec.output], dynamic_shapes={"input_ids": dims}, verbose=False)
    initializers, tensors = done.model.graph.initializers, {}
    for name, value in list(initializers.items()):
        held = getattr(value.const_value, "raw", value.const_value)
        tensors[name] = held.detach() if isinstance(held, torch.Tensor) else torch.from_numpy(np.array(value.const_value.numpy()))
        value.const_value = None
        del initializers[name]
    return strip(done), tensors


def strip(done):
    import onnx_ir

    proto = onnx_ir.serde.serialize_model(done.model)
    for n in proto.graph.node:
        del n.metadata_props[:]
        n.doc_string = ""
    del proto.graph.value_info[:]
    del proto.graph.metadata_props[:]
    del proto.metadata_props[:]
    return proto


def attach(proto, known, params):
    """Gives the graph its initialisers: parameters as external data, others inline. Returns the manifest's rows and the
    number of bytes."""
    at, rows, stored = 0, [], {}
    for name, what in known.items():
        if not isinstance(what, tuple):
            proto.graph.initializer.append(numpy_helper.from_array(what.cpu().numpy(), name))
            continue
        number, transposed = what
        param, shape = params[number]
        if what not in stored:
            stored[what] = at
            mean, deviation = zoo.moments(param, shape)
            rows.append({"name": name, "param": param, "shape": shape, "transposed": transposed, "offset": at, "mean": mean,
                         "deviation": deviation})
            at += -(-4 * math.prod(shape) // ALIGNED) * ALIGNED
        t = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape[::-1] if transposed else shape)
        t.data_location = TensorProto.EXTERNAL
        for key, value in (("location", zoo.DATA), ("offset", stored[what]), ("length", 4 * math.prod(shape))):
            t.external_data.add(key=key, value=str(value))
        proto.graph.initializer.append(t)
    return rows, at


def write(spec, exporter, opset, folder, structure):
    if exporter == "builder":
        params = unweighted(spec)[1]
        proto, known = zoo_builder.built(spec, params)
    else:
        proto, known, params = exported(spec, exporter, opset)
    rows, total = attach(proto, known, params)
    proto.producer_name = proto.producer_name or "tilewright"
    os.makedirs(folder, exist_ok=True)
    onnx.save(proto, os.path.join(folder, zoo.MODEL))
    manifest = {"model": spec.name, "sizes": spec.sizes, "exporter": exporter, "bytes": total, "tensors": rows}
    with open(os.path.join(folder, zoo.MANIFEST), "w") as f:
        json.dump(manifest, f, indent=None, separators=(",", ":"))
        f.write("\n")
    if not structure:
        zoo_weights.write(folder)
    print("%s: %d nodes, %d parameters, %.3f GB, %d bytes of structure" % (
        folder, len(proto.graph.node), sum(math.prod(r["shape"]) for r in rows), total / 1e9,
        os.path.getsize(os.path.join(folder, zoo.MODEL))), flush=True)


def coarse(t):
    """Rounds weights, so that an archive of them is small."""
    x = numpy_helper.to_array(t)
    t.CopyFrom(numpy_helper.from_array(np.round(x * 32) / np.float32(32), t.name))


def inline(folder):
    """Puts external data into the file, and adds a case by onnxruntime."""
    import onnxruntime

    path = os.path.join(folder, zoo.MODEL)
    weights = {t.name for t in onnx.load(path, load_external_data=False).graph.initializer if t.external_data}
    proto = onnx.load(path)
    for t in proto.graph.initializer:
        if t.name in weights:
            coarse(t)
    onnx.save(proto, path)
    with open(os.path.join(folder, zoo.MANIFEST)) as f:
        spec = zoo.of_manifest(json.load(f))
    for name in (zoo.DATA, zoo.MANIFEST):
        os.remove(os.path.join(folder, name))
    ids = np.random.default_rng(1).integers(0, spec.vocab, (2, 7))
    (y,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"input_ids": ids})
    np.savez(os.path.join(folder, "case.npz"), in_input_ids=ids, out_0=y)


def fixtures():
    """Packs them, since tests' data is to stay small."""
    with tempfile.TemporaryDirectory() as top:
        for exporter in ("new", "builder", "old"):
            if exporter == "old":
                prepare()
            for kind in zoo.TINY:
                folder = os.path.join(top, "%s-%s" % (kind, exporter))
                write(zoo.tiny(kind), exporter, None, folder, False)
                inline(folder)
        archive = os.path.join(ROOT, "tests", "data", "onnx", "zoo.tar.xz")
        same = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=u+rwX,go+rX,go-w"]
        subprocess.run(["tar", *same, "-C", top, "-I", "xz -9e", "-cf", archive, *sorted(os.listdir(top))], check=True)
        print("%s: %d bytes" % (archive, os.path.getsize(archive)))


def prepare():
    """Changes what the TorchScript exporter does not know: torch.diff, by which transformers looks for joined sequences, and
    attention with fewer heads of keys than of queries."""
    from transformers import masking_utils
    from transformers.integrations import sdpa_attention

    masking_utils.find_packed_sequence_indices = lambda *a, **k: None
    sdpa_attention.use_gqa_in_sdpa = lambda *a, **k: False


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", help="where folders of models go, or the word fixtures")
    p.add_argument("--models", default=",".join(zoo.SIZES), help="of " + ", ".join(zoo.SIZES))
    p.add_argument("--exporter", choices=("old", "new", "builder"), default="old")
    p.add_argument("--layers", type=int, help="instead of the published number")
    p.add_argument("--opset", type=int, help="of the exporters (default: 17 for old, PyTorch's choice for new)")
    p.add_argument("--structure", action="store_true", help="leave out weights.bin")
    a = p.parse_args()
    warnings.filterwarnings("ignore")
    if a.folder == "fixtures":
        return fixtures()
    if a.exporter == "old":
        prepare()
    for name in a.models.split(","):
        write(zoo.Spec(name, a.layers), a.exporter, a.opset, os.path.join(a.folder, name), a.structure)


if __name__ == "__main__":
    main()
