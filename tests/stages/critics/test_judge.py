from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.stages.critics.channels import Scripted
from tests.stages.critics.little_app import ORIGIN, Trees, Walk, launcher, right_walk
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.policy_version import JudgeQuality
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.app_graph.channels import GraphChannel, StepCriticByGraph, annotated_judge
from trajmill.stages.critics.calibration.agreement import Precision, agreement, calibrate, precise_enough
from trajmill.stages.critics.judge import (
    TRIED_AT_MOST,
    Judge,
    Judged,
    Unjudged,
    judge_episodes,
    still_to_judge,
    to_judge_again,
)
from trajmill.stages.critics.replay import SeenScreens
from trajmill.stages.critics.voting import Noise, ProgrammaticChannel, TrajectoryCritic, VotingCase, single_vote


async def run(episodes: Sequence[Episode], trees: Trees, *critics: TrajectoryCritic) -> Judged:
    judge = Judge(StepCriticByGraph({}), tuple(map(single_vote, critics))) if critics else annotated_judge()
    return await judge_episodes(episodes, judge, trees, ORIGIN)


def quality(tp: int, fp: int, tn: int = 9, fn: int = 9) -> JudgeQuality:
    return JudgeQuality(level="text", true_positive=tp, false_positive=fp, true_negative=tn, false_negative=fn)


@pytest.mark.parametrize(("text", "multimodal"), [(True, True), (True, False), (False, True), (False, False)])
async def test_correct_only_if_both_say_so(text: bool, multimodal: bool) -> None:
    trees = Trees()
    channels = Scripted([text], Channel.TEXT), Scripted([multimodal], Channel.MULTIMODAL)
    (episode,) = (await run([right_walk(trees).end()], trees, *channels)).episodes
    assert episode.judgement is not None
    assert episode.judgement.correct == (text and multimodal)
    assert episode.judgement.agreed == (text == multimodal)
    assert [verdict.correct for verdict in episode.trajectory_verdicts] == [text, multimodal]
    assert episode.judgement.made_by == "graph-step-4+scripted+scripted"


async def test_a_missing_screen_leaves_only_its_own_episode_unjudged() -> None:
    trees = Trees()
    good, bad = right_walk(trees).end(), Walk(launcher(), trees).end()
    lost = bad.steps[0].model_copy(update={"screen_before": "gone", "screen_after": "gone"})
    judged = await run([bad.model_copy(update={"steps": (lost,)}), good], trees)
    assert judged.episodes[0].judgement is None
    assert judged.episodes[1].judgement is not None and judged.episodes[1].judgement.correct
    assert [failure.failure_class for failure in judged.failures] == [FailureClass.JUDGE]


async def test_what_did_not_finish_is_not_judged_and_an_episode_without_steps_is_incorrect() -> None:
    trees = Trees()
    walk = right_walk(trees).end()
    void = walk.model_copy(update={"trajectory": walk.trajectory.model_copy(update={"status": "failed"})})
    judged = await run([void, walk.model_copy(update={"steps": ()})], trees)
    assert judged.episodes[0] == void and judged.failures == []
    assert judged.episodes[1].judgement is not None and not judged.episodes[1].judgement.correct


async def test_noise_flips_votes_at_its_rates_and_is_repeatable() -> None:
    trees, noise = Trees(), Noise(0.3, 0.1, 1)
    walk = right_walk(trees).end()
    others = (walk.trajectory.model_copy(update={"trajectory_id": f"walk {number}"}) for number in range(400))
    cases = [VotingCase(walk.model_copy(update={"trajectory": each}), trees, []) for each in others]

    async def flips(correct: bool, noise: Noise = noise, channel: Channel = Channel.TEXT) -> list[bool]:
        critic = Scripted([correct], channel)
        return [noise.on(await critic.judge(*case), case, 0).correct is not correct for case in cases]

    missed = await flips(True)
    assert missed == await flips(True) != await flips(True, channel=Channel.MULTIMODAL)
    assert 20 < sum(missed) < 60 and 88 < sum(await flips(False)) < 152
    assert not any(await flips(True, Noise(0.0, 0.0, 1)))


