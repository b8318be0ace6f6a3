# SPDX-License-Identifier: Apache-2.0
"""Checks the products and the attention of a prefill while it runs. All cells of a result are compared with what
PyTorch's kernels compute, and the cells of some rows with double precision. Tolerances are in roundings of the result's
type."""
import math

import torch

from ways import attend, group_by_group

CELLS = 1 << 26  # Cells that are compared at once.


def wrong_cells(y, expected, rounds, part):
    """Counts the cells of y that differ from the expected ones by more than `rounds` roundings of the type plus `part`
    of the root mean square of the row. NaN counts as wrong."""
    a, b = y.double(), expected.double()
    unit = torch.finfo(y.dtype).eps / 2
    usual = b.square().mean(-1, keepdim=True).sqrt()
    return int((~((a - b).abs() <= rounds * unit * b.abs() + part * usual)).sum().item())


class Judge:
    """A way (ways.py) that computes by another one, and while `on` is true counts the wrong cells of the results."""

    def __init__(self, by, rows=32, seed=1):
        self.by, self.on, self.rows = by, False, rows
        self.wrong, self.checked, self.first = 0, 0, ""
        self.random = torch.Generator().manual_seed(seed)

    def draw(self, n):
        """Draws the indices of rows to check, the first and the last row among them."""
        some = torch.randint(n, (self.rows,), generator=self.random)
        some[0], some[-1] = 0, n - 1
        return some

    def count(self, what, y, expected, rounds, part=0.02):
        """Counts wrong cells. `what` names the result in the message of the first failure."""
        wrong = wrong_cells(y, expected, rounds, part)
        self.checked += y.numel()
        if wrong and not self.wrong:
            self.first = f"{what}: {wrong} of {y.numel()} cells"
        self.wrong += wrong

    def compare(self, what, y, other, part=0.02):
        """Compares all of y with what PyTorch's kernels compute. other(first, end) returns rows `first` to `end` of
        that."""
        step = max(1, CELLS // y[0].numel())
        for first in range(0, y.shape[0], step):
            end = min(first + step, y.shape[0])
            self.count(what, y[first:end], other(first, end), 3, part)

    def product(self, x, w):
        y = self.by.product(x, w)
        if self.on:
            what = f"product {tuple(x.shape)} by {tuple(w.shape)}"
            self.compare(what, y, lambda first, end: torch.matmul(x[first:end], w.t()))
            at = self.draw(x.shape[0]).to(x.device)
            self.count(what, y[at], x[at].double() @ w.double().t(), 2)
        return y

    def grouped(self, x, w, sizes, ends):
        y = self.by.grouped(x, w, sizes, ends)
        if self.on:
            what = f"grouped product {tuple(x.shape)} by {tuple(w.shape)}"
            expected = group_by_group(x, w, ends)
            self.compare(what, y, lambda first, end: expected[first:end])
            at = self.draw(x.shape[0]).to(x.device)
            experts = torch.searchsorted(ends, at.int(), right=True)
            for row, e in zip(at.tolist(), experts.tolist()):
                self.count(what, y[row:row + 1], x[row:row + 1].double() @ w[e].double().t(), 2)
        return y

    def attention(self, q, k, v):
        y = self.by.attention(q, k, v)
        if self.on:
            what, share = f"attention {tuple(q.shape)}", q.shape[0] // k.shape[0]

            def other(first, end):
                group = [t[first // share:-(-end // share)].repeat_interleave(share, 0) for t in (k, v)]
                inside = slice(first % share, first % share + end - first)
                return attend(q[first:end], group[0][inside], group[1][inside], False)

            # Weights are rounded before they are multiplied, which changes a sum of n values by some 2^-9 / sqrt(n).
            self.compare(what, y, other, 0.05)
            for h, t in zip(self.draw(q.shape[0]).tolist(), self.draw(q.shape[1])[torch.randperm(
                    self.rows, generator=self.random)].tolist()):
                scores = q[h, t].double() @ k[h // share, :t + 1].double().t() / math.sqrt(q.shape[2])
                exact = torch.softmax(scores, -1) @ v[h // share, :t + 1].double()
                self.count(what, y[h, t][None], exact[None], 2, 0.05)
        return y
