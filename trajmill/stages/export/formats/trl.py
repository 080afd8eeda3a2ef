"""Supervised rows for TRL: prompt and completion as content blocks; only the completion is learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pyarrow as pa

from trajmill.stages.export.formats.base import TrainerFormat, TrainerSettings
from trajmill.stages.export.formats.steps import StepExample
from trajmill.stages.export.messages import BLOCK_MESSAGES, in_blocks


class TrlFormat(TrainerFormat):
    """Supervised rows for TRL."""

    columns: ClassVar = (pa.field("prompt", BLOCK_MESSAGES), pa.field("completion", BLOCK_MESSAGES))
    kind: Literal["trl"] = "trl"
    """Prompt and completion for `SFTTrainer`."""

    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        blocks = in_blocks(example.messages)
        return {"prompt": blocks[:-1], "completion": blocks[-1:]}

    def advice(self, settings: TrainerSettings) -> str:
        budget = settings.family.budget
        return (
            f"`SFTConfig(max_length={settings.max_length})` or `max_length=None`: the default of 1,024 cuts images in "
            "two. `SFTTrainer` reads `prompt`, `completion` and `images`, and learns the completion alone. It ignores "
            "`loss_weight`; `WeightedSFTTrainer` of `trajmill.stages.training.trl_sft.weighted` takes the same "
            "arguments and weighs each row. Pass the processor with the bounds: `AutoProcessor.from_pretrained(MODEL, "
            f"min_pixels={budget.min_pixels}, max_pixels={budget.max_pixels})`."
        )
