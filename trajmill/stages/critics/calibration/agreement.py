"""How often a judge and its ingredients (CODA 4.2, Table 2) agree with the programmatic check, from the same votes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil
from typing import Any, NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.policy_version import JudgeQuality
from trajmill.schemas.tables.verdict import Channel, Ingredient, StepLabel
from trajmill.stages.critics.replay import INTERRUPTIONS, replay, seen
from trajmill.stages.critics.voting import PASSED, ChannelRule, PassRule, Rule, Vote, all_of, read_rule, resolution_of
from trajmill.stages.environments.base import GoalDistances
from trajmill.stages.metrics.intervals import Interval, wilson

MEASURED = 50
"""Episodes of a round whose steps are compared, 15 ms each: kappa is good to 0.06, over eight rounds to 0.02."""


class Rate(NamedTuple):
    """A rate with its 95 % interval; `value` is None if nothing was counted."""

    value: float | None
    interval: Interval
    n: int


class Agreement(NamedTuple):
    precision: Rate
    recall: Rate
    f1: float | None
    kappa: float | None
    """Cohen's kappa; None if chance alone would always agree."""


def agreement(quality: JudgeQuality) -> Agreement:
    tp, fp = quality.true_positive, quality.false_positive
    tn, fn = quality.true_negative, quality.false_negative
    n, kappa = tp + fp + tn + fn, None
    if n:
        observed = (tp + tn) / n
        chance = ((tp + fp) * (tp + fn) + (tn + fn) * (tn + fp)) / (n * n)
        kappa = (observed - chance) / (1 - chance) if chance < 1 else None
    f1 = 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else None
    precision, recall = (Rate(tp / of if of else None, wilson(tp, of), of) for of in (tp + fp, tp + fn))
    return Agreement(precision, recall, f1, kappa)


def quality_of(level: str, pairs: Mapping[tuple[bool, bool], int]) -> JudgeQuality:
    return JudgeQuality(
        level=level,
        true_positive=pairs[True, True],
        false_positive=pairs[True, False],
        true_negative=pairs[False, False],
        false_negative=pairs[False, True],
    )


def calibrate(
    episodes: Iterable[Episode], screens: ScreenReader, distances: GoalDistances | None = None, most: int = MEASURED
) -> tuple[JudgeQuality, ...]:
    """Count how often the consensus, each channel and the step critic agree with the state of the environment.

    Only judged episodes with a programmatic reward count. The programmatic check is not compared with itself, and
    neither is a judge that includes it. The steps of the first `most` episodes are compared with the distance to the
    goal, where the environment measures it.
    """
    reader, compared = seen(screens), 0
    pairs: dict[str, Counter[tuple[bool, bool]]] = {"trajectory": Counter()}
    for episode in episodes:
        if episode.judgement is None or episode.trajectory.reward is None:
            continue
        passed = episode.trajectory.reward >= PASSED
        rule = read_rule(episode.judgement.rule)
        if not rule.repeats_the_check:
            pairs["trajectory"][episode.judgement.correct, passed] += 1
        for channel, correct in rule.outcomes(episode.trajectory_verdicts).items():
            if correct is not None and channel is not Channel.PROGRAMMATIC:
                pairs.setdefault(channel, Counter())[correct, passed] += 1
        measured = distances(episode) if distances is not None and compared < most else None
        if measured is not None:
            compared += 1
            pairs.setdefault("step", Counter()).update(_step_pairs(episode, measured, reader))
    return tuple(quality_of(level, counts) for level, counts in pairs.items())


def _step_pairs(
    episode: Episode, distances: Sequence[int | None], screens: ScreenReader
) -> Iterator[tuple[bool, bool]]:
    """Yield for each step whether the critic called it GOOD, and whether it came nearer to the goal.

    Not counted: steps after the goal was lost, the last one, which is judged with the whole trajectory, replies without
    an action, steps without a label, and steps that only look, which no distance measures.
    """
    for step, before, after in zip(replay(episode, screens), distances, distances[1:], strict=False):
        element = step.action.element
        only_looks = step.action.kind in ("unparsed", "wait", "terminate", "answer", "scroll")
        only_looks |= step.action.kind == "swipe" and not step.action.slides
        only_looks |= step.outcome.before.page in INTERRUPTIONS
        only_looks |= element is not None and element.role == "search_field"
        label = episode.labels.get(step.index)
        if before is not None and label is not None and not only_looks:
            yield label is StepLabel.GOOD, after is not None and after < before


class Precision(StrEnum):
    ENOUGH = "enough"
    TOO_LOW = "too_low"
    UNKNOWN = "unknown"
    """No trajectory that the judge called Correct has a known outcome."""


def precise_enough(counts: Iterable[JudgeQuality], floor: float) -> Precision:
    """Compare the measured precision with its floor; the least precise version of the judge decides."""
    known = [rate for rate in (agreement(each).precision.value for each in counts) if rate is not None]
    if not known:
        return Precision.UNKNOWN
    return Precision.ENOUGH if min(known) >= floor else Precision.TOO_LOW


_STEP_CRITIC, _DESCRIBER = "critic.step", "describer"
_ROLES = {f"critic.{channel}": channel for channel in (Channel.TEXT, Channel.MULTIMODAL)}
_VoteKey = tuple[Channel, int]


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
    role: str
    payload_hash: str
    draws: tuple[int, ...]
    image_scale: float | None
    input_tokens: int
    output_tokens: int
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


def tally(rule: Rule, evidence: Iterable[LabelledVotes]) -> tuple[IngredientTally, ...]:
    """Count the votes of all ingredients of a judge, channel by channel, the consensus last."""
    found = [ingredient for channel in rule.channels for ingredient in _channel_ingredients(channel)]
    whole = tuple(subset for each in found if each.kind is Ingredient.CHANNEL for subset in each.subsets)
    tallies = tuple(map(IngredientTally, (*found, JudgeIngredient(Ingredient.CONSENSUS, None, None, whole))))
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
