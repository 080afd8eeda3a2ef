"""New tasks proposed by a model: a curriculum from human tasks (CODA 3.4), or from a start screenshot (paper 6.2).

A proposal has no annotated path and no programmatic check: only critics judge attempts at it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from trajmill.schemas.errors import FailureClass
from trajmill.schemas.record import Origin, Record, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import FEASIBLE, INFEASIBLE, Query, Split
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.models.base import ChatModel, MessagePart
from trajmill.stages.models.prompts import Prompt, PromptedModel, Sampling, load_prompt
from trajmill.stages.queries.base import STEP_CAP, Candidate, Offer, QueryPlan, SourceContext, SplitCandidates, failure
from trajmill.stages.queries.proposals.starts import STAGE, StartingPoint
from trajmill.stages.queries.written import (
    BATCH,
    LONGEST_QUOTE,
    ROLE,
    TEMPERATURE,
    KnownTasks,
    WrittenGoal,
    bullets,
    collect_new,
)

TRIAL_STAGE = "try_proposals"
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
_PACKAGE = "trajmill.stages.queries.proposals"


class ProposalSource(NamedTuple):
    """Lets a model propose `wanted` new tasks, divided evenly between the starting points.

    A task is refused if it has the same or nearly the same words as one of the `existing` queries (of every split), an
    example or another new task; a starting point with a held-out app is refused. Held-out queries are never shown to
    the model.
    """

    proposer: TaskProposer
    starts: Sequence[StartingPoint]
    existing: Sequence[Query]
    wanted: int

    async def candidates(self, context: SourceContext) -> Offer:
        """Return the tasks, all of them for training; each refused one is a failure with its reason.

        Raises BadInputError if datasketch is not installed.
        """
        free = asyncio.Semaphore(context.instances)
        known = KnownTasks(query.instruction for query in self.existing)
        share, left = divmod(self.wanted, max(len(self.starts), 1))

        async def propose(number: int, start: StartingPoint) -> tuple[list[WrittenGoal], list[Failure]]:
            async with free:
                return await self._propose(start, share + (number < left), known, context)

        made = await asyncio.gather(*(propose(number, start) for number, start in enumerate(self.starts)))
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
        stream = (Candidate(goal, Split.TRAIN, False, 0) for goal in goals.values())
        return Offer((SplitCandidates(Split.TRAIN, None, [stream]),), tuple(failures))

    async def _propose(
        self, start: StartingPoint, wanted: int, known: KnownTasks, context: SourceContext
    ) -> tuple[list[WrittenGoal], list[Failure]]:
        version = self.proposer.version(start)
        shown = [each.instruction for each in self.existing if each.split is Split.TRAIN and each.apps == start.apps]
        failures: list[Failure] = []

        def refuse(text: str, reason: str, failure_class: FailureClass = FailureClass.TASK) -> None:
            input_id = content_id("proposal", start.id, text) if text else start.id
            message = f"{start.source}: {reason}"
            failures.append(failure(input_id, message, context.origin, version, failure_class, stage=STAGE))

        async def ask(texts: list[str], count: int, request: int) -> tuple[ProposedTask, ...]:
            return await self.proposer.propose(start, [*shown, *texts], count, context.seed + request)

        if heldout := sorted(set(start.apps) & set(context.unseen.heldout)):
            refuse("", f"training must not see the app {heldout[0]}: it is held out")
            return [], failures
        own = KnownTasks(start.examples, shared=known)
        kept = await collect_new(wanted, SPARE_REQUESTS, own, ask, lambda task: "", refuse)
        if len(kept) < wanted and not (failures and failures[-1].input_id == start.id):
            refuse("", f"only {len(kept)} of {wanted} tasks: the others were refused")
        return [_goal(start, text, task.difficulty, version) for text, task in kept.items()], failures


def _goal(start: StartingPoint, text: str, difficulty: int, version: str) -> WrittenGoal:
    # Each proposal has its own task name: without slots, the name alone makes its goal different from others.
    task = f"{start.source}.{content_id(start.platform, start.apps, start.start_state, text.casefold())[:12]}"
    plan = QueryPlan(
        platform=start.platform,
        apps=start.apps,
        source=start.source,
        pages=(),
        page_descriptions=(),
        slots=(),
        path=(),
        start_state=start.start_state,
        goal="{}",
        difficulty=difficulty,
        max_steps=MAX_STEPS[difficulty - 1],
        validation=UNCHECKED,
    )
    return WrittenGoal(task, text, version, plan)


class DecidedProposal(NamedTuple):
    query: Query
    refusal: Failure | None


def decide_proposal(
    query: Query, trajectory: Trajectory, judgement: Judgement | None, origin: Origin
) -> DecidedProposal | None:
    """Decide about a proposed task in the round of its trial; None if the attempt is inconclusive.

    An attempt that an environment or a model ended, or that no critic could judge, decides nothing.
    """
    if judgement is None and trajectory.failure_class is not FailureClass.TASK:
        return None
    feasible = judgement is not None and judgement.correct
    columns = {"validation": FEASIBLE if feasible else INFEASIBLE, **origin.common(made_by=query.made_by)}
    decided, refusal = query.model_copy(update=columns), None
    if not feasible:
        reason = trajectory.failure_message or "the attempt was judged incorrect"
        message = f"{query.source}: tried once by {trajectory.agent}: {reason}: {query.instruction}"
        refusal = failure(query.query_id, message, origin, trajectory.model_version, stage=TRIAL_STAGE)
    return DecidedProposal(decided, refusal)


class ProposedTask(Record):
    instruction: str
    difficulty: Annotated[int, Field(ge=1, le=3)]


class ProposalAnswer(Record):
    tasks: Annotated[tuple[ProposedTask, ...], Field(min_length=1, max_length=2 * BATCH)]


class ProposalPrompts(NamedTuple):
    curriculum: Prompt
    screen: Prompt


def proposal_prompts(curriculum: Path | None = None, screen: Path | None = None) -> ProposalPrompts:
    """Read the prompts; raises BadInputError if a file cannot be read, or lacks a section or a field."""
    own = load_prompt(_PACKAGE, "writer_curriculum-1", curriculum)
    return ProposalPrompts(own, load_prompt(_PACKAGE, "writer_screen-1", screen))


@dataclass(frozen=True, slots=True)
class TaskProposer:
    """A model that proposes tasks; for a starting point with a screen it must read images."""

    model: ChatModel
    prompts: ProposalPrompts = field(default_factory=proposal_prompts)

    def version(self, start: StartingPoint) -> str:
        return self._prompted(start).version

    async def propose(
        self, start: StartingPoint, known: Sequence[str], count: int, seed: int
    ) -> tuple[ProposedTask, ...]:
        """Return about `count` unchecked tasks; none of the `known` ones, which the model reads, may be held out."""
        fields = {
            "apps": ", ".join(start.apps) or "(the whole device)",
            "platform": start.platform.value,
            "examples": _listed(start.examples),
            "known": _listed(known),
            "count": str(count),
        }
        screen: tuple[MessagePart, ...] = ()
        if start.screen is not None:
            screen = ("\nThe screen:\n", start.screen)
        else:
            ranges = {"reliable": (RELIABLE, 2.0), "sometimes": (FAILING, RELIABLE), "failing": (-1.0, FAILING)}
            for name, (low, high) in ranges.items():
                fields[name] = _listed([task.instruction for task in start.successes if low <= task.success < high])
        request_seed = int(content_id("propose", start.id, seed), 16) % 2**31
        sampling = Sampling(TEMPERATURE, seed=request_seed, max_tokens=_MAX_TOKENS)
        prompted = self._prompted(start)
        return (await prompted.ask(prompted.request(ROLE, fields, screen, sampling), ProposalAnswer)).tasks

    def _prompted(self, start: StartingPoint) -> PromptedModel:
        return PromptedModel(self.model, self.prompts.curriculum if start.screen is None else self.prompts.screen)


def _listed(instructions: Sequence[str]) -> str:
    return bullets(instructions[-_MOST_LISTED:], _LONGEST_LISTED)
