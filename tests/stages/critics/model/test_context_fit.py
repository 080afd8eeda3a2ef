"""A long trajectory is cut, but never its first and last steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from tests.stages.models.scripted import ScriptedModel
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.geometry import Size
from trajmill.stages.critics.model.transcript import fit, kept, picture_tokens


@given(some.integers(1, 300), some.integers(0, 300))
def test_the_wanted_number_is_kept_with_both_ends(count: int, wanted: int) -> None:
    found = kept(count, wanted)
    assert len(found) == min(count, wanted)
    assert list(found) == sorted(set(found)) and all(0 <= at < count for at in found)
    if wanted >= 1:
        assert found[-1] == count - 1
    if wanted >= 2:
        assert found[0] == 0


def test_half_of_the_room_goes_to_the_end_and_the_rest_is_spread() -> None:
    assert kept(100, 10) == (0, 12, 36, 59, 83, 95, 96, 97, 98, 99)
    assert kept(4, 3) == (0, 2, 3)


@given(
    some.lists(some.integers(1, 500), min_size=1, max_size=60),
    some.lists(some.integers(1, 50), min_size=1, max_size=60),
    some.integers(0, 30_000),
)
def test_what_is_kept_fits_or_an_error_says_that_nothing_does(screens: list[int], steps: list[int], room: int) -> None:
    try:
        found = fit(screens, steps, room, "t")
    except JudgeFailure:
        assert screens[0] + screens[-1] + steps[0] + steps[-1] > room
        return
    assert sum(screens[at] for at in found.screens) + sum(steps[at] for at in found.steps) <= room
    assert {0, len(screens) - 1} <= set(found.screens) and {0, len(steps) - 1} <= set(found.steps)
    if len(found.steps) < len(steps):
        assert len(found.screens) <= 2, "steps go only after screens"


def test_pictures_are_estimated_at_the_size_they_are_sent() -> None:
    model = ScriptedModel(lambda _: "")
    full = picture_tokens(model, Size(1080, 2400), 1.0)
    half = picture_tokens(model, Size(1080, 2400), 0.5)
    assert full == 39 * 86 + 10
    assert 3.5 < full / half < 4.5
