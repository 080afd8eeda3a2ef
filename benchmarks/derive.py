"""Examples per second, share kept and peak memory of each derived kind, on a run of the simulated world.

`python -m benchmarks.derive` makes a run of one round and derives each kind from it in a process of its own, the kinds
that ask a model with a loopback server that answers at once. `--episodes` sets the size of the round, about six steps
an episode; `--copies` adds copies of its judged attempts under other ids, which show the same screens. `--workers 2`
has Beam work in two processes. What a screen, a step or a trajectory was refused for counts as often as table
`refusals` says. CPU seconds are those of all processes, the start included; they matter on a machine that does other
things too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tests.stages.models.fault_server import running_server
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, Warehouse, open_warehouse
from trajmill.warehouse.read import read_batches, read_table
from trajmill.warehouse.shards import write_shard

KINDS = ("step", "grounding", "action_semantics", "reasoning", "planning", "ces", "rft")
_COPIED = ("trajectories", "steps", "judgements", "step_verdicts")
_CONFIG = """\
[run]
rounds = 1
[queries]
train = {queries}
heldout_slots = 2
heldout_phrasings = 2
heldout_apps = 0
validation = 2
[rollout]
episodes_per_round = {episodes}
[guidance]
demonstrate = true
[evaluate]
episodes = 2
train_sample = 2
[beam]
options = {options}
"""
_MODEL = """\
[derive]
describer = "loopback"
[endpoints.loopback]
model = "tiny"
urls = ["{url}"]
"""
_COMMAND = "from trajmill.flows.cli.app import main; main()"


class Measured(NamedTuple):
    """What deriving one kind took."""

    kind: str
    examples: int
    refused: int
    seconds: float
    cpu_seconds: float
    peak_mib: float
    """Of the largest process."""


def answer(body: dict[str, Any]) -> str:
    """A thought, or a press in the middle of the screen, which is right now and then."""
    if "response_format" in body:
        return json.dumps({"thought": "I press what stands in the middle of the screen."})
    name = "mobile_use" if "mobile_use" in json.dumps(body["messages"][0]) else "computer_use"
    call = {"name": name, "arguments": {"action": "click", "coordinate": [360, 300]}}
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


def measured(kind: str, folder: Path, config: Path) -> Measured:
    """Derive a kind in a process of its own."""
    start = perf_counter()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", _COMMAND, "derive", kind, "-c", str(config)],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, str(folder / f"{kind}.log"), os.O_WRONLY | os.O_CREAT, 0o644)],
    )
    _, status, used = os.wait4(child, 0)
    seconds = perf_counter() - start
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"derive {kind} failed")
    warehouse = open_warehouse(folder / "root")
    kinds = read_table(warehouse, "examples", ["kind"])["kind"].to_pylist()
    refusals = read_table(warehouse, "refusals", ["kind", "count"]).to_pylist()
    refused = sum(row["count"] for row in refusals if row["kind"] == kind)
    cpu = used.ru_utime + used.ru_stime
    return Measured(kind, kinds.count(kind), refused, seconds, cpu, used.ru_maxrss / 1024)


def add_copies(warehouse: Warehouse, copies: int) -> None:
    """Commit copies of all attempts with their verdicts, each copy in files of its own, in constant memory."""
    run_id = read_table(warehouse, "trajectories", ["run_id"])["run_id"][0].as_py()
    at = StageRun(run_id=run_id, round=1, stage="copies", attempt=0)
    files = {
        table: [
            write_shard(warehouse, table, at, _copy(warehouse, table, number), f"c{number}") for number in range(copies)
        ]
        for table in _COPIED
    }
    commit_stage(warehouse, at, files)


def _copy(warehouse: Warehouse, table: str, number: int) -> Iterator[pa.RecordBatch]:
    for batch in read_batches(warehouse, table, rounds=[1]):
        ids = pc.binary_join_element_wise(batch["trajectory_id"], f"copy{number}", "-")
        yield batch.set_column(batch.schema.get_field_index("trajectory_id"), "trajectory_id", ids)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=160)
    parser.add_argument("--copies", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, running_server() as server:
        server.writes = answer
        folder = Path(made)
        os.environ["PREFECT_HOME"] = str(folder / "prefect")
        config = folder / "trajmill.toml"
        parallel = [f"--direct_num_workers={arguments.workers}", "--direct_running_mode=multi_processing"]
        options = json.dumps(parallel if arguments.workers > 1 else [])
        settings = _CONFIG.format(episodes=arguments.episodes, queries=arguments.episodes, options=options)
        settings += _MODEL.format(url=server.url)
        config.write_text(settings.replace("[run]\n", f'[run]\nroot = "{folder / "root"}"\n'))
        os.chdir(folder)
        for stage in ("generate", "rollout", "judge", "guide"):
            if os.spawnl(os.P_WAIT, sys.executable, sys.executable, "-c", _COMMAND, stage, "-c", str(config)):
                raise SystemExit(f"trajmill {stage} failed")
        add_copies(open_warehouse(folder / "root"), arguments.copies)
        steps = read_table(open_warehouse(folder / "root"), "steps", ["index"]).num_rows
        print(f"{steps:,} steps\n\n| kind | examples | share kept | s | CPU s | examples/CPU s | peak MiB |")
        print("|---|---|---|---|---|---|---|")
        for kind in arguments.kinds:
            found = measured(kind, folder, config)
            share = found.examples / max(1, found.examples + found.refused)
            speed = found.examples / found.cpu_seconds
            print(
                f"| `{kind}` | {found.examples:,} | {share:.0%} | {found.seconds:.1f} | {found.cpu_seconds:.1f} "
                f"| {speed:,.0f} | {found.peak_mib:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
