"""Programs to walk for pathways: the YAML file that names them, their states, and the way back to an earlier state."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml
from pydantic import NonNegativeInt, PositiveFloat, TypeAdapter, ValidationError, field_validator

from trajmill.schemas.actions import Action, Click, PressKeys, Wait
from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.schemas.names import refuse_unknown
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import Origin, Record, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.pathway import Pathway, PathwayStep
from trajmill.schemas.tables.query import PathStep, Platform, Query, Source
from trajmill.stages.environments.base import Environment, EnvironmentFactory
from trajmill.stages.environments.screen_goal import targets
from trajmill.stages.environments.tasks import bare_query
from trajmill.stages.graphs.explore.plan import OPENS_DIALOG
from trajmill.stages.graphs.explore.walker import MOST_READINGS, OutOfBoundsError, WayLost
from trajmill.stages.parts import first_mistake
from trajmill.stages.queries.spec import WalkReach
from trajmill.stages.queries.walk import close_quietly, follow

STAGE = "pathways"
T = TypeVar("T")
_SECONDS_TO_CLOSE = 20.0
_WAIT = Wait(seconds=0.3)
_WAITS = 2


class PathwayProgram(Record):
    name: str
    title: str
    """Its name in instructions, e.g. `the text editor`."""
    platform: Platform = Platform.DESKTOP
    start_state: str
    """As JSON; a mapping in the file."""
    opening: tuple[PathStep, ...] = ()
    """Operations that bring it to the front after a reset, if the start state does not."""
    selecting: tuple[PathStep, ...] = ()
    """Operations after which an object is selected; empty if nothing can be selected."""
    selection: str = ""
    presses_commands: bool = False
    """Whether to press also entries and buttons without an ellipsis, which announces a dialog. A reset undoes their
    changes, so this suits programs that reset quickly."""

    @field_validator("start_state", mode="before")
    @classmethod
    def _as_json(cls, value: Any) -> str:
        if not isinstance(value, dict | str):
            raise ValueError("should be a table of keys and values")
        return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


class WalkBounds(WalkReach):
    seconds_per_step: PositiveFloat = 30.0
    """Longest time of one action; a program that takes longer hangs."""
    seconds_per_reset: PositiveFloat = 120.0
    failures: NonNegativeInt = 5
    """Most crashes and hangs; the next one ends the walk."""


class WalkTally(NamedTuple):
    steps: int
    resets: int
    seconds: float


class WalkResult(NamedTuple):
    pathways: tuple[Pathway, ...]
    failures: tuple[Failure, ...]
    """Branches that could not be walked, the reason if the walk ended early, and pathways without a classification."""
    screens: dict[str, Observation]
    """By screen id, the screens that the pathways' steps name."""
    tally: WalkTally


def packaged_programs() -> Path:
    return Path(__file__).with_name("programs.yaml")


def read_programs(file: Path, names: tuple[str, ...] = ()) -> tuple[PathwayProgram, ...]:
    """Read the programs of a file, all or the named ones; raises BadInputError in one line that names the place."""
    try:
        entries = yaml.safe_load(file.read_text())
        if not isinstance(entries, list):
            raise TypeError("it holds something else")
        programs = TypeAdapter(list[PathwayProgram]).validate_python(entries)
    except ValidationError as error:
        raise BadInputError(f"{file}: {first_mistake(error, 'the list')}") from error
    except (OSError, yaml.YAMLError, TypeError) as error:
        raise BadInputError(f"{file}: no list of programs: {' '.join(str(error).split())}") from error
    known = {program.name: program for program in programs}
    refuse_unknown(names, known, f"{file}: there is no program")
    return tuple(known[name] for name in names or known)


def start_query(program: PathwayProgram, origin: Origin) -> Query:
    return bare_query(program.platform, program.name, program.start_state, Source.PATHWAY, origin, "deep-search")


def plain_name(text: str) -> str:
    """Return a name without ellipsis, colon and the mark of an access key."""
    text = " ".join(text.replace("_", "").split())
    for ending in OPENS_DIALOG:
        text = text.removesuffix(ending)
    return text.rstrip(" :")


def targets_of(way: Sequence[PathwayStep]) -> tuple[str, ...]:
    return tuple(step.target for step in way)


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


class ProgramEnded(EnvironmentFailure):
    """The program has ended or is not in front; its environment works."""


