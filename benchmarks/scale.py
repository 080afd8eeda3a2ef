"""Seconds and memory of what looks at a whole warehouse, at several sizes of it, each in a process of its own.

    trajmill evolve && python -m benchmarks.scale trajmill-data --steps 10000 100000 1000000

The rounds of a finished run of the default job are repeated (`benchmarks.repeated_run`) until there are so many steps.
Measured are the page of a trajectory (that of `trajmill show`, and the whole command), the figures of all rounds, each
ready-made view, and all stages of one more round (`benchmarks.next_round`). Seconds are those of the work, without
imports; the peak is that of the whole process. `--compact` joins small files first. `--one-round` makes one round of
all these rounds, and derives and judges it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from benchmarks.process_tree import peak_mib
from benchmarks.repeated_run import fill_one_round, fill_rounds, newest_round
from trajmill.flows.cli.app import give_memory_back
from trajmill.flows.terminal.show import find_trajectory
from trajmill.pipelines.reading.history import read_history
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.upkeep.compact import compact
from trajmill.warehouse.views import READY_MADE

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
    options.add_argument("--only", nargs="+", help="of what is listed")
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
                fill_rounds(warehouse, source, steps)
            if given.compact:
                compact(warehouse)
            rows, files = read_table(warehouse, "steps", ["index"]).num_rows, len(committed_files(warehouse, "steps"))
            print(f"{rows:,} steps in {files:,} files\n\n| what | s | CPU s | peak MiB |", flush=True)
            print("|---|---|---|---|")
            if given.one_round:
                for stage in given.only or ("derive", "derive_rl", "judge"):
                    _print_stages(warehouse, stage)
                continue
            for name in given.only or (*LOOKS, *(f"view {name}" for name in READY_MADE)):
                found = _measured(warehouse, name)
                line = f"| {name} | {found.seconds:.3f} | {found.cpu_seconds:.3f} | {found.peak_mib:,.0f} |"
                print(line, flush=True)
            if not given.only:
                _print_stages(warehouse)


def _print_stages(warehouse: Warehouse, *stages: str) -> None:
    subprocess.run([sys.executable, "-m", "benchmarks.next_round", str(warehouse.root), *stages], check=True)


def _measured(warehouse: Warehouse, name: str) -> Measured:
    command = [sys.executable, "-m", "benchmarks.scale", str(warehouse.root), "--one", name]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return Measured(*json.loads(said.splitlines()[-1]))


def _do(warehouse: Warehouse, name: str) -> None:
    """Prepare and do one work, and print what it took."""
    kind, _, view = name.partition(" ")
    work = partial(run_sql, warehouse, f"SELECT * FROM {view}") if kind == "view" else LOOKS[name](warehouse)
    start, cpu = perf_counter(), _cpu_seconds()
    work()
    seconds = perf_counter() - start
    print(json.dumps([seconds, _cpu_seconds() - cpu, peak_mib()]))


def _cpu_seconds() -> float:
    return sum(os.times()[:4])


def _page(warehouse: Warehouse) -> Work:
    return partial(find_trajectory, warehouse, _some_trajectory(warehouse))


def _show(warehouse: Warehouse) -> Work:
    command = ["trajmill", "show", _some_trajectory(warehouse), "--root", str(warehouse.root)]
    return partial(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)


def _some_trajectory(warehouse: Warehouse) -> str:
    rows = read_table(warehouse, "trajectories", ["trajectory_id"], rounds=[1])
    return str(rows["trajectory_id"][rows.num_rows // 2].as_py())


def _history(warehouse: Warehouse) -> Work:
    newest = newest_round(warehouse)
    return partial(read_history, warehouse, newest.run_id, newest.round + 1)


LOOKS: dict[str, Callable[[Warehouse], Work]] = {
    "page": _page,
    "trajmill show": _show,
    "figures of all rounds, read anew": _history,
    "figures of all rounds, kept": _history,
}
"""By name, what prepares the work that is measured in a warehouse of many rounds; the views come after these."""


if __name__ == "__main__":
    main()
