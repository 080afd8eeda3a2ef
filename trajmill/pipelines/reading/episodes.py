"""Reads queries, committed trajectories as episodes, and the verdicts of one judge.

Workers look queries and hints up by id, so none are sent to them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeVar, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Row
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.schemas.tables.trajectory import Purpose, Step, Trajectory
from trajmill.schemas.tables.verdict import Judgement, JudgeRow, StepVerdict, TrajectoryVerdict
from trajmill.stages.curate.history import History, JudgedAttempt
from trajmill.stages.derive.rl_plan import RewardMoments, RLAttempt, moments, reward_of
from trajmill.warehouse.delta_log import newest_log_entry
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import WantedRows, read_batches, read_rows, read_table, read_tuples, table_of, tuples
from trajmill.warehouse.shards import file_schema

R = TypeVar("R", bound=Row)
_CRITIC: Final = "critic"
_JUDGED = (Purpose.TRAIN, Purpose.GUIDED, Purpose.BRANCH, Purpose.IMPORTED)
"""No judge of a run judges other attempts."""
_READS_AT_ONCE = 4


def queries_of(warehouse: Warehouse, run_id: str) -> Mapping[str, Query]:
    """Read the committed queries of a run by id, in order of id; cached until some are committed."""
    return _queries(warehouse, run_id, newest_log_entry(warehouse, "queries"))


@lru_cache(maxsize=4)
def _queries(warehouse: Warehouse, run_id: str, log_entry: str) -> Mapping[str, Query]:
    rows = read_rows(warehouse, Query, run_id=run_id)
    return {query.query_id: query for query in sorted(rows, key=lambda query: query.query_id)}


def read_episodes(
    warehouse: Warehouse,
    run_id: str,
    trajectory_ids: Collection[str],
    rounds: Collection[int] | None = None,
    with_verdicts: bool = False,
    with_guidance: bool = False,
    with_calls: bool | Literal["critics"] = False,
) -> dict[str, Episode]:
    """Read the episodes of some trajectories by id, in the order of their ids.

    Only files of `rounds` are read, if given. Verdicts are those of the run's own judge; calls are the requests that
    were made during the attempts, or those of the `critics` of all judges. Raises BadInputError if a query is missing.
    """

    def grouped(record: type[R]) -> dict[str, list[R]]:
        if issubclass(record, JudgeRow) and not with_verdicts:
            return {}
        table, found = table_of(record), defaultdict[str, list[R]](list)
        where = {"trajectory_id": trajectory_ids}
        batches = list(read_batches(warehouse, table, rounds=rounds, run_id=run_id, where=where))
        data = pa.Table.from_batches(batches, file_schema(table).remove_metadata())
        data = of_judge(data, None) if issubclass(record, JudgeRow) else data
        for name, row in zip(data["trajectory_id"].to_pylist(), rows_from_arrow(record, data), strict=True):
            found[name].append(row)
        return found

    trajectories = [row for name, rows in sorted(grouped(Trajectory).items()) for row in rows]
    wanted = {"query_id": {row.query_id for row in trajectories}}
    queries = {row.query_id: row for row in read_rows(warehouse, Query, run_id=run_id, where=wanted)}
    if lost := [row.trajectory_id for row in trajectories if row.query_id not in queries]:
        raise BadInputError(f"{warehouse.root}: the query of trajectory {lost[0]} is missing")
    steps, verdicts = grouped(Step), grouped(StepVerdict)
    votes, judgements = grouped(TrajectoryVerdict), grouped(Judgement)
    calls: dict[str, list[ModelCall]] = defaultdict(list)
    where = {"trajectory_id": trajectory_ids}
    # Most rows of the table are a judge's, so it is read batch by batch.
    made = read_batches(warehouse, "model_calls", rounds=rounds, run_id=run_id, where=where)
    for batch in made if with_calls else ():
        chosen = batch.filter(pc.equal(pc.starts_with(batch["role"], _CRITIC), with_calls == "critics"))
        for call in rows_from_arrow(ModelCall, pa.Table.from_batches([chosen])):
            calls[call.trajectory_id or ""].append(call)
    guided = with_guidance and any(trajectory.guidance_id for trajectory in trajectories)
    hints = guidance_texts(warehouse, run_id) if guided else {}
    return {
        name: Episode(
            query=queries[trajectory.query_id],
            trajectory=trajectory,
            guidance=hints[trajectory.guidance_id] if with_guidance and trajectory.guidance_id else "",
            steps=tuple(sorted(steps[name], key=lambda step: step.index)),
            step_verdicts=tuple(sorted(verdicts.get(name, ()), key=lambda verdict: verdict.index)),
            trajectory_verdicts=tuple(sorted(votes.get(name, ()), key=lambda vote: (vote.channel, vote.vote))),
            judgement=next(reversed(judgements.get(name, ())), None),
            calls=tuple(calls[name]),
        )
        for trajectory in trajectories
        for name in [trajectory.trajectory_id]
    }


def read_episodes_of_rounds(
    warehouse: Warehouse,
    run_id: str,
    rounds_of: Mapping[str, int],
    with_verdicts: bool = False,
    with_guidance: bool = False,
    with_calls: bool = False,
    judged_until: int | None = None,
) -> dict[str, Episode]:
    """Read the episodes of trajectories of many rounds by id, in the order of their ids.

    `rounds_of` has the round of each attempt. A judgement of a later round counts, too, up to round `judged_until` if
    given.
    """
    given = (with_verdicts, with_guidance, with_calls)
    found = read_episodes(warehouse, run_id, rounds_of, sorted(set(rounds_of.values())), *given)
    unjudged = {name: episode.trajectory for name, episode in found.items() if episode.judgement is None}
    late = [name for name, trajectory in unjudged.items() if with_verdicts and trajectory.purpose in _JUDGED]
    if late:
        # A later round may have judged what a judge could not decide.
        judged_in = None if judged_until is None else range(judged_until + 1)
        found |= read_episodes(warehouse, run_id, late, judged_in, *given)
    return found


def guidance_texts(warehouse: Warehouse, run_id: str) -> dict[str, str]:
    return dict(read_tuples(warehouse, "guidance", ["guidance_id", "text"], run_id=run_id))


def hints_of(warehouse: Warehouse, run_id: str, trajectory_ids: Collection[str]) -> Mapping[str, str]:
    columns, where = ["trajectory_id", "guidance_id"], {"trajectory_id": trajectory_ids}
    made = read_tuples(warehouse, "trajectories", columns, run_id=run_id, where=where)
    texts = guidance_texts(warehouse, run_id)
    return {trajectory_id: texts[guidance_id] for trajectory_id, guidance_id in made if guidance_id is not None}


class TrajectoryPlace(NamedTuple):
    trajectory_id: str
    run_id: str
    round: int


class TrajectoryRecords(NamedTuple):
    trajectory: Trajectory
    query: Query | None
    guidance: Guidance | None
    steps: tuple[Step, ...]
    step_verdicts: tuple[StepVerdict, ...]
    """In the order of steps and judges; the run's own judge is the first."""
    votes: tuple[TrajectoryVerdict, ...]
    judgements: tuple[Judgement, ...]


