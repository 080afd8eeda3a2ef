"""Writes a release as the folder that a trainer reads, or that exchanges its attempts."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice, pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.reading.episodes import read_episodes_of_rounds
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.example import Example, RLStep
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.stages.derive.rl_steps import compares_members
from trajmill.stages.export.exporter import RL_FILE, SFT_FILE, SftExporter
from trajmill.stages.export.formats.base import TrainerFormat
from trajmill.stages.export.formats.card import ExportedFolder, ExportedRelease
from trajmill.stages.export.formats.derived import kind_example
from trajmill.stages.export.formats.exchange import ExchangeFormat, write_exchange
from trajmill.stages.export.formats.folder import ReleaseSteps, write_folder
from trajmill.stages.export.formats.steps import (
    LeftOutStep,
    ReleasedStep,
    RLStepExample,
    StepExample,
    rl_step_example,
    step_example,
)
from trajmill.stages.export.release import has_rows_of, released_rows
from trajmill.warehouse.atomic import disk_full_as_error, replacing_folder
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_batches, read_tuples, tuples
from trajmill.warehouse.releases import Release, verify_release
from trajmill.warehouse.screens import WarehouseScreens

TRAJECTORIES_AT_ONCE: Final = 250
"""Number of trajectories whose texts are in memory together."""
_ROWS_AT_ONCE = 2000
_LICENCE = "apache-2.0"
_COLUMNS = ("example_id", "trajectory_id", "step_index", "loss_weight")
_BY_TRAJECTORY = [("trajectory_id", "ascending"), ("group", "ascending"), ("step_index", "ascending")]

R = TypeVar("R")
E = TypeVar("E")


class ExportRequest(NamedTuple):
    release: str
    form: TrainerFormat
    family: Family
    """The family, with the pixel budget that its model is trained with."""
    folder: Path
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
    release, form = verify_release(warehouse, request.release), request.form
    compared = [] if not form.rl_columns or request.kind else compared_trajectories(warehouse, release)
    screens = WarehouseScreens(warehouse)
    source = ExportedRelease(release.name, release.run_id, release.round, release.code_version, _LICENCE, request.kind)
    with disk_full_as_error(request.folder), replacing_folder(request.folder) as folder:
        exporting = Exporting(warehouse, release, request.family, screens, folder)
        supervised = _kind_examples(exporting, request.kind, form) if request.kind else _supervised_steps(exporting)
        steps = ReleaseSteps(supervised, rl_steps(exporting, compared))
        exported = write_folder(folder, form, request.family, source, steps, screens)
        if not exported.written.rows:
            reasons = ", ".join(f"{count} {reason}" for reason, count in exported.counts.left_out.most_common())
            raise BadInputError(
                f"release {release.name}: no step can be written for {request.family.name} ({reasons or 'it is empty'})"
            )
    return exported


def exchange_release(warehouse: Warehouse, name: str, form: ExchangeFormat, folder: Path) -> int:
    """Write every attempt with rows in a release as a document, and count them.

    Raises:
        BadInputError: there is no such release, a file of it is damaged, or the folder is not empty.
        TrajmillError: the disk is full; the folder is not made.
    """
    release, screens = verify_release(warehouse, name), WarehouseScreens(warehouse)
    source = ExportedRelease(release.name, release.run_id, release.round, release.code_version, _LICENCE)
    made = warehouse.release(name)
    files = [file for file in (SFT_FILE, RL_FILE) if has_rows_of(made, file)]
    rows = [released_rows(made, file, ["trajectory_id"])["trajectory_id"].to_pylist() for file in files]
    with disk_full_as_error(folder), replacing_folder(folder) as new:
        exporting = Exporting(warehouse, release, ANY, screens, new)
        stored = exporting.rounds_of({name for each in rows for name in each})
        waiting = iter(sorted(stored, key=lambda name: (stored[name], name)))
        parts = iter(lambda: list(islice(waiting, TRAJECTORIES_AT_ONCE)), [])
        attempts = (one for part in parts for one in exporting.episodes(part, stored, with_calls=True).values())
        return write_exchange(new, form, source, attempts, screens)


class Exporting(NamedTuple):
    warehouse: Warehouse
    release: Release
    family: Family
    screens: WarehouseScreens
    folder: Path

    def rounds_of(self, trajectory_ids: Collection[str]) -> Mapping[str, int]:
        run_id, rounds = self.release.run_id, range(self.release.round + 1)
        columns, where = ["trajectory_id", "round"], {"trajectory_id": trajectory_ids}
        return dict(read_tuples(self.warehouse, "trajectories", columns, rounds=rounds, run_id=run_id, where=where))

    def episodes(
        self, trajectory_ids: Collection[str], stored: Mapping[str, int], with_calls: bool = False
    ) -> Mapping[str, Episode]:
        """Read the episodes of trajectories whose rounds are in `stored`, by id, with verdicts and guidance."""
        chosen = {name: stored[name] for name in trajectory_ids if name in stored}
        run_id, until = self.release.run_id, self.release.round
        return read_episodes_of_rounds(self.warehouse, run_id, chosen, True, True, with_calls, judged_until=until)

    def sorted_examples(
        self,
        chunks: Iterable[Sequence[tuple[Any, str, Sequence[R]]]],
        stored: Mapping[str, int],
        make: Callable[[Episode, R], E],
    ) -> Iterator[E | LeftOutStep]:
        """Make examples of rows, chunk by chunk, and yield them sorted by key, through a temporary file.

        A chunk has keys with the ids of trajectories and some of their rows, which stay together. Rows are read fast in
        the order in which the warehouse stores them, and written in the order of the release. Examples are records of
        Python: DuckDB could sort nothing but these pickles.
        """
        with TemporaryFile(dir=self.folder) as file:
            places: list[tuple[Any, int]] = []

            def add(chunk: Sequence[tuple[Any, str, Sequence[R]]]) -> None:
                episodes = self.episodes({name for _, name, _ in chunk}, stored)
                for key, name, rows in chunk:
                    episode = episodes.get(name)
                    examples = [LeftOutStep("no_trajectory") if episode is None else make(episode, row) for row in rows]
                    places.append((key, file.tell()))
                    pickle.dump(examples, file, pickle.HIGHEST_PROTOCOL)

            for chunk in chunks:
                add(chunk)
                # Release it before the next one is read.
                del chunk
            for _, offset in sorted(places):
                file.seek(offset)
                yield from pickle.load(file)


def _supervised_steps(exporting: Exporting) -> Iterator[StepExample | LeftOutStep]:
    """Yield the release's examples in its order. Raises BadInputError if it has no supervised rows."""
    name = exporting.release.name
    folder = exporting.warehouse.release(name)
    if not has_rows_of(folder, SFT_FILE):
        raise BadInputError(f"release {name}: it has no supervised rows; make it with release.formats = ['trl']")
    released = [ReleasedStep(*values) for values in tuples(released_rows(folder, SFT_FILE, _COLUMNS))]
    parts = [
        (place, name, list(rows))
        for place, (name, rows) in enumerate(groupby(released, key=lambda row: row.trajectory_id))
    ]
    stored = exporting.rounds_of({name for _, name, _ in parts})
    waiting = iter(sorted(parts, key=lambda part: (stored.get(part[1], 0), part[1], part[0])))
    chunks = iter(lambda: list(islice(waiting, TRAJECTORIES_AT_ONCE)), [])
    family, screens = exporting.family, exporting.screens
    return exporting.sorted_examples(chunks, stored, lambda episode, row: step_example(family, episode, row, screens))


