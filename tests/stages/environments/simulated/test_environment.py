import pickle

import pytest

from tests.failures import failing
from tests.stages.environments.simulated.worlds import PAPER, SHELF, garden, query_of, world_of
from trajmill.schemas.actions import Click, SystemButton, Wait
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import Environment, EnvironmentFactory
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment, SimulatedFactory

WORLD = world_of(garden(), SHELF, PAPER)
HOLIDAY = query_of(goal='{"garden.holiday": true}')


def phone(**rates: float) -> SimulatedEnvironment:
    return SimulatedEnvironment(WORLD, Platform.PHONE, FaultRates(**{"popup": 0.0, **rates}))


def press(env: SimulatedEnvironment, observation: Observation, *texts: str) -> Observation:
    for text in texts:
        x, y = next(each for each in observation.elements or () if each.text == text).bounds.center
        observation = env.step_now(Click(x=x, y=y))
    return observation


async def test_it_is_an_environment_and_its_factory_travels() -> None:
    as_factory: EnvironmentFactory = pickle.loads(pickle.dumps(SimulatedFactory(WORLD, Platform.PHONE)))
    env: Environment = await as_factory()
    seen = await env.reset(HOLIDAY, 3)
    await env.step(Wait())
    assert await env.score() == 0.0
    await env.close()
    await env.close()
    assert seen.screen.screen_id == phone().reset_now(query_of(), 3).screen.screen_id, "equal in another world object"


@pytest.mark.parametrize(
    "query",
    [
        query_of(Platform.DESKTOP),
        query_of(start_state="nonsense"),
        query_of(start_state="[]"),
        query_of(start_state='{"setup": {"garden.nothing": {"name": "x"}}}'),
        query_of(start_state='{"setup": {"garden.holiday": {"name": "x"}}}'),
        query_of(start_state='{"setup": {"nowhere.list": {"name": "x"}}}'),
        query_of(start_state='{"setup": {"paper.saved": {"name": "x"}}}'),
        query_of(start_state='{"without": {"garden.nothing": "x"}}'),
        query_of(start_state='{"without": {"shelf.loans": "never lent"}}'),
        query_of(start_state='{"other": 1}'),
        query_of(goal="nonsense"),
        query_of(goal='{"garden.nothing": true}'),
        query_of(goal='{"garden.waterings": true}'),
        query_of(goal='{"garden.holiday": {"append": {"name": "x"}}}'),
        query_of(goal='{"holiday": true}'),
    ],
)
def test_a_wrong_platform_start_state_or_goal_is_a_mistake_of_the_task(query: Query) -> None:
    with failing(FailureClass.TASK):
        phone().reset_now(query, 0)


def test_no_reset_is_a_setup_failure() -> None:
    for call in (lambda: phone().step_now(Wait()), lambda: phone().score_now()):
        with failing(FailureClass.SETUP):
            call()


def test_setup_is_there_at_the_start_and_belongs_to_the_start() -> None:
    env = phone()
    start = '{"setup": {"shelf.loans": {"name": "Lent before", "days": 9}}}'
    goal = '{"shelf.loans": {"remove": true, "name": "Lent before"}}'
    seen = env.reset_now(query_of(start_state=start, goal=goal), 0)
    assert env.score_now() == 0.0
    seen = press(env, seen, "Shelf", "Book 0", "Yes")
    assert {each.text: each.value for each in seen.elements or ()}["Lent before"] == "9 days"
    env.reset_now(HOLIDAY, 0)
    assert env.score_now() == 0.0
    press(env, env.step_now(Wait()), "Garden", "Holiday mode")
    assert env.score_now() == 1.0, "nothing is left of the episode before"
    press(env, env.reset_now(query_of(goal='{"garden.holiday": 1}'), 0), "Garden", "Holiday mode")
    assert env.score_now() == 0.0, "a boolean is not a number"


