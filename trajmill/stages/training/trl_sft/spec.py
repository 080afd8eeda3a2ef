"""The recipe that trains with TRL."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import NonNegativeInt, PositiveInt

from trajmill.stages.export.formats.base import TrainerFormat
from trajmill.stages.training.hugging_face.spec import HuggingFaceRecipe
from trajmill.stages.training.spec import LearningRate


class SupervisedRecipe(HuggingFaceRecipe):
    """Supervised training with TRL's `SFTTrainer`; only replies are learned, each with its loss weight."""

    trainer: ClassVar[str] = "trajmill.stages.training.trl_sft.train:train_supervised"
    needs: ClassVar[tuple[str, ...]] = ("trl", "accelerate")
    only_newest_round: ClassVar[bool] = False
    """Whether only the rows of the release's newest round are learned from; else those of all rounds."""

    @property
    def takes(self) -> TrainerFormat:
        """TRL's format without repeated rows, because the loss uses the weights."""
        from trajmill.stages.export.formats.trl import TrlFormat

        return TrlFormat(weights_as_rows=False)


class TrlSftSpec(SupervisedRecipe):
    """Supervised training with TRL's `SFTTrainer` on correct trajectories, in the dialect of the policy's family.

    Only replies are learned, each with its loss weight.
    """

    kind: Literal["trl-sft"] = "trl-sft"
    """Supervised training with TRL."""


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


class OnlineRejectionSpec(SupervisedRecipe):
    """Iterative online rejection sampling of the agent's own thoughts (GUI-Owl 2.2.3, mode 1).

    Each round's policy acts, and the next one learns from the round's thoughts that passed: those of correct
    trajectories and useful steps, from which the action follows. It trains on the kind `reasoning` of the release.
    """

    learns_kind: ClassVar[str] = "reasoning"
    only_newest_round: ClassVar[bool] = True
    kind: Literal["online-rejection"] = "online-rejection"
    """Supervised training on the thoughts of the newest round that `trajmill derive reasoning` keeps."""


class RoleRejectionSpec(SupervisedRecipe):
    """Iterative online rejection sampling of what the roles of an agent say (GUI-Owl 2.2.3, mode 2).

    It trains on the kind `roles` of the release: the policy plays its role, or several, in the next round.
    """

    learns_kind: ClassVar[str] = "roles"
    only_newest_round: ClassVar[bool] = True
    kind: Literal["role-rejection"] = "role-rejection"
    """Supervised training on what roles said in the newest round, as `trajmill derive roles` keeps it."""
