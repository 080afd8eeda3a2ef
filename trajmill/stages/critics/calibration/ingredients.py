"""Measures each ingredient of a judge: one vote, voting, low resolution first, an ensemble, a channel, the whole.

All are counted from the same votes, each of which was asked for once (CODA 4.2, Table 2). One vote of a pass is a judge
with a single vote, the votes of one model of a pass are voting without an ensemble, and so on.
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
from trajmill.stages.critics.base import Vote
from trajmill.stages.critics.voting import FULL, ChannelRule, PassRule, Rule, all_of

_STEP_CRITIC, _DESCRIBER = "critic.step", "describer"
_ROLES = {f"critic.{channel}": channel for channel in (Channel.TEXT, Channel.MULTIMODAL)}


class VoteSubset(NamedTuple):
    """Some votes of one pass, and how many of them must say Correct."""

    channel: Channel
    numbers: tuple[int, ...]
    """Numbers of these votes within the channel."""
    quorum: int


class JudgeIngredient(NamedTuple):
    """An ingredient of one judge."""

    kind: Ingredient
    channel: Channel | None
    resolution: str | None
    subsets: tuple[VoteSubset, ...]
    """It says Correct if all of these do."""

    @property
    def votes(self) -> int:
        """Number of votes that it needs."""
        return sum(len(subset.numbers) for subset in self.subsets)

    def outcome(self, cast: dict[tuple[Channel, int], bool]) -> bool | None:
        """Its result, from the valid votes by channel and number; None if missing votes could change it."""
        return all_of(_outcome(subset, cast) for subset in self.subsets)


class CallCost(NamedTuple):
    """The cost of a model call, from its `model_calls` row."""

    role: str
    payload_hash: str
    draws: tuple[int, ...]
    """Draws of the votes that the call asked for."""
    image_scale: float | None
    input_tokens: int
    output_tokens: int
    """Tokens of the answers of all votes."""
    latency_ms: float
    cached: bool


def draws_of(draw: int | None, draws: Sequence[int] | None) -> tuple[int, ...]:
    """The draws of a `model_calls` row; rows of earlier versions have only the first."""
    return tuple(draws or (() if draw is None else (draw,)))


class LabelledVotes(NamedTuple):
    """The votes on a trajectory with a known outcome."""

    passed: bool
    """Whether the trajectory is correct."""
    votes: Sequence[Vote]
    """The valid votes."""
    calls: Sequence[CallCost]
    """All model calls of its judging."""


@dataclass
class IngredientTally:
    """Counts of one ingredient so far."""

    ingredient: JudgeIngredient
    pairs: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    """Number of trajectories, by its result and the label."""
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
        """Its counts as a record."""
        return JudgeQuality(
            level=self.ingredient.kind,
            true_positive=self.pairs[True, True],
            false_positive=self.pairs[True, False],
            true_negative=self.pairs[False, False],
            false_negative=self.pairs[False, True],
        )


def ingredients_of(rule: Rule) -> tuple[JudgeIngredient, ...]:
    """All ingredients of a judge, channel by channel, the consensus last."""
    found = [ingredient for channel in rule.channels for ingredient in _channel_ingredients(channel)]
    whole = tuple(subset for channel in rule.channels for subset in _subsets(channel))
    return (*found, JudgeIngredient(Ingredient.CONSENSUS, None, None, whole))


def tally(rule: Rule, evidence: Iterable[LabelledVotes]) -> tuple[IngredientTally, ...]:
    """Count the results of each ingredient of a judge, and what they cost."""
    tallies = tuple(IngredientTally(ingredient) for ingredient in ingredients_of(rule))
    for one in evidence:
        cast = {(vote.channel, vote.number): vote.correct for vote in one.votes}
        critics = {(vote.channel, vote.number): vote.made_by for vote in one.votes}
        spent = _costs_by_purpose(rule, one.calls)
        for each in tallies:
            _count(each, each.ingredient.outcome(cast), one.passed)
            _add_costs(each, spent)
            each.models |= dict.fromkeys(critics[vote] for vote in _votes(each.ingredient) if vote in critics)
    return tallies


def _channel_ingredients(rule: ChannelRule) -> Iterator[JudgeIngredient]:
    subsets = _subsets(rule)
    for number, (one, first) in enumerate(zip(rule.passes, rule.first_votes, strict=True)):
        by_model = [_of_model(rule, one, first, model) for model in range(one.models)]
        for subset in by_model:
            single = VoteSubset(rule.channel, subset.numbers[:1], 1)
            yield JudgeIngredient(Ingredient.SINGLE, rule.channel, one.resolution, (single,))
        for subset in by_model:
            if len(subset.numbers) > 1:
                yield JudgeIngredient(Ingredient.VOTING, rule.channel, one.resolution, (subset,))
        if one.models > 1:
            yield JudgeIngredient(Ingredient.ENSEMBLE, rule.channel, one.resolution, (subsets[number],))
    if len(rule.passes) > 1:
        for model in range(rule.passes[0].models):
            passes = zip(rule.passes, rule.first_votes, strict=True)
            both = tuple(_of_model(rule, one, first, model) for one, first in passes)
            yield JudgeIngredient(Ingredient.MULTI_RESOLUTION, rule.channel, None, both)
    resolution = rule.passes[0].resolution if len(rule.passes) == 1 else None
    yield JudgeIngredient(Ingredient.CHANNEL, rule.channel, resolution, subsets)


def _subsets(rule: ChannelRule) -> tuple[VoteSubset, ...]:
    return tuple(
        VoteSubset(rule.channel, tuple(range(first, first + one.votes)), one.quorum)
        for one, first in zip(rule.passes, rule.first_votes, strict=True)
    )


def _of_model(rule: ChannelRule, one: PassRule, first: int, model: int) -> VoteSubset:
    """The votes of one model of a pass; the same share of them as of all votes must say Correct."""
    numbers = tuple(range(first + model, first + one.votes, one.models))
    return VoteSubset(rule.channel, numbers, ceil(one.quorum * len(numbers) / one.votes))


def _outcome(subset: VoteSubset, cast: dict[tuple[Channel, int], bool]) -> bool | None:
    votes = [cast.get((subset.channel, number)) for number in subset.numbers]
    return PassRule(len(votes), subset.quorum).outcome(votes.count(True), votes.count(False))


def _votes(ingredient: JudgeIngredient) -> Iterator[tuple[Channel, int]]:
    return ((subset.channel, number) for subset in ingredient.subsets for number in subset.numbers)


def _count(tally_: IngredientTally, outcome: bool | None, passed: bool) -> None:
    tally_.trajectories += 1
    if outcome is None:
        tally_.undecided += 1
    else:
        tally_.pairs[outcome, passed] += 1


class _CostsByPurpose(NamedTuple):
    """The calls of one trajectory, by purpose."""

    steps: list[CallCost]
    captions: list[CallCost]
    votes: list[tuple[CallCost, list[tuple[Channel, int]]]]
    """Each call for votes, with the vote of each of its draws."""


def _costs_by_purpose(rule: Rule, calls: Sequence[CallCost]) -> _CostsByPurpose:
    spent = _CostsByPurpose([], [], [])
    captions: dict[str, CallCost] = {}
    for call in calls:
        if call.role == _STEP_CRITIC:
            spent.steps.append(call)
        elif call.role == _DESCRIBER:
            # Each vote asks for the captions again, but a judge with one vote would ask once.
            captions.setdefault(call.payload_hash, call)
        elif call.role in _ROLES:
            channel = _ROLES[call.role]
            votes = [vote for draw in call.draws for vote in _vote_of(rule, channel, call.image_scale, draw)]
            spent.votes.append((call, votes))
    spent.captions.extend(captions.values())
    return spent


def _vote_of(rule: Rule, channel: Channel, scale: float | None, draw: int) -> Iterator[tuple[Channel, int]]:
    """The vote of a draw; a repeated vote has a draw that is larger by the number of votes of its pass."""
    resolution = FULL if scale is None or scale == 1.0 else f"{scale:g}"
    for one in rule.channels:
        for pass_rule, first in zip(one.passes, one.first_votes, strict=True):
            if one.channel is channel and pass_rule.resolution == resolution:
                yield channel, first + draw % pass_rule.votes


def _add_costs(tally_: IngredientTally, spent: _CostsByPurpose) -> None:
    wanted = set(_votes(tally_.ingredient))
    calls = [*spent.steps]
    if any(subset.channel is Channel.TEXT for subset in tally_.ingredient.subsets):
        calls += spent.captions
    calls += [_share(call, sum(vote in wanted for vote in votes)) for call, votes in spent.votes if wanted & {*votes}]
    tally_.calls += len(calls)
    tally_.cached += sum(call.cached for call in calls)
    tally_.tokens += sum(call.input_tokens + call.output_tokens for call in calls)
    tally_.milliseconds += sum(call.latency_ms for call in calls if not call.cached)


def _share(call: CallCost, votes: int) -> CallCost:
    """The cost of a call with only this many of its votes: the prompt counts once, answers count by votes."""
    return call._replace(output_tokens=ceil(call.output_tokens * votes / len(call.draws)))
