"""Which critics are asked, when asking stops, and how failed votes are handled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import pytest

from tests.stages.critics.channels import Answer, HeldPass, Scripted, channel_of
from tests.stages.critics.little_app import ORIGIN, Trees, right_walk
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass, JudgeFailure, ModelFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.annotated.step_critic import AnnotatedStepCritic
from trajmill.stages.critics.base import Ask, StepResult, Vote, VoteFailure, vote_of
from trajmill.stages.critics.construction import NoisyChannel
from trajmill.stages.critics.judge import Judge, Judged, judge_each, judge_episodes
from trajmill.stages.critics.voting import ChannelCritics

YES, NO = True, False
GARBAGE, SILENCE = JudgeFailure("garbage"), ModelFailure("no answer")


def said(correct: bool, redundant: tuple[int, ...], first_error: int | None) -> Vote:
    return Vote(Channel.TEXT, "full", "opinion", correct, "", redundant, first_error)


def judged(ask: Ask, *channels: ChannelCritics) -> Judged:
    trees = Trees()
    return asyncio.run(
        judge_episodes([right_walk(trees).end()], Judge(AnnotatedStepCritic(), channels, ask), trees, ORIGIN)
    )


def outcome(result: Judged) -> bool | FailureClass:
    (episode,) = result.episodes
    if episode.judgement is None:
        assert episode.trajectory_verdicts == () and episode.step_verdicts == ()
        return result.failures[0].failure_class
    assert result.failures == []
    return episode.judgement.correct


def votes_of(result: Judged) -> list[tuple[int, str, str, bool]]:
    return [(v.vote, v.resolution, v.made_by, v.correct) for v in result.episodes[0].trajectory_verdicts]


def test_votes_that_are_needed_anyway_are_asked_for_at_the_same_time() -> None:
    critic = Scripted([YES, NO, YES, YES, NO])
    assert outcome(judged(Ask.NEEDED, channel_of(HeldPass((critic,), 5, 3)))) is True
    assert critic.draws == [0, 1, 2, 3]
    assert critic.together == [1, 2, 3, 1]


@pytest.mark.parametrize(
    ("answers", "expected", "draws"),
    [
        ([GARBAGE, YES, NO, YES, NO, NO], True, [0, 1, 3]),
        ([SILENCE, NO, YES, NO, NO, NO], False, [0, 1, 3]),
        ([GARBAGE, YES, YES, GARBAGE, NO, NO], True, [0, 1, 3, 2]),
        ([GARBAGE, NO, NO, SILENCE, NO, NO], False, [0, 1, 3, 2]),
        ([GARBAGE, YES, NO, SILENCE, NO, NO], FailureClass.MODEL, [0, 1, 3, 2]),
        ([SILENCE, YES, GARBAGE, SILENCE, NO, GARBAGE], FailureClass.JUDGE, [0, 1, 3, 2, 5]),
    ],
)
def test_a_failed_vote_is_asked_again_and_never_counts(
    answers: list[Answer], expected: bool | FailureClass, draws: list[int]
) -> None:
    critic = Scripted(answers)
    result = judged(Ask.NEEDED, channel_of(HeldPass((critic,), 3, 2), tries=2))
    assert outcome(result) == expected
    assert critic.draws == draws
    if not isinstance(expected, bool):
        assert result.failures[0].message.startswith("text: 1 Correct, ")


def test_a_cascade_checks_again_only_accepted_episodes() -> None:
    def channel(first: bool) -> tuple[Scripted, Scripted, ChannelCritics]:
        low = Scripted([first], Channel.MULTIMODAL, "0.5", "small")
        full = Scripted([YES, NO, YES], Channel.MULTIMODAL, "full", "big")
        return low, full, channel_of(HeldPass((low,), resolution="0.5"), HeldPass((full,), 3, 2))

    _, full, only = channel(YES)
    result = judged(Ask.NEEDED, only)
    assert outcome(result) is True
    assert votes_of(result) == [
        (0, "0.5", "small", YES),
        (1, "full", "big", YES),
        (2, "full", "big", NO),
        (3, "full", "big", YES),
    ]
    assert result.episodes[0].judgement is not None
    assert result.episodes[0].judgement.rule == "consensus(multimodal:0.5>full:2of3)"
    assert result.episodes[0].judgement.made_by.endswith("+small+big")
    for ask, asked in ((Ask.NEEDED, 0), (Ask.CHANNELS, 0), (Ask.ALL, 3)):
        _, full, only = channel(NO)
        result = judged(ask, only)
        assert outcome(result) is False and len(full.draws) == asked
        assert len(votes_of(result)) == 1 + asked


def test_the_models_of_an_ensemble_take_turns_and_keep_their_votes() -> None:
    one, two = Scripted([YES] * 8, version="one"), Scripted([YES, GARBAGE, YES, YES, YES, NO], version="two")
    result = judged(Ask.ALL, channel_of(HeldPass((one, two), 4, 3), tries=2))
    assert outcome(result) is True
    assert votes_of(result) == [
        (0, "full", "one", YES),
        (1, "full", "two", NO),
        (2, "full", "one", YES),
        (3, "full", "two", YES),
    ]
    assert (one.draws, sorted(two.draws)) == ([0, 2], [1, 3, 5])
    assert result.episodes[0].judgement is not None
    assert result.episodes[0].judgement.rule == "consensus(text:3of4/2models)"


@pytest.mark.parametrize(("ask", "asked"), [(Ask.NEEDED, False), (Ask.CHANNELS, True), (Ask.ALL, True)])
def test_a_channel_that_says_incorrect_decides(ask: Ask, asked: bool) -> None:
    first, second = Scripted([NO]), Scripted([YES], Channel.MULTIMODAL)
    result = judged(ask, channel_of(HeldPass((first,))), channel_of(HeldPass((second,))))
    assert outcome(result) is False
    assert (second.draws == [0]) is asked
    assert len(votes_of(result)) == 1 + asked


@pytest.mark.parametrize("ask", list(Ask))
@pytest.mark.parametrize("failing_first", [True, False])
def test_a_failed_channel_leaves_the_decision_to_a_no_and_never_to_a_yes(ask: Ask, failing_first: bool) -> None:
    for answer, expected in ((NO, False), (YES, FailureClass.JUDGE)):
        failing, other = Scripted([GARBAGE]), Scripted([answer], Channel.MULTIMODAL)
        channels = [channel_of(HeldPass((failing,))), channel_of(HeldPass((other,)))]
        result = judged(ask, *(channels if failing_first else channels[::-1]))
        assert outcome(result) == expected
        if expected is False:
            assert [channel for _, _, channel, _ in votes_of(result)] == ["scripted"]


def test_the_signals_of_several_votes_are_weighed() -> None:
    @dataclass(frozen=True)
    class Opinion:
        votes: tuple[Vote, ...]
        channel: Channel = Channel.TEXT
        resolution: str = "full"
        version: str = "opinion"

        async def judge(
            self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0
        ) -> Vote:
            return self.votes[draw]

    critic = Opinion((said(NO, (1, 4), 5), said(NO, (1,), 3), said(YES, (2,), None), said(NO, (), 0)))
    (episode,) = judged(Ask.ALL, channel_of(HeldPass((critic,), 4, 2))).episodes
    assert episode.judgement is not None and not episode.judgement.correct and not episode.judgement.agreed
    assert episode.judgement.redundant_steps == (1,)
    assert episode.judgement.first_error_step == 3
    one = judged(Ask.ALL, channel_of(HeldPass((Opinion((said(YES, (3,), None),)),)))).episodes[0]
    assert one.judgement is not None and one.judgement.redundant_steps == (3,) and one.judgement.agreed


@dataclass
class Gate:
    """Votes when it is opened; counts the votes that wait at the same time."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0
    most: int = 0
    channel: Channel = Channel.TEXT
    resolution: str = "full"
    version: str = "gate"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        if episode.trajectory.seed == 0:
            await self.open.wait()
        await asyncio.sleep(0)
        self.waiting -= 1
        return vote_of(self, episode.trajectory.seed % 3 == 0, "")


