"""Rows per second of judging and deriving a round: as a plain pyarrow loop, as the stage with one worker, and with two.

    trajmill evolve && python -m benchmarks.stage_floors trajmill-data --copies 1 8

The plain loop is the floor: it reads the committed files whole, does the same judging or deriving on all trajectories
in one process, and writes one file. It knows no ranges, no progress, no finished shards and no Beam. The round is the
newest one of a default job, some copies of it in one round. Each line is a process of its own; seconds are those of the
work without imports. CPU seconds and the peak are those of the first process, so with two workers only seconds tell.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.process_tree import peak_mib
from benchmarks.repeated_run import fill_one_round
from trajmill.flows.cli.app import give_memory_back
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.judges import own_judge
from trajmill.pipelines.derive import DeriveExamples
from trajmill.pipelines.fan_out import BeamSettings, StageWork, divide, fan_out
from trajmill.pipelines.judge import JudgeTrajectories
from trajmill.schemas.episode import Episode
from trajmill.schemas.record import Origin, Row
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.registry import rows_from_arrow, rows_to_arrow
from trajmill.schemas.tables.trajectory import Purpose, Step, Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepVerdict
from trajmill.stages.critics.judge import judge_episodes
from trajmill.stages.curate.episodes import curated_episode
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.derive.step_data import end_to_end_examples
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import StageRun, Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.read import read_table, table_of
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.shards import file_schema

R = TypeVar("R", bound=Row)
WAYS = ("plain", "1", "2")
"""The plain loop, and the numbers of workers."""


@dataclass(frozen=True)
class Round:
    """A round whose attempts are judged or derived."""

    warehouse: Warehouse
    origin: Origin
    trajectory_ids: Sequence[str]

    @property
    def at(self) -> StageRun:
        """A stage that the round does not have."""
        return StageRun(self.origin.run_id, self.origin.round, "measured")

    def rows(self, record: type[R]) -> list[R]:
        """All rows of a class in the round, as a plain loop reads them."""
        table = table_of(record)
        files = [str(path) for path in committed_files(self.warehouse, table)]
        read = ds.dataset(files, schema=file_schema(table).remove_metadata(), format="parquet").to_table()
        return rows_from_arrow(record, read)

    def episodes(self) -> list[Episode]:
        """The round's attempts with their steps."""
        queries = {query.query_id: query for query in self.rows(Query)}
        steps: dict[str, list[Step]] = defaultdict(list)
        for step in self.rows(Step):
            steps[step.trajectory_id].append(step)
        wanted = set(self.trajectory_ids)
        return [
            Episode(
                query=queries[one.query_id],
                trajectory=one,
                steps=tuple(sorted(steps[one.trajectory_id], key=lambda step: step.index)),
            )
            for one in self.rows(Trajectory)
            if one.trajectory_id in wanted
        ]


