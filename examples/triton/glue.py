# SPDX-License-Identifier: Apache-2.0
"""What a layer of Qwen3 computes beside its matrix products and its attention, as Triton kernels that read and write
each value once. They compute in f32. All tensors are contiguous. Widths named in capitals are powers of two."""
import triton
import triton.language as tl


@triton.jit
def add_norm(x, d, w, y, eps, ADD: tl.constexpr, WIDTH: tl.constexpr):
    """y = the RMS norm of x, multiplied by w [WIDTH]. With ADD, x += d before. x, d and y are [rows, WIDTH]; a program
    computes a row."""
    at = tl.arange(0, WIDTH)
    places = tl.program_id(0).to(tl.int64) * WIDTH + at
    a = tl.load(x + places).to(tl.float32)
    if ADD:
        a = (a + tl.load(d + places).to(tl.float32)).to(x.dtype.element_ty)
        tl.store(x + places, a)
        a = a.to(tl.float32)
    a = a * tl.rsqrt(tl.sum(a * a, 0) / WIDTH + eps)
    tl.store(y + places, (a * tl.load(w + at).to(tl.float32)).to(y.dtype.element_ty))


@triton.jit
def norm_half(low, high, w, at, eps, HALF: tl.constexpr):
    """Returns the RMS norm of heads, multiplied by w [2 HALF]. The heads come and go as their low and their high half,
    [heads, HALF] each."""
    scale = tl.rsqrt((tl.sum(low * low, 1) + tl.sum(high * high, 1)) / (2 * HALF) + eps)[:, None]
    return low * scale * tl.load(w + at)[None, :].to(tl.float32), high * scale * tl.load(w + HALF + at)[None, :].to(
        tl.float32)


@triton.jit
def split_heads(x, wq, wk, cosine, sine, q, k, v, tokens, heads, shared, eps, HALF: tl.constexpr, BLOCK: tl.constexpr):
    """Takes the heads of rows x [batch * tokens, heads + 2 shared, 2 HALF] apart: q [batch, heads, tokens, 2 HALF], k
    and v [batch, shared, tokens, 2 HALF]. Heads of q and k are normed, multiplied by wq and wk [2 HALF], and rotated by
    the tables cosine and sine [tokens, HALF]. A program computes BLOCK heads of a row."""
    row = tl.program_id(0)
    batch, token = row // tokens, row % tokens
    h = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = tl.arange(0, HALF)
    everything = heads + 2 * shared
    from_low = x + (row.to(tl.int64) * everything + h[:, None]) * (2 * HALF) + at[None, :]
    inside = (h < everything)[:, None]
    low = tl.load(from_low, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(from_low + HALF, mask=inside, other=0.0).to(tl.float32)
    c = tl.load(cosine + token * HALF + at)[None, :]
    s = tl.load(sine + token * HALF + at)[None, :]
    a, b = norm_half(low, high, wq, at, eps, HALF)
    is_q = inside & (h < heads)[:, None]
    to = q + ((batch * heads + h).to(tl.int64) * tokens + token)[:, None] * (2 * HALF) + at[None, :]
    tl.store(to, (a * c - b * s).to(q.dtype.element_ty), mask=is_q)
    tl.store(to + HALF, (b * c + a * s).to(q.dtype.element_ty), mask=is_q)
    a, b = norm_half(low, high, wk, at, eps, HALF)
    is_k = ((h >= heads) & (h < heads + shared))[:, None]
    to = k + ((batch * shared + h - heads).to(tl.int64) * tokens + token)[:, None] * (2 * HALF) + at[None, :]
    tl.store(to, (a * c - b * s).to(k.dtype.element_ty), mask=is_k)
    tl.store(to + HALF, (b * c + a * s).to(k.dtype.element_ty), mask=is_k)
    is_v = inside & (h >= heads + shared)[:, None]
    to = v + ((batch * shared + h - heads - shared).to(tl.int64) * tokens + token)[:, None] * (2 * HALF) + at[None, :]
    tl.store(to, low.to(v.dtype.element_ty), mask=is_v)
    tl.store(to + HALF, high.to(v.dtype.element_ty), mask=is_v)


@triton.jit
def silu_product(x, y, n, BLOCK: tl.constexpr):
    """y [rows, n] = silu(x[:, :n]) * x[:, n:], with x [rows, 2 n]. BLOCK is at least n. A program computes a row."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    gate = tl.load(x + row * 2 * n + at, mask=at < n, other=0.0).to(tl.float32)
    up = tl.load(x + row * 2 * n + n + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y + row * n + at, (gate / (1 + tl.exp(-gate)) * up).to(y.dtype.element_ty), mask=at < n)


@triton.jit
def combine(x, places, weights, y, TOP: tl.constexpr, WIDTH: tl.constexpr):
    """y[row] = the sum of x[places[row, i]] * weights[row, i] over i. y is [rows, WIDTH], places and weights are
    [rows, TOP]. A program computes a row."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), dtype=tl.float32)
    for i in range(TOP):
        place = tl.load(places + row * TOP + i).to(tl.int64)
        total += tl.load(x + place * WIDTH + at).to(tl.float32) * tl.load(weights + row * TOP + i)
    tl.store(y + row * WIDTH + at, total.to(y.dtype.element_ty))
