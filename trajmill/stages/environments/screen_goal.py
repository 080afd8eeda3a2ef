"""Goals about what screens show; they work in any environment with an accessibility tree.

A causal pathway demands each answer on a screen, in order, before the last screen counts (NaturalGAIA 3.2). The first
answer that is not seen in its turn collapses the pathway: nothing that is done afterwards counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from pydantic import TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from trajmill.schemas.actions import Action
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import Environment

KEY = "showing"
LACKING = "lacking"
"""Keys of this goal in a goal's JSON; the other keys are the environment's own goal, and all must be met."""
PATHWAY = "pathway"
"""Key of these goals in a goal's JSON, a list; the other keys are checked at the end."""


def targets(elements: Iterable[UIElement]) -> dict[str, UIElement]:
    """The elements by their names in paths: the element id, or `role:text` without one.

    If several elements have one name, the first has it without a number, the others are numbered from 2: `button:OK#2`.
    """
    named: dict[str, UIElement] = {}
    seen: dict[str, int] = {}
    for element in elements:
        name = element.element_id or f"{element.role}:{element.text}"
        seen[name] = count = seen.get(name, 0) + 1
        named[name if count == 1 else f"{name}#{count}"] = element
    return named


class Showing(Record):
    """An element that must be on the screen; what is empty or null is not compared."""

    role: str = ""
    text: str | None = None
    """Its complete text."""
    id: str = ""
    """The platform's own name for it."""
    target: str = ""
    """Its name in paths."""
    state: str = ""
    """A state that it must have."""
    any_state: tuple[str, ...] = ()
    """States of which it must have one."""
    value: str | None = None
    """Its complete value."""

    @model_validator(mode="after")
    def _refuse_anything(self) -> Showing:
        if not (self.role or self.text or self.id or self.target):
            raise PydanticCustomError("element", "an element needs one of the keys role, text, id and target")
        return self

    def agrees(self, element: UIElement) -> bool:
        """Whether an element is the wanted one; its name in paths is not compared."""
        return (
            self.role in ("", element.role)
            and self.text in (None, element.text)
            and self.id in ("", element.element_id)
            and (not self.state or self.state in element.states)
            and (not self.any_state or not set(self.any_state).isdisjoint(element.states))
            and self.value in (None, element.value)
        )


class ScreenGoal(Record):
    """What the last screen must show, and what it must not show."""

    showing: tuple[Showing, ...] = ()
    lacking: tuple[Showing, ...] = ()


def holds_on(observation: Observation, goal: ScreenGoal) -> bool:
    """Whether an observation shows all that is wanted, and nothing that must be absent."""
    shown = any(is_shown(observation, absent) for absent in goal.lacking)
    return not shown and all(is_shown(observation, wanted) for wanted in goal.showing)


def is_shown(observation: Observation, wanted: Showing) -> bool:
    """Whether an element is in the tree of an observation."""
    elements = observation.elements or ()
    if not wanted.target:
        return any(map(wanted.agrees, elements))
    named = targets(elements).get(wanted.target)
    return named is not None and wanted.agrees(named)


def checked_on_screen(environment: Environment, query: Query) -> Environment:
    """The environment for a query: itself, or one whose score also needs elements on the last screen.

    Raises:
        EnvironmentFailure: the goal about the screen is malformed (class `task`).
    """
    if KEY not in query.goal and LACKING not in query.goal:
        return environment
    goal = json.loads(query.goal)
    if not isinstance(goal, dict) or not {KEY, LACKING} & set(goal):
        return environment
    try:
        wanted = ScreenGoal.model_validate({key: goal.pop(key) for key in (KEY, LACKING) if key in goal})
    except ValidationError as error:
        raise EnvironmentFailure(f"{query.task}: goal: {error.errors()[0]['msg']}", FailureClass.TASK) from error
    return _CheckedOnScreen(environment, wanted, json.dumps(goal))


