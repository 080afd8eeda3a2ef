import pytest

from tests.stages.environments.pool.counting import SHORT_LIMITS
from tests.stages.rollout.rolling import rolled_out
from tests.stages.rollout.toy import ToyAgent, ToyEnvironment, ToyFactory, press_and_finish, toy_query
from trajmill.schemas.actions import Action, Wait
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.trajectory import StopReason
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.rollout.base import FinishedAttempt, Limits

pytestmark = pytest.mark.slow
ENVIRONMENT, SETUP = FailureClass.ENVIRONMENT, FailureClass.SETUP
FAULTS = {
    "a reset that hangs": (ToyEnvironment(hanging="reset"), SETUP, "a reset did not end within 0.3 s"),
    "a step that hangs": (ToyEnvironment(hanging="step"), ENVIRONMENT, "a step did not end within 0.3 s"),
    "an X server that is gone": (ToyEnvironment(raised=OSError("the\ndisplay")), ENVIRONMENT, "OSError: the display"),
    "a device that is offline": (ToyEnvironment(raised=EnvironmentFailure("offline", SETUP)), SETUP, "offline"),
    "a score that hangs": (ToyEnvironment(hanging="score"), ENVIRONMENT, "a score did not end within 0.3 s"),
}


async def round_of(factory: ToyFactory, attempts: int) -> list[FinishedAttempt]:
    agent = ToyAgent(press_and_finish)
    queries = [toy_query(f"q{number}") for number in range(attempts)]
    limits = Limits(environment=SHORT_LIMITS._replace(recycle_after=1))
    done = await rolled_out(queries, lambda query: agent, factory, limits, 2)
    assert len({rollout.episode.trajectory.trajectory_id for rollout in done}) == len(done) == attempts
    return done


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_costs_a_try_and_an_instance_but_no_attempt(name: str) -> None:
    fault, failure_class, words = FAULTS[name]
    # Those that follow hang when they are closed, which holds nothing up.
    factory = ToyFactory([fault.again(), fault.again(), ToyEnvironment(hanging="close")])
    done = await round_of(factory, 6)
    assert [rollout.episode.trajectory.reward for rollout in done] == [1.0] * 6
    assert all(rollout.failure is None for rollout in done)
    overcome = [rollout.earlier_failure for rollout in done if rollout.earlier_failure]
    # On a busy machine a sound instance may be taken for one that hangs, too.
    assert sum(failure.attempts for failure in overcome) >= 2
    assert all(failure.failure_class is failure_class and words in failure.message for failure in overcome)


def assert_failed(done: list[FinishedAttempt], failure_class: FailureClass, words: str) -> None:
    for rollout in done:
        trajectory = rollout.episode.trajectory
        assert (trajectory.reward, trajectory.status, trajectory.stop_reason) == (None, "failed", StopReason.FAILED)
        assert trajectory.failure_class is failure_class and words in (trajectory.failure_message or "")
        assert rollout.failure is not None and rollout.earlier_failure is None
        assert (rollout.failure.failure_class, rollout.failure.attempts) == (failure_class, 3)
        assert rollout.failure.input_id == trajectory.trajectory_id


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_that_stays_is_a_failure_of_its_class_and_never_a_reward(name: str) -> None:
    fault, failure_class, words = FAULTS[name]
    factory = ToyFactory([fault.again() for _ in range(6)])
    assert_failed(await round_of(factory, 2), failure_class, words)
    assert len(factory.made) == 6


async def test_machines_that_are_never_ready_are_a_failure_of_the_setup() -> None:
    assert_failed(await round_of(ToyFactory(machines=0), 2), SETUP, "no phone is free")


async def test_every_try_meets_an_agent_that_knows_nothing_of_the_try_before() -> None:
    agents: list[ToyAgent] = []

    class Once(ToyAgent):
        async def act(self, episode: EpisodeView) -> Decision:
            agents.append(self)
            return await super().act(episode)

    factory = ToyFactory([ToyEnvironment(raised=ConnectionResetError())])
    done = await rolled_out([toy_query()], lambda query: Once(press_and_finish), factory)
    assert [id(agent) for agent in agents] == [id(agents[0]), id(agents[1]), id(agents[1])]
    assert agents[0] is not agents[1] and done[0].episode.trajectory.reward == 1.0


class Unprobed(ToyEnvironment):
    async def step(self, action: Action) -> Observation:
        if isinstance(action, Wait):
            self.hanging, self.raised = ("step", None) if action.seconds else ("", EnvironmentFailure("offline"))
        return await super().step(action)


@pytest.mark.parametrize("seconds", [0.0, 1.0])
async def test_a_probe_that_fails_costs_an_instance_and_no_attempt(seconds: float) -> None:
    factory, agent = ToyFactory([Unprobed(), Unprobed()]), ToyAgent(press_and_finish)
    limits = Limits(environment=SHORT_LIMITS, prober=lambda query, seen: Wait(seconds=seconds))
    for made in await rolled_out([toy_query("first"), toy_query("second")], lambda query: agent, factory, limits):
        trajectory = made.episode.trajectory
        assert (trajectory.status, trajectory.reward, trajectory.steps) == ("finished", 1.0, 2)
        assert trajectory.probe_screens is None and made.failure is None and made.earlier_failure is None
    assert len(factory.made) == 2
