from trajmill.schemas.actions import Click, Scroll, Swipe, Terminate, Wait
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.agents.reference import next_move
from trajmill.stages.environments.simulated.reference_path import WalkMove, WalkPosition

SCREEN = ScreenHandle("s", Size(100, 100), lambda: b"")


def showing(*ids: str) -> Observation:
    places = (Box(10 * number, 0, 10 * number + 10, 10) for number in range(len(ids)))
    elements = (UIElement("button", name, place, element_id=name) for name, place in zip(ids, places, strict=False))
    return Observation(SCREEN, tuple(elements), "app")


def step(operation: str, target: str = "", text: str = "") -> PathStep:
    return PathStep(page="p", operation=operation, target=target, text=text)


def test_what_is_not_there_yet_is_waited_for_and_given_up_in_the_end() -> None:
    assert next_move((), showing(), WalkPosition(), Platform.WEB).action == Terminate(status="failure")
    path, position = (step("drag", "a", "late"),), WalkPosition()
    move = next_move(path, showing("a"), position, Platform.WEB)
    assert isinstance(move.action, Wait) and move.position == WalkPosition(0, 1)
    assert next_move(path, showing("a", "late"), move.position, Platform.WEB).position == WalkPosition(1)
    while isinstance(move.action, Wait):
        move = next_move(path, showing("a"), move.position, Platform.WEB)
    assert move.action == Terminate(status="failure")


def test_what_does_not_show_is_scrolled_to_by_the_wheel_or_a_finger_and_upwards_from_the_end() -> None:
    path = (step("scroll", "button:far"), step("tap", "button:far"))
    move = next_move(path, showing("button:a", "button:b", "button:c"), WalkPosition(), Platform.WEB)
    assert move == WalkMove(Scroll(x=15, y=5, clicks=-5), WalkPosition(0, 1))
    found = next_move(path, showing("button:far"), move.position, Platform.WEB)
    assert found == WalkMove(Click(x=5, y=5), WalkPosition(2))
    while not isinstance(move.action, Terminate):
        move = next_move(path, showing("button:a"), move.position, Platform.WEB)
    assert move.action == Terminate(status="failure")

    def listing(state: str) -> Observation:
        return Observation(SCREEN, (UIElement("list", "", Box(0, 0, 90, 90), (state,), "", "all"),), "app")

    path, ahead = (step("scroll", "far"), step("tap", "far")), WalkPosition()
    down = next_move(path, listing("scrollable_down"), ahead, Platform.PHONE)
    assert down == WalkMove(Swipe(x=45, y=75, x2=45, y2=15), WalkPosition(0, 1))
    up = next_move(path, listing("scrollable_up"), down.position, Platform.PHONE)
    assert up == WalkMove(Swipe(x=45, y=15, x2=45, y2=75), WalkPosition(0, 2, upwards=True))
    assert next_move(path, listing("scrollable_up"), ahead, Platform.WEB).action == Scroll(x=45, y=45, clicks=5)
