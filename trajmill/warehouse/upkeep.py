"""Keeps a warehouse small and whole: drops old releases, joins small files, deletes unused ones, and finds damage.

Files of a run on which a process works are left alone: that process may still commit or release them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.commit import replace_files
from trajmill.warehouse.delta_log import HASHES, committed_names, delta_table, known_log, log_files
from trajmill.warehouse.layout import RunInUseError, Warehouse, sole_keeper, sole_writer
from trajmill.warehouse.releases import (
    changed_files,
    damaged_release,
    damaged_weights,
    drop_release,
    named_shards,
    older_releases,
    read_release,
    release_names,
)
from trajmill.warehouse.shards import CHECKED, CHECKED_FORMAT, DataFile, file_schema, replace_shard
from trajmill.warehouse.staging import MARKER, leftovers, whole_marker
from trajmill.warehouse.store.base import StoredFile
from trajmill.warehouse.store.connection import damage_as_error, unreadable

_LOG = logging.getLogger(__name__)
_SMALL_BYTES = 32 << 20
_FULL_BYTES = 128 << 20
_FEWEST = 8
"""Files that are worth a commit; a round leaves about ten in its largest table."""
_JOINED = "-joined-"
_PARTS = 4
_DAY = 86_400.0
_READERS_SECONDS = 3600.0
"""Age in seconds below which a temporary file of the views stays: readers write them, and hold no lock."""
_STAGE = re.compile(r"r[^-]*-.*")
_ROUND = re.compile(r"\.?r\d+-")


class CompactedTable(NamedTuple):
    table: str
    files_before: int
    files_after: int


class Maintained(NamedTuple):
    dropped: Sequence[str]
    in_use: Sequence[str]
    """Runs whose old releases stay for now, because another process works on the run."""
    compacted: Sequence[CompactedTable]
    deleted: Sequence[StoredFile]


def maintain(
    warehouse: Warehouse, *, keep_releases: int, unused_days: float, now: float, run_id: str | None = None
) -> Maintained:
    """Drop the releases beyond the newest of each run, compact the tables, and delete what nothing refers to.

    `keep_releases` is the number per run (0 keeps all) and `unused_days` the age in days below which no file is
    deleted, at the time `now` in seconds since the epoch. With `run_id` only that run's releases are dropped. Raises
    BadInputError if a manifest, a committed file or a log is damaged, of which a quarter is read whole each time, and
    TrajmillError if the disk is full.
    """
    day = int(now // _DAY)
    found = list(damage(warehouse, lambda name: hashlib.sha256(f"{day} {name}".encode()).digest()[0] % _PARTS == 0))
    if found:
        raise BadInputError(found[0] + (f" (and {len(found) - 1} more: `trajmill verify`)" if found[1:] else ""))
    dropped, in_use = list[str](), list[str]()
    for run in older_releases(warehouse, keep_releases):
        if run_id not in (None, run):
            continue
        try:
            with sole_keeper(warehouse, run):
                # Another process may have dropped or made some until the lock was taken.
                for name in older_releases(warehouse, keep_releases).get(run, ()):
                    drop_release(warehouse, name)
                    dropped.append(name)
        except RunInUseError:
            in_use.append(run)
    compacted = compact(warehouse)
    return Maintained(dropped, in_use, compacted, vacuum(warehouse, older_than_days=unused_days, now=now))


def compact(warehouse: Warehouse) -> list[CompactedTable]:
    """Join small files of all tables; returns the tables that have changed. `vacuum` deletes what no release names.

    Raises BadInputError if a committed file or a log is damaged, TrajmillError if the disk is full; nothing is changed.
    """
    done = (compact_table(warehouse, table) for table in TABLES)
    return [table for table in done if table.files_after < table.files_before]


def compact_table(warehouse: Warehouse, table: str, fewest: int = _FEWEST) -> CompactedTable:
    """Join neighbours among the small files of a table, if that saves at least `fewest` files; see `compact`."""
    folder, store = warehouse.table(table), warehouse.store
    if delta_table(warehouse, table) is None:
        return CompactedTable(table, 0, 0)
    with (
        sole_writer(warehouse),
        disk_full_as_error(folder),
        store.one_line(f"tables/{table}"),
        damage_as_error(store.uri(f"tables/{table}")),
    ):
        files = committed_names(warehouse, table)
        sizes = {file.name: file.size for file in store.files(f"tables/{table}")}
        # Small files that follow each other in the order of their names, which is that of rows.
        neighbours: list[list[str]] = [[]]
        room = _FULL_BYTES
        for name in files:
            if name not in sizes:
                raise FileNotFoundError(store.uri(name))
            size = sizes[name]
            if size >= _SMALL_BYTES or size > room:
                neighbours.append([])
                room = _FULL_BYTES
            if size < _SMALL_BYTES:
                neighbours[-1].append(name)
                room -= size
        groups = [group for group in neighbours if len(group) > 1]
        saved = sum(len(group) - 1 for group in groups)
        if saved < fewest:
            return CompactedTable(table, len(files), len(files))
        joined = [_join(warehouse, table, group) for group in groups]
        replaced = [name for group in groups for name in group]
        for name in replaced:
            # `vacuum` counts the days from now: somebody may still be reading the version before.
            store.touch(name)
        replace_files(warehouse, table, {name.rpartition("/")[2]: sizes[name] for name in replaced}, joined)
    return CompactedTable(table, len(files), len(files) - saved)


def _join(warehouse: Warehouse, table: str, files: Sequence[str]) -> DataFile:
    """Write the rows of files to a new one, whose name has their place in the order of names."""
    schema = file_schema(table).remove_metadata()
    system, before = warehouse.store.arrow_files()

    def rows() -> Iterator[pa.Table]:
        for name in files:
            with damage_as_error(warehouse.store.uri(name)):
                dataset = ds.dataset([before + name], schema=schema, format=CHECKED_FORMAT, filesystem=system)
                yield from (pa.Table.from_batches([batch]) for batch in dataset.to_batches())

    names = [name.rpartition("/")[2] for name in files]
    start = names[0].removesuffix(".parquet").partition(_JOINED)[0]
    path = warehouse.table(table) / f"{start}{_JOINED}{content_id(names)}.parquet"
    return replace_shard(warehouse, path, table, rows())


def vacuum(warehouse: Warehouse, *, older_than_days: float, now: float) -> list[StoredFile]:
    """Delete the files that `unused_files` finds, unless another process works on their run, and return them."""
    found = unused_files(warehouse, older_than_days=older_than_days, now=now)
    runs = warehouse.store.folders("staging")
    owners = {file.name: _owners(file.name, runs) for file in found}
    with ExitStack() as locks:
        free = set[str]()
        for run in sorted({run for each in owners.values() for run in each}):
            try:
                locks.enter_context(sole_keeper(warehouse, run))
                free.add(run)
            except RunInUseError as error:
                _LOG.warning("%s; its files stay until then", error)
        # A process that joins small files of a table works on no run.
        if any(name.startswith("tables/") for name in owners):
            locks.enter_context(sole_writer(warehouse))
        deletable = [file for file in found if free.issuperset(owners[file.name])]
        # What was found before the locks were taken may have been committed or released until then.
        still = set(unused_files(warehouse, older_than_days=older_than_days, now=now)) if deletable else set()
        unused = [file for file in deletable if file in still]
        warehouse.store.delete(*(file.name for file in unused))
    return unused


def unused_files(warehouse: Warehouse, *, older_than_days: float, now: float) -> list[StoredFile]:
    """The files that nothing refers to: what killed processes left, and what only versions without a name consist of.

    A table's file stays if the newest version of its table or a version that a release names consists of it, or if its
    stage has started and not finished, because that stage may still commit it. Every file stays that was written, or
    replaced by a larger one, less than `older_than_days` before `now` (seconds since the epoch). Raises BadInputError
    if a manifest or a log is damaged.
    """
    named = {warehouse.name(path) for path in named_shards(warehouse)}
    found = {*_unnamed(warehouse), *_unfinished(warehouse)}
    found |= {file for file in warehouse.store.files("shards") if file.name not in named}
    # Files of finished stages whose process was killed before it removed them.
    found |= {file for folder in _stages(warehouse) for file in leftovers(warehouse, folder)}
    old = {file for file in found if file.modified < now - older_than_days * _DAY}
    fresh = {file for file in old if "/" not in file.name and file.modified >= now - _READERS_SECONDS}
    return sorted(old - fresh)


def _unnamed(warehouse: Warehouse) -> Iterator[StoredFile]:
    released: dict[str, set[int]] = defaultdict(set)
    for name in release_names(warehouse):
        for table, number in read_release(warehouse, name).tables.items():
            released[table].add(number)
    # Names of shards begin so whose stages have started and not finished; see `StageRun`.
    started = tuple(
        f"{number}-{folder.parent.name}-{stage}-"
        for folder in _stages(warehouse)
        if warehouse.store.size(warehouse.name(folder / MARKER)) is None
        for number, _, stage in [folder.name.partition("-")]
    )
    for table in TABLES:
        top = f"tables/{table}/"
        unnamed = {
            file.name: file
            for file in warehouse.store.files(f"tables/{table}")
            if re.fullmatch(r"[^/_.][^/]*\.parquet", file.name.removeprefix(top))
        }
        for version in (None, *released[table]) if unnamed else ():
            for name in committed_names(warehouse, table, version):
                unnamed.pop(name, None)
        yield from (file for file in unnamed.values() if not file.name.removeprefix(top).startswith(started))


def _unfinished(warehouse: Warehouse) -> Iterator[StoredFile]:
    # In a bucket there are no temporary files: a file that was not stored whole is not there.
    if warehouse.store.is_local:
        for path in (*warehouse.root.glob(".*.tmp"), *(warehouse.root / "tables").glob("*/.*.tmp")):
            status = path.stat()
            yield StoredFile(warehouse.name(path), status.st_size, status.st_mtime)
        for top in ("models", "releases", "staging"):
            for file in warehouse.store.files(top):
                inside = file.name.split("/")[1:]
                if any(part.startswith(".") and part.endswith((".tmp", ".unfinished")) for part in inside):
                    yield file
    finished = release_names(warehouse)
    for name in warehouse.store.folders("releases"):
        if name not in finished:
            yield from warehouse.store.files(f"releases/{name}")


def _stages(warehouse: Warehouse) -> Iterator[Path]:
    for run in warehouse.store.folders("staging"):
        for stage in warehouse.store.folders(f"staging/{run}"):
            if _STAGE.fullmatch(stage):
                yield warehouse.root / "staging" / run / stage


def _owners(name: str, runs: Sequence[str]) -> Sequence[str]:
    """Return the runs that may have written a file; all of them if its name has none."""
    top, _, rest = name.partition("/")
    part = rest.partition("/")[0]
    if top == "tables":
        part = _ROUND.sub("", rest.partition("/")[2], count=1)
    return [run for run in runs if f"{part}-".startswith(f"{run}-")] or runs


def damage(warehouse: Warehouse, wanted: Callable[[str], bool] = lambda name: True) -> Iterator[str]:
    """Name each file that is missing or changed, and what is lost with it.

    Logs and markers are all read; `wanted` chooses files of tables, releases and policy versions by their names.
    """
    checks = [damaged_table(warehouse, table, wanted) for table in TABLES]
    for name in release_names(warehouse):
        checks += [damaged_release(warehouse, name, stored=True)] if wanted(f"releases/{name}") else []
    for name in warehouse.store.folders("models"):
        checks += [damaged_weights(warehouse, f"models/{name}", stored=True)] if wanted(f"models/{name}") else []
    checks += [_marker(warehouse, file.name) for file in warehouse.store.files("staging")]
    for check in checks:
        try:
            yield from check
        except BadInputError as error:
            yield str(error)


def _marker(warehouse: Warehouse, name: str) -> Iterator[str]:
    if name.endswith(f"/{MARKER}"):
        whole_marker(warehouse, name)
    yield from ()


def damaged_table(warehouse: Warehouse, table: str, wanted: Callable[[str], bool] = lambda name: True) -> Iterator[str]:
    store, known, hashes, rows = warehouse.store, known_log(warehouse, table), dict[str, str](), dict[str, int]()
    logged = {file.name.rpartition("/")[2]: file.name for file in log_files(warehouse, table)}
    for name in sorted(known.keys() - logged.keys()):
        yield f"{store.uri(f'tables/{table}/_delta_log/{name}')}: missing; restore it from a copy"
    for last, name in logged.items():
        data = store.get(name) or b""
        if known.get(last, (0, ""))[1] not in ("", hashlib.sha256(data).hexdigest()):
            yield f"{store.uri(name)}: changed since it was committed, {table} may lack rows; restore it from a copy"
        elif last.endswith(".json"):
            try:
                for action in map(json.loads, data.splitlines()):
                    hashes |= json.loads(action.get("commitInfo", {}).get(HASHES, "{}"))
                    if added := action.get("add"):
                        rows[unquote(added["path"])] = json.loads(added.get("stats") or "{}").get("numRecords", 0)
            except (ValueError, KeyError, TypeError, AttributeError):
                yield f"{store.uri(name)}: not a log of Delta, {table} may lack rows; restore it from a copy"
    for name in _named_files(warehouse, table):
        last = name.rpartition("/")[2]
        lost = f"{rows.get(last, 0):,} rows of {table}"
        if wanted(name) and hashes.get(last):
            expected = {name: hashes[last]}
            yield from changed_files(
                warehouse, expected, f"the log ({lost})", f"it was committed ({lost})", stored=True
            )
        elif wanted(name):
            # Of an earlier trajmill: what can be decoded is taken for whole.
            try:
                with pq.ParquetFile(store.fetch(name, anew=True), **CHECKED) as file:
                    for group in range(file.num_row_groups):
                        file.read_row_group(group)
            except (pa.ArrowInvalid, OSError) as error:
                yield str(unreadable(f"{store.uri(name)} ({lost})", error))


def _named_files(warehouse: Warehouse, table: str) -> list[str]:
    versions: set[int | None] = {None}
    for release in release_names(warehouse):
        # A damaged manifest is named by the check of its release.
        with suppress(BadInputError):
            versions.add(read_release(warehouse, release).tables.get(table))
    return sorted({name for version in versions for name in committed_names(warehouse, table, version)})
