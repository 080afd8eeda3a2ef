"""Examples per second, share kept and peak memory of each derived kind, on a run of the simulated world.

`python -m benchmarks.derive` makes a run of one round and derives each kind from it in a process of its own, the kinds
that ask a model with a loopback server that answers at once. `--episodes` sets the size of the round, about six steps
an episode. What a screen, a step or a trajectory was refused for counts as often as table `refusals` says.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from tests.stages.models.fault_server import running_server
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_table

KINDS = ("step", "grounding", "action_semantics", "reasoning")
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
    peak_mib: float


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
    return Measured(kind, kinds.count(kind), refused, seconds, used.ru_maxrss / 1024)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=160)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, running_server() as server:
        server.writes = answer
        folder = Path(made)
        os.environ["PREFECT_HOME"] = str(folder / "prefect")
        config = folder / "trajmill.toml"
        settings = _CONFIG.format(episodes=arguments.episodes, queries=arguments.episodes)
        settings += _MODEL.format(url=server.url)
        config.write_text(settings.replace("[run]\n", f'[run]\nroot = "{folder / "root"}"\n'))
        os.chdir(folder)
        for stage in ("generate", "rollout", "judge", "guide"):
            if os.spawnl(os.P_WAIT, sys.executable, sys.executable, "-c", _COMMAND, stage, "-c", str(config)):
                raise SystemExit(f"trajmill {stage} failed")
        steps = read_table(open_warehouse(folder / "root"), "steps", ["index"]).num_rows
        print(f"{steps:,} steps\n\n| kind | examples | share kept | examples/s | peak MiB |\n|---|---|---|---|---|")
        for kind in arguments.kinds:
            found = measured(kind, folder, config)
            share = found.examples / max(1, found.examples + found.refused)
            speed = found.examples / found.seconds
            print(f"| `{kind}` | {found.examples:,} | {share:.0%} | {speed:,.0f} | {found.peak_mib:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
