"""Makes a warehouse of many steps: the rounds of a finished run again and again, as later rounds of the same run.

Their trajectories, examples and RL rows have ids of their own; queries, screens, hints and policies are those of the
run. The stages of all rounds have their markers, so that the run can go on with one more round.
"""

from __future__ import annotations

import json
import shutil
from bisect import bisect_left
from collections.abc import Collection
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from trajmill.flows.policies.policy import PROMOTE
from trajmill.flows.tasks.judge import JUDGE
from trajmill.flows.tasks.release import DERIVE, DERIVE_RL, RELEASE
from trajmill.pipelines.fan_out import MOST_IN_SHARD
from trajmill.schemas.record import Origin, content_id
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.delta_log import committed_files, committed_names
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.shards import DataFile, file_schema, write_shard
from trajmill.warehouse.staging import mark_done, stage_key

_ONCE = ("queries", "screens", "guidance", "models", "rounds")
_REPEATED = (
    *("trajectories", "steps", "step_verdicts", "trajectory_verdicts"),
    *("judgements", "examples", "rl_steps"),
)
_IDS = ("trajectory_id", "example_id", "rl_step_id")


def fill_rounds(warehouse: Warehouse, source: Warehouse, steps: int) -> None:
    """Commit the rounds of the run again and again, as later rounds, up to so many steps."""
    run_id = _commit_once(warehouse, source)
    numbers = sorted(set(read_table(source, "steps", ["round"])["round"].to_pylist()))
    done, copy, newest = 0, 0, 0
    while done < steps:
        # Round 0 measures the policy before the first round, once.
        for number in (number for number in numbers if number or not copy):
            if done < steps:
                newest = number + copy * numbers[-1]
                done += _copy_round(warehouse, source, run_id, number, copy, newest)
                _mark_stages(warehouse, source, run_id, number, newest)
        copy += 1
    # So that it can be made of the rows that lie here.
    _unmark(warehouse, run_id, newest, RELEASE)


def fill_one_round(warehouse: Warehouse, source: Warehouse, copies: int, without: Collection[str] = ()) -> None:
    """Commit copies of all rounds as one, in shards of a thousand trajectories in the order of ids, as a stage does.

    Its stages `judge`, `derive` and `derive_rl` can be done again.

    Args:
        warehouse: where to write.
        source: has the rounds.
        copies: how often each of their rows is written.
        without: tables that stay empty.
    """
    run_id = _commit_once(warehouse, source)
    numbers = sorted(set(read_table(source, "steps", ["round"])["round"].to_pylist()))
    at = StageRun(run_id, numbers[-1], "copied")
    for number in numbers:
        _mark_stages(warehouse, source, run_id, number, number)
    _unmark(warehouse, run_id, at.round, DERIVE, DERIVE_RL, JUDGE, PROMOTE)
    ends: list[str] = []
    for table in (table for table in _REPEATED if table not in without):
        one = read_table(source, table)
        rows = pa.concat_tables(_renamed(one, copy, at.round) for copy in range(copies)).sort_by("trajectory_id")
        names = rows["trajectory_id"].to_pylist()
        # The shards of all tables have the same trajectories.
        ends = ends or sorted(set(names))[MOST_IN_SHARD::MOST_IN_SHARD]
        cuts = [0, *(bisect_left(names, end) for end in ends), len(names)]
        shards = [
            write_shard(warehouse, table, at, rows.slice(start, end - start), f"{number:05d}")
            for number, (start, end) in enumerate(pairwise(cuts))
        ]
        commit_stage(warehouse, at, {table: shards})


def newest_round(warehouse: Warehouse) -> Origin:
    """The newest round of the run."""
    rows = read_table(warehouse, "trajectories", ["round", "run_id"])
    return Origin(round=pc.max(rows["round"]).as_py(), run_id=rows["run_id"][0].as_py(), code_version="0")


def _commit_once(warehouse: Warehouse, source: Warehouse) -> str:
    """Commit what all copies share; returns the id of the run."""
    [run_id] = read_table(source, "trajectories", ["run_id"])["run_id"].unique().to_pylist()
    for table in _ONCE:
        for place, path in enumerate(committed_files(source, table)):
            schema = file_schema(table).remove_metadata()
            rows = ds.dataset([str(path)], schema=schema, format="parquet").to_table()
            at = StageRun(run_id, 1, f"once-{place}")
            commit_stage(warehouse, at, {table: [write_shard(warehouse, table, at, rows)]})
    shutil.copytree(source.root / "models", warehouse.root / "models", dirs_exist_ok=True)
    return str(run_id)


def _copy_round(warehouse: Warehouse, source: Warehouse, run_id: str, number: int, copy: int, later: int) -> int:
    """Commit one round as a later one, in one version of each table; returns its steps."""
    steps, files, at = 0, dict[str, list[DataFile]](), StageRun(run_id, later, f"stages-{number}", copy)
    for table in _REPEATED:
        for place, name in enumerate(committed_names(source, table, rounds=[number])):
            path = source.root / name
            schema = file_schema(table).remove_metadata()
            rows = ds.dataset([str(path)], schema=schema, format="parquet").to_table(filter=ds.field("round") == number)
            steps += rows.num_rows if table == "steps" else 0
            if rows.num_rows:
                shard = write_shard(warehouse, table, at, _renamed(rows, copy, later), f"{place:05d}")
                files.setdefault(table, []).append(shard)
    commit_stage(warehouse, at, files)
    return steps


def _mark_stages(warehouse: Warehouse, source: Warehouse, run_id: str, number: int, later: int) -> None:
    """Write the markers of a round's stages as those of a later round."""
    for marker in source.staging(run_id).glob(f"r{number:04d}-*/done.json"):
        stage = marker.parent.name.partition("-")[2]
        folder = StageRun(run_id, later, stage).staging(warehouse)
        mark_done(warehouse, folder, stage_key(stage, run_id, later), json.loads(marker.read_text())["result"])


def _unmark(warehouse: Warehouse, run_id: str, number: int, *stages: str) -> None:
    """Remove the markers of stages that are to be done again."""
    for stage in stages:
        (StageRun(run_id, number, stage).staging(warehouse) / "done.json").unlink()


def _renamed(rows: pa.Table, copy: int, number: int) -> pa.Table:
    """The rows in another round; those of all copies but the first have ids of their own."""
    rows = rows.set_column(
        rows.schema.get_field_index("round"), "round", pa.array([number] * rows.num_rows, pa.int64())
    )
    for name in set(_IDS).intersection(rows.column_names) if copy else ():
        ids = rows[name].combine_chunks().dictionary_encode()
        fresh = pa.array([content_id(each, copy) for each in ids.dictionary.to_pylist()], pa.string())
        rows = rows.set_column(rows.schema.get_field_index(name), name, fresh.take(ids.indices))
    # Workers write their trajectories in the order of their ids.
    return rows.sort_by([("trajectory_id", "ascending")])
