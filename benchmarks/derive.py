"""Examples per second, share kept and peak memory of each derived kind, on a run of the simulated world.

`python -m benchmarks.derive --policy trajmill-data/models/VERSION` makes a run of one round, in which that embedded
policy acts, and derives each kind from it in a process of its own: on one core, then with two workers from a copy.
Kinds that ask a model ask a loopback server that answers at once. `roles` and `coda` have rounds of their own, with an
agent that has roles. `--episodes` sets the size of the round, about six steps an episode; `--copies` adds copies of its
judged attempts under other ids, which show the same screens. What a screen, a step or a trajectory was refused for
counts as often as table `refusals` says. CPU seconds are those of all processes, the start included; they matter on a
machine that does other things too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tests.stages.models.fault_server import running_server
from trajmill.stages.derive.spec import DERIVE_KINDS
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, Warehouse, open_warehouse
from trajmill.warehouse.read import read_batches, read_table
from trajmill.warehouse.shards import write_shard

AGENTS = {"roles": "mobile_agent_v3", "coda": "coda"}
"""By kind, the agent whose attempts it is derived from, where that is not the end-to-end agent."""
_OTHERS = "end_to_end"
_COPIED = ("trajectories", "steps", "judgements", "step_verdicts", "model_calls")
_CONFIG = """\
[run]
rounds = 1
root = "{root}"
[queries]
train = {queries}
heldout_slots = 2
heldout_phrasings = 2
heldout_apps = 0
validation = 2
[rollout]
episodes_per_round = {episodes}
workers = {workers}
[guidance]
demonstrate = true
[evaluate]
episodes = 2
train_sample = 2
[agent]
kind = "{agent}"
[models]
policy = "acting"
[endpoints.acting]
kind = "embedded"
model = "{policy}"
"""
_MODEL = """\
[derive]
describer = "loopback"
[endpoints.loopback]
model = "tiny"
urls = ["{url}"]
"""
_ANSWERS: dict[str, object] = {
    "thought": "I press what stands in the middle of the screen.",
    "description": "Presses what is marked.",
    "effect": "Another page opened.",
    "consistent": True,
}
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
    """A thought or a description, or a press in the middle of the screen, which is right now and then."""
    if "response_format" in body:
        wanted = body["response_format"]["json_schema"]["schema"]["properties"]
        return json.dumps({key: _ANSWERS[key] for key in wanted})
    name = "mobile_use" if "mobile_use" in json.dumps(body["messages"][0]) else "computer_use"
    call = {"name": name, "arguments": {"action": "click", "coordinate": [360, 300]}}
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


def made_round(folder: Path, settings: Mapping[str, object], copies: int) -> Path:
    """Make and judge the attempts of a round in a new warehouse, and return its configuration."""
    config = folder / "trajmill.toml"
    config.write_text(_CONFIG.format_map(settings))
    for stage in ("generate", "rollout", "judge", "guide"):
        if os.spawnl(os.P_WAIT, sys.executable, sys.executable, "-c", _COMMAND, stage, "-c", str(config)):
            raise SystemExit(f"trajmill {stage} failed")
    add_copies(open_warehouse(folder / "root"), copies)
    return config


def measured(kind: str, config: Path) -> Measured:
    """Derive a kind in a process of its own."""
    start = perf_counter()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", _COMMAND, "derive", kind, "-c", str(config)],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, str(config.with_name(f"{kind}.log")), os.O_WRONLY | os.O_CREAT, 0o644)],
    )
    _, status, used = os.wait4(child, 0)
    seconds = perf_counter() - start
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"derive {kind} failed")
    warehouse = open_warehouse(config.parent / "root")
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
        # The ids of a file follow each other, as those of a rollout's shard do.
        ids = pc.binary_join_element_wise(f"copy{number:05}", batch["trajectory_id"], "-")
        yield batch.set_column(batch.schema.get_field_index("trajectory_id"), "trajectory_id", ids)


def print_table(kinds: Iterable[str], configs: Mapping[str, Path]) -> None:
    """Derive kinds, each from the warehouse of its agent, and print a line for each."""
    print("| kind | examples | share kept | s | CPU s | examples/CPU s | peak MiB |\n|---|---|---|---|---|---|---|")
    for kind in kinds:
        found = measured(kind, configs[AGENTS.get(kind, _OTHERS)])
        share = found.examples / max(1, found.examples + found.refused)
        speed = found.examples / found.cpu_seconds
        print(
            f"| `{kind}` | {found.examples:,} | {share:.0%} | {found.seconds:.1f} | {found.cpu_seconds:.1f} "
            f"| {speed:,.0f} | {found.peak_mib:,.0f} |",
            flush=True,
        )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", type=Path, required=True, help="folder of an embedded policy")
    parser.add_argument("--episodes", type=int, default=160)
    parser.add_argument("--copies", type=int, default=0)
    parser.add_argument("--workers", type=int, nargs="+", default=(1, 2))
    parser.add_argument("--kinds", nargs="+", default=DERIVE_KINDS.kinds(), choices=DERIVE_KINDS.kinds())
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, running_server() as server:
        server.writes = answer
        os.environ["PREFECT_HOME"] = str(Path(made) / "prefect")
        settings = {
            "policy": given.policy.resolve(),
            "episodes": given.episodes,
            "queries": given.episodes,
            "workers": 1,
        }
        first: dict[str, Path] = {}
        for agent in sorted({AGENTS.get(kind, _OTHERS) for kind in given.kinds}):
            folder = Path(made) / agent
            folder.mkdir()
            first[agent] = made_round(folder, settings | {"agent": agent, "root": folder / "root"}, given.copies)
            steps = read_table(open_warehouse(folder / "root"), "steps", ["index"]).num_rows
            print(f"{agent}: {steps:,} steps")
        for workers in given.workers:
            print(f"\nWorkers: {workers}\n")
            copies = {agent: Path(made) / f"{agent}-{workers}" for agent in first}
            for agent, folder in copies.items():
                shutil.copytree(first[agent].parent, folder)
                of_copy = settings | {"agent": agent, "root": folder / "root", "workers": workers}
                (folder / "trajmill.toml").write_text(_CONFIG.format_map(of_copy) + _MODEL.format(url=server.url))
            print_table(given.kinds, {agent: folder / "trajmill.toml" for agent, folder in copies.items()})
            for folder in copies.values():
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
