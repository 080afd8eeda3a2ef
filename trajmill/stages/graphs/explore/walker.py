"""Carries out trials in a running app: goes to a screen, tries something, and returns the effect."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from trajmill.schemas.actions import Action, PressKeys, SystemButton, Terminate, Wait
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import PathStep, Platform, Query
from trajmill.stages.agents.reference import next_move
from trajmill.stages.environments.base import Confined, Environment
from trajmill.stages.environments.simulated.reference_path import WalkPosition, scroll_over
from trajmill.stages.graphs.explore.base import (
    SWITCHES,
    Effect,
    PlannedTrial,
    Trial,
    TrialKind,
    WalkedScreen,
    seen_screen,
)
from trajmill.stages.graphs.explore.plan import SCROLLABLE

_WAIT = Wait(seconds=0.3)
MOST_READINGS = 40
_MOST_TURNS = 10
"""Most turns of the wheel until something comes up."""
_VERBS = {"scroll": "scroll to", "double_tap": "double-tap", "right_tap": "right-tap", "key": "press a key in"}


class OutOfBoundsError(Exception):
    """The exploration has used up its actions or its time."""


class WayLost(EnvironmentFailure):
    """An element on the way is not there; the environment works."""


class Budget:
    """The actions and seconds of one call, shared by all walkers."""

    def __init__(self, actions: int, seconds: float) -> None:
        self.used, self._actions, self._end = 0, actions, time.monotonic() + seconds

    def spend(self) -> None:
        """Count an action or a reset. Raises OutOfBoundsError if nothing is left."""
        self.used += 1
        if self.is_spent:
            raise OutOfBoundsError

    @property
    def is_spent(self) -> bool:
        return self.used > self._actions or time.monotonic() > self._end


class TrialResult(NamedTuple):
    trial: Trial
    before: Observation
    after: Observation | None


def _result(
    planned: PlannedTrial, before: Observation, after: Observation | None, effect: Effect, **fields: Any
) -> TrialResult:
    after_id = after.screen.screen_id if after is not None else ""
    trial = planned.carried_out(before.screen.screen_id, effect, after=after_id, **fields)
    return TrialResult(trial, before, after)


class AppWalker:
    """One leased environment with the app; tracks its position and resets only if it must."""

    def __init__(self, environment: Environment, start: Query, opening: Sequence[PathStep], budget: Budget) -> None:
        self._environment, self._start, self._opening, self._budget = environment, start, tuple(opening), budget
        self.way: tuple[PathStep, ...] | None = None
        """The operations since the start; None if a reset is needed."""
        self._seen: Observation | None = None
        self._home = ""
        """The app that a reset and the opening lead to."""

    async def go(self, way: tuple[PathStep, ...]) -> Observation:
        """Go to the screen at the end of some operations; it resets the app unless it stands there.

        Raises WayLost (an element on the way is not there), EnvironmentFailure, OutOfBoundsError (the end).
        """
        if self.way != way or self._seen is None:
            self.way = None
            self._budget.spend()
            self._seen = await self._environment.reset(self._start, 0)
            if self._environment.platform is not Platform.WEB:
                await self._until_complete()
            first = self._current().app
            await self._do(self._opening)
            self._home = self._current().app or first
            await self._do(way)
            self.way = way
        return self._seen

    async def look_again(self) -> Observation:
        """Wait a moment; a program under load shows an effect late. Raises as `go`."""
        await self._act(_WAIT)
        return self._current()

    async def attempt(self, planned: PlannedTrial) -> TrialResult:
        """Carry out one trial; raises as `go`, if the screen of the trial cannot be reached."""
        before = await self.go(planned.way)
        self.way = None
        if planned.kind is TrialKind.SCROLL:
            return await self._scroll(planned, before)
        refused = self.refused
        try:
            await self._do(planned.steps)
        except WayLost as error:
            return _result(planned, before, None, Effect.FAILED, reason=str(error))
        first, after = seen_screen(before), seen_screen(self._current())
        if first.content == after.content and self._environment.platform is not Platform.WEB:
            await self._act(_WAIT)
            after = seen_screen(self._current())
        new = self.refused[len(refused) :]
        if _is_outside(first, after, self._home, new):
            address = new[-1] if new else after.app
            return _result(planned, before, self._seen, Effect.LEFT, address=address)
        if first.content == after.content:
            self.way = planned.way
            return _result(planned, before, self._seen, Effect.NOTHING)
        shown = self._seen
        self.way = (*planned.way, *planned.steps)
        undone = await self._go_back(planned, first, after)
        return _result(planned, before, shown, Effect.CHANGED, undone=undone)

    async def _scroll(self, planned: PlannedTrial, before: Observation) -> TrialResult:
        """Scroll down until something comes up, which is the effect, or to the end."""
        (step,) = planned.steps
        first = seen_screen(before)
        came_up: list[str] = []
        for _ in range(_MOST_TURNS):
            region = seen_screen(self._current()).by_target.get(step.target)
            if came_up or region is None or SCROLLABLE not in region.states:
                break
            await self._act(scroll_over(region, self._environment.platform))
            came_up = [name for name in seen_screen(self._current()).by_target if name not in first.by_target]
        if not came_up:
            return _result(planned, before, self._seen, Effect.NOTHING)
        steps = (step.model_copy(update={"target": came_up[-1]}),)
        self.way = (*planned.way, *steps)
        return _result(planned._replace(steps=steps), before, self._seen, Effect.CHANGED, region=step.target)

    async def _go_back(self, planned: PlannedTrial, first: WalkedScreen, after: WalkedScreen) -> bool:
        """Press a switch a second time, or leave a menu or a dialog; returns whether a second press undid the first."""
        was, now = first.by_target.get(planned.target), after.by_target.get(planned.target)
        if planned.kind is TrialKind.PRESS and was and now and was.role in SWITCHES:
            if ("checked" in was.states) != ("checked" in now.states):
                self.way = None
                await self._do(planned.steps)
                again = seen_screen(self._current()).content
                if again == first.content:
                    self.way = planned.way
                # Elements that show only under the pointer, such as a button to remove a row, do not count.
                return {*first.content} <= {*again}
        elif any(e.role in ("menu_item", "dialog") and e not in first.elements for e in after.elements):
            phone = self._environment.platform is Platform.PHONE
            self.way = None
            await self._act(SystemButton(button="Back") if phone else PressKeys(keys=("escape",)))
            if seen_screen(self._current()).content == first.content:
                self.way = planned.way
        return False

    async def _do(self, steps: Sequence[PathStep]) -> None:
        position, path = WalkPosition(), tuple(steps)
        while position.step < len(path):
            action, position = next_move(path, self._current(), position, self._environment.platform)
            if isinstance(action, Terminate):
                if position.step == len(path):
                    return  # The path ended with a scroll to an element that is visible.
                lost = path[position.step]
                raise WayLost(f"cannot {_VERBS.get(lost.operation, lost.operation)} {lost.target}", FailureClass.TASK)
            await self._act(action)

    async def _until_complete(self) -> None:
        """Wait until the tree is complete: a large program fills it some time after its window appears."""
        last: WalkedScreen | None = None
        for _ in range(MOST_READINGS):
            seen = seen_screen(self._current())
            if seen.has_elements and last is not None and seen.content == last.content:
                return
            last = seen
            await self._act(_WAIT)
        raise EnvironmentFailure(f"the app shows nothing after {MOST_READINGS} looks", FailureClass.SETUP)

    async def _act(self, action: Action) -> None:
        self._budget.spend()
        self._seen = await self._environment.step(action)
        await asyncio.sleep(0)

    def _current(self) -> Observation:
        assert self._seen is not None, "there was no reset"
        return self._seen

    @property
    def refused(self) -> tuple[str, ...]:
        """The addresses outside the app that were refused since the reset."""
        return self._environment.refused if isinstance(self._environment, Confined) else ()


def _is_outside(before: WalkedScreen, after: WalkedScreen, home: str, refused: Sequence[str]) -> bool:
    """Whether a press led out of the app: to nothing, to another app, or to a refused address that hides the page.

    `home` is the app's name: a press in an open menu, which may belong to no app, leads back to it.
    """
    if not after.has_elements:
        return True
    # The app itself may request other addresses, e.g. for fonts; only a page of refusal has nothing to press.
    hidden = not _names(before) & _names(after) and not any(each.clickable for each in after.elements)
    # An open menu may report no app although the page is still there.
    is_elsewhere = after.app not in (before.app, home) and (bool(after.app) or hidden)
    return is_elsewhere or (bool(refused) and hidden)


def _names(screen: WalkedScreen) -> set[str]:
    return {target for target, element in screen.by_target.items() if "title" not in element.states}