def test_a_start_state_can_take_an_item_from_a_list_that_never_changes() -> None:
    env, whole = phone(), query_of()
    items = {each.text for each in press(env, env.reset_now(whole, 0), "Shelf").elements or ()}
    less = query_of(start_state='{"without": {"shelf.books": "Book 1"}}')
    left = {each.text for each in press(env, env.reset_now(less, 0), "Shelf").elements or ()}
    assert "Book 1" in items and "Book 1" not in left and "Book 0" in left
    assert {each.text for each in press(env, env.reset_now(whole, 0), "Shelf").elements or ()} == items


async def test_what_changed_beyond_the_goal_is_a_side_effect() -> None:
    env = phone()
    goal = '{"shelf.loans": {"append": {"name": "Book 1", "days": 7}}}'
    start = '{"setup": {"shelf.loans": {"name": "Lent before", "days": 9}}}'
    press(env, env.reset_now(query_of(start_state=start, goal=goal), 0), "Shelf", "Book 0", "Yes")
    assert await env.side_effects() == (), "another book than the goal's, in the list that the goal names"
    press(env, env.step_now(SystemButton(button="Home")), "Garden", "Holiday mode")
    assert await env.side_effects() == ("garden.holiday",)
    press(env, env.reset_now(HOLIDAY, 0), "Garden", "Holiday mode")
    assert await env.side_effects() == ()
    env.reset_now(query_of(), 0)
    assert await env.side_effects() is None, "without a goal nothing is beyond it"


def test_a_crash_is_a_failure_of_the_environment() -> None:
    env = phone(crash=1.0)
    env.reset_now(query_of(), 0)
    with failing(FailureClass.ENVIRONMENT):
        env.step_now(Wait())


def test_a_slow_page_shows_as_loading_until_the_next_action() -> None:
    env = phone(slow=1.0)
    titles = []
    for seen in (
        press(env, env.reset_now(query_of(), 0), "Garden"),
        env.step_now(Click(x=100, y=200)),
        press(env, env.step_now(Wait()), "Basil"),
        env.step_now(Wait()),
    ):
        assert seen.elements
        titles.append(seen.elements[0].text)
    assert titles == ["Loading", "Garden", "Loading", "Basil"]


def test_surprises_are_in_the_way_and_can_be_dismissed() -> None:
    titles, sponsored = set(), 0
    for seed in range(0, 160, 8):
        env = phone(popup=1.0)
        plain_env = phone()
        plain = press(plain_env, plain_env.reset_now(query_of(), seed), "Garden")
        seen = press(env, env.reset_now(HOLIDAY, seed), "Garden")
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
    def screen(seed: int) -> str:
        env = phone(lost_tap=0.5, slow=0.3)
        return press(env, env.reset_now(query_of(), seed), "Garden").screen.screen_id

    runs = [screen(seed) for seed in range(0, 400, 8)]
    assert runs == [screen(seed) for seed in range(0, 400, 8)]
    assert len(set(runs)) == 3, "lost, loading and open"
    env = phone(lost_tap=1.0)
    seen = env.reset_now(query_of(), 0)
    assert press(env, seen, "Garden").screen.screen_id == seen.screen.screen_id


async def test_a_snapshot_holds_the_episode_exactly_whatever_happens_after_it() -> None:
    rates = {"popup": 0.5, "slow": 0.3, "lost_tap": 0.3}
    env, other = phone(**rates), phone(**rates)
    seen = await env.reset(HOLIDAY, 5)
    seen = press(env, seen, "Garden")
    copied = await env.snapshot()

    async def goes_on(env: SimulatedEnvironment) -> list[str]:
        shown = [await env.restore(copied)]
        for action in (Wait(), Click(x=360, y=420), SystemButton(button="Home"), Click(x=120, y=300), Wait()):
            shown.append(await env.step(action))
        return [each.screen.screen_id for each in shown]

    press(env, env.step_now(Wait()), "Holiday mode")
    before = await goes_on(env)
    assert before[0] == seen.screen.screen_id
    assert await goes_on(env) == before == await goes_on(other)
    assert await other.score() == 0.0
    with failing(FailureClass.SETUP):
        await other.restore("nonsense")
