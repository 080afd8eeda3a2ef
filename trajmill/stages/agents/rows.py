"""Reads the rows of a screen from its accessibility tree: the thought that a model learns to write from pixels."""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.schemas.actions import Action, Click, Scroll, Swipe, pressed_point
from trajmill.schemas.dialects.read_aloud import rows_aloud
from trajmill.schemas.observation import UIElement


def rows_before(action: Action, elements: Sequence[UIElement], below: str = "") -> str:
    """The rows that lead to an action: up to the one that a click presses, all of them before scrolling, else none.

    Args:
        action: what is done next.
        elements: the screen's tree, in reading order; what can be pressed is a row.
        below: the label that is scrolled to; empty if it is not known.
    """
    rows = [element for element in elements if element.clickable]
    if isinstance(action, Swipe | Scroll):
        return rows_aloud([_label(row) for row in rows], below)
    point = pressed_point(action)
    if not isinstance(action, Click) or point is None:
        return ""
    pressed = next((at for at, row in enumerate(rows) if row.bounds.contains(*point)), None)
    return "" if pressed is None else rows_aloud([_label(row) for row in rows[: pressed + 1]], _label(rows[pressed]))


def _label(row: UIElement) -> str:
    # The buttons of a stepper say plus and minus; what they change stands beside them.
    return f"{row.value} {row.text}" if row.role == "stepper_button" else row.text
