"""Keeps the bounds of a table's files beside its log, so that a row is found without reading the log.

A log has an entry for each commit, and opening it is most of the time of one trajectory's page. So each commit writes
the bounds of the version that it has made into one small file. They count only while that version is the newest: else,
and where the file is lost or damaged, the log itself is read.
"""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

from trajmill.warehouse.checks.log_entries import EntryMark, entry_mark, is_newest, log_entries
from trajmill.warehouse.delta_log import FileBounds, file_bounds
from trajmill.warehouse.layout import Warehouse

_FILE = "_file_bounds.arrow"
"""Delta's own tools leave files alone whose names begin with `_`."""
_MARK = b"newest entry"


class KeptBounds(NamedTuple):
    """The bounds of the files of one version of a table."""

    newest: EntryMark
    """The entry of the table's log that made the version."""
    bounds: FileBounds
    """Of rounds and ids alone."""


def keep_bounds(warehouse: Warehouse, table: str, delta: DeltaTable) -> None:
    """Write the bounds of a table's version that was committed."""
    mark = entry_mark(warehouse, table, int(delta.version()))
    if mark is None:
        return
    log = file_bounds(delta).log
    names = [name for name in log.column_names if name == "path" or _is_key(name)]
    columns = log.select(names).replace_schema_metadata({_MARK: json.dumps(mark)})
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


def _is_key(name: str) -> bool:
    bound, _, column = name.partition(".")
    return bound in ("min", "max") and (column == "round" or column.endswith("_id"))


def _name(table: str) -> str:
    return f"tables/{table}/{_FILE}"
