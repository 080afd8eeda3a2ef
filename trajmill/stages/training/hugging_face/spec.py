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
    accelerate: Annotated[Path | None, OPERATIONAL] = None
    """A configuration file of accelerate for these processes, e.g. for FSDP or DeepSpeed; by default each process has
    the whole model. `processes` stands for its number of processes."""
    report_to: Annotated[tuple[Literal["tensorboard", "wandb", "mlflow", "trackio"], ...], OPERATIONAL] = ()
    """Trackers that get the figures of each update, beside `metrics.json`. TensorBoard writes files into the folder of
    the new version; the others are configured by their own environment variables."""
    silent_minutes: Annotated[PositiveFloat, OPERATIONAL] = 60.0
    """Longest time without a finished update; then the training counts as hung and is ended."""

    def trains(self, folder: Path) -> bool:
        from trajmill.stages.models.embedded.model import is_embedded_policy

        has_weights = (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))
        return has_weights and not is_embedded_policy(folder)

    def updates(self, rows: int) -> int:
        wanted = math.ceil(self.epochs * math.ceil(rows / self.batch))
        return wanted if self.max_updates is None else min(wanted, self.max_updates)

    def train(
        self, parent: ParentPolicy, release: Path, seed: int, folder: Path, progress: Progress | None = None
    ) -> TrainingReport:
        from trajmill.stages.training.hugging_face.launch import TrainingJob, launch_training

        return launch_training(TrainingJob(self, parent, release, seed, folder), progress)


class TrlSftSpec(HuggingFaceRecipe):
    """Supervised training with TRL's `SFTTrainer` on correct trajectories, in the dialect of the policy's family.

    Only replies are learned, each with its loss weight. The presets `rft`, `coda-generalist`, `online-rejection`,
    `role-rejection`, `judge-sft` and `prm` are this recipe on the rows of a derived kind.
    """

    trainer: ClassVar[str] = "trajmill.stages.training.trl_sft:train_supervised"
    needs: ClassVar[tuple[str, ...]] = ("trl", "accelerate")

    kind: Literal["trl-sft"] = "trl-sft"
    """Supervised training with TRL."""
    derived_kind: str = ""
    """The derived kind to train on. Each round derives it before its release, with the models of `[derive]`. Empty for
    the steps of judged attempts."""
    only_newest_round: bool = False
    """Whether to train on the rows of the newest round only, instead of all rounds."""

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


class FeedbackRecipe(ClippedRecipe):
    """GRPO on what a role says, rewarded by the action that a frozen Executor takes on it."""

    trainer: ClassVar[str] = "trajmill.stages.training.hugging_face.feedback:train_by_feedback"
    role_names: ClassVar[tuple[str, ...]] = ("executor",)
    role: ClassVar[str]
    """The role that is trained, as the agent names it."""
    pool: ClassVar[str]
    """The derived kind whose rows it trains on."""

    executor: Annotated[str, Field(min_length=1), OPERATIONAL]
    """The frozen Executor: the NAME of an `[endpoints.NAME]` whose model reads images."""
    batch: PositiveInt = 32
    """Steps in one update, of all devices together; each has `samples` replies."""
    samples: Annotated[int, Field(ge=2)] = 4
    """Replies that are sampled for one step and compared with each other."""
    max_tokens: PositiveInt = 256
    """Longest reply that is sampled, in tokens."""
    temperature: PositiveFloat = 1.0
    """Sampling temperature of the replies."""
    divergence: NonNegativeFloat = 0.001
    """Beta, the weight of the divergence from the policy before the first update; 0 without it. The papers do not say
    how large theirs is."""
    executor_tokens: PositiveInt = 512
    """Longest reply of the Executor in tokens."""

    @property
    def learns_kind(self) -> str:
        return type(self).pool

    @property
    def takes(self) -> TrainerFormat:
        """Prompts of roles with the action that their words must lead to."""
        from trajmill.stages.export.formats.trainers import FeedbackFormat

        return FeedbackFormat()


class CesStage1Spec(FeedbackRecipe):
    """Stage 1 of CES: the Coordinator, given the ground-truth state, by the actions of the frozen Executor (A.1).

    It trains on the Coordinator's rows of the kind `ces`.
    """

    pool: ClassVar[str] = "ces"
    role: ClassVar[str] = "coordinator"
    kind: Literal["ces-stage1"] = "ces-stage1"
    """Execution feedback for the Coordinator of CES."""
    epochs: PositiveFloat = 10.0
    """Passes over the release."""


class CesStage2Spec(FeedbackRecipe):
    """Stage 2 of CES: the State Tracker, by what the frozen Coordinator and Executor make of its summary (A.1).

    It trains on the State Tracker's rows of the kind `ces`.
    """

    pool: ClassVar[str] = "ces"
    role_names: ClassVar[tuple[str, ...]] = ("executor", "coordinator")
    role: ClassVar[str] = "state_tracker"
    kind: Literal["ces-stage2"] = "ces-stage2"
    """Execution feedback for the State Tracker of CES."""
    coordinator: Annotated[str, Field(min_length=1), OPERATIONAL]
    """The frozen Coordinator of stage 1: the NAME of an `[endpoints.NAME]` whose model reads images."""
    epochs: PositiveFloat = 5.0
    """Passes over the release."""
    max_tokens: PositiveInt = 512
    """Longest reply that is sampled, in tokens."""
    coordinator_tokens: PositiveInt = 1024
    """Longest reply of the frozen Coordinator in tokens."""


class CodaSpecialistSpec(FeedbackRecipe):
    """A Planner for one app, by decoupled RL with a frozen Executor (CODA 3.3.1); the paper gives no settings.

    It trains on the kind `coda`.
    """

    pool: ClassVar[str] = "coda"
    role: ClassVar[str] = "planner"
    kind: Literal["coda-specialist"] = "coda-specialist"
    """Execution feedback for the Planner of CODA."""
    app: str = ""
    """The app whose screens it specialises in; all apps if empty."""
    samples: Annotated[int, Field(ge=2)] = 8
    """Plans that are sampled for one step and compared with each other."""
