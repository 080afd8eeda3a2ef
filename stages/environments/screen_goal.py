"""Goals about the last screen; they work in any environment with an accessibility tree."""

from __future__ import annotations

import json

from pydantic import ValidationError

from trajmill.schemas.actions import Action
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import Environment

KEY = "showing"
"""Key of this goal in a goal's JSON; the other keys are the environment's own goal, and both must be met."""


class Showing(Record):
    """An element that must be on the screen."""

    role: str
    text: str
    """Its complete text."""
    state: str = ""
    """A state that it must have; empty for any."""
    value: str | None = None
    """Its complete value; null for any."""


class _Goal(Record):
    showing: tuple[Showing, ...]


def is_shown(observation: Observation, wanted: Showing) -> bool:
    """Whether an element is in the tree of an observation."""
    return any(
        element.role == wanted.role
        and element.text == wanted.text
        and (not wanted.state or wanted.state in element.states)
        and wanted.value in (None, element.value)
        for element in observation.elements or ()
    )


def checked_on_screen(environment: Environment, query: Query) -> Environment:
    """The environment for a query: itself, or one whose score also needs elements on the last screen.

    Raises:
        EnvironmentFailure: the goal about the screen is malformed (class `task`).
    """
    if KEY not in query.goal:
        return environment
    goal = json.loads(query.goal)
    if not isinstance(goal, dict) or KEY not in goal:
        return environment
    try:
        showing = _Goal.model_validate({KEY: goal.pop(KEY)}).showing
    except ValidationError as error:
        raise EnvironmentFailure(f"{query.task}: goal: {error.errors()[0]['msg']}", FailureClass.TASK) from error
    return _CheckedOnScreen(environment, showing, json.dumps(goal))


class _CheckedOnScreen:
    """Keeps the last observation, and asks the environment only for its own part of the goal."""

    def __init__(self, environment: Environment, showing: tuple[Showing, ...], own_goal: str) -> None:
        self._environment, self._showing, self._own_goal = environment, showing, own_goal
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
        """0 if a wanted element is not shown, else the environment's own score, or 1 if it has none."""
        seen = self._seen
        if seen is None or not all(is_shown(seen, wanted) for wanted in self._showing):
            return 0.0
        own = await self._environment.score()
        return 1.0 if own is None else own

    async def close(self) -> None:
        """Close the environment."""
        await self._environment.close()
