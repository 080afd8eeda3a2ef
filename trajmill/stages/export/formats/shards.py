"""Writes rows with images as shards: Parquet that holds the images, or JSON lines beside image files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa

from trajmill.schemas.coordinates import PixelBudget
from trajmill.stages.export.images import (
    GroupLimits,
    ImageCache,
    ReleaseScreenReader,
    row_groups,
    with_images,
    without_images,
)
from trajmill.stages.export.write import write_parquet

DATA_FOLDER: Final = "data"
"""The sub-folder of the rows that the trainer reads, in every format."""
IMAGE_FOLDER: Final = "images"
GROUP: Final = GroupLimits(rows=4096, distinct=16_000_000, repeated=128_000_000)
"""Limits of a row group of Parquet."""
_ROWS_AT_ONCE = 256
_ENDINGS = ((b"\x89PNG", "png"), (b"\xff\xd8\xff", "jpg"), (b"RIFF", "webp"))

T = TypeVar("T")
Row = Mapping[str, Any]
"""Values by column, with the ids of its screens in `screen_ids`."""


class WrittenRows(NamedTuple):
    rows: int
    shards: tuple[str, ...]
    """Paths of the files, relative to the folder."""


def write_parquet_shards(
    folder: Path,
    rows_folder: str,
    schema: pa.Schema,
    rows: Iterable[Row],
    screens: ReleaseScreenReader,
    shard_bytes: int,
    bounds: PixelBudget | None = None,
) -> WrittenRows:
    """Write all rows as Parquet with few, large row groups.

    Args:
        folder: where to write.
        rows_folder: its sub-folder for the shards.
        schema: with one column of images.
        rows: values of the other columns; other keys are ignored.
        screens: reads the images.
        shard_bytes: approximate bytes of the images of a shard.
        bounds: the bounds that each image carries; None for images without.

    Raises:
        KeyError: a screen is not stored.
        OSError: the disk is full, or the folder cannot be written.
    """
    count, names = 0, list[str]()
    with TemporaryFile(dir=folder) as file:
        cache = ImageCache(file, screens)
        remaining, plain = iter(rows), without_images(schema)
        chunks = iter(lambda: list(islice(remaining, _ROWS_AT_ONCE)), [])
        groups = row_groups((pa.RecordBatch.from_pylist(chunk, plain) for chunk in chunks), cache, GROUP)
        for shard in _in_shards(((group.rows, group.bytes) for group in groups), shard_bytes):
            names.append(f"{rows_folder}/train-{len(names):05d}.parquet")
            filled = (with_images(group, schema, cache, bounds) for group in shard)
            count += write_parquet(folder, names[-1], schema, filled).rows
    return WrittenRows(count, tuple(names))


def write_json_lines(folder: Path, rows: Iterable[Row], screens: ReleaseScreenReader, shard_bytes: int) -> WrittenRows:
    """Write one line for each row, with paths of its images, and each distinct image as a file.

    Raises:
        KeyError: a screen is not stored.
        OSError: the disk is full, or the folder cannot be written.
    """
    (folder / DATA_FOLDER).mkdir()
    count, names = 0, list[str]()
    lines = ((line, len(line)) for line in _json_lines(folder, rows, screens))
    for shard in _in_shards(lines, shard_bytes):
        names.append(f"{DATA_FOLDER}/train-{len(names):05d}.jsonl")
        with (folder / names[-1]).open("wb") as file:
            for line in shard:
                file.write(line)
                count += 1
    return WrittenRows(count, tuple(names))


def _json_lines(folder: Path, rows: Iterable[Row], screens: ReleaseScreenReader) -> Iterator[bytes]:
    remaining = iter(rows)
    paths: dict[str, str] = {}
    while chunk := list(islice(remaining, _ROWS_AT_ONCE)):
        missing = {screen_id for row in chunk for screen_id in row["screen_ids"]} - paths.keys()
        for screen_id, data in screens.images(sorted(missing)):
            ending = next((ending for start, ending in _ENDINGS if data.startswith(start)), "img")
            # Sub-folders keep each folder small.
            path = paths[screen_id] = f"{IMAGE_FOLDER}/{screen_id[:2]}/{screen_id}.{ending}"
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        for row in chunk:
            # No list that may be empty: readers of JSON would guess its type wrongly.
            changed = {"images": [paths[screen_id] for screen_id in row["screen_ids"]], "apps": ", ".join(row["apps"])}
            yield json.dumps({**row, **changed}, ensure_ascii=False).encode() + b"\n"


def _in_shards(sized: Iterable[tuple[T, int]], most: int) -> Iterator[Iterator[T]]:
    """Divide items with their sizes into consecutive shards, each closed by the item that fills it."""

    def numbered() -> Iterator[tuple[int, T]]:
        shard = size = 0
        for item, length in sized:
            if size >= most:
                shard, size = shard + 1, 0
            size += length
            yield shard, item

    for _, shard in groupby(numbered(), key=itemgetter(0)):
        yield (item for _, item in shard)
