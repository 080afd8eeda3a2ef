"""New tasks proposed by a model: a curriculum from human tasks (CODA 3.4), or from a start screenshot (paper 6.2).

A proposal has no annotated path and no programmatic check: only critics judge attempts at it. A proposal that repeats a
task, is too long or is not a task becomes a failure with its reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.record import Origin, Record, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import FEASIBLE, INFEASIBLE, Query, Split
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.models.base import ChatModel, MessagePart
from trajmill.stages.models.prompts import Prompt, PromptedModel, Sampling, load_prompt
from trajmill.stages.queries.base import LONGEST_QUOTE, STEP_CAP, NewQueries, failure
from trajmill.stages.queries.proposals.known import BATCH, KnownTasks, ask_until, why_no_task
from trajmill.stages.queries.proposals.starts import STAGE, StartingPoint
from trajmill.stages.queries.templates import one_line

TRIAL_STAGE = "try_proposals"
UNCHECKED = "proposed, without a path to walk"
MAX_STEPS = (15, 25, STEP_CAP)
"""Step limit by difficulty 1 to 3; there is no path whose steps could be counted."""
SPARE_REQUESTS = 2
"""Additional requests for a starting point, to replace refused tasks."""


async def propose_tasks(
    proposer: TaskProposer,
    starts: Sequence[StartingPoint],
    existing: Sequence[Query],
    wanted: int,
    seed: int,
    origin: Origin,
    heldout_apps: Collection[str] = (),
    at_once: int = 1,
) -> NewQueries:
    """Let a model propose `wanted` new tasks, divided evenly between the starting points.

    A task is refused if it has the same or nearly the same words as an existing query, an example or another new task.
    Held-out queries count as existing queries, but are never shown to the model.

    Args:
        proposer: the model and its prompts.
        starts: the starting points of the tasks.
        existing: all queries of the run, of every split.
        wanted: number of tasks for all starting points together.
        seed: decides on the proposals.
        origin: common columns of the rows.
        heldout_apps: apps kept from training; a starting point that needs one is refused.
        at_once: starting points for which the model is asked at the same time; changes only the duration.

    Raises:
        BadInputError: the package datasketch is not installed.
    """
    free = asyncio.Semaphore(at_once)
    known = KnownTasks(query.instruction for query in existing)

    async def propose(number: int, start: StartingPoint) -> _Proposing:
        proposing = _Proposing(proposer, start, existing, known, origin)
        async with free:
            share = wanted // len(starts) + (number < wanted % len(starts))
            await proposing.run(share, seed, heldout_apps)
        return proposing

    made = await asyncio.gather(*(propose(number, start) for number, start in enumerate(starts)))
    queries: dict[tuple[str, str], Query] = {}
    failures: list[Failure] = []
    for each in made:
        for query in each.queries:
            # Of two tasks with the same words on one platform the second is refused.
            if queries.setdefault((query.platform, query.instruction.casefold()), query) is not query:
                quoted = query.instruction[:LONGEST_QUOTE]
                each.fail(query.query_id, f"the same words as on another starting point: {quoted}")
        failures += each.failures
    return NewQueries(tuple(queries.values()), tuple(failures))


class _Proposing:
    def __init__(
        self,
        proposer: TaskProposer,
        start: StartingPoint,
        existing: Sequence[Query],
        known: KnownTasks,
        origin: Origin,
    ) -> None:
        self._proposer, self._start, self._origin = proposer, start, origin
        self._known = KnownTasks(start.examples, shared=known)
        train = (query for query in existing if query.split is Split.TRAIN)
        self._shown = [query.instruction for query in train if query.apps == start.apps]
        self.queries: list[Query] = []
        self.failures: list[Failure] = []

    async def run(self, wanted: int, seed: int, heldout_apps: Collection[str]) -> None:
        if heldout := sorted(set(self._start.apps) & set(heldout_apps)):
            self.fail(self._start.id, f"training must not see the app {heldout[0]}: it is held out")
            return

        async def ask(count: int, number: int) -> int:
            before = len(self.queries)
            shown = [*self._shown, *(query.instruction for query in self.queries)]
            for task in await self._proposer.propose(self._start, shown, count, seed + number):
                if len(self.queries) - before < count:
                    self._admit(task)
            return len(self.queries) - before

        try:
            if await ask_until(wanted, SPARE_REQUESTS, ask):
                text = f"only {len(self.queries)} of {wanted} tasks: the others were refused"
                self.fail(self._start.id, text)
        except StageError as error:
            self.fail(self._start.id, str(error), error.failure_class)

    def _admit(self, task: ProposedTask) -> None:
        text = one_line(task.instruction)
        reason, similar = why_no_task(task.instruction, text), self._known.find(text)
        if similar and not reason:
            how = "the same words as" if similar.same_words else "nearly the same words as"
            reason = f'{how} "{similar.text[:LONGEST_QUOTE]}"'
        if reason:
            self.fail(content_id("proposal", self._start.id, text), f"{reason}: {text[:LONGEST_QUOTE]}")
            return
        self._known.add(text)
        version = self._proposer.version(self._start)
        self.queries.append(_proposed_query(self._start, text, task.difficulty, version, self._origin))

    def fail(self, input_id: str, message: str, failure_class: FailureClass = FailureClass.TASK) -> None:
        version, text = self._proposer.version(self._start), f"{self._start.source}: {message}"
        self.failures.append(failure(input_id, text, self._origin, version, failure_class, stage=STAGE))


def _proposed_query(start: StartingPoint, text: str, difficulty: int, version: str, origin: Origin) -> Query:
    # Each proposal has its own task name: without slots, the name alone makes its goal different from others.
    task = f"{start.source}.{content_id(start.platform, start.apps, start.start_state, text.casefold())[:12]}"
    return Query(
        query_id=Query.make_id(start.platform, task, (), start.start_state, text),
        platform=start.platform,
        apps=start.apps,
        source=start.source,
        task=task,
        raw_instruction=text,
        instruction=text,
        phrasing="",
        pages=(),
        page_descriptions=(),
        slots=(),
        path=(),
        start_state=start.start_state,
        goal="{}",
        difficulty=difficulty,
        max_steps=MAX_STEPS[difficulty - 1],
        split=Split.TRAIN,
        validation=UNCHECKED,
        **origin.common(made_by=version),
    )


class DecidedProposal(NamedTuple):
    query: Query
    refusal: Failure | None


def decide_proposal(
    query: Query, trajectory: Trajectory, judgement: Judgement | None, origin: Origin
) -> DecidedProposal | None:
    """Decide about a proposed task; None if the attempt is inconclusive.

    An attempt that an environment or a model ended, or that no critic could judge, decides nothing.

    Args:
        query: the proposed task.
        trajectory: the attempt at it.
        judgement: the judge's decision on the attempt; None if it was not judged.
        origin: common columns of the rows; the query is stored in this round, even if an earlier one proposed it.
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


ROLE = "writer"
RELIABLE = 0.7
"""Lowest success of a task that the policy does reliably."""
FAILING = 0.25
TEMPERATURE = 0.8
_MOST_LISTED = 30
"""Most tasks of a kind in a prompt; the newest are listed."""
_LONGEST_LISTED = 300
_MAX_TOKENS = 2048
_PACKAGE = "trajmill.stages.queries.proposals"


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
    return "\n".join(f"- {untrusted(text, _LONGEST_LISTED)}" for text in instructions[-_MOST_LISTED:]) or "(none)"
