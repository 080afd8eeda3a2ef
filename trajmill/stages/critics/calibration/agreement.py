"""Measures how often a judge agrees with the programmatic check, per level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from trajmill.schemas.actions import TypeText
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.round_summary import JudgeQuality
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.critics.trees.replay import SeenStep, replay, seen
from trajmill.stages.critics.voting import read_rule
from trajmill.stages.metrics.intervals import Interval, wilson

PASSED = 1.0
"""Programmatic reward of a finished task."""


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


def calibrate(episodes: Iterable[Episode], screens: ScreenReader) -> tuple[JudgeQuality, ...]:
    """Count how often the consensus, each channel and the step critic agree with the programmatic check.

    Only judged episodes with a programmatic reward are counted, and for steps only queries with an annotated path. A
    channel is counted by its result, where its votes were asked for. The programmatic check is not compared with
    itself, and neither is a judge that asks it.
    """
    reader = seen(screens)
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
        if episode.query.path:
            pairs.setdefault("step", Counter()).update(_step_pairs(episode, reader))
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


def _step_pairs(episode: Episode, screens: ScreenReader) -> list[tuple[bool, bool]]:
    """For each step, whether the critic called it GOOD, and whether the annotated path has it.

    Each operation of the path counts once, and only if it had an effect. Looking around, focusing an input and going
    back are in no path although they may be needed, so they are not counted. Neither is the final answer, which is
    judged with the whole trajectory.
    """
    left = Counter((step.operation, step.text or step.target) for step in episode.query.path)
    pairs = []
    labels = {verdict.index: verdict.label for verdict in episode.step_verdicts}
    for step in replay(episode, screens):
        operation = _operation(step)
        if operation is None:
            continue
        on_path = left[operation] > 0 and not step.outcome.same
        left[operation] -= on_path
        pairs.append((labels[step.index] is StepLabel.GOOD, on_path))
    return pairs


def _operation(step: SeenStep) -> tuple[str, str] | None:
    """The step in the form of a `PathStep`: its operation, and the text or the target."""
    if isinstance(step.action.parsed, TypeText):
        return "type", step.action.words
    if step.action.kind == "open":
        return "open", step.action.words
    element = step.action.element
    if element is not None and element.role == "icon":
        return "open", element.text
    if step.action.presses and not (element is not None and "editable" in element.states):
        return "tap", element.element_id if element is not None else ""
    return None


def _rate(hits: int, n: int) -> Rate:
    return Rate(hits / n if n else None, wilson(hits, n), n)


def _kappa(tp: int, fp: int, tn: int, fn: int) -> float | None:
    n = tp + fp + tn + fn
    if n == 0:
        return None
    observed = (tp + tn) / n
    chance = ((tp + fp) * (tp + fn) + (tn + fn) * (tn + fp)) / (n * n)
    return (observed - chance) / (1 - chance) if chance < 1 else None
