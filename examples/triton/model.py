# SPDX-License-Identifier: Apache-2.0
"""A prefill of a mixture-of-experts model of Qwen3's form, with random weights. Products and attention are computed by
a way (ways.py), which is an argument `by`; everything else is the same for all ways. No step waits for the device."""
import dataclasses
import math

import torch

import glue


@dataclasses.dataclass
class Shape:
    hidden: int = 2048
    heads: int = 32
    shared: int = 4  # Heads of keys and values, each shared by heads / shared heads of queries.
    width: int = 128  # Width of a head.
    experts: int = 128
    top: int = 8  # Experts that a token takes.
    inner: int = 768  # Width between an expert's two products.
    layers: int = 48
    vocabulary: int = 151936
    theta: float = 1e6  # Base of the rotations' frequencies.
    eps: float = 1e-6  # Added to the mean square of a norm.

    def parameters(self):
        """Returns the number of weights of a layer."""
        rows = (self.heads + 2 * self.shared) * self.width
        return self.hidden * (rows + self.heads * self.width + self.experts * (1 + 3 * self.inner))

    def flops(self, batch, tokens):
        """Returns the floating-point operations of all layers for a batch of prompts."""
        rows, width = batch * tokens, self.heads * self.width
        products = (width + 2 * self.shared * self.width) + width + self.top * 3 * self.inner + self.experts
        return self.layers * (2 * rows * self.hidden * products + 2 * batch * width * tokens * tokens)


QWEN3_30B_A3B = Shape()
SMALL = Shape(hidden=256, heads=4, shared=2, experts=8, top=2, inner=128, layers=2, vocabulary=512)


class Layer:
    def __init__(self, shape, make):
        s = shape
        self.qkv = make((s.heads + 2 * s.shared) * s.width, s.hidden)
        self.out = make(s.hidden, s.heads * s.width)
        self.router = make(s.experts, s.hidden)
        self.up = make(s.experts, 2 * s.inner, s.hidden)  # Rows of the gate, then of what it multiplies.
        self.down = make(s.experts, s.hidden, s.inner)
        self.norms = [1 + 0.1 * make(s.hidden, scale=1.0) for _ in range(2)]
        self.head_norms = [1 + 0.1 * make(s.width, scale=1.0) for _ in range(2)]


