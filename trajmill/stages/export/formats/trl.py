"""Writes supervised rows for TRL: prompt and completion as content blocks; only the completion is learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.formats.base import TrainerSettings
from trajmill.stages.export.formats.rows.columns import BLOCK_MESSAGES, WEIGHT, weight_values
from trajmill.stages.export.formats.rows.parquet import ParquetWriter
from trajmill.stages.export.formats.rows.step_example import StepExample
from trajmill.stages.export.formats.rows.turns import in_blocks
from trajmill.stages.export.formats.rows.written import DATA_FOLDER, WrittenRows

_COLUMNS = (pa.field("prompt", BLOCK_MESSAGES), pa.field("completion", BLOCK_MESSAGES), *WEIGHT)


@dataclass(frozen=True)
class TrlFormat:
    """For `SFTTrainer`."""

    shard_bytes: int
    kind: str = "trl"
    weights_as_rows: bool = True
    rl_steps: None = None

    def write(self, folder: Path, examples: Iterable[StepExample], screens: BulkScreenReader) -> WrittenRows:
        """Write all rows with their images."""
        return ParquetWriter(_COLUMNS, _values, self.shard_bytes, DATA_FOLDER).write(folder, examples, screens)

    def finish(self, folder: Path, settings: TrainerSettings) -> None:
        """Write nothing: the rows are enough."""

    def advice(self, settings: TrainerSettings) -> str:
        """How to call `SFTTrainer`."""
        return (
            f"`SFTConfig(max_length={settings.max_length})` or `max_length=None`: the default of 1,024 cuts images in "
            "two. `SFTTrainer` reads `prompt`, `completion` and `images`, and learns the completion alone. It ignores "
            "`loss_weight`; `WeightedSFTTrainer` of `trajmill.stages.training.trl_sft.weighted` takes the same "
            "arguments and weighs each row."
        )


def _values(example: StepExample) -> Mapping[str, Any]:
    blocks = in_blocks(example.messages)
    return {"prompt": blocks[:-1], "completion": blocks[-1:], **weight_values(example)}
