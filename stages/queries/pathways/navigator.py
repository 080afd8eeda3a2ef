"""Brings a program back to a state that was seen before: by remembered states, Escape and replay."""

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
from trajmill.schemas.tables.query import PathStep, Query
from trajmill.stages.agents.element_walk import WalkPosition, next_move
from trajmill.stages.environments.base import Environment, EnvironmentFactory
from trajmill.stages.queries.pathways.base import WalkBounds, WalkTally
from trajmill.stages.queries.pathways.elements import ProgramState, program_state

T = TypeVar("T")
_ESCAPE = PressKeys(keys=("escape",))
_SECONDS_TO_CLOSE = 20.0
_WAIT_SECONDS = 0.3
"""One wait for a menu to show after the press that opens it."""
_WAITS = 2
_MOST_READINGS = 40


class OutOfBounds(Exception):
    """The walk has used up its steps or seconds."""


class Lost(EnvironmentFailure):
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
            query: its start state is what a reset brings back.
            opening: operations after each reset, by which the program is brought to where the walk begins.
            bounds: of the walk; they are kept over all environments together.
        """
        self._factory, self._query, self._opening, self._bounds = factory, query, tuple(opening), bounds
        self._environment: Environment | None = None
        self._state: ProgramState | None = None
        self._memory: dict[tuple[str, ...], str] = {}
        """By the targets that were pressed since the start, the state they led to."""
        self._steps = self._resets = 0
        self._started = time.monotonic()

    @property
    def tally(self) -> WalkTally:
        """What has been used so far."""
        return WalkTally(self._steps, self._resets, time.monotonic() - self._started)

    @property
    def environment_name(self) -> str:
        """Kind of environment; empty before the first reset."""
        return self._environment.name if self._environment is not None else ""

    async def go_to(self, way: Sequence[PathwayStep]) -> ProgramState:
        """Go to the end of a way whose steps are known.

        Presses Escape until a state on the way is reached; if Escape changes nothing, resets the program and replays
        the way.

        Raises:
            Lost: an element of the way is not there, even after a reset.
            EnvironmentFailure: the program crashed or hangs.
            OutOfBounds: the walk is over.
        """
        for _ in range(self._bounds.depth + 1):
            reached = self._reached(way)
            if reached is not None:
                with suppress(Lost):
                    return await self._press_on(way, reached)
                break
            if self._state is None or not await self._escaped():
                break
        await self.reset()
        return await self._press_on(way, 0)

    async def press(self, way: Sequence[PathwayStep]) -> ProgramState:
        """Press the last element of a way, from the end of the others; raises as `go_to`.

        Waits longer for an element that opened something before.
        """
        targets = tuple(step.target for step in way)
        place = await self._find(targets[-1])
        before = self._current().state_id
        state = await self._do(Click(x=place[0], y=place[1]))
        for _ in range(_WAITS):
            if state.state_id != before or targets not in self._memory:
                break
            state = await self._do(Wait(seconds=_WAIT_SECONDS))
        if state.state_id != before:
            self._memory[targets] = state.state_id
        return state

    async def wait(self, way: Sequence[PathwayStep]) -> ProgramState:
        """Read the state again a moment after the last press of a way."""
        state = await self._do(Wait(seconds=_WAIT_SECONDS))
        self._memory[tuple(step.target for step in way)] = state.state_id
        return state

    async def reset(self) -> ProgramState:
        """Reset the program and bring it to where the walk begins."""
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
            # One that is broken may also break, or hang, while it is closed.
            with suppress(EnvironmentFailure, TimeoutError):
                async with asyncio.timeout(_SECONDS_TO_CLOSE):
                    await environment.close()

    async def _until_shown(self) -> None:
        """Wait until the tree is complete: a large program fills it some time after its window shows."""
        last = ""
        for _ in range(_MOST_READINGS):
            if self._current().alive and self._current().state_id == last:
                return
            last = self._current().state_id
            await self._do(Wait(seconds=_WAIT_SECONDS))
        raise EnvironmentFailure(f"the program shows nothing after {_MOST_READINGS} looks", FailureClass.SETUP)

    async def _open(self) -> None:
        path = (*self._opening, PathStep(page="", operation="finish", target=""))
        position = WalkPosition()
        while True:
            action, position = next_move(path, self._current().observation, position)
            if isinstance(action, Terminate):
                break
            await self._do(action)
        if action.status == "failure":
            missing = path[position.step]
            message = f"cannot {missing.operation} {missing.target} to open the program"
            raise EnvironmentFailure(message, FailureClass.SETUP)

    def _reached(self, way: Sequence[PathwayStep]) -> int | None:
        """How many steps of a way lead to the current state, None if it is not on the way."""
        if self._state is None:
            return None
        targets = [step.target for step in way]
        ends = (
            end for end in range(len(way), -1, -1) if self._memory.get(tuple(targets[:end])) == self._current().state_id
        )
        return next(ends, None)

    async def _escaped(self) -> bool:
        before = self._current().state_id
        return (await self._do(_ESCAPE)).state_id != before

    async def _press_on(self, way: Sequence[PathwayStep], gone: int) -> ProgramState:
        for end in range(gone + 1, len(way) + 1):
            await self.press(way[:end])
        return self._current()

    async def _find(self, target: str) -> tuple[int, int]:
        """The middle of an element, which may take a moment to show."""
        for wait in range(_WAITS + 1):
            element = next((e for key, e in self._current().elements.items() if key.target == target), None)
            if element is not None and element.clickable:
                return element.bounds.center
            if wait < _WAITS:
                await self._do(Wait(seconds=_WAIT_SECONDS))
        raise Lost(f"{target} is not there, or cannot be pressed")

    async def _do(self, action: Action) -> ProgramState:
        used = self.tally
        if used.steps >= self._bounds.steps or used.seconds > self._bounds.seconds:
            raise OutOfBounds
        if self._environment is None:
            raise Lost("the program has ended")
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
