"""Builds channels of critics for tests."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.stages.critics.base import TrajectoryCritic
from trajmill.stages.critics.voting import FULL, ChannelCritics, ChannelRule, PassRule


class HeldPass(NamedTuple):
    """A resolution pass."""

    critics: tuple[TrajectoryCritic, ...]
    votes: int = 1
    quorum: int = 1
    resolution: str = FULL


def channel_of(*passes: HeldPass, tries: int = 1) -> ChannelCritics:
    """A channel that asks these passes in their order, the cheapest first."""
    rules = tuple(PassRule(one.votes, one.quorum, one.resolution, len(one.critics)) for one in passes)
    channel = passes[0].critics[0].channel
    return ChannelCritics(ChannelRule(channel, rules), tuple(one.critics for one in passes), tries)
