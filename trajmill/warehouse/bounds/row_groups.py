"""Reads the rows of a Parquet file for which conditions hold, from those of its row groups that can have some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajmill.warehouse.bounds.conditions import Condition
from trajmill.warehouse.store.base import FileStore


class Footer(NamedTuple):
    """The footer of a committed file."""

    metadata: pq.FileMetaData
    places: Mapping[str, int]
    """By name, the place of each column."""


class KeptFooters:
    """The footers of the files of a store that were read."""

    def __init__(self, store: FileStore) -> None:
        """Read nothing yet."""
        self._store = store
        self._footers: dict[str, Footer] = {}

    def matching_rows(self, name: str, schema: pa.Schema, conditions: Sequence[Condition]) -> Iterator[pa.Table]:
        """Read the rows of a file for which all conditions hold, row group by row group, with the columns of a schema.

        Columns that the file lacks are null. The columns of the conditions are decoded first, and the others only where
        a row was found.

        Args:
            name: the file, as the store calls it.
            schema: the columns to read.
            conditions: none, for all rows, or some.

        Raises:
            OSError: the file is missing or damaged.
            pa.ArrowInvalid: it is damaged.
        """
        with self._opened(name) as source:
            footer = self._footers[name] = self._footers.get(name) or _footer(source)
            groups = {group: _undecided(footer, group, conditions) for group in range(footer.metadata.num_row_groups)}
            chosen = {group: undecided for group, undecided in groups.items() if undecided is not None}
            if not chosen:
                return
            keys = {condition.column for condition in conditions}
            texts = {field.name for field in schema if field.type == pa.string()}
            file = pq.ParquetFile(
                source,
                metadata=footer.metadata,
                # Texts repeat: as indices into a dictionary they are decoded in half the time.
                read_dictionary=texts.intersection(footer.places) - keys,
                pre_buffer=not self._store.is_local,
            )
            names = [column for column in file.schema_arrow.names if column in schema.names]
            for group, undecided in chosen.items():
                found = _places(file, group, undecided)
                if found is None or len(found):
                    rows = file.read_row_group(group, names, use_threads=False)
                    yield _with_schema(rows if found is None else rows.take(found), schema)

    def _opened(self, name: str) -> pa.NativeFile:
        system, before = self._store.arrow_files()
        return pa.OSFile(before + name) if system is None else system.open_input_file(before + name)


def _footer(source: pa.NativeFile) -> Footer:
    metadata = pq.read_metadata(source)
    columns = metadata.schema
    return Footer(metadata, {columns.column(place).path: place for place in range(metadata.num_columns)})


def _undecided(footer: Footer, group: int, conditions: Sequence[Condition]) -> Sequence[Condition] | None:
    """The conditions that hold for some rows of a row group, perhaps not for all; None if one holds for none."""
    columns, undecided = footer.metadata.row_group(group), []
    for condition in conditions:
        place = footer.places.get(condition.column)
        if place is None:
            return None
        bounds = columns.column(place).statistics
        if bounds is None or not bounds.has_min_max:
            undecided.append(condition)
        elif not condition.can_lie(bounds.min, bounds.max):
            return None
        elif bounds.min != bounds.max or bounds.null_count != 0:
            undecided.append(condition)
    return undecided


def _places(file: pq.ParquetFile, group: int, conditions: Sequence[Condition]) -> pa.Array | None:
    """The places of the rows for which all conditions hold; None without a condition."""
    if not conditions:
        return None
    # Tables are read side by side; threads for the columns of each cost more than they bring.
    rows = file.read_row_group(group, list({condition.column for condition in conditions}), use_threads=False)
    return pc.indices_nonzero(reduce(pc.and_, (condition.holds(rows[condition.column]) for condition in conditions)))


def _with_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
