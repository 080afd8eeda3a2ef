"""New tasks proposed by a model: a curriculum from human tasks (CODA 3.4), or from a start screenshot (paper 6.2).

A proposal has no annotated path and no programmatic check, so only critics judge attempts at it. A proposal that
repeats a task, is too long or is not a task becomes a failure with its reason.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from trajmill.schemas.errors import BadInputError, FailureClass, StageError
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import FEASIBLE, INFEASIBLE, Query, Split
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.queries.base import STEP_CAP, NewQueries, failure
from trajmill.stages.queries.proposals.proposer import BATCH, ProposedTask, TaskProposer
from trajmill.stages.queries.proposals.starts import STAGE, StartingPoint
from trajmill.stages.queries.templates import one_line

if TYPE_CHECKING:
    from datasketch import MinHash

TRIAL_STAGE = "try_proposals"
"""Name of the stage of trials on failures."""
UNCHECKED = "proposed, without a path to walk"
"""Validation outcome of a proposal."""
MAX_STEPS = (15, 25, STEP_CAP)
"""Step limit by difficulty 1 to 3, because there is no path whose steps could be counted."""
LONGEST_TASK = 400
"""Most characters of a task."""
SPARE_REQUESTS = 2
"""Additional requests for a starting point, to replace refused tasks."""
_FEWEST_WORDS = 2
_LONGEST_QUOTE = 200
_EXCUSE = re.compile(
    r"(?:(?:i['’]?m|i am|we are)\s+)?(?:sorry|unable)\b|(?:i|we)\s+(?:cannot|can['’]?t|can not)\b|as an ai\b",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"\[[^\]]*\]|<[^>]*>|\{[^}]*\}|_{3,}|\bx{3,}\b", re.IGNORECASE)
TOO_SIMILAR = 0.8
"""From this share of common words on, a task is a repetition of another."""
_LOOKED_AT = 0.5
"""The index is asked for tasks from this share on, of which it misses none in ten thousand that are `TOO_SIMILAR`; what
it gives is computed exactly."""
_PERMUTATIONS: Final = 128
_WORD = re.compile(r"\w+(?:[:.,'’-]\w+)*")


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
        heldout_apps: apps that training never sees; a starting point that needs one is refused.
        at_once: starting points for which the model is asked at the same time; it changes only the duration.

    Raises:
        BadInputError: the package datasketch is not installed.
    """
    free = asyncio.Semaphore(at_once)
    known = KnownTasks(query.instruction for query in existing)

    async def propose(number: int, start: StartingPoint) -> NewQueries:
        share = wanted // len(starts) + (number < wanted % len(starts))
        async with free:
            return await _Proposing(proposer, start, existing, known, origin).run(share, seed, heldout_apps)

    made = await asyncio.gather(*(propose(number, start) for number, start in enumerate(starts)))
    return _without_repetitions(made, proposer, starts, origin)


