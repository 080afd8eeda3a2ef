"""A rollout of small attempts that is killed (SIGKILL, as `kill -9`) at its n-th episode, for `test_rollout.py`."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated
from unittest.mock import patch

from tests.stages.environments.processes import eventually
from tests.stages.rollout.toy import ORIGIN, ToyAgent, ToyEnvironment, press_and_finish, toy_query
from trajmill.pipelines import drawing
from trajmill.pipelines.fan_out import BeamSettings
from trajmill.pipelines.models import ActingAgent
from trajmill.pipelines.rollout import RunAttempts, run_in_shards
from trajmill.schemas.actions import Action
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.observation import Observation
from trajmill.schemas.spec import OPERATIONAL
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.base import AgentMaker, AgentModel
from trajmill.stages.agents.spec import AgentSpec
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.warehouse import screens
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, create_warehouse

AT = StageRun(ORIGIN.run_id, ORIGIN.round, "rollout")
ATTEMPTS = tuple(Attempt(toy_query(f"q{number:02d}"), Purpose.TRAIN, 0, number) for number in range(20))
CONCURRENCY = 2


def run_rollout(root: Path, workers: int, kill_at: int, kind: type[CountingEnvironments] | None = None) -> None:
    """Roll out and commit; the driver is killed at an episode, and its workers go with it."""
    own = {"episodes": root.with_suffix(".episodes"), "kill_at": kill_at, "victim": os.getpid()}
    environment = (kind or CountingEnvironments).model_validate(own)
    work = RunAttempts(
        create_warehouse(root), AT, ORIGIN, environment, ActingAgent(PressingAgents()), Limits(), CONCURRENCY
    )
    with patch.object(screens, "_LEAST_BYTES", 1), patch.object(drawing, "_LOOK_SECONDS", 0.001):
        made = run_in_shards(work, ATTEMPTS, workers, BeamSettings())
    commit_stage(work.warehouse, AT, made.files)


class PressingAgents(AgentSpec):
    kind: str = "pressing"

    def open(self, model: AgentModel | None) -> AgentMaker:
        return lambda query: ToyAgent(press_and_finish)


class CountingEnvironments(EnvironmentSpec):
    kind: str = "toy"
    episodes: Annotated[Path, OPERATIONAL]
    kill_at: Annotated[int, OPERATIONAL]
    victim: Annotated[int, OPERATIONAL]

    def factory(self, platform: Platform) -> CountingFactory:
        return CountingFactory(self.episodes, self.kill_at, self.victim)


@dataclass
class CountingFactory:
    episodes: Path
    kill_at: int
    victim: int

    async def __call__(self) -> ToyEnvironment:
        return CountingEnvironment(factory=self)

    async def close(self) -> None:
        pass

    def begin(self, query: Query) -> None:
        line = f"{query.query_id}\n".encode()
        with self.episodes.open("ab", buffering=0) as episodes:
            episodes.write(line)
            # Where this line ends says its number, whatever other workers append meanwhile.
            begun = episodes.tell() // len(line)
        if begun == self.kill_at:
            os.kill(self.victim, signal.SIGKILL)


class FailingElsewhere(CountingEnvironments):
    """Fails in all processes but the driver."""

    def factory(self, platform: Platform) -> CountingFactory:
        if os.getpid() != self.victim:
            raise BadInputError("toy.yaml:1: wrong")
        return WaitingFactory(self.episodes, self.kill_at, self.victim)


class WaitingFactory(CountingFactory):
    def begin(self, query: Query) -> None:
        """Wait until another process has taken all other attempts."""
        super().begin(query)
        staging = self.episodes.with_suffix("") / "staging"
        eventually(lambda: len(list(staging.rglob("taken-*"))) == len(ATTEMPTS))


@dataclass
class CountingEnvironment(ToyEnvironment):
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
