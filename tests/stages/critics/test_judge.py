from collections.abc import Sequence

import pytest

from tests.stages.critics.little_app import ORIGIN, Trees, Walk, launcher, right_walk
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.tables.policy_version import JudgeQuality
from trajmill.schemas.tables.verdict import Channel, Ingredient
from trajmill.stages.critics.app_graph.channels import GraphChannel, StepCriticByGraph, annotated_judge
from trajmill.stages.critics.calibration.agreement import (
    CallCost,
    LabelledVotes,
    Precision,
    agreement,
    calibrate,
    precise_enough,
    tally,
)
from trajmill.stages.critics.judge import Judge, Judged, judge_episodes
from trajmill.stages.critics.voting import ProgrammaticChannel, TrajectoryCritic, Vote, read_rule, single_vote


async def run(episodes: Sequence[Episode], trees: Trees, *critics: TrajectoryCritic) -> Judged:
    judge = Judge(StepCriticByGraph({}), tuple(map(single_vote, critics))) if critics else annotated_judge()
    return await judge_episodes(episodes, judge, trees, ORIGIN)


def quality(tp: int, fp: int, tn: int = 9, fn: int = 9) -> JudgeQuality:
    return JudgeQuality(level="text", true_positive=tp, false_positive=fp, true_negative=tn, false_negative=fn)


async def test_a_missing_screen_or_an_unfinished_attempt_leaves_only_its_own_episode_unjudged() -> None:
    trees = Trees()
    good, bad = right_walk(trees).end(), Walk(launcher(), trees).end()
    lost = bad.steps[0].model_copy(update={"screen_before": "gone", "screen_after": "gone"})
    judged = await run([bad.model_copy(update={"steps": (lost,)}), good], trees)
    assert judged.episodes[0].judgement is None
    assert judged.episodes[1].judgement is not None and judged.episodes[1].judgement.correct
    assert [failure.failure_class for failure in judged.failures] == [FailureClass.JUDGE]
    void = good.model_copy(update={"trajectory": good.trajectory.model_copy(update={"status": "failed"})})
    judged = await run([void, good.model_copy(update={"steps": ()})], trees)
    assert judged.episodes[0] == void and judged.failures == []
    assert judged.episodes[1].judgement is not None and not judged.episodes[1].judgement.correct


async def test_counts_against_the_programmatic_check() -> None:
    trees = Trees()
    walks = [right_walk(trees).end(reward=reward) for reward in (1.0, 0.0, None)]
    walks += [Walk(launcher(), trees).end(reward=reward) for reward in (0.0, 1.0)]
    counts = calibrate((await run(walks, trees)).episodes, trees)
    found = {each.level: each.model_copy(update={"level": "text"}) for each in counts}
    assert found == dict.fromkeys(("trajectory", "text", "multimodal"), quality(1, 1, 1, 1))


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
        ([], Precision.UNKNOWN),
    ],
)
def test_the_measured_precision_decides(counts: list[tuple[int, int]], found: Precision) -> None:
    assert precise_enough([quality(*each) for each in counts], 0.8) is found


TWO_MODELS = read_rule("consensus(text,multimodal:0.5:4of4/2models>full:3of4/2models)")
TEXT, MULTIMODAL = Channel.TEXT, Channel.MULTIMODAL


def votes_of(text: str, multimodal: str) -> list[Vote]:
    """Votes from letters: y, n, or `-` for a missing one."""
    return [
        Vote(channel, "full", f"p@{'ab'[number % 2]}", letter == "y", number=number)
        for channel, letters in ((TEXT, text), (MULTIMODAL, multimodal))
        for number, letter in enumerate(letters)
        if letter != "-"
    ]


def spent(role: str, draw: int | None = None, scale: float = 1.0, payload: str = "p", cached: bool = False) -> CallCost:
    return CallCost(role, payload, () if draw is None else (draw,), scale, 6, 4, 100.0, cached)


def test_a_verdict_takes_the_calls_of_its_votes_the_steps_and_each_caption_once() -> None:
    calls = [
        *[spent("critic.step")] * 3,
        spent("describer", payload="screen-1"),
        spent("describer", payload="screen-1", cached=True),
        spent("describer", payload="screen-2"),
        spent("critic.text", 0),
        *(spent("critic.multimodal", draw, 0.5) for draw in range(4)),
        *(spent("critic.multimodal", draw, 1.0, cached=draw == 3) for draw in range(4)),
        spent("critic.multimodal", 4, 1.0),
    ]
    found = {
        (each.ingredient.kind, each.ingredient.channel, each.ingredient.resolution): each
        for each in reversed(tally(TWO_MODELS, [LabelledVotes(True, votes_of("y", "y" * 8), calls)] * 2))
    }
    single = found[Ingredient.SINGLE, MULTIMODAL, "full"]
    assert (single.calls, single.tokens, single.milliseconds) == (2 * 5, 2 * 50, 2 * 500.0), "vote 0 was asked twice"
    assert list(single.models) == ["p@a"]
    assert found[Ingredient.SINGLE, MULTIMODAL, "0.5"].calls == 2 * 4
    assert found[Ingredient.CHANNEL, TEXT, "full"].calls == 2 * (3 + 2 + 1)
    whole = found[Ingredient.CONSENSUS, None, None]
    assert (whole.calls, whole.cached, whole.milliseconds) == (2 * 15, 2, 2 * 1400.0)
    assert list(whole.models) == ["p@a", "p@b"]


def test_votes_of_one_request_share_its_prompt_and_each_takes_its_answer() -> None:
    rule = read_rule("consensus(multimodal:4of4/2models)")
    together = CallCost("critic.multimodal", "p", (0, 2), 1.0, 1000, 60, 500.0, False)
    other = CallCost("critic.multimodal", "q", (1, 3), 1.0, 2000, 80, 700.0, False)
    again = CallCost("critic.multimodal", "r", (6,), 1.0, 1100, 30, 200.0, False)
    evidence = [LabelledVotes(True, votes_of("", "yyyy"), [together, other, again])]
    found = {
        (each.ingredient.kind, each.ingredient.subsets[0].numbers): (each.calls, each.tokens, each.milliseconds)
        for each in tally(rule, evidence)
    }
    assert found[Ingredient.SINGLE, (0,)] == (1, 1030, 500.0)
    assert found[Ingredient.SINGLE, (1,)] == (1, 2040, 700.0)
    assert found[Ingredient.VOTING, (0, 2)] == (2, 1060 + 1130, 700.0), "vote 2 was asked for again"
    assert found[Ingredient.CONSENSUS, (0, 1, 2, 3)] == (3, 1060 + 1130 + 2080, 1400.0)


def test_agreement_is_counted_and_what_is_open_is_no_verdict() -> None:
    rule = read_rule("consensus(text:2of2)")
    cases = [(True, "yy"), (False, "yy"), (False, "yn"), (True, "n-"), (True, "y-"), (True, "-y")]
    evidence = [LabelledVotes(passed, votes_of(letters, ""), []) for passed, letters in cases]
    single, *_, whole = tally(rule, evidence)
    counts = whole.quality.model_copy(update={"level": "text"})
    assert (counts, whole.undecided, whole.trajectories) == (quality(1, 1, 1, 1), 2, 6)
    assert single.ingredient.kind is Ingredient.SINGLE and single.undecided == 1
