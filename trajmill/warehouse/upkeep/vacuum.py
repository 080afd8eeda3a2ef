"""Keeps a warehouse small that grows every night: drops old releases, joins small files, deletes unused ones.

Files of a run on which a process works are left alone: that process may still commit or release them.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.lock import RunInUseError, sole_keeper, sole_writer
from trajmill.warehouse.releases import drop_release, named_shards, older_releases, read_release, release_names
from trajmill.warehouse.staging import is_done, leftovers
from trajmill.warehouse.store.base import StoredFile
from trajmill.warehouse.upkeep.compact import CompactedTable, compact

_LOG = logging.getLogger(__name__)
_DAY = 86_400.0
_READERS_SECONDS = 3600.0
"""Age in seconds below which a temporary file of the views stays: readers write them, and hold no lock."""
_STAGE = re.compile(r"r[^-]*-.*")
_ROUND = re.compile(r"\.?r\d+-")


class UnusedFile(NamedTuple):
    """A file that nothing refers to."""

    name: str
    """Relative to the warehouse."""
    size: int
    """Bytes."""


class Maintained(NamedTuple):
    """What was done to a warehouse."""

    dropped: Sequence[str]
    """Names of releases."""
    in_use: Sequence[str]
    """Runs whose old releases stay for now, because another process works on the run."""
    compacted: Sequence[CompactedTable]
    deleted: Sequence[UnusedFile]


def maintain(
    warehouse: Warehouse, *, keep_releases: int, unused_days: float, now: float, run_id: str | None = None
) -> Maintained:
    """Drop the releases beyond the newest of each run, compact the tables, and delete what nothing refers to.

    Args:
        warehouse: where to work.
        keep_releases: releases of each run to keep; 0 keeps all.
        unused_days: age in days below which no file is deleted.
        now: the time in seconds since the epoch.
        run_id: the run whose releases are dropped; all runs if None.

    Raises:
        BadInputError: a manifest, a committed file or an entry of a table's log is missing or damaged.
        TrajmillError: the disk is full.
    """
    dropped, in_use = list[str](), list[str]()
    for run in older_releases(warehouse, keep_releases):
        if run_id not in (None, run):
            continue
        try:
            dropped += _drop_older(warehouse, run, keep_releases)
        except RunInUseError:
            in_use.append(run)
    compacted = compact(warehouse)
    return Maintained(dropped, in_use, compacted, vacuum(warehouse, older_than_days=unused_days, now=now))


def _drop_older(warehouse: Warehouse, run_id: str, keep: int) -> Sequence[str]:
    with sole_keeper(warehouse, run_id):
        # Another process may have dropped or made some until the lock was taken.
        names = older_releases(warehouse, keep).get(run_id, ())
        for name in names:
            drop_release(warehouse, name)
    return names


def vacuum(warehouse: Warehouse, *, older_than_days: float, now: float) -> list[UnusedFile]:
    """Delete the files that `unused_files` finds, with the folders that they leave empty, and return them.

    What belongs to a run on which another process works stays, since that process may still commit or release it; a
    line of the log says so.

    Raises:
        BadInputError: a manifest or an entry of a table's log is damaged.
        StoreError: the store does not answer.
    """
    found = unused_files(warehouse, older_than_days=older_than_days, now=now)
    with _unused_runs_locked(warehouse, [file.name for file in found]) as free:
        # What was found before the locks were taken may have been committed or released until then.
        still = set(unused_files(warehouse, older_than_days=older_than_days, now=now)) if free else set()
        unused = [file for file in found if file in still and file.name in free]
        for file in unused:
            warehouse.store.delete(file.name)
    return unused


def unused_files(warehouse: Warehouse, *, older_than_days: float, now: float) -> list[UnusedFile]:
    """The files that nothing refers to: what killed processes left, and what only versions without a name consist of.

    A table's file stays if the newest version of its table or a version that a release names consists of it, or if its
    stage has started and not finished, because that stage may still commit it. Every file stays that was written, or
    replaced by a larger one, less than `older_than_days` ago.

    Args:
        warehouse: where to look.
        older_than_days: age in days below which nothing is unused.
        now: the time in seconds since the epoch.

    Raises:
        BadInputError: a manifest or an entry of a table's log is damaged.
    """
    found = {*_unnamed(warehouse), *_unshared(warehouse), *_unfinished(warehouse), *_left_in_staging(warehouse)}
    old = {file for file in found if file.modified < now - older_than_days * _DAY}
    fresh = {file for file in old if "/" not in file.name and file.modified >= now - _READERS_SECONDS}
    return [UnusedFile(file.name, file.size) for file in sorted(old - fresh)]


def _unnamed(warehouse: Warehouse) -> Iterator[StoredFile]:
    """Files of tables that neither a newest version nor one that a release names consists of."""
    released = _released_versions(warehouse)
    started = _unfinished_prefixes(warehouse)
    for table in TABLES:
        unnamed = {file.name: file for file in warehouse.store.files(f"tables/{table}") if _is_data(table, file.name)}
        for version in (None, *released[table]) if unnamed else ():
            for path in committed_files(warehouse, table, version):
                unnamed.pop(warehouse.name(path), None)
        yield from (file for file in unnamed.values() if not _last(file.name).startswith(started))


def _is_data(table: str, name: str) -> bool:
    within = name.removeprefix(f"tables/{table}/")
    return "/" not in within and within.endswith(".parquet") and not within.startswith(("_", "."))


def _unshared(warehouse: Warehouse) -> Iterator[StoredFile]:
    """Files of shards that no release names."""
    named = {warehouse.name(path) for path in named_shards(warehouse)}
    yield from (file for file in warehouse.store.files("shards") if file.name not in named)


def _released_versions(warehouse: Warehouse) -> dict[str, set[int]]:
    released: dict[str, set[int]] = defaultdict(set)
    for name in release_names(warehouse):
        for table, version in read_release(warehouse, name).tables.items():
            released[table].add(version)
    return released


def _unfinished(warehouse: Warehouse) -> Iterator[StoredFile]:
    """Temporary files of killed processes, and the files of releases that have no manifest."""
    if warehouse.store.is_local:
        yield from _temporary(warehouse)
    finished = release_names(warehouse)
    for name in warehouse.store.folders("releases"):
        if name not in finished:
            yield from warehouse.store.files(f"releases/{name}")


def _temporary(warehouse: Warehouse) -> Iterator[StoredFile]:
    """In a bucket there are none: a file that was not stored whole is not there."""
    for path in (*warehouse.root.glob(".*.tmp"), *(warehouse.root / "tables").glob("*/.*.tmp")):
        status = path.stat()
        yield StoredFile(warehouse.name(path), status.st_size, status.st_mtime)
    for top in ("models", "releases", "staging"):
        for file in warehouse.store.files(top):
            inside = file.name.split("/")[1:]
            if any(part.startswith(".") and part.endswith((".tmp", ".unfinished")) for part in inside):
                yield file


def _left_in_staging(warehouse: Warehouse) -> Iterator[StoredFile]:
    """Files of finished stages whose process was killed before it removed them."""
    for folder in _stages(warehouse):
        yield from leftovers(warehouse, folder)


def _unfinished_prefixes(warehouse: Warehouse) -> tuple[str, ...]:
    """The prefixes of shard names whose stages have started and not finished; see `StageRun`."""
    prefixes = []
    for folder in _stages(warehouse):
        if not is_done(warehouse, folder):
            number, _, stage = folder.name.partition("-")
            prefixes.append(f"{number}-{folder.parent.name}-{stage}-")
    return tuple(prefixes)


def _stages(warehouse: Warehouse) -> Iterator[Path]:
    """The folders of the stages of all runs."""
    for run in warehouse.store.folders("staging"):
        for stage in warehouse.store.folders(f"staging/{run}"):
            if _STAGE.fullmatch(stage):
                yield warehouse.root / "staging" / run / stage


def _last(name: str) -> str:
    return name.rpartition("/")[2]


@contextmanager
def _unused_runs_locked(warehouse: Warehouse, names: Collection[str]) -> Iterator[frozenset[str]]:
    """Lock the runs and the tables that files belong to, except runs in use.

    Yields:
        The files that no process writes, commits or releases within the block.
    """
    runs = warehouse.store.folders("staging")
    owners = {name: _owners(name, runs) for name in names}
    with ExitStack() as locks:
        free = set(_locked(warehouse, locks, sorted({run for each in owners.values() for run in each})))
        # A process that joins small files of a table works on no run.
        for table in sorted({name.split("/")[1] for name in names if name.startswith("tables/")}):
            locks.enter_context(sole_writer(warehouse, table))
        yield frozenset(name for name, each in owners.items() if free.issuperset(each))


def _locked(warehouse: Warehouse, locks: ExitStack, runs: Sequence[str]) -> Iterator[str]:
    for run in runs:
        try:
            locks.enter_context(sole_keeper(warehouse, run))
        except RunInUseError as error:
            _LOG.warning("%s; its files stay until then", error)
        else:
            yield run


def _owners(name: str, runs: Sequence[str]) -> Sequence[str]:
    """The runs that may have written a file; all of them if its name has none."""
    top, _, rest = name.partition("/")
    part = rest.partition("/")[0]
    if top == "tables":
        part = _ROUND.sub("", rest.partition("/")[2], count=1)
    return [run for run in runs if f"{part}-".startswith(f"{run}-")] or runs
