"""Writes the task pool of execution feedback: prompts of roles, and the action that their words must lead to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from trajmill.schemas.errors import BadInputError
from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.formats.base import TrainerSettings
from trajmill.stages.export.formats.rows.columns import BLOCK_MESSAGES, WEIGHT, weight_values
from trajmill.stages.export.formats.rows.parquet import ParquetWriter
from trajmill.stages.export.formats.rows.step_example import StepExample
from trajmill.stages.export.formats.rows.turns import in_blocks
from trajmill.stages.export.formats.rows.written import DATA_FOLDER, WrittenRows

_COLUMNS = (
    pa.field("prompt", BLOCK_MESSAGES),
    pa.field("variant", pa.string()),
    pa.field("target", pa.string()),
    pa.field("past", pa.string()),
    *WEIGHT,
)
"""`target` is a `ReplyTarget`, `past` a list of the replies and conclusions of the steps before, both as JSON."""
FEEDBACK_SCHEMA = ParquetWriter[StepExample](_COLUMNS, lambda example: {}, 1, DATA_FOLDER).schema
"""All columns of the files, with those of the lineage."""


@dataclass(frozen=True)
class FeedbackFormat:
    """For the recipes `ces-stage1`, `ces-stage2` and `coda-specialist`."""

    shard_bytes: int
    kind: str = "feedback"
    weights_as_rows: bool = False
    rl_steps: None = None

    def write(self, folder: Path, examples: Iterable[StepExample], screens: BulkScreenReader) -> WrittenRows:
        """Write all rows with their images.

        Raises:
            BadInputError: a row is no words of a role that lead to an action.
        """
        return ParquetWriter(_COLUMNS, _values, self.shard_bytes, DATA_FOLDER).write(folder, examples, screens)

    def finish(self, folder: Path, settings: TrainerSettings) -> None:
        """Write nothing: the rows are enough."""

    def advice(self, settings: TrainerSettings) -> str:
        """Who reads it."""
        return "The recipes `ces-stage1`, `ces-stage2` and `coda-specialist` of `[train]` read it."


def _values(example: StepExample) -> Mapping[str, Any]:
    led = example.leads_to
    if led is None:
        raise BadInputError(f"example {example.example_id} leads to no action: execution feedback takes ces and coda")
    return {
        "prompt": in_blocks(example.messages[:-1]),
        "variant": led.variant,
        "target": led.target.model_dump_json(),
        "past": json.dumps(led.past),
        **weight_values(example),
    }
