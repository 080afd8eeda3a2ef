"""Finds the steps of a trajectory without a lasting effect; guidance leaves them out (paper 6.4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from trajmill.stages.critics.replay import ScreenState, SeenStep

ENDINGS = ("terminate", "answer")
"""Kinds of the actions that end an episode; they never change the screen."""


def useless_steps(
    steps: Sequence[SeenStep], harmful: Collection[int] = (), pages: Sequence[str] = ()
) -> dict[int, str]:
    """Return steps without effect, steps labelled harmful, detours, and settings that were changed again later.

    A detour is a run of steps that leads back to the same screen. It is kept if a setting changed in it still holds
    afterwards, or if only the detour passes one of the task's `pages`, where the agent may have read something.

    Returns:
        The reason for leaving a step out, by its index.
    """
    reasons: dict[int, str] = {}
    for step in steps:
        if step.action.parsed is None:
            reasons[step.index] = "no action"
        elif step.action.kind not in ENDINGS and step.outcome.same:
            reasons[step.index] = "no visible effect"
        elif step.action.kind not in ENDINGS and step.index in harmful and not step.outcome.changes:
            reasons[step.index] = "judged harmful"
    _drop_undone(steps, reasons)
    start = 0
    while start < len(steps):
        end = _end_of_detour(steps, start, reasons, frozenset(pages))
        for step in steps[start:end]:
            reasons.setdefault(step.index, "led back to the same screen")
        start = max(end, start + 1)
    return reasons


class _Change(NamedTuple):
    """A step that changed one control and nothing else that has a value."""

    step: SeenStep
    old: str


def _drop_undone(steps: Sequence[SeenStep], reasons: dict[int, str]) -> None:
    """Drop the changes of a control that were not needed to get from its first to its last value."""
    history: dict[tuple[str, str], list[_Change]] = {}
    for step in steps:
        if len(step.outcome.changes) == 1 and step.index not in reasons:
            change = step.outcome.changes[0]
            past = history.setdefault((step.outcome.after.page, change.control.key), [])
            came_back = next((at for at, each in enumerate(past) if each.old == change.control.value), None)
            past.append(_Change(step, change.old))
            if came_back is not None and _submits(past[came_back].step, step):
                past.clear()
            elif came_back is not None:
                for each in past[came_back:]:
                    reasons[each.step.index] = "undone later"
                del past[came_back:]
            elif change.control.kind == "choice" and len(past) > 1:
                reasons[past[-2].step.index] = "changed again later"
                past[-2:] = [_Change(step, past[-2].old)]


def _submits(first: SeenStep, last: SeenStep) -> bool:
    """Return whether `last` set the value back by submitting it: a key press that shows new texts.

    A tap that sets a control back may show more by itself, as another tab or a switch does, and was not needed.
    """

    def texts(screen: ScreenState) -> set[tuple[str, str]]:
        return {(element.role, element.text) for element in screen.elements if element.text}

    known = texts(first.outcome.before) | texts(last.outcome.before)
    return last.action.kind == "key" and bool(texts(last.outcome.after) - known)


def _end_of_detour(steps: Sequence[SeenStep], start: int, reasons: Mapping[int, str], pages: frozenset[str]) -> int:
    """Return the end of the longest run from `start` that returns to its screen and changes no setting, or `start`."""
    here = steps[start].outcome.before.screen_id
    for end in range(len(steps), start + 1, -1):
        run = steps[start:end]
        sets_anything = any(step.outcome.changes and step.index not in reasons for step in run)
        if run[-1].outcome.after.screen_id != here or run[-1].action.kind in ENDINGS or sets_anything:
            continue
        if not (_pages_of(run) & pages) - _pages_of([*steps[:start], *steps[end:]]):
            return end
    return start


def _pages_of(steps: Sequence[SeenStep]) -> set[str]:
    return {page for step in steps for page in (step.outcome.before.page, step.outcome.after.page)}
