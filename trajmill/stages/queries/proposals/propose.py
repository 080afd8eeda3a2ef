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

    A task is refused if it has the same or nearly the same words as one of the `existing` queries (of every split), an
    example or another new task; a starting point with a held-out app is refused. Held-out queries are never shown to
    the model. `at_once` changes only the duration. Raises BadInputError if datasketch is not installed.
    """
    free = asyncio.Semaphore(at_once)
    known = KnownTasks(query.instruction for query in existing)

    async def propose(number: int, start: StartingPoint) -> tuple[list[Query], list[Failure]]:
        own, version = KnownTasks(start.examples, shared=known), proposer.version(start)
        shown = [query.instruction for query in existing if query.split is Split.TRAIN and query.apps == start.apps]
        queries: list[Query] = []
        failures: list[Failure] = []

        def fail(input_id: str, message: str, failure_class: FailureClass = FailureClass.TASK) -> None:
            text = f"{start.source}: {message}"
            failures.append(failure(input_id, text, origin, version, failure_class, stage=STAGE))

        async def ask(count: int, request: int) -> int:
            before = len(queries)
            texts = [*shown, *(query.instruction for query in queries)]
            for task in await proposer.propose(start, texts, count, seed + request):
                if len(queries) - before == count:
                    break
                text = one_line(task.instruction)
                reason, similar = why_no_task(task.instruction, text), own.find(text)
                if similar and not reason:
                    how = "the same words as" if similar.same_words else "nearly the same words as"
                    reason = f'{how} "{similar.text[:LONGEST_QUOTE]}"'
                if reason:
                    fail(content_id("proposal", start.id, text), f"{reason}: {text[:LONGEST_QUOTE]}")
                else:
                    own.add(text)
                    queries.append(_proposed_query(start, text, task.difficulty, version, origin))
            return len(queries) - before

        if heldout := sorted(set(start.apps) & set(heldout_apps)):
            fail(start.id, f"training must not see the app {heldout[0]}: it is held out")
            return queries, failures
        share = wanted // len(starts) + (number < wanted % len(starts))
        async with free:
            try:
                if await ask_until(share, SPARE_REQUESTS, ask):
                    fail(start.id, f"only {len(queries)} of {share} tasks: the others were refused")
            except StageError as error:
                fail(start.id, str(error), error.failure_class)
        return queries, failures

    made = await asyncio.gather(*(propose(number, start) for number, start in enumerate(starts)))
    queries: dict[tuple[str, str], Query] = {}
    failures: list[Failure] = []
    for start, (proposed, refused) in zip(starts, made, strict=True):
        failures += refused
        for query in proposed:
            # Of two tasks with the same words on one platform the second is refused.
            if queries.setdefault((query.platform, query.instruction.casefold()), query) is not query:
                text = f"{start.source}: the same words as on another starting point: "
                text += query.instruction[:LONGEST_QUOTE]
                failures.append(failure(query.query_id, text, origin, query.made_by, stage=STAGE))
    return NewQueries(tuple(queries.values()), tuple(failures))


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
