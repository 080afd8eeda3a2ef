"""Steps per second of the simulator on one core: with remembered screens, with new ones, and with every new one drawn.

Run: `python -m benchmarks.simulator`. Random presses on what can be pressed; all rows are taken in one run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import NamedTuple

from schemas.actions import Click, SystemButton
from schemas.observation import Observation
from schemas.query import Platform, Query, Source, Split
from stages.environments.simulated.environment import SimulatedEnvironment
from stages.environments.simulated.world import World, load_world

_STEPS = 20_000
_DRAWN_STEPS = 2_000
_EPISODE = 25
_TRAINING_PROFILES = 6


class Measurement(NamedTuple):
    """One row of the table."""

    name: str
    steps_per_second: float
    screens: int
    """Distinct screens that were seen."""


def main() -> None:
    """Print the table."""
    print(f"{'case':38} {'steps/s':>10} {'distinct screens':>17} {'times drawn':>12}")
    rows = [each for platform in (Platform.PHONE, Platform.DESKTOP) for each in _measure(platform)]
    drawn = next(row for row in rows if "drawn" in row.name)
    for row in rows:
        ratio = row.steps_per_second / drawn.steps_per_second
        print(f"{row.name:38} {row.steps_per_second:10,.0f} {row.screens:17,} {ratio:11.1f}x")


def _measure(platform: Platform) -> list[Measurement]:
    world = load_world()
    cold = _run(f"{platform}, no screen seen before", world, platform, _STEPS, 1)
    fresh = _run(f"{platform}, other episodes after that", world, platform, _STEPS, 2)
    warm = _run(f"{platform}, the same episodes again", world, platform, _STEPS, 2)
    world.views.forget()
    drawn = _run(
        f"{platform}, each new screen drawn", world, platform, _DRAWN_STEPS, 1, lambda seen: seen.screen.encode()
    )
    return [cold, fresh, warm, drawn]


def _run(
    name: str,
    world: World,
    platform: Platform,
    steps: int,
    seed: int,
    draw: Callable[[Observation], object] | None = None,
) -> Measurement:
    env, rng, query = SimulatedEnvironment(world, platform), random.Random(seed), _query(platform)
    screens: set[str] = set()
    start = time.process_time()
    seen = env.reset_now(query, 0)
    for step in range(steps):
        if step % _EPISODE == 0:
            seen = env.reset_now(query, rng.randrange(1_000) * 8 + rng.randrange(_TRAINING_PROFILES))
        places = [element.bounds for element in seen.elements or () if element.clickable]
        if places:
            x, y = rng.choice(places).center
            seen = env.step_now(Click(x=x, y=y, count=2))
        else:
            seen = env.step_now(SystemButton(button="Back"))
        if draw and seen.screen.screen_id not in screens:
            draw(seen)
        screens.add(seen.screen.screen_id)
    return Measurement(name, steps / (time.process_time() - start), len(screens))


def _query(platform: Platform) -> Query:
    texts = dict.fromkeys(
        ("raw_instruction", "instruction", "phrasing", "run_id", "made_by", "code_version", "task"), ""
    )
    none: dict[str, tuple[()]] = dict.fromkeys(("apps", "pages", "page_descriptions", "slots", "path"), ())
    return Query.model_validate(
        {
            **texts, **none, "query_id": "benchmark", "platform": platform, "source": Source.DAG, "split": Split.TRAIN,
            "start_state": "{}", "goal": "{}", "validation": "", "difficulty": 1, "max_steps": _EPISODE, "round": 0,
        }
    )  # fmt: skip


if __name__ == "__main__":
    main()
