"""How often a judge agrees with the programmatic check, per level, and whether it is precise enough to train on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.policy_version import JudgeQuality
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.critics.trees.replay import INTERRUPTIONS, replay, seen
from trajmill.stages.critics.voting import read_rule
from trajmill.stages.environments.base import GoalDistances
from trajmill.stages.metrics.intervals import Interval, wilson

PASSED = 1.0
MEASURED = 200
"""Episodes whose steps are compared: about 1,000 steps, good to 0.03 of kappa. Each takes about 20 ms to measure."""


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
    episodes: Iterable[Episode], screens: ScreenReader, distances: GoalDistances | None = None
) -> tuple[JudgeQuality, ...]:
    """Count how often the consensus, each channel and the step critic agree with the state of the environment.

    Only judged episodes with a programmatic reward count. The programmatic check is not compared with itself, and
    neither is a judge that includes it. The steps of the first `MEASURED` episodes are compared with the distance to
    the goal, where the environment measures it.
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
        measured = distances(episode) if distances is not None and compared < MEASURED else None
        if measured is not None:
            compared += 1
            pairs.setdefault("step", Counter()).update(_step_pairs(episode, measured, reader))
    return tuple(quality_of(level, counts) for level, counts in pairs.items())


def _step_pairs(
    episode: Episode, distances: Sequence[int | None], screens: ScreenReader
) -> Iterator[tuple[bool, bool]]:
    """Yield for each step whether the critic called it GOOD, and whether it came nearer to the goal.

    Not counted: steps after the goal was lost, the last one, which is judged with the whole trajectory, replies without
    an action, and steps that only look, which no distance measures.
    """
    labels = {verdict.index: verdict.label for verdict in episode.step_verdicts}
    for step, before, after in zip(replay(episode, screens), distances, distances[1:], strict=False):
        element = step.action.element
        only_looks = step.action.kind in ("unparsed", "wait", "terminate", "answer", "swipe", "scroll")
        only_looks |= step.outcome.before.page in INTERRUPTIONS
        only_looks |= element is not None and element.role == "search_field"
        if before is not None and not only_looks:
            yield labels[step.index] is StepLabel.GOOD, after is not None and after < before


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
