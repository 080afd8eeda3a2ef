"""Operations on the text of a text editor and of a word processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from trajmill.stages.queries.atomic.base import HOME, AtomicTask, Objects, file, launch, output_is, path_step

_DOCUMENT = f"{HOME}/Documents/note.txt"
_LINES = 5
_SAVE = path_step("key", text="ctrl+s")


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
