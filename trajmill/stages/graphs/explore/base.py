"""The records of an exploration: the app, the bounds, what was seen and what was tried."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from pydantic import PositiveFloat, PositiveInt

from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import Record
from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.screen_goal import targets
from trajmill.stages.graphs.base import AppGraph, GraphPage

FIELDS = frozenset({"text_field", "search_field"})
"""Here and below, roles of elements."""
BUTTONS = frozenset({"button", "icon_button"})
SWITCHES = frozenset({"checkbox", "switch"})
BOX = "combo_box"
SLIDER = "slider"
INPUTS = FIELDS | SWITCHES | {BOX, "radio"}


def unexplored(app: str, platform: Platform, **others: Any) -> AppGraph:
    """Return the graph of an app to explore: its first page, of which nothing is known."""
    return AppGraph(app=app, platform=platform, start="start", pages={"start": GraphPage()}, **others)


class ExploreBounds(Spec):
    """How far an exploration goes."""

    depth: PositiveInt = 10
    """Largest number of operations from the start to a page that is explored."""
    breadth: PositiveInt = 60
    """Largest number of trials on one page."""
    pages: PositiveInt = 60
    """Largest number of pages; the graph leaves out transitions to further ones."""
    actions: Annotated[PositiveInt, OPERATIONAL] = 4000
    """Largest number of actions in one call; the next call continues."""
    seconds: Annotated[PositiveFloat, OPERATIONAL] = 600.0
    """Time limit of one call in seconds; the next call continues."""
    submit: bool = True
    """Whether forms are submitted, by Enter in a field and by buttons after all fields are filled."""


class TrialKind(StrEnum):
    PRESS = "press"
    DOUBLE = "double"
    """A double click on something that a single click only selects."""
    HOLD = "hold"
    FILL = "fill"
    NUMBER = "number"
    """A field that does not take a text is filled with a number."""
    HIGHEST = "highest"
    LOWEST = "lowest"
    ENTER = "enter"
    """A field is filled, then the Enter key is pressed."""
    SUBMIT = "submit"
    """A form is filled, then a button is pressed."""
    PLAIN = "plain"
    """As `submit`, but the switches of the form stay as they are."""
    KEYPAD = "keypad"
    """A sum is entered on a keypad; `target` is the key `=`."""
    SCROLL = "scroll"
    """What lies below the visible part is brought up; the steps of the record name the last element that came up."""


SETTING = frozenset({TrialKind.FILL, TrialKind.NUMBER, TrialKind.HIGHEST, TrialKind.LOWEST, TrialKind.KEYPAD})
"""Kinds of trials that give an element of a page a value, and nothing else."""


class Effect(StrEnum):
    NOTHING = "nothing"
    CHANGED = "changed"
    """The screen shows something else."""
    LEFT = "left"
    """It led out of the app, or ended it."""
    FAILED = "failed"
    """The environment failed, or an element on the way was not there."""


class WalkedScreen(Record):
    screen_id: str
    app: str
    elements: tuple[UIElement, ...]

    @property
    def by_target(self) -> dict[str, UIElement]:
        return targets(self.elements)

    @property
    def content(self) -> tuple[object, ...]:
        """What the screen shows, without positions and the focus; equal for screens that say the same."""
        kept = [
            (e.role, e.text, e.value, e.element_id, tuple(sorted(set(e.states) - {"focused"}))) for e in self.elements
        ]
        return (self.app, *kept)

    @property
    def has_elements(self) -> bool:
        return any("title" not in element.states for element in self.elements)


def step(operation: str, target: str, text: str = "") -> PathStep:
    """An operation on whatever page is shown."""
    return PathStep(page="", operation=operation, target=target, text=text)


def seen_screen(observation: Observation) -> WalkedScreen:
    """The record of an observation; one without a tree has no elements."""
    return WalkedScreen(
        screen_id=observation.screen.screen_id, app=observation.app, elements=observation.elements or ()
    )


class PlannedTrial(NamedTuple):
    way: tuple[PathStep, ...]
    """The operations from the start to the screen."""
    screen_id: str
    """The screen that showed the element."""
    kind: TrialKind
    target: str
    """The element, by its name in paths."""
    steps: tuple[PathStep, ...]
    """The operations of the trial; the last one is what is tried."""

    @property
    def name(self) -> tuple[TrialKind, str]:
        return self.kind, self.target

    def carried_out(self, before: str, effect: Effect, **fields: Any) -> Trial:
        """The record of the trial; `before` is the screen that its way led to this time."""
        planned = {"way": self.way, "kind": self.kind, "target": self.target, "steps": self.steps}
        return Trial(before=before, effect=effect, **planned, **fields)


class Trial(Record):
    before: str
    """Id of the screen before it."""
    way: tuple[PathStep, ...]
    kind: TrialKind
    target: str
    steps: tuple[PathStep, ...]
    effect: Effect
    after: str = ""
    """Id of the screen after it; empty if it failed."""
    region: str = ""
    """For scrolling: the element that was scrolled."""
    undone: bool = False
    """Whether a second press undid it, so that it is a switch."""
    address: str = ""
    """Where it led to, if it left the app."""
    reason: str = ""


def taken_text(trial: Trial, after: WalkedScreen | None) -> str:
    """The value that a trial gave its element, as the screen shows it; empty if the element did not take it."""
    element = after.by_target.get(trial.target) if after is not None else None
    if trial.effect is not Effect.CHANGED or element is None:
        return ""
    if trial.kind in (TrialKind.HIGHEST, TrialKind.LOWEST):
        return element.value
    typed, shown = trial.steps[-1].text, element.value or element.text
    if trial.kind is TrialKind.NUMBER:
        return shown if re.fullmatch(r"\d+(\.\d*)?", shown) and float(shown) == float(typed) else ""
    return typed if typed in (element.value, element.text) else ""
