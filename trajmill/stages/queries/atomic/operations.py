"""Atomic operations of mouse and keyboard: the objects that each creates, its actions, and its goal check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any, NamedTuple

import yaml

from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import PathStep
from trajmill.stages.environments.screen_goal import KEY
from trajmill.stages.queries.spec import AtomicApp

HOME = "/home/user"

_DOCUMENT = f"{HOME}/Documents/note.txt"
_LINES = 5
_SHEET = f"{HOME}/Documents/table.csv"
_ROWS = 4
_COLUMNS = "ABC"
_EMPTY = [""] * len(_COLUMNS)
_ROWS_OUT_OF_SIGHT = range(60, 80)


class Objects(Record):
    """Names and texts to draw from."""

    folders: tuple[str, ...]
    files: tuple[str, ...]
    lines: tuple[str, ...]
    fields: tuple[str, ...]
    headings: tuple[str, ...]
    goods: tuple[str, ...]


class AtomicTask(NamedTuple):
    """One operation on objects that its start state creates."""

    operation: str
    app: AtomicApp
    slots: Mapping[str, str]
    """By slot, the words that the instruction uses."""
    config: Sequence[Mapping[str, Any]]
    """Steps of the start state."""
    path: tuple[PathStep, ...]
    goal: Mapping[str, Any]


Operation = Callable[[Objects, Random], AtomicTask]


@cache
def packaged_objects() -> Objects:
    """The names and texts of `objects.yaml`."""
    return Objects.model_validate(yaml.safe_load(files(__package__).joinpath("objects.yaml").read_text()))


def path_step(operation: str, target: str = "", text: str = "") -> PathStep:
    """One step of a path; its page is filled in with the query."""
    return PathStep(page="", operation=operation, target=target, text=text)


def folder(name: str) -> Mapping[str, Any]:
    """Makes a folder in the home folder."""
    return {"type": "execute", "parameters": {"command": ["mkdir", "-p", f"{HOME}/{name}"]}}


def file(path: str, content: str) -> Mapping[str, Any]:
    """Makes a file."""
    # The content is passed as an argument, so that the shell never runs it.
    command = ["sh", "-c", 'printf %s "$2" > "$1"', "sh", path, content]
    return {"type": "execute", "parameters": {"command": command}}


def launch(*command: str) -> Mapping[str, Any]:
    """Starts a program."""
    return {"type": "launch", "parameters": {"command": list(command)}}


def output_is(command: list[str], expected: str) -> Mapping[str, Any]:
    """The goal that a command prints a text."""
    result = {"type": "vm_command_line", "command": command}
    return {
        "func": "exact_match",
        "result": result,
        "expected": {"type": "rule", "rules": {"expected": expected}},
    }


_SAVE = path_step("key", text="ctrl+s")


def all_operations() -> tuple[Operation, ...]:
    """All operations."""
    return (
        *(click, double_click, right_click, drag_move),
        *(input_text, shortcut, input_place, select_text),
        *(input_cell, scroll, drag_select),
    )


def click(objects: Objects, rng: Random) -> AtomicTask:
    """Select one of three files."""
    names = rng.sample(objects.files, 3)
    return AtomicTask(
        "click",
        "pcmanfm",
        {"file": names[0]},
        [*(file(f"{HOME}/{name}", "") for name in names), launch("pcmanfm", HOME)],
        (path_step("tap", f"pcmanfm/icon:{names[0]}"),),
        {KEY: [{"role": "text", "text": _status_of_empty(names[0])}]},
    )


def double_click(objects: Objects, rng: Random) -> AtomicTask:
    """Open one of three folders."""
    folders = rng.sample(objects.folders, 3)
    return AtomicTask(
        "double_click",
        "pcmanfm",
        {"folder": folders[0]},
        [*map(folder, folders), launch("pcmanfm", HOME)],
        (path_step("double_tap", f"pcmanfm/icon:{folders[0]}"),),
        {KEY: [{"role": "heading", "text": folders[0], "state": "title"}]},
    )


def right_click(objects: Objects, rng: Random) -> AtomicTask:
    """Open the context menu of one of three files."""
    names = rng.sample(objects.files, 3)
    return AtomicTask(
        "right_click",
        "pcmanfm",
        {"file": names[0]},
        [*(file(f"{HOME}/{name}", "") for name in names), launch("pcmanfm", HOME)],
        (path_step("right_tap", f"pcmanfm/icon:{names[0]}"),),
        {KEY: [{"role": "menu_item", "text": "Rename..."}, {"role": "text", "text": _status_of_empty(names[0])}]},
    )


def drag_move(objects: Objects, rng: Random) -> AtomicTask:
    """Move a file into one of two folders."""
    (name, other), folders = rng.sample(objects.files, 2), rng.sample(objects.folders, 2)
    made = [folder(each) for each in folders] + [file(f"{HOME}/{each}", each) for each in (name, other)]
    return AtomicTask(
        "drag_move",
        "pcmanfm",
        {"file": name, "folder": folders[0]},
        [*made, launch("pcmanfm", HOME)],
        (path_step("drag", f"pcmanfm/icon:{name}", f"pcmanfm/icon:{folders[0]}"),),
        output_is(["ls", f"{HOME}/{folders[0]}"], name),
    )


def _status_of_empty(name: str) -> str:
    """The status line for a selected empty text file; it is checked because a menu may cover the file itself."""
    return f'"{name}" (0 bytes) plain text document'


def input_text(objects: Objects, rng: Random) -> AtomicTask:
    """Add a line to a document."""
    before, added = rng.sample(objects.lines, 2)
    return AtomicTask(
        "input_text",
        "mousepad",
        {"text": added},
        [file(_DOCUMENT, f"{before}\n"), launch("mousepad", _DOCUMENT)],
        (path_step("key", text="ctrl+end"), path_step("type", text=added), _SAVE),
        _document_is([before, added]),
    )


def shortcut(objects: Objects, rng: Random) -> AtomicTask:
    """Cut the first line of a document by the keyboard, and paste it at the end."""
    lines = rng.sample(objects.lines, 3)
    keys = ("ctrl+home", "shift+down", "ctrl+x", "ctrl+end", "ctrl+v")
    return AtomicTask(
        "shortcut",
        "mousepad",
        {"text": lines[0]},
        [file(_DOCUMENT, _text(lines)), launch("mousepad", _DOCUMENT)],
        (*(path_step("key", text=chord) for chord in keys), _SAVE),
        _document_is([*lines[1:], lines[0]]),
    )


def input_place(objects: Objects, rng: Random) -> AtomicTask:
    """Fill in one field of a form."""
    fields, goods = rng.sample(objects.fields, 3), rng.choice(objects.goods)
    chosen = rng.randrange(len(fields))
    form = [f"{field}:" for field in fields]
    filled = [f"{label} {goods}" if place == chosen else label for place, label in enumerate(form)]
    return AtomicTask(
        "input_place",
        "libreoffice-writer",
        {"text": goods, "field": fields[chosen]},
        _writer_with(form),
        (
            path_step("tap", _paragraph(chosen)),
            path_step("key", text="end"),
            path_step("type", text=f" {goods}"),
            _SAVE,
        ),
        _document_is(filled),
    )


def select_text(objects: Objects, rng: Random) -> AtomicTask:
    """Select the whole text of one line by dragging, and write another in its place."""
    *lines, replacement = rng.sample(objects.lines, _LINES + 1)
    chosen = rng.randrange(_LINES)
    line = _paragraph(chosen)
    return AtomicTask(
        "select_text",
        "libreoffice-writer",
        {"line": lines[chosen], "text": replacement},
        _writer_with(lines),
        (path_step("select", line, line), path_step("type", text=replacement), _SAVE),
        _document_is([*lines[:chosen], replacement, *lines[chosen + 1 :]]),
    )


def _writer_with(lines: Sequence[str]) -> list[Mapping[str, Any]]:
    return [file(_DOCUMENT, _text(lines)), launch("soffice", "--writer", "--nologo", "--norestore", _DOCUMENT)]


def _paragraph(place: int) -> str:
    """The target of a paragraph; paragraphs are the first text fields in the window."""
    return "soffice/text_field" if place == 0 else f"soffice/text_field#{place + 1}"


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _document_is(lines: Sequence[str]) -> Mapping[str, Any]:
    return output_is(["cat", _DOCUMENT], "\n".join(lines))


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
        _open_sheet(table),
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
        _open_sheet(table),
        (*scroll_first, path_step("tap", cell), path_step("type", text=f"{text}\n"), _SAVE),
        output_is(["cat", _SHEET], _csv([*table, *gap, written])),
    )


def _table(objects: Objects, rng: Random) -> list[Sequence[str]]:
    goods = rng.sample(objects.goods, _ROWS)
    return [objects.headings, *([name, str(rng.randint(2, 90)), str(rng.randint(1, 52))] for name in goods)]


def _csv(table: Sequence[Sequence[str]]) -> str:
    """CSV as LibreOffice saves it: text in quotes, numbers and empty cells without."""
    return "\n".join(",".join(f'"{text}"' if text.isalpha() else text for text in row) for row in table)


def _open_sheet(table: Sequence[Sequence[str]]) -> list[Mapping[str, Any]]:
    start = ("soffice", "--calc", "--nologo", "--norestore", "--infilter=CSV:44,34,76,1", _SHEET)
    return [file(_SHEET, f"{_csv(table)}\n"), launch(*start)]
