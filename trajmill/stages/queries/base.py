"""What a source of queries offers, and the records on the way from a goal to a query (GUI-Owl 6.2).

A source finds goals. Wording, walking, leak checks and splits are the same for all sources (`generate.py`). Another
package adds a source with a `QuerySourceSpec` (`spec.py`) and an entry point in the group `trajmill.queries`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import CausalTask, PathStep, Platform, Query, Slot, Source, Split
from trajmill.stages.environments.simulated.annotations import KnownSlot, PathMetadata
from trajmill.stages.queries.templates import lost_slots

if TYPE_CHECKING:
    from trajmill.stages.environments.spec import EnvironmentSpec

STAGE = "generate"
"""Name of the stage on failures."""
NOT_WALKED = "not walked"
"""Validation outcome of a draft."""
HARDEST = 3
EASY_PAGES = 2
MEDIUM_PAGES = 4
"""Most atomic tasks of levels 1 and 2; each page on which something is done counts as one."""
MEDIUM_APPS = 3
"""A task over three apps or more is not of level 1."""
SPARE_STEPS = 4
STEP_CAP = 40


class Written(NamedTuple):
    """The texts of one query."""

    raw: str
    """Step 3: an explicit navigation instruction, e.g. `Open the Bites app, choose Pizza, ...`."""
    text: str
    """Step 4: the instruction as a person would say it."""
    phrasing: str
    """Identifies the phrasing, part by part; a part is held out if `HELDOUT_MARK` follows its last `/`."""
    said: Mapping[str, str]
    """By slot name, the words in `text` that express its value."""
    made_by: str
    """Name and version of the writer."""


class GoalFacts(NamedTuple):
    """What a language model needs to word a goal (step 2)."""

    metadata: PathMetadata
    slots: tuple[KnownSlot, ...]
    """The words that the instruction must and must not have."""


class QueryPlan(NamedTuple):
    """The columns of a query that its words do not decide, named as in `Query`."""

    platform: Platform
    apps: tuple[str, ...]
    source: Source
    pages: tuple[str, ...]
    page_descriptions: tuple[str, ...]
    slots: tuple[Slot, ...]
    path: tuple[PathStep, ...]
    start_state: str
    goal: str
    difficulty: int
    max_steps: int
    atomic_tasks: tuple[CausalTask, ...] | None = None


class Goal(Protocol):
    """What one query asks for: a path through pages and the values on it, not yet in words."""

    @property
    def task(self) -> str:
        """Name of its task; goals of one task differ in values alone."""
        ...

    def facts(self) -> GoalFacts | None:
        """The facts for a language model; None keeps the words of the source."""
        ...

    def worded(self, heldout: bool, seed: int) -> Written:
        """Word the goal with the source's own templates.

        Args:
            heldout: whether the phrasing must be one that training never sees.
            seed: draws the phrasing.

        Raises:
            StageError: no phrasing fits.
        """
        ...

    def plan(self, said: Mapping[str, str]) -> QueryPlan:
        """Return the other columns of the query; `said` has the words for each slot."""
        ...


class Candidate(NamedTuple):
    """A goal that may become a query of one split."""

    goal: Goal
    split: Split
    heldout: bool
    """Whether its phrasing must be one that training never sees."""
    seed: int
    """Draws the phrasing."""


class SplitCandidates(NamedTuple):
    """The candidates of one split."""

    split: Split
    wanted: int | None
    """Number of wanted queries; None for one query per candidate."""
    streams: Sequence[Iterator[Candidate]]
    """The streams take turns; each is drawn from until it yields a new query."""


class NewQueries(NamedTuple):
    """The rows of a query set."""

    queries: tuple[Query, ...]
    failures: tuple[Failure, ...] = ()
    model_calls: tuple[ModelCall, ...] = ()

    def with_more(self, more: NewQueries) -> NewQueries:
        """Append the rows of another set."""
        return NewQueries(
            (*self.queries, *more.queries), (*self.failures, *more.failures), (*self.model_calls, *more.model_calls)
        )


WalkQueries = Callable[[Sequence[Query]], Awaitable[NewQueries]]
"""Walks the paths of queries; returns those that pass, and a failure for each other one."""


class UnseenApps(NamedTuple):
    """Apps that training never sees."""

    heldout: Collection[str] = ()
    validation: Collection[str] = ()

    @property
    def all(self) -> frozenset[str]:
        """The apps of both kinds."""
        return frozenset((*self.heldout, *self.validation))


class FreshRequest(NamedTuple):
    """New training queries for a run that has queries already."""

    wanted: int
    level: int
    """The highest difficulty of the new queries; as many as possible have it."""
    seed: int
    """Another seed gives other queries."""


class SourceContext(NamedTuple):
    """What a source draws its candidates for."""

    environment: EnvironmentSpec
    unseen: UnseenApps
    seed: int
    """Decides on the goals, the wording and what is held out."""
    origin: Origin
    instances: int = 1
    """Environments that work at the same time."""
    fresh: FreshRequest | None = None
    """If set, only candidates for training are wanted, with other values than those of the first round."""


class Offer(NamedTuple):
    """The candidates of a source."""

    splits: tuple[SplitCandidates, ...]
    failures: tuple[Failure, ...] = ()
    model_calls: tuple[ModelCall, ...] = ()
    walk: WalkQueries | None = None
    """Walks the queries; the environment of the run does if None."""


class QuerySource(Protocol):
    """Finds goals for queries."""

    async def candidates(self, context: SourceContext) -> Offer:
        """Return the candidates of each split.

        Raises:
            BadInputError: a file of the source is wrong, or names something that does not exist.
        """
        ...


class QueryWriter(Protocol):
    """Writes instructions: the templates of a source, or a language model."""

    @property
    def version(self) -> str:
        """Name and version, for failures."""
        ...

    async def write(self, candidate: Candidate) -> Written:
        """Word a goal. Equal candidates get equal words if the writer is deterministic.

        Raises:
            StageError: no phrasing fits, or the text is not what the goal asks for.
            ModelFailure: its model did not answer.
        """
        ...


class GrammarWriter:
    """The embedded writer: words each goal with the templates of its source."""

    version = "grammar-1"

    async def write(self, candidate: Candidate) -> Written:
        """Word a goal; the seed draws the phrasing.

        Raises:
            StageError: no phrasing expresses the wanted values.
            BadInputError: a template cannot be parsed.
        """
        return candidate.goal.worded(candidate.heldout, candidate.seed)


class DraftRefused(StageError):
    """Every draft of a writer missed, invented or changed something; the message quotes the last draft."""

    def __init__(self, message: str, attempts: int) -> None:
        super().__init__(message, FailureClass.TASK)
        self.attempts = attempts


async def draft(candidate: Candidate, writer: QueryWriter, origin: Origin) -> Query:
    """Write the query of a candidate; it still has to be walked.

    Raises:
        StageError: the writer failed, or its text misses a slot.
        BadInputError: a template cannot be parsed, or the path does not belong to the task.
    """
    goal = candidate.goal
    written = await writer.write(candidate)
    if missing := lost_slots(written.text, written.said):
        raise StageError(f"{goal.task}: the writer lost {', '.join(missing)} in: {written.text}", FailureClass.TASK)
    plan = goal.plan(written.said)
    return Query(
        query_id=Query.make_id(plan.platform, goal.task, plan.slots, plan.start_state, written.text),
        task=goal.task,
        raw_instruction=written.raw,
        instruction=written.text,
        phrasing=written.phrasing,
        split=candidate.split,
        validation=NOT_WALKED,
        **plan._asdict(),
        **origin.common(made_by=written.made_by),
    )


def failure(
    input_id: str,
    message: str,
    origin: Origin,
    made_by: str,
    failure_class: FailureClass = FailureClass.TASK,
    attempts: int = 1,
    stage: str = STAGE,
) -> Failure:
    """Return the row for an input that gave no query."""
    return Failure(
        stage=stage,
        input_id=input_id,
        failure_class=failure_class,
        message=message,
        attempts=attempts,
        **origin.common(made_by=made_by),
    )


def difficulty(path: Sequence[PathStep], apps: int) -> int:
    """Level 1 to 3, by the number of pages on which something is done and the number of apps."""
    pages = len({step.page for step in path if step.operation in ("tap", "type")})
    if pages > MEDIUM_PAGES:
        return 3
    return 2 if pages > EASY_PAGES or apps >= MEDIUM_APPS else 1


def level_within_reach(success: Mapping[int, float], enough: float) -> int:
    """The first level at which success is below `enough`, or that was never tried; the hardest one if there is none.

    Args:
        success: by level, the share of attempts that succeed now.
        enough: the share from which the next level is asked for.
    """
    return next((level for level in range(1, HARDEST) if success.get(level, 0.0) < enough), HARDEST)


def step_limit(path: Sequence[PathStep]) -> int:
    """Twice the actions of the reference path plus `SPARE_STEPS`, at most `STEP_CAP`."""
    return min(2 * sum(map(_actions, path)) + SPARE_STEPS, STEP_CAP)


def _actions(step: PathStep) -> int:
    # Typing takes three: focus the input, type, close the keyboard.
    return 3 if step.operation == "type" else 1
