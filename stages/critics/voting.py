"""The votes of a channel: k votes with a quorum in each resolution pass, by one model or several in turn (CODA 4.2).

A vote that fails is neither yes nor no: it is asked again under another number, within bounds, and then counts as
missing. A pass that missing votes could still turn stays open. Passes are held one after the other, cheapest first, and
only what one lets through goes to the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure, ModelFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.stages.critics.base import StepResult, TrajectoryCritic, Vote
from trajmill.stages.critics.rule import ChannelRule, PassRule, all_of

T = TypeVar("T")

VoteFailure = JudgeFailure | ModelFailure
"""Why a vote is missing."""


class VotingCase(NamedTuple):
    """What is voted on."""

    episode: Episode
    screens: ScreenReader
    steps: Sequence[StepResult]
    """What the step critic said."""


@dataclass(frozen=True, slots=True)
class ChannelCritics:
    """The critics of one channel, and how their votes are combined."""

    rule: ChannelRule
    critics: tuple[tuple[TrajectoryCritic, ...], ...]
    """Those of each pass. They take turns: vote i is cast by critic i modulo their number, asked again too."""
    tries: int = 1
    """Calls for one vote, at most."""

    @property
    def version(self) -> str:
        """The versions of its critics, each named once."""
        return "+".join(dict.fromkeys(critic.version for critics in self.critics for critic in critics))


class VotingResult(NamedTuple):
    """What came of asking a channel, or one pass of it."""

    outcome: bool | None
    """None if votes are missing that could turn it."""
    votes: tuple[Vote, ...]
    """The valid ones, in the order of their numbers."""
    missing: VoteFailure | None
    """Why the last of the missing votes is missing; None if none is."""


def single_vote(critic: TrajectoryCritic) -> ChannelCritics:
    """A channel whose critic is asked once."""
    return ChannelCritics(ChannelRule(critic.channel), ((critic,),))


async def ask_channel(case: VotingCase, channel: ChannelCritics, ask_all: bool) -> VotingResult:
    """Ask the passes of a channel in their order.

    A pass that says Incorrect ends it, unless `ask_all`; one that is left open does not, since a later one may decide.
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


async def side_by_side(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order; one that raises ends the others, and what it raised is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


class _Pass(NamedTuple):
    """One resolution pass."""

    case: VotingCase
    rule: PassRule
    critics: tuple[TrajectoryCritic, ...]
    tries: int

    async def hold(self, ask_all: bool) -> VotingResult:
        """Ask for votes until the outcome is decided, or for all of them.

        Votes that are needed whatever they say are asked for at the same time, so that the wait is that of a few calls
        and nothing is asked in vain.
        """
        rule = self.rule
        votes: list[Vote] = []
        missing: VoteFailure | None = None
        asked = yes = no = 0
        while asked < rule.votes and (ask_all or rule.outcome(yes, no) is None):
            wave = rule.votes if ask_all else min(rule.needed(yes, no), rule.votes - asked)
            for answer in await self._ask_together(range(asked, asked + wave)):
                if isinstance(answer, Vote):
                    votes.append(answer)
                    yes, no = yes + answer.correct, no + (not answer.correct)
                else:
                    missing = answer
            asked += wave
        return VotingResult(rule.outcome(yes, no), tuple(votes), missing)

    async def _ask_together(self, numbers: range) -> Sequence[Vote | VoteFailure]:
        if len(numbers) == 1:
            return [await self._ask(numbers[0])]
        return await side_by_side(self._ask(number) for number in numbers)

    async def _ask(self, number: int) -> Vote | VoteFailure:
        critic = self.critics[number % len(self.critics)]
        for tried in range(self.tries):
            try:
                vote = await critic.judge(*self.case, number + tried * self.rule.votes)
            except (JudgeFailure, ModelFailure) as error:
                failure = error
            else:
                return vote._replace(number=number)
        return failure
