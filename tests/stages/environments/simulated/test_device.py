import json
import pickle

from tests.failures import failing
from tests.stages.environments.simulated.worlds import PAPER, SHELF, ScreenOperator, garden, query_of, world_of
from trajmill.schemas import actions as act
from trajmill.schemas.actions import Action, Click, SystemButton, Wait, drag, hold
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.observation import HOLDABLE, SLIDER_MARK, Observation
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.base import Environment, EnvironmentFactory
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment, SimulatedFactory
from trajmill.stages.environments.simulated.layout.profile import KEYBOARD_TOP

PHONE = world_of(garden(), SHELF)
DESKTOP = world_of(PAPER)
UP, DOWN = act.Swipe(x=360, y=1000, x2=360, y2=300), act.Swipe(x=360, y=300, x2=360, y2=1000)
BACK, HOME = act.SystemButton(button="Back"), act.SystemButton(button="Home")


def test_an_order_counts_until_something_changes_that_the_goal_does_not_name() -> None:
    goal = {"garden.waterings": {"append": {"name": "Basil", "amount": 2, "feed": True, "memo": ""}}}
    operator = ScreenOperator(PHONE, goal=json.dumps(goal))
    operator.press("Garden", "Basil", "+", "Add plant food", "Water it")
    assert operator.env.score_now() == 1.0
    operator.press("Done", "Holiday mode")
    assert operator.env.score_now() == 0.0


def test_back_and_home() -> None:
    operator = ScreenOperator(world_of(garden(), SHELF, PAPER))
    assert (operator.texts(), operator.seen.app) == (["Home screen", "Garden", "Shelf"], "")
    operator.press("Garden")
    assert operator.find("Back") is None
    operator.press("Basil", "+", "Back")
    assert operator.title == "Garden"
    operator.press("Cactus")
    operator.do(HOME)
    assert operator.title == "Home screen"
    operator.press("Garden")
    assert operator.title == "Cactus", "an app is found as it was left"
    assert operator.value("Cups") == "2", "a variable keeps its value"
    operator.do(BACK)
    operator.do(BACK)
    assert operator.title == "Home screen"


def test_keyboard_covers_and_the_first_text_replaces() -> None:
    operator = ScreenOperator(PHONE)
    operator.press("Garden", "Basil")
    operator.do(act.TypeText(text="nothing is focused"))
    assert "keyboard" not in operator.roles()
    operator.press("Memo")
    memo, (*others, keyboard) = operator.find("Memo"), operator.seen.elements or ()
    assert memo is not None and "focused" in memo.states
    assert (keyboard.role, keyboard.bounds.top) == ("keyboard", KEYBOARD_TOP)
    assert all(element.bounds.bottom <= KEYBOARD_TOP for element in others)
    operator.do(act.TypeText(text="one"))
    operator.do(act.TypeText(text=" two"))
    assert operator.value("Memo") == "one two"
    operator.do(BACK)
    assert operator.title == "Basil" and "keyboard" not in operator.roles(), "Back first puts the keyboard away"
    operator.press("Memo")
    operator.do(act.TypeText(text="three", enter=True))
    memo = operator.find("Memo")
    assert memo is not None and memo.value == "three" and "focused" not in memo.states


def test_a_list_scrolls_to_every_row_and_back() -> None:
    operator = ScreenOperator(PHONE)
    operator.press("Shelf")

    def region() -> tuple[str, ...]:
        return next((each.states for each in operator.seen.elements or () if each.role == "list"), ())

    seen, turns = set(operator.texts()), 0
    while operator.do(UP) and "scrollable_down" in region():
        seen.update(operator.texts())
        turns += 1
    seen.update(operator.texts())
    assert {f"Book {number}" for number in range(30)} | {"All the way down"} <= seen and turns >= 2
    last = operator.seen.screen.screen_id
    assert operator.do(UP).screen.screen_id == last
    while "scrollable_up" in region():
        operator.do(DOWN)
    assert "Search" in operator.texts()


