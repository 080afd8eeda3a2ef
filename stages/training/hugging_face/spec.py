"""The keys of the recipes that train a model in Hugging Face's layout."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from trajmill.schemas.spec import OPERATIONAL, Fraction
from trajmill.stages.training.base import ParentPolicy, Progress, TrainingReport
from trajmill.stages.training.spec import RecipeSpec


class HuggingFaceRecipe(RecipeSpec):
    """How a model in Hugging Face's layout is trained, whatever the objective.

    It is trained in a process of its own: memory that runs out there, or a crash, ends the training and nothing else.
    """

    trainer: ClassVar[str]
    """`module:function` that trains in the process of its own, from a `TrainingJob`."""
    needs: ClassVar[tuple[str, ...]]
    """The packages of the extra `train` that it imports, LoRA's apart."""

    epochs: PositiveFloat = 1.0
    """Passes over the release."""
    max_updates: PositiveInt | None = None
    """Most optimiser updates; without it the passes decide."""
    batch: PositiveInt = 32
    """Rows in one update, on all devices together."""
    rows_at_once: PositiveInt = 1
    """Rows that one device computes at once; memory bounds it. `batch` is a multiple of it times `processes`."""
    learning_rate: PositiveFloat = 1e-5
    """Peak learning rate; ten times as much suits LoRA."""
    warmup_updates: NonNegativeInt = 0
    """Updates in which the learning rate rises to its peak."""
    final_rate: Fraction = 0.1
    """Share of the learning rate that is left at the last update; it falls along a half cosine."""
    weight_decay: NonNegativeFloat = 0.0
    """Weight decay of AdamW."""
    second_moment: Annotated[float, Field(gt=0, lt=1)] = 0.999
    """Decay of AdamW's mean of squared gradients (beta 2)."""
    gradient_norm: PositiveFloat = 1.0
    """Largest norm of the gradient."""
    lora_rank: NonNegativeInt = 0
    """Rank of a LoRA adapter, which alone is trained and saved; 0 trains all weights."""
    lora_alpha: PositiveInt | None = None
    """Scale of the adapter; twice the rank if not set."""
    lora_modules: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    """Layers of the language model that the adapter changes; the vision tower is left as it is."""
    freeze_vision: bool = False
    """Whether the vision tower and what joins it to the language model keep their weights."""
    gradient_checkpointing: bool = False
    """Whether activations are computed a second time instead of kept: less memory, a third more time."""
    checkpoint_updates: Annotated[PositiveInt, OPERATIONAL] = 50
    """Updates between two checkpoints; an interrupted training goes on from the last one."""
    python: Annotated[str, OPERATIONAL] = ""
    """The Python that trains, with trajmill's extra `train` installed; this one if empty."""
    processes: Annotated[PositiveInt, OPERATIONAL] = 1
    """Processes that train together, one for each GPU; accelerate launches them."""
    silent_minutes: Annotated[PositiveFloat, OPERATIONAL] = 60.0
    """A training that reports no update for so long has hung, and is ended."""

    def trains(self, folder: Path) -> bool:
        """Whether the folder holds a model in Hugging Face's layout that is not the embedded policy."""
        from trajmill.stages.models.embedded.storage import is_embedded_policy

        has_weights = (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))
        return has_weights and not is_embedded_policy(folder)

    def updates(self, rows: int) -> int:
        """How many updates are made on so many rows of a release."""
        wanted = math.ceil(self.epochs * math.ceil(rows / self.batch))
        most = wanted if self.max_updates is None else min(wanted, self.max_updates)
        return self.frozen_explorer_updates or most

    def train(
        self, parent: ParentPolicy, release: Path, seed: int, folder: Path, progress: Progress | None = None
    ) -> TrainingReport:
        """Train a model on a release in a process of its own and save the new version."""
        from trajmill.stages.training.hugging_face.launch import launch_training

        return launch_training(self, parent, release, seed, folder, progress)