def _kind_examples(exporting: Exporting, kind: str, form: TrainerFormat) -> Iterator[StepExample | LeftOutStep]:
    """Yield the examples of a kind in a family's words, in the order of their table.

    Raises BadInputError if the release has no such kind.
    """
    release = exporting.release
    folder = exporting.warehouse.release(release.name)
    file = SftExporter(derived_kind=kind).file
    kinds = sorted(path.parent.name for path in folder.glob("*/selection.parquet"))
    if kind not in kinds or not has_rows_of(folder / kind, file):
        known = ", ".join(kinds) or "none"
        raise BadInputError(
            f"release {release.name} has no kind {kind!r}; it has: {known}; "
            "`trajmill derive KIND`, then `trajmill releases make`, adds one"
        )
    released = released_rows(folder / kind, file, ["example_id", "loss_weight", "trajectory_id"])
    weights = dict(tuples(released.select(["example_id", "loss_weight"])))
    stored = exporting.rounds_of(released["trajectory_id"].unique().to_pylist())
    wanted = pa.array(sorted(weights), pa.string())
    rounds = range(release.round + 1)

    def examples() -> Iterator[StepExample | LeftOutStep]:
        seen: set[str] = set()
        for batch in read_batches(exporting.warehouse, "examples", rounds=rounds, run_id=release.run_id):
            chosen = pa.Table.from_batches([batch.filter(pc.is_in(batch["example_id"], wanted))])
            for start in range(0, chosen.num_rows, _ROWS_AT_ONCE):
                rows = rows_from_arrow(Example, chosen.slice(start, _ROWS_AT_ONCE))
                new = [row for row in rows if row.example_id not in seen]
                seen.update(row.example_id for row in new)
                episodes = exporting.episodes({row.trajectory_id for row in new}, stored)
                for row in new:
                    episode, weight = episodes[row.trajectory_id], weights[row.example_id]
                    made = kind_example(exporting.family, episode, row, weight, exporting.screens)
                    if isinstance(made, StepExample) and (reason := form.unusable(made)):
                        made = LeftOutStep(reason)
                    yield made

    return examples()


def compared_trajectories(warehouse: Warehouse, release: Release) -> list[str]:
    """Return the ids of the round's attempts in groups. Raises BadInputError if no group has some to compare."""
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
    """Return the examples of the RL rows of such trajectories by group, trajectory and step; each row is read once."""
    if not trajectory_ids:
        return iter(())
    family, size = exporting.family, exporting.screens.size
    return exporting.sorted_examples(
        _stored_rows(exporting),
        exporting.rounds_of(trajectory_ids),
        lambda episode, row: rl_step_example(family, episode, row, size),
    )


def _stored_rows(exporting: Exporting) -> Iterator[list[tuple[Any, str, list[RLStep]]]]:
    """Yield the rows of some trajectories at a time; rows of one that lie in two row groups come in two parts."""
    release = exporting.release
    for batch in read_batches(exporting.warehouse, "rl_steps", rounds=[release.round], run_id=release.run_id):
        stored = pa.Table.from_batches([batch]).sort_by(_BY_TRAJECTORY)
        del batch
        if not stored.num_rows:
            continue
        names = stored["trajectory_id"].combine_chunks().dictionary_encode().indices.to_numpy()
        cuts = [*np.searchsorted(names, np.arange(0, names[-1] + 1, TRAJECTORIES_AT_ONCE)).tolist(), len(names)]
        for start, end in pairwise(cuts):
            rows = rows_from_arrow(RLStep, stored.slice(start, end - start))
            parts = [list(part) for _, part in groupby(rows, key=lambda row: (row.trajectory_id, row.group))]
            keyed = [((part[0].group, part[0].trajectory_id, part[0].step_index), part) for part in parts]
            del rows, parts
            yield [(key, part[0].trajectory_id, part) for key, part in keyed]
