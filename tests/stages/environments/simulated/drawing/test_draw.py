from __future__ import annotations

import io

import pytest
from PIL import Image, ImageChops

from trajmill.schemas.geometry import Box, Size
from trajmill.stages.environments.simulated.drawing.canvas import BLACK, WHITE, Palette, Rgb, Scene, Shape
from trajmill.stages.environments.simulated.drawing.draw import PAINTERS, draw

SIZE = Size(360, 240)
BOX = Box(40, 60, 320, 140)
WITHOUT_TEXT = {"dim", "scroll_bar", "keyboard", "dialog", "wallpaper"}


def scene(*shapes: Shape, dark: bool = False) -> Scene:
    return Scene(SIZE, "#2266AA", dark, shapes)


def pixels(of: Scene) -> Image.Image:
    return Image.open(io.BytesIO(draw(of))).convert("RGB")


def changed(first: Scene, second: Scene) -> tuple[int, int, int, int] | None:
    return ImageChops.difference(pixels(first), pixels(second)).getbbox()


@pytest.mark.parametrize("kind", sorted(set(PAINTERS) - {"dim"}))
@pytest.mark.parametrize("state", ["", "on", "focused", "disabled"])
def test_nothing_is_drawn_outside_the_box(kind: str, state: str) -> None:
    shape = Shape(kind, BOX, "A text that is far too long for a box as small as this", "a note as long as that", state)
    box = changed(scene(), scene(shape))
    assert box is None or (box[0] >= BOX.left and box[1] >= BOX.top and box[2] <= BOX.right and box[3] <= BOX.bottom)


@pytest.mark.parametrize("kind", sorted(set(PAINTERS) - WITHOUT_TEXT - {"stepper_button"}))
@pytest.mark.parametrize("dark", [False, True])
def test_text_is_visible_in_its_box(kind: str, dark: bool) -> None:
    empty = scene(Shape(kind, BOX, " "), dark=dark)
    box = changed(empty, scene(Shape(kind, BOX, "Margherita"), dark=dark))
    assert box is not None
    assert box[3] - box[1] >= 7, "the letters are too small to be read"


def test_a_plus_is_not_a_minus() -> None:
    assert changed(scene(Shape("stepper_button", BOX, "+")), scene(Shape("stepper_button", BOX, "-"))) is not None


@pytest.mark.parametrize("kind", ["radio", "checkbox", "switch"])
def test_a_state_is_visible(kind: str) -> None:
    off, on = Shape(kind, BOX, "Gift wrap"), Shape(kind, BOX, "Gift wrap", "", "on")
    assert changed(scene(off), scene(on)) is not None


def test_lines_are_drawn_below_each_other() -> None:
    second = changed(scene(Shape("value", BOX, "one\n ")), scene(Shape("value", BOX, "one\ntwo")))
    assert second is not None
    assert second[1] >= BOX.center.y


def test_dim_darkens_what_lies_below_and_nothing_above() -> None:
    below, above = Shape("value", BOX, "below"), Shape("dialog", Box(100, 150, 200, 230))
    plain, dimmed = pixels(scene(below, above)), pixels(scene(below, Shape("dim", Box(0, 0, *SIZE)), above))
    assert plain.getpixel((150, 190)) == dimmed.getpixel((150, 190)) == (255, 255, 255)
    before, after = plain.getpixel((5, 5)), dimmed.getpixel((5, 5))
    assert isinstance(before, tuple)
    assert isinstance(after, tuple)
    assert max(after) < min(before)


def test_equal_scenes_give_equal_bytes() -> None:
    first, second = scene(Shape("button", BOX, "Order")), scene(Shape("button", BOX, "Cancel"))
    assert draw(first) == draw(scene(Shape("button", BOX, "Order"))) != draw(second)


def test_more_colours_than_a_palette_holds_are_drawn_with_the_nearest() -> None:
    palette = Palette()
    for shade in range(256):
        palette.index(Rgb(shade, shade, shade))
    assert palette.colors[palette.index(Rgb(10, 10, 11))] == Rgb(10, 10, 10)
    ramp = palette.ramp(BLACK, WHITE)
    assert (palette.colors[ramp[0]], palette.colors[ramp[-1]]) == (BLACK, WHITE)
