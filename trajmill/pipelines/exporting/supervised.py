"""Reads the supervised rows of a release as examples of a family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from tempfile import TemporaryFile

from trajmill.pipelines.exporting.exporting import TRAJECTORIES_AT_ONCE, Exporting
from trajmill.pipelines.exporting.other_order import OtherOrder
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.stages.export.formats.steps import LeftOutStep, ReleasedStep, StepExample, step_example
from trajmill.stages.export.selection import has_rows_of, released_rows
from trajmill.stages.export.sft import SFT_FILE

_COLUMNS = ("example_id", "trajectory_id", "step_index", "loss_weight")


def supervised_steps(exporting: Exporting) -> Iterator[StepExample | LeftOutStep]:
    """The examples in the order of the release; each trajectory is read once, with those that are stored beside it.

    Raises:
        BadInputError: the release has no supervised rows.
    """
    release = exporting.release
    folder = exporting.warehouse.release(release.name)
    if not has_rows_of(folder, SFT_FILE):
        raise BadInputError(
            f"release {release.name}: it has no supervised rows; make it with release.formats = ['trl']"
        )
    columns = (column.to_pylist() for column in released_rows(folder, SFT_FILE, _COLUMNS).columns)
    return _examples(exporting, [ReleasedStep(*values) for values in zip(*columns, strict=True)])


def _examples(exporting: Exporting, rows: Sequence[ReleasedStep]) -> Iterator[StepExample | LeftOutStep]:
    trajectories = [list(of_one) for _, of_one in groupby(rows, key=lambda row: row.trajectory_id)]
    names = [of_one[0].trajectory_id for of_one in trajectories]
    stored = exporting.rounds_of(set(names))
    places = iter(sorted(range(len(names)), key=lambda place: (stored.get(names[place], 0), names[place])))
    with TemporaryFile(dir=exporting.folder) as file:
        made = OtherOrder[int, StepExample | LeftOutStep](file)
        while chunk := {place: trajectories[place] for place in islice(places, TRAJECTORIES_AT_ONCE)}:
            _add(made, exporting, chunk, stored)
        yield from made.sorted()


def _add(
    made: OtherOrder[int, StepExample | LeftOutStep],
    exporting: Exporting,
    chunk: Mapping[int, Sequence[ReleasedStep]],
    stored: Mapping[str, int],
) -> None:
    """In a function of its own, so that its episodes are gone when the next ones are read."""
    episodes = exporting.episodes({rows[0].trajectory_id for rows in chunk.values()}, stored)
    for place, rows in chunk.items():
        made.add(place, [_example(exporting, episodes, row) for row in rows])


def _example(exporting: Exporting, episodes: Mapping[str, Episode], row: ReleasedStep) -> StepExample | LeftOutStep:
    episode = episodes.get(row.trajectory_id)
    if episode is None:
        return LeftOutStep("no_trajectory")
    return step_example(exporting.family, episode, row, exporting.screens)
