"""All atomic operations of mouse and keyboard."""

from __future__ import annotations

from trajmill.stages.queries.atomic.base import Operation
from trajmill.stages.queries.atomic.documents import input_place, input_text, select_text, shortcut
from trajmill.stages.queries.atomic.files import click, double_click, drag_move, right_click
from trajmill.stages.queries.atomic.sheets import drag_select, input_cell, scroll


def all_operations() -> tuple[Operation, ...]:
    """All operations."""
    return (
        *(click, double_click, right_click, drag_move),
        *(input_text, shortcut, input_place, select_text),
        *(input_cell, scroll, drag_select),
    )
