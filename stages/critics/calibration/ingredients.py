"""What each ingredient of a judge is worth: a vote, voting, low resolution first, an ensemble, a channel, the whole.

All are counted from the same votes, each of which was asked for once (CODA 4.2, Table 2): one vote of a pass is the
judge with a single vote, a model's share of a pass is voting without the others, and so on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from trajmill.schemas.tables.calibration import Ingredient
from trajmill.schemas.tables.round_summary import JudgeQuality
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.rule import FULL, ChannelRule, PassRule, Rule, all_of

_STEP_CRITIC, _DESCRIBER = "critic.step", "describer"
_ROLES = {f"critic.{channel}": channel for channel in (Channel.TEXT, Channel.MULTIMODAL)}


class Share(NamedTuple):
    """Some votes of one pass, and how many of them must say Correct."""

    channel: Channel
    numbers: tuple[int, ...]
    """Their numbers within the channel."""
    quorum: int


class Part(NamedTuple):
    """An ingredient of a certain judge."""

    ingredient: Ingredient
    channel: Channel | None
    resolution: str | None
    shares: tuple[Share, ...]
    """It says Correct if all of them do."""

    @property
    def votes(self) -> int:
        """Votes that it takes."""
        return sum(len(share.numbers) for share in self.shares)

    def outcome(self, cast: dict[tuple[Channel, int], bool]) -> bool | None:
        """What it says, given the valid votes by channel and number; None where missing ones could turn it."""
        return all_of(_outcome(share, cast) for share in self.shares)


class Ballot(NamedTuple):
    """A valid vote, of what a `trajectory_verdicts` row says."""

    channel: Channel
    vote: int
    """Its number within the channel."""
    correct: bool
    made_by: str


class Spent(NamedTuple):
    """A call to a model, of what a `model_calls` row says."""

    role: str
    payload_hash: str
    draw: int | None
    image_scale: float | None
    tokens: int
    """Into and out of the model."""
    latency_ms: float
    cached: bool


class LabelledVotes(NamedTuple):
    """A trajectory that was judged, and what is known of it."""

    passed: bool
    """Its label."""
    ballots: Sequence[Ballot]
    calls: Sequence[Spent]
    """All that judging it took."""


@dataclass
class Tally:
    """Counts of one ingredient over the evidence so far."""

    part: Part
    pairs: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    """By what it said and the label."""
    undecided: int = 0
    trajectories: int = 0
    calls: int = 0
    cached: int = 0
    tokens: int = 0
    milliseconds: float = 0.0
    models: dict[str, None] = field(default_factory=dict)
    """Versions of the critics whose votes count, in the order of their votes."""

    @property
    def quality(self) -> JudgeQuality:
        """Its counts."""
        return JudgeQuality(
            level=self.part.ingredient,
            true_positive=self.pairs[True, True],
            false_positive=self.pairs[True, False],
            true_negative=self.pairs[False, False],
            false_negative=self.pairs[False, True],
        )


def parts_of(rule: Rule) -> tuple[Part, ...]:
    """All ingredients of a judge, channel by channel, the consensus last."""
    parts = [part for channel in rule.channels for part in _channel_parts(channel)]
    whole = tuple(share for channel in rule.channels for share in _shares(channel))
    return (*parts, Part(Ingredient.CONSENSUS, None, None, whole))


def tally(rule: Rule, evidence: Iterable[LabelledVotes]) -> tuple[Tally, ...]:
    """Count what each ingredient of a judge said of the trajectories, and what it took to say it."""
    tallies = tuple(Tally(part) for part in parts_of(rule))
    for one in evidence:
        cast = {(vote.channel, vote.vote): vote.correct for vote in one.ballots}
        critics = {(vote.channel, vote.vote): vote.made_by for vote in one.ballots}
        spent = _spent(rule, one.calls)
        for each in tallies:
            _count(each, each.part.outcome(cast), one.passed)
            _spend(each, spent)
            each.models |= dict.fromkeys(critics[vote] for vote in _votes(each.part) if vote in critics)
    return tallies


def _channel_parts(rule: ChannelRule) -> Iterator[Part]:
    shares = _shares(rule)
    for number, (one, first) in enumerate(zip(rule.passes, rule.first_votes, strict=True)):
        by_model = [_of_model(rule, one, first, model) for model in range(one.models)]
        for share in by_model:
            single = Share(rule.channel, share.numbers[:1], 1)
            yield Part(Ingredient.SINGLE, rule.channel, one.resolution, (single,))
        for share in by_model:
            if len(share.numbers) > 1:
                yield Part(Ingredient.VOTING, rule.channel, one.resolution, (share,))
        if one.models > 1:
            yield Part(Ingredient.ENSEMBLE, rule.channel, one.resolution, (shares[number],))
    if len(rule.passes) > 1:
        for model in range(rule.passes[0].models):
            passes = zip(rule.passes, rule.first_votes, strict=True)
            both = tuple(_of_model(rule, one, first, model) for one, first in passes)
            yield Part(Ingredient.MULTI_RESOLUTION, rule.channel, None, both)
    resolution = rule.passes[0].resolution if len(rule.passes) == 1 else None
    yield Part(Ingredient.CHANNEL, rule.channel, resolution, shares)


def _shares(rule: ChannelRule) -> tuple[Share, ...]:
    return tuple(
        Share(rule.channel, tuple(range(first, first + one.votes)), one.quorum)
        for one, first in zip(rule.passes, rule.first_votes, strict=True)
    )


def _of_model(rule: ChannelRule, one: PassRule, first: int, model: int) -> Share:
    """The votes of one model of a pass; of them as large a share must say Correct as of all."""
    numbers = tuple(range(first + model, first + one.votes, one.models))
    return Share(rule.channel, numbers, ceil(one.quorum * len(numbers) / one.votes))


def _outcome(share: Share, cast: dict[tuple[Channel, int], bool]) -> bool | None:
    votes = [cast.get((share.channel, number)) for number in share.numbers]
    return PassRule(len(votes), share.quorum).outcome(votes.count(True), votes.count(False))


def _votes(part: Part) -> Iterator[tuple[Channel, int]]:
    return ((share.channel, number) for share in part.shares for number in share.numbers)


def _count(tally_: Tally, outcome: bool | None, passed: bool) -> None:
    tally_.trajectories += 1
    if outcome is None:
        tally_.undecided += 1
    else:
        tally_.pairs[outcome, passed] += 1


class _Bill(NamedTuple):
    """The calls of one trajectory by what they were made for."""

    steps: list[Spent]
    captions: list[Spent]
    votes: dict[tuple[Channel, int], list[Spent]]


def _spent(rule: Rule, calls: Sequence[Spent]) -> _Bill:
    spent = _Bill([], [], {})
    captions: dict[str, Spent] = {}
    for call in calls:
        if call.role == _STEP_CRITIC:
            spent.steps.append(call)
        elif call.role == _DESCRIBER:
            # Each vote asks for the captions again, and a judge with one vote would ask once.
            captions.setdefault(call.payload_hash, call)
        elif call.role in _ROLES and call.draw is not None:
            for vote in _vote_of(rule, _ROLES[call.role], call.image_scale, call.draw):
                spent.votes.setdefault(vote, []).append(call)
    spent.captions.extend(captions.values())
    return spent


def _vote_of(rule: Rule, channel: Channel, scale: float | None, draw: int) -> Iterator[tuple[Channel, int]]:
    """The vote that a call was made for; a vote that is asked again has a draw that is larger by all of its pass."""
    resolution = FULL if scale is None or scale == 1.0 else f"{scale:g}"
    for one in rule.channels:
        for pass_rule, first in zip(one.passes, one.first_votes, strict=True):
            if one.channel is channel and pass_rule.resolution == resolution:
                yield channel, first + draw % pass_rule.votes


def _spend(tally_: Tally, spent: _Bill) -> None:
    calls = [*spent.steps]
    if any(share.channel is Channel.TEXT for share in tally_.part.shares):
        calls += spent.captions
    calls += [call for vote in _votes(tally_.part) for call in spent.votes.get(vote, ())]
    tally_.calls += len(calls)
    tally_.cached += sum(call.cached for call in calls)
    tally_.tokens += sum(call.tokens for call in calls)
    tally_.milliseconds += sum(call.latency_ms for call in calls if not call.cached)
