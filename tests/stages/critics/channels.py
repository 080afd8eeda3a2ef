import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import StageError
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.voting import (
    FULL,
    ChannelCritics,
    ChannelRule,
    Noise,
    PassRule,
    StepResult,
    TrajectoryCritic,
    Vote,
    vote_of,
)

Answer = bool | StageError


@dataclass
class Scripted:
    """Answers by the number of the draw, and records what it was asked for."""

    answers: Sequence[Answer]
    channel: Channel = Channel.TEXT
    resolution: str = "full"
    version: str = "scripted"
    draws: list[int] = field(default_factory=list)
    together: list[int] = field(default_factory=list)
    """How many of its votes were under way as each was asked for."""
    under_way: int = 0

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        self.draws.append(draw)
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


def channel_of(*passes: HeldPass, tries: int = 1, noise: Noise | None = None) -> ChannelCritics:
    """A channel that asks these passes in their order, the cheapest first."""
    rules = tuple(PassRule(one.votes, one.quorum, one.resolution, len(one.critics)) for one in passes)
    rule = ChannelRule(passes[0].critics[0].channel, rules)
    return ChannelCritics(rule, tuple(one.critics for one in passes), tries, noise)
