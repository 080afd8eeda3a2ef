"""Asks for the votes of a channel: k votes with a quorum in each resolution pass, by one or more models (CODA 4.2).

If a critic's model gives several answers to one request, the critic casts its votes of a pass in one request, and the
screenshots are sent once.

A vote that fails is neither Correct nor Incorrect: it is asked for again with another seed, a bounded number of times,
and then counts as missing. A pass stays open if its missing votes could change the result. The passes run one after the
other, cheapest first, and a trajectory goes to the next pass only if the one before did not say Incorrect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure, ModelFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.stages.concurrency import side_by_side
from trajmill.stages.critics.base import (
    SeveralVotesCritic,
    StepResult,
    TrajectoryCritic,
    Vote,
    VoteFailure,
    votes_together,
)
from trajmill.stages.critics.rule import ChannelRule, PassRule, all_of


class VotingCase(NamedTuple):
    """The episode that critics vote on, with their evidence."""

    episode: Episode
    screens: ScreenReader
    steps: Sequence[StepResult]
    """The results of the step critic."""


@dataclass(frozen=True, slots=True)
class ChannelCritics:
    """The critics of one channel, and how their votes are combined."""

    rule: ChannelRule
    critics: tuple[tuple[TrajectoryCritic, ...], ...]
    """The critics of each pass. They take turns: vote i is cast by critic i modulo their number, also when repeated."""
    tries: int = 1
    """Largest number of calls for one vote."""

    @property
    def version(self) -> str:
        """The versions of its critics, each named once."""
        return "+".join(dict.fromkeys(critic.version for critics in self.critics for critic in critics))


class VotingResult(NamedTuple):
    """The result of a channel or of one pass."""

    outcome: bool | None
    """Whether it says Correct; None if missing votes could change the result."""
    votes: tuple[Vote, ...]
    """The valid votes, in the order of their numbers."""
    missing: VoteFailure | None
    """The failure of the last missing vote; None if no vote is missing."""


def single_vote(critic: TrajectoryCritic) -> ChannelCritics:
    """A channel whose critic is asked once."""
    return ChannelCritics(ChannelRule(critic.channel), ((critic,),))


async def ask_channel(case: VotingCase, channel: ChannelCritics, ask_all: bool) -> VotingResult:
    """Ask the passes of a channel in order.

    A pass that says Incorrect ends the asking, unless `ask_all`. An open pass does not, because a later one may decide.
    """
    results: list[VotingResult] = []
    votes: list[Vote] = []
    for rule, first, critics in zip(channel.rule.passes, channel.rule.first_votes, channel.critics, strict=True):
        result = await _Pass(case, rule, critics, channel.tries).hold(ask_all)
        results.append(result)
        votes += (vote._replace(number=first + vote.number) for vote in result.votes)
        if result.outcome is False and not ask_all:
            break
    missing = next((result.missing for result in reversed(results) if result.missing is not None), None)
    return VotingResult(all_of(result.outcome for result in results), tuple(votes), missing)


class _Pass(NamedTuple):
    """One resolution pass."""

    case: VotingCase
    rule: PassRule
    critics: tuple[TrajectoryCritic, ...]
    tries: int

    async def hold(self, ask_all: bool) -> VotingResult:
        """Ask for votes until the result is certain, or for all of them."""
        rule = self.rule
        answers: dict[int, Vote | VoteFailure] = {}
        missing: VoteFailure | None = None
        unasked = list(range(rule.votes))
        yes = no = 0
        while unasked and (ask_all or rule.outcome(yes, no) is None):
            wave = unasked if ask_all else self._next_votes(unasked, yes, no)
            unasked = [number for number in unasked if number not in wave]
            for number, answer in (await self._ask_for(wave)).items():
                answers[number] = answer
                if isinstance(answer, Vote):
                    yes, no = yes + answer.correct, no + (not answer.correct)
                else:
                    missing = answer
        votes = tuple(answer for _, answer in sorted(answers.items()) if isinstance(answer, Vote))
        return VotingResult(rule.outcome(yes, no), votes, missing)

    def _next_votes(self, unasked: Sequence[int], yes: int, no: int) -> list[int]:
        """The votes to ask for next.

        They are the fewest votes that can decide the result. A critic that casts several votes for the cost of one also
        casts those that a Correct result needs.
        """
        needed = unasked[: self.rule.needed(yes, no)]
        asked = [self._critic(number) for number in needed]
        for_a_yes = unasked[len(needed) : self.rule.quorum - yes]
        free = [number for number in for_a_yes if (critic := self._critic(number)) in asked and votes_together(critic)]
        return [*needed, *free]

    async def _ask_for(self, numbers: Sequence[int]) -> dict[int, Vote | VoteFailure]:
        groups: list[tuple[TrajectoryCritic, list[int]]] = []
        for number in numbers:
            critic = self._critic(number)
            group = next((group for other, group in groups if other == critic and votes_together(critic)), None)
            if group is None:
                groups.append((critic, [number]))
            else:
                group.append(number)
        found = await side_by_side(self._ask(critic, group) for critic, group in groups)
        answers = {number: answer for one in found for number, answer in one.items()}
        return {number: answers[number] for number in numbers}

    async def _ask(self, critic: TrajectoryCritic, numbers: Sequence[int]) -> dict[int, Vote | VoteFailure]:
        """The votes of one critic; missing ones are asked for again with other draws."""
        found: dict[int, Vote | VoteFailure] = {}
        missing = list(numbers)
        for tried in range(self.tries):
            draws = [number + tried * self.rule.votes for number in missing]
            answers = await _cast(critic, self.case, draws)
            for number, answer in zip(missing, answers, strict=True):
                found[number] = answer._replace(number=number) if isinstance(answer, Vote) else answer
            missing = [number for number in missing if not isinstance(found[number], Vote)]
            if not missing:
                break
        return found

    def _critic(self, number: int) -> TrajectoryCritic:
        return self.critics[number % len(self.critics)]


async def _cast(critic: TrajectoryCritic, case: VotingCase, draws: Sequence[int]) -> list[Vote | VoteFailure]:
    """A vote or a failure for each draw."""
    try:
        if len(draws) > 1 and isinstance(critic, SeveralVotesCritic):
            return await critic.judge_together(*case, draws)
        return [await critic.judge(*case, draw) for draw in draws]
    except (JudgeFailure, ModelFailure) as error:
        return [error] * len(draws)