class _Proposing:
    """Collects the tasks of one starting point."""

    def __init__(
        self,
        proposer: TaskProposer,
        start: StartingPoint,
        existing: Sequence[Query],
        known: KnownTasks,
        origin: Origin,
    ) -> None:
        self._proposer, self._start, self._origin = proposer, start, origin
        self._known = KnownTasks(start.examples, beside=known)
        self._shown = [
            query.instruction for query in existing if query.split is Split.TRAIN and query.apps == start.apps
        ]
        self._queries: list[Query] = []
        self._failures: list[Failure] = []

    async def run(self, wanted: int, seed: int, heldout_apps: Collection[str]) -> NewQueries:
        """Ask until there are `wanted` tasks, at most `SPARE_REQUESTS` times more than needed."""
        heldout = sorted(set(self._start.apps) & set(heldout_apps))
        if heldout:
            self._fail(self._start.id, f"training must not see the app {heldout[0]}: it is held out", FailureClass.TASK)
            return self._made()
        for number in range(-(-wanted // BATCH) + SPARE_REQUESTS):
            if len(self._queries) >= wanted:
                break
            if not await self._ask(min(BATCH, wanted - len(self._queries)), seed + number):
                return self._made()
        if len(self._queries) < wanted:
            text = f"only {len(self._queries)} of {wanted} tasks: the others were refused"
            self._fail(self._start.id, text, FailureClass.TASK)
        return self._made()

    async def _ask(self, count: int, seed: int) -> bool:
        """Ask once; False if the model gave no answer."""
        shown = [*self._shown, *(query.instruction for query in self._queries)]
        try:
            tasks = await self._proposer.propose(self._start, shown, count, seed)
        except StageError as error:
            self._fail(self._start.id, str(error), error.failure_class)
            return False
        for task in tasks:
            if count == 0:
                break
            count -= self._admit(task)
        return True

    def _admit(self, task: ProposedTask) -> bool:
        text = one_line(task.instruction)
        reason = why_no_task(task.instruction, text) or self._repetition(text)
        if reason:
            self._fail(
                content_id("proposal", self._start.id, text), f"{reason}: {text[:_LONGEST_QUOTE]}", FailureClass.TASK
            )
            return False
        self._known.add(text)
        version = self._proposer.version(self._start)
        self._queries.append(proposed_query(self._start, text, task.difficulty, version, self._origin))
        return True

    def _repetition(self, text: str) -> str:
        similar = self._known.find(text)
        if similar is None:
            return ""
        how = "the same words as" if similar.same_words else "nearly the same words as"
        return f'{how} "{similar.text[:_LONGEST_QUOTE]}"'

    def _made(self) -> NewQueries:
        return NewQueries(tuple(self._queries), tuple(self._failures))

    def _fail(self, input_id: str, message: str, failure_class: FailureClass) -> None:
        version, text = self._proposer.version(self._start), f"{self._start.source}: {message}"
        self._failures.append(failure(input_id, text, self._origin, version, failure_class, stage=STAGE))


def _without_repetitions(
    made: Sequence[NewQueries], proposer: TaskProposer, starts: Sequence[StartingPoint], origin: Origin
) -> NewQueries:
    """The tasks of all starting points; of two tasks with the same words on one platform the second is refused."""
    queries: dict[tuple[str, str], Query] = {}
    failures: list[Failure] = []
    for each, start in zip(made, starts, strict=True):
        failures += each.failures
        for query in each.queries:
            key = (query.platform, query.instruction.casefold())
            if key in queries:
                quoted = query.instruction[:_LONGEST_QUOTE]
                text = f"{start.source}: the same words as on another starting point: {quoted}"
                failures.append(failure(query.query_id, text, origin, proposer.version(start), stage=STAGE))
            else:
                queries[key] = query
    return NewQueries(tuple(queries.values()), tuple(failures))


def why_no_task(proposed: str, text: str) -> str:
    """Why a text cannot be a task; empty if it can."""
    if len(proposed) > LONGEST_TASK:
        return f"it has {len(proposed)} characters; at most {LONGEST_TASK} are allowed"
    if len(text.split()) < _FEWEST_WORDS:
        return "it is no sentence"
    if _EXCUSE.match(text):
        return "it is an excuse and no task"
    placeholder = _PLACEHOLDER.search(text)
    return f'"{placeholder[0]}" is a placeholder' if placeholder else ""


def proposed_query(start: StartingPoint, text: str, difficulty: int, version: str, origin: Origin) -> Query:
    """A training query for a proposed task.

    Args:
        start: the starting point of the task.
        text: its instruction.
        difficulty: 1 to 3.
        version: prompt and model that made it.
        origin: common columns.
    """
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
    """A proposed task after its trial."""

    query: Query
    """With a validation that says what was decided."""
    refusal: Failure | None
    """Why it was refused; None for a feasible task."""


def decide_proposal(
    query: Query, trajectory: Trajectory, judgement: Judgement | None, origin: Origin
) -> DecidedProposal | None:
    """Decide about a proposed task; None if the attempt is inconclusive.

    An attempt that an environment or a model ended, or that no critic could judge, says nothing.

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
    decided = query.model_copy(update=columns)
    return DecidedProposal(decided, None if feasible else _refusal(decided, trajectory, origin))


def _refusal(query: Query, trajectory: Trajectory, origin: Origin) -> Failure:
    reason = trajectory.failure_message or "the attempt was judged incorrect"
    message = f"{query.source}: tried once by {trajectory.agent}: {reason}: {query.instruction}"
    return failure(query.query_id, message, origin, trajectory.model_version, stage=TRIAL_STAGE)


class SimilarTask(NamedTuple):
    """A task with the same or nearly the same words."""

    text: str
    same_words: bool
    """Whether the words are the same; case, spacing and punctuation are ignored."""


class KnownTasks:
    """The existing instructions; more may be added."""

    def __init__(self, instructions: Iterable[str] = (), beside: KnownTasks | None = None) -> None:
        """Keep the first of equal instructions.

        Args:
            instructions: the first ones.
            beside: further instructions, which are shared with others; nothing is added to them.

        Raises:
            BadInputError: the package datasketch is not installed.
        """
        try:
            from datasketch import MinHash, MinHashLSH
        except ImportError:
            text = "proposed tasks need datasketch, which finds repetitions: pip install 'trajmill[curate]'"
            raise BadInputError(text) from None
        self._beside = beside
        self._by_words: dict[tuple[str, ...], str] = {}
        self._index = MinHashLSH(threshold=_LOOKED_AT, num_perm=_PERMUTATIONS)
        self._empty = MinHash(num_perm=_PERMUTATIONS)
        for instruction in instructions:
            self.add(instruction)

    def add(self, instruction: str) -> None:
        """Add an instruction."""
        words = _words(instruction)
        if words not in self._by_words:
            self._by_words[words] = instruction
            self._index.insert(words, self._sketch(words))

    def find(self, instruction: str) -> SimilarTask | None:
        """The task with the same words, else the most similar task from `TOO_SIMILAR` on, else None."""
        words = _words(instruction)
        own = self._same(words) or self._most_alike(words)
        beside = self._beside.find(instruction) if self._beside else None
        return next((found for found in (own, beside) if found and found.same_words), own or beside)

    def _same(self, words: tuple[str, ...]) -> SimilarTask | None:
        return SimilarTask(self._by_words[words], True) if words in self._by_words else None

    def _most_alike(self, words: tuple[str, ...]) -> SimilarTask | None:
        found = ((_shared(words, other), self._by_words[other]) for other in self._index.query(self._sketch(words)))
        share, text = max(found, default=(0.0, ""))
        return SimilarTask(text, False) if share >= TOO_SIMILAR else None

    def _sketch(self, words: tuple[str, ...]) -> MinHash:
        sketch = self._empty.copy()
        sketch.update_batch([word.encode() for word in sorted(set(words))])
        return sketch


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))


def _shared(mine: tuple[str, ...], other: tuple[str, ...]) -> float:
    """The Jaccard similarity of two sets of words."""
    return len({*mine} & {*other}) / max(len({*mine} | {*other}), 1)
