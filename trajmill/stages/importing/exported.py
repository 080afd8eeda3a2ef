"""Our own export: the Parquet files that `trajmill export` writes for `trl`, `grpo`, `verl` and `verl-sft`.

A row is a step with its picture; the rows of a trajectory follow one another. Steps that the export left out are
missing, so a trajectory may be shorter than it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import pyarrow.parquet as pq

from trajmill.schemas.actions import Action, action_from_json
from trajmill.schemas.tables.query import Platform
from trajmill.stages.importing import base

_COLUMNS: Final = [
    *("trajectory_id", "step_index", "instruction", "platform", "apps", "task", "agent", "action"),
    *("screen_ids", "images"),
]
_ROWS_AT_ONCE: Final = 32


class ExportedLayout(base.LayoutSpec):
    """A folder that `trajmill export` has written."""

    expected: ClassVar[str] = "data/NAME.parquet, as `trajmill export` writes them for trl, grpo, verl and verl-sft"
    kind: Literal["trajmill"] = "trajmill"
    """Our own export."""

    def lists(self, folder: Path) -> Sequence[Path]:
        return sorted((folder / "data").glob("*.parquet"))

    def read(self, file: Path, folder: Path) -> Iterator[base.ReadRecording]:
        try:
            with base.reading():
                missing = [name for name in _COLUMNS if name not in pq.read_schema(file).names]
                if missing:
                    raise ValueError(f"column {missing[0]} is missing")
                per_row = file.stat().st_size // max(pq.read_metadata(file).num_rows, 1)
                for name, rows in groupby(_rows(file), key=lambda row: str(row["trajectory_id"])):
                    of_one = list(rows)
                    yield base.read_recording(name, per_row * len(of_one), partial(_recording, name, of_one))
        except base.BadRecordingError as error:
            yield base.ReadRecording(base.BadRecording(file.name, str(error)), 0)


def _rows(file: Path) -> Iterator[Mapping[str, Any]]:
    seen = ("", -1)
    with pq.ParquetFile(file) as parquet:
        for batch in parquet.iter_batches(_ROWS_AT_ONCE, columns=_COLUMNS):
            for row in batch.to_pylist():
                step = (row["trajectory_id"], row["step_index"])
                if step != seen:
                    yield row
                seen = step


def _recording(name: str, rows: Sequence[Mapping[str, Any]]) -> base.Recording:
    steps = []
    for row in sorted(rows, key=lambda row: int(row["step_index"])):
        # Of several pictures the last is the one that the reply answers.
        screen = base.screen_of(row["images"][-1]["bytes"], str(row["screen_ids"][-1]))
        action: Action | None = action_from_json(row["action"]) if row["action"] else None
        steps.append(base.RecordedStep(screen, action, str(row["action"])))
    first = rows[0]
    return base.Recording(
        name=name,
        platform=Platform(first["platform"]),
        instruction=str(first["instruction"]),
        steps=tuple(steps),
        agent=str(first["agent"]),
        apps=tuple(map(str, first["apps"])),
        task=str(first["task"]),
    )
