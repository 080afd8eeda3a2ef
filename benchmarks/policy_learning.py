"""How the embedded policy learns, in memory: rollouts, programmatic judge, guidance, training, greedy evaluation.

`python -m benchmarks.policy_learning` prints success per round and split. The same stages as the real loop without its
files; the judge is the programmatic check, so what the critics add or cost is not in these figures.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

import torch

from benchmarks.policy_queries import benchmark_queries
from trajmill.schemas.actions import Click, Terminate, TypeText
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.base import Agent, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.curate.history import average_after, plan_attempts
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import World, load_world
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.embedded.model import embedded_model, untrained_network
from trajmill.stages.models.embedded.policy_network import NetworkShape, PolicyNetwork
from trajmill.stages.rollout.base import episode_seed
from trajmill.stages.rollout.episode import target_element
from trajmill.stages.training.embedded.lessons import SeenScreen, Turn
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec
from trajmill.stages.training.embedded.train import lessons, train_network

_CONCURRENCY = 128
_TRAIN_STRIDE = 7
"""Of the training queries one in so many is measured; coprime to the number of tasks, whose queries stand in turn."""


@dataclass(frozen=True)
class Settings:
    """One run."""

    rounds: int = 8
    train: int = 1000
    heldout: int = 60
    rollouts: int = 600
    guided_share: float = 0.5
    after_failures: int = 1
    frozen: bool = False
    seed: int = 0
    task_seed: int = 0
    shape: NetworkShape = field(default_factory=NetworkShape)
    recipe: EmbeddedSftSpec = field(default_factory=EmbeddedSftSpec)
    frozen_updates: int = 0
    heldout_apps: tuple[str, ...] = ()
    kept_per_query: int = 3


class Try(NamedTuple):
    """One finished episode."""

    query: Query
    decisions: tuple[Decision, ...]
    observations: tuple[Observation, ...]
    won: bool


@dataclass
class Memory:
    """What a run has collected so far."""

    outcomes: dict[str, list[bool]] = field(default_factory=dict)
    kept: dict[str, list[Try]] = field(default_factory=dict)
    hints: dict[str, str] = field(default_factory=dict)
    references: set[str] = field(default_factory=set)
    updates: int = 0

    def count(self, tries: Sequence[Try], kept_per_query: int) -> None:
        """Remember outcomes, and the shortest successes of each query."""
        for each in tries:
            self.outcomes.setdefault(each.query.query_id, []).append(each.won)
            if each.won:
                won = [*self.kept.get(each.query.query_id, []), each]
                self.kept[each.query.query_id] = sorted(won, key=lambda t: len(t.decisions))[:kept_per_query]


async def _episode(query: Query, agent: Agent, world: World, seed: int, hint: str | None) -> Try:
    environment = SimulatedEnvironment(world, query.platform)
    observation = environment.reset_now(query, seed)
    decisions: list[Decision] = []
    observations = [observation]
    while len(decisions) < query.max_steps:
        decision = await agent.act(EpisodeView(query.instruction, hint, observation, tuple(decisions), seed))
        decisions.append(decision)
        if decision.action is not None:
            observation = environment.step_now(decision.action)
        observations.append(observation)
        if isinstance(decision.action, Terminate):
            break
    said = isinstance(decisions[-1].action, Terminate) and decisions[-1].action.status == "success"
    return Try(query, tuple(decisions), tuple(observations), said and environment.score_now() == 1.0)


class Job(NamedTuple):
    """An episode to run."""

    query: Query
    seed: int
    hint: str | None = None


def roll_out(jobs: Sequence[Job], model: ChatModel, world: World, temperature: float) -> list[Try]:
    """Run all jobs, many at once."""

    async def run() -> list[Try]:
        gate = asyncio.Semaphore(_CONCURRENCY)

        async def one(job: Job) -> Try:
            async with gate:
                agent = EndToEndAgent(model, job.query.platform, temperature)
                return await _episode(job.query, agent, world, job.seed, job.hint)

        return list(await asyncio.gather(*(one(job) for job in jobs)))

    return asyncio.run(run())


def reference_hint(query: Query, world: World) -> str:
    """Guidance lines written from a walk of the query's annotated path."""
    walked = asyncio.run(_episode(query, ReferenceAgent(query), world, 0, None))
    lines = []
    for decision, before in zip(walked.decisions, walked.observations, strict=False):
        match decision.action:
            case Click() as click:
                target = target_element(click, before)
                element = next(e for e in before.elements or () if target and e.bounds == target.bounds)
                if element.element_id.startswith("popup"):
                    continue
                verb = "Open" if element.role == "icon" else "Tap"
                group = f" in {element.value}" if element.role in ("radio", "stepper_button") else ""
                if element.role not in ("text_field", "search_field"):
                    lines.append(f'{verb} "{element.text}"{group}.')
            case TypeText(text=text):
                focused = next(e for e in before.elements or () if "focused" in e.states)
                lines.append(f'Type "{text}" into {focused.text}.')
            case _:
                pass
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