async def test_counts_against_the_programmatic_check() -> None:
    trees = Trees()
    walks = [right_walk(trees).end(reward=reward) for reward in (1.0, 0.0, None)]
    walks += [Walk(launcher(), trees).end(reward=reward) for reward in (0.0, 1.0)]
    counts = calibrate((await run(walks, trees)).episodes, trees)
    expected = quality(1, 1, 1, 1)
    assert set(counts) == {
        expected.model_copy(update={"level": level}) for level in ("trajectory", "text", "multimodal")
    }


@pytest.mark.parametrize("others", [(), (GraphChannel(Channel.TEXT, {}),)])
async def test_a_judge_that_asks_the_programmatic_check_is_not_measured_by_it(others: tuple[GraphChannel, ...]) -> None:
    trees = Trees()
    walks = [right_walk(trees).end(reward=1.0), right_walk(trees).end(reward=0.0)]
    episodes = (await run(walks, trees, *others, ProgrammaticChannel())).episodes
    assert all(episode.judgement is not None for episode in episodes)
    found = {each.level: sum(each.model_dump(exclude={"level"}).values()) for each in calibrate(episodes, trees)}
    assert found == {"trajectory": 0, **dict.fromkeys((critic.channel.value for critic in others), 2)}


def test_rates_of_an_agreement() -> None:
    found = agreement(quality(8, 2, 85, 5))
    assert found.precision.value == pytest.approx(0.8)
    assert found.recall.value == pytest.approx(8 / 13)
    assert found.f1 == pytest.approx(2 * 0.8 * (8 / 13) / (0.8 + 8 / 13))
    assert found.kappa == pytest.approx((0.93 - (0.1 * 0.13 + 0.9 * 0.87)) / (1 - (0.1 * 0.13 + 0.9 * 0.87)))
    nothing = agreement(quality(0, 0, 0, 0))
    assert nothing.precision.value is None and nothing.kappa is None and nothing.precision.interval == (0.0, 1.0)


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ([(3, 0)], Precision.ENOUGH),  # however few there are
        ([(8, 2)], Precision.ENOUGH),
        ([(79, 21)], Precision.TOO_LOW),  # though the interval reaches beyond the floor
        ([(0, 4)], Precision.TOO_LOW),
        ([(0, 0)], Precision.UNKNOWN),  # it called nothing Correct
        ([(90, 10), (0, 0), (7, 3)], Precision.TOO_LOW),  # the least precise version decides
        ([(90, 10), (0, 0)], Precision.ENOUGH),
        ([], Precision.UNKNOWN),
    ],
)
def test_the_measured_precision_decides(counts: list[tuple[int, int]], found: Precision) -> None:
    assert precise_enough([quality(*each) for each in counts], 0.8) is found


async def test_screens_are_read_once_and_memory_is_bounded() -> None:
    @dataclass
    class Counting(Trees):
        asked: int = 0

        def elements(self, screen_id: str) -> tuple[UIElement, ...]:
            self.asked += 1
            return super().elements(screen_id)

    counting = Counting()
    episode = right_walk(counting).end()
    await run([episode] * 5, counting)
    assert counting.asked == len(counting.known)
    small = SeenScreens(counting, capacity=2)
    first = await judge_episodes([episode], annotated_judge(), small, ORIGIN)
    assert first.episodes[0].judgement is not None and first.episodes[0].judgement.correct


def test_only_what_failed_before_and_is_not_given_up_is_judged_again_in_order() -> None:
    failed_tries = {"often": TRIED_AT_MOST, "once": 1, "late": 1}
    assert still_to_judge(["once", "often", "late", "new"], failed_tries, {"late"}) == {"once": 1, "new": 0}
    rounds = {"b": 2, "c": 1, "a": 2, "new": 1}
    again = to_judge_again(rounds, {"a": 1, "b": 2, "c": 1, "foreign": 1}, judged=())
    assert again == [Unjudged(1, "c", 1), Unjudged(2, "a", 1), Unjudged(2, "b", 2)]
