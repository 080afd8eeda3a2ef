"""Supervised rows for verl's `MultiTurnSFTDataset`: messages are strings with `<image>` placeholders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pyarrow as pa

from trajmill.stages.export.formats.base import TrainerFormat, TrainerSettings
from trajmill.stages.export.formats.steps import StepExample
from trajmill.stages.export.messages import STRING_MESSAGES, in_one_prompt, in_strings


class VerlSftFormat(TrainerFormat):
    """Supervised rows for verl."""

    columns: ClassVar = (pa.field("messages", STRING_MESSAGES),)
    images_have_bounds: ClassVar[bool] = True
    kind: Literal["verl-sft"] = "verl-sft"
    """Messages for `MultiTurnSFTDataset`."""

    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        return {"messages": in_strings(in_one_prompt(example.messages))}

    def advice(self, settings: TrainerSettings) -> str:
        return (
            f"`data.messages_key=messages data.max_length={settings.max_length} "
            "data.truncation=error`. Every row has one assistant message, since verl learns all that there are; "
            "earlier turns stand in the user message as the chat template writes them. Each image carries "
            "`min_pixels` and `max_pixels`, by which verl resizes it; the processor of the model must not have "
            "narrower bounds."
        )
