"""Reads the RL rows of a release's round as examples of a family, sorted by group.

They are stored in the order of trajectories, since each worker derives the rows of neighbours; a group has attempts
from all over the round. So the examples are made in the order of the store and sorted in a temporary file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from tempfile import TemporaryFile

import numpy as np
import pyarrow as pa

from trajmill.pipelines.exporting.exporting import TRAJECTORIES_AT_ONCE, Exporting
from trajmill.pipelines.exporting.other_order import OtherOrder
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.schemas.tables.rl_step import RLStep
from trajmill.stages.derive.rl_steps import compares_members
from trajmill.stages.export.formats.rl import RLStepExample, rl_step_example
from trajmill.stages.export.formats.steps import LeftOutStep
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_batches
from trajmill.warehouse.releases import Release

_BY_TRAJECTORY = [("trajectory_id", "ascending"), ("group", "ascending"), ("step_index", "ascending")]


def compared_trajectories(warehouse: Warehouse, release: Release) -> list[str]:
    """The ids of the trajectories in the groups of the release's round.

    Raises:
        BadInputError: no group has attempts to compare.
    """
    columns = ["group", "trajectory_id"]
    batches = read_batches(warehouse, "rl_steps", columns, rounds=[release.round], run_id=release.run_id)
    members = [pa.Table.from_batches([batch]).group_by(columns).aggregate([]) for batch in batches]
    if not members or not compares_members(pa.concat_tables(members)):
        raise BadInputError(
            f"release {release.name}: it is no RL data, for its round has no group of attempts at one query with "
            "different rewards; make it with rollout.group_size of 2 or more"
        )
    ids: list[str] = pa.concat_tables(members)["trajectory_id"].unique().to_pylist()
    return ids


def rl_steps(exporting: Exporting, trajectory_ids: Collection[str]) -> Iterator[RLStepExample | LeftOutStep]:
    """The examples of the RL rows of such trajectories by group, trajectory and step; each row is read once."""
    if not trajectory_ids:
        return
    stored = exporting.rounds_of(trajectory_ids)
    with TemporaryFile(dir=exporting.folder) as file:
        made = OtherOrder[tuple[str, str, int], RLStepExample | LeftOutStep](file)
        for rows in _stored_rows(exporting):
            _add(made, exporting, rows, stored)
            # Else they would be kept while the next ones are read, and the last ones while all are written.
            del rows
        yield from made.sorted()


def _add(
    made: OtherOrder[tuple[str, str, int], RLStepExample | LeftOutStep],
    exporting: Exporting,
    rows: Sequence[RLStep],
    stored: Mapping[str, int],
) -> None:
    """In a function of its own, so that its episodes are gone when the next ones are read."""
    episodes = exporting.episodes({row.trajectory_id for row in rows}, stored)
    for (name, group), of_one in groupby(rows, key=lambda row: (row.trajectory_id, row.group)):
        steps = list(of_one)
        made.add((group, name, steps[0].step_index), [_example(exporting, episodes, row) for row in steps])


def _example(exporting: Exporting, episodes: Mapping[str, Episode], row: RLStep) -> RLStepExample | LeftOutStep:
    episode = episodes.get(row.trajectory_id)
    if episode is None:
        return LeftOutStep("no_trajectory")
    return rl_step_example(exporting.family, episode, row, exporting.screens.size)


def _stored_rows(exporting: Exporting) -> Iterator[list[RLStep]]:
    """The rows of some trajectories at a time; rows of one that lie in two row groups come in two parts."""
    release = exporting.release
    batches = read_batches(exporting.warehouse, "rl_steps", rounds=[release.round], run_id=release.run_id)
    for batch in batches:
        stored = pa.Table.from_batches([batch]).sort_by(_BY_TRAJECTORY)
        del batch
        if stored.num_rows:
            yield from _parts(stored)


def _parts(stored: pa.Table) -> Iterator[list[RLStep]]:
    names = stored["trajectory_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    cuts = [*np.searchsorted(names, np.arange(0, names[-1] + 1, TRAJECTORIES_AT_ONCE)).tolist(), len(names)]
    for start, end in pairwise(cuts):
        rows = stored.slice(start, end - start)
        yield [row for row in rows_from_arrow("rl_steps", rows) if isinstance(row, RLStep)]
