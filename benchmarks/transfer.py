"""What carries over: a policy trained in the simulated phone, measured where it was not trained, on the same queries.

`python -m benchmarks.transfer --root trajmill-data` takes the untrained policy and the one in force of a warehouse of
the default job, and gives each a greedy attempt at the same held-out queries in each world, with the same seeds:

    simulated           where it was trained; looks of devices that training never has
    moved controls      rows, buttons and switches stand at the left in every other look
    renamed controls    every common word of a control has a synonym (Save: Store); instructions stay as they were
    both
    Chromium            the same apps as a web app in a real browser, laid out and drawn by it

`gain` is the rise in success that training brought there; `kept` is its share of the gain in the simulated phone.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.agents import ORIGIN, newest_policy
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.environments.kinds import DevicesSpec, FaultRates, SimulatedSpec, WebAppSpec
from trajmill.stages.environments.simulated.app_files.check import builtin_files, read_files
from trajmill.stages.environments.simulated.environment import SimulatedFactory
from trajmill.stages.environments.simulated.world import World
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


def renamed_world(folder: Path) -> World:
    """Return the built-in apps with other words on their controls; ids, data, tasks and goals stay."""

    def renamed(found: re.Match[str]) -> str:
        return f"{found[1]}: {' '.join(SYNONYMS.get(word, word) for word in found[2].split(' '))}"

    made = []
    for file in builtin_files():
        before, mark, after = file.read_text(encoding="utf-8").partition("\nscreens:")
        screens, tasks, rest = after.partition("\ntasks:")
        made.append(folder / file.name)
        made[-1].write_text(before + mark + _WORDING.sub(renamed, screens) + tasks + rest, encoding="utf-8")
    reading = read_files(made)
    assert not reading.mistakes
    errands = {file.spec.errand: file.spec for file in reading.errands}
    return World({file.spec.app: file.spec for file in reading.apps}, errands)


Open = Callable[[Platform], EnvironmentFactory]


def worlds(folder: Path) -> dict[str, Open]:
    faults, moved, renamed = FaultRates(), DevicesSpec(layouts=True), renamed_world(folder)
    return {
        "simulated": SimulatedSpec().factory,
        "moved controls": SimulatedSpec(devices=moved).factory,
        "renamed controls": lambda platform: SimulatedFactory(renamed, platform, faults, DevicesSpec()),
        "both": lambda platform: SimulatedFactory(renamed, platform, faults, moved),
        "Chromium": WebAppSpec().factory,
    }


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
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warehouse = open_warehouse(given.root)
    trained = newest_policy(warehouse)
    versions = read_rows(warehouse, PolicyVersion, run_id=trained.run_id)
    untrained = next(row for row in versions if row.release is None and row.folder)
    found = [row for row in read_rows(warehouse, Query, run_id=trained.run_id) if row.split is given.split]
    queries = sorted(found, key=lambda query: query.query_id)[: given.queries]
    print(f"{len(queries)} queries of {given.split}, policy {trained.model_version} of round {trained.round}\n")
    print("| world | untrained | trained | gain | kept |\n|---|---|---|---|---|")
    at_home: float | None = None
    with tempfile.TemporaryDirectory() as folder:
        for name, open_world in worlds(Path(folder)).items():
            if given.worlds and name not in given.worlds:
                continue
            cells = [
                asyncio.run(measured(open_world, given.root / str(row.folder), queries, given.seed, 8))
                for row in (untrained, trained)
            ]
            gain = cells[1].share - cells[0].share
            at_home = gain if at_home is None else at_home
            print(f"| {name} | {cells[0]} | {cells[1]} | {100 * gain:+.0f} | {gain / at_home:.0%} |", flush=True)


if __name__ == "__main__":
    main()