class Navigator:
    """Brings one program back to earlier states; a broken environment is replaced by a fresh one at the next reset."""

    def __init__(
        self, factory: EnvironmentFactory, query: Query, opening: Sequence[PathStep], bounds: WalkBounds
    ) -> None:
        self._factory, self._query, self._opening, self._bounds = factory, query, tuple(opening), bounds
        self._environment: Environment | None = None
        self._state: ProgramState | None = None
        self._memory: dict[tuple[str, ...], str] = {}
        """By the targets that were pressed since the start, the id of the state that they led to."""
        self._steps = self._resets = 0
        self._started, self.environment_name = time.monotonic(), ""

    @property
    def tally(self) -> WalkTally:
        return WalkTally(self._steps, self._resets, time.monotonic() - self._started)

    async def go_to(self, way: Sequence[PathwayStep]) -> ProgramState:
        """Go to the end of a known way: by Escape to a state on it, else by reset and replay.

        Raises WayLost if an element is not there, EnvironmentFailure for a crash, OutOfBoundsError at the end.
        """
        for _ in range(self._bounds.depth + 1):
            if self._state is None:
                break
            here = self._state.state_id
            ends = range(len(way), -1, -1)
            done = next((end for end in ends if self._memory.get(targets_of(way[:end])) == here), None)
            if done is not None:
                with suppress(WayLost):
                    return await self._press_from(way, done)
                break
            if (await self._act(PressKeys(keys=("escape",)))).state_id == here:
                break
        await self.reset()
        return await self._press_from(way, 0)

    async def _press_from(self, way: Sequence[PathwayStep], done: int) -> ProgramState:
        for end in range(done + 1, len(way) + 1):
            await self.press(way[:end])
        return self._current()

    async def press(self, way: Sequence[PathwayStep]) -> ProgramState:
        """Press the last element of a way from the end of the rest; waits longer if it opened something in the past."""
        way_targets = targets_of(way)
        for wait in range(_WAITS + 1):
            elements = self._current().elements.items()
            element = next((each for key, each in elements if key.target == way_targets[-1]), None)
            if element is not None and element.clickable:
                break
            if wait == _WAITS:
                raise WayLost(f"{way_targets[-1]} is not there, or cannot be pressed")
            await self._act(_WAIT)
        assert element is not None
        x, y = element.bounds.center
        before = self._current().state_id
        state = await self._act(Click(x=x, y=y))
        for _ in range(_WAITS):
            if state.state_id != before or way_targets not in self._memory:
                break
            state = await self._act(_WAIT)
        if state.state_id != before:
            self._memory[way_targets] = state.state_id
        return state

    async def wait(self, way: Sequence[PathwayStep]) -> ProgramState:
        state = await self._act(_WAIT)
        self._memory[targets_of(way)] = state.state_id
        return state

    async def reset(self) -> ProgramState:
        if time.monotonic() - self._started > self._bounds.seconds:
            raise OutOfBoundsError
        seconds = self._bounds.seconds_per_reset
        if self._environment is None:
            self._environment = await _bounded(self._factory(), seconds)
            self.environment_name = self._environment.name
        self._resets += 1
        self._state = program_state(await _bounded(self._environment.reset(self._query, 0), seconds))
        last = ""
        # Wait until the tree is complete: a large program fills it some time after its window appears.
        for _ in range(0 if self._state.alive else MOST_READINGS):
            if self._current().alive and self._current().state_id == last:
                break
            last = self._current().state_id
            await self._act(_WAIT)
        else:
            if last:
                text = f"the program shows nothing after {MOST_READINGS} looks"
                raise EnvironmentFailure(text, FailureClass.SETUP)

        async def act(action: Action) -> Observation:
            return (await self._act(action)).observation

        try:
            await follow(self._opening, Platform.DESKTOP, self._current().observation, act)
        except EnvironmentFailure as error:
            if error.failure_class is not FailureClass.TASK:
                raise
            raise EnvironmentFailure(f"{error} to open the program", FailureClass.SETUP) from None
        self._memory[()] = self._current().state_id
        return self._current()

    def forget(self) -> None:
        self._state = None

    async def give_up(self) -> None:
        """Close the environment, which may be broken or hang."""
        environment, self._environment, self._state = self._environment, None, None
        with suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_CLOSE):
                await close_quietly(environment)

    async def _act(self, action: Action) -> ProgramState:
        used = self.tally
        if used.steps >= self._bounds.steps or used.seconds > self._bounds.seconds:
            raise OutOfBoundsError
        if self._environment is None:
            raise WayLost("the program has ended")
        self._steps += 1
        self._state = program_state(await _bounded(self._environment.step(action), self._bounds.seconds_per_step))
        return self._state

    def _current(self) -> ProgramState:
        assert self._state is not None, "there was no reset"
        return self._state


async def _bounded(work: Awaitable[T], seconds: float) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise EnvironmentFailure(f"no answer within {seconds:g} s") from error
