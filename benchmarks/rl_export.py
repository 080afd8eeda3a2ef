"""Rows per second and memory of `trajmill export` for RL, from one large round.

    trajmill evolve && python -m benchmarks.rl_export trajmill-data --copies 1 2

The rounds of a finished run are repeated as one round, whose attempts all give RL rows, those of groups without spread
included; its release has few supervised rows beside them. Each export is a process of its own: seconds are those of
the work, without imports, and the peak is that of the whole process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from benchmarks.process_tree import peak_mib
from benchmarks.repeated_run import fill_one_round, newest_round
from trajmill.flows.cli.app import give_memory_back
from trajmill.pipelines.derive import DeriveRLSteps, RLRound, plan_round
from trajmill.pipelines.export import ExportRequest, export_release_to
from trajmill.pipelines.fan_out import BeamSettings, WrittenFiles, divide, fan_out
from trajmill.pipelines.release import ReleaseRequest, make_release
from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.derive.spec import RLSpec
from trajmill.stages.export.exporter import exporter_spec
from trajmill.stages.export.formats.base import format_spec
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.read import read_rows, read_table
from trajmill.warehouse.releases import newest_release


def main() -> None:
    """Run and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("root", type=Path)
    options.add_argument("--copies", type=int, nargs="+", default=[1], help="of all rounds of the run, as one round")
    options.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        _do(open_warehouse(given.root))
        return
    give_memory_back()
    print(
        "| RL rows | supervised rows | s | CPU s | RL rows/CPU s | peak MiB, before the work | MB written |", flush=True
    )
    print("|---|---|---|---|---|---|---|")
    for copies in given.copies:
        with tempfile.TemporaryDirectory() as folder:
            warehouse = create_warehouse(Path(folder) / "root")
            _fill(warehouse, open_warehouse(given.root), copies)
            command = [sys.executable, "-m", "benchmarks.rl_export", str(warehouse.root), "--one"]
            said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        rl_rows, rows, seconds, cpu, before, peak, megabytes = json.loads(said.splitlines()[-1])
        print(
            f"| {rl_rows:,} | {rows:,} | {seconds:.1f} | {cpu:.1f} | {rl_rows / cpu:,.0f} | {peak:,.0f}, {before:,.0f} "
            f"| {megabytes:,.0f} |",
            flush=True,
        )


def _fill(warehouse: Warehouse, source: Warehouse, copies: int) -> None:
    """Commit one round with its RL rows, and make its release."""
    fill_one_round(warehouse, source, copies, without=("rl_steps",))
    origin = newest_round(warehouse)
    at = StageRun(origin.run_id, origin.round, "measured")
    commit_stage(warehouse, at, _derive_rl(warehouse).files)
    _release(warehouse, origin)


def _derive_rl(warehouse: Warehouse) -> WrittenFiles:
    """Derive the RL rows of the newest round, those of groups without spread included."""
    origin = newest_round(warehouse)
    at = StageRun(origin.run_id, origin.round, "measured")
    columns = ["trajectory_id", "purpose"]
    rows = read_table(warehouse, "trajectories", columns, rounds=[origin.round]).to_pydict()
    ids = [name for name, purpose in zip(*rows.values(), strict=True) if purpose == Purpose.TRAIN]
    spec = RLSpec(keep_without_spread=True)
    compared = RLRound(origin.run_id, origin.round, ids, (origin.round,), {}, {}, frozenset(), frozenset())
    job = DeriveRLSteps(warehouse, at, origin, spec.step_weight)
    planned = plan_round(warehouse, compared, spec, seed=0).trajectories
    return fan_out(job, divide(planned, 1, near=lambda one: (one.round, one.trajectory_id)), BeamSettings())


def _release(warehouse: Warehouse, origin: Origin) -> None:
    """Make the release of a round."""
    request = ReleaseRequest(
        name="measured",
        origin=origin,
        policy="measured",
        judge="measured",
        averages=None,
        keep_per_query=3,
        keep_per_reply=None,
        formats=(exporter_spec("trl"),),
        previous=None,
        created_at="",
        heldout_apps=(),
        left_out={},
    )
    staging = warehouse.staging(origin.run_id) / request.name
    staging.mkdir(parents=True)
    make_release(warehouse, request, read_rows(warehouse, Query), staging)


def _do(warehouse: Warehouse) -> None:
    """Export the newest release, and print what it took."""
    form, family = format_spec("grpo"), family_named("qwen3-vl")
    with tempfile.TemporaryDirectory(dir=warehouse.root) as folder:
        request = ExportRequest(newest_release(warehouse), form, family, Path(folder) / "out")
        before, start, cpu = peak_mib(), perf_counter(), sum(os.times()[:4])
        exported = export_release_to(warehouse, request)
        seconds, spent = perf_counter() - start, sum(os.times()[:4]) - cpu
        megabytes = sum(path.stat().st_size for path in request.folder.rglob("*.parquet")) / 1e6
    rows = (exported.rl_written.rows, exported.written.rows)
    print(json.dumps([*rows, seconds, spent, before, peak_mib(), megabytes]))


if __name__ == "__main__":
    main()
