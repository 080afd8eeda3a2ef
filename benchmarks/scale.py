"""Seconds and memory of what looks at a whole warehouse, and of all stages of one more round, at several sizes of it.

    trajmill evolve && python -m benchmarks.scale trajmill-data --steps 10000 100000 1000000

The rounds of a finished run of the default job are repeated (`benchmarks.repeated_run`) until there are so many steps.
Measured are the page of a trajectory (that of `trajmill show`, and the whole command), the figures of all rounds, each
ready-made view, all in one process, and all stages of one more round (`benchmarks.next_round`) in another. Seconds are
those of the work, without imports; CPU seconds are of all processes; the peak is that of the whole process while it
works. `--compact` joins small files first. `--one-round` makes one round of all these rounds, and derives and judges
it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from functools import partial
from math import ceil
from pathlib import Path

from benchmarks.process_tree import print_measured
from benchmarks.repeated_run import fill_one_round, fill_rounds, newest_round
from trajmill.flows.cli.app import give_memory_back
from trajmill.flows.configuration.config import Config, RunSection
from trajmill.flows.new_run import begun_runs
from trajmill.flows.terminal.show import find_trajectory
from trajmill.pipelines.reading.episodes import read_history
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.upkeep import compact
from trajmill.warehouse.views import ready_made

_AN_ID = """
import sys

from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_table

ids = read_table(open_warehouse(sys.argv[1]), "trajectories", ["trajectory_id"], rounds=[1])["trajectory_id"]
print(ids[len(ids) // 2])
"""


def main() -> None:
    """Run and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("root", type=Path)
    options.add_argument("--steps", type=int, nargs="+", default=[10_000, 100_000])
    options.add_argument("--compact", action="store_true")
    options.add_argument("--one-round", action="store_true")
    options.add_argument("--looks", action="store_true", help="only look at the given warehouse as it is")
    given = options.parse_args()
    if given.looks:
        _look(open_warehouse(given.root))
        return
    give_memory_back()
    run_id = Config(run=RunSection(root=given.root)).run_id
    if run_id not in begun_runs(open_warehouse(given.root)):
        options.error(f"{given.root} has no run {run_id}: a next round needs one of this version's default job")
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
                for stage in ("derive", "derive_rl", "judge"):
                    _run("benchmarks.next_round", str(warehouse.root), stage)
            else:
                _run("benchmarks.scale", str(warehouse.root), "--looks")
                _run("benchmarks.next_round", str(warehouse.root))


def _run(*module: str) -> None:
    subprocess.run([sys.executable, "-m", *module], check=True)


def _look(warehouse: Warehouse) -> None:
    """Print a line for everything that a reader does; the page comes first, in a process that has read no table."""
    command = [sys.executable, "-c", _AN_ID, str(warehouse.root)]
    trajectory_id = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    print_measured("page of a trajectory", partial(find_trajectory, warehouse, trajectory_id))
    program = Path(sys.executable).with_name("trajmill")
    show = [program, "show", trajectory_id, "--root", str(warehouse.root)]
    print_measured("`trajmill show`", partial(subprocess.run, show, check=True, stdout=subprocess.DEVNULL))
    newest = newest_round(warehouse)
    for how in ("read anew", "kept"):
        name = f"figures of all rounds, {how}"
        print_measured(name, partial(read_history, warehouse, newest.run_id, newest.round + 1))
    for view in ready_made():
        print_measured(f"view `{view}`", partial(run_sql, warehouse, f"SELECT * FROM {view}"))


if __name__ == "__main__":
    main()
