"""A way through a program's menus, dialogs and tabs, found by pressing what is on the screen (paper 6.2, computers)."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

import pyarrow as pa

from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Record, Row, content_id, optional, required, table_schema
from trajmill.schemas.tables.query import Platform


class EndKind(StrEnum):
    """What a pathway leads to."""

    MENU = "menu"
    """A menu or another list of choices, which is open now."""
    MENU_ITEM = "menu_item"
    """An entry of an open menu; whether it was pressed as well, `Pathway.pressed` says."""
    DIALOG = "dialog"
    """A window over, or beside, the one that it was called from."""
    TAB = "tab"
    """A tab, which is in front now."""
    PAGE = "page"
    """Another page in the same window."""


class PathwayStep(Record):
    """One element on the way."""

    role: str
    name: str
    """The text on it."""
    target: str
    """How it is found again, wherever it is drawn: its element id, else `role:name`."""
    bounds: Box
    """Where it was drawn, in pixels of the screenshot."""
    screen_id: str
    """The screen on which it was seen."""


class Evidence(Record):
    """An element that is to be seen at a pathway's end."""

    role: str
    text: str
    state: str
    """A state that it has there, e.g. `selected` for a tab; empty where any will do."""


class Pathway(Row):
    """A way to one place of a program."""

    pathway_id: str
    """Content hash of program, start state and the elements on the way."""
    platform: Platform
    program: str
    environment: str
    """Kind of environment that it was walked in."""
    start_state: str
    """JSON of the start state, as on a query."""
    steps: tuple[PathwayStep, ...]
    """The last one is what the pathway leads to, or opens it."""
    end_kind: EndKind
    end_name: str
    """Title of the dialog or page that opened, else the name on the last element."""
    pressed: bool
    """Whether the last element was pressed; what might do harm, and what could only change something, was not."""
    enabled: bool
    """Whether the last element could be pressed in the start state."""
    shows: tuple[Evidence, ...]
    """What is to be seen when one has arrived."""
    needs_selection: bool | None
    """Whether an object must be selected first; null where nobody has looked."""
    selection_by: str
    """Who says so: `tree` (what is disabled without a selection and enabled with one), a model's version, or empty."""
    found_after: float
    """Seconds from the start of the walk, its resets included."""

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
