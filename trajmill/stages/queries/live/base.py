"""What a query from the graph of a live app asks for: a route through its pages, and the values on the way."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.annotations import KnownSlot, PathMetadata
from trajmill.stages.graphs.base import AppGraph, GraphSlot, GraphTransition

STAGE = "generate"


class Setting(NamedTuple):
    """A slot of a page and the value that is asked for."""

    name: str
    """Its name on the query, unique there: the slot's name, with a number where a route sets a slot again."""
    page: str
    slot: str
    value: str

    def spec(self, graph: AppGraph) -> GraphSlot:
        """The slot in its graph."""
        return graph.pages[self.page].slots[self.slot]


class RouteMove(NamedTuple):
    """One transition of a route, with the values that it needs."""

    page: str
    """The page that it begins at."""
    transition: GraphTransition
    settings: tuple[Setting, ...] = ()

    @property
    def values(self) -> dict[str, str]:
        """By slot of the page, the wanted value."""
        return {setting.slot: setting.value for setting in self.settings}


class Route(NamedTuple):
    """A way through a graph from its start, still without values."""

    graph: AppGraph
    moves: tuple[RouteMove, ...]
    final: tuple[str, ...] = ()
    """Slots to set on the last page."""

    @property
    def end(self) -> str:
        """The last page."""
        return self.moves[-1].transition.to if self.moves else self.graph.start


class LiveSample(NamedTuple):
    """A route and the values on it, for one goal."""

    graph: AppGraph
    moves: tuple[RouteMove, ...]
    final: tuple[Setting, ...]
    """The values to set on the last page."""
    end: str
    """The last page."""
    task: str
    """Name of the task; its samples differ in values alone."""

    @property
    def settings(self) -> tuple[Setting, ...]:
        """All values, in the order in which they are set."""
        return (*(setting for move in self.moves for setting in move.settings), *self.final)

    @property
    def acts(self) -> tuple[RouteMove, ...]:
        """The moves that do more than to lead to another page."""
        return tuple(move for move in self.moves if move.settings or move.transition.to == move.page)

    @property
    def parts(self) -> int:
        """How many things it asks for: what is done on the way, and the values that are set at the end."""
        return max(1, len(self.acts) + len(self.final))

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Equal for samples of a task that ask for the same thing."""
        named = self.graph.pages[self.end].title or self.end.replace("-", " ")
        # Pages of one name cannot be told apart in words, so they are one goal.
        return tuple((setting.name, setting.value) for setting in self.settings) or (("page", named),)


class LiveBrief(NamedTuple):
    """The input of a writer for one query."""

    sample: LiveSample
    metadata: PathMetadata
    slots: tuple[KnownSlot, ...]
    """The words that the instruction must and must not have."""
    heldout: bool
    """Whether it must have a phrasing that training never sees."""
    seed: int

    @property
    def platform(self) -> Platform:
        """The sort of device."""
        return self.sample.graph.platform
