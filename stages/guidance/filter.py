"""Which steps of a trajectory are worth telling: those with an effect that lasted (paper 6.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.tables.guidance import DroppedStep
from trajmill.schemas.tables.verdict import StepLabel, StepVerdict
from trajmill.stages.critics.trees.replay import SeenStep
from trajmill.stages.guidance.base import KeptSteps, StepDescription, StepOutcome

_ENDINGS = ("terminate", "answer")


class AsExpected(NamedTuple):
    """The steps of a model's own trajectory that did what the model expected of them, and the others."""

    steps: tuple[StepDescription, ...]
    dropped: tuple[DroppedStep, ...]


def as_expected(steps: Sequence[SeenStep], outcomes: Sequence[StepOutcome]) -> AsExpected:
    """Leave out the steps of a model's own trajectory whose outcome did not meet the expectation it stated.

    The query is hard, so that a success of the model has errors and idle steps in it (paper 6.4). What ends the episode
    stays: it changes nothing on the screen by its nature.

    Args:
        steps: those worth telling.
        outcomes: what came of each of them, as described.
    """
    described = [StepDescription(step, outcome.text) for step, outcome in zip(steps, outcomes, strict=True)]
    unmet = {
        step.index: f"not as expected: {outcome.unmet}"
        for step, outcome in zip(steps, outcomes, strict=True)
        if outcome.unmet and step.action.kind not in _ENDINGS
    }
    dropped = tuple(DroppedStep(index=index, reason=reason) for index, reason in sorted(unmet.items()))
    return AsExpected(tuple(each for each in described if each.step.index not in unmet), dropped)


def worth_telling(
    steps: Sequence[SeenStep], verdicts: Iterable[StepVerdict] = (), pages: Sequence[str] = ()
) -> KeptSteps:
    """Leave out steps without effect, harmful ones, detours and settings that were changed again later.

    `verdicts` may be empty: a reference path has none. A detour is a run of steps that led back to the same screen; it
    is kept if something set on the way still stood afterwards, or if it alone passed one of the task's `pages`: there
    was something to read.
    """
    labels = {verdict.index: verdict.label for verdict in verdicts}
    reasons: dict[int, str] = {}
    for step in steps:
        reason = _reason(step, labels)
        if reason:
            reasons[step.index] = reason
    _drop_undone(steps, reasons)
    _drop_detours(steps, reasons, frozenset(pages))
    kept = tuple(step for step in steps if step.index not in reasons)
    return KeptSteps(kept, tuple(DroppedStep(index=index, reason=reasons[index]) for index in sorted(reasons)))


def _reason(step: SeenStep, labels: Mapping[int, StepLabel]) -> str:
    if step.action.parsed is None:
        return "no action"
    if step.action.kind in _ENDINGS:
        return ""
    if step.outcome.same:
        return "no visible effect"
    if labels.get(step.index) is StepLabel.HARMFUL and not step.outcome.changes:
        return "judged harmful"
    return ""


def _drop_undone(steps: Sequence[SeenStep], reasons: dict[int, str]) -> None:
    """Of the changes of one control keep those that lead from its first to its last value in the fewest steps."""
    history: dict[tuple[str, str], list[tuple[int, str, str]]] = {}
    for step in steps:
        if len(step.outcome.changes) == 1 and step.index not in reasons:
            change = step.outcome.changes[0]
            place = (step.outcome.after.page, change.control.key)
            past = history.setdefault(place, [])
            came_back = next((at for at, (_, old, _) in enumerate(past) if old == change.control.value), None)
            past.append((step.index, change.old, change.control.value))
            if came_back is not None:
                for index, _, _ in past[came_back:]:
                    reasons[index] = "undone later"
                del past[came_back:]
            elif change.control.kind == "choice" and len(past) > 1:
                reasons[past[-2][0]] = "changed again later"
                past[-2:] = [(step.index, past[-2][1], change.control.value)]


def _drop_detours(steps: Sequence[SeenStep], reasons: dict[int, str], pages: frozenset[str]) -> None:
    start = 0
    while start < len(steps):
        end = _end_of_detour(steps, start, reasons, pages)
        for step in steps[start:end]:
            reasons.setdefault(step.index, "led back to the same screen")
        start = max(end, start + 1)


def _end_of_detour(steps: Sequence[SeenStep], start: int, reasons: Mapping[int, str], pages: frozenset[str]) -> int:
    """Where the longest run from `start` ends that comes back to its screen and leaves nothing set; else `start`."""
    here = steps[start].outcome.before.screen_id
    for end in range(len(steps), start + 1, -1):
        run = steps[start:end]
        if run[-1].outcome.after.screen_id != here or run[-1].action.ends or _sets_anything(run, reasons):
            continue
        if not (_passed(run) & pages) - _passed([*steps[:start], *steps[end:]]):
            return end
    return start


def _passed(steps: Sequence[SeenStep]) -> set[str]:
    return {step.outcome.before.page for step in steps} | {step.outcome.after.page for step in steps}


def _sets_anything(run: Sequence[SeenStep], reasons: Mapping[int, str]) -> bool:
    return any(step.outcome.changes and step.index not in reasons for step in run)
