"""The specs of recipes that train a model in Hugging Face's layout."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from trajmill.schemas.spec import OPERATIONAL, Fraction
from trajmill.stages.export.formats.base import TrainerFormat
from trajmill.stages.training.spec import LearningRate, ParentPolicy, Progress, RecipeSpec, TrainingReport


class HuggingFaceRecipe(RecipeSpec):
    """How a model in Hugging Face's layout is trained, for every objective.

    It is trained in a separate process, so that a crash or a lack of memory ends only the training.
    """

    trainer: ClassVar[str]
    """`module:function` that trains in the separate process, from a `TrainingJob`."""
    needs: ClassVar[tuple[str, ...]]
    """The packages of the extra `train` that it imports, without LoRA's."""

    epochs: PositiveFloat = 1.0
    """Passes over the release."""
    max_updates: PositiveInt | None = None
    """Most optimiser updates; by default only `epochs` decides."""
    batch: PositiveInt = 32
    """Rows in one update, of all devices together."""
    rows_at_once: PositiveInt = 1
    """Rows that one device computes at the same time, as its memory allows. `batch` must be a multiple of this number
    times `processes`."""
    learning_rate: LearningRate = 1e-5
    """Peak learning rate; LoRA needs about ten times as much."""
    warmup_updates: NonNegativeInt = 0
    """Number of updates until the learning rate is at its peak."""
    final_rate: Fraction = 0.1
    """Learning rate at the last update, as a share of the peak; it falls along a half cosine."""
    weight_decay: NonNegativeFloat = 0.0
    """Weight decay of AdamW."""
    second_moment: Annotated[float, Field(gt=0, lt=1)] = 0.999
    """Decay of AdamW's mean of squared gradients (beta 2)."""
    gradient_norm: PositiveFloat = 1.0
    """Largest norm of the gradient."""
    lora_rank: NonNegativeInt = 0
    """Rank of a LoRA adapter; only the adapter is then trained and saved. 0 trains all weights."""
    lora_alpha: PositiveInt | None = None
    """Scale of the adapter; twice the rank if not set."""
    lora_modules: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    """Layers of the language model that the adapter changes; the vision tower is not changed."""
    freeze_vision: bool = False
    """Whether the weights of the vision tower and its connection to the language model are not trained."""
    gradient_checkpointing: bool = False
    """Whether activations are computed again instead of stored, which needs less memory and a third more time."""
    checkpoint_updates: Annotated[PositiveInt, OPERATIONAL] = 50
    """Updates between two checkpoints; an interrupted training continues from the last one."""
    python: Annotated[str, OPERATIONAL] = ""
    """The Python for the training, with trajmill's extra `train` installed; empty for the present one."""
    processes: Annotated[PositiveInt, OPERATIONAL] = 1
    """Number of processes that train together, one for each GPU; accelerate starts them."""
    silent_minutes: Annotated[PositiveFloat, OPERATIONAL] = 60.0
    """Longest time without a finished update; a training that takes longer hangs, and is ended."""

    def trains(self, folder: Path) -> bool:
        from trajmill.stages.models.embedded.model import is_embedded_policy

        has_weights = (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))
        return has_weights and not is_embedded_policy(folder)

    def updates(self, rows: int) -> int:
        wanted = math.ceil(self.epochs * math.ceil(rows / self.batch))
        most = wanted if self.max_updates is None else min(wanted, self.max_updates)
        return self.frozen_explorer_updates or most

    def train(
        self, parent: ParentPolicy, release: Path, seed: int, folder: Path, progress: Progress | None = None
    ) -> TrainingReport:
        from trajmill.stages.training.hugging_face.launch import TrainingJob, launch_training

        return launch_training(TrainingJob(self, parent, release, seed, folder), progress)


class TrlSftSpec(HuggingFaceRecipe):
    """Supervised training with TRL's `SFTTrainer` on correct trajectories, in the dialect of the policy's family.

    Only replies are learned, each with its loss weight. The presets `rft`, `coda-generalist`, `online-rejection` and
    `role-rejection` are this recipe on the rows of a derived kind.
    """

    trainer: ClassVar[str] = "trajmill.stages.training.trl_sft:train_supervised"
    needs: ClassVar[tuple[str, ...]] = ("trl", "accelerate")

    kind: Literal["trl-sft"] = "trl-sft"
    """Supervised training with TRL."""
    derived_kind: str = ""
    """The derived kind whose rows are learned, which each round derives before its release, with the models of
    `[derive]` if it asks any. Empty for the steps of judged attempts."""
    only_newest_round: bool = False
    """Whether only the rows of the release's newest round are learned from; else those of all rounds."""

    @property
    def learns_kind(self) -> str:
        return self.derived_kind

    @property
    def takes(self) -> TrainerFormat:
        """TRL's format without repeated rows, because the loss uses the weights."""
        from trajmill.stages.export.formats.trainers import TrlFormat

        return TrlFormat(weights_as_rows=False)


class ClippedRecipe(HuggingFaceRecipe):
    """Trains by the clipped objective of the paper's equation 3."""

    needs: ClassVar[tuple[str, ...]] = ("accelerate",)

    learning_rate: LearningRate = 1e-6
    """Peak learning rate; LoRA needs about ten times as much."""
    clip_ratio: PositiveFloat = 0.2
    """Epsilon of the paper's equation 3."""
    divergence: NonNegativeFloat = 0.0
    """Weight of the divergence from the policy before the first update; 0 in the paper's objective."""


class TrpoSpec(ClippedRecipe):
    """Trajectory-level RL of a vision-language model on its stored replies (paper 3.1.2, equation 3)."""

    learns_from: ClassVar[Literal["examples", "rl_steps"]] = "rl_steps"
    trainer: ClassVar[str] = "trajmill.stages.training.hugging_face.run:train_on_trajectories"
    kind: Literal["trpo"] = "trpo"
    """Trajectory-level RL on stored replies."""
    batch: PositiveInt = 256
    """Steps in one update, of all devices together."""
    old_log_probs: Literal["stored", "recomputed"] = "stored"
    """The old probabilities of the ratio: those that the server gave with each reply, or those of the policy before the
    first update, computed once; successes of earlier rounds then count as its own replies."""
