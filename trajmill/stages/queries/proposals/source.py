"""New tasks proposed by a model: a curriculum from human tasks (CODA 3.4), or from a start screenshot (paper 6.2).

A proposal has no annotated path and no programmatic check: only critics judge attempts at it. A file of example tasks
has one JSON object per line, e.g. `{"instruction": "Order me a pizza", "platform": "phone", "apps": ["bites"]}`, and
maybe a `start_state` in the form that the environment's reset takes.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.schemas.record import Origin, Record, content_id, seed_of
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import FEASIBLE, INFEASIBLE, Platform, Query, Source, Split
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.environments.tasks import bare_query, read_task_lines
from trajmill.stages.models.base import ChatModel, MessagePart
from trajmill.stages.models.prompts import PromptedModel, Sampling
from trajmill.stages.overlap import KnownTexts
from trajmill.stages.queries.base import STEP_CAP, Offer, QueryPlan, SourceContext, failure
from trajmill.stages.queries.written import (
    BATCH,
    LONGEST_QUOTE,
    ROLE,
    TEMPERATURE,
    QueryPrompts,
    Wording,
    WrittenGoal,
    bullets,
    collect,
    offer_of,
)

STAGE = "propose"
TRIAL_STAGE = "try_proposals"
PROPOSED = frozenset({Source.CURRICULUM, Source.SCREENSHOT})
"""Sources of the queries that a model proposed; they have no programmatic check."""
UNCHECKED = "proposed, without a path to walk"
MAX_STEPS = (15, 25, STEP_CAP)
"""Step limit by difficulty 1 to 3; there is no path whose steps could be counted."""
SPARE_REQUESTS = 2
"""Additional requests for a starting point, to replace refused tasks."""
RELIABLE = 0.7
"""Lowest success of a task that the policy does reliably."""
FAILING = 0.25
_MOST_LISTED = 30
"""Most tasks of a kind in a prompt; the newest are listed."""
_LONGEST_LISTED = 300
_MAX_TOKENS = 2048
_TRIES = 3


class HumanTask(Record):
    instruction: str = Field(min_length=1)
    platform: Platform
    apps: tuple[str, ...]
    start_state: dict[str, Any] = {}


def read_human_tasks(path: Path) -> tuple[HumanTask, ...]:
    """Read the tasks of a file; BadInputError if it cannot be read or has none, with a line for each wrong one."""
    return tuple(read_task_lines(path, HumanTask.model_validate_json))


class TaskSuccess(NamedTuple):
    instruction: str
    platform: Platform
    apps: tuple[str, ...]
    success: float
    """Share of the judged attempts that were correct, 0 to 1."""


class StartingPoint(NamedTuple):
    platform: Platform
    apps: tuple[str, ...]
    start_state: str = "{}"
    examples: tuple[str, ...] = ()
    successes: tuple[TaskSuccess, ...] = ()
    screen: Observation | ScreenHandle | None = None
    """Its first screen, from which tasks are proposed; None for a curriculum."""

    @property
    def source(self) -> Source:
        return Source.CURRICULUM if self.screen is None else Source.SCREENSHOT

    @property
    def id(self) -> str:
        screen = self.screen.screen if isinstance(self.screen, Observation) else self.screen
        return content_id("ground", self.platform, self.apps, self.start_state, screen.screen_id if screen else "")


def curriculum_starting_points(
    tasks: Iterable[HumanTask], successes: Iterable[TaskSuccess] = ()
) -> tuple[StartingPoint, ...]:
    """Make one starting point per set of apps and start state, in order of their first task (CODA 3.4)."""
    examples: dict[tuple[Platform, tuple[str, ...], str], list[str]] = defaultdict(list)
    for task in tasks:
        examples[task.platform, task.apps, json.dumps(task.start_state, sort_keys=True)].append(task.instruction)
    by_apps: dict[tuple[Platform, tuple[str, ...]], list[TaskSuccess]] = defaultdict(list)
    for success in successes:
        by_apps[success.platform, success.apps].append(success)
    return tuple(
        StartingPoint(platform, apps, start_state, tuple(written), tuple(by_apps[platform, apps]))
        for (platform, apps, start_state), written in examples.items()
    )


def in_turn(starts: Sequence[StartingPoint], wanted: int, round_number: int) -> Sequence[StartingPoint]:
    first = (round_number - 1) * wanted % len(starts) if starts else 0
    return [*starts[first:], *starts[:first]][:wanted]


class StartScreens(NamedTuple):
    screens: dict[str, Observation]
    """By id of the starting point; one whose start state cannot be reached is missing."""
    failures: tuple[Failure, ...]


async def start_screens(
    starts: Sequence[StartingPoint],
    factory: Callable[[Platform], EnvironmentFactory],
    seed: Callable[[StartingPoint], int],
    origin: Origin,
    at_once: int = 1,
) -> StartScreens:
    pools = {platform: EnvironmentPool(factory(platform), at_once) for platform in {each.platform for each in starts}}
    screens: dict[str, Observation] = {}

    async def read(start: StartingPoint) -> Failure | None:
        name = start.apps[0] if start.apps else ""
        reason = EnvironmentFailure("no environment is to be tried", FailureClass.SETUP)
        for _ in range(_TRIES):
            try:
                async with pools[start.platform].lease() as environment:
                    if environment.platform is not start.platform:
                        text = f"its platform is {start.platform}, the environment is a {environment.platform}"
                        raise EnvironmentFailure(text, FailureClass.SETUP)
                    made_by, state = environment.name, start.start_state
                    bare = bare_query(start.platform, name, state, start.source, origin, made_by)
                    query = bare.model_copy(update={"apps": start.apps})
                    screens[start.id] = await environment.reset(query, seed(start))
                    return None
            except EnvironmentFailure as error:
                reason = error
                if error.failure_class is FailureClass.UNREACHABLE:
                    break
        message = f"{', '.join(start.apps) or start.platform}: the start state cannot be reached: {reason}"
        return failure(start.id, message, origin, STAGE, reason.failure_class, _TRIES, STAGE)

    try:
        failed = await asyncio.gather(*map(read, starts))
    finally:
        for pool in pools.values():
            await pool.close()
    return StartScreens(screens, tuple(each for each in failed if each))


class ProposedTask(Wording):
    difficulty: Annotated[int, Field(ge=1, le=3)]


class ProposalAnswer(Record):
    tasks: Annotated[tuple[ProposedTask, ...], Field(min_length=1, max_length=2 * BATCH)]


class ProposalSource(NamedTuple):
    """Lets a model propose `wanted` new tasks, divided evenly between the starting points.

    A task is refused if it repeats one of the `existing` queries (of every split), an example or another new task. The
    model never sees held-out queries; it must read images if a starting point has a screen.
    """

    model: ChatModel
    prompts: QueryPrompts
    starts: Sequence[StartingPoint]
    existing: Sequence[Query]
    wanted: int

    async def candidates(self, context: SourceContext) -> Offer:
        """Return the tasks, each refused one as a failure; raises BadInputError if datasketch is not installed."""
        free, known = asyncio.Semaphore(context.instances), KnownTexts(query.instruction for query in self.existing)
        share, left = divmod(self.wanted, max(len(self.starts), 1))
        asked = (
            self._propose(start, share + (number < left), known, context, free)
            for number, start in enumerate(self.starts)
        )
        made = await asyncio.gather(*asked)
        goals: dict[tuple[str, str], WrittenGoal] = {}
        failures: list[Failure] = []
        for start, (proposed, refused) in zip(self.starts, made, strict=True):
            failures += refused
            for goal in proposed:
                # Of two tasks with the same words on one platform the second is refused.
                if goals.setdefault((start.platform, goal.text.casefold()), goal) is not goal:
                    text = f"{start.source}: the same words as on another starting point: {goal.text[:LONGEST_QUOTE]}"
                    query_id = Query.make_id(start.platform, goal.task, (), start.start_state, goal.text)
                    failures.append(failure(query_id, text, context.origin, goal.made_by, stage=STAGE))
        return offer_of(goals.values(), failures)

    async def _propose(
        self, start: StartingPoint, wanted: int, known: KnownTexts, context: SourceContext, free: asyncio.Semaphore
    ) -> tuple[list[WrittenGoal], list[Failure]]:
        prompted = PromptedModel(self.model, self.prompts.curriculum if start.screen is None else self.prompts.screen)
        shown = [each.instruction for each in self.existing if each.split is Split.TRAIN and each.apps == start.apps]
        failures: list[Failure] = []

        def refuse(text: str, reason: str, failure_class: FailureClass = FailureClass.TASK) -> None:
            input_id = content_id("proposal", start.id, text) if text else start.id
            message = f"{start.source}: {reason}"
            failures.append(failure(input_id, message, context.origin, prompted.version, failure_class, stage=STAGE))

        async def ask(texts: list[str], count: int, request: int) -> tuple[ProposedTask, ...]:
            fields = {
                "apps": ", ".join(start.apps) or "(the whole device)",
                "platform": start.platform.value,
                "examples": _listed(start.examples),
                "known": _listed([*shown, *texts]),
                "count": str(count),
            }
            screen: tuple[MessagePart, ...] = ()
            if start.screen is not None:
                screen = ("\nThe screen:\n", start.screen)
            else:
                ranges = {"reliable": (RELIABLE, 2.0), "sometimes": (FAILING, RELIABLE), "failing": (-1.0, FAILING)}
                for name, (low, high) in ranges.items():
                    fields[name] = _listed([task.instruction for task in start.successes if low <= task.success < high])
            seed = seed_of("propose", start.id, context.seed + request)
            sampling = Sampling(TEMPERATURE, seed=seed, max_tokens=_MAX_TOKENS)
            return (await prompted.ask(prompted.request(ROLE, fields, screen, sampling), ProposalAnswer)).tasks

        if heldout := sorted(set(start.apps) & set(context.unseen.heldout)):
            refuse("", f"training must not see the app {heldout[0]}: it is held out")
            return [], failures
        async with free:
            kept = await collect(wanted, SPARE_REQUESTS, KnownTexts(start.examples, shared=known), ask, refuse)
        if len(kept) < wanted and not (failures and failures[-1].input_id == start.id):
            refuse("", f"only {len(kept)} of {wanted} tasks: the others were refused")
        goals: list[WrittenGoal] = []
        for text, proposed in kept.items():
            # Each proposal has its own task name: without slots, the name alone makes its goal different from others.
            task = f"{start.source}.{content_id(start.platform, start.apps, start.start_state, text.casefold())[:12]}"
            plan = QueryPlan(
                platform=start.platform,
                apps=start.apps,
                source=start.source,
                start_state=start.start_state,
                difficulty=proposed.difficulty,
                max_steps=MAX_STEPS[proposed.difficulty - 1],
                validation=UNCHECKED,
            )
            goals.append(WrittenGoal(task, text, prompted.version, plan))
        return goals, failures


def _listed(instructions: Sequence[str]) -> str:
    return bullets(instructions[-_MOST_LISTED:], _LONGEST_LISTED)


class DecidedProposal(NamedTuple):
    query: Query
    refusal: Failure | None


def decide_proposal(
    query: Query, trajectory: Trajectory, judgement: Judgement | None, origin: Origin
) -> DecidedProposal | None:
    """Decide about a tried task; None if an environment or a model ended the attempt, or no critic could judge it."""
    if judgement is None and trajectory.failure_class is not FailureClass.TASK:
        return None
    feasible, refusal = judgement is not None and judgement.correct, None
    columns = {"validation": FEASIBLE if feasible else INFEASIBLE, **origin.common(made_by=query.made_by)}
    if not feasible:
        reason = trajectory.failure_message or "the attempt was judged incorrect"
        message = f"{query.source}: tried once by {trajectory.agent}: {reason}: {query.instruction}"
        refusal = failure(query.query_id, message, origin, trajectory.model_version, stage=TRIAL_STAGE)
    return DecidedProposal(query.model_copy(update=columns), refusal)
