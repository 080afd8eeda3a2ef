"""Operations on the cells of a spreadsheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from trajmill.stages.queries.atomic.base import HOME, AtomicTask, Objects, file, launch, output_is, path_step

_SHEET = f"{HOME}/Documents/table.csv"
_ROWS = 4
_COLUMNS = "ABC"
_EMPTY = [""] * len(_COLUMNS)
_ROWS_OUT_OF_SIGHT = range(60, 80)
_SAVE = path_step("key", text="ctrl+s")


def input_cell(objects: Objects, rng: Random) -> AtomicTask:
    """Write into an empty cell below a table."""
    return _input("input_cell", objects, rng, range(_ROWS + 3, _ROWS + 7))


def scroll(objects: Objects, rng: Random) -> AtomicTask:
    """Write into a cell that is out of view."""
    return _input("scroll", objects, rng, _ROWS_OUT_OF_SIGHT)


def drag_select(objects: Objects, rng: Random) -> AtomicTask:
    """Select two rows of a table by dragging and empty them."""
    table, row = _table(objects, rng), rng.randint(2, _ROWS - 1)
    first, last = f"A{row}", f"{_COLUMNS[-1]}{row + 1}"
    emptied = [*table[: row - 1], _EMPTY, _EMPTY, *table[row + 1 :]]
    dragged = path_step("drag", f"soffice/cell:{first}", f"soffice/cell:{last}")
    return AtomicTask(
        "drag_select",
        "libreoffice-calc",
        {"first": first, "last": last},
        _sheet(table),
        (dragged, path_step("key", text="delete"), _SAVE),
        output_is(["cat", _SHEET], _csv(emptied)),
    )


def _input(operation: str, objects: Objects, rng: Random, rows: range) -> AtomicTask:
    table, text = _table(objects, rng), rng.choice(objects.goods)
    row, column = rng.choice(rows), rng.randrange(len(_COLUMNS))
    address = f"{_COLUMNS[column]}{row}"
    cell = f"soffice/cell:{address}"
    written = ["" if other != column else text for other in range(len(_COLUMNS))]
    gap = [_EMPTY] * (row - 1 - len(table))
    scroll_first = (path_step("scroll", cell),) if rows is _ROWS_OUT_OF_SIGHT else ()
    return AtomicTask(
        operation,
        "libreoffice-calc",
        {"text": text, "cell": address},
        _sheet(table),
        (*scroll_first, path_step("tap", cell), path_step("type", text=f"{text}\n"), _SAVE),
        output_is(["cat", _SHEET], _csv([*table, *gap, written])),
    )


def _table(objects: Objects, rng: Random) -> list[Sequence[str]]:
    goods = rng.sample(objects.goods, _ROWS)
    return [objects.headings, *([name, str(rng.randint(2, 90)), str(rng.randint(1, 52))] for name in goods)]


def _csv(table: Sequence[Sequence[str]]) -> str:
    """CSV as LibreOffice saves it: text in quotes, numbers and empty cells without."""
    return "\n".join(",".join(f'"{text}"' if text.isalpha() else text for text in row) for row in table)


def _sheet(table: Sequence[Sequence[str]]) -> list[Mapping[str, Any]]:
    start = ("soffice", "--calc", "--nologo", "--norestore", "--infilter=CSV:44,34,76,1", _SHEET)
    return [file(_SHEET, f"{_csv(table)}\n"), launch(*start)]
