"""Converts between candidates without padding and the padded grid of their batch."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class CandidateGrid(NamedTuple):
    """The positions of the `c` candidates of a batch in its (b, n) grid, most of which is padding."""

    exists: Tensor
    """(b, n)"""
    spots: Tensor
    """(c,) index into the flattened grid."""
    owner: Tensor
    """(c,) row of the batch."""

    def take(self, grid: Tensor) -> Tensor:
        """(b, n, ...) to (c, ...)."""
        return grid.flatten(0, 1).index_select(0, self.spots)

    def pad(self, tokens: Tensor) -> Tensor:
        """(c, ...) to (b, n, ...), with zeros as padding."""
        rows, columns = self.exists.shape
        grid = tokens.new_zeros(rows * columns, *tokens.shape[1:]).index_copy(0, self.spots, tokens)
        return grid.unflatten(0, (rows, columns))  # type: ignore[no-untyped-call, no-any-return]


def grid_of(exists: Tensor) -> CandidateGrid:
    """The positions of the existing candidates."""
    spots = exists.flatten().nonzero().squeeze(1)
    return CandidateGrid(exists, spots, spots // exists.shape[1])
