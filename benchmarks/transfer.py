"""What carries over: a policy trained in the simulated phone, measured where it was not trained, on the same queries.

`python -m benchmarks.transfer --root trajmill-data` takes the untrained policy and the one in force of a warehouse of
the default job, and gives each a greedy attempt at the same held-out queries in each world, with the same seeds:

    simulated           where it was trained, in all its layouts; looks of devices that training never has
    renamed controls    every common word of a control has a synonym (Save: Store); instructions stay as they were
    Chromium            the same apps as a web app in a real browser, laid out and drawn by it

`gain` is the rise in success that training brought there; `kept` is its share of the gain in the simulated phone.
`--elsewhere CONFIG ...` adds the held-out queries of runs in other applications, each with the run's own policy beside
it. `--recovery FOLDER` then lets the trained policy live one round of the default job in the apps with renamed controls
(rollouts, judging, training), and measures what that round makes of it there and at home.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from unittest import mock

from benchmarks.agents import ORIGIN, newest_policy
from benchmarks.loop import draw_nothing
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.file import load_config
from trajmill.flows.round import STAGES, do_stage
from trajmill.flows.stage import RoundContext, finished
from trajmill.flows.tasks.train import TRAIN, Training
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.environments.kinds import DevicesSpec, FaultRates, SimulatedSpec, WebAppSpec
from trajmill.stages.environments.simulated import world
from trajmill.stages.environments.simulated.app_files.check import builtin_files
from trajmill.stages.environments.simulated.environment import SimulatedFactory
from trajmill.stages.metrics.intervals import wilson
from trajmill.stages.models.embedded.model import load_embedded_model
from trajmill.stages.rollout.base import FinishedAttempt, Limits, plan_once
from trajmill.stages.rollout.worker import run_attempts
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows

SYNONYMS: Final[Mapping[str, str]] = {
    "Done": "Finish",
    "Cancel": "Dismiss",
    "Delete": "Remove",
    "Erase": "Clear",
    "Search": "Find",
    "New": "Another",
    "Add": "Include",
    "Create": "Make",
    "Keep": "Leave it",
    "Save": "Store",
    "Send": "Submit",
    "Show": "View",
    "Move": "Transfer",
    "Print": "Output",
    "Pin": "Fix",
    "Mute": "Silence",
    "Change": "Adjust",
    "Edit": "Modify",
    "Rename": "Retitle",
    "Book": "Reserve",
    "Pay": "Settle",
    "Order": "Purchase",
    "Continue": "Next",
    "Sort": "Arrange",
    "Write": "Compose",
    "Copies": "Count",
    "Quantity": "Pieces",
    "Title": "Heading",
    "Name": "Label",
    "options": "settings",
    "event": "appointment",
    "alarm": "wake-up",
    "ride": "trip",
    "picture": "photo",
}
_WORDING: Final = re.compile(r"\b(text|label|hint): ([A-Z][^,}\n$\"{]*)")


class Cell(NamedTuple):
    attempts: int
    successes: int

    @property
    def share(self) -> float:
        return self.successes / self.attempts

    def __str__(self) -> str:
        between = wilson(self.successes, self.attempts)
        return f"{self.share:.0%} ({between.low:.0%} to {between.high:.0%})"


def renamed_files(folder: Path) -> tuple[Path, ...]:
    """Write the built-in apps with other words on their controls; ids, data, tasks and goals stay."""

    def renamed(found: re.Match[str]) -> str:
        return f"{found[1]}: {' '.join(SYNONYMS.get(word, word) for word in found[2].split(' '))}"

    made = []
    for file in builtin_files():
        before, mark, after = file.read_text(encoding="utf-8").partition("\nscreens:")
        screens, tasks, rest = after.partition("\ntasks:")
        made.append(folder / file.name)
        made[-1].write_text(before + mark + _WORDING.sub(renamed, screens) + tasks + rest, encoding="utf-8")
    return tuple(made)


def after_a_round(root: Path, policy: Path, files: tuple[Path, ...], seed: int) -> Path:
    """Run one round of the default job with a trained policy in the apps of `files`; return the new policy's folder."""
    draw_nothing()
    sections = {
        "run": {"root": root, "rounds": 1, "seed": seed},
        "models": {"policy": "trained"},
        "endpoints": {"trained": {"kind": "embedded", "model": policy}},
    }
    with mock.patch.object(world, "builtin_files", lambda: files):
        world.shared_world.cache_clear()
        context = RoundContext.of(Config.model_validate(sections), 1)
        for stage in STAGES:
            do_stage(stage, context)
    world.shared_world.cache_clear()
    trained = Training.of(finished(context, TRAIN)).new_policy
    assert trained is not None, "the round has trained a policy"
    return root / str(trained.folder)


