"""Reads one committed trajectory with everything that was said of it, by its id."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from trajmill.schemas.record import Row
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepVerdict, TrajectoryVerdict
from trajmill.warehouse.lookup import RowLookup
from trajmill.warehouse.read import table_of

R = TypeVar("R", bound=Row)
_READS_AT_ONCE = 4

TRAJECTORY_TABLES = ("trajectories", "queries", "steps", "step_verdicts", "trajectory_verdicts", "judgements")
"""The tables that `read_trajectory` reads of every trajectory; of a guided one it reads `guidance`, too."""


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


def places_of(lookup: RowLookup, start: str) -> list[TrajectoryPlace]:
    """The trajectories whose ids start so."""
    rows = lookup.read("trajectories", TrajectoryPlace._fields, starts={"trajectory_id": start})
    return [TrajectoryPlace(**row) for row in rows.to_pylist()]


def read_trajectory(lookup: RowLookup, place: TrajectoryPlace) -> TrajectoryRecords:
    """Read one trajectory.

    Raises:
        BadInputError: a committed file or an entry of a table's log is missing or damaged.
    """
    where = {"trajectory_id": place.trajectory_id}
    here = _Rows(lookup, place.run_id, [place.round])
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

    lookup: RowLookup
    run_id: str
    rounds: Collection[int] | None

    def of(self, record: type[R], where: Mapping[str, str]) -> list[R]:
        """The rows of a class with these values."""
        table = table_of(record)
        found = self.lookup.read(table, run_id=self.run_id, rounds=self.rounds, where=where)
        return [row for row in rows_from_arrow(table, found) if isinstance(row, record)]
