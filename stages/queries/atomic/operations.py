"""The operations: what is created, what is asked for, how it is done and how it is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from random import Random
from typing import Any, NamedTuple

import yaml

from schemas.query import PathStep
from schemas.record import Record
from stages.environments.screen_goal import KEY

_HOME = "/home/user"
_DOCUMENT = f"{_HOME}/Documents/note.txt"
_SHEET = f"{_HOME}/Documents/table.csv"
_ROWS = 4
_COLUMNS = "ABC"
_EMPTY = [""] * len(_COLUMNS)


class Objects(Record):
    """Names and texts to draw from."""

    folders: tuple[str, ...]
    files: tuple[str, ...]
    lines: tuple[str, ...]
    headings: tuple[str, ...]
    goods: tuple[str, ...]


class AtomicTask(NamedTuple):
    """One operation on objects of its own."""

    operation: str
    app: str
    slots: Mapping[str, str]
    """What the instruction names."""
    config: Sequence[Mapping[str, Any]]
    """Steps of the start state."""
    path: tuple[PathStep, ...]
    goal: Mapping[str, Any]


Operation = Callable[[Objects, Random], AtomicTask]


def packaged_objects() -> Objects:
    """The names and texts of `objects.yaml`."""
    return Objects.model_validate(yaml.safe_load(files(__package__).joinpath("objects.yaml").read_text()))


def double_click(objects: Objects, rng: Random) -> AtomicTask:
    """Open one of three folders."""
    folders = rng.sample(objects.folders, 3)
    return AtomicTask(
        "double_click",
        "pcmanfm",
        {"folder": folders[0]},
        [*map(_folder, folders), _launch("pcmanfm", _HOME)],
        (_do("double_tap", f"pcmanfm/icon:{folders[0]}"),),
        {KEY: [{"role": "heading", "text": folders[0], "state": "title"}]},
    )


def right_click(objects: Objects, rng: Random) -> AtomicTask:
    """Open the context menu of one of three files."""
    names = rng.sample(objects.files, 3)
    return AtomicTask(
        "right_click",
        "pcmanfm",
        {"file": names[0]},
        [*(_file(f"{_HOME}/{name}", "") for name in names), _launch("pcmanfm", _HOME)],
        (_do("right_tap", f"pcmanfm/icon:{names[0]}"),),
        {KEY: [{"role": "menu_item", "text": "Rename..."}, {"role": "text", "text": _status_of_empty(names[0])}]},
    )


def drag_move(objects: Objects, rng: Random) -> AtomicTask:
    """Move a file into one of two folders."""
    (name, other), folders = rng.sample(objects.files, 2), rng.sample(objects.folders, 2)
    made = [_folder(folder) for folder in folders] + [_file(f"{_HOME}/{each}", each) for each in (name, other)]
    return AtomicTask(
        "drag_move",
        "pcmanfm",
        {"file": name, "folder": folders[0]},
        [*made, _launch("pcmanfm", _HOME)],
        (_do("drag", f"pcmanfm/icon:{name}", f"pcmanfm/icon:{folders[0]}"),),
        _output_is(["ls", f"{_HOME}/{folders[0]}"], name),
    )


def input_text(objects: Objects, rng: Random) -> AtomicTask:
    """Add a line to a document."""
    before, added = rng.sample(objects.lines, 2)
    return AtomicTask(
        "input_text",
        "mousepad",
        {"text": added},
        [_file(_DOCUMENT, f"{before}\n"), _launch("mousepad", _DOCUMENT)],
        (_do("key", text="ctrl+end"), _do("type", text=added), _do("key", text="ctrl+s")),
        _output_is(["cat", _DOCUMENT], f"{before}\n{added}"),
    )


def input_cell(objects: Objects, rng: Random) -> AtomicTask:
    """Write into an empty cell below a table."""
    table, text = _table(objects, rng), rng.choice(objects.goods)
    row, column = rng.randint(_ROWS + 3, _ROWS + 6), rng.randrange(len(_COLUMNS))
    cell = f"{_COLUMNS[column]}{row}"
    written = ["" if other != column else text for other in range(len(_COLUMNS))]
    gap = [_EMPTY] * (row - 1 - len(table))
    return AtomicTask(
        "input_cell",
        "libreoffice-calc",
        {"text": text, "cell": cell},
        _sheet(table),
        (_do("tap", f"soffice/cell:{cell}"), _do("type", text=f"{text}\n"), _do("key", text="ctrl+s")),
        _output_is(["cat", _SHEET], _csv([*table, *gap, written])),
    )


def drag_select(objects: Objects, rng: Random) -> AtomicTask:
    """Select two rows of a table by dragging and empty them."""
    table, row = _table(objects, rng), rng.randint(2, _ROWS - 1)
    first, last = f"A{row}", f"{_COLUMNS[-1]}{row + 1}"
    emptied = [*table[: row - 1], _EMPTY, _EMPTY, *table[row + 1 :]]
    dragged = _do("drag", f"soffice/cell:{first}", f"soffice/cell:{last}")
    return AtomicTask(
        "drag_select",
        "libreoffice-calc",
        {"first": first, "last": last},
        _sheet(table),
        (dragged, _do("key", text="delete"), _do("key", text="ctrl+s")),
        _output_is(["cat", _SHEET], _csv(emptied)),
    )


def all_operations() -> tuple[Operation, ...]:
    """Every operation that there is."""
    return double_click, right_click, drag_move, input_text, input_cell, drag_select


def _status_of_empty(name: str) -> str:
    """What the file manager says of an empty text file while it is selected; the menu covers the file itself."""
    return f'"{name}" (0 bytes) plain text document'


def _do(operation: str, target: str = "", text: str = "") -> PathStep:
    return PathStep(page="", operation=operation, target=target, text=text)


def _table(objects: Objects, rng: Random) -> list[Sequence[str]]:
    goods = rng.sample(objects.goods, _ROWS)
    return [objects.headings, *([name, str(rng.randint(2, 90)), str(rng.randint(1, 52))] for name in goods)]


def _csv(table: Sequence[Sequence[str]]) -> str:
    """As LibreOffice saves it: words in quotes, numbers and what is empty without."""
    return "\n".join(",".join(f'"{text}"' if text.isalpha() else text for text in row) for row in table)


def _sheet(table: Sequence[Sequence[str]]) -> list[Mapping[str, Any]]:
    start = ("soffice", "--calc", "--nologo", "--norestore", "--infilter=CSV:44,34,76,1", _SHEET)
    return [_file(_SHEET, f"{_csv(table)}\n"), _launch(*start)]


def _folder(name: str) -> Mapping[str, Any]:
    return {"type": "execute", "parameters": {"command": ["mkdir", "-p", f"{_HOME}/{name}"]}}


def _file(path: str, content: str) -> Mapping[str, Any]:
    # The content is an argument of the shell's script, never a part of it.
    command = ["sh", "-c", 'printf %s "$2" > "$1"', "sh", path, content]
    return {"type": "execute", "parameters": {"command": command}}


def _launch(*command: str) -> Mapping[str, Any]:
    return {"type": "launch", "parameters": {"command": list(command)}}


def _output_is(command: list[str], expected: str) -> Mapping[str, Any]:
    result = {"type": "vm_command_line", "command": command}
    return {
        "func": "exact_match",
        "result": result,
        "expected": {"type": "rule", "rules": {"expected": expected}},
    }
