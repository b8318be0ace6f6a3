# SPDX-License-Identifier: Apache-2.0
"""Three Triton kernels: a product, products of groups, and causal attention. All tensors are contiguous."""
import triton
import triton.language as tl


@triton.jit
def place_of(pid, rows, columns, GROUP: tl.constexpr):
    """Returns the row and column of a tile. GROUP rows of tiles are walked by columns, so that inputs stay in L2."""
    whole = GROUP * columns
    first = (pid // whole) * GROUP
    height = min(rows - first, GROUP)
    inside = pid % whole
    return first + inside % height, inside // height


@triton.jit
def product_of_tile(a, b, at, bt, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Returns the tile of products of rows `at` of a [m, k] and rows `bt` of b [n, k]."""
    deep = tl.arange(0, BK)
    pa = a + at[:, None] * k + deep[None, :]
    pb = b + bt[None, :] * k + deep[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, tl.cdiv(k, BK)):
        left = k - i * BK
        x = tl.load(pa, mask=deep[None, :] < left, other=0.0)
        y = tl.load(pb, mask=deep[:, None] < left, other=0.0)
        acc = tl.dot(x, y, acc)
        pa += BK
        pb += BK
    return acc


@triton.jit(do_not_specialize=["m"])
def gemm(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    """c [m, n] = a [m, k] b^T, with b [n, k]."""
    row, column = place_of(tl.program_id(0), tl.cdiv(m, BM), tl.cdiv(n, BN), GROUP)
    at = row * BM + tl.arange(0, BM)
    bt = column * BN + tl.arange(0, BN)
    acc = product_of_tile(a, b, at % m, bt % n, k, BM, BN, BK)
    pc = c + at[:, None] * n + bt[None, :]
    tl.store(pc, acc.to(c.dtype.element_ty), mask=(at[:, None] < m) & (bt[None, :] < n))


def most_tiles(rows, experts, BM):
    """Returns the most rows of tiles that groups with so many rows in all can have: whole ones, and one more each."""
    return rows // BM + min(experts, rows)


@triton.jit(do_not_specialize=["rows", "experts"])
def grouped(x, w, y, sizes, rows, experts, n, k, MOST: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
            BK: tl.constexpr, GROUP: tl.constexpr):
    """y [rows, n] = the rows of x [rows, k] times w[e]^T, with w[e] [n, k]. The first sizes[0] rows belong to expert 0,
    and so on. The grid has most_tiles(...) rows of tiles, since the host does not know `sizes`; those beyond the
    groups' have nothing to do. MOST, a power of two, is at least the number of experts."""
    tiles = rows // BM + min(experts, rows)
    tile, column = place_of(tl.program_id(0), tiles, tl.cdiv(n, BN), GROUP)
    e = tl.arange(0, MOST)
    counts = tl.load(sizes + e, mask=e < experts, other=0)
    heights = (counts + BM - 1) // BM
    ends = tl.cumsum(heights, 0)
    if tile >= tl.sum(heights, 0):
        return
    expert = tl.sum((ends <= tile).to(tl.int32), 0)
    before = tl.sum(tl.where(e < expert, heights, 0), 0)
    start = tl.sum(tl.where(e < expert, counts, 0), 0)
    count = tl.sum(tl.where(e == expert, counts, 0), 0)
    inside = (tile - before) * BM + tl.arange(0, BM)
    bt = column * BN + tl.arange(0, BN)
    at = start + tl.where(inside < count, inside, 0)
    acc = product_of_tile(x, w + expert.to(tl.int64) * n * k, at, bt % n, k, BM, BN, BK)
    py = y + at[:, None] * n + bt[None, :]
    tl.store(py, acc.to(y.dtype.element_ty), mask=(inside[:, None] < count) & (bt[None, :] < n))


@triton.jit
def attend(acc, high, total, x, k, v, at, first, end, sequence, scale, BN: tl.constexpr, D: tl.constexpr,
           MASKED: tl.constexpr):
    """Adds the keys from `first` to `end` to the running softmax of a block of queries. MASKED: some queries do not see
    all of these keys."""
    inside = tl.arange(0, BN)
    d = tl.arange(0, D)
    for start in range(first, end, BN):
        key = start + inside
        if MASKED:
            kt = tl.load(k + key[None, :] * D + d[:, None], mask=key[None, :] < sequence, other=0.0)
        else:
            kt = tl.load(k + key[None, :] * D + d[:, None])
        s = tl.dot(x, kt) * scale
        if MASKED:
            s = tl.where(at[:, None] >= key[None, :], s, float("-inf"))
        higher = tl.maximum(high, tl.max(s, 1))
        p = tl.math.exp2(s - higher[:, None])
        shrink = tl.math.exp2(high - higher)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        if MASKED:
            vt = tl.load(v + key[:, None] * D + d[None, :], mask=key[:, None] < sequence, other=0.0)
        else:
            vt = tl.load(v + key[:, None] * D + d[None, :])
        acc = tl.dot(p.to(vt.dtype), vt, acc)
        high = higher
    return acc, high, total


@triton.jit(do_not_specialize=["sequence", "share"])
def attention(q, k, v, o, sequence, share, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
              LAST: tl.constexpr):
    """o = softmax(q k^T / sqrt(D), causal) v for each head; q and o are [heads, sequence, D], k and v [heads / share,
    sequence, D]: so many heads of queries share one of keys and values. `scale` is log2(e) / sqrt(D). With LAST the
    last queries, which see the most keys, are computed first."""
    block = tl.program_id(0)
    if LAST:
        block = tl.num_programs(0) - 1 - block
    head = tl.program_id(1)
    base = head.to(tl.int64) * sequence * D
    kv = (head // share).to(tl.int64) * sequence * D
    at = block * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    places = at[:, None] * D + d[None, :]
    x = tl.load(q + base + places, mask=at[:, None] < sequence, other=0.0)
    high = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    whole = block * BM // BN * BN
    end = min(block * BM + BM, sequence)
    acc, high, total = attend(acc, high, total, x, k + kv, v + kv, at, 0, whole, sequence, scale, BN, D, False)
    acc, high, total = attend(acc, high, total, x, k + kv, v + kv, at, whole, end, sequence, scale, BN, D, True)
    tl.store(o + base + places, (acc / total[:, None]).to(o.dtype.element_ty), mask=at[:, None] < sequence)