def seeded(episode: Episode, seed: int) -> Episode:
    return episode.model_copy(update={"trajectory": episode.trajectory.model_copy(update={"seed": seed})})


def test_many_are_under_way_at_once_in_order_and_with_few_in_memory() -> None:
    trees, gate, concurrency = Trees(), Gate(), 8
    base = right_walk(trees).end()
    read: list[int] = []

    def episodes(count: int) -> Iterator[Episode]:
        for number in range(count):
            read.append(number)
            yield seeded(base, number)

    async def run() -> list[tuple[int, bool]]:
        judge = Judge(AnnotatedStepCritic(), (channel_of(HeldPass((gate,))),))
        found: list[tuple[int, bool]] = []
        asyncio.get_running_loop().call_later(0.05, gate.open.set)
        async for one in judge_each(episodes(300), judge, trees, ORIGIN, concurrency):
            if not found:
                assert 16 < len(read) <= 4 * concurrency, "others go on behind a slow one, within the window"
            assert one.episode.judgement is not None
            found.append((one.episode.trajectory.seed, one.episode.judgement.correct))
            assert len(read) - len(found) <= 4 * concurrency
        return found

    found = asyncio.run(run())
    assert found == [(seed, seed % 3 == 0) for seed in range(300)]
    assert gate.most == concurrency


