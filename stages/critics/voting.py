"""One pass of a channel: k votes with a quorum, cast by one model or by several in turn (CODA 4.2).

A vote that fails is neither yes nor no: it is asked again under another number, within bounds, and then counts as
missing. A pass that missing votes could still turn stays open.
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
from trajmill.stages.critics.rule import FULL, PassRule

T = TypeVar("T")

Missing = JudgeFailure | ModelFailure
"""Why a vote is missing."""


class Case(NamedTuple):
    """What is voted on."""

    episode: Episode
    screens: ScreenReader
    steps: Sequence[StepResult]
    """What the step critic said."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Who votes, how often, and how many votes must say Correct."""

    critics: tuple[TrajectoryCritic, ...]
    """They take turns: vote i is cast by critic i modulo their number, also where it has to be asked again."""
    votes: int = 1
    quorum: int = 1
    tries: int = 1
    """Calls for one vote, at most."""
    resolution: str = FULL

    def __post_init__(self) -> None:
        if not 1 <= self.quorum <= self.votes or not 1 <= len(self.critics) <= self.votes or self.tries < 1:
            raise ValueError(f"{self.votes} votes by {len(self.critics)} critics, quorum {self.quorum}: no such pass")

    @property
    def rule(self) -> PassRule:
        """How its votes are combined."""
        return PassRule(self.votes, self.quorum, self.resolution, len(self.critics))


class CastVote(NamedTuple):
    """A valid vote."""

    number: int
    """Its place in the pass."""
    critic: TrajectoryCritic
    vote: Vote


class PassResult(NamedTuple):
    """What came of a pass."""

    outcome: bool | None
    """None if votes are missing that could turn it."""
    cast: tuple[CastVote, ...]
    """The valid votes, in the order of their numbers."""
    missing: Missing | None
    """Why the last of the missing votes is missing; None if none is."""


async def hold(case: Case, voters: Pass, ask_all: bool) -> PassResult:
    """Let a pass vote on a trajectory.

    No vote is asked for once the outcome is decided, unless `ask_all`. Votes that are needed whatever they say are
    asked for at the same time, so that the wait is that of a few calls and nothing is asked in vain.
    """
    rule = voters.rule
    cast: list[CastVote] = []
    missing: Missing | None = None
    asked = yes = no = 0
    while asked < rule.votes and (ask_all or rule.outcome(yes, no) is None):
        wave = rule.votes if ask_all else min(rule.needed(yes, no), rule.votes - asked)
        for answer in await _together(case, voters, range(asked, asked + wave)):
            if isinstance(answer, CastVote):
                cast.append(answer)
                yes, no = yes + answer.vote.correct, no + (not answer.vote.correct)
            else:
                missing = answer
        asked += wave
    return PassResult(rule.outcome(yes, no), tuple(cast), missing)


async def side_by_side(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order; one that raises ends the others, and what it raised is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def _together(case: Case, voters: Pass, numbers: range) -> Sequence[CastVote | Missing]:
    if len(numbers) == 1:
        return [await _ask(case, voters, numbers[0])]
    return await side_by_side(_ask(case, voters, number) for number in numbers)


async def _ask(case: Case, voters: Pass, number: int) -> CastVote | Missing:
    critic = voters.critics[number % len(voters.critics)]
    for tried in range(voters.tries):
        try:
            vote = await critic.judge(case.episode, case.screens, case.steps, number + tried * voters.votes)
        except (JudgeFailure, ModelFailure) as error:
            failure = error
        else:
            return CastVote(number, critic, vote)
    return failure
