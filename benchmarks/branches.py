"""What fork points and branches add on the data of one run, whose last round has both failures and successes.

`python -m benchmarks.branches ROOT` (a run of `benchmarks.loop`, e.g. `--run forks 0 0`) trains untrained policies on
the newest release, with and without its fork points, and measures each on new slot combinations. Then the last round's
policy attempts the queries that it failed there: from the last good screen of a failed attempt, and from the start.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from benchmarks.policy_learning import Job, roll_out
from trajmill.pipelines.reading.episodes import queries_of, read_episodes
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import World, load_world
from trajmill.stages.export.exporter import SftExporter
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.embedded.model import embedded_model, load_embedded_model, untrained_network, use_one_thread
from trajmill.stages.rollout.base import Attempt, Limits, episode_seed, plan_branches
from trajmill.stages.rollout.branch import PlannedBranch, choose_points
from trajmill.stages.rollout.episode import run_episode
from trajmill.stages.training.embedded.lessons import seen_screens, sft_turns
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec
from trajmill.stages.training.embedded.train import lessons, train_network
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.releases import newest_release
from trajmill.warehouse.screens import WarehouseScreens

SEEDS = (0, 1, 2)
EPISODES = 3
"""Greedy episodes on each query, on devices that training does not meet."""
BRANCHES = 4
"""Attempts from each screen, and as many from the start."""


class Success(NamedTuple):
    alone: float
    with_forks: float


def fork_points(release: Path, queries: Sequence[Query], world: World) -> None:
    kind, file = release / "forks", SftExporter(derived_kind="forks").file
    own, forks = sft_turns(release), sft_turns(kind, file)
    screens, recipe = seen_screens(release) | seen_screens(kind), EmbeddedSftSpec()
    jobs = [
        Job(query, episode_seed(0, 0, query.query_id, Purpose.EVALUATE, number))
        for query in queries
        for number in range(EPISODES)
    ]
    print(f"{len(own)} rows of accepted attempts, {len(forks)} fork points, {len(jobs)} episodes a policy")
    found = []
    for seed in SEEDS:
        success = []
        for turns in (own, own + forks):
            network = untrained_network(seed)
            train_network(network, lessons(turns, screens, recipe.detours, seed), recipe, seed)
            tries = roll_out(jobs, embedded_model(network), world, 0.0)
            success.append(100 * fmean(one.won for one in tries))
        found.append(Success(*success))
        print(f"seed {seed}: {found[-1].alone:.1f} % alone, {found[-1].with_forks:.1f} % with fork points", flush=True)
    gained = [one.with_forks - one.alone for one in found]
    print(f"gain {fmean(gained):+.1f} points, per seed {' '.join(f'{gain:+.1f}' for gain in gained)}")


def branches(warehouse: Warehouse, run_id: str, model: ChatModel, world: World) -> None:
    attempts = [row for row in read_rows(warehouse, Trajectory, run_id=run_id) if row.purpose is Purpose.TRAIN]
    last = max(row.round for row in attempts)
    names = [row.trajectory_id for row in attempts if row.round == last]
    episodes = list(read_episodes(warehouse, run_id, names, [last], with_verdicts=True).values())
    solved = {one.query.query_id for one in episodes if one.judgement is not None and one.judgement.correct}
    points = choose_points(episodes, solved, WarehouseScreens(warehouse), len(episodes))
    count = len(points) * BRANCHES
    fresh = [
        Attempt(query, Purpose.TRAIN, number, episode_seed(0, last + 1, query.query_id, Purpose.TRAIN, number))
        for query, _ in points
        for number in range(BRANCHES)
    ]
    for name, planned in (("branches", plan_branches(points, count, 0, last, BRANCHES)), ("from the start", fresh)):
        rewards = asyncio.run(_rewards(planned, model, world))
        by_query: dict[str, float] = {}
        for attempt, reward in zip(planned, rewards, strict=True):
            by_query[attempt.query.query_id] = max(reward, by_query.get(attempt.query.query_id, 0.0))
        print(
            f"{name}: {sum(rewards):.0f} of {count} attempts succeeded ({100 * fmean(rewards):.1f} %), at "
            f"{sum(by_query.values()):.0f} of {len(points)} queries ({_depth(points):.1f} steps taken over)",
            flush=True,
        )


def _depth(points: Sequence[PlannedBranch]) -> float:
    return fmean(len(each.point.steps) for each in points)


async def _rewards(planned: Sequence[Attempt], model: ChatModel, world: World) -> list[float]:
    origin, gate = Origin(round=1, run_id="benchmark", code_version="benchmark"), asyncio.Semaphore(128)

    async def one(attempt: Attempt) -> float:
        async with gate:
            agent = EndToEndAgent(model, attempt.query.platform, temperature=1.0)
            environment = SimulatedEnvironment(world, attempt.query.platform)
            done = await run_episode(attempt, agent, environment, Limits(), origin)
            return done.episode.trajectory.reward or 0.0

    return list(await asyncio.gather(*map(one, planned)))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    use_one_thread()
    warehouse, world = open_warehouse(parser.parse_args().root), load_world()
    name = newest_release(warehouse)
    run_id = name.rpartition("-r")[0]
    queries = [one for one in queries_of(warehouse, run_id).values() if one.split is Split.HELDOUT_SLOTS]
    fork_points(warehouse.release(name), queries, world)
    policies = sorted(read_rows(warehouse, PolicyVersion, run_id=run_id), key=lambda row: row.round)
    last = int(name.rpartition("-r")[2])
    acted = [row for row in policies if row.promoted and row.round < last][-1]
    branches(warehouse, run_id, load_embedded_model(warehouse.model(acted.model_version)), world)


if __name__ == "__main__":
    main()
