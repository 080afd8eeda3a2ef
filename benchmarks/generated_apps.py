"""Success on drawn apps that training never used, by the number of generated apps that it used beside the drawn ones.

`python -m benchmarks.generated_apps FOLDER --counts 0 10 50 200 --seeds 0 1 2` runs what FOLDER/results.jsonl does not
hold yet, each point in a process of its own, and prints the table. All points have the same held-out queries, and
the same number of episodes in the drawn apps; generated ones have more beside, and the training as many more updates.
The seed also draws the generated apps.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import mean

from benchmarks.loop import SPLITS, Changes, Result, Variant, results, run_one

_MORE_UPDATES = 210
"""Most updates of a round with generated apps, for 130 without: 25 apps a round add about 60 % of the rows."""
_HELDOUT = {"heldout_slots": 120, "heldout_phrasings": 120, "heldout_apps": 120}


def variant_of(count: int, seed: int, rounds: int) -> Variant:
    """The default job with so many generated apps."""
    generated: Changes = {
        "environment": {"generated_apps": {"count": count, "seed": seed}},
        "train": {"max_updates": _MORE_UPDATES},
    }
    measured: Changes = {"run": {"rounds": rounds}, "queries": _HELDOUT, "evaluate": {"episodes": 120}}
    return Variant(f"generated_{count}", f"{count} generated apps", measured | (generated if count else {}))


def run_point(folder: Path, count: int, seed: int, rounds: int) -> None:
    """Run one point in this process, and add its result."""
    root = folder / f"{count}-{seed}"
    result = run_one(variant_of(count, seed, rounds), seed, root, 0)
    with (folder / "results.jsonl").open("a") as lines:
        lines.write(result.model_dump_json() + "\n")
    shutil.rmtree(root)


def print_table(found: list[Result]) -> None:
    """Print success after the last round, the mean over seeds, and for apps never seen each seed's."""
    print("| generated apps | seeds | " + " | ".join(SPLITS) + " | apps never seen, by seed | CPU s |")
    print("|---" * (len(SPLITS) + 4) + "|")
    for name in sorted({run.variant for run in found}, key=lambda name: int(name.rpartition("_")[2])):
        runs = sorted((run for run in found if run.variant == name), key=lambda run: run.seed)
        cells = [f"{100 * mean(run.rounds[-1].get(split, 0.0) for run in runs):.0f}" for split in SPLITS]
        unseen = " ".join(f"{100 * run.rounds[-1].get('heldout_apps', 0.0):.0f}" for run in runs)
        cost = f"{mean(run.cpu_seconds for run in runs):.0f}"
        count = name.rpartition("_")[2]
        print(f"| {count} | {len(runs)} | " + " | ".join(cells) + f" | {unseen} | {cost} |")


def main() -> None:
    """Run, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("benchmark-data/generated-apps"))
    parser.add_argument("--counts", type=int, nargs="+", default=[0, 10, 50, 200])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--table", action="store_true", help="print what is measured, run nothing")
    parser.add_argument("--run", type=int, nargs=2, metavar=("COUNT", "SEED"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.run:
        count, seed = arguments.run
        run_point(folder, count, seed, arguments.rounds)
        return
    done = {(run.variant, run.seed) for run in results(folder)}
    for count, seed in ((count, seed) for seed in arguments.seeds for count in arguments.counts):
        if not arguments.table and (f"generated_{count}", seed) not in done:
            command = [sys.executable, "-m", "benchmarks.generated_apps", str(folder), "--run", str(count), str(seed)]
            subprocess.run([*command, "--rounds", str(arguments.rounds)], check=True)
    print_table(results(folder))


if __name__ == "__main__":
    main()
