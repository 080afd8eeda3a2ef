"""What the writers of queries and their validators are, and the records between the five steps (paper 6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.simulated.world import TaskGraph
from trajmill.stages.queries.base import Variant, Written
from trajmill.stages.queries.graph.sampling import TaskSample


class SlotValue(NamedTuple):
    """One slot-value pair of a path (the paper's K', V')."""

    name: str
    page: str
    """`app.screen` on which it is set."""
    label: str
    """How the page names the choice, e.g. `Size`."""
    kind: str
    """Kind of widget: list, choice, switch, checkbox, stepper, field, search."""
    value: str
    """As the screen shows it; true and false are `on` and `off`."""
    words: tuple[str, ...]
    """Words a user may have for the value; empty where it is not said, for it follows or is carried."""
    optional: bool
    carried_from: str
    """Name of the app that the value is read in, empty where it is not carried."""

    @property
    def is_option(self) -> bool:
        """Whether it is on or off."""
        return self.kind in ("switch", "checkbox")


class PageMetadata(NamedTuple):
    """One page of a path."""

    page: str
    """`app.screen`."""
    app_name: str
    description: str
    """What the page shows and is for (the paper's d_i)."""
    settings: tuple[SlotValue, ...]
    """What is set on the page, in the order in which its widgets stand there."""
    leave_by: str
    """Label of what is pressed last; empty where a setting leads on, and where another app follows."""


class PathMetadata(NamedTuple):
    """What a writer is told about one sampled path (the paper's D', K', V')."""

    task: str
    """`app.task` or `errand.task`."""
    description: str
    """What the task is, e.g. `Order a dish`."""
    platform: Platform
    pages: tuple[PageMetadata, ...]
    constraints: tuple[SlotValue, ...]
    """What the user asks for, set on this path or carried through it."""


class Clause(NamedTuple):
    """How one optional slot is said."""

    slot: str
    variant: Variant
    words: str
    """The clause with its alternatives decided and its slot filled in, without an `and` before it."""


class Phrasing(NamedTuple):
    """Everything that decides the words of an instruction."""

    task: str
    template: Variant
    clauses: tuple[Clause, ...]
    """In the order in which they are said."""
    said: Mapping[str, str]
    """By slot, the words that must stand in the instruction."""
    seed: int
    """Decides between the alternatives inside the template."""

    @property
    def id(self) -> str:
        """As it stands on the query, e.g. `bites.order/h0 place/1 size/h0`."""
        clauses = sorted(f"{clause.slot}/{clause.variant.id}" for clause in self.clauses)
        return " ".join([f"{self.task}/{self.template.id}", *clauses])


class KnownSlot(NamedTuple):
    """What may and what must not be said of one slot of a task, so that an instruction can be checked for it."""

    name: str
    label: str
    """How its page names the choice; its name where the page has no words for it."""
    kind: str
    """Kind of widget, as in `SlotValue`."""
    accepted: tuple[str, ...]
    """Words of which one must stand in the instruction; empty for a slot that is not to be told."""
    refused: tuple[str, ...]
    """Words for every other value that it can have, or for all of them where it is not to be told."""

    @property
    def is_typed(self) -> bool:
        """Whether its value is a text that the user dictates."""
        return self.kind in ("field", "search")

    @property
    def is_option(self) -> bool:
        """Whether it is on or off."""
        return self.kind in ("switch", "checkbox")


class Brief(NamedTuple):
    """What one query is to be written from."""

    task: TaskGraph
    """As its author annotated it; a grammar takes its templates from here."""
    sample: TaskSample
    metadata: PathMetadata
    """What of the task and the sample is to be told."""
    heldout: bool
    """Whether it must be phrased as training never sees it."""
    seed: int


class DraftRefused(StageError):
    """Every draft of a writer lost, invented or changed something; the text says what, of the last one."""

    def __init__(self, message: str, attempts: int) -> None:
        super().__init__(message, FailureClass.TASK)
        self.attempts = attempts


class QueryWriter(Protocol):
    """Writes instructions: a grammar, or a language model with few-shot prompts."""

    @property
    def version(self) -> str:
        """Stands on every query that it writes."""
        ...

    async def write(self, brief: Brief) -> Written:
        """Steps 3 and 4: synthesise and refine; equal briefs give equal queries where the writer can.

        Raises:
            StageError: no phrasing fits, or what was written is not what the brief asks for.
            ModelFailure: the model behind it did not answer.
        """
        ...


class QueryValidator(Protocol):
    """Step 5: tries a query in the environment that it is for."""

    def walk(self, query: Query) -> str | None:
        """Walk the query's reference path from its start state.

        Returns:
            None if the path can be walked and meets the goal check, else the reason why not, in one line.
        """
        ...
