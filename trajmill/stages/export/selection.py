"""Which rows of the shards of many rounds make up a release, in which order, and how much each counts.

A shard is a folder that `export_release` has written, with rows of one round; it never changes, and later releases use
its rows too. A release names the rows that it takes in `selection.parquet`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.stages.export.screens import SCREENS_FILE

SELECTION_FILE: Final = "selection.parquet"
"""Path of the file within a release."""

_WEIGHT = "loss_weight"
_SCHEMA = pa.schema(
    [
        ("example_id", pa.string()),
        (_WEIGHT, pa.float64()),
        ("shard", pa.dictionary(pa.int32(), pa.string())),
        ("row", pa.int32()),
    ]
)


class SelectedRow(NamedTuple):
    """One row of a release."""

    example_id: str
    loss_weight: float
    shard: str
    """The shard's folder, relative to that of the release."""
    row: int
    """Number of the row in each file of the shard."""


def write_selection(release: Path, rows: Iterable[SelectedRow]) -> None:
    """Write the rows of a release into its folder, in their order."""
    release.mkdir(parents=True, exist_ok=True)
    columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
    pq.write_table(pa.table(arrays, schema=_SCHEMA), release / SELECTION_FILE)


def has_rows_of(release: Path, file: str) -> bool:
    """Whether a release has rows of a format, given by the path of its file; an earlier trajmill wrote no selection."""
    if (release / file).is_file():
        return True
    return (release / SELECTION_FILE).is_file() and all(
        (release / shard / file).is_file() for shard in _shards(release)
    )


def released_rows(release: Path, file: str, columns: Sequence[str]) -> pa.Table:
    """Columns of the rows of a release in one format, in the order of the release.

    Args:
        release: folder of the release.
        file: path of the format's file, within a shard or, as an earlier trajmill wrote it, within the release.
        columns: columns to read.

    Raises:
        OSError: a file is missing or not readable.
        pyarrow.ArrowInvalid: a file is no Parquet file.
    """
    if (release / file).is_file():
        return pq.read_table(release / file, columns=list(columns))
    selection = pq.read_table(release / SELECTION_FILE)
    tables, starts, rows = [], {}, 0
    for shard in _shards(release):
        starts[shard] = rows
        tables.append(pq.read_table(release / shard / file, columns=list(columns)))
        rows += tables[-1].num_rows
    places = [starts[shard] + row for shard, row in zip(*_lists(selection, "shard", "row"), strict=True)]
    if not tables:
        return pa.table({name: pa.nulls(0) for name in columns})
    taken = pa.concat_tables(tables).take(pa.array(places, pa.int64()))
    weight = taken.schema.get_field_index(_WEIGHT)
    return taken if weight < 0 else taken.set_column(weight, _WEIGHT, selection[_WEIGHT])


def files_of(release: Path, file: str) -> list[Path]:
    """The files that hold the rows of a release in one format, and the one that selects among them if there is one."""
    if (release / file).is_file():
        return [release / file]
    return [release / SELECTION_FILE, *(release / shard / file for shard in _shards(release))]


def screen_files(release: Path) -> list[Path]:
    """The files with the screens of a release; a screen may be in several."""
    own = [release / SCREENS_FILE] if (release / SCREENS_FILE).is_file() else []
    return own + [release / shard / SCREENS_FILE for shard in _shards(release)]


def _shards(release: Path) -> list[str]:
    """The shards of a release in the order of their names; none for one of an earlier trajmill."""
    if not (release / SELECTION_FILE).is_file():
        return []
    column = pq.read_table(release / SELECTION_FILE, columns=["shard"]).column(0)
    return sorted(column.unique().to_pylist())


def _lists(table: pa.Table, *names: str) -> Iterator[list[str | int]]:
    return (table[name].to_pylist() for name in names)
