"""Measures each ingredient of a judge: one vote, voting, low resolution first, an ensemble, a channel, the whole.

All are counted from the same votes, each of which was cast once (CODA 4.2, Table 2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple

from trajmill.schemas.tables.policy_version import JudgeQuality
from trajmill.schemas.tables.verdict import Channel, Ingredient
from trajmill.stages.critics.base import Vote
from trajmill.stages.critics.calibration.agreement import quality_of
from trajmill.stages.critics.voting import ChannelRule, PassRule, Rule, all_of, resolution_of

_STEP_CRITIC, _DESCRIBER = "critic.step", "describer"
_ROLES = {f"critic.{channel}": channel for channel in (Channel.TEXT, Channel.MULTIMODAL)}
_VoteKey = tuple[Channel, int]
"""Channel of a vote and its number within the channel."""


class VoteSubset(NamedTuple):
    """Some votes of one pass, by their numbers within the channel, and how many of them must say Correct."""

    channel: Channel
    numbers: tuple[int, ...]
    quorum: int


class JudgeIngredient(NamedTuple):
    kind: Ingredient
    channel: Channel | None
    resolution: str | None
    subsets: tuple[VoteSubset, ...]
    """It says Correct if all of these do."""

    @property
    def vote_keys(self) -> list[_VoteKey]:
        return [(subset.channel, number) for subset in self.subsets for number in subset.numbers]

    @property
    def votes(self) -> int:
        return len(self.vote_keys)

    def outcome(self, cast: dict[_VoteKey, bool]) -> bool | None:
        outcomes = []
        for channel, numbers, quorum in self.subsets:
            votes = [cast.get((channel, number)) for number in numbers]
            outcomes.append(PassRule(len(votes), quorum).outcome(votes.count(True), votes.count(False)))
        return all_of(outcomes)


class CallCost(NamedTuple):
    """The cost of a model call, from its `model_calls` row."""

    role: str
    payload_hash: str
    draws: tuple[int, ...]
    image_scale: float | None
    input_tokens: int
    output_tokens: int
    """Of the answers of all votes."""
    latency_ms: float
    cached: bool | None

    @classmethod
    def of(cls, call: Mapping[str, Any]) -> CallCost:
        """Return the cost in a `model_calls` row; rows of earlier versions have only the first draw."""
        draws = call["draws"] or (() if call["draw"] is None else (call["draw"],))
        return cls(**{name: call[name] for name in COST_COLUMNS}, draws=tuple(draws))


COST_COLUMNS = ("role", "payload_hash", "image_scale", "input_tokens", "output_tokens", "latency_ms", "cached")


class LabelledVotes(NamedTuple):
    passed: bool
    votes: Sequence[Vote]
    calls: Sequence[CallCost]


@dataclass
class IngredientTally:
    ingredient: JudgeIngredient
    pairs: Counter[tuple[bool, bool]] = field(default_factory=Counter)
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
        return quality_of(self.ingredient.kind, self.pairs)


def ingredients_of(rule: Rule) -> tuple[JudgeIngredient, ...]:
    """Return all ingredients of a judge, channel by channel, the consensus last."""
    found = [ingredient for channel in rule.channels for ingredient in _channel_ingredients(channel)]
    whole = tuple(subset for each in found if each.kind is Ingredient.CHANNEL for subset in each.subsets)
    return (*found, JudgeIngredient(Ingredient.CONSENSUS, None, None, whole))


def tally(rule: Rule, evidence: Iterable[LabelledVotes]) -> tuple[IngredientTally, ...]:
    """Count the results of each ingredient of a judge, and what they cost."""
    tallies = tuple(IngredientTally(ingredient) for ingredient in ingredients_of(rule))
    for passed, votes, calls in evidence:
        cast = {(vote.channel, vote.number): vote.correct for vote in votes}
        critics = {(vote.channel, vote.number): vote.made_by for vote in votes}
        steps = [call for call in calls if call.role == _STEP_CRITIC]
        # Each vote requests the captions again, but a judge with one vote would do so once.
        captions: dict[str, CallCost] = {}
        for call in calls:
            if call.role == _DESCRIBER:
                captions.setdefault(call.payload_hash, call)
        asked = [(call, _votes_of(rule, call)) for call in calls if call.role in _ROLES]
        for each in tallies:
            ingredient, outcome = each.ingredient, each.ingredient.outcome(cast)
            each.trajectories += 1
            if outcome is None:
                each.undecided += 1
            else:
                each.pairs[outcome, passed] += 1
            by_text = any(subset.channel is Channel.TEXT for subset in ingredient.subsets)
            wanted, spent = ingredient.vote_keys, [*steps, *(captions.values() if by_text else ())]
            for call, keys in asked:
                counted = sum(key in wanted for key in keys)
                if counted:  # The prompt counts once, answers count by votes.
                    spent.append(call._replace(output_tokens=ceil(call.output_tokens * counted / len(call.draws))))
            each.calls += len(spent)
            each.cached += sum(bool(call.cached) for call in spent)
            each.tokens += sum(call.input_tokens + call.output_tokens for call in spent)
            each.milliseconds += sum(call.latency_ms for call in spent if not call.cached)
            each.models |= dict.fromkeys(critics[key] for key in wanted if key in critics)
    return tallies


def _channel_ingredients(rule: ChannelRule) -> Iterator[JudgeIngredient]:
    passes = list(zip(rule.passes, rule.first_votes, strict=True))
    whole = tuple(VoteSubset(rule.channel, tuple(range(first, first + one.votes)), one.quorum) for one, first in passes)

    def of_model(one: PassRule, first: int, model: int) -> VoteSubset:
        """Return the votes of one model of a pass; the same share of them as of all votes must say Correct."""
        numbers = tuple(range(first + model, first + one.votes, one.models))
        return VoteSubset(rule.channel, numbers, ceil(one.quorum * len(numbers) / one.votes))

    for number, (one, first) in enumerate(passes):
        by_model = [of_model(one, first, model) for model in range(one.models)]
        for subset in by_model:
            single = VoteSubset(rule.channel, subset.numbers[:1], 1)
            yield JudgeIngredient(Ingredient.SINGLE, rule.channel, one.resolution, (single,))
        for subset in by_model:
            if len(subset.numbers) > 1:
                yield JudgeIngredient(Ingredient.VOTING, rule.channel, one.resolution, (subset,))
        if one.models > 1:
            yield JudgeIngredient(Ingredient.ENSEMBLE, rule.channel, one.resolution, (whole[number],))
    for model in range(rule.passes[0].models if len(passes) > 1 else 0):
        both = tuple(of_model(one, first, model) for one, first in passes)
        yield JudgeIngredient(Ingredient.MULTI_RESOLUTION, rule.channel, None, both)
    resolution = rule.passes[0].resolution if len(passes) == 1 else None
    yield JudgeIngredient(Ingredient.CHANNEL, rule.channel, resolution, whole)


def _votes_of(rule: Rule, call: CallCost) -> list[_VoteKey]:
    # A repeated vote has a draw that is larger by the number of votes of its pass.
    return [
        (one.channel, first + draw % pass_rule.votes)
        for draw in call.draws
        for one in rule.channels
        for pass_rule, first in zip(one.passes, one.first_votes, strict=True)
        if one.channel is _ROLES[call.role] and pass_rule.resolution == resolution_of(call.image_scale or 1.0)
    ]
