"""Keeps the steps of a trajectory whose effect lasted; guidance is written from them (paper 6.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.tables.guidance import DroppedStep
from trajmill.schemas.tables.verdict import StepLabel, StepVerdict
from trajmill.stages.critics.trees.replay import SeenStep
from trajmill.stages.critics.trees.screen_state import ScreenState
from trajmill.stages.guidance.base import KeptSteps, StepDescription, StepOutcome

_ENDINGS = ("terminate", "answer")


class AsExpected(NamedTuple):
    """The steps of a policy's own trajectory that had the result that the policy expected, and the others."""

    steps: tuple[StepDescription, ...]
    dropped: tuple[DroppedStep, ...]


def as_expected(steps: Sequence[SeenStep], outcomes: Sequence[StepOutcome]) -> AsExpected:
    """Leave out the steps of a policy's own trajectory whose outcome differs from what the policy expected.

    The query is hard, so even a success contains errors and useless steps (paper 6.4). The step that ends the episode
    stays, though it never changes the screen.

    Args:
        steps: kept by `lasting_steps`.
        outcomes: the described result of each step.
    """
    described = [StepDescription(step, outcome.text) for step, outcome in zip(steps, outcomes, strict=True)]
    unmet = {
        step.index: f"not as expected: {outcome.unmet}"
        for step, outcome in zip(steps, outcomes, strict=True)
        if outcome.unmet and step.action.kind not in _ENDINGS
    }
    dropped = tuple(DroppedStep(index=index, reason=reason) for index, reason in sorted(unmet.items()))
    return AsExpected(tuple(each for each in described if each.step.index not in unmet), dropped)


def lasting_steps(
    steps: Sequence[SeenStep], verdicts: Iterable[StepVerdict] = (), pages: Sequence[str] = ()
) -> KeptSteps:
    """Leave out steps without effect, harmful steps, detours, and settings that were changed again later.

    A detour is a run of steps that leads back to the same screen. It is kept if a setting changed in it still holds
    afterwards, or if only the detour passes one of the task's pages, because the agent may have read something there.

    Args:
        steps: all steps of the trajectory.
        verdicts: of the step critic; a reference path has none.
        pages: the pages that the task needs.
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


class _Change(NamedTuple):
    """A step that changed one control and nothing else that has a value."""

    step: SeenStep
    old: str
    """The value before it."""


def _drop_undone(steps: Sequence[SeenStep], reasons: dict[int, str]) -> None:
    """Drop the changes of a control that were not needed to get from its first to its last value."""
    history: dict[tuple[str, str], list[_Change]] = {}
    for step in steps:
        if len(step.outcome.changes) == 1 and step.index not in reasons:
            change = step.outcome.changes[0]
            past = history.setdefault((step.outcome.after.page, change.control.key), [])
            came_back = next((at for at, each in enumerate(past) if each.old == change.control.value), None)
            past.append(_Change(step, change.old))
            if came_back is not None and _sent(past[came_back].step, step):
                past.clear()
            elif came_back is not None:
                for each in past[came_back:]:
                    reasons[each.step.index] = "undone later"
                del past[came_back:]
            elif change.control.kind == "choice" and len(past) > 1:
                reasons[past[-2].step.index] = "changed again later"
                past[-2:] = [_Change(step, past[-2].old)]


def _sent(first: SeenStep, last: SeenStep) -> bool:
    """Whether `last` set the value back by sending it: a key press that shows what was not there before.

    A tap that sets a control back may show more by itself, as another tab or a switch does, and was not needed.
    """
    known = _texts(first.outcome.before) | _texts(last.outcome.before)
    return last.action.kind == "key" and bool(_texts(last.outcome.after) - known)


def _texts(screen: ScreenState) -> set[tuple[str, str]]:
    return {(element.role, element.text) for element in screen.elements if element.text}


def _drop_detours(steps: Sequence[SeenStep], reasons: dict[int, str], pages: frozenset[str]) -> None:
    start = 0
    while start < len(steps):
        end = _end_of_detour(steps, start, reasons, pages)
        for step in steps[start:end]:
            reasons.setdefault(step.index, "led back to the same screen")
        start = max(end, start + 1)


def _end_of_detour(steps: Sequence[SeenStep], start: int, reasons: Mapping[int, str], pages: frozenset[str]) -> int:
    """The end of the longest run from `start` that returns to its screen and changes no setting; `start` if none."""
    here = steps[start].outcome.before.screen_id
    for end in range(len(steps), start + 1, -1):
        run = steps[start:end]
        if run[-1].outcome.after.screen_id != here or run[-1].action.ends or _sets_anything(run, reasons):
            continue
        if not (_pages_of(run) & pages) - _pages_of([*steps[:start], *steps[end:]]):
            return end
    return start


def _pages_of(steps: Sequence[SeenStep]) -> set[str]:
    return {step.outcome.before.page for step in steps} | {step.outcome.after.page for step in steps}


def _sets_anything(run: Sequence[SeenStep], reasons: Mapping[int, str]) -> bool:
    return any(step.outcome.changes and step.index not in reasons for step in run)
