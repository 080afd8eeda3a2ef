"""A rollout of small attempts that kills itself (SIGKILL, as `kill -9`) at its n-th episode, for `test_rollout.py`."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from tests.stages.rollout.toy import ORIGIN, ToyAgent, ToyEnvironment, press_and_finish, toy_query
from trajmill.pipelines.agents import ActingAgent
from trajmill.pipelines.engine.settings import BeamSettings
from trajmill.pipelines.fan_out import WrittenFiles
from trajmill.pipelines.rollout import RunAttempts, run_in_shards
from trajmill.schemas.actions import Action
from trajmill.schemas.observation import Observation
from trajmill.schemas.spec import OPERATIONAL
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.base import AgentMaker, AgentModel
from trajmill.stages.agents.spec import AgentSpec
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, create_warehouse

AT = StageRun(ORIGIN.run_id, ORIGIN.round, "rollout")
ATTEMPTS = tuple(Attempt(toy_query(f"q{number:02d}"), Purpose.TRAIN, 0, number) for number in range(20))
CONCURRENCY = 2


def run_rollout(root: Path, shards: int, kill_at: int) -> None:
    """Roll out and commit all attempts, but die at the `kill_at`-th episode; 0 lets the process live."""
    made = roll_out(root, shards, kill_at)
    commit_stage(create_warehouse(root), AT, made.files)


def roll_out(root: Path, shards: int, kill_at: int = 0) -> WrittenFiles:
    """Roll out all attempts without a commit."""
    environment = CountingEnvironments(episodes=root.with_suffix(".episodes"), kill_at=kill_at)
    work = RunAttempts(
        create_warehouse(root), AT, ORIGIN, environment, ActingAgent(PressingAgents()), Limits(), CONCURRENCY
    )
    return run_in_shards(work, ATTEMPTS, shards, BeamSettings())


class PressingAgents(AgentSpec):
    """Agents that press the button, then say that it is done."""

    kind: str = "pressing"

    def open(self, model: AgentModel | None) -> AgentMaker:
        return lambda query: ToyAgent(press_and_finish)


class CountingEnvironments(EnvironmentSpec):
    """Toy environments whose episodes are noted in a file."""

    kind: str = "toy"
    episodes: Annotated[Path, OPERATIONAL]
    kill_at: Annotated[int, OPERATIONAL]

    def factory(self, platform: Platform) -> CountingFactory:
        return CountingFactory(self.episodes, self.kill_at)


@dataclass
class CountingFactory:
    """Makes environments that note their episodes."""

    episodes: Path
    kill_at: int
    begun: int = 0

    async def __call__(self) -> ToyEnvironment:
        return CountingEnvironment(factory=self)

    async def close(self) -> None:
        pass

    def begin(self, query: Query) -> None:
        with self.episodes.open("a") as episodes:
            episodes.write(f"{query.query_id}\n")
        if len(self.episodes.read_text().split()) == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class CountingEnvironment(ToyEnvironment):
    """Shows each query a screen of its own."""

    factory: CountingFactory | None = None
    query_id: str = ""

    async def reset(self, query: Query, seed: int) -> Observation:
        assert self.factory is not None
        self.factory.begin(query)
        self.query_id = query.query_id
        return self._named(await super().reset(query, seed))

    async def step(self, action: Action) -> Observation:
        return self._named(await super().step(action))

    def _named(self, observation: Observation) -> Observation:
        if not self.pressed:
            return observation
        return replace(observation, screen=replace(observation.screen, screen_id=f"after {self.query_id}"))

    __hash__ = ToyEnvironment.__hash__
