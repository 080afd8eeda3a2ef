"""Commits shards: all shards of a stage become one atomic version of a table, and a second call adds nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, PostCommitHookProperties, RemoveAction

from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.delta_log import HASHES, delta_table, known_log, look_again, make_log_durable
from trajmill.warehouse.layout import StageRun, Warehouse, sole_writer
from trajmill.warehouse.screens import without_committed
from trajmill.warehouse.shards import DataFile, stored_schema
from trajmill.warehouse.store.connection import DELTA_RETRIES, repeat

_KEEP_FOREVER = "interval 36500 days"
_TABLE_SETTINGS = {
    "delta.logRetentionDuration": _KEEP_FOREVER,
    "delta.deletedFileRetentionDuration": _KEEP_FOREVER,
    "delta.checkpointInterval": "10",
}
_KEEP_LOG = PostCommitHookProperties(cleanup_expired_logs=False)


def commit_stage(warehouse: Warehouse, at: StageRun, files: Mapping[str, Sequence[DataFile]]) -> dict[str, int]:
    """Commit the shards of one stage to their tables and return each table's version.

    After a crash between two tables, the same call completes the commit. Rows that others refer to are committed first
    (`screens`, then in the order of `TABLES`). Screens that another run has committed in the meantime are left out.
    """
    order = sorted(files, key=lambda table: (table != "screens", list(TABLES).index(table)))
    written, versions = [table for table in order if any(file.rows for file in files[table])], {}
    with sole_writer(warehouse) if written else nullcontext():
        for table in written:
            look_again(warehouse, table)
            new = list(without_committed(warehouse, files[table])) if table == "screens" else files[table]
            if any(file.rows for file in new):
                versions[table] = commit(warehouse, table, new, at)
    return versions


def commit(warehouse: Warehouse, table: str, files: Sequence[DataFile], at: StageRun) -> int:
    """Make shards visible as one new version of a table and return the version, which survives a loss of power.

    A stage run that was committed before adds nothing. The first commit creates the table, and later ones add columns
    that are new in the schema. Raises TrajmillError if the disk is full, and BadInputError if the log is damaged.
    """
    store, uri = warehouse.store, warehouse.store.uri(f"tables/{table}")

    def committed() -> int:
        look_again(warehouse, table)
        with disk_full_as_error(warehouse.table(table)), store.one_line(f"tables/{table}"):
            delta = delta_table(warehouse, table) or DeltaTable.create(
                uri,
                schema=stored_schema(table),
                mode="ignore",
                configuration=_TABLE_SETTINGS,
                storage_options=DELTA_RETRIES,
                commit_properties=_hashes(()),
            )
            if not known_log(warehouse, table):
                # Whoever reads a log with two entries of ours expects the sizes of the first.
                make_log_durable(warehouse, table)
            if not _is_committed(delta, at):
                known = {field.name for field in delta.schema().fields}
                # Existing rows have no value in a new column: it is nullable, even if the record requires a value.
                missing = [field.with_nullable(True) for field in stored_schema(table) if field.name not in known]
                if missing:
                    delta.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields, commit_properties=_hashes(()))
                before = int(delta.version())
                try:
                    delta.create_write_transaction(
                        [_add_action(file) for file in files if file.rows],
                        mode="append",
                        schema=delta.schema(),
                        commit_properties=_hashes(files, Transaction(at.name, at.attempt)),
                        post_commithook_properties=_KEEP_LOG,
                    )
                except (DeltaError, OSError):
                    # The reply to a commit that was made may have been lost.
                    look_again(warehouse, table)
                    again = None if store.is_local else delta_table(warehouse, table)
                    if again is None or not _is_committed(again, at):
                        raise
                if int(delta.version()) == before:
                    delta.update_incremental()
            # Also where it was committed before: that process may have been killed before it came to this.
            make_log_durable(warehouse, table)
            return int(delta.version())

    # A second call adds nothing, so that it can be repeated when the store answers.
    return repeat(store, committed)


def replace_files(warehouse: Warehouse, table: str, replaced: Mapping[str, int], joined: Sequence[DataFile]) -> None:
    """Commit `joined` in place of files with the same rows (sizes by name), in a lock; write a checkpoint."""
    look_again(warehouse, table)
    delta, now = delta_table(warehouse, table), int(time.time() * 1000)
    assert delta is not None, "it has files"
    removed = [RemoveAction(name, False, now, size, {}) for name, size in replaced.items()]
    delta.create_write_transaction(
        [*removed, *(_add_action(file, changes=False) for file in joined)],
        mode="append",
        schema=delta.schema(),
        commit_properties=_hashes(joined),
        post_commithook_properties=_KEEP_LOG,
    )
    delta.update_incremental()
    # Otherwise every reader goes through the entries that added the small files.
    delta.create_checkpoint()
    make_log_durable(warehouse, table)


def last_attempt(warehouse: Warehouse, at: StageRun) -> int:
    """Return the highest attempt at a stage run that any table has, whichever `at` is; -1 if there is none."""
    tables = (delta_table(warehouse, table) for table in TABLES)
    attempts = (None if delta is None else delta.transaction_version(at.name) for delta in tables)
    return max((attempt for attempt in attempts if attempt is not None), default=-1)


def _is_committed(delta: DeltaTable, at: StageRun) -> bool:
    last = delta.transaction_version(at.name)
    return last is not None and last >= at.attempt


def _hashes(files: Sequence[DataFile], *transactions: Transaction) -> CommitProperties:
    hashes = {file.path: file.sha256 for file in files if file.rows}
    return CommitProperties(custom_metadata={HASHES: json.dumps(hashes)}, app_transactions=[*transactions])


def _add_action(file: DataFile, changes: bool = True) -> AddAction:
    return AddAction(file.path, file.size, {}, int(time.time() * 1000), changes, file.stats)
