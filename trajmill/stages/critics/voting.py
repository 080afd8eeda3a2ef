"""Votes, and the rule that combines them; it is stored on every judgement.

A channel has one or more passes, the cheapest first. In a pass, a quorum of its votes must say Correct. A channel is
Correct if all its passes are, and the trajectory if all channels are (paper 6.3, equation 4; CODA 4.2). A vote that was
not needed, or that failed, counts neither way and does not lower the quorum.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple, Protocol, runtime_checkable

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure, ModelFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel, StepLabel, TrajectoryVerdict
from trajmill.stages.concurrency import side_by_side

FULL = "full"
_RULE = re.compile(r"consensus\((?P<channels>[^()]*)\)")
_PASS = re.compile(
    r"(?:(?P<resolution>full|\d+(?:\.\d+)?)(?::|$))?"
    r"(?:(?P<quorum>\d+)of(?P<votes>\d+))?"
    r"(?:/(?P<models>\d+)models)?"
)


def resolution_of(scale: float) -> str:
    """Name the resolution of scaled screenshots: `full`, or the scale, e.g. `0.5`."""
    return FULL if scale == 1.0 else f"{scale:g}"


def all_of(outcomes: Iterable[bool | None]) -> bool | None:
    found = list(outcomes)
    return False if False in found else None if None in found else True


class PassRule(NamedTuple):
    votes: int = 1
    quorum: int = 1
    resolution: str = FULL
    models: int = 1
    """They take turns in voting."""

    def outcome(self, correct: int, incorrect: int) -> bool | None:
        """Return the result of the valid votes; None if missing votes could change it."""
        if correct >= self.quorum:
            return True
        return False if incorrect > self.votes - self.quorum else None

    def needed(self, correct: int, incorrect: int) -> int:
        return min(self.quorum - correct, self.votes - self.quorum + 1 - incorrect)

    def text(self, alone: bool) -> str:
        """Write the rule, e.g. `0.5:2of3`; `alone` leaves out a full resolution."""
        resolution = "" if alone and self.resolution == FULL else self.resolution
        votes = "" if self.votes == self.quorum == 1 else f"{self.quorum}of{self.votes}"
        models = "" if self.models == 1 else f"/{self.models}models"
        return ":".join(part for part in (resolution, votes) if part) + models


class ChannelRule(NamedTuple):
    channel: Channel
    passes: tuple[PassRule, ...] = (PassRule(),)

    @property
    def first_votes(self) -> tuple[int, ...]:
        """For each pass, the number of its first vote; votes are numbered within the channel."""
        return tuple(accumulate((one.votes for one in self.passes[:-1]), initial=0))

    def outcome(self, votes: Iterable[tuple[int, bool]]) -> bool | None:
        cast, outcomes = dict(votes), []
        for one, first in zip(self.passes, self.first_votes, strict=True):
            found = [cast.get(number) for number in range(first, first + one.votes)]
            outcomes.append(one.outcome(found.count(True), found.count(False)))
        return all_of(outcomes)

    def __str__(self) -> str:
        """E.g. `text`, `text:2of3`, `multimodal:0.5>full:2of3`."""
        passes = ">".join(one.text(alone=len(self.passes) == 1) for one in self.passes)
        return f"{self.channel}:{passes}".removesuffix(":")


class Rule(NamedTuple):
    channels: tuple[ChannelRule, ...]

    @property
    def repeats_the_check(self) -> bool:
        """Whether the environment's own check votes; precision against the check is then always 1."""
        return any(rule.channel == Channel.PROGRAMMATIC for rule in self.channels)

    def outcomes(self, verdicts: Iterable[TrajectoryVerdict]) -> dict[Channel, bool | None]:
        votes = [(each.channel, each.vote, each.correct) for each in verdicts]
        return {
            rule.channel: rule.outcome((number, correct) for name, number, correct in votes if name == rule.channel)
            for rule in self.channels
        }

    def __str__(self) -> str:
        """E.g. `consensus(text:2of3,multimodal:0.5>full:2of3)`."""
        return f"consensus({','.join(map(str, self.channels))})"


