"""Seconds and memory of what looks at a whole warehouse, at several sizes of it, each in a process of its own.

    trajmill evolve && python -m benchmarks.scale trajmill-data --steps 10000 100000 1000000

The rounds of a finished run are repeated as later rounds of the same run, with trajectories, examples and RL rows of
their own on the same queries and screens, until there are so many steps. Measured are the page of a trajectory (that of
`trajmill show`, and the whole command), what a round reads of all rounds before it, deriving the newest round, three
releases (the first of the run, for the round before the newest; that of the newest round; one whose rows all lie in
shards), and each ready-made view. Seconds are those of the work, without imports; the peak is that of the whole
process. `--compact` joins small files first; `--one-round` makes one round of all these rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from trajmill.flows.cli.app import give_memory_back
from trajmill.flows.terminal.show import find_trajectory
from trajmill.pipelines.derive import DeriveExamples
from trajmill.pipelines.derive_rl import DeriveRLSteps, RLRound, plan_round, read_compared, stored_place
from trajmill.pipelines.engine.settings import BeamSettings
from trajmill.pipelines.fan_out import WrittenFiles
from trajmill.pipelines.reading.history import read_history
from trajmill.pipelines.release import ReleaseRequest, make_release
from trajmill.pipelines.work.lists import MOST_IN_RANGE, fan_out_listed
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.derive.spec import RLSpec
from trajmill.stages.export.kinds import exporter_spec
from trajmill.warehouse.columns import file_schema
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import StageRun, Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.lookup import RowLookup
from trajmill.warehouse.read import read_rows, read_table
from trajmill.warehouse.shards import write_shard
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.upkeep.compact import compact
from trajmill.warehouse.views import READY_MADE

_ONCE = ("queries", "screens", "guidance", "models", "rounds")
_REPEATED = (
    *("trajectories", "steps", "step_verdicts", "trajectory_verdicts"),
    *("judgements", "examples", "rl_steps"),
)
_IDS = ("trajectory_id", "example_id", "rl_step_id")


Work = Callable[[], object]


class Measured(NamedTuple):
    """What one process took."""

    seconds: float
    """Of the clock, without imports."""
    cpu_seconds: float
    """Of this process and those that it started, without imports."""
    peak_mib: float


def main() -> None:
    """Run and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("root", type=Path)
    options.add_argument("--steps", type=int, nargs="+", default=[10_000, 100_000])
    options.add_argument("--compact", action="store_true")
    options.add_argument("--one-round", action="store_true")
    options.add_argument("--only", nargs="+", default=[*WORK, *(f"view {name}" for name in READY_MADE)])
    options.add_argument("--one", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        _do(open_warehouse(given.root), given.one)
        return
    give_memory_back()
    for steps in given.steps:
        with tempfile.TemporaryDirectory() as folder:
            warehouse = create_warehouse(Path(folder) / "root")
            source = open_warehouse(given.root)
            if given.one_round:
                fill_one_round(warehouse, source, ceil(steps / read_table(source, "steps", ["index"]).num_rows))
            else:
                _fill(warehouse, source, steps)
            if given.compact:
                compact(warehouse)
            rows, files = read_table(warehouse, "steps", ["index"]).num_rows, len(committed_files(warehouse, "steps"))
            print(f"{rows:,} steps in {files:,} files\n\n| what | s | CPU s | peak MiB |", flush=True)
            print("|---|---|---|---|")
            for name in given.only:
                found = _measured(warehouse, name)
                line = f"| {name} | {found.seconds:.3f} | {found.cpu_seconds:.3f} | {found.peak_mib:,.0f} |"
                print(line, flush=True)


def _measured(warehouse: Warehouse, name: str) -> Measured:
    command = [sys.executable, "-m", "benchmarks.scale", str(warehouse.root), "--one", name]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return Measured(*json.loads(said.splitlines()[-1]))


def _do(warehouse: Warehouse, name: str) -> None:
    """Prepare and do one work, and print what it took."""
    kind, _, view = name.partition(" ")
    work = partial(run_sql, warehouse, f"SELECT * FROM {view}") if kind == "view" else WORK[name](warehouse)
    start, cpu = perf_counter(), _cpu_seconds()
    work()
    seconds = perf_counter() - start
    # The figure of `getrusage` begins with the memory of the process that started this one.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    print(json.dumps([seconds, _cpu_seconds() - cpu, int(peak.split()[1]) / 1024]))


def _cpu_seconds() -> float:
    return sum(os.times()[:4])


def _page(warehouse: Warehouse) -> Work:
    return partial(find_trajectory, warehouse, _some_trajectory(warehouse))


def _show(warehouse: Warehouse) -> Work:
    command = ["trajmill", "show", _some_trajectory(warehouse), "--root", str(warehouse.root)]
    return partial(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)


def _some_trajectory(warehouse: Warehouse) -> str:
    rows = RowLookup(warehouse).read("trajectories", ["trajectory_id"], rounds=[1])
    return str(rows["trajectory_id"][rows.num_rows // 2].as_py())


def _history(warehouse: Warehouse) -> Work:
    newest = newest_round(warehouse)
    return partial(read_history, warehouse, newest.run_id, newest.round + 1)


def _derive(warehouse: Warehouse) -> Work:
    origin = newest_round(warehouse)
    at = StageRun(origin.run_id, origin.round, "measured")
    rows = read_table(warehouse, "judgements", ["trajectory_id", "correct"], rounds=[origin.round])
    ids = sorted(rows["trajectory_id"].filter(rows["correct"]).to_pylist())
    return partial(DeriveExamples(warehouse, at, origin, (origin.round,), True, True, CurateSpec()), "00000", ids)


def derive_rl(warehouse: Warehouse) -> Callable[[], WrittenFiles]:
    """Prepare to derive the RL rows of the newest round, those of groups without spread included."""
    origin = newest_round(warehouse)
    at = StageRun(origin.run_id, origin.round, "measured")
    columns = ["trajectory_id", "purpose"]
    rows = read_table(warehouse, "trajectories", columns, rounds=[origin.round]).to_pydict()
    ids = [name for name, purpose in zip(*rows.values(), strict=True) if purpose == Purpose.TRAIN]
    spec = RLSpec(keep_without_spread=True)
    compared = RLRound(origin.run_id, origin.round, ids, (origin.round,), {}, {}, frozenset(), frozenset())
    job = DeriveRLSteps(warehouse, at, origin, spec.step_weight)

    def work() -> WrittenFiles:
        planned = plan_round(warehouse, compared, spec, seed=0).trajectories
        return fan_out_listed(
            *(warehouse, at, planned, job, BeamSettings()),
            workers=1,
            encode=json.dumps,
            decode=read_compared,
            near=stored_place,
        )

    return work


def _first_release(warehouse: Warehouse) -> Work:
    newest = newest_round(warehouse)
    return release_of(warehouse, newest.model_copy(update={"round": newest.round - 1}))


def _release(warehouse: Warehouse) -> Work:
    return release_of(warehouse, newest_round(warehouse))


def release_of(warehouse: Warehouse, origin: Origin, formats: Sequence[str] = ("trl", "verl")) -> Work:
    """Prepare to make the release of a round."""
    names = sorted(folder.name for folder in (warehouse.root / "releases").iterdir())
    request = ReleaseRequest(
        name=f"measured-{len(names)}",
        origin=origin,
        policy="measured",
        judge="measured",
        averages=None,
        keep_per_query=3,
        keep_per_reply=None,
        formats=tuple(exporter_spec(kind) for kind in formats),
        previous=names[-1] if names else None,
        created_at="",
        heldout_apps=(),
        left_out={},
    )
    staging = warehouse.staging(origin.run_id) / request.name
    staging.mkdir(parents=True)
    return partial(make_release, warehouse, request, read_rows(warehouse, Query), staging)


WORK: dict[str, Callable[[Warehouse], Work]] = {
    "page": _page,
    "trajmill show": _show,
    "figures of all rounds, read anew": _history,
    "figures of all rounds, kept": _history,
    "derive the newest round": _derive,
    "RL rows of the newest round": derive_rl,
    "first release": _first_release,
    "release of the next round": _release,
    "release, all rows in shards": _release,
}
"""By name, what prepares the work that is measured; the views come after these."""


def newest_round(warehouse: Warehouse) -> Origin:
    """The newest round of the run."""
    rows = read_table(warehouse, "trajectories", ["round", "run_id"])
    return Origin(round=pc.max(rows["round"]).as_py(), run_id=rows["run_id"][0].as_py(), code_version="0")


def _fill(warehouse: Warehouse, source: Warehouse, steps: int) -> None:
    """Commit the rounds of the run again and again, as later rounds, up to so many steps."""
    run_id = _commit_once(warehouse, source)
    numbers = sorted(set(read_table(source, "steps", ["round"])["round"].to_pylist()))
    done, copy = 0, 0
    while done < steps:
        for number in numbers:
            if done < steps:
                done += _copy_round(warehouse, source, run_id, number, copy, later=copy * (numbers[-1] + 1))
        copy += 1


def fill_one_round(warehouse: Warehouse, source: Warehouse, copies: int, without: Sequence[str] = ()) -> None:
    """Commit copies of all rounds as one, in shards of a thousand trajectories in the order of ids, as a stage does.

    Args:
        warehouse: where to write.
        source: has the rounds.
        copies: how often each of their rows is written.
        without: tables that stay empty.
    """
    run_id = _commit_once(warehouse, source)
    at = StageRun(run_id, max(read_table(source, "steps", ["round"])["round"].to_pylist()), "copied")
    ends: list[str] = []
    for table in (table for table in _REPEATED if table not in without):
        one = read_table(source, table)
        rows = pa.concat_tables(_renamed(one, copy, at.round) for copy in range(copies)).sort_by("trajectory_id")
        names = rows["trajectory_id"].to_pylist()
        # The shards of all tables have the same trajectories.
        ends = ends or sorted(set(names))[MOST_IN_RANGE::MOST_IN_RANGE]
        cuts = [0, *(bisect_left(names, end) for end in ends), len(names)]
        shards = [
            write_shard(warehouse, table, at, rows.slice(start, end - start), f"{number:05d}")
            for number, (start, end) in enumerate(pairwise(cuts))
        ]
        commit_stage(warehouse, at, {table: shards})


def _commit_once(warehouse: Warehouse, source: Warehouse) -> str:
    """Commit what all copies share; returns the id of the run."""
    [run_id] = read_table(source, "trajectories", ["run_id"])["run_id"].unique().to_pylist()
    for table in _ONCE:
        for place, path in enumerate(committed_files(source, table)):
            schema = file_schema(table).remove_metadata()
            rows = ds.dataset([str(path)], schema=schema, format="parquet").to_table()
            at = StageRun(run_id, 1, f"once-{place}")
            commit_stage(warehouse, at, {table: [write_shard(warehouse, table, at, rows)]})
    return str(run_id)


def _copy_round(warehouse: Warehouse, source: Warehouse, run_id: str, number: int, copy: int, later: int) -> int:
    """Commit one round as a later one; returns its steps."""
    steps = 0
    for table in _REPEATED:
        for place, path in enumerate(committed_files(source, table, rounds=[number])):
            schema = file_schema(table).remove_metadata()
            rows = ds.dataset([str(path)], schema=schema, format="parquet").to_table(filter=ds.field("round") == number)
            steps += rows.num_rows if table == "steps" else 0
            if rows.num_rows:
                at = StageRun(run_id, number + later, f"stage-{number}-{place}", copy)
                commit_stage(
                    warehouse, at, {table: [write_shard(warehouse, table, at, _renamed(rows, copy, number + later))]}
                )
    return steps


def _renamed(rows: pa.Table, copy: int, number: int) -> pa.Table:
    """The rows in another round, with ids whose digits are turned by some places."""
    rows = rows.set_column(
        rows.schema.get_field_index("round"), "round", pa.array([number] * rows.num_rows, pa.int64())
    )
    for name in set(_IDS).intersection(rows.column_names):
        head, tail = (pc.utf8_slice_codeunits(rows[name], *ends) for ends in ((0, copy), (copy, 99)))
        turned = pc.binary_join_element_wise(tail, head, "")
        rows = rows.set_column(rows.schema.get_field_index(name), name, turned)
    # Workers write their trajectories in the order of their ids.
    return rows.sort_by([("trajectory_id", "ascending")])


if __name__ == "__main__":
    main()
