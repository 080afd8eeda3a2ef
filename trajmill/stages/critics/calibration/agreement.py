"""Measures how often a judge agrees with the programmatic check, per level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.round_summary import JudgeQuality
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.critics.trees.replay import INTERRUPTIONS, SeenStep, replay, seen
from trajmill.stages.critics.voting import read_rule
from trajmill.stages.environments.base import GoalDistances
from trajmill.stages.metrics.intervals import Interval, wilson

PASSED = 1.0
"""Programmatic reward of a finished task."""
MEASURED = 200
"""Episodes whose steps are compared: about 1,000 steps, good to 0.03 of kappa. Each takes about 20 ms to measure."""


class Rate(NamedTuple):
    """A rate with its 95 % interval; `value` is None if nothing was counted."""

    value: float | None
    interval: Interval
    n: int


class Agreement(NamedTuple):
    """The figures that follow from the counts of a judge."""

    precision: Rate
    recall: Rate
    f1: float | None
    kappa: float | None
    """Cohen's kappa; None if chance alone would always agree."""


def agreement(quality: JudgeQuality) -> Agreement:
    """Precision, recall, F1 and Cohen's kappa of a judge."""
    tp, fp = quality.true_positive, quality.false_positive
    tn, fn = quality.true_negative, quality.false_negative
    f1 = 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else None
    return Agreement(_rate(tp, tp + fp), _rate(tp, tp + fn), f1, _kappa(tp, fp, tn, fn))


def calibrate(
    episodes: Iterable[Episode], screens: ScreenReader, distances: GoalDistances | None = None
) -> tuple[JudgeQuality, ...]:
    """Count how often the consensus, each channel and the step critic agree with the state of the environment.

    Only judged episodes with a programmatic reward are counted. A channel is counted by its result, where its votes
    were asked for. The programmatic check is not compared with itself, and neither is a judge that asks it. The steps
    of the first `MEASURED` episodes are compared with the distance to the goal, where the environment measures it.
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
    return tuple(
        JudgeQuality(
            level=level,
            true_positive=counts[True, True],
            false_positive=counts[True, False],
            true_negative=counts[False, False],
            false_negative=counts[False, True],
        )
        for level, counts in pairs.items()
    )


def _step_pairs(
    episode: Episode, distances: Sequence[int | None], screens: ScreenReader
) -> Iterator[tuple[bool, bool]]:
    """For each step, whether the critic called it GOOD, and whether it came nearer to the goal.

    Not counted: steps after which nothing can come nearer (the goal was lost before), the last one, which is judged
    with the whole trajectory, replies without an action, and steps that only look, which no distance measures.
    """
    labels = {verdict.index: verdict.label for verdict in episode.step_verdicts}
    for step, before, after in zip(replay(episode, screens), distances, distances[1:], strict=False):
        if before is not None and not _only_looks(step):
            yield labels[step.index] is StepLabel.GOOD, after is not None and after < before


def _only_looks(step: SeenStep) -> bool:
    """Whether a step scrolls, waits, searches, closes a message that appeared by itself, or ends the episode."""
    element = step.action.element
    return (
        step.action.kind in ("unparsed", "wait", "terminate", "answer", "swipe", "scroll")
        or step.outcome.before.page in INTERRUPTIONS
        or (element is not None and element.role == "search_field")
    )


def _rate(hits: int, n: int) -> Rate:
    return Rate(hits / n if n else None, wilson(hits, n), n)


def _kappa(tp: int, fp: int, tn: int, fn: int) -> float | None:
    n = tp + fp + tn + fn
    if n == 0:
        return None
    observed = (tp + tn) / n
    chance = ((tp + fp) * (tp + fn) + (tn + fn) * (tn + fp)) / (n * n)
    return (observed - chance) / (1 - chance) if chance < 1 else None
