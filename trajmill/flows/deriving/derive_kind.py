"""The command `trajmill derive KIND`: derives rows of one kind from the stored trajectories of a run.

A batch is the trajectories of one round that the kind, with its settings and models, has not been derived from yet. Its
list is written before the work starts, so that a killed batch can be continued; it is done after its commit.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc

from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.deriving.kind_of_run import KindOfRun, kind_named
from trajmill.flows.deriving.manual_trials import with_tried_manuals
from trajmill.flows.deriving.sources import sources_of_round, tasks_of_round
from trajmill.flows.serving.models_ready import models_ready
from trajmill.flows.tasks.watched import watched_work
from trajmill.pipelines.derive import DerivedFrom, DeriveKind
from trajmill.pipelines.fan_out import divide, fan_out
from trajmill.schemas.errors import BadInputError
from trajmill.stages.derive.collected import Maker
from trajmill.stages.derive.kind_spec import GuidanceLift
from trajmill.stages.derive.spec import PlanningSpec
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.read import read_table
from trajmill.warehouse.staged_screens import write_screens
from trajmill.warehouse.staging import mark_done, read_marker, stage_key, sweep
from trajmill.warehouse.views import refresh_views

_BATCH = "batch.json"
_MOST_IN_SHARD = 200
"""Trajectories of one shard; the rows of a shard are in memory together."""


class DerivedData(NamedTuple):
    """The result of deriving a kind, in this call."""

    trajectories: int
    """Trajectories that rows were derived from."""
    examples: int
    failures: int
    refused: Mapping[str, int]
    """By reason."""


def derive_kind(config: Config, name: str) -> DerivedData:
    """Derive a kind from all judged training trajectories of the run that it was not derived from yet.

    Raises:
        BadInputError: there is no such kind, a model is missing, or the run has no judged trajectory.
        RunInUseError: another process works on the run.
    """
    kind = kind_named(config, name)
    warehouse = create_warehouse(config.run.root)
    context = RoundContext(config, warehouse, 0)
    rounds = _rounds(context)
    if not rounds:
        raise BadInputError(
            f"run {context.run_id} in {warehouse.address} has no judged trajectory; run `trajmill evolve` first"
        )
    with sole_worker(warehouse, context.run_id), ExitStack() as models:
        models.enter_context(models_ready(config, warehouse.run(context.run_id), kind.models.values()))
        if isinstance(kind.spec, PlanningSpec) and kind.spec.trials:
            # The policy and the roles of its agent try the manuals.
            models.enter_context(models_ready(config, warehouse.run(context.run_id)))
        done = [one for number in rounds for one in _Batches(context.in_round(number), kind).derive()]
    refresh_views(warehouse)
    return _sum(done)


def derive_in_round(context: RoundContext, name: str) -> DerivedData:
    """Derive a kind from the judged trajectories of the rounds so far, as a stage of a run that is at work.

    Raises:
        BadInputError: there is no such kind, or a model is missing.
    """
    kind = kind_named(context.config, name)
    rounds = range(1, context.round + 1)
    return _sum([one for number in rounds for one in _Batches(context.in_round(number), kind).derive()])


def _sum(batches: Sequence[DerivedData]) -> DerivedData:
    refused: Counter[str] = Counter()
    for one in batches:
        refused.update(one.refused)
    return DerivedData(
        sum(one.trajectories for one in batches),
        sum(one.examples for one in batches),
        sum(one.failures for one in batches),
        dict(refused),
    )


def _rounds(context: RoundContext) -> list[int]:
    rows = read_table(context.warehouse, "judgements", ["round"], run_id=context.run_id)
    judged = pc.max(rows["round"]).as_py()
    return [] if judged is None else list(range(1, judged + 1))


@dataclass(frozen=True)
class _Batches:
    """The batches of one kind in one round."""

    context: RoundContext
    kind: KindOfRun

    def derive(self) -> list[DerivedData]:
        """Finish a batch that was started before, then derive from what is left."""
        finished, made = self._finished(), []
        started = self.context.warehouse.store.get(self._batch_name(len(finished)))
        if started is not None:
            batch = _read_batch(started)
            made.append(self._derive_batch(len(finished), batch))
            finished = self._finished()
        done = {trajectory_id for ids in finished for trajectory_id in ids}
        sources = self._sources(done)
        if sources:
            self.context.warehouse.store.put(self._batch_name(len(finished)), json.dumps(sources).encode())
            made.append(self._derive_batch(len(finished), sources))
        return made

    def _sources(self, done: set[str]) -> list[DerivedFrom]:
        if isinstance(self.kind.spec, PlanningSpec):
            return tasks_of_round(self.context, done, self.kind.spec)
        return sources_of_round(self.context, done, self.kind.spec.once_per_screen)

    def _batch_name(self, attempt: int) -> str:
        """Where the sources of a batch are stored, which has begun."""
        return self.context.warehouse.name(self._folder(attempt) / _BATCH)

    def _finished(self) -> list[list[str]]:
        """For each finished batch, its trajectories."""
        found: list[list[str]] = []
        while (marked := self._marked(len(found))) is not None:
            found.append(marked["trajectories"])
        return found

    def _derive_batch(self, attempt: int, sources: Sequence[DerivedFrom]) -> DerivedData:
        context, at = self.context, self._run(attempt)
        job = DeriveKind(
            context.warehouse,
            at,
            Maker(self.kind.spec.name, self.kind.made_by, context.origin),
            self.kind.spec,
            rounds=(context.round,),
            prompts=context.config.derive.prompts.load(),
            writer=self.kind.endpoint(context.config, "writer"),
            describer=self.kind.endpoint(context.config, "describer"),
            curate=context.config.curate,
            concurrency=context.config.derive.concurrency,
        )
        watching = watched_work(context.warehouse, at, f"derive {self.kind.spec.name}")
        with disk_full_as_error(context.warehouse.root), watching:
            workers = context.config.rollout.workers
            payloads = divide(sources, workers, _MOST_IN_SHARD)
            made = fan_out(context.warehouse, at, payloads, job, context.beam, workers)
            if isinstance(self.kind.spec, PlanningSpec) and self.kind.spec.trials:
                made = with_tried_manuals(context, at, made, self.kind.spec.trials)
            crops = write_screens(context.warehouse, at, context.origin, self.kind.made_by)
            commit_stage(context.warehouse, at, {**made.files, "screens": [crops]})
        trajectories = [source.trajectory_id for source in sources]
        mark_done(self.context.warehouse, self._folder(attempt), self._key(attempt), {"trajectories": trajectories})
        sweep(self.context.warehouse, self._folder(attempt))
        return DerivedData(len(trajectories), made.rows("examples"), made.rows("failures"), made.dropped)

    def _run(self, attempt: int) -> StageRun:
        stage = f"derive-{self.kind.made_by.partition('.')[2].replace('/', '-')}"
        return StageRun(self.context.run_id, self.context.round, stage, attempt)

    def _marked(self, attempt: int) -> dict[str, Any] | None:
        return read_marker(self.context.warehouse, self._folder(attempt), self._key(attempt))

    def _folder(self, attempt: int) -> Path:
        return self._run(attempt).staging(self.context.warehouse)

    def _key(self, attempt: int) -> str:
        return stage_key(self.kind.made_by, self.context.run_id, [self.context.round, attempt])


def _read_batch(stored: bytes) -> list[DerivedFrom]:
    return [_source(*values) for values in json.loads(stored)]


def _source(
    name: str, steps: list[int] | None, others: Sequence[str] = (), lift: tuple[float, float] | None = None
) -> DerivedFrom:
    compared = None if lift is None else GuidanceLift(*lift)
    return DerivedFrom(name, None if steps is None else tuple(steps), tuple(others), compared)
