"""Goals of causal pathways: each answer must have been seen, in order, before the last screen counts (NaturalGAIA 3.2).

The first answer that is not seen in its turn collapses the pathway: nothing that is done afterwards counts.
"""

from __future__ import annotations

import json

from pydantic import TypeAdapter, ValidationError

from trajmill.schemas.actions import Action
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import Environment
from trajmill.stages.environments.screen_goal import ScreenGoal, checked_on_screen, holds_on

PATHWAY = "pathway"
"""Key of these goals in a goal's JSON, a list; the other keys are checked at the end."""


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
