"""Reads one committed trajectory with everything that was said of it, by its id."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import duckdb

from trajmill.schemas.record import Row
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepVerdict, TrajectoryVerdict
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table, table_of
from trajmill.warehouse.store.connection import unreadable
from trajmill.warehouse.views import OFFLINE

R = TypeVar("R", bound=Row)
_READS_AT_ONCE = 4


class TrajectoryPlace(NamedTuple):
    """Where the rows of a trajectory are."""

    trajectory_id: str
    run_id: str
    round: int


class TrajectoryRecords(NamedTuple):
    """A trajectory with its steps, and the verdicts of every judge."""

    trajectory: Trajectory
    query: Query | None
    """None if it is not stored."""
    guidance: Guidance | None
    steps: tuple[Step, ...]
    step_verdicts: tuple[StepVerdict, ...]
    """In the order of steps and judges; the run's own judge is the first."""
    votes: tuple[TrajectoryVerdict, ...]
    judgements: tuple[Judgement, ...]
    """In the order of judges and rounds."""


def places_of(warehouse: Warehouse, start: str) -> list[TrajectoryPlace]:
    """Return the trajectories whose ids start so.

    Raises:
        BadInputError: a committed file or an entry of the table's log is missing or damaged.
    """
    # Ids are hashes, so every file may have one. DuckDB searches hundreds of small files in a third of pyarrow's time.
    with duckdb.connect(config=OFFLINE) as connection:
        warehouse.store.register(connection)
        files = [warehouse.store.uri(warehouse.name(path)) for path in committed_files(warehouse, "trajectories")]
        if not files:
            return []
        try:
            rows = connection.execute(
                "SELECT trajectory_id, run_id, round FROM read_parquet(?, hive_partitioning = false)"
                " WHERE starts_with(trajectory_id, ?)",
                [files, start],
            ).fetchall()
        except duckdb.Error as error:
            raise unreadable(warehouse.store.uri("tables/trajectories"), error) from error
    return [TrajectoryPlace(*row) for row in rows]


def read_trajectory(warehouse: Warehouse, place: TrajectoryPlace) -> TrajectoryRecords:
    """Read one trajectory.

    Raises:
        BadInputError: a committed file or an entry of a table's log is missing or damaged.
    """
    where = {"trajectory_id": place.trajectory_id}
    here = _Rows(warehouse, place.run_id, [place.round])
    anywhere = here._replace(rounds=None)
    with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
        own_steps, own_judgements = pool.submit(here.of, Step, where), pool.submit(here.of, Judgement, where)
        [trajectory] = here.of(Trajectory, where)
        own_queries = pool.submit(anywhere.of, Query, {"query_id": trajectory.query_id})
        hint = {"guidance_id": trajectory.guidance_id or ""}
        own_hints = pool.submit(anywhere.of, Guidance, hint) if trajectory.guidance_id else None
        judged, judgements = here, own_judgements.result()
        if trajectory.purpose is not Purpose.EVALUATE and all(row.judge for row in judgements):
            # What a judge could not decide, a later round may have judged.
            judged, judgements = anywhere, anywhere.of(Judgement, where)
        own_verdicts = pool.submit(judged.of, StepVerdict, where)
        votes = judged.of(TrajectoryVerdict, where)
        queries, hints = own_queries.result(), own_hints.result() if own_hints else []
        return TrajectoryRecords(
            trajectory=trajectory,
            query=queries[0] if queries else None,
            guidance=hints[0] if hints else None,
            steps=tuple(sorted(own_steps.result(), key=lambda step: step.index)),
            step_verdicts=tuple(sorted(own_verdicts.result(), key=lambda row: (row.index, row.judge or ""))),
            votes=tuple(sorted(votes, key=lambda row: (row.judge or "", row.channel, row.vote))),
            judgements=tuple(sorted(judgements, key=lambda row: (row.judge or "", row.round))),
        )


class _Rows(NamedTuple):
    """The rows of a run in some rounds; in all of them if `rounds` is None."""

    warehouse: Warehouse
    run_id: str
    rounds: Collection[int] | None

    def of(self, record: type[R], where: Mapping[str, str]) -> list[R]:
        """The rows of a class with these values."""
        table = table_of(record)
        values = {column: [value] for column, value in where.items()}
        found = read_table(self.warehouse, table, run_id=self.run_id, rounds=self.rounds, where=values)
        return [row for row in rows_from_arrow(table, found) if isinstance(row, record)]
