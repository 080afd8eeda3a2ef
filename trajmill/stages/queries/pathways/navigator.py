"""Brings a program back to an earlier state: by remembered states, Escape, or reset and replay."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import TypeVar

from trajmill.schemas.actions import Action, Click, PressKeys, Terminate, Wait
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.pathway import PathwayStep
from trajmill.schemas.tables.query import PathStep, Platform, Query
from trajmill.stages.agents.path_walk import WalkPosition, next_move
from trajmill.stages.environments.base import Environment, EnvironmentFactory
from trajmill.stages.queries.pathways.programs import WalkBounds, WalkTally
from trajmill.stages.queries.pathways.states import ProgramState, program_state

T = TypeVar("T")
_ESCAPE = PressKeys(keys=("escape",))
_SECONDS_TO_CLOSE = 20.0
_WAIT_SECONDS = 0.3
"""Seconds of one wait for a menu after the press that opens it."""
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
            bounds: of the walk; they hold for all environments together.
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
        for _ in range(self._bounds.depth + 1):
            steps_done = self._steps_done(way)
            if steps_done is not None:
                with suppress(ElementMissing):
                    return await self._press_from(way, steps_done)
                break
            if self._state is None or not await self._press_escape():
                break
        await self.reset()
        return await self._press_from(way, 0)

    async def press(self, way: Sequence[PathwayStep]) -> ProgramState:
        """Press the last element of a way; the program is already at the end of the steps before it. Raises as `go_to`.

        It waits longer for an element that opened something in the past.
        """
        targets = tuple(step.target for step in way)
        place = await self._find(targets[-1])
        before = self._current().state_id
        state = await self._act(Click(x=place[0], y=place[1]))
        for _ in range(_WAITS):
            if state.state_id != before or targets not in self._memory:
                break
            state = await self._act(Wait(seconds=_WAIT_SECONDS))
        if state.state_id != before:
            self._memory[targets] = state.state_id
        return state

    async def wait(self, way: Sequence[PathwayStep]) -> ProgramState:
        """Read the state again a moment after the last press of a way."""
        state = await self._act(Wait(seconds=_WAIT_SECONDS))
        self._memory[tuple(step.target for step in way)] = state.state_id
        return state

    async def reset(self) -> ProgramState:
        """Reset the program and bring it to the start of the walk."""
        if time.monotonic() - self._started > self._bounds.seconds:
            raise OutOfBounds
        if self._environment is None:
            self._environment = await self._bounded(self._factory(), self._bounds.seconds_per_reset)
        self._resets += 1
        self._read(await self._bounded(self._environment.reset(self._query, 0), self._bounds.seconds_per_reset))
        if not self._current().alive:
            await self._until_shown()
        await self._open()
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
            await self._act(Wait(seconds=_WAIT_SECONDS))
        raise EnvironmentFailure(f"the program shows nothing after {_MOST_READINGS} looks", FailureClass.SETUP)

    async def _open(self) -> None:
        path = (*self._opening, PathStep(page="", operation="finish", target=""))
        position = WalkPosition()
        while True:
            action, position = next_move(path, self._current().observation, position, Platform.DESKTOP)
            if isinstance(action, Terminate):
                break
            await self._act(action)
        if action.status == "failure":
            missing = path[position.step]
            message = f"cannot {missing.operation} {missing.target} to open the program"
            raise EnvironmentFailure(message, FailureClass.SETUP)

    def _steps_done(self, way: Sequence[PathwayStep]) -> int | None:
        """The number of steps of a way that lead to the current state; None if the state is not on the way."""
        if self._state is None:
            return None
        targets = [step.target for step in way]
        ends = (
            end for end in range(len(way), -1, -1) if self._memory.get(tuple(targets[:end])) == self._current().state_id
        )
        return next(ends, None)

    async def _press_escape(self) -> bool:
        before = self._current().state_id
        return (await self._act(_ESCAPE)).state_id != before

    async def _press_from(self, way: Sequence[PathwayStep], done: int) -> ProgramState:
        for end in range(done + 1, len(way) + 1):
            await self.press(way[:end])
        return self._current()

    async def _find(self, target: str) -> tuple[int, int]:
        """The middle of an element, which may take a moment to show."""
        for wait in range(_WAITS + 1):
            element = next((e for key, e in self._current().elements.items() if key.target == target), None)
            if element is not None and element.clickable:
                return element.bounds.center
            if wait < _WAITS:
                await self._act(Wait(seconds=_WAIT_SECONDS))
        raise ElementMissing(f"{target} is not there, or cannot be pressed")

    async def _act(self, action: Action) -> ProgramState:
        used = self.tally
        if used.steps >= self._bounds.steps or used.seconds > self._bounds.seconds:
            raise OutOfBounds
        if self._environment is None:
            raise ElementMissing("the program has ended")
        self._steps += 1
        self._read(await self._bounded(self._environment.step(action), self._bounds.seconds_per_step))
        return self._current()

    def _read(self, observation: Observation) -> None:
        self._state = program_state(observation)

    def _current(self) -> ProgramState:
        assert self._state is not None, "there was no reset"
        return self._state

    async def _bounded(self, work: Awaitable[T], seconds: float) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError as error:
            raise EnvironmentFailure(f"no answer within {seconds:g} s") from error
