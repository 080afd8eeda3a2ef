"""Batches of the policy network: padded situations, the words in them, and the positions of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trajmill.stages.models.embedded.situation import Batch, Situation
from trajmill.stages.models.embedded.words import Lexicon


@dataclass(frozen=True, slots=True)
class Bags:
    """For each word, the rows of the embedding table whose mean is its vector; word 0 has no rows."""

    rows: Tensor
    offsets: Tensor
    weights: Tensor
    """(words,) weight of a word that two texts share: small for stop words, 0 for word 0."""


def collate(situations: Sequence[Situation]) -> Batch:
    """Pad situations, whose ids are those of one lexicon, to a batch."""
    padded = []
    for arrays in zip(*situations, strict=True):
        rows = np.zeros((len(arrays), max(1, *map(len, arrays)), *arrays[0].shape[1:]), arrays[0].dtype)
        for row, array in zip(rows, arrays, strict=True):
            row[: len(array)] = array
        padded.append(torch.from_numpy(rows))
    return Batch(*padded)


def bags(lexicon: Lexicon, words: Sequence[int]) -> Bags:
    chosen = [lexicon.buckets[word] for word in words]
    sizes = [len(rows) for rows in chosen]
    offsets = np.concatenate(([0], np.cumsum(sizes)[:-1])) if sizes else np.zeros(0)
    return Bags(
        torch.tensor([row for rows in chosen for row in rows], dtype=torch.long),
        torch.from_numpy(offsets.astype(np.int64)),
        torch.tensor([lexicon.weights[word] for word in words], dtype=torch.float32),
    )


class CandidateGrid(NamedTuple):
    """The positions of the `c` candidates (or words) of a batch in its (b, n) grid, most of which is padding."""

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
    spots = exists.flatten().nonzero().squeeze(1)
    return CandidateGrid(exists, spots, spots // exists.shape[1])
