"""How good the annotated critics are: precision and recall against the programmatic check, per channel and population.

`python -m benchmarks.judge` prints a table per population: right walks, walks with injected mistakes, an untrained
explorer with and without guidance. The last one has the step critic, too, against the distance to the goal.
`--errors N` prints N trajectories that were judged wrongly, with their steps.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterable, Sequence

from benchmarks.judge_populations import MISTAKES, ORIGIN, Population, Seen, explore, reference_guidance, walk
from benchmarks.policy_queries import benchmark_queries
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.policy_version import JudgeQuality
from trajmill.stages.critics.app_graph.channels import annotated_judge
from trajmill.stages.critics.calibration.agreement import Rate, agreement, calibrate
from trajmill.stages.critics.judge import judge_episodes
from trajmill.stages.critics.replay import SeenScreens, replay
from trajmill.stages.environments.kinds import DevicesSpec, FaultRates
from trajmill.stages.environments.simulated.distance import SimulatedDistances
from trajmill.stages.environments.simulated.world import World, load_world
from trajmill.stages.models.embedded.model import embedded_model, untrained_network


def populations(world: World, train: int, explored: int, seed: int, seen: Seen, faults: FaultRates) -> list[Population]:
    """All populations over one query set."""
    queries = benchmark_queries(world, train, train // 4, seed)
    made = [walk(queries, mistake, world, seen, faults) for mistake in ("", *MISTAKES)]
    model = embedded_model(untrained_network(seed))
    often = [queries[number % len(queries)] for number in range(explored)]
    made.append(explore(often, model, {}, world, seen, faults))
    made.append(explore(often, model, reference_guidance(made[0], seen), world, seen, faults))
    return made


def judged(episodes: Sequence[Episode], screens: SeenScreens) -> list[Episode]:
    """The episodes with their verdicts."""
    result = asyncio.run(judge_episodes(episodes, annotated_judge(), screens, ORIGIN))
    assert not result.failures, result.failures[0].message
    return result.episodes


def print_table(name: str, qualities: Iterable[JudgeQuality], seconds: float, steps: int) -> None:
    """One line per level."""
    print(f"\n{name}: {steps} steps judged in {seconds:.2f} s")
    print("  level        n      true  precision              recall                 kappa   FP   FN")
    for quality in qualities:
        found = agreement(quality)
        n = quality.true_positive + quality.false_positive + quality.true_negative + quality.false_negative
        rates = "  ".join(_shown(rate) for rate in (found.precision, found.recall))
        kappa = f"{found.kappa:5.3f}" if found.kappa is not None else "  -  "
        print(
            f"  {quality.level:11} {n:6} {found.recall.n:6}  {rates}  {kappa} "
            f"{quality.false_positive:4} {quality.false_negative:4}"
        )


def _shown(rate: Rate) -> str:
    if rate.value is None:
        return " " * 21
    return f"{rate.value:.3f} ({rate.interval.low:.3f}-{rate.interval.high:.3f})"


def print_errors(episodes: Iterable[Episode], screens: SeenScreens, most: int) -> None:
    """Trajectories whose decision differs from the programmatic check, step by step."""
    wrong = [e for e in episodes if e.judgement and e.judgement.correct != (e.trajectory.reward == 1.0)]
    for episode in wrong[:most]:
        print(f"\n  {episode.query.task} [{episode.trajectory.agent}]: {episode.query.instruction}")
        print(f"    reward {episode.trajectory.reward}; slots {[(s.name, s.value) for s in episode.query.slots]}")
        for verdict in episode.trajectory_verdicts:
            print(f"    {verdict.channel}: {verdict.correct} {verdict.reason}")
        for step, verdict_ in zip(replay(episode, screens), episode.step_verdicts, strict=True):
            print(f"      {verdict_.label:8} {step.caption[:200]}")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=int, default=400)
    parser.add_argument("--explored", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=float, default=0.0, help="rate of slow screens and lost taps")
    parser.add_argument("--errors", type=int, default=0)
    arguments = parser.parse_args()
    seen = Seen()
    faults = FaultRates(slow=arguments.faults, lost_tap=arguments.faults)
    made = populations(load_world(), arguments.train, arguments.explored, arguments.seed, seen, faults)
    everything: list[Episode] = []
    total = 0.0
    for population in made:
        screens = SeenScreens(seen)
        start = time.perf_counter()
        episodes = judged(population.episodes, screens)
        seconds = time.perf_counter() - start
        total += seconds
        steps = sum(len(episode.steps) for episode in episodes)
        print_table(population.name, calibrate(episodes, screens), seconds, steps)
        print_errors(episodes, screens, arguments.errors)
        everything += episodes
    steps = sum(len(episode.steps) for episode in everything)
    measured = SimulatedDistances(load_world(), faults, DevicesSpec())
    print_table("all together", calibrate(everything, SeenScreens(seen), measured, len(everything)), total, steps)


if __name__ == "__main__":
    main()
