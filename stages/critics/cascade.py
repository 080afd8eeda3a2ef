"""A channel: its passes one after the other, cheapest first; only what one lets through goes to the next (CODA 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import TrajectoryCritic
from trajmill.stages.critics.rule import ChannelRule, all_of
from trajmill.stages.critics.voting import Case, CastVote, Missing, Pass, PassResult, hold


@dataclass(frozen=True, slots=True)
class ChannelPlan:
    """One channel and how it comes to its opinion."""

    passes: tuple[Pass, ...]
    """At least one, all of the same channel."""

    def __post_init__(self) -> None:
        if len({critic.channel for critic in self.critics}) != 1:
            raise ValueError("the critics of a channel plan are of one channel")

    @property
    def critics(self) -> tuple[TrajectoryCritic, ...]:
        """All its critics, in the order in which they are asked first."""
        return tuple(critic for voters in self.passes for critic in voters.critics)

    @property
    def channel(self) -> Channel:
        """Which channel it is."""
        return self.critics[0].channel

    @property
    def rule(self) -> ChannelRule:
        """How its votes are combined."""
        return ChannelRule(self.channel, tuple(voters.rule for voters in self.passes))

    @property
    def version(self) -> str:
        """The versions of its critics, each named once."""
        return "+".join(dict.fromkeys(critic.version for critic in self.critics))


class ChannelResult(NamedTuple):
    """What came of asking a channel."""

    channel: Channel
    outcome: bool | None
    """None if votes are missing that could turn it."""
    cast: tuple[CastVote, ...]
    """The valid votes, numbered through all passes."""
    missing: Missing | None
    """Why the last of the missing votes is missing; None if none is."""


def one_vote(critic: TrajectoryCritic) -> ChannelPlan:
    """The plainest plan: a critic is asked once."""
    return ChannelPlan((Pass((critic,)),))


async def ask_channel(case: Case, plan: ChannelPlan, ask_all: bool) -> ChannelResult:
    """Ask a channel's passes in their order.

    A pass that says Incorrect ends it, unless `ask_all`; one that is left open does not, since a later one may decide.
    """
    results: list[PassResult] = []
    cast: list[CastVote] = []
    for voters, first in zip(plan.passes, plan.rule.first_votes, strict=True):
        result = await hold(case, voters, ask_all)
        results.append(result)
        cast += (one._replace(number=first + one.number) for one in result.cast)
        if result.outcome is False and not ask_all:
            break
    missing = [result.missing for result in results if result.missing is not None]
    return ChannelResult(
        plan.channel, all_of(result.outcome for result in results), tuple(cast), missing[-1] if missing else None
    )
