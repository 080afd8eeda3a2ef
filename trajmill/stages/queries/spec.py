"""The configuration sections that ask for queries, and the base of sources from other packages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from trajmill.schemas.spec import Fraction, Spec
from trajmill.schemas.tables.query import Split
from trajmill.stages.parts import PartGroup

if TYPE_CHECKING:
    from trajmill.stages.queries.base import QuerySource

QUERY_SOURCES = PartGroup("trajmill.queries", "query source")
AtomicApp = Literal["libreoffice-calc", "libreoffice-writer", "mousepad", "pcmanfm"]
DocumentKind = Literal["docx", "xlsx", "pptx"]


class WalkReach(Spec):
    """How far programs are walked."""

    depth: PositiveInt = 4
    """Largest number of presses in a pathway."""
    breadth: PositiveInt = 40
    """Most elements that are pressed in one state of a program."""
    steps: PositiveInt = 1500
    """Most actions in a program."""
    seconds: PositiveFloat = 300.0
    """Time limit for walking one program in seconds; what was found is kept."""


class QuerySourceSpec(Spec):
    """The table `[sources.NAME]` of a source from another package."""

    kind: str
    """Name of the kind of source."""

    @abstractmethod
    def open(self) -> QuerySource: ...


class GraphQueriesSpec(Spec):
    """How many queries to make for each split, and what is held out."""

    train: PositiveInt = 1000
    """Queries for training."""
    heldout_slots: NonNegativeInt = 60
    """New slot combinations, phrased as in training."""
    heldout_phrasings: NonNegativeInt = 60
    """New slot combinations in phrasings that training never sees."""
    heldout_apps: NonNegativeInt = 60
    """Queries of apps that training never sees."""
    heldout_app_names: tuple[str, ...] = ("stride", "photos")
    """Ids of the apps that are kept from training."""

    validation: NonNegativeInt = 80
    """Queries that decide which policy is promoted: half of them new slot combinations, half in validation apps."""
    validation_app_names: tuple[str, ...] = ("rides",)
    """Ids of the apps kept for validation queries; the default is ignored if there is no such app."""
    infeasible: Fraction = 0.05
    """Share of impossible queries in each split: the item is not there, and the right end is to report failure."""
    answers: Fraction = 0.05
    """Share of questions in each split: the agent must answer with a value on a page. Phones only."""

    @property
    def unseen_app_names(self) -> tuple[str, ...]:
        return (*self.heldout_app_names, *(self.validation_app_names if self.validation else ()))

    def validation_apps(self, known: Collection[str]) -> tuple[str, ...]:
        """Return the apps kept for validation; the default only if it is among the known apps."""
        if not self.validation:
            return ()
        by_default = self.validation_app_names == type(self).model_fields["validation_app_names"].default
        return tuple(name for name in self.validation_app_names if name in known or not by_default)

    def wanted(self, split: Split) -> int:
        """Return the wanted queries of a split; 0 for held-out apps if no app is held out."""
        if split is Split.HELDOUT_APPS and not self.heldout_app_names:
            return 0
        return int(getattr(self, split.value))


class _PerSplit(Spec):
    train: NonNegativeInt = 0
    """Queries for training."""
    validation: NonNegativeInt = 0
    """Queries that decide which policy is promoted."""
    heldout_slots: NonNegativeInt = 0
    """Goals that training lacks, phrased as in training."""
    heldout_phrasings: NonNegativeInt = 0
    """Goals that training lacks, in phrasings that training never sees."""
    heldout_apps: NonNegativeInt = 0
    """Queries of apps that training never sees."""

    def wanted(self, split: Split) -> int:
        return int(getattr(self, split.value))

    @property
    def any_wanted(self) -> bool:
        return any(map(self.wanted, Split))


class GraphSourceSpec(_PerSplit):
    """Queries from graphs of apps (see graphs.md), beside the environment's own.

    Apps named in `queries.heldout_app_names` and `queries.validation_app_names` are kept from training.
    """

    files: tuple[Path, ...] = ()
    """Graphs of apps that the environment runs. The `graph_...` critics read them unless `judge.graphs` is set."""


class CausalSpec(_PerSplit):
    """Causal pathways (see causal.md), beside the environment's own queries.

    Apps named in `queries.heldout_app_names` and `queries.validation_app_names` are kept from training.
    """

    files: tuple[Path, ...] = ()
    """Graphs of apps that the environment runs (see graphs.md), beside its simulated apps."""
    level_weights: Annotated[tuple[NonNegativeFloat, ...], Field(min_length=3, max_length=3)] = (133.0, 92.0, 51.0)
    """Shares of levels 1 (2 atomic tasks), 2 (3 or 4) and 3 (5 to 7 in 3 apps or more), as in NaturalGAIA, table 5."""
