"""Keeps a warehouse small that grows every night: drops old releases, joins small files, deletes unused ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.lock import RunInUseError, sole_keeper
from trajmill.warehouse.releases import drop_release, older_releases
from trajmill.warehouse.upkeep.compact import CompactedTable, compact
from trajmill.warehouse.upkeep.vacuum import UnusedFile, vacuum


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
