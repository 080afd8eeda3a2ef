"""Writes a release as the folder that a trainer reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from trajmill.pipelines.reading.episodes import read_episodes
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.errors import BadInputError
from trajmill.stages.export.formats.card import ExportedRelease
from trajmill.stages.export.formats.rows.step_example import LeftOutStep, ReleasedStep, StepExample, step_example
from trajmill.stages.export.formats.spec import FormatSpec
from trajmill.stages.export.formats.write import ExportedFolder, write_folder
from trajmill.stages.export.trl.exporter import SFT_FILE
from trajmill.warehouse.atomic import disk_full_as_error, replacing_folder
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.releases import Release, read_release
from trajmill.warehouse.screens import WarehouseScreens

_LICENCE = "apache-2.0"
_TRAJECTORIES_AT_ONCE = 1000
_COLUMNS = ("example_id", "trajectory_id", "step_index", "loss_weight")


class ExportRequest(NamedTuple):
    """What to write, and where."""

    release: str
    form: FormatSpec
    family: Family
    """The family, with the pixel budget that its model is trained with."""
    folder: Path
    """A new folder, or an empty one."""


def export_release_to(warehouse: Warehouse, request: ExportRequest) -> ExportedFolder:
    """Write the supervised rows of a release in a trainer's format and a family's words.

    Raises:
        BadInputError: there is no such release, it has no supervised rows, no step can be written in this form, or
            the folder is not empty.
        TrajmillError: the disk is full; the folder is not made.
    """
    release = read_release(warehouse, request.release)
    rows = _released_steps(warehouse, release)
    source = ExportedRelease(release.name, release.run_id, release.round, release.code_version, _LICENCE)
    screens = WarehouseScreens(warehouse)
    with disk_full_as_error(request.folder), replacing_folder(request.folder) as folder:
        steps = _steps(warehouse, release, request.family, rows, screens)
        exported = write_folder(folder, request.form.open(), request.family, source, steps, screens)
        if not exported.written.rows:
            reasons = ", ".join(f"{count} {reason}" for reason, count in exported.tally.left_out.most_common())
            raise BadInputError(
                f"release {release.name}: no step can be written for {request.family.name} ({reasons or 'it is empty'})"
            )
    return exported


def _released_steps(warehouse: Warehouse, release: Release) -> list[ReleasedStep]:
    path = warehouse.release(release.name) / SFT_FILE
    if not path.is_file():
        raise BadInputError(
            f"release {release.name}: it has no supervised rows; make it with release.formats = ['trl']"
        )
    columns = (column.to_pylist() for column in pq.read_table(path, columns=list(_COLUMNS)).columns)
    return [ReleasedStep(*values) for values in zip(*columns, strict=True)]


def _steps(
    warehouse: Warehouse, release: Release, family: Family, rows: Sequence[ReleasedStep], screens: WarehouseScreens
) -> Iterator[StepExample | LeftOutStep]:
    """The examples in the order of the release; trajectories are read for some rows at a time."""
    trajectories = iter([list(of_one) for _, of_one in groupby(rows, key=lambda row: row.trajectory_id)])
    rounds = range(release.round + 1)
    while chunk := list(islice(trajectories, _TRAJECTORIES_AT_ONCE)):
        ids = [of_one[0].trajectory_id for of_one in chunk]
        read = read_episodes(warehouse, release.run_id, ids, rounds, with_verdicts=True, with_guidance=True)
        episodes = {episode.trajectory.trajectory_id: episode for episode in read}
        for row in (row for of_one in chunk for row in of_one):
            episode = episodes.get(row.trajectory_id)
            yield LeftOutStep("no_trajectory") if episode is None else step_example(family, episode, row, screens.size)
