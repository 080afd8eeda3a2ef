"""The recipe that trains with TRL; `training/presets` has recipes of papers that extend it."""

from __future__ import annotations

from typing import ClassVar, Literal

from trajmill.stages.export.formats.base import TrainerFormat
from trajmill.stages.training.hugging_face.spec import HuggingFaceRecipe


class TrlSftSpec(HuggingFaceRecipe):
    """Supervised training with TRL's `SFTTrainer` on correct trajectories, in the dialect of the policy's family.

    Only replies are learned, each with its loss weight. The presets `rft`, `coda-generalist`, `online-rejection` and
    `role-rejection` are this recipe on the rows of a derived kind.
    """

    trainer: ClassVar[str] = "trajmill.stages.training.trl_sft.train:train_supervised"
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
        """The derived kind of the rows."""
        return self.derived_kind

    @property
    def takes(self) -> TrainerFormat:
        """TRL's format without repeated rows, because the loss uses the weights."""
        from trajmill.stages.export.formats.trl import TrlFormat

        return TrlFormat(weights_as_rows=False)