def train(network: PolicyNetwork, memory: Memory, recipe: EmbeddedSftSpec, seed: int) -> tuple[int, float]:
    """Train on what is kept; returns rows and loss."""
    turns, screens = [], {}
    for query_id, kept in memory.kept.items():
        average = reduce(average_after, memory.outcomes[query_id], 0.0)
        for number, each in enumerate(kept):
            for step, decision in enumerate(each.decisions):
                before, after = each.observations[step], each.observations[step + 1]
                if before.screen.screen_id == after.screen.screen_id and not isinstance(decision.action, Terminate):
                    continue
                screen = before.screen
                screens[screen.screen_id] = SeenScreen(screen.size, before.elements or ())
                system = str(decision.calls[0].request.messages[0].parts[0])
                turns.append(
                    Turn(
                        system,
                        decision.prompt,
                        decision.raw_response,
                        screen.screen_id,
                        1.15 - average,
                        f"{query_id}-{number}",
                        step,
                    )
                )
    found = lessons(turns, screens, recipe.detours, seed)
    report = train_network(network, found, recipe, seed)
    memory.updates += report.updates
    if report.skipped:
        print("skipped", report.skipped)
    return report.rows, report.loss


def evaluate(model: ChatModel, queries: Sequence[Query], world: World) -> list[Try]:
    """One greedy episode for each query on device profiles that training does not meet."""
    jobs = [Job(query, episode_seed(0, 0, query.query_id, Purpose.EVALUATE, 0)) for query in queries]
    return roll_out(jobs, model, world, 0.0)


