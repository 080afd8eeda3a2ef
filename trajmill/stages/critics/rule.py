"""The rule that combines votes; it is stored on every judgement, so that stored votes can be counted again.

A channel has one or more passes, the cheapest first. A pass has a number of votes, of which a quorum must say Correct.
A channel says Correct if all its passes do, and the trajectory is Correct if all channels say so (paper 6.3, equation
4; CODA 4.2). A vote may be missing, because nobody asked for it or because it failed. It counts neither way: it can
only leave the result open, and does not lower the quorum.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from trajmill.schemas.tables.verdict import Channel, TrajectoryVerdict

FULL = "full"
"""Name of the resolution of the stored screenshots."""

_RULE = re.compile(r"consensus\((?P<channels>[^()]*)\)")
_PASS = re.compile(
    r"(?:(?P<resolution>full|\d+(?:\.\d+)?)(?::|$))?"
    r"(?:(?P<quorum>\d+)of(?P<votes>\d+))?"
    r"(?:/(?P<models>\d+)models)?"
)


class PassRule(NamedTuple):
    """The number of votes at one resolution, and how many of them must say Correct."""

    votes: int = 1
    quorum: int = 1
    resolution: str = FULL
    models: int = 1
    """Number of models, which take turns in voting."""

    def outcome(self, correct: int, incorrect: int) -> bool | None:
        """The result of the valid votes; None if missing votes could change it."""
        if correct >= self.quorum:
            return True
        if incorrect > self.votes - self.quorum:
            return False
        return None

    def needed(self, correct: int, incorrect: int) -> int:
        """The fewest further votes that can decide the result."""
        return min(self.quorum - correct, self.votes - self.quorum + 1 - incorrect)

    def text(self, alone: bool) -> str:
        """As text, e.g. `0.5:2of3` or `4of4/2models`; `alone` leaves out a full resolution."""
        resolution = "" if alone and self.resolution == FULL else self.resolution
        votes = "" if self.votes == self.quorum == 1 else f"{self.quorum}of{self.votes}"
        models = "" if self.models == 1 else f"/{self.models}models"
        return ":".join(part for part in (resolution, votes) if part) + models


class ChannelRule(NamedTuple):
    """The passes of one channel, in the order in which they are asked."""

    channel: Channel
    passes: tuple[PassRule, ...] = (PassRule(),)

    @property
    def first_votes(self) -> tuple[int, ...]:
        """For each pass, the number of its first vote; votes are numbered within the channel."""
        return tuple(accumulate((one.votes for one in self.passes[:-1]), initial=0))

    def outcome(self, votes: Iterable[tuple[int, bool]]) -> bool | None:
        """The result of the channel, from the number and the result of each valid vote."""
        cast = dict(votes)
        return all_of(
            one.outcome(*_tally(cast.get(number) for number in range(first, first + one.votes)))
            for one, first in zip(self.passes, self.first_votes, strict=True)
        )

    def __str__(self) -> str:
        """E.g. `text`, `text:2of3`, `multimodal:0.5>full:2of3`."""
        passes = ">".join(one.text(alone=len(self.passes) == 1) for one in self.passes)
        return f"{self.channel}:{passes}".removesuffix(":")


class Rule(NamedTuple):
    """How a judge combines its votes."""

    channels: tuple[ChannelRule, ...]

    @property
    def repeats_the_check(self) -> bool:
        """Whether a trajectory is Correct only if it passes the environment's own check.

        The precision of such a judge against the check is always 1, so it is not reported.
        """
        return any(rule.channel is Channel.PROGRAMMATIC for rule in self.channels)

    def outcomes(self, verdicts: Iterable[TrajectoryVerdict]) -> dict[Channel, bool | None]:
        """The result of each channel on a trajectory, from its votes; None if they leave it open."""
        votes = [(verdict.channel, verdict.vote, verdict.correct) for verdict in verdicts]
        return {
            rule.channel: rule.outcome(
                (number, correct) for channel, number, correct in votes if channel == rule.channel
            )
            for rule in self.channels
        }

    def __str__(self) -> str:
        """E.g. `consensus(text:2of3,multimodal:0.5>full:2of3)`."""
        return f"consensus({','.join(map(str, self.channels))})"


def read_rule(text: str) -> Rule:
    """Parse the rule of a judgement.

    Raises:
        ValueError: the text is no rule.
    """
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:100]!r} is no rule of a judgement")
    return Rule(tuple(_channel_rule(part) for part in found["channels"].split(",")))


def resolution_of(scale: float) -> str:
    """Name of the resolution of scaled screenshots: `full`, or the scale, e.g. `0.5`."""
    return FULL if scale == 1.0 else f"{scale:g}"


def all_of(outcomes: Iterable[bool | None]) -> bool | None:
    """False if one is False, True if all are True, else None."""
    found = list(outcomes)
    if False in found:
        return False
    return None if None in found else True


def _tally(votes: Iterable[bool | None]) -> tuple[int, int]:
    found = list(votes)
    return found.count(True), found.count(False)


def _channel_rule(text: str) -> ChannelRule:
    name = re.match(r"[a-z]+", text)
    if name is None:
        raise ValueError(f"{text[:100]!r} is no rule of a channel")
    passes = text[name.end() :].removeprefix(":").split(">")
    return ChannelRule(Channel(name[0]), tuple(map(_pass_rule, passes)))


def _pass_rule(text: str) -> PassRule:
    found = _PASS.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:100]!r} is no rule of a pass")
    return PassRule(
        votes=int(found["votes"] or 1),
        quorum=int(found["quorum"] or 1),
        resolution=found["resolution"] or FULL,
        models=int(found["models"] or 1),
    )
