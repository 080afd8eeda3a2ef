"""Queries of annotated tasks: the tasks of the app files of a simulated world (`source = dag`)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from trajmill.schemas.actions import Terminate
from trajmill.schemas.errors import EnvironmentFailure, StageError
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import PASSED, Query, Split
from trajmill.stages.environments.kinds import FaultRates, SimulatedSpec
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.reference_path import Position, Walker
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.queries.base import (
    Candidate,
    NewQueries,
    Offer,
    QueryWriter,
    SourceContext,
    SplitCandidates,
    UnseenApps,
    failure,
)
from trajmill.stages.queries.generate import QuerySet
from trajmill.stages.queries.leaks import HELDOUT_GOALS, SPARE_GOALS, is_held_out_phrasing, rephrasings, share_goals
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.sampling import TaskGoal, divide_tasks, draw_goals

_FRESH_GOALS = 4 * SPARE_GOALS
"""Goals drawn for each fresh query; most of the first ones may be known already."""
TRAINING_PROFILES = 6
"""Number of device profiles that training has; the query id decides which one a walk uses."""


class TaskSource(NamedTuple):
    world: World
    settings: GraphQueriesSpec
    validator: SimulatedValidator

    async def candidates(self, context: SourceContext) -> Offer:
        """Return goals of all splits; raises BadInputError if an app to hold out does not exist."""
        settings, fresh = self.settings, context.fresh
        seed: tuple[Hashable, ...] = ("fresh", fresh.seed) if fresh else ("generate", context.seed)
        failures: list[Failure] = []

        def derive(*parts: Hashable) -> int:
            return int(content_id(*seed, *parts), 16)

        def draw(tasks: Sequence[TaskGraph], of_task: int) -> list[tuple[TaskGoal, ...]]:
            drawn: list[tuple[TaskGoal, ...]] = []
            for task in tasks:
                try:
                    drawn.append(draw_goals(task, of_task, Random(derive(task.name, "goals"))))
                except StageError as error:
                    refusal = failure(task.name, str(error), context.origin, "grammar-1", error.failure_class)
                    failures.append(refusal)
            return drawn

        def offer(split: Split, number: int | None, shares: Sequence[Sequence[TaskGoal]]) -> SplitCandidates:
            def stream(goals: Sequence[TaskGoal]) -> Iterator[Candidate]:
                for turn in rephrasings(split):
                    for place, goal in enumerate(goals):
                        words = derive(goal.task, split, goal.key, turn)
                        yield Candidate(goal, split, is_held_out_phrasing(split, turn + place), words)

            streams = [stream(goals) for goals in shares if goals]
            Random(derive(split, "order")).shuffle(streams)
            return SplitCandidates(split, number, streams)

        validation_apps = settings.validation_apps(self.world.apps)
        sides = divide_tasks(self.world, settings.heldout_app_names, validation_apps)
        if fresh:
            goals = draw(sides.trained, _FRESH_GOALS * _share(fresh.wanted, sides.trained))
            return Offer((offer(Split.TRAIN, None, goals),), walk=self.walk)
        of_own_apps = settings.validation // 2 if validation_apps else 0
        wanted = {split: settings.wanted(split) for split in Split}
        wanted[Split.VALIDATION] -= of_own_apps
        of_task = {split: SPARE_GOALS * _share(wanted[split], sides.trained) for split in HELDOUT_GOALS}
        of_task[Split.TRAIN] = _share(wanted[Split.TRAIN], sides.trained)
        shares: dict[Split, list[tuple[TaskGoal, ...]]] = {split: [] for split in Split}
        for goals_of_task in draw(sides.trained, SPARE_GOALS * sum(of_task.values())):
            for split, shared in share_goals(goals_of_task, of_task).items():
                shares[split].append(shared)
        heldout = SPARE_GOALS * _share(wanted[Split.HELDOUT_APPS], sides.heldout)
        shares[Split.HELDOUT_APPS] = draw(sides.heldout, heldout)
        own = draw(sides.validation, SPARE_GOALS * _share(of_own_apps, sides.validation))
        offers = [offer(split, wanted[split], shares[split]) for split in Split]
        offers.append(offer(Split.VALIDATION, of_own_apps, own))
        return Offer(tuple(offers), tuple(failures), walk=self.walk)

    async def walk(self, queries: Sequence[Query]) -> NewQueries:
        passed: list[Query] = []
        failures: list[Failure] = []
        for query in queries:
            reason = self.validator.walk(query)
            if reason is None:
                passed.append(query.model_copy(update={"validation": PASSED}))
            else:
                message = f"{query.task}: {reason}: {query.instruction}"
                origin = Origin(round=query.round, run_id=query.run_id, code_version=query.code_version)
                failures.append(failure(query.query_id, message, origin, query.made_by))
        return NewQueries(tuple(passed), tuple(failures))


async def generate_queries(
    world: World,
    settings: GraphQueriesSpec,
    seed: int,
    origin: Origin,
    writer: QueryWriter,
    validator: SimulatedValidator,
    in_flight: int = 1,
    stand_in: QueryWriter | None = None,
) -> NewQueries:
    """Make the walked queries of all splits of a world; equal arguments, `in_flight` apart, give equal queries.

    A query that was dropped or could not be made is a failure with its reason. `stand_in` writes the queries for which
    the writer fails. Raises BadInputError if an app to hold out does not exist, or a phrasing cannot be parsed.
    """
    unseen = UnseenApps(settings.heldout_app_names, settings.validation_app_names)
    source = TaskSource(world, settings, validator)
    offer = await source.candidates(SourceContext(SimulatedSpec(), unseen, seed, origin))
    made = QuerySet([writer, *([stand_in] if stand_in else [])], origin, in_flight=in_flight)
    await made.take(offer, source.walk)
    return made.without_leaks(settings.heldout_app_names)


def _share(wanted: int, tasks: Sequence[TaskGraph]) -> int:
    return math.ceil(wanted / max(len(tasks), 1))


class SimulatedValidator(NamedTuple):
    world: World

    def walk(self, query: Query) -> str | None:
        """Walk the path within the query's step limit; return None if it meets the goal, else the reason."""
        environment = SimulatedEnvironment(self.world, query.platform, FaultRates(popup=0.0))
        try:
            observation = environment.reset_now(query, int(query.query_id, 16) % TRAINING_PROFILES)
            walker, position = Walker(query.path, query.platform), Position()
            for _ in range(query.max_steps):
                action, position = walker.next_action(observation, position)
                if isinstance(action, Terminate):
                    break
                observation = environment.step_now(action)
            else:
                return f"the reference path is not done after {query.max_steps} steps"
            if action.status != "success":
                step = query.path[min(position.step, len(query.path) - 1)]
                return f"the reference path is lost on {step.page}: cannot {step.operation} {step.target}".rstrip()
            score = environment.score_now()
            if score is None:
                return "there is no goal check"
            different = ", ".join(map(str, environment.differences_now()))
        except EnvironmentFailure as error:
            return str(error)
        return None if score == 1.0 else f"the reference path does not meet the goal check ({different})"
