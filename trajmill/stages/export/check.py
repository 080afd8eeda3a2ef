"""Checks an exported release: the rows by their exporters, and that images open with their stored size.

No row may contain guidance or belong to a held-out split.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from PIL import Image

from trajmill.schemas.geometry import Size
from trajmill.stages.export.exporter import Exporter
from trajmill.stages.export.write import SCREENS_FILE

_ROWS_AT_ONCE = 64


class RowProblem(NamedTuple):
    file: str
    row_id: str
    what: str


class ReleaseCheck(NamedTuple):
    """What was checked, and the mistakes that were found."""

    rows: Mapping[str, int]
    """Number of rows that were read, by file."""
    images: int
    """Distinct screens whose image was opened."""
    problems: tuple[RowProblem, ...]


def check_release(
    directory: Path,
    exporters: Sequence[Exporter],
    guidance: Mapping[str, str],
    images_every: int = 1,
    groups_every: int = 1,
) -> ReleaseCheck:
    """Check a release that `export_release` wrote; memory holds a few rows with their images.

    Args:
        directory: the release's folder.
        exporters: those that wrote it.
        guidance: the hints that were given, by trajectory id; no row of that trajectory may contain one of their lines.
        images_every: open the image of every n-th distinct screen; 1 opens all.
        groups_every: read every n-th row group of a file, from the first; 1 reads all.

    Raises:
        OSError: a file is missing or not readable.
        pyarrow.ArrowInvalid: a file is no Parquet file.
    """
    table = pq.read_table(directory / SCREENS_FILE, columns=["screen_id", "width", "height"])
    columns = (column.to_pylist() for column in table.columns)
    sizes = {screen_id: Size(width, height) for screen_id, width, height in zip(*columns, strict=True)}
    seen: set[str] = set()
    opened = 0
    problems: list[RowProblem] = []
    counts: dict[str, int] = {}
    for exporter in exporters:
        counts[exporter.file] = 0
        for row in _rows(directory / exporter.file, groups_every):
            counts[exporter.file] += 1
            found = list(exporter.problems(row, sizes, guidance.get(row["trajectory_id"], "")))
            if len(row["images"]) != len(row["screen_ids"]):
                found.append(f"{len(row['images'])} images of {len(row['screen_ids'])} screens")
            for screen_id, image in zip(row["screen_ids"], row["images"], strict=False):
                if screen_id not in seen:
                    seen.add(screen_id)
                    if len(seen) % images_every == 0:
                        opened += 1
                        found += _image_problems(screen_id, image["bytes"], sizes.get(screen_id))
            problems.extend(RowProblem(exporter.file, row[exporter.row_id], what) for what in found)
    return ReleaseCheck(counts, opened, tuple(problems))


def _image_problems(screen_id: str, data: bytes, size: Size | None) -> Iterator[str]:
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            found = Size(*image.size)
    except (OSError, ValueError, SyntaxError) as error:
        yield f"the image of screen {screen_id} does not open: {error}"
        return
    if found != size:
        yield f"the image of screen {screen_id} is {found}, {SCREENS_FILE} says {size}"


def _rows(path: Path, groups_every: int) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        groups = list(range(0, file.num_row_groups, groups_every))
        for batch in file.iter_batches(_ROWS_AT_ONCE, groups):
            yield from batch.to_pylist()