def places_of(warehouse: Warehouse, start: str) -> list[TrajectoryPlace]:
    """Find trajectories whose ids begin with `start`. Raises BadInputError if a file or the table's log is damaged."""
    rows = read_table(warehouse, "trajectories", TrajectoryPlace._fields)
    return [TrajectoryPlace(*row) for row in tuples(rows.filter(pc.starts_with(rows["trajectory_id"], start)))]


def read_trajectory(warehouse: Warehouse, place: TrajectoryPlace) -> TrajectoryRecords:
    """Read one trajectory. Raises BadInputError if a committed file or a table's log is missing or damaged."""

    def rows(
        record: type[R], rounds: Collection[int] | None, column: str = "trajectory_id", value: str = place.trajectory_id
    ) -> list[R]:
        return read_rows(warehouse, record, run_id=place.run_id, rounds=rounds, where={column: [value]})

    judged_in: Collection[int] | None = [place.round]
    with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
        steps, judged = pool.submit(rows, Step, judged_in), pool.submit(rows, Judgement, judged_in)
        [trajectory] = rows(Trajectory, judged_in)
        queries = pool.submit(rows, Query, None, "query_id", trajectory.query_id)
        hints = pool.submit(rows, Guidance, None, "guidance_id", trajectory.guidance_id or "")
        judgements = judged.result()
        if trajectory.purpose is not Purpose.EVALUATE and all(row.judge for row in judgements):
            # A later round may have judged what a judge could not decide.
            judged_in, judgements = None, rows(Judgement, None)
        verdicts = pool.submit(rows, StepVerdict, judged_in)
        votes = rows(TrajectoryVerdict, judged_in)
        return TrajectoryRecords(
            trajectory=trajectory,
            query=next(iter(queries.result()), None),
            guidance=next(iter(hints.result()), None),
            steps=tuple(sorted(steps.result(), key=lambda step: step.index)),
            step_verdicts=tuple(sorted(verdicts.result(), key=lambda row: (row.index, row.judge or ""))),
            votes=tuple(sorted(votes, key=lambda row: (row.judge or "", row.channel, row.vote))),
            judgements=tuple(sorted(judgements, key=lambda row: (row.judge or "", row.round))),
        )


