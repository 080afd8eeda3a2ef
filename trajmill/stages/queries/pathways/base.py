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
    """A program to walk: one entry of a programs file."""

    name: str
    """Stored on its pathways and queries as their app."""
    title: str
    """Its name in instructions, e.g. `the text editor`."""
    platform: Platform
    start_state: str
    """The start state, as JSON for the environment's reset."""
    opening: tuple[PathStep, ...] = ()
    """Operations that bring it to the front after a reset, if the start state does not."""
    selecting: tuple[PathStep, ...] = ()
    """Operations after which an object is selected; empty if nothing can be selected."""
    selection: str = ""
    """The words for the selected object, e.g. `all of the text`."""
    presses_commands: bool = False
    """Whether to press also entries and buttons without an ellipsis, which announces a dialog. A reset undoes their
    changes, so this suits programs that reset quickly."""


class WalkBounds(Record):
    """The bounds of a walk."""

    depth: PositiveInt = 4
    """Most elements on a pathway."""
    breadth: PositiveInt = 40
    """Most elements that are pressed in one state of the program."""
    steps: PositiveInt = 1500
    """Most actions of the whole walk, replays included."""
    seconds: PositiveFloat = 300.0
    """Longest time of the whole walk; a walk that reaches it keeps its results."""
    seconds_per_step: PositiveFloat = 30.0
    """Longest time of one action; a program that takes longer hangs."""
    seconds_per_reset: PositiveFloat = 120.0
    failures: NonNegativeInt = 5
    """Most crashes and hangs; the next one ends the walk."""


class WalkTally(NamedTuple):
    """The steps, resets and time that a walk used."""

    steps: int
    resets: int
    seconds: float


class WalkResult(NamedTuple):
    """The result of one walk."""

    pathways: tuple[Pathway, ...]
    """In the order in which they were found."""
    failures: tuple[Failure, ...]
    """Branches that could not be walked, and the reason if the walk ended early."""
    screens: dict[str, Observation]
    """By screen id, the screens that the pathways' steps name."""
    tally: WalkTally
