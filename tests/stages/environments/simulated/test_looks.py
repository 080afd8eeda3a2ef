import io
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from pydantic import ValidationError

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.environments.kinds import DevicesSpec, SimulatedSpec
from trajmill.stages.environments.simulated.drawing.canvas import Scene, Shape, font_of, undrawn
from trajmill.stages.environments.simulated.drawing.draw import PAINTERS, draw
from trajmill.stages.environments.simulated.layout.profile import DeviceProfile, profile_of
from trajmill.stages.environments.simulated.world import load_world
from trajmill.stages.rollout.base import episode_seed

SIZE = Size(360, 240)
BOX = Box(40, 60, 320, 140)
WITHOUT_TEXT = {"scroll_bar", "keyboard", "dialog", "wallpaper", "stepper_button"}


def scene(*shapes: Shape, dark: bool = False) -> Scene:
    return Scene(SIZE, "#2266AA", dark, shapes)


def pixels(of: Scene) -> Image.Image:
    return Image.open(io.BytesIO(draw(of))).convert("RGB")


def changed(first: Scene, second: Scene) -> tuple[int, int, int, int] | None:
    return ImageChops.difference(pixels(first), pixels(second)).getbbox()


@pytest.mark.parametrize("kind", sorted(set(PAINTERS) - {"dim"}))
def test_text_is_visible_and_nothing_is_drawn_outside_the_box(kind: str) -> None:
    long = "A text that is far too long for a box as small as this", "a note as long as that"
    for state in ("", "on", "focused", "disabled"):
        left, top, right, bottom = changed(scene(), scene(Shape(kind, BOX, *long, state))) or BOX
        assert left >= BOX.left and top >= BOX.top and right <= BOX.right and bottom <= BOX.bottom
    for dark in (False, True) if kind not in WITHOUT_TEXT else ():
        box = changed(scene(Shape(kind, BOX, " "), dark=dark), scene(Shape(kind, BOX, "Margherita"), dark=dark))
        assert box is not None and box[3] - box[1] >= 7, "the letters are too small to be read"


def test_states_and_signs_look_different() -> None:
    assert changed(scene(Shape("stepper_button", BOX, "+")), scene(Shape("stepper_button", BOX, "-"))) is not None
    for kind in ("radio", "checkbox", "switch"):
        assert changed(scene(Shape(kind, BOX, "Wrap")), scene(Shape(kind, BOX, "Wrap", "", "on"))) is not None


def test_letters_of_europe_are_drawn_each_in_its_shape_and_those_without_a_font_are_named_once() -> None:
    for text in ("Núñez in Málaga", "Łódź", "Привет", "Ελλάδα", "5 € → ½"):
        assert undrawn(text) == ""
        letters = sorted(set(text) - {" "})
        font = font_of(text, 24)
        assert len({bytes(font.getmask(letter)) for letter in letters}) == len(letters)
    assert undrawn("雨 and 雨 and 🌧!") == "雨🌧"
    assert font_of("Hello, world", 24).getname() == ("Aileron", "Regular")


MARKET = Path(__file__).parents[4] / "docs" / "examples" / "market.yaml"


def met(devices: DevicesSpec, purpose: Purpose) -> set[DeviceProfile]:
    return {profile_of(episode_seed(0, 1, f"q{at}", purpose, 0), devices) for at in range(400)}


def test_evaluation_uses_no_device_and_no_long_list_order_of_training_and_looks_can_be_left_out() -> None:
    by_default = [DeviceProfile(seed % 8, has_layouts=True) for seed in range(20)]
    assert [profile_of(seed) for seed in range(20)] == by_default
    devices = DevicesSpec(orders=70)
    trained, measured = met(devices, Purpose.TRAIN), met(devices, Purpose.EVALUATE)
    assert len(trained) > 200 and len(measured) > 100 and not trained & measured
    things = range(12)
    assert not {each.arrange("list", things) for each in trained} & {each.arrange("list", things) for each in measured}
    plain = met(DevicesSpec(dark=False, large_text=False), Purpose.TRAIN)
    assert {(each.dark, each.scale) for each in plain} == {(False, 1.0)} and len(plain) == 6


@pytest.mark.slow
def test_a_world_of_chosen_apps() -> None:
    world = load_world([MARKET], ["notes", "maps"])
    assert set(world.apps) == {"notes", "maps", "market"} and not world.errands
    assert [app.app for app in load_world([MARKET], []).apps_on(Platform.PHONE)] == ["market"]
    with pytest.raises(ValidationError, match=r"there is no app 'note'; did you mean notes\?"):
        SimulatedSpec(builtin_apps=("note",))
