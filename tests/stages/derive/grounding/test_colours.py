from collections import defaultdict

import pytest

from tests.stages.derive.grounding.test_grounding import said
from tests.stages.derive.samples import DONE, TAP, episode, step
from tests.stages.derive.screens import derived, tools_of
from tests.stages.environments.simulated.worlds import NO_FAULTS, query_of
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.screen import ObservedScreens
from trajmill.stages.derive.grounding.colours import colour_name, element_colours
from trajmill.stages.derive.spec import GroundingSpec
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import shared_world


def instructions(seen: Observation) -> set[str]:
    spec = GroundingSpec(instructions=("appearance",))
    tools = tools_of(spec, ObservedScreens(defaultdict(lambda: seen)))
    return set(said(derived(spec, episode([step(0, TAP), step(1, DONE)]), tools, frozenset({0})), "appearance"))


ICONS = {"red": "Mail", "orange": "Stride", "purple": "Calendar", "green": "Messages"}


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        (Platform.PHONE, {"The pink icon.", *(f'The {hue} icon with the text "{app}".' for hue, app in ICONS.items())}),
        (Platform.DESKTOP, {'The blue icon with the text "Files".'}),
    ],
)
def test_an_icon_has_the_colour_of_its_app_and_not_of_the_wallpaper(platform: Platform, expected: set[str]) -> None:
    """Wallet is teal, Notes mustard, Rides indigo, Photos crimson, Clock slate: no name on which people agree."""
    world = shared_world(())
    seen = SimulatedEnvironment(world, platform, NO_FAULTS).reset_now(query_of(platform), 3)
    found = instructions(seen)
    assert found == expected
    icons = [element for element in seen.elements or () if element.role == "icon"]
    named = element_colours(seen.screen.encode(), [icon.bounds for icon in icons])
    colours = {app.name: app.color for app in world.apps_on(platform)}
    for icon in icons:
        name = colour_name(*bytes.fromhex(colours[icon.text][1:]))
        assert named[icon.bounds].name in ("", name)


def test_colours_have_common_names_and_a_box_off_the_screen_has_none() -> None:
    named = {
        "#ffffff": "white", "#101010": "black", "#808080": "grey", "#c02020": "red", "#7a4a08": "brown",
        "#0a4a18": "dark green", "#00695c": "", "#c58b00": "", "#ad1457": "", "#546e7a": "", "#e8eef9": "",
    }  # fmt: skip
    for code, name in named.items():
        assert colour_name(*bytes.fromhex(code[1:])) == name, code
    seen = SimulatedEnvironment(shared_world(()), Platform.PHONE, NO_FAULTS).reset_now(query_of(Platform.PHONE), 3)
    size, image = seen.screen.size, seen.screen.encode()
    boxes = [Box(0, 0, size.width, size.height), Box(-9, -9, 5, 5), Box(size.width, 0, size.width + 9, 9)]
    assert element_colours(image, boxes)[boxes[2]].name == ""
