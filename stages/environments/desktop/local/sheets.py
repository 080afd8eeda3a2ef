"""The cells of a spreadsheet that are in sight; its table has billions of them and lists none."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from schemas.geometry import Box
from stages.environments.desktop.local.atspi import Item, Reference, extents_call, property_call, text_call
from stages.environments.desktop.local.bus import Bus
from stages.environments.desktop.spreadsheet import cell_address

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
    places = [(area.row + row, area.column + column) for row in range(area.rows) for column in range(area.columns)][
        :_MOST_CELLS
    ]
    references = _cells_at(bus, sheet.reference, places, seconds)
    boxes = bus.ask([extents_call(reference) for reference in references], seconds)
    texts = bus.ask([text_call(reference) for reference in references], seconds)
    selected = _focused_cell(bus, sheet.reference, seconds)
    return [
        _cell(sheet, reference, place, box, text, selected)
        for reference, place, box, text in zip(references, places, boxes, texts, strict=True)
        if box is not None
    ]


def _cell(
    sheet: Item,
    reference: Reference,
    place: tuple[int, int],
    box: tuple[Any, ...],
    text: tuple[Any, ...] | None,
    selected: Reference | None,
) -> Cell:
    left, top, width, height = box[0]
    states = {"showing", "visible", "enabled", "editable"} | ({"selected"} if reference == selected else set())
    item = Item(reference, sheet.reference, -1, frozenset(), cell_address(*place), "table-cell", frozenset(states))
    return Cell(item, Box(left, top, left + width, top + height), text[0] if text else "")


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
    across = _edges(bus, sheet, [(row, column + step) for step in range(_MOST_COLUMNS)], seconds)
    down = _edges(bus, sheet, [(row + step, column) for step in range(_MOST_ROWS)], seconds)
    columns = sum(box.left < bounds.right and box.area > 0 for box in across)
    rows = sum(box.top < bounds.bottom and box.area > 0 for box in down)
    return _Area(row, column, rows, columns)


def _edges(bus: Bus, sheet: Reference, places: list[tuple[int, int]], seconds: float) -> list[Box]:
    cells = _cells_at(bus, sheet, places, seconds)
    found = [answer[0] for answer in bus.ask([extents_call(cell) for cell in cells], seconds) if answer]
    return [Box(left, top, left + width, top + height) for left, top, width, height in found]


def _cells_at(bus: Bus, sheet: Reference, places: list[tuple[int, int]], seconds: float) -> list[Reference]:
    calls = [sheet.call("Table", "GetAccessibleAt", "ii", row, column) for row, column in places]
    return [Reference(*answer[0]) for answer in bus.ask(calls, seconds) if answer]


def _focused_cell(bus: Bus, sheet: Reference, seconds: float) -> Reference | None:
    found = bus.ask_one(sheet.call("Selection", "GetSelectedChild", "i", 0), seconds)
    return Reference(*found[0]) if found else None


def _column_number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1
