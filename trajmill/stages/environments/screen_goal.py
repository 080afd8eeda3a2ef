"""Goals about screens and about how an episode ends, for any environment with an accessibility tree.

A causal pathway requires each answer on a screen, in order, before the last screen counts (NaturalGAIA 3.2). The first
answer that is not shown in its turn collapses the pathway: nothing afterwards counts. A goal that cannot be reached is
met by an agent that looked where it would be, changed nothing and then reports failure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from pydantic import model_validator

from trajmill.schemas.actions import Action, Answer, Terminate
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import ComparesState, Environment
from trajmill.stages.environments.tasks import read_part
from trajmill.stages.overlap import same_answer

KEY = "showing"
LACKING = "lacking"
"""Keys of this goal in a goal's JSON; the other keys are the environment's own goal, and all must be met."""

PATHWAY = "pathway"
INFEASIBLE = "infeasible"
"""Key for how the episode must end: with a report of failure."""
ANSWER = "answer"
"""Key for the text that the last action must answer with."""
_KEYS = {KEY, LACKING, PATHWAY, INFEASIBLE, ANSWER}


def targets(elements: Iterable[UIElement]) -> dict[str, UIElement]:
    """Return elements by their names in paths: element id, or `role:text`; a second one is `button:OK#2`."""
    named: dict[str, UIElement] = {}
    seen: dict[str, int] = {}
    for element in elements:
        name = element.element_id or f"{element.role}:{element.text}"
        seen[name] = count = seen.get(name, 0) + 1
        named[name if count == 1 else f"{name}#{count}"] = element
    return named


class Showing(Record):
    """An element that must be on the screen; empty and null fields are not compared."""

    role: str = ""
    text: str | None = None
    id: str = ""
    target: str = ""
    state: str = ""
    any_state: tuple[str, ...] = ()
    value: str | None = None

    @model_validator(mode="after")
    def _refuse_anything(self) -> Showing:
        if not (self.role or self.text or self.id or self.target):
            raise ValueError("an element needs one of the keys role, text, id and target")
        return self

    def agrees(self, element: UIElement) -> bool:
        return (
            self.role in ("", element.role)
            and self.text in (None, element.text)
            and self.id in ("", element.element_id)
            and (not self.state or self.state in element.states)
            and (not self.any_state or not set(self.any_state).isdisjoint(element.states))
            and self.value in (None, element.value)
        )


class ScreenGoal(Record):
    showing: tuple[Showing, ...] = ()
    lacking: tuple[Showing, ...] = ()


def holds_on(observation: Observation, goal: ScreenGoal) -> bool:
    shown = any(is_shown(observation, absent) for absent in goal.lacking)
    return not shown and all(is_shown(observation, wanted) for wanted in goal.showing)


def is_shown(observation: Observation, wanted: Showing) -> bool:
    elements = observation.elements or ()
    if not wanted.target:
        return any(map(wanted.agrees, elements))
    named = targets(elements).get(wanted.target)
    return named is not None and wanted.agrees(named)


class Checkpoint(ScreenGoal):
    device: Platform | None = None
    """The device whose screen it is; null for the only one."""


class _GoalOnScreens(ScreenGoal):
    pathway: tuple[Checkpoint, ...] | None = None
    infeasible: bool = False
    answer: str | None = None


def with_checks(environment: Environment, query: Query) -> Environment:
    """Return the environment, with checks of goals about screens; EnvironmentFailure (`task`) for a malformed one."""
    if not any(key in query.goal for key in _KEYS):
        return environment
    goal = json.loads(query.goal)
    if not isinstance(goal, dict) or not _KEYS & goal.keys():
        return environment
    own = {key: goal.pop(key) for key in _KEYS & goal.keys()}
    wanted = read_part(_GoalOnScreens.model_validate_json, json.dumps(own), f"goal of {query.task}")
    return CheckedEnvironment(environment, wanted, json.dumps(goal, ensure_ascii=False))


class CheckedEnvironment:
    def __init__(self, environment: Environment, wanted: _GoalOnScreens, rest: str) -> None:
        self._environment, self._wanted, self._rest = environment, wanted, rest
        self._last: Observation | None = None
        self._seen = 0
        self._ended_by: Action | None = None

    @property
    def checkpoints_seen(self) -> int | None:
        """Number of answers of the pathway that were shown in order; None without a pathway."""
        is_causal = self._wanted.pathway is not None and not self.infeasible
        return self._seen if is_causal else None

    @property
    def infeasible(self) -> bool:
        """Whether the rightful end is a report of failure."""
        return self._wanted.infeasible

    @property
    def platform(self) -> Platform:
        return self._environment.platform

    @property
    def name(self) -> str:
        return self._environment.name

    async def reset(self, query: Query, seed: int) -> Observation:
        self._seen, self._ended_by = 0, None
        return self._check(await self._environment.reset(query.model_copy(update={"goal": self._rest}), seed))

    async def step(self, action: Action) -> Observation:
        self._ended_by = action
        return self._check(await self._environment.step(action))

    async def score(self) -> float | None:
        """Return 0 if an answer is missing or the last screen or the end is wrong, else the own score, or 1."""
        if self._seen < len(self._wanted.pathway or ()) or self._last is None:
            return 0.0
        if self.infeasible and self._ended_by != Terminate(status="failure"):
            return 0.0
        said, wanted = self._ended_by, self._wanted.answer
        if wanted is not None and not (isinstance(said, Answer) and same_answer(said.text, wanted)):
            return 0.0
        if not holds_on(self._last, self._wanted):
            return 0.0
        own = await self._environment.score()
        return 1.0 if own is None and (self._wanted.showing or self._wanted.lacking) else own

    async def side_effects(self) -> tuple[str, ...] | None:
        return await self._environment.side_effects() if isinstance(self._environment, ComparesState) else None

    async def close(self) -> None:
        await self._environment.close()

    def _check(self, observation: Observation) -> Observation:
        self._last = observation
        due = (self._wanted.pathway or ())[self._seen :]
        for checkpoint in due:
            if checkpoint.device not in (None, self.platform) or not holds_on(observation, checkpoint):
                break
            self._seen += 1
        return observation
