"""Keeps the bounds of a table's files beside its log, so that a row is found without reading the log.

A log has an entry for each commit, and opening it is most of the time of one trajectory's page. So each commit writes
the bounds of the version that it has made into one small file. They count only while that version is the newest: else,
and where the file is lost or damaged, the log itself is read.

Ids are hashes, so that bounds say little of those in many small files: a trajectory would be looked for in every one of
them. So the first letters of their ids are kept, too.
"""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from trajmill.warehouse.bounds.files import LETTERS, FileBounds
from trajmill.warehouse.checks.log_entries import EntryMark, entry_mark, is_newest, log_entries
from trajmill.warehouse.delta_log import file_bounds
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.shards import rows_per_group

_FILE = "_file_bounds.arrow"
"""Delta's own tools leave files alone whose names begin with `_`."""
_MARK = b"newest entry"
_LETTERS = pa.list_(pa.string())
_SEARCHED = {"trajectories": "trajectory_id"}
"""By table, the column that rows are looked for by without their round."""


class KeptBounds(NamedTuple):
    """The bounds of the files of one version of a table."""

    newest: EntryMark
    """The entry of the table's log that made the version."""
    bounds: FileBounds
    """Of rounds and ids alone, and the first letters of the ids of `_SEARCHED`."""


def keep_bounds(warehouse: Warehouse, table: str, delta: DeltaTable) -> None:
    """Write the bounds of a table's version that was committed."""
    mark = entry_mark(warehouse, table, int(delta.version()))
    if mark is None:
        return
    log = file_bounds(delta).log
    names = [name for name in log.column_names if name == "path" or _is_key(name)]
    columns = log.select(names)
    if table in _SEARCHED:
        columns = columns.append_column(f"starts.{_SEARCHED[table]}", _starts(warehouse, table, log))
    columns = columns.replace_schema_metadata({_MARK: json.dumps(mark)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema) as stream:
        stream.write_table(columns)
    data = sink.getvalue().to_pybytes()
    warehouse.store.put(_name(table), hashlib.sha256(data).digest() + data)


def newest_bounds(warehouse: Warehouse, table: str, known: KeptBounds | None = None) -> KeptBounds | None:
    """The bounds of a table's newest version; None if it did not keep them.

    Args:
        warehouse: where to read.
        table: its name.
        known: what was read before, which is returned if nothing was committed since.

    Raises:
        BadInputError: an entry of the table's log is missing or damaged. With `known`, only the newest is looked at.
    """
    if known is not None and is_newest(warehouse, table, known.newest):
        return known
    kept = _read(warehouse, table)
    if kept is None or not is_newest(warehouse, table, kept.newest):
        return None
    # The bounds are those of all rows, whatever became of older entries; every other reader would stop at these.
    log_entries(warehouse, table)
    return kept


def _read(warehouse: Warehouse, table: str) -> KeptBounds | None:
    stored = warehouse.store.get(_name(table)) or b""
    size = hashlib.sha256().digest_size
    digest, data = stored[:size], stored[size:]
    if not data or hashlib.sha256(data).digest() != digest:
        return None
    with pa.ipc.open_stream(data) as stream:
        columns = stream.read_all()
    return KeptBounds(EntryMark(*json.loads(columns.schema.metadata[_MARK])), FileBounds(columns))


def _starts(warehouse: Warehouse, table: str, log: pa.Table) -> pa.ChunkedArray:
    """By file of a log, the first letters of its ids; those that were kept before are not read again."""
    column, kept = f"starts.{_SEARCHED[table]}", _read(warehouse, table)
    before = None if kept is None or column not in kept.bounds.log.column_names else kept.bounds.log
    places = {} if before is None else {path: place for place, path in enumerate(before["path"].to_pylist())}
    sizes = zip(log["path"].to_pylist(), log["num_records"].to_pylist(), strict=True)
    fresh = {path: rows for path, rows in sizes if path not in places}
    letters = [
        _letters(warehouse, table, path) if rows <= rows_per_group(table) else None for path, rows in fresh.items()
    ]
    places |= {path: place for place, path in enumerate(fresh, len(places))}
    chunks = [] if before is None else before[column].chunks
    known = pa.chunked_array([*chunks, pa.array(letters, _LETTERS)])
    return known.take(pa.array([places[path] for path in log["path"].to_pylist()], pa.int64())).combine_chunks()


def _letters(warehouse: Warehouse, table: str, path: str) -> list[str] | None:
    """The first letters of the ids in a file; None if it cannot be read, which is told to whoever wants its rows."""
    column = _SEARCHED[table]
    try:
        file = warehouse.store.fetch(f"tables/{table}/{path}")
        ids = pq.read_table(file, columns=[column], partitioning=None).column(0)
    except (OSError, pa.ArrowInvalid):
        return None
    return sorted({name[:LETTERS] for name in ids.to_pylist()})


def _is_key(name: str) -> bool:
    bound, _, column = name.partition(".")
    return bound in ("min", "max") and (column == "round" or column.endswith("_id"))


def _name(table: str) -> str:
    return f"tables/{table}/{_FILE}"
