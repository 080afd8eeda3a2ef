"""Commits shards: all shards of a stage become one atomic version of a table, and a second call adds nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction, PostCommitHookProperties, RemoveAction, create_table_with_add_actions

from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.delta_log import HASHES, delta_table, log_to_extend, look_again
from trajmill.warehouse.layout import StageRun, Warehouse, sole_writer
from trajmill.warehouse.screens import without_committed
from trajmill.warehouse.shards import DataFile, stored_schema
from trajmill.warehouse.store.connection import repeat

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

    def committed() -> int:
        with disk_full_as_error(warehouse.table(table)), log_to_extend(warehouse, table) as (folder, delta):
            added = [_add_action(file) for file in files if file.rows]
            made_by = _hashes(files, Transaction(at.name, at.attempt))
            if delta is None:
                create_table_with_add_actions(
                    str(folder),
                    Schema.from_arrow(stored_schema(table)),
                    added,
                    configuration=_TABLE_SETTINGS,
                    commit_properties=made_by,
                )
            elif (last := delta.transaction_version(at.name)) is None or last < at.attempt:
                known = {field.name for field in delta.schema().fields}
                # Existing rows have no value in a new column: it is nullable, even if the record requires a value.
                missing = [field.with_nullable(True) for field in stored_schema(table) if field.name not in known]
                if missing:
                    delta.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields, commit_properties=_hashes(()))
                _extend(delta, added, made_by)
            return int(max(path.stem for path in folder.glob("_delta_log/*.json")))

    # A second call adds nothing: it is made if another process has committed at the same time.
    return repeat(warehouse.store, committed)


def replace_files(warehouse: Warehouse, table: str, replaced: Mapping[str, int], joined: Sequence[DataFile]) -> None:
    """Commit `joined` in place of files with the same rows (sizes by name), in a lock; write a checkpoint."""
    now = int(time.time() * 1000)
    with log_to_extend(warehouse, table) as (_, delta):
        assert delta is not None, "it has files"
        removed = [RemoveAction(name, False, now, size, {}) for name, size in replaced.items()]
        _extend(delta, [*removed, *(_add_action(file, changes=False) for file in joined)], _hashes(joined))
        delta.update_incremental()
        # Otherwise every reader goes through the entries that added the small files.
        delta.create_checkpoint()


def _extend(delta: DeltaTable, actions: Sequence[AddAction | RemoveAction], made_by: CommitProperties) -> None:
    delta.create_write_transaction(
        [*actions],
        mode="append",
        schema=delta.schema(),
        commit_properties=made_by,
        post_commithook_properties=_KEEP_LOG,
    )


def last_attempt(warehouse: Warehouse, at: StageRun) -> int:
    """Return the highest attempt at a stage run that any table has, whichever `at` is; -1 if there is none."""
    tables = (delta_table(warehouse, table) for table in TABLES)
    attempts = (None if delta is None else delta.transaction_version(at.name) for delta in tables)
    return max((attempt for attempt in attempts if attempt is not None), default=-1)


def _hashes(files: Sequence[DataFile], *transactions: Transaction) -> CommitProperties:
    hashes = {file.path: file.sha256 for file in files if file.rows}
    return CommitProperties(custom_metadata={HASHES: json.dumps(hashes)}, app_transactions=[*transactions])


def _add_action(file: DataFile, changes: bool = True) -> AddAction:
    return AddAction(file.path, file.size, {}, int(time.time() * 1000), changes, file.stats)
