"""What the writers of queries and their validators are, and the records between the five steps (paper 6.2)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from schemas.query import Platform, Query
from stages.queries.phrasing import Phrasing


class SlotValue(NamedTuple):
    """One slot-value pair of a path (the paper's K', V')."""

    name: str
    page: str
    """`app.screen`."""
    label: str
    """How the page names the choice, e.g. `Size`."""
    kind: str
    """Kind of widget: list, choice, switch, checkbox, stepper, field, search."""
    value: str
    """As the screen shows it."""
    said: str
    """The words to use for it; empty where the user does not say it (it follows, or is carried from another page)."""
    optional: bool


class PageMetadata(NamedTuple):
    """One page of a path."""

    page: str
    """`app.screen`."""
    app_name: str
    description: str
    """What the page shows and is for (the paper's d_i)."""
    slots: tuple[SlotValue, ...]
    """What the user chooses there, in the order of the page."""
    leave_by: str
    """Label of what is pressed there last; empty where choosing leads on, and on the last page."""


class PathMetadata(NamedTuple):
    """What a writer is told about one sampled path (the paper's D', K', V')."""

    task: str
    description: str
    """What the task is, e.g. `Order a dish`."""
    platform: Platform
    pages: tuple[PageMetadata, ...]

    @property
    def slots(self) -> tuple[SlotValue, ...]:
        """All slot-value pairs, in the order of the path."""
        return tuple(slot for page in self.pages for slot in page.slots)


class QueryWriter(Protocol):
    """Writes instructions: a grammar, or a language model with few-shot prompts."""

    @property
    def version(self) -> str:
        """Stands on every query that it writes."""
        ...

    def synthesise(self, metadata: PathMetadata) -> str:
        """Step 3: an explicit navigation instruction, e.g. `Open the Bites app, choose Pizza, ...`."""
        ...

    def refine(self, raw: str, metadata: PathMetadata, phrasing: Phrasing) -> str:
        """Step 4: what a person would say, in the manner of a phrasing.

        Raises:
            schemas.errors.ModelFailure: the model behind it did not answer.
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