_COLLECTED = (Purpose.TRAIN, Purpose.GUIDED)
_ATTEMPT = (
    *("trajectory_id", "query_id", "round", "model_version", "purpose", "status", "stop_reason"),
    *("parent_id", "branched_at"),
)


def read_verdicts(
    warehouse: Warehouse,
    table: str,
    columns: Sequence[str],
    *,
    judge_id: str | None = None,
    **wanted: Unpack[WantedRows],
) -> pa.Table:
    """Read rows of one judge; by default the run's own, which alone decides what is trained on."""
    return of_judge(read_table(warehouse, table, [*columns, "judge_id"], **wanted), judge_id).select(list(columns))


def of_judge(rows: pa.Table, judge_id: str | None) -> pa.Table:
    column = rows["judge_id"]
    return rows.filter(pc.is_null(column) if judge_id is None else pc.equal(column, judge_id))


def read_history(warehouse: Warehouse, run_id: str, before: int) -> History:
    return History.of(read_judged(warehouse, run_id, range(before)))


def read_judged(warehouse: Warehouse, run_id: str, rounds: Collection[int]) -> tuple[JudgedAttempt, ...]:
    """Read the attempts at training queries, guided or not, that the run's own judge has judged, oldest first."""
    correct = _correct(warehouse, run_id=run_id, rounds=rounds)
    columns = ["round", "query_id", "purpose", "attempt", "trajectory_id", "steps"]
    rows = read_tuples(warehouse, "trajectories", columns, rounds=rounds, run_id=run_id)
    return tuple(
        JudgedAttempt(number, query_id, trajectory_id, steps, purpose == Purpose.GUIDED, correct[trajectory_id])
        for number, query_id, purpose, _, trajectory_id, steps in sorted(rows, key=lambda row: row[:4])
        if purpose in _COLLECTED and trajectory_id in correct
    )


def read_rl_attempts(
    warehouse: Warehouse, run_id: str, trajectory_ids: Collection[str], rounds: Collection[int], judged_until: int
) -> list[RLAttempt]:
    """Read what decides groups and rewards of attempts; a judge may decide until round `judged_until`."""
    if not trajectory_ids:
        return []
    where = {"trajectory_id": trajectory_ids}
    rows = read_table(warehouse, "trajectories", _ATTEMPT, rounds=rounds, run_id=run_id, where=where)
    correct = _correct(warehouse, run_id=run_id, rounds=range(min(rounds), judged_until + 1), where=where)
    steps, malformed = _count_replies(warehouse, run_id=run_id, rounds=rounds, where=where)
    splits = dict(read_tuples(warehouse, "queries", ["query_id", "split"], run_id=run_id))
    return [
        RLAttempt(
            **row, split=splits[query_id], steps=steps[name], malformed=malformed[name], correct=correct.get(name)
        )
        for row in rows.to_pylist()
        for name, query_id in [(row["trajectory_id"], row["query_id"])]
    ]


def reward_moments(warehouse: Warehouse, run_id: str, before: int, without: Collection[str]) -> list[RewardMoments]:
    """Read the moments of the rewards of judged unguided attempts, by round before `before`, oldest first."""
    _, malformed = _count_replies(warehouse, run_id=run_id, rounds=range(before))
    rewards: dict[int, list[float]] = defaultdict(list)
    for attempt in read_judged(warehouse, run_id, range(before)):
        if attempt.steps and not attempt.guided and attempt.trajectory_id not in without:
            reward = reward_of(attempt.correct, malformed[attempt.trajectory_id], attempt.steps)
            rewards[attempt.round].append(reward.total)
    return [moments(rewards[number]) for number in sorted(rewards)]


def _correct(warehouse: Warehouse, **wanted: Unpack[WantedRows]) -> Mapping[str, bool]:
    return dict(tuples(read_verdicts(warehouse, "judgements", ["trajectory_id", "correct"], **wanted)))


def _count_replies(warehouse: Warehouse, **wanted: Unpack[WantedRows]) -> tuple[Counter[str], Counter[str]]:
    steps, malformed = Counter[str](), Counter[str]()
    for batch in read_batches(warehouse, "steps", ["trajectory_id", "action_kind"], **wanted):
        names = batch["trajectory_id"]
        unparsed = names.filter(pc.equal(batch["action_kind"], "unparsed"))
        for counter, counted in ((steps, names), (malformed, unparsed)):
            for value in pc.value_counts(counted).to_pylist():
                counter[value["values"]] += value["counts"]
    return steps, malformed
