"""Writes a release as the folder that a trainer reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.deriving.export_kind import kind_examples
from trajmill.pipelines.reading.episodes import read_episodes
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.schemas.tables.rl_step import RLStep
from trajmill.stages.derive.rl_steps import compares_members
from trajmill.stages.export.formats.card import ExportedRelease
from trajmill.stages.export.formats.exported import ExportedFolder, ReleaseSteps
from trajmill.stages.export.formats.rows.rl_step_example import RLStepExample, rl_step_example
from trajmill.stages.export.formats.rows.spoken_step import LeftOutStep
from trajmill.stages.export.formats.rows.step_example import ReleasedStep, StepExample, step_example
from trajmill.stages.export.formats.spec import FormatSpec
from trajmill.stages.export.formats.write import write_folder
from trajmill.stages.export.selection import has_rows_of, released_rows
from trajmill.stages.export.trl.exporter import SFT_FILE
from trajmill.warehouse.atomic import disk_full_as_error, replacing_folder
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import Release, verify_release
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
    kind: str = ""
    """A derived kind; empty for the steps of judged attempts."""


def export_release_to(warehouse: Warehouse, request: ExportRequest) -> ExportedFolder:
    """Write the rows of a release in a trainer's format and a family's words.

    Raises:
        BadInputError: there is no such release, a file of it is damaged, it has no supervised rows, the format is for
            RL and the release has no groups, an RL step has not one log probability for each token, no step can be
            written in this form, or the folder is not empty.
        TrajmillError: the disk is full; the folder is not made.
    """
    release, form = verify_release(warehouse, request.release), request.form.open()
    rl_ids = [] if form.rl_steps is None or request.kind else _compared_trajectories(warehouse, release)
    screens = WarehouseScreens(warehouse)
    if request.kind:
        supervised = kind_examples(warehouse, release, request.kind, request.family, form, screens)
    else:
        rows = _released_steps(warehouse, release)
        supervised = _steps(warehouse, release, request.family, rows, screens)
    source = ExportedRelease(release.name, release.run_id, release.round, release.code_version, _LICENCE, request.kind)
    with disk_full_as_error(request.folder), replacing_folder(request.folder) as folder:
        steps = ReleaseSteps(
            supervised,
            _rl_steps(warehouse, release, request.family, rl_ids, screens),
        )
        exported = write_folder(folder, form, request.family, source, steps, screens)
        if not exported.written.rows:
            reasons = ", ".join(f"{count} {reason}" for reason, count in exported.tally.left_out.most_common())
            raise BadInputError(
                f"release {release.name}: no step can be written for {request.family.name} ({reasons or 'it is empty'})"
            )
    return exported


def _released_steps(warehouse: Warehouse, release: Release) -> list[ReleasedStep]:
    folder = warehouse.release(release.name)
    if not has_rows_of(folder, SFT_FILE):
        raise BadInputError(
            f"release {release.name}: it has no supervised rows; make it with release.formats = ['trl']"
        )
    columns = (column.to_pylist() for column in released_rows(folder, SFT_FILE, _COLUMNS).columns)
    return [ReleasedStep(*values) for values in zip(*columns, strict=True)]


def _compared_trajectories(warehouse: Warehouse, release: Release) -> list[str]:
    """The sorted ids of the trajectories in the groups of the release's round."""
    columns = ["group", "trajectory_id"]
    rows = read_table(warehouse, "rl_steps", columns, rounds=[release.round], run_id=release.run_id)
    if not compares_members(rows):
        raise BadInputError(
            f"release {release.name}: it is no RL data, for its round has no group of attempts at one query with "
            "different rewards; make it with rollout.group_size of 2 or more"
        )
    return sorted(rows["trajectory_id"].unique().to_pylist())


def _steps(
    warehouse: Warehouse, release: Release, family: Family, rows: Sequence[ReleasedStep], screens: WarehouseScreens
) -> Iterator[StepExample | LeftOutStep]:
    """The examples in the order of the release; trajectories are read for some rows at a time."""
    trajectories = iter([list(of_one) for _, of_one in groupby(rows, key=lambda row: row.trajectory_id)])
    while chunk := list(islice(trajectories, _TRAJECTORIES_AT_ONCE)):
        episodes = _episodes(warehouse, release, [of_one[0].trajectory_id for of_one in chunk])
        for row in (row for of_one in chunk for row in of_one):
            episode = episodes.get(row.trajectory_id)
            yield LeftOutStep("no_trajectory") if episode is None else step_example(family, episode, row, screens)


def _rl_steps(
    warehouse: Warehouse, release: Release, family: Family, trajectory_ids: Sequence[str], screens: WarehouseScreens
) -> Iterator[RLStepExample | LeftOutStep]:
    """The RL steps of the trajectories, sorted by group; episodes are read for some trajectories at a time."""
    for start in range(0, len(trajectory_ids), _TRAJECTORIES_AT_ONCE):
        chunk = trajectory_ids[start : start + _TRAJECTORIES_AT_ONCE]
        episodes = _episodes(warehouse, release, chunk)
        table = read_table(warehouse, "rl_steps", rounds=[release.round], run_id=release.run_id)
        chosen = table.filter(pc.is_in(table["trajectory_id"], pa.array(chunk, pa.string())))
        rows = [row for row in rows_from_arrow("rl_steps", chosen) if isinstance(row, RLStep)]
        for row in sorted(rows, key=lambda row: (row.group, row.trajectory_id, row.step_index)):
            episode = episodes.get(row.trajectory_id)
            if episode is None:
                yield LeftOutStep("no_trajectory")
            else:
                yield rl_step_example(family, episode, row, screens.size)


def _episodes(warehouse: Warehouse, release: Release, trajectory_ids: Sequence[str]) -> dict[str, Episode]:
    rounds = range(release.round + 1)
    read = read_episodes(warehouse, release.run_id, trajectory_ids, rounds, with_verdicts=True, with_guidance=True)
    return {episode.trajectory.trajectory_id: episode for episode in read}
