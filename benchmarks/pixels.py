"""A tiny vision-language model learns to operate a phone from its screenshots: docs/examples/pixels.toml and controls.

`python -m benchmarks.pixels FOLDER` runs the example and prints its success after each round. `--blind` runs the
control whose pictures are always zero, `--seed N` another seed, `--python FILE` trains with a Python that has the extra
`train`. A run that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.file import load_config
from trajmill.flows.configuration.untrained_policy import make_untrained_policy
from trajmill.flows.evolve import evolve
from trajmill.schemas.tables.policy_version import SplitSuccess
from trajmill.schemas.tables.round_summary import RoundSummary
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows

EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "pixels.toml"


def config_of(example: Path, folder: Path, seed: int, blind: bool, python: str) -> Config:
    """The example's configuration in a folder of its own."""
    config = load_config(example)
    name = f"{config.run.name}-{'blind' if blind else 'sees'}-{seed}"
    root = folder / name
    policy = config.endpoints[config.models.policy].model_copy(update={"model": root / "untrained"})
    return config.model_copy(
        update={
            "run": config.run.model_copy(update={"root": root / "data", "name": name, "seed": seed}),
            "endpoints": {config.models.policy: policy},
            "train": config.train.model_copy(update={"python": python}),
        }
    )


def table(config: Config) -> str:
    """Success before and after each round, and the seconds of its stages."""
    rounds = read_rows(open_warehouse(config.run.root), RoundSummary, run_id=config.run_id)
    lines: list[str] = []
    for summary in sorted(rounds, key=lambda row: row.round):
        if not lines:
            splits = [split.split for split in summary.success_before]
            lines += [f"| round | {' | '.join(splits)} | seconds (training) |", "|---" * (len(splits) + 2) + "|"]
            lines.append(f"| 0 | {_success(summary.success_before)} | |")
        seconds = {stage.stage: stage.seconds for stage in summary.stages}
        spent = f"{sum(seconds.values()):.0f} ({seconds.get('train', 0.0):.0f})"
        lines.append(f"| {summary.round} | {_success(summary.success_after)} | {spent} |")
    return "\n".join(lines)


def _success(success: tuple[SplitSuccess, ...]) -> str:
    return " | ".join(f"{split.successes} of {split.queries}" for split in success)


def main() -> None:
    """Run the example, or its control, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--example", type=Path, default=EXAMPLE)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--blind", action="store_true")
    parser.add_argument("--python", default="")
    asked = parser.parse_args()
    config = config_of(asked.example, asked.folder, asked.seed, asked.blind, asked.python)
    begun, load = time.perf_counter(), os.getloadavg()[1]
    made = make_untrained_policy(config, asked.blind)
    evolve(config)
    print(f"\n{made.version}: {time.perf_counter() - begun:.0f} s, load {load:.1f} to {os.getloadavg()[1]:.1f}\n")
    print(table(config))


if __name__ == "__main__":
    main()
