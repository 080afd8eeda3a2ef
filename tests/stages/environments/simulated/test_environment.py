import pickle

import pytest

from tests.stages.environments.simulated.worlds import PAPER, SHELF, garden, query_of, world_of
from trajmill.schemas.actions import Click, SystemButton, Wait
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.base import Environment, EnvironmentFactory
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment, SimulatedFactory

WORLD = world_of(garden(), SHELF, PAPER)


def phone(**rates: float) -> SimulatedEnvironment:
    return SimulatedEnvironment(WORLD, Platform.PHONE, FaultRates(**{"popup": 0.0, **rates}))


def press(env: SimulatedEnvironment, observation: Observation, text: str) -> Observation:
    element = next(each for each in observation.elements or () if each.text == text)
    x, y = element.bounds.center
    return env.step_now(Click(x=x, y=y))


async def test_it_is_an_environment_and_its_factory_travels() -> None:
    factory = pickle.loads(pickle.dumps(SimulatedFactory(WORLD, Platform.PHONE)))
    as_factory: EnvironmentFactory = factory
    env: Environment = await as_factory()
    seen = await env.reset(query_of(goal='{"garden.holiday": true}'), 3)
    await env.step(Wait())
    score = await env.score()
    await env.close()
    await env.close()
    assert seen.screen.screen_id == phone().reset_now(query_of(), 3).screen.screen_id, "equal in another world object"
    assert score == 0.0


@pytest.mark.parametrize(
    ("start_state", "goal"),
    [
        ("nonsense", "{}"),
        ("[]", "{}"),
        ('{"setup": {"garden.nothing": {"name": "x"}}}', "{}"),
        ('{"setup": {"garden.holiday": {"name": "x"}}}', "{}"),
        ('{"setup": {"nowhere.list": {"name": "x"}}}', "{}"),
        ('{"setup": {"paper.saved": {"name": "x"}}}', "{}"),
        ('{"other": 1}', "{}"),
        ("{}", "nonsense"),
        ("{}", '{"garden.nothing": true}'),
        ("{}", '{"garden.waterings": true}'),
        ("{}", '{"garden.holiday": {"append": {"name": "x"}}}'),
        ("{}", '{"holiday": true}'),
    ],
)
def test_a_wrong_start_state_or_goal_is_a_mistake_of_the_task(start_state: str, goal: str) -> None:
    with pytest.raises(EnvironmentFailure) as caught:
        phone().reset_now(query_of(start_state=start_state, goal=goal), 0)
    assert caught.value.failure_class is FailureClass.TASK
    assert "\n" not in str(caught.value)


def test_the_wrong_platform_is_a_mistake_of_the_task() -> None:
    with pytest.raises(EnvironmentFailure, match="platform") as caught:
        phone().reset_now(query_of(Platform.DESKTOP), 0)
    assert caught.value.failure_class is FailureClass.TASK


def test_no_reset_is_a_setup_failure() -> None:
    for call in (lambda: phone().step_now(Wait()), lambda: phone().score_now()):
        with pytest.raises(EnvironmentFailure) as caught:
            call()
        assert caught.value.failure_class is FailureClass.SETUP


def test_setup_is_there_at_the_start_and_belongs_to_the_start() -> None:
    env = phone()
    start = '{"setup": {"shelf.loans": {"name": "Lent before", "days": 9}}}'
    goal = '{"shelf.loans": {"remove": true, "name": "Lent before"}}'
    seen = env.reset_now(query_of(start_state=start, goal=goal), 0)
    assert env.score_now() == 0.0
    seen = press(env, seen, "Shelf")
    seen = press(env, seen, "Book 0")
    seen = press(env, seen, "Yes")
    notes = {each.text: each.value for each in seen.elements or ()}
    assert notes["Lent before"] == "9 days"
    env.reset_now(query_of(goal='{"garden.holiday": true}'), 0)
    assert env.score_now() == 0.0
    seen = press(env, env.step_now(Wait()), "Garden")
    press(env, seen, "Holiday mode")
    assert env.score_now() == 1.0, "nothing is left of the episode before"


def test_a_boolean_is_not_a_number() -> None:
    env = phone()
    seen = env.reset_now(query_of(goal='{"garden.holiday": 1}'), 0)
    press(env, press(env, seen, "Garden"), "Holiday mode")
    assert env.score_now() == 0.0


def test_a_crash_is_a_failure_of_the_environment() -> None:
    env = phone(crash=1.0)
    env.reset_now(query_of(), 0)
    with pytest.raises(EnvironmentFailure) as caught:
        env.step_now(Wait())
    assert caught.value.failure_class is FailureClass.ENVIRONMENT


def test_a_slow_page_shows_as_loading_until_the_next_action() -> None:
    env = phone(slow=1.0)
    seen = press(env, env.reset_now(query_of(), 0), "Garden")
    assert next(each.text for each in seen.elements or ()) == "Loading"
    assert env.step_now(Click(x=100, y=200)).elements[0].text == "Garden"  # type: ignore[index]
    seen = press(env, env.step_now(Wait()), "Basil")
    assert next(each.text for each in seen.elements or ()) == "Loading"
    assert env.step_now(Wait()).elements[0].text == "Basil"  # type: ignore[index]


def test_a_lost_tap_has_no_effect() -> None:
    env = phone(lost_tap=1.0)
    seen = env.reset_now(query_of(), 0)
    assert press(env, seen, "Garden").screen.screen_id == seen.screen.screen_id
    assert phone(lost_tap=0.0).reset_now(query_of(), 0).screen.screen_id == seen.screen.screen_id


def test_surprises_are_in_the_way_and_can_be_dismissed() -> None:
    titles, sponsored = set(), 0
    for seed in range(0, 160, 8):
        env = phone(popup=1.0)
        plain_env = phone()
        plain = press(plain_env, plain_env.reset_now(query_of(), seed), "Garden")
        seen = press(env, env.reset_now(query_of(goal='{"garden.holiday": true}'), seed), "Garden")
        if (seen.elements or ())[0].element_id != "popup/title":
            assert "Sponsored" in [each.value for each in seen.elements or ()]
            seen = press(env, seen, "Try Plus for free")
            sponsored += 1
        titles.add((seen.elements or ())[0].text)
        buttons = [each.text for each in seen.elements or () if each.clickable]
        assert buttons in (["Not now", "Rate"], ["Close", "Learn more"])
        assert env.step_now(SystemButton(button="Back")).app == "garden"
        if not sponsored:
            assert env.step_now(Wait()).screen.screen_id == plain.screen.screen_id
        assert env.score_now() == 0.0
    assert len(titles) == 2


def test_faults_happen_at_their_rate_and_come_from_the_seed() -> None:
    def screens(seed: int) -> list[str]:
        env = phone(lost_tap=0.5, slow=0.3)
        seen = env.reset_now(query_of(), seed)
        return [press(env, seen, "Garden").screen.screen_id for _ in range(1)]

    runs = [screens(seed) for seed in range(0, 400, 8)]
    assert runs == [screens(seed) for seed in range(0, 400, 8)]
    distinct = {run[0] for run in runs}
    assert len(distinct) == 3, "lost, loading and open"