def _collect(
    memory: Memory, settings: Settings, number: int, queries: Sequence[Query], model: ChatModel, world: World
) -> str:
    by_id = {query.query_id: query for query in queries}
    averages = {name: reduce(average_after, memory.outcomes.get(name, []), 0.0) for name in by_id}
    guided_budget = int(settings.rollouts * settings.guided_share)
    plan = plan_attempts(averages, settings.rollouts - guided_budget, settings.seed * 1000 + number)
    jobs = [
        Job(by_id[each.query_id], episode_seed(settings.seed, number, each.query_id, Purpose.TRAIN, attempt))
        for each in plan
        for attempt in range(each.attempts)
    ]
    free = roll_out(jobs, model, world, 1.0)
    memory.count(free, settings.kept_per_query)
    averages = {name: reduce(average_after, memory.outcomes.get(name, []), 0.0) for name in by_id}
    hard = [
        query
        for name, query in by_id.items()
        if memory.outcomes.get(name, []).count(False) >= settings.after_failures and averages[name] < 0.25
    ]
    hard.sort(key=lambda query: (query.query_id in memory.kept, averages[query.query_id], query.query_id))
    chosen = hard[: guided_budget // 2]
    for query in chosen:
        if query.query_id not in memory.hints:
            memory.hints[query.query_id] = reference_hint(query, world)
            memory.references.add(query.query_id)
    jobs = [
        Job(
            query,
            episode_seed(settings.seed, number, query.query_id, Purpose.GUIDED, attempt),
            memory.hints[query.query_id],
        )
        for query in chosen
        for attempt in range(2)
    ]
    guided = roll_out(jobs, model, world, 1.0)
    memory.count(guided, settings.kept_per_query)
    return (
        f"free {sum(t.won for t in free)}/{len(free)} guided {sum(t.won for t in guided)}/{len(guided)} "
        f"solved {len(memory.kept)}/{len(by_id)} refs {len(memory.references)}"
    )


def run(settings: Settings) -> tuple[PolicyNetwork, World, list[Query]]:
    """Run the loop and print its curve."""
    torch.set_num_threads(1)
    world = load_world()
    queries = benchmark_queries(world, settings.train, settings.heldout, settings.task_seed, settings.heldout_apps)
    by_split = {split: [q for q in queries if q.split is split] for split in Split}
    samples = {split: each[::_TRAIN_STRIDE] if split is Split.TRAIN else each for split, each in by_split.items()}
    network = untrained_network(settings.seed, settings.shape)
    memory = Memory()
    begin = time.process_time()
    wall = time.perf_counter()
    for number in range(1, settings.rounds + 1):
        marks = [time.process_time()]
        acting = untrained_network(settings.seed, settings.shape) if settings.frozen else network
        said = _collect(memory, settings, number, by_split[Split.TRAIN], embedded_model(acting), world)
        marks.append(time.process_time())
        last = number == settings.rounds
        rows, loss = 0, 0.0
        if not settings.frozen or last:
            recipe = settings.recipe
            if settings.frozen:
                recipe = recipe.model_copy(
                    update={"least_updates": settings.frozen_updates, "most_updates": settings.frozen_updates}
                )
            seed = int(content_id("train", settings.seed, number)[:8], 16)
            rows, loss = train(network, memory, recipe, seed)
        marks.append(time.process_time())
        scores = {}
        if not settings.frozen or last:
            model = embedded_model(network)
            for split, sample in samples.items():
                if sample:
                    tries = evaluate(model, sample, world)
                    scores[split.value] = round(100 * sum(t.won for t in tries) / len(tries))
        marks.append(time.process_time())
        costs = " ".join(f"{b - a:.1f}" for a, b in itertools.pairwise(marks))
        print(f"{number} {scores} | {said} | rows {rows} loss {loss:.3f} | cpu {costs}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"cpu {time.process_time() - begin:.0f} s wall {time.perf_counter() - wall:.0f} s {peak:.0f} MB "
        f"updates {memory.updates}"
    )
    return network, world, queries


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("rounds", "train", "rollouts", "seed", "task_seed", "heldout", "frozen_updates", "kept_per_query"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Settings, name))
    parser.add_argument("--after_failures", type=int, default=Settings.after_failures)
    parser.add_argument("--guided_share", type=float, default=Settings.guided_share)
    parser.add_argument("--frozen", action="store_true")
    parser.add_argument("--epochs", type=float, default=EmbeddedSftSpec().epochs)
    parser.add_argument("--most", type=int, default=EmbeddedSftSpec().max_updates)
    parser.add_argument("--least", type=int, default=EmbeddedSftSpec().min_updates)
    parser.add_argument("--lr", type=float, default=EmbeddedSftSpec().learning_rate)
    parser.add_argument("--dropout", type=float, default=EmbeddedSftSpec().word_dropout)
    parser.add_argument("--heldout_apps", nargs="*", default=[])
    given = vars(parser.parse_args())
    recipe = EmbeddedSftSpec(
        epochs=given.pop("epochs"),
        max_updates=given.pop("most"),
        min_updates=given.pop("least"),
        word_dropout=given.pop("dropout"),
        learning_rate=given.pop("lr"),
    )
    given["heldout_apps"] = tuple(given["heldout_apps"])
    run(Settings(recipe=recipe, **given))


if __name__ == "__main__":
    main()
