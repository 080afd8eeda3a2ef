"""Deletes files that no version in use refers to."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.releases import read_release, release_names
from trajmill.warehouse.staging import is_done

_DAY = 86_400.0


def vacuum(warehouse: Warehouse, *, older_than_days: float, now: float) -> list[Path]:
    """Delete the files of killed workers in the tables' folders, and return the deleted paths.

    A file stays if the newest version of its table or a version that a release names refers to it, if it is younger
    than `older_than_days`, or if its stage has started and not finished, because that stage may still commit it.

    Args:
        warehouse: where to delete.
        older_than_days: age in days below which nothing is deleted.
        now: the time in seconds since the epoch.
    """
    released: dict[str, set[int]] = defaultdict(set)
    for name in release_names(warehouse):
        for table, version in read_release(warehouse, name).tables.items():
            released[table].add(version)
    unfinished = _unfinished_prefixes(warehouse)
    deleted: list[Path] = []
    for table in TABLES:
        used = {path for version in (None, *released[table]) for path in committed_files(warehouse, table, version)}
        shards = set(warehouse.table(table).glob("*.parquet*"))
        deleted += [path for path in shards - used if not path.name.lstrip(".").startswith(unfinished)]
    deleted += warehouse.root.glob(f".{warehouse.database.name}.*")
    deleted = sorted(path for path in deleted if now - path.stat().st_mtime > older_than_days * _DAY)
    for path in deleted:
        path.unlink()
    return deleted


def _unfinished_prefixes(warehouse: Warehouse) -> tuple[str, ...]:
    """The prefixes of shard names whose stages have started and not finished; see `StageRun`."""
    prefixes = []
    for folder in (warehouse.root / "staging").glob("*/r*-*"):
        if is_done(folder):
            continue
        number, _, stage = folder.name.partition("-")
        prefixes.append(f"{number}-{folder.parent.name}-{stage}-")
    return tuple(prefixes)
