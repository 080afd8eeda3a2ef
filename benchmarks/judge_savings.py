"""Calls and tokens that a judge saves by stopping early and by a cascade, at equal verdicts.

`python -m benchmarks.judge_savings` judges the same trajectories three times by every plan: asking for every vote of
every pass, for every channel, and for no vote more than decides. The votes are synthetic, drawn per trajectory and
number, so that the three see the same ones; the outcomes are those of the simulated world. Tokens are counted as
Qwen2.5-VL counts the screenshots.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from benchmarks.judge_populations import ORIGIN, Seen, walk
from benchmarks.known_rates import Rates, SilentStepCritic, repeated
from benchmarks.policy_queries import benchmark_queries
from trajmill.schemas.coordinates import QWEN2_5_VL
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.calibration.agreement import agreement, calibrate
from trajmill.stages.critics.judge import Judge, judge_episodes
from trajmill.stages.critics.voting import (
    Ask,
    ChannelCritics,
    ChannelRule,
    PassRule,
    StepResult,
    TrajectoryCritic,
    Vote,
    resolution_of,
)
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.world import World, load_world

SCREENS = {Platform.PHONE: Size(720, 1280), Platform.DESKTOP: Size(1280, 720)}
MISTAKES = ("", "many_stray_presses", "too_early", "wrong_control")
"""Right walks, and walks with a mistake that often or nearly always spoils them."""
MOST_SCREENS = 24
"""In one request."""
PROMPT, PER_STEP, PER_CAPTION, ANSWER = 600, 60, 180, 120
"""Tokens of the instructions, of a step's line, of a screen in words, and of an answer."""
TEXT, FULL, LOW, OTHER = Rates(0.35, 0.12), Rates(0.3, 0.12), Rates(0.45, 0.06), Rates(0.25, 0.2)
"""How often the critics err: about as single models do on AgentRewardBench, the low resolution more lenient."""


def true_outcomes(queries: Sequence[Query], world: World) -> list[Episode]:
    """Every query walked in the simulated world, rightly and in three other ways: episodes with the world's verdict."""
    seen = Seen()
    return [
        episode.model_copy(update={"steps": ()})
        for kind in MISTAKES
        for episode in walk(queries, kind, world, seen, FaultRates()).episodes
    ]


@dataclass(slots=True)
class Bill:
    """What was asked of models."""

    calls: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class PaidCritic:
    """A critic whose calls cost what they would cost with a model."""

    inner: TrajectoryCritic
    bill: Bill
    scale: float = 1.0

    @property
    def channel(self) -> Channel:
        """That of the critic within."""
        return self.inner.channel

    @property
    def resolution(self) -> str:
        """That of the critic within."""
        return self.inner.resolution

    @property
    def version(self) -> str:
        """That of the critic within."""
        return self.inner.version

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """The vote of the critic within, put on the bill."""
        self.bill.calls += 1
        self.bill.tokens += PROMPT + ANSWER + self._tokens(episode)
        return await self.inner.judge(episode, screens, steps, draw)

    def _tokens(self, episode: Episode) -> int:
        count = episode.trajectory.steps
        shown = min(count + 1, MOST_SCREENS)
        screen = PER_CAPTION
        if self.channel is Channel.MULTIMODAL:
            size = SCREENS[episode.query.platform]
            sent = QWEN2_5_VL.fit(Size(round(size.width * self.scale), round(size.height * self.scale)))
            screen = ceil(sent.width / QWEN2_5_VL.factor) * ceil(sent.height / QWEN2_5_VL.factor)
        return count * PER_STEP + shown * screen


@dataclass(frozen=True)
class Plan:
    """A way of voting that is measured."""

    name: str
    votes: int = 1
    quorum: int = 1
    cascade: bool = False
    ensemble: bool = False

    def judge(self, ask: Ask, bill: Bill) -> Judge:
        """The judge of this plan that writes to a bill."""
        text = self._channel(Channel.TEXT, {1.0: TEXT}, bill)
        scales = {0.5: LOW, 1.0: FULL} if self.cascade else {1.0: FULL}
        return Judge(SilentStepCritic(), (text, self._channel(Channel.MULTIMODAL, scales, bill)), ask)

    def _channel(self, channel: Channel, scales: Mapping[float, Rates], bill: Bill) -> ChannelCritics:
        critics = tuple(self._critics(rates, channel, scale, bill) for scale, rates in scales.items())
        passes = (PassRule(self.votes, self.quorum, resolution_of(scale), 1 + self.ensemble) for scale in scales)
        return ChannelCritics(ChannelRule(channel, tuple(passes)), critics)

    def _critics(self, rates: Rates, channel: Channel, scale: float, bill: Bill) -> tuple[TrajectoryCritic, ...]:
        models = [rates, OTHER] if self.ensemble else [rates]
        return tuple(
            PaidCritic(one.critic(channel, resolution_of(scale), f"model-{number}"), bill, scale)
            for number, one in enumerate(models)
        )


PLANS = (
    Plan("one vote"),
    Plan("2 of 3", 3, 2),
    Plan("4 of 4", 4, 4),
    Plan("one vote, cascade", cascade=True),
    Plan("2 of 3, cascade", 3, 2, cascade=True),
    Plan("4 of 4 of two models", 4, 4, ensemble=True),
    Plan("4 of 4 of two models, cascade", 4, 4, cascade=True, ensemble=True),
)


class Measured(NamedTuple):
    """What one judging cost and gave."""

    episodes: list[Episode]
    bill: Bill

    @property
    def correct(self) -> list[bool | None]:
        """The verdicts, in order."""
        return [episode.judgement.correct if episode.judgement else None for episode in self.episodes]


def measure(plan: Plan, ask: Ask, episodes: Sequence[Episode]) -> Measured:
    """Judge the trajectories by a plan."""
    bill = Bill()
    made = asyncio.run(judge_episodes(episodes, plan.judge(ask, bill), Seen(), ORIGIN, concurrency=64))
    assert not made.failures
    return Measured(made.episodes, bill)


def report(plan: Plan, episodes: Sequence[Episode]) -> None:
    """One line per way of asking."""
    asked = {ask: measure(plan, ask, episodes) for ask in (Ask.ALL, Ask.CHANNELS, Ask.NEEDED)}
    every = asked[Ask.ALL]
    quality = next(level for level in calibrate(every.episodes, Seen()) if level.level == "trajectory")
    found = agreement(quality)
    rule = plan.judge(Ask.ALL, Bill()).rule
    print(f"\n{plan.name}: {rule}; precision {found.precision.value:.3f}, recall {found.recall.value:.3f}")
    for ask, one in asked.items():
        n = len(episodes)
        other = sum(a != b for a, b in zip(every.correct, one.correct, strict=True))
        print(
            f"  {ask:9} {one.bill.calls / n:7.2f} {one.bill.tokens / n:9,.0f}"
            f" {1 - one.bill.calls / every.bill.calls:9.1%} {1 - one.bill.tokens / every.bill.tokens:10.1%} {other:9}"
        )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--trajectories", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    world = load_world()
    outcomes = true_outcomes(benchmark_queries(world, arguments.queries, 0, arguments.seed), world)
    episodes = list(repeated(outcomes, arguments.trajectories))
    right = sum(episode.trajectory.reward == 1.0 for episode in episodes)
    print(f"{len(episodes)} trajectories, {right} of them right, {sum(e.trajectory.steps for e in episodes)} steps")
    print("            per trajectory         saved           other")
    print("  asked       calls    tokens     calls     tokens  verdicts")
    for plan in PLANS:
        report(plan, episodes)


if __name__ == "__main__":
    main()