def test_search_filters_and_a_dialog_hides_its_page_and_never_stays_behind() -> None:
    operator = ScreenOperator(PHONE)
    operator.press("Shelf", "Search")
    operator.do(act.TypeText(text="no such"))
    assert "Nothing here yet" in operator.texts()
    operator.do(act.TypeText(text="bOOk 4", clear=True))
    assert [text for text in operator.texts() if text.startswith("Book")] == ["Book 4"]
    operator.press("Book 4")
    assert operator.title == "Lend Book 4?"
    assert "dialog" in operator.roles() and "Search" not in operator.texts()
    operator.press("No")
    assert operator.title == "Shelf"
    operator.press("Book 4", "Yes")
    assert operator.title == "Loans" and "Book 4" in operator.texts()
    operator.press("Back")
    assert operator.title == "Shelf"


def test_actions_without_meaning_change_nothing() -> None:
    operator = ScreenOperator(PHONE)
    before = operator.press("Garden", "Basil").screen.screen_id
    for action in (
        act.Click(x=5, y=700),
        act.Click(x=100, y=200, button="right"),
        act.Swipe(x=100, y=200, x2=500, y2=220),
        act.Scroll(clicks=0),
        act.OpenApp(app="No such app"),
        act.OpenApp(app="Paper"),
        act.PressKeys(keys=("ctrl", "alt", "del")),
        act.SystemButton(button="Menu"),
        act.Wait(),
        act.Click(x=-5, y=99999),
    ):
        assert operator.do(action).screen.screen_id == before, action
    less = operator.find("-")
    assert less is not None and "disabled" in less.states
    assert operator.press("-").screen.screen_id == before
    for name in ("Shelf", "garden", " GARDEN "):
        assert operator.do(act.OpenApp(app=name)).app == name.strip().lower()


def test_desktop_icons_take_a_double_click_and_menus_open_and_close() -> None:
    operator = ScreenOperator(DESKTOP, Platform.DESKTOP)
    operator.press("Paper")
    assert operator.title == "Desktop"
    for leaving in ("Show desktop", "Close"):
        operator.press("Paper", count=2)
        assert operator.title == "Paper"
        operator.press(leaving)
        assert operator.title == "Desktop"
    plain = operator.press("Paper", count=2).screen.screen_id
    assert operator.find("Save as") is None
    operator.press("File")
    assert [e.text for e in operator.seen.elements or () if e.role == "menu_item"] == ["Save as", "Ruler"]
    assert operator.find("First line") is None
    assert operator.do(act.Click(x=700, y=600)).screen.screen_id == plain, "a press beside the menu only closes it"
    operator.press("File")
    assert operator.do(act.PressKeys(keys=("Escape",))).screen.screen_id == plain
    assert operator.press("File", "File").screen.screen_id == plain
    operator.press("File", "Save as")
    assert operator.title == "Save the letter"
    assert "disabled" in [state for e in operator.seen.elements or () if e.text == "OK" for state in e.states]
    operator.press("Close")
    assert operator.title == "Paper"

    # Typing has no keyboard on a desktop, and items of a list are text.
    operator.press("First line")
    operator.do(act.TypeText(text="Dear"))
    assert "keyboard" not in operator.roles()
    operator.do(act.PressKeys(keys=("BackSpace",)))
    assert operator.value("First line") == "Dea"
    operator.do(act.TypeText(text="New", clear=True))
    assert operator.value("First line") == "New"
    operator.press("First")
    assert operator.value("First line") == "{a} b"


WORLD = world_of(garden(), SHELF, PAPER)
HOLIDAY = query_of(goal='{"garden.holiday": true}')


def phone(**rates: float) -> SimulatedEnvironment:
    return SimulatedEnvironment(WORLD, Platform.PHONE, FaultRates(**{"popup": 0.0, "slow": 0.0, **rates}))


def press(env: SimulatedEnvironment, observation: Observation, *texts: str) -> Observation:
    for text in texts:
        x, y = next(each for each in observation.elements or () if each.text == text).bounds.center
        observation = env.step_now(Click(x=x, y=y))
    return observation


