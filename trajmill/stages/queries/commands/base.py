"""A place that commands are written for, and what a model answers."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field

from trajmill.schemas.record import Record, content_id
from trajmill.schemas.tables.pathway import Evidence
from trajmill.schemas.tables.query import PathStep, Platform, Source
from trajmill.stages.environments.screen_goal import Showing

BATCH = 10
"""Most commands in one request."""


class KnownPathway(NamedTuple):
    """A way through the program that commands can take first, e.g. to a dialog for the selected text."""

    names: tuple[str, ...]
    """The elements on the way, as people call them."""
    steps: tuple[PathStep, ...]
    shows: tuple[Evidence, ...]
    """What the screen shows at its end."""


class CommandPlace(NamedTuple):
    """A program in a start state, with an object that can be worked on."""

    app: str
    title: str
    """The program's name for the model."""
    source: Source
    """`atomic`, or `pathway` where commands take a pathway."""
    platform: Platform
    start_state: str
    """JSON for the environment's reset."""
    opening: tuple[PathStep, ...] = ()
    """Operations after a reset; afterwards the screen is as the model sees it, e.g. with a text selected."""
    exemplars: tuple[str, ...] = ()
    """Commands for such a place that people wrote."""
    pathways: tuple[KnownPathway, ...] = ()

    @property
    def id(self) -> str:
        """Identifies it on failures."""
        return content_id("place", self.app, self.source, self.start_state)


class WrittenStep(Record):
    """One operation, as the model wrote it."""

    operation: str = Field(max_length=20)
    target: str = Field("", max_length=300)
    text: str = Field("", max_length=300)


class WrittenCommand(Record):
    """One command, as the model wrote it; nothing of it is believed."""

    instruction: str
    steps: Annotated[tuple[WrittenStep, ...], Field(max_length=15)] = ()
    pathway: int | None = None
    """Number of the pathway that is taken first."""
    shows: Annotated[tuple[Showing, ...], Field(max_length=8)] = ()
    """What the screen shows when it is done, and not before."""
    lacks: Annotated[tuple[Showing, ...], Field(max_length=8)] = ()


class CommandAnswer(Record):
    """The answer of the model."""

    commands: Annotated[tuple[WrittenCommand, ...], Field(min_length=1, max_length=2 * BATCH)]
