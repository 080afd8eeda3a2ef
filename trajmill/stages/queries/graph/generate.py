"""Makes a query set with its splits from the navigation DAGs of a world (paper 6.2)."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.queries.graph.base import DraftRefused, QueryValidator, QueryWriter
from trajmill.stages.queries.graph.draft_queue import DraftCandidate, DraftQueue, DraftResult, start_ahead
from trajmill.stages.queries.graph.drafting import draft
from trajmill.stages.queries.graph.sampling import TaskSample
from trajmill.stages.queries.graph.spec import GraphQueriesSpec
from trajmill.stages.queries.graph.splits import HELDOUT_GOALS, divide_tasks, draw_goals, share_goals
from trajmill.stages.queries.novelty import InstructionIndex, Novelty

STAGE = "generate"
PASSED = "passed"
REPHRASED = (Split.TRAIN, Split.HELDOUT_APPS, Split.VALIDATION)
"""Splits in which one goal may have several instructions, so that tasks with few goals are not rare."""
REPHRASINGS = 20
"""How many instructions are tried for one goal of such a split."""
SPARE_GOALS = 3
"""Goals drawn for each goal needed; the surplus makes up for tasks with few goals."""
FAILURES_IN_A_ROW = 3
"""After so many failures in a row a task gives no more queries of a split."""


class Generated(NamedTuple):
    """A query set, and the failures."""

    queries: tuple[Query, ...]
    """Training queries first; within a split, task by task in turn."""
    failures: tuple[Failure, ...]


class _Goals(NamedTuple):
    """The goals of one task that belong to one split."""

    task: TaskGraph
    samples: tuple[TaskSample, ...]


async def generate_queries(
    world: World,
    settings: GraphQueriesSpec,
    seed: int,
    origin: Origin,
    writer: QueryWriter,
    validator: QueryValidator,
    in_flight: int = 1,
    stand_in: QueryWriter | None = None,
) -> Generated:
    """Make the queries of all splits; equal arguments, `in_flight` apart, give equal queries.

    The tasks take turns, so that a short task is as frequent as a long one. Every returned query has been walked and
    meets its goal check. A query that was dropped or could not be made is a failure with its reason.

    Args:
        world: the apps and errands with their navigation DAGs.
        settings: how many queries, and what is held out.
        seed: decides on the goals and on the wording.
        origin: common columns of the rows.
        writer: a grammar or a language model.
        validator: walks each query before it is accepted.
        in_flight: drafts made at the same time. A writer that waits for a server needs many; drafts that are no
            longer needed are cancelled.
        stand_in: writes the query if the writer fails; the writer's failure is recorded in any case. None writes
            no such query.

    Raises:
        BadInputError: an app to hold out does not exist, or a phrasing cannot be parsed.
    """
    run = _Generation(seed, origin, writer, validator, in_flight, stand_in)
    validation_apps = settings.validation_apps(world.apps)
    sides = divide_tasks(world, settings.heldout_app_names, validation_apps)
    of_own_apps = settings.validation // 2 if validation_apps else 0
    wanted = {split: settings.wanted(split) for split in Split}
    wanted[Split.VALIDATION] -= of_own_apps
    shares = run.share_out(sides.trained, wanted)
    shares[Split.HELDOUT_APPS] = run.all_goals(sides.heldout, wanted[Split.HELDOUT_APPS])
    for split in Split:
        await run.fill(split, wanted[split], shares[split])
    await run.fill(Split.VALIDATION, of_own_apps, run.all_goals(sides.validation, of_own_apps))
    return Generated(tuple(run.queries), tuple(run.failures))


class _Generation:
    """Collects one query set."""

    def __init__(
        self,
        seed: int,
        origin: Origin,
        writer: QueryWriter,
        validator: QueryValidator,
        in_flight: int,
        stand_in: QueryWriter | None,
    ) -> None:
        self._seed, self._origin, self._writer, self._validator = seed, origin, writer, validator
        self._in_flight, self._stand_in = in_flight, stand_in
        self._index = InstructionIndex()
        self.queries: list[Query] = []
        self.failures: list[Failure] = []

    def share_out(self, tasks: Sequence[TaskGraph], wanted: Mapping[Split, int]) -> dict[Split, list[_Goals]]:
        """Draw the goals of the tasks that training may use and give each to one split."""
        shares: dict[Split, list[_Goals]] = {split: [] for split in Split}
        of_task = {Split.TRAIN: math.ceil(wanted[Split.TRAIN] / max(len(tasks), 1))}
        for split in HELDOUT_GOALS:
            of_task[split] = SPARE_GOALS * math.ceil(wanted[split] / max(len(tasks), 1))
        for task in tasks:
            drawn = self._draw(task, SPARE_GOALS * sum(of_task.values()))
            for split, samples in share_goals(drawn, of_task).items():
                shares[split].append(_Goals(task, samples))
        return shares

    def all_goals(self, tasks: Sequence[TaskGraph], wanted: int) -> list[_Goals]:
        """Draw goals of tasks that one split has for itself."""
        of_task = SPARE_GOALS * math.ceil(wanted / max(len(tasks), 1))
        return [_Goals(task, self._draw(task, of_task)) for task in tasks]

    async def fill(self, split: Split, wanted: int, shares: Sequence[_Goals]) -> None:
        """Add `wanted` queries to a split, from its tasks in turn until they have no more."""
        queues = [DraftQueue(_candidates(goals, split), self._draft) for goals in shares if goals.samples]
        # If there are fewer queries than tasks, chance decides which tasks get one.
        Random(self._derive(split, "order")).shuffle(queues)
        try:
            found = await self._in_turn(deque(queues), wanted)
        finally:
            for queue in queues:
                await queue.stop()
        if found < wanted:
            text = f"only {found} of {wanted} queries: the apps have no more goals for this split"
            self._fail(split.value, text)

    async def _in_turn(self, queues: deque[DraftQueue], wanted: int) -> int:
        """Take queries from the queues in turn until there are enough or none are left; returns the number taken."""
        found = 0
        failed_in_a_row: Counter[DraftQueue] = Counter()
        while queues and found < wanted:
            queue = queues[0]
            start_ahead(queues, min(self._in_flight, wanted - found))
            drafted = await queue.take()
            failed_before = len(self.failures)
            if drafted is not None and self._admit(drafted):
                found += 1
                failed_in_a_row[queue] = 0
                queues.rotate(-1)
                continue
            failed_in_a_row[queue] = failed_in_a_row[queue] + 1 if len(self.failures) > failed_before else 0
            if drafted is None or failed_in_a_row[queue] == FAILURES_IN_A_ROW:
                await queue.stop()
                queues.popleft()
        return found

    def _draw(self, task: TaskGraph, wanted: int) -> tuple[TaskSample, ...]:
        try:
            return draw_goals(task, wanted, Random(self._derive(task.name, "goals")))
        except StageError as error:
            self._fail(task.name, str(error), error.failure_class)
            return ()

    async def _draft(self, candidate: DraftCandidate) -> DraftResult:
        try:
            return DraftResult(candidate.task, await self._write(candidate, self._writer))
        except StageError as error:
            if self._stand_in is None:
                return DraftResult(candidate.task, error)
            refused = error
        try:
            return DraftResult(candidate.task, await self._write(candidate, self._stand_in), refused)
        except StageError as error:
            return DraftResult(candidate.task, error, refused)

    async def _write(self, candidate: DraftCandidate, writer: QueryWriter) -> Query:
        task, sample, split, heldout, turn = candidate
        seed = self._derive(task.name, split, sample.key, turn)
        return await draft(task, sample, split, heldout, writer, self._origin, seed)

    def _admit(self, drafted: DraftResult) -> bool:
        """Add a draft to the query set; returns False if it repeats a query or fails."""
        task, query, refused = drafted
        for error in (refused, query):
            if isinstance(error, StageError):
                attempts = error.attempts if isinstance(error, DraftRefused) else 1
                self._fail(task.name, str(error), error.failure_class, attempts)
        if isinstance(query, StageError):
            return False
        novelty = self._index.novelty_of(query)
        if novelty is Novelty.REPEATED:
            return False
        reason = novelty.value if novelty is not Novelty.NEW else self._validator.walk(query)
        if reason is not None:
            self._fail(query.query_id, f"{task.name}: {reason}: {query.instruction}")
            return False
        self._index.add(query)
        self.queries.append(query.model_copy(update={"validation": PASSED}))
        return True

    def _derive(self, *parts: Hashable) -> int:
        return int(content_id("generate", self._seed, *parts), 16)

    def _fail(
        self, input_id: str, message: str, failure_class: FailureClass = FailureClass.TASK, attempts: int = 1
    ) -> None:
        self.failures.append(
            Failure(
                stage=STAGE,
                input_id=input_id,
                failure_class=failure_class,
                message=message,
                attempts=attempts,
                **self._origin.common(made_by=self._writer.version),
            )
        )


def _candidates(goals: _Goals, split: Split) -> Iterator[DraftCandidate]:
    """The candidates for a split: every goal once, then every goal again, and so on."""
    for turn in range(REPHRASINGS if split in REPHRASED else 1):
        for number, sample in enumerate(goals.samples):
            heldout = split is Split.HELDOUT_PHRASINGS or (split is Split.HELDOUT_APPS and (turn + number) % 2 == 1)
            yield DraftCandidate(goals.task, sample, split, heldout, turn)
