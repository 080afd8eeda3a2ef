"""A way through a program's menus, dialogs and tabs, found by pressing elements (paper 6.2, computers)."""

from __future__ import annotations

from enum import StrEnum

from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Record, Row, content_id
from trajmill.schemas.tables.query import Platform


class EndKind(StrEnum):
    MENU = "menu"
    """A menu or another list of choices, which is open."""
    MENU_ITEM = "menu_item"
    """An entry of an open menu; `Pathway.pressed` says whether it was also pressed."""
    DIALOG = "dialog"
    """A window over or beside the one that opened it."""
    TAB = "tab"
    """A tab, which is in front."""
    PAGE = "page"
    """Another page in the same window."""


class PathwayStep(Record):
    """One element on the way."""

    role: str
    name: str
    """Its text."""
    target: str
    """The name by which it is found again: its element id, or `role:name` without one."""
    bounds: Box
    """Its box, in pixels of the screenshot."""
    screen_id: str
    """The screen that showed it."""


class Evidence(Record):
    """An element that the screen shows at a pathway's end."""

    role: str
    text: str
    state: str
    """A state that it has there, e.g. `selected` for a tab; empty for any."""


class Pathway(Row):
    """A way to one place of a program."""

    pathway_id: str
    """Content hash of program, start state and the elements on the way."""
    platform: Platform
    """The sort of device."""
    program: str
    """The program that was walked."""
    environment: str
    """Kind of the environment of the walk."""
    start_state: str
    """JSON of the start state, as on a query."""
    steps: tuple[PathwayStep, ...]
    """The elements on the way; the last one is the pathway's end, or opens it."""
    end_kind: EndKind
    """What the pathway ends at."""
    end_name: str
    """Title of the opened dialog or page, or the name of the last element."""
    pressed: bool
    """Whether the last element was pressed; elements that may do damage, or only change something, are not pressed."""
    enabled: bool
    """Whether the last element could be pressed in the start state."""
    shows: tuple[Evidence, ...]
    """The elements that the screen shows at the end."""
    needs_selection: bool | None
    """Whether an object must be selected first; null if this was not checked."""
    selection_by: str
    """The source of this: `tree` (disabled without a selection and enabled with one), a model's version, or empty."""
    found_after: float
    """Seconds from the start of the walk, including resets."""

    @staticmethod
    def make_id(program: str, start_state: str, targets: tuple[str, ...]) -> str:
        return content_id("pathway", program, start_state, targets)
