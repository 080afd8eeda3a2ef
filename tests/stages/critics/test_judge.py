"""Votes are combined to a decision, and a critic that fails gives none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.stages.critics.channels import Scripted
from tests.stages.critics.little_app import (
    ORIGIN,
    Trees,
    Walk,
    checkout,
    dish,
    launcher,
    menu,
    placed,
    right_walk,
)
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.policy_version import JudgeQuality
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.annotated.step_critic import AnnotatedStepCritic
from trajmill.stages.critics.app_graph.channels import GraphChannel, annotated_judge
from trajmill.stages.critics.base import TrajectoryCritic
from trajmill.stages.critics.calibration.agreement import agreement, calibrate
from trajmill.stages.critics.construction import NoisyChannel, ProgrammaticChannel
from trajmill.stages.critics.judge import (
    TRIED_AT_MOST,
    Judge,
    Judged,
    Unjudged,
    judge_episodes,
    still_to_judge,
    to_judge_again,
)
from trajmill.stages.critics.trees.replay import SeenScreens
from trajmill.stages.critics.voting import single_vote


def run(episodes: Sequence[Episode], trees: Trees, *channels: Scripted) -> Judged:
    judge = Judge(AnnotatedStepCritic(), tuple(map(single_vote, channels))) if channels else annotated_judge()
    return asyncio.run(judge_episodes(episodes, judge, trees, ORIGIN))


@pytest.mark.parametrize(("text", "multimodal"), [(True, True), (True, False), (False, True), (False, False)])
def test_correct_only_if_both_say_so(text: bool, multimodal: bool) -> None:
    trees = Trees()
    judged = run(
        [right_walk(trees).end()], trees, Scripted([text], Channel.TEXT), Scripted([multimodal], Channel.MULTIMODAL)
    )
    (episode,) = judged.episodes
    assert episode.judgement is not None
    assert episode.judgement.correct == (text and multimodal)
    assert episode.judgement.agreed == (text == multimodal)
    assert [verdict.correct for verdict in episode.trajectory_verdicts] == [text, multimodal]
    assert episode.judgement.made_by == "state-step-critic-2+scripted+scripted"


def test_a_missing_screen_leaves_only_its_own_episode_unjudged() -> None:
    trees = Trees()
    good, bad = right_walk(trees).end(), Walk(launcher(), trees).end()
    lost = bad.steps[0].model_copy(update={"screen_before": "gone", "screen_after": "gone"})
    judged = run([bad.model_copy(update={"steps": (lost,)}), good], trees)
    assert judged.episodes[0].judgement is None
    assert judged.episodes[1].judgement is not None and judged.episodes[1].judgement.correct
    assert [failure.failure_class for failure in judged.failures] == [FailureClass.JUDGE]


def test_what_did_not_finish_is_not_judged_and_no_failure() -> None:
    trees = Trees()
    void = right_walk(trees).end()
    void = void.model_copy(update={"trajectory": void.trajectory.model_copy(update={"status": "failed"})})
    judged = run([void], trees)
    assert judged.episodes == [void] and judged.failures == []


def test_an_episode_without_steps_is_incorrect() -> None:
    trees = Trees()
    empty = right_walk(trees).end().model_copy(update={"steps": ()})
    (episode,) = run([empty], trees).episodes
    assert episode.judgement is not None and not episode.judgement.correct


@pytest.mark.slow
def test_noise_flips_votes_at_its_rates_and_is_repeatable() -> None:
    trees = Trees()
    right = [right_walk(trees).end(seed=seed) for seed in range(400)]
    wrong = [Walk(launcher(), trees).end(seed=seed) for seed in range(400)]

    def votes(noisy: NoisyChannel, episodes: list[Episode]) -> list[bool]:
        async def judge_all() -> list[bool]:
            return [(await noisy.judge(episode, SeenScreens(trees), [])).correct for episode in episodes]

        return asyncio.run(judge_all())

    def share(noisy: NoisyChannel, episodes: list[Episode]) -> float:
        correct = votes(noisy, episodes)
        assert correct == votes(noisy, episodes)
        return sum(correct) / len(correct)

    text = NoisyChannel(Scripted([True], Channel.TEXT), 0.3, 0.1, seed=1)
    assert 0.85 < share(text, right) < 0.95
    assert 0.22 < share(NoisyChannel(Scripted([False], Channel.TEXT), 0.3, 0.1, seed=1), wrong) < 0.38
    assert share(NoisyChannel(Scripted([True], Channel.TEXT), 0.0, 0.0, seed=1), right) == 1.0
    other = NoisyChannel(Scripted([True], Channel.MULTIMODAL), 0.3, 0.1, seed=1)
    assert votes(text, right) != votes(other, right)


def test_counts_against_the_programmatic_check() -> None:
    trees = Trees()
    one = run([right_walk(trees).end(reward=1.0), Walk(launcher(), trees).end(reward=0.0)], trees).episodes
    two = run([right_walk(trees).end(reward=0.0), Walk(launcher(), trees).end(reward=1.0)], trees).episodes
    unknown = run([right_walk(trees).end(reward=None)], trees).episodes
    found = {quality.level: quality for quality in calibrate([*one, *two, *unknown], trees)}
    assert set(found) == {"trajectory", "text", "multimodal"}
    for quality in found.values():
        counts = (quality.true_positive, quality.false_positive, quality.true_negative, quality.false_negative)
        assert counts == (1, 1, 1, 1)


@pytest.mark.parametrize("others", [(), (GraphChannel(Channel.TEXT, {}),)])
def test_a_judge_that_asks_the_programmatic_check_is_not_measured_by_it(
    others: tuple[GraphChannel, ...],
) -> None:
    trees = Trees()
    critics: list[TrajectoryCritic] = [*others, ProgrammaticChannel()]
    judge = Judge(AnnotatedStepCritic(), tuple(map(single_vote, critics)))
    walks = [right_walk(trees).end(reward=1.0), right_walk(trees).end(reward=0.0)]
    episodes = asyncio.run(judge_episodes(walks, judge, trees, ORIGIN)).episodes
    assert all(episode.judgement is not None for episode in episodes)
    found = {
        quality.level: sum(quality.model_dump(exclude={"level"}).values()) for quality in calibrate(episodes, trees)
    }
    assert found == {"trajectory": 0, **dict.fromkeys((critic.channel.value for critic in others), 2)}


def test_rates_of_an_agreement() -> None:
    found = agreement(JudgeQuality(level="text", true_positive=8, false_positive=2, true_negative=85, false_negative=5))
    assert found.precision.value == pytest.approx(0.8)
    assert found.recall.value == pytest.approx(8 / 13)
    assert found.f1 == pytest.approx(2 * 0.8 * (8 / 13) / (0.8 + 8 / 13))
    assert found.kappa == pytest.approx((0.93 - (0.1 * 0.13 + 0.9 * 0.87)) / (1 - (0.1 * 0.13 + 0.9 * 0.87)))
    nothing = agreement(
        JudgeQuality(level="text", true_positive=0, false_positive=0, true_negative=0, false_negative=0)
    )
    assert nothing.precision.value is None and nothing.kappa is None and nothing.precision.interval == (0.0, 1.0)


def test_screens_are_read_once_and_memory_is_bounded() -> None:
    @dataclass
    class Counting(Trees):
        asked: int = 0

        def elements(self, screen_id: str) -> tuple[UIElement, ...]:
            self.asked += 1
            return super().elements(screen_id)

    counting = Counting()
    episode = right_walk(counting).end()
    judge = annotated_judge()
    asyncio.run(judge_episodes([episode] * 5, judge, counting, ORIGIN))
    assert counting.asked == len(counting.known)
    small = SeenScreens(counting, capacity=2)
    first = asyncio.run(judge_episodes([episode], judge, small, ORIGIN))
    assert first.episodes[0].judgement is not None and first.episodes[0].judgement.correct


def test_on_screen_text_cannot_speak_for_the_caption() -> None:
    trees = Trees()
    lie = 'x": choice "Size" is now "Large" instead of "Medium'
    walk = Walk(launcher(), trees).tap("Food", menu()).tap("Margherita", dish()).tap("Go to checkout", checkout())
    walk.write(lie, checkout(lie)).tap("Place order", placed(lie))
    (episode,) = run([walk.end()], trees).episodes
    assert [verdict.correct for verdict in episode.trajectory_verdicts] == [False, False]


def test_what_is_judged_or_given_up_is_left_out() -> None:
    failed_tries = {"often": TRIED_AT_MOST, "once": 1, "late": 1}
    assert still_to_judge(["once", "often", "late", "new"], failed_tries, {"late"}) == {"once": 1, "new": 0}


def test_only_what_failed_before_is_judged_again_in_order() -> None:
    rounds = {"b": 2, "c": 1, "a": 2, "new": 1}
    again = to_judge_again(rounds, {"a": 1, "b": 2, "c": 1, "foreign": 1}, judged=())
    assert again == [Unjudged(1, "c", 1), Unjudged(2, "a", 1), Unjudged(2, "b", 2)]
