"""The protocol of query sources, and the records between a goal and its query (GUI-Owl 6.2).

A source only finds goals; wording, walking, leak checks and splits are shared (`generate.py`). Another package adds a
source with a `QuerySourceSpec` (`spec.py`) and an entry point in the group `trajmill.queries`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple, Protocol

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import CausalTask, PathStep, Platform, Query, Slot, Source, Split
from trajmill.stages.environments.simulated.annotations import KnownSlot, PathMetadata
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.queries.templates import lost_slots, packaged_phrasings, tidy

STAGE = "generate"
HARDEST = 3
_PAGES = {1: 2, 2: 4}
"""Most pages of levels 1 and 2 on which something is done."""
_APPS_OF_LEVEL_1 = 2
_SPARE_STEPS = 4
STEP_CAP = 40
_FEWEST_STEPS = {Source.GRAPH: 10, Source.ATOMIC: 15, Source.PATHWAY: 15}


class Written(NamedTuple):
    raw: str
    """Step 3: an explicit navigation instruction, e.g. `Open the Bites app, choose Pizza, ...`."""
    text: str
    """Step 4: the instruction in a person's words."""
    phrasing: str
    """Id of the phrasing, part by part; a part with `HELDOUT_MARK` after its last `/` is held out."""
    said: Mapping[str, str]
    made_by: str


class GoalFacts(NamedTuple):
    metadata: PathMetadata
    slots: tuple[KnownSlot, ...]
    """The words that the instruction must and must not have."""


class QueryPlan(NamedTuple):
    """The columns of a query that do not depend on its words."""

    platform: Platform
    apps: tuple[str, ...]
    source: Source
    start_state: str
    goal: str = "{}"
    pages: Mapping[str, str] = {}
    """The purpose of each page, in the order of the path."""
    slots: tuple[Slot, ...] = ()
    """What is said for them comes from the words."""
    path: tuple[PathStep, ...] = ()
    difficulty: int = 0
    """0 counts pages and apps."""
    max_steps: int = 0
    """0 counts the steps of the path."""
    atomic_tasks: tuple[CausalTask, ...] | None = None
    validation: str = "not walked"


class Goal(Protocol):
    """A path through pages and the values on it, not yet in words."""

    @property
    def task(self) -> str: ...

    def facts(self) -> GoalFacts | None:
        """Return the facts for a language model; None keeps the words of the source."""
        ...

    def worded(self, heldout: bool, seed: int) -> Written:
        """Word the goal; `heldout` demands a phrasing kept from training. Raises StageError if no phrasing fits."""
        ...

    def plan(self) -> QueryPlan: ...


class Candidate(NamedTuple):
    goal: Goal
    split: Split
    heldout: bool
    seed: int


class SplitCandidates(NamedTuple):
    split: Split
    wanted: int | None
    """Number of wanted queries; None for one query per candidate."""
    streams: Sequence[Iterator[Candidate]]
    """Taken in turn; each is drawn from until it yields a new query."""


class NewQueries(NamedTuple):
    queries: tuple[Query, ...]
    failures: tuple[Failure, ...] = ()
    model_calls: tuple[ModelCall, ...] = ()

    def with_more(self, more: NewQueries) -> NewQueries:
        failures, calls = (*self.failures, *more.failures), (*self.model_calls, *more.model_calls)
        return NewQueries((*self.queries, *more.queries), failures, calls)


WalkQueries = Callable[[Sequence[Query]], Awaitable[NewQueries]]
"""Walks the paths of queries; returns those that pass, and a failure for each other one."""


class UnseenApps(NamedTuple):
    heldout: Collection[str] = ()
    validation: Collection[str] = ()

    @property
    def all(self) -> frozenset[str]:
        return frozenset((*self.heldout, *self.validation))


class FreshRequest(NamedTuple):
    """Asks for new training queries in a run that has queries already."""

    wanted: int
    level: int
    """The highest difficulty of the new queries; as many as possible have it."""
    seed: int


class SourceContext(NamedTuple):
    environment: EnvironmentSpec
    unseen: UnseenApps
    seed: int
    origin: Origin
    instances: int = 1
    """Environments that work at the same time."""
    fresh: FreshRequest | None = None
    """Asks for training candidates only, with other values than those of the first round."""


