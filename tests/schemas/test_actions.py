import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schemas.dialects.actions import any_action
from trajmill.schemas import actions as act
from trajmill.schemas.coordinates import CoordinateFrame, CoordinateSpace
from trajmill.schemas.geometry import Box, Point, Size

WHOLE, TEXT, SECONDS = st.integers(-(2**40), 2**40), st.text(), st.floats(allow_nan=False, allow_infinity=False)
ACTIONS = any_action(WHOLE, WHOLE, TEXT, SECONDS, WHOLE, st.integers(1, 3))


@given(ACTIONS)
def test_actions_survive_json(action: act.Action) -> None:
    text = act.action_to_json(action)
    assert act.action_from_json(text) == action
    assert "\n" not in text
    assert set(json.loads(text)) == set(type(action).model_fields), "defaults are written out"


SIZES = st.builds(Size, st.integers(8, 4000), st.integers(8, 4000))


@st.composite
def frames_and_points(draw: st.DrawFn) -> tuple[CoordinateFrame, Point]:
    screen, resized = draw(SIZES), draw(SIZES)
    point = Point(draw(st.integers(0, screen.width - 1)), draw(st.integers(0, screen.height - 1)))
    return CoordinateFrame(draw(st.sampled_from(CoordinateSpace)), screen, resized), point


@given(frames_and_points())
def test_a_pixel_comes_back_to_half_a_pixel_beyond_what_the_space_can_say(case: tuple[CoordinateFrame, Point]) -> None:
    frame, point = case
    back = frame.to_pixels(*frame.from_pixels(point))
    extent = (10_000.0, 10_000.0) if frame.space is CoordinateSpace.UNIT else frame.extent
    for there, here, size, whole in zip(back, point, frame.screen, extent, strict=True):
        unit = size / whole
        assert abs(there - here) <= unit / 2 + 0.5 + 1e-6
        if unit <= 1:
            assert there == here


@given(frames_and_points(), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_any_position_lands_on_the_screen(case: tuple[CoordinateFrame, Point], x: float, y: float) -> None:
    frame, _ = case
    point = frame.to_pixels(x, y)
    assert Box(0, 0, *frame.screen).contains(*point)


PHONE, SMALL = Size(720, 1280), Size(364, 644)


@pytest.mark.parametrize(
    ("space", "written"),
    [
        (CoordinateSpace.RESIZED_PIXELS, (182.0, 322.0)),
        (CoordinateSpace.PER_MILLE, (500.0, 500.0)),
        (CoordinateSpace.PER_999, (500.0, 500.0)),
        (CoordinateSpace.UNIT, (0.5, 0.5)),
        (CoordinateSpace.PATCHES, (13.0, 23.0)),
    ],
)
def test_the_middle_of_a_phone_in_every_space(space: CoordinateSpace, written: tuple[float, float]) -> None:
    frame = CoordinateFrame(space, PHONE, SMALL)
    assert frame.from_pixels(Point(360, 640)) == written
    assert abs(frame.to_pixels(*written).x - 360) <= 1 and abs(frame.to_pixels(*written).y - 640) <= 1
