"""The data that the embedded policy learns from, as tensors."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from trajmill.stages.models.embedded.network.batch import Bags, Batch


@dataclass(frozen=True, slots=True)
class Lessons:
    """Situations with the action to learn in each."""

    situations: Batch
    labels: Tensor
    """(rows,) index of the candidate that was chosen."""
    weights: Tensor
    """(rows,) loss weight, with the advantage as its sign and size in RL."""
    bags: Bags
    """Of all words of the situations."""
    skipped: int
    """Rows whose action is none of the candidates."""

    def __len__(self) -> int:
        return len(self.labels)
