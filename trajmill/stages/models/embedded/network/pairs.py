"""The memory of pairs: the wide half of a wide-and-deep network."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from trajmill.stages.models.embedded.network.batch import Batch
from trajmill.stages.models.embedded.network.candidate_grid import CandidateGrid
from trajmill.stages.models.embedded.reading.features import KINDS

PAIR_BUCKETS = 2**18
_MIX_CANDIDATE, _MIX_OTHER = 0x1E3779B1, 0x05EBCA77
_ANCHOR_SHIFT = torch.tensor([2**30 + 1, 2**30 + 2**29])
"""Numbers that give titles, last targets and words different codes."""


class Hidden(NamedTuple):
    """The inputs that one update hides from the network, so that it learns to work without them."""

    words: Tensor
    """(b, m) words of the instruction whose vectors are hidden; which candidates have them stays visible."""
    pairs: Tensor
    """(b,) rows for which the memory of pairs is switched off."""


class PairMemory(nn.Module):
    """Weights of pairs: a candidate with a word of the instruction, the screen's title or the last target.

    It learns that `School` goes with `Theatre play`, or `Small` with `tiny`, from a few examples; an embedding needs
    hundreds. All weights start at zero.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(PAIR_BUCKETS, 1)
        nn.init.zeros_(self.table.weight)

    def forward(
        self, batch: Batch, kinds: Tensor, weights: Tensor, grid: CandidateGrid, hidden: Hidden | None
    ) -> Tensor:
        """(c,) the sum that the pairs add to the logits."""
        codes = grid.take(batch.codes)[:, None]
        heard = weights[batch.instruction.long()] * (batch.instruction_codes > 0)
        if hidden is not None:
            heard = heard * ~hidden.words
        words = self._recall(codes, batch.instruction_codes[grid.owner]) * heard[grid.owner]
        anchors = batch.anchors[grid.owner]
        around = self._recall(codes, anchors + _ANCHOR_SHIFT) * ((anchors > 0) & ~_is_choice(kinds)[:, None])
        known: Tensor = (words.sum(-1) + around.sum(-1)) * (codes[:, 0] > 0)
        return known if hidden is None else known * ~hidden.pairs[grid.owner]

    def _recall(self, codes: Tensor, others: Tensor) -> Tensor:
        mixed = codes * _MIX_CANDIDATE + others * _MIX_OTHER
        return self.table((mixed ^ (mixed >> 19)) % PAIR_BUCKETS).squeeze(-1)  # type: ignore[no-any-return]


def _is_choice(kinds: Tensor) -> Tensor:
    """Whether candidates are items or options: the instruction decides between these, and not the screen."""
    return (kinds == KINDS.index("list_item")) | (kinds == KINDS.index("radio"))
