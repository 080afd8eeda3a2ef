"""Writes supervised rows for verl's `MultiTurnSFTDataset`: messages are strings with `<image>` placeholders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.formats.base import TrainerSettings
from trajmill.stages.export.formats.rows.columns import STRING_MESSAGES, WEIGHT, weight_values
from trajmill.stages.export.formats.rows.parquet import ParquetWriter
from trajmill.stages.export.formats.rows.step_example import StepExample
from trajmill.stages.export.formats.rows.turns import in_one_prompt, in_strings
from trajmill.stages.export.formats.rows.written import DATA_FOLDER, WrittenRows

_COLUMNS = (pa.field("messages", STRING_MESSAGES), *WEIGHT)


@dataclass(frozen=True)
class VerlSftFormat:
    """For `verl.trainer.sft_trainer`."""

    shard_bytes: int
    kind: str = "verl-sft"
    weights_as_rows: bool = True
    rl_steps: None = None

    def write(self, folder: Path, examples: Iterable[StepExample], screens: BulkScreenReader) -> WrittenRows:
        """Write all rows with their images."""
        return ParquetWriter(_COLUMNS, _values, self.shard_bytes, DATA_FOLDER).write(folder, examples, screens)

    def finish(self, folder: Path, settings: TrainerSettings) -> None:
        """Write nothing: the rows are enough."""

    def advice(self, settings: TrainerSettings) -> str:
        """How to call the trainer."""
        return (
            f"`data.messages_key=messages data.max_length={settings.max_length} "
            "data.truncation=error`. Every row has one assistant message, since verl learns all that there are; "
            "earlier turns stand in the user message as the chat template writes them."
        )


def _values(example: StepExample) -> Mapping[str, Any]:
    return {"messages": in_strings(in_one_prompt(example.messages)), **weight_values(example)}
