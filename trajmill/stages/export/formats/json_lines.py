"""Writes examples as JSON lines, and each distinct image as a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.formats.parquet import DATA_FOLDER, WrittenRows
from trajmill.stages.export.formats.steps import StepExample

IMAGE_FOLDER: Final = "images"
_AT_ONCE = 256
_ENDINGS = ((b"\x89PNG", "png"), (b"\xff\xd8\xff", "jpg"), (b"RIFF", "webp"))


@dataclass(frozen=True)
class JsonLinesWriter:
    """Writes one line for each example: the trainer's columns, paths of the images, the lineage."""

    values: Callable[[StepExample, int], Mapping[str, Any]]
    """Gives the trainer's columns, without the images, and takes the number of the row."""
    shard_bytes: int

    def write(self, folder: Path, examples: Iterable[StepExample], screens: BulkScreenReader) -> WrittenRows:
        """Write all shards and images.

        Raises:
            KeyError: a screen is not stored.
            OSError: the disk is full, or the folder cannot be written.
        """
        (folder / DATA_FOLDER).mkdir()
        files = _ImageFiles(folder, screens)
        lines = self._lines(examples, files)
        rows = 0
        names: list[str] = []
        line = next(lines, None)
        while line is not None:
            names.append(f"{DATA_FOLDER}/train-{len(names):05d}.jsonl")
            size = 0
            with (folder / names[-1]).open("wb") as file:
                while line is not None and size < self.shard_bytes:
                    size += file.write(line)
                    rows += 1
                    line = next(lines, None)
        return WrittenRows(rows, tuple(names))

    def _lines(self, examples: Iterable[StepExample], files: _ImageFiles) -> Iterator[bytes]:
        stream = enumerate(examples)
        while chunk := list(islice(stream, _AT_ONCE)):
            files.add(screen for _, example in chunk for screen in example.lineage.screen_ids)
            for number, example in chunk:
                paths = [files.paths[screen] for screen in example.lineage.screen_ids]
                # No list that may be empty: readers of JSON would guess its type wrongly.
                lineage = example.lineage._asdict() | {"apps": ", ".join(example.lineage.apps)}
                row = {**self.values(example, number), "images": paths, **example.weight(), **lineage}
                yield json.dumps(row, ensure_ascii=False).encode() + b"\n"


class _ImageFiles:
    """The images that were written, divided between folders so that none gets large."""

    def __init__(self, folder: Path, screens: BulkScreenReader) -> None:
        self.paths: dict[str, str] = {}
        """Path of each image relative to the folder, by screen id."""
        self._folder = folder
        self._screens = screens

    def add(self, screen_ids: Iterable[str]) -> None:
        """Write the images that are not written yet, byte for byte."""
        missing = sorted(set(screen_ids) - self.paths.keys())
        for screen_id, data in self._screens.images(missing):
            path = f"{IMAGE_FOLDER}/{screen_id[:2]}/{screen_id}.{_ending(data)}"
            (self._folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self._folder / path).write_bytes(data)
            self.paths[screen_id] = path


def _ending(data: bytes) -> str:
    return next((ending for start, ending in _ENDINGS if data.startswith(start)), "img")
