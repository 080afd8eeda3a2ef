"""Supervised rows for ms-swift: JSON lines with paths of images; each reply has its loss weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from trajmill.schemas.coordinates import QWEN3_VL
from trajmill.schemas.dialects.families import Family
from trajmill.stages.export.formats.base import TrainerFormat, TrainerSettings
from trajmill.stages.export.formats.shards import DATA_FOLDER
from trajmill.stages.export.formats.steps import StepExample
from trajmill.stages.export.messages import in_one_prompt, in_strings


class SwiftFormat(TrainerFormat):
    """Supervised rows for ms-swift."""

    kind: Literal["swift"] = "swift"
    """Messages with a loss scale each."""
    weights_as_rows: bool = False
    """Whether a step has as many rows as it weighs; ms-swift reads the weights."""

    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        *said, reply = in_strings(in_one_prompt(example.messages))
        return {"messages": [*said, {**reply, "loss_scale": example.loss_weight}]}

    def advice(self, settings: TrainerSettings) -> str:
        budget = settings.family.budget
        return (
            f"`ROOT_IMAGE_DIR=FOLDER MAX_PIXELS={budget.max_pixels} MIN_PIXELS={budget.min_pixels} swift sft "
            f"--model MODEL --model_type {_model_type(settings.family)} --template {_model_type(settings.family)} "
            f"--dataset FOLDER/{DATA_FOLDER}/*.jsonl --max_length {settings.max_length} --truncation_strategy delete "
            "--is_binary_loss_scale false`. Several of its templates fit one architecture, so both are named. "
            "Without `--is_binary_loss_scale false` the weights of the replies have no effect; the end of a turn "
            "counts once whatever the weight."
        )


def _model_type(family: Family) -> str:
    """Return ms-swift's name of the architecture and of its template."""
    return "qwen3_vl" if family.budget.factor == QWEN3_VL.factor else "qwen2_5_vl"
