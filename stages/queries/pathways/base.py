"""Records of a walk: the program, the bounds, the result."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Record
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.pathway import Pathway
from trajmill.schemas.tables.query import PathStep, Platform

STAGE = "pathways"


class PathwayProgram(Record):
    """A program to walk, as one entry of a programs file says it."""

    name: str
    """Stands on its pathways and queries as their app."""
    title: str
    """What people call it, e.g. `the text editor`."""
    platform: Platform
    start_state: str
    """JSON that the environment's reset understands."""
    opening: tuple[PathStep, ...] = ()
    """Operations that bring it to the front after a reset, where the start state does not."""
    selecting: tuple[PathStep, ...] = ()
    """Operations after which an object is selected; empty where there is nothing to select."""
    selection: str = ""
    """What they select, in words, e.g. `all of the text`."""
    presses_commands: bool = False
    """Whether to press, as well, entries and buttons that do not promise a dialog by an ellipsis. A reset
    undoes their changes, so this suits programs that reset quickly."""


class WalkBounds(Record):
    """How far a walk goes."""

    depth: PositiveInt = 4
    """Elements on the longest pathway."""
    breadth: PositiveInt = 40
    """Elements that are pressed in one state of the program."""
    steps: PositiveInt = 1500
    """Actions in all, those of replays included."""
    seconds: PositiveFloat = 300.0
    """In all; a walk that ends by it keeps what it has found."""
    seconds_per_step: PositiveFloat = 30.0
    """For one action; a program that takes longer hangs."""
    seconds_per_reset: PositiveFloat = 120.0
    failures: NonNegativeInt = 5
    """Crashes and hangs that are survived; the next one ends the walk."""


class WalkTally(NamedTuple):
    """What a walk used."""

    steps: int
    resets: int
    seconds: float


class WalkResult(NamedTuple):
    """The result of one walk."""

    pathways: tuple[Pathway, ...]
    """In the order in which they were found."""
    failures: tuple[Failure, ...]
    """Branches that could not be walked, and why the walk ended early where it did."""
    screens: dict[str, Observation]
    """By screen id, the screens that the pathways' steps name."""
    tally: WalkTally
