"""Walks the reference path of a query, which must meet the goal check (paper 6.2, step 5)."""

from __future__ import annotations

from trajmill.schemas.actions import Terminate
from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.reference_path import Position, Walker
from trajmill.stages.environments.simulated.spec import FaultRates
from trajmill.stages.environments.simulated.world import World

TRAINING_PROFILES = 6
"""Number of device profiles that training has; the query id decides which one a walk uses."""


class SimulatedValidator:
    """Walks queries on simulated devices without faults."""

    def __init__(self, world: World) -> None:
        """Start nothing before the first walk."""
        self._world = world

    def walk(self, query: Query) -> str | None:
        """Walk the reference path from the start state within the query's step limit; None if it meets the goal."""
        environment = SimulatedEnvironment(self._world, query.platform, FaultRates(popup=0.0))
        try:
            return _walk(environment, query)
        except EnvironmentFailure as failure:
            return str(failure)


def _walk(environment: SimulatedEnvironment, query: Query) -> str | None:
    observation = environment.reset_now(query, int(query.query_id, 16) % TRAINING_PROFILES)
    walker, position = Walker(query.path, query.platform), Position()
    for _ in range(query.max_steps):
        action, position = walker.next_action(observation, position)
        if isinstance(action, Terminate):
            return _outcome(environment, query, action, position)
        observation = environment.step_now(action)
    return f"the reference path is not done after {query.max_steps} steps"


def _outcome(environment: SimulatedEnvironment, query: Query, last: Terminate, position: Position) -> str | None:
    if last.status != "success":
        step = query.path[min(position.step, len(query.path) - 1)]
        return f"the reference path is lost on {step.page}: cannot {step.operation} {step.target}".rstrip()
    score = environment.score_now()
    if score is None:
        return "there is no goal check"
    if score == 1.0:
        return None
    different = ", ".join(map(str, environment.differences_now()))
    return f"the reference path does not meet the goal check ({different})"
