"""Recipes of papers that are supervised training on a derived kind, with the papers' settings as defaults."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import NonNegativeInt, PositiveInt

from trajmill.stages.training.spec import LearningRate
from trajmill.stages.training.trl_sft.spec import SupervisedRecipe


class RftSpec(SupervisedRecipe):
    """Reinforcement fine-tuning on candidates that a process reward let through (T-RFT, NaturalGAIA F).

    It trains on the kind `rft` of the release. A round is one of the paper's three iterations.
    """

    learns_kind: ClassVar[str] = "rft"
    kind: Literal["rft"] = "rft"
    """Supervised training on the candidates that `trajmill derive rft` keeps."""
    learning_rate: LearningRate = 1e-4
    """Peak learning rate."""
    batch: PositiveInt = 128
    """Rows in one update, of all devices together."""
    lora_rank: NonNegativeInt = 8
    """Rank of a LoRA adapter; only the adapter is then trained and saved. 0 trains all weights."""
    lora_alpha: PositiveInt | None = 32
    """Scale of the adapter; twice the rank if not set."""
    freeze_vision: bool = True
    """Whether the weights of the vision tower and its connection to the language model are not trained."""


class CodaGeneralistSpec(SupervisedRecipe):
    """A generalist Planner that learns from the thoughts of specialists (CODA 3.3.2); the paper gives no settings.

    It trains on the kind `coda` of the release.
    """

    learns_kind: ClassVar[str] = "coda"
    kind: Literal["coda-generalist"] = "coda-generalist"
    """Supervised training on the Planners' thoughts that `trajmill derive coda` keeps."""