class Offer(NamedTuple):
    splits: tuple[SplitCandidates, ...]
    failures: tuple[Failure, ...] = ()
    model_calls: tuple[ModelCall, ...] = ()
    walk: WalkQueries | None = None
    """Walks the queries; None walks them in the environment of the run."""
    note: str = ""
    """What the source leaves out, for whoever gets fewer queries than wanted."""

    @classmethod
    def of(cls, stream: Callable[[Split], Iterator[Candidate]], wanted: Mapping[Split, int] | None = None) -> Offer:
        return cls(tuple(SplitCandidates(each, wanted[each] if wanted else None, [stream(each)]) for each in Split))


class QuerySource(Protocol):
    async def candidates(self, context: SourceContext) -> Offer:
        """Return the candidates of each split; raises BadInputError if a file of the source is wrong."""
        ...


class QueryWriter(Protocol):
    @property
    def version(self) -> str: ...

    async def write(self, candidate: Candidate) -> Written:
        """Word a goal; raises StageError if no phrasing fits or the text is refused, ModelFailure without an answer."""
        ...


class GrammarWriter:
    """The embedded writer: words each goal with the templates of its source."""

    version = "grammar-1"

    async def write(self, candidate: Candidate) -> Written:
        return candidate.goal.worded(candidate.heldout, candidate.seed)


def phrased(
    package: str, kind: str, task: str, words: Mapping[str, str], heldout: bool, rng: Random, made_by: str
) -> Written:
    """Word a task by a packaged phrasing of a kind; the words count as said, and the text as raw."""
    template = packaged_phrasings(package)[kind].draw(heldout, rng)
    text = tidy(template.expand(task, words, rng))
    return Written(text, text, f"{task}/{template.id}", words, made_by)


class DraftRefused(StageError):
    """Every draft of a writer missed, invented or changed something; the message quotes the last draft."""

    def __init__(self, message: str, attempts: int) -> None:
        super().__init__(message, FailureClass.TASK)
        self.attempts = attempts


async def draft(candidate: Candidate, writer: QueryWriter, origin: Origin) -> Query:
    """Write the query of a candidate, unwalked; raises StageError if the writer fails or its text misses a slot."""
    task, written, plan = candidate.goal.task, await writer.write(candidate), candidate.goal.plan()
    if missing := lost_slots(written.text, written.said):
        raise StageError(f"{task}: the writer lost {', '.join(missing)} in: {written.text}", FailureClass.TASK)
    plan = plan._replace(
        slots=tuple(slot.model_copy(update={"said": written.said.get(slot.name, "")}) for slot in plan.slots),
        difficulty=plan.difficulty or difficulty(plan.path, len(plan.apps)),
        max_steps=plan.max_steps or step_limit(plan.path, _FEWEST_STEPS.get(plan.source, 0)),
    )
    columns = plan._asdict() | {"pages": tuple(plan.pages), "page_descriptions": tuple(plan.pages.values())}
    return Query(
        query_id=Query.make_id(plan.platform, task, plan.slots, plan.start_state, written.text),
        task=task,
        raw_instruction=written.raw,
        instruction=written.text,
        phrasing=written.phrasing,
        split=candidate.split,
        **columns,
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
    known = {"stage": stage, "input_id": input_id, "failure_class": failure_class, "attempts": attempts}
    return Failure(**known, message=message, **origin.common(made_by=made_by))


def difficulty(path: Sequence[PathStep], apps: int) -> int:
    """Return level 1 to 3, by the number of pages on which something is done and the number of apps."""
    pages = len({step.page for step in path if step.operation in ("tap", "type")})
    level = next((level for level, most in _PAGES.items() if pages <= most), HARDEST)
    return max(level, 2) if apps > _APPS_OF_LEVEL_1 else level


def level_within_reach(success: Mapping[int, float], enough: float) -> int:
    """Return the first level with a success (share of attempts) below `enough` or no attempts, else the hardest."""
    return next((level for level in range(1, HARDEST) if success.get(level, 0.0) < enough), HARDEST)


def step_limit(path: Sequence[PathStep], fewest: int = 0) -> int:
    """Return twice the actions of the reference path plus 4, from `fewest` to `STEP_CAP`."""
    # Typing takes three: focus the input, type, close the keyboard.
    actions = sum(3 if step.operation == "type" else 1 for step in path)
    return max(fewest, min(2 * actions + _SPARE_STEPS, STEP_CAP))
