"""Reads files of other people: bounded, never outside the folder, each picture opened."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from PIL import Image

from trajmill.schemas.observation import UIElement
from trajmill.stages.importing.base import (
    BadRecordingError,
    ReadRecording,
    RecordedScreen,
    Recording,
    read_recording,
)

_MOST_JSON_BYTES: Final = 64 << 20
_MOST_IMAGE_BYTES: Final = 32 << 20
_MOST_PIXELS: Final = 40_000_000
"""More than an 8K screen has."""


class Line(NamedTuple):
    """A line of a file."""

    number: int
    """From 1."""
    text: bytes


def lines_of(file: Path) -> Iterator[Line]:
    """The lines of a file, one in memory at a time; the rest of a line that is too long is left out."""
    with file.open("rb") as stream:
        number = 0
        while text := stream.readline(_MOST_JSON_BYTES):
            number += 1
            yield Line(number, text)
            while not text.endswith(b"\n") and len(text) == _MOST_JSON_BYTES:
                text = stream.readline(_MOST_JSON_BYTES)


def parse_json(text: bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is no JSON, or too long.
        RecursionError: it is too deep.
    """
    if len(text) >= _MOST_JSON_BYTES:
        raise ValueError(f"more than {_MOST_JSON_BYTES >> 20} MiB of JSON")
    return json.loads(text, parse_constant=_refused)


def read_json(file: Path) -> Any:
    """The value of a JSON file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no JSON, or too long.
        RecursionError: it is too deep.
    """
    with file.open("rb") as stream:
        return parse_json(stream.read(_MOST_JSON_BYTES))


def only_recording(file: Path, read: Callable[[Any], Recording]) -> ReadRecording:
    """The recording of a JSON file that has one, or why it cannot be read.

    Args:
        file: the file.
        read: makes the recording of the file's value.
    """
    return read_recording(file.stem, file.stat().st_size, lambda: read(read_json(file)))


def within(folder: Path, *names: str) -> Path | None:
    """The first of some files in a folder that exists; a name that leads out of the folder names none."""
    home = folder.resolve()
    for name in names:
        path = (folder / name).resolve()
        if "\0" not in name and path.is_relative_to(home) and path.is_file():
            return path
    return None


def read_screen(file: Path | None, name: str, app: str = "") -> RecordedScreen:
    """The screen in a picture file.

    Raises:
        BadRecordingError: the file is missing, too large, or no picture.
    """
    if file is None:
        raise BadRecordingError(f"screenshot {name!r:.80} is not in the folder")
    with file.open("rb") as stream:
        return screen_of(stream.read(_MOST_IMAGE_BYTES + 1), name, app=app)


def screen_of(image: bytes, name: str, elements: tuple[UIElement, ...] | None = None, app: str = "") -> RecordedScreen:
    """A screen from an encoded picture, which is decoded once to see that it is whole.

    Raises:
        BadRecordingError: it is too large, or no picture.
    """
    if len(image) > _MOST_IMAGE_BYTES:
        raise BadRecordingError(f"screenshot {name!r:.80} has more than {_MOST_IMAGE_BYTES >> 20} MiB")
    try:
        with Image.open(io.BytesIO(image)) as picture:
            width, height = picture.size
            if width * height > _MOST_PIXELS:
                raise BadRecordingError(f"screenshot {name!r:.80} has {width} x {height} pixels")
            picture.load()
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise BadRecordingError(f"screenshot {name!r:.80} cannot be decoded: {type(error).__name__}") from None
    return RecordedScreen(image, width, height, elements, app)


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")
