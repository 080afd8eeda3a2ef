"""Marks are on the right place and show on any background."""

from __future__ import annotations

import io

import pytest
from PIL import Image, ImageChops

from schemas.actions import Action, Click, Drag, LongPress, Swipe, Terminate, TypeText, Wait
from schemas.observation import UIElement
from stages.critics.marking import draw_mark, marked_screen
from tests.stages.critics.little_app import SIZE, Trees, Walk, checkout, right_walk


class Blank(Trees):
    """Trees with a plain picture behind them."""

    def image(self, screen_id: str) -> bytes:
        out = io.BytesIO()
        Image.new("RGB", SIZE, "white").save(out, format="PNG")
        return out.getvalue()


def changed(color: str, action: Action, elements: tuple[UIElement, ...] = ()) -> tuple[int, int, int, int]:
    """The box of all pixels that a mark changes on a plain background."""
    image = Image.new("RGB", SIZE, color)
    assert draw_mark(image, action, elements)
    box = ImageChops.difference(image, Image.new("RGB", SIZE, color)).getbbox()
    assert box is not None
    return box


@pytest.mark.parametrize("color", ["white", "black", "#FF4040", "#141414", "#808080"])
@pytest.mark.parametrize("action", [Click(x=300, y=400), LongPress(x=300, y=400)])
def test_a_press_is_a_circle_round_its_place(color: str, action: Action) -> None:
    left, top, right, bottom = changed(color, action)
    assert abs((left + right) / 2 - 300) < 3 and abs((top + bottom) / 2 - 400) < 3
    assert 30 < right - left < 150


@pytest.mark.parametrize("action", [Swipe(x=100, y=1000, x2=100, y2=300), Drag(x=50, y=60, x2=600, y2=900)])
def test_a_swipe_or_drag_is_an_arrow_from_end_to_end(action: Swipe | Drag) -> None:
    left, top, right, bottom = changed("white", action)
    assert left <= min(action.x, action.x2) and right >= max(action.x, action.x2)
    assert top <= min(action.y, action.y2) and bottom >= max(action.y, action.y2)


def test_typing_is_a_box_round_the_input() -> None:
    elements = checkout(focused=True)
    field = next(element for element in elements if element.role == "text_field")
    left, top, right, bottom = changed("white", TypeText(text="x"), elements)
    assert left <= field.bounds.left and right >= field.bounds.right
    assert top <= field.bounds.top and bottom >= field.bounds.bottom
    assert bottom - top < 2 * (field.bounds.bottom - field.bounds.top)


@pytest.mark.parametrize("action", [Wait(), Terminate(status="success"), TypeText(text="x")])
def test_what_has_no_place_has_no_mark(action: Action) -> None:
    image = Image.new("RGB", SIZE, "white")
    assert not draw_mark(image, action, ())
    assert image.getextrema() == ((255, 255), (255, 255), (255, 255))


def test_a_mark_at_the_edge_and_off_the_screen_does_not_fail() -> None:
    changed("white", Click(x=0, y=SIZE.height - 1))
    assert draw_mark(Image.new("RGB", SIZE, "white"), Click(x=-50, y=5000), ())


def test_the_marked_screen_is_a_picture_of_the_same_size() -> None:
    trees = Blank()
    episode = right_walk(trees).end()
    for step in episode.steps:
        assert Image.open(io.BytesIO(marked_screen(step, trees))).size == SIZE
    assert marked_screen(episode.steps[0], trees) != trees.image("")
    assert marked_screen(episode.steps[-1], trees) == trees.image("")
    unparsed = Walk(checkout(), trees).stay(None).end(status=None)
    assert marked_screen(unparsed.steps[0], trees) == trees.image("")
