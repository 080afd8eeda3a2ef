"""Brings a program back to an earlier state: by remembered states, Escape, or reset and replay."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import TypeVar

from trajmill.schemas.actions import Action, Click, PressKeys, Wait
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.pathway import PathwayStep
from trajmill.schemas.tables.query import PathStep, Platform, Query
from trajmill.stages.environments.base import Environment, EnvironmentFactory
from trajmill.stages.queries.pathways.programs import WalkBounds, WalkTally
from trajmill.stages.queries.pathways.states import ProgramState, program_state
from trajmill.stages.queries.walk import follow

T = TypeVar("T")
_SECONDS_TO_CLOSE = 20.0
_WAIT = Wait(seconds=0.3)
"""One wait for a menu after the press that opens it."""
_WAITS = 2
_MOST_READINGS = 40


class OutOfBounds(Exception):
    """The walk has used up its steps or seconds."""


class ElementMissing(EnvironmentFailure):
    """The element to press is not on the screen."""


class ProgramEnded(EnvironmentFailure):
    """The program has ended or is not in front; its environment works."""


class Navigator:
    """One program in one environment at a time; a broken environment is replaced by a fresh one at the next reset."""

    def __init__(
        self, factory: EnvironmentFactory, query: Query, opening: Sequence[PathStep], bounds: WalkBounds
    ) -> None:
        """Start nothing before the first reset.

        Args:
            factory: makes the environments.
            query: a reset restores its start state.
            opening: operations after each reset that bring the program to the start of the walk.
            bounds: of the walk, for all environments together.
        """
        self._factory, self._query, self._opening, self._bounds = factory, query, tuple(opening), bounds
        self._environment: Environment | None = None
        self._state: ProgramState | None = None
        self._memory: dict[tuple[str, ...], str] = {}
        """By the targets that were pressed since the start, the id of the state that they led to."""
        self._steps = self._resets = 0
        self._started = time.monotonic()

    @property
    def tally(self) -> WalkTally:
        """What the walk has used so far."""
        return WalkTally(self._steps, self._resets, time.monotonic() - self._started)

    @property
    def environment_name(self) -> str:
        """Kind of environment; empty before the first reset."""
        return self._environment.name if self._environment is not None else ""

    async def go_to(self, way: Sequence[PathwayStep]) -> ProgramState:
        """Go to the end of a known way.

        Presses Escape until a state on the way is reached; if Escape changes nothing, resets the program and replays
        the way.

        Raises:
            ElementMissing: an element of the way is not there, even after a reset.
            EnvironmentFailure: the program crashed or hangs.
            OutOfBounds: the walk is over.
        """
        targets = [step.target for step in way]
        for _ in range(self._bounds.depth + 1):
            if self._state is None:
                break
            here = self._state.state_id
            ends = range(len(way), -1, -1)
            done = next((end for end in ends if self._memory.get(tuple(targets[:end])) == here), None)
            if done is not None:
                with suppress(ElementMissing):
                    return await self._press_from(way, done)
                break
            if (await self._act(PressKeys(keys=("escape",)))).state_id == here:
                break
        await self.reset()
        return await self._press_from(way, 0)

    async def press(self, way: Sequence[PathwayStep]) -> ProgramState:
        """Press the last element of a way; the program is already at the end of the steps before it. Raises as `go_to`.

        It waits longer for an element that opened something in the past.
        """
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
        """Read the state again a moment after the last press of a way."""
        state = await self._act(_WAIT)
        self._memory[tuple(step.target for step in way)] = state.state_id
        return state

    async def reset(self) -> ProgramState:
        """Reset the program and bring it to the start of the walk."""
        if time.monotonic() - self._started > self._bounds.seconds:
            raise OutOfBounds
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
        """Close the environment; the next reset opens a new one."""
        environment, self._environment, self._state = self._environment, None, None
        if environment is not None:
            # A broken environment may fail or hang again while it is closed.
            with suppress(EnvironmentFailure, TimeoutError):
                async with asyncio.timeout(_SECONDS_TO_CLOSE):
                    await environment.close()

    async def _until_shown(self) -> None:
        """Wait until the tree is complete: a large program fills it some time after its window appears."""
        last = ""
        for _ in range(_MOST_READINGS):
            if self._current().alive and self._current().state_id == last:
                return
            last = self._current().state_id
            await self._act(_WAIT)
        raise EnvironmentFailure(f"the program shows nothing after {_MOST_READINGS} looks", FailureClass.SETUP)

    async def _press_from(self, way: Sequence[PathwayStep], done: int) -> ProgramState:
        for end in range(done + 1, len(way) + 1):
            await self.press(way[:end])
        return self._current()

    async def _find(self, target: str) -> tuple[int, int]:
        """Return the middle of an element, which may take a moment to show."""
        for wait in range(_WAITS + 1):
            element = next((e for key, e in self._current().elements.items() if key.target == target), None)
            if element is not None and element.clickable:
                return element.bounds.center
            if wait < _WAITS:
                await self._act(_WAIT)
        raise ElementMissing(f"{target} is not there, or cannot be pressed")

    async def _act(self, action: Action) -> ProgramState:
        used = self.tally
        if used.steps >= self._bounds.steps or used.seconds > self._bounds.seconds:
            raise OutOfBounds
        if self._environment is None:
            raise ElementMissing("the program has ended")
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
