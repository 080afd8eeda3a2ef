"""The inputs of the policy network: padded batches, the candidates of a batch in one list, and matched words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trajmill.stages.models.embedded.candidates import FLAGS, KINDS
from trajmill.stages.models.embedded.situation import Situation
from trajmill.stages.models.embedded.words import Lexicon


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
    spots = exists.flatten().nonzero().squeeze(1)
    return CandidateGrid(exists, spots, spots // exists.shape[1])


MATCHES = [
    "text_said",
    "text_said_squared",
    "text_fresh",
    "text_fresh_squared",
    "text_whole",
    "words_said",
    "field_said",
    "field_fresh",
    "text_in_last",
    "hint",
    "hint_squared",
    "hint_covered",
    "hints",
    "guided",
    "rival",
    "leads",
]
"""Features of a candidate: the shares of its words that are in the instruction (fresh: and in no earlier step), ...

`rival` is the best fresh match among the other candidates that are neither chosen nor done: if there is one, the screen
still has something to do. `leads` says that the candidate itself is the best match.
"""


class Matches(NamedTuple):
    """The words that `c` candidates share with instruction, guidance and history."""

    words: Tensor
    """(c, m) 1 if the candidate's text has the word of the instruction."""
    scalars: Tensor
    """(c, MATCHES)"""


def match_words(
    batch: Batch, texts: Tensor, fields: Tensor, grid: CandidateGrid, open_: Tensor, weights: Tensor
) -> Matches:
    """Compare the words of all candidates.

    Args:
        batch: the situations.
        texts: (c, j) words of the candidates' texts.
        fields: (c, k) words of the labels beside them.
        grid: the positions of the candidates in the batch.
        open_: (c,) 1 for a candidate that is neither chosen nor done, else 0.
        weights: (words,) weight of each word, 0 for no word.
    """
    owner = grid.owner
    fresh = batch.instruction * (batch.instruction_flags[..., 1] == 0)
    shared = _equal(texts, batch.instruction[owner])
    text_weights, field_weights = weights[texts.long()], weights[fields.long()]
    said = _share(shared.any(-1), text_weights)
    said_fresh = _share(_equal(texts, fresh[owner]).any(-1), text_weights)
    with_hint = _equal(texts, batch.hint[owner])
    hint = _share(with_hint.any(-1), text_weights)
    hint_weights = weights[batch.hint.long()][owner]
    covered = (with_hint.any(-2) * hint_weights).sum(-1) / hint_weights.sum(-1).clamp(min=1e-6)
    words = shared.any(-2).to(weights.dtype)
    rival, leads = _rivals(said_fresh * open_, grid)
    scalars = [
        said,
        said.square(),
        said_fresh,
        said_fresh.square(),
        (said > 0.99).to(weights.dtype),
        (words * weights[batch.instruction.long()][owner]).sum(-1) / 3,
        _share(_equal(fields, batch.instruction[owner]).any(-1), field_weights),
        _share(_equal(fields, fresh[owner]).any(-1), field_weights),
        _share(_equal(texts, batch.last[owner]).any(-1), text_weights),
        hint,
        hint.square(),
        covered,
        _share(_equal(texts, batch.hints[owner]).any(-1), text_weights),
        (batch.hint > 0).any(-1).to(weights.dtype)[owner],
        rival,
        leads,
    ]
    return Matches(words, torch.stack(scalars, -1))


def _rivals(scores: Tensor, grid: CandidateGrid) -> tuple[Tensor, Tensor]:
    """(c,) the best score of the other candidates of the row, and (c,) 1 for the candidates with the best score."""
    best, second = nn.functional.pad(grid.pad(scores), (0, 1)).topk(2).values.unbind(-1)
    best, second = best[grid.owner], second[grid.owner]
    leads = (scores == best) & (scores > 0)
    return torch.where(leads, second, best), leads.to(scores.dtype)


def _equal(words: Tensor, others: Tensor) -> Tensor:
    """(c, j, m) whether word j of a candidate equals word m of its row of `others` (c, m)."""
    return (words[..., None] == others[:, None]) & (words > 0)[..., None]


def _share(hits: Tensor, weights: Tensor) -> Tensor:
    """(c,) share of the candidate's word weights that matched; 0 for a candidate without words."""
    return (hits * weights).sum(-1) / weights.sum(-1).clamp(min=1e-6)


_START = {
    "text_fresh_squared": 5.0,
    "hint_squared": 3.0,
    "hints": 1.0,
    "hinted": 9.0,
    "hint_unseen": 5.0,
    "hints_done": 9.0,
    "done_once": -2.0,
    "done_twice": -2.0,
    "done_often": -3.0,
    "just_done": -0.5,
    "chosen": -2.0,
    "filled": -2.0,
    "quoted": 3.0,
    "noted": 1.5,
    "was_noted": 1.5,
    "back": -3.0,
    "home": -4.0,
    "finish": -1.2,
    "enter": -1.0,
    "down": -0.5,
    "up": -2.0,
}


def prior_weights() -> Tensor:
    """(MATCHES + FLAGS + KINDS,) start weights; zero for features that are not named here."""
    return torch.tensor([_START.get(name, 0.0) for name in (*MATCHES, *FLAGS, *KINDS)])