def renamed_world(folder: Path) -> world.World:
    with mock.patch.object(world, "builtin_files", lambda: renamed_files(folder)):
        return world.load_world()


Open = Callable[[Platform], EnvironmentFactory]


def worlds(folder: Path) -> dict[str, Open]:
    renamed = renamed_world(folder)
    return {
        "simulated": SimulatedSpec().factory,
        "renamed controls": lambda platform: SimulatedFactory(renamed, platform, FaultRates(), DevicesSpec()),
        "Chromium": WebAppSpec().factory,
    }


class Elsewhere(NamedTuple):
    """A run in other applications."""

    name: str
    open_world: Open
    queries: tuple[Query, ...]
    own_policy: Path

    @classmethod
    def of(cls, file: Path, split: Split) -> Elsewhere:
        """The run of a configuration file that has been through its rounds."""
        config = load_config(file)
        root = Path(str(config.run.root))
        warehouse = open_warehouse(root)
        found = tuple(row for row in read_rows(warehouse, Query) if row.split is split)
        factory = config.environment.factory
        return cls(str(config.run.name), factory, found, root / str(newest_policy(warehouse).folder))


async def measured(open_world: Open, policy: Path, queries: Sequence[Query], seed: int, concurrency: int) -> Cell:
    """One greedy attempt at each query; an attempt that the world breaks does not count."""
    model, rewards = load_embedded_model(policy), list[float]()

    async def record(attempt: FinishedAttempt) -> None:
        reward = attempt.episode.trajectory.reward
        rewards.extend([] if reward is None else [reward])

    def agent(query: Query) -> EndToEndAgent:
        return EndToEndAgent(model, query.platform, 0.0)

    for platform in Platform:
        attempts = plan_once([query for query in queries if query.platform is platform], Purpose.EVALUATE, seed, 0)
        if attempts:
            factory = open_world(platform)
            try:
                await run_attempts(attempts, agent, factory, Limits(), ORIGIN, record, concurrency)
            finally:
                await factory.close()
    return Cell(len(rewards), sum(reward == 1.0 for reward in rewards))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path("trajmill-data"), help="a warehouse of the default job")
    parser.add_argument("--queries", type=int, default=120)
    parser.add_argument("--split", type=Split, default=Split.HELDOUT_SLOTS)
    parser.add_argument("--worlds", nargs="*", metavar="WORLD", help="some of the worlds; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="an attempt at each query for each seed")
    parser.add_argument("--elsewhere", type=Path, nargs="*", default=[], metavar="CONFIG", help="runs in other apps")
    parser.add_argument("--recovery", type=Path, metavar="FOLDER", help="a new folder for the warehouse of its round")
    given = parser.parse_args()
    warehouse = open_warehouse(given.root)
    trained = newest_policy(warehouse)
    versions = read_rows(warehouse, PolicyVersion, run_id=trained.run_id)
    untrained = next(row for row in versions if row.release is None and row.folder)
    found = [row for row in read_rows(warehouse, Query, run_id=trained.run_id) if row.split is given.split]
    queries = sorted(found, key=lambda query: query.query_id)[: given.queries]
    print(f"{len(queries)} queries of {given.split}, policy {trained.model_version} of round {trained.round}\n")
    print("| world | untrained | trained | gain | kept |\n|---|---|---|---|---|")
    before, after = (given.root / str(row.folder) for row in (untrained, trained))
    at_home: float | None = None
    with tempfile.TemporaryDirectory() as folder:
        found_worlds = worlds(Path(folder))

        def success(name: str, policy: Path) -> Cell:
            each = [asyncio.run(measured(found_worlds[name], policy, queries, seed, 8)) for seed in given.seeds]
            return Cell(sum(cell.attempts for cell in each), sum(cell.successes for cell in each))

        for name in given.worlds or found_worlds:
            cells = success(name, before), success(name, after)
            gain = cells[1].share - cells[0].share
            at_home = gain if at_home is None else at_home
            print(f"| {name} | {cells[0]} | {cells[1]} | {100 * gain:+.0f} | {gain / at_home:.0%} |", flush=True)
        for each in (Elsewhere.of(file, given.split) for file in given.elsewhere):
            for name, policy in (("untrained", before), ("trained here", after), ("trained there", each.own_policy)):
                cell = asyncio.run(measured(each.open_world, policy, each.queries, given.seeds[0], 4))
                print(f"| {each.name}, {name} | | {cell} | | |", flush=True)
        if given.recovery:
            files = renamed_files(Path(folder))
            later = after_a_round(given.recovery, after, files, given.seeds[0])
            for name in ("renamed controls", "simulated"):
                print(f"| {name}, after a round there | | {success(name, later)} | | |", flush=True)


if __name__ == "__main__":
    main()