def test_items_are_held_the_knob_of_a_slider_is_dragged_and_enter_presses_a_button() -> None:
    env = phone()
    seen = press(env, env.reset_now(query_of(), 0), "Shelf")
    (row,) = (each for each in seen.elements or () if each.text == "Book 0")
    assert HOLDABLE in row.states
    seen = env.step_now(hold(row.bounds.center, touch=True))
    marks = [each for each in seen.elements or () if each.role == SLIDER_MARK]
    assert [each.states for each in marks] == [("checked",), (), ()]
    one, two, three = (each.bounds.center for each in marks)

    def row_after(action: Action) -> object:
        env.step_now(action)
        return env.device().running["shelf"].store.values["row"]

    moves = (Click(x=two.x, y=two.y), drag(two, three, touch=True), drag(one, three, touch=True))
    assert [row_after(move) for move in moves] == [1, 1, 3], "pressed, from where no knob is, from the knob"
    seen = press(env, env.step_now(SystemButton(button="Back")), "Search")
    assert (env.step_now(SystemButton(button="Enter")).elements or ())[0].text == "Loans"


async def test_it_is_an_environment_and_its_factory_travels() -> None:
    as_factory: EnvironmentFactory = pickle.loads(pickle.dumps(SimulatedFactory(WORLD, Platform.PHONE)))
    env: Environment = await as_factory()
    seen = await env.reset(HOLIDAY, 3)
    await env.step(Wait())
    assert await env.score() == 0.0
    await env.close()
    await env.close()
    assert seen.screen.screen_id == phone().reset_now(query_of(), 3).screen.screen_id, "equal in another world object"


def test_a_wrong_platform_start_state_or_goal_is_a_mistake_of_the_task() -> None:
    for query in (
        query_of(Platform.DESKTOP),
        query_of(start_state="nonsense"),
        query_of(start_state='{"setup": {"garden.nothing": {"name": "x"}}}'),
        query_of(start_state='{"setup": {"paper.saved": {"name": "x"}}}'),
        query_of(start_state='{"without": {"garden.nothing": "x"}}'),
        query_of(start_state='{"without": {"shelf.loans": "never lent"}}'),
        query_of(goal="nonsense"),
        query_of(goal='{"garden.nothing": true}'),
        query_of(goal='{"garden.holiday": {"append": {"name": "x"}}}'),
    ):
        with failing(FailureClass.TASK):
            phone().reset_now(query, 0)


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
    env, less = phone(), query_of(start_state='{"without": {"shelf.books": "Book 1"}}')
    shown = [press(env, env.reset_now(each, 0), "Shelf").elements or () for each in (query_of(), less, query_of())]
    before, left, after = ({each.text for each in elements} for elements in shown)
    assert before == after and before - left == {"Book 1"} and "Book 0" in left


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


def test_a_crash_is_a_failure_of_the_environment_and_no_reset_one_of_the_setup() -> None:
    env = phone(crash=1.0)
    for call in (lambda: env.step_now(Wait()), env.score_now):
        with failing(FailureClass.SETUP):
            call()
    env.reset_now(query_of(), 0)
    with failing(FailureClass.ENVIRONMENT):
        env.step_now(Wait())


def test_a_slow_page_shows_as_loading_until_the_next_action() -> None:
    env = phone(slow=1.0)
    seen = [press(env, env.reset_now(query_of(), 0), "Garden"), env.step_now(Click(x=100, y=200))]
    seen += [press(env, env.step_now(Wait()), "Basil"), env.step_now(Wait())]
    assert [each.elements[0].text for each in seen if each.elements] == ["Loading", "Garden", "Loading", "Basil"]


def test_surprises_are_in_the_way_and_can_be_dismissed() -> None:
    titles = set()
    for seed in range(0, 160, 8):
        env, plain = phone(popup=1.0), phone()
        expected = press(plain, plain.reset_now(query_of(), seed), "Garden").screen.screen_id
        seen = press(env, env.reset_now(HOLIDAY, seed), "Garden")
        if sponsored := (seen.elements or ())[0].element_id != "popup/title":
            assert "Sponsored" in [each.value for each in seen.elements or ()]
            seen = press(env, seen, "Try Plus for free")
        titles.add((seen.elements or ())[0].text)
        buttons = [each.text for each in seen.elements or () if each.clickable]
        assert buttons in (["Not now", "Rate"], ["Close", "Learn more"])
        assert env.step_now(SystemButton(button="Back")).app == "garden"
        assert sponsored or env.step_now(Wait()).screen.screen_id == expected
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