class _CheckedOnScreen:
    """Keeps the last observation, and asks the environment only for its own part of the goal."""

    def __init__(self, environment: Environment, wanted: ScreenGoal, own_goal: str) -> None:
        self._environment, self._wanted, self._own_goal = environment, wanted, own_goal
        self._seen: Observation | None = None

    @property
    def platform(self) -> Platform:
        """The environment's platform."""
        return self._environment.platform

    @property
    def name(self) -> str:
        """The environment's name."""
        return self._environment.name

    async def reset(self, query: Query, seed: int) -> Observation:
        """Reset the environment; it does not get the goal about the screen."""
        self._seen = await self._environment.reset(query.model_copy(update={"goal": self._own_goal}), seed)
        return self._seen

    async def step(self, action: Action) -> Observation:
        """Do one action."""
        self._seen = await self._environment.step(action)
        return self._seen

    async def score(self) -> float | None:
        """0 if the last screen is not the wanted one, else the environment's own score, or 1 if it has none."""
        if self._seen is None or not holds_on(self._seen, self._wanted):
            return 0.0
        own = await self._environment.score()
        return 1.0 if own is None else own

    async def close(self) -> None:
        """Close the environment."""
        await self._environment.close()


class Checkpoint(ScreenGoal):
    """What a screen shows when an atomic task is done."""

    device: Platform | None = None
    """The device whose screen it is; null for the only one."""


def with_checks(environment: Environment, query: Query) -> Environment:
    """The environment for a query: itself, or one that also checks goals about screens.

    Raises:
        EnvironmentFailure: such a goal is malformed (class `task`).
    """
    if PATHWAY not in query.goal:
        return checked_on_screen(environment, query)
    goal = json.loads(query.goal)
    if not isinstance(goal, dict) or PATHWAY not in goal:
        return checked_on_screen(environment, query)
    try:
        checkpoints = _CHECKPOINTS.validate_python(goal.pop(PATHWAY))
    except ValidationError as error:
        raise EnvironmentFailure(f"{query.task}: goal: {error.errors()[0]['msg']}", FailureClass.TASK) from error
    last = query.model_copy(update={"goal": json.dumps(goal, ensure_ascii=False)})
    return CheckedPathway(checked_on_screen(environment, last), last.goal, checkpoints)


class CheckedPathway:
    """Looks at each screen for the answer that is due."""

    def __init__(self, environment: Environment, last_goal: str, checkpoints: tuple[Checkpoint, ...]) -> None:
        """Begin before the first atomic task."""
        self._environment, self._last_goal, self._checkpoints = environment, last_goal, checkpoints
        self.seen = 0
        """How many answers have been seen, one after the other."""

    @property
    def platform(self) -> Platform:
        """The environment's platform."""
        return self._environment.platform

    @property
    def name(self) -> str:
        """The environment's name."""
        return self._environment.name

    async def reset(self, query: Query, seed: int) -> Observation:
        """Reset the environment; it does not get the goal about the pathway."""
        self.seen = 0
        last = query.model_copy(update={"goal": self._last_goal})
        return self._looked_at(await self._environment.reset(last, seed))

    async def step(self, action: Action) -> Observation:
        """Do one action."""
        return self._looked_at(await self._environment.step(action))

    async def score(self) -> float | None:
        """0 if an answer was not seen in its turn, else the result of the last task."""
        if self.seen < len(self._checkpoints):
            return 0.0
        return await self._environment.score()

    async def close(self) -> None:
        """Close the environment."""
        await self._environment.close()

    def _looked_at(self, observation: Observation) -> Observation:
        while self.seen < len(self._checkpoints) and self._is_met(self._checkpoints[self.seen], observation):
            self.seen += 1
        return observation

    def _is_met(self, checkpoint: Checkpoint, observation: Observation) -> bool:
        return checkpoint.device in (None, self.platform) and holds_on(observation, checkpoint)


_CHECKPOINTS = TypeAdapter(tuple[Checkpoint, ...])
