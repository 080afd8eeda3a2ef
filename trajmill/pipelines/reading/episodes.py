"""Reads queries, and committed trajectories with their steps and verdicts as episodes.

Workers look queries and hints up by id, so none are sent to them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.reading.verdicts import of_judge
from trajmill.schemas.episode import Episode
from trajmill.schemas.record import Row
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import INFEASIBLE, RECORDED, Query
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepVerdict, TrajectoryVerdict
from trajmill.warehouse.columns import file_schema
from trajmill.warehouse.delta_log import Between, newest_log_entry
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_batches, read_rows, read_table

R = TypeVar("R", bound=Row)
_FEW_QUERIES = 10
_NOT_ATTEMPTED = frozenset({RECORDED, INFEASIBLE})
_CRITIC: Final = "critic"
"""Prefix of the roles of critics, which are no roles of an agent."""
_ORDER: Final = ("reflector", "notetaker", "state_tracker", "manager", "coordinator", "planner")
"""Order of these roles within a step; the role that acts is last."""
_JUDGED = (Purpose.TRAIN, Purpose.GUIDED, Purpose.IMPORTED)
"""No judge of a run is asked about other attempts."""
_FEW_OF_ROUND = 100
"""So many trajectories of one round, of a thousand or more, are found one by one."""


def queries_of(warehouse: Warehouse, run_id: str) -> Mapping[str, Query]:
    """The committed queries of a run by id, in order of id.

    A round may add queries, so they are read again after each commit. Keep the mapping to look up many queries.
    """
    return _as_of(warehouse, run_id, newest_log_entry(warehouse, "queries"))


def attemptable(queries: Mapping[str, Query]) -> Mapping[str, Query]:
    """The queries that an environment can start: all but those of imported recordings and refused proposals."""
    if all(query.validation not in _NOT_ATTEMPTED for query in queries.values()):
        return queries
    return {query_id: query for query_id, query in queries.items() if query.validation not in _NOT_ATTEMPTED}


def queries_named(warehouse: Warehouse, run_id: str, query_ids: Collection[str]) -> Mapping[str, Query]:
    """Some committed queries of a run by id; for a few, this is faster than `queries_of`."""
    rows = read_table(warehouse, "queries", run_id=run_id)
    chosen = rows.filter(pc.is_in(rows["query_id"], pa.array(sorted(query_ids), pa.string())))
    return {row.query_id: row for row in rows_from_arrow("queries", chosen) if isinstance(row, Query)}


@lru_cache(maxsize=4)
def _as_of(warehouse: Warehouse, run_id: str, log_entry: str) -> Mapping[str, Query]:
    rows = read_rows(warehouse, Query, run_id=run_id)
    return {query.query_id: query for query in sorted(rows, key=lambda query: query.query_id)}


def read_episodes(
    warehouse: Warehouse,
    run_id: str,
    trajectory_ids: Collection[str],
    rounds: Collection[int] | None = None,
    with_verdicts: bool = False,
    with_guidance: bool = False,
    with_calls: bool = False,
) -> list[Episode]:
    """Read the episodes of some trajectories, in the order of their ids.

    Args:
        warehouse: where to read.
        run_id: the run of the trajectories.
        trajectory_ids: the trajectories to read.
        rounds: rounds of these trajectories, to read less; None reads all rounds.
        with_verdicts: whether to read the step verdicts, votes and judgement of the run's own judge.
        with_guidance: whether to read the guidance of the attempts.
        with_calls: whether to read the requests that were made during the attempts, not those of the judge.
    """
    chosen = _Chosen(run_id, pa.array(sorted(trajectory_ids), pa.string()), rounds)
    return _episodes(warehouse, chosen, with_verdicts, with_guidance, with_calls)


def _episodes(
    warehouse: Warehouse, chosen: _Chosen, with_verdicts: bool, with_guidance: bool, with_calls: bool
) -> list[Episode]:
    run_id = chosen.run_id
    trajectories = _rows(warehouse, "trajectories", Trajectory, chosen)
    query_ids = {trajectory.query_id for trajectory in trajectories}
    few = len(query_ids) < _FEW_QUERIES
    queries = queries_named(warehouse, run_id, query_ids) if few else queries_of(warehouse, run_id)
    steps: dict[str, list[Step]] = defaultdict(list)
    for step in _rows(warehouse, "steps", Step, chosen):
        steps[step.trajectory_id].append(step)
    verdicts: dict[str, list[StepVerdict]] = defaultdict(list)
    votes: dict[str, list[TrajectoryVerdict]] = defaultdict(list)
    judgements: dict[str, Judgement] = {}
    if with_verdicts:
        for verdict in _verdicts(warehouse, "step_verdicts", StepVerdict, chosen):
            verdicts[verdict.trajectory_id].append(verdict)
        for vote in _verdicts(warehouse, "trajectory_verdicts", TrajectoryVerdict, chosen):
            votes[vote.trajectory_id].append(vote)
        found = _verdicts(warehouse, "judgements", Judgement, chosen)
        judgements = {judgement.trajectory_id: judgement for judgement in found}
    calls: dict[str, list[ModelCall]] = defaultdict(list)
    if with_calls:
        for call in _rollout_calls(warehouse, chosen):
            calls[call.trajectory_id or ""].append(call)
    guided = with_guidance and any(trajectory.guidance_id for trajectory in trajectories)
    hints = guidance_texts(warehouse, run_id) if guided else {}
    return [
        Episode(
            query=queries[trajectory.query_id],
            trajectory=trajectory,
            guidance=hints[trajectory.guidance_id] if with_guidance and trajectory.guidance_id else "",
            steps=tuple(sorted(steps[trajectory.trajectory_id], key=lambda step: step.index)),
            step_verdicts=tuple(sorted(verdicts[trajectory.trajectory_id], key=lambda verdict: verdict.index)),
            trajectory_verdicts=tuple(
                sorted(votes[trajectory.trajectory_id], key=lambda vote: (vote.channel, vote.vote))
            ),
            judgement=judgements.get(trajectory.trajectory_id),
            calls=tuple(calls[trajectory.trajectory_id]),
        )
        for trajectory in sorted(trajectories, key=lambda row: row.trajectory_id)
    ]


def read_episodes_of_rounds(
    warehouse: Warehouse,
    run_id: str,
    rounds_of: Mapping[str, int],
    with_verdicts: bool = False,
    with_guidance: bool = False,
    judged_until: int | None = None,
) -> list[Episode]:
    """Read the episodes of a few trajectories of many rounds, in the order of their ids, and of no others.

    Args:
        warehouse: where to read.
        run_id: the run of the trajectories.
        rounds_of: by trajectory id, the round of its attempt.
        with_verdicts: as in `read_episodes`.
        with_guidance: as in `read_episodes`.
        judged_until: the last round whose judgements count; None for the newest.
    """
    by_round: dict[int, list[str]] = defaultdict(list)
    for trajectory_id, number in rounds_of.items():
        by_round[number].append(trajectory_id)
    few = {number: names for number, names in by_round.items() if len(names) <= _FEW_OF_ROUND}
    found = [
        episode
        for number, names in sorted(by_round.items())
        if number not in few
        for episode in read_episodes(warehouse, run_id, names, [number], with_verdicts, with_guidance)
    ]
    if few:
        names = [name for of_round in few.values() for name in of_round]
        found += _looked_up(warehouse, run_id, names, sorted(few), with_verdicts, with_guidance)
    by_id = {episode.trajectory.trajectory_id: episode for episode in found}
    unjudged = [episode.trajectory for episode in by_id.values() if with_verdicts and episode.judgement is None]
    late = [trajectory.trajectory_id for trajectory in unjudged if trajectory.purpose in _JUDGED]
    if late:
        # What a judge could not decide, a later round may have judged.
        judged_in = None if judged_until is None else range(judged_until + 1)
        again = _looked_up(warehouse, run_id, late, judged_in, with_verdicts, with_guidance)
        by_id |= {episode.trajectory.trajectory_id: episode for episode in again}
    return [by_id[name] for name in sorted(by_id)]


def rounds_of(
    warehouse: Warehouse, run_id: str, trajectory_ids: Collection[str], rounds: Collection[int]
) -> Mapping[str, int]:
    """The round of each of some trajectories, by id; those that are in none of `rounds` are left out."""
    wanted = pa.array(sorted(trajectory_ids), pa.string())
    found: dict[str, int] = {}
    for batch in read_batches(warehouse, "trajectories", ["trajectory_id", "round"], rounds=rounds, run_id=run_id):
        chosen = batch.filter(pc.is_in(batch["trajectory_id"], wanted))
        found.update(zip(*(column.to_pylist() for column in chosen.columns), strict=True))
    return found


def _looked_up(
    warehouse: Warehouse,
    run_id: str,
    names: Collection[str],
    rounds: Collection[int] | None,
    with_verdicts: bool,
    with_guidance: bool,
) -> list[Episode]:
    """Read episodes that lie scattered, without decoding what lies between them."""
    chosen = _Chosen(run_id, pa.array(sorted(names), pa.string()), rounds, scattered=True)
    return _episodes(warehouse, chosen, with_verdicts, with_guidance, with_calls=False)


def _rollout_calls(warehouse: Warehouse, chosen: _Chosen) -> Iterator[ModelCall]:
    """The calls of some trajectories; most rows of the table are a judge's, so it is read batch by batch."""
    stored = read_batches(warehouse, "model_calls", rounds=chosen.rounds, run_id=chosen.run_id, between=chosen.bounds)
    for batch in stored:
        wanted = pc.and_(
            pc.is_in(batch["trajectory_id"], chosen.ids), pc.invert(pc.starts_with(batch["role"], _CRITIC))
        )
        found = pa.Table.from_batches([batch.filter(wanted)])
        yield from _records("model_calls", ModelCall, found)


