"""Writes recordings as rows, shard by shard; memory holds one shard of rows, the screens of one recording, and ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

from trajmill.pipelines.fan_out import StageWork, WrittenFiles
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.record import Origin, Row
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.text import storable
from trajmill.stages.importing.base import BadRecording, BadRecordingError, ImportCounts, ReadRecording, Recording
from trajmill.stages.importing.rows import HeldOut, ImportedRows, rows_of
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.screens import NewScreens, WarehouseScreens, stored_screen_journal
from trajmill.warehouse.shards import DataFile

STAGE = "import"
"""Stage on the failures of recordings that cannot be read."""
_IN_SHARD = 200


def write_recordings(
    warehouse: Warehouse,
    at: StageRun,
    origin: Origin,
    layout: str,
    found: Iterable[ReadRecording],
    held_out: HeldOut,
    known: set[str],
    advance: Callable[[int], None],
) -> tuple[WrittenFiles, ImportCounts]:
    """Write the rows of recordings; the files are to be committed, and doing it again writes the same ones.

    `known` are ids of stored trajectories and queries, which are not written again; `advance` is called with the bytes
    of the listing files that are done.
    """
    work, counts, made_by = StageWork[None](warehouse, at, origin), ImportCounts(), f"import.{layout}/1"
    files: dict[str, list[DataFile]] = {}
    rows: dict[str, list[Row]] = {}
    shards = count()

    def flush() -> None:
        for table, written in work.written(f"{next(shards):05d}", rows).files.items():
            files.setdefault(table, []).extend(written)
        rows.clear()

    def usable(recording: Recording | BadRecording) -> ImportedRows | BadRecording:
        if isinstance(recording, BadRecording):
            return recording
        try:
            made = rows_of(recording, layout, origin)
        except BadRecordingError as error:
            return BadRecording(recording.name, str(error))
        reason = "" if made.trajectory.trajectory_id in known else held_out.reason(made.query)
        return BadRecording(recording.name, reason) if reason else made

    committed = WarehouseScreens(warehouse)
    with stored_screen_journal(warehouse, at, STAGE) as screens:
        for number, each in enumerate(found, 1):
            made = usable(each.recording)
            if isinstance(made, BadRecording):
                counts.bad.append(made)
                failure = Failure(
                    stage=STAGE,
                    input_id=storable(made.name),
                    failure_class=FailureClass.TASK,
                    message=storable(made.reason),
                    **origin.common(made_by=made_by),
                )
                rows.setdefault("failures", []).append(failure)
            elif made.trajectory.trajectory_id in known:
                counts.known += 1
            else:
                screens.append(*(seen for seen in made.observations if seen.screen.screen_id not in committed))
                counts.trajectories += 1
                counts.steps += len(made.steps)
                if made.query.query_id not in known:
                    rows.setdefault("queries", []).append(made.query)
                known |= {made.query.query_id, made.trajectory.trajectory_id}
                rows.setdefault("trajectories", []).append(made.trajectory)
                rows.setdefault("steps", []).extend(made.steps)
            if number % _IN_SHARD == 0:
                flush()
            advance(each.size)
    flush()
    files["screens"] = NewScreens(warehouse, at, origin, made_by).write()
    return WrittenFiles(files), counts
