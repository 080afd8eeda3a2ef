"""Makes a batch of situations: padded tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trajmill.stages.models.embedded.reading.situation import Situation
from trajmill.stages.models.embedded.reading.words import Lexicon


@dataclass(frozen=True, slots=True)
class Batch:
    """`b` situations, padded to the longest; id 0 stands for no word."""

    instruction: Tensor
    """(b, m) word ids."""
    instruction_flags: Tensor
    """(b, m, WORD_FLAGS)"""
    hint: Tensor
    hints: Tensor
    title: Tensor
    shown: Tensor
    last: Tensor
    before: Tensor
    """(b, ...) word ids, each."""
    texts: Tensor
    """(b, n, MAX_TEXT) word ids."""
    fields: Tensor
    """(b, n, MAX_FIELD) word ids."""
    kinds: Tensor
    """(b, n)"""
    flags: Tensor
    """(b, n, FLAGS)"""
    instruction_codes: Tensor
    """(b, m) codes of words; the memory of pairs ignores a word with code 0."""
    codes: Tensor
    """(b, n) codes of candidates."""
    anchors: Tensor
    """(b, 2) codes of the title and the last target."""
    exists: Tensor
    """(b, n) true for a candidate, false for padding."""

    def double(self) -> Batch:
        """The same batch with flags in double precision."""
        return replace(self, flags=self.flags.double(), instruction_flags=self.instruction_flags.double())


@dataclass(frozen=True, slots=True)
class Bags:
    """For each word, the rows of the embedding table whose mean is its vector; word 0 has no rows."""

    rows: Tensor
    offsets: Tensor
    weights: Tensor
    """(words,) weight of a word that two texts share: small for stop words, 0 for word 0."""


def collate(situations: Sequence[Situation]) -> Batch:
    """Pad situations to one batch; ids are those of their lexicon."""
    columns = dict(zip(Situation._fields, zip(*situations, strict=True), strict=True))
    padded = {name: torch.from_numpy(_pad(arrays)) for name, arrays in columns.items()}
    counts = torch.tensor([len(kinds) for kinds in columns["kinds"]])
    exists = torch.arange(padded["kinds"].shape[1])[None, :] < counts[:, None]
    return Batch(**padded, exists=exists)


def bags(lexicon: Lexicon, words: Sequence[int]) -> Bags:
    """The bags of some words of a lexicon, in the order given."""
    chosen = [lexicon.buckets[word] for word in words]
    sizes = [len(rows) for rows in chosen]
    offsets = np.concatenate(([0], np.cumsum(sizes)[:-1])) if sizes else np.zeros(0)
    return Bags(
        torch.tensor([row for rows in chosen for row in rows], dtype=torch.long),
        torch.from_numpy(offsets.astype(np.int64)),
        torch.tensor([lexicon.weights[word] for word in words], dtype=torch.float32),
    )


def _pad(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    longest = max(1, *(len(array) for array in arrays)) if len(arrays) > 1 else max(1, len(arrays[0]))
    padded = np.zeros((len(arrays), longest, *arrays[0].shape[1:]), arrays[0].dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return padded
