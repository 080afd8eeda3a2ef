"""What the trainers of the embedded policy share: recipes, the report, the data they learn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from pydantic import Field
from torch import Tensor

from trajmill.schemas.record import Record
from trajmill.stages.models.embedded.network.batch import Bags, Batch

Progress = Callable[[int, int], None]
"""Called after each update with the number of updates done and to do."""


class Optimisation(Record):
    """How the weights are moved."""

    batch: int = Field(64, ge=1)
    learning_rate: float = Field(2e-3, gt=0)
    final_rate: float = Field(0.1, ge=0, le=1)
    """Share of the learning rate that is left at the last update; it falls along a half cosine."""
    pair_rate: float = Field(10.0, gt=0)
    """Times the learning rate: how fast the memory of pairs learns."""
    weight_decay: float = Field(0.01, ge=0)
    clip: float = Field(1.0, gt=0)
    """Largest norm of the gradient."""


class SftRecipe(Record):
    """Supervised fine-tuning on what was judged correct (rejection fine-tuning)."""

    kind: Literal["sft"] = "sft"
    epochs: float = Field(3.0, gt=0)
    least_updates: int = Field(20, ge=0)
    most_updates: int = Field(150, ge=1)
    word_dropout: float = Field(0.15, ge=0, lt=1)
    """Chance that the meaning of a word of the instruction is hidden for one update."""
    pair_dropout: float = Field(0.25, ge=0, lt=1)
    """Chance that the memory of pairs is silent for a row, so that the rest of the network learns too."""
    optimisation: Optimisation = Optimisation()


class RlRecipe(Record):
    """Trajectory-level RL on stored responses (paper 3.1.2)."""

    kind: Literal["rl"] = "rl"
    epochs: float = Field(2.0, gt=0)
    most_updates: int = Field(150, ge=1)
    clip_ratio: float = Field(0.2, gt=0)
    """Epsilon of equation 3."""
    optimisation: Optimisation = Optimisation(batch=256, learning_rate=3e-4)


Recipe = Annotated[SftRecipe | RlRecipe, Field(discriminator="kind")]


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


class TrainingReport(NamedTuple):
    """What a training did."""

    rows: int
    skipped: int
    """Rows of the release that could not be learned from."""
    updates: int
    loss: float
    """Mean loss of the last tenth of the updates, 0 without updates."""
