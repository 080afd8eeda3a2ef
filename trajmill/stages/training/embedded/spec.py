"""The recipes of the embedded policy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from trajmill.schemas.spec import LATER, Fraction
from trajmill.stages.training.spec import LearningRate, ParentPolicy, Progress, RecipeSpec, TrainingReport

Dropout = Annotated[float, Field(ge=0, lt=1)]


class EmbeddedRecipe(RecipeSpec):
    """How the weights of the embedded policy are updated, for every objective."""

    max_updates: PositiveInt = 130
    """Most optimiser updates in a round."""
    epochs: PositiveFloat = 4.0
    """Passes over the release, within the bounds on the updates."""
    learning_rate: LearningRate = 0.002
    """Peak learning rate."""
    batch: PositiveInt = 64
    """Examples in one update."""

    def updates(self, rows: int) -> int:
        wanted = max(math.ceil(self.epochs * rows / self.batch), getattr(self, "min_updates", 1))
        return min(wanted, self.max_updates)

    def trains(self, folder: Path) -> bool:
        from trajmill.stages.models.embedded.model import is_embedded_policy

        return is_embedded_policy(folder)

    def train(
        self, parent: ParentPolicy, release: Path, seed: int, folder: Path, progress: Progress | None = None
    ) -> TrainingReport:
        from trajmill.stages.models.embedded.model import use_one_thread
        from trajmill.stages.training.embedded.train import train_policy

        use_one_thread()
        return train_policy(parent, release, self, seed, folder, progress)


class EmbeddedSftSpec(EmbeddedRecipe):
    """Supervised training of the embedded policy on what was judged correct (rejection fine-tuning)."""

    kind: Literal["embedded-sft"] = "embedded-sft"
    """Supervised training of the embedded policy."""
    min_updates: PositiveInt = 20
    """Fewest optimiser updates in a round."""
    word_dropout: Dropout = 0.15
    """Chance that the meaning of a word of the instruction is hidden for one update."""
    pair_dropout: Dropout = 0.25
    """Chance that the memory of word pairs is off for a row; the rest of the network then learns from it."""
    strange_apps: Fraction = 0.4
    """Chance that an app looks unknown for one update; prepares the policy for unseen apps."""
    renamed_controls: Fraction = 0.15
    """Chance that the controls of a row have unknown labels; the policy then learns from page and position."""
    detours: Fraction = 0.3
    """Chance that a press on an app, a list item, a menu or a button follows wrong presses that were undone; the policy
    then learns to look elsewhere."""
    forks: Annotated[bool, LATER] = False
    """Whether it also learns the fork points of failed attempts (`trajmill derive forks`)."""

    @property
    def learns_kind(self) -> str:
        return "forks" if self.forks else ""


class EmbeddedRlSpec(EmbeddedRecipe):
    """Trajectory-level RL of the embedded policy on stored responses (paper 3.1.2)."""

    learns_from: ClassVar[Literal["examples", "rl_steps"]] = "rl_steps"
    kind: Literal["embedded-rl"] = "embedded-rl"
    """Trajectory-level RL of the embedded policy."""
    max_updates: PositiveInt = 150
    """Most optimiser updates in a round."""
    epochs: PositiveFloat = 2.0
    """Passes over the release, within the bound on the updates."""
    learning_rate: LearningRate = 0.0003
    """Peak learning rate."""
    batch: PositiveInt = 256
    """Step instances in one update."""
    clip_ratio: PositiveFloat = 0.2
    """Epsilon of the paper's equation 3."""
