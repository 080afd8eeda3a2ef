"""The protocols of query writers and validators, and the records that they take (paper 6.2, steps 3 to 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.simulated.annotations import PathMetadata
from trajmill.stages.environments.simulated.world import TaskGraph
from trajmill.stages.queries.base import Variant, Written
from trajmill.stages.queries.graph.sampling import TaskSample


class Clause(NamedTuple):
    """The words for one optional slot."""

    slot: str
    variant: Variant
    words: str
    """The clause with its alternatives decided and its slot filled in, without an `and` before it."""


class Phrasing(NamedTuple):
    """Everything that decides the words of an instruction."""

    task: str
    template: Variant
    clauses: tuple[Clause, ...]
    """In the order of the sentence."""
    said: Mapping[str, str]
    """By slot, the words that the instruction must contain."""
    seed: int
    """Decides between the alternatives inside the template."""

    @property
    def id(self) -> str:
        """As stored on the query, e.g. `bites.order/h0 place/1 size/h0`."""
        clauses = sorted(f"{clause.slot}/{clause.variant.id}" for clause in self.clauses)
        return " ".join([f"{self.task}/{self.template.id}", *clauses])


class Brief(NamedTuple):
    """The input of a writer for one query."""

    task: TaskGraph
    """The task with its annotations; a grammar takes its templates from here."""
    sample: TaskSample
    metadata: PathMetadata
    """What the instruction must say about the task and the sample."""
    heldout: bool
    """Whether it must have a phrasing that training never sees."""
    seed: int


class DraftRefused(StageError):
    """Every draft of a writer missed, invented or changed something; the message says what, of the last draft."""

    def __init__(self, message: str, attempts: int) -> None:
        super().__init__(message, FailureClass.TASK)
        self.attempts = attempts


class QueryWriter(Protocol):
    """Writes instructions: a grammar, or a language model with few-shot prompts."""

    @property
    def version(self) -> str:
        """Name and version; stored with every query that it writes."""
        ...

    async def write(self, brief: Brief) -> Written:
        """Steps 3 and 4: synthesise and refine. Equal briefs give equal queries if the writer is deterministic.

        Raises:
            StageError: no phrasing fits, or the written text is not what the brief asks for.
            ModelFailure: its model did not answer.
        """
        ...


class QueryValidator(Protocol):
    """Step 5: tries a query in its environment."""

    def walk(self, query: Query) -> str | None:
        """Walk the query's reference path from its start state.

        Returns:
            None if the path can be walked and meets the goal check, else the reason in one line.
        """
        ...
