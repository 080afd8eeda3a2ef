"""Everything about one trajectory: its steps, verdicts of every judge, guidance, and other attempts at its query."""

from __future__ import annotations

from typing import TypeVar

from trajmill.flows.viewer.catalogue import Catalogue
from trajmill.flows.viewer.images import SharedScreens
from trajmill.flows.viewer.listing import AttemptRow
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Record, Row
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.registry import arrow_schema, rows_from_arrow
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepVerdict, TrajectoryVerdict
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table, table_of

R = TypeVar("R", bound=Row)
_NOT_SHOWN = {"reply_token_ids", "reply_logprobs"}
_MOST_OTHERS = 60


class ShownTrajectoryPage(Record):
    """One trajectory."""

    attempt: AttemptRow
    trajectory: Trajectory
    query: Query | None
    """None if the warehouse does not have it."""
    guidance: Guidance | None
    steps: list[Step]
    screens: dict[str, Size | None]
    """Width and height of each screen of the steps by id; None for one that the warehouse does not have."""
    step_verdicts: list[StepVerdict]
    votes: list[TrajectoryVerdict]
    judgements: list[Judgement]
    """Of every judge; the latest of the run's own one counts."""
    others: list[AttemptRow]
    """Other attempts at the query in the run, the newest first."""


def trajectory_page(
    warehouse: Warehouse, catalogue: Catalogue, screens: SharedScreens, run_id: str, trajectory_id: str
) -> ShownTrajectoryPage:
    """Read one trajectory.

    Raises:
        BadInputError: there is none with this id, or a committed file is missing or damaged.
    """
    attempt = _attempt(catalogue, run_id, trajectory_id)
    where = {"trajectory_id": trajectory_id}
    (trajectory,) = _rows(warehouse, Trajectory, run_id, where)[:1]
    queries = _rows(warehouse, Query, run_id, {"query_id": attempt.query_id})
    hints = _rows(warehouse, Guidance, run_id, {"guidance_id": attempt.guidance_id}) if attempt.guidance_id else []
    steps = sorted(_rows(warehouse, Step, run_id, where), key=lambda step: step.index)
    verdicts = _rows(warehouse, StepVerdict, run_id, where)
    votes = _rows(warehouse, TrajectoryVerdict, run_id, where)
    shown = {id_ for step in steps for id_ in (step.screen_before, step.screen_after)}
    stored = screens.knowing(shown)
    return ShownTrajectoryPage(
        attempt=attempt,
        trajectory=trajectory,
        query=queries[0] if queries else None,
        guidance=hints[0] if hints else None,
        steps=steps,
        screens={id_: stored.size(id_) if id_ in stored else None for id_ in sorted(shown)},
        step_verdicts=sorted(verdicts, key=lambda verdict: (verdict.index, verdict.judge or "")),
        votes=sorted(votes, key=lambda vote: (vote.judge or "", vote.channel, vote.resolution, vote.vote)),
        judgements=sorted(_rows(warehouse, Judgement, run_id, where), key=lambda row: (row.judge or "", row.round)),
        others=_others(catalogue, attempt),
    )


def trajectory_named(catalogue: Catalogue, start: str) -> AttemptRow:
    """The attempt whose trajectory id starts so; the newest, if runs share an id.

    Raises:
        BadInputError: there is none, or there are several ids.
    """
    rows = _select(catalogue, "starts_with(trajectory_id, ?)", [start], limit=2)
    if not rows or len({row.trajectory_id for row in rows}) > 1:
        raise BadInputError(f"{'several trajectories start' if rows else 'no trajectory starts'} with {start!r:.40}")
    return rows[0]


def _attempt(catalogue: Catalogue, run_id: str, trajectory_id: str) -> AttemptRow:
    rows = _select(catalogue, "run_id = ? AND trajectory_id = ?", [run_id, trajectory_id], limit=1)
    if not rows:
        raise BadInputError(f"run {run_id!r:.40} has no trajectory {trajectory_id!r:.40}")
    return rows[0]


def _others(catalogue: Catalogue, attempt: AttemptRow) -> list[AttemptRow]:
    condition = "run_id = ? AND query_id = ? AND trajectory_id <> ?"
    parameters: list[object] = [attempt.run_id, attempt.query_id, attempt.trajectory_id]
    return _select(catalogue, condition, parameters, limit=_MOST_OTHERS)


def _select(catalogue: Catalogue, condition: str, parameters: list[object], limit: int) -> list[AttemptRow]:
    columns = ", ".join(AttemptRow.model_fields)
    query = f"SELECT {columns} FROM attempts WHERE {condition} ORDER BY place DESC LIMIT ?"
    return [AttemptRow.model_validate(row) for row in catalogue.ask(query, [*parameters, limit])]


def _rows(warehouse: Warehouse, record: type[R], run_id: str, where: dict[str, str]) -> list[R]:
    table = table_of(record)
    columns = [name for name in arrow_schema(table).names if name not in _NOT_SHOWN]
    data = read_table(warehouse, table, columns, run_id=run_id, where=where)
    return [row for row in rows_from_arrow(table, data) if isinstance(row, record)]
