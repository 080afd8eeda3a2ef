"""Places rows one below the other in a viewport that scrolls by whole rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trajmill.schemas.geometry import Box
from trajmill.stages.environments.simulated.layout.widgets import DrawnPart, WidgetRow

_TURN = 0.8
"""Share of the viewport that one scroll moves by."""


class ScrollState(NamedTuple):
    """The scroll offset of a body, and the offsets after scrolling."""

    offset: int
    """Pixels of content above the viewport; always at the top of a row."""
    up: int | None
    """Offset after scrolling towards the start; None at the start."""
    down: int | None


class PlacedRows(NamedTuple):
    """The rows that a viewport shows."""

    parts: tuple[DrawnPart, ...]
    scroll: ScrollState
    content: int
    """Height of all rows."""


def place_rows(rows: Sequence[WidgetRow], viewport: Box, gap: int, offset: int, focus: str) -> PlacedRows:
    """Place rows from the top of the viewport; only whole rows are shown, and the focused row is always shown."""
    tops = _tops(rows, gap)
    content = tops[-1] + rows[-1].height if rows else 0
    room = viewport.bottom - viewport.top
    offset = _aligned(tops, rows, room, content, offset)
    if focus:
        offset = _revealing(tops, rows, room, offset, focus)
    parts: list[DrawnPart] = []
    hidden_below: int | None = None
    for top, row in zip(tops, rows, strict=True):
        if top < offset:
            continue
        # A row that is taller than the viewport is cut; otherwise it would never be shown.
        if top > offset and top + row.height > offset + room:
            hidden_below = top
            break
        parts.extend(row.place(viewport.left, viewport.top + top - offset, viewport.bottom))
    return PlacedRows(tuple(parts), _scroll(tops, room, offset, hidden_below), content)


def _tops(rows: Sequence[WidgetRow], gap: int) -> list[int]:
    tops, top = [], 0
    for row in rows:
        tops.append(top)
        top += row.height + gap
    return tops


def _aligned(tops: list[int], rows: Sequence[WidgetRow], room: int, content: int, offset: int) -> int:
    if content <= room or not rows:
        return 0
    last = next((top for top in tops if content - top <= room), tops[-1])
    return min(max((top for top in tops if top <= offset), default=0), last)


def _revealing(tops: list[int], rows: Sequence[WidgetRow], room: int, offset: int, focus: str) -> int:
    for top, row in zip(tops, rows, strict=True):
        if row.widget == focus:
            if top < offset:
                return top
            if top + row.height > offset + room:
                return next((start for start in tops if top + row.height - start <= room), top)
    return offset


def _scroll(tops: list[int], room: int, offset: int, hidden_below: int | None) -> ScrollState:
    above = [top for top in tops if top < offset]
    up = next((top for top in above if top >= offset - _TURN * room), above[-1]) if above else None
    down = None
    if hidden_below is not None:
        down = min(hidden_below, max(top for top in tops if top <= max(offset + _TURN * room, hidden_below)))
    return ScrollState(offset, up, down)
