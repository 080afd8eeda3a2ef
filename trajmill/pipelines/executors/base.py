"""The protocol of executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from trajmill.warehouse.layout import StageRun, Warehouse


class Shard(NamedTuple):
    """A part of a stage's work."""

    name: str
    payload: Any
    """Picklable."""


class DoShard(Protocol):
    """Does one shard of a stage; picklable. Doing a shard twice does no harm."""

    @property
    def warehouse(self) -> Warehouse:
        """Where the shard's files are written."""
        ...

    @property
    def at(self) -> StageRun:
        """The stage."""
        ...

    def __call__(self, shard: Shard, attempt: str = "") -> Mapping[str, int]:
        """Do a shard unless it is done, and return the rows that were written, by table.

        Args:
            shard: the shard.
            attempt: added to the names of its files; keeps the files of executions apart that may overlap.
        """
        ...


class Executor(Protocol):
    """Does the shards of a stage, in any order, on this machine or on others."""

    def run(self, do: DoShard, shards: Sequence[Shard]) -> None:
        """Do every shard; returns when all are done.

        Raises:
            TrajmillError: `do` raised it, or the workers of a shard were lost too often.
        """
        ...
