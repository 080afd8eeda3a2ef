"""Bring a program back to an earlier state: by remembered states, Escape, or reset and replay."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from trajmill.schemas.actions import Action, Click, PressKeys, Wait
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.pathway import EndKind, Evidence, PathwayStep
from trajmill.schemas.tables.query import PathStep, Platform, Query
from trajmill.stages.environments.base import Environment, EnvironmentFactory
from trajmill.stages.environments.screen_goal import targets
from trajmill.stages.graphs.explore.walker import MOST_READINGS, OutOfBoundsError, WayLost
from trajmill.stages.queries.pathways.programs import WalkBounds, WalkTally
from trajmill.stages.queries.walk import close_quietly, follow

T = TypeVar("T")
_SECONDS_TO_CLOSE = 20.0
_WAIT = Wait(seconds=0.3)
_WAITS = 2


class ProgramEnded(EnvironmentFailure):
    """The program has ended or is not in front; its environment works."""


class Navigator:
    """One program in one environment at a time; a broken environment is replaced by a fresh one at the next reset."""

    def __init__(
        self, factory: EnvironmentFactory, query: Query, opening: Sequence[PathStep], bounds: WalkBounds
    ) -> None:
        self._factory, self._query, self._opening, self._bounds = factory, query, tuple(opening), bounds
        self._environment: Environment | None = None
        self._state: ProgramState | None = None
        self._memory: dict[tuple[str, ...], str] = {}
        """By the targets that were pressed since the start, the id of the state that they led to."""
        self._steps = self._resets = 0
        self._started = time.monotonic()

    @property
    def tally(self) -> WalkTally:
        return WalkTally(self._steps, self._resets, time.monotonic() - self._started)

    @property
    def environment_name(self) -> str:
        return self._environment.name if self._environment is not None else ""

    async def go_to(self, way: Sequence[PathwayStep]) -> ProgramState:
        """Go to the end of a known way: by Escape to a state on it, else by reset and replay.

        Raises WayLost if an element is not there even after a reset, EnvironmentFailure if the program crashed or
        hangs, OutOfBoundsError if the walk is over.
        """
        targets = [step.target for step in way]
        for _ in range(self._bounds.depth + 1):
            if self._state is None:
                break
            here = self._state.state_id
            ends = range(len(way), -1, -1)
            done = next((end for end in ends if self._memory.get(tuple(targets[:end])) == here), None)
            if done is not None:
                with suppress(WayLost):
                    return await self._press_from(way, done)
                break
            if (await self._act(PressKeys(keys=("escape",)))).state_id == here:
                break
        await self.reset()
        return await self._press_from(way, 0)

    async def press(self, way: Sequence[PathwayStep]) -> ProgramState:
        """Press the last element of a way from the end of the rest; waits longer if it opened something in the past."""
        targets = tuple(step.target for step in way)
        x, y = await self._find(targets[-1])
        before = self._current().state_id
        state = await self._act(Click(x=x, y=y))
        for _ in range(_WAITS):
            if state.state_id != before or targets not in self._memory:
                break
            state = await self._act(_WAIT)
        if state.state_id != before:
            self._memory[targets] = state.state_id
        return state

    async def wait(self, way: Sequence[PathwayStep]) -> ProgramState:
        state = await self._act(_WAIT)
        self._memory[tuple(step.target for step in way)] = state.state_id
        return state

    async def reset(self) -> ProgramState:
        if time.monotonic() - self._started > self._bounds.seconds:
            raise OutOfBoundsError
        seconds = self._bounds.seconds_per_reset
        if self._environment is None:
            self._environment = await _bounded(self._factory(), seconds)
        self._resets += 1
        self._state = program_state(await _bounded(self._environment.reset(self._query, 0), seconds))
        if not self._state.alive:
            await self._until_shown()
        try:
            await follow(self._opening, Platform.DESKTOP, self._current().observation, self._step)
        except EnvironmentFailure as error:
            if error.failure_class is not FailureClass.TASK:
                raise
            raise EnvironmentFailure(f"{error} to open the program", FailureClass.SETUP) from None
        self._memory[()] = self._current().state_id
        return self._current()

    def forget(self) -> None:
        """Forget the current state: the next way begins with a reset."""
        self._state = None

    async def give_up(self) -> None:
        """Close the environment, which may be broken or hang."""
        environment, self._environment, self._state = self._environment, None, None
        with suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_CLOSE):
                await close_quietly(environment)

    async def _until_shown(self) -> None:
        """Wait until the tree is complete: a large program fills it some time after its window appears."""
        last = ""
        for _ in range(MOST_READINGS):
            if self._current().alive and self._current().state_id == last:
                return
            last = self._current().state_id
            await self._act(_WAIT)
        raise EnvironmentFailure(f"the program shows nothing after {MOST_READINGS} looks", FailureClass.SETUP)

    async def _press_from(self, way: Sequence[PathwayStep], done: int) -> ProgramState:
        for end in range(done + 1, len(way) + 1):
            await self.press(way[:end])
        return self._current()

    async def _find(self, target: str) -> tuple[int, int]:
        for wait in range(_WAITS + 1):
            element = next((e for key, e in self._current().elements.items() if key.target == target), None)
            if element is not None and element.clickable:
                return element.bounds.center
            if wait < _WAITS:
                await self._act(_WAIT)
        raise WayLost(f"{target} is not there, or cannot be pressed")

    async def _act(self, action: Action) -> ProgramState:
        used = self.tally
        if used.steps >= self._bounds.steps or used.seconds > self._bounds.seconds:
            raise OutOfBoundsError
        if self._environment is None:
            raise WayLost("the program has ended")
        self._steps += 1
        self._state = program_state(await _bounded(self._environment.step(action), self._bounds.seconds_per_step))
        return self._state

    async def _step(self, action: Action) -> Observation:
        return (await self._act(action)).observation

    def _current(self) -> ProgramState:
        assert self._state is not None, "there was no reset"
        return self._state


async def _bounded(work: Awaitable[T], seconds: float) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise EnvironmentFailure(f"no answer within {seconds:g} s") from error


_OPENS_DIALOG = ("...", "…")
_CHOICES = frozenset({"menu", "menu_item"})
_MARKS = "*• "
"""Characters that title bars add to the name of a changed document."""
_MOST_EVIDENCE = 4
_LARGEST_SHARE_KEPT = 0.5
"""Largest share of the old elements that a new page may still show."""


class ElementKey(NamedTuple):
    role: str
    text: str
    target: str
    """As in `PathwayStep.target`; it distinguishes equal names in two menus."""


class ProgramState(NamedTuple):
    observation: Observation
    title: str
    title_top: int | None
    """Top of the title bar. The width is not compared: a button beside it may narrow it."""
    elements: dict[ElementKey, UIElement]
    state_id: str
    """Hash of the title and of the elements that can be pressed, with their disabled, checked and in-front states.
    Positions, values, focus and highlighting are left out, so that a state is recognised when the walk returns."""

    @property
    def alive(self) -> bool:
        """Whether an element has text: a program that has ended shows none."""
        return any(key.text for key in self.elements)


def program_state(observation: Observation) -> ProgramState:
    found = {ElementKey(e.role, e.text, target): e for target, e in targets(observation.elements or ()).items()}
    elements = {key: element for key, element in found.items() if "title" not in element.states}
    bar = next((element for element in observation.elements or () if "title" in element.states), None)
    title = bar.text if bar else ""
    pressable = [
        (*key, "disabled" in e.states, "checked" in e.states, e.role == "tab" and "selected" in e.states)
        for key, e in elements.items()
        if e.clickable or "disabled" in e.states
    ]
    state_id = content_id("state", title, sorted(pressable))
    return ProgramState(observation, title, bar.bounds.top if bar else None, elements, state_id)


def promises_dialog(text: str) -> bool:
    return text.rstrip().endswith(_OPENS_DIALOG)


def plain_name(text: str) -> str:
    """Return a name without ellipsis, colon and the mark of an access key."""
    text = " ".join(text.replace("_", "").split())
    for ending in _OPENS_DIALOG:
        text = text.removesuffix(ending)
    return text.rstrip(" :")


class PressResult(NamedTuple):
    kind: EndKind
    name: str
    shows: tuple[Evidence, ...]


def press_result(pressed: ElementKey, before: ProgramState, after: ProgramState) -> PressResult | None:
    """Return what a press on an element opened; None if it opened nothing.

    A mark in a title, such as the star of a changed document, does not make another page.
    """
    name = plain_name(pressed.text)
    new = [key for key in after.elements if key not in before.elements]
    titled = (Evidence(role="heading", text=after.title, state="title"),)
    dialog = next((key for key in new if key.role == "dialog" and key.text), None)
    if dialog is not None:
        return PressResult(EndKind.DIALOG, dialog.text, evidence([dialog]))
    # Another title in a title bar at another place is a new window.
    if after.title_top != before.title_top and after.title and after.title != before.title:
        return PressResult(EndKind.DIALOG, after.title, titled)
    element = after.elements.get(pressed)
    if pressed.role == "tab" and element is not None and "selected" in element.states:
        return PressResult(EndKind.TAB, name, (Evidence(role="tab", text=pressed.text, state="selected"),))
    choices = [key for key in new if key.role in _CHOICES and key.text]
    if choices:
        return PressResult(EndKind.MENU, name, evidence(choices))
    if after.title and after.title.strip(_MARKS) != before.title.strip(_MARKS):
        return PressResult(EndKind.PAGE, after.title, titled)
    # A new page without a title: most of the old elements are gone, and there are new ones.
    kept = [key for key in before.elements if key in after.elements]
    named = [key for key in new if key.text]
    if not named or len(kept) > len(before.elements) * _LARGEST_SHARE_KEPT:
        return None
    headings = [key for key in named if key.role == "heading"]
    return PressResult(EndKind.PAGE, headings[0].text if headings else name, evidence(headings or named))


def evidence(keys: Sequence[ElementKey]) -> tuple[Evidence, ...]:
    return tuple(Evidence(role=key.role, text=key.text, state="") for key in keys[:_MOST_EVIDENCE])