def main() -> None:
    """Run and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("root", type=Path)
    options.add_argument("--copies", type=int, nargs="+", default=[1], help="of all rounds of the run, as one round")
    options.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        _do(open_warehouse(given.root), *given.one)
        return
    give_memory_back()
    for copies in given.copies:
        with tempfile.TemporaryDirectory() as folder:
            warehouse = create_warehouse(Path(folder) / "root")
            fill_one_round(warehouse, open_warehouse(given.root), copies)
            _print(warehouse)


def _print(warehouse: Warehouse) -> None:
    print("| what | way | trajectories | rows written | s | CPU s | trajectories/s | peak MiB |", flush=True)
    print("|---|---|---|---|---|---|---|---|")
    for what in WORK:
        for way in WAYS:
            command = [sys.executable, "-m", "benchmarks.stage_floors", str(warehouse.root), "--one", what, way]
            said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            trajectories, rows, seconds, cpu, peak = json.loads(said.splitlines()[-1])
            print(
                f"| {what} | {way} | {trajectories:,} | {rows:,} | {seconds:.2f} | {cpu:.2f} "
                f"| {trajectories / seconds:,.0f} | {peak:,.0f} |",
                flush=True,
            )


def _do(warehouse: Warehouse, what: str, way: str) -> None:
    """Judge or derive the round in one way, and print what it took."""
    of = _round(warehouse)
    plain, stage = WORK[what]
    start, cpu = perf_counter(), sum(os.times()[:4])
    if way == "plain":
        rows = plain(of)
    else:
        payloads = divide(of.trajectory_ids, int(way))
        made = fan_out(stage(of), payloads, BeamSettings(), int(way))
        rows = sum(map(made.rows, made.files))
    seconds, spent = perf_counter() - start, sum(os.times()[:4]) - cpu
    print(json.dumps([len(of.trajectory_ids), rows, seconds, spent, peak_mib()]))


def _round(warehouse: Warehouse) -> Round:
    """The training attempts of the only round."""
    rows = read_table(warehouse, "trajectories", ["trajectory_id", "purpose", "round", "run_id"])
    origin = Origin(round=rows["round"][0].as_py(), run_id=rows["run_id"][0].as_py(), code_version="0")
    ids = rows["trajectory_id"].filter(pc.equal(rows["purpose"], Purpose.TRAIN.value))
    return Round(warehouse, origin, sorted(ids.to_pylist()))


def _judge_plainly(of: Round) -> int:
    judge = own_judge(Config())

    async def judged() -> list[Episode]:
        async with judge.spec.open(judge.critics, of.origin, lambda call: None) as opened:
            return (await judge_episodes(of.episodes(), opened, WarehouseScreens(of.warehouse), of.origin)).episodes

    done = asyncio.run(judged())
    tables: dict[str, Sequence[Row]] = {
        "step_verdicts": [row for one in done for row in one.step_verdicts],
        "trajectory_verdicts": [row for one in done for row in one.trajectory_verdicts],
        "judgements": [one.judgement for one in done if one.judgement],
    }
    return sum(_written(of, table, rows) for table, rows in tables.items())


def _judge(of: Round) -> StageWork[Sequence[str]]:
    judge = own_judge(Config())
    return JudgeTrajectories(
        *(of.warehouse, of.at, of.origin, judge.spec, judge.critics), rounds=(of.origin.round,), tried={}
    )


def _derive_plainly(of: Round) -> int:
    screens = WarehouseScreens(of.warehouse)
    judgements = {row.trajectory_id: row for row in of.rows(Judgement)}
    verdicts: dict[str, list[StepVerdict]] = defaultdict(list)
    for row in of.rows(StepVerdict):
        verdicts[row.trajectory_id].append(row)
    rows: list[Row] = []
    for episode in of.episodes():
        name = episode.trajectory.trajectory_id
        judged = episode.model_copy(
            update={
                "judgement": judgements.get(name),
                "step_verdicts": tuple(sorted(verdicts[name], key=lambda row: row.index)),
            }
        )
        curated = curated_episode(judged, CurateSpec(), screens).episode
        if curated is not None:
            rows += end_to_end_examples(curated, screens.size, of.origin).examples
    return _written(of, "examples", rows)


def _derive(of: Round) -> StageWork[Sequence[str]]:
    return DeriveExamples(of.warehouse, of.at, of.origin, (of.origin.round,), True, CurateSpec())


def _written(of: Round, table: str, rows: Sequence[Row]) -> int:
    pq.write_table(rows_to_arrow(table, rows), of.warehouse.root / f"plain-{table}.parquet", compression="zstd")
    return len(rows)


Plain = Callable[[Round], int]
Stage = Callable[[Round], StageWork[Sequence[str]]]
WORK: dict[str, tuple[Plain, Stage]] = {"judge": (_judge_plainly, _judge), "derive": (_derive_plainly, _derive)}
"""By name, the plain loop, which returns the number of its rows, and the work of a shard of the stage."""


if __name__ == "__main__":
    main()
