"""The specs of the formats that trainers read."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from trajmill.schemas.spec import Spec

if TYPE_CHECKING:
    from trajmill.stages.export.formats.base import TrainerFormat


class FormatSpec(Spec):
    """How a release is written for one trainer."""

    shard_bytes: int = Field(default=500_000_000, gt=0)
    """Approximate size of a file of rows, in bytes."""

    @abstractmethod
    def open(self) -> TrainerFormat:
        """What writes the rows."""


class TrlFormatSpec(FormatSpec):
    """Supervised rows for TRL."""

    kind: Literal["trl"] = "trl"
    """Prompt and completion for `SFTTrainer`."""
    weights_as_rows: bool = True
    """Whether a step has as many rows as it weighs; if not, it has one, for a trainer that reads `loss_weight`."""

    def open(self) -> TrainerFormat:
        """What writes the rows."""
        from trajmill.stages.export.formats.trl import TrlFormat

        return TrlFormat(self.shard_bytes, weights_as_rows=self.weights_as_rows)


class GrpoFormatSpec(FormatSpec):
    """Prompts with targets for TRL."""

    kind: Literal["grpo"] = "grpo"
    """Prompts and targets for `GRPOTrainer`."""

    def open(self) -> TrainerFormat:
        """What writes the rows."""
        from trajmill.stages.export.formats.grpo import GrpoFormat

        return GrpoFormat(self.shard_bytes)


class VerlFormatSpec(FormatSpec):
    """Prompts with targets for verl."""

    kind: Literal["verl"] = "verl"
    """Prompts and ground truths for `RLHFDataset`."""

    def open(self) -> TrainerFormat:
        """What writes the rows."""
        from trajmill.stages.export.formats.verl import VerlFormat

        return VerlFormat(self.shard_bytes)


class VerlSftFormatSpec(FormatSpec):
    """Supervised rows for verl."""

    kind: Literal["verl-sft"] = "verl-sft"
    """Messages for `MultiTurnSFTDataset`."""

    def open(self) -> TrainerFormat:
        """What writes the rows."""
        from trajmill.stages.export.formats.verl_sft import VerlSftFormat

        return VerlSftFormat(self.shard_bytes)


class LlamaFactoryFormatSpec(FormatSpec):
    """Supervised rows for LLaMA-Factory."""

    kind: Literal["llamafactory"] = "llamafactory"
    """Messages in the sharegpt form."""

    def open(self) -> TrainerFormat:
        """What writes the rows."""
        from trajmill.stages.export.formats.llamafactory import LlamaFactoryFormat

        return LlamaFactoryFormat(self.shard_bytes)


class FeedbackFormatSpec(FormatSpec):
    """Prompts of roles with the action that their words must lead to; the recipes of execution feedback read it."""

    kind: Literal["feedback"] = "feedback"
    """Prompts of roles, and the right actions."""

    def open(self) -> TrainerFormat:
        """What writes the rows."""
        from trajmill.stages.export.formats.feedback import FeedbackFormat

        return FeedbackFormat(self.shard_bytes)


class SwiftFormatSpec(FormatSpec):
    """Supervised rows for ms-swift."""

    kind: Literal["swift"] = "swift"
    """Messages with a loss scale each."""

    def open(self) -> TrainerFormat:
        """What writes the rows."""
        from trajmill.stages.export.formats.swift import SwiftFormat

        return SwiftFormat(self.shard_bytes)
