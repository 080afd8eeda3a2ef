"""The cells of a spreadsheet that are in sight; its table has billions of them and lists none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from trajmill.schemas.geometry import Box
from trajmill.stages.environments.desktop.local.accessibility.atspi import (
    Item,
    Reference,
    extents_call,
    property_call,
    state_names,
)
from trajmill.stages.environments.desktop.local.accessibility.bus import Bus
from trajmill.stages.environments.desktop.local.accessibility.texts import read_texts
from trajmill.stages.environments.desktop.osworld.spreadsheet import cell_address

_MOST_COLUMNS, _MOST_ROWS = 30, 60
_MOST_CELLS = 600
_INSIDE_PIXELS = 3
_ADDRESS = re.compile(r"([A-Z]+)([0-9]+)")


class Cell(NamedTuple):
    """A cell in sight; its item's name is its address."""

    item: Item
    bounds: Box
    text: str


class _Area(NamedTuple):
    row: int
    column: int
    rows: int
    columns: int


def read_cells(bus: Bus, sheet: Item, bounds: Box, seconds: float) -> list[Cell]:
    """The cells of a sheet that are in sight, row by row.

    Args:
        bus: the accessibility bus.
        sheet: an object with the `Table` interface.
        bounds: where it says it is; the cells' places are in the same frame.
        seconds: bound of each group of calls.
    """
    area = _area_in_sight(bus, sheet.reference, bounds, seconds)
    if area is None:
        return []
    places = [(area.row + row, area.column + column) for row in range(area.rows) for column in range(area.columns)]
    found = _cells_at(bus, sheet.reference, places[:_MOST_CELLS], seconds)
    references = [cell.reference for cell in found]
    boxes = bus.ask([extents_call(reference) for reference in references], seconds)
    states = bus.ask([reference.call("Accessible", "GetState") for reference in references], seconds)
    texts = read_texts(bus, references, seconds)
    return [
        Cell(cell._replace(states=state_names(state[0])), _box(*box[0]), text)
        for cell, box, state, text in zip(found, boxes, states, texts, strict=True)
        if box and state
    ]


def sheets_in(items: Iterable[Item]) -> frozenset[Reference]:
    """Those of `items` that are tables of a spreadsheet."""
    items = list(items)
    documents = {item.reference for item in items if item.role == "document-spreadsheet"}
    return frozenset(item.reference for item in items if item.role == "table" and item.parent in documents)


def _area_in_sight(bus: Bus, sheet: Reference, bounds: Box, seconds: float) -> _Area | None:
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


def _cells_at(bus: Bus, sheet: Reference, places: list[tuple[int, int]], seconds: float) -> list[Item]:
    """The cells at rows and columns; their states are not yet known."""
    answers = bus.ask([sheet.call("Table", "GetAccessibleAt", "ii", *place) for place in places], seconds)
    return [
        Item(Reference(*answer[0]), sheet, -1, 0, frozenset(), cell_address(*place), "table-cell", frozenset())
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
