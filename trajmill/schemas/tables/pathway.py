"""A way through a program's menus, dialogs and tabs, found by pressing elements (paper 6.2, computers)."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

import pyarrow as pa

from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Record, Row, content_id, optional, required, table_schema
from trajmill.schemas.tables.query import Platform


class EndKind(StrEnum):
    """The kind of a pathway's end."""

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

    arrow_schema: ClassVar[pa.Schema] = table_schema(
        required("pathway_id", pa.string()),
        required("platform", pa.string()),
        required("program", pa.string()),
        required("environment", pa.string()),
        required("start_state", pa.string()),
        required(
            "steps",
            pa.list_(
                pa.struct(
                    [
                        ("role", pa.string()),
                        ("name", pa.string()),
                        ("target", pa.string()),
                        ("bounds", pa.list_(pa.int32())),
                        ("screen_id", pa.string()),
                    ]
                )
            ),
        ),
        required("end_kind", pa.string()),
        required("end_name", pa.string()),
        required("pressed", pa.bool_()),
        required("enabled", pa.bool_()),
        required("shows", pa.list_(pa.struct([(name, pa.string()) for name in ("role", "text", "state")]))),
        optional("needs_selection", pa.bool_()),
        required("selection_by", pa.string()),
        required("found_after", pa.float64()),
    )

    @staticmethod
    def make_id(program: str, start_state: str, targets: tuple[str, ...]) -> str:
        """The content id of a pathway."""
        return content_id("pathway", program, start_state, targets)
