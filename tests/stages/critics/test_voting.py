import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import pytest

from tests.stages.critics.little_app import ORIGIN, Trees, right_walk
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass, JudgeFailure, ModelFailure, StageError
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel, Judgement
from trajmill.stages.critics.app_graph.channels import StepCriticByGraph
from trajmill.stages.critics.judge import Judge, Judged, judge_each, judge_episodes
from trajmill.stages.critics.voting import (
    FULL,
    Ask,
    ChannelCritics,
    ChannelRule,
    PassRule,
    Rule,
    StepResult,
    TrajectoryCritic,
    Vote,
    VoteFailure,
    read_rule,
    vote_of,
)

Answer = bool | StageError
YES, NO = True, False
GARBAGE, SILENCE = JudgeFailure("garbage"), ModelFailure("no answer")
TREES = Trees()
WALK = right_walk(TREES).end()


@dataclass
class Scripted:
    """Answers by the number of the draw, and records what it was asked for."""

    answers: Sequence[Answer]
    channel: Channel = Channel.TEXT
    resolution: str = "full"
    version: str = "scripted"
    requests: list[list[int]] = field(default_factory=list)
    """The draws of each."""
    together: list[int] = field(default_factory=list)
    """How many of its votes were under way as each was asked for."""
    under_way: int = 0

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        self.requests.append([draw])
        self.under_way += 1
        self.together.append(self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return self.vote(draw)

    def vote(self, draw: int) -> Vote:
        answer = self.answers[draw]
        if isinstance(answer, StageError):
            raise answer
        return vote_of(self, answer, "so", (draw,), None if answer else draw)


class HeldPass(NamedTuple):
    critics: tuple[TrajectoryCritic, ...]
    votes: int = 1
    quorum: int = 1
    resolution: str = FULL


def channel_of(*passes: HeldPass, tries: int = 1) -> ChannelCritics:
    """A channel that asks these passes in their order, the cheapest first."""
    rules = tuple(PassRule(one.votes, one.quorum, one.resolution, len(one.critics)) for one in passes)
    rule = ChannelRule(passes[0].critics[0].channel, rules)
    return ChannelCritics(rule, tuple(one.critics for one in passes), tries)


async def judged(ask: Ask, *channels: ChannelCritics) -> Judged:
    return await judge_episodes([WALK], Judge(StepCriticByGraph({}), channels, ask), TREES, ORIGIN)


def outcome(result: Judged) -> bool | FailureClass:
    (episode,) = result.episodes
    if episode.judgement is None:
        assert episode.trajectory_verdicts == () and episode.step_verdicts == ()
        return result.failures[0].failure_class
    assert result.failures == []
    return episode.judgement.correct


def judgement(result: Judged) -> Judgement:
    (episode,) = result.episodes
    assert episode.judgement is not None
    return episode.judgement


def votes_of(result: Judged) -> list[tuple[int, str, str, bool]]:
    return [(v.vote, v.resolution, v.made_by, v.correct) for v in result.episodes[0].trajectory_verdicts]


async def test_votes_that_are_needed_anyway_are_asked_for_at_the_same_time() -> None:
    critic = Scripted([YES, NO, YES, YES, NO])
    assert outcome(await judged(Ask.NEEDED, channel_of(HeldPass((critic,), 5, 3)))) is True
    assert critic.requests == [[0], [1], [2], [3]]
    assert critic.together == [1, 2, 3, 1]


@pytest.mark.parametrize(
    ("answers", "expected", "draws"),
    [
        ([GARBAGE, YES, NO, YES, NO, NO], True, [0, 1, 3]),
        ([SILENCE, NO, YES, NO, NO, NO], False, [0, 1, 3]),
        ([GARBAGE, YES, YES, GARBAGE, NO, NO], True, [0, 1, 3, 2]),
        ([GARBAGE, YES, NO, SILENCE, NO, NO], FailureClass.MODEL, [0, 1, 3, 2]),
        ([SILENCE, YES, GARBAGE, SILENCE, NO, GARBAGE], FailureClass.JUDGE, [0, 1, 3, 2, 5]),
    ],
)
async def test_a_failed_vote_is_asked_again_and_never_counts(
    answers: list[Answer], expected: bool | FailureClass, draws: list[int]
) -> None:
    critic = Scripted(answers)
    result = await judged(Ask.NEEDED, channel_of(HeldPass((critic,), 3, 2), tries=2))
    assert outcome(result) == expected
    assert critic.requests == [[draw] for draw in draws]
    if not isinstance(expected, bool):
        assert result.failures[0].message.startswith("text: 1 Correct, ")


async def test_a_cascade_checks_again_only_accepted_episodes() -> None:
    def channel(first: bool) -> tuple[Scripted, ChannelCritics]:
        low = Scripted([first], Channel.MULTIMODAL, "0.5", "small")
        full = Scripted([YES, NO, YES], Channel.MULTIMODAL, "full", "big")
        return full, channel_of(HeldPass((low,), resolution="0.5"), HeldPass((full,), 3, 2))

    result = await judged(Ask.NEEDED, channel(YES)[1])
    assert outcome(result) is True
    big = [(number, "full", "big", vote) for number, vote in ((1, YES), (2, NO), (3, YES))]
    assert votes_of(result) == [(0, "0.5", "small", YES), *big]
    assert judgement(result).rule == "consensus(multimodal:0.5>full:2of3)"
    assert judgement(result).made_by.endswith("+small+big")
    for ask, asked in ((Ask.NEEDED, 0), (Ask.CHANNELS, 0), (Ask.ALL, 3)):
        full, only = channel(NO)
        result = await judged(ask, only)
        assert outcome(result) is False and len(full.requests) == asked
        assert len(votes_of(result)) == 1 + asked


@pytest.mark.parametrize(("ask", "asked"), [(Ask.NEEDED, False), (Ask.CHANNELS, True), (Ask.ALL, True)])
async def test_a_channel_that_says_incorrect_decides(ask: Ask, asked: bool) -> None:
    first, second = Scripted([NO]), Scripted([YES], Channel.MULTIMODAL)
    result = await judged(ask, channel_of(HeldPass((first,))), channel_of(HeldPass((second,))))
    assert outcome(result) is False
    assert (second.requests == [[0]]) is asked
    assert len(votes_of(result)) == 1 + asked


@pytest.mark.parametrize("ask", list(Ask))
@pytest.mark.parametrize("failing_first", [True, False])
async def test_a_failed_channel_leaves_the_decision_to_a_no_and_never_to_a_yes(ask: Ask, failing_first: bool) -> None:
    for answer, expected in ((NO, False), (YES, FailureClass.JUDGE)):
        failing, other = Scripted([GARBAGE]), Scripted([answer], Channel.MULTIMODAL)
        channels = [channel_of(HeldPass((failing,))), channel_of(HeldPass((other,)))]
        result = await judged(ask, *(channels if failing_first else channels[::-1]))
        assert outcome(result) == expected
        if expected is False:
            assert [channel for _, _, channel, _ in votes_of(result)] == ["scripted"]


async def test_the_signals_of_several_votes_are_weighed() -> None:
    class Signals(Scripted):
        votes = ((NO, (1, 4), 5), (NO, (1,), 3), (YES, (2,), None), (NO, (), 0))

        def vote(self, draw: int) -> Vote:
            correct, redundant, first_error = self.votes[draw]
            return vote_of(self, correct, "", redundant, first_error)

    made = judgement(await judged(Ask.ALL, channel_of(HeldPass((Signals(()),), 4, 2))))
    assert (made.correct, made.agreed, made.redundant_steps, made.first_error_step) == (False, False, (1,), 3)
    one = judgement(await judged(Ask.ALL, channel_of(HeldPass((Scripted([YES]),)))))
    assert (one.agreed, one.redundant_steps) == (True, (0,))


@dataclass
class Gate(Scripted):
    """Answers by the seed of the episode; seed 0 has no answer until it is opened."""

    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        vote = await super().judge(episode, screens, steps, episode.trajectory.seed % 3)
        if episode.trajectory.seed == 0:
            await self.open.wait()
        return vote


def seeded(seed: int) -> Episode:
    return WALK.model_copy(update={"trajectory": WALK.trajectory.model_copy(update={"seed": seed})})


async def test_many_are_under_way_at_once_in_order_and_with_few_in_memory() -> None:
    gate, concurrency, count = Gate([YES, NO, NO]), 8, 100
    read, found = list[int](), list[tuple[int, bool]]()

    def episodes() -> Iterator[Episode]:
        for number in range(count):
            read.append(number)
            yield seeded(number)

    judge = Judge(StepCriticByGraph({}), (channel_of(HeldPass((gate,))),))
    asyncio.get_running_loop().call_later(0.05, gate.open.set)
    async for one in judge_each(episodes(), judge, TREES, ORIGIN, concurrency):
        if not found:
            assert 16 < len(read) <= 4 * concurrency, "others go on behind a slow one, within the window"
        assert one.episode.judgement is not None
        found.append((one.episode.trajectory.seed, one.episode.judgement.correct))
        assert len(read) - len(found) <= 4 * concurrency
    assert found == [(seed, seed % 3 == 0) for seed in range(count)]
    assert max(gate.together) == concurrency


@dataclass
class Together(Scripted):
    """Casts several votes in one request."""

    votes_together: bool = True

    async def judge_together(
        self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draws: Sequence[int]
    ) -> list[Vote | VoteFailure]:
        self.requests.append(list(draws))
        if SILENCE in [self.answers[draw] for draw in draws]:
            raise SILENCE
        votes: list[Vote | VoteFailure] = []
        for draw in draws:
            try:
                votes.append(self.vote(draw))
            except (JudgeFailure, ModelFailure) as failure:
                votes.append(failure)
        return votes


async def test_votes_of_one_request_decide_as_single_ones_do_in_no_more_requests() -> None:
    quorum = 3
    for letters, ask in product(product([YES, NO], repeat=4), Ask):
        single, together = Scripted(letters), Together(letters)
        expected = outcome(await judged(ask, channel_of(HeldPass((single,), 4, quorum))))
        decided = (n for n in range(1, 5) if sum(letters[:n]) >= quorum or n - sum(letters[:n]) > 4 - quorum)
        assert len(single.requests) == (4 if ask is Ask.ALL else next(decided)), "it stops where it is decided"
        result = await judged(ask, channel_of(HeldPass((together,), 4, quorum)))
        assert outcome(result) is expected is (sum(letters) >= quorum)
        assert judgement(result).rule == f"consensus(text:{quorum}of4)"
        assert len(together.requests) <= len(single.requests)
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
async def test_of_several_votes_those_that_are_missing_are_asked_for_again(
    answers: list[Answer], requests: list[list[int]], expected: bool | FailureClass
) -> None:
    critic = Together(answers)
    assert outcome(await judged(Ask.ALL, channel_of(HeldPass((critic,), 3, 2), tries=2))) == expected
    assert critic.requests == requests


@pytest.mark.parametrize(("first", "asked"), [(YES, [[1, 3]]), (NO, [])])
async def test_a_model_whose_votes_may_not_be_needed_waits(first: bool, asked: list[list[int]]) -> None:
    one, two = Together([first] * 4, version="one"), Together([YES] * 4, version="two")
    assert outcome(await judged(Ask.NEEDED, channel_of(HeldPass((one, two), 4, 4)))) is first
    assert (one.requests, two.requests) == ([[0, 2]], asked)


@pytest.mark.parametrize(
    "text",
    ["text,multimodal", "programmatic", "text:2of3,multimodal:0.5>full:2of3", "multimodal:0.25:3of4/2models>0.5"],
)
def test_a_rule_reads_as_it_is_written(text: str) -> None:
    assert str(read_rule(f"consensus({text})")) == f"consensus({text})"
    passes = (PassRule(4, 3, "0.25", 2), PassRule(resolution="0.5"))
    whole = Rule((ChannelRule(Channel.TEXT), ChannelRule(Channel.MULTIMODAL, passes)))
    assert read_rule("consensus(text,multimodal:0.25:3of4/2models>0.5)") == whole


@pytest.mark.parametrize(
    "text",
    ["", "text", "consensus()", "consensus(text:)x", "consensus(eyes)", "consensus(text:2 of 3)", "majority(text)\n"],
)
def test_text_that_is_no_rule_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"\A.*(is no rule of a|is not a valid Channel).*\Z"):
        read_rule(text)
