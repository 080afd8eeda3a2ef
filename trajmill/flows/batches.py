"""Does work on stored trajectories in batches, each once; a later call does only what is new.

A batch has its list stored before its work starts, and its marker after its commit. So a killed batch is finished by
the next call, with the same list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.watched import watched_work
from trajmill.pipelines.fan_out import WrittenFiles
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.staging import mark_done, read_marker, stage_key, sweep

_BATCH = "batch.json"


@dataclass(frozen=True)
class Batches:
    context: RoundContext
    stage: str
    identity: str
    """Identifies the work in the keys of its markers."""
    shown_as: str
    """Name of the work in the progress display."""

    def do(
        self,
        remaining: Callable[[Sequence[Mapping[str, Any]]], Any],
        work: Callable[[StageRun, Any], WrittenFiles],
        result: Callable[[Any], Mapping[str, Any]],
    ) -> None:
        """Finish a batch that was begun before, if there is one, then do the remaining work.

        Args:
            remaining: returns the items that remain, as JSON values, given the results of the finished batches.
            work: does the items of a batch and writes its files; they are committed afterwards.
            result: returns the result of a batch after its commit, for its marker.
        """
        store, finished = self.context.warehouse.store, list[Mapping[str, Any]]()
        while (marked := self._read_marker(len(finished))) is not None:
            finished.append(marked)
        begun = store.get(self._list_file(len(finished)))
        if begun is not None:
            finished.append(self._do(len(finished), json.loads(begun), work, result))
        items = remaining(finished)
        if items:
            stored = json.dumps(items).encode()
            store.put(self._list_file(len(finished)), stored)
            self._do(len(finished), json.loads(stored), work, result)

    def _do(
        self,
        number: int,
        items: Any,
        work: Callable[[StageRun, Any], WrittenFiles],
        result: Callable[[Any], Mapping[str, Any]],
    ) -> Mapping[str, Any]:
        at, warehouse = self._at(number), self.context.warehouse
        with disk_full_as_error(warehouse.root), watched_work(warehouse, at, self.shown_as):
            commit_stage(warehouse, at, work(at, items).files)
        done = result(items)
        mark_done(warehouse, at.staging(warehouse), self._key(number), done)
        sweep(warehouse, at.staging(warehouse))
        return done

    def _at(self, number: int) -> StageRun:
        return StageRun(self.context.run_id, self.context.round, self.stage, number)

    def _list_file(self, number: int) -> str:
        return self.context.warehouse.name(self._at(number).staging(self.context.warehouse) / _BATCH)

    def _key(self, number: int) -> str:
        return stage_key(self.identity, self.context.run_id, [self.context.round, number])

    def _read_marker(self, number: int) -> dict[str, Any] | None:
        folder = self._at(number).staging(self.context.warehouse)
        return read_marker(self.context.warehouse, folder, self._key(number))