def read_role_calls(
    warehouse: Warehouse, run_id: str, trajectory_ids: Collection[str], rounds: Collection[int] | None = None
) -> Mapping[str, tuple[ModelCall, ...]]:
    """The answered calls of an agent's roles by trajectory, in the order of steps and, in a step, of the roles.

    Args:
        warehouse: where to read.
        run_id: the run of the trajectories.
        trajectory_ids: the trajectories.
        rounds: rounds of these trajectories, to read less; None reads all rounds.
    """
    calls: dict[str, list[ModelCall]] = defaultdict(list)
    for call in _rollout_calls(warehouse, _Chosen(run_id, pa.array(sorted(trajectory_ids), pa.string()), rounds)):
        if call.response is not None and call.trajectory_id is not None and call.step_index is not None:
            calls[call.trajectory_id].append(call)
    return {name: tuple(sorted(found, key=_place)) for name, found in calls.items()}


def _place(call: ModelCall) -> tuple[int, int]:
    order = _ORDER.index(call.role) if call.role in _ORDER else len(_ORDER)
    return call.step_index or 0, order


def guidance_texts(warehouse: Warehouse, run_id: str) -> dict[str, str]:
    """Read all hints of a run, by guidance id."""
    rows = read_table(warehouse, "guidance", ["guidance_id", "text"], run_id=run_id)
    return dict(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def hints_of(warehouse: Warehouse, run_id: str, trajectory_ids: Collection[str]) -> Mapping[str, str]:
    """The hints of some trajectories, by trajectory id; a trajectory without guidance has none."""
    made = read_table(warehouse, "trajectories", ["trajectory_id", "guidance_id"], run_id=run_id)
    wanted = pc.and_(
        pc.is_in(made["trajectory_id"], pa.array(sorted(trajectory_ids), pa.string())), pc.is_valid(made["guidance_id"])
    )
    given = zip(*(column.to_pylist() for column in made.filter(wanted).columns), strict=True)
    texts = guidance_texts(warehouse, run_id)
    return {trajectory_id: texts[guidance_id] for trajectory_id, guidance_id in given}


class _Chosen(NamedTuple):
    """The trajectories to read."""

    run_id: str
    ids: pa.Array
    """Sorted."""
    rounds: Collection[int] | None
    scattered: bool = False
    """Whether to look each row up instead of reading all rows between the first and the last."""

    @property
    def bounds(self) -> Between | None:
        """The least and the greatest id: shards are sorted by it, so that neighbours are read without the others."""
        return Between("trajectory_id", self.ids[0].as_py(), self.ids[-1].as_py()) if len(self.ids) else None


def _verdicts(warehouse: Warehouse, table: str, record: type[R], chosen: _Chosen) -> list[R]:
    return _records(table, record, of_judge(_read(warehouse, table, chosen), None))


def _rows(warehouse: Warehouse, table: str, record: type[R], chosen: _Chosen) -> list[R]:
    return _records(table, record, _read(warehouse, table, chosen))


def _read(warehouse: Warehouse, table: str, chosen: _Chosen) -> pa.Table:
    """Rows of these trajectories alone are held, though far more may lie between the least and the greatest id."""
    if chosen.scattered:
        where = {"trajectory_id": chosen.ids.to_pylist()}
        return read_table(warehouse, table, run_id=chosen.run_id, rounds=chosen.rounds, where=where)
    stored = read_batches(warehouse, table, rounds=chosen.rounds, run_id=chosen.run_id, between=chosen.bounds)
    found = [batch.filter(pc.is_in(batch["trajectory_id"], chosen.ids)) for batch in stored]
    return pa.Table.from_batches(found, file_schema(table).remove_metadata())


def _records(table: str, record: type[R], data: pa.Table) -> list[R]:
    return [row for row in rows_from_arrow(table, data) if isinstance(row, record)]
