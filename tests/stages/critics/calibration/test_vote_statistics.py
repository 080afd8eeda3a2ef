"""Voting, cascades, ensembles and consensus have the rates that probability theory predicts from those of the critics.

The trajectories differ in nothing but the environment's own verdict; each vote errs independently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import pytest

from tests.stages.critics.calibration.known_rates import PASSED, Rates, SilentStepCritic, repeated
from tests.stages.critics.channels import HeldPass, channel_of
from tests.stages.critics.little_app import ORIGIN, Trees, right_walk
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.round_summary import JudgeQuality
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import Ask, StepResult, TrajectoryCritic, Vote
from trajmill.stages.critics.calibration.agreement import agreement, calibrate
from trajmill.stages.critics.judge import Judge, judge_episodes
from trajmill.stages.critics.voting import ChannelCritics
from trajmill.stages.metrics.intervals import Interval, wilson

pytestmark = pytest.mark.slow

TRAJECTORIES = 2400
Z = 3.29
"""Intervals of 99.9 %: there are many of them here."""
WEAK, BETTER, CHEAP = Rates(0.35, 0.15), Rates(0.2, 0.1), Rates(0.5, 0.05)
TEXT, MULTIMODAL = Channel.TEXT, Channel.MULTIMODAL


class Expected(NamedTuple):
    """Probability that a trajectory is judged Correct, given the truth."""

    if_right: float
    if_wrong: float


@pytest.fixture(scope="module")
def trajectories() -> list[Episode]:
    walk = right_walk(Trees()).end().model_copy(update={"steps": ()})
    outcomes = [
        walk.model_copy(update={"trajectory": walk.trajectory.model_copy(update={"reward": reward})})
        for reward in (PASSED, PASSED, 0.0, PASSED, 0.0)
    ]
    return list(repeated(outcomes, TRAJECTORIES))


def votes(rates: Rates, channel: Channel, count: int = 1, quorum: int = 1, resolution: str = "full") -> HeldPass:
    return HeldPass((rates.critic(channel, resolution),), count, quorum, resolution=resolution)


def ensemble(*models: Rates, count: int, quorum: int) -> HeldPass:
    critics = tuple(rates.critic(MULTIMODAL, version=f"model-{number}") for number, rates in enumerate(models))
    return HeldPass(critics, count, quorum)


def judged(episodes: Sequence[Episode], *channels: ChannelCritics, ask: Ask = Ask.NEEDED) -> list[Episode]:
    judge = Judge(SilentStepCritic(), channels, ask)
    result = asyncio.run(judge_episodes(episodes, judge, Trees(), ORIGIN, concurrency=64))
    assert not result.failures
    return result.episodes


def levels(episodes: Sequence[Episode]) -> dict[str, JudgeQuality]:
    return {quality.level: quality for quality in calibrate(episodes, Trees())}


def at_least(quorum: int, chances: Sequence[float]) -> float:
    """Probability that at least so many of some independent events happen."""
    happened = [1.0]
    for chance in chances:
        missed = [*(p * (1 - chance) for p in happened), 0.0]
        happened = [a + b for a, b in zip(missed, [0.0, *(p * chance for p in happened)], strict=True)]
    return sum(happened[quorum:])


def of_pass(models: Sequence[Rates], count: int, quorum: int) -> Expected:
    dealt = [models[number % len(models)] for number in range(count)]
    return Expected(
        at_least(quorum, [1 - rates.false_negative for rates in dealt]),
        at_least(quorum, [rates.false_positive for rates in dealt]),
    )


def together(*passes: Expected) -> Expected:
    return Expected(prod(one.if_right for one in passes), prod(one.if_wrong for one in passes))


def holds(chance: float, successes: int, n: int) -> bool:
    found = wilson(successes, n, Z)
    return found.low <= chance <= found.high


def check(quality: JudgeQuality, expected: Expected) -> None:
    tp, fp, tn, fn = quality.true_positive, quality.false_positive, quality.true_negative, quality.false_negative
    right, wrong = tp + fn, fp + tn
    assert right + wrong == TRAJECTORIES
    assert holds(expected.if_right, tp, right)
    assert holds(expected.if_wrong, fp, wrong)
    positives = right * expected.if_right + wrong * expected.if_wrong
    assert holds(right * expected.if_right / positives, tp, tp + fp)


ONE_TEXT = channel_of(votes(WEAK, TEXT))
ONE_VISUAL = channel_of(votes(BETTER, MULTIMODAL))
JUDGES = {
    "single": ((ONE_TEXT,), of_pass([WEAK], 1, 1)),
    "2 of 3": ((channel_of(votes(WEAK, TEXT, 3, 2)),), of_pass([WEAK], 3, 2)),
    "4 of 4": ((channel_of(votes(WEAK, TEXT, 4, 4)),), of_pass([WEAK], 4, 4)),
    "1 of 2": ((channel_of(votes(WEAK, TEXT, 2, 1)),), of_pass([WEAK], 2, 1)),
    "cascade": (
        (channel_of(votes(CHEAP, MULTIMODAL, resolution="0.5"), votes(BETTER, MULTIMODAL, 3, 2)),),
        together(of_pass([CHEAP], 1, 1), of_pass([BETTER], 3, 2)),
    ),
    "ensemble": (
        (channel_of(ensemble(WEAK, BETTER, count=4, quorum=3)),),
        of_pass([WEAK, BETTER], 4, 3),
    ),
    "consensus": ((ONE_TEXT, ONE_VISUAL), together(of_pass([WEAK], 1, 1), of_pass([BETTER], 1, 1))),
    "everything": (
        (
            channel_of(votes(WEAK, TEXT, 3, 2)),
            channel_of(votes(CHEAP, MULTIMODAL, resolution="0.5"), ensemble(WEAK, BETTER, count=2, quorum=2)),
        ),
        together(of_pass([WEAK], 3, 2), of_pass([CHEAP], 1, 1), of_pass([WEAK, BETTER], 2, 2)),
    ),
}


@pytest.fixture(scope="module")
def decided(trajectories: list[Episode]) -> dict[str, list[Episode]]:
    """The trajectories as each judge has judged them, which stopped asking when the decision was clear."""
    return {name: judged(trajectories, *channels) for name, (channels, _) in JUDGES.items()}


@pytest.mark.parametrize("name", JUDGES)
def test_precision_and_recall_are_what_probability_says(name: str, decided: dict[str, list[Episode]]) -> None:
    check(levels(decided[name])["trajectory"], JUDGES[name][1])


def test_each_ingredient_raises_precision(decided: dict[str, list[Episode]]) -> None:
    found = {name: agreement(levels(episodes)["trajectory"]) for name, episodes in decided.items()}

    def precision(name: str) -> Interval:
        return found[name].precision.interval

    for name in ("2 of 3", "4 of 4", "cascade", "ensemble", "consensus", "everything"):
        assert precision(name).low > precision("single").high, name
    assert precision("everything").low > precision("2 of 3").high
    assert found["4 of 4"].recall.interval.high < found["2 of 3"].recall.interval.low


@pytest.fixture(scope="module")
def asked(trajectories: list[Episode], decided: dict[str, list[Episode]]) -> dict[Ask, list[Episode]]:
    """The trajectories as the judge with everything has judged them, by how many votes it asked for."""
    channels, _ = JUDGES["everything"]
    more = {ask: judged(trajectories, *channels, ask=ask) for ask in (Ask.CHANNELS, Ask.ALL)}
    return {Ask.NEEDED: decided["everything"], **more}


def test_stopping_early_decides_the_same_with_fewer_votes(asked: dict[Ask, list[Episode]]) -> None:
    for episodes in zip(*(asked[ask] for ask in Ask), strict=True):
        assert len({episode.judgement.correct for episode in episodes if episode.judgement}) == 1
        fewest, more, everything = (
            {(v.channel, v.vote, v.correct) for v in episode.trajectory_verdicts} for episode in episodes
        )
        assert fewest <= more <= everything and len(everything) == 6
    needed, channels, all_ = (sum(len(e.trajectory_verdicts) for e in asked[ask]) for ask in Ask)
    assert needed < channels < all_


def test_every_channel_is_calibrated_where_every_channel_is_asked(asked: dict[Ask, list[Episode]]) -> None:
    for ask in (Ask.CHANNELS, Ask.ALL):
        found = levels(asked[ask])
        check(found["text"], of_pass([WEAK], 3, 2))
        check(found["multimodal"], together(of_pass([CHEAP], 1, 1), of_pass([WEAK, BETTER], 2, 2)))


@dataclass(frozen=True)
class Unreliable:
    """A critic that fails in a share of its votes, whatever it would have said."""

    inner: TrajectoryCritic
    chance: Rates
    resolution: str = "full"
    version: str = "unreliable"

    @property
    def channel(self) -> Channel:
        return self.inner.channel

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        lucky = await self.chance.critic(self.channel, version="luck").judge(episode, screens, steps, draw)
        if lucky.correct != (episode.trajectory.reward == PASSED):
            raise JudgeFailure("garbage")
        return await self.inner.judge(episode, screens, steps, draw)


def test_votes_that_fail_and_are_asked_again_change_no_rate(trajectories: list[Episode]) -> None:
    critic = Unreliable(WEAK.critic(TEXT), Rates(0.3, 0.3))
    judge = Judge(SilentStepCritic(), (channel_of(HeldPass((critic,), 3, 2), tries=12),), Ask.NEEDED)
    result = asyncio.run(judge_episodes(trajectories, judge, Trees(), ORIGIN, concurrency=64))
    assert not result.failures
    check(levels(result.episodes)["trajectory"], of_pass([WEAK], 3, 2))
