"""Which words a candidate shares with instruction, guidance and history: plain equality, no parameters."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from stages.models.embedded.batch import Batch

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
]
"""Per candidate: shares of its words that the instruction says (fresh: and that no earlier step has dealt with), ..."""


class Matches(NamedTuple):
    """Shared words of a batch."""

    words: Tensor
    """(b, n, m) 1 where the candidate's text carries the word of the instruction."""
    scalars: Tensor
    """(b, n, MATCHES)"""


def match_words(batch: Batch, weights: Tensor) -> Matches:
    """Compare the words of all candidates; `weights` (words,) say how much each word counts, 0 for no word."""
    texts, fields = batch.texts, batch.fields
    fresh = batch.instruction * (batch.instruction_flags[..., 1] == 0)
    shared = _equal(texts, batch.instruction)
    text_weights, field_weights = weights[texts.long()], weights[fields.long()]
    said = _share(shared.any(-1), text_weights)
    said_fresh = _share(_equal(texts, fresh).any(-1), text_weights)
    hint = _share(_equal(texts, batch.hint).any(-1), text_weights)
    words = shared.any(-2).to(weights.dtype)
    hint_weights = weights[batch.hint.long()]
    covered = (_equal(texts, batch.hint).any(-2) * hint_weights[:, None]).sum(-1) / hint_weights.sum(-1).clamp(
        min=1e-6
    )[:, None]
    guided = (batch.hint > 0).any(-1).to(weights.dtype)[:, None].expand_as(said)
    scalars = [
        said,
        said.square(),
        said_fresh,
        said_fresh.square(),
        (said > 0.99).to(weights.dtype),
        (words * weights[batch.instruction.long()][:, None]).sum(-1) / 3,
        _share(_equal(fields, batch.instruction).any(-1), field_weights),
        _share(_equal(fields, fresh).any(-1), field_weights),
        _share(_equal(texts, batch.last).any(-1), text_weights),
        hint,
        hint.square(),
        covered,
        _share(_equal(texts, batch.hints).any(-1), text_weights),
        guided,
    ]
    return Matches(words, torch.stack(scalars, -1))


def _equal(words: Tensor, others: Tensor) -> Tensor:
    """(b, n, j, m): whether word j of candidate n is word m of `others` (b, m)."""
    return (words[..., None] == others[:, None, None]) & (words > 0)[..., None]


def _share(hits: Tensor, weights: Tensor) -> Tensor:
    """(b, n): share of the candidate's weight that was hit; 0 for a candidate without words."""
    return (hits * weights).sum(-1) / weights.sum(-1).clamp(min=1e-6)
