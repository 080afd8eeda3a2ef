"""Chooses what rows of a kind are still to be derived from: trajectories, screens, and the successes of each task."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from statistics import fmean
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.flows.context import RoundContext
from trajmill.pipelines.derive import DerivedFrom
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.derive.base import LEARNED_FROM
from trajmill.stages.derive.kind_spec import GuidanceLift
from trajmill.stages.derive.spec import PlanningSpec
from trajmill.warehouse.read import read_table

_NAMED_TASKS = frozenset({Source.DAG, Source.CURRICULUM})
"""Queries whose `task` names a template; any other query is a task of its own."""


class Attempted(NamedTuple):
    """What is read of a finished attempt; the fields are columns of table `trajectories`."""

    trajectory_id: str
    query_id: str
    purpose: str
    steps: int
    reward: float | None


def tasks_of_round(context: RoundContext, done: Collection[str], spec: PlanningSpec) -> list[DerivedFrom]:
    """One source for each task with a success in the round that has no manual from it yet, in the order of their ids.

    Where plans are distilled, a task with attempts and without a success has one, too.

    Args:
        context: the round.
        done: trajectories of the round that a manual was derived from.
        spec: says how many successes of a task are used; those of other queries come first, then those without
            guidance, and of these the shortest. The first of them is the source.
    """
    attempts = _attempts(context)
    tasks = {one.trajectory_id: task_of(context.all_queries[one.query_id]) for one in attempts}
    finished = {tasks[trajectory_id] for trajectory_id in done}
    judged = _correctness(context)
    found: dict[str, list[Attempted]] = defaultdict(list)
    failed: dict[str, Attempted] = {}
    for one in sorted(attempts, key=_plainest_first):
        task, split = tasks[one.trajectory_id], context.all_queries[one.query_id].split
        if one.purpose not in LEARNED_FROM or split is not Split.TRAIN or task in finished:
            continue
        if judged.get(one.trajectory_id):
            found[task].append(one)
        elif one.trajectory_id in judged:
            failed.setdefault(task, one)
    if spec.distil:
        found.update({task: [one] for task, one in failed.items() if task not in found})
    lifts = lifts_by_task(attempts, tasks)
    sources = []
    for task, made in found.items():
        first, *others = (one.trajectory_id for one in _of_other_queries_first(made)[: spec.successes])
        sources.append(DerivedFrom(first, None, tuple(others), lifts.get(task)))
    return sorted(sources)


def lifts_by_task(attempts: Sequence[Attempted], tasks: Mapping[str, str]) -> dict[str, GuidanceLift]:
    """Success with and without guidance by task, as view `guidance_lift` compares it by round.

    Only queries count that were attempted in both ways; each counts once, by the mean of its attempts.

    Args:
        attempts: of one round.
        tasks: the task of each trajectory.
    """
    rewarded: dict[tuple[str, str], dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for one in attempts:
        if one.reward is not None and one.purpose in (Purpose.TRAIN, Purpose.GUIDED):
            rewarded[tasks[one.trajectory_id], one.query_id][one.purpose].append(one.reward >= 1)
    compared: dict[str, list[GuidanceLift]] = defaultdict(list)
    for (task, _), ways in rewarded.items():
        if len(ways) == len((Purpose.TRAIN, Purpose.GUIDED)):
            compared[task].append(GuidanceLift(fmean(ways[Purpose.TRAIN]), fmean(ways[Purpose.GUIDED])))
    return {
        task: GuidanceLift(fmean(one.without for one in each), fmean(one.guided for one in each))
        for task, each in compared.items()
    }


def _plainest_first(attempt: Attempted) -> tuple[bool, int, str]:
    return attempt.purpose == Purpose.GUIDED, attempt.steps, attempt.trajectory_id


def _of_other_queries_first(attempts: Sequence[Attempted]) -> list[Attempted]:
    """Attempts in an order in which each query comes once before any comes again, and else as they were."""
    seen: Counter[str] = Counter()
    turns = []
    for one in attempts:
        turns.append((seen[one.query_id], one))
        seen[one.query_id] += 1
    return [one for _, one in sorted(turns, key=itemgetter(0))]


def task_of(query: Query) -> str:
    """The task of a query: its template, or the query itself where it has none."""
    return query.task if query.source in _NAMED_TASKS else query.query_id


def _attempts(context: RoundContext) -> list[Attempted]:
    columns = [*Attempted._fields, "status"]
    rows = read_table(context.warehouse, "trajectories", columns, rounds=[context.round], run_id=context.run_id)
    finished = rows.filter(pc.equal(rows["status"], "finished")).select(Attempted._fields)
    return [Attempted(*values) for values in zip(*(column.to_pylist() for column in finished.columns), strict=True)]


def _correctness(context: RoundContext) -> Mapping[str, bool]:
    """By judged trajectory, whether it is correct."""
    # A late judgement stands in a later round than its trajectory.
    rows = read_verdicts(context.warehouse, "judgements", ["trajectory_id", "correct"], run_id=context.run_id)
    return dict(zip(rows["trajectory_id"].to_pylist(), rows["correct"].to_pylist(), strict=True))


def sources_of_round(context: RoundContext, done: Collection[str], once_per_screen: bool) -> list[DerivedFrom]:
    """The judged training trajectories of a round that nothing was derived from yet, in the order of their ids.

    Args:
        context: the round.
        done: trajectories of the round that rows were derived from.
        once_per_screen: whether each screen is used only once in the run, in the first step that it is seen in.
    """
    judged = _judged(context)
    if not once_per_screen:
        return [DerivedFrom(trajectory_id) for trajectory_id in sorted(judged - set(done))]
    firsts = _first_views(context, judged)
    return [DerivedFrom(trajectory_id, firsts[trajectory_id]) for trajectory_id in sorted(set(firsts) - set(done))]


def _judged(context: RoundContext) -> set[str]:
    columns = ["trajectory_id", "status", "purpose"]
    rows = read_table(context.warehouse, "trajectories", columns, rounds=[context.round], run_id=context.run_id)
    kept = rows.filter(
        pc.and_(
            pc.equal(rows["status"], "finished"),
            pc.is_in(rows["purpose"], pa.array(sorted(LEARNED_FROM), pa.string())),
        )
    )
    return set(kept["trajectory_id"].to_pylist()) & set(_correctness(context))


def _first_views(context: RoundContext, judged: Collection[str]) -> Mapping[str, tuple[int, ...]]:
    """By trajectory, the steps that are the first of the run to show the screen before them."""
    columns = ["trajectory_id", "index", "screen_before"]
    earlier = read_table(
        context.warehouse, "steps", ["screen_before"], rounds=range(context.round), run_id=context.run_id
    )
    steps = read_table(context.warehouse, "steps", columns, rounds=[context.round], run_id=context.run_id)
    steps = steps.filter(pc.is_in(steps["trajectory_id"], pa.array(sorted(judged), pa.string())))
    new = steps.filter(pc.invert(pc.is_in(steps["screen_before"], earlier["screen_before"].combine_chunks())))
    ordered = new.sort_by([("trajectory_id", "ascending"), ("index", "ascending")])
    return _grouped(*(column.to_pylist() for column in ordered.columns))


def _grouped(
    trajectories: Sequence[str], indices: Sequence[int], screens: Sequence[str]
) -> Mapping[str, tuple[int, ...]]:
    seen: set[str] = set()
    found: dict[str, tuple[int, ...]] = {}
    for trajectory_id, index, screen_id in zip(trajectories, indices, screens, strict=True):
        if screen_id not in seen:
            seen.add(screen_id)
            found[trajectory_id] = (*found.get(trajectory_id, ()), index)
    return found
