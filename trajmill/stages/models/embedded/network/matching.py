"""Finds the words that a candidate shares with instruction, guidance and history; it has no parameters."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from trajmill.stages.models.embedded.network.batch import Batch
from trajmill.stages.models.embedded.network.candidate_grid import CandidateGrid

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
