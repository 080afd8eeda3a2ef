import itertools
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.stages.environments.simulated.worlds import PAPER, SHELF, garden, query_of, world_of
from trajmill.schemas import actions as act
from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.kinds import DevicesSpec, FaultRates
from trajmill.stages.environments.simulated.app_files.check import builtin_files, read_files
from trajmill.stages.environments.simulated.drawing.canvas import Scene
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.layout.view import ScreenView
from trajmill.stages.environments.simulated.world import World

_BUILTIN = read_files(builtin_files())
WORLD = World({file.spec.app: file.spec for file in _BUILTIN.apps} | {**world_of(garden(), PAPER, SHELF).apps}, {})
_CONTAINERS = {"dialog", "list"}

coordinate = st.integers(-50, 1400)
keys = st.sampled_from(["Enter", "Escape", "BackSpace", "alt", "left", "ctrl", "a", "keycode_home", "back", "\x00"])
blind = st.one_of(
    st.builds(act.Click, x=coordinate, y=coordinate, count=st.integers(1, 3)),
    st.builds(act.LongPress, x=coordinate, y=coordinate),
    st.builds(act.Swipe, x=coordinate, y=coordinate, x2=coordinate, y2=coordinate),
    st.builds(act.Drag, x=coordinate, y=coordinate, x2=coordinate, y2=coordinate),
    st.builds(act.Scroll, clicks=st.integers(-20, 20)),
    st.builds(act.TypeText, text=st.text(max_size=30), clear=st.booleans(), enter=st.booleans()),
    st.builds(act.TypeText, text=st.sampled_from(["$dish", "{name}", "$", "{", "a" * 500, "\n"])),
    st.builds(act.PressKeys, keys=st.lists(keys, max_size=3).map(tuple)),
    st.builds(act.SystemButton, button=st.sampled_from(["Back", "Home", "Menu", "Enter"])),
    st.builds(act.OpenApp, app=st.one_of(st.text(max_size=5), st.sampled_from([a.name for a in WORLD.apps.values()]))),
    st.builds(act.Answer, text=st.text(max_size=5)),
    st.builds(act.Terminate, status=st.sampled_from(["success", "failure"])),
)
aimed = st.integers(0, 1_000_000)
"""Stands for a press on one of the elements that can be pressed."""
sequences = st.lists(st.one_of(aimed, aimed, aimed, blind), max_size=40)


def concrete(step: Any, seen: Observation) -> act.Action:
    if not isinstance(step, int):
        action: act.Action = step
        return action
    pressed = [element for element in seen.elements or () if element.clickable]
    if not pressed:
        return act.Wait()
    x, y = pressed[step % len(pressed)].bounds.center
    return act.Click(x=x, y=y, count=2)


def check_view(view: ScreenView) -> None:
    elements, size = view.observation.elements or (), view.scene.size
    assert elements[0].role == "heading" and elements[0].states == ("title",)
    drawn = {shape.box for shape in view.scene.shapes}
    for element in elements:
        box = element.bounds
        assert 0 <= box.left < box.right <= size.width, element
        assert 0 <= box.top < box.bottom <= size.height, element
        assert box in drawn or element.role == "list", element
    solid = [element for element in elements if element.role not in _CONTAINERS]
    for one, other in itertools.combinations(solid, 2):
        a, b = one.bounds, other.bounds
        assert a.right <= b.left or b.right <= a.left or a.bottom <= b.top or b.bottom <= a.top, (one, other)
    for element in elements:
        target = view.target_at(*element.bounds.center)
        dragged = element.role == "slider_mark"
        assert element.role in _CONTAINERS or (target is not None) == (element.clickable or dragged), element


def run(
    steps: list[Any], platform: Platform, seed: int, faults: FaultRates, devices: DevicesSpec, world: World = WORLD
) -> list[tuple[str, Scene]]:
    env = SimulatedEnvironment(world, platform, faults, devices)
    seen = env.reset_now(query_of(platform), seed)
    screens = []
    for step in steps:
        try:
            seen = env.step_now(concrete(step, seen))
        except EnvironmentFailure:
            assert faults.crash
            break
        view = env.device().view()
        assert view.observation is seen
        check_view(view)
        screens.append((seen.screen.screen_id, view.scene))
    return screens


_FAULTS = st.sampled_from(
    [FaultRates(), FaultRates(popup=1), FaultRates(slow=0.3, lost_tap=0.3, popup=0.5, crash=0.01)]
)
_PLATFORMS = st.sampled_from([Platform.PHONE, Platform.PHONE, Platform.DESKTOP])
_known: dict[str, Scene] = {}
_ids: dict[str, str] = {}


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(sequences, _PLATFORMS, st.integers(0, 1000), _FAULTS, st.builds(DevicesSpec, layouts=st.booleans()))
def test_any_actions_are_survived_and_repeat(
    steps: list[Any], platform: Platform, seed: int, faults: FaultRates, devices: DevicesSpec
) -> None:
    screens = run(steps, platform, seed, faults, devices)
    for screen_id, scene in screens:
        assert _known.setdefault(screen_id, scene) == scene, "equal ids mean equal scenes"
        assert _ids.setdefault(repr(scene), screen_id) == screen_id, "and equal scenes equal ids"
    nothing_drawn = World(WORLD.apps, WORLD.errands)
    again = run(steps, platform, seed, faults, devices, nothing_drawn)
    assert again == screens, "equal seeds give equal episodes, whatever is in the cache of screens"
