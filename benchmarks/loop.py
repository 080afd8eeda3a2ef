"""The whole loop against its controls and ablations, three seeds each, through the real stages and a real warehouse.

`python -m benchmarks.loop FOLDER` runs what FOLDER/results.jsonl does not hold yet, two runs at a time, and prints the
tables; `--only NAME ...` limits it to some variants, `--table` only prints. Each run is a process of its own, so that
its CPU time and memory are its own. Screens get empty pictures; what drawing costs shows in `make run`.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple
from unittest import mock

from PIL import Image

from benchmarks.known_rates import Noise
from trajmill.flows.configuration.config import Config
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import Record
from trajmill.schemas.tables.policy_version import RoundSummary
from trajmill.stages.critics.app_graph.channels import GraphChannel
from trajmill.stages.critics.voting import StepResult, Vote, VotingCase
from trajmill.stages.curate.episodes import CuratedEpisode, curated_episode
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.environments.kinds import DevicesSpec
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec

SEEDS = (0, 1, 2)
AT_ONCE = 2
SPLITS = ("train", "heldout_slots", "heldout_phrasings", "heldout_apps")


Changes = dict[str, dict[str, Any]]


class Variant(NamedTuple):
    """One way to run the loop."""

    name: str
    what: str
    changes: Changes
    control_of: str = ""
    """The variant whose number of updates a frozen explorer gets at its end."""
    no_filter: bool = False
    """Whether it learns from every finished attempt, whatever the judge says."""
    noisy: bool = False
    """Whether each channel of the judge errs: it accepts 15 % of what is wrong and refuses 10 % of what is right."""


_HELDOUT = {"heldout_slots": 120, "heldout_phrasings": 120, "heldout_apps": 120}
_EVALUATE = {"episodes": 120, "train_sample": 120}
_UNGUIDED: Changes = {
    "run": {"rounds": 12},
    "queries": {"train": 600} | _HELDOUT,
    "rollout": {"episodes_per_round": 1000, "temperature": 1.5},
    "evaluate": _EVALUATE,
    "guidance": {"enabled": False},
}
_COOL: Changes = _UNGUIDED | {"rollout": {"episodes_per_round": 1000}}
_SMALL: Changes = {
    "run": {"rounds": 4},
    "queries": {"train": 400} | _HELDOUT,
    "rollout": {"episodes_per_round": 400},
    "evaluate": _EVALUATE,
}
_ALONE: Changes = {
    "run": {"rounds": 4},
    "queries": {"train": 300, "heldout_slots": 150, "heldout_phrasings": 0, "heldout_apps": 0, "validation": 40},
    "rollout": {"episodes_per_round": 300},
    "evaluate": {"episodes": 150, "train_sample": 0},
    "guidance": {"enabled": False},
}
_BRANCHES = {"episodes_per_round": 300, "branches": 4}
_ANY_JUDGE = {"precision_floor": 0.0}
_PLAIN: Changes = {
    "environment": {"devices": DevicesSpec(layouts=False)},
    "queries": {"infeasible": 0.0, "answers": 0.0},
}

VARIANTS = (
    Variant("loop", "the default job", {}),
    Variant("plain", "one layout, no impossible queries, no questions", _PLAIN),
    Variant("frozen", "control: same rollouts, guidance, judge and updates; trained once, at the end", {}, "loop"),
    Variant("unguided", "no guidance of any kind, 12 rounds of 1,000 episodes at temperature 1.5", _UNGUIDED),
    Variant("unguided_frozen", "its control", _UNGUIDED, "unguided"),
    Variant("unguided_frozen_cool", "its control at temperature 1, where the explorer is better", _COOL, "unguided"),
    Variant("small", "4 rounds of 400 episodes, 400 queries: the base of the ablations", _SMALL),
    Variant("no_filter", "no critic filter: learns from every attempt", _SMALL, no_filter=True),
    Variant("one_noisy", "one noisy channel", _SMALL | {"judge": _ANY_JUDGE | {"channels": ("text",)}}, noisy=True),
    Variant("two_noisy", "consensus of two noisy channels", _SMALL | {"judge": _ANY_JUDGE}, noisy=True),
    Variant("no_guidance", "no guidance", _SMALL | {"guidance": {"enabled": False}}),
    Variant("rejection", "rejection sampling without guidance, 4 rounds of 300 episodes", _ALONE),
    Variant("forks", "the same, and fork points", _ALONE | {"train": {"forks": True}}),
    Variant("branches", "30 % of the episodes are branches, 4 from a screen", _ALONE | {"rollout": _BRANCHES}),
    Variant("forks_and_branches", "both", _ALONE | {"rollout": _BRANCHES, "train": {"forks": True}}),
    Variant("no_step_critic", "no step critic", _SMALL | {"judge": {"filter_steps": False}}),
    Variant("no_reweighting", "no re-weighting of tasks", _SMALL | {"train": {"reweight": False}}),
)


class All(dict[str, bool]):
    """Holds every attempt to be correct."""

    def get(self, key: str, default: object = None) -> bool:
        return True


class Result(Record):
    """What one run gave."""

    variant: str
    seed: int
    rounds: tuple[dict[str, float], ...]
    """Success of the policy in force after each round, by split, the untrained policy first."""
    reference_paths: int
    updates: int
    cpu_seconds: float
    wall_seconds: float
    memory_mib: float
    """Largest resident size of the main process."""
    disk_mib: float


def config_of(variant: Variant, seed: int, root: Path, updates: int) -> Config:
    """The configuration of one run."""
    sections = {name: dict(values) for name, values in variant.changes.items()}
    sections.setdefault("run", {}).update(root=root, seed=seed, name=variant.name.replace("_", "-"))
    return Config.model_validate(sections)


def run_one(variant: Variant, seed: int, root: Path, updates: int) -> Result:
    """Run all rounds in this process and measure."""
    from trajmill.flows.cli.app import collect_garbage_rarely
    from trajmill.flows.policies.policy import BASELINE, PROMOTE, PolicyInForce
    from trajmill.flows.round import STAGES, do_stage, summary_of
    from trajmill.flows.stage import RoundContext, finished
    from trajmill.flows.tasks.release import DERIVE
    from trajmill.flows.tasks.train import TRAIN, leave_untrained

    collect_garbage_rarely()
    draw_nothing()
    if updates:
        mock.patch.object(EmbeddedSftSpec, "updates", lambda recipe, rows: updates).start()
    if variant.no_filter:
        accept_all()
    if variant.noisy:
        err_at_random(Noise(0.15, 0.10, seed))
    start = time.perf_counter()
    config = config_of(variant, seed, root, updates)
    contexts = [RoundContext.of(config, number) for number in range(config.run.rounds + 1)]
    for context in contexts[1:]:
        for stage in STAGES:
            if variant.control_of and stage.name == TRAIN and context.round < config.run.rounds:
                leave_untrained(context, "a frozen explorer is trained once, at the end")
                continue
            accepts_all = variant.no_filter and stage.name == DERIVE
            with (
                mock.patch.object(RoundContext, "correctness", lambda self, rounds: All())
                if accepts_all
                else nullcontext()
            ):
                do_stage(stage, context)
        print(f"{variant.name} {seed} round {context.round} {_success(summary_of(context))}", flush=True)
    first = PolicyInForce.of(finished(contexts[0], BASELINE)).success
    summaries = [summary_of(context) for context in contexts[1:]]
    own = resource.getrusage(resource.RUSAGE_SELF)
    return Result(
        variant=variant.name,
        seed=seed,
        rounds=(
            {each.split: each.successes / each.queries for each in first},
            *map(_success, summaries),
        ),
        reference_paths=summaries[-1].reference_paths_used,
        updates=PolicyInForce.of(finished(contexts[-1], PROMOTE)).updates,
        cpu_seconds=own.ru_utime + own.ru_stime,
        wall_seconds=time.perf_counter() - start,
        memory_mib=own.ru_maxrss / 1024,
        disk_mib=sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) / 2**20,
    )


def draw_nothing() -> None:
    """Give all screens of a size one empty picture: neither the embedded policy nor the judge looks at pixels."""
    from trajmill.stages.environments.kinds import SimulatedSpec
    from trajmill.stages.environments.simulated.layout import view

    @cache
    def blank(size: Size) -> bytes:
        picture = io.BytesIO()
        Image.new("P", size).save(picture, "PNG")
        return picture.getvalue()

    mock.patch.object(view, "draw", lambda scene: blank(scene.size)).start()
    mock.patch.object(SimulatedSpec, "draws_screens", False).start()


def accept_all() -> None:
    """Take every judged attempt for a correct one where examples are derived."""

    def accepted(episode: Episode, spec: CurateSpec, screens: ScreenReader) -> CuratedEpisode:
        judgement = episode.judgement and episode.judgement.model_copy(update={"correct": True})
        return curated_episode(episode.model_copy(update={"judgement": judgement}), spec, screens)

    mock.patch("trajmill.pipelines.derive.curated_episode", accepted).start()


def err_at_random(noise: Noise) -> None:
    """Let both channels of the judge that asks no model err, independently of each other."""
    judge = GraphChannel.judge

    async def errs(
        self: GraphChannel, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0
    ) -> Vote:
        return noise.on(await judge(self, episode, screens, steps, draw), VotingCase(episode, screens, steps), draw)

    mock.patch.object(GraphChannel, "judge", errs).start()


def _success(summary: RoundSummary) -> dict[str, float]:
    return {split.split: round(split.successes / split.queries, 4) for split in summary.success_after if split.queries}


def run_all(folder: Path, names: Iterable[str]) -> None:
    """Run what is not measured yet; a control waits for the run that it is the control of."""
    chosen = [variant for variant in VARIANTS if variant.name in set(names)]
    for wave in ([v for v in chosen if not v.control_of], [v for v in chosen if v.control_of]):
        done = {(result.variant, result.seed) for result in results(folder)}
        owed = [(variant, seed) for seed in SEEDS for variant in wave if (variant.name, seed) not in done]
        with ThreadPoolExecutor(AT_ONCE) as executor:
            list(executor.map(lambda pair: _in_process(folder, *pair), owed))


def _in_process(folder: Path, variant: Variant, seed: int) -> None:
    root = folder / f"{variant.name}-{seed}"
    updates = next((r.updates for r in results(folder) if (r.variant, r.seed) == (variant.control_of, seed)), 0)
    command = [sys.executable, "-m", "benchmarks.loop", str(folder), "--run", variant.name, str(seed), str(updates)]
    if subprocess.run(command, check=False).returncode == 0:
        shutil.rmtree(root)


def results(folder: Path) -> list[Result]:
    """What has been measured so far."""
    path = folder / "results.jsonl"
    return [Result.model_validate_json(line) for line in path.read_text().splitlines()] if path.exists() else []


def print_tables(found: list[Result]) -> None:
    """Final success per variant, paired differences, the curve of the loop, and what a run costs."""
    by_variant = {variant.name: [r for r in found if r.variant == variant.name] for variant in VARIANTS}
    measured = [variant for variant in VARIANTS if by_variant[variant.name]]
    print("\nsuccess after the last round, %, mean ± sd over seeds\n")
    print("| variant | seeds | " + " | ".join(SPLITS) + " | updates | reference paths | what |")
    print("|---" * (len(SPLITS) + 5) + "|")
    for variant in measured:
        runs = by_variant[variant.name]
        cells = [_spread([100 * run.rounds[-1].get(split, 0.0) for run in runs]) for split in SPLITS]
        rest = [_spread([run.updates for run in runs]), _spread([run.reference_paths for run in runs]), variant.what]
        print(f"| {variant.name} | {len(runs)} | " + " | ".join([*cells, *rest]) + " |")
    _print_differences(by_variant)
    for name in ("loop", "unguided"):
        if by_variant[name]:
            _print_curve(name, by_variant[name])
    print("\nwhat a run costs\n")
    print("| variant | CPU s | wall s | MiB memory | MiB disk |\n|---|---|---|---|---|")
    figures: tuple[Callable[[Result], float], ...] = (
        lambda run: run.cpu_seconds,
        lambda run: run.wall_seconds,
        lambda run: run.memory_mib,
        lambda run: run.disk_mib,
    )
    for variant in measured:
        costs = [_spread([figure(run) for run in by_variant[variant.name]]) for figure in figures]
        print(f"| {variant.name} | " + " | ".join(costs) + " |")


def _print_differences(by_variant: dict[str, list[Result]]) -> None:
    print(
        "\npaired differences, points, per seed\n\n| pair | "
        + " | ".join(SPLITS)
        + " |\n|---"
        + "|---" * len(SPLITS)
        + "|"
    )
    pairs = [("loop", "frozen"), ("unguided", "unguided_frozen"), ("unguided", "unguided_frozen_cool")]
    pairs += [("two_noisy", "one_noisy"), ("two_noisy", "small")]
    pairs += [(variant.name, "small") for variant in VARIANTS if variant.name.startswith("no_")]
    for one, other in pairs:
        others = {run.seed: run for run in by_variant[other]}
        both = [(run, others[run.seed]) for run in by_variant[one] if run.seed in others]
        if both:
            cells = [
                " ".join(f"{100 * (a.rounds[-1].get(split, 0) - b.rounds[-1].get(split, 0)):+.0f}" for a, b in both)
                for split in SPLITS
            ]
            print(f"| {one} - {other} | " + " | ".join(cells) + " |")


def _print_curve(name: str, runs: list[Result]) -> None:
    numbers = range(len(runs[0].rounds))
    print(f"\n{name}: success per round, %\n\n| split | " + " | ".join(map(str, numbers)) + " |")
    print("|---" * (len(numbers) + 1) + "|")
    for split in SPLITS:
        cells = [_spread([100 * run.rounds[number].get(split, 0.0) for run in runs]) for number in numbers]
        print(f"| {split} | " + " | ".join(cells) + " |")


def _spread(values: list[float]) -> str:
    return f"{mean(values):.0f} ± {stdev(values):.0f}" if len(values) > 1 else f"{values[0]:.0f}"


def main() -> None:
    """Run, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("benchmark-data"))
    parser.add_argument("--only", nargs="+", default=[variant.name for variant in VARIANTS], metavar="NAME")
    parser.add_argument("--table", action="store_true", help="print what is measured, run nothing")
    parser.add_argument("--run", nargs=3, metavar=("NAME", "SEED", "UPDATES"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.run:
        name, seed, updates = arguments.run[0], int(arguments.run[1]), int(arguments.run[2])
        variant = next(variant for variant in VARIANTS if variant.name == name)
        result = run_one(variant, seed, folder / f"{name}-{seed}", updates)
        with (folder / "results.jsonl").open("a") as lines:
            lines.write(json.dumps(result.model_dump()) + "\n")
        return
    if not arguments.table:
        run_all(folder, arguments.only)
    print_tables(results(folder))


if __name__ == "__main__":
    main()