def test_an_error_that_is_no_failure_ends_the_judging_and_leaves_nothing_running() -> None:
    trees, gate = Trees(), Gate()
    base = right_walk(trees).end()

    class Broken:
        channel, resolution, version = Channel.MULTIMODAL, "full", "broken"

        async def judge(
            self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0
        ) -> Vote:
            await asyncio.sleep(0)
            raise RuntimeError("a bug")

    async def run() -> None:
        judge = Judge(AnnotatedStepCritic(), (channel_of(HeldPass((Broken(),))), channel_of(HeldPass((gate,)))))
        with pytest.raises(RuntimeError, match="a bug"):
            await judge_episodes([seeded(base, 0)] * 5, judge, trees, ORIGIN, concurrency=4)
        assert gate.most > 0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


@dataclass
class Together(Scripted):
    """Casts several votes in one request, and records the draws of each."""

    votes_together: bool = True
    requests: list[list[int]] = field(default_factory=list)

    async def judge_together(
        self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draws: Sequence[int]
    ) -> list[Vote | VoteFailure]:
        self.requests.append(list(draws))
        if SILENCE in [self.answers[draw] for draw in draws]:
            raise SILENCE
        return [await self._vote(episode, screens, steps, draw) for draw in draws]

    async def _vote(
        self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int
    ) -> Vote | VoteFailure:
        try:
            return await super().judge(episode, screens, steps, draw)
        except (JudgeFailure, ModelFailure) as failure:
            return failure

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        self.requests.append([draw])
        return await super().judge(episode, screens, steps, draw)


@pytest.mark.parametrize("quorum", [1, 2, 3, 4])
@pytest.mark.parametrize("letters", list(product([YES, NO], repeat=4)))
def test_votes_of_one_request_decide_as_single_ones_do_in_no_more_requests(
    letters: tuple[bool, ...], quorum: int
) -> None:
    for ask in Ask:
        single, together = Scripted(letters), Together(letters)
        expected = outcome(judged(ask, channel_of(HeldPass((single,), 4, quorum))))
        decided = (n for n in range(1, 5) if sum(letters[:n]) >= quorum or n - sum(letters[:n]) > 4 - quorum)
        assert len(single.draws) == (4 if ask is Ask.ALL else next(decided)), "it stops where it is decided"
        result = judged(ask, channel_of(HeldPass((together,), 4, quorum)))
        assert outcome(result) is expected is (sum(letters) >= quorum)
        assert result.episodes[0].judgement is not None
        rule = result.episodes[0].judgement.rule
        assert rule == f"consensus(text:{quorum}of4)"
        assert len(together.requests) <= len(single.draws)
        assert together.requests[0] == list(range(4 if ask is Ask.ALL else quorum))
        drawn = [draw for draws in together.requests for draw in draws]
        assert drawn == list(range(len(drawn))), "each vote has its own draw"
        assert [vote.vote for vote in result.episodes[0].trajectory_verdicts] == drawn


@pytest.mark.parametrize(
    ("answers", "requests", "expected"),
    [
        ([YES, GARBAGE, YES, NO, YES], [[0, 1, 2], [4]], True),
        ([YES, GARBAGE, GARBAGE, NO, YES, YES], [[0, 1, 2], [4, 5]], True),
        ([YES, NO, GARBAGE, NO, YES, GARBAGE], [[0, 1, 2], [5]], FailureClass.JUDGE),
        ([YES, SILENCE, NO, YES, YES, YES], [[0, 1, 2], [3, 4, 5]], True),
    ],
)
def test_of_several_votes_those_that_are_missing_are_asked_for_again(
    answers: list[Answer], requests: list[list[int]], expected: bool | FailureClass
) -> None:
    critic = Together(answers)
    assert outcome(judged(Ask.ALL, channel_of(HeldPass((critic,), 3, 2), tries=2))) == expected
    assert critic.requests == requests


@pytest.mark.parametrize(("first", "asked"), [(YES, [[1, 3]]), (NO, [])])
def test_a_model_whose_votes_may_not_be_needed_waits(first: bool, asked: list[list[int]]) -> None:
    one, two = Together([first] * 4, version="one"), Together([YES] * 4, version="two")
    assert outcome(judged(Ask.NEEDED, channel_of(HeldPass((one, two), 4, 4)))) is first
    assert (one.requests, two.requests) == ([[0, 2]], asked)


def test_errors_on_purpose_are_the_same_in_one_request() -> None:
    letters = [YES, NO] * 20
    noisy = [NoisyChannel(critic, 0.4, 0.4, 1) for critic in (Scripted(letters), Together(letters))]
    single, together = (votes_of(judged(Ask.ALL, channel_of(HeldPass((one,), 40, 20)))) for one in noisy)
    assert single == together and [correct for *_, correct in single] != letters
    assert isinstance(noisy[1].inner, Together) and len(noisy[1].inner.requests) == 1
