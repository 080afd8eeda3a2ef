"""Finds and deletes files that nothing refers to."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.releases import MANIFEST, named_shards, read_release, release_names
from trajmill.warehouse.staging import is_done, leftovers

_DAY = 86_400.0


class UnusedFile(NamedTuple):
    """A file that nothing refers to."""

    path: Path
    size: int
    """Bytes."""


def vacuum(warehouse: Warehouse, *, older_than_days: float, now: float) -> list[UnusedFile]:
    """Delete the files that `unused_files` finds, with the folders that they leave empty, and return them."""
    unused = unused_files(warehouse, older_than_days=older_than_days, now=now)
    for file in unused:
        file.path.unlink(missing_ok=True)
    for folder in sorted({file.path.parent for file in unused}, reverse=True):
        _remove_empty(folder, warehouse.root)
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
    newest = now - older_than_days * _DAY
    statuses = ((path, path.stat()) for path in sorted(found))
    return [UnusedFile(path, status.st_size) for path, status in statuses if status.st_mtime < newest]


def _unnamed(warehouse: Warehouse) -> Iterator[Path]:
    """Files of tables that neither a newest version nor one that a release names consists of."""
    released = _released_versions(warehouse)
    started = _unfinished_prefixes(warehouse)
    for table in TABLES:
        unnamed = set(warehouse.table(table).glob("[!_.]*.parquet")) - set(committed_files(warehouse, table))
        for version in released[table] if unnamed else ():
            unnamed -= set(committed_files(warehouse, table, version))
        yield from (path for path in unnamed if not path.name.startswith(started))


def _unshared(warehouse: Warehouse) -> Iterator[Path]:
    """Files of shards that no release names."""
    named = named_shards(warehouse)
    yield from (path for path in _files_below(warehouse.root / "shards") if path not in named)


def _released_versions(warehouse: Warehouse) -> dict[str, set[int]]:
    released: dict[str, set[int]] = defaultdict(set)
    for name in release_names(warehouse):
        for table, version in read_release(warehouse, name).tables.items():
            released[table].add(version)
    return released


def _unfinished(warehouse: Warehouse) -> Iterator[Path]:
    """Temporary files of killed processes, and the files of releases that have no manifest."""
    yield from warehouse.root.glob(".*.tmp")
    yield from (warehouse.root / "tables").glob("*/.*.tmp")
    for top in ("models", "releases", "staging"):
        for path in _files_below(warehouse.root / top):
            inside = path.relative_to(warehouse.root / top).parts
            if any(part.startswith(".") and part.endswith((".tmp", ".unfinished")) for part in inside):
                yield path
    for folder in (warehouse.root / "releases").iterdir():
        if folder.is_dir() and not (folder / MANIFEST).exists():
            yield from _files_below(folder)


def _left_in_staging(warehouse: Warehouse) -> Iterator[Path]:
    """Files of finished stages whose process was killed before it removed them."""
    for folder in (warehouse.root / "staging").glob("*/r*-*"):
        for path in leftovers(folder):
            yield from _files_below(path) if path.is_dir() else [path]


def _files_below(folder: Path) -> Iterable[Path]:
    return (Path(place, name) for place, _, names in os.walk(folder) for name in names)


def _unfinished_prefixes(warehouse: Warehouse) -> tuple[str, ...]:
    """The prefixes of shard names whose stages have started and not finished; see `StageRun`."""
    prefixes = []
    for folder in (warehouse.root / "staging").glob("*/r*-*"):
        if is_done(folder):
            continue
        number, _, stage = folder.name.partition("-")
        prefixes.append(f"{number}-{folder.parent.name}-{stage}-")
    return tuple(prefixes)


def _remove_empty(folder: Path, root: Path) -> None:
    """Remove a folder, and those above it that get empty; the folders at the top stay."""
    while folder.parent != root and folder != root and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
