"""Screens are decoded once while they are in use, and memory stays bounded."""

from __future__ import annotations

import pytest

from tests.stages.models.pictures import plain
from trajmill.schemas.coordinates import ANY_SIZE, QWEN2_5_VL
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.stages.models.local.chat import RecentPictures, rgb_pictures

SIZE = Size(56, 84)


class Screens:
    """Makes screens of one colour and counts how often each is encoded."""

    def __init__(self) -> None:
        self.encoded: list[int] = []

    def screen(self, grey: int) -> ScreenHandle:
        return ScreenHandle(f"grey {grey}", SIZE, lambda: self._encode(grey))

    def _encode(self, grey: int) -> bytes:
        self.encoded.append(grey)
        return plain((grey, grey, grey), SIZE).encode()


def test_a_screen_is_decoded_once_for_each_scale() -> None:
    made, recent = Screens(), RecentPictures(QWEN2_5_VL)
    first = recent.read([made.screen(1), made.screen(2)], 1.0)
    assert recent.read([made.screen(2), made.screen(1)], 1.0) == first[::-1] and made.encoded == [1, 2]
    assert [each.tobytes() for each in first] == [
        each.tobytes() for each in rgb_pictures([made.screen(1), made.screen(2)], QWEN2_5_VL, 1.0)
    ]
    recent.read([made.screen(1)], 2.0)
    assert made.encoded == [1, 2, 1, 2, 1]


def test_what_was_read_longest_ago_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trajmill.stages.models.local.chat.MOST_PIXELS", 2 * SIZE.width * SIZE.height)
    made, recent = Screens(), RecentPictures(ANY_SIZE)
    for grey in (1, 2, 1, 3, 1, 2):
        recent.read([made.screen(grey)], 1.0)
    assert made.encoded == [1, 2, 3, 2]
