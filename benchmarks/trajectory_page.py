"""Seconds of one trajectory's page in a warehouse that holds a finished run many times over.

    trajmill evolve && python -m benchmarks.trajectory_page trajmill-data --copies 19

The copies have run and trajectory ids of their own, and a commit for each stage and round, as if as many runs had used
one root. Prints wall seconds of `trajmill show`, which finds nothing in memory (the median of ten, without starting
Python), of a trajectory in `trajmill view` (the first one, and the median of ten others), and of lists of 50 there.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from starlette.testclient import TestClient

from trajmill.flows.terminal.show import find_trajectory
from trajmill.flows.viewer.app import viewer_app
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import StageRun, Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.shards import file_schema, write_shard
from trajmill.warehouse.upkeep import compact

_TABLES = ("queries", "trajectories", "steps", "step_verdicts", "trajectory_verdicts", "judgements", "guidance")
_LISTS = ("trajectories", "trajectories?after=20000&app=mail", "trajectories?text=order", "facets", "facets?text=order")


def main() -> None:
    """Run and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("root", type=Path)
    options.add_argument("--copies", type=int, default=19)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        warehouse = create_warehouse(Path(folder) / "copies")
        for number in range(given.copies):
            _copy(open_warehouse(given.root), warehouse, number)
        steps = read_table(warehouse, "steps", ["index"]).num_rows
        _print(warehouse, f"{steps:,} steps in {len(committed_files(warehouse, 'steps')):,} files")
        compact(warehouse)
        _print(warehouse, f"after compact, {len(committed_files(warehouse, 'steps')):,} files")


def _print(warehouse: Warehouse, what: str) -> None:
    rows = read_table(warehouse, "trajectories", ["run_id", "trajectory_id"]).to_pylist()
    chosen = random.Random(0).sample(rows, 11)
    shown = statistics.median(_seconds(find_trajectory, warehouse, row["trajectory_id"]) for row in chosen[1:])
    client = TestClient(viewer_app(warehouse), base_url="http://localhost")
    pages = [_seconds(client.get, f"/api/trajectories/{row['run_id']}/{row['trajectory_id']}") for row in chosen]
    print(f"{what}: show {shown:.3f} s; view {pages[0]:.3f} s, then {statistics.median(pages[1:]):.3f} s")
    for query in _LISTS:
        first, *others = [_seconds(client.get, f"/api/{query}") for _ in range(6)]
        print(f"  {query}: {first:.3f} s, then {statistics.median(others):.3f} s")


def _seconds(work: Callable[..., object], *given: object) -> float:
    start = perf_counter()
    work(*given)
    return perf_counter() - start


def _copy(source: Warehouse, warehouse: Warehouse, number: int) -> None:
    """Commit the files of a run again, as files of another run."""
    for table in _TABLES:
        for place, path in enumerate(committed_files(source, table)):
            rows = ds.dataset([str(path)], schema=file_schema(table).remove_metadata(), format="parquet").to_table()
            at = StageRun(f"copy-{number}", rows["round"][0].as_py(), f"stage-{place}")
            commit_stage(warehouse, at, {table: [write_shard(warehouse, table, at, _renamed(rows, number))]})


def _renamed(rows: pa.Table, number: int) -> pa.Table:
    """The rows with another run id, and with trajectory ids whose digits are turned by some places."""
    turned = number % 24
    for name in {"run_id", "trajectory_id"}.intersection(rows.column_names):
        column = rows[name]
        if name == "run_id":
            values = pa.repeat(f"copy-{number}", rows.num_rows)
        else:
            head, tail = pc.utf8_slice_codeunits(column, 0, turned), pc.utf8_slice_codeunits(column, turned)
            values = pc.binary_join_element_wise(tail, head, "")
        rows = rows.set_column(rows.schema.get_field_index(name), name, values)
    if "trajectory_id" in rows.column_names:
        # Workers write their trajectories in the order of their ids.
        rows = rows.sort_by("trajectory_id")
    return rows


if __name__ == "__main__":
    main()
