"""Writes supervised rows for ms-swift: JSON lines with paths of images; each reply has its loss weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trajmill.schemas.dialects.families import Family
from trajmill.schemas.pixel_budget import QWEN3_VL
from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.formats.base import TrainerSettings
from trajmill.stages.export.formats.rows.json_lines import JsonLinesWriter
from trajmill.stages.export.formats.rows.step_example import StepExample
from trajmill.stages.export.formats.rows.turns import in_one_prompt, in_strings
from trajmill.stages.export.formats.rows.written import DATA_FOLDER, WrittenRows


@dataclass(frozen=True)
class SwiftFormat:
    """For `swift sft`."""

    shard_bytes: int
    kind: str = "swift"
    weights_as_rows: bool = False
    rl_steps: None = None

    def write(self, folder: Path, examples: Iterable[StepExample], screens: BulkScreenReader) -> WrittenRows:
        """Write all rows, and their images as files."""
        return JsonLinesWriter(_values, self.shard_bytes).write(folder, examples, screens)

    def finish(self, folder: Path, settings: TrainerSettings) -> None:
        """Write nothing: the rows are enough."""

    def advice(self, settings: TrainerSettings) -> str:
        """How to call the trainer."""
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
    """The name of the architecture and of its template in ms-swift."""
    return "qwen3_vl" if family.budget.factor == QWEN3_VL.factor else "qwen2_5_vl"


def _values(example: StepExample) -> Mapping[str, Any]:
    said = in_strings(in_one_prompt(example.messages))
    weighed: list[dict[str, Any]] = [*said[:-1], {**said[-1], "loss_scale": example.loss_weight}]
    return {"messages": weighed}
