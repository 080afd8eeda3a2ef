"""Keeps a warehouse small that grows every night: drops old releases, joins small files, deletes unused ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.releases import drop_release, older_releases
from trajmill.warehouse.upkeep.compact import CompactedTable, compact
from trajmill.warehouse.upkeep.vacuum import UnusedFile, vacuum


class Maintained(NamedTuple):
    """What was done to a warehouse."""

    dropped: Sequence[str]
    """Names of releases."""
    compacted: Sequence[CompactedTable]
    deleted: Sequence[UnusedFile]


def maintain(warehouse: Warehouse, *, keep_releases: int, unused_days: float, now: float) -> Maintained:
    """Drop the releases beyond the newest of each run, compact the tables, and delete what nothing refers to.

    Args:
        warehouse: where to work.
        keep_releases: releases of each run to keep; 0 keeps all.
        unused_days: age in days below which no file is deleted.
        now: the time in seconds since the epoch.

    Raises:
        BadInputError: a manifest, a committed file or an entry of a table's log is missing or damaged.
        TrajmillError: the disk is full.
    """
    dropped = older_releases(warehouse, keep_releases)
    for name in dropped:
        drop_release(warehouse, name)
    return Maintained(dropped, compact(warehouse), vacuum(warehouse, older_than_days=unused_days, now=now))
