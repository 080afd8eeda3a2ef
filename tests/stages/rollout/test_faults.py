import asyncio
import subprocess
from dataclasses import dataclass, field

import pytest

from tests.stages.environments.processes import runs
from tests.stages.rollout.rolling import rolled_out
from tests.stages.rollout.toy import ToyAgent, ToyEnvironment, press_and_finish, toy_query
from trajmill.schemas.actions import Action
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import StopReason
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.environments.base import Belongings
from trajmill.stages.environments.pool.pool import EnvironmentLimits
from trajmill.stages.rollout.base import FinishedAttempt, Limits

pytestmark = pytest.mark.slow

HASTE = EnvironmentLimits(start_seconds=0.3, reset_seconds=0.3, step_seconds=0.3, score_seconds=0.3, close_seconds=0.3)
HANG = 600.0


@dataclass(frozen=True)
class Fault:
    where: str
    """start, reset, step, score or close; `program` ends the instance's own program before a step."""
    error: Exception | None = None
    """What is raised there; None for a call that never returns."""

    async def strike(self) -> None:
        if self.error is not None:
            raise self.error
        await asyncio.sleep(HANG)


class Program(ToyEnvironment):
    """A toy environment in a process of its own, without which no step succeeds."""

    def __init__(self, fault: Fault | None) -> None:
        super().__init__()
        self.fault = fault
        self.program = subprocess.Popen(["sleep", "600"])

    async def _meet(self, where: str) -> None:
        if self.fault is not None and self.fault.where == where:
            await self.fault.strike()

    async def reset(self, query: Query, seed: int) -> Observation:
        await self._meet("reset")
        return await super().reset(query, seed)

    async def step(self, action: Action) -> Observation:
        if self.fault is not None and self.fault.where == "program":
            self.program.kill()
            self.program.wait()
        if self.program.poll() is not None:
            raise EnvironmentFailure("the program is gone")
        await self._meet("step")
        return await super().step(action)

    async def score(self) -> float | None:
        await self._meet("score")
        return await super().score()

    async def close(self) -> None:
        await self._meet("close")
        self.program.kill()
        self.program.wait()
        await super().close()

    def belongings(self) -> Belongings:
        return Belongings((self.program.pid,), ())


@dataclass
class Programs:
    """The first `faulty` instances have the fault, all later ones are sound."""

    fault: Fault
    faulty: int
    started: int = 0
    made: list[Program] = field(default_factory=list)

    async def __call__(self) -> Program:
        self.started += 1
        fault = self.fault if self.started <= self.faulty else None
        if fault is not None and fault.where == "start":
            await fault.strike()
        self.made.append(Program(fault))
        return self.made[-1]

    async def close(self) -> None:
        pass


async def round_of(
    factory: Programs, attempts: int = 6, limits: Limits = Limits(environment=HASTE)
) -> list[FinishedAttempt]:
    agent = ToyAgent(press_and_finish)
    queries = [toy_query(f"q{number}") for number in range(attempts)]
    done = await rolled_out(queries, lambda query: agent, factory, limits, 2)
    assert len({rollout.episode.trajectory.trajectory_id for rollout in done}) == len(done) == attempts
    assert not [instance for instance in factory.made if runs(instance.program.pid)]
    return done


ENVIRONMENT, SETUP = FailureClass.ENVIRONMENT, FailureClass.SETUP
FAULTS = {
    "browser killed mid-episode": (Fault("program"), ENVIRONMENT, "the program is gone"),
    "page that never loads": (Fault("reset"), SETUP, "a reset did not end within 0.3 s"),
    "dialog that blocks": (Fault("step"), ENVIRONMENT, "a step did not end within 0.3 s"),
    "X server killed": (Fault("step", ConnectionResetError("display :1")), ENVIRONMENT, "ConnectionResetError"),
    "accessibility bus that hangs": (Fault("score"), ENVIRONMENT, "a score did not end within 0.3 s"),
    "device offline": (Fault("reset", EnvironmentFailure("device offline", SETUP)), SETUP, "device offline"),
    "machine that is never ready": (Fault("start"), SETUP, "did not end within 0.3 s"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_costs_a_try_and_an_instance_but_no_attempt(name: str) -> None:
    fault, failure_class, words = FAULTS[name]
    factory = Programs(fault, faulty=2)
    done = await round_of(factory)
    assert [rollout.episode.trajectory.reward for rollout in done] == [1.0] * 6
    assert all(rollout.failure is None for rollout in done)
    overcome = [rollout.earlier_failure for rollout in done if rollout.earlier_failure]
    # Of instances that do not start, only the last one costs a try: until then another may become free.
    assert sum(failure.attempts for failure in overcome) == (1 if fault.where == "start" else 2)
    for failure in overcome:
        assert failure.failure_class is failure_class and words in failure.message


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_that_stays_is_a_failure_of_its_class_and_never_a_reward(name: str) -> None:
    fault, failure_class, words = FAULTS[name]
    factory = Programs(fault, faulty=100)
    done = await round_of(factory, attempts=2)
    for rollout in done:
        trajectory = rollout.episode.trajectory
        assert (trajectory.reward, trajectory.status, trajectory.stop_reason) == (None, "failed", StopReason.FAILED)
        assert trajectory.failure_class is failure_class and words in (trajectory.failure_message or "")
        assert rollout.failure is not None and rollout.earlier_failure is None
        assert (rollout.failure.failure_class, rollout.failure.attempts) == (failure_class, 3)
        assert rollout.failure.input_id == trajectory.trajectory_id
    assert factory.started == 6 or fault.where == "start"


async def test_an_instance_whose_closing_hangs_does_not_hold_up_the_round() -> None:
    factory = Programs(Fault("close"), faulty=4)
    limits = Limits(environment=HASTE._replace(recycle_after=1))
    assert [rollout.episode.trajectory.reward for rollout in await round_of(factory, limits=limits)] == [1.0] * 6


async def test_every_try_meets_an_agent_that_knows_nothing_of_the_try_before() -> None:
    agents: list[ToyAgent] = []

    class Once(ToyAgent):
        async def act(self, episode: EpisodeView) -> Decision:
            agents.append(self)
            return await super().act(episode)

    factory = Programs(Fault("program"), faulty=1)
    done = await rolled_out([toy_query()], lambda query: Once(press_and_finish), factory)
    assert [id(agent) for agent in agents] == [id(agents[0]), id(agents[1]), id(agents[1])]
    assert agents[0] is not agents[1] and done[0].episode.trajectory.reward == 1.0
