"""Verdicts re-judged per second with a warm request cache, beside the cold pass that filled it.

`python -m benchmarks.rejudge` walks simulated episodes once and judges them by models on a loopback server that takes a
set time over an answer: first with an empty cache, then with all answers in it, as `judge --again` finds them after a
crash or in another warehouse of the machine. Both passes go through the same critics, requests and accounting.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from benchmarks.judge_populations import ORIGIN, Seen, walk
from benchmarks.policy_queries import benchmark_queries
from tests.stages.models.fault_server import running_server
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.critics.judge import judge_episodes
from trajmill.stages.critics.spec import CriticModels, JudgeSpec
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.world import load_world
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.spec import Endpoint

_ANSWERS: dict[str, object] = {
    "analysis": "the screen shows what was asked for",
    "summary": "moved on",
    "label": "GOOD",
    "reason": "all that was asked for is on the last screen",
    "redundant_steps": [],
    "first_error_step": None,
}


class Pass(NamedTuple):
    """What judging all episodes once took."""

    correct: list[bool]
    calls: list[ModelCall]
    seconds: float


def answer(body: dict[str, Any]) -> str:
    """A valid answer to whichever critic asks, the same to the same question."""
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    answers = {**_ANSWERS, "correct": len(json.dumps(body["messages"])) % 3 > 0}
    return json.dumps({name: answers[name] for name in fields})


def judge(spec: JudgeSpec, critics: CriticModels, episodes: Sequence[Episode], screens: Seen) -> Pass:
    """Judge all episodes."""
    calls: list[ModelCall] = []

    async def run() -> list[bool]:
        async with spec.open(critics, ORIGIN, calls.append) as made:
            judged = await judge_episodes(episodes, made, screens, ORIGIN, spec.concurrency)
        assert not judged.failures, judged.failures[0].message
        return [episode.judgement.correct for episode in judged.episodes if episode.judgement is not None]

    start = perf_counter()
    correct = asyncio.run(run())
    return Pass(correct, calls, perf_counter() - start)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--latency", type=float, default=0.2, help="Seconds that the server takes over an answer.")
    parser.add_argument("--concurrency", type=int, default=64)
    arguments = parser.parse_args()
    world, screens = load_world(), Seen()
    queries = benchmark_queries(world, arguments.episodes, 0, 0)
    episodes = walk(queries, "", world, screens, FaultRates()).episodes[: arguments.episodes]
    steps = sum(episode.trajectory.steps for episode in episodes)
    print(f"{len(episodes)} trajectories, {steps} steps; the server takes {arguments.latency:g} s over an answer")
    with tempfile.TemporaryDirectory() as folder, running_server(seconds=arguments.latency, writes=answer) as server:
        served = OpenAiSpec(urls=(server.url,), model="tiny", family="qwen2.5-vl", max_in_flight=arguments.concurrency)
        model = Endpoint(served, Path(folder) / "cache")
        spec, critics = JudgeSpec(votes=2, concurrency=arguments.concurrency), CriticModels(model, (model,), (model,))
        cold = judge(spec, critics, episodes, screens)
        asked = len(server.received)
        warm = judge(spec, critics, episodes, screens)
        assert len(server.received) == asked and warm.correct == cold.correct
    print("            seconds  verdicts/s    calls/s   from cache")
    for name, one in (("cold", cold), ("warm", warm)):
        cached = sum(bool(call.cached) for call in one.calls) / len(one.calls)
        print(
            f"  {name:8} {one.seconds:8.2f} {len(one.correct) / one.seconds:11.1f}"
            f" {len(one.calls) / one.seconds:10.1f} {cached:12.1%}"
        )
    print(f"warm against cold: {cold.seconds / warm.seconds:.1f} times as fast, all verdicts the same")


if __name__ == "__main__":
    main()