def read_rule(text: str) -> Rule:
    """Parse the rule of a judgement. Raises ValueError if the text is no rule."""
    whole = _RULE.fullmatch(text)
    if whole is None:
        raise ValueError(f"{text[:100]!r} is no rule of a judgement")
    channels = []
    for channel in whole["channels"].split(","):
        name = re.match(r"[a-z]+", channel)
        if name is None:
            raise ValueError(f"{channel[:100]!r} is no rule of a channel")
        passes = []
        for one in channel[name.end() :].removeprefix(":").split(">"):
            found = _PASS.fullmatch(one)
            if found is None:
                raise ValueError(f"{one[:100]!r} is no rule of a pass")
            votes, quorum, models = (int(found[key] or 1) for key in ("votes", "quorum", "models"))
            passes.append(PassRule(votes, quorum, found["resolution"] or FULL, models))
        channels.append(ChannelRule(Channel(name[0]), tuple(passes)))
    return Rule(tuple(channels))


class VotingCase(NamedTuple):
    episode: Episode
    screens: ScreenReader
    steps: Sequence[StepResult]


class ProgrammaticChannel:
    """Votes Correct if the environment's own check passed."""

    channel, resolution = Channel.PROGRAMMATIC, FULL
    version = "programmatic/1"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote by the programmatic reward. Raises JudgeFailure if the environment has no check."""
        reward = episode.trajectory.reward
        if reward is None:
            raise JudgeFailure(f"{episode.trajectory.trajectory_id}: the environment has no programmatic check")
        return vote_of(self, reward >= PASSED, f"the environment's check gave {reward:g}")


@dataclass(frozen=True, slots=True)
class ChannelCritics:
    rule: ChannelRule
    critics: tuple[tuple[TrajectoryCritic, ...], ...]
    """The critics of each pass. They take turns: vote i is cast by critic i modulo their number, also when repeated."""
    tries: int = 1

    @property
    def version(self) -> str:
        return "+".join(dict.fromkeys(critic.version for critics in self.critics for critic in critics))


class VotingResult(NamedTuple):
    outcome: bool | None
    """Whether it is Correct; None if missing votes could change that."""
    votes: tuple[Vote, ...]
    missing: VoteFailure | None
    """The failure of the last missing vote."""


def single_vote(critic: TrajectoryCritic) -> ChannelCritics:
    return ChannelCritics(ChannelRule(critic.channel), ((critic,),))


async def ask_channel(case: VotingCase, channel: ChannelCritics, ask_all: bool) -> VotingResult:
    """Let the passes of a channel vote in order; one that is Incorrect ends the voting, unless `ask_all`."""
    results: list[VotingResult] = []
    votes: list[Vote] = []
    for rule, first, critics in zip(channel.rule.passes, channel.rule.first_votes, channel.critics, strict=True):
        result = await _Pass(case, rule, critics, channel).hold(ask_all)
        results.append(result)
        votes += (vote._replace(number=first + vote.number) for vote in result.votes)
        if result.outcome is False and not ask_all:
            break
    missing = next((result.missing for result in reversed(results) if result.missing is not None), None)
    return VotingResult(all_of(result.outcome for result in results), tuple(votes), missing)


class _Pass(NamedTuple):
    case: VotingCase
    rule: PassRule
    critics: tuple[TrajectoryCritic, ...]
    channel: ChannelCritics

    async def hold(self, ask_all: bool) -> VotingResult:
        answers: dict[int, Vote | VoteFailure] = {}
        missing: VoteFailure | None = None
        yes = no = 0
        while len(answers) < self.rule.votes and (ask_all or self.rule.outcome(yes, no) is None):
            unasked = [number for number in range(self.rule.votes) if number not in answers]
            wave = unasked if ask_all else self._next_votes(unasked, yes, no)
            groups = defaultdict[int, list[int]](list)
            for number in wave:
                critic = self._critic(number)
                groups[self.critics.index(critic) if _votes_together(critic) else ~number].append(number)
            for found in await side_by_side(self._ask(group) for group in groups.values()):
                answers |= found
            for number in wave:
                answer = answers[number]
                if isinstance(answer, Vote):
                    yes, no = yes + answer.correct, no + (not answer.correct)
                else:
                    missing = answer
        votes = tuple(answer for _, answer in sorted(answers.items()) if isinstance(answer, Vote))
        return VotingResult(self.rule.outcome(yes, no), votes, missing)

    def _next_votes(self, unasked: Sequence[int], yes: int, no: int) -> list[int]:
        """Return the fewest votes that can decide the result.

        A critic that casts several votes for the cost of one also casts those that a Correct result needs.
        """
        needed = unasked[: self.rule.needed(yes, no)]
        asked = [self._critic(number) for number in needed]
        for_a_yes = unasked[len(needed) : self.rule.quorum - yes]
        free = [number for number in for_a_yes if (critic := self._critic(number)) in asked and _votes_together(critic)]
        return [*needed, *free]

    async def _ask(self, numbers: Sequence[int]) -> dict[int, Vote | VoteFailure]:
        critic = self._critic(numbers[0])
        found: dict[int, Vote | VoteFailure] = {}
        for tried in range(self.channel.tries):
            missing = [number for number in numbers if not isinstance(found.get(number), Vote)]
            draws = [number + tried * self.rule.votes for number in missing]
            try:
                if len(draws) > 1 and isinstance(critic, SeveralVotesCritic):
                    answers = await critic.judge_together(*self.case, draws)
                else:
                    answers = [await critic.judge(*self.case, draw) for draw in draws]
            except (JudgeFailure, ModelFailure) as error:
                answers = [error] * len(draws)
            for number, answer in zip(missing, answers, strict=True):
                found[number] = answer._replace(number=number) if isinstance(answer, Vote) else answer
        return found

    def _critic(self, number: int) -> TrajectoryCritic:
        return self.critics[number % len(self.critics)]


def _votes_together(critic: TrajectoryCritic) -> bool:
    return isinstance(critic, SeveralVotesCritic) and critic.votes_together


SUMMARY_WORDS = 30
PASSED = 1.0
"""The programmatic reward of a task that was done."""


class Ask(StrEnum):
    """How many votes are cast, see `JudgeSpec.ask`; the decision is the same."""

    NEEDED = "needed"
    CHANNELS = "channels"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class StepResult:
    index: int
    analysis: str
    summary: str
    label: StepLabel


class Vote(NamedTuple):
    """One critic's vote on one trajectory, with CODA's two other signals (its 3.4) and the reason."""

    channel: Channel
    resolution: str
    made_by: str
    correct: bool
    reason: str = ""
    redundant_steps: tuple[int, ...] = ()
    first_error_step: int | None = None
    number: int = 0
    """Its number among the votes of its channel; `voting` sets it."""


VoteFailure = JudgeFailure | ModelFailure


class StepCritic(Protocol):
    """Judges every action of a trajectory by the screens before and after it."""

    @property
    def version(self) -> str: ...

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        """Judge each step of an episode, in order. Raises JudgeFailure if no usable verdict."""


class TrajectoryCritic(Protocol):
    """One channel: decides whether a trajectory did what its query asks."""

    @property
    def channel(self) -> Channel: ...

    @property
    def resolution(self) -> str:
        """`full`, or the scale of the screenshots that it reads."""

    @property
    def version(self) -> str: ...

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Cast one vote on a finished episode; equal draws give equal votes.

        Raises JudgeFailure without a usable vote, which is repeated with a new draw, or ModelFailure if its model did
        not answer. Neither is a verdict.
        """


@runtime_checkable
class SeveralVotesCritic(Protocol):
    """A `TrajectoryCritic` that can cast several votes for about the cost of one."""

    @property
    def votes_together(self) -> bool: ...

    async def judge_together(
        self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draws: Sequence[int]
    ) -> list[Vote | VoteFailure]:
        """Cast a vote for each draw, or give its failure. Raises JudgeFailure or ModelFailure if there is no vote."""


def vote_of(
    critic: TrajectoryCritic,
    correct: bool,
    reason: str,
    redundant_steps: tuple[int, ...] = (),
    first_error_step: int | None = None,
) -> Vote:
    return Vote(critic.channel, critic.resolution, critic.version, correct, reason, redundant_steps, first_error_step)


def at_most_words(text: str, words: int = SUMMARY_WORDS) -> str:
    """Cut a text to a number of words; an ellipsis marks the cut."""
    parts = text.split()
    return text if len(parts) <= words else " ".join(parts[: words - 1]) + " ..."
