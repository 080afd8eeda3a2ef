"""Writes supervised rows for ms-swift: JSON lines with paths of images; each reply has its loss weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.formats.base import DATA_FOLDER, TrainerSettings, WrittenRows
from trajmill.stages.export.formats.rows.json_lines import JsonLinesWriter
from trajmill.stages.export.formats.rows.step_example import StepExample
from trajmill.stages.export.formats.rows.turns import in_one_prompt, in_strings


@dataclass(frozen=True)
class SwiftFormat:
    """For `swift sft`."""

    shard_bytes: int
    kind: str = "swift"
    weights_as_rows: bool = False

    def write(self, folder: Path, examples: Iterable[StepExample], screens: BulkScreenReader) -> WrittenRows:
        """Write all rows with a weight above 0, and their images as files."""
        # The scale does not apply to the token that ends the turn: ms-swift would learn it even in replies of weight 0.
        weighty = (example for example in examples if example.lineage.loss_weight)
        return JsonLinesWriter(_values, self.shard_bytes).write(folder, weighty, screens)

    def finish(self, folder: Path, settings: TrainerSettings) -> None:
        """Write nothing: the rows are enough."""

    def advice(self, settings: TrainerSettings) -> str:
        """How to call the trainer."""
        budget = settings.family.budget
        return (
            f"`ROOT_IMAGE_DIR=FOLDER MAX_PIXELS={budget.max_pixels} MIN_PIXELS={budget.min_pixels} swift sft "
            f"--dataset FOLDER/{DATA_FOLDER}/*.jsonl --max_length {settings.max_length} --truncation_strategy raise "
            "--is_binary_loss_scale false`. "
            "Without `--is_binary_loss_scale false` the weights of the replies have no effect; the end of a turn "
            "counts once whatever the weight."
        )


def _values(example: StepExample) -> Mapping[str, Any]:
    said = in_strings(in_one_prompt(example.messages))
    weighed: list[dict[str, Any]] = [*said[:-1], {**said[-1], "loss_scale": example.lineage.loss_weight}]
    return {"messages": weighed}
