"""The recipe that trains by TRL."""

from __future__ import annotations

from typing import ClassVar, Literal

from trajmill.stages.export.formats.spec import FormatSpec, TrlFormatSpec
from trajmill.stages.training.hugging_face.spec import HuggingFaceRecipe


class TrlSftSpec(HuggingFaceRecipe):
    """Supervised training by TRL's `SFTTrainer` on what was judged correct, in the words of the policy's family.

    Each reply counts by its weight in the loss, the prompts not at all.
    """

    trainer: ClassVar[str] = "trajmill.stages.training.trl_sft.train:train_supervised"
    needs: ClassVar[tuple[str, ...]] = ("trl", "accelerate")
    kind: Literal["trl-sft"] = "trl-sft"
    """Supervised training by TRL."""

    @property
    def takes(self) -> FormatSpec:
        """TRL's format, each step once: its weight counts in the loss instead of in the number of its rows."""
        return TrlFormatSpec(weights_as_rows=False)
