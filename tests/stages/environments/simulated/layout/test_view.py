import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajmill.schemas.geometry import Box
from trajmill.stages.environments.simulated.drawing.canvas import Shape
from trajmill.stages.environments.simulated.layout.view import place_rows
from trajmill.stages.environments.simulated.layout.widgets import DrawnPart, WidgetRow


def _row(number: int, height: int) -> WidgetRow:
    def place(left: int, top: int, bottom: int) -> tuple[DrawnPart, ...]:
        return (DrawnPart(Shape("text", Box(left, top, left + 50, min(top + height, bottom)), str(number))),)

    return WidgetRow(height, place, str(number))


def _rows(heights: list[int]) -> list[WidgetRow]:
    return [_row(number, height) for number, height in enumerate(heights)]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(20, 900), min_size=1, max_size=25), st.integers(0, 30), st.integers(100, 700))
def test_scrolling_shows_every_row_and_comes_back(heights: list[int], gap: int, room: int) -> None:
    viewport = Box(10, 100, 300, 100 + room)
    rows, offset, seen = _rows(heights), 0, set[str]()
    for _ in range(len(rows) + 1):
        shown = place_rows(rows, viewport, gap, offset, "")
        seen.update(part.shape.text for part in shown.parts)
        assert all(part.shape.box.bottom <= viewport.bottom for part in shown.parts)
        assert all(part.shape.box.top >= viewport.top for part in shown.parts)
        if shown.scroll.down is None:
            break
        assert shown.scroll.down > shown.scroll.offset
        offset = shown.scroll.down
    assert seen == {str(number) for number in range(len(rows))}
    for _ in range(len(rows) + 1):
        shown = place_rows(rows, viewport, gap, offset, "")
        if shown.scroll.up is None:
            break
        assert shown.scroll.up < shown.scroll.offset
        offset = shown.scroll.up
    assert offset == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(20, 90), min_size=1, max_size=25), st.integers(0, 2000), st.data())
def test_the_focused_row_is_shown(heights: list[int], offset: int, data: st.DataObject) -> None:
    focus = str(data.draw(st.integers(0, len(heights) - 1)))
    shown = place_rows(_rows(heights), Box(0, 0, 100, 120), 10, offset, focus)
    assert focus in [part.shape.text for part in shown.parts]
