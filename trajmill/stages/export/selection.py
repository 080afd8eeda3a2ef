"""Selects the rows of a release from the shards of many rounds, with their order and weights.

A shard is a folder that `export_release` has written, with rows of one round; it never changes, and later releases use
its rows too. A release names its rows in `selection.parquet`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.stages.export.write import SCREENS_FILE

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
    """Whether a release has rows of a format, given by the path of its file; early releases have no selection."""
    if (release / file).is_file():
        return True
    return (release / SELECTION_FILE).is_file() and all(
        (release / shard / file).is_file() for shard in _shards(release)
    )


def released_rows(release: Path, file: str, columns: Sequence[str]) -> pa.Table:
    """Read columns of the rows of a release in one format, in the order of the release.

    Args:
        release: folder of the release.
        file: path of the format's file, within a shard or, in early releases, within the release.
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
    if not tables:
        return pa.table({name: pa.nulls(0) for name in columns})
    chosen = zip(selection["shard"].to_pylist(), selection["row"].to_pylist(), strict=True)
    selected = pa.concat_tables(tables).take(pa.array((starts[shard] + row for shard, row in chosen), pa.int64()))
    weight = selected.schema.get_field_index(_WEIGHT)
    return selected if weight < 0 else selected.set_column(weight, _WEIGHT, selection[_WEIGHT])


def files_of(release: Path, file: str) -> list[Path]:
    """Return the files with the rows of a release in one format, and its selection if it has one."""
    if (release / file).is_file():
        return [release / file]
    return [release / SELECTION_FILE, *(release / shard / file for shard in _shards(release))]


def screen_files(release: Path) -> list[Path]:
    """Return the files with the screens of a release; a screen may be in several."""
    own = [release / SCREENS_FILE] if (release / SCREENS_FILE).is_file() else []
    return own + [release / shard / SCREENS_FILE for shard in _shards(release)]


def _shards(release: Path) -> list[str]:
    """Return the shards of a release, sorted; none for an early release."""
    if not (release / SELECTION_FILE).is_file():
        return []
    column = pq.read_table(release / SELECTION_FILE, columns=["shard"]).column(0)
    return sorted(column.unique().to_pylist())
