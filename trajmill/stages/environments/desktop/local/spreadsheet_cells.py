"""Reads the visible cells of a spreadsheet; its table has billions of cells and lists none as children."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from trajmill.schemas.geometry import Box
from trajmill.stages.environments.desktop.local.atspi import (
    Bus,
    CachedObject,
    Reference,
    extents_call,
    property_call,
    read_texts,
    state_names,
)
from trajmill.stages.environments.desktop.metrics import cell_address

_MOST_COLUMNS, _MOST_ROWS = 30, 60
_MOST_CELLS = 600
_INSIDE_PIXELS = 3
_ADDRESS = re.compile(r"([A-Z]+)([0-9]+)")


class VisibleCell(NamedTuple):
    """A visible cell; the name of its object is its address."""

    item: CachedObject
    bounds: Box
    text: str


class _Area(NamedTuple):
    row: int
    column: int
    rows: int
    columns: int


def read_visible_cells(bus: Bus, sheet: CachedObject, bounds: Box, seconds: float) -> list[VisibleCell]:
    """The visible cells of a sheet, row by row.

    Args:
        bus: the accessibility bus.
        sheet: an object with the `Table` interface.
        bounds: bounds of the sheet, as LibreOffice gives them; the cells' bounds use the same coordinates.
        seconds: time limit of each group of calls.
    """
    area = _visible_area(bus, sheet.reference, bounds, seconds)
    if area is None:
        return []
    places = [(area.row + row, area.column + column) for row in range(area.rows) for column in range(area.columns)]
    found = _cells_at(bus, sheet.reference, places[:_MOST_CELLS], seconds)
    references = [cell.reference for cell in found]
    boxes = bus.ask([extents_call(reference) for reference in references], seconds)
    states = bus.ask([reference.call("Accessible", "GetState") for reference in references], seconds)
    texts = read_texts(bus, references, seconds)
    return [
        VisibleCell(cell._replace(states=state_names(state[0])), _box(*box[0]), text)
        for cell, box, state, text in zip(found, boxes, states, texts, strict=True)
        if box and state
    ]


def spreadsheets_in(items: Iterable[CachedObject]) -> frozenset[Reference]:
    """The tables of spreadsheets among `items`."""
    items = list(items)
    documents = {item.reference for item in items if item.role == "document-spreadsheet"}
    return frozenset(item.reference for item in items if item.role == "table" and item.parent in documents)


def _visible_area(bus: Bus, sheet: Reference, bounds: Box, seconds: float) -> _Area | None:
    corner = sheet.call(
        "Component", "GetAccessibleAtPoint", "iiu", bounds.left + _INSIDE_PIXELS, bounds.top + _INSIDE_PIXELS, 0
    )
    found = bus.ask_one(corner, seconds)
    name = bus.ask_one(property_call(Reference(*found[0]), "Accessible", "Name"), seconds) if found else None
    address = _ADDRESS.fullmatch(name[0][1]) if name else None
    if address is None:
        return None
    row, column = int(address[2]) - 1, _column_number(address[1])
    across = _boxes(bus, sheet, [(row, column + step) for step in range(_MOST_COLUMNS)], seconds)
    down = _boxes(bus, sheet, [(row + step, column) for step in range(_MOST_ROWS)], seconds)
    columns = sum(box.left < bounds.right and box.area > 0 for box in across)
    rows = sum(box.top < bounds.bottom and box.area > 0 for box in down)
    return _Area(row, column, rows, columns)


def _boxes(bus: Bus, sheet: Reference, places: list[tuple[int, int]], seconds: float) -> list[Box]:
    cells = _cells_at(bus, sheet, places, seconds)
    answers = bus.ask([extents_call(cell.reference) for cell in cells], seconds)
    return [_box(*answer[0]) for answer in answers if answer]


def _cells_at(bus: Bus, sheet: Reference, places: list[tuple[int, int]], seconds: float) -> list[CachedObject]:
    """The cells at rows and columns, still without their states."""
    answers = bus.ask([sheet.call("Table", "GetAccessibleAt", "ii", *place) for place in places], seconds)
    return [
        CachedObject(Reference(*answer[0]), sheet, -1, 0, frozenset(), cell_address(*place), "table-cell", frozenset())
        for place, answer in zip(places, answers, strict=True)
        if answer
    ]


def _box(left: int, top: int, width: int, height: int) -> Box:
    return Box(left, top, left + width, top + height)


def _column_number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1
