"""Chooses what rows of a kind remain to be derived from: trajectories, screens, and the successes of each task."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from statistics import fmean
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.flows.stage import RoundContext, tuples
from trajmill.pipelines.derive import DerivedFrom
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.derive.collected import LEARNED_FROM
from trajmill.stages.derive.kind_spec import GuidanceLift
from trajmill.stages.derive.spec import PlanningSpec

_NAMED_TASKS = frozenset({Source.DAG, Source.CURRICULUM})
"""Queries whose `task` names a template; any other query is a task of its own."""


class Attempted(NamedTuple):
    """A finished attempt; the fields are columns of table `trajectories`."""

    trajectory_id: str
    query_id: str
    purpose: str
    steps: int
    reward: float | None


def tasks_of_round(context: RoundContext, done: Collection[str], spec: PlanningSpec) -> list[DerivedFrom]:
    """Return a source for each task with a success in the round that has no manual from it yet, in order of their ids.

    If plans are distilled, a task with attempts and without a success has one, too.

    Args:
        context: the round.
        done: trajectories of the round that a manual was derived from.
        spec: limits how many successes of a task are used; those of other queries come first, then those without
            guidance, and of these the shortest. The first of them is the source.
    """
    attempts, queries, judged = _attempts(context), context.all_queries, _correctness(context)
    tasks = {one.trajectory_id: task_of(queries[one.query_id]) for one in attempts}
    finished = {tasks[trajectory_id] for trajectory_id in done}
    found: dict[str, list[Attempted]] = defaultdict(list)
    failed: dict[str, Attempted] = {}
    # Attempts without guidance first, and of these the shortest.
    for one in sorted(attempts, key=lambda one: (one.purpose == Purpose.GUIDED, one.steps, one.trajectory_id)):
        task, split = tasks[one.trajectory_id], queries[one.query_id].split
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
        # Each query comes once before any comes again.
        turns, before = [], Counter[str]()
        for one in made:
            turns.append((before[one.query_id], one.trajectory_id))
            before[one.query_id] += 1
        first, *others = (name for _, name in sorted(turns, key=itemgetter(0))[: spec.successes])
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
    for (task, _), passed in rewarded.items():
        if len(passed) == len((Purpose.TRAIN, Purpose.GUIDED)):
            compared[task].append(GuidanceLift(fmean(passed[Purpose.TRAIN]), fmean(passed[Purpose.GUIDED])))
    return {
        task: GuidanceLift(fmean(one.without for one in each), fmean(one.guided for one in each))
        for task, each in compared.items()
    }


def task_of(query: Query) -> str:
    """The task of a query: its template, or the query itself without one."""
    return query.task if query.source in _NAMED_TASKS else query.query_id


def sources_of_round(context: RoundContext, done: Collection[str], once_per_screen: bool) -> list[DerivedFrom]:
    """Return the judged training trajectories of a round that nothing was derived from yet, in order of their ids.

    Args:
        context: the round.
        done: trajectories of the round that rows were derived from.
        once_per_screen: use each screen only once in the run, in the first step that shows it.
    """
    learned = {one.trajectory_id for one in _attempts(context) if one.purpose in LEARNED_FROM}
    judged = sorted(learned & set(_correctness(context)))
    if not once_per_screen:
        return [DerivedFrom(trajectory_id) for trajectory_id in judged if trajectory_id not in done]
    earlier = context.read("steps", ["screen_before"], range(context.round))["screen_before"].combine_chunks()
    steps = context.read("steps", ["trajectory_id", "index", "screen_before"], [context.round])
    steps = steps.filter(pc.is_in(steps["trajectory_id"], pa.array(judged, pa.string())))
    new = steps.filter(pc.invert(pc.is_in(steps["screen_before"], earlier)))
    shown: set[str] = set()
    firsts: dict[str, tuple[int, ...]] = {}
    for trajectory_id, index, screen_id in sorted(tuples(new)):
        if screen_id not in shown:
            shown.add(screen_id)
            firsts[trajectory_id] = (*firsts.get(trajectory_id, ()), index)
    return [DerivedFrom(trajectory_id, steps_) for trajectory_id, steps_ in firsts.items() if trajectory_id not in done]


def _attempts(context: RoundContext) -> list[Attempted]:
    rows = context.read("trajectories", [*Attempted._fields, "status"], [context.round])
    finished = rows.filter(pc.equal(rows["status"], "finished")).select(Attempted._fields)
    return [Attempted(*values) for values in tuples(finished)]


def _correctness(context: RoundContext) -> Mapping[str, bool]:
    """By judged trajectory, whether it is correct; a late judgement has a later round than its trajectory."""
    return dict(tuples(context.read_judgements("trajectory_id", "correct")))
