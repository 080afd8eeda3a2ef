"""The recipe that trains with TRL."""

from __future__ import annotations

from typing import ClassVar, Literal

from trajmill.stages.export.formats.base import TrainerFormat
from trajmill.stages.training.hugging_face.spec import HuggingFaceRecipe


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