class Model:
    """The weights, normally distributed, with the deviation that keeps a product's values near 1. `kept`: number of
    layers with weights of their own, which the other layers share in turn. 0: all layers."""

    def __init__(self, shape, dtype, device, kept=0, seed=1):
        self.shape, self.dtype, self.device = shape, dtype, device
        generator = torch.Generator(device=device).manual_seed(seed)

        def make(*size, scale=None):
            w = torch.empty(size, dtype=dtype, device=device).normal_(0, 1, generator=generator)
            return w.mul_(1 / math.sqrt(size[-1]) if scale is None else scale)

        own = [Layer(shape, make) for _ in range(min(kept or shape.layers, shape.layers))]
        self.layers = [own[i % len(own)] for i in range(shape.layers)]
        self.kept = len(own)
        self.embedding = make(shape.vocabulary, shape.hidden, scale=1.0)
        self.head = make(shape.vocabulary, shape.hidden)
        self.norm = 1 + 0.1 * make(shape.hidden, scale=1.0)
        self.experts = torch.arange(shape.experts, dtype=torch.int16, device=device)
        self.tables = {}

    def rotations(self, tokens):
        """Returns the tables of cosines and sines of a sequence."""
        if tokens not in self.tables:
            half = self.shape.width // 2
            speed = self.shape.theta ** (-torch.arange(half, dtype=torch.float64) / half)
            angle = torch.arange(tokens, dtype=torch.float64)[:, None] * speed[None, :]
            self.tables[tokens] = [f(angle).float().to(self.device) for f in (torch.cos, torch.sin)]
        return self.tables[tokens]

    def add_norm(self, x, d, w):
        """x += d, unless that is None. Returns the norm of x."""
        y = torch.empty_like(x)
        glue.add_norm[(x.shape[0],)](x, x if d is None else d, w, y, self.shape.eps, ADD=d is not None,
                                     WIDTH=x.shape[1])
        return y

    def attend(self, a, layer, batch, by):
        """Returns the attention block of normed rows a [batch * tokens, hidden]."""
        s, tokens = self.shape, a.shape[0] // batch
        qkv = by.product(a, layer.qkv)
        q = torch.empty((batch * s.heads, tokens, s.width), dtype=a.dtype, device=a.device)
        k, v = (torch.empty((batch * s.shared, tokens, s.width), dtype=a.dtype, device=a.device) for _ in range(2))
        block = 8
        glue.split_heads[(a.shape[0], -(-(s.heads + 2 * s.shared) // block))](
            qkv, *layer.head_norms, *self.rotations(tokens), q, k, v, tokens, s.heads, s.shared, s.eps,
            HALF=s.width // 2, BLOCK=block)
        o = by.attention(q, k, v).view(batch, s.heads, tokens, s.width)
        return by.product(o.transpose(1, 2).reshape(a.shape[0], s.heads * s.width), layer.out)

    def route(self, a, layer):
        """Returns the route of each row: its experts [rows, top], and their weights [rows, top]."""
        p = torch.softmax(torch.matmul(a, layer.router.t()).float(), -1)
        weights, experts = p.topk(self.shape.top, -1)
        return experts.to(torch.int16), weights / weights.sum(-1, keepdim=True)

    def mix(self, a, layer, by, route):
        """Returns the mixture of experts of normed rows a [rows, hidden] under a route."""
        s, n = self.shape, a.shape[0] * self.shape.top
        experts, weights = route
        of, order = experts.reshape(-1).sort(stable=True)
        ends = torch.searchsorted(of, self.experts, right=True, out_int32=True)
        sizes = torch.diff(ends, prepend=ends.new_zeros(1))
        up = by.grouped(a.index_select(0, order // s.top), layer.up, sizes, ends)
        inner = torch.empty((n, s.inner), dtype=a.dtype, device=a.device)
        glue.silu_product[(n,)](up, inner, s.inner, BLOCK=1 << (s.inner - 1).bit_length())
        del up
        down = by.grouped(inner, layer.down, sizes, ends)
        places = torch.empty_like(order)
        places[order] = torch.arange(n, device=a.device)
        y = torch.empty_like(a)
        glue.combine[(a.shape[0],)](down, places, weights, y, TOP=s.top, WIDTH=s.hidden)
        return y

    def prefill(self, ids, by, routes=None, watch=None):
        """Runs all layers on prompts `ids` [batch, tokens]. Returns the normed hidden states [batch * tokens, hidden]
        behind the last layer, and the logits of each prompt's last position. `routes`: a list with a route for each
        layer. An empty list is filled with the routes that are taken; another one gives them. `watch(i)` is called
        before layer i."""
        batch, tokens = ids.shape
        x = self.embedding.index_select(0, ids.reshape(-1))
        d, given = None, bool(routes)
        for i, layer in enumerate(self.layers):
            if watch:
                watch(i)
            d = self.attend(self.add_norm(x, d, layer.norms[0]), layer, batch, by)
            a = self.add_norm(x, d, layer.norms[1])
            route = routes[i] if given else self.route(a, layer)
            if routes is not None and not given:
                routes.append(route)
            d = self.mix(a, layer, by, route)
        x = self.add_norm(x, d, self.norm)
        last = x.view(batch, tokens, -1)[:, -1]
        return x, torch.matmul(last, self.head.t())


def reference(model, ids, routes):
    """Computes Model.prefill's hidden states in double precision with other operations, for small models."""
    s, (batch, tokens) = model.shape, ids.shape

    def norm(x, w):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + s.eps) * w.double()

    def rotate(x):
        angle = torch.arange(tokens, dtype=torch.float64, device=x.device)[:, None] * s.theta ** (
            -torch.arange(0, s.width, 2, dtype=torch.float64, device=x.device) / s.width)
        turned = torch.view_as_complex(torch.stack(x.chunk(2, -1), -1)) * torch.polar(torch.ones_like(angle), angle)
        return torch.cat((turned.real, turned.imag), -1)

    x = model.embedding[ids].double()
    for layer, (experts, weights) in zip(model.layers, routes):
        qkv = (norm(x, layer.norms[0]) @ layer.qkv.double().t()).view(batch, tokens, -1, s.width).transpose(1, 2)
        q, k, v = qkv.split([s.heads, s.shared, s.shared], 1)
        q, k = rotate(norm(q, layer.head_norms[0])), rotate(norm(k, layer.head_norms[1]))
        k, v = (t.repeat_interleave(s.heads // s.shared, 1) for t in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(s.width)
        scores.masked_fill_(torch.ones(tokens, tokens, device=x.device).triu(1).bool(), -math.inf)
        o = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, tokens, -1)
        x = x + o @ layer.out.double().t()
        a = norm(x, layer.norms[1]).view(batch * tokens, -1)
        d = torch.zeros_like(a)
        for e in range(s.experts):
            row, place = (experts == e).nonzero(as_tuple=True)
            gate, up = (a[row] @ layer.up[e].double().t()).chunk(2, -1)
            inner = torch.nn.functional.silu(gate) * up
            d.index_add_(0, row, inner @ layer.down[e].double().t() * weights[row, place].double()[:, None])
        x = x + d.view(x.shape)
    return norm(x, model.norm).view(batch * tokens, -1)
