"""The recipes of the embedded policy side by side, laid out like figure 8 of the paper (5.2): success by round.

`python -m benchmarks.recipes FOLDER` runs what FOLDER/results.jsonl does not hold yet and prints the tables; `--seeds`,
`--rounds` and `--queries` make it shorter. All variants of a seed start with the same policy, as the figure's do: what
the default job has learned after its first round. They roll out groups of four without guidance, and differ in what
they learn from them:

- `trpo`: trajectory-level RL; a remembered success replaces an attempt of a group that failed whole (3.1.2).
- `trpo_mixed`: the same with dynamic sampling: groups of two, extended to eight where outcomes are mixed.
- `trpo_without_replay`: the same without remembered successes.
- `grpo_filtered`: groups that succeeded or failed whole are left out, and each step counts alike, however long its
  trajectory: the figure's offline filtering.
- `sft`: supervised training on what was judged correct, no RL.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Final

from benchmarks.loop import SPLITS, Changes, Result, Variant, config_of, results, run_one

_RL: Final = {"kind": "embedded-rl", "max_updates": 150, "epochs": 8.0, "learning_rate": 0.001}
_MIXED: Final = {"group_size": 2, "largest_group": 8}
_VARIANTS: Final = (
    Variant("trpo", "trajectory-level RL with replay", {"train": _RL, "rl": {"replay": True}}),
    Variant("trpo_mixed", "TRPO, dynamic sampling", {"train": _RL, "rl": {"replay": True}, "rollout": _MIXED}),
    Variant("trpo_without_replay", "without replay", {"train": _RL, "rl": {"replay": False}}),
    Variant("grpo_filtered", "offline filtering", {"train": _RL, "rl": {"replay": False, "step_weight": "constant"}}),
    Variant("sft", "supervised", {"train": {"kind": "embedded-sft"}}),
)


_START: Final = Variant("start", "the first round of the default job", {"run": {"rounds": 1}})


def _variant(name: str, rounds: int, queries: int, start: Path) -> Variant:
    """The variant with what is common to all; `start` is the folder of the policy that it starts with."""
    found = next(variant for variant in _VARIANTS if variant.name == name)
    common: Changes = {
        "endpoints": {"start": {"kind": "embedded", "model": start}},
        "models": {"policy": "start"},
        "run": {"rounds": rounds},
        "queries": {"train": queries, "heldout_slots": 120, "heldout_phrasings": 120, "heldout_apps": 120},
        "rollout": {"episodes_per_round": queries, "group_size": 4, "temperature": 1.5},
        "evaluate": {"episodes": 120, "train_sample": 120},
        "guidance": {"enabled": False},
    }
    rollout = common["rollout"] | found.changes.get("rollout", {})
    return found._replace(changes=common | found.changes | {"rollout": rollout})


def _learned_in_start(root: Path, seed: int) -> Path:
    """Folder of the policy after the first round of the default job; runs that if nobody has."""
    from trajmill.flows.policies.policy import policy_before
    from trajmill.flows.stage import RoundContext
    from trajmill.warehouse.layout import open_warehouse

    config = config_of(_START, seed, root, 0)
    if not root.exists():
        partial = root.with_name(f"{root.name}-partial")
        shutil.rmtree(partial, ignore_errors=True)
        run_one(_START, seed, partial, 0)
        partial.rename(root)
    context = RoundContext(config, open_warehouse(root), 2)
    learned = policy_before(context).paths(context.warehouse).folder
    assert learned is not None
    return learned


def _run_owed(folder: Path, seeds: Sequence[int], rounds: int, queries: int, names: Sequence[str]) -> None:
    done = {(result.variant, result.seed) for result in results(folder)}
    for seed in seeds:
        for variant in _VARIANTS:
            if (variant.name, seed) in done or variant.name not in names:
                continue
            sizes = [str(seed), str(rounds), str(queries)]
            command = [sys.executable, "-m", "benchmarks.recipes", str(folder), "--run", variant.name, *sizes]
            if subprocess.run(command, check=False).returncode == 0:
                shutil.rmtree(folder / f"{variant.name}-{seed}")


def _print_tables(found: Sequence[Result]) -> None:
    for split in SPLITS:
        rounds = max((len(result.rounds) for result in found), default=0)
        print(f"\n{split}: success of the policy in force after each round, %, mean ± sd over seeds\n")
        print("| variant | seeds | " + " | ".join(map(str, range(rounds))) + " | best |")
        print("|---" * (rounds + 3) + "|")
        for variant in _VARIANTS:
            runs = [result for result in found if result.variant == variant.name]
            if runs:
                curves = [[100 * after.get(split, 0.0) for after in run.rounds] for run in runs]
                cells = [
                    _spread([curve[number] for curve in curves if number < len(curve)]) for number in range(rounds)
                ]
                best = _spread([max(curve) for curve in curves])
                print(f"| {variant.what} | {len(runs)} | " + " | ".join([*cells, best]) + " |")


def _spread(values: Sequence[float]) -> str:
    return f"{mean(values):.0f} ± {stdev(values):.0f}" if len(values) > 1 else "".join(f"{each:.0f}" for each in values)


def main() -> None:
    """Run, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("benchmark-data/recipes"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--queries", type=int, default=600)
    parser.add_argument("--only", nargs="+", default=[variant.name for variant in _VARIANTS], metavar="NAME")
    parser.add_argument("--table", action="store_true", help="print what is measured, run nothing")
    parser.add_argument("--run", nargs=4, metavar=("NAME", "SEED", "ROUNDS", "QUERIES"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.run:
        name, seed, rounds, queries = arguments.run[0], *map(int, arguments.run[1:])
        start = _learned_in_start(folder / f"start-{seed}", seed)
        result = run_one(_variant(name, rounds, queries, start), seed, folder / f"{name}-{seed}", 0)
        with (folder / "results.jsonl").open("a") as lines:
            lines.write(json.dumps(result.model_dump()) + "\n")
        return
    if not arguments.table:
        _run_owed(folder, range(arguments.seeds), arguments.rounds, arguments.queries, arguments.only)
    _print_tables(results(folder))


if __name__ == "__main__":
    main()
