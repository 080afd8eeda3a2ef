"""Finds the words that a candidate shares with instruction, guidance and history: by equality, without parameters."""

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
"""Per candidate: shares of its words that the instruction says (fresh: and that no earlier step has dealt with), ...

`rival` is the best fresh match among the other candidates that are neither chosen nor done: while there is one, the
screen is not finished with. `leads` says that the candidate itself is that best match.
"""


class Matches(NamedTuple):
    """Shared words of `c` candidates with what was asked and done."""

    words: Tensor
    """(c, m) 1 where the candidate's text carries the word of the instruction."""
    scalars: Tensor
    """(c, MATCHES)"""


def match_words(
    batch: Batch, texts: Tensor, fields: Tensor, grid: CandidateGrid, open_: Tensor, weights: Tensor
) -> Matches:
    """Compare the words of all candidates.

    Args:
        batch: What was asked and done.
        texts: (c, j) words of the candidates' texts.
        fields: (c, k) words of the labels beside them.
        grid: Where the candidates stand in the batch.
        open_: (c,) 1 for a candidate that is neither chosen nor done, else 0.
        weights: (words,) how much each word counts, 0 for no word.
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
    """(c,) the best score of the other candidates in the same row, and 1 for those that have the best score."""
    best, second = nn.functional.pad(grid.pad(scores), (0, 1)).topk(2).values.unbind(-1)
    best, second = best[grid.owner], second[grid.owner]
    leads = (scores == best) & (scores > 0)
    return torch.where(leads, second, best), leads.to(scores.dtype)


def _equal(words: Tensor, others: Tensor) -> Tensor:
    """(c, j, m): whether word j of a candidate is word m of the `others` (c, m) that it is compared with."""
    return (words[..., None] == others[:, None]) & (words > 0)[..., None]


def _share(hits: Tensor, weights: Tensor) -> Tensor:
    """(c,): share of the candidate's weight that was hit; 0 for a candidate without words."""
    return (hits * weights).sum(-1) / weights.sum(-1).clamp(min=1e-6)
